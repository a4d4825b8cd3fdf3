#include "tests/sim/scenarios/weather.h"

#include <errno.h>

#include "sidecar/policy/peer.h"
#include "sidecar/proxy/engine_state.h"

enum { DEALS_OF_USER = 8 };

bool weather_chance(struct weather *w, unsigned pct)
{
    return weather_below(w, 100) < pct;
}

uint32_t weather_below(struct weather *w, uint32_t n)
{
    return fl_rng_below(&w->rng, n);
}

uint32_t weather_between(struct weather *w, uint32_t from, uint32_t to)
{
    return from + weather_below(w, to - from + 1);
}

uint32_t weather_size(struct weather *w, uint32_t max)
{
    static const uint32_t steps[] = {0, 1, 50, 1000, 5000, 17000, 70000, 200000};
    uint32_t upto = steps[weather_below(w, weather_chance(w, 8) ? 8 : 5)];
    upto = upto < max ? upto : max;
    return weather_below(w, upto + 1);
}

struct sim_path weather_path(struct weather *w)
{
    struct sim_path p = sim_path_default();
    if (w->wide) {
        p.send_bytes = p.recv_bytes = 1 << 20;
    }
    if (weather_chance(w, w->rough_pct)) {
        p.latency_us = weather_below(w, 5000);
        p.send_bytes = 1u << weather_between(w, 11, 16);
        p.recv_bytes = 1u << weather_between(w, 11, 16);
        p.fragment_pct = weather_below(w, 70);
        p.short_write_pct = weather_below(w, 70);
    }
    return p;
}

/* ---- clients ---- */

static void script_of(struct weather *w, struct user_script *s)
{
    *s = (struct user_script){.path = weather_path(w), .pipelines = weather_chance(w, 30)};
    if (weather_chance(w, 20)) {
        s->send_bytes = weather_between(w, 1, 4000);
        s->send_ms = weather_below(w, 3);
    }
    if (weather_chance(w, w->slow_pct)) {
        s->send_bytes = weather_between(w, 500, 4000);
        s->send_ms = weather_below(w, 300);
        s->path.send_bytes = s->path.recv_bytes = 4096;
        s->hold_ms = weather_below(w, 3) * weather_below(w, 6000);
        s->read_ms = weather_below(w, 200);
        w->bed->impatient = true;
    }
    if (weather_chance(w, w->leave_pct)) {
        s->leaves = (enum user_leaves)weather_between(w, USER_AT_SENT, USER_FINISHES);
        s->leaves_at = s->leaves == USER_AT_MS ? weather_below(w, 400) : weather_size(w, 100000);
        s->by_reset = weather_chance(w, 50);
    }
}

void weather_user(struct weather *w)
{
    struct user_script script;
    struct deal *deals[DEALS_OF_USER];
    unsigned n = weather_between(w, 1, DEALS_OF_USER);
    script_of(w, &script);
    for (unsigned i = 0; i < n; i++) {
        deals[i] = weather_deal(w);
    }
    user_dial(w->bed, &script, deals, n);
}

/* ---- what befalls the origins and the sidecar ---- */

static int misfortune(struct origin *o, uint32_t *ret_at)
{
    struct weather *w = o->weather;
    if (!weather_chance(w, w->fault_pct / 2)) {
        return ORIGIN_WELL;
    }
    int fault = (int)weather_between(w, ORIGIN_RST_AFTER, ORIGIN_CUT);
    *ret_at = weather_size(w, 3000);
    return weather_chance(w, 70) ? ORIGIN_RST_AFTER : fault;
}

static void toggle(struct weather *w, struct origin *o)
{
    static const enum sim_connect ways[] = {SIM_REFUSE, SIM_BLACKHOLE, SIM_UNREACHABLE};
    struct sim_path p = weather_path(w);
    if (weather_chance(w, 40)) {
        p.connect = ways[weather_below(w, 3)];
    }
    origin_path(o, &p);
    if (o->listening && weather_chance(w, 30)) {
        origin_stop(o);
    } else {
        origin_start(o);
    }
}

static void drain_some(struct weather *w)
{
    struct origin *o = w->bed->origins[weather_below(w, w->origins)];
    struct fl_peer *p = bed_peer(w->bed, o->address);
    bool out = weather_chance(w, 50);
    if (p != NULL && (w->kind != WEATHER_CALM || (o->index > 0 && w->origins > 1))) {
        atomic_store(&p->drained, out);
    }
}

