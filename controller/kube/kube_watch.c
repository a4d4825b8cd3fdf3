#include "controller/kube/kube_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "controller/codec/kube_decode.h"
#include "controller/kube/watch_end.h"
#include "controller/kube/watch_request.h"

#define HEAD_MS        30000
#define GRACE_MS       30000
#define LIST_MS        120000 /* of a whole list (or a page) */
#define LIST_STALL_MS  60000
#define META_MAX_BYTES ((size_t)64 << 10) /* of an arena for an object's metadata */

struct fl_kube_watch {
    struct fl_kube_watch_conf conf;
    struct fl_arena arena; /* owns the texts of conf */
    struct fl_watch_plan plan;
    struct fl_timer timer; /* the end of a wait; of the patience for a head; of a first second */
    /* the request that runs */
    struct fl_kube_call *call;
    struct fl_kube_stream *stream;
    int64_t began_ms;
    uint64_t events;
    bool head_came;
    bool over;                     /* we end it, for what `ending` says */
    struct fl_watch_ending ending; /* how the last one ended, once it has */
    char *page;                    /* `continue` of the page before; NULL: the first */
    /* what is seen from outside */
    int64_t heard_ms, failing_since_ms;
    bool failing;
    struct fl_cause fault;
    uint64_t skipped;
};

static void go(struct fl_kube_watch *w);

static int64_t now_of(const struct fl_kube_watch *w)
{
    return fl_reactor_now_ms(w->conf.reactor);
}

static bool is_list(const struct fl_kube_watch *w)
{
    return w->plan.step == FL_WATCH_DO_LIST;
}

static bool in_initial_events(const struct fl_kube_watch *w)
{
    return w->plan.step == FL_WATCH_DO_STREAM && !w->plan.whole;
}

/* ---- works, fails ---- */

static void tell_state(const struct fl_kube_watch *w)
{
    if (w->conf.state != NULL) {
        w->conf.state(w->conf.arg);
    }
}

static void works(struct fl_kube_watch *w)
{
    struct fl_log_line l;
    if (!w->failing) {
        return;
    }
    w->failing = false;
    w->fault = (struct fl_cause){.code = ""};
    fl_log_begin(w->conf.log, &l, FL_LOG_INFO, "watching works again");
    fl_log_text(&l, "resource", w->conf.resource);
    fl_log_secs(&l, "after_secs", (now_of(w) - w->failing_since_ms) * 1000);
    fl_log_end(w->conf.log, &l);
    tell_state(w);
}

static void fails(struct fl_kube_watch *w, bool listed)
{
    struct fl_log_line l;
    struct fl_cause cause;
    fl_watch_ending_cause(&w->ending, listed ? "list" : "watch", w->conf.resource, &cause);
    bool news = !w->failing || strcmp(cause.code, w->fault.code) != 0;
    bool began = !w->failing;
    w->failing_since_ms = began ? now_of(w) : w->failing_since_ms;
    w->failing = true;
    w->fault = cause;
    fl_log_begin(w->conf.log, &l, news ? FL_LOG_WARN : FL_LOG_DEBUG,
                 w->plan.synced ? "watching fails, what is known stays" : "watching fails");
    fl_log_text(&l, "resource", w->conf.resource);
    fl_log_text(&l, "cause", cause.text);
    fl_log_text(&l, "code", cause.code);
    fl_log_secs(&l, "age_secs", (now_of(w) - w->heard_ms) * 1000);
    fl_log_end(w->conf.log, &l);
    if (began) {
        tell_state(w);
    }
}

/* ---- objects ---- */

/* Ends the request from within: what `ending` says counts, not how the call then ends. */
static bool stop(struct fl_kube_watch *w)
{
    w->over = true;
    return false;
}

static bool broken(struct fl_kube_watch *w, const char *text)
{
    fl_watch_ending_set(&w->ending, FL_WATCH_BROKEN, text);
    return stop(w);
}

