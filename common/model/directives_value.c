#include "common/model/directives_value.h"

#include "common/model/controller_config.h"
#include "common/model/directives_field.h"
#include "common/model/nearest.h"
#include "common/model/outcome.h"
#include "common/model/syntax.h"

static const struct {
    const char *name, *hint;
} types[] = {
    [FL_TYPE_DURATION] = {"a duration", "write 10s, 250ms, 5m"},
    [FL_TYPE_SIZE] = {"a size", "write 64KiB, 1MiB"},
    [FL_TYPE_UINT] = {"a whole number", "write it without quotes or unit"},
    [FL_TYPE_PERCENT] = {"a percentage", "write 20%"},
    [FL_TYPE_MULTIPLE] = {"a multiple", "write 1x to 8x"},
    [FL_TYPE_THREADS] = {"a number of threads", "write auto, or a whole number"},
    [FL_TYPE_BOOL] = {"a boolean", "write true or false, without quotes"},
    [FL_TYPE_BACKUP] = {"a boolean", "write true or false, without quotes"},
    [FL_TYPE_ENUM] = {"a word", ""},
    [FL_TYPE_CONDITIONS] = {"a list of conditions", "write [error, timeout], or off"},
    [FL_TYPE_TEXT] = {"a text", ""},
    [FL_TYPE_STATUSES] = {"a set of statuses", "write 200-399, or 200,204"},
    [FL_TYPE_LISTEN] = {"a listen address", "write 127.0.0.1:8420, or [::]:8422"},
    [FL_TYPE_ADDRESS] = {"an address", "write 10.0.1.10:9000, [::1]:9000 or name:9000"},
    [FL_TYPE_ENDPOINT] = {"an IP address",
                          "write 10.0.1.10, or 10.0.1.10:9000 with a port of its own"},
    [FL_TYPE_SOURCE] = {"a source", "write kubernetes, or file:PATH"},
    [FL_TYPE_TEXTS] = {"a list of texts", ""},
    [FL_TYPE_LISTENS] = {"a listen address", "write 127.0.0.1:8420, or unix:/run/fairlead.sock"},
    [FL_TYPE_NAMESPACES] = {"a choice of namespaces", "write own, all, or a list of names"},
    [FL_TYPE_MAP] = {"a mapping", ""},
    [FL_TYPE_LIST] = {"a list", ""},
    [FL_TYPE_BACKENDS] = {"a mapping", ""},
    [FL_TYPE_ROUTES] = {"a mapping", ""},
    [FL_TYPE_PATHS] = {"a mapping", ""},
    [FL_TYPE_SERVICES] = {"a mapping", ""},
    [FL_TYPE_PORTS] = {"a mapping", ""},
};
_Static_assert(FL_COUNTOF(types) == FL_TYPE_COUNT, "a row per type");

const char *fl_value_type_name(enum fl_type t)
{
    return types[t].name;
}

bool fl_value_is_plain(enum fl_type t)
{
    return t <= FL_TYPE_NAMESPACES;
}

/* NULL: good. Else what is wrong, "" for "not of its type". */
static const char *text_fault(const struct fl_directive *d, struct fl_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7f) {
            return "has control characters";
        }
    }
    if (s.len > (size_t)d->max && d->max > 0) {
        return "is too long";
    }
    bool good = true;
    switch ((int)d->type) {
    case FL_TYPE_STATUSES:
        good = fl_syntax_is_statuses(s);
        break;
    case FL_TYPE_LISTEN:
    case FL_TYPE_LISTENS:
        good = fl_syntax_is_listen(s, d->type == FL_TYPE_LISTENS);
        break;
    case FL_TYPE_ADDRESS:
        good = fl_syntax_is_peer(s);
        break;
    case FL_TYPE_ENDPOINT:
        good = fl_syntax_is_endpoint(s);
        break;
    case FL_TYPE_SOURCE:
        good = fl_span_is(s, "kubernetes") || (s.len > 5 && fl_span_starts(s, FL_SPAN("file:")));
        break;
    default:
        break;
    }
    return good ? NULL : "";
}

const char *fl_value_shown(struct fl_span text, char buffer[static FL_SHOWN_MAX])
{
    struct fl_fmt f = fl_fmt_of(buffer, FL_SHOWN_MAX);
    bool whole = text.len <= FL_SHOWN_MAX - 8;
    size_t n = whole ? text.len : FL_SHOWN_MAX - 8;
    while (!whole && n > 0 && ((unsigned char)text.ptr[n] & 0xc0) == 0x80) {
        n--; /* never half of a UTF-8 sequence */
    }
    fl_fmt_char(&f, '"');
    fl_fmt_span(&f, fl_span_first(text, n));
    fl_fmt_text(&f, whole ? "\"" : "...\"");
    return buffer;
}

