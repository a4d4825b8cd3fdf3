/* Random configurations. What bodies may be repeated after they were sent is one for the whole run,
 * since the ledger must know it; all else changes with every push. */
#include "common/base/fmt.h"
#include "tests/sim/scenarios/weather.h"

static const char *word(struct weather *w, const char *const *words, unsigned n)
{
    return words[weather_below(w, n)];
}

static void peers(struct weather *w, struct fl_fmt *f)
{
    static const char *const more[] = {"",
                                       "",
                                       "",
                                       ", weight: 3",
                                       ", max_fails: 0",
                                       ", max_fails: 3",
                                       ", backup: true",
                                       ", down: true"};
    bool calm = w->kind == WEATHER_CALM;
    fl_fmt_text(f, "peers: [");
    unsigned printed = 0;
    for (unsigned i = 0; i < w->origins; i++) {
        bool must = i == 0 && calm;
        if (!must && weather_chance(w, 15)) {
            continue;
        }
        fl_fmt_printf(f, "%s{address: \"10.0.0.%u:9000\"%s}", printed++ > 0 ? ", " : "", i + 1,
                      must ? "" : word(w, more, calm ? 4 : 8));
    }
    if (printed == 0) {
        fl_fmt_text(f, "{address: \"10.0.0.1:9000\"}");
    }
    fl_fmt_text(f, "]");
}

static void limits(struct weather *w, struct fl_fmt *f)
{
    if (w->tight) {
        fl_fmt_printf(f, ", max_conns: %u, queue: {size: %u, timeout: %ums%s}",
                      weather_between(w, 1, 6), weather_between(w, 1, 8),
                      weather_between(w, 10, 2000), weather_chance(w, 30) ? ", hold: 1s" : "");
    }
    if (weather_chance(w, 30)) {
        fl_fmt_printf(f, ", keepalive: {idle: %u, timeout: %ums}", weather_below(w, 4),
                      weather_between(w, 20, 3000));
    }
    if (weather_chance(w, 20)) {
        fl_fmt_printf(f, ", slow_start: 2s, panic_threshold: %u%%", weather_below(w, 80));
    }
    if (weather_chance(w, 30)) {
        fl_fmt_printf(f, ", retry_budget: {ratio: %u%%, min_per_second: %u}", weather_below(w, 101),
                      weather_below(w, 50));
    }
}

static void conditions(struct weather *w, const char *key, bool lifts, struct fl_fmt *f)
{
    static const char *const all[] = {"timeout", "invalid_header", "http_502", "http_503",
                                      "http_504"};
    fl_fmt_printf(f, ", %s: [error", key);
    for (unsigned i = 0; i < 5; i++) {
        if (weather_chance(w, 60)) {
            fl_fmt_printf(f, ", %s", all[i]);
        }
    }
    fl_fmt_text(f, lifts ? ", non_idempotent]" : "]");
}

static void route(struct weather *w, struct fl_fmt *f)
{
    static const char *const replay[] = {"0", "1KiB", "64KiB"};
    static const char *const after[] = {"never", "reset", "always"};
    bool patient = w->kind != WEATHER_STORM;
    conditions(w, "next_upstream", w->bed_lifts, f);
    if (weather_chance(w, 50)) {
        conditions(w, "count_failures", false, f);
    }
    fl_fmt_printf(f, ", next_upstream_tries: %u", weather_below(w, 5));
    if (weather_chance(w, 30)) {
        fl_fmt_printf(f, ", next_upstream_timeout: %ums", weather_between(w, 50, 4000));
    }
    fl_fmt_printf(f, ", connect_timeout: %ums, send_timeout: %ums, read_timeout: %ums",
                  patient ? 20000 : weather_between(w, 50, 2000),
                  patient ? 20000 : weather_between(w, 500, 5000),
                  patient ? 20000 : weather_between(w, 100, 5000));
    if (w->s3) {
        fl_fmt_printf(f, ", deadline: %ums", patient ? 60000 : weather_between(w, 300, 20000));
        fl_fmt_printf(f, ", replay_after_send: %s", w->repeats ? word(w, after, 3) : "never");
    }
    fl_fmt_printf(f, ", replay_body: %s", word(w, replay, 3));
    if (weather_chance(w, 20)) {
        fl_fmt_text(f, ", expect_gate: 1KiB");
    }
}

const char *weather_config(struct weather *w)
{
    static const char *const balances[] = {"round_robin", "least_conn", "random_two"};
    struct fl_fmt f = fl_fmt_of(w->text, sizeof w->text);
    if (w->bed == NULL) { /* these hold for the whole run */
        w->repeats = !w->s3 || weather_chance(w, 30);
        w->bed_lifts = weather_chance(w, 10);
        w->buffer_kib = w->tight ? weather_between(w, 256, 1500) : 16384;
        w->replay_kib = weather_chance(w, 20) ? weather_below(w, 200) : 8192;
        w->connections = w->tight && weather_chance(w, 30) ? weather_between(w, 3, 30) : 4096;
    }
    fl_fmt_printf(&f, "buffer_memory: %uKiB\nreplay_memory: %uKiB\nmax_connections: %u\n",
                  w->buffer_kib, w->replay_kib, w->connections);
    fl_fmt_printf(&f, "log_level: %s\n", weather_chance(w, 50) ? "info" : "debug");
    if (w->kind == WEATHER_STORM && weather_chance(w, 40)) {
        fl_fmt_printf(&f, "client: {body_timeout: %ums, write_timeout: %ums, idle_timeout: 3s}\n",
                      weather_between(w, 100, 3000), weather_between(w, 100, 3000));
    }
    fl_fmt_printf(&f, "backends:\n  store: {protocol: %s, probe: {type: none}, balance: %s, ",
                  w->s3 ? "s3" : "http", word(w, balances, 3));
    fl_fmt_printf(&f, "max_fails: %u, fail_timeout: %ums, same_store: %s, ", weather_below(w, 4),
                  weather_between(w, 100, 3000), weather_chance(w, 50) ? "true" : "false");
    peers(w, &f);
    limits(w, &f);
    fl_fmt_text(&f, "}\nroutes:\n  \"*\": {backend: store");
    route(w, &f);
    fl_fmt_text(&f, "}\n");
    FL_MUST(!f.cut);
    return w->text;
}
