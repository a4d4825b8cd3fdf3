#include "controller/push/push_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/units.h"
#include "common/io/resolve.h"
#include "common/model/cause.h"
#include "common/probe/http_client.h"

#define ADDRESSES_MAX 8

struct fl_push_lines {
    struct fl_reactor *reactor;
    struct fl_resolver *resolver;
    struct fl_list asked;
};

struct question { /* to the resolver, which cannot be told that nobody waits any more */
    struct fl_list node;
    struct fl_push_line *line; /* NULL: nobody does */
};

struct fl_push_line {
    struct fl_http_client *client;
    struct fl_push_lines *all;
    fl_push_reply_fn *reply;
    void *arg;
    struct fl_push_request request;
    int64_t until_ms;
    struct question *asked; /* NULL: none is under way */
    bool named, busy;
    bool repeated; /* on a new connection */
    uint16_t port;
    unsigned count, at;  /* of what the name stands for: how many, and which one is tried */
    char *host;          /* behind `to`; "" unless it is a name */
    struct fl_addr to[]; /* one when it is no name */
};

static void end(struct fl_push_line *l, const struct fl_push_reply *r)
{
    l->busy = false;
    l->reply(l->arg, r);
}

static int ask(struct fl_push_line *l, bool fresh)
{
    int64_t left_ms = l->until_ms - fl_reactor_now_ms(l->all->reactor);
    left_ms = left_ms > 0 ? left_ms : 1;
    const struct fl_http_ask q = {
        .to = l->to[l->at],
        .fresh = fresh,
        .method = FL_METHOD_PUT,
        .text = l->request.head,
        .body = l->request.body,
        .connect_ms = left_ms,
        .answer_ms = left_ms,
        .total_ms = left_ms,
        .keep = l->request.answer_max,
    };
    return fl_http_client_ask(l->client, &q);
}

static void fail(struct fl_push_line *l, int err)
{
    const struct fl_push_reply r = {
        .fault = FL_PUSH_FAULT_OTHER, .os_errno = err, .text = fl_cause_errno_text(err)};
    end(l, &r);
}

static enum fl_push_fault fault_of(const struct fl_push_line *l, const struct fl_http_answer *a)
{
    switch ((int)a->outcome) { /* of its outcomes a few are those of a client */
    case FL_OUTCOME_OK:
        return a->whole                               ? FL_PUSH_FAULT_NONE
               : a->body.len >= l->request.answer_max ? FL_PUSH_FAULT_TOO_LONG
               : a->late                              ? FL_PUSH_FAULT_TIMEOUT
                                                      : FL_PUSH_FAULT_ENDED;
    case FL_OUTCOME_CONNECT_FAILED:
        return FL_PUSH_FAULT_CONNECT;
    case FL_OUTCOME_CONNECT_TIMEOUT:
        return FL_PUSH_FAULT_CONNECT_TIMEOUT;
    case FL_OUTCOME_SEND_TIMEOUT:
    case FL_OUTCOME_READ_TIMEOUT:
        return FL_PUSH_FAULT_TIMEOUT;
    case FL_OUTCOME_PREMATURE_CLOSE:
        return FL_PUSH_FAULT_ENDED;
    case FL_OUTCOME_INVALID_HEADER:
        return FL_PUSH_FAULT_NOT_HTTP;
    default:
        return FL_PUSH_FAULT_OTHER;
    }
}

/* True: it goes on, by another connection or to another address. */
static bool goes_on(struct fl_push_line *l, const struct fl_http_answer *a)
{
    bool unconnected =
        a->outcome == FL_OUTCOME_CONNECT_FAILED ||
        (a->outcome == FL_OUTCOME_PREMATURE_CLOSE && a->step == FL_PROBE_STEP_CONNECT);
    if (a->outcome == FL_OUTCOME_PREMATURE_CLOSE && a->reused && !l->repeated) {
        l->repeated = true;
        return ask(l, true) == 0;
    }
    if (unconnected && l->at + 1 < l->count) {
        l->at++;
        return ask(l, true) == 0;
    }
    return false;
}

static void on_answer(void *arg, const struct fl_http_answer *a)
{
    struct fl_push_line *l = arg;
    if (goes_on(l, a)) {
        return;
    }
    struct fl_push_reply r = {
        .fault = fault_of(l, a),
        .status = a->head != NULL ? a->head->status : 0,
        .os_errno = a->os_errno,
        .body = a->body,
        .text = "",
    };
    if (r.fault == FL_PUSH_FAULT_OTHER) {
        r.text = a->os_errno != 0 ? fl_cause_errno_text(a->os_errno) : "no memory";
    }
    end(l, &r);
}