static bool version_of(struct fl_span object, char ret[FL_WATCH_VERSION_MAX])
{
    struct fl_arena arena;
    struct fl_kube_meta meta;
    fl_arena_init(&arena, META_MAX_BYTES);
    bool good = fl_kube_decode_meta(object, &arena, &meta) == 0 &&
                fl_watch_plan_takes(meta.resource_version);
    if (good) {
        memcpy(ret, meta.resource_version, strlen(meta.resource_version) + 1);
    }
    fl_arena_done(&arena);
    return good;
}

static void hear_version(struct fl_kube_watch *w, struct fl_span object)
{
    char version[FL_WATCH_VERSION_MAX];
    if (version_of(object, version)) {
        fl_watch_plan_heard(&w->plan, version);
    }
}

static bool on_bookmark(struct fl_kube_watch *w, struct fl_span object)
{
    char version[FL_WATCH_VERSION_MAX];
    if (!in_initial_events(w)) {
        hear_version(w, object);
        works(w);
        return true;
    }
    if (!fl_kube_decode_is_initial_end(object)) {
        return true;
    }
    if (!version_of(object, version)) {
        return broken(w, "the end of the initial events has no version");
    }
    fl_watch_plan_listed(&w->plan, version, true);
    w->conf.synced(w->conf.arg);
    works(w);
    return true;
}

static bool on_object(void *arg, enum fl_kube_event event, struct fl_span object)
{
    struct fl_kube_watch *w = arg;
    if (event == FL_KUBE_ERROR) {
        return fl_watch_ending_of_event(object, &w->ending) ? stop(w)
                                                            : broken(w, "an ERROR without Status");
    }
    w->heard_ms = now_of(w);
    w->events++;
    switch (event) {
    case FL_KUBE_BOOKMARK:
        return on_bookmark(w, object);
    case FL_KUBE_UNKNOWN:
        w->skipped++;
        break;
    case FL_KUBE_ADDED:
    case FL_KUBE_MODIFIED:
    case FL_KUBE_DELETED:
        if (!w->conf.object(w->conf.arg, event, object)) {
            w->skipped++;
        }
        break;
    case FL_KUBE_ERROR:
        break;
    }
    if (!is_list(w) && !in_initial_events(w)) {
        hear_version(w, object);
        works(w);
    }
    return true;
}

/* ---- bytes ---- */

static void on_head(struct fl_kube_watch *w)
{
    w->head_came = true;
    if (w->plan.step == FL_WATCH_DO_WATCH) {
        w->heard_ms = now_of(w);
        if (w->failing) { /* when it outlives a second it works, though nobody says a word */
            fl_timer_set(w->conf.reactor, &w->timer, now_of(w) + FL_WATCH_SHORT_MS);
            return;
        }
    } else if (w->page == NULL) {
        w->conf.begin(w->conf.arg);
    }
    fl_timer_off(&w->timer);
}

static bool on_some(void *arg, struct fl_span bytes)
{
    struct fl_kube_watch *w = arg;
    if (!w->head_came) {
        on_head(w);
    }
    if (bytes.len == 0) {
        return true;
    }
    switch (fl_kube_stream_feed(w->stream, bytes)) {
    case 0:
        return true;
    case -ECANCELED: /* on_object has said why */
        return stop(w);
    case -EMSGSIZE:
        return broken(w, "an object is larger than 4 MiB");
    case -ENOMEM:
        fl_watch_ending_set(&w->ending, FL_WATCH_UNREACHABLE, "no memory");
        return stop(w);
    default:
        return broken(w, "what came is not what the API sends");
    }
}

/* ---- ends ---- */

static void forget_request(struct fl_kube_watch *w)
{
    fl_kube_cancel(&w->call);
    w->stream = fl_kube_stream_free(w->stream);
    fl_timer_off(&w->timer);
}

static void drop_page(struct fl_kube_watch *w)
{
    free(w->page);
    w->page = NULL;
}

