#include "common/model/directives_field.h"

#include "common/base/units.h"
#include "common/model/config.h"
#include "common/model/outcome.h"

/* Enums are stored through uint32_t. */
_Static_assert(sizeof(enum fl_tier) == sizeof(uint32_t) && sizeof(int) == sizeof(uint32_t),
               "enums are 32 bits wide");

size_t fl_field_width(enum fl_type t)
{
    if (fl_field_is_text(t)) {
        return sizeof(const char *);
    }
    if (fl_field_is_texts(t)) {
        return sizeof(struct fl_strings);
    }
    if (t == FL_TYPE_BOOL) {
        return sizeof(bool);
    }
    return t == FL_TYPE_DURATION || t == FL_TYPE_SIZE ? sizeof(int64_t) : sizeof(uint32_t);
}

void fl_field_store(const struct fl_directive *d, void *base, int64_t v)
{
    void *at = fl_field_of(base, d->offset);
    uint32_t narrow = (uint32_t)(d->type == FL_TYPE_BACKUP && v ? (int64_t)FL_TIER_BACKUP : v);
    switch (fl_field_width(d->type)) {
    case sizeof(bool):
        *(bool *)at = v != 0;
        break;
    case sizeof(uint32_t):
        memcpy(at, &narrow, sizeof(narrow));
        break;
    default:
        memcpy(at, &v, sizeof(v));
    }
}

int64_t fl_field_load(const struct fl_directive *d, const void *base)
{
    const void *at = fl_field_at(base, d->offset);
    uint32_t narrow;
    int64_t v;
    switch (fl_field_width(d->type)) {
    case sizeof(bool):
        return *(const bool *)at;
    case sizeof(uint32_t):
        memcpy(&narrow, at, sizeof(narrow));
        return d->type == FL_TYPE_BACKUP ? narrow == FL_TIER_BACKUP : narrow;
    default:
        memcpy(&v, at, sizeof(v));
        return v;
    }
}

static bool parse_scaled(const struct fl_directive *d, struct fl_span s, int64_t *ret)
{
    uint64_t v;
    char suffix = '\0';
    if (d->type == FL_TYPE_DURATION) {
        return fl_units_duration_ms(s, ret);
    }
    if (d->type == FL_TYPE_PERCENT || d->type == FL_TYPE_MULTIPLE) {
        suffix = d->type == FL_TYPE_PERCENT ? '%' : 'x';
        if (s.len == 0 || s.ptr[s.len - 1] != suffix) {
            return false;
        }
        s.len--;
    }
    if (d->type == FL_TYPE_SIZE ? !fl_units_size_bytes(s, &v) : !fl_units_uint(s, &v)) {
        return false;
    }
    *ret = v > INT64_MAX ? INT64_MAX : (int64_t)v;
    return true;
}

bool fl_field_is_off(struct fl_span s, bool quoted)
{
    return fl_span_is(s, "off") || (!quoted && fl_span_is(s, "false"));
}

static bool parse_word(const struct fl_directive *d, struct fl_span s, bool quoted, int64_t *ret)
{
    if (d->type != FL_TYPE_ENUM) {
        *ret = fl_span_is(s, "true");
        return !quoted && (*ret || fl_span_is(s, "false"));
    }
    bool off = fl_field_is_off(s, quoted);
    for (*ret = 0; d->words[*ret]; ++*ret) {
        if (fl_span_is(s, d->words[*ret]) || (off && strcmp(d->words[*ret], "off") == 0)) {
            return true;
        }
    }
    return false;
}

enum fl_parsed fl_field_parse(const struct fl_directive *d, struct fl_span s, bool quoted,
                              int64_t *ret)
{
    if (d->type == FL_TYPE_BOOL || d->type == FL_TYPE_BACKUP || d->type == FL_TYPE_ENUM) {
        return parse_word(d, s, quoted, ret) ? FL_PARSED : FL_NOT_OF_TYPE;
    }
    if ((d->flags & FL_D_OFF && fl_field_is_off(s, quoted)) ||
        (d->type == FL_TYPE_THREADS && fl_span_is(s, "auto"))) {
        *ret = 0;
        return FL_PARSED;
    }
    if ((quoted && d->type == FL_TYPE_UINT) || !parse_scaled(d, s, ret)) {
        return FL_NOT_OF_TYPE;
    }
    bool fits = (*ret >= d->min && *ret <= d->max) || (*ret == 0 && d->flags & FL_D_ZERO);
    return fits ? FL_PARSED : FL_NOT_IN_RANGE;
}

uint32_t fl_field_condition(struct fl_span word)
{
    for (uint32_t bit = FL_ON_ERROR; bit <= FL_ON_NON_IDEMPOTENT; bit <<= 1) {
        if (fl_span_is(word, fl_condition_name((enum fl_condition)bit))) {
            return bit;
        }
    }
    return 0;
}
