#include "controller/kube/kube_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/base/arena.h"
#include "controller/codec/kube_decode.h"

#define ANSWER_MAX_BYTES ((size_t)4 << 20)
#define CALL_MAX_BYTES   ((size_t)16 << 20) /* the request's body and what is read of an error */
#define CONNECT_MAX_MS   10000
#define WARNINGS_MAX     64 /* texts that are told apart; beyond, none is logged */
#define FIELD_MAX        512
#define VERB_MAX         16
#define RESOURCE_MAX     48

struct count {
    char verb[VERB_MAX], resource[RESOURCE_MAX];
    int status; /* 0: none came */
    uint64_t calls;
};

struct fl_kube {
    struct fl_reactor *reactor;
    const struct fl_log *log;
    struct fl_kube_access *access;
    struct fl_curl *curl;
    struct fl_list calls, over; /* over: freed at the end of the turn */
    struct fl_task sweep;
    struct count *counts;
    size_t count_len, count_cap;
    uint64_t warnings[WARNINGS_MAX]; /* hashes of texts */
    size_t warning_len;
    char agent[FIELD_MAX];
};

struct fl_kube_call {
    struct fl_list node;
    struct fl_kube *kube;
    struct fl_curl_call *curl;
    struct fl_arena arena; /* owns the texts of q, and what is decoded */
    struct fl_kube_request q;
    const char *url;
    int64_t until_ms;
    bool tried_again, counted;
    char text[512];
};

/* ---- counting ---- */

static void name_of(char *to, size_t cap, const char *from)
{
    struct fl_fmt f = fl_fmt_of(to, cap);
    fl_fmt_span(&f, fl_span_first(fl_span_of(from), cap - 1));
}

static void count(struct fl_kube *k, const struct fl_kube_request *q, int status)
{
    struct count c = {.status = status, .calls = 1};
    name_of(c.verb, sizeof(c.verb), q->verb);
    name_of(c.resource, sizeof(c.resource), q->resource);
    for (size_t i = 0; i < k->count_len; i++) {
        struct count *have = &k->counts[i];
        if (have->status == status && strcmp(have->verb, c.verb) == 0 &&
            strcmp(have->resource, c.resource) == 0) {
            have->calls++;
            return;
        }
    }
    if (k->count_len == k->count_cap) {
        size_t cap = k->count_cap > 0 ? 2 * k->count_cap : 16;
        struct count *grown = realloc(k->counts, cap * sizeof(*grown));
        if (grown == NULL) {
            return;
        }
        k->counts = grown;
        k->count_cap = cap;
    }
    k->counts[k->count_len++] = c;
}

static void label(struct fl_fmt *out, const char *name, const char *value)
{
    fl_fmt_text(out, name);
    fl_fmt_text(out, "=\"");
    fl_fmt_prom(out, fl_span_of(value));
    fl_fmt_char(out, '"');
}

void fl_kube_metrics(const struct fl_kube *k, struct fl_fmt *out)
{
    static const char name[] = "fairlead_controller_api_requests_total";
    if (k->count_len == 0) {
        return;
    }
    fl_fmt_printf(out,
                  "# HELP %s Calls of the Kubernetes API by the status of their answer; error: "
                  "none came.\n# TYPE %s counter\n",
                  name, name);
    for (size_t i = 0; i < k->count_len; i++) {
        const struct count *c = &k->counts[i];
        fl_fmt_text(out, name);
        fl_fmt_char(out, '{');
        label(out, "verb", c->verb);
        fl_fmt_char(out, ',');
        label(out, "resource", c->resource);
        if (c->status > 0) {
            fl_fmt_printf(out, ",code=\"%d\"} ", c->status);
        } else {
            fl_fmt_text(out, ",code=\"error\"} ");
        }
        fl_fmt_uint(out, c->calls);
        fl_fmt_char(out, '\n');
    }
}

/* ---- the end of a call ---- */

static void free_call(struct fl_kube_call *call)
{
    fl_list_remove(&call->node);
    fl_curl_cancel(&call->curl);
    fl_arena_done(&call->arena);
    free(call);
}

