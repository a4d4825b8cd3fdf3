#include "controller/codec/pod_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/codec/yaml.h"
#include "common/model/config_check.h"
#include "common/model/directives.h"
#include "common/model/directives_scope.h"
#include "common/model/syntax.h"
#include "controller/codec/pod_config_inner.h"

#define SCRATCH_MAX ((size_t)64 << 20)
#define NAMES_MAX   4096u /* of routes, and of backends, in a state: sidecars refuse more */
#define REASONS_MAX 8192u
#define REASON_MAX  256 /* what a sidecar says of a route; and a state has many */

/* ---- findings ---- */

/* A reason goes into a header of the answer: ASCII. */
static const char *reason_of(struct fl_pod_reading *r, const char *annotation, const char *text)
{
    char reason[REASON_MAX];
    if (r->o->errors > REASONS_MAX) { /* there are not as many routes */
        return "too many annotations are wrong";
    }
    struct fl_fmt out = fl_fmt_of(reason, sizeof(reason));
    struct fl_span key = fl_span_first(fl_span_of(annotation), 96), rest = fl_span_of(text);
    fl_fmt_text(&out, "annotation ");
    fl_fmt_header(&out, key);
    fl_fmt_text(&out, ": ");
    size_t room = sizeof(reason) - out.len - 4;
    fl_fmt_header(&out, fl_span_first(rest, room));
    fl_fmt_text(&out, rest.len > room ? "..." : "");
    const char *copy = fl_arena_text(&r->o->own->arena, (struct fl_span){out.base, out.len});
    r->no_memory |= copy == NULL;
    return copy != NULL ? copy : "out of memory";
}

static const char *tell(struct fl_pod_reading *r, const struct fl_pod_source *from,
                        enum fl_severity severity, enum fl_annotation_fault fault, int line,
                        const char *said)
{
    char text[1024];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    if (line > 0 && from->has_lines) {
        fl_fmt_printf(&out, "line %d: ", line);
    }
    if (from->part[0] != '\0') {
        fl_fmt_printf(&out, "%s: ", from->part);
    }
    fl_fmt_span(&out, fl_span_first(fl_span_of(said), sizeof(text) - out.len - 1));
    fl_pod_overlay_add(r->o, severity, fault, from->annotation, "%s", text);
    return severity == FL_SEVERITY_ERROR ? reason_of(r, from->annotation, text) : NULL;
}

const char *fl_pod_fault(struct fl_pod_reading *r, const struct fl_pod_source *from,
                         enum fl_annotation_fault fault, int line, const char *fmt, ...)
{
    char text[640];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return tell(r, from, FL_SEVERITY_ERROR, fault, line, n < 0 ? "" : text);
}

/* "routes.releases.read_timeout: …" within routes.releases is "read_timeout: …". */
static const char *without(const char *text, const char *place)
{
    size_t n = strlen(place);
    if (n == 0 || strncmp(text, place, n) != 0 || (text[n] != '.' && text[n] != ':')) {
        return text;
    }
    text += n + 1;
    return text + (*text == ' ');
}

static bool is_refusal(const char *text)
{
    size_t n = strlen(text), e = strlen(FL_NOT_IN_ANNOTATIONS);
    return n >= e && strcmp(text + n - e, FL_NOT_IN_ANNOTATIONS) == 0;
}

const char *fl_pod_take(struct fl_pod_reading *r, const struct fl_pod_source *from,
                        const struct fl_findings *said, enum fl_annotation_fault fault,
                        const char *place, bool errors_only)
{
    const char *reason = NULL;
    uint32_t taken = 0;
    for (const struct fl_finding *one = said->first; one != NULL; one = one->next) {
        bool is_error = one->severity == FL_SEVERITY_ERROR;
        if (!is_error && errors_only) {
            continue;
        }
        enum fl_annotation_fault what = is_refusal(one->text) ? FL_ANNOTATION_REFUSED : fault;
        const char *why = tell(r, from, one->severity, what, one->line, without(one->text, place));
        reason = reason != NULL ? reason : why;
        taken += is_error;
    }
    if (said->errors > taken) { /* more than are kept, or no memory for their texts */
        const char *why = fl_pod_fault(r, from, fault, 0, "%u findings more", said->errors - taken);
        reason = reason != NULL ? reason : why;
    }
    return reason;
}

