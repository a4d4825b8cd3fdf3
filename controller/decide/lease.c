#include "controller/decide/lease.h"

#include <string.h>

#define JITTER_TENTHS      12  /* of FL_LEASE_RETRY_MS: client-go's factor 1.2 */
#define EXPIRY_SPREAD_MS   200 /* so that candidates do not all come at the same moment */
#define RETRY_AFTER_MAX_MS 15000
#define RELEASE_RETRY_MS   200

void fl_lease_init(struct fl_lease *l, const char *identity, uint64_t seed, int64_t now_ms)
{
    size_t n = strlen(identity);
    FL_MUST(n > 0 && n < sizeof(l->identity));
    *l = (struct fl_lease){.step = FL_LEASE_GET, .round_ms = now_ms};
    memcpy(l->identity, identity, n + 1);
    fl_rng_seed(&l->rng, seed);
}

static bool is_mine(const struct fl_lease *l)
{
    return strcmp(l->record.holder, l->identity) == 0;
}

static void wait_until(struct fl_lease *l, int64_t at_ms)
{
    l->step = FL_LEASE_WAIT;
    l->wake_ms = at_ms;
}

static void begin(struct fl_lease *l, enum fl_lease_step step, int64_t now_ms)
{
    l->step = step;
    l->round_ms = now_ms;
    l->calls = 0;
}

static int64_t jittered(struct fl_lease *l)
{
    return FL_LEASE_RETRY_MS +
           (int64_t)fl_rng_below(&l->rng, FL_LEASE_RETRY_MS * JITTER_TENTHS / 10 + 1);
}

/* The next round of calls: a leader's are 2 s apart from beginning to beginning, so that slow
 * failures do not eat up the term. */
static void try_again(struct fl_lease *l, int64_t retry_after_ms, int64_t now_ms)
{
    int64_t asked = retry_after_ms < RETRY_AFTER_MAX_MS ? retry_after_ms : RETRY_AFTER_MAX_MS;
    int64_t at = l->round_ms + FL_LEASE_RETRY_MS;
    if (l->releases) {
        wait_until(l, now_ms + RELEASE_RETRY_MS);
    } else if (l->leads) { /* whatever the server asks for: there is not much time */
        wait_until(l, at > now_ms ? at : now_ms);
    } else {
        int64_t ms = jittered(l);
        wait_until(l, now_ms + (asked > ms ? asked : ms));
    }
}

static void expire(struct fl_lease *l, int64_t now_ms)
{
    if (l->leads && now_ms >= l->until_ms) {
        l->leads = false;
        if (l->call.step == FL_LEASE_WAIT) { /* else its answer decides */
            begin(l, FL_LEASE_GET, now_ms);
        }
    }
    if (l->releases && now_ms >= l->release_by_ms) {
        l->step = FL_LEASE_END;
    }
}

/* --- what was seen --- */

static bool same(const struct fl_lease_record *a, const struct fl_lease_record *b)
{
    return strcmp(a->uid, b->uid) == 0 && strcmp(a->holder, b->holder) == 0 &&
           a->duration_s == b->duration_s && a->transitions == b->transitions &&
           a->acquire_us == b->acquire_us && a->renew_us == b->renew_us;
}

static bool is_new(const struct fl_lease_record *r)
{
    return r->holder[0] == '\0' && r->transitions <= 0;
}

/* What the epoch of a term over this record must be above, for the record's sake. */
static int64_t floor_of(const struct fl_lease_record *r)
{
    bool fits = r->version > 0 && r->version <= FL_LEASE_RAISE_MAX;
    return is_new(r) && fits ? r->version : r->transitions;
}

static void observe(struct fl_lease *l, const struct fl_lease_record *r, int64_t now_ms)
{
    int64_t floor = floor_of(r);
    if (!l->known || !same(&l->record, r)) {
        l->observed_ms = now_ms;
    }
    l->record = *r;
    l->known = true;
    l->top = l->top > floor ? l->top : floor;
    if (r->holder[0] != '\0') {
        int64_t ms = r->duration_s > 0 ? (int64_t)r->duration_s * 1000 : FL_LEASE_MS;
        l->held_to_ms = is_mine(l) ? 0 : l->observed_ms + ms;
    } else if (r->transitions > 0) { /* given back */
        l->held_to_ms = 0;
    }
}

/* When the record may be taken by us; 0: at once. */
static int64_t free_at_ms(const struct fl_lease *l)
{
    int64_t at = l->held_to_ms, unchanged = l->observed_ms + FL_LEASE_MS;
    bool blind = is_new(&l->record) && floor_of(&l->record) <= 0;
    return blind && unchanged > at ? unchanged : at;
}

bool fl_lease_spent(const struct fl_lease *l)
{
    return l->top >= INT32_MAX;
}

