#include "controller/codec/json_walk.h"

#include <errno.h>

#include "controller/codec/json_scan.h"

struct fl_json_walk fl_json_walk_of(struct fl_span text, struct fl_arena *arena)
{
    return (struct fl_json_walk){
        .at = text.ptr, .end = text.len ? text.ptr + text.len : text.ptr, .arena = arena};
}

void fl_json_walk_fail(struct fl_json_walk *w, int fault)
{
    if (w->fault == 0) {
        w->fault = fault;
    }
    w->at = w->end;
}

/* The next byte that is not white space, not taken; NUL at the end. */
static char peek(struct fl_json_walk *w)
{
    while (w->at < w->end &&
           (*w->at == ' ' || *w->at == '\t' || *w->at == '\n' || *w->at == '\r')) {
        w->at++;
    }
    return w->at < w->end ? *w->at : '\0';
}

static bool take(struct fl_json_walk *w, char wanted)
{
    if (peek(w) != wanted || w->at == w->end) {
        fl_json_walk_fail(w, -EBADMSG);
        return false;
    }
    w->at++;
    return true;
}

static bool is_scalar(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
           c == 'E';
}

/* A number or literal; empty: none stands here. */
static struct fl_span scalar(struct fl_json_walk *w)
{
    peek(w);
    const char *from = w->at;
    while (w->at < w->end && is_scalar(*w->at)) {
        w->at++;
    }
    return (struct fl_span){from, (size_t)(w->at - from)};
}

bool fl_json_walk_given(struct fl_json_walk *w)
{
    return peek(w) != 'n' && w->at < w->end;
}

/* True: it was null, or there is a fault. */
static bool nothing(struct fl_json_walk *w)
{
    char c = peek(w);
    if (c == 'n' && fl_span_is(scalar(w), "null")) {
        return true;
    }
    if (c == 'n' || w->at == w->end) {
        fl_json_walk_fail(w, -EBADMSG);
        return true;
    }
    return false;
}

static bool enter(struct fl_json_walk *w, char bracket)
{
    if (nothing(w) || !take(w, bracket)) {
        return false;
    }
    w->fresh = true;
    return true;
}

bool fl_json_walk_object(struct fl_json_walk *w)
{
    return enter(w, '{');
}

bool fl_json_walk_list(struct fl_json_walk *w)
{
    return enter(w, '[');
}

/* Before the next member or element: takes the comma or the closing bracket. */
static bool go_on(struct fl_json_walk *w, char bracket)
{
    bool fresh = w->fresh;
    w->fresh = false;
    if (peek(w) == bracket) {
        w->at++;
        return false;
    }
    return fresh ? w->fault == 0 : take(w, ',');
}

/* From an opening quote, which is taken too. */
static struct fl_span string(struct fl_json_walk *w)
{
    if (!take(w, '"')) {
        return FL_SPAN("");
    }
    const char *from = w->at;
    for (const char *p = from; p < w->end && (unsigned char)*p >= 0x20; p++) {
        if (*p == '"') {
            w->at = p + 1;
            return (struct fl_span){from, (size_t)(p - from)};
        }
        if (*p == '\\' && ++p == w->end) {
            break;
        }
    }
    fl_json_walk_fail(w, -EBADMSG);
    return FL_SPAN("");
}

bool fl_json_walk_member(struct fl_json_walk *w, struct fl_span *ret_key)
{
    if (!go_on(w, '}')) {
        return false;
    }
    struct fl_span key = string(w);
    if (!take(w, ':')) {
        return false;
    }
    *ret_key = key;
    return true;
}

bool fl_json_walk_element(struct fl_json_walk *w)
{
    return go_on(w, ']');
}

void fl_json_walk_skip(struct fl_json_walk *w)
{
    char c = peek(w);
    if (c == '"') {
        string(w);
    } else if (c == '{' || c == '[') {
        struct fl_json_scan scan = {0};
        size_t taken;
        if (fl_json_scan_run(&scan, (struct fl_span){w->at, (size_t)(w->end - w->at)}, &taken) ==
            FL_JSON_SCAN_DONE) {
            w->at += taken;
        } else {
            fl_json_walk_fail(w, -EBADMSG);
        }
    } else if (scalar(w).len == 0) {
        fl_json_walk_fail(w, -EBADMSG);
    }
}

struct fl_span fl_json_walk_raw(struct fl_json_walk *w)
{
    return nothing(w) ? FL_SPAN("") : string(w);
}

