/* watch_kit - a watch of pods against the scripted server: the test answers each request by hand
 * and reads what the watch told in one line of signs:
 *   [ begin   ] synced   +a added   ~a modified   -a deleted   ! fails   . works
 * Included once per test binary. */
#ifndef FL_TESTS_UNIT_CONTROLLER_KUBE_WATCH_KIT_H
#define FL_TESTS_UNIT_CONTROLLER_KUBE_WATCH_KIT_H

#include "tests/unit/common/io/script_kit.h"
#include "tests/unit/controller/kube/access_kit.h"

#include "controller/codec/kube_decode.h"
#include "controller/kube/kube_watch.h"

#define CHUNKED    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define LAST_CHUNK "0\r\n\r\n"

static struct fl_reactor *reactor;
static struct fl_kube_access *access_;
static struct fl_kube *kube;
static struct fl_kube_watch *watch;
static struct fl_kube_watch_limits limits;
static const char *selector;
static struct script_conn *asker; /* who asked last */
static char told[65536];
static void (*meanwhile)(void); /* within `object` */

static inline void tell(const char *sign, const char *name)
{
    size_t n = strlen(told);
    assert_true(n + strlen(sign) + strlen(name) < sizeof(told));
    (void)snprintf(told + n, sizeof(told) - n, "%s%s", sign, name);
}

static inline void on_begin(void *arg)
{
    (void)arg;
    tell("[", "");
}

static inline bool on_object(void *arg, enum fl_kube_event event, struct fl_span json)
{
    struct fl_arena arena;
    struct fl_kube_meta meta;
    (void)arg;
    fl_arena_init(&arena, 65536);
    bool good = fl_kube_decode_meta(json, &arena, &meta) == 0;
    if (good) {
        tell(event == FL_KUBE_ADDED      ? "+"
             : event == FL_KUBE_MODIFIED ? "~"
             : event == FL_KUBE_DELETED  ? "-"
                                         : "?",
             meta.name);
    }
    fl_arena_done(&arena);
    if (meanwhile != NULL) {
        meanwhile();
    }
    return good;
}

static inline void on_synced(void *arg)
{
    (void)arg;
    tell("]", "");
}

static inline struct fl_kube_watch_view view(void)
{
    struct fl_kube_watch_view v;
    fl_kube_watch_view(watch, &v);
    return v;
}

static inline void on_state(void *arg)
{
    (void)arg;
    tell(view().failing ? "!" : ".", "");
}

static inline void asked(struct script_conn *c)
{
    asker = c;
}

static inline void open_watch(void)
{
    const struct fl_kube_watch_conf conf = {.kube = kube,
                                            .reactor = reactor,
                                            .log = &kit.log,
                                            .resource = "pods",
                                            .path = "/api/v1/pods",
                                            .selector = selector,
                                            .seed = 3,
                                            .begin = on_begin,
                                            .object = on_object,
                                            .synced = on_synced,
                                            .state = on_state,
                                            .limits = limits};
    assert_int_equal(fl_kube_watch_new(&conf, &watch), 0);
}

static inline int set_up(void **state)
{
    struct fl_cause cause;
    char server[64];
    (void)state;
    asker = NULL;
    told[0] = '\0';
    meanwhile = NULL;
    selector = "";
    limits = (struct fl_kube_watch_limits){.backoff_min_ms = 40};
    kit_begin();
    assert_int_equal(fl_reactor_new(&reactor), 0);
    script_begin(reactor, asked);
    (void)snprintf(server, sizeof(server), "http://127.0.0.1:%u", script.port);
    kit_write("token", "one");
    kit_config(server, "", "      tokenFile: token\n");
    assert_int_equal(kit_access(fl_reactor_now_ms(reactor), &access_, &cause), 0);
    assert_int_equal(fl_kube_new(reactor, &kit.log, access_, &kube), 0);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    watch = fl_kube_watch_free(watch);
    kube = fl_kube_free(kube);
    access_ = fl_kube_access_free(access_);
    script_done();
    fl_reactor_turn(reactor, 0);
    reactor = fl_reactor_free(reactor);
    kit_end();
    return 0;
}

/* ---- what the server does ---- */

static inline bool is_asked(void *arg)
{
    return script.requests >= *(unsigned *)arg;
}

/* Waits for request number n (1 …) and looks at its target. */
static inline void request(unsigned n, const char *target)
{
    script_until(is_asked, &n, target);
    assert_int_equal(script.requests, n);
    const char *at = strstr(asker->target, "&timeoutSeconds=");
    char bare[4096];
    (void)snprintf(bare, sizeof(bare), "%s", asker->target);
    if (at != NULL) { /* drawn at random */
        size_t from = (size_t)(at - asker->target), n_digits = strspn(at + 16, "0123456789");
        memmove(bare + from, bare + from + 16 + n_digits, strlen(bare + from + 16 + n_digits) + 1);
    }
    assert_string_equal(bare, target);
}

#define STREAM_OF(version)                                                                         \
    "/api/v1/pods?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch="   \
    "NotOlderThan&resourceVersion=" version
#define WATCH_OF(version) "/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=" version
#define LIST_OF(version)  "/api/v1/pods?resourceVersion=" version

#define OBJECT(name, version)                                                                      \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"" name                                       \
    "\",\"uid\":\"u\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, name, version) "{\"type\":\"" type "\",\"object\":" OBJECT(name, version) "}\n"
#define BOOKMARK(version)                                                                          \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{"     \
    "\"resourceVersion\":\"" version "\"}}}\n"
#define INITIAL_END(version)                                                                       \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{"     \
    "\"resourceVersion\":\"" version                                                               \
    "\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n"
#define STATUS(code, reason, message)                                                              \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","           \
    "\"message\":\"" message "\",\"reason\":\"" reason "\",\"code\":" #code "}"
#define ERROR_EVENT(status) "{\"type\":\"ERROR\",\"object\":" status "}\n"
#define LIST(version, items)                                                                       \
    "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"" version     \
    "\"},\"items\":[" items "]}"

static inline void says(const char *text) /* within a 200 that streams */
{
    script_chunk(asker, text);
}

static inline void begins_stream(void)
{
    script_say(asker, CHUNKED);
}

static inline void ends_stream(void)
{
    script_say(asker, LAST_CHUNK);
}

static inline bool has_told(void *arg)
{
    return strcmp(told, arg) == 0;
}

static inline void tells(const char *signs)
{
    int64_t end_ms = fl_reactor_now_ms(reactor) + 20000;
    while (strcmp(told, signs) != 0) {
        if (fl_reactor_now_ms(reactor) > end_ms) {
            fail_msg("told %s, not %s", told, signs);
        }
        fl_reactor_turn(reactor, 20);
    }
}

/* Request 1: a streamed list with the pods a and b at version 100. */
static inline void is_synced(void)
{
    open_watch();
    request(1, STREAM_OF(""));
    begins_stream();
    says(EVENT("ADDED", "a", "90") EVENT("ADDED", "b", "17") INITIAL_END("100"));
    tells("[+a+b]");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
