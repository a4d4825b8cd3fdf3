#include <stdlib.h>

#include "common/base/units.h"
#include "common/io/bridge/http_guard.h"
#include "common/io/bridge/mhd_inner.h"

#define DISCARD_MAX_BYTES 65536
#define WRITE_MIN_BYTES   16384
#define WRITE_MAX_BYTES   (8u << 20)
#define BODY_FIRST_BYTES  4096

void *fl_mhd_call_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
    /* the target twice: raw, and room for decoded segments, which are never longer */
    size_t len = strlen(uri);
    struct fl_mhd_call *c = calloc(1, sizeof(*c) + 2 * (len + 1));
    if (c == NULL) {
        return NULL;
    }
    fl_list_init(&c->node);
    c->mhd = cls;
    c->connection = connection;
    memcpy(c->uri, uri, len);
    struct fl_span target = {c->uri, len};
    ptrdiff_t mark = fl_span_find(target, '?');
    c->path = mark < 0 ? target : fl_span_first(target, (size_t)mark);
    c->query = mark < 0 ? (struct fl_span){0} : fl_span_from(target, (size_t)mark + 1);
    return c;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = fl_ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Length, or -1: bad escape, NUL, or longer than cap - 1. NUL-terminates. */
static ptrdiff_t percent_decode(struct fl_span s, char *into, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            int high = i + 2 < s.len ? hex_digit(s.ptr[i + 1]) : -1;
            int low = i + 2 < s.len ? hex_digit(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return -1;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= cap) {
            return -1;
        }
        into[n++] = c;
    }
    into[n] = '\0';
    return (ptrdiff_t)n;
}

/* Cuts the first segment (after its "/") off path. */
static struct fl_span next_segment(struct fl_span *path)
{
    struct fl_span rest = fl_span_from(*path, 1);
    ptrdiff_t end = fl_span_find(rest, '/');
    struct fl_span one = end < 0 ? rest : fl_span_first(rest, (size_t)end);
    *path = fl_span_from(rest, one.len);
    return one;
}

static bool path_matches(struct fl_span pattern, struct fl_span path,
                         struct fl_span ret_raw[FL_MHD_SEGMENTS])
{
    unsigned found = 0;
    while (pattern.len > 0 && path.len > 0 && path.ptr[0] == '/') {
        struct fl_span want = next_segment(&pattern), have = next_segment(&path);
        if (fl_span_is(want, "*")) {
            if (have.len == 0) {
                return false;
            }
            FL_MUST(found < FL_MHD_SEGMENTS);
            ret_raw[found++] = have;
        } else if (!fl_span_eq(want, have)) {
            return false;
        }
    }
    return pattern.len == 0 && path.len == 0;
}

static bool method_matches(const char *want, struct fl_span have)
{
    return fl_span_is(have, want) || (fl_span_is(have, "HEAD") && strcmp(want, "GET") == 0);
}

static bool decode_segments(struct fl_mhd_call *c, const struct fl_span raw[FL_MHD_SEGMENTS])
{
    char *into = c->uri + c->path.len + 1 + c->query.len + 1;
    for (size_t i = 0; i < FL_MHD_SEGMENTS && raw[i].len > 0; i++) {
        ptrdiff_t n = percent_decode(raw[i], into, raw[i].len + 1);
        if (n < 0) {
            return false;
        }
        c->segment[i] = (struct fl_span){into, (size_t)n};
        into += n + 1;
    }
    return true;
}

/* Sets c->handler, or answers. */
static void find_handler(struct fl_mhd_call *c)
{
    const struct fl_mhd_conf *conf = &c->mhd->conf;
    char allow_text[64];
    struct fl_fmt allow = fl_fmt_of(allow_text, sizeof(allow_text));
    for (size_t i = 0; i < conf->handler_count; i++) {
        const struct fl_mhd_handler *h = &conf->handlers[i];
        struct fl_span raw[FL_MHD_SEGMENTS] = {{0}};
        if (!path_matches(fl_span_of(h->path), c->path, raw)) {
            continue;
        }
        if (method_matches(h->method, c->method)) {
            if (!decode_segments(c, raw)) {
                fl_mhd_problem(c, 400, "bad_request", "a path segment is not well encoded");
                return;
            }
            c->handler = h;
            return;
        }
        fl_fmt_text(&allow, allow.len ? ", " : "");
        fl_fmt_text(&allow, strcmp(h->method, "GET") == 0 ? "GET, HEAD" : h->method);
    }
    if (allow.len == 0) {
        fl_mhd_problem(c, 404, "not_found", "nothing is served at this path");
        return;
    }
    fl_mhd_add_field(c, "Allow", allow.base);
    fl_mhd_problem(c, 405, "method_not_allowed", "this path takes other methods, see Allow");
}