/* What `ending` says is what the plan hears. */
static void settle(struct fl_kube_watch *w)
{
    bool listed = is_list(w), silent = !w->head_came;
    enum fl_watch_end how = w->ending.how;
    forget_request(w);
    drop_page(w);
    fl_watch_plan_ended(&w->plan, how, w->events, now_of(w) - w->began_ms, w->ending.retry_after_ms,
                        now_of(w));
    bool waits = w->plan.step == FL_WATCH_DO_WAIT;
    if (waits && how == FL_WATCH_CLOSED && w->events == 0) {
        fl_watch_ending_set(&w->ending, FL_WATCH_SHORT, "it ends at once, without an event");
    }
    if ((waits && w->ending.how != FL_WATCH_CLOSED) || (how == FL_WATCH_STALLED && silent)) {
        fails(w, listed);
    }
    go(w);
}

/* A list has come to its end in HTTP: is it one, and is there more of it? */
static void end_list(struct fl_kube_watch *w)
{
    const char *page = fl_kube_stream_continue(w->stream);
    const char *version = fl_kube_stream_version(w->stream);
    if (!fl_kube_stream_whole(w->stream) || !fl_watch_plan_takes(version)) {
        fl_watch_ending_set(&w->ending, FL_WATCH_BROKEN, "the list is not whole");
        settle(w);
        return;
    }
    if (page[0] != '\0') {
        char *next = strdup(page);
        if (next == NULL) {
            fl_watch_ending_set(&w->ending, FL_WATCH_UNREACHABLE, "no memory");
            settle(w);
            return;
        }
        drop_page(w);
        w->page = next;
        forget_request(w);
        go(w);
        return;
    }
    fl_watch_plan_listed(&w->plan, version, false);
    drop_page(w);
    forget_request(w);
    w->heard_ms = now_of(w);
    w->conf.synced(w->conf.arg);
    works(w);
    go(w);
}

static void on_done(void *arg, const struct fl_kube_answer *a)
{
    struct fl_kube_watch *w = arg;
    w->call = NULL;
    if (w->over) {
        settle(w);
    } else if (a->fault == FL_CURL_NONE && a->status / 100 == 2) {
        if (is_list(w)) {
            end_list(w);
            return;
        }
        bool clean = fl_kube_stream_whole(w->stream);
        fl_watch_ending_set(&w->ending, clean ? FL_WATCH_CLOSED : FL_WATCH_CUT,
                            clean ? "it ended" : "it ended in the middle of an event");
        settle(w);
    } else {
        fl_watch_ending_of_answer(a, w->head_came, &w->ending);
        settle(w);
    }
}

static void on_timer(struct fl_timer *t)
{
    struct fl_kube_watch *w = fl_container_of(t, struct fl_kube_watch, timer);
    if (w->plan.step == FL_WATCH_DO_WAIT) {
        fl_watch_plan_run(&w->plan, now_of(w));
        go(w);
    } else if (w->head_came) {
        works(w);
    } else {
        fl_watch_ending_set(&w->ending, FL_WATCH_STALLED, "the API server accepts, but is silent");
        settle(w);
    }
}

/* ---- steps ---- */

static int start(struct fl_kube_watch *w)
{
    const struct fl_kube_watch_limits *limits = &w->conf.limits;
    bool list = is_list(w);
    if (limits->timeout_s > 0) {
        w->plan.timeout_s = limits->timeout_s;
    }
    char *path =
        fl_watch_request(&w->plan, w->conf.path, w->conf.selector, w->page != NULL ? w->page : "");
    w->stream = fl_kube_stream_new(list ? FL_KUBE_LIST : FL_KUBE_WATCH, FL_KUBE_OBJECT_MAX_BYTES,
                                   on_object, w);
    if (path == NULL || w->stream == NULL) {
        free(path);
        return -ENOMEM;
    }
    const struct fl_kube_request q = {
        .verb = list ? "list" : "watch",
        .resource = w->conf.resource,
        .method = "GET",
        .path = path,
        .timeout_ms = list ? LIST_MS : w->plan.timeout_s * (int64_t)1000 + limits->grace_ms,
        .stall_ms = list ? LIST_STALL_MS : limits->stall_ms,
        .some = on_some,
        .done = on_done,
        .arg = w,
    };
    int rc = fl_kube_start(w->conf.kube, &q, &w->call);
    free(path);
    return rc;
}

