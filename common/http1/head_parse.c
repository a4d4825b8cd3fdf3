#include "common/http1/head_parse.h"

#include "common/http1/head_fields.h"
#include "common/http1/headers.h"
#include "common/http1/host.h"
#include "common/http1/scan.h"

/* Where the start line begins: behind the empty lines that are tolerated. */
static size_t skip_empty_lines(const char *buf, size_t len)
{
    size_t at = 0;
    while (len - at >= 2 && at < 2 * FL_HTTP_LEADING_CRLF_MAX && buf[at] == '\r' &&
           buf[at + 1] == '\n') {
        at += 2;
    }
    return at;
}

/* The end of the head, or the first thing that is wrong, from p on, byte by byte where there are
 * control bytes. */
static ptrdiff_t find_end(const char *buf, const char *p, const char *end, size_t *scan)
{
    while ((p = fl_scan_c0(p, end, false)) < end) { /* DEL is left to the parser */
        if (*p == '\t') {
            p++;
            continue;
        }
        if (*p != '\r') {
            return *p == '\n' ? -FL_HTTP_ERR_BARE_LF : -FL_HTTP_ERR_CONTROL;
        }
        if (p + 1 == end) {
            break;
        }
        if (p[1] != '\n') {
            return -FL_HTTP_ERR_BARE_CR;
        }
        p += 2;
        if (p[-3] == '\n') { /* there is one: the first byte of the start line is not CR */
            return p - buf;
        }
    }
    *scan = (size_t)(p - buf);
    return 0;
}

/* Passes over lines of plain text that end in CRLF with text behind it. */
static const char *skip_plain_lines(const char *p, const char *end)
{
    struct fl_scan_walk walk = {.base = p, .len = (size_t)(end - p)};
    do {
        p = fl_scan_walk_next(&walk);
    } while (end - p >= 4 && fl_scan_is_crlf(p) && p[2] >= 0x20 && p[2] < 0x7f);
    return p;
}

ptrdiff_t fl_head_end(const char *buf, size_t len, size_t *scan)
{
    const size_t room = len < FL_HTTP_HEAD_MAX ? len : FL_HTTP_HEAD_MAX;
    const char *end = buf + room;
    size_t start = skip_empty_lines(buf, room);
    if (start == 2 * FL_HTTP_LEADING_CRLF_MAX && start < room && buf[start] == '\r') {
        return -FL_HTTP_ERR_LEADING_CRLF;
    }
    const char *p = buf + (*scan > start ? *scan : start);
    if (*scan <= start) { /* else p may be between the two line ends that are looked for */
        p = skip_plain_lines(p, end);
        if (FL_LIKELY(end - p >= 4 && memcmp(p, "\r\n\r\n", 4) == 0)) {
            return p + 4 - buf;
        }
    }
    ptrdiff_t found = find_end(buf, p, end, scan);
    return found == 0 && len >= FL_HTTP_HEAD_MAX ? -(ptrdiff_t)fl_head_overflow(buf, len) : found;
}

enum fl_http_error fl_head_overflow(const char *buf, size_t len)
{
    size_t start = skip_empty_lines(buf, len);
    return memchr(buf + start, '\n', len - start) ? FL_HTTP_ERR_HEAD_LARGE
                                                  : FL_HTTP_ERR_TARGET_LONG;
}

enum fl_http_error fl_response_sniff(const char *buf, size_t len)
{
    return memcmp(buf, "HTTP/1.", len < 7 ? len : 7) == 0 ? FL_HTTP_ERR_NONE : FL_HTTP_ERR_NOT_HTTP;
}

/* Every scan below relies on the CRLFCRLF at the end: it stops there without asking for bounds. */
static bool ends_well(const char *buf, size_t len)
{
    return len > 4 && memcmp(buf + len - 4, "\r\n\r\n", 4) == 0;
}

