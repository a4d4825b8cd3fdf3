#include "controller/app.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "common/base/addr.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "common/io/signals.h"
#include "common/io/sock.h"
#include "common/model/cause.h"
#include "common/model/directives_show.h"
#include "controller/admin/admin.h"
#include "controller/decide/compose.h"
#include "controller/decide/membership.h"
#include "controller/decide/probe_list.h"
#include "controller/load.h"
#include "controller/probe/backend_notice.h"
#include "controller/probe/cluster_prober.h"
#include "controller/push/fanout.h"
#include "controller/source_file.h"

#define LOG_RING_BYTES ((size_t)256 << 10)
#define BACKLOG        128
#define CHANGED_MS     20   /* a changed verdict that takes nobody out waits for others this long */
#define AGED_MS        1000 /* one that is only fresher, so long at most */

struct app {
    const char *config_path;
    struct fl_controller_config *config;
    struct fl_sign_key *key; /* until the fan-out has it */
    char *source_path;       /* of the start: a source is not changed while running */

    struct fl_reactor *reactor;
    struct fl_log_writer *writer;
    struct fl_log log;
    struct fl_signals signals;
    struct fl_source_file *source;
    struct fl_fanout *fanout;
    struct fl_verdict_table verdicts;
    struct fl_cluster_prober *prober;
    struct fl_backend_notice notice;
    struct fl_timer recompose;    /* verdicts have changed */
    struct fl_task recompose_now; /* and one of them blocks, or somebody waits for it */
    struct fl_admin admin;
    struct fl_mhd *status_server, *admin_server;
    uint64_t said; /* hash of the warnings of the last composition */
};

/* ---- check ---- */

static void write_config(const void *what, struct fl_fmt *out)
{
    fl_controller_config_show(what, out);
}

static bool show_config(const struct fl_controller_config *c)
{
    size_t len = 0;
    char *text = fl_show_grown(write_config, c, &len);
    bool good = text != NULL && fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0;
    free(text);
    return good;
}

int fl_app_check(const char *config_path, bool show)
{
    struct fl_findings f, members;
    struct fl_sign_key *key = NULL;
    fl_findings_init(&f, config_path);
    struct fl_controller_config *c = fl_load_config(config_path, &f, &key);
    fl_load_print(&f);
    bool good = c != NULL;
    if (c != NULL) {
        fl_findings_init(&members, c->source_file);
        fl_load_check_membership(c->source_file, &members);
        fl_load_print(&members);
        good = members.errors == 0;
        fl_findings_done(&members);
    }
    if (good && show) {
        good = show_config(c);
    }
    fl_findings_done(&f);
    fl_sign_key_free(key);
    fl_controller_config_free(c);
    return good ? FL_EXIT_CLEAN : FL_EXIT_USAGE;
}

/* ---- what happens while it runs ---- */

static void say(const struct fl_log *log, enum fl_log_level level, const char *msg, const char *key,
                const char *value)
{
    struct fl_log_line l;
    fl_log_begin(log, &l, level, msg);
    if (key != NULL) {
        fl_log_text(&l, key, value);
    }
    fl_log_end(log, &l);
}

/* Each finding as a line of the event log. */
static void say_findings(const struct app *a, const struct fl_findings *f, const char *error,
                         const char *warning)
{
    for (const struct fl_finding *one = f->first; one != NULL; one = one->next) {
        char text[1024];
        struct fl_fmt out = fl_fmt_of(text, sizeof(text));
        fl_findings_print(f, one, &out);
        bool is_error = one->severity == FL_SEVERITY_ERROR;
        say(&a->log, is_error ? FL_LOG_ERROR : FL_LOG_WARN, is_error ? error : warning, "cause",
            text);
    }
}

static uint64_t hash_of(const struct fl_findings *f)
{
    uint64_t hash = 0;
    for (const struct fl_finding *one = f->first; one != NULL; one = one->next) {
        hash = hash * 31 + fl_show_hash(fl_span_of(one->text));
    }
    return hash;
}

static struct fl_state *make_state(const struct app *a, struct fl_findings *f)
{
    struct fl_membership m = fl_membership_of_services(fl_source_file_services(a->source));
    fl_findings_init(f, "");
    return fl_compose_state(a->config, &m, NULL, &a->verdicts, fl_reactor_now_ms(a->reactor), f);
}

