#include "common/http1/head_fields.h"

#include "common/http1/headers.h"
#include "common/http1/scan.h"

/* Why the name of a line did not end at its colon; p is where it stopped. */
static __attribute__((noinline, cold)) enum fl_http_error
name_error(const char *name, const char *p, const char *line_end)
{
    if (p == line_end) {
        return p == name ? FL_HTTP_ERR_FIELD_NAME : FL_HTTP_ERR_FIELD_COLON;
    }
    if (*p != ' ' && *p != '\t') {
        return FL_HTTP_ERR_FIELD_NAME;
    }
    if (p == name) {
        return FL_HTTP_ERR_FIELD_FOLD;
    }
    struct fl_span rest = fl_span_trim((struct fl_span){p, (size_t)(line_end - p)});
    return rest.len > 0 && rest.ptr[0] == ':' ? FL_HTTP_ERR_FIELD_SPACE : FL_HTTP_ERR_FIELD_NAME;
}

/* What is wrong with the control byte at p, which is no HTAB; NONE: it begins a CRLF. */
static enum fl_http_error line_end_error(const char *p)
{
    if (p[0] == '\r') {
        return p[1] == '\n' ? FL_HTTP_ERR_NONE : FL_HTTP_ERR_BARE_CR;
    }
    return p[0] == '\n' ? FL_HTTP_ERR_BARE_LF : FL_HTTP_ERR_FIELD_VALUE;
}

/* Finds the CRLF of a line that begins with text; the final one of the head stops the walk before
 * its end. */
static inline enum fl_http_error find_line_end(struct fl_scan_walk *walk, const char **ret)
{
    const char *p = fl_scan_walk_next(walk);
    if (FL_UNLIKELY(!fl_scan_is_crlf(p))) {
        while (*p == '\t' || !fl_scan_is_control(*p)) { /* obs-text and HTAB are fine */
            p = *p == '\t' || (uint8_t)*p >= 0x80 ? p + 1 : fl_scan_walk_next(walk);
        }
    }
    *ret = p;
    return FL_LIKELY(fl_scan_is_crlf(p)) ? FL_HTTP_ERR_NONE : line_end_error(p);
}

/* Why a line is refused that has no name. */
static __attribute__((noinline, cold)) enum fl_http_error nameless_error(const char *line,
                                                                         const char *end)
{
    const char *p = line;
    while (*(p = fl_scan_control(p, end)) == '\t') {
        p++;
    }
    enum fl_http_error error = line_end_error(p);
    return error != FL_HTTP_ERR_NONE ? error : name_error(line, line, p);
}

/* What stands between colon and CRLF, without the white space around it: mostly one blank. */
static inline struct fl_span value_of_line(const char *colon, const char *line_end)
{
    const char *p = colon + 1;
    p += *p == ' ';
    struct fl_span value = {p, (size_t)(line_end - p)};
    bool bare = (uint8_t)*p > ' ' && (uint8_t)line_end[-1] > ' ';
    return FL_LIKELY(bare) ? value : fl_span_trim(value);
}

/* The line at name, of which *ret_end is where its CRLF begins. That end does not depend on the
 * name, so the processor looks for both at once. */
static inline enum fl_http_error parse_line(struct fl_scan_walk *walk, const char *name,
                                            bool spaced_ok, struct fl_http_field *f,
                                            const char **ret_end)
{
    const char *buf = walk->base, *end = buf + walk->len;
    const char *p = fl_scan_token(name, end); /* CR stops it, if nothing else */
    const size_t name_len = (size_t)(p - name);
    if (FL_UNLIKELY(name_len == 0)) {
        return nameless_error(name, end);
    }
    enum fl_http_error error = find_line_end(walk, ret_end);
    if (FL_UNLIKELY(error != FL_HTTP_ERR_NONE)) {
        return error;
    }
    uint8_t spaced = 0;
    if (FL_UNLIKELY(*p != ':')) {
        error = name_error(name, p, *ret_end);
        if (error != FL_HTTP_ERR_FIELD_SPACE || !spaced_ok) {
            return error;
        }
        while (*p != ':') {
            p++;
        }
        spaced = FL_FIELD_SPACED;
    }
    enum fl_http_id id = fl_field_id_of((struct fl_span){name, name_len});
    uint8_t flags = fl_field_id_flags(id);
    if (FL_UNLIKELY(spaced && (flags & (FL_FIELD_FRAMING | FL_FIELD_HOP)) != 0)) {
        return FL_HTTP_ERR_FIELD_SPACE; /* two readers may disagree about the framing */
    }
    struct fl_span value = value_of_line(p, *ret_end);
    f->name_off = (uint16_t)(name - buf);
    f->name_len = (uint16_t)name_len;
    f->value_off = (uint16_t)(value.ptr - buf);
    f->value_len = (uint16_t)value.len;
    f->id = (uint8_t)id;
    f->flags = flags | spaced;
    return FL_HTTP_ERR_NONE;
}

