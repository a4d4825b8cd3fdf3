#include "controller/kube/self_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/fmt.h"
#include "controller/codec/review_json.h"

#define FLYING_MAX     4
#define TIMEOUT_MS     10000
#define SENTENCE_BYTES 2048
#define TEXT_BYTES_MAX ((size_t)1 << 20)
#define PATH           "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#define MANIFEST       "deploy/manifests/controller-rbac.yaml"

enum answer { UNASKED, ASKED, ALLOWED, DENIED, UNKNOWN };

struct row {
    struct fl_self_check *check;
    struct fl_self_check_row row;
    enum answer answer;
    struct fl_kube_call *call;
};

struct fl_self_check {
    struct fl_kube *kube;
    void (*done)(void *arg, const struct fl_cause *cause);
    void *arg;
    struct fl_cause cause;
    char sentence[SENTENCE_BYTES];
    char fault[160]; /* why the last of UNKNOWN is */
    struct fl_arena texts;
    size_t count;
    struct row rows[];
};

/* --- the sentence --- */

static bool same_place(const struct fl_self_check_row *a, const struct fl_self_check_row *b)
{
    return strcmp(a->namespace, b->namespace) == 0 && strcmp(a->name, b->name) == 0;
}

static bool same_resource(const struct fl_self_check_row *a, const struct fl_self_check_row *b)
{
    return same_place(a, b) && strcmp(a->group, b->group) == 0 &&
           strcmp(a->resource, b->resource) == 0 && strcmp(a->subresource, b->subresource) == 0;
}

/* The next row that is denied, of the same resource as `of` unless that is NULL; count at the end.
 */
static size_t denied_from(const struct fl_self_check *c, size_t i,
                          const struct fl_self_check_row *of)
{
    while (i < c->count &&
           (c->rows[i].answer != DENIED || (of != NULL && !same_resource(of, &c->rows[i].row)))) {
        i++;
    }
    return i;
}

/* A group: all denied rows of one resource, named by its first. */
static bool leads_group(const struct fl_self_check *c, size_t i)
{
    return denied_from(c, 0, &c->rows[i].row) == i;
}

static size_t next_group(const struct fl_self_check *c, size_t i)
{
    do {
        i = denied_from(c, i, NULL);
    } while (i < c->count && !leads_group(c, i) && ++i);
    return i;
}

static void verbs(const struct fl_self_check *c, size_t group, struct fl_fmt *out)
{
    const struct fl_self_check_row *of = &c->rows[group].row;
    for (size_t i = group; i < c->count; i = denied_from(c, i + 1, of)) {
        fl_fmt_text(out, i == group ? "" : "/");
        fl_fmt_text(out, c->rows[i].row.verb);
    }
}

static bool same_verbs(const struct fl_self_check *c, size_t a, size_t b)
{
    char va[96], vb[96];
    struct fl_fmt fa = fl_fmt_of(va, sizeof(va)), fb = fl_fmt_of(vb, sizeof(vb));
    verbs(c, a, &fa);
    verbs(c, b, &fb);
    return strcmp(va, vb) == 0;
}

static void resource(const struct fl_self_check_row *r, struct fl_fmt *out)
{
    fl_fmt_text(out, r->resource);
    if (r->subresource[0] != '\0') {
        fl_fmt_printf(out, "/%s", r->subresource);
    }
    if (r->group[0] != '\0') {
        fl_fmt_printf(out, ".%s", r->group);
    }
}

static void place(const struct fl_self_check_row *r, struct fl_fmt *out)
{
    if (r->name[0] != '\0') {
        fl_fmt_printf(out, " %s", r->name);
    }
    if (r->namespace[0] != '\0') {
        fl_fmt_printf(out, " in %s", r->namespace);
    }
}