/* What is probed, from now on. True: a verdict is gone. */
static bool sync_probes(const struct app *a, const struct fl_state *s)
{
    struct fl_probe_list list;
    fl_probe_list_init(&list);
    bool fits = fl_probe_list_add(&list, a->config, NULL, s);
    bool gone = fits && fl_cluster_prober_sync(a->prober, &list);
    fl_probe_list_done(&list);
    if (!fits) {
        say(&a->log, FL_LOG_ERROR, "probes stay as they were", "cause", "out of memory");
    }
    return gone;
}

static void say_missing(struct app *a, const struct fl_findings *f)
{
    uint64_t hash = hash_of(f);
    if (hash != a->said) {
        a->said = hash;
        say_findings(a, f, "membership is missing", "membership is missing");
    }
}

enum why { MEMBERS, CONFIG, VERDICTS };

/* Something that the pushes carry has changed. Nothing is pushed before there is membership:
 * sidecars keep what they have. */
static void compose(struct app *a, enum why why)
{
    struct fl_findings f;
    if (fl_source_file_services(a->source) == NULL) {
        return;
    }
    fl_timer_off(&a->recompose);
    struct fl_state *s = make_state(a, &f);
    if (s != NULL && why != VERDICTS && sync_probes(a, s)) {
        fl_findings_done(&f); /* verdicts of another definition were in it */
        fl_state_free(s);
        s = make_state(a, &f);
    }
    say_missing(a, &f);
    fl_findings_done(&f);
    if (s == NULL) {
        say(&a->log, FL_LOG_ERROR, "state not made, the last one stays", "cause", "out of memory");
        return;
    }
    fl_fanout_offer(a->fanout, "", s, why == CONFIG);
    fl_backend_notice_look(&a->notice, &a->verdicts, fl_fanout_state(a->fanout, ""),
                           fl_reactor_now_ms(a->reactor));
    fl_admin_answer_waits(&a->admin);
}

static void on_membership(void *arg)
{
    compose(arg, MEMBERS);
}

/* ---- probes ---- */

static void on_recompose(struct fl_timer *t)
{
    compose(fl_container_of(t, struct app, recompose), VERDICTS);
}

static void on_recompose_now(struct fl_task *t)
{
    compose(fl_container_of(t, struct app, recompose_now), VERDICTS);
}

static void on_probed(void *arg, enum fl_probe_news news)
{
    struct app *a = arg;
    int64_t wait_ms = CHANGED_MS;
    if (news == FL_PROBE_NEWS_BLOCKS || fl_admin_waits(&a->admin)) {
        fl_reactor_later(a->reactor, &a->recompose_now);
        return;
    }
    if (news == FL_PROBE_NEWS_AGE) {
        int64_t most_ms = a->config->probe_defaults.interval_ms / 4;
        wait_ms = most_ms < AGED_MS ? most_ms : AGED_MS;
    }
    int64_t at_ms = fl_reactor_now_ms(a->reactor) + wait_ms;
    if (at_ms < a->recompose.at_ms) {
        fl_timer_set(a->reactor, &a->recompose, at_ms);
    }
}

static void on_tls_changed(void *arg)
{
    const struct app *a = arg;
    const struct fl_state *s = fl_fanout_state(a->fanout, "");
    if (s != NULL) { /* the definitions are the same: no verdict goes */
        (void)sync_probes(a, s);
    }
}

static uint64_t ask_probes(void *arg, const char *backend)
{
    const struct app *a = arg;
    return fl_cluster_prober_ask(a->prober, backend);
}

static void look(void *arg, struct fl_admin_view *ret)
{
    const struct app *a = arg;
    *ret = (struct fl_admin_view){
        .now_ms = fl_reactor_now_ms(a->reactor),
        .config = a->config,
        .fanout = a->fanout,
        .verdicts = &a->verdicts,
        .prober = a->prober,
        .services = fl_source_file_services(a->source),
        .services_age_ms = fl_source_file_age_ms(a->source),
        .services_read_unix_ms = fl_source_file_read_unix_ms(a->source),
        .services_fault = fl_source_file_fault(a->source),
    };
}