/* The one that we lead with, if none higher is known; else one above all. */
static int32_t next_epoch(const struct fl_lease *l)
{
    bool keep = l->leads && (l->top <= l->epoch || fl_lease_spent(l));
    FL_MUST(keep || !fl_lease_spent(l));
    return (int32_t)(keep ? l->epoch : l->top + 1);
}

static void seek(struct fl_lease *l, int64_t now_ms)
{
    int64_t free_at = free_at_ms(l), at = now_ms + jittered(l);
    if (free_at <= now_ms && !fl_lease_spent(l)) {
        l->step = FL_LEASE_PUT;
        return;
    }
    if (free_at > now_ms && free_at < at) {
        at = free_at + (int64_t)fl_rng_below(&l->rng, EXPIRY_SPREAD_MS);
    }
    wait_until(l, at);
}

/* The record is as the server has it. */
static void decide(struct fl_lease *l, int64_t now_ms)
{
    if (l->releases) {
        l->step = is_mine(l) ? FL_LEASE_PUT : FL_LEASE_END;
    } else if (!l->leads) {
        seek(l, now_ms);
    } else if (is_mine(l) && !(l->top > l->epoch && fl_lease_spent(l))) {
        l->step = FL_LEASE_PUT;
    } else { /* taken by another's hand: let others go first */
        l->leads = false;
        wait_until(l, now_ms + jittered(l));
    }
}

static void deleted(struct fl_lease *l, int64_t now_ms)
{
    l->known = false;
    if (l->releases) {
        l->step = FL_LEASE_END;
    } else if (l->leads || now_ms >= l->held_to_ms) {
        l->step = FL_LEASE_POST;
    } else { /* its leader is about to make it anew */
        int64_t at = now_ms + jittered(l);
        wait_until(l, at < l->held_to_ms ? at : l->held_to_ms);
    }
}

/* --- calls --- */

static void lead_on(struct fl_lease *l, int64_t now_ms)
{
    l->until_ms = l->call.sent_ms + FL_LEASE_RENEW_MS;
    l->epoch = l->call.transitions;
    l->top = l->top > l->epoch ? l->top : l->epoch;
    if (l->top > l->epoch && !fl_lease_spent(l)) { /* told so meanwhile */
        begin(l, FL_LEASE_PUT, now_ms);
    } else {
        int64_t at = l->call.sent_ms + FL_LEASE_RETRY_MS;
        wait_until(l, at > now_ms ? at : now_ms);
    }
}

static void written(struct fl_lease *l, int64_t now_ms)
{
    bool in_time = now_ms < l->call.sent_ms + FL_LEASE_RENEW_MS;
    if (l->call.gives_back) {
        l->step = FL_LEASE_END;
    } else if (l->releases) {
        l->step = FL_LEASE_PUT;
    } else if (l->leads) {
        lead_on(l, now_ms);
    } else if (l->call.acquires && in_time) {
        l->leads = true;
        lead_on(l, now_ms);
    } else { /* of a term that is over, or answered too late: ours, but with a new epoch only */
        seek(l, now_ms);
    }
}

static void after_get(struct fl_lease *l, enum fl_lease_answer answer, int64_t retry_after_ms,
                      int64_t now_ms)
{
    switch (answer) {
    case FL_LEASE_OK:
        decide(l, now_ms);
        break;
    case FL_LEASE_GONE:
        deleted(l, now_ms);
        break;
    case FL_LEASE_CONFLICT: /* not an answer to a GET */
    case FL_LEASE_FAILED:
        try_again(l, retry_after_ms, now_ms);
        break;
    }
}

static void after_post(struct fl_lease *l, enum fl_lease_answer answer, int64_t retry_after_ms,
                       int64_t now_ms)
{
    switch (answer) {
    case FL_LEASE_OK:
        if (is_mine(l)) {
            written(l, now_ms);
        } else {
            decide(l, now_ms);
        }
        break;
    case FL_LEASE_CONFLICT: /* somebody was faster */
        l->step = FL_LEASE_GET;
        break;
    case FL_LEASE_GONE: /* no such namespace */
    case FL_LEASE_FAILED:
        try_again(l, retry_after_ms, now_ms);
        break;
    }
}

static void after_put(struct fl_lease *l, enum fl_lease_answer answer, int64_t retry_after_ms,
                      int64_t now_ms)
{
    switch (answer) {
    case FL_LEASE_OK:
        written(l, now_ms);
        break;
    case FL_LEASE_CONFLICT:
        l->step = FL_LEASE_GET;
        break;
    case FL_LEASE_GONE:
        deleted(l, now_ms);
        break;
    case FL_LEASE_FAILED:
        if (l->leads ||
            l->releases) { /* it may have been carried out, and then what we have is old */
            l->step = FL_LEASE_GET;
        } else {
            try_again(l, retry_after_ms, now_ms);
        }
        break;
    }
}