/* ---- drafts ---- */

struct fl_pod_draft_route *fl_pod_find_route(const struct fl_pod_reading *r, const char *bucket)
{
    for (uint32_t i = 0; i < r->route_count; i++) {
        if (strcmp(r->routes[i].conf.bucket, bucket) == 0) {
            return &r->routes[i];
        }
    }
    return NULL;
}

struct fl_pod_draft_backend *fl_pod_find_backend(const struct fl_pod_reading *r, const char *name)
{
    for (uint32_t i = 0; i < r->backend_count; i++) {
        if (strcmp(r->backends[i].conf.name, name) == 0) {
            return &r->backends[i];
        }
    }
    return NULL;
}

/* Room for one more; NULL: no memory. */
static void *grown(struct fl_pod_reading *r, void *items, uint32_t count, uint32_t *room,
                   size_t size)
{
    if (count < *room) {
        return items;
    }
    uint32_t more = *room < 8 ? 8 : *room * 2;
    void *fresh = fl_arena_array(&r->scratch, more, size);
    if (fresh == NULL) {
        r->no_memory = true;
        return NULL;
    }
    if (count > 0) {
        memcpy(fresh, items, count * size);
    }
    *room = more;
    return fresh;
}

struct fl_pod_draft_route *fl_pod_add_route(struct fl_pod_reading *r,
                                            const struct fl_pod_source *from)
{
    if (r->route_count >= r->route_max) {
        fl_pod_fault(r, from, FL_ANNOTATION_TOO_MANY, 0, "a pod may have %u routes of its own",
                     (unsigned)r->route_max);
        return NULL;
    }
    void *items = grown(r, r->routes, r->route_count, &r->route_room, sizeof(*r->routes));
    if (items == NULL) {
        return NULL;
    }
    r->routes = items;
    struct fl_pod_draft_route *one = &r->routes[r->route_count++];
    *one = (struct fl_pod_draft_route){.from = *from};
    return one;
}

struct fl_pod_draft_backend *fl_pod_add_backend(struct fl_pod_reading *r,
                                                const struct fl_pod_source *from)
{
    if (r->backend_count >= r->backend_max) {
        fl_pod_fault(r, from, FL_ANNOTATION_TOO_MANY, 0, "a pod may have %u backends of its own",
                     (unsigned)r->backend_max);
        return NULL;
    }
    void *items = grown(r, r->backends, r->backend_count, &r->backend_room, sizeof(*r->backends));
    if (items == NULL) {
        return NULL;
    }
    r->backends = items;
    struct fl_pod_draft_backend *one = &r->backends[r->backend_count++];
    *one = (struct fl_pod_draft_backend){.from = *from};
    return one;
}

void fl_pod_close_route(struct fl_pod_draft_route *route, const char *bucket, const char *reason)
{
    route->conf = (struct fl_route_conf){.bucket = bucket, .backend = "", .invalid = reason};
}

/* ---- the keys beside routes and backends ---- */

static struct fl_pod_source whole(const struct fl_kube_annotation *a)
{
    return (struct fl_pod_source){a->key, "", strchr(a->value, '\n') != NULL};
}

static bool is_value(const struct fl_kube_annotation *a, const char *word)
{
    return fl_span_is(fl_span_trim(fl_span_of(a->value)), word);
}

