/* Random scenarios. Without arguments: the seeds of the ctest run. With one: this seed, aloud; with
 * two: so many seeds from it on; with three: so many clients in each. A broken rule prints its
 * seed. */
#include <time.h>

#include "tests/sim/scenarios/weather.h"

enum { SEEDS = 300, USERS = 60 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : SEEDS;
    unsigned users = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : USERS;
    unsigned long deals = 0;
    double began_s = now_s();
    bed_verbose = argc == 2;
    for (uint64_t seed = first; seed < first + count; seed++) {
        deals += weather_run(seed, users);
    }
    printf("%llu seeds, %lu requests, %.1f s\n", (unsigned long long)count, deals,
           now_s() - began_s);
    return 0;
}
