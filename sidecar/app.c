#include "sidecar/app.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/io/signals.h"
#include "common/io/sock.h"
#include "common/io/thread.h"
#include "common/model/directives.h"
#include "sidecar/admin/admin.h"
#include "sidecar/admin/apply.h"
#include "sidecar/admin/tap.h"
#include "sidecar/load.h"
#include "sidecar/process.h"

#define CONTROL_RING_BYTES (64 * 1024)
#define ADMIN_BACKLOG      64
#define DRAIN_LOOK_MS      20
#define SETTLED_MS         2000
#define RELOAD_AGAIN_MS    100
#define CONTROL_STACK      (8 * 1024 * 1024) /* what a first thread has; touched as needed */

/* How far the two threads are. The process's first thread serves: what it has open is what tools
 * show of the process (/proc/PID/fd, ss -p). It starts the control thread. */
enum stage {
    STAGE_SETUP,
    STAGE_SNAPSHOT, /* control thread: there is a first snapshot */
    STAGE_SERVING,  /* serving thread: the engine has started, or could not */
    STAGE_ENDING,   /* control thread: no more of it, or there was no snapshot */
    STAGE_CLOSED,   /* serving thread: all of the engine is closed */
};

struct app {
    const struct fl_app_options *options;
    struct fl_reactor *reactor;
    struct fl_log_writer *writer;
    struct fl_tap *tap;
    struct fl_log log;
    struct fl_registry *registry;
    struct fl_engine *engine;
    struct fl_control *control;
    struct fl_mhd *status, *admin;
    struct fl_signals signals;
    struct fl_timer drain, settled, again;
    int admin_fd, status_fd; /* until their servers take them over */
    int64_t began_ms, drain_until_ms;
    unsigned threads;
    uint64_t descriptors;
    int exit_code;
    bool draining;
    struct fl_config *config;     /* until the control takes it over */
    struct fl_findings *findings; /* of loading it */
    pthread_mutex_t lock;         /* of stage; what else goes from thread to thread goes with it */
    pthread_cond_t reached;
    enum stage stage;
    struct fl_snapshot *first_snapshot; /* NULL: the control did not come to it */
    int engine_rc;                      /* of fl_engine_start */
    unsigned requests_cut;
};

int fl_app_check(const struct fl_app_options *o, bool show)
{
    struct fl_findings f;
    fl_findings_init(&f, o->config_path);
    struct fl_config *c = fl_load_config(o, &f);
    fl_load_print(&f);
    char *text = c != NULL && show ? fl_directives_show_text(c) : NULL;
    int rc = c != NULL ? FL_EXIT_CLEAN : FL_EXIT_USAGE;
    if (text != NULL) {
        (void)fputs(text, stdout);
    }
    free(text);
    fl_config_free(c);
    fl_findings_done(&f);
    return rc;
}

static void say(const struct app *a, enum fl_log_level level, const char *msg, const char *key,
                const char *value)
{
    struct fl_log_line l;
    fl_log_begin(&a->log, &l, level, msg);
    if (key != NULL) {
        fl_log_text(&l, key, value);
    }
    fl_log_end(&a->log, &l);
}

/* Warnings as event lines: while it runs, stderr is JSON. */
static void say_warnings(const struct app *a)
{
    for (const struct fl_finding *one = a->findings->first; one != NULL; one = one->next) {
        char text[1024];
        struct fl_fmt out = fl_fmt_of(text, sizeof(text));
        fl_findings_print(a->findings, one, &out);
        say(a, FL_LOG_WARN, "configuration warning", "cause", text);
    }
}

/* ---- signals ---- */

static void reload(struct app *a)
{
    struct fl_findings f;
    fl_findings_init(&f, a->options->config_path);
    const struct fl_apply_order o = {
        .fresh = fl_load_config(a->options, &f),
        .findings = &f,
        .source = FL_APPLY_FROM_FILE,
    };
    if (fl_apply(a->control, &o) < 0) { /* one that came by the admin API is not decided yet */
        fl_config_free(o.fresh);
        fl_timer_set(a->reactor, &a->again, fl_reactor_now_ms(a->reactor) + RELOAD_AGAIN_MS);
    }
    fl_findings_done(&f);
}

