#include "common/io/pages.h"

/* Sanitizers watch what malloc gives out. */
#ifdef FL_SANITIZED
#include <stdlib.h>

void *fl_pages_new(size_t bytes)
{
    return aligned_alloc(4096, bytes);
}

void fl_pages_free(void *block, size_t bytes)
{
    (void)bytes;
    free(block);
}
#else
#include <sys/mman.h>

void *fl_pages_new(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block != MAP_FAILED ? block : NULL;
}

void fl_pages_free(void *block, size_t bytes)
{
    if (munmap(block, bytes) < 0) { /* the hole would be one mapping more than vm.max_map_count */
        (void)madvise(block, bytes, MADV_DONTNEED);
    }
}
#endif
