#include "sidecar/policy/peer_health.h"

#include "common/base/check.h"

/* The word: state in the top two bits, generation in the next 20, `until` (ms, 42 bits = 139 years)
 * below. LIVE is left and entered under the lock only; QUARANTINED -> TRIAL_OUT and back are single
 * CASes, so picks never wait. */
enum state { LIVE, QUARANTINED, TRIAL_OUT };

#define UNTIL_BITS 42
#define GEN_BITS   20
#define UNTIL_MASK ((UINT64_C(1) << UNTIL_BITS) - 1)
#define GEN_MASK   ((UINT32_C(1) << GEN_BITS) - 1)

struct view {
    enum state state;
    uint32_t generation;
    int64_t
        until_ms; /* of the quarantine; kept through probation and trial: when probation began */
};

static uint64_t pack(struct view v)
{
    uint64_t until = v.until_ms < 0 ? 0 : (uint64_t)v.until_ms;
    if (until > UNTIL_MASK) {
        until = UNTIL_MASK;
    }
    return (uint64_t)v.state << (UNTIL_BITS + GEN_BITS) |
           (uint64_t)(v.generation & GEN_MASK) << UNTIL_BITS | until;
}

static struct view unpack(uint64_t word)
{
    return (struct view){
        .state = (enum state)(word >> (UNTIL_BITS + GEN_BITS)),
        .generation = (uint32_t)(word >> UNTIL_BITS) & GEN_MASK,
        .until_ms = (int64_t)(word & UNTIL_MASK),
    };
}

static uint64_t load(const struct fl_peer_health *h)
{
    return atomic_load_explicit(&h->word, memory_order_acquire);
}

static void put(struct fl_peer_health *h, struct view v)
{
    atomic_store_explicit(&h->word, pack(v), memory_order_release);
}

