#include "common/http1/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/rng.h"

static bool is_text(char c)
{
    return c >= 0x20 && c < 0x7f;
}

/* Both ways find every byte value at every place of a block. */
static void every_byte_at_every_place(void **state)
{
    (void)state;
    for (unsigned value = 0; value < 256; value++) {
        for (unsigned at = 0; at < 64; at++) {
            char block[64];
            memset(block, 'a', sizeof block);
            block[at] = (char)value;
            uint64_t want = is_text(block[at]) ? 0 : UINT64_C(1) << at;
            assert_true(fl_scan_not_text(block) == want);
            assert_true(fl_scan_not_text_plain(block) == want);
        }
    }
}

/* Mostly text, with what stands at the borders of the classes between. */
static void fill(struct fl_rng *rng, char *to, size_t n)
{
    static const char odd[] = {'\r', '\n', '\t', 0, 0x1f, 0x7f, (char)0x80, (char)0xff, (char)0xfb};
    for (size_t i = 0; i < n; i++) {
        uint64_t r = fl_rng_next(rng);
        to[i] = r % 8 == 0 ? odd[(r >> 8) % sizeof odd] : (char)(0x20 + (r >> 8) % 0x5f);
    }
}

static void both_ways_agree(void **state)
{
    (void)state;
    struct fl_rng rng;
    fl_rng_seed(&rng, 1);
    for (unsigned round = 0; round < 20000; round++) {
        char block[64];
        fill(&rng, block, sizeof block);
        assert_true(fl_scan_not_text(block) == fl_scan_not_text_plain(block));
    }
}

/* A walk from any place to any end returns where runs begin, and nothing else. */
static void walk_finds_the_runs(void **state)
{
    (void)state;
    struct fl_rng rng;
    fl_rng_seed(&rng, 2);
    for (unsigned round = 0; round < 20000; round++) {
        char bytes[300];
        size_t len = fl_rng_next(&rng) % sizeof bytes, from = fl_rng_next(&rng) % (len + 1);
        fill(&rng, bytes, len);
        struct fl_scan_walk walk = {.base = bytes, .next = from, .len = len};
        for (size_t i = from; i < len; i++) {
            if (!is_text(bytes[i]) && (i == from || is_text(bytes[i - 1]))) {
                assert_ptr_equal(fl_scan_walk_next(&walk), bytes + i);
            }
        }
        assert_ptr_equal(fl_scan_walk_next(&walk), bytes + len);
        assert_ptr_equal(fl_scan_walk_next(&walk), bytes + len);
    }
}

/* Every byte at every place of a name, short and long. */
static void token_ends_at_the_first_other_byte(void **state)
{
    (void)state;
    for (unsigned value = 0; value < 256; value++) {
        for (unsigned at = 0; at < 40; at++) {
            char name[48];
            memset(name, 'a', sizeof name);
            name[at] = (char)value;
            const char *want =
                name + (fl_scan_is((char)value, FL_SCAN_TOKEN) ? sizeof name : (size_t)at);
            assert_ptr_equal(fl_scan_token(name, name + sizeof name), want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_at_every_place),
        cmocka_unit_test(both_ways_agree),
        cmocka_unit_test(walk_finds_the_runs),
        cmocka_unit_test(token_ends_at_the_first_other_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
