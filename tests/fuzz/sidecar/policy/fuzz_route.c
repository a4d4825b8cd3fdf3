/* Finding a route: HOST "\n" PATH against three fixed configurations and a naive second opinion
 * that cuts the path into a list of segments and looks at every rule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/sidecar/policy/route_kit.h"

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                       \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// clang-format off
static const struct kit kits[] = {
    {.hosts = {"s3", "eu.s3"}, .s3 = {"a"},
     .routes = {{.bucket = "r", .backend = "a", .paths = {{.prefix = "/p/"}, {.prefix = "/p/q/"}, {.prefix = "/p", .exact = true}, {.prefix = "/../x"}}},
                {.bucket = "a.b", .backend = "a"},
                {.bucket = "bad", .backend = "none", .invalid = "x"},
                {.bucket = "*", .backend = "a", .paths = {{.prefix = "/l/"}}}}},
    {.hosts = {"s3"}, .http = {"w"},
     .routes = {{.bucket = "*", .backend = "w", .paths = {{.prefix = "/a/"}, {.prefix = "/a/b/"}, {.prefix = "/h", .exact = true}}},
                {.bucket = "r", .backend = "w", .paths = {{.prefix = "/p/"}}}}},
    {.hosts = {"s3"}, .s3 = {"a"}, .http = {"w"},
     .routes = {{.bucket = "r", .backend = "a"}, {.bucket = "app", .backend = "w", .paths = {{.prefix = "/x/", .backend = "a"}}}, {.bucket = "/", .backend = "a"}}},
};
// clang-format on

#define TEXT_MAX 2000

struct text {
    char s[TEXT_MAX + 8];
    size_t n;
};

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, fl_ascii_lower(c)) : NULL;
    return at ? (int)(at - digits) : -1;
}

static struct text decoded(const char *p, size_t n, bool *ret_bad)
{
    struct text t = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        bool good = c == '%' && n - i > 2 && digit(p[i + 1]) >= 0 && digit(p[i + 2]) >= 0;
        if (good) {
            c = (char)(digit(p[i + 1]) * 16 + digit(p[i + 2]));
            i += 2;
        }
        *ret_bad |= (c == '%' && !good && p[i] == '%') || c == '\0';
        t.s[t.n++] = c;
    }
    return t;
}

/* A list of segments, a stack of them, and the path put together again. */
static bool resolved(const struct text *in, struct text *out)
{
    static struct {
        size_t at, n;
    } stack[TEXT_MAX];
    size_t depth = 0;
    bool slash = false;
    for (size_t i = 1; i <= in->n;) {
        size_t end = i;
        while (end < in->n && in->s[end] != '/') {
            end++;
        }
        size_t n = end - i;
        bool dot = n == 1 && in->s[i] == '.', dots = n == 2 && memcmp(in->s + i, "..", 2) == 0;
        if (dots && depth == 0) {
            return false;
        }
        depth -= dots;
        if (n > 0 && !dot && !dots) {
            stack[depth].at = i;
            stack[depth++].n = n;
        }
        slash = n == 0 || dot || dots;
        i = end + 1;
    }
    out->n = 0;
    for (size_t i = 0; i < depth; i++) {
        out->s[out->n++] = '/';
        memcpy(out->s + out->n, in->s + stack[i].at, stack[i].n);
        out->n += stack[i].n;
    }
    if (slash || depth == 0) {
        out->s[out->n++] = '/';
    }
    return true;
}

static const struct kit_route *rule_of(const struct kit *k, struct fl_span bucket)
{
    const struct kit_route *any = NULL;
    for (const struct kit_route *r = k->routes; r->bucket; r++) {
        bool names = strcmp(r->bucket, "*") != 0 && strcmp(r->bucket, "/") != 0;
        if ((names && fl_span_is(bucket, r->bucket)) ||
            (!bucket.len && strcmp(r->bucket, "/") == 0)) {
            return r;
        }
        any = strcmp(r->bucket, "*") == 0 ? r : any;
    }
    return any;
}

static bool is_http(const struct kit_route *r)
{
    return r && strcmp(r->backend, "w") == 0;
}

/* The name of the policy that `path` (under the bucket, or whole) gets from the rule. */
static void expect_path(const struct kit_route *r, struct fl_span whole, struct fl_span rest,
                        struct text *name)
{
    struct fl_span path = strcmp(r->bucket, "*") == 0 || strcmp(r->bucket, "/") == 0 ? whole : rest;
    const struct kit_path *best = NULL;
    for (const struct kit_path *p = r->paths; p < r->paths + 6 && p->prefix; p++) {
        bool fits =
            p->exact ? fl_span_is(path, p->prefix) : fl_span_starts(path, fl_span_of(p->prefix));
        if (fits && (!best || (p->exact && !best->exact) ||
                     (p->exact == best->exact && strlen(p->prefix) > strlen(best->prefix)))) {
            best = p;
        }
    }
    name->n = (size_t)snprintf(name->s, sizeof(name->s), "%s%s%s%s", r->bucket, best ? " " : "",
                               best && best->exact ? "= " : "", best ? best->prefix : "");
}