/* What only a restart changes. */
static void warn_fixed(const struct app *a, const struct fl_controller_config *fresh)
{
    const struct fl_controller_config *now = a->config;
    const struct {
        const char *key, *now, *fresh;
    } fixed[] = {{"source", a->source_path, fresh->source_file},
                 {"listen.admin", now->listen.admin, fresh->listen.admin},
                 {"listen.status", now->listen.status, fresh->listen.status}};
    for (size_t i = 0; i < FL_COUNTOF(fixed); i++) {
        if (strcmp(fixed[i].now, fixed[i].fresh) != 0) {
            say(&a->log, FL_LOG_WARN, "taken at the start: restart to change it", "key",
                fixed[i].key);
        }
    }
}

static void reload(struct app *a)
{
    struct fl_findings f;
    struct fl_sign_key *key = NULL;
    fl_findings_init(&f, a->config_path);
    struct fl_controller_config *fresh = fl_load_config(a->config_path, &f, &key);
    say_findings(a, &f, "config refused", "config warning");
    fl_findings_done(&f);
    if (fresh == NULL) {
        return;
    }
    warn_fixed(a, fresh);
    fl_controller_config_free(a->config);
    a->config = fresh;
    if (fl_fanout_configure(a->fanout, fresh) < 0) {
        say(&a->log, FL_LOG_ERROR, "some sidecars are not pushed to", "cause", "out of memory");
    }
    fl_fanout_set_key(a->fanout, &key); /* after the interval, which counts for it */
    say(&a->log, FL_LOG_INFO, "config applied", "file", a->config_path);
    compose(a, CONFIG);
}

static void on_signal(void *arg, int number)
{
    struct app *a = arg;
    if (number == SIGHUP) {
        reload(a);
        fl_source_file_look(a->source);
    } else {
        say(&a->log, FL_LOG_INFO, "ending", "signal", number == SIGTERM ? "SIGTERM" : "SIGINT");
        fl_reactor_stop(a->reactor);
    }
}

/* ---- start and end ---- */

static uint64_t seed(void)
{
    uint64_t n = 0;
    ssize_t got = getrandom(&n, sizeof(n), GRND_NONBLOCK); /* for jitter, not for secrets */
    return got == (ssize_t)sizeof(n) ? n : 1;
}

static int open_log(struct app *a)
{
    a->log = (struct fl_log){.level = FL_LOG_INFO};
    int rc = fl_log_writer_new(&a->writer, 1, 2);
    if (rc < 0) {
        return rc;
    }
    a->log.ring = fl_log_ring_new(a->writer, LOG_RING_BYTES);
    rc = a->log.ring != NULL ? fl_log_writer_start(a->writer) : -ENOMEM;
    a->log.ring = rc == 0 ? a->log.ring : NULL;
    return rc;
}

/* -errno; the event says which listener. */
static int listen_at(const struct app *a, const char *key, const char *text, int *ret_fd)
{
    struct fl_addr at;
    int rc = fl_addr_parse(fl_span_of(text), &at) ? fl_sock_listen(&at, BACKLOG, ret_fd) : -EINVAL;
    if (rc < 0) {
        struct fl_log_line l;
        fl_log_begin(&a->log, &l, FL_LOG_ERROR, "cannot listen");
        fl_log_text(&l, "key", key);
        fl_log_text(&l, "address", text);
        fl_log_text(&l, "cause", fl_cause_errno_text(-rc));
        fl_log_end(&a->log, &l);
    }
    return rc;
}

static int open_listeners(struct app *a)
{
    const struct fl_controller_config *c = a->config;
    struct fl_addr at;
    bool loopback = fl_addr_parse(fl_span_of(c->listen.admin), &at) && fl_addr_is_loopback(&at);
    int fd = -1;
    int rc = listen_at(a, "listen.status", c->listen.status, &fd);
    rc = rc < 0 ? rc : fl_admin_open_status(&a->admin, a->reactor, fd, &a->status_server);
    rc = rc < 0 ? rc : listen_at(a, "listen.admin", c->listen.admin, &fd);
    return rc < 0 ? rc : fl_admin_open_admin(&a->admin, a->reactor, loopback, fd, &a->admin_server);
}