/* "HTTP/1.x" with x a digit; *ret_minor is 0 or 1. */
static enum fl_http_error parse_version(const char *p, size_t len, uint8_t *ret_minor)
{
    if (len != 8 || memcmp(p, "HTTP/", 5) != 0 || p[5] < '0' || p[5] > '9' || p[6] != '.' ||
        p[7] < '0' || p[7] > '9') {
        return FL_HTTP_ERR_VERSION;
    }
    if (p[5] != '1') {
        return p[5] == '0' ? FL_HTTP_ERR_VERSION : FL_HTTP_ERR_VERSION_MAJOR;
    }
    *ret_minor = p[7] == '0' ? 0 : 1;
    return FL_HTTP_ERR_NONE;
}

static enum fl_http_error parse_request_line(const char *buf, size_t len,
                                             struct fl_request_head *ret)
{
    const char *start = buf + ret->head.start_off;
    const char *p = fl_scan_token(start, buf + len);
    if (p == start || *p != ' ') {
        return FL_HTTP_ERR_METHOD;
    }
    if (p - start > FL_METHOD_MAX_BYTES) {
        return FL_HTTP_ERR_METHOD_LONG;
    }
    ret->method_len = (uint16_t)(p - start);
    ret->method = fl_method_of((struct fl_span){start, ret->method_len});
    const char *target = ++p;
    p = fl_scan_target(p, buf + len);
    if (*p != ' ' || p == target) {
        return *p == '\r' && p > target ? FL_HTTP_ERR_START_LINE : FL_HTTP_ERR_TARGET;
    }
    if (p - target > FL_HTTP_TARGET_MAX) {
        return FL_HTTP_ERR_TARGET_LONG;
    }
    ret->target_off = (uint16_t)(target - buf);
    ret->target_len = (uint16_t)(p - target);
    const char *version = p + 1;
    if (buf + len - version >= 10 && memcmp(version, "HTTP/1.1\r\n", 10) == 0) {
        ret->minor = 1;
        ret->rewrite_line = false;
        ret->head.fields_off = (uint16_t)(version + 10 - buf);
        return FL_HTTP_ERR_NONE;
    }
    p = fl_scan_control(version, buf + len);
    if (p[0] != '\r' || p[1] != '\n') {
        return FL_HTTP_ERR_START_LINE;
    }
    ret->rewrite_line = true;
    ret->head.fields_off = (uint16_t)(p + 2 - buf);
    return parse_version(version, (size_t)(p - version), &ret->minor);
}

/* "http://authority[/path][?query]"; what is not http is not for a cleartext proxy to guess at. */
static enum fl_http_error parse_absolute(const char *buf, struct fl_request_head *ret)
{
    struct fl_span target = {buf + ret->target_off, ret->target_len};
    if (!fl_span_ieq(fl_span_first(target, 7), FL_SPAN("http://"))) {
        ptrdiff_t colon = fl_span_find(target, ':');
        bool scheme =
            colon > 0 && fl_span_starts(fl_span_from(target, (size_t)colon), FL_SPAN("://"));
        return scheme ? FL_HTTP_ERR_SCHEME : FL_HTTP_ERR_TARGET;
    }
    struct fl_span authority = fl_span_from(target, 7);
    size_t n = 0;
    while (n < authority.len && authority.ptr[n] != '/' && authority.ptr[n] != '?') {
        n++;
    }
    if (!fl_host_is_valid(fl_span_first(authority, n))) {
        return FL_HTTP_ERR_HOST;
    }
    ret->host_off = (uint16_t)(authority.ptr - buf);
    ret->host_len = (uint16_t)n;
    ret->path_off = (uint16_t)(ret->host_off + n);
    ret->path_len = (uint16_t)(authority.len - n);
    ret->form = ret->path_len == 0 && ret->method == FL_METHOD_OPTIONS ? FL_TARGET_ASTERISK
                                                                       : FL_TARGET_ABSOLUTE;
    ret->rewrite_line = true;
    return FL_HTTP_ERR_NONE;
}

static enum fl_http_error parse_target(const char *buf, struct fl_request_head *ret)
{
    if (ret->method == FL_METHOD_CONNECT || ret->method == FL_METHOD_TRACE) {
        return FL_HTTP_ERR_METHOD_REFUSED;
    }
    ret->form = FL_TARGET_ORIGIN;
    ret->path_off = ret->target_off;
    ret->path_len = ret->target_len;
    ret->host_off = 0;
    ret->host_len = 0;
    if (buf[ret->target_off] == '/') {
        return FL_HTTP_ERR_NONE;
    }
    if (buf[ret->target_off] == '*' && ret->target_len == 1) {
        ret->form = FL_TARGET_ASTERISK;
        return ret->method == FL_METHOD_OPTIONS ? FL_HTTP_ERR_NONE : FL_HTTP_ERR_TARGET;
    }
    return parse_absolute(buf, ret);
}

