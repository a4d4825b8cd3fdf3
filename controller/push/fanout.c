#include "controller/push/fanout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "controller/push/fanout_inner.h"

#define ANSWER_MAX_BYTES ((size_t)1 << 20)
#define DAY_S            86400
#define TEACH_LOOK_MS    250
#define KEEP_MS          4000 /* a sidecar closes a connection that rests for 5 s */

/* ---- one push ---- */

static void tell(struct fl_fanout *f, struct fl_sidecar *s, enum fl_push_lesson lesson, bool good)
{
    bool recovered = good && s->told;
    if (!recovered && lesson != FL_PUSH_UNREACHABLE) {
        return;
    }
    s->told = !recovered;
    if (f->conf.news != NULL) {
        struct fl_fanout_view view;
        fl_fanout_fill_view(s, &view);
        f->conf.news(f->conf.arg, recovered ? FL_FANOUT_RECOVERED : FL_FANOUT_UNREACHABLE, &view);
    }
}

static void tell_epoch(struct fl_fanout *f, int64_t higher)
{
    if (higher > f->told_epoch) {
        f->told_epoch = higher;
        if (f->conf.epoch_met != NULL) {
            f->conf.epoch_met(f->conf.arg, higher);
        }
    }
}

/* What is told to others comes last: they may call back. */
static void ended(struct fl_sidecar *s, const struct fl_push_judgement *j)
{
    struct fl_fanout *f = s->owner;
    int64_t now_ms = fl_fanout_now_ms(f);
    int64_t sent_epoch = s->edition != NULL ? s->edition->epoch : 0;
    bool good = j->report.result == FL_PUSH_OK;
    f->totals[j->report.result]++;
    if (good) {
        s->acked_epoch = s->edition->epoch;
        s->acked_seq = s->edition->seq;
        s->acked_unix_ms = fl_reactor_wall_ms(f->conf.reactor);
        s->signer = s->edition->teaches > 0 ? s->edition->teaches : s->signer;
    }
    fl_edition_give(&s->edition);
    enum fl_push_lesson lesson = fl_push_plan_settle(&f->plan, &s->target, &j->report, now_ms);
    fl_fanout_say(f->conf.log, s, j, lesson, sent_epoch, now_ms);
    tell(f, s, lesson, good);
    tell_epoch(f, f->plan.met_epoch);
}

static void on_reply(void *arg, const struct fl_push_reply *a)
{
    struct fl_sidecar *s = arg;
    struct fl_fanout *f = s->owner;
    struct fl_push_judgement j;
    fl_push_job_give(&s->job);
    fl_push_judge(a, s->address, s->edition->hash, &j);
    if (j.report.result == FL_PUSH_OK) { /* what was observed stays while a sidecar is away */
        fl_fanout_keep_answer(s, a->fault == FL_PUSH_FAULT_NONE ? a->body : (struct fl_span){0});
    }
    if (a->status == 401) { /* it does not know this key: perhaps one of before */
        s->signer = fl_key_ring_older(&f->ring, s->signer);
    }
    if (f->count > f->keep_most) {
        fl_push_line_close(&s->line);
    }
    ended(s, &j);
    fl_fanout_drive_later(f);
}

static void not_started(struct fl_sidecar *s, int rc)
{
    struct fl_push_judgement j = {.report.result = FL_PUSH_FAILED, .hint = ""};
    fl_push_job_give(&s->job);
    fl_cause_set(&j.cause, fl_cause_errno_code(-rc), "push to %s could not be started (%s)",
                 s->address, fl_cause_errno_text(-rc));
    ended(s, &j);
    fl_fanout_drive_later(s->owner);
}

static void on_signed(void *arg, int rc)
{
    struct fl_sidecar *s = arg;
    struct fl_fanout *f = s->owner;
    if (rc == 0 && s->line == NULL) {
        rc = fl_push_line_open(f->lines, s->address, on_reply, s, &s->line);
    }
    if (rc == 0) {
        const struct fl_push_request rq = {fl_push_job_text(s->job), s->edition->body,
                                           f->timeout_ms, ANSWER_MAX_BYTES};
        rc = fl_push_line_send(s->line, &rq);
    }
    if (rc < 0) {
        not_started(s, rc);
    }
}

static void send_newest(struct fl_fanout *f, struct fl_sidecar *s)
{
    struct fl_edition *e = fl_fanout_edition(f, s->configuration);
    int rc = -ENOMEM;
    if (e != NULL) {
        const struct fl_push_head head = {s->address, s->id, e->digest, e->body.len,
                                          fl_reactor_wall_ms(f->conf.reactor) / 1000};
        s->edition = fl_edition_take(e);
        rc = fl_push_signer_ask(f->signer, fl_key_ring_get(&f->ring, s->signer), &head, on_signed,
                                s, &s->job);
    }
    if (rc < 0) {
        not_started(s, rc);
    }
}

void fl_fanout_break_off(struct fl_sidecar *s)
{
    fl_push_job_give(&s->job);
    if (fl_push_line_busy(s->line)) {
        fl_push_line_close(&s->line);
    }
    fl_edition_give(&s->edition);
}