static void on_again(struct fl_timer *t)
{
    struct app *a = fl_container_of(t, struct app, again);
    if (!a->draining) {
        reload(a);
    }
}

static void on_drain(struct fl_timer *t)
{
    struct app *a = fl_container_of(t, struct app, drain);
    int64_t now_ms = fl_reactor_now_ms(a->reactor);
    if (fl_engine_drained(a->engine, now_ms) || now_ms >= a->drain_until_ms) {
        fl_reactor_stop(a->reactor);
    } else {
        fl_timer_set(a->reactor, t, now_ms + DRAIN_LOOK_MS);
    }
}

static void drain(struct app *a)
{
    if (a->draining) { /* asked twice: at once */
        fl_reactor_stop(a->reactor);
        return;
    }
    a->draining = true;
    a->drain_until_ms =
        fl_reactor_now_ms(a->reactor) + fl_control_file(a->control)->drain_timeout_ms;
    say(a, FL_LOG_INFO, "draining", NULL, NULL);
    fl_control_drain(a->control);
    fl_engine_drain(a->engine);
    fl_timer_set(a->reactor, &a->drain, fl_reactor_now_ms(a->reactor) + DRAIN_LOOK_MS);
}

static void on_signal(void *arg, int number)
{
    struct app *a = arg;
    if (number != SIGHUP) {
        drain(a);
    } else if (!a->draining) {
        reload(a);
    }
}

static void on_booted(void *arg, bool may_run)
{
    struct app *a = arg;
    if (!may_run) {
        a->exit_code = FL_EXIT_REFUSED;
        fl_reactor_stop(a->reactor);
    }
}

static void on_turn(void *arg)
{
    struct app *a = arg;
    fl_control_turn(a->control);
}

/* What starting needed is given back. */
static void on_settled(struct fl_timer *t)
{
    (void)t;
    (void)malloc_trim(0);
}

/* ---- start: what is opened before the threads part, and after ---- */

static int cannot(const char *what, const char *which, int rc)
{
    (void)fprintf(stderr, "fairlead-sidecar: cannot %s%s: %s\n", what, which,
                  fl_cause_errno_text(-rc));
    return rc;
}

static int make_parts(struct app *a)
{
    const struct fl_config *c = a->config;
    a->threads = c->threads != 0 ? c->threads : fl_process_auto_threads();
    uint64_t seed = fl_process_random();
    int rc = fl_reactor_new(&a->reactor);
    if (rc == 0) {
        a->began_ms = fl_reactor_now_ms(a->reactor);
        rc = fl_log_writer_new(&a->writer, STDOUT_FILENO, STDERR_FILENO);
    }
    if (rc == 0) {
        a->log = (struct fl_log){.ring = fl_log_ring_new(a->writer, CONTROL_RING_BYTES),
                                 .level = (enum fl_log_level)c->log_level};
        a->tap = fl_tap_new(a->reactor, a->writer);
        rc = a->tap != NULL ? fl_engine_new(c, a->threads, a->writer, seed, &a->engine) : -ENOMEM;
    }
    if (rc == 0) {
        fl_engine_bound(a->engine, fl_process_memory_limit(), a->descriptors);
    }
    a->registry = rc == 0 ? fl_registry_new(seed) : NULL;
    return rc < 0 ? rc : a->registry != NULL ? 0 : -ENOMEM;
}

static int open_listener(const char *text, int *ret_fd)
{
    struct fl_addr at;
    int rc = fl_addr_parse(fl_span_of(text), &at) ? 0 : -EINVAL;
    rc = rc == 0 ? fl_sock_listen(&at, ADMIN_BACKLOG, ret_fd) : rc;
    return rc < 0 ? cannot("listen on ", text, rc) : 0;
}

