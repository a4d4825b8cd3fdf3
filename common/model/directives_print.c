#include <stdarg.h>
#include <stdio.h>

#include "common/base/units.h"
#include "common/model/controller_config.h"
#include "common/model/directives_field.h"
#include "common/model/directives_value.h"
#include "common/model/outcome.h"

static bool is_plain_key(struct fl_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        char l = fl_ascii_lower(s.ptr[i]);
        if (!((l >= 'a' && l <= 'z') || (l >= '0' && l <= '9') || l == '_' || l == '-')) {
            return false;
        }
    }
    return s.len > 0 && s.len <= 80;
}

void fl_place_print(const struct fl_place *at, struct fl_fmt *out)
{
    const struct fl_place *chain[16];
    size_t depth = 0;
    for (; at && depth < FL_COUNTOF(chain); at = at->up) {
        chain[depth++] = at;
    }
    while (depth-- > 0) {
        const struct fl_place *p = chain[depth];
        if (p->index >= 0) {
            fl_fmt_printf(out, "[%d]", p->index);
            continue;
        }
        fl_fmt_text(out, out->len ? "." : "");
        if (is_plain_key(p->name)) {
            fl_fmt_span(out, p->name);
        } else {
            char shown[FL_SHOWN_MAX];
            fl_fmt_text(out, fl_value_shown(p->name, shown));
        }
    }
}

void fl_reading_fault(struct fl_reading *r, const struct fl_place *at, int line, const char *fmt,
                      ...)
{
    char place[FL_PLACE_MAX], text[640];
    struct fl_fmt f = fl_fmt_of(place, sizeof(place));
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fl_place_print(at, &f);
    fl_findings_add(r->f, FL_SEVERITY_ERROR, line, "%s%s%s", place, f.len ? ": " : "",
                    n < 0 ? "" : text);
}

/* Length of the UTF-8 sequence at s, its code point in *ret; 1 with the byte itself where there is
 * none. */
static size_t decode(struct fl_span s, uint32_t *ret)
{
    unsigned char lead = (unsigned char)s.ptr[0];
    size_t n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    uint32_t v = n == 1 ? lead : lead & (0x7fu >> n);
    if (n > s.len) {
        *ret = lead;
        return 1;
    }
    for (size_t i = 1; i < n; i++) {
        v = v << 6 | ((unsigned char)s.ptr[i] & 0x3fu);
    }
    *ret = v;
    return n;
}

/* A double-quoted scalar in pure ASCII: no character is then folded, refused or lost by a YAML
 * reader. */
static void print_yaml_text(struct fl_fmt *out, struct fl_span s)
{
    fl_fmt_char(out, '"');
    while (s.len) {
        uint32_t v;
        size_t n = decode(s, &v);
        if (v == '"' || v == '\\') {
            fl_fmt_char(out, '\\');
            fl_fmt_char(out, (char)v);
        } else if (v >= 0x20 && v < 0x7f) {
            fl_fmt_char(out, (char)v);
        } else {
            fl_fmt_printf(out, v > 0xffff ? "\\U%08X" : "\\u%04X", v);
        }
        s = fl_span_from(s, n);
    }
    fl_fmt_char(out, '"');
}

void fl_value_print_text(struct fl_fmt *out, struct fl_span s, bool json)
{
    if (!json) {
        print_yaml_text(out, s);
        return;
    }
    fl_fmt_char(out, '"');
    fl_fmt_json(out, s);
    fl_fmt_char(out, '"');
}

static void print_texts(struct fl_fmt *out, const struct fl_strings *texts, bool json)
{
    fl_fmt_char(out, '[');
    for (uint32_t i = 0; i < texts->count; i++) {
        fl_fmt_text(out, i == 0 ? "" : json ? "," : ", ");
        fl_value_print_text(out, fl_span_of(texts->items[i]), json);
    }
    fl_fmt_char(out, ']');
}

static void print_conditions(struct fl_fmt *out, uint32_t mask, bool json)
{
    const char *quote = json ? "\"" : "", *comma = json ? "," : ", ";
    if (mask == 0) {
        fl_fmt_text(out, "\"off\"");
        return;
    }
    fl_fmt_char(out, '[');
    for (uint32_t bit = FL_ON_ERROR, n = 0; bit <= FL_ON_NON_IDEMPOTENT; bit <<= 1) {
        if (mask & bit) {
            fl_fmt_text(out, n++ ? comma : "");
            fl_fmt_printf(out, "%s%s%s", quote, fl_condition_name((enum fl_condition)bit), quote);
        }
    }
    fl_fmt_char(out, ']');
}

/* Other readers of YAML take a bare `off` for a boolean, and would write `false`: it is quoted. */
static bool is_off(const struct fl_directive *d, int64_t v)
{
    return d->type == FL_TYPE_ENUM ? strcmp(d->words[v], "off") == 0
                                   : v == 0 && (d->flags & FL_D_OFF) != 0;
}

static void print_number(const struct fl_directive *d, int64_t v, struct fl_fmt *out)
{
    if (d->type != FL_TYPE_ENUM && is_off(d, v)) {
        fl_fmt_text(out, "off");
    } else if (v == 0 && d->type == FL_TYPE_THREADS) {
        fl_fmt_text(out, "auto");
    } else if (d->type == FL_TYPE_DURATION) {
        fl_units_print_duration(out, v);
    } else if (d->type == FL_TYPE_SIZE) {
        fl_units_print_size(out, (uint64_t)v);
    } else if (d->type == FL_TYPE_ENUM) {
        fl_fmt_text(out, d->words[v]);
    } else if (d->type == FL_TYPE_BOOL || d->type == FL_TYPE_BACKUP) {
        fl_fmt_text(out, v ? "true" : "false");
    } else {
        fl_fmt_int(out, v);
        fl_fmt_text(out, d->type == FL_TYPE_PERCENT ? "%" : d->type == FL_TYPE_MULTIPLE ? "x" : "");
    }
}

