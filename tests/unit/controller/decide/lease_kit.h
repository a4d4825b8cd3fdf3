/* lease_kit - a Lease machine between calls, for its tests: what it takes, and the answers. */
#ifndef FL_TESTS_LEASE_KIT_H
#define FL_TESTS_LEASE_KIT_H

#include "controller/decide/lease.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#define T0   1000
#define WALL INT64_C(1800000000000000)

static struct fl_lease l;
static struct fl_lease_call call;
static int64_t version; /* of what the server has */

static inline int set_up(void **state)
{
    (void)state;
    version = 0;
    fl_lease_init(&l, "me_1", 42, T0);
    return 0;
}

static inline struct fl_lease_record record(const char *holder, int32_t transitions,
                                            int64_t renew_us)
{
    struct fl_lease_record r = {.uid = "u1",
                                .duration_s = 15,
                                .transitions = transitions,
                                .renew_us = renew_us,
                                .version = version};
    (void)snprintf(r.holder, sizeof(r.holder), "%s", holder);
    return r;
}

static inline bool take(int64_t now_ms)
{
    return fl_lease_take(&l, now_ms, WALL + now_ms * 1000, &call);
}

/* The next call must be `step`. */
static inline void takes(enum fl_lease_step step, int64_t now_ms)
{
    assert_true(take(now_ms));
    assert_int_equal(call.step, step);
}

static inline void answer(enum fl_lease_answer a, int64_t now_ms)
{
    fl_lease_answered(&l, a, NULL, 0, now_ms);
}

static inline void answer_with(struct fl_lease_record r, int64_t now_ms)
{
    fl_lease_answered(&l, FL_LEASE_OK, &r, 0, now_ms);
}

static inline void written(int64_t now_ms) /* the server took what the call wanted to write */
{
    struct fl_lease_record r = call.record;
    (void)snprintf(r.uid, sizeof(r.uid), "u1");
    r.version = version;
    answer_with(r, now_ms);
}

static inline int64_t epoch(int64_t now_ms)
{
    return fl_lease_epoch(&l, now_ms);
}

/* Nothing before next, which is within low..high after now; returns it. */
static inline int64_t waits(int64_t now_ms, int64_t low, int64_t high)
{
    int64_t at = fl_lease_next_ms(&l);
    assert_false(take(now_ms));
    assert_in_range(at, now_ms + low, now_ms + high);
    assert_false(take(at - 1));
    return at;
}

/* Leads from T0 with the epoch 8. */
static inline void lead(void)
{
    takes(FL_LEASE_GET, T0);
    answer_with(record("", 7, 0), T0);
    takes(FL_LEASE_PUT, T0);
    written(T0);
    assert_int_equal(epoch(T0), 8);
}

#define T(name) cmocka_unit_test_setup(name, set_up)

#endif
