#include "tests/sim/scenarios/bed.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/codec/config_yaml.h"
#include "sidecar/proxy/engine_state.h"
#include "tests/sim/scenarios/bed_rules.h"
#include "tests/sim/scenarios/origin.h"
#include "tests/sim/scenarios/user.h"

enum {
    FEW_STEPS = 32,
    SLICE_MS = 50,
    SLICE_MAX_MS = 2000,
    FOR_EVER_MS = 1800 * 1000,
    IDLE_MS = 400 * 1000, /* longer than anything idle is kept */
};

bool bed_verbose;

static struct bed *the_bed;

static void print_prefix(void)
{
    if (the_bed != NULL) {
        fprintf(stderr, "[seed %llu, %.3f s] ", (unsigned long long)the_bed->seed,
                (double)(bed_now_ms(the_bed) - SIM_START_MS) / 1000);
    }
}

void bed_broken(const char *file, int line, const char *fmt, ...)
{
    va_list args;
    print_prefix();
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

void bed_say(const char *fmt, ...)
{
    va_list args;
    if (the_bed == NULL || !the_bed->verbose) {
        return;
    }
    print_prefix();
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

int64_t bed_now_ms(const struct bed *b)
{
    return sim_now_ms(b->world);
}

/* ---- configuration ---- */

static struct fl_config *load(const char *yaml)
{
    struct fl_findings f;
    fl_findings_init(&f, "scenario");
    struct fl_config *c = fl_config_yaml_load("scenario", fl_span_of(yaml), NULL, 0, &f);
    if (c == NULL) {
        char text[4096];
        struct fl_fmt out = fl_fmt_of(text, sizeof text);
        for (const struct fl_finding *i = f.first; i != NULL; i = i->next) {
            fl_findings_print(&f, i, &out);
            fl_fmt_char(&out, '\n');
        }
        bed_broken(__FILE__, __LINE__, "configuration: %s\n%s", text, yaml);
    }
    fl_findings_done(&f);
    return c;
}

static bool verdict_of(void *arg, const struct fl_backend_conf *conf, const char *address,
                       struct fl_verdict *ret_merged, bool *ret_gated)
{
    const struct bed *b = arg;
    (void)conf;
    if (b->gated == NULL || strcmp(b->gated, address) != 0) {
        return false;
    }
    *ret_merged = (struct fl_verdict){.status = FL_VERDICT_UNREACHABLE};
    fl_cause_set(&ret_merged->cause, "refused", "connect to %s failed (Connection refused)",
                 address);
    *ret_gated = true;
    return true;
}

static struct fl_snapshot *build(struct bed *b, struct fl_config *c)
{
    struct fl_snapshot *s =
        fl_snapshot_build(b->registry, c, b->threads, ++b->generation, verdict_of, b);
    FL_MUST(s != NULL);
    return s;
}

void bed_publish(struct bed *b, const char *yaml)
{
    struct fl_snapshot *fresh = build(b, load(yaml));
    fl_snapshot_retire(fl_engine_snapshot(b->engine), fresh);
    fl_engine_publish(b->engine, fresh);
    (void)fl_engine_reclaim(b->engine, b->registry); /* nobody has adopted it yet: frees nothing */
    bed_say("generation %llu is published", (unsigned long long)b->generation);
}

struct fl_peer *bed_peer(struct bed *b, const char *address)
{
    const struct fl_snapshot *s = fl_engine_snapshot(b->engine);
    for (uint32_t i = 0; i < s->backend_count; i++) {
        for (uint32_t j = 0; j < s->backends[i].peer_count; j++) {
            if (strcmp(s->backends[i].peers[j].peer->address, address) == 0) {
                return s->backends[i].peers[j].peer;
            }
        }
    }
    return NULL;
}

/* ---- life ---- */

static void make_logs(struct bed *b)
{
    int out = open("/dev/null", O_WRONLY | O_CLOEXEC),
        err = open("/dev/null", O_WRONLY | O_CLOEXEC);
    FL_MUST(out >= 0 && err >= 0);
    FL_MUST(fl_log_writer_new(&b->logs, out, err) == 0);
    bed_watch_logs(b);
    b->log_fd[0] = out;
    b->log_fd[1] = err;
}

struct bed *bed_new(uint64_t seed, unsigned threads, const char *yaml)
{
    FL_MUST(the_bed == NULL);
    struct bed *b = calloc(1, sizeof *b);
    struct fl_addr front;
    FL_MUST(b != NULL && fl_addr_parse(FL_SPAN(BED_FRONT), &front));
    b->seed = seed;
    b->threads = threads;
    b->verbose = bed_verbose;
    b->world = sim_new(seed);
    the_bed = b;
    b->registry = fl_registry_new(seed);
    FL_MUST(b->registry != NULL);
    make_logs(b);
    struct fl_config *c = load(yaml);
    FL_MUST(fl_engine_new(c, threads, b->logs, seed, &b->engine) == 0);
    FL_MUST(fl_engine_listen(b->engine, &front) == 0);
    FL_MUST(fl_engine_prepare(b->engine, build(b, c)) == 0);
    return b;
}

struct watching {
    struct bed *bed;
    unsigned steps;
    bool for_users; /* ends when all have left */
};

static bool is_over(void *arg)
{
    struct watching *at = arg;
    at->steps++;
    return at->for_users && at->bed->users_open == 0;
}

/* In slices, with a look at the rules after each; longer ones while little happens. */
static bool run_until(struct bed *b, int64_t until_ms, bool for_users)
{
    int64_t slice_ms = SLICE_MS;
    while (bed_now_ms(b) < until_ms) {
        struct watching at = {.bed = b, .for_users = for_users};
        int64_t to_ms = bed_now_ms(b) + slice_ms;
        bool over =
            sim_run_while(b->world, is_over, &at, to_ms < until_ms ? to_ms : until_ms) == SIM_DONE;
        bed_rules_running(b);
        (void)fl_engine_reclaim(b->engine, b->registry);
        if (over) {
            return true;
        }
        slice_ms = at.steps > FEW_STEPS ? SLICE_MS : slice_ms * 2;
        slice_ms = slice_ms < SLICE_MAX_MS ? slice_ms : SLICE_MAX_MS;
    }
    return false;
}

void bed_run(struct bed *b)
{
    if (!run_until(b, bed_now_ms(b) + FOR_EVER_MS, true) && b->users_open > 0) {
        bed_rules_show(b);
        bed_broken(__FILE__, __LINE__, "%u clients never end", b->users_open);
    }
}

void bed_run_for(struct bed *b, int64_t ms)
{
    (void)run_until(b, bed_now_ms(b) + ms, false);
}

static void let_idle_pass(struct bed *b)
{
    int64_t until_ms = bed_now_ms(b) + IDLE_MS;
    for (;;) {
        struct sim_counts c = sim_counts(b->world);
        if (c.sockets_open == c.listeners_open || bed_now_ms(b) >= until_ms) {
            return;
        }
        bed_run_for(b, 500);
    }
}

static void free_scripts(struct bed *b)
{
    for (struct user *u = b->users, *next; u != NULL; u = next) {
        next = u->next;
        user_free(u);
    }
    for (unsigned i = 0; i < b->deal_count; i++) {
        deal_free(b->deals[i]);
    }
    for (unsigned i = 0; i < b->visit_count; i++) {
        free(b->visits[i]);
    }
    for (unsigned i = 0; i < BED_ORIGINS; i++) {
        if (b->origins[i] != NULL) {
            origin_free(b->origins[i]);
        }
    }
    free(b->deals);
    free(b->visits);
    blob_done(&b->events);
}

static void finish(struct bed *b)
{
    (void)fl_engine_stop(b->engine);
    bed_watch_logs(NULL);
    b->engine = fl_engine_free(b->engine, b->registry);
    fl_log_writer_stop(b->logs);
    b->registry = fl_registry_free(b->registry);
    close(b->log_fd[0]);
    close(b->log_fd[1]);
    unsigned left = sim_free(b->world);
    the_bed = NULL;
    if (left > 0) {
        fprintf(stderr, "[seed %llu] %u left open\n", (unsigned long long)b->seed, left);
        abort();
    }
    free_scripts(b);
    free(b);
}

void bed_end(struct bed *b)
{
    bed_run(b);
    let_idle_pass(b);
    bed_run_for(b, 10);
    bed_rules_over(b);
    finish(b);
}

void bed_cut(struct bed *b)
{
    (void)fl_engine_stop(b->engine);
    bed_rules_left(b);
    bed_run(b); /* clients see the end */
    finish(b);
}
