/* malloc_count - LD_PRELOAD shim that counts allocations per thread, to prove that a data thread
 * makes none per request. The counts live in a file that anybody may map while the process runs:
 * /dev/shm/fairlead-malloc-<pid>, an array of struct row; syscalls.py reads it. Glibc only (it
 * calls __libc_malloc and friends). A forked child goes on in its parent's file. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS = 256 };

struct row {
    _Atomic uint64_t thread; /* kernel thread id; 0: free */
    _Atomic uint64_t allocations, frees, bytes;
};

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *p);

void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);
void *memalign(size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **to, size_t alignment, size_t size);
void free(void *p);

static struct row *rows;
static _Atomic unsigned used_rows;
/* initial-exec: the dynamic TLS model may itself call malloc */
static __thread struct row *mine __attribute__((tls_model("initial-exec")));
static __thread pid_t mine_pid __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void open_file(void)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "/dev/shm/fairlead-malloc-%d", (int)getpid());
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return;
    }
    if (ftruncate(fd, (off_t)(ROWS * sizeof(struct row))) == 0) {
        void *p = mmap(NULL, ROWS * sizeof(struct row), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        rows = p != MAP_FAILED ? p : NULL;
    }
    (void)close(fd);
}

static struct row *my_row(void)
{
    if (rows == NULL) {
        return NULL;
    }
    if (mine == NULL ||
        mine_pid != getpid()) { /* getpid is a system call, but this is no benchmark of time */
        unsigned i = atomic_fetch_add(&used_rows, 1);
        mine = &rows[i < ROWS ? i : ROWS - 1];
        mine_pid = getpid();
        atomic_store(&mine->thread, (uint64_t)gettid());
    }
    return mine;
}

static void count(size_t bytes)
{
    struct row *r = my_row();
    if (r != NULL) {
        atomic_fetch_add_explicit(&r->allocations, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&r->bytes, bytes, memory_order_relaxed);
    }
}

void *malloc(size_t size)
{
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count(n * size);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    count(size);
    return __libc_realloc(p, size);
}

void *memalign(size_t alignment, size_t size)
{
    count(size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **to, size_t alignment, size_t size)
{
    void *p = memalign(alignment, size);
    if (p == NULL) {
        return ENOMEM;
    }
    *to = p;
    return 0;
}

void free(void *p)
{
    struct row *r = p != NULL ? my_row() : NULL;
    if (r != NULL) {
        atomic_fetch_add_explicit(&r->frees, 1, memory_order_relaxed);
    }
    __libc_free(p);
}
