#include "tests/support/origin_rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/origin.h"

enum kind { NUMBER, FLAG, TEXT, BYTES, LINE, CHOICE };

static const char *const at_names[] = {"request", "accept", NULL};
static const char *const framing_names[] = {"length", "chunked", "close", "none", NULL};
static const char *const end_names[] = {"fin", "rst", "stall", NULL};

static const struct word {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *const *choices;
} words[] = {
#define AT(member) offsetof(struct fl_origin_rule, member)
    {"path", TEXT, AT(path), NULL},
    {"method", TEXT, AT(method), NULL},
    {"query", TEXT, AT(query), NULL},
    {"count", NUMBER, AT(count), NULL},
    {"skip", NUMBER, AT(skip), NULL},
    {"above", NUMBER, AT(above), NULL},
    {"percent", NUMBER, AT(percent), NULL},
    {"at", CHOICE, AT(at), at_names},
    {"hang", FLAG, AT(hang), NULL},
    {"stop", FLAG, AT(stop), NULL},
    {"rst", FLAG, AT(rst), NULL},
    {"rst_request", NUMBER, AT(rst_request), NULL},
    {"rst_after", NUMBER, AT(rst_after), NULL},
    {"close_after", NUMBER, AT(close_after), NULL},
    {"status", NUMBER, AT(status), NULL},
    {"code", TEXT, AT(code), NULL},
    {"size", NUMBER, AT(size), NULL},
    {"head_size", NUMBER, AT(head_size), NULL},
    {"framing", CHOICE, AT(framing), framing_names},
    {"chunk", NUMBER, AT(chunk), NULL},
    {"http10", FLAG, AT(http10), NULL},
    {"close", FLAG, AT(close), NULL},
    {"close_silent", FLAG, AT(close_silent), NULL},
    {"body", BYTES, AT(body), NULL},
    {"raw", BYTES, AT(raw), NULL},
    {"interim", BYTES, AT(interim), NULL},
    {"header", LINE, AT(headers), NULL},
    {"trailer", LINE, AT(trailers), NULL},
    {"delay", NUMBER, AT(delay_ms), NULL},
    {"early", FLAG, AT(early), NULL},
    {"rate", NUMBER, AT(rate), NULL},
    {"read_rate", NUMBER, AT(read_rate), NULL},
    {"continue", NUMBER, AT(continue_ms), NULL},
    {"cut", NUMBER, AT(cut), NULL},
    {"cut_end", CHOICE, AT(cut_end), end_names},
    {"rst_response", NUMBER, AT(rst_response), NULL},
    {"fin_response", NUMBER, AT(fin_response), NULL},
    {"end_ms", NUMBER, AT(end_ms), NULL},
#undef AT
};

static bool parse_number(const char *text, int64_t *ret)
{
    if (strcmp(text, "now") == 0) {
        *ret = 0;
        return true;
    }
    if (strcmp(text, "never") == 0) {
        *ret = FL_ORIGIN_CONTINUE_NEVER;
        return true;
    }
    char *end = NULL;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || v < 0) {
        return false;
    }
    *ret = v;
    return true;
}