static void read_env(struct fl_pod_reading *r, const struct fl_kube_annotation *a)
{
    struct fl_pod_source from = whole(a);
    char shown[FL_SHOWN_MAX];
    r->o->env = is_value(a, "true");
    if (!r->o->env && !is_value(a, "false")) {
        fl_pod_fault(r, &from, FL_ANNOTATION_VALUE, 0, "%s is not true or false",
                     fl_value_shown(fl_span_of(a->value), shown));
    }
}

static void read_gate(struct fl_pod_reading *r, const struct fl_kube_annotation *a)
{
    struct fl_pod_source from = whole(a);
    char shown[FL_SHOWN_MAX];
    if (is_value(a, "startup")) {
        r->o->gate = FL_GATE_WISH_STARTUP;
    } else if (is_value(a, "live")) {
        r->o->gate = FL_GATE_WISH_LIVE;
    } else {
        fl_pod_fault(r, &from, FL_ANNOTATION_VALUE, 0, "%s is not one of startup, live",
                     fl_value_shown(fl_span_of(a->value), shown));
    }
}

/* The rules across keys, too: the sidecar would refuse to start. */
static bool is_good_alone(struct fl_pod_reading *r, const struct fl_pod_source *from,
                          const struct fl_node *value, const char *name)
{
    struct fl_config *alone = fl_config_new();
    struct fl_findings read, checked;
    fl_findings_init(&read, "");
    fl_findings_init(&checked, "");
    bool good = false;
    if (alone == NULL) {
        r->no_memory = true;
    } else if (fl_directives_read_key(value, name, alone, &read)) {
        good = fl_config_check(alone, &checked);
    }
    (void)fl_pod_take(r, from, &read, FL_ANNOTATION_VALUE, "", false);
    (void)fl_pod_take(r, from, &checked, FL_ANNOTATION_VALUE, name, true);
    fl_findings_done(&read);
    fl_findings_done(&checked);
    fl_config_free(alone);
    return good;
}

static void read_sidecar_key(struct fl_pod_reading *r, const struct fl_kube_annotation *a,
                             const struct fl_directive *row)
{
    struct fl_pod_source from = whole(a);
    struct fl_findings said;
    struct fl_arena tree;
    uint64_t bit = UINT64_C(1) << fl_directive_bit(row);
    if (row->flags & FL_D_PRIVATE) {
        fl_pod_fault(r, &from, FL_ANNOTATION_REFUSED, 0, "%s", FL_NOT_IN_ANNOTATIONS);
        return;
    }
    if (r->seen_keys & bit) {
        fl_pod_fault(r, &from, FL_ANNOTATION_TWICE, 0, "is given in other letters too");
        return;
    }
    r->seen_keys |= bit;
    fl_findings_init(&said, "");
    fl_arena_init(&tree, SCRATCH_MAX);
    const struct fl_node *value = fl_yaml_parse(fl_span_of(a->value), &tree, &said);
    (void)fl_pod_take(r, &from, &said, FL_ANNOTATION_SYNTAX, "", false);
    if (value != NULL && is_good_alone(r, &from, value, row->name)) {
        r->no_memory |= !fl_directives_read_key(value, row->name, r->o->own, &said);
    }
    fl_arena_done(&tree);
    fl_findings_done(&said);
}

static void say_strange(struct fl_pod_reading *r, const struct fl_kube_annotation *a)
{
    struct fl_pod_source from = whole(a);
    char near[192];
    struct fl_fmt out = fl_fmt_of(near, sizeof(near));
    if (r->o->errors < FL_POD_FINDINGS_MAX) {
        fl_annotation_key_nearest(a->key, &out);
    }
    fl_pod_fault(r, &from, FL_ANNOTATION_UNKNOWN, 0, "means nothing%s%s%s",
                 near[0] != '\0' ? "; did you mean \"" : "", near, near[0] != '\0' ? "\"?" : "");
}