/* Not now: libcurl may still be sending its body. */
static void put_away(struct fl_kube_call *call)
{
    struct fl_kube *k = call->kube;
    fl_curl_cancel(&call->curl);
    fl_list_remove(&call->node);
    fl_list_append(&k->over, &call->node);
    fl_reactor_later(k->reactor, &k->sweep);
}

static void sweep(struct fl_task *t)
{
    struct fl_kube *k = fl_container_of(t, struct fl_kube, sweep);
    fl_list_each_safe (it, next, &k->over) {
        free_call(fl_container_of(it, struct fl_kube_call, node));
    }
}

/* The first line of a body that is no Status. */
static struct fl_span first_line(struct fl_span body)
{
    ptrdiff_t end = fl_span_find(body, '\n');
    return fl_span_first(end < 0 ? body : fl_span_first(body, (size_t)end), 256);
}

static void say_status(struct fl_kube_call *call, struct fl_kube_answer *a)
{
    struct fl_fmt f = fl_fmt_of(call->text, sizeof(call->text));
    struct fl_kube_status s = {.message = ""};
    if (fl_kube_decode_status(a->body, &call->arena, &s) == 0 && s.message[0] != '\0') {
        fl_fmt_span(&f, fl_span_first(fl_span_of(s.message), sizeof(call->text) - 1));
        if (a->retry_after_ms == 0 && s.retry_after_s > 0 && s.retry_after_s < INT32_MAX) {
            a->retry_after_ms = s.retry_after_s * 1000;
        }
        return;
    }
    struct fl_span line = first_line(a->body);
    if (line.len > 0) {
        fl_fmt_span(&f, line);
    } else {
        fl_fmt_printf(&f, "status %d", a->status);
    }
}

static void say_fault(struct fl_kube_call *call, const struct fl_curl_answer *a)
{
    const char *server = fl_kube_access_server(call->kube->access);
    struct fl_fmt f = fl_fmt_of(call->text, sizeof(call->text));
    switch (a->fault) {
    case FL_CURL_RESOLVE:
        fl_fmt_printf(&f, "the host name of %s has no address", server);
        break;
    case FL_CURL_CONNECT:
        fl_fmt_printf(
            &f, "%s %s failed (%s)", a->os_errno == EPROTO ? "TLS with" : "connect to", server,
            a->os_errno == EPROTO || a->os_errno == 0 ? a->text : fl_cause_errno_text(a->os_errno));
        break;
    case FL_CURL_CONNECT_TIMEOUT:
        fl_fmt_printf(&f, "connect to %s timed out", server);
        break;
    case FL_CURL_TIMEOUT:
        fl_fmt_printf(&f, "%s does not answer (%s)", server, a->text);
        break;
    case FL_CURL_ENDED:
        fl_fmt_printf(&f, "%s closed the connection before the answer was whole", server);
        break;
    case FL_CURL_NOT_HTTP:
        fl_fmt_printf(&f, "%s does not answer in HTTP/1.1", server);
        break;
    case FL_CURL_TOO_LONG:
        fl_fmt_printf(&f, "the answer of %s is too long", server);
        break;
    case FL_CURL_NONE:
    case FL_CURL_OTHER:
        fl_fmt_printf(&f, "the call of %s failed (%s)", server, a->text);
        break;
    }
    if (f.cut) { /* dropped whole */
        fl_fmt_text(&f, a->text);
    }
}

static int start(struct fl_kube_call *call);

/* A 401: once more with the token as it is now. False: it stays with that. */
static bool try_again(struct fl_kube_call *call)
{
    struct fl_kube *k = call->kube;
    int64_t now_ms = fl_reactor_now_ms(k->reactor);
    if (call->tried_again || now_ms >= call->until_ms ||
        fl_kube_access_bearer(k->access, now_ms, true)[0] == '\0') {
        return false;
    }
    call->tried_again = true;
    return start(call) == 0;
}

