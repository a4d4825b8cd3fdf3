#include "common/io/bridge/curl_bridge.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH 32

struct fl_curl_call {
    struct fl_list node;
    struct fl_curl *owner;
    CURL *easy;
    struct curl_slist *fields;
    fl_curl_fn *done;
    void *arg;
    char *body;
    size_t body_len, body_cap, body_max;
    bool too_long;
    char text[CURL_ERROR_SIZE];
};

struct fl_curl {
    struct fl_reactor *reactor;
    CURLM *multi;
    struct fl_io nest;
    struct fl_timer timeout;
    struct fl_task soon;
    struct fl_list calls;
};

static struct fl_curl_call *free_call(struct fl_curl_call *k)
{
    if (k != NULL) {
        fl_list_remove(&k->node);
        if (k->easy != NULL) {
            (void)curl_multi_remove_handle(k->owner->multi, k->easy); /* harmless if not added */
            curl_easy_cleanup(k->easy);
        }
        curl_slist_free_all(k->fields);
        free(k->body);
        free(k);
    }
    return NULL;
}

static enum fl_curl_fault fault_of(const struct fl_curl_call *k, CURLcode code)
{
    curl_off_t connected_us = 0;
    if (k->too_long) {
        return FL_CURL_TOO_LONG;
    }
    switch ((int)code) { /* of libcurl's hundred codes a few concern us */
    case CURLE_OK:
        return FL_CURL_NONE;
    case CURLE_COULDNT_RESOLVE_HOST:
        return FL_CURL_RESOLVE;
    case CURLE_COULDNT_CONNECT:
        return FL_CURL_CONNECT;
    case CURLE_OPERATION_TIMEDOUT:
        (void)curl_easy_getinfo(k->easy, CURLINFO_CONNECT_TIME_T, &connected_us);
        return connected_us > 0 ? FL_CURL_TIMEOUT : FL_CURL_CONNECT_TIMEOUT;
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        return FL_CURL_ENDED;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9 and other strangers */
    case CURLE_BAD_CONTENT_ENCODING:
        return FL_CURL_NOT_HTTP;
    default:
        return FL_CURL_OTHER;
    }
}

static void answer(struct fl_curl_call *k, CURLcode code)
{
    long status = 0, os_errno = 0;
    (void)curl_easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(k->easy, CURLINFO_OS_ERRNO, &os_errno);
    struct fl_curl_answer a = {
        .fault = fault_of(k, code),
        .status = (int)status,
        .body = {k->body != NULL ? k->body : "", k->body_len},
    };
    a.os_errno = a.fault == FL_CURL_NONE ? 0 : (int)os_errno;
    a.text = a.fault == FL_CURL_NONE ? "" : k->text[0] ? k->text : curl_easy_strerror(code);
    /* out of the multi first: done may start the next call to the same place */
    (void)curl_multi_remove_handle(k->owner->multi, k->easy);
    fl_list_remove(&k->node);
    k->done(k->arg, &a);
    free_call(k);
}

static void answer_ended(struct fl_curl *c)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(c->multi, &left)) != NULL) {
        char *private = NULL;
        CURLcode code = m->data.result;
        if (m->msg == CURLMSG_DONE) {
            (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private);
            answer((struct fl_curl_call *)(void *)private, code);
        }
    }
}

static void act(struct fl_curl *c, curl_socket_t fd, int events)
{
    int running;
    (void)curl_multi_socket_action(c->multi, fd, events, &running);
}

static void on_nest(struct fl_io *io, unsigned events)
{
    struct fl_curl *c = fl_container_of(io, struct fl_curl, nest);
    struct epoll_event batch[BATCH];
    (void)events;
    int n = epoll_wait(io->fd, batch, BATCH, 0);
    for (int i = 0; i < n; i++) {
        uint32_t e = batch[i].events;
        act(c, batch[i].data.fd,
            (e & (EPOLLIN | EPOLLHUP | EPOLLRDHUP) ? CURL_CSELECT_IN : 0) |
                (e & EPOLLOUT ? CURL_CSELECT_OUT : 0) | (e & EPOLLERR ? CURL_CSELECT_ERR : 0));
    }
    answer_ended(c);
}

static void time_is_up(struct fl_curl *c)
{
    act(c, CURL_SOCKET_TIMEOUT, 0);
    answer_ended(c);
}

static void on_timeout(struct fl_timer *t)
{
    time_is_up(fl_container_of(t, struct fl_curl, timeout));
}

static void on_soon(struct fl_task *t)
{
    time_is_up(fl_container_of(t, struct fl_curl, soon));
}

/* libcurl's callback: what it waits for on a socket. `registered` is our mark on the socket. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *registered)
{
    struct fl_curl *c = arg;
    struct epoll_event ev = {.data.fd = fd};
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(c->nest.fd, EPOLL_CTL_DEL, fd, NULL);
        (void)curl_multi_assign(c->multi, fd, NULL);
        return 0;
    }
    ev.events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
                (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0);
    int op = registered != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(c->nest.fd, op, fd, &ev) < 0) {
        return -1; /* the call fails instead of hanging */
    }
    (void)curl_multi_assign(c->multi, fd, c);
    return 0;
}