static bool wrong_kind(struct fl_reading *r, const struct fl_place *at,
                       const struct fl_directive *d, const struct fl_node *n)
{
    const char *hint = types[d->type].hint;
    if (n->kind == FL_NODE_NULL) {
        fl_reading_fault(r, at, n->line, "has no value; give %s%s%s%s, or remove the key",
                         types[d->type].name, hint[0] ? " (" : "", hint, hint[0] ? ")" : "");
        return false;
    }
    fl_reading_fault(r, at, n->line, "%s is given where %s is wanted%s%s%s",
                     n->kind == FL_NODE_MAP    ? "a mapping"
                     : n->kind == FL_NODE_LIST ? "a list"
                                               : "a single value",
                     types[d->type].name, hint[0] ? " (" : "", hint, hint[0] ? ")" : "");
    return false;
}

static bool wrong_word(struct fl_reading *r, const struct fl_place *at, int line,
                       const char *const *words, struct fl_span given)
{
    char shown[FL_SHOWN_MAX], list[256];
    struct fl_fmt f = fl_fmt_of(list, sizeof(list));
    struct fl_nearest near = fl_nearest_to(given);
    for (size_t i = 0; words[i]; i++) {
        fl_fmt_text(&f, i ? ", " : "");
        fl_fmt_text(&f, words[i]);
        fl_nearest_offer(&near, words[i]);
    }
    fl_reading_fault(r, at, line, "%s is not one of %s%s%s%s", fl_value_shown(given, shown), list,
                     near.best ? "; did you mean \"" : "", near.best ? near.best : "",
                     near.best ? "\"?" : "");
    return false;
}

static bool not_of_type(struct fl_reading *r, const struct fl_place *at,
                        const struct fl_directive *d, const struct fl_node *n)
{
    char shown[FL_SHOWN_MAX];
    if (d->type == FL_TYPE_ENUM) {
        return wrong_word(r, at, n->line, d->words, n->text);
    }
    fl_reading_fault(r, at, n->line, "%s is not %s (%s%s)", fl_value_shown(n->text, shown),
                     types[d->type].name, types[d->type].hint,
                     d->flags & FL_D_OFF ? ", or off" : "");
    return false;
}

static bool set_number(struct fl_reading *r, const struct fl_place *at,
                       const struct fl_directive *d, const struct fl_node *n, void *base)
{
    char range[96];
    int64_t v;
    struct fl_directive rule = *d;
    if (d->flags & FL_D_PUSH_ZERO && r->origin == FL_ORIGIN_PUSH) {
        rule.flags |= FL_D_ZERO;
    }
    switch (fl_field_parse(&rule, n->text, n->quoted, &v)) {
    case FL_PARSED:
        fl_field_store(d, base, v);
        return true;
    case FL_NOT_OF_TYPE:
        return not_of_type(r, at, d, n);
    case FL_NOT_IN_RANGE:
        break;
    }
    struct fl_fmt f = fl_fmt_of(range, sizeof(range));
    fl_value_range(&rule, &f);
    fl_reading_fault(r, at, n->line, "%.*s is out of range (%s)",
                     (int)fl_span_first(n->text, 40).len, n->text.ptr, range);
    return false;
}

static const char *take_text(struct fl_reading *r, const struct fl_place *at,
                             const struct fl_directive *d, const struct fl_node *n)
{
    char shown[FL_SHOWN_MAX];
    if (n->kind != FL_NODE_SCALAR) {
        wrong_kind(r, at, d, n);
        return NULL;
    }
    const char *fault = text_fault(d, n->text);
    if (fault && fault[0]) {
        fl_reading_fault(r, at, n->line, "%s %s", fl_value_shown(n->text, shown), fault);
        return NULL;
    }
    if (fault) {
        not_of_type(r, at, d, n);
        return NULL;
    }
    struct fl_span text = n->text;
    if (d->type == FL_TYPE_SOURCE) {
        text = fl_span_is(text, "kubernetes") ? FL_SPAN("") : fl_span_from(text, 5);
    }
    const char *copy = text.len ? fl_arena_text(r->arena, text) : "";
    if (!copy) {
        fl_reading_fault(r, at, n->line, "out of memory");
    }
    return copy;
}

