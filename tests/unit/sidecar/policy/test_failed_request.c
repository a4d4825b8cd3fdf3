#include "sidecar/policy/failed_request.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct fl_failed_box box;

static struct fl_failed_request named(int n)
{
    struct fl_failed_request rq = {.operation = "GetObject", .total_ms = n};
    (void)snprintf(rq.request_id, sizeof(rq.request_id), "r%d", n);
    (void)snprintf(rq.key, sizeof(rq.key), "k%d", n);
    return rq;
}

static void one_at_a_time(void **state)
{
    (void)state;
    struct fl_failed_request got, first = named(1), second = named(2);
    assert_false(fl_failed_box_take(&box, &got));
    assert_true(fl_failed_box_put(&box, &first));
    assert_false(fl_failed_box_put(&box, &second)); /* dropped */
    assert_true(fl_failed_box_take(&box, &got));
    assert_string_equal(got.request_id, "r1");
    assert_false(fl_failed_box_take(&box, &got));
    assert_true(fl_failed_box_put(&box, &second));
    assert_true(fl_failed_box_take(&box, &got));
    assert_string_equal(got.request_id, "r2");
}

static void *put_many(void *arg)
{
    int from = *(int *)arg;
    for (int i = 0; i < 20000; i++) {
        const struct fl_failed_request rq = named(from + i);
        (void)fl_failed_box_put(&box, &rq);
    }
    return NULL;
}

/* Several data threads, one that takes: each that comes out is whole. */
static void never_torn(void **state)
{
    (void)state;
    pthread_t threads[2];
    int from[2] = {0, 1000000};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, &from[i]), 0);
    }
    int taken = 0;
    for (int i = 0; i < 2000000 && taken < 200; i++) {
        struct fl_failed_request got;
        if (fl_failed_box_take(&box, &got)) {
            const struct fl_failed_request want = named((int)got.total_ms);
            assert_string_equal(got.request_id, want.request_id);
            assert_string_equal(got.key, want.key);
            taken++;
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_true(taken > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(never_torn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
