/* Picking and settling against the model of sets: eight bytes make the pool, then four bytes per
 * operation. */
#include <stddef.h>
#include <string.h>

#include "tests/unit/sidecar/policy/pick_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pick_machine m;
    uint64_t seed;
    if (size < sizeof(seed)) {
        return 0;
    }
    memcpy(&seed, data, sizeof(seed));
    pick_machine_init(&m, seed);
    for (size_t i = sizeof(seed); i + 4 <= size; i += 4) {
        uint32_t bits;
        memcpy(&bits, data + i, sizeof(bits));
        pick_step(&m, bits);
    }
    pick_finish(&m);
    return 0;
}