/* A single value stands for a list of one. */
static bool set_texts(struct fl_reading *r, const struct fl_place *at, const struct fl_directive *d,
                      const struct fl_node *n, struct fl_strings *ret)
{
    const struct fl_node *item = n->kind == FL_NODE_LIST ? n->first : n;
    struct fl_strings made = {NULL, 0};
    if (n->kind != FL_NODE_LIST && n->kind != FL_NODE_SCALAR) {
        return wrong_kind(r, at, d, n);
    }
    size_t count = 0;
    bool good = true;
    for (const struct fl_node *i = item; i; i = n == item ? NULL : i->next) {
        count++;
    }
    made.items = fl_arena_array(r->arena, count, sizeof(*made.items));
    if (!made.items || count > UINT16_MAX) {
        fl_reading_fault(r, at, n->line, "is too long");
        return false;
    }
    for (const struct fl_node *i = item; i; i = n == item ? NULL : i->next) {
        struct fl_place here = {at, {NULL, 0}, (int)made.count};
        const char *text = take_text(r, n == item ? at : &here, d, i);
        good = good && text;
        made.items[made.count++] = text;
    }
    if (good) {
        *ret = made;
    }
    return good;
}

static bool unknown_condition(struct fl_reading *r, const struct fl_place *at,
                              const struct fl_directive *d, const struct fl_node *n)
{
    const char *words[16];
    size_t count = 0;
    if (n->kind != FL_NODE_SCALAR) {
        return wrong_kind(r, at, d, n);
    }
    for (uint32_t bit = FL_ON_ERROR; bit <= FL_ON_NON_IDEMPOTENT; bit <<= 1) {
        words[count++] = fl_condition_name((enum fl_condition)bit);
    }
    words[count] = NULL;
    return wrong_word(r, at, n->line, words, n->text);
}

static bool set_conditions(struct fl_reading *r, const struct fl_place *at,
                           const struct fl_directive *d, const struct fl_node *n, void *base)
{
    uint32_t mask = 0;
    bool off = n->kind == FL_NODE_SCALAR && fl_field_is_off(n->text, n->quoted);
    if (n->kind == FL_NODE_SCALAR && !off) {
        return not_of_type(r, at, d, n);
    }
    if (n->kind == FL_NODE_LIST && !n->first) {
        fl_reading_fault(r, at, n->line, "is empty (%s)", types[d->type].hint);
        return false;
    }
    if (!off && n->kind != FL_NODE_LIST) {
        return wrong_kind(r, at, d, n);
    }
    for (const struct fl_node *i = off ? NULL : n->first; i; i = i->next) {
        uint32_t bit = i->kind == FL_NODE_SCALAR ? fl_field_condition(i->text) : 0;
        if (!bit) {
            return unknown_condition(r, at, d, i);
        }
        if (mask & bit) {
            fl_reading_fault(r, at, i->line, "%s is listed twice",
                             fl_condition_name((enum fl_condition)bit));
            return false;
        }
        mask |= bit;
    }
    fl_field_store(d, base, mask);
    return true;
}

static bool set_namespaces(struct fl_reading *r, const struct fl_place *at,
                           const struct fl_directive *d, const struct fl_node *n, void *base)
{
    enum fl_probe_namespaces mode = FL_NAMESPACES_LISTED;
    struct fl_strings names = {NULL, 0};
    if (n->kind == FL_NODE_SCALAR) {
        if (!fl_span_is(n->text, "own") && !fl_span_is(n->text, "all")) {
            return not_of_type(r, at, d, n);
        }
        mode = fl_span_is(n->text, "own") ? FL_NAMESPACES_OWN : FL_NAMESPACES_ALL;
    } else if (!set_texts(r, at, d, n, &names)) {
        return false;
    }
    fl_field_store(d, base, mode);
    *(struct fl_strings *)fl_field_of(base, d->count_offset) = names;
    return true;
}

bool fl_value_set(struct fl_reading *r, const struct fl_place *at, const struct fl_directive *d,
                  const struct fl_node *n, void *base)
{
    if (d->type == FL_TYPE_CONDITIONS) {
        return set_conditions(r, at, d, n, base);
    }
    if (d->type == FL_TYPE_NAMESPACES) {
        return set_namespaces(r, at, d, n, base);
    }
    if (fl_field_is_texts(d->type)) {
        return set_texts(r, at, d, n, fl_field_of(base, d->offset));
    }
    if (fl_field_is_text(d->type)) {
        const char *text = take_text(r, at, d, n);
        if (text) {
            *(const char **)fl_field_of(base, d->offset) = text;
        }
        return text != NULL;
    }
    return n->kind == FL_NODE_SCALAR ? set_number(r, at, d, n, base) : wrong_kind(r, at, d, n);
}
