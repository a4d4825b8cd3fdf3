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
#include "controller/decide/membership.h"
#include "controller/delivery/delivery.h"
#include "controller/kube/cluster.h"
#include "controller/load.h"
#include "controller/source_file.h"
#include "controller/tell.h"

#define LOG_RING_BYTES ((size_t)256 << 10)
#define BACKLOG        128

struct app {
    const struct fl_app_start *with;
    struct fl_controller_config *config;
    struct fl_controller_config *first; /* of the start: some of it is not changed while running */
    struct fl_sign_key *key;            /* until the delivery has it */

    struct fl_reactor *reactor;
    struct fl_log_writer *writer;
    struct fl_log log;
    struct fl_signals signals;
    struct fl_source_file *file; /* one of the two */
    struct fl_cluster *cluster;
    struct fl_delivery *delivery;
    struct fl_admin admin;
    struct fl_mhd *status_server, *admin_server;
    bool ending;
};

/* ---- check ---- */

static void write_config(const void *what, struct fl_fmt *out)
{
    fl_controller_config_show(what, out);
}

static bool show_config(const struct fl_controller_config *c)
{
    size_t len = 0;
    char *text = fl_show_grown(write_config, c, FL_SHOW_ABOUT, &len);
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
    if (c != NULL && c->source_file[0] != '\0') {
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

/* ---- what the delivery asks and tells ---- */

static void source_now(void *arg, struct fl_delivery_source *ret)
{
    const struct app *a = arg;
    if (a->cluster != NULL) {
        const struct fl_kube_source *s = fl_cluster_source(a->cluster);
        *ret = (struct fl_delivery_source){fl_kube_source_known(s),
                                           fl_membership_of_slices(fl_kube_source_slices(s)),
                                           fl_kube_source_pods(s)};
        return;
    }
    const struct fl_services *s = a->file != NULL ? fl_source_file_services(a->file) : NULL;
    *ret = (struct fl_delivery_source){s != NULL, fl_membership_of_services(s), NULL};
}

static void on_composed(void *arg)
{
    struct app *a = arg;
    fl_admin_answer_waits(&a->admin);
}

static bool hurry(void *arg)
{
    const struct app *a = arg;
    return fl_admin_waits(&a->admin);
}

static void on_epoch_met(void *arg, int64_t higher)
{
    const struct app *a = arg;
    fl_cluster_raise(a->cluster, higher);
}

static void on_sidecar_news(void *arg, enum fl_fanout_news what, const struct fl_fanout_view *who)
{
    const struct app *a = arg;
    if (a->cluster != NULL) {
        fl_tell_sidecar(fl_cluster_events(a->cluster), what, who);
    }
}

static void on_backend_news(void *arg, const struct fl_backend_news *news)
{
    const struct app *a = arg;
    if (a->cluster != NULL) {
        fl_tell_backend(fl_cluster_events(a->cluster), fl_cluster_namespace(a->cluster),
                        a->with->host_name, news);
    }
}

static void on_annotation_news(void *arg, const struct fl_kube_pod *pod, const char *said)
{
    const struct app *a = arg;
    if (a->cluster != NULL) {
        fl_tell_annotation(fl_cluster_events(a->cluster), pod, said);
    }
}

/* ---- what the sources tell ---- */

static void on_file(void *arg)
{
    const struct app *a = arg;
    fl_delivery_look(a->delivery, FL_DELIVERY_MEMBERS);
}

static void on_cluster(void *arg, bool members, bool pods)
{
    const struct app *a = arg;
    fl_delivery_look(a->delivery, (members ? (unsigned)FL_DELIVERY_MEMBERS : 0) |
                                      (pods ? (unsigned)FL_DELIVERY_PODS : 0));
}

static void on_lead(void *arg, int64_t epoch)
{
    const struct app *a = arg;
    fl_delivery_lead(a->delivery, epoch);
}

static void on_follow(void *arg)
{
    const struct app *a = arg;
    fl_delivery_follow(a->delivery);
}

/* ---- pages ---- */

static uint64_t ask_probes(void *arg, const char *backend)
{
    const struct app *a = arg;
    fl_delivery_catch_up(a->delivery);
    return fl_cluster_prober_ask(fl_delivery_prober(a->delivery), backend);
}

static void look(void *arg, struct fl_admin_view *ret)
{
    const struct app *a = arg;
    fl_delivery_catch_up(a->delivery); /* a page shows what is so now */
    *ret = (struct fl_admin_view){
        .now_ms = fl_reactor_now_ms(a->reactor),
        .config = a->config,
        .delivery = a->delivery,
        .fanout = fl_delivery_fanout(a->delivery),
        .verdicts = fl_delivery_verdicts(a->delivery),
        .prober = fl_delivery_prober(a->delivery),
        .cluster = a->cluster,
        .file_fault = "",
    };
    if (a->file != NULL) {
        ret->services = fl_source_file_services(a->file);
        ret->file_age_ms = fl_source_file_age_ms(a->file);
        ret->file_read_unix_ms = fl_source_file_read_unix_ms(a->file);
        ret->file_fault = fl_source_file_fault(a->file);
    }
}

/* ---- orders ---- */

/* What only a restart changes. */
static void warn_fixed(const struct app *a, const struct fl_controller_config *fresh)
{
    const struct fl_controller_config *now = a->first;
    const struct {
        const char *key, *now, *fresh;
    } fixed[] = {{"source", now->source_file, fresh->source_file},
                 {"listen.admin", now->listen.admin, fresh->listen.admin},
                 {"listen.status", now->listen.status, fresh->listen.status},
                 {"leader_election.enabled", now->leader_election.enabled ? "true" : "false",
                  fresh->leader_election.enabled ? "true" : "false"},
                 {"leader_election.namespace", now->leader_election.namespace,
                  fresh->leader_election.namespace},
                 {"leader_election.name", now->leader_election.name, fresh->leader_election.name}};
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
    fl_findings_init(&f, a->with->config_path);
    struct fl_controller_config *fresh = fl_load_config(a->with->config_path, &f, &key);
    say_findings(a, &f, "config refused", "config warning");
    fl_findings_done(&f);
    if (fresh == NULL) {
        return;
    }
    warn_fixed(a, fresh);
    struct fl_controller_config *before = a->config;
    a->config = fresh;
    say(&a->log, FL_LOG_INFO, "config applied", "file", a->with->config_path);
    fl_delivery_configure(a->delivery, fresh, &key);
    if (before != a->first) {
        fl_controller_config_free(before);
    }
}

static void on_released(void *arg)
{
    const struct app *a = arg;
    fl_reactor_stop(a->reactor);
}

static void end(struct app *a, int number)
{
    say(&a->log, FL_LOG_INFO, "ending", "signal", number == SIGTERM ? "SIGTERM" : "SIGINT");
    if (a->cluster != NULL && !a->ending) {
        fl_cluster_release(a->cluster, on_released, a); /* another leads at once */
    } else {
        fl_reactor_stop(a->reactor);
    }
    a->ending = true;
}

static void on_signal(void *arg, int number)
{
    struct app *a = arg;
    if (number != SIGHUP) {
        end(a, number);
        return;
    }
    reload(a);
    if (a->file != NULL) {
        fl_source_file_look(a->file);
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

static int open_delivery(struct app *a)
{
    const struct fl_delivery_conf delivery = {
        .reactor = a->reactor,
        .log = &a->log,
        .elected = a->first->source_file[0] == '\0',
        .epoch = fl_reactor_wall_ms(a->reactor) / 1000,
        .seed = seed(),
        .source = source_now,
        .composed = on_composed,
        .hurry = hurry,
        .epoch_met = on_epoch_met,
        .sidecar_news = on_sidecar_news,
        .backend_news = on_backend_news,
        .annotation_news = on_annotation_news,
        .arg = a,
    };
    int rc = fl_delivery_new(&delivery, &a->delivery);
    if (rc == 0) {
        fl_delivery_configure(a->delivery, a->config, &a->key);
    }
    return rc;
}

/* -errno; the event says why. */
static int open_cluster(struct app *a)
{
    struct fl_cause cause;
    const struct fl_cluster_conf cluster = {
        .reactor = a->reactor,
        .log = &a->log,
        .where = &a->with->where,
        .host_name = a->with->host_name,
        .config = a->config,
        .seed = seed(),
        .changed = on_cluster,
        .lead = on_lead,
        .follow = on_follow,
        .arg = a,
    };
    int rc = fl_cluster_new(&cluster, &a->cluster, &cause);
    if (rc < 0) {
        say(&a->log, FL_LOG_ERROR, "cannot reach the cluster", "cause", cause.text);
    }
    return rc;
}

static int open_source(struct app *a)
{
    const struct fl_source_file_conf file = {
        a->reactor, &a->log, a->first->source_file, FL_SOURCE_FILE_LOOK_MS, on_file, a};
    return file.path[0] != '\0' ? fl_source_file_new(&file, &a->file) : open_cluster(a);
}

static int start(struct app *a)
{
    int rc = fl_reactor_new(&a->reactor);
    rc = rc < 0 ? rc : fl_signals_open(&a->signals, a->reactor, on_signal, a);
    rc = rc < 0 ? rc : open_delivery(a);
    rc = rc < 0 ? rc : open_source(a);
    return rc < 0 ? rc : open_listeners(a);
}

static void say_started(const struct app *a)
{
    struct fl_log_line l;
    fl_log_begin(&a->log, &l, FL_LOG_INFO, "controller started");
    fl_log_text(&l, "version", FL_VERSION);
    fl_log_text(&l, "source", a->file != NULL ? a->first->source_file : "kubernetes");
    fl_log_int(&l, "sidecars", a->file != NULL ? a->config->sidecar_count : 0);
    fl_log_text(&l, "keyid", fl_fanout_keyid(fl_delivery_fanout(a->delivery)));
    fl_log_end(&a->log, &l);
}

static void stop(struct app *a)
{
    fl_mhd_free(a->status_server);
    fl_mhd_free(a->admin_server);
    fl_admin_done(&a->admin);
    fl_source_file_free(a->file);
    a->cluster = fl_cluster_free(a->cluster); /* what the delivery still tells, nobody hears */
    a->delivery = fl_delivery_free(a->delivery);
    if (a->reactor != NULL) {
        fl_reactor_close(a->reactor, &a->signals.io);
        fl_reactor_turn(a->reactor, 0); /* what the probes' connections leave for its end */
    }
    fl_reactor_free(a->reactor);
    a->log.ring = NULL;
    fl_log_writer_stop(a->writer);
    fl_sign_key_free(a->key);
    if (a->config != a->first) {
        fl_controller_config_free(a->config);
    }
    fl_controller_config_free(a->first);
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
    if (a->file != NULL) {
        fl_source_file_look(a->file);
    }
    fl_reactor_run(a->reactor);
    return FL_EXIT_CLEAN;
}

int fl_app_run(const struct fl_app_start *with)
{
    struct app a = {.with = with, .signals.io.fd = -1};
    fl_admin_init(&a.admin, look, ask_probes, &a);
    struct fl_findings f;
    fl_signals_block();
    raise_files();
    fl_findings_init(&f, with->config_path);
    a.config = fl_load_config(with->config_path, &f, &a.key);
    fl_load_print(&f);
    fl_findings_done(&f);
    if (a.config == NULL) {
        return FL_EXIT_USAGE;
    }
    a.first = a.config;
    int code = run(&a);
    stop(&a);
    return code;
}
