#include "common/base/smap.h"

#include <errno.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/rng.h"

static void put_get_remove(void **state)
{
    (void)state;
    struct fl_smap m;
    int one = 1, two = 2;
    fl_smap_init(&m, 99);
    assert_null(fl_smap_get(&m, FL_SPAN("a")));
    assert_null(fl_smap_remove(&m, FL_SPAN("a")));
    assert_int_equal(fl_smap_put(&m, FL_SPAN("a"), &one), 0);
    assert_int_equal(fl_smap_put(&m, FL_SPAN("a"), &two), -EEXIST);
    assert_int_equal(fl_smap_put(&m, FL_SPAN(""), &two), 0);
    assert_ptr_equal(fl_smap_get(&m, FL_SPAN("a")), &one);
    assert_ptr_equal(fl_smap_get(&m, (struct fl_span){0}), &two);
    assert_null(fl_smap_get(&m, FL_SPAN("a\0")));
    assert_ptr_equal(fl_smap_remove(&m, FL_SPAN("a")), &one);
    assert_null(fl_smap_get(&m, FL_SPAN("a")));
    assert_int_equal(m.count, 1);
    fl_smap_done(&m);
    assert_null(fl_smap_get(&m, FL_SPAN("")));
    assert_int_equal(fl_smap_put(&m, FL_SPAN("a"), &one), 0); /* done leaves it ready for use */
    fl_smap_done(&m);
}

#define KEYS 700

/* Random work against an array that cannot be wrong; small maps too, where runs wrap around the
 * end. */
static void agrees_with_a_plain_array(void **state)
{
    (void)state;
    static char names[KEYS][16];
    static int values[KEYS];
    struct fl_rng r;
    fl_rng_seed(&r, 5);
    for (int i = 0; i < KEYS; i++) {
        snprintf(names[i], sizeof names[i], "%.*s%d", i % 9, "bucket-bucket", i);
    }
    for (uint32_t range = 3; range <= KEYS; range = range * 3 + 1) {
        struct fl_smap m;
        bool present[KEYS] = {false};
        size_t count = 0;
        fl_smap_init(&m, fl_rng_next(&r));
        for (int step = 0; step < 20000; step++) {
            uint32_t k = fl_rng_below(&r, range);
            struct fl_span key = fl_span_of(names[k]);
            assert_ptr_equal(fl_smap_get(&m, key), present[k] ? &values[k] : NULL);
            if (fl_rng_below(&r, 2)) {
                assert_int_equal(fl_smap_put(&m, key, &values[k]), present[k] ? -EEXIST : 0);
                count += !present[k];
                present[k] = true;
            } else {
                assert_ptr_equal(fl_smap_remove(&m, key), present[k] ? &values[k] : NULL);
                count -= present[k];
                present[k] = false;
            }
            assert_int_equal(m.count, count);
        }
        size_t at = 0, walked = 0;
        struct fl_span key;
        for (int *v; (v = fl_smap_next(&m, &at, &key)) != NULL; walked++) {
            assert_true(present[v - values]);
            assert_true(fl_span_is(key, names[v - values]));
        }
        assert_int_equal(walked, count);
        fl_smap_done(&m);
    }
}

static void many_keys_are_found_again(void **state)
{
    (void)state;
    static char names[20000][12];
    struct fl_smap m;
    fl_smap_init(&m, 0);
    for (int i = 0; i < 20000; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        assert_int_equal(fl_smap_put(&m, fl_span_of(names[i]), names[i]), 0);
    }
    for (int i = 0; i < 20000; i++) {
        assert_ptr_equal(fl_smap_get(&m, fl_span_of(names[i])), names[i]);
    }
    assert_null(fl_smap_get(&m, FL_SPAN("20000")));
    assert_true(m.count <= m.cap / 4 * 3);
    fl_smap_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_get_remove),
        cmocka_unit_test(agrees_with_a_plain_array),
        cmocka_unit_test(many_keys_are_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
