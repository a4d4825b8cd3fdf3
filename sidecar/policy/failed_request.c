#include "sidecar/policy/failed_request.h"

enum { EMPTY, BEING_FILLED, FULL };

bool fl_failed_box_put(struct fl_failed_box *b, const struct fl_failed_request *rq)
{
    uint32_t empty = EMPTY;
    if (!atomic_compare_exchange_strong_explicit(&b->state, &empty, BEING_FILLED,
                                                 memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    b->request = *rq;
    atomic_store_explicit(&b->state, FULL, memory_order_release);
    return true;
}

bool fl_failed_box_take(struct fl_failed_box *b, struct fl_failed_request *ret)
{
    if (atomic_load_explicit(&b->state, memory_order_acquire) != FULL) {
        return false;
    }
    *ret = b->request;
    atomic_store_explicit(&b->state, EMPTY, memory_order_release);
    return true;
}