static void say_capitals(struct fl_pod_reading *r, const struct fl_kube_annotation *a,
                         const struct fl_annotation_key *key)
{
    char small[320];
    size_t n = 0;
    for (; a->key[n] != '\0' && n + 1 < sizeof(small); n++) {
        small[n] = fl_ascii_lower(a->key[n]);
    }
    small[n] = '\0';
    bool names = key->kind == FL_ANNOTATION_ROUTE || key->kind == FL_ANNOTATION_BACKEND_OF;
    fl_pod_overlay_add(r->o, FL_SEVERITY_WARNING, FL_ANNOTATION_SPELLING, a->key,
                       "keys have small letters only; it is taken for \"%s\"%s", small,
                       names ? " (a name with capitals goes into fairlead.dev/routes)" : "");
}

static void read_one(struct fl_pod_reading *r, const struct fl_kube_annotation *a,
                     const struct fl_annotation_key *key)
{
    struct fl_pod_source from = whole(a);
    if (key->has_capitals && key->kind != FL_ANNOTATION_STRANGE) {
        say_capitals(r, a, key);
    }
    switch (key->kind) {
    case FL_ANNOTATION_OF_OTHERS:
    case FL_ANNOTATION_OURS:
        break;
    case FL_ANNOTATION_ROUTE:
        fl_pod_read_route(r, a, key->name);
        break;
    case FL_ANNOTATION_BACKEND_OF:
        fl_pod_read_backend(r, a, key->name);
        break;
    case FL_ANNOTATION_DOCUMENT:
        fl_pod_read_document(r, a);
        break;
    case FL_ANNOTATION_SIDECAR:
        read_sidecar_key(r, a, key->row);
        break;
    case FL_ANNOTATION_ENV:
        read_env(r, a);
        break;
    case FL_ANNOTATION_GATE:
        read_gate(r, a);
        break;
    case FL_ANNOTATION_LABEL:
        fl_pod_fault(r, &from, FL_ANNOTATION_UNKNOWN, 0,
                     "is a label, and means nothing as an annotation");
        break;
    case FL_ANNOTATION_NAMELESS:
        fl_pod_fault(r, &from, FL_ANNOTATION_UNKNOWN, 0,
                     "what follows the '/' is no name (1 to 63 letters, digits, '.', '_' and '-'); "
                     "any other goes into fairlead.dev/routes");
        break;
    case FL_ANNOTATION_STRANGE:
        say_strange(r, a);
        break;
    }
}

/* What counts more comes first: a key in the right letters, an annotation of its own. */
static void read_all(struct fl_pod_reading *r, const struct fl_kube_annotation *annotations,
                     uint32_t count)
{
    for (unsigned pass = 0; pass < 4; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            struct fl_annotation_key key;
            fl_annotation_key_read(annotations[i].key, &key);
            unsigned turn = (key.kind == FL_ANNOTATION_DOCUMENT ? 2u : 0u) + key.has_capitals;
            if (turn == pass) {
                read_one(r, &annotations[i], &key);
            }
        }
    }
}

static uint32_t rest_of(uint32_t taken, uint32_t most)
{
    uint32_t left = taken < NAMES_MAX ? NAMES_MAX - taken : 0;
    return left < most ? left : most;
}

struct fl_pod_overlay *fl_pod_config_read(const struct fl_controller_config *c,
                                          const char *namespace,
                                          const struct fl_kube_annotation *annotations,
                                          uint32_t count)
{
    bool named = fl_syntax_is_service(fl_span_of(namespace));
    struct fl_pod_reading r = {
        .c = c,
        .o = fl_pod_overlay_new(named ? namespace : ""),
        .route_max = rest_of(c->cluster->route_count, FL_POD_ROUTES_MAX),
        .backend_max = rest_of(c->cluster->backend_count, FL_POD_BACKENDS_MAX),
    };
    if (r.o == NULL) {
        return NULL;
    }
    fl_arena_init(&r.scratch, SCRATCH_MAX);
    read_all(&r, annotations, count);
    fl_pod_settle(&r);
    fl_arena_done(&r.scratch);
    return r.no_memory ? fl_pod_overlay_free(r.o) : r.o;
}
