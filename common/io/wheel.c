#include "common/io/wheel.h"

#include <stdbool.h>
#include <string.h>

static size_t index_of(int64_t tick)
{
    return (size_t)tick & (FL_WHEEL_SLOTS - 1);
}

static bool is_busy(const struct fl_wheel *w, int64_t tick)
{
    size_t i = index_of(tick);
    return (w->busy[i / 64] >> (i % 64)) & 1;
}

/* The first busy tick in [from, from + FL_WHEEL_SLOTS), or INT64_MAX. */
static int64_t next_busy(const struct fl_wheel *w, int64_t from)
{
    const size_t words = FL_WHEEL_SLOTS / 64;
    size_t start = index_of(from);
    uint64_t bits = w->busy[start / 64] & (UINT64_MAX << (start % 64));
    for (size_t n = 0; n <= words; n++) {
        if (bits != 0) {
            size_t found = (start / 64 + n) % words * 64 + (size_t)__builtin_ctzll(bits);
            return from + (int64_t)((found - start) & (FL_WHEEL_SLOTS - 1));
        }
        bits = w->busy[(start / 64 + n + 1) % words];
    }
    return INT64_MAX;
}

void fl_wheel_init(struct fl_wheel *w, int64_t now_ms)
{
    w->done_tick = now_ms / FL_WHEEL_TICK_MS;
    memset(w->busy, 0, sizeof(w->busy));
    w->next_tick = w->done_tick + 1;
    fl_list_init(&w->due);
    for (size_t i = 0; i < FL_WHEEL_SLOTS; i++) {
        fl_list_init(&w->slot[i]);
    }
}

/* Rounded up, so that a slot is never due before the deadline; clipped to what the wheel spans. */
static int64_t tick_of(const struct fl_wheel *w, int64_t at_ms)
{
    int64_t tick = at_ms / FL_WHEEL_TICK_MS + (at_ms % FL_WHEEL_TICK_MS > 0);
    if (tick <= w->done_tick) {
        return w->done_tick + 1;
    }
    int64_t last = w->done_tick + FL_WHEEL_SLOTS;
    return tick < last ? tick : last;
}

static void hold(struct fl_wheel *w, struct fl_timer *t, int64_t tick)
{
    size_t i = index_of(tick);
    fl_list_append(&w->slot[i], &t->node);
    w->busy[i / 64] |= UINT64_C(1) << (i % 64);
    t->slot_ms = tick * FL_WHEEL_TICK_MS;
    if (tick < w->next_tick) {
        w->next_tick = tick;
    }
}

static void drop(struct fl_wheel *w, struct fl_timer *t)
{
    size_t i = index_of(t->slot_ms / FL_WHEEL_TICK_MS);
    fl_list_remove(&t->node); /* from the slot, or from `due` */
    if (fl_list_empty(&w->slot[i])) {
        w->busy[i / 64] &= ~(UINT64_C(1) << (i % 64));
    }
    t->slot_ms = 0;
}

void fl_wheel_set(struct fl_wheel *w, struct fl_timer *t, int64_t at_ms)
{
    t->at_ms = at_ms;
    if (t->slot_ms != 0 && at_ms > t->slot_ms - FL_WHEEL_TICK_MS) {
        return; /* later, or the same slot */
    }
    if (at_ms == INT64_MAX) {
        return;
    }
    int64_t tick = tick_of(w, at_ms);
    if (t->slot_ms != 0) {
        if (tick * FL_WHEEL_TICK_MS >= t->slot_ms) {
            return; /* due already: it fires in this turn */
        }
        drop(w, t);
    }
    hold(w, t, tick);
}

void fl_wheel_remove(struct fl_wheel *w, struct fl_timer *t)
{
    if (t->slot_ms != 0) {
        drop(w, t);
    }
    t->at_ms = INT64_MAX;
}

int64_t fl_wheel_next_ms(struct fl_wheel *w)
{
    if (!fl_list_empty(&w->due)) {
        return w->done_tick * FL_WHEEL_TICK_MS;
    }
    if (!is_busy(w, w->next_tick)) {
        int64_t found = next_busy(w, w->done_tick + 1);
        if (found == INT64_MAX) {
            w->next_tick = w->done_tick + FL_WHEEL_SLOTS;
            return INT64_MAX;
        }
        w->next_tick = found;
    }
    return w->next_tick * FL_WHEEL_TICK_MS;
}

void fl_wheel_collect(struct fl_wheel *w, int64_t now_ms)
{
    int64_t now_tick = now_ms / FL_WHEEL_TICK_MS;
    if (now_tick <= w->done_tick) {
        return;
    }
    if (w->next_tick <= now_tick) {
        int64_t end = w->done_tick + FL_WHEEL_SLOTS;
        int64_t last = now_tick < end ? now_tick : end;
        for (int64_t tick = next_busy(w, w->done_tick + 1); tick <= last;
             tick = next_busy(w, w->done_tick + 1)) {
            struct fl_list *slot = &w->slot[index_of(tick)];
            struct fl_list *first = slot->next, *end_node = slot->prev;
            fl_list_init(slot);
            first->prev = w->due.prev;
            end_node->next = &w->due;
            w->due.prev->next = first;
            w->due.prev = end_node;
            w->busy[index_of(tick) / 64] &= ~(UINT64_C(1) << (index_of(tick) % 64));
            w->done_tick = tick;
        }
        w->next_tick = now_tick + 1;
    }
    w->done_tick = now_tick;
}

void fl_wheel_fire(struct fl_wheel *w, int64_t now_ms)
{
    for (struct fl_list *n; (n = fl_list_first(&w->due)) != NULL;) {
        struct fl_timer *t = fl_container_of(n, struct fl_timer, node);
        fl_list_remove(n);
        t->slot_ms = 0;
        if (t->at_ms > now_ms) {
            if (t->at_ms != INT64_MAX) {
                hold(w, t, tick_of(w, t->at_ms));
            }
            continue;
        }
        t->at_ms = INT64_MAX;
        t->on_fire(t);
    }
}
