#include "controller/decide/annotation_key.h"

#include <string.h>

#include "common/model/nearest.h"

static const struct {
    const char *name;
    enum fl_annotation_kind kind;
} names[] = {
    {"routes", FL_ANNOTATION_DOCUMENT},     {"env", FL_ANNOTATION_ENV},
    {"readiness-gate", FL_ANNOTATION_GATE}, {"bootstrap", FL_ANNOTATION_OURS},
    {"injected-hash", FL_ANNOTATION_OURS},  {"inject", FL_ANNOTATION_LABEL},
    {"injection", FL_ANNOTATION_LABEL},     {"injected", FL_ANNOTATION_LABEL},
};

static const struct {
    const char *prefix;
    enum fl_annotation_kind kind;
} prefixes[] = {
    {FL_ANNOTATION_DOMAIN, FL_ANNOTATION_STRANGE}, /* its kinds are in the names */
    {"route." FL_ANNOTATION_DOMAIN, FL_ANNOTATION_ROUTE},
    {"backend." FL_ANNOTATION_DOMAIN, FL_ANNOTATION_BACKEND_OF},
};

static bool is_ours(struct fl_span prefix)
{
    struct fl_span domain = FL_SPAN(FL_ANNOTATION_DOMAIN);
    if (prefix.len < domain.len) {
        return false;
    }
    struct fl_span end = fl_span_from(prefix, prefix.len - domain.len);
    return fl_span_ieq(end, domain) &&
           (end.len == prefix.len || prefix.ptr[prefix.len - domain.len - 1] == '.');
}

static bool is_alnum(char c)
{
    char l = fl_ascii_lower(c);
    return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9');
}

/* As Kubernetes has it: 63 of letters, digits, '.', '_', '-', and a letter or digit at both ends.
 */
static bool is_name(struct fl_span s)
{
    bool good = s.len >= 1 && s.len < FL_ANNOTATION_NAME_MAX && is_alnum(s.ptr[0]) &&
                is_alnum(s.ptr[s.len - 1]);
    for (size_t i = 0; good && i < s.len; i++) {
        good = is_alnum(s.ptr[i]) || (s.ptr[i] != '\0' && strchr("._-", s.ptr[i]) != NULL);
    }
    return good;
}

static bool stands_alone(const struct fl_directive *d)
{
    return d->type != FL_TYPE_BACKENDS && d->type != FL_TYPE_ROUTES;
}

/* "log-level" is log_level. A name with '_' is not one of ours, but near to one. */
static const struct fl_directive *find_row(const char *name)
{
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(FL_SCOPE_ROOT, &count);
    for (unsigned i = 0; i < count; i++) {
        const char *have = d[i].name, *given = name;
        while (*have != '\0' && *given == (*have == '_' ? '-' : *have)) {
            have++;
            given++;
        }
        if (*have == '\0' && *given == '\0' && stands_alone(&d[i])) {
            return &d[i];
        }
    }
    return NULL;
}

static enum fl_annotation_kind kind_of_prefix(struct fl_span prefix)
{
    for (size_t i = 0; i < FL_COUNTOF(prefixes); i++) {
        if (fl_span_ieq(prefix, fl_span_of(prefixes[i].prefix))) {
            return prefixes[i].kind;
        }
    }
    return FL_ANNOTATION_STRANGE;
}

static void take_name(struct fl_span given, struct fl_annotation_key *ret)
{
    for (size_t i = 0; i < given.len; i++) {
        ret->name[i] = fl_ascii_lower(given.ptr[i]);
    }
    ret->name[given.len] = '\0';
}

static void settle_name(struct fl_annotation_key *ret)
{
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        if (strcmp(names[i].name, ret->name) == 0) {
            ret->kind = names[i].kind;
        }
    }
    ret->row = ret->kind == FL_ANNOTATION_STRANGE ? find_row(ret->name) : NULL;
    ret->kind = ret->row != NULL ? FL_ANNOTATION_SIDECAR : ret->kind;
}