/* Four hex digits at p; -1: they are not. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;
    if (end - p < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        char c = fl_ascii_lower(p[i]);
        if (c >= '0' && c <= '9') {
            v = v * 16 + (c - '0');
        } else if (c >= 'a' && c <= 'f') {
            v = v * 16 + (c - 'a' + 10);
        } else {
            return -1;
        }
    }
    return v;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (c & 0x3f));
    return to;
}

/* The digits behind \u, perhaps with the second half of a pair: NULL when they are none. What is
 * written is never longer than what is read. */
static const char *unicode(const char *p, const char *end, bool spares_nul, char **to)
{
    int32_t c = hex4(p, end);
    if (c < 0 || (c == 0 && !spares_nul)) {
        return NULL;
    }
    p += 4;
    c = c == 0 ? 0xfffd : c;
    if (c >= 0xd800 && c <= 0xdfff) {
        int32_t low =
            c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, end) : 0;
        if (low >= 0xdc00 && low <= 0xdfff) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            p += 6;
        } else {
            c = 0xfffd;
        }
    }
    *to = put_utf8(*to, (uint32_t)c);
    return p;
}

/* p is behind the backslash; NULL: no such escape. */
static const char *escape(const char *p, const char *end, bool spares_nul, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (p == end) {
        return NULL;
    }
    if (*p == 'u') {
        return unicode(p + 1, end, spares_nul, to);
    }
    const char *known = *p ? strchr(from, *p) : NULL;
    if (!known) {
        return NULL;
    }
    *(*to)++ = into[known - from];
    return p + 1;
}

const char *fl_json_walk_unescape(struct fl_json_walk *w, struct fl_span raw)
{
    char *text = w->fault == 0 ? fl_arena_text(w->arena, raw) : NULL;
    if (!text) {
        fl_json_walk_fail(w, -ENOMEM);
        return "";
    }
    if (fl_span_find(raw, '\\') < 0) {
        return text;
    }
    char *to = text;
    for (const char *p = raw.ptr, *end = raw.ptr + raw.len; p < end;) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        p = escape(p + 1, end, w->spares_nul, &to);
        if (!p) {
            fl_json_walk_fail(w, -EBADMSG);
            return "";
        }
    }
    *to = '\0';
    return text;
}

const char *fl_json_walk_text(struct fl_json_walk *w)
{
    struct fl_span raw = fl_json_walk_raw(w);
    return raw.len ? fl_json_walk_unescape(w, raw) : "";
}

int64_t fl_json_walk_int(struct fl_json_walk *w)
{
    int64_t v = 0;
    if (nothing(w)) {
        return 0;
    }
    struct fl_span s = scalar(w);
    bool minus = s.len > 1 && s.ptr[0] == '-', good = s.len > 0;
    for (size_t i = minus ? 1 : 0; good && i < s.len; i++) {
        int digit = s.ptr[i] - '0';
        good = digit >= 0 && digit <= 9 && !__builtin_mul_overflow(v, 10, &v) &&
               !__builtin_add_overflow(v, digit, &v);
    }
    if (!good) {
        fl_json_walk_fail(w, -EBADMSG);
        return 0;
    }
    return minus ? -v : v;
}

bool fl_json_walk_bool(struct fl_json_walk *w, bool *ret)
{
    if (nothing(w)) {
        return false;
    }
    struct fl_span s = scalar(w);
    if (!fl_span_is(s, "true") && !fl_span_is(s, "false")) {
        fl_json_walk_fail(w, -EBADMSG);
        return false;
    }
    *ret = fl_span_is(s, "true");
    return true;
}

uint32_t fl_json_walk_count(const struct fl_json_walk *w)
{
    struct fl_json_walk copy = *w;
    uint32_t n = 0;
    if (fl_json_walk_list(&copy)) {
        for (; fl_json_walk_element(&copy); n++) {
            fl_json_walk_skip(&copy);
        }
    }
    return n;
}

void *fl_json_walk_room(struct fl_json_walk *w, uint32_t count, size_t size)
{
    void *items = count && w->fault == 0 ? fl_arena_array(w->arena, count, size) : NULL;
    if (count && !items) {
        fl_json_walk_fail(w, -ENOMEM);
    }
    return items;
}

int fl_json_walk_end(struct fl_json_walk *w)
{
    peek(w);
    if (w->fault == 0 && w->at != w->end) {
        w->fault = -EBADMSG;
    }
    return w->fault;
}
