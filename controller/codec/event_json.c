#include "controller/codec/event_json.h"

#include "common/base/json.h"
#include "controller/codec/micro_time.h"

const char *fl_event_json_namespace(const struct fl_event_write *w)
{
    return w->facts.namespace[0] != '\0' ? w->facts.namespace : "default";
}

static void time_of(struct fl_json *j, const char *key, int64_t unix_us)
{
    char text[FL_MICRO_TIME_MAX];
    fl_json_text(j, key, fl_micro_time_text(unix_us, text));
}

static void series(struct fl_json *j, const struct fl_event_write *w)
{
    if (w->count < 2) {
        return;
    }
    fl_json_open(j, "series", '{');
    /* an int32 there */
    fl_json_uint(j, "count", w->count < INT32_MAX ? w->count : INT32_MAX);
    time_of(j, "lastObservedTime", w->last_us);
    fl_json_close(j, '}');
}

static void text_if(struct fl_json *j, const char *key, const char *text)
{
    if (text[0] != '\0') {
        fl_json_text(j, key, text);
    }
}

static void regarding(struct fl_json *j, const struct fl_event_facts *f)
{
    fl_json_open(j, "regarding", '{');
    text_if(j, "apiVersion", f->api_version);
    text_if(j, "kind", f->kind);
    text_if(j, "namespace", f->namespace);
    text_if(j, "name", f->name);
    text_if(j, "uid", f->uid);
    fl_json_close(j, '}');
}

void fl_event_json_new(const struct fl_event_write *w, const char *instance, struct fl_fmt *out)
{
    struct fl_json j = {.out = out};
    const struct fl_event_facts *f = &w->facts;
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "apiVersion", "events.k8s.io/v1");
    fl_json_text(&j, "kind", "Event");
    fl_json_open(&j, "metadata", '{');
    fl_json_text(&j, "namespace", fl_event_json_namespace(w));
    fl_json_text(&j, "name", w->event_name);
    fl_json_close(&j, '}');
    time_of(&j, "eventTime", w->first_us);
    fl_json_text(&j, "type", f->type);
    fl_json_text(&j, "reason", f->reason);
    fl_json_text(&j, "action", f->action);
    text_if(&j, "note", f->note);
    fl_json_text(&j, "reportingController", FL_EVENT_CONTROLLER);
    fl_json_span(&j, "reportingInstance",
                 fl_span_first(fl_span_of(instance), FL_EVENT_INSTANCE_MAX));
    regarding(&j, f);
    series(&j, w);
    fl_json_close(&j, '}');
}

void fl_event_json_patch(const struct fl_event_write *w, struct fl_fmt *out)
{
    struct fl_json j = {.out = out};
    fl_json_open(&j, NULL, '{');
    series(&j, w);
    fl_json_close(&j, '}');
}