void fl_annotation_key_read(const char *key, struct fl_annotation_key *ret)
{
    struct fl_span whole = fl_span_of(key);
    ptrdiff_t slash = fl_span_find(whole, '/');
    struct fl_span prefix = fl_span_first(whole, slash < 0 ? whole.len : (size_t)slash);
    struct fl_span name = fl_span_from(whole, slash < 0 ? whole.len : (size_t)slash + 1);
    *ret = (struct fl_annotation_key){.kind = FL_ANNOTATION_OF_OTHERS};
    if (!is_ours(prefix)) {
        return;
    }
    ret->kind = kind_of_prefix(prefix);
    for (size_t i = 0; i < whole.len; i++) {
        ret->has_capitals |= whole.ptr[i] != fl_ascii_lower(whole.ptr[i]);
    }
    if (!is_name(name)) {
        ret->kind =
            ret->kind == FL_ANNOTATION_STRANGE ? FL_ANNOTATION_STRANGE : FL_ANNOTATION_NAMELESS;
        return;
    }
    take_name(name, ret);
    if (fl_span_ieq(prefix, FL_SPAN(FL_ANNOTATION_DOMAIN))) {
        settle_name(ret);
    }
}

/* ---- did you mean ---- */

static void print_dashed(struct fl_fmt *out, const char *name)
{
    for (; *name != '\0'; name++) {
        fl_fmt_char(out, *name == '_' ? '-' : *name);
    }
}

/* "fairlead.dev/route.releases": the kind is written before the domain. */
static bool offer_turned(struct fl_span name, struct fl_fmt *out)
{
    for (size_t i = 1; i < FL_COUNTOF(prefixes); i++) {
        struct fl_span word = fl_span_of(prefixes[i].prefix);
        word = fl_span_first(word, word.len - strlen(FL_ANNOTATION_DOMAIN)); /* with its dot */
        struct fl_span rest = fl_span_from(name, word.len);
        if (name.len > word.len && fl_span_ieq(fl_span_first(name, word.len), word) &&
            is_name(rest)) {
            fl_fmt_printf(out, "%s/", prefixes[i].prefix);
            fl_fmt_span(out, rest);
            return true;
        }
    }
    return false;
}

static void offer_name(struct fl_span name, struct fl_fmt *out)
{
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(FL_SCOPE_ROOT, &count);
    struct fl_nearest near = fl_nearest_to(name);
    if (offer_turned(name, out)) {
        return;
    }
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        if (names[i].kind != FL_ANNOTATION_OURS && names[i].kind != FL_ANNOTATION_LABEL) {
            fl_nearest_offer(&near, names[i].name);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (stands_alone(&d[i]) && !(d[i].flags & FL_D_PRIVATE)) {
            fl_nearest_offer(&near, d[i].name);
        }
    }
    if (near.best != NULL) {
        fl_fmt_text(out, FL_ANNOTATION_DOMAIN "/");
        print_dashed(out, near.best);
    }
}

/* "routes.fairlead.dev/releases": only the word before the domain can be wrong. */
static void offer_prefix(struct fl_span prefix, struct fl_span name, struct fl_fmt *out)
{
    static const char *const words[] = {"route", "backend"};
    size_t end = prefix.len - strlen("." FL_ANNOTATION_DOMAIN);
    struct fl_nearest near = fl_nearest_to(fl_span_first(prefix, end));
    for (size_t i = 0; i < FL_COUNTOF(words); i++) {
        fl_nearest_offer(&near, words[i]);
    }
    if (near.best != NULL) {
        fl_fmt_printf(out, "%s." FL_ANNOTATION_DOMAIN "/", near.best);
        fl_fmt_span(out, name);
    }
}

void fl_annotation_key_nearest(const char *key, struct fl_fmt *out)
{
    struct fl_span whole = fl_span_of(key);
    ptrdiff_t slash = fl_span_find(whole, '/');
    struct fl_span prefix = fl_span_first(whole, slash < 0 ? whole.len : (size_t)slash);
    struct fl_span name = fl_span_from(whole, slash < 0 ? whole.len : (size_t)slash + 1);
    if (fl_span_ieq(prefix, FL_SPAN(FL_ANNOTATION_DOMAIN))) {
        offer_name(name, out);
    } else if (is_ours(prefix) && is_name(name)) {
        offer_prefix(prefix, name, out);
    }
}
