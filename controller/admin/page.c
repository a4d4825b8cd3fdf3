#include "controller/admin/page.h"

static void lead(struct fl_page *p, const char *key)
{
    fl_fmt_text(p->out, p->comma ? "," : "");
    p->comma = true;
    if (key != NULL) {
        fl_fmt_char(p->out, '"');
        fl_fmt_json(p->out, fl_span_of(key));
        fl_fmt_text(p->out, "\":");
    }
}

void fl_page_open(struct fl_page *p, const char *key, char open)
{
    lead(p, key);
    fl_fmt_char(p->out, open);
    p->comma = false;
}

void fl_page_close(struct fl_page *p, char close)
{
    fl_fmt_char(p->out, close);
    p->comma = true;
}

void fl_page_text(struct fl_page *p, const char *key, const char *value)
{
    lead(p, key);
    fl_fmt_char(p->out, '"');
    fl_fmt_json(p->out, fl_span_of(value));
    fl_fmt_char(p->out, '"');
}

void fl_page_int(struct fl_page *p, const char *key, int64_t value)
{
    lead(p, key);
    fl_fmt_int(p->out, value);
}

void fl_page_bool(struct fl_page *p, const char *key, bool value)
{
    lead(p, key);
    fl_fmt_text(p->out, value ? "true" : "false");
}

void fl_page_secs(struct fl_page *p, const char *key, int64_t ms)
{
    lead(p, key);
    fl_fmt_secs(p->out, ms * 1000);
}

void fl_page_time(struct fl_page *p, const char *key, int64_t unix_ms)
{
    lead(p, key);
    if (unix_ms == 0) {
        fl_fmt_text(p->out, "null");
        return;
    }
    fl_fmt_char(p->out, '"');
    fl_fmt_rfc3339(p->out, unix_ms);
    fl_fmt_char(p->out, '"');
}
