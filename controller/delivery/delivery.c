#include "controller/delivery/delivery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/directives_show.h"
#include "controller/decide/compose.h"
#include "controller/decide/probe_list.h"
#include "controller/delivery/delivery_inner.h"

#define CHANGED_MS 20   /* a changed verdict that takes nobody out waits for others this long */
#define AGED_MS    1000 /* one that is only fresher, so long at most */
/* Both are put off in such steps, by no more than these, while changes wait to leave: all states
 * are made anew, which takes tens of milliseconds where there are thousands of peers. */
#define PUT_OFF_MS         50
#define CHANGED_PUT_OFF_MS 200
#define AGED_PUT_OFF_MS    1000
/* What no push waits for: looked at again in such steps, and made after so long at the latest. */
#define REST_MS         20
#define REST_PUT_OFF_MS 200

/* ---- saying ---- */

static void say(const struct fl_delivery *d, enum fl_log_level level, const char *msg,
                const char *cause)
{
    struct fl_log_line l;
    fl_log_begin(d->conf.log, &l, level, msg);
    fl_log_text(&l, "cause", cause);
    fl_log_end(d->conf.log, &l);
}

static uint64_t hash_of(const struct fl_findings *f)
{
    uint64_t hash = 0;
    for (const struct fl_finding *one = f->first; one != NULL; one = one->next) {
        hash = hash * 31 + fl_show_hash(fl_span_of(one->text));
    }
    return hash;
}

/* Each set of findings once. */
static void say_missing(const struct fl_delivery *d, const struct fl_findings *f, uint64_t *said)
{
    uint64_t hash = hash_of(f);
    if (hash == *said) {
        return;
    }
    *said = hash;
    for (const struct fl_finding *one = f->first; one != NULL; one = one->next) {
        char text[1024];
        struct fl_fmt out = fl_fmt_of(text, sizeof(text));
        fl_findings_print(f, one, &out);
        say(d, FL_LOG_WARN, "membership is missing", text);
    }
}

/* ---- states ---- */

struct round {                /* one pass over all groups */
    struct fl_group **groups; /* the first is NULL: configuration "" */
    struct fl_state **states; /* NULL: it stays as it is */
    uint32_t count;
    bool good; /* all that were to be made are */
};

static const struct fl_pod_overlay *overlay_of(const struct fl_group *g)
{
    return g != NULL ? g->overlay : NULL;
}

static bool begin_round(const struct fl_delivery *d, struct round *r)
{
    uint32_t count = 1;
    fl_list_each (it, &d->groups) {
        count++;
    }
    *r = (struct round){calloc(count, sizeof(struct fl_group *)),
                        calloc(count, sizeof(struct fl_state *)), 1, true};
    if (r->groups == NULL || r->states == NULL) {
        free(r->groups);
        free(r->states);
        return false;
    }
    fl_list_each (it, &d->groups) {
        r->groups[r->count++] = fl_container_of(it, struct fl_group, node);
    }
    return true;
}

static void end_round(struct round *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        fl_state_free(r->states[i]);
    }
    free(r->groups);
    free(r->states);
}

static const char *key_of(const struct fl_group *g)
{
    return g != NULL ? g->key : "";
}

static struct fl_made *made_of(struct fl_delivery *d, struct fl_group *g)
{
    return g != NULL ? &g->made : &d->made;
}

/* Of all services in it; another one when one of them has changed. */
static uint64_t members_of(const struct fl_membership *m, const struct fl_state *s)
{
    uint64_t all = 0;
    for (uint32_t i = 0; m->revision != NULL && i < s->backend_count; i++) {
        const struct fl_service_ref *ref = &s->backends[i].conf.service;
        uint64_t one = ref->name[0] != '\0' ? m->revision(m->arg, ref) : 0;
        all = (all ^ one) * UINT64_C(0x100000001b3);
    }
    return all;
}

/* What is probed may mean something else than before: verdicts may go whose peers stay. */
static bool redefines(unsigned why)
{
    return (why & (FL_DELIVERY_CONFIG | FL_DELIVERY_PROBES)) != 0;
}

/* Where all pods have annotations nobody gets the state of "", which has all backends: it is only
 * shown, and says what is probed. */
static bool is_pushed(const struct fl_delivery *d, const struct fl_group *g)
{
    return g != NULL || fl_fanout_targets(d->fanout, "") > 0;
}