/* ---- a new key ---- */

static void publish_all(struct fl_fanout *f)
{
    fl_list_each (it, &f->plan.groups) {
        struct fl_push_group *g = fl_container_of(it, struct fl_push_group, node);
        if (g->stated) {
            fl_push_plan_changed(&f->plan, g, true, fl_fanout_now_ms(f));
        }
    }
}

static void say_key(const struct fl_fanout *f, const char *msg)
{
    struct fl_log_line l;
    fl_log_begin(f->conf.log, &l, FL_LOG_INFO, msg);
    fl_log_text(&l, "keyid", fl_fanout_keyid(f));
    fl_log_end(f->conf.log, &l);
}

static bool all_reached_know(const struct fl_fanout *f)
{
    uint64_t newest = fl_key_ring_newest(&f->ring);
    for (uint32_t i = 0; i < f->count; i++) {
        const struct fl_sidecar *s = f->sidecars[i];
        if (s->target.failures == 0 && s->signer != newest) {
            return false;
        }
    }
    return true;
}

static void look_at_teaching(struct fl_fanout *f)
{
    int64_t now_ms = fl_fanout_now_ms(f);
    if (now_ms < f->teach_look_ms) {
        return;
    }
    if (now_ms < f->teach_until_ms && (!fl_fanout_leads(f) || !all_reached_know(f))) {
        f->teach_look_ms = now_ms + TEACH_LOOK_MS;
        return;
    }
    f->teach_look_ms = INT64_MAX;
    fl_key_ring_end_teaching(&f->ring);
    say_key(f, "the signing key was replaced, the one before is withdrawn");
    publish_all(f);
}

void fl_fanout_set_key(struct fl_fanout *f, struct fl_sign_key **key)
{
    if (*key == NULL) {
        return;
    }
    int rc = fl_key_ring_add(&f->ring, key);
    for (uint32_t i = 0; i < f->count && rc == 0; i++) { /* from before there was any */
        struct fl_sidecar *s = f->sidecars[i];
        s->signer = s->signer > 0 ? s->signer : fl_key_ring_newest(&f->ring);
    }
    if (rc < 0) {
        say_key(f, "out of memory, the signing key stays as it was");
    }
    if (rc > 0) {
        say_key(f, "sidecars are told of another signing key");
        f->teach_look_ms = fl_fanout_now_ms(f) + TEACH_LOOK_MS;
        f->teach_until_ms = fl_fanout_now_ms(f) + 3 * f->plan.interval_ms;
        publish_all(f);
    }
    fl_fanout_drive_later(f);
}

const char *fl_fanout_keyid(const struct fl_fanout *f)
{
    const struct fl_sign_key *k = fl_key_ring_get(&f->ring, fl_key_ring_newest(&f->ring));
    return k != NULL ? fl_sign_key_id(k) : "";
}

/* ---- the pace ---- */

/* Connections are kept for a burst of changes, and dropped together before sidecars close theirs.
 */
static void drop_connections(struct fl_fanout *f)
{
    if (fl_fanout_now_ms(f) < f->drop_kept_ms) {
        return;
    }
    f->drop_kept_ms = INT64_MAX;
    for (uint32_t i = 0; i < f->count; i++) {
        if (!fl_push_line_busy(f->sidecars[i]->line)) {
            fl_push_line_close(&f->sidecars[i]->line);
        }
    }
}

static void drive(struct fl_fanout *f)
{
    struct fl_push_target *t;
    drop_connections(f);
    look_at_teaching(f);
    fl_push_plan_run(&f->plan, fl_fanout_now_ms(f));
    while (f->ring.count > 0 && (t = fl_push_plan_take(&f->plan)) != NULL) {
        if (f->drop_kept_ms == INT64_MAX) {
            f->drop_kept_ms = fl_fanout_now_ms(f) + KEEP_MS;
        }
        send_newest(f, fl_container_of(t, struct fl_sidecar, target));
    }
    int64_t next_ms = fl_push_plan_next_ms(&f->plan);
    next_ms = f->teach_look_ms < next_ms ? f->teach_look_ms : next_ms;
    next_ms = f->drop_kept_ms < next_ms ? f->drop_kept_ms : next_ms;
    if (next_ms == INT64_MAX) {
        fl_timer_off(&f->timer);
    } else {
        fl_timer_set(f->conf.reactor, &f->timer, next_ms);
    }
}

static void on_timer(struct fl_timer *t)
{
    drive(fl_container_of(t, struct fl_fanout, timer));
}

static void on_turn_end(struct fl_task *t)
{
    drive(fl_container_of(t, struct fl_fanout, turn_end));
}

void fl_fanout_drive_later(struct fl_fanout *f)
{
    fl_reactor_later(f->conf.reactor, &f->turn_end);
}

/* A backend that is probed more often than the others sets the pace: its verdicts expire after
 * three of its own intervals. */
static int64_t refresh_ms(const struct fl_controller_config *c)
{
    int64_t least_ms = c->probe_defaults.interval_ms;
    for (uint32_t i = 0; i < c->cluster->backend_count; i++) {
        const struct fl_probe_conf *q = &c->cluster->backends[i].probe;
        if (q->type != FL_PROBE_NONE && q->interval_ms < least_ms) {
            least_ms = q->interval_ms;
        }
    }
    return least_ms;
}