static void guard(struct fl_mhd_call *c)
{
    struct fl_span host = fl_mhd_field(c, "Host");
    if (!fl_http_guard_host(host, c->mhd->conf.loopback_only)) {
        fl_mhd_problem(c, 403, "bad_request", "Host does not name this machine by address");
    } else if (!fl_http_guard_origin(fl_mhd_field(c, "Origin"), host)) {
        fl_mhd_problem(c, 403, "bad_request", "Origin is not the page that this server serves");
    } else if (!fl_http_guard_media_type(fl_mhd_field(c, "Content-Type"))) {
        fl_mhd_problem(c, 415, "bad_request",
                       "Content-Type must be application/json or application/yaml");
    }
}

/* A number larger than any limit stands for "not said" (chunked) or not a number. */
static uint64_t announced_body(const struct fl_mhd_call *c)
{
    uint64_t n = 0;
    struct fl_span text = fl_mhd_field(c, "Content-Length");
    if (text.len > 0) {
        return fl_units_uint(text, &n) ? n : UINT64_MAX;
    }
    return fl_mhd_field(c, "Transfer-Encoding").len > 0 ? UINT64_MAX : 0;
}

static enum MHD_Result queue(struct fl_mhd_call *c)
{
    FL_MUST(c->response != NULL && !c->queued);
    c->queued = true;
    enum MHD_Result rc = MHD_queue_response(c->connection, (unsigned)c->status, c->response);
    MHD_destroy_response(c->response);
    c->response = NULL;
    return rc;
}

/* The head is whole. What refuses here does so before a body byte was read. */
static enum MHD_Result begin(struct fl_mhd_call *c)
{
    uint64_t body = announced_body(c);
    find_handler(c);
    const struct fl_mhd_handler *h = c->handler;
    if (h != NULL && (h->flags & FL_MHD_MUTATES)) {
        guard(c);
    }
    if (h != NULL && c->response == NULL && body != UINT64_MAX && body > h->body_max_bytes) {
        fl_mhd_problem(c, 413, "payload_too_large", "the body is longer than this path takes");
    }
    if (h != NULL && c->response == NULL && h->head != NULL) {
        h->head(c, c->mhd->conf.arg);
    }
    bool waits = fl_mhd_field(c, "Expect").len > 0; /* for our word before it sends */
    if (c->response != NULL && (waits || (body != UINT64_MAX && body > DISCARD_MAX_BYTES))) {
        return queue(c);
    }
    return MHD_YES; /* called again: with the body, or to handle */
}

static bool grow_body(struct fl_mhd_call *c, size_t more)
{
    size_t need = c->body_len + more;
    if (need <= c->body_cap) {
        return true;
    }
    size_t cap = c->body_cap ? c->body_cap * 2 : BODY_FIRST_BYTES;
    cap = cap < need ? need : cap;
    char *body = realloc(c->body, cap);
    if (body == NULL) {
        return false;
    }
    c->body = body;
    c->body_cap = cap;
    return true;
}

static enum MHD_Result take_body(struct fl_mhd_call *c, const char *bytes, size_t n)
{
    if (c->response == NULL) {
        if (n <= c->handler->body_max_bytes - c->body_len && grow_body(c, n)) {
            memcpy(c->body + c->body_len, bytes, n);
            c->body_len += n;
            return MHD_YES;
        }
        fl_mhd_problem(c, 413, "payload_too_large", "the body is longer than this path takes");
        free(c->body);
        c->body = NULL;
        c->body_len = 0;
    }
    c->discarded += n;
    return c->discarded <= DISCARD_MAX_BYTES ? MHD_YES : MHD_NO;
}

