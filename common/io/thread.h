/* thread - starting a thread of our own: with a small stack, and deaf to signals, which are for the
 * threads that expect them. A closed pipe is an errno there. Faults (SIGSEGV and its like) still
 * reach their handlers, so that a sanitizer can report them. */
#ifndef FL_COMMON_IO_THREAD_H
#define FL_COMMON_IO_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/check.h"

/* Any thread. 0 or -errno; *ret is written when 0: join or detach it. */
FL_MUST_USE int fl_thread_start(pthread_t *ret, size_t stack_bytes, void *(*run)(void *arg),
                                void *arg);

/* Any thread, at its beginning: from now on it, and the threads it starts, have a descriptor table
 * of their own: a copy of what is open so far, without fd, which stays open in the other. False: it
 * goes on sharing the table, fd with it (a kernel before 5.9, or forbidden). What was copied is
 * closed when both have closed it. */
FL_MUST_USE bool fl_thread_split_descriptors(int fd);

#endif
