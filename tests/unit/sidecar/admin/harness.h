/* harness - a whole control thread for tests: real engine (no data listener), real status and admin
 * servers on free ports, the reactor turned by the test. Log lines are kept as text. Include once
 * per binary, after cmocka. */
#ifndef FL_TESTS_ADMIN_HARNESS_H
#define FL_TESTS_ADMIN_HARNESS_H

#include <errno.h>
#include <json-c/json.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/codec/config_yaml.h"
#include "common/io/sock.h"
#include "common/io/thread.h"
#include "sidecar/admin/admin.h"
#include "sidecar/admin/apply.h"
#include "sidecar/admin/control_inner.h"

static struct harness {
    struct fl_reactor *reactor;
    struct fl_registry *registry;
    struct fl_engine *engine;
    struct fl_control *control;
    struct fl_mhd *status, *admin;
    struct fl_log log;
    struct fl_addr status_at, admin_at;
    pthread_t data;
    int booted; /* -1: not yet; else may_run */
} h;

static void h_on_booted(void *arg, bool may_run)
{
    (void)arg;
    assert_int_equal(h.booted, -1); /* once */
    h.booted = may_run;
}

static void h_on_turn(void *arg)
{
    fl_control_turn(arg);
}

static struct fl_config *h_config(const char *yaml)
{
    struct fl_findings f;
    fl_findings_init(&f, "test.yaml");
    struct fl_config *c = fl_config_yaml_load("test.yaml", fl_span_of(yaml), NULL, 0, &f);
    for (const struct fl_finding *one = f.first; c == NULL && one != NULL; one = one->next) {
        print_error("%s\n", one->text);
    }
    fl_findings_done(&f);
    assert_non_null(c);
    return c;
}

static int h_listen(struct fl_addr *ret)
{
    struct fl_addr any;
    int fd = -1;
    assert_true(fl_addr_parse(FL_SPAN("127.0.0.1:0"), &any));
    assert_int_equal(fl_sock_listen(&any, 16, &fd), 0);
    assert_int_equal(fl_sock_local(fd, ret), 0);
    return fd;
}

static void h_turn_ms(int64_t ms)
{
    int64_t end_ms = fl_reactor_now_ms(h.reactor) + ms;
    do {
        fl_reactor_turn(h.reactor, 2);
    } while (fl_reactor_now_ms(h.reactor) < end_ms);
}

/* Turns until every probe and name has its first answer, however slow the machine is, and a little
 * on. */
__attribute__((unused)) static void h_settle(void)
{
    int64_t end_ms = fl_reactor_now_ms(h.reactor) + 20000;
    do {
        h_turn_ms(20);
    } while (fl_reactor_now_ms(h.reactor) < end_ms &&
             fl_prober_unanswered(h.control->prober) + fl_names_unanswered(h.control->names) > 0);
    h_turn_ms(20);
}

/* What came of the last h_apply; end -1: it is not decided yet. The rest is only told while it is.
 */
static struct {
    int end;
    bool changed;
    uint64_t hash;
    char text[640]; /* the first refusal or finding */
} h_applied;

static void h_on_applied(void *arg, const struct fl_apply_result *r)
{
    (void)arg;
    assert_int_equal(h_applied.end, -1); /* once */
    h_applied.end = (int)r->end;
    h_applied.changed = r->changed;
    h_applied.hash = r->hash;
    const char *text = r->refusal_count > 0         ? r->refusals[0].sentence
                       : r->findings->first != NULL ? r->findings->first->text
                                                    : "";
    (void)snprintf(h_applied.text, sizeof(h_applied.text), "%s", text);
}

__attribute__((unused)) static int h_apply(struct fl_config *fresh, bool force)
{
    struct fl_findings f;
    fl_findings_init(&f, "fresh.yaml");
    h_applied.end = -1;
    const struct fl_apply_order o = {.fresh = fresh,
                                     .findings = &f,
                                     .source = FL_APPLY_FROM_API,
                                     .force = force,
                                     .done = h_on_applied};
    int rc = fl_apply(h.control, &o);
    if (rc < 0) {
        fl_config_free(fresh);
    }
    fl_findings_done(&f);
    return rc;
}

static void *h_serve(void *engine)
{
    fl_engine_serve(engine);
    return NULL;
}

