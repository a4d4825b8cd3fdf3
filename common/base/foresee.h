/* foresee - asking for cache lines ahead, so that they come while a system call runs. Pure. */
#ifndef FL_COMMON_BASE_FORESEE_H
#define FL_COMMON_BASE_FORESEE_H

#include <stddef.h>

/* Lines that will be written; any address will do, nothing is read. */
static inline void fl_foresee(const void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch((const char *)at + i, 1);
    }
}

#endif