static bool is_due(struct fl_delivery *d, const struct fl_membership *m, struct fl_group *g,
                   unsigned why)
{
    const struct fl_state *now = fl_fanout_state(d->fanout, key_of(g));
    const struct fl_made *made = made_of(d, g);
    return (why & (FL_DELIVERY_CONFIG | FL_DELIVERY_VERDICTS)) != 0 || m->revision == NULL ||
           now == NULL || !made->whole || (made->unjudged && is_pushed(d, g)) ||
           members_of(m, now) != made->members;
}

/* It is made with what no push waits for; and not at all for verdicts, which are for sidecars. */
static bool can_wait(struct fl_delivery *d, struct fl_group *g, unsigned why)
{
    if (redefines(why) || is_pushed(d, g) || fl_fanout_state(d->fanout, key_of(g)) == NULL) {
        return false;
    }
    made_of(d, g)->unjudged |= (why & FL_DELIVERY_VERDICTS) != 0;
    return true;
}

static void compose(struct fl_delivery *d, const struct fl_membership *m, struct round *r,
                    uint32_t at)
{
    struct fl_findings f;
    struct fl_made *made = made_of(d, r->groups[at]);
    fl_findings_init(&f, "");
    fl_state_free(r->states[at]);
    struct fl_state *s = fl_compose_state(d->config, m, overlay_of(r->groups[at]), &d->verdicts,
                                          fl_reactor_now_ms(d->conf.reactor), &f);
    r->states[at] = s;
    r->good = r->good && s != NULL;
    made->whole = s != NULL;
    made->unjudged = false;
    made->members = s != NULL ? members_of(m, s) : 0;
    say_missing(d, &f, &made->said);
    fl_findings_done(&f);
}

/* True: some were made, or should have been. */
static bool compose_due(struct fl_delivery *d, const struct fl_membership *m, struct round *r,
                        unsigned why)
{
    bool some = false;
    for (uint32_t i = 0; i < r->count; i++) {
        if (!is_due(d, m, r->groups[i], why)) {
            continue;
        }
        some = true;
        if (!can_wait(d, r->groups[i], why)) {
            compose(d, m, r, i);
        }
    }
    return some;
}

/* What is probed from now on: while we push, the peers of all states; else none. True: a verdict is
 * gone. */
static bool sync_probes(struct fl_delivery *d, const struct round *r)
{
    struct fl_probe_list list;
    bool fits = true, leads = fl_fanout_leads(d->fanout);
    fl_probe_list_init(&list);
    for (uint32_t i = 0; leads && fits && i < r->count; i++) {
        const struct fl_state *s = r->states[i];
        if (s == NULL) {
            s = fl_fanout_state(d->fanout, key_of(r->groups[i]));
        }
        fits = s == NULL || fl_probe_list_add(&list, d->config, overlay_of(r->groups[i]), s);
    }
    bool gone = fits && fl_cluster_prober_sync(d->prober, &list);
    fl_probe_list_done(&list);
    if (!fits) {
        say(d, FL_LOG_ERROR, "probes stay as they were", "out of memory");
    }
    return gone;
}

static void look_at_backends(struct fl_delivery *d)
{
    struct fl_delivery_backend one;
    size_t at = 0;
    if (!fl_fanout_leads(d->fanout)) {
        fl_backend_notice_clear(&d->notice);
        return;
    }
    fl_backend_notice_begin(&d->notice);
    while (fl_delivery_next(d, &at, &one)) {
        fl_backend_notice_look(&d->notice, &d->verdicts, one.subject, one.b,
                               fl_reactor_now_ms(d->conf.reactor));
    }
    fl_backend_notice_end(&d->notice);
}

static void offer_all(struct fl_delivery *d, struct round *r, bool at_once)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->states[i] != NULL) {
            fl_fanout_offer(d->fanout, key_of(r->groups[i]), r->states[i], at_once);
            r->states[i] = NULL;
        }
    }
    if (!r->good) {
        say(d, FL_LOG_ERROR, "states not made, the last ones stay", "out of memory");
    }
}

/* False: all is as it was. */
static bool make_states(struct fl_delivery *d, const struct fl_membership *m, unsigned why)
{
    struct round r;
    if (!begin_round(d, &r)) {
        say(d, FL_LOG_ERROR, "states not made, the last ones stay", "out of memory");
        return true;
    }
    bool some = compose_due(d, m, &r, why);
    if (redefines(why) && sync_probes(d, &r)) {
        r.good = true;
        (void)compose_due(d, m, &r, FL_DELIVERY_CONFIG); /* some were of another definition */
    }
    offer_all(d, &r, (why & FL_DELIVERY_CONFIG) != 0);
    end_round(&r);
    return some || redefines(why);
}