/* A probe's connection to each peer is kept. */
static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* else with as many as we have */
    }
}

static int start(struct app *a)
{
    int rc = fl_reactor_new(&a->reactor);
    if (rc < 0) {
        return rc;
    }
    const struct fl_fanout_conf fanout = {.reactor = a->reactor,
                                          .log = &a->log,
                                          .epoch = fl_reactor_wall_ms(a->reactor) / 1000,
                                          .seed = seed()};
    const struct fl_source_file_conf source = {
        a->reactor, &a->log, a->source_path, FL_SOURCE_FILE_LOOK_MS, on_membership, a};
    const struct fl_cluster_prober_conf prober = {a->reactor, &a->log,        seed(), &a->verdicts,
                                                  on_probed,  on_tls_changed, a};
    fl_verdict_table_init(&a->verdicts, fanout.seed);
    fl_timer_init(&a->recompose, on_recompose);
    fl_task_init(&a->recompose_now, on_recompose_now);
    rc = fl_signals_open(&a->signals, a->reactor, on_signal, a);
    rc = rc < 0 ? rc : fl_fanout_new(&fanout, &a->fanout);
    if (rc == 0) {
        fl_fanout_set_key(a->fanout, &a->key);
    }
    rc = rc < 0 ? rc : fl_fanout_configure(a->fanout, a->config);
    rc = rc < 0 ? rc : fl_cluster_prober_new(&prober, &a->prober);
    rc = rc < 0 ? rc : fl_source_file_new(&source, &a->source);
    rc = rc < 0 ? rc : open_listeners(a);
    return rc;
}

static void say_started(const struct app *a)
{
    struct fl_log_line l;
    fl_log_begin(&a->log, &l, FL_LOG_INFO, "controller started");
    fl_log_text(&l, "version", FL_VERSION);
    fl_log_text(&l, "source", a->source_path);
    fl_log_int(&l, "sidecars", a->config->sidecar_count);
    fl_log_text(&l, "keyid", fl_fanout_keyid(a->fanout));
    fl_log_end(&a->log, &l);
}

static void stop(struct app *a)
{
    fl_mhd_free(a->status_server);
    fl_mhd_free(a->admin_server);
    fl_admin_done(&a->admin);
    fl_source_file_free(a->source);
    fl_cluster_prober_free(a->prober);
    fl_fanout_free(a->fanout);
    fl_backend_notice_done(&a->notice);
    if (a->reactor != NULL) {
        fl_reactor_close(a->reactor, &a->signals.io);
        fl_timer_remove(a->reactor, &a->recompose);
        fl_reactor_turn(a->reactor, 0); /* what the probes' connections leave for its end */
        fl_verdict_table_done(&a->verdicts);
    }
    fl_reactor_free(a->reactor);
    a->log.ring = NULL;
    fl_log_writer_stop(a->writer);
    fl_sign_key_free(a->key);
    fl_controller_config_free(a->config);
    free(a->source_path);
}

static int run(struct app *a)
{
    int rc = open_log(a);
    rc = rc < 0 ? rc : start(a);
    if (rc < 0) {
        say(&a->log, FL_LOG_ERROR, "cannot start", "cause", fl_cause_errno_text(-rc));
        return FL_EXIT_REFUSED;
    }
    say_started(a);
    fl_source_file_look(a->source);
    fl_reactor_run(a->reactor);
    return FL_EXIT_CLEAN;
}

int fl_app_run(const char *config_path)
{
    struct app a = {.config_path = config_path, .signals.io.fd = -1};
    fl_backend_notice_init(&a.notice, &a.log);
    fl_admin_init(&a.admin, look, ask_probes, &a);
    struct fl_findings f;
    fl_signals_block();
    raise_files();
    fl_findings_init(&f, config_path);
    a.config = fl_load_config(config_path, &f, &a.key);
    fl_load_print(&f);
    fl_findings_done(&f);
    if (a.config == NULL) {
        return FL_EXIT_USAGE;
    }
    a.source_path = strdup(a.config->source_file);
    int code = a.source_path != NULL ? run(&a) : FL_EXIT_REFUSED;
    stop(&a);
    return code;
}