/* Exactly one valid Host in 1.1, also when an absolute target overrules it. */
static enum fl_http_error check_host(const char *buf, const struct fl_head_seen *seen,
                                     struct fl_request_head *ret)
{
    if (seen->host_twice) {
        return FL_HTTP_ERR_HOST_TWICE;
    }
    if (!seen->host) {
        return ret->minor == 0 ? FL_HTTP_ERR_NONE : FL_HTTP_ERR_HOST_MISSING;
    }
    if (!fl_host_is_valid(fl_headers_value(buf, seen->host))) {
        return FL_HTTP_ERR_HOST;
    }
    if (ret->host_len > 0) { /* RFC 9112 section 3.2.2: the target wins */
        seen->host->flags |= FL_FIELD_HOP;
    } else {
        ret->host_off = seen->host->value_off;
        ret->host_len = seen->host->value_len;
    }
    return FL_HTTP_ERR_NONE;
}

static enum fl_http_error check_expect(const char *buf, struct fl_request_head *ret)
{
    ret->expect_continue = ret->minor == 1;
    if (ret->minor == 0) { /* RFC 9110 section 10.1.1: ignored; forwarded as 1.1 it would count */
        fl_headers_drop(&ret->head, FL_HTTP_EXPECT);
        return FL_HTTP_ERR_NONE;
    }
    for (unsigned i = 0; i < ret->head.count; i++) {
        if (ret->head.fields[i].id != FL_HTTP_EXPECT) {
            continue;
        }
        struct fl_span list = fl_headers_value(buf, &ret->head.fields[i]);
        for (struct fl_span member; fl_head_fields_member(&list, &member);) {
            if (!fl_span_ieq(member, FL_SPAN("100-continue"))) {
                return FL_HTTP_ERR_EXPECT;
            }
        }
    }
    return FL_HTTP_ERR_NONE;
}

/* RFC 9110 section 7.6.2: binding for OPTIONS (TRACE is refused), ignored elsewhere. */
static enum fl_http_error check_max_forwards(const char *buf, struct fl_request_head *ret)
{
    if (ret->method != FL_METHOD_OPTIONS) {
        return FL_HTTP_ERR_NONE;
    }
    for (unsigned i = 0; i < ret->head.count; i++) {
        if (ret->head.fields[i].id != FL_HTTP_MAX_FORWARDS) {
            continue;
        }
        struct fl_span value = fl_headers_value(buf, &ret->head.fields[i]);
        if (ret->max_forwards >= 0 || value.len == 0 || value.len > 9) {
            return FL_HTTP_ERR_MAX_FORWARDS;
        }
        int32_t v = 0;
        for (size_t k = 0; k < value.len; k++) {
            if (value.ptr[k] < '0' || value.ptr[k] > '9') {
                return FL_HTTP_ERR_MAX_FORWARDS;
            }
            v = v * 10 + (value.ptr[k] - '0');
        }
        ret->max_forwards = v;
        ret->head.fields[i].flags |= FL_FIELD_HOP;
    }
    return FL_HTTP_ERR_NONE;
}

static enum fl_http_error check_connection(const char *buf, struct fl_http_head *head,
                                           const struct fl_head_seen *seen, uint8_t minor,
                                           bool *ret_persists)
{
    bool close = false, keep_alive = false;
    enum fl_http_error error = FL_HTTP_ERR_NONE;
    if (seen->connection) {
        error = fl_head_fields_connection(buf, head, &close, &keep_alive);
    }
    *ret_persists = !close && (minor == 1 || keep_alive);
    return error;
}

