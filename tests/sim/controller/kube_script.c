#include "tests/sim/controller/kube_script.h"

#include <stdlib.h>

static char *copy(struct fl_span s)
{
    char *c = malloc(s.len + 1);
    FL_MUST(c != NULL);
    if (s.len > 0) {
        memcpy(c, s.ptr, s.len);
    }
    c[s.len] = '\0';
    return c;
}

void script_init(struct fl_kube *k)
{
    *k = (struct fl_kube){0};
    fl_list_init(&k->open);
}

void script_done(struct fl_kube *k)
{
    FL_MUST(fl_list_empty(&k->open));
}

static void forget(struct fl_kube_call *c)
{
    fl_list_remove(&c->node);
    c->kube->count--;
    free(c->method);
    free(c->path);
    free(c->content_type);
    free(c->body);
    free(c->verb);
    free(c->resource);
    free(c);
}

int fl_kube_start(struct fl_kube *k, const struct fl_kube_request *q, struct fl_kube_call **ret)
{
    if (k->start_fails != 0) {
        return k->start_fails;
    }
    struct fl_kube_call *c = calloc(1, sizeof(*c));
    FL_MUST(c != NULL && q->timeout_ms > 0 && (q->body.len == 0 || q->content_type != NULL));
    c->kube = k;
    c->method = copy(fl_span_of(q->method));
    c->path = copy(fl_span_of(q->path));
    c->content_type = copy(fl_span_of(q->content_type));
    c->body = copy(q->body);
    c->verb = copy(fl_span_of(q->verb));
    c->resource = copy(fl_span_of(q->resource));
    c->timeout_ms = q->timeout_ms;
    c->done = q->done;
    c->arg = q->arg;
    fl_list_append(&k->open, &c->node);
    k->started++;
    k->count++;
    k->most = k->most > k->count ? k->most : k->count;
    *ret = c;
    if (k->on_start != NULL) {
        k->on_start(k->arg, c);
    }
    return 0;
}

void fl_kube_cancel(struct fl_kube_call **call)
{
    if (*call != NULL) {
        (*call)->kube->cancelled++;
        forget(*call);
        *call = NULL;
    }
}

struct fl_kube_call *script_first(struct fl_kube *k)
{
    struct fl_list *n = fl_list_first(&k->open);
    FL_MUST(n != NULL);
    return fl_container_of(n, struct fl_kube_call, node);
}

struct fl_kube_call *script_only(struct fl_kube *k)
{
    FL_MUST(k->count == 1);
    return script_first(k);
}

static void end(struct fl_kube_call *call, struct fl_kube_answer *a)
{
    fl_kube_done_fn *done = call->done;
    void *arg = call->arg;
    forget(call);
    done(arg, a);
}

void script_answer_later(struct fl_kube_call *call, int status, const char *body,
                         int64_t retry_after_ms)
{
    struct fl_kube_answer a = {.status = status,
                               .body = fl_span_of(body),
                               .retry_after_ms = retry_after_ms,
                               .text = status < 300 ? "" : "so says the script"};
    end(call, &a);
}

void script_answer(struct fl_kube_call *call, int status, const char *body)
{
    script_answer_later(call, status, body, 0);
}

void script_fail(struct fl_kube_call *call, enum fl_curl_fault fault)
{
    struct fl_kube_answer a = {.fault = fault, .text = "connect to 10.96.0.1:443 failed"};
    end(call, &a);
}
