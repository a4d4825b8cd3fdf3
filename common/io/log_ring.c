#include "common/io/log_ring.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define RING_MIN_BYTES 4096
#define RING_MAX_BYTES (64u << 20)
#define PAGE_BYTES     4096

static uint64_t aligned(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

struct fl_log_ring *fl_log_ring_map(struct fl_log_bell *bell, size_t bytes)
{
    uint64_t cap = RING_MIN_BYTES;
    while (cap < bytes && cap < RING_MAX_BYTES) {
        cap *= 2;
    }
    struct fl_log_ring *ring = aligned_alloc(alignof(struct fl_log_ring), sizeof(*ring));
    /* a mapping, so that the pages which are never reached cost nothing */
    void *base = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring == NULL || base == MAP_FAILED) {
        free(ring);
        if (base != MAP_FAILED) {
            munmap(base, cap);
        }
        return NULL;
    }
    *ring = (struct fl_log_ring){.base = base, .cap = cap, .bell = bell};
    return ring;
}

void fl_log_ring_unmap(struct fl_log_ring *ring)
{
    munmap(ring->base, ring->cap);
    free(ring);
}

static struct fl_log_record *record_at(const struct fl_log_ring *ring, uint64_t pos)
{
    return (struct fl_log_record *)(void *)(ring->base + (pos & (ring->cap - 1)));
}

/* Bytes to leave out so that a record of `need` lies in one piece. */
static uint64_t skip_for(const struct fl_log_ring *ring, uint64_t head, uint64_t need)
{
    uint64_t to_end = ring->cap - (head & (ring->cap - 1));
    return need > to_end ? to_end : 0;
}

/* A ring that is empty when a record would touch another page begins at its start again: at low
 * rates only the first page is ever used. The rest is not used up by that: an empty ring's tail is
 * nobody's, so it is moved along. (The writer looks at the head before the tail, and takes a tail
 * that is ahead for an empty ring.) */
static uint64_t start_over(struct fl_log_ring *ring, uint64_t head, uint64_t need)
{
    uint64_t offset = head & (ring->cap - 1);
    if (offset == 0 || offset / PAGE_BYTES == (offset + need - 1) / PAGE_BYTES) {
        return head;
    }
    ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (ring->tail_seen != head) {
        return head;
    }
    head += ring->cap - offset;
    ring->tail_seen = head;
    atomic_store_explicit(&ring->tail, head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head, memory_order_release);
    return head;
}

static bool has_room(struct fl_log_ring *ring, uint64_t head, uint64_t need)
{
    if (head + need - ring->tail_seen <= ring->cap) {
        return true;
    }
    ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return head + need - ring->tail_seen <= ring->cap;
}

void *fl_log_reserve(struct fl_log_ring *ring, enum fl_log_stream to, fl_log_format_fn *format,
                     size_t size)
{
    uint64_t need = sizeof(struct fl_log_record) + aligned(size);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    head = size <= ring->cap ? start_over(ring, head, need) : head;
    uint64_t skip = size <= ring->cap ? skip_for(ring, head, need) : 0;
    if (size > ring->cap || !has_room(ring, head, skip + need)) {
        uint64_t dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed);
        atomic_store_explicit(&ring->dropped, dropped + 1, memory_order_relaxed);
        return NULL;
    }
    if (skip > 0) {
        record_at(ring, head)->size = FL_LOG_WRAP;
    }
    ring->place = head + skip;
    ring->place_size = size;
    struct fl_log_record *rec = record_at(ring, ring->place);
    rec->stream = to;
    rec->format = format;
    return rec + 1;
}

static bool is_half_full(struct fl_log_ring *ring, uint64_t head)
{
    if (head - ring->tail_seen <= ring->cap / 2) {
        return false;
    }
    ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return head - ring->tail_seen > ring->cap / 2;
}

/* The head is published before doze is read, and the writer says that it sleeps before it looks at
 * the head once more (both sequentially consistent), so one of the two sees the other. */
void fl_log_commit(struct fl_log_ring *ring, size_t size)
{
    FL_MUST(size <= ring->place_size);
    record_at(ring, ring->place)->size = (uint32_t)size;
    uint64_t head = ring->place + sizeof(struct fl_log_record) + aligned(size);
    ring->place_size = 0;
    atomic_store(&ring->head, head);
    int doze = atomic_load(&ring->bell->doze);
    if (FL_LIKELY(doze == FL_LOG_AWAKE || (doze == FL_LOG_NAP && !is_half_full(ring, head)))) {
        return;
    }
    if (atomic_exchange(&ring->bell->doze, FL_LOG_AWAKE) != FL_LOG_AWAKE) {
        uint64_t one = 1;
        (void)!write(ring->bell->wake_fd, &one, sizeof(one));
    }
}

bool fl_log_watched(const struct fl_log_ring *ring)
{
    return atomic_load_explicit(&ring->bell->watched, memory_order_relaxed);
}

bool fl_log_ring_empty(struct fl_log_ring *ring)
{
    uint64_t head = atomic_load(&ring->head);
    return atomic_load_explicit(&ring->tail, memory_order_relaxed) >= head;
}

const struct fl_log_record *fl_log_ring_peek(struct fl_log_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail >= head) {
        return NULL;
    }
    const struct fl_log_record *rec = record_at(ring, tail);
    if (rec->size == FL_LOG_WRAP) { /* always followed by the record that did not fit */
        tail += ring->cap - (tail & (ring->cap - 1));
        atomic_store_explicit(&ring->tail, tail, memory_order_release);
        rec = record_at(ring, tail);
    }
    return rec;
}

void fl_log_ring_take(struct fl_log_ring *ring, const struct fl_log_record *rec)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + sizeof(*rec) + aligned(rec->size),
                          memory_order_release);
}