/* libcurl's callback; it must not be called back from here, so "now" is the next turn. */
static int on_timer(CURLM *multi, long wait_ms, void *arg)
{
    struct fl_curl *c = arg;
    (void)multi;
    if (wait_ms < 0) {
        fl_timer_off(&c->timeout);
    } else if (wait_ms == 0) {
        fl_timer_off(&c->timeout);
        fl_reactor_soon(c->reactor, &c->soon);
    } else {
        fl_timer_set(c->reactor, &c->timeout, fl_reactor_now_ms(c->reactor) + wait_ms);
    }
    return 0;
}

int fl_curl_new(struct fl_reactor *r, struct fl_curl **ret)
{
    struct fl_curl *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return -ENOMEM;
    }
    c->reactor = r;
    c->nest = (struct fl_io){.fd = -1, .on_event = on_nest};
    fl_timer_init(&c->timeout, on_timeout);
    fl_task_init(&c->soon, on_soon);
    fl_list_init(&c->calls);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) { /* counted by libcurl */
        free(c);
        return -ENOMEM;
    }
    c->multi = curl_multi_init();
    int nest = epoll_create1(EPOLL_CLOEXEC);
    int rc = c->multi == NULL ? -ENOMEM
             : nest < 0       ? -errno
                              : fl_reactor_add_level(r, &c->nest, nest);
    if (rc < 0) {
        if (nest >= 0) {
            close(nest);
        }
        fl_curl_free(c);
        return rc;
    }
    (void)curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    (void)curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    (void)curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    *ret = c;
    return 0;
}

struct fl_curl *fl_curl_free(struct fl_curl *c)
{
    if (c != NULL) {
        fl_list_each_safe (it, next, &c->calls) {
            free_call(fl_container_of(it, struct fl_curl_call, node));
        }
        if (c->multi != NULL) {
            (void)curl_multi_cleanup(c->multi);
        }
        fl_reactor_close(c->reactor, &c->nest);
        fl_timer_remove(c->reactor, &c->timeout);
        fl_list_remove(&c->soon.node);
        curl_global_cleanup();
        free(c);
    }
    return NULL;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct fl_curl_call *k = arg;
    size_t n = size * count; /* size is 1 (CURLOPT_WRITEFUNCTION) */
    if (n > k->body_max - k->body_len) {
        k->too_long = true;
        return 0;
    }
    if (n > k->body_cap - k->body_len) {
        size_t cap = k->body_len + n > 4096 ? 2 * (k->body_len + n) : 4096;
        char *grown = realloc(k->body, cap);
        if (grown == NULL) {
            return 0;
        }
        k->body = grown;
        k->body_cap = cap;
    }
    memcpy(k->body + k->body_len, bytes, n);
    k->body_len += n;
    return n;
}

static bool add_fields(struct fl_curl_call *k, const char *const *fields)
{
    /* libcurl would wait a second for a 100 before it sends a body */
    static const char *const no_expect[] = {"Expect:", NULL};
    const char *const *lists[] = {no_expect, fields};
    for (size_t i = 0; i < FL_COUNTOF(lists); i++) {
        for (const char *const *f = lists[i]; f != NULL && *f != NULL; f++) {
            struct curl_slist *grown = curl_slist_append(k->fields, *f);
            if (grown == NULL) {
                return false;
            }
            k->fields = grown;
        }
    }
    return true;
}

/* false: an option was refused, or no memory */
static bool set_options(struct fl_curl_call *k, const struct fl_curl_conf *conf)
{
    CURL *e = k->easy;
    CURLcode rc = curl_easy_setopt(e, CURLOPT_URL, conf->url);
#define SET(option, value)                                                                         \
    do {                                                                                           \
        rc = rc == CURLE_OK ? curl_easy_setopt(e, option, value) : rc;                             \
    } while (0)
    SET(CURLOPT_PROTOCOLS_STR, "http");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, ""); /* or the environment's http_proxy is taken */
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TIMEOUT_MS, (long)conf->timeout_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)conf->timeout_ms);
    SET(CURLOPT_FRESH_CONNECT, 1L);
    SET(CURLOPT_FORBID_REUSE, 1L);
    SET(CURLOPT_CUSTOMREQUEST, conf->method);
    SET(CURLOPT_HTTPHEADER, k->fields);
    if (conf->body.len > 0) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)conf->body.len);
        SET(CURLOPT_POSTFIELDS, conf->body.ptr);
    }
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, k);
    SET(CURLOPT_ERRORBUFFER, k->text);
    SET(CURLOPT_PRIVATE, k);
#undef SET
    return rc == CURLE_OK;
}

int fl_curl_start(struct fl_curl *c, const struct fl_curl_conf *conf, struct fl_curl_call **ret)
{
    FL_MUST(conf->timeout_ms > 0 && conf->done != NULL);
    struct fl_curl_call *k = calloc(1, sizeof(*k));
    if (k == NULL) {
        return -ENOMEM;
    }
    fl_list_init(&k->node);
    k->owner = c;
    k->done = conf->done;
    k->arg = conf->arg;
    k->body_max = conf->answer_max_bytes;
    k->easy = curl_easy_init();
    if (k->easy == NULL || !add_fields(k, conf->fields)) {
        free_call(k);
        return -ENOMEM;
    }
    if (!set_options(k, conf) || curl_multi_add_handle(c->multi, k->easy) != CURLM_OK) {
        free_call(k);
        return -EINVAL;
    }
    fl_list_append(&c->calls, &k->node);
    *ret = k;
    return 0;
}

void fl_curl_cancel(struct fl_curl_call **call)
{
    *call = free_call(*call);
}
