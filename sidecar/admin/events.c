#include "sidecar/admin/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX 512

struct fl_events {
    uint64_t version;
    char *json[FL_EVENTS_MAX]; /* event v stands at v % FL_EVENTS_MAX */
};

struct fl_events *fl_events_new(void)
{
    return calloc(1, sizeof(struct fl_events));
}

struct fl_events *fl_events_free(struct fl_events *e)
{
    if (e != NULL) {
        for (size_t i = 0; i < FL_EVENTS_MAX; i++) {
            free(e->json[i]);
        }
        free(e);
    }
    return NULL;
}

static void put_text(struct fl_fmt *f, const char *key, const char *value)
{
    fl_fmt_printf(f, ",\"%s\":\"", key);
    fl_fmt_json(f, fl_span_of(value));
    fl_fmt_char(f, '"');
}

void fl_events_add(struct fl_events *e, int64_t unix_ms, const char *kind, const char *backend,
                   const char *peer, const char *fmt, ...)
{
    char text[TEXT_MAX], line[TEXT_MAX * 4];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* cut at the limit */
    va_end(ap);
    e->version++;
    struct fl_fmt f = fl_fmt_of(line, sizeof(line));
    fl_fmt_printf(&f, "{\"version\":%llu,\"ts\":\"", (unsigned long long)e->version);
    fl_fmt_rfc3339(&f, unix_ms);
    fl_fmt_text(&f, "\"");
    put_text(&f, "kind", kind);
    put_text(&f, "backend", backend);
    put_text(&f, "peer", peer);
    put_text(&f, "text", text);
    fl_fmt_text(&f, "}");
    char **place = &e->json[e->version % FL_EVENTS_MAX];
    free(*place);
    *place = f.cut ? NULL : strdup(line);
}

uint64_t fl_events_version(const struct fl_events *e)
{
    return e->version;
}

void fl_events_write(const struct fl_events *e, uint64_t since, struct fl_fmt *out)
{
    fl_fmt_printf(out, "{\"version\":%llu,\"events\":[", (unsigned long long)e->version);
    since = since < e->version ? since : e->version;
    uint64_t oldest = e->version > FL_EVENTS_MAX ? e->version - FL_EVENTS_MAX + 1 : 1;
    bool any = false;
    for (uint64_t v = since >= oldest ? since + 1 : oldest; v <= e->version; v++) {
        const char *json = e->json[v % FL_EVENTS_MAX];
        if (json != NULL) {
            fl_fmt_text(out, any ? ",\n" : "\n");
            fl_fmt_text(out, json);
            any = true;
        }
    }
    fl_fmt_text(out, "]}\n");
}
