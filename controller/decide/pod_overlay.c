#include "controller/decide/pod_overlay.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *fl_annotation_fault_token(enum fl_annotation_fault fault)
{
#define X(id, token) token,
    static const char *const tokens[] = {FL_ANNOTATION_FAULTS(X)};
#undef X
    FL_MUST((unsigned)fault < FL_ANNOTATION_FAULT_COUNT);
    return tokens[fault];
}

struct fl_pod_overlay *fl_pod_overlay_new(const char *namespace)
{
    struct fl_pod_overlay *o = calloc(1, sizeof(*o));
    if (o == NULL || (o->own = fl_config_new()) == NULL ||
        (o->namespace = fl_arena_text(&o->own->arena, fl_span_of(namespace))) == NULL) {
        return fl_pod_overlay_free(o);
    }
    return o;
}

struct fl_pod_overlay *fl_pod_overlay_free(struct fl_pod_overlay *o)
{
    if (o != NULL) {
        fl_config_free(o->own);
        free(o);
    }
    return NULL;
}

bool fl_pod_overlay_is_empty(const struct fl_pod_overlay *o)
{
    return o == NULL || (o->own->route_count == 0 && o->own->backend_count == 0);
}

/* Keys come from the API server and values from people: nothing of them may steer a terminal. */
static void keep_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

static void append(struct fl_pod_overlay *o, const struct fl_annotation_finding *said)
{
    struct fl_arena *arena = &o->own->arena;
    struct fl_annotation_finding *one = fl_arena_alloc(arena, sizeof(*one));
    if (one == NULL) {
        return;
    }
    *one = *said;
    one->annotation = fl_arena_text(arena, fl_span_of(said->annotation));
    one->text = fl_arena_text(arena, fl_span_of(said->text));
    if (one->annotation == NULL || one->text == NULL) {
        return;
    }
    if (o->last != NULL) {
        o->last->next = one;
    } else {
        o->first = one;
    }
    o->last = one;
}

void fl_pod_overlay_add(struct fl_pod_overlay *o, enum fl_severity severity,
                        enum fl_annotation_fault fault, const char *annotation, const char *fmt,
                        ...)
{
    char text[1024];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    bool is_error = severity == FL_SEVERITY_ERROR;
    uint32_t *count = is_error ? &o->errors : &o->warnings;
    ++*count;
    o->faults[fault] += is_error;
    if (o->errors + o->warnings > FL_POD_FINDINGS_MAX) {
        return;
    }
    fl_fmt_printf(&out, "annotation %.320s: ", annotation);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text + out.len, sizeof(text) - out.len, fmt, args);
    va_end(args);
    FL_MUST(n >= 0);
    keep_printable(text);
    append(o, &(struct fl_annotation_finding){severity, fault, annotation, text, NULL});
}

void fl_pod_overlay_say(const struct fl_pod_overlay *o, char ret[FL_POD_OVERLAY_SAID_MAX])
{
    struct fl_fmt out = fl_fmt_of(ret, FL_POD_OVERLAY_SAID_MAX);
    const struct fl_annotation_finding *one = o->first;
    while (one != NULL && one->severity != FL_SEVERITY_ERROR) {
        one = one->next;
    }
    if (o->errors == 0) {
        return;
    }
    if (one == NULL) {
        fl_fmt_printf(&out, "%u findings", (unsigned)o->errors);
        return;
    }
    fl_fmt_span(&out, fl_span_first(fl_span_of(one->text), FL_POD_OVERLAY_SAID_MAX - 64));
    if (o->errors > 1) {
        fl_fmt_printf(&out, " (and %u more)", (unsigned)o->errors - 1);
    }
}
