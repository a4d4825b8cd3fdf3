#include "common/io/bridge/curl_bridge.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/fmt.h"
#include "common/io/bridge/curl_inner.h"

#define BATCH 32

static void answer(struct fl_curl_call *k, CURLcode code)
{
    long status = 0;
    (void)curl_easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, &status);
    struct fl_curl_answer a = {
        .status = (int)status,
        .body = {k->body != NULL ? k->body : "", k->body_len},
    };
    a.fault = fl_curl_call_fault(k, code, &a.os_errno);
    a.text = a.fault == FL_CURL_NONE ? "" : k->text[0] ? k->text : curl_easy_strerror(code);
    /* out of the multi first: done may start the next call to the same place */
    (void)curl_multi_remove_handle(k->owner->multi, k->easy);
    fl_list_remove(&k->node);
    k->done(k->arg, &a);
    fl_curl_call_free(k);
}

static bool add(struct fl_curl_call *k)
{
    k->added = curl_multi_add_handle(k->owner->multi, k->easy) == CURLM_OK;
    return k->added;
}

static void give_dropped(struct fl_curl *c)
{
    while (c->dropped != NULL) {
        struct fl_curl_kept *one = c->dropped;
        c->dropped = one->next;
        fl_curl_kept_give(&one);
    }
}

/* What was started or cancelled while libcurl was at work. */
static void catch_up(struct fl_curl *c)
{
    while (c->put_off) {
        c->put_off = false;
        give_dropped(c);
        fl_list_each_safe (it, next, &c->calls) {
            struct fl_curl_call *k = fl_container_of(it, struct fl_curl_call, node);
            if (k->cancelled) {
                fl_curl_call_free(k);
            } else if (!k->added && !add(k)) {
                c->put_off = true;
                answer(k, CURLE_FAILED_INIT); /* it may do what it likes with the list */
                break;
            }
        }
    }
}

static void answer_ended(struct fl_curl *c)
{
    CURLMsg *m;
    int left;
    catch_up(c);
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
    c->inside = true;
    (void)curl_multi_socket_action(c->multi, fd, events, &running);
    c->inside = false;
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

/* ---- silence ---- */

/* Looks after the calls with such a limit; there are few. */
static void watch_silence(struct fl_curl *c)
{
    int64_t next_ms = INT64_MAX;
    fl_list_each (it, &c->calls) {
        const struct fl_curl_call *k = fl_container_of(it, struct fl_curl_call, node);
        if (k->stall_ms > 0 && k->heard_ms + k->stall_ms < next_ms) {
            next_ms = k->heard_ms + k->stall_ms;
        }
    }
    if (next_ms == INT64_MAX) {
        fl_timer_off(&c->stall);
    } else {
        fl_timer_set(c->reactor, &c->stall, next_ms);
    }
}

static struct fl_curl_call *silent_call(struct fl_curl *c)
{
    int64_t now_ms = fl_reactor_now_ms(c->reactor);
    fl_list_each (it, &c->calls) {
        struct fl_curl_call *k = fl_container_of(it, struct fl_curl_call, node);
        if (k->stall_ms > 0 && now_ms >= k->heard_ms + k->stall_ms) {
            return k;
        }
    }
    return NULL;
}

static void on_stall(struct fl_timer *t)
{
    struct fl_curl *c = fl_container_of(t, struct fl_curl, stall);
    struct fl_curl_call *k;
    while ((k = silent_call(c)) != NULL) {
        struct fl_fmt text = fl_fmt_of(k->text, sizeof(k->text));
        fl_fmt_printf(&text, "no byte for %lld ms", (long long)k->stall_ms);
        answer(k, CURLE_OPERATION_TIMEDOUT);
    }
    watch_silence(c);
}

/* ---- the owner ---- */

int fl_curl_new(struct fl_reactor *r, struct fl_curl **ret)
{
    struct fl_curl *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return -ENOMEM;
    }
    c->reactor = r;
    c->nest = (struct fl_io){.fd = -1, .on_event = on_nest};
    fl_timer_init(&c->timeout, on_timeout);
    fl_timer_init(&c->stall, on_stall);
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
        FL_MUST(!c->inside);
        fl_list_each_safe (it, next, &c->calls) {
            fl_curl_call_free(fl_container_of(it, struct fl_curl_call, node));
        }
        fl_curl_drop_kept(c);
        if (c->multi != NULL) {
            (void)curl_multi_cleanup(c->multi);
        }
        fl_reactor_close(c->reactor, &c->nest);
        fl_timer_remove(c->reactor, &c->timeout);
        fl_timer_remove(c->reactor, &c->stall);
        fl_list_remove(&c->soon.node);
        curl_global_cleanup();
        free(c);
    }
    return NULL;
}

int fl_curl_start(struct fl_curl *c, const struct fl_curl_conf *conf, struct fl_curl_call **ret)
{
    struct fl_curl_call *k = NULL;
    int rc = fl_curl_call_new(c, conf, &k);
    if (rc < 0) {
        return rc;
    }
    if (c->inside) {
        c->put_off = true;
    } else if (!add(k)) {
        fl_curl_call_free(k);
        return -EINVAL;
    }
    fl_list_append(&c->calls, &k->node);
    if (k->stall_ms > 0) {
        watch_silence(c);
    }
    *ret = k;
    return 0;
}

void fl_curl_cancel(struct fl_curl_call **call)
{
    struct fl_curl_call *k = *call;
    *call = NULL;
    if (k != NULL && k->owner->inside) {
        k->cancelled = k->owner->put_off = true;
    } else {
        fl_curl_call_free(k);
    }
}

void fl_curl_drop_kept(struct fl_curl *c)
{
    if (c->kept != NULL) {
        c->kept->next = c->dropped;
        c->dropped = c->kept;
        c->kept = NULL;
    }
    if (c->inside) {
        c->put_off = true;
    } else {
        give_dropped(c);
    }
}
