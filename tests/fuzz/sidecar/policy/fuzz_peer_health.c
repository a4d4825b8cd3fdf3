/* Passive health against its naive model: four bytes of policy, then four bytes per operation. */
#include <stddef.h>
#include <string.h>

#include "tests/unit/sidecar/policy/health_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model m;
    if (size < 4) {
        return 0;
    }
    model_init(&m,
               (struct fl_health_policy){.max_fails = data[0] % 33,
                                         .fail_timeout_ms = 1 + data[1] * 16,
                                         .quarantine_max = 1 + data[2] % 8},
               data[3]);
    for (size_t i = 4; i + 4 <= size; i += 4) {
        uint32_t bits;
        memcpy(&bits, data + i, sizeof(bits));
        model_step(&m, bits);
    }
    model_done(&m);
    return 0;
}