static void print_namespaces(const struct fl_directive *d, const void *base, struct fl_fmt *out,
                             bool json)
{
    int64_t mode = fl_field_load(d, base);
    if (mode == FL_NAMESPACES_LISTED) {
        print_texts(out, fl_field_at(base, d->count_offset), json);
    } else {
        fl_value_print_text(out, mode == FL_NAMESPACES_OWN ? FL_SPAN("own") : FL_SPAN("all"), json);
    }
}

void fl_value_print(const struct fl_directive *d, const void *base, struct fl_fmt *out, bool json)
{
    if (d->type == FL_TYPE_NAMESPACES) {
        print_namespaces(d, base, out, json);
    } else if (d->type == FL_TYPE_CONDITIONS) {
        print_conditions(out, (uint32_t)fl_field_load(d, base), json);
    } else if (fl_field_is_texts(d->type)) {
        print_texts(out, fl_field_at(base, d->offset), json);
    } else if (fl_field_is_text(d->type)) {
        const char *text = *(const char *const *)fl_field_at(base, d->offset);
        if (d->type == FL_TYPE_SOURCE) {
            char whole[4200];
            struct fl_fmt f = fl_fmt_of(whole, sizeof(whole));
            fl_fmt_text(&f, text[0] ? "file:" : "kubernetes");
            fl_fmt_text(&f, text);
            fl_value_print_text(out, (struct fl_span){whole, f.len}, json);
        } else {
            fl_value_print_text(out, fl_span_of(text), json);
        }
    } else {
        int64_t v = fl_field_load(d, base);
        bool bare = d->type == FL_TYPE_UINT || d->type == FL_TYPE_BOOL ||
                    d->type == FL_TYPE_BACKUP || (!json && !is_off(d, v));
        fl_fmt_text(out, bare ? "" : "\"");
        print_number(d, v, out);
        fl_fmt_text(out, bare ? "" : "\"");
    }
}

void fl_value_range(const struct fl_directive *d, struct fl_fmt *out)
{
    struct fl_directive plain = *d;
    bool ranged = d->type <= FL_TYPE_THREADS;
    plain.flags = 0;
    if (d->type == FL_TYPE_THREADS) {
        plain.type = FL_TYPE_UINT;
    }
    if (ranged) {
        fl_fmt_text(out, d->type == FL_TYPE_THREADS ? "auto, or "
                         : d->flags & FL_D_OFF      ? "off, or "
                                                    : "");
        fl_fmt_text(out, d->flags & FL_D_ZERO && d->min > 0 ? "0, or " : "");
        print_number(&plain, d->min, out);
        fl_fmt_text(out, " to ");
        print_number(&plain, d->max, out);
    }
}

void fl_value_assign(struct fl_arena *arena, const struct fl_directive *d, const char *text,
                     void *base)
{
    struct fl_span rest = fl_span_of(text);
    int64_t v = 0;
    if (fl_field_is_text(d->type)) {
        *(const char **)fl_field_of(base, d->offset) = d->type == FL_TYPE_SOURCE ? "" : text;
    } else if (fl_field_is_texts(d->type)) {
        struct fl_strings *to = fl_field_of(base, d->offset);
        to->items = fl_arena_array(arena, 1, sizeof(*to->items));
        to->count = to->items ? 1 : 0;
        if (to->items) {
            to->items[0] = text;
        }
    } else if (d->type == FL_TYPE_NAMESPACES) {
        fl_field_store(d, base, FL_NAMESPACES_OWN);
    } else if (d->type == FL_TYPE_CONDITIONS) {
        while (rest.len) {
            ptrdiff_t space = fl_span_find(rest, ' ');
            size_t n = space < 0 ? rest.len : (size_t)space;
            uint32_t bit = fl_field_condition(fl_span_first(rest, n));
            FL_MUST(bit != 0);
            v |= bit;
            rest = fl_span_from(rest, n + 1);
        }
        fl_field_store(d, base, v);
    } else {
        FL_MUST(fl_field_parse(d, rest, false, &v) == FL_PARSED);
        fl_field_store(d, base, v);
    }
}

void fl_value_copy(const struct fl_directive *to, void *to_base, const struct fl_directive *from,
                   const void *from_base)
{
    FL_MUST(to->type == from->type && fl_value_is_plain(to->type) &&
            to->type != FL_TYPE_NAMESPACES);
    memcpy(fl_field_of(to_base, to->offset), fl_field_at(from_base, from->offset),
           fl_field_width(to->type));
}

static bool rehome_texts(struct fl_arena *arena, struct fl_strings *texts)
{
    const char **items = fl_arena_array(arena, texts->count, sizeof(*items));
    bool good = items != NULL;
    for (uint32_t i = 0; good && i < texts->count; i++) {
        items[i] = fl_arena_text(arena, fl_span_of(texts->items[i]));
        good = items[i] != NULL;
    }
    texts->items = items;
    return good;
}

bool fl_value_rehome(struct fl_arena *arena, const struct fl_directive *d, void *base)
{
    if (d->type == FL_TYPE_NAMESPACES) {
        return rehome_texts(arena, fl_field_of(base, d->count_offset));
    }
    if (fl_field_is_texts(d->type)) {
        return rehome_texts(arena, fl_field_of(base, d->offset));
    }
    if (fl_field_is_text(d->type)) {
        const char **text = fl_field_of(base, d->offset);
        if ((*text)[0] == '\0') {
            *text = "";
            return true;
        }
        *text = fl_arena_text(arena, fl_span_of(*text));
        return *text != NULL;
    }
    return true;
}
