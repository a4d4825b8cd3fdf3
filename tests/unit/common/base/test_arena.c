#include "common/base/arena.h"

#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct fl_arena a;
    unsigned char *kept[200];
    fl_arena_init(&a, 10 * 1024 * 1024);
    for (size_t i = 0; i < 200; i++) {
        size_t n = i * 37;
        kept[i] = fl_arena_alloc(&a, n);
        assert_non_null(kept[i]);
        assert_int_equal((uintptr_t)kept[i] % 16, 0);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(kept[i][k], 0);
        }
        memset(kept[i], (int)(i & 0xff), n);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t k = 0; k < i * 37; k++) {
            assert_int_equal(kept[i][k], i & 0xff);
        }
    }
    fl_arena_done(&a);
}

static void a_chunk_is_used_to_its_last_byte_and_no_further(void **state)
{
    (void)state;
    struct fl_arena a;
    fl_arena_init(&a, SIZE_MAX);
    for (size_t i = 0; i < 20000; i++) {
        unsigned char *p = fl_arena_alloc(&a, 16);
        assert_non_null(p);
        memset(p, 0xff, 16);
    }
    fl_arena_done(&a);
}

static void nothing_is_something(void **state)
{
    (void)state;
    struct fl_arena a;
    fl_arena_init(&a, 64);
    void *one = fl_arena_alloc(&a, 0), *two = fl_arena_alloc(&a, 0);
    assert_non_null(one);
    assert_non_null(two);
    assert_ptr_not_equal(one, two);
    fl_arena_done(&a);
}

static void the_limit_holds_and_overflow_is_refused(void **state)
{
    (void)state;
    struct fl_arena a;
    fl_arena_init(&a, 128);
    assert_null(fl_arena_alloc(&a, 129));
    assert_null(fl_arena_alloc(&a, SIZE_MAX));
    assert_null(fl_arena_alloc(&a, SIZE_MAX - 15));
    assert_null(fl_arena_array(&a, SIZE_MAX / 2, 3));
    assert_null(fl_arena_array(&a, (size_t)1 << 32, (size_t)1 << 32));
    assert_null(fl_arena_text(&a, (struct fl_span){"x", SIZE_MAX}));
    assert_int_equal(a.used_bytes, 0);

    assert_non_null(fl_arena_alloc(&a, 64));
    assert_null(fl_arena_alloc(&a, 65));
    assert_non_null(fl_arena_array(&a, 8, 8));
    assert_null(fl_arena_alloc(&a, 0));
    assert_int_equal(a.used_bytes, 128);
    fl_arena_done(&a);
}

static void a_large_request_leaves_the_room_of_the_small_ones(void **state)
{
    (void)state;
    struct fl_arena a;
    fl_arena_init(&a, SIZE_MAX);
    char *one = fl_arena_alloc(&a, 16), *large = fl_arena_alloc(&a, 1 << 20),
         *two = fl_arena_alloc(&a, 16);
    assert_non_null(large);
    assert_ptr_equal(two, one + 16);
    large[0] = large[(1 << 20) - 1] = 'x';
    fl_arena_done(&a);
    assert_null(fl_arena_alloc(&a, 1)); /* done means empty until the next init */
}

static void texts_are_copies_with_an_end(void **state)
{
    (void)state;
    struct fl_arena a;
    fl_arena_init(&a, 4096);
    char source[] = "abcdef";
    char *copy = fl_arena_text(&a, (struct fl_span){source, 3});
    char *none = fl_arena_text(&a, (struct fl_span){0});
    char *printed = fl_arena_printf(&a, "%s:%d", "peer", 9000);
    source[0] = 'X';
    assert_string_equal(copy, "abc");
    assert_string_equal(none, "");
    assert_string_equal(printed, "peer:9000");
    assert_null(fl_arena_printf(&a, "%5000d", 1)); /* over the limit */
    fl_arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(a_chunk_is_used_to_its_last_byte_and_no_further),
        cmocka_unit_test(nothing_is_something),
        cmocka_unit_test(the_limit_holds_and_overflow_is_refused),
        cmocka_unit_test(a_large_request_leaves_the_room_of_the_small_ones),
        cmocka_unit_test(texts_are_copies_with_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
