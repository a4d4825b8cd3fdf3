#include "sidecar/admin/metrics.h"

#include "sidecar/admin/metrics_text.h"
#include "sidecar/admin/view.h"

#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

struct page {
    const struct fl_control *c;
    const struct fl_snapshot *s;
    struct fl_fmt *out;
    unsigned threads;
};

/* ---- routes ---- */

typedef void route_fn(const struct page *p, const struct fl_route_tally *t);

/* Every tally once: routes, their paths, and requests without a route ("-"). */
static void each_route(const struct page *p, route_fn *fn)
{
    for (uint32_t i = 0; i < p->s->route_count; i++) {
        const struct fl_snap_route *r = &p->s->routes[i];
        fn(p, r->policy.tally);
        for (uint32_t k = 0; k < r->path_count; k++) {
            fn(p, r->paths[k].policy.tally);
        }
    }
    fn(p, p->s->no_route);
}

static uint64_t sum(const struct page *p, const _Atomic uint64_t *first, size_t stride)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < p->threads; i++) {
        const _Atomic uint64_t *at = (const _Atomic uint64_t *)((uintptr_t)first + stride * i);
        n += atomic_load_explicit(at, memory_order_relaxed);
    }
    return n;
}

#define ROUTE_SUM(p, t, field)   sum(p, &(t)->lines[0].field, sizeof((t)->lines[0]))
#define BACKEND_SUM(p, t, field) sum(p, &(t)->lines[0].field, sizeof((t)->lines[0]))

static void requests(const struct page *p, const struct fl_route_tally *t)
{
    static const char *const classes[FL_STATUS_CLASSES] = {"none", "1xx", "2xx",
                                                           "3xx",  "4xx", "5xx"};
    for (unsigned k = 0; k < FL_STATUS_CLASSES; k++) {
        for (unsigned a = 0; a < FL_ANSWER_COUNT; a++) {
            uint64_t n = ROUTE_SUM(p, t, requests[k][a]);
            if (n > 0) {
                fl_metrics_uint(p->out, "requests_total",
                                LABELS("route", t->name, "status_class", classes[k], "error",
                                       fl_answer_row((enum fl_answer)a)->token),
                                n);
            }
        }
    }
}

static void durations(const struct page *p, const struct fl_route_tally *t)
{
    fl_metrics_latency(p->out, "request_duration_seconds", LABELS("route", t->name),
                       &t->lines[0].duration, sizeof(t->lines[0]), p->threads);
}

static void retries(const struct page *p, const struct fl_route_tally *t)
{
    for (unsigned o = 0; o < FL_OUTCOME_COUNT; o++) {
        uint64_t n = ROUTE_SUM(p, t, retries[o]);
        if (n > 0) {
            fl_metrics_uint(
                p->out, "retries_total",
                LABELS("route", t->name, "reason", fl_outcome_row((enum fl_outcome)o)->token), n);
        }
    }
}

static void refused(const struct page *p, const struct fl_route_tally *t)
{
    for (unsigned r = 0; r < FL_RETRY_COUNT; r++) {
        uint64_t n = ROUTE_SUM(p, t, refused[r]);
        if (n > 0 && r != FL_RETRY_YES) {
            fl_metrics_uint(p->out, "retry_refused_total",
                            LABELS("route", t->name, "reason", fl_retry_name((enum fl_retry)r)), n);
        }
    }
}

static void rescued(const struct page *p, const struct fl_route_tally *t)
{
    fl_metrics_uint(p->out, "rescued_requests_total", LABELS("route", t->name),
                    ROUTE_SUM(p, t, rescued));
}

static void sacrificed(const struct page *p, const struct fl_route_tally *t)
{
    fl_metrics_uint(p->out, "sacrificed_requests_total", LABELS("route", t->name),
                    ROUTE_SUM(p, t, sacrificed));
}

static void aborts(const struct page *p, const struct fl_route_tally *t)
{
    fl_metrics_uint(p->out, "client_aborts_total", LABELS("route", t->name),
                    ROUTE_SUM(p, t, client_aborts));
}

static void unbuffered(const struct page *p, const struct fl_route_tally *t)
{
    fl_metrics_uint(p->out, "unbuffered_bodies_total", LABELS("route", t->name),
                    ROUTE_SUM(p, t, unbuffered_bodies));
}