enum MHD_Result fl_mhd_call_access(void *cls, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_len, void **context)
{
    (void)connection;
    (void)url;
    (void)version;
    struct fl_mhd *m = cls;
    struct fl_mhd_call *c = *context;
    if (c == NULL || m->closing) {
        return MHD_NO;
    }
    if (!c->begun) {
        c->begun = true;
        c->method = fl_span_of(method);
        struct fl_mhd_connection *at = fl_mhd_connection_of(c->connection);
        if (at != NULL) {
            at->head_whole = true;
            at->call = c;
            at->headless_since_ms = fl_reactor_now_ms(m->reactor);
        }
        return begin(c);
    }
    if (*upload_len > 0) {
        size_t n = *upload_len;
        *upload_len = 0;
        return take_body(c, upload, n);
    }
    if (c->queued) {
        return MHD_YES;
    }
    if (c->response == NULL && !c->suspended) {
        c->handler->handle(c, m->conf.arg);
        FL_MUST(c->response != NULL || c->suspended);
    }
    return c->response != NULL ? queue(c) : MHD_YES;
}

void fl_mhd_call_completed(void *cls, struct MHD_Connection *connection, void **context,
                           enum MHD_RequestTerminationCode why)
{
    (void)why;
    struct fl_mhd *m = cls;
    struct fl_mhd_call *c = *context;
    struct fl_mhd_connection *at = fl_mhd_connection_of(connection);
    if (at != NULL) {
        at->head_whole = false;
        at->call = NULL;
        at->headless_since_ms = fl_reactor_now_ms(m->reactor);
    }
    if (c != NULL) {
        fl_list_remove(&c->node);
        if (c->stream.ended != NULL) {
            c->stream.ended(c->stream.arg);
        }
        if (c->response != NULL) {
            MHD_destroy_response(c->response);
        }
        free(c->body);
        free(c);
        *context = NULL;
    }
}

struct fl_span fl_mhd_method(const struct fl_mhd_call *c)
{
    return c->method;
}

struct fl_span fl_mhd_path(const struct fl_mhd_call *c)
{
    return c->path;
}

struct fl_span fl_mhd_segment(const struct fl_mhd_call *c, unsigned i)
{
    return i < FL_MHD_SEGMENTS ? c->segment[i] : (struct fl_span){0};
}

struct fl_span fl_mhd_body(const struct fl_mhd_call *c)
{
    return (struct fl_span){c->body, c->body_len};
}

struct find_field {
    struct fl_span name, value;
    unsigned found;
};

static enum MHD_Result find_field(void *cls, enum MHD_ValueKind kind, const char *key,
                                  const char *value)
{
    (void)kind;
    struct find_field *find = cls;
    if (fl_span_ieq(fl_span_of(key), find->name)) {
        find->found++;
        find->value = fl_span_trim(fl_span_of(value));
    }
    return MHD_YES;
}

struct fl_span fl_mhd_field(const struct fl_mhd_call *c, const char *name)
{
    struct find_field find = {.name = fl_span_of(name)};
    (void)MHD_get_connection_values(c->connection, MHD_HEADER_KIND, find_field, &find);
    return find.found == 1 ? find.value : (struct fl_span){0};
}

bool fl_mhd_has_query(const struct fl_mhd_call *c)
{
    return c->query.ptr != NULL;
}

bool fl_mhd_query(const struct fl_mhd_call *c, const char *key, unsigned nth, char *text,
                  size_t cap, struct fl_span *ret)
{
    struct fl_span rest = c->query;
    while (rest.len > 0) {
        ptrdiff_t end = fl_span_find(rest, '&');
        struct fl_span one = end < 0 ? rest : fl_span_first(rest, (size_t)end);
        rest = end < 0 ? (struct fl_span){0} : fl_span_from(rest, (size_t)end + 1);
        ptrdiff_t eq = fl_span_find(one, '=');
        struct fl_span name = eq < 0 ? one : fl_span_first(one, (size_t)eq);
        if (!fl_span_is(name, key) || nth-- > 0) {
            continue;
        }
        struct fl_span value = eq < 0 ? (struct fl_span){0} : fl_span_from(one, (size_t)eq + 1);
        ptrdiff_t n = percent_decode(value, text, cap);
        if (n < 0) {
            return false;
        }
        *ret = (struct fl_span){text, (size_t)n};
        return true;
    }
    return false;
}

void fl_mhd_add_field(struct fl_mhd_call *c, const char *name, const char *value)
{
    FL_MUST(c->response == NULL && c->field_count < FL_COUNTOF(c->fields));
    struct fl_fmt n = fl_fmt_of(c->fields[c->field_count].name, sizeof(c->fields[0].name));
    struct fl_fmt v = fl_fmt_of(c->fields[c->field_count].value, sizeof(c->fields[0].value));
    fl_fmt_text(&n, name);
    fl_fmt_header(&v, fl_span_of(value));
    if (!n.cut && !v.cut) {
        c->field_count++;
    }
}