void fl_lease_answered(struct fl_lease *l, enum fl_lease_answer answer,
                       const struct fl_lease_record *record, int64_t retry_after_ms, int64_t now_ms)
{
    enum fl_lease_step step = l->call.step;
    FL_MUST(step != FL_LEASE_WAIT);
    expire(l, now_ms);
    l->call.step = FL_LEASE_WAIT;
    if (answer == FL_LEASE_OK) {
        observe(l, record, now_ms);
    }
    if (l->step == FL_LEASE_END) {
        return;
    }
    if (step == FL_LEASE_GET) {
        after_get(l, answer, retry_after_ms, now_ms);
    } else if (step == FL_LEASE_POST) {
        after_post(l, answer, retry_after_ms, now_ms);
    } else {
        after_put(l, answer, retry_after_ms, now_ms);
    }
    if (l->calls >= FL_LEASE_ROUND_MAX && l->step != FL_LEASE_WAIT && l->step != FL_LEASE_END) {
        try_again(l, 0, now_ms);
    }
}

void fl_lease_run(struct fl_lease *l, int64_t now_ms)
{
    expire(l, now_ms);
    if (l->step == FL_LEASE_WAIT && now_ms >= l->wake_ms && l->call.step == FL_LEASE_WAIT) {
        begin(l, l->leads && l->known ? FL_LEASE_PUT : FL_LEASE_GET, now_ms);
    }
}

/* What goes into the Lease now. */
static struct fl_lease_record to_write(struct fl_lease *l, int64_t unix_us)
{
    struct fl_lease_record r = {.duration_s = FL_LEASE_MS / 1000, .renew_us = unix_us};
    if (l->known && r.renew_us == l->record.renew_us) { /* others must see a change */
        r.renew_us++;
    }
    if (l->releases) {
        r.duration_s = 1;
        r.transitions = l->record.transitions;
        r.acquire_us = l->record.acquire_us;
        return r;
    }
    if (!l->known && !l->leads) { /* a new Lease belongs to nobody */
        r.renew_us = 0;
        return r;
    }
    memcpy(r.holder, l->identity, sizeof(r.holder));
    r.transitions = next_epoch(l);
    l->acquired_us = l->leads ? l->acquired_us : unix_us;
    r.acquire_us = l->acquired_us;
    return r;
}

static int64_t time_limit(const struct fl_lease *l, int64_t now_ms)
{
    int64_t ms = FL_LEASE_CALL_MS;
    if (l->leads && l->until_ms - now_ms < ms) {
        ms = l->until_ms - now_ms;
    }
    if (l->releases && l->release_by_ms - now_ms < ms) {
        ms = l->release_by_ms - now_ms;
    }
    return ms;
}

bool fl_lease_take(struct fl_lease *l, int64_t now_ms, int64_t unix_us, struct fl_lease_call *ret)
{
    fl_lease_run(l, now_ms);
    if (l->call.step != FL_LEASE_WAIT || l->step == FL_LEASE_WAIT || l->step == FL_LEASE_END) {
        return false;
    }
    *ret = (struct fl_lease_call){.step = l->step, .timeout_ms = time_limit(l, now_ms)};
    if (l->step != FL_LEASE_GET) {
        ret->record = to_write(l, unix_us);
    }
    l->calls++;
    l->call.step = l->step;
    l->call.sent_ms = now_ms;
    l->call.transitions = ret->record.transitions;
    l->call.acquires = l->step == FL_LEASE_PUT && !l->leads && !l->releases;
    l->call.gives_back = l->releases && l->step == FL_LEASE_PUT;
    return true;
}

int64_t fl_lease_next_ms(const struct fl_lease *l)
{
    int64_t at = INT64_MAX;
    if (l->step == FL_LEASE_END) {
        return at;
    }
    if (l->call.step == FL_LEASE_WAIT) {
        at = l->step == FL_LEASE_WAIT ? l->wake_ms : l->round_ms;
    }
    if (l->leads && l->until_ms < at) {
        at = l->until_ms;
    }
    return l->releases && l->release_by_ms < at ? l->release_by_ms : at;
}

int64_t fl_lease_epoch(const struct fl_lease *l, int64_t now_ms)
{
    return l->leads && now_ms < l->until_ms ? l->epoch : 0;
}

bool fl_lease_raise(struct fl_lease *l, int64_t above, int64_t now_ms)
{
    if (above <= 0 || above > FL_LEASE_RAISE_MAX) {
        return false;
    }
    l->top = l->top > above ? l->top : above;
    if (l->leads && l->top > l->epoch && l->step == FL_LEASE_WAIT) {
        wait_until(l, now_ms); /* it is a PUT when the Lease is known, else a GET */
    }
    return true;
}

void fl_lease_release(struct fl_lease *l, int64_t now_ms)
{
    if (l->releases) {
        return;
    }
    l->releases = true;
    l->leads = false;
    l->release_by_ms = now_ms + FL_LEASE_RELEASE_MS;
    if (l->call.step == FL_LEASE_WAIT) { /* else its answer decides */
        begin(l, l->known && is_mine(l) ? FL_LEASE_PUT : FL_LEASE_END, now_ms);
    }
}