static void on_names(void *arg, int err, const struct fl_addr *addrs, int count)
{
    struct question *q = arg;
    struct fl_push_line *l = q->line;
    fl_list_remove(&q->node);
    free(q);
    if (l == NULL) {
        return;
    }
    l->asked = NULL;
    l->count = 0;
    while (err == 0 && l->count < (unsigned)count && l->count < ADDRESSES_MAX) {
        l->to[l->count] = addrs[l->count];
        l->count++;
    }
    if (l->count == 0) {
        const struct fl_push_reply r = {.fault = FL_PUSH_FAULT_RESOLVE, .text = ""};
        end(l, &r);
        return;
    }
    int rc = ask(l, false);
    if (rc < 0) {
        fail(l, -rc);
    }
}

static int look_up(struct fl_push_line *l)
{
    struct question *q = calloc(1, sizeof(*q));
    if (q == NULL) {
        return -ENOMEM;
    }
    q->line = l;
    int rc = fl_resolver_ask(l->all->resolver, l->host, l->port, on_names, q);
    if (rc < 0) {
        free(q);
        return rc;
    }
    fl_list_append(&l->all->asked, &q->node);
    l->asked = q;
    return 0;
}

int fl_push_line_send(struct fl_push_line *l, const struct fl_push_request *rq)
{
    FL_MUST(!l->busy && rq->timeout_ms > 0);
    l->request = *rq;
    l->until_ms = fl_reactor_now_ms(l->all->reactor) + rq->timeout_ms;
    l->repeated = false;
    l->at = 0;
    int rc = l->named ? look_up(l) : ask(l, false);
    l->busy = rc == 0;
    return rc;
}

bool fl_push_line_busy(const struct fl_push_line *l)
{
    return l != NULL && l->busy;
}

/* ---- life ---- */

int fl_push_lines_new(struct fl_reactor *r, struct fl_push_lines **ret)
{
    struct fl_push_lines *all = calloc(1, sizeof(*all));
    int rc = all != NULL ? fl_resolver_new(r, &all->resolver) : -ENOMEM;
    if (rc < 0) {
        free(all);
        return rc;
    }
    all->reactor = r;
    fl_list_init(&all->asked);
    *ret = all;
    return 0;
}

struct fl_push_lines *fl_push_lines_free(struct fl_push_lines *all)
{
    if (all != NULL) {
        fl_resolver_free(all->resolver);
        fl_list_each_safe (it, next, &all->asked) {
            free(fl_container_of(it, struct question, node));
        }
        free(all);
    }
    return NULL;
}

static void free_line(struct fl_push_line *l)
{
    (void)fl_http_client_free(l->client);
    free(l);
}

/* "name:port"; false: it is not. */
static bool take_name(struct fl_push_line *l, struct fl_span host, struct fl_span port)
{
    uint64_t number = 0;
    if (host.len == 0 || !fl_units_uint(port, &number) || number == 0 || number > UINT16_MAX) {
        return false;
    }
    memcpy(l->host, host.ptr, host.len);
    l->port = (uint16_t)number;
    return true;
}

int fl_push_line_open(struct fl_push_lines *all, const char *address, fl_push_reply_fn *reply,
                      void *arg, struct fl_push_line **ret)
{
    struct fl_addr is;
    struct fl_span host = {0}, port = {0};
    bool named = !fl_addr_parse(fl_span_of(address), &is);
    if (named && !fl_addr_split_host(fl_span_of(address), &host, &port)) {
        return -EINVAL;
    }
    size_t room = named ? ADDRESSES_MAX : 1;
    struct fl_push_line *l = calloc(1, sizeof(*l) + room * sizeof(l->to[0]) + host.len + 1);
    if (l == NULL) {
        return -ENOMEM;
    }
    l->host = (char *)&l->to[room];
    l->all = all;
    l->reply = reply;
    l->arg = arg;
    l->named = named;
    l->count = 1;
    l->to[0] = is;
    int rc = named && !take_name(l, host, port)
                 ? -EINVAL
                 : fl_http_client_new(all->reactor, on_answer, l, &l->client);
    if (rc < 0) {
        free_line(l);
        return rc;
    }
    *ret = l;
    return 0;
}

void fl_push_line_close(struct fl_push_line **line)
{
    struct fl_push_line *l = *line;
    *line = NULL;
    if (l != NULL) {
        if (l->asked != NULL) {
            l->asked->line = NULL;
        }
        free_line(l);
    }
}
