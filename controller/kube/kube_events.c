#include "controller/kube/kube_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "controller/codec/event_json.h"
#include "controller/decide/event_series.h"
#include "controller/kube/api_path.h"

#define PREFIX         "/apis/events.k8s.io/v1"
#define TIMEOUT_MS     10000
#define PATH_MAX_BYTES 1536

struct flight {
    struct fl_kube_events *events;
    struct fl_event_entry *entry; /* NULL: free */
    struct fl_kube_call *call;
    bool patch;
};

struct fl_kube_events {
    struct fl_kube *kube;
    struct fl_reactor *reactor;
    const struct fl_log *log;
    char instance[FL_EVENT_INSTANCE_MAX + 1];
    struct fl_event_series *series;
    struct flight flights[FL_EVENT_FLYING_MAX];
    struct fl_timer timer;
    bool failing; /* said once, until one is written again */
    char body[FL_EVENT_JSON_MAX];
};

static const struct {
    const char *token, *type;
} reasons[] = {
#define NORMAL             "Normal"
#define WARNING            "Warning"
#define X(id, token, type) {token, type},
    FL_EVENT_REASONS(X)
#undef X
};

/* --- what became of a write --- */

static void fails(struct fl_kube_events *e, const struct flight *f, const char *text, int status)
{
    struct fl_log_line l;
    if (e->failing) {
        return;
    }
    e->failing = true;
    fl_log_begin(e->log, &l, FL_LOG_WARN, "an event cannot be written");
    fl_log_text(&l, "verb", f->patch ? "patch" : "create");
    fl_log_int(&l, "status", status);
    fl_log_text(&l, "cause", text);
    fl_log_end(e->log, &l);
}

static void works(struct fl_kube_events *e)
{
    struct fl_log_line l;
    if (e->failing) {
        e->failing = false;
        fl_log_begin(e->log, &l, FL_LOG_INFO, "events are written again");
        fl_log_int(&l, "lost", (int64_t)fl_event_series_totals(e->series).lost);
        fl_log_end(e->log, &l);
    }
}

static enum fl_event_result result_of(const struct fl_kube_answer *a)
{
    if (a->fault != FL_CURL_NONE || a->status == 429 || a->status >= 500 || a->status == 401) {
        return FL_EVENT_TRY_AGAIN;
    }
    if (a->status >= 200 && a->status < 300) {
        return FL_EVENT_WRITTEN;
    }
    return a->status == 404 ? FL_EVENT_GONE : a->status == 409 ? FL_EVENT_EXISTS : FL_EVENT_REFUSED;
}

static void plan(struct fl_kube_events *e)
{
    int64_t at = fl_event_series_next_ms(e->series);
    if (at == INT64_MAX) {
        fl_timer_off(&e->timer);
    } else {
        fl_timer_set(e->reactor, &e->timer, at);
    }
}

static void on_answer(void *arg, const struct fl_kube_answer *a)
{
    struct flight *f = arg;
    struct fl_kube_events *e = f->events;
    enum fl_event_result result = result_of(a);
    bool forgotten = f->patch && result == FL_EVENT_GONE; /* usual, after an hour */
    if (result == FL_EVENT_WRITTEN) {
        works(e);
    } else if (!forgotten && result != FL_EVENT_EXISTS) {
        fails(e, f, a->text != NULL ? a->text : "", a->status);
    }
    fl_event_series_settle(e->series, f->entry, result, fl_reactor_now_ms(e->reactor));
    f->entry = NULL;
    f->call = NULL;
    plan(e);
}

/* --- writes --- */

static int start(struct flight *f, const struct fl_event_write *w)
{
    struct fl_kube_events *e = f->events;
    char path[PATH_MAX_BYTES];
    struct fl_fmt to = fl_fmt_of(path, sizeof(path)), body = fl_fmt_of(e->body, sizeof(e->body));
    fl_api_path(&to, PREFIX, fl_event_json_namespace(w), "events", w->patch ? w->event_name : NULL);
    if (w->patch) {
        fl_event_json_patch(w, &body);
    } else {
        fl_event_json_new(w, e->instance, &body);
    }
    FL_MUST(!body.cut && !to.cut);
    const struct fl_kube_request q = {.verb = w->patch ? "patch" : "create",
                                      .resource = "events",
                                      .method = w->patch ? "PATCH" : "POST",
                                      .path = path,
                                      .content_type = w->patch ? "application/merge-patch+json"
                                                               : "application/json",
                                      .body = {e->body, body.len},
                                      .timeout_ms = TIMEOUT_MS,
                                      .done = on_answer,
                                      .arg = f};
    return fl_kube_start(e->kube, &q, &f->call);
}