static bool parse_choice(const char *text, const char *const *choices, int64_t *ret)
{
    for (int64_t i = 0; choices[i]; i++) {
        if (strcmp(choices[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* Sets one member. `value` is NULL for a bare word. */
static bool set_word(struct fl_origin_rule *r, const struct word *w,
                     const struct fl_origin_buf *value)
{
    char *at = (char *)r + w->offset;
    int64_t *number = (int64_t *)(void *)at;
    char **text = (char **)(void *)at;
    struct fl_origin_buf *bytes = (struct fl_origin_buf *)(void *)at;
    if (!value) {
        *number = w->kind == FLAG ? 1 : *number;
        return w->kind == FLAG;
    }
    switch (w->kind) {
    case NUMBER:
        return parse_number(value->base, number);
    case FLAG:
        return false;
    case CHOICE:
        return parse_choice(value->base, w->choices, number);
    case TEXT:
        free(*text);
        *text = fl_origin_buf_dup((struct fl_span){value->base, value->len});
        return true;
    case BYTES:
        bytes->len = 0;
        fl_origin_buf_add(bytes, value->base, value->len);
        r->has_body |= bytes == &r->body;
        r->has_raw |= bytes == &r->raw;
        return true;
    case LINE:
        fl_origin_buf_add(bytes, value->base, value->len);
        fl_origin_buf_add(bytes, "\r\n", 2);
        return true;
    }
    return false;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *p = c ? strchr(digits, fl_ascii_lower(c)) : NULL;
    return p ? (int)(p - digits) : -1;
}

/* One character of a quoted value from s at *at, after the backslash. */
static bool take_escape(struct fl_span s, size_t *at, struct fl_origin_buf *out)
{
    static const char names[] = "rnt\"\\0", values[] = "\r\n\t\"\\";
    if (*at >= s.len) {
        return false;
    }
    char c = s.ptr[(*at)++];
    if (c == 'x') {
        int high = *at + 1 < s.len ? hex_digit(s.ptr[*at]) : -1;
        int low = *at + 1 < s.len ? hex_digit(s.ptr[*at + 1]) : -1;
        *at += 2;
        char byte = (char)(high * 16 + low);
        fl_origin_buf_add(out, &byte, 1);
        return high >= 0 && low >= 0;
    }
    const char *p = strchr(names, c);
    if (!c || !p) {
        return false;
    }
    fl_origin_buf_add(out, &values[p - names], 1);
    return true;
}

static bool take_value(struct fl_span s, size_t *at, struct fl_origin_buf *out)
{
    bool quoted = *at < s.len && s.ptr[*at] == '"';
    *at += quoted ? 1 : 0;
    while (*at < s.len) {
        char c = s.ptr[(*at)++];
        if (quoted && c == '"') {
            quoted = false;
            break;
        }
        if (!quoted && (c == ' ' || c == '\t')) {
            break;
        }
        if (quoted && c == '\\') {
            if (!take_escape(s, at, out)) {
                return false;
            }
        } else {
            fl_origin_buf_add(out, &c, 1);
        }
    }
    fl_origin_buf_add(out, "", 1); /* NUL for the number parsers; not counted */
    out->len--;
    return !quoted;
}

static const struct word *find_word(struct fl_span name)
{
    for (size_t i = 0; i < FL_COUNTOF(words); i++) {
        if (fl_span_is(name, words[i].name)) {
            return &words[i];
        }
    }
    return NULL;
}

static bool take_word(struct fl_origin_rule *r, struct fl_span line, size_t *at)
{
    size_t start = *at;
    while (*at < line.len && line.ptr[*at] != '=' && line.ptr[*at] != ' ' &&
           line.ptr[*at] != '\t') {
        (*at)++;
    }
    const struct word *w = find_word((struct fl_span){line.ptr + start, *at - start});
    if (!w) {
        return false;
    }
    if (*at >= line.len || line.ptr[*at] != '=') {
        return set_word(r, w, NULL);
    }
    (*at)++;
    struct fl_origin_buf value = {NULL, 0, 0};
    bool ok = take_value(line, at, &value) && set_word(r, w, &value);
    fl_origin_buf_done(&value);
    return ok;
}

struct fl_origin_rule *fl_origin_rule_parse(struct fl_span line, char *ret_error, size_t error_cap)
{
    struct fl_origin_rule *r = calloc(1, sizeof(*r));
    if (!r) {
        abort();
    }
    r->refs = 1;
    r->count = r->above = r->rst_request = r->rst_after = r->close_after = -1;
    r->size = r->cut = r->rst_response = r->fin_response = -1;
    r->percent = 100;
    r->end_ms = 20;
    r->chunk = 4096;
    r->line = fl_origin_buf_dup(line);
    size_t at = 0;
    while (at < line.len) {
        if (line.ptr[at] == ' ' || line.ptr[at] == '\t') {
            at++;
            continue;
        }
        size_t start = at;
        if (!take_word(r, line, &at)) {
            snprintf(ret_error, error_cap, "bad word in rule: %.60s", r->line + start);
            fl_origin_rule_unref(&r);
            return NULL;
        }
    }
    return r;
}

void fl_origin_rule_unref(struct fl_origin_rule **rule)
{
    struct fl_origin_rule *r = *rule;
    *rule = NULL;
    if (!r || --r->refs > 0) {
        return;
    }
    for (size_t i = 0; i < FL_COUNTOF(words); i++) {
        char *at = (char *)r + words[i].offset;
        if (words[i].kind == TEXT) {
            free(*(char **)(void *)at);
        } else if (words[i].kind == BYTES || words[i].kind == LINE) {
            fl_origin_buf_done((struct fl_origin_buf *)(void *)at);
        }
    }
    free(r->line);
    free(r);
}

bool fl_origin_rule_answers(const struct fl_origin_rule *r)
{
    return r->status || r->code || r->has_body || r->size >= 0;
}

/* `list` is comma-separated; NULL matches everything. */
static bool method_listed(const char *list, struct fl_span method)
{
    struct fl_span rest = fl_span_of(list);
    while (list) {
        ptrdiff_t comma = fl_span_find(rest, ',');
        struct fl_span one = comma < 0 ? rest : fl_span_first(rest, (size_t)comma);
        if (fl_span_eq(one, method)) {
            return true;
        }
        if (comma < 0) {
            return false;
        }
        rest = fl_span_from(rest, (size_t)comma + 1);
    }
    return true;
}

static uint32_t draw_percent(struct fl_origin *o)
{
    o->random = o->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((o->random >> 33) % 100);
}

static bool matches(struct fl_origin *o, const struct fl_origin_rule *r, enum fl_origin_at at,
                    struct fl_span method, struct fl_span target)
{
    if (r->at != (int64_t)at || r->count == 0 ||
        (r->above >= 0 && o->stats.in_flight <= r->above)) {
        return false;
    }
    ptrdiff_t mark = fl_span_find(target, '?');
    struct fl_span query = mark < 0 ? (struct fl_span){"", 0} : fl_span_from(target, (size_t)mark);
    if (!method_listed(r->method, method) ||
        (r->path && !fl_span_starts(target, fl_span_of(r->path)))) {
        return false;
    }
    if (r->query && !memmem(query.ptr, query.len, r->query, strlen(r->query))) {
        return false;
    }
    return r->percent >= 100 || draw_percent(o) < (uint32_t)r->percent;
}

struct fl_origin_rule *fl_origin_rule_pick(struct fl_origin *o, enum fl_origin_at at,
                                           struct fl_span method, struct fl_span target)
{
    fl_list_each (it, &o->rules) {
        struct fl_origin_rule *r = fl_container_of(it, struct fl_origin_rule, link);
        if (!matches(o, r, at, method, target)) {
            continue;
        }
        if (r->skip > 0) {
            r->skip--;
            continue;
        }
        r->count -= r->count > 0 ? 1 : 0;
        r->hits++;
        r->refs++;
        return r;
    }
    return NULL;
}

static void clear_list(struct fl_list *list)
{
    fl_list_each_safe (it, next, list) {
        struct fl_origin_rule *r = fl_container_of(it, struct fl_origin_rule, link);
        fl_list_remove(it);
        fl_origin_rule_unref(&r);
    }
}

void fl_origin_rule_clear(struct fl_origin *o)
{
    clear_list(&o->rules);
}

bool fl_origin_rule_add_lines(struct fl_origin *o, struct fl_span text, bool replace,
                              char *ret_error, size_t error_cap)
{
    struct fl_list added;
    fl_list_init(&added);
    while (text.len) {
        ptrdiff_t end = fl_span_find(text, '\n');
        struct fl_span line = end < 0 ? text : fl_span_first(text, (size_t)end);
        text = end < 0 ? fl_span_from(text, text.len) : fl_span_from(text, (size_t)end + 1);
        if (line.len && line.ptr[line.len - 1] == '\r') {
            line.len--;
        }
        line = fl_span_trim(line);
        if (!line.len || line.ptr[0] == '#') {
            continue;
        }
        struct fl_origin_rule *r = fl_origin_rule_parse(line, ret_error, error_cap);
        if (!r) {
            clear_list(&added);
            return false;
        }
        fl_list_append(&added, &r->link);
    }
    if (replace) {
        fl_origin_rule_clear(o);
    }
    fl_list_each_safe (it, next, &added) {
        fl_list_remove(it);
        fl_list_append(&o->rules, it);
    }
    return true;
}