#define NOTED_MAX FL_HTTP_MAX_FORWARDS
_Static_assert(FL_HTTP_HOST <= NOTED_MAX && FL_HTTP_CONTENT_LENGTH <= NOTED_MAX &&
                   FL_HTTP_TRANSFER_ENCODING <= NOTED_MAX && FL_HTTP_CONNECTION <= NOTED_MAX &&
                   FL_HTTP_EXPECT <= NOTED_MAX,
               "all that note() knows");

static void note(struct fl_head_seen *seen, struct fl_http_field *f)
{
    switch (f->id) {
    case FL_HTTP_HOST:
        seen->host_twice = seen->host != NULL;
        seen->host = f;
        break;
    case FL_HTTP_CONTENT_LENGTH:
        seen->length_twice = seen->length_twice || seen->length != NULL;
        seen->length = f;
        break;
    case FL_HTTP_TRANSFER_ENCODING:
        seen->coding_twice = seen->coding_twice || seen->coding != NULL;
        seen->coding = f;
        break;
    case FL_HTTP_CONNECTION:
        seen->connection = true;
        break;
    case FL_HTTP_EXPECT:
        seen->expect = true;
        break;
    case FL_HTTP_MAX_FORWARDS:
        seen->max_forwards = true;
        break;
    default:
        break;
    }
}

enum fl_http_error fl_head_fields_parse(const char *buf, size_t bound, bool spaced_ok,
                                        struct fl_http_head *head, struct fl_head_seen *ret)
{
    const char *p = buf + head->fields_off;
    struct fl_scan_walk walk = {.base = buf, .next = head->fields_off, .len = bound};
    struct fl_http_field *f = head->fields;
    *ret = (struct fl_head_seen){0};
    for (; !fl_scan_is_crlf(p); f++) {
        if (f == head->fields + FL_HTTP_FIELDS_MAX) {
            return FL_HTTP_ERR_FIELDS_MANY;
        }
        enum fl_http_error error = parse_line(&walk, p, spaced_ok, f, &p);
        if (error != FL_HTTP_ERR_NONE) {
            return error;
        }
        p += 2;
        if (f->id != FL_HTTP_OTHER && f->id <= NOTED_MAX) {
            note(ret, f);
        }
    }
    head->count = (uint16_t)(f - head->fields);
    head->length = (uint32_t)(p + 2 - buf);
    return FL_HTTP_ERR_NONE;
}

bool fl_head_fields_member(struct fl_span *list, struct fl_span *ret)
{
    if (list->ptr == NULL) {
        return false;
    }
    ptrdiff_t comma = fl_span_find(*list, ',');
    if (comma < 0) {
        *ret = fl_span_trim(*list);
        *list = (struct fl_span){NULL, 0};
    } else {
        *ret = fl_span_trim(fl_span_first(*list, (size_t)comma));
        *list = fl_span_from(*list, (size_t)comma + 1);
    }
    return true;
}

static bool is_token(struct fl_span s)
{
    return s.len > 0 && fl_scan_token(s.ptr, s.ptr + s.len) == s.ptr + s.len;
}

static enum fl_http_error connection_option(const char *buf, struct fl_http_head *head,
                                            struct fl_span option, bool *close, bool *keep_alive)
{
    if (!is_token(option)) {
        return FL_HTTP_ERR_CONNECTION;
    }
    if (fl_span_ieq(option, FL_SPAN("close"))) {
        *close = true;
        return FL_HTTP_ERR_NONE;
    }
    enum fl_http_id id = fl_field_id_of(option);
    if (id == FL_HTTP_KEEP_ALIVE) {
        *keep_alive = true;
    }
    uint8_t flags = fl_field_id_flags(id);
    if ((flags & FL_FIELD_END) != 0) {
        return FL_HTTP_ERR_CONNECTION_NAMES;
    }
    if ((flags & FL_FIELD_HOP) != 0) {
        return FL_HTTP_ERR_NONE; /* goes anyway */
    }
    for (unsigned i = 0; i < head->count; i++) {
        struct fl_http_field *f = &head->fields[i];
        if (f->id == id && fl_span_ieq(fl_headers_name(buf, f), option)) {
            f->flags |= FL_FIELD_HOP;
        }
    }
    return FL_HTTP_ERR_NONE;
}