static struct flight *free_flight(struct fl_kube_events *e)
{
    for (int i = 0; i < FL_EVENT_FLYING_MAX; i++) {
        if (e->flights[i].entry == NULL) {
            return &e->flights[i];
        }
    }
    FL_IMPOSSIBLE("the series give no more than there is room for");
}

static void on_timer(struct fl_timer *t)
{
    struct fl_kube_events *e = fl_container_of(t, struct fl_kube_events, timer);
    int64_t now = fl_reactor_now_ms(e->reactor);
    struct fl_event_write w;
    while (fl_event_series_take(e->series, now, &w)) {
        struct flight *f = free_flight(e);
        f->entry = w.entry;
        f->patch = w.patch;
        int rc = start(f, &w);
        if (rc != 0) {
            f->entry = NULL;
            fails(e, f, fl_cause_errno_text(-rc), 0);
            fl_event_series_settle(e->series, w.entry, FL_EVENT_TRY_AGAIN, now);
        }
    }
    plan(e);
}

/* --- from outside --- */

/* Names of Events come from it: another one in each process. */
static uint64_t seed_of(const struct fl_reactor *r, const char *instance)
{
    uint64_t seed = (uint64_t)fl_reactor_wall_ms(r) ^ (uint64_t)fl_reactor_now_us(r) << 32;
    for (; *instance != '\0'; instance++) {
        seed = (seed ^ (unsigned char)*instance) * 0x100000001b3u; /* FNV-1a */
    }
    return seed;
}

int fl_kube_events_new(struct fl_kube *kube, struct fl_reactor *r, const struct fl_log *log,
                       const char *instance, struct fl_kube_events **ret)
{
    struct fl_kube_events *e = instance[0] != '\0' ? calloc(1, sizeof(*e)) : NULL;
    if (e == NULL) {
        return instance[0] != '\0' ? -ENOMEM : -EINVAL;
    }
    e->series = fl_event_series_new(seed_of(r, instance));
    if (e->series == NULL) {
        free(e);
        return -ENOMEM;
    }
    struct fl_span cut = fl_span_first(fl_span_of(instance), FL_EVENT_INSTANCE_MAX);
    memcpy(e->instance, cut.ptr, cut.len);
    e->kube = kube;
    e->reactor = r;
    e->log = log;
    for (int i = 0; i < FL_EVENT_FLYING_MAX; i++) {
        e->flights[i].events = e;
    }
    fl_timer_init(&e->timer, on_timer);
    *ret = e;
    return 0;
}

struct fl_kube_events *fl_kube_events_free(struct fl_kube_events *e)
{
    if (e != NULL) {
        for (int i = 0; i < FL_EVENT_FLYING_MAX; i++) {
            fl_kube_cancel(&e->flights[i].call);
        }
        fl_timer_remove(e->reactor, &e->timer);
        e->series = fl_event_series_free(e->series);
        free(e);
    }
    return NULL;
}

static const char *given(const char *text)
{
    return text != NULL ? text : "";
}

void fl_kube_events_say(struct fl_kube_events *e, enum fl_event_reason reason,
                        const struct fl_event_about *about, const char *action, const char *note)
{
    FL_MUST((unsigned)reason < FL_EVENT_REASON_COUNT);
    const struct fl_event_facts f = {.api_version = given(about->api_version),
                                     .kind = given(about->kind),
                                     .namespace = given(about->namespace),
                                     .name = given(about->name),
                                     .uid = given(about->uid),
                                     .type = reasons[reason].type,
                                     .reason = reasons[reason].token,
                                     .action = given(action),
                                     .note = given(note)};
    (void)fl_event_series_say(e->series, &f, fl_reactor_now_ms(e->reactor),
                              fl_reactor_wall_ms(e->reactor) * 1000);
    plan(e);
}

struct fl_kube_events_totals fl_kube_events_totals(const struct fl_kube_events *e)
{
    struct fl_event_totals t = fl_event_series_totals(e->series);
    return (struct fl_kube_events_totals){.written = t.written, .folded = t.folded, .lost = t.lost};
}