static struct fl_span first_segment(const struct text *path)
{
    size_t end = 1;
    while (end < path->n && path->s[end] != '/') {
        end++;
    }
    return path->n ? (struct fl_span){path->s + 1, end - 1} : (struct fl_span){0};
}

/* Path style only. */
static void check_path_style(const struct kit *k, const struct fl_routed *got, struct fl_span path)
{
    static struct text bucket, rest, whole, flat, name;
    bool bad = false, dirty = false;
    size_t end = 1;
    while (end < path.len && path.ptr[end] != '/') {
        end++;
    }
    bucket = decoded(path.ptr + 1, end - 1, &dirty);
    rest = decoded(path.ptr + end, path.len - end, &dirty);
    whole.s[0] = '/';
    memcpy(whole.s + 1, bucket.s, bucket.n);
    memcpy(whole.s + 1 + bucket.n, rest.s, rest.n);
    whole.n = 1 + bucket.n + rest.n;
    struct fl_span b = {bucket.s, bucket.n}, below = {rest.s, rest.n};
    if (fl_span_is(b, "_") && rest.n) {
        CHECK(got->answer == FL_ANSWER_NOT_FOUND);
        return;
    }
    const struct kit_route *r = rule_of(k, b);
    if (r && !is_http(r)) {
        CHECK(got->answer == (r->invalid ? FL_ANSWER_BAD_ROUTE : FL_ANSWER_NONE));
        CHECK(fl_span_eq(got->bucket, b));
        expect_path(r, (struct fl_span){whole.s, whole.n}, rest.n ? below : FL_SPAN("/"), &name);
        CHECK(strcmp(got->policy->route, name.s) == 0);
        return;
    }
    whole = decoded(path.ptr, path.len, &bad);
    bool readable = !bad && resolved(&whole, &flat);
    struct fl_span seg = readable ? first_segment(&flat) : (struct fl_span){0};
    if (readable && fl_span_is(seg, "_") && flat.n > 2) {
        CHECK(got->answer == FL_ANSWER_NOT_FOUND);
        return;
    }
    const struct kit_route *http = NULL;
    if (readable) {
        http = rule_of(k, seg);
        if (!is_http(http)) { /* an s3 route is never reached by resolving */
            http = rule_of(k, FL_SPAN("nobody"));
            http = is_http(http) ? http : NULL;
        }
    }
    if (!http) {
        CHECK(!got->policy &&
              got->answer == (r && !readable ? FL_ANSWER_BAD_REQUEST : FL_ANSWER_NO_ROUTE));
        CHECK(fl_span_eq(got->bucket, b));
        return;
    }
    below = (struct fl_span){flat.s + 1 + seg.len, flat.n - 1 - seg.len};
    expect_path(http, (struct fl_span){flat.s, flat.n}, below.len ? below : FL_SPAN("/"), &name);
    CHECK(got->answer == FL_ANSWER_NONE && strcmp(got->policy->route, name.s) == 0);
    CHECK(fl_span_eq(got->bucket, seg));
}

static bool lies_in(struct fl_span part, const char *bytes, size_t n)
{
    return part.ptr >= bytes && part.ptr + part.len <= bytes + n;
}

static void check_any(const struct fl_routed *got, const char *scratch, struct fl_span path)
{
    bool has_policy = got->answer == FL_ANSWER_NONE || got->answer == FL_ANSWER_BAD_ROUTE;
    CHECK((got->policy != NULL) == has_policy);
    CHECK(got->bucket.len == 0 || lies_in(got->bucket, scratch, FL_ROUTE_SCRATCH) ||
          lies_in(got->bucket, path.ptr, path.len));
    CHECK(got->key.len == 0 ||
          (got->key.ptr > path.ptr && got->key.ptr + got->key.len == path.ptr + path.len));
    CHECK(!got->policy || got->policy->backend || got->policy->invalid[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fl_registry *registry;
    static struct fl_snapshot *snapshots[3];
    static char scratch[FL_ROUTE_SCRATCH];
    if (!registry) {
        registry = pool_must(fl_registry_new(1));
        for (int i = 0; i < 3; i++) {
            snapshots[i] = kit_snapshot(registry, &kits[i]);
        }
    }
    struct fl_span input = {(const char *)data, size};
    ptrdiff_t line = fl_span_find(input, '\n');
    struct fl_route_ask ask = {.host = line < 0 ? (struct fl_span){0}
                                                : fl_span_first(input, (size_t)line),
                               .path = line < 0 ? input : fl_span_from(input, (size_t)line + 1)};
    for (int i = 0; i < 3; i++) {
        struct fl_routed got;
        fl_route_find(snapshots[i], &ask, scratch, &got);
        bool rooted = ask.path.len > 0 && ask.path.ptr[0] == '/';
        CHECK(rooted || fl_span_is(ask.path, "*") || got.answer == FL_ANSWER_BAD_REQUEST);
        if (rooted) {
            check_any(&got, scratch, ask.path);
            if (!got.bucket_in_host && ask.path.len < TEXT_MAX) {
                check_path_style(&kits[i], &got, ask.path);
            }
        }
    }
    char small[16];
    struct fl_span bucket = fl_route_copy_source_bucket(ask.path, small, sizeof(small));
    CHECK(bucket.len <= sizeof(small) && fl_span_find(bucket, '/') < 0);
    return 0;
}
