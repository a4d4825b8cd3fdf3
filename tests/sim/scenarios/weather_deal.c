/* Random requests, and what origins do with them. */
#include "tests/sim/scenarios/weather.h"

struct form {
    const char *method, *target, *fields;
    enum deal_class class;
    bool body;
    unsigned weight;
};

static const struct form forms[] = {
    {"GET", "/bucket/key", NULL, DEAL_S, false, 45},
    {"HEAD", "/bucket/key", NULL, DEAL_S, false, 6},
    {"GET", "http://store.test/bucket?list-type=2", NULL, DEAL_S, false, 4},
    {"PUT", "/bucket/key", NULL, DEAL_I, true, 25},
    {"DELETE", "/bucket/key", NULL, DEAL_I, false, 4},
    {"PUT", "/bucket/key", "If-None-Match: *\r\n", DEAL_C, true, 6},
    {"POST", "/bucket/key?uploads", NULL, DEAL_N, true, 6},
    {"POST", "/bucket/key?uploadId=7", NULL, DEAL_C, true, 4},
};

static const struct form *form_of(struct weather *w)
{
    unsigned at = weather_below(w, 100);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (at < forms[i].weight) {
            return &forms[i];
        }
        at -= forms[i].weight;
    }
    return &forms[0];
}

static void some_fault(struct weather *w, const struct deal *d, struct plan *p)
{
    static const char *const bad[] = {
        "SSH-2.0-x\r\n",
        "HTTP/1.1 200 OK\nA: b\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 101 Switching\r\n\r\n",
        "\r\n\r\n",
        "HTTP/1.1 2"};
    if (weather_chance(w, 15)) {
        p->raw = bad[weather_below(w, 6)];
        p->close = weather_chance(w, 50);
        return;
    }
    p->fault = (enum plan_fault)weather_between(w, PLAN_RST_REQUEST, PLAN_STALL_ANSWER);
    p->fault_at =
        p->fault <= PLAN_HOLD_REQUEST ? weather_size(w, d->body_bytes) : weather_size(w, 300000);
}

static int some_status(struct weather *w, const struct deal *d)
{
    static const int odd[] = {204, 206, 301, 304, 403, 404, 412, 429, 500, 502, 503, 504};
    (void)d;
    if (w->kind == WEATHER_STORM) {
        return weather_chance(w, 20) ? odd[weather_below(w, 12)] : 0;
    }
    return weather_chance(w, 10) ? odd[weather_below(w, 7)] : 0; /* none that may be counted */
}

/* Enough to prove both sides fast; then it may trickle. */
static void large_body(struct weather *w, struct plan *p)
{
    p->body = PLAN_LENGTH;
    p->body_bytes = weather_between(w, 700000, 2500000);
    p->piece_bytes = weather_between(w, 2000, 200000);
    p->piece_ms = weather_below(w, 25);
    p->gush_bytes = weather_chance(w, 70) ? weather_below(w, p->body_bytes) : 0;
}

static void some_plan(struct weather *w, const struct deal *d, struct plan *p)
{
    bool has_body = d->body != DEAL_NO_BODY && d->body_bytes > 0;
    *p = (struct plan){.body = weather_chance(w, 60) ? PLAN_LENGTH
                                                     : (enum plan_body)weather_below(w, 3),
                       .body_bytes = weather_size(w, 300000),
                       .trailers = weather_chance(w, 50),
                       .status = some_status(w, d)};
    p->delay_ms = weather_chance(w, 30) ? weather_below(w, 60) : 0;
    p->head_bytes = weather_chance(w, 5) ? weather_below(w, 20000) : 0;
    p->hints = weather_chance(w, 5) ? weather_between(w, 1, 3) : 0;
    p->hint_bytes = weather_size(w, 9000);
    p->close = weather_chance(w, 15);
    p->http10 = p->body != PLAN_CHUNKED && weather_chance(w, 10);
    p->hundred = (enum plan_hundred)weather_below(w, 4);
    p->hundred_ms = weather_below(w, 1500);
    if (weather_chance(w, 15)) {
        p->piece_bytes = weather_between(w, 50, 3000);
        p->piece_ms = weather_below(w, 3);
    }
    if (w->wide && weather_chance(w, 1)) {
        large_body(w, p);
    }
    if (has_body && weather_chance(w, 10)) {
        p->when = (enum plan_when)weather_below(w, 3);
        p->when_bytes = weather_below(w, d->body_bytes);
        p->close = p->http10 = false; /* it would be an RST into the upload, and lose the answer */
        p->body = p->body == PLAN_UNTIL_CLOSE ? PLAN_LENGTH : p->body;
    }
    if (w->kind == WEATHER_STORM && p->body != PLAN_UNTIL_CLOSE && weather_chance(w, 3)) {
        p->surplus = weather_size(w, 3000);
        p->piece_bytes = 0; /* all at once: behind a whole answer the next request may come */
    }
    if (weather_chance(w, w->fault_pct)) {
        some_fault(w, d, p);
    }
}

struct deal *weather_deal(struct weather *w)
{
    const struct form *f = form_of(w);
    struct deal *d = deal_new(w->bed, f->method, f->target);
    d->class = f->class;
    d->fields = f->fields;
    d->repeats = w->repeats;
    if (f->body) {
        d->body = weather_chance(w, 70) ? DEAL_LENGTH : DEAL_CHUNKED;
        d->body_bytes = weather_size(w, 200000);
        d->chunk_bytes =
            weather_chance(w, 50) ? weather_between(w, 1 + d->body_bytes / 50, 5000) : 0;
        d->trailers = weather_chance(w, 40);
        d->expect = weather_chance(w, 20)
                        ? (enum deal_expect)weather_between(w, DEAL_WAITS, DEAL_RUSHES)
                        : DEAL_NO_EXPECT;
        d->expect_ms = weather_chance(w, 50) ? weather_between(w, 200, 6000) : 0;
    } else {
        d->http10 = weather_chance(w, 6);
    }
    d->close = weather_chance(w, 4);
    d->plan_count = weather_between(w, 1, 3);
    for (unsigned i = 0; i < d->plan_count; i++) {
        some_plan(w, d, &d->plans[i]);
    }
    return d;
}