static int open_listeners(struct app *a)
{
    const struct fl_config *c = a->config;
    for (uint32_t i = 0; i < c->listen.data.count; i++) {
        struct fl_addr at;
        const char *text = c->listen.data.items[i];
        int rc = fl_addr_parse(fl_span_of(text), &at) ? fl_engine_listen(a->engine, &at) : -EINVAL;
        if (rc < 0) {
            return cannot("listen on ", text, rc);
        }
    }
    int rc = open_listener(c->listen.admin, &a->admin_fd);
    return rc == 0 ? open_listener(c->listen.status, &a->status_fd) : rc;
}

static void say_address(struct fl_log_line *l, const char *key, const struct fl_addr *at)
{
    char text[FL_ADDR_TEXT_MAX];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_addr_print(at, &f);
    fl_log_text(l, key, text);
}

static void say_listening(struct app *a)
{
    struct fl_addr at;
    struct fl_log_line l;
    fl_log_begin(&a->log, &l, FL_LOG_INFO, "listening");
    for (unsigned i = 0; fl_engine_listening(a->engine, i, &at); i++) {
        say_address(&l, "data", &at);
    }
    fl_mhd_local(a->admin, &at);
    say_address(&l, "admin", &at);
    fl_mhd_local(a->status, &at);
    say_address(&l, "status", &at);
    fl_log_text(&l, "version", FL_VERSION);
    fl_log_end(&a->log, &l);
}

static int start_control(struct app *a)
{
    const struct fl_control_conf conf = {
        .reactor = a->reactor,
        .registry = a->registry,
        .log = &a->log,
        .writer = a->writer,
        .tap = a->tap,
        .threads = a->threads,
        .seed = fl_process_random(),
        .overrides = a->options->overrides,
        .override_count = a->options->override_count,
        .booted = on_booted,
        .arg = a,
    };
    int rc = fl_control_new(&conf, a->config, a->findings, &a->control);
    if (rc < 0) {
        fl_config_free(a->config);
    }
    return rc;
}

static int start_servers(struct app *a)
{
    int fd = a->admin_fd;
    a->admin_fd = -1;
    int rc = fl_admin_open_admin(a->control, fd, &a->admin);
    if (rc == 0) {
        fd = a->status_fd;
        a->status_fd = -1;
        rc = fl_admin_open_status(a->control, fd, &a->status);
    }
    return rc < 0 ? cannot("serve", "", rc) : 0;
}

static void reach(struct app *a, enum stage stage)
{
    pthread_mutex_lock(&a->lock);
    a->stage = stage;
    pthread_cond_broadcast(&a->reached);
    pthread_mutex_unlock(&a->lock);
}

static void await(struct app *a, enum stage stage)
{
    pthread_mutex_lock(&a->lock);
    while (a->stage < stage) {
        pthread_cond_wait(&a->reached, &a->lock);
    }
    pthread_mutex_unlock(&a->lock);
}

static int start_threads(struct app *a)
{
    int rc = fl_log_writer_start(a->writer);
    if (rc == 0) {
        a->first_snapshot = fl_control_first(a->control);
        reach(a, STAGE_SNAPSHOT);
        await(a, STAGE_SERVING);
        rc = a->engine_rc;
    }
    if (rc == 0) {
        rc = fl_signals_open(&a->signals, a->reactor, on_signal, a);
    }
    return rc < 0 ? cannot("start", "", rc) : 0;
}

static int start(struct app *a)
{
    int rc = start_control(a);
    if (rc < 0) {
        fl_load_print(a->findings);
        a->exit_code = a->findings->errors > 0 ? FL_EXIT_USAGE : FL_EXIT_REFUSED;
        return rc;
    }
    say_warnings(a);
    fl_findings_done(a->findings);
    rc = start_threads(a);
    rc = rc == 0 ? start_servers(a) : rc;
    if (rc < 0) {
        a->exit_code = FL_EXIT_REFUSED;
        return rc;
    }
    say_listening(a);
    fl_reactor_on_turn(a->reactor, on_turn, a);
    fl_control_begin(a->control, a->engine);
    fl_timer_set(a->reactor, &a->settled, a->began_ms + SETTLED_MS);
    return 0;
}