void weather_event(struct weather *w)
{
    switch (weather_below(w, 6)) {
    case 0:
        bed_publish(w->bed, weather_config(w));
        break;
    case 1:
        drain_some(w);
        break;
    case 2:
        if (w->kind != WEATHER_CALM) {
            static const enum sim_call calls[] = {SIM_CALL_ACCEPT, SIM_CALL_CONNECT};
            sim_fault(w->bed->world, calls[weather_below(w, 2)], EMFILE, weather_below(w, 5),
                      weather_below(w, 3));
        }
        break;
    default:
        if (w->kind == WEATHER_STORM) {
            toggle(w, w->bed->origins[weather_below(w, w->origins)]);
        }
        break;
    }
}

/* ---- the run ---- */

static void make_origins(struct weather *w)
{
    for (unsigned i = 0; i < w->origins; i++) {
        struct origin *o = origin_new(w->bed, i);
        struct sim_path p = weather_path(w);
        origin_path(o, &p);
        o->weather = w;
        if (w->kind == WEATHER_STORM) {
            o->misfortune = misfortune;
            o->fault = weather_chance(w, 30) ? ORIGIN_FIN_IDLE : ORIGIN_WELL;
            o->fault_at = weather_below(w, 200);
        }
    }
}

static void check_expectations(const struct weather *w)
{
    const struct bed *b = w->bed;
    for (unsigned i = 0; i < b->deal_count && w->kind == WEATHER_CALM; i++) {
        const struct deal *d = b->deals[i];
        BED_MUST(d->end == DEAL_UNSENT || (d->end == DEAL_ANSWERED && d->answered_by != NULL),
                 "%s in calm weather: end %d, status %d %s", d->id, (int)d->end, d->status,
                 d->token);
    }
    unsigned out = bed_events(b, "temporarily disabled");
    BED_MUST(w->kind == WEATHER_STORM || out == 0, "%u peers were blamed for what was not theirs",
             out);
}

unsigned weather_run(uint64_t seed, unsigned users)
{
    struct weather w = {.kind = (enum weather_kind)(seed % WEATHER_KINDS)};
    fl_rng_seed(&w.rng, (seed + 1) * UINT64_C(0x9e3779b97f4a7c15));
    (void)fl_rng_next(&w.rng);
    w.origins = weather_between(&w, 1, 4);
    w.rough_pct = weather_below(&w, 101);
    w.s3 = weather_chance(&w, 60);
    w.wide = weather_chance(&w, 20);
    if (w.kind != WEATHER_CALM) {
        w.leave_pct = weather_below(&w, 40);
        w.slow_pct = weather_chance(&w, 50) ? weather_below(&w, 20) : 0;
        w.tight = weather_chance(&w, 40);
    }
    w.fault_pct = w.kind == WEATHER_STORM ? weather_below(&w, 60) : 0;
    w.bed = bed_new(seed, weather_between(&w, 1, 3), weather_config(&w));
    w.bed->peers_left = true;
    w.bed->memory_short = w.tight;
    w.bed->lifts = w.bed_lifts;
    w.bed->gates = true;
    w.bed->impatient = w.kind == WEATHER_STORM;
    sim_set_shuffle(w.bed->world, weather_chance(&w, 50));
    if (weather_chance(&w, 40)) { /* much comes in one turn */
        sim_set_turn_us(w.bed->world, 10 + weather_below(&w, 20000));
    }
    make_origins(&w);
    uint32_t gap_ms = weather_below(&w, 40);
    for (unsigned i = 0; i < users; i++) {
        weather_user(&w);
        bed_run_for(w.bed, weather_below(&w, gap_ms + 1));
        if (weather_chance(&w, 10)) {
            weather_event(&w);
        }
        if (i > users / 2 && weather_chance(&w, 1)) {
            fl_engine_drain(w.bed->engine); /* and yet all goes on */
        }
    }
    if (w.kind != WEATHER_CALM && weather_chance(&w, 10)) {
        unsigned cut = w.bed->deal_count;
        bed_cut(w.bed);
        return cut;
    }
    bed_run(w.bed);
    check_expectations(&w);
    unsigned deals = w.bed->deal_count;
    bed_end(w.bed);
    return deals;
}