/* ---- what no push waits for ---- */

static void tell_all(struct fl_delivery *d)
{
    look_at_backends(d);
    if (d->conf.composed != NULL) {
        d->conf.composed(d->conf.arg);
    }
}

static void make_unpushed(struct fl_delivery *d, struct round *r)
{
    struct fl_delivery_source s;
    d->conf.source(d->conf.arg, &s);
    if (s.known && is_due(d, &s.membership, NULL, FL_DELIVERY_MEMBERS)) {
        compose(d, &s.membership, r, 0);
        offer_all(d, r, false);
        fl_delivery_show_anew(d);
    }
}

/* Other members are the only reason, so that the verdicts that go are of peers which are in no
 * state any more. */
static void make_rest(struct fl_delivery *d)
{
    struct round r;
    fl_timer_off(&d->rest);
    if (begin_round(d, &r)) {
        make_unpushed(d, &r);
        (void)sync_probes(d, &r);
        end_round(&r);
    } else {
        say(d, FL_LOG_ERROR, "probes stay as they were", "out of memory");
    }
    tell_all(d);
}

void fl_delivery_catch_up(struct fl_delivery *d)
{
    if (d->rest.at_ms != INT64_MAX) {
        make_rest(d);
    }
}

static void on_rest(struct fl_timer *t)
{
    struct fl_delivery *d = fl_container_of(t, struct fl_delivery, rest);
    int64_t now_ms = fl_reactor_now_ms(d->conf.reactor);
    if (now_ms < d->rest_by_ms && fl_fanout_hurries(d->fanout)) {
        fl_timer_set(d->conf.reactor, &d->rest, now_ms + REST_MS);
    } else {
        make_rest(d);
    }
}

static void leave_rest(struct fl_delivery *d)
{
    int64_t now_ms = fl_reactor_now_ms(d->conf.reactor);
    if (d->rest.at_ms == INT64_MAX) {
        d->rest_by_ms = now_ms + REST_PUT_OFF_MS;
        fl_timer_set(d->conf.reactor, &d->rest, now_ms + REST_MS);
    }
}

/* ---- looking ---- */

void fl_delivery_look(struct fl_delivery *d, unsigned why)
{
    struct fl_delivery_source s;
    d->conf.source(d->conf.arg, &s);
    if (!s.known) {
        return;
    }
    if ((why & FL_DELIVERY_VERDICTS) != 0) {
        fl_timer_off(&d->again);
    }
    if (s.pods != NULL && (why & (FL_DELIVERY_PODS | FL_DELIVERY_CONFIG)) != 0 &&
        fl_delivery_regroup(d, s.pods, (why & FL_DELIVERY_CONFIG) != 0)) {
        why |= FL_DELIVERY_PROBES;
    }
    if (!make_states(d, &s.membership, why)) {
        return;
    }
    fl_delivery_show_anew(d);
    if (redefines(why)) {
        fl_timer_off(&d->rest);
    }
    if (redefines(why) || why == FL_DELIVERY_VERDICTS) {
        tell_all(d);
    } else {
        leave_rest(d);
    }
}

/* ---- probes ---- */

static void on_again(struct fl_timer *t)
{
    struct fl_delivery *d = fl_container_of(t, struct fl_delivery, again);
    int64_t now_ms = fl_reactor_now_ms(d->conf.reactor);
    if (now_ms < d->again_by_ms && fl_fanout_hurries(d->fanout)) {
        fl_timer_set(d->conf.reactor, &d->again, now_ms + PUT_OFF_MS);
        return;
    }
    fl_delivery_look(d, FL_DELIVERY_VERDICTS);
}

static void on_again_now(struct fl_task *t)
{
    fl_delivery_look(fl_container_of(t, struct fl_delivery, again_now), FL_DELIVERY_VERDICTS);
}

static void on_probed(void *arg, enum fl_probe_news news)
{
    struct fl_delivery *d = arg;
    int64_t wait_ms = CHANGED_MS, put_off_ms = CHANGED_PUT_OFF_MS;
    if (news == FL_PROBE_NEWS_BLOCKS || (d->conf.hurry != NULL && d->conf.hurry(d->conf.arg))) {
        fl_reactor_later(d->conf.reactor, &d->again_now);
        return;
    }
    if (news == FL_PROBE_NEWS_AGE) {
        int64_t most_ms = d->config->probe_defaults.interval_ms / 4;
        wait_ms = most_ms < AGED_MS ? most_ms : AGED_MS;
        put_off_ms = AGED_PUT_OFF_MS;
    }
    int64_t at_ms = fl_reactor_now_ms(d->conf.reactor) + wait_ms;
    if (d->again.at_ms == INT64_MAX || at_ms + put_off_ms < d->again_by_ms) {
        d->again_by_ms = at_ms + put_off_ms;
    }
    if (at_ms < d->again.at_ms) {
        fl_timer_set(d->conf.reactor, &d->again, at_ms);
    }
}