/* One part, "get/list/watch pods, services (membership)", and the group behind it. */
static size_t part(const struct fl_self_check *c, size_t group, bool whole, struct fl_fmt *out)
{
    const struct fl_self_check_row *first = &c->rows[group].row;
    size_t next = group;
    verbs(c, group, out);
    do {
        fl_fmt_text(out, next == group ? " " : ", ");
        resource(&c->rows[next].row, out);
        next = next_group(c, next + 1);
    } while (next < c->count && same_verbs(c, group, next) &&
             same_place(first, &c->rows[next].row) &&
             (!whole || strcmp(first->needed_for, c->rows[next].row.needed_for) == 0));
    place(first, out);
    if (whole) {
        fl_fmt_printf(out, " (%s)", first->needed_for);
    }
    return next;
}

/* "the ClusterRole of …": what grants what is missing. */
static void remedy(const struct fl_self_check *c, struct fl_fmt *out)
{
    bool cluster = false, local = false;
    for (size_t i = 0; i < c->count; i++) {
        bool here = c->rows[i].row.namespace[0] != '\0';
        cluster |= c->rows[i].answer == DENIED && !here;
        local |= c->rows[i].answer == DENIED && here;
    }
    fl_fmt_printf(out, ": apply the %s of " MANIFEST,
                  cluster && local ? "roles"
                  : cluster        ? "ClusterRole"
                                   : "Role");
}

static unsigned count_of(const struct fl_self_check *c, enum answer a)
{
    unsigned n = 0;
    for (size_t i = 0; i < c->count; i++) {
        n += c->rows[i].answer == a;
    }
    return n;
}

/* The list, whole parts only: what does not leave `spare` bytes is counted. */
static void list_denied(const struct fl_self_check *c, bool whole, size_t spare, struct fl_fmt *out)
{
    unsigned left_out = 0;
    fl_fmt_text(out, "the controller is not allowed to ");
    for (size_t i = next_group(c, 0), start = out->len; i < c->count;) {
        char text[1024];
        struct fl_fmt f = fl_fmt_of(text, sizeof(text));
        size_t next = part(c, i, whole, &f);
        if (left_out == 0 && !f.cut && out->len + f.len + spare < out->cap) {
            fl_fmt_text(out, out->len > start ? "; " : "");
            fl_fmt_span(out, (struct fl_span){text, f.len});
        } else {
            left_out++;
        }
        i = next;
    }
    if (left_out > 0) {
        fl_fmt_printf(out, " and %u more", left_out);
    }
    remedy(c, out);
}

static void conclude(struct fl_self_check *c)
{
    char text[sizeof(c->cause.text)];
    struct fl_fmt brief = fl_fmt_of(text, sizeof(text));
    struct fl_fmt all = fl_fmt_of(c->sentence, sizeof(c->sentence));
    unsigned denied = count_of(c, DENIED), unknown = count_of(c, UNKNOWN);
    if (denied > 0) {
        list_denied(c, false, sizeof("; and 99 more: apply the ClusterRole of " MANIFEST), &brief);
        list_denied(c, true, 256, &all);
        fl_cause_set(&c->cause, "not_allowed", "%s", text);
    }
    if (unknown > 0) {
        fl_fmt_text(&all, denied > 0 ? "; " : "");
        fl_fmt_printf(&all, "%u of %zu rights of the controller could not be asked for: %s",
                      unknown, c->count, c->fault);
    }
    if (unknown > 0 && denied == 0) {
        fl_cause_set(&c->cause, "rights_unknown", "%s", c->sentence);
    }
}

/* --- calls --- */

static void ask(struct fl_self_check *c);

static void on_answer(void *arg, const struct fl_kube_answer *a)
{
    struct row *r = arg;
    struct fl_self_check *c = r->check;
    bool allowed = false;
    bool good = a->fault == FL_CURL_NONE && (a->status == 200 || a->status == 201);
    r->call = NULL;
    if (good && fl_review_json_decode(a->body, &allowed) == 0) {
        r->answer = allowed ? ALLOWED : DENIED;
    } else {
        struct fl_fmt f = fl_fmt_of(c->fault, sizeof(c->fault));
        const char *text =
            good ? "the answer is no SelfSubjectAccessReview" : (a->text != NULL ? a->text : "");
        r->answer = UNKNOWN;
        fl_fmt_span(&f, fl_span_first(fl_span_of(text), sizeof(c->fault) - 1));
    }
    ask(c); /* last: done may free it */
}