/* ---- end ---- */

static void close_fd(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static void end(struct app *a)
{
    if (a->draining) {
        struct fl_log_line l;
        fl_log_begin(&a->log, &l, FL_LOG_INFO, "stopped");
        fl_log_int(&l, "requests_cut", a->requests_cut);
        fl_log_end(&a->log, &l);
    }
    fl_mhd_free(a->status);
    fl_mhd_free(a->admin);
    close_fd(a->status_fd);
    close_fd(a->admin_fd);
    fl_control_free(a->control);
    fl_engine_free(a->engine, a->registry);
    fl_registry_free(a->registry);
    if (a->reactor != NULL) {
        fl_reactor_on_turn(a->reactor, NULL, NULL);
        fl_reactor_close(a->reactor, &a->signals.io);
        fl_timer_remove(a->reactor, &a->drain);
        fl_timer_remove(a->reactor, &a->settled);
        fl_timer_remove(a->reactor, &a->again);
        fl_reactor_turn(a->reactor, 0); /* what was to be freed at the end of a turn */
    }
    fl_reactor_free(a->reactor);
    fl_log_writer_stop(a->writer); /* last: everybody above may have said something */
    fl_tap_free(a->tap);           /* … which it was shown */
}

/* ---- the two threads ---- */

/* The kernel counts references to each descriptor at every call when threads share their table. The
 * first thread, which makes most calls, is spared that: this one, and those it starts, have their
 * own. */
static void *run_control(void *arg)
{
    struct app *a = arg;
    fl_engine_leave_descriptors(a->engine);
    if (start(a) == 0) {
        fl_reactor_run(a->reactor);
    }
    fl_engine_end(a->engine);
    reach(a, STAGE_ENDING);
    await(a, STAGE_CLOSED);
    end(a);
    return NULL;
}

static void serve(struct app *a)
{
    await(a, STAGE_SNAPSHOT);
    if (a->first_snapshot != NULL) {
        int rc = fl_engine_start(a->engine, a->first_snapshot, a->reactor);
        a->engine_rc = rc;
        reach(a, STAGE_SERVING);
        if (rc == 0) {
            fl_engine_serve(a->engine);
        }
    }
    await(a, STAGE_ENDING);
    a->requests_cut = fl_engine_stop(a->engine);
    reach(a, STAGE_CLOSED);
}

static int start_control_thread(struct app *a, pthread_t *ret)
{
    int rc = fl_thread_start(ret, CONTROL_STACK, run_control, a);
    return rc < 0 ? cannot("start", "", rc) : 0;
}

static void run(struct app *a)
{
    pthread_t control;
    int rc = make_parts(a);
    if (rc < 0) {
        cannot("start", "", rc);
    }
    rc = rc == 0 ? open_listeners(a) : rc;
    rc = rc == 0 ? start_control_thread(a, &control) : rc;
    if (rc < 0) {
        fl_config_free(a->config);
        a->exit_code = FL_EXIT_REFUSED;
        end(a);
        return;
    }
    serve(a);
    pthread_join(control, NULL);
}

int fl_app_run(const struct fl_app_options *o)
{
    fl_process_tune_memory();
    fl_signals_block();
    uint64_t descriptors = fl_process_raise_descriptors();
    struct fl_findings f;
    fl_findings_init(&f, o->config_path);
    struct fl_config *c = fl_load_config(o, &f);
    if (c == NULL) {
        fl_load_print(&f);
        fl_findings_done(&f);
        return FL_EXIT_USAGE;
    }
    struct app a = {.options = o,
                    .descriptors = descriptors,
                    .admin_fd = -1,
                    .status_fd = -1,
                    .signals = {.io = {.fd = -1}},
                    .config = c,
                    .findings = &f,
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .reached = PTHREAD_COND_INITIALIZER};
    fl_timer_init(&a.drain, on_drain);
    fl_timer_init(&a.settled, on_settled);
    fl_timer_init(&a.again, on_again);
    run(&a);
    fl_findings_done(&f);
    return a.exit_code;
}