static void on_tls_changed(void *arg)
{
    fl_delivery_look(arg, FL_DELIVERY_PROBES); /* the definitions are the same: no verdict goes */
}

/* ---- leading ---- */

void fl_delivery_lead(struct fl_delivery *d, int64_t epoch)
{
    struct fl_delivery_source s;
    bool led = fl_fanout_leads(d->fanout);
    fl_fanout_lead(d->fanout, epoch);
    fl_delivery_look(d, FL_DELIVERY_PROBES);
    d->conf.source(d->conf.arg, &s);
    if (!led && fl_fanout_leads(d->fanout) && s.pods != NULL) {
        fl_delivery_tell_wrong(d, s.pods);
    }
}

void fl_delivery_follow(struct fl_delivery *d)
{
    fl_fanout_follow(d->fanout);
    fl_delivery_look(d, FL_DELIVERY_PROBES);
}

/* ---- life ---- */

void fl_delivery_configure(struct fl_delivery *d, const struct fl_controller_config *c,
                           struct fl_sign_key **key)
{
    d->config = c;
    if (fl_fanout_configure(d->fanout, c) < 0) {
        say(d, FL_LOG_ERROR, "some sidecars are not pushed to", "out of memory");
    }
    fl_fanout_set_key(d->fanout, key); /* after the interval, which counts for it */
    fl_delivery_look(d, FL_DELIVERY_CONFIG);
}

static int open_parts(struct fl_delivery *d)
{
    const struct fl_delivery_conf *c = &d->conf;
    const struct fl_fanout_conf fanout = {
        .reactor = c->reactor,
        .log = c->log,
        .elected = c->elected,
        .epoch = c->epoch,
        .seed = c->seed,
        .epoch_met = c->epoch_met,
        .news = c->sidecar_news,
        .arg = c->arg,
    };
    const struct fl_cluster_prober_conf prober = {c->reactor, c->log,         c->seed, &d->verdicts,
                                                  on_probed,  on_tls_changed, d};
    int rc = fl_fanout_new(&fanout, &d->fanout);
    return rc < 0 ? rc : fl_cluster_prober_new(&prober, &d->prober);
}

int fl_delivery_new(const struct fl_delivery_conf *conf, struct fl_delivery **ret)
{
    struct fl_delivery *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return -ENOMEM;
    }
    d->conf = *conf;
    fl_verdict_table_init(&d->verdicts, conf->seed);
    fl_smap_init(&d->by_key, conf->seed);
    fl_list_init(&d->groups);
    fl_timer_init(&d->again, on_again);
    fl_timer_init(&d->rest, on_rest);
    fl_task_init(&d->again_now, on_again_now);
    fl_backend_notice_init(&d->notice, conf->log, conf->backend_news, conf->arg);
    int rc = open_parts(d);
    if (rc < 0) {
        fl_delivery_free(d);
        return rc;
    }
    *ret = d;
    return 0;
}

struct fl_delivery *fl_delivery_free(struct fl_delivery *d)
{
    if (d == NULL) {
        return NULL;
    }
    fl_cluster_prober_free(d->prober);
    fl_fanout_free(d->fanout);
    fl_backend_notice_done(&d->notice);
    fl_timer_remove(d->conf.reactor, &d->again);
    fl_timer_remove(d->conf.reactor, &d->rest);
    fl_list_remove(&d->again_now.node);
    fl_delivery_drop_groups(d);
    fl_smap_done(&d->by_key);
    free(d->shown);
    fl_verdict_table_done(&d->verdicts);
    free(d);
    return NULL;
}

/* ---- what the pages show ---- */

struct fl_fanout *fl_delivery_fanout(const struct fl_delivery *d)
{
    return d->fanout;
}

const struct fl_verdict_table *fl_delivery_verdicts(const struct fl_delivery *d)
{
    return &d->verdicts;
}

struct fl_cluster_prober *fl_delivery_prober(const struct fl_delivery *d)
{
    return d->prober;
}
