/* pages - blocks of memory that come from the kernel and go back to it whole, in pages of 4 KiB.
 * For what is large, comes and goes with the load, and lies between things that stay: malloc could
 * only give back what is free at the end of its heap, or whole pages of a hole. Any thread. */
#ifndef FL_COMMON_IO_PAGES_H
#define FL_COMMON_IO_PAGES_H

#include <stddef.h>

#include "common/base/check.h"

FL_MUST_USE void *fl_pages_new(size_t bytes);  /* NULL = no memory */
void fl_pages_free(void *block, size_t bytes); /* as many as were asked for */

#endif