static void on_done(void *arg, const struct fl_curl_answer *got)
{
    struct fl_kube_call *call = arg;
    struct fl_kube *k = call->kube;
    struct fl_kube_answer a = {.fault = got->fault,
                               .status = got->status,
                               .os_errno = got->os_errno,
                               .retry_after_ms = fl_curl_retry_after_ms(call->curl),
                               .body = got->body,
                               .text = call->text};
    call->curl = NULL;
    if (!call->counted) {
        count(k, &call->q, got->status);
    }
    if (got->fault == FL_CURL_TIMEOUT || got->fault == FL_CURL_ENDED) {
        fl_curl_drop_kept(k->curl); /* others may be as dead */
    }
    if (got->fault == FL_CURL_CONNECT && got->os_errno == EPROTO) {
        fl_kube_access_ca_doubted(k->access);
    }
    if (got->fault == FL_CURL_NONE && got->status == 401 && try_again(call)) {
        return;
    }
    call->text[0] = '\0';
    if (got->fault != FL_CURL_NONE) {
        say_fault(call, got);
    } else if (got->status >= 300) {
        say_status(call, &a);
    }
    put_away(call);
    call->q.done(call->q.arg, &a);
}

/* ---- while it runs ---- */

static bool on_some(void *arg, struct fl_span bytes)
{
    struct fl_kube_call *call = arg;
    if (bytes.len == 0 && !call->counted) {
        call->counted = true;
        count(call->kube, &call->q, 200);
    }
    return call->q.some(call->q.arg, bytes);
}

static void on_field(void *arg, struct fl_span name, struct fl_span value)
{
    struct fl_kube_call *call = arg;
    struct fl_kube *k = call->kube;
    struct fl_log_line l;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    if (!fl_span_ieq(name, FL_SPAN("Warning")) || k->warning_len == WARNINGS_MAX) {
        return;
    }
    for (size_t i = 0; i < value.len; i++) {
        hash = (hash ^ (unsigned char)value.ptr[i]) * 0x100000001b3u;
    }
    for (size_t i = 0; i < k->warning_len; i++) {
        if (k->warnings[i] == hash) {
            return;
        }
    }
    k->warnings[k->warning_len++] = hash;
    fl_log_begin(k->log, &l, FL_LOG_WARN, "the Kubernetes API warns");
    fl_log_text(&l, "verb", call->q.verb);
    fl_log_text(&l, "resource", call->q.resource);
    fl_log_str(&l, "warning", fl_span_first(value, 512));
    fl_log_end(k->log, &l);
}

/* ---- the start of a call ---- */

static int start(struct fl_kube_call *call)
{
    struct fl_kube *k = call->kube;
    const struct fl_kube_request *q = &call->q;
    int64_t now_ms = fl_reactor_now_ms(k->reactor), left_ms = call->until_ms - now_ms;
    const char *bearer = fl_kube_access_bearer(k->access, now_ms, false);
    const char *fields[6] = {k->agent, "Accept: application/json", "Accept-Encoding: identity"};
    size_t n = 3;
    if (bearer[0] != '\0') {
        fields[n++] = fl_arena_printf(&call->arena, "Authorization: %s", bearer);
    }
    if (q->content_type != NULL) {
        fields[n++] = fl_arena_printf(&call->arena, "Content-Type: %s", q->content_type);
    }
    for (size_t i = 3; i < n; i++) {
        if (fields[i] == NULL) {
            return -ENOMEM;
        }
    }
    const struct fl_curl_tls tls = {.ca_file = fl_kube_access_ca_file(k->access),
                                    .cert_file = fl_kube_access_cert_file(k->access),
                                    .key_file = fl_kube_access_key_file(k->access),
                                    .unverified = !fl_kube_access_verify(k->access)};
    const struct fl_curl_conf conf = {.method = q->method,
                                      .url = call->url,
                                      .fields = fields,
                                      .body = q->body,
                                      .timeout_ms = left_ms,
                                      .answer_max_bytes = ANSWER_MAX_BYTES,
                                      .done = on_done,
                                      .arg = call,
                                      .tls = &tls,
                                      .connect_ms =
                                          left_ms < CONNECT_MAX_MS ? left_ms : CONNECT_MAX_MS,
                                      .stall_ms = q->stall_ms,
                                      .some = q->some != NULL ? on_some : NULL,
                                      .field = on_field,
                                      .keepalive = true,
                                      .reuse = true};
    return fl_curl_start(k->curl, &conf, &call->curl);
}

