#include "sidecar/policy/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "tests/unit/sidecar/policy/pick_model.h"

static void a_naive_model_agrees(void **state)
{
    (void)state;
    static struct pick_machine m;
    struct fl_rng rng;
    fl_rng_seed(&rng, 53);
    for (unsigned round = 0; round < 1000; round++) {
        pick_machine_init(&m, fl_rng_next(&rng));
        for (unsigned i = 0; i < 1000; i++) {
            pick_step(&m, (uint32_t)(fl_rng_next(&rng) >> 32));
        }
        pick_finish(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_naive_model_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