enum fl_http_error fl_head_fields_connection(const char *buf, struct fl_http_head *head,
                                             bool *ret_close, bool *ret_keep_alive)
{
    unsigned options = 0;
    *ret_close = false;
    *ret_keep_alive = false;
    for (unsigned i = 0; i < head->count; i++) {
        if (head->fields[i].id != FL_HTTP_CONNECTION) {
            continue;
        }
        struct fl_span list = fl_headers_value(buf, &head->fields[i]);
        for (struct fl_span option; fl_head_fields_member(&list, &option);) {
            if (++options > FL_HTTP_OPTIONS_MAX) {
                return FL_HTTP_ERR_CONNECTION_MANY;
            }
            if (option.len == 0) {
                continue; /* RFC 9110 section 5.6.1.2: empty members are ignored */
            }
            enum fl_http_error error =
                connection_option(buf, head, option, ret_close, ret_keep_alive);
            if (error != FL_HTTP_ERR_NONE) {
                return error;
            }
        }
    }
    return FL_HTTP_ERR_NONE;
}

/* 1*DIGIT below 2^63, read by hand: library converters take signs, blanks and prefixes. */
static bool read_length(struct fl_span s, uint64_t *ret)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(uint8_t)s.ptr[i] - '0';
        if (digit > 9 || v > (uint64_t)INT64_MAX / 10) {
            return false;
        }
        v = v * 10 + digit;
        if (v > (uint64_t)INT64_MAX) {
            return false;
        }
    }
    *ret = v;
    return s.len > 0;
}

/* 400 unless the list is well-formed and ends in one "chunked", else 501: we know no other coding.
 */
static enum fl_http_error read_coding(struct fl_span list)
{
    const struct fl_span chunked = FL_SPAN("chunked");
    if (fl_span_ieq(list, chunked)) {
        return FL_HTTP_ERR_NONE;
    }
    unsigned times = 0;
    bool last = false;
    for (struct fl_span coding; fl_head_fields_member(&list, &coding);) {
        ptrdiff_t semicolon = fl_span_find(coding, ';');
        struct fl_span name =
            semicolon < 0 ? coding : fl_span_trim(fl_span_first(coding, (size_t)semicolon));
        if (!is_token(name)) {
            return FL_HTTP_ERR_CODING;
        }
        times += fl_span_ieq(name, chunked);
        last = fl_span_ieq(coding, chunked);
    }
    return last && times == 1 ? FL_HTTP_ERR_CODING_UNKNOWN : FL_HTTP_ERR_CODING;
}

enum fl_http_error fl_head_fields_framing(const char *buf, const struct fl_head_seen *seen,
                                          uint8_t minor, enum fl_http_framing *ret,
                                          uint64_t *ret_length)
{
    *ret = FL_FRAMING_UNTIL_CLOSE;
    *ret_length = 0;
    if (seen->length_twice) {
        return FL_HTTP_ERR_LENGTH_TWICE;
    }
    if (seen->coding_twice) {
        return FL_HTTP_ERR_CODING_TWICE;
    }
    if (seen->length && seen->coding) {
        return FL_HTTP_ERR_LENGTH_AND_CODING;
    }
    if (seen->length) {
        *ret = FL_FRAMING_LENGTH;
        return read_length(fl_headers_value(buf, seen->length), ret_length) ? FL_HTTP_ERR_NONE
                                                                            : FL_HTTP_ERR_LENGTH;
    }
    if (seen->coding) {
        *ret = FL_FRAMING_CHUNKED;
        return minor == 0 ? FL_HTTP_ERR_CODING_OLD
                          : read_coding(fl_headers_value(buf, seen->coding));
    }
    return FL_HTTP_ERR_NONE;
}

bool fl_head_fields_rewrites_length(const char *buf, const struct fl_head_seen *seen)
{
    if (!seen->length || seen->length->value_len < 2 || buf[seen->length->value_off] != '0') {
        return false;
    }
    seen->length->flags |= FL_FIELD_HOP;
    return true;
}