static int start(struct row *r)
{
    char body[1024];
    struct fl_fmt f = fl_fmt_of(body, sizeof(body));
    const struct fl_review review = {.verb = r->row.verb,
                                     .group = r->row.group,
                                     .resource = r->row.resource,
                                     .subresource = r->row.subresource,
                                     .namespace = r->row.namespace,
                                     .name = r->row.name};
    fl_review_json_new(&review, &f);
    const struct fl_kube_request q = {.verb = "create",
                                      .resource = "selfsubjectaccessreviews",
                                      .method = "POST",
                                      .path = PATH,
                                      .content_type = "application/json",
                                      .body = {body, f.len},
                                      .timeout_ms = TIMEOUT_MS,
                                      .done = on_answer,
                                      .arg = r};
    return f.cut ? -EMSGSIZE : fl_kube_start(r->check->kube, &q, &r->call);
}

/* Starts what may be started; calls done when all is answered. */
static void ask(struct fl_self_check *c)
{
    unsigned flying = count_of(c, ASKED);
    for (size_t i = 0; i < c->count && flying < FLYING_MAX; i++) {
        if (c->rows[i].answer == UNASKED) {
            int rc = start(&c->rows[i]);
            c->rows[i].answer = rc == 0 ? ASKED : UNKNOWN;
            flying += rc == 0;
            if (rc != 0) {
                struct fl_fmt f = fl_fmt_of(c->fault, sizeof(c->fault));
                fl_fmt_text(&f, fl_cause_errno_text(-rc));
            }
        }
    }
    if (flying == 0) {
        conclude(c);
        c->done(c->arg, &c->cause);
    }
}

/* --- from outside --- */

static bool copy(struct fl_arena *a, const char **text)
{
    *text = fl_arena_text(a, fl_span_of(*text));
    return *text != NULL;
}

static bool copy_rows(struct fl_self_check *c, const struct fl_self_check_row *rows)
{
    bool good = true;
    for (size_t i = 0; i < c->count && good; i++) {
        struct fl_self_check_row *r = &c->rows[i].row;
        c->rows[i].check = c;
        *r = rows[i];
        good = copy(&c->texts, &r->verb) && copy(&c->texts, &r->group) &&
               copy(&c->texts, &r->resource) && copy(&c->texts, &r->subresource) &&
               copy(&c->texts, &r->namespace) && copy(&c->texts, &r->name) &&
               copy(&c->texts, &r->needed_for);
    }
    return good;
}

int fl_self_check_new(struct fl_kube *kube, const struct fl_self_check_row *rows, size_t count,
                      void (*done)(void *arg, const struct fl_cause *cause), void *arg,
                      struct fl_self_check **ret)
{
    size_t room;
    if (count == 0 || __builtin_mul_overflow(count, sizeof(struct row), &room) ||
        __builtin_add_overflow(room, sizeof(struct fl_self_check), &room)) {
        return -EINVAL;
    }
    struct fl_self_check *c = calloc(1, room);
    if (c == NULL) {
        return -ENOMEM;
    }
    c->kube = kube;
    c->done = done;
    c->arg = arg;
    c->count = count;
    fl_arena_init(&c->texts, TEXT_BYTES_MAX);
    /* one is under way at the end, so that done is not called from here */
    int rc = copy_rows(c, rows) ? start(&c->rows[0]) : -ENOMEM;
    if (rc != 0) {
        (void)fl_self_check_free(c);
        return rc;
    }
    c->rows[0].answer = ASKED;
    ask(c);
    *ret = c;
    return 0;
}

struct fl_self_check *fl_self_check_free(struct fl_self_check *c)
{
    if (c != NULL) {
        for (size_t i = 0; i < c->count; i++) {
            fl_kube_cancel(&c->rows[i].call);
        }
        fl_arena_done(&c->texts);
        free(c);
    }
    return NULL;
}

const char *fl_self_check_sentence(const struct fl_self_check *c)
{
    return c->sentence;
}
