/* health_model - a second, slow and naive telling of behaviour.md section 1: every failure is kept
 * for ever and counted anew, states are plain fields. Unit test and fuzz target drive it beside the
 * real one and compare every answer. */
#ifndef FL_TESTS_HEALTH_MODEL_H
#define FL_TESTS_HEALTH_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "sidecar/policy/peer_health.h"

#define MODEL_ATTEMPTS 24

#define MODEL_CHECK(cond)                                                                          \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: model disagrees: %s\n", __FILE__, __LINE__, #cond);      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct model_attempt {
    bool used, trial, answered;
    uint32_t quarantines_before; /* how many quarantines there had been at the pick */
    struct fl_health_ticket ticket;
};

struct model {
    struct fl_peer_health real;
    struct fl_health_policy policy;
    struct fl_rng jitter;
    int64_t now_ms;
    bool out; /* quarantined or on probation */
    bool trial_out;
    int64_t until_ms;
    uint32_t quarantines; /* ever */
    uint32_t trials_failed;
    int64_t *fails; /* since the last readmission */
    size_t fail_count, fail_cap;
    struct model_attempt attempts[MODEL_ATTEMPTS];
};

static inline void model_init(struct model *m, struct fl_health_policy policy, uint64_t seed)
{
    *m = (struct model){.policy = policy, .now_ms = 1};
    fl_peer_health_init(&m->real);
    fl_rng_seed(&m->jitter, seed);
}

static inline void model_done(struct model *m)
{
    free(m->fails);
}

static inline uint32_t model_fails(const struct model *m)
{
    uint32_t n = 0;
    for (size_t i = 0; i < m->fail_count; i++) {
        n += m->now_ms - m->fails[i] < m->policy.fail_timeout_ms;
    }
    return n;
}

static inline enum fl_health_gate model_gate(const struct model *m)
{
    if (m->trial_out) {
        return FL_HEALTH_TRIAL_OUT;
    }
    if (!m->out) {
        return FL_HEALTH_LIVE;
    }
    return m->now_ms < m->until_ms ? FL_HEALTH_QUARANTINED : FL_HEALTH_PROBATION;
}

static inline void model_look(struct model *m)
{
    int64_t until = -1;
    enum fl_health_gate gate = fl_peer_health_gate(&m->real, m->now_ms, &until);
    MODEL_CHECK(gate == model_gate(m));
    MODEL_CHECK(gate == FL_HEALTH_LIVE ? until == -1 : until == m->until_ms);
    uint32_t fails = model_fails(m);
    MODEL_CHECK(fl_peer_health_fails(&m->real, &m->policy, m->now_ms) ==
                (fails < FL_MAX_FAILS_MAX ? fails : FL_MAX_FAILS_MAX));
}

/* A request wants the peer; force: it is used in spite of quarantine. False: not offered. */
static inline bool model_take(struct model *m, unsigned slot, bool force)
{
    struct model_attempt *a = &m->attempts[slot % MODEL_ATTEMPTS];
    if (a->used) {
        return false;
    }
    *a = (struct model_attempt){.quarantines_before = m->quarantines};
    struct fl_health_ticket ticket = {0};
    bool won = fl_peer_health_take_trial(&m->real, m->now_ms, &ticket);
    MODEL_CHECK(won == (model_gate(m) == FL_HEALTH_PROBATION));
    if (won) {
        m->trial_out = a->trial = true;
    } else if (model_gate(m) == FL_HEALTH_LIVE || force) {
        ticket = fl_peer_health_ticket(&m->real);
    } else {
        return false;
    }
    MODEL_CHECK(ticket.trial == won);
    a->used = true;
    a->ticket = ticket;
    return true;
}

static inline bool model_is_trial(const struct model *m, const struct model_attempt *a)
{
    return a->trial && m->trial_out && a->quarantines_before == m->quarantines && !a->answered;
}

static inline void model_readmit(struct model *m)
{
    m->out = m->trial_out = false;
    m->fail_count = 0;
    m->trials_failed = 0;
}

static inline void model_answer(struct model *m, unsigned slot)
{
    struct model_attempt *a = &m->attempts[slot % MODEL_ATTEMPTS];
    if (!a->used) {
        return;
    }
    struct fl_health_change got = fl_peer_health_answered(&m->real, &a->ticket, m->now_ms);
    bool trial = model_is_trial(m, a);
    MODEL_CHECK(got.what == (trial ? FL_HEALTH_READMITTED : FL_HEALTH_SAME));
    if (trial) {
        model_readmit(m);
    }
    a->answered = true;
}

