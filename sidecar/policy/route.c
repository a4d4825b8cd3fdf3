#include "sidecar/policy/route.h"

#include <string.h>

/* A reading of the request: where its bucket and its path lie in scratch. */
struct reading {
    struct fl_span bucket;
    struct fl_span whole; /* what paths of "*" and "/" see */
    struct fl_span rest;  /* what paths of a named route see */
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = fl_ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes as much as fits. *ret_clean: false when there was a "%" that encodes nothing (kept as it
 * is) or a NUL. */
static size_t decode(struct fl_span raw, char *out, size_t cap, bool *ret_clean)
{
    size_t n = 0;
    for (size_t i = 0; i < raw.len && n < cap; i++) {
        char c = raw.ptr[i];
        if (c == '%') {
            int high = i + 2 < raw.len ? hex_digit(raw.ptr[i + 1]) : -1;
            int low = i + 2 < raw.len ? hex_digit(raw.ptr[i + 2]) : -1;
            if (high >= 0 && low >= 0) {
                c = (char)(high << 4 | low);
                i += 2;
            } else {
                *ret_clean = false;
            }
        }
        if (c == '\0') {
            *ret_clean = false;
        }
        out[n++] = c;
    }
    return n;
}

/* The name without port and final dot; empty for an IP literal, which names no bucket. */
static struct fl_span host_name(struct fl_span host)
{
    if (host.len && host.ptr[0] == '[') {
        return (struct fl_span){0};
    }
    ptrdiff_t colon = fl_span_find(host, ':');
    host = colon < 0 ? host : fl_span_first(host, (size_t)colon);
    if (host.len && host.ptr[host.len - 1] == '.') {
        host.len--;
    }
    for (size_t i = 0; i < host.len; i++) {
        if (host.ptr[i] != '.' && (host.ptr[i] < '0' || host.ptr[i] > '9')) {
            return host;
        }
    }
    return (struct fl_span){0};
}

/* What stands before "." and the longest of our base domains; dots in it belong to the bucket.
 * Empty: path style. */
static struct fl_span bucket_of_host(const struct fl_snapshot *s, struct fl_span host)
{
    struct fl_span bucket = {0};
    if (s->host_count == 0) {
        return bucket;
    }
    struct fl_span name = host_name(host);
    size_t longest = 0;
    for (uint32_t i = 0; i < s->host_count; i++) {
        struct fl_span base = s->hosts[i];
        if (fl_span_eq(name, base) || fl_span_ieq(name, base)) { /* nearly always as configured */
            return (struct fl_span){0};
        }
        if (base.len > longest && name.len > base.len + 1 &&
            name.ptr[name.len - base.len - 1] == '.' &&
            fl_span_ieq(fl_span_from(name, name.len - base.len), base)) {
            longest = base.len;
            bucket = fl_span_first(name, name.len - base.len - 1);
        }
    }
    return bucket;
}

static struct fl_span raw_segment(struct fl_span path)
{
    struct fl_span rest = fl_span_from(path, 1);
    ptrdiff_t slash = fl_span_find(rest, '/');
    return slash < 0 ? rest : fl_span_first(rest, (size_t)slash);
}

static struct fl_span at_least_root(struct fl_span path)
{
    return path.len ? path : FL_SPAN("/");
}

/* As S3 reads it: "/" bucket rest, nothing collapsed. host_bucket empty: the bucket is in the path.
 */
static struct reading read_s3(struct fl_span path, struct fl_span host_bucket,
                              char scratch[FL_ROUTE_SCRATCH])
{
    bool in_host = host_bucket.len > 0, clean = true;
    struct fl_span segment = in_host ? host_bucket : raw_segment(path);
    struct fl_span after = in_host ? path : fl_span_from(path, 1 + segment.len);
    if (!in_host && fl_span_find(path, '%') < 0) { /* as it stands */
        return (struct reading){.bucket = segment, .whole = path, .rest = at_least_root(after)};
    }
    scratch[0] = '/';
    size_t n = 1 + decode(segment, scratch + 1, FL_ROUTE_SCRATCH - 1, &clean);
    struct fl_span bucket = {scratch + 1, n - 1};
    for (size_t i = 1; in_host && i < n; i++) {
        scratch[i] = fl_ascii_lower(scratch[i]);
    }
    size_t more = decode(after, scratch + n, FL_ROUTE_SCRATCH - n, &clean);
    return (struct reading){.bucket = bucket,
                            .whole = {scratch, n + more},
                            .rest = at_least_root((struct fl_span){scratch + n, more})};
}

/* Is it that one character? */
static bool is_char(struct fl_span s, char c)
{
    return s.len == 1 && s.ptr[0] == c;
}

/* In place; false when it climbs above the root. */
static bool resolve(char *path, size_t *len)
{
    size_t n = *len, out = 0, at = 0;
    bool slash = true;
    while (at < n) {
        size_t begin = at + 1, end = begin; /* path[at] is "/" */
        while (end < n && path[end] != '/') {
            end++;
        }
        struct fl_span segment = {path + begin, end - begin};
        bool up = segment.len == 2 && segment.ptr[0] == '.' && segment.ptr[1] == '.';
        slash = segment.len == 0 || up || is_char(segment, '.');
        if (up) {
            if (out == 0) {
                return false;
            }
            while (path[--out] != '/') {
            }
        } else if (!slash) {
            if (out != at) {
                memmove(path + out, path + at, end - at);
            }
            out += end - at;
        }
        at = end;
    }
    if (slash) {
        path[out++] = '/';
    }
    *len = out;
    return true;
}

/* Nothing to decode, and no empty or dotted segment. */
static bool is_plain(struct fl_span path)
{
    char before = '\0';
    for (size_t i = 0; i < path.len; i++) {
        char c = path.ptr[i];
        if (c == '%' || c == '\0' || (before == '/' && (c == '/' || c == '.'))) {
            return false;
        }
        before = c;
    }
    return true;
}

/* As nginx reads it. False: 400. */
static bool read_http(struct fl_span path, struct fl_span host_bucket,
                      char scratch[FL_ROUTE_SCRATCH], struct reading *ret)
{
    bool clean = true;
    size_t n = decode(host_bucket, scratch, FL_ROUTE_SCRATCH / 2, &clean);
    for (size_t i = 0; i < n; i++) {
        scratch[i] = fl_ascii_lower(scratch[i]);
    }
    struct fl_span whole = path;
    if (!is_plain(path)) {
        char *plain = scratch + n;
        size_t len = decode(path, plain, FL_ROUTE_SCRATCH - n, &clean);
        if (!resolve(plain, &len)) {
            return false;
        }
        whole = (struct fl_span){plain, len};
    }
    ret->whole = ret->rest = whole;
    ret->bucket = (struct fl_span){scratch, n};
    if (n == 0) {
        ret->bucket = raw_segment(whole);
        ret->rest = at_least_root(fl_span_from(whole, 1 + ret->bucket.len));
    }
    return clean;
}

/* Invalid routes answer 503 whatever the path is; they are read as they stand. */
static bool reads_as_s3(const struct fl_snap_route *r)
{
    const struct fl_snap_backend *b = r->policy.backend;
    return r->policy.invalid[0] || !b || b->conf->protocol == FL_PROTOCOL_S3;
}

static const struct fl_snap_route *named(const struct fl_snapshot *s, struct fl_span bucket)
{
    return bucket.len ? fl_smap_get(&s->by_bucket, bucket) : NULL;
}

static const struct fl_snap_route *find_route(const struct fl_snapshot *s, struct fl_span bucket)
{
    const struct fl_snap_route *r = named(s, bucket);
    if (!r && bucket.len == 0) {
        r = s->service;
    }
    return r ? r : s->any;
}

static const struct fl_snap_route *only_http(const struct fl_snap_route *r)
{
    return r && !reads_as_s3(r) ? r : NULL;
}

static const struct fl_snap_route *find_http_route(const struct fl_snapshot *s,
                                                   struct fl_span bucket)
{
    const struct fl_snap_route *r = only_http(named(s, bucket));
    if (!r && bucket.len == 0) {
        r = only_http(s->service);
    }
    return r ? r : only_http(s->any);
}

static const struct fl_snap_policy *
policy_of(const struct fl_snapshot *s, const struct fl_snap_route *r, const struct reading *reading)
{
    struct fl_span path = r == s->any || r == s->service ? reading->whole : reading->rest;
    for (uint32_t i = 0; i < r->path_count; i++) {
        const struct fl_snap_path *p = &r->paths[i];
        if (p->exact ? fl_span_eq(path, p->prefix) : fl_span_starts(path, p->prefix)) {
            return &p->policy;
        }
    }
    return &r->policy;
}

/* "/_/…" is ours on the other listeners and nobody's on this one. */
static bool is_ours(const struct reading *reading)
{
    return is_char(reading->bucket, '_') && reading->whole.len > 2 && reading->whole.ptr[2] == '/';
}

/* Finds the route, and leaves in *reading how it reads the path. NULL: *ret_answer says why. */
static const struct fl_snap_route *find(const struct fl_snapshot *s, struct fl_span path,
                                        struct fl_span host_bucket, char *scratch,
                                        struct reading *reading, enum fl_answer *ret_answer)
{
    *reading = read_s3(path, host_bucket, scratch);
    if (host_bucket.len == 0 && is_ours(reading)) {
        *ret_answer = FL_ANSWER_NOT_FOUND;
        return NULL;
    }
    const struct fl_snap_route *r = find_route(s, reading->bucket);
    *ret_answer = FL_ANSWER_NO_ROUTE;
    if (r && reads_as_s3(r)) {
        return r;
    }
    struct reading resolved;
    bool readable = read_http(path, host_bucket, scratch, &resolved);
    if (readable && host_bucket.len == 0 && is_ours(&resolved)) {
        *ret_answer = FL_ANSWER_NOT_FOUND;
        return NULL;
    }
    const struct fl_snap_route *http = readable ? find_http_route(s, resolved.bucket) : NULL;
    if (http) {
        *reading = resolved;
        return http;
    }
    if (r && !readable) {
        *ret_answer = FL_ANSWER_BAD_REQUEST;
    }
    *reading = read_s3(path, host_bucket,
                       scratch); /* scratch was written over; the answer names the bucket */
    return NULL;
}

void fl_route_find(const struct fl_snapshot *s, const struct fl_route_ask *ask,
                   char scratch[FL_ROUTE_SCRATCH], struct fl_routed *ret)
{
    *ret = (struct fl_routed){.answer = FL_ANSWER_NONE};
    struct fl_span path = ask->path;
    if (is_char(path, '*')) {
        path = FL_SPAN("/"); /* OPTIONS * asks the service */
    } else if (path.len == 0 || path.ptr[0] != '/') {
        ret->answer = FL_ANSWER_BAD_REQUEST;
        return;
    }
    struct fl_span host_bucket = bucket_of_host(s, ask->host);
    ret->bucket_in_host = host_bucket.len > 0;
    struct reading reading;
    const struct fl_snap_route *r = find(s, path, host_bucket, scratch, &reading, &ret->answer);
    ret->bucket = reading.bucket;
    ret->key = fl_span_from(path, ret->bucket_in_host ? 1 : 2 + raw_segment(path).len);
    if (!r) {
        return;
    }
    ret->policy = policy_of(s, r, &reading);
    ret->answer = ret->policy->invalid[0] ? FL_ANSWER_BAD_ROUTE : FL_ANSWER_NONE;
}

struct fl_span fl_route_copy_source_bucket(struct fl_span value, char *scratch, size_t cap)
{
    bool clean = true;
    struct fl_span path = {scratch, decode(value, scratch, cap, &clean)};
    if (path.len && path.ptr[0] == '/') {
        path = fl_span_from(path, 1);
    }
    ptrdiff_t slash = fl_span_find(path, '/');
    return slash < 0 ? path : fl_span_first(path, (size_t)slash);
}

const struct fl_snap_policy *fl_route_bucket(const struct fl_snapshot *s, struct fl_span bucket)
{
    const struct fl_snap_route *r = find_route(s, bucket);
    return r ? &r->policy : NULL;
}
