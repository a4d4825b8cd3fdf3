#include "common/base/json.h"

static void lead(struct fl_json *j, const char *key)
{
    if (j->comma) {
        fl_fmt_char(j->out, ',');
    }
    j->comma = true;
    if (key != NULL) {
        fl_fmt_char(j->out, '"');
        fl_fmt_json(j->out, fl_span_of(key));
        fl_fmt_text(j->out, "\":");
    }
}

void fl_json_open(struct fl_json *j, const char *key, char open)
{
    lead(j, key);
    fl_fmt_char(j->out, open);
    j->comma = false;
}

void fl_json_close(struct fl_json *j, char close)
{
    fl_fmt_char(j->out, close);
    j->comma = true;
}

void fl_json_span(struct fl_json *j, const char *key, struct fl_span value)
{
    lead(j, key);
    fl_fmt_char(j->out, '"');
    fl_fmt_json(j->out, value);
    fl_fmt_char(j->out, '"');
}

void fl_json_text(struct fl_json *j, const char *key, const char *value)
{
    fl_json_span(j, key, fl_span_of(value));
}

void fl_json_int(struct fl_json *j, const char *key, int64_t value)
{
    lead(j, key);
    fl_fmt_int(j->out, value);
}

void fl_json_uint(struct fl_json *j, const char *key, uint64_t value)
{
    lead(j, key);
    fl_fmt_uint(j->out, value);
}

void fl_json_bool(struct fl_json *j, const char *key, bool value)
{
    lead(j, key);
    fl_fmt_text(j->out, value ? "true" : "false");
}

void fl_json_secs(struct fl_json *j, const char *key, int64_t ms)
{
    lead(j, key);
    fl_fmt_secs(j->out, ms * 1000);
}

void fl_json_null(struct fl_json *j, const char *key)
{
    lead(j, key);
    fl_fmt_text(j->out, "null");
}

void fl_json_time(struct fl_json *j, const char *key, int64_t unix_ms)
{
    if (unix_ms <= 0) {
        fl_json_null(j, key);
        return;
    }
    lead(j, key);
    fl_fmt_char(j->out, '"');
    fl_fmt_rfc3339(j->out, unix_ms);
    fl_fmt_char(j->out, '"');
}