static void write_routes(const struct page *p)
{
    static const struct {
        const char *name, *type, *help;
        route_fn *fn;
    } families[] = {
        {"requests_total", "counter", "Client requests by route, status class and error token.",
         requests},
        {"request_duration_seconds", "histogram", "Time from a request's first byte to its end.",
         durations},
        {"retries_total", "counter", "Further tries by the outcome that caused them.", retries},
        {"retry_refused_total", "counter", "Failed attempts without a further try, by reason.",
         refused},
        {"rescued_requests_total", "counter", "Requests answered 2xx or 3xx thanks to a retry.",
         rescued},
        {"sacrificed_requests_total", "counter",
         "Requests that failed while discovering a failure.", sacrificed},
        {"client_aborts_total", "counter", "Requests whose client left.", aborts},
        {"unbuffered_bodies_total", "counter",
         "Request bodies that could not be kept for a replay.", unbuffered},
    };
    for (size_t i = 0; i < FL_COUNTOF(families); i++) {
        fl_metrics_family(p->out, families[i].name, families[i].type, families[i].help);
        each_route(p, families[i].fn);
    }
}

/* ---- backends ---- */

typedef void backend_fn(const struct page *p, const struct fl_snap_backend *b, const char *name);

static void backend_durations(const struct page *p, const struct fl_snap_backend *b,
                              const char *name)
{
    const struct fl_backend_line *first = &b->tally->lines[0];
    for (unsigned op = 0; op < FL_OP_COUNT; op++) {
        if (fl_metrics_latency_count(&first->duration[op], sizeof(*first), p->threads) > 0) {
            fl_metrics_latency(p->out, "backend_request_duration_seconds",
                               LABELS("backend", name, "operation",
                                      fl_s3_operation_name((enum fl_s3_operation)op)),
                               &first->duration[op], sizeof(*first), p->threads);
        }
    }
}

static void attempts(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    for (unsigned o = 0; o < FL_OUTCOME_COUNT; o++) {
        uint64_t n = BACKEND_SUM(p, b->tally, attempts[o]);
        if (n > 0) {
            fl_metrics_uint(
                p->out, "attempts_total",
                LABELS("backend", name, "outcome", fl_outcome_row((enum fl_outcome)o)->token), n);
        }
    }
}

static void peer_states(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    for (uint32_t i = 0; i < b->peer_count; i++) {
        int64_t until_ms;
        const char *state = fl_view_peer_state(b, i, fl_control_now_ms(p->c), &until_ms);
        for (const char *const *one = fl_view_peer_states; *one != NULL; one++) {
            fl_metrics_uint(
                p->out, "peer_state",
                LABELS("backend", name, "peer", b->peers[i].peer->address, "state", *one),
                strcmp(*one, state) == 0);
        }
    }
}

static void peaks(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    for (uint32_t i = 0; i < b->peer_count; i++) {
        uint64_t peak = 0;
        for (unsigned t = 0; t < p->threads; t++) {
            peak += atomic_load_explicit(&b->peers[i].peer->lines[t].peak, memory_order_relaxed);
        }
        fl_metrics_uint(p->out, "peer_in_flight_peak",
                        LABELS("backend", name, "peer", b->peers[i].peer->address), peak);
    }
}

static void quarantines(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    fl_metrics_uint(p->out, "quarantines_total", LABELS("backend", name),
                    BACKEND_SUM(p, b->tally, quarantines));
}

static enum fl_verdict_status status_of(const struct page *p, const struct fl_snap_backend *b)
{
    struct fl_verdict v;
    fl_control_backend_verdict(p->c, b, &v);
    return v.status;
}

static void up(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    fl_metrics_uint(p->out, "backend_up", LABELS("backend", name),
                    !fl_verdict_blocks(status_of(p, b)));
}

static void backend_states(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    enum fl_verdict_status now = status_of(p, b);
    for (unsigned s = FL_VERDICT_UNKNOWN; s <= FL_VERDICT_ERRORING; s++) {
        fl_metrics_uint(
            p->out, "backend_state",
            LABELS("backend", name, "state", fl_verdict_status_name((enum fl_verdict_status)s)),
            s == now);
    }
}

/* The sentence stands elsewhere; its code is what alerts are made of. */
static void causes(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    struct fl_verdict v;
    fl_control_backend_verdict(p->c, b, &v);
    if (v.status != FL_VERDICT_HEALTHY && v.cause.code[0] != '\0') {
        fl_metrics_uint(p->out, "backend_cause", LABELS("backend", name, "code", v.cause.code), 1);
    }
}

static void on_backup(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    fl_metrics_uint(p->out, "on_backup", LABELS("backend", name),
                    fl_view_on_backup(b, fl_control_now_ms(p->c)));
}

static void panics(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    fl_metrics_uint(p->out, "panic", LABELS("backend", name),
                    fl_view_panics(b, fl_control_now_ms(p->c)));
}

static void gated(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    for (unsigned s = 0; s < 5; s++) {
        uint64_t n = BACKEND_SUM(p, b->tally, gated[s]);
        if (n > 0) {
            fl_metrics_uint(
                p->out, "gated_requests_total",
                LABELS("backend", name, "state", fl_verdict_status_name((enum fl_verdict_status)s)),
                n);
        }
    }
}