/* Framing comes before everything that might be tempted to change it (Expect, Connection). */
static enum fl_http_error check_request(const char *buf, struct fl_head_seen *seen,
                                        struct fl_request_head *ret)
{
    enum fl_http_error error =
        fl_head_fields_framing(buf, seen, ret->minor, &ret->framing, &ret->content_length);
    if (error == FL_HTTP_ERR_NONE) {
        if (ret->framing == FL_FRAMING_UNTIL_CLOSE) {
            ret->framing = FL_FRAMING_NONE; /* RFC 9112 section 6.3, item 7 */
        }
        ret->rewrite_length = fl_head_fields_rewrites_length(buf, seen);
        error = check_host(buf, seen, ret);
    }
    if (error == FL_HTTP_ERR_NONE) {
        error = check_connection(buf, &ret->head, seen, ret->minor, &ret->keep_alive);
    }
    if (error == FL_HTTP_ERR_NONE && seen->expect) {
        error = check_expect(buf, ret);
    }
    if (error == FL_HTTP_ERR_NONE && seen->max_forwards) {
        error = check_max_forwards(buf, ret);
    }
    return error;
}

/* The head that begins at buf[0], up to the first empty line behind its start line: [buf, buf +
 * bound) ends in CRLFCRLF, so there is one. */
static enum fl_http_error read_request(const char *buf, size_t bound, struct fl_request_head *ret,
                                       struct fl_head_seen *seen)
{
    ret->head.start_off = (uint16_t)skip_empty_lines(buf, bound);
    if (ret->head.start_off == bound) {
        return FL_HTTP_ERR_START_LINE;
    }
    ret->max_forwards = -1;
    ret->expect_continue = false;
    enum fl_http_error error = parse_request_line(buf, bound, ret);
    if (error == FL_HTTP_ERR_NONE) {
        error = parse_target(buf, ret);
    }
    return error == FL_HTTP_ERR_NONE ? fl_head_fields_parse(buf, bound, false, &ret->head, seen)
                                     : error;
}

enum fl_http_error fl_request_parse(const char *buf, size_t len, struct fl_request_head *ret)
{
    if (len > FL_HTTP_HEAD_MAX) {
        return fl_head_overflow(buf, len);
    }
    if (!ends_well(buf, len)) {
        return FL_HTTP_ERR_START_LINE;
    }
    struct fl_head_seen seen;
    enum fl_http_error error = read_request(buf, len, ret, &seen);
    if (error == FL_HTTP_ERR_NONE && ret->head.length != len) {
        return FL_HTTP_ERR_FIELD_NAME;
    }
    return error == FL_HTTP_ERR_NONE ? check_request(buf, &seen, ret) : error;
}

/* An end of a head behind the bytes that are there: every scan stops at it. */
static bool put_stop(char *buf, size_t len)
{
    if (len + FL_HTTP_STOP_BYTES > FL_HTTP_HEAD_MAX) {
        return false;
    }
    memcpy(buf + len, "\r\n\r\n", FL_HTTP_STOP_BYTES);
    return true;
}

size_t fl_request_parse_at_once(char *buf, size_t len, struct fl_request_head *ret)
{
    struct fl_head_seen seen;
    bool good = put_stop(buf, len) &&
                read_request(buf, len + FL_HTTP_STOP_BYTES, ret, &seen) == FL_HTTP_ERR_NONE &&
                ret->head.length <= len && check_request(buf, &seen, ret) == FL_HTTP_ERR_NONE;
    return good ? ret->head.length : 0;
}

static enum fl_http_error parse_status_line(const char *buf, size_t len,
                                            struct fl_response_head *ret)
{
    if (fl_response_sniff(buf, len) != FL_HTTP_ERR_NONE) {
        return FL_HTTP_ERR_NOT_HTTP;
    }
    const char *line_end = buf;
    while (*(line_end = fl_scan_control(line_end, buf + len)) == '\t') {
        line_end++;
    }
    if (line_end[0] != '\r' || line_end[1] != '\n') {
        return FL_HTTP_ERR_START_LINE;
    }
    size_t line_len = (size_t)(line_end - buf);
    enum fl_http_error error = parse_version(buf, line_len < 8 ? line_len : 8, &ret->minor);
    if (error != FL_HTTP_ERR_NONE) {
        return error;
    }
    const char *p = buf + 8;
    if (line_len < 12 || p[0] != ' ' || p[1] < '1' || p[1] > '5' || p[2] < '0' || p[2] > '9' ||
        p[3] < '0' || p[3] > '9' || (line_len > 12 && p[4] != ' ')) {
        return FL_HTTP_ERR_STATUS;
    }
    ret->status = (uint16_t)((p[1] - '0') * 100 + (p[2] - '0') * 10 + (p[3] - '0'));
    size_t reason = line_len > 12 ? 13 : 12; /* some leave out the last SP with the reason */
    ret->reason_off = (uint16_t)reason;
    ret->reason_len = (uint16_t)(line_len - reason);
    ret->rewrite_line = line_len == 12 || buf[7] != '1';
    ret->head.fields_off = (uint16_t)(line_len + 2);
    return ret->status == 101 ? FL_HTTP_ERR_SWITCHING : FL_HTTP_ERR_NONE;
}