/* Everything up to, but without, the first turn. */
static void h_start(const char *yaml)
{
    struct fl_findings f;
    struct fl_config *c = h_config(yaml);
    h = (struct harness){.booted = -1, .log = {.level = FL_LOG_ERROR}};
    h.log.level = FL_LOG_ERROR;
    assert_int_equal(fl_reactor_new(&h.reactor), 0);
    h.registry = fl_registry_new(7);
    assert_non_null(h.registry);
    assert_int_equal(fl_engine_new(c, 1, NULL, 1, &h.engine), 0);
    const struct fl_control_conf conf = {.reactor = h.reactor,
                                         .registry = h.registry,
                                         .log = &h.log,
                                         .threads = 1,
                                         .seed = 3,
                                         .booted = h_on_booted};
    fl_findings_init(&f, "");
    int rc = fl_control_new(&conf, c, &f, &h.control);
    if (rc < 0) {
        print_error("%s\n", f.first ? f.first->text : "?");
    }
    fl_findings_done(&f);
    assert_int_equal(rc, 0);
    assert_int_equal(fl_engine_start(h.engine, fl_control_first(h.control), h.reactor), 0);
    assert_int_equal(fl_thread_start(&h.data, 256 * 1024, h_serve, h.engine), 0);
    assert_int_equal(fl_admin_open_status(h.control, h_listen(&h.status_at), &h.status), 0);
    assert_int_equal(fl_admin_open_admin(h.control, h_listen(&h.admin_at), &h.admin), 0);
    fl_reactor_on_turn(h.reactor, h_on_turn, h.control);
    fl_control_begin(h.control, h.engine);
}

static void h_stop(void)
{
    if (h.reactor == NULL) {
        return;
    }
    fl_engine_end(h.engine);
    pthread_join(h.data, NULL);
    fl_engine_stop(h.engine);
    fl_mhd_free(h.status);
    fl_mhd_free(h.admin);
    fl_control_free(h.control);
    fl_engine_free(h.engine, h.registry);
    fl_registry_free(h.registry);
    fl_reactor_on_turn(h.reactor, NULL, NULL);
    fl_reactor_turn(h.reactor, 0);
    fl_reactor_free(h.reactor);
    h = (struct harness){0};
}

static int h_tear_down(void **state)
{
    (void)state;
    h_stop();
    return 0;
}

__attribute__((unused)) static int h_dial(const struct fl_addr *at)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(at->port)};
    memcpy(&to.sin_addr, at->ip, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static char h_answer[1 << 20];

/* The whole answer; the request says Connection: close. NULL body: none. Returns the status. */
static int h_request(const struct fl_addr *at, const char *method, const char *target,
                     const char *fields, const char *body, size_t body_len)
{
    static char request[1 << 21];
    int n = snprintf(request, sizeof(request),
                     "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, target,
                     fields);
    if (body != NULL) {
        n +=
            snprintf(request + n, sizeof(request) - (size_t)n, "Content-Length: %zu\r\n", body_len);
    }
    n += snprintf(request + n, sizeof(request) - (size_t)n, "\r\n");
    if (body != NULL) {
        memcpy(request + n, body, body_len);
        n += (int)body_len;
    }
    int fd = h_dial(at);
    assert_int_equal(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
    size_t have = 0;
    int64_t end_ms = fl_reactor_now_ms(h.reactor) + 8000;
    while (fl_reactor_now_ms(h.reactor) < end_ms) {
        fl_reactor_turn(h.reactor, 2);
        ssize_t got = recv(fd, h_answer + have, sizeof(h_answer) - 1 - have, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            break;
        }
        have += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    h_answer[have] = '\0';
    int status = 0;
    assert_int_equal(sscanf(h_answer, "HTTP/1.1 %d", &status), 1);
    return status;
}

static const char *h_body(void)
{
    const char *at = strstr(h_answer, "\r\n\r\n");
    assert_non_null(at);
    return at + 4;
}

static int h_get(const char *target)
{
    return h_request(&h.admin_at, "GET", target, "", NULL, 0);
}

__attribute__((unused)) static int h_post(const char *target)
{
    return h_request(&h.admin_at, "POST", target, "Content-Type: application/json\r\n", "{}", 2);
}

static struct json_object *h_json(void)
{
    struct json_object *o = json_tokener_parse(h_body());
    if (o == NULL) {
        print_error("not JSON: %s\n", h_answer);
    }
    assert_non_null(o);
    return o;
}

/* "a.0.b" within o, as text. */
static const char *h_at(struct json_object *o, const char *path)
{
    char part[64];
    for (const char *p = path; *p != '\0';) {
        size_t n = strcspn(p, ".");
        assert_true(n < sizeof(part));
        memcpy(part, p, n);
        part[n] = '\0';
        o = json_object_is_type(o, json_type_array)
                ? json_object_array_get_idx(o, (size_t)strtoul(part, NULL, 10))
                : json_object_object_get(o, part);
        if (o == NULL) {
            return "(absent)";
        }
        p += n + (p[n] == '.');
    }
    return json_object_get_string(o);
}

/* GET target on the admin server, then h_at; the text lives until the next call. */
__attribute__((unused)) static const char *h_look(const char *target, const char *path)
{
    static char text[4096];
    (void)h_get(target);
    struct json_object *o = h_json();
    (void)snprintf(text, sizeof(text), "%s", h_at(o, path));
    json_object_put(o);
    return text;
}

#endif
