#include "sidecar/process.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include "common/base/check.h"
#include "common/base/span.h"
#include "common/base/units.h"
#include "common/io/read_file.h"
#include "common/model/config.h"

#define DESCRIPTORS_MAX 65536
#define TRIM_BYTES      (64 * 1024)
#define UNLIMITED       (UINT64_C(1) << 60) /* v1 says so with a number near 2^63 */

void fl_process_tune_memory(void)
{
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

uint64_t fl_process_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 0;
    }
    rlim_t want = limit.rlim_max < DESCRIPTORS_MAX ? limit.rlim_max : DESCRIPTORS_MAX;
    if (limit.rlim_cur < want) {
        struct rlimit more = {want, limit.rlim_max};
        limit.rlim_cur = setrlimit(RLIMIT_NOFILE, &more) == 0 ? want : limit.rlim_cur;
    }
    return limit.rlim_cur;
}

static unsigned clamp(uint64_t cpus)
{
    return cpus < 1 ? 1 : cpus > FL_THREADS_MAX ? FL_THREADS_MAX : (unsigned)cpus;
}

unsigned fl_process_threads_of(const char *cpu_max)
{
    struct fl_span text = fl_span_of(cpu_max);
    while (text.len > 0 && text.ptr[text.len - 1] == '\n') {
        text.len--;
    }
    ptrdiff_t space = fl_span_find(text, ' ');
    struct fl_span quota = space < 0 ? text : fl_span_first(text, (size_t)space);
    uint64_t quota_us = 0, period_us = 0;
    if (space < 0 || !fl_units_uint(fl_span_from(text, (size_t)space + 1), &period_us) ||
        period_us == 0) {
        return 0;
    }
    if (fl_span_is(quota, "max")) {
        return 1;
    }
    return fl_units_uint(quota, &quota_us) ? clamp(quota_us / period_us) : 0;
}

static char *read_small(const char *path)
{
    char *text = NULL;
    size_t len = 0;
    return fl_read_file(path, 4096, &text, &len) == 0 ? text : NULL;
}

unsigned fl_process_auto_threads(void)
{
    char *v2 = read_small("/sys/fs/cgroup/cpu.max");
    unsigned threads = v2 != NULL ? fl_process_threads_of(v2) : 0;
    free(v2);
    if (threads == 0) { /* cgroup v1; a quota of -1 is none */
        char *quota = read_small("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
        char *period = read_small("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
        char both[128] = "";
        if (quota != NULL && period != NULL) {
            quota[strcspn(quota, "\n")] = '\0';
            (void)snprintf(both, sizeof(both), "%s %s", quota, period);
        }
        threads = fl_process_threads_of(both);
        free(quota);
        free(period);
    }
    return threads != 0 ? threads : 1;
}

uint64_t fl_process_memory_of(const char *text)
{
    struct fl_span s = fl_span_of(text);
    while (s.len > 0 && s.ptr[s.len - 1] == '\n') {
        s.len--;
    }
    uint64_t bytes = 0;
    return fl_units_uint(s, &bytes) && bytes < UNLIMITED ? bytes : 0;
}

uint64_t fl_process_memory_limit(void)
{
    static const char *const places[] = {"/sys/fs/cgroup/memory.max", /* v2, then v1 */
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < FL_COUNTOF(places) && bytes == 0; i++) {
        char *text = read_small(places[i]);
        bytes = text != NULL ? fl_process_memory_of(text) : 0;
        free(text);
    }
    return bytes;
}

uint64_t fl_process_random(void)
{
    uint64_t n = 0;
    if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != (ssize_t)sizeof(n)) {
        struct timespec now; /* an early boot without entropy: only spread is needed, not secrecy */
        (void)clock_gettime(CLOCK_REALTIME, &now);
        n = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)now.tv_sec;
    }
    return n;
}
