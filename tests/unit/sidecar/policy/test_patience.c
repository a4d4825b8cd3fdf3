#include "sidecar/policy/patience.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { PIECE = 16384, LARGE = 1 << 24 };

/* n pieces, one each step_ms. */
static struct fl_patience after(unsigned n, int64_t step_ms)
{
    struct fl_patience p = {0};
    for (unsigned i = 0; i < n; i++) {
        fl_patience_came(&p, 1000 + i * step_ms, PIECE);
    }
    return p;
}

static void only_a_fast_source_is_waited_for(void **state)
{
    (void)state;
    struct fl_patience p = after(7, 0);
    assert_int_equal(fl_patience_for(&p, LARGE, 0, FL_PATIENCE_BYTES), 0);
    p = after(8, 0);
    assert_int_equal(fl_patience_for(&p, LARGE, 0, FL_PATIENCE_BYTES), FL_PATIENCE_BYTES);
    p = after(1000, 1); /* 16 MB/s */
    assert_int_equal(fl_patience_for(&p, LARGE, 0, FL_PATIENCE_BYTES), 0);
    p = (struct fl_patience){0};
    fl_patience_came(&p, 1, SIZE_MAX);
    assert_int_equal(fl_patience_for(&p, LARGE, 0, FL_PATIENCE_BYTES), FL_PATIENCE_BYTES);
}

/* What is here already does not come again, and the rest may be all that comes. */
static void no_wait_is_for_more_than_comes(void **state)
{
    (void)state;
    struct fl_patience p = after(8, 0);
    static const uint32_t held[] = {0, 1, 16384, 32768, 400000};
    for (unsigned i = 0; i < sizeof held / sizeof held[0]; i++) {
        for (uint64_t rest = 0; rest < 3 * FL_PATIENCE_BYTES; rest += 1021) {
            int bytes = fl_patience_for(&p, rest, held[i], FL_PATIENCE_BYTES);
            assert_true(bytes == 0 || (bytes >= 65536 && bytes <= FL_PATIENCE_BYTES));
            assert_true((uint64_t)bytes + (bytes > 0 ? held[i] : 0) <= rest);
        }
    }
    assert_int_equal(fl_patience_for(&p, UINT64_MAX, 32768, FL_PATIENCE_BYTES), FL_PATIENCE_BYTES);
    assert_int_equal(fl_patience_for(&p, 100000, 0, FL_PATIENCE_BYTES), 100000);
    assert_int_equal(fl_patience_for(&p, LARGE, 0, FL_PATIENCE_FEW_BYTES), FL_PATIENCE_FEW_BYTES);
}

static void a_wait_in_vain_ends_it_until_there_is_new_proof(void **state)
{
    (void)state;
    struct fl_patience p = after(8, 0);
    fl_patience_lost(&p);
    assert_int_equal(fl_patience_for(&p, LARGE, 0, FL_PATIENCE_BYTES), 0);
    for (unsigned i = 0; i < 15; i++) {
        fl_patience_came(&p, 2000, PIECE);
    }
    assert_int_equal(fl_patience_for(&p, LARGE, 0, FL_PATIENCE_BYTES), 0);
    fl_patience_came(&p, 2008, PIECE);
    assert_int_equal(fl_patience_for(&p, LARGE, 0, FL_PATIENCE_BYTES), FL_PATIENCE_BYTES);
}

/* How many bytes it takes to prove itself. */
static uint64_t proof(struct fl_patience *p, int64_t now_ms)
{
    uint64_t bytes = 0;
    while (fl_patience_for(p, LARGE, 0, FL_PATIENCE_BYTES) == 0) {
        fl_patience_came(p, now_ms, PIECE);
        bytes += PIECE;
        assert_true(bytes <= LARGE);
    }
    return bytes;
}

/* Each burst would be proof, and the end of each a wait in vain. */
static void bursts_prove_less_each_time(void **state)
{
    (void)state;
    struct fl_patience p = {0};
    int64_t now_ms = 1000;
    for (unsigned losses = 0; losses < 10; losses++) {
        assert_int_equal(proof(&p, now_ms), 131072u << (losses < 5 ? losses : 5));
        fl_patience_came(&p, now_ms, (4 << 20) - 1);
        fl_patience_lost(&p);
        now_ms += 1000;
    }
    proof(&p, now_ms);
    for (unsigned i = 0; i < (4 << 20) / PIECE; i++) {
        fl_patience_came(&p, now_ms += 10, PIECE);
    }
    fl_patience_lost(&p);
    assert_int_equal(proof(&p, now_ms + 1000), 262144); /* the older ones are forgiven */
}

/* After five, a burst of less than 4 MiB in 128 ms is not waited for. */
static void bursts_of_a_slow_source_are_let_through(void **state)
{
    (void)state;
    struct fl_patience p = {0};
    unsigned losses = 0;
    for (unsigned burst = 0; burst < 100; burst++) {
        for (unsigned i = 0; i < 64; i++) {
            fl_patience_came(&p, 1000 + 50 * burst, PIECE); /* 20 MiB/s */
        }
        if (fl_patience_for(&p, LARGE, 0, FL_PATIENCE_BYTES) > 0) {
            losses++;
            fl_patience_lost(&p);
        }
    }
    assert_in_range(losses, 1, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_fast_source_is_waited_for),
        cmocka_unit_test(no_wait_is_for_more_than_comes),
        cmocka_unit_test(a_wait_in_vain_ends_it_until_there_is_new_proof),
        cmocka_unit_test(bursts_prove_less_each_time),
        cmocka_unit_test(bursts_of_a_slow_source_are_let_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