static bool swap(struct fl_peer_health *h, uint64_t *seen, struct view v)
{
    return atomic_compare_exchange_strong_explicit(&h->word, seen, pack(v), memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* Held for a scan of at most 32 numbers, by failures and the ends of trials only. */
static void lock(struct fl_peer_health *h)
{
    while (atomic_exchange_explicit(&h->lock, 1, memory_order_acquire)) {
        while (atomic_load_explicit(&h->lock, memory_order_relaxed)) {
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
    }
}

static void unlock(struct fl_peer_health *h)
{
    atomic_store_explicit(&h->lock, 0, memory_order_release);
}

static void remember(struct fl_peer_health *h, int64_t now_ms)
{
    h->fail_at_ms[h->fail_next] = now_ms;
    h->fail_next = (h->fail_next + 1) % FL_MAX_FAILS_MAX;
    if (h->fail_count < FL_MAX_FAILS_MAX) {
        h->fail_count++;
    }
}

/* The window is (now - fail_timeout, now]: a failure is forgotten at the very ms at which a
 * quarantine that began with it would end. The threads' clocks differ by a turn of their loops, so
 * every time is compared, not only the oldest. */
static uint32_t in_window(const struct fl_peer_health *h, const struct fl_health_policy *p,
                          int64_t now_ms)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->fail_count; i++) {
        n += h->fail_at_ms[i] > now_ms - p->fail_timeout_ms;
    }
    return n;
}

static void forget(struct fl_peer_health *h)
{
    h->fail_next = h->fail_count = h->failed_trials = 0;
}

void fl_peer_health_init(struct fl_peer_health *h)
{
    *h = (struct fl_peer_health){0};
}

enum fl_health_gate fl_peer_health_gate(const struct fl_peer_health *h, int64_t now_ms,
                                        int64_t *ret_until_ms)
{
    struct view v = unpack(load(h));
    switch (v.state) {
    case LIVE:
        return FL_HEALTH_LIVE;
    case QUARANTINED:
        *ret_until_ms = v.until_ms;
        return now_ms < v.until_ms ? FL_HEALTH_QUARANTINED : FL_HEALTH_PROBATION;
    case TRIAL_OUT:
        *ret_until_ms = v.until_ms;
        return FL_HEALTH_TRIAL_OUT;
    }
    FL_IMPOSSIBLE("state of a peer's health");
}

struct fl_health_ticket fl_peer_health_ticket(const struct fl_peer_health *h)
{
    return (struct fl_health_ticket){.generation = unpack(load(h)).generation, .trial = false};
}

bool fl_peer_health_take_trial(struct fl_peer_health *h, int64_t now_ms,
                               struct fl_health_ticket *ret)
{
    uint64_t seen = load(h);
    struct view v = unpack(seen);
    if (v.state != QUARANTINED || now_ms < v.until_ms) {
        return false;
    }
    v.state = TRIAL_OUT;
    if (!swap(h, &seen, v)) {
        return false;
    }
    *ret = (struct fl_health_ticket){.generation = v.generation, .trial = true};
    return true;
}

/* Is this ticket the trial that is out? A trial that already readmitted its peer is an ordinary
 * attempt from then on. */
static bool is_the_trial(const struct fl_health_ticket *t, struct view v)
{
    return t->trial && v.state == TRIAL_OUT && v.generation == t->generation;
}

struct fl_health_change fl_peer_health_answered(struct fl_peer_health *h,
                                                const struct fl_health_ticket *t, int64_t now_ms)
{
    (void)now_ms;
    struct fl_health_change change = {.what = FL_HEALTH_SAME};
    if (!t->trial) {
        return change;
    }
    lock(h);
    struct view v = unpack(load(h));
    if (is_the_trial(t, v)) {
        forget(h);
        put(h, (struct view){.state = LIVE, .generation = v.generation});
        change.what = FL_HEALTH_READMITTED;
    }
    unlock(h);
    return change;
}

/* Back to probation with its old date, so that the wait for a replayable trial goes on and does not
 * begin again. */
static void give_back(struct fl_peer_health *h, const struct fl_health_ticket *t)
{
    uint64_t seen = load(h);
    struct view v = unpack(seen);
    if (is_the_trial(t, v)) {
        v.state = QUARANTINED;
        FL_MUST(swap(h, &seen, v)); /* nobody but the holder of the trial leaves TRIAL_OUT */
    }
}

static int64_t quarantine_ms(const struct fl_peer_health *h, const struct fl_health_policy *p,
                             struct fl_rng *jitter)
{
    if (h->failed_trials == 0 || p->quarantine_max <= 1) {
        return p->fail_timeout_ms;
    }
    uint32_t doubled = h->failed_trials < 31 ? UINT32_C(1) << h->failed_trials : UINT32_MAX;
    uint32_t factor = doubled < p->quarantine_max ? doubled : p->quarantine_max;
    int64_t ms = p->fail_timeout_ms * factor;
    if (jitter) {
        ms += ms * fl_rng_below(jitter, 1001) / 10000;
    }
    return ms;
}

/* Under lock; the failure is of the current generation. */
static struct fl_health_change fail(struct fl_peer_health *h, const struct fl_health_policy *p,
                                    const struct fl_health_ticket *t, struct view v, int64_t now_ms,
                                    struct fl_rng *jitter)
{
    struct fl_health_change change = {.what = FL_HEALTH_SAME};
    if (is_the_trial(t, v)) {
        h->failed_trials += h->failed_trials < UINT32_MAX;
    } else if (v.state != LIVE) {
        return change; /* used in spite of its quarantine (panic, single peer): neither extends it
                          nor ends a trial */
    }
    remember(h, now_ms);
    change.fails = in_window(h, p, now_ms);
    if (v.state == LIVE && change.fails < p->max_fails) {
        return change;
    }
    change.what = FL_HEALTH_DISABLED;
    change.until_ms = now_ms + quarantine_ms(h, p, jitter);
    put(h, (struct view){QUARANTINED, v.generation + 1, change.until_ms});
    return change;
}

struct fl_health_change fl_peer_health_settle(struct fl_peer_health *h,
                                              const struct fl_health_policy *p,
                                              const struct fl_health_ticket *t,
                                              enum fl_health_result r, int64_t now_ms,
                                              struct fl_rng *jitter)
{
    struct fl_health_change change = {.what = FL_HEALTH_SAME};
    if (r == FL_HEALTH_OK) {
        return fl_peer_health_answered(h, t, now_ms);
    }
    if (r == FL_HEALTH_NEUTRAL || p->max_fails == 0) {
        if (t->trial) {
            give_back(h, t);
        }
        return change;
    }
    lock(h);
    struct view v = unpack(load(h));
    if (v.generation == t->generation) {
        change = fail(h, p, t, v, now_ms, jitter);
    }
    unlock(h);
    return change;
}

bool fl_peer_health_open(struct fl_peer_health *h, int64_t now_ms)
{
    uint64_t seen = load(h);
    for (;;) {
        struct view v = unpack(seen);
        if (v.state != QUARANTINED || v.until_ms <= now_ms) {
            return false;
        }
        v.until_ms = now_ms;
        if (swap(h, &seen, v)) {
            return true;
        }
    }
}

uint32_t fl_peer_health_fails(struct fl_peer_health *h, const struct fl_health_policy *p,
                              int64_t now_ms)
{
    lock(h);
    uint32_t n = in_window(h, p, now_ms);
    unlock(h);
    return n;
}
