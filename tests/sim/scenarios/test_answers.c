/* Whole answers, in every framing, over every way to cut a stream into pieces. */
#include "tests/sim/scenarios/kit.h"

static void test_plain(void **state)
{
    (void)state;
    struct bed *b = bed_new(1, 1, KIT_S3("", KIT_ONE, ""));
    origin_new(b, 0);
    struct deal *d = kit_get(b);
    kit_plan(d, (struct plan){.body_bytes = 1000});
    kit_do(b, d);
    kit_answered(d, 200, "");
    assert_int_equal(d->got_bytes, 1000);
    bed_end(b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_plain),
};
KIT_MAIN(tests)