static inline void model_disable(struct model *m, struct fl_health_change got)
{
    int64_t base = m->policy.fail_timeout_ms;
    uint32_t factor = 1;
    for (uint32_t i = 0; i < m->trials_failed && factor < m->policy.quarantine_max; i++) {
        factor = factor * 2 < m->policy.quarantine_max ? factor * 2 : m->policy.quarantine_max;
    }
    int64_t low = m->now_ms + base * factor;
    bool jitter = m->trials_failed > 0 && m->policy.quarantine_max > 1;
    MODEL_CHECK(got.what == FL_HEALTH_DISABLED);
    MODEL_CHECK(got.until_ms >= low && got.until_ms <= low + (jitter ? base * factor / 10 : 0));
    MODEL_CHECK(got.fails ==
                (model_fails(m) < FL_MAX_FAILS_MAX ? model_fails(m) : FL_MAX_FAILS_MAX));
    m->out = true;
    m->trial_out = false;
    m->until_ms = got.until_ms;
    m->quarantines++;
}

static inline void model_fail(struct model *m, struct model_attempt *a, struct fl_health_change got)
{
    bool trial = model_is_trial(m, a);
    if (a->quarantines_before != m->quarantines || m->policy.max_fails == 0 || (m->out && !trial)) {
        MODEL_CHECK(got.what == FL_HEALTH_SAME);
        m->trial_out = m->trial_out && !trial; /* max_fails 0: a trial ends without a word */
        return;
    }
    if (m->fail_count == m->fail_cap) {
        m->fail_cap = m->fail_cap ? m->fail_cap * 2 : 16;
        m->fails = realloc(m->fails, m->fail_cap * sizeof(m->fails[0]));
        MODEL_CHECK(m->fails != NULL);
    }
    m->fails[m->fail_count++] = m->now_ms;
    m->trials_failed += trial;
    if (trial || model_fails(m) >= m->policy.max_fails) {
        model_disable(m, got);
    } else {
        MODEL_CHECK(got.what == FL_HEALTH_SAME);
    }
}

static inline void model_settle(struct model *m, unsigned slot, enum fl_health_result r)
{
    struct model_attempt *a = &m->attempts[slot % MODEL_ATTEMPTS];
    if (!a->used) {
        return;
    }
    bool trial = model_is_trial(m, a);
    struct fl_health_change got =
        fl_peer_health_settle(&m->real, &m->policy, &a->ticket, r, m->now_ms, &m->jitter);
    a->used = false;
    if (r == FL_HEALTH_FAILED) {
        model_fail(m, a, got);
    } else if (r == FL_HEALTH_OK && trial) {
        MODEL_CHECK(got.what == FL_HEALTH_READMITTED);
        model_readmit(m);
    } else {
        MODEL_CHECK(got.what == FL_HEALTH_SAME);
        m->trial_out = m->trial_out && !trial;
    }
}

static inline void model_open(struct model *m)
{
    bool opens = model_gate(m) == FL_HEALTH_QUARANTINED;
    MODEL_CHECK(fl_peer_health_open(&m->real, m->now_ms) == opens);
    m->until_ms = opens ? m->now_ms : m->until_ms;
}

/* At most one trial is out, whatever happened. */
static inline void model_invariants(const struct model *m)
{
    unsigned trials = 0;
    for (unsigned i = 0; i < MODEL_ATTEMPTS; i++) {
        trials += m->attempts[i].used && model_is_trial(m, &m->attempts[i]);
    }
    MODEL_CHECK(trials <= 1);
    MODEL_CHECK(m->trial_out == (trials == 1));
}

/* One operation out of 32 random bits: 4 bits what, 8 bits slot, 20 bits how much. */
static inline void model_step(struct model *m, uint32_t bits)
{
    unsigned slot = (bits >> 4) & 0xff;
    uint32_t amount = bits >> 12;
    switch (bits & 15) {
    case 0:
    case 1:
    case 2:
    case 3:
        (void)model_take(m, slot, false);
        break;
    case 4:
        (void)model_take(m, slot, true);
        break;
    case 5:
    case 6:
        model_answer(m, slot);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        model_settle(m, slot, FL_HEALTH_FAILED);
        break;
    case 11:
        model_settle(m, slot, FL_HEALTH_OK);
        break;
    case 12:
        model_settle(m, slot, FL_HEALTH_NEUTRAL);
        break;
    case 13:
        if (amount % 16 == 0) {
            model_open(m);
        }
        break;
    case 14: /* to the very edge of the quarantine, or one before it */
        if (m->out && m->until_ms - 1 > m->now_ms) {
            m->now_ms = m->until_ms - 1 + (amount & 1);
        }
        break;
    default:
        m->now_ms += amount % (uint32_t)(m->policy.fail_timeout_ms * 2 / 3 + 1);
        break;
    }
    model_look(m);
    model_invariants(m);
}

#endif