static void go(struct fl_kube_watch *w)
{
    if (w->plan.step == FL_WATCH_DO_WAIT) {
        fl_timer_set(w->conf.reactor, &w->timer, w->plan.until_ms);
        return;
    }
    w->began_ms = now_of(w);
    w->events = 0;
    w->head_came = w->over = false;
    int rc = start(w);
    if (rc < 0) { /* it waits then, so this goes no deeper */
        fl_watch_ending_set(&w->ending, FL_WATCH_UNREACHABLE, fl_cause_errno_text(-rc));
        settle(w);
    } else if (!is_list(w)) {
        fl_timer_set(w->conf.reactor, &w->timer, w->began_ms + w->conf.limits.head_ms);
    }
}

/* ---- life ---- */

static bool keep_texts(struct fl_kube_watch *w)
{
    const char **texts[] = {&w->conf.resource, &w->conf.path, &w->conf.selector};
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        *texts[i] = fl_arena_text(&w->arena, fl_span_of(*texts[i]));
        if (*texts[i] == NULL) {
            return false;
        }
    }
    return true;
}

static void set_limits(struct fl_kube_watch_limits *l)
{
    l->head_ms = l->head_ms > 0 ? l->head_ms : HEAD_MS;
    l->stall_ms = l->stall_ms > 0 ? l->stall_ms : FL_WATCH_STALL_MS;
    l->grace_ms = l->grace_ms > 0 ? l->grace_ms : GRACE_MS;
}

int fl_kube_watch_new(const struct fl_kube_watch_conf *conf, struct fl_kube_watch **ret)
{
    FL_MUST(conf->begin != NULL && conf->object != NULL && conf->synced != NULL);
    struct fl_kube_watch *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        return -ENOMEM;
    }
    w->conf = *conf;
    fl_arena_init(&w->arena, META_MAX_BYTES);
    fl_timer_init(&w->timer, on_timer);
    set_limits(&w->conf.limits);
    if (!keep_texts(w)) {
        fl_kube_watch_free(w);
        return -ENOMEM;
    }
    fl_watch_plan_init(&w->plan, conf->seed);
    if (conf->limits.backoff_min_ms > 0) {
        w->plan.backoff_min_ms = conf->limits.backoff_min_ms;
    }
    w->heard_ms = now_of(w);
    w->conf.state = NULL; /* not before the caller has it */
    go(w);
    w->conf.state = conf->state;
    *ret = w;
    return 0;
}

struct fl_kube_watch *fl_kube_watch_free(struct fl_kube_watch *w)
{
    if (w != NULL) {
        forget_request(w);
        drop_page(w);
        fl_timer_remove(w->conf.reactor, &w->timer);
        fl_arena_done(&w->arena);
        free(w);
    }
    return NULL;
}

void fl_kube_watch_hurry(struct fl_kube_watch *w)
{
    if (w->plan.step == FL_WATCH_DO_WAIT) {
        fl_watch_plan_hurry(&w->plan, now_of(w));
        fl_timer_set(w->conf.reactor, &w->timer, w->plan.until_ms);
    }
}

void fl_kube_watch_view(const struct fl_kube_watch *w, struct fl_kube_watch_view *ret)
{
    *ret = (struct fl_kube_watch_view){.resource = w->conf.resource,
                                       .synced = w->plan.synced,
                                       .age_ms = now_of(w) - w->heard_ms,
                                       .failing = w->failing,
                                       .fault = w->fault,
                                       .skipped = w->skipped};
    memcpy(ret->ends, w->plan.ends, sizeof(ret->ends));
}