static int take_list(struct fl_fanout *f, const struct fl_controller_config *c)
{
    struct fl_fanout_target *list = calloc((size_t)c->sidecar_count + 1, sizeof(*list));
    if (list == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < c->sidecar_count; i++) {
        list[i] = (struct fl_fanout_target){.address = c->sidecars[i].address,
                                            .id = c->sidecars[i].id,
                                            .namespace = "",
                                            .name = "",
                                            .node = "",
                                            .configuration = ""};
    }
    int rc = fl_fanout_set_targets(f, list, c->sidecar_count);
    free(list);
    return rc;
}

int fl_fanout_configure(struct fl_fanout *f, const struct fl_controller_config *c)
{
    f->plan.settle_ms = c->push.settle_ms;
    f->plan.concurrency = c->push.concurrency;
    f->timeout_ms = c->push.timeout_ms;
    fl_push_plan_set_interval(&f->plan, refresh_ms(c), fl_fanout_now_ms(f));
    if (!f->conf.elected && c->source_file[0] != '\0') {
        return take_list(f, c);
    }
    fl_fanout_drive_later(f);
    return 0;
}

/* ---- leadership ---- */

void fl_fanout_lead(struct fl_fanout *f, int64_t epoch)
{
    int64_t clock = fl_reactor_wall_ms(f->conf.reactor) / 1000 + DAY_S;
    /* a Lease counts in 32 bits, and a controller without election takes the time for its epoch */
    f->plan.epoch_max = clock < INT32_MAX ? clock : INT32_MAX;
    if (!fl_push_plan_lead(&f->plan, epoch, fl_fanout_now_ms(f))) {
        fl_reactor_later(f->conf.reactor, &f->met);
        return;
    }
    f->told_epoch = epoch;
    fl_fanout_drive_later(f);
}

void fl_fanout_follow(struct fl_fanout *f)
{
    fl_push_plan_follow(&f->plan);
    for (uint32_t i = 0; i < f->count; i++) {
        fl_fanout_break_off(f->sidecars[i]);
    }
    fl_fanout_drive_later(f);
}

bool fl_fanout_leads(const struct fl_fanout *f)
{
    return f->plan.mode != FL_PUSH_FOLLOWS;
}

bool fl_fanout_hurries(const struct fl_fanout *f)
{
    return !fl_list_empty(&f->plan.queues[FL_PUSH_QUEUE_CHANGE]);
}

int64_t fl_fanout_epoch(const struct fl_fanout *f)
{
    return f->plan.epoch;
}

/* ---- tasks ---- */

static void on_forget(struct fl_task *t)
{
    fl_fanout_forget_looked(fl_container_of(t, struct fl_fanout, forget));
}

static void on_met(struct fl_task *t)
{
    struct fl_fanout *f = fl_container_of(t, struct fl_fanout, met);
    f->told_epoch = 0;
    tell_epoch(f, f->plan.epoch);
}

/* ---- life ---- */

int fl_fanout_new(const struct fl_fanout_conf *conf, struct fl_fanout **ret)
{
    struct fl_fanout *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return -ENOMEM;
    }
    f->conf = *conf;
    f->timeout_ms = 5000;
    f->teach_look_ms = f->drop_kept_ms = INT64_MAX;
    fl_push_plan_init(&f->plan, conf->elected ? 0 : conf->epoch, conf->seed);
    fl_timer_init(&f->timer, on_timer);
    fl_task_init(&f->met, on_met);
    fl_task_init(&f->turn_end, on_turn_end);
    fl_task_init(&f->forget, on_forget);
    fl_list_init(&f->looked);
    fl_smap_init(&f->configurations, conf->seed);
    fl_smap_init(&f->by_key, conf->seed);
    f->plain = fl_fanout_take_configuration(f, "");
    int rc = f->plain != NULL ? fl_push_lines_new(conf->reactor, &f->lines) : -ENOMEM;
    rc = rc == 0 ? fl_push_signer_new(conf->reactor, &f->signer) : rc;
    if (rc < 0) {
        fl_push_lines_free(f->lines);
        fl_fanout_free_configurations(f);
        free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

struct fl_fanout *fl_fanout_free(struct fl_fanout *f)
{
    if (f != NULL) {
        fl_fanout_free_targets(f);
        fl_fanout_free_configurations(f);
        fl_timer_remove(f->conf.reactor, &f->timer);
        fl_list_remove(&f->met.node);
        fl_list_remove(&f->turn_end.node);
        fl_list_remove(&f->forget.node);
        fl_push_signer_free(f->signer);
        fl_push_lines_free(f->lines);
        fl_key_ring_done(&f->ring);
        free(f);
    }
    return NULL;
}

uint64_t fl_fanout_total(const struct fl_fanout *f, enum fl_push_result r)
{
    FL_MUST((unsigned)r < FL_PUSH_RESULT_COUNT);
    return f->totals[r];
}
