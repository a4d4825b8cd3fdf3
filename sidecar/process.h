/* process - the process's own limits and habits: memory, descriptors, CPUs. Called once, before
 * threads. */
#ifndef FL_SIDECAR_PROCESS_H
#define FL_SIDECAR_PROCESS_H

#include <stdint.h>

/* One malloc arena, freed memory given back, no huge pages: private dirty memory is what each
 * further pod costs. */
void fl_process_tune_memory(void);
/* The soft limit of descriptors up to the hard one, at most 65536. Returns what it is now. */
uint64_t fl_process_raise_descriptors(void);
/* Data threads for `threads: auto`: whole CPUs of the cgroup quota, 1 … 4; 1 without a quota or
 * under 2 CPUs. */
unsigned fl_process_auto_threads(void);
/* The same rule for one content of cpu.max ("200000 100000", "max 100000"); 0: not of this form. */
unsigned fl_process_threads_of(const char *cpu_max);
/* The memory limit of the container; 0: none, or not to be found. */
uint64_t fl_process_memory_limit(void);
/* The same for one content of memory.max ("67108864", "max"). */
uint64_t fl_process_memory_of(const char *text);
uint64_t fl_process_random(void);

#endif