/* RFC 9112 section 6.3, items 1 and 2; then section 5 of the contract with reuse of the upstream.
 */
static void settle_response(enum fl_http_method method, struct fl_response_head *ret)
{
    bool never = ret->status < 200 || ret->status == 204;
    if (never) {
        if (ret->framing == FL_FRAMING_CHUNKED || ret->content_length > 0) {
            ret->keep_alive = false; /* a peer that announces a body here may well send one */
        }
        fl_headers_drop(&ret->head, FL_HTTP_CONTENT_LENGTH);
        fl_headers_drop(&ret->head, FL_HTTP_TRANSFER_ENCODING);
        ret->content_length = 0;
        ret->rewrite_length = false;
    }
    if (never || ret->status == 304 || method == FL_METHOD_HEAD) {
        ret->framing = FL_FRAMING_NONE;
    }
    if (ret->framing == FL_FRAMING_UNTIL_CLOSE) {
        ret->keep_alive = false;
    }
}

/* As read_request. */
static enum fl_http_error read_response(const char *buf, size_t bound, struct fl_response_head *ret,
                                        struct fl_head_seen *seen)
{
    ret->head.start_off = 0;
    enum fl_http_error error = parse_status_line(buf, bound, ret);
    return error == FL_HTTP_ERR_NONE ? fl_head_fields_parse(buf, bound, true, &ret->head, seen)
                                     : error;
}

static enum fl_http_error check_response(const char *buf, const struct fl_head_seen *seen,
                                         enum fl_http_method method, struct fl_response_head *ret)
{
    enum fl_http_error error =
        fl_head_fields_framing(buf, seen, ret->minor, &ret->framing, &ret->content_length);
    if (error == FL_HTTP_ERR_NONE) {
        ret->rewrite_length = fl_head_fields_rewrites_length(buf, seen);
        error = check_connection(buf, &ret->head, seen, ret->minor, &ret->keep_alive);
    }
    if (error == FL_HTTP_ERR_NONE) {
        settle_response(method, ret);
    }
    return error;
}

enum fl_http_error fl_response_parse(const char *buf, size_t len,
                                     enum fl_http_method request_method,
                                     struct fl_response_head *ret)
{
    if (len > FL_HTTP_HEAD_MAX) {
        return FL_HTTP_ERR_HEAD_LARGE;
    }
    if (!ends_well(buf, len)) {
        return FL_HTTP_ERR_START_LINE;
    }
    struct fl_head_seen seen;
    enum fl_http_error error = read_response(buf, len, ret, &seen);
    if (error == FL_HTTP_ERR_NONE && ret->head.length != len) {
        return FL_HTTP_ERR_FIELD_NAME;
    }
    return error == FL_HTTP_ERR_NONE ? check_response(buf, &seen, request_method, ret) : error;
}

size_t fl_response_parse_at_once(char *buf, size_t len, enum fl_http_method request_method,
                                 struct fl_response_head *ret)
{
    struct fl_head_seen seen;
    bool good = put_stop(buf, len) &&
                read_response(buf, len + FL_HTTP_STOP_BYTES, ret, &seen) == FL_HTTP_ERR_NONE &&
                ret->head.length <= len &&
                check_response(buf, &seen, request_method, ret) == FL_HTTP_ERR_NONE;
    return good ? ret->head.length : 0;
}