static void add(struct MHD_Response *r, const char *name, const char *value)
{
    (void)MHD_add_response_header(r, name, value); /* no memory: the answer is still an answer */
}

void fl_mhd_call_answer(struct fl_mhd_call *c, int status, const char *type,
                        struct MHD_Response *response)
{
    FL_MUST(c->response == NULL && !c->queued && response != NULL);
    c->response = response;
    c->status = status;
    add(c->response, "Content-Type", type);
    add(c->response, "Cache-Control", "no-store");
    add(c->response, "X-Content-Type-Options", "nosniff");
    for (unsigned i = 0; i < c->field_count; i++) {
        add(c->response, c->fields[i].name, c->fields[i].value);
    }
    if (c->suspended) {
        fl_list_remove(&c->node);
        c->suspended = false;
        MHD_resume_connection(c->connection);
        fl_mhd_kick(c->mhd);
    }
}

static void answer(struct fl_mhd_call *c, int status, const char *type, void *body, size_t len,
                   enum MHD_ResponseMemoryMode mode)
{
    fl_mhd_call_answer(c, status, type, MHD_create_response_from_buffer(len, body, mode));
}

void fl_mhd_reply(struct fl_mhd_call *c, int status, const char *type, struct fl_span body)
{
    char *copy = malloc(body.len + 1);
    if (copy == NULL) {
        answer(c, 503, "text/plain", NULL, 0, MHD_RESPMEM_PERSISTENT);
        return;
    }
    if (body.len > 0) {
        memcpy(copy, body.ptr, body.len);
    }
    answer(c, status, type, copy, body.len, MHD_RESPMEM_MUST_FREE);
}

void fl_mhd_reply_static(struct fl_mhd_call *c, int status, const char *type, struct fl_span body)
{
    union {
        const char *from;
        void *to;
    } constant = {body.ptr}; /* MHD takes void * and only reads */
    answer(c, status, type, constant.to, body.len, MHD_RESPMEM_PERSISTENT);
}

void fl_mhd_reply_written(struct fl_mhd_call *c, int status, const char *type,
                          fl_mhd_write_fn *write, void *arg)
{
    for (size_t cap = WRITE_MIN_BYTES; cap <= WRITE_MAX_BYTES; cap *= 2) {
        char *text = malloc(cap);
        if (text == NULL) {
            break;
        }
        struct fl_fmt f = fl_fmt_of(text, cap);
        write(&f, arg);
        if (!f.cut) {
            char *fit = realloc(text, f.len + 1); /* it may wait for a slow reader */
            answer(c, status, type, fit != NULL ? fit : text, f.len, MHD_RESPMEM_MUST_FREE);
            return;
        }
        free(text);
    }
    fl_mhd_problem(c, 503, "local_resource", "the answer does not fit into memory");
}

static const char *title_of(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 409:
        return "Conflict";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    default:
        return "Error";
    }
}

void fl_mhd_problem(struct fl_mhd_call *c, int status, const char *token, const char *detail)
{
    char text[4096];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text) - 2);
    fl_fmt_printf(&f, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"token\":\"%s\"",
                  title_of(status), status, token);
    fl_fmt_text(&f, ",\"detail\":\"");
    fl_fmt_json(&f, fl_span_first(fl_span_of(detail), 1024));
    f.cap += 2;
    fl_fmt_text(&f, "\"}");
    if (c->field_count < FL_COUNTOF(c->fields)) {
        fl_mhd_add_field(c, "X-Fairlead-Error", token);
    }
    fl_mhd_reply(c, status, "application/problem+json", (struct fl_span){f.base, f.len});
}

void fl_mhd_suspend(struct fl_mhd_call *c)
{
    FL_MUST(c->begun && c->response == NULL && !c->suspended);
    c->suspended = true;
    fl_list_append(&c->mhd->suspended, &c->node);
    MHD_suspend_connection(c->connection);
}

void fl_mhd_call_abandon(struct fl_mhd_call *c)
{
    fl_list_remove(&c->node);
    c->suspended = false;
    MHD_resume_connection(c->connection);
}