/* The texts of the request, and its body, as our own. */
static bool keep(struct fl_kube_call *call, const struct fl_kube_request *q)
{
    struct fl_arena *a = &call->arena;
    call->q = *q;
    call->q.verb = fl_arena_text(a, fl_span_of(q->verb));
    call->q.resource = fl_arena_text(a, fl_span_of(q->resource));
    call->q.method = fl_arena_text(a, fl_span_of(q->method));
    call->q.path = "";
    call->url = fl_arena_printf(a, "%s%s", fl_kube_access_server(call->kube->access), q->path);
    call->q.body.ptr = fl_arena_text(a, q->body);
    if (q->content_type != NULL) {
        call->q.content_type = fl_arena_text(a, fl_span_of(q->content_type));
    }
    return call->q.verb != NULL && call->q.resource != NULL && call->q.method != NULL &&
           call->url != NULL && call->q.body.ptr != NULL &&
           (q->content_type == NULL || call->q.content_type != NULL);
}

int fl_kube_start(struct fl_kube *k, const struct fl_kube_request *q, struct fl_kube_call **ret)
{
    FL_MUST(q->path[0] == '/' && q->timeout_ms > 0 && q->done != NULL);
    struct fl_kube_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return -ENOMEM;
    }
    int64_t now_ms = fl_reactor_now_ms(k->reactor);
    fl_list_init(&call->node);
    fl_arena_init(&call->arena, CALL_MAX_BYTES);
    call->kube = k;
    call->until_ms = now_ms + q->timeout_ms;
    if (fl_kube_access_ca_changed(k->access, now_ms)) {
        fl_curl_drop_kept(k->curl);
    }
    int rc = keep(call, q) ? start(call) : -ENOMEM;
    if (rc < 0) {
        free_call(call);
        return rc;
    }
    fl_list_append(&k->calls, &call->node);
    *ret = call;
    return 0;
}

void fl_kube_cancel(struct fl_kube_call **call)
{
    struct fl_kube_call *one = *call;
    *call = NULL;
    if (one != NULL) {
        put_away(one);
    }
}

/* ---- life ---- */

int fl_kube_new(struct fl_reactor *r, const struct fl_log *log, struct fl_kube_access *access,
                struct fl_kube **ret)
{
    struct fl_kube *k = calloc(1, sizeof(*k));
    struct utsname machine = {.machine = ""};
    if (k == NULL) {
        return -ENOMEM;
    }
    k->reactor = r;
    k->log = log;
    k->access = access;
    fl_list_init(&k->calls);
    fl_list_init(&k->over);
    fl_task_init(&k->sweep, sweep);
    (void)uname(&machine);
    struct fl_fmt f = fl_fmt_of(k->agent, sizeof(k->agent));
    fl_fmt_printf(&f, "User-Agent: fairlead-controller/" FL_VERSION " (linux/%s)",
                  strcmp(machine.machine, "x86_64") == 0    ? "amd64"
                  : strcmp(machine.machine, "aarch64") == 0 ? "arm64"
                                                            : machine.machine);
    int rc = fl_curl_new(r, &k->curl);
    if (rc < 0) {
        free(k);
        return rc;
    }
    *ret = k;
    return 0;
}

struct fl_kube *fl_kube_free(struct fl_kube *k)
{
    if (k != NULL) {
        struct fl_list *lists[] = {&k->calls, &k->over};
        for (size_t i = 0; i < FL_COUNTOF(lists); i++) {
            fl_list_each_safe (it, next, lists[i]) {
                free_call(fl_container_of(it, struct fl_kube_call, node));
            }
        }
        fl_list_remove(&k->sweep.node);
        k->curl = fl_curl_free(k->curl);
        free(k->counts);
        free(k);
    }
    return NULL;
}

const char *fl_kube_namespace(const struct fl_kube *k)
{
    return fl_kube_access_namespace(k->access);
}