static void probes(const struct page *p, const struct fl_snap_backend *b, const char *name)
{
    (void)b;
    uint64_t n[5];
    for (unsigned s = 0; fl_prober_counts(p->c->prober, name, n) && s < 5; s++) {
        if (n[s] > 0) {
            fl_metrics_uint(p->out, "probes_total",
                            LABELS("backend", name, "result",
                                   fl_verdict_status_name((enum fl_verdict_status)s)),
                            n[s]);
        }
    }
}

static void write_backends(const struct page *p)
{
    static const struct {
        const char *name, *type, *help;
        backend_fn *fn;
    } families[] = {
        {"backend_request_duration_seconds", "histogram", "Time a backend took, by S3 operation.",
         backend_durations},
        {"attempts_total", "counter", "Attempts by outcome.", attempts},
        {"peer_state", "gauge", "1 for the state a peer is in.", peer_states},
        {"peer_in_flight_peak", "gauge", "Most attempts in flight at once, since the start.",
         peaks},
        {"quarantines_total", "counter", "Times that a peer was taken out by its failures.",
         quarantines},
        {"backend_up", "gauge", "0 while the verdict blocks the backend.", up},
        {"backend_state", "gauge", "1 for the verdict a backend has.", backend_states},
        {"backend_cause", "gauge",
         "1 for the code of the verdict's cause, while it is not healthy.", causes},
        {"on_backup", "gauge", "1 while only backups can serve.", on_backup},
        {"panic", "gauge", "1 while quarantine is ignored because of panic_threshold.", panics},
        {"gated_requests_total", "counter", "Requests refused because of the verdict.", gated},
        {"probes_total", "counter", "Probes of this sidecar by result.", probes},
    };
    for (size_t i = 0; i < FL_COUNTOF(families); i++) {
        fl_metrics_family(p->out, families[i].name, families[i].type, families[i].help);
        for (uint32_t k = 0; k < p->s->backend_count; k++) {
            const struct fl_snap_backend *b = &p->s->backends[k];
            families[i].fn(p, b, b->conf->name);
        }
    }
}

/* ---- the process ---- */

static void write_connections(const struct page *p)
{
    struct fl_engine_gauges g = {0};
    if (p->c->engine != NULL) {
        fl_engine_gauges(p->c->engine, &g);
    }
    const struct {
        const char *kind;
        uint64_t n;
    } rows[] = {
        {"client", g.clients},
        {"client_active", g.clients_active},
        {"upstream_active", g.upstreams_active},
        {"upstream_idle", g.upstreams_idle},
        {"queued", g.queued},
        {"status", p->c->status_server ? fl_mhd_connections(p->c->status_server) : 0},
        {"admin", p->c->admin_server ? fl_mhd_connections(p->c->admin_server) : 0},
    };
    fl_metrics_family(p->out, "connections", "gauge", "Open connections, and requests in queues.");
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        fl_metrics_uint(p->out, "connections", LABELS("kind", rows[i].kind), rows[i].n);
    }
}

/* Of the last accepted push; without one, of a membership that waits for one since the start, else
 * none: 0. */
static int64_t membership_age_ms(const struct fl_control *c)
{
    if (c->pushed != NULL) {
        return fl_control_now_ms(c) - c->pushed_at_ms;
    }
    bool waits = strcmp(fl_push_membership(c), "waiting") == 0;
    return waits ? fl_control_now_ms(c) - c->began_ms : 0;
}

static void write_process(const struct page *p)
{
    static const char *const none[] = {NULL};
    write_connections(p);
    fl_metrics_family(p->out, "membership_generation", "gauge",
                      "Rises with every change of some backend's members.");
    fl_metrics_uint(p->out, "membership_generation", none, p->c->membership_generation);
    fl_metrics_family(p->out, "membership_age_seconds", "gauge",
                      "Since the last accepted push; 0 without a controller.");
    fl_metrics_secs(p->out, "membership_age_seconds", none, membership_age_ms(p->c) * 1000);
    fl_metrics_family(p->out, "log_dropped_total", "counter", "Log lines lost to a full ring.");
    fl_metrics_uint(p->out, "log_dropped_total", none,
                    p->c->conf.writer != NULL ? fl_log_dropped(p->c->conf.writer) : 0);
    fl_metrics_family(p->out, "build_info", "gauge", "1; the version is a label.");
    fl_metrics_uint(p->out, "build_info", LABELS("version", FL_VERSION), 1);
}

void fl_metrics_write(const struct fl_control *c, struct fl_fmt *out)
{
    const struct page p = {c, c->current, out, c->conf.threads};
    write_routes(&p);
    write_backends(&p);
    write_process(&p);
}

static void write_page(struct fl_fmt *out, void *arg)
{
    fl_metrics_write(arg, out);
}

void fl_metrics_handle(struct fl_mhd_call *call, void *arg)
{
    fl_mhd_reply_written(call, 200, "text/plain; version=0.0.4; charset=utf-8", write_page, arg);
}
