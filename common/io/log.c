#include "common/io/log.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAIL_ROOM 16 /* for what ends a line, however full it is: ,"cut":true}\n */

const char *fl_log_level_name(enum fl_log_level level)
{
    switch (level) {
    case FL_LOG_ERROR:
        return "error";
    case FL_LOG_WARN:
        return "warn";
    case FL_LOG_INFO:
        return "info";
    case FL_LOG_DEBUG:
        return "debug";
    }
    return "error";
}

static int64_t wall_ms(const struct fl_log *log)
{
    if (log->wall_ms != NULL) {
        return log->wall_ms(log->wall_arg);
    }
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* A field is written whole or not at all; keys are ours and need no escaping. */
static struct fl_fmt begin_field(const struct fl_log_line *l, const char *key)
{
    struct fl_fmt f = l->f;
    f.cut = false;
    fl_fmt_text(&f, ",\"");
    fl_fmt_text(&f, key);
    fl_fmt_text(&f, "\":");
    return f;
}

static void end_field(struct fl_log_line *l, const struct fl_fmt *f)
{
    if (f->cut) {
        l->f.cut = true;
        l->f.base[l->f.len] = '\0';
    } else {
        l->f.len = f->len;
    }
}

/* The longest head of the text that ends before a UTF-8 sequence it would break. */
static struct fl_span shorten(struct fl_span s)
{
    size_t n = s.len / 2;
    while (n > 0 && ((unsigned char)s.ptr[n] & 0xc0) == 0x80) {
        n--;
    }
    return fl_span_first(s, n);
}

void fl_log_str(struct fl_log_line *l, const char *key, struct fl_span value)
{
    if (!l->on) {
        return;
    }
    for (struct fl_span s = value;; s = shorten(s)) {
        struct fl_fmt f = begin_field(l, key);
        fl_fmt_char(&f, '"');
        fl_fmt_json(&f, s);
        if (s.len < value.len) {
            fl_fmt_text(&f, "...");
        }
        fl_fmt_char(&f, '"');
        if (!f.cut || s.len == 0) {
            end_field(l, &f);
            l->f.cut = l->f.cut || s.len < value.len;
            return;
        }
    }
}

void fl_log_text(struct fl_log_line *l, const char *key, const char *value)
{
    fl_log_str(l, key, fl_span_of(value));
}

void fl_log_int(struct fl_log_line *l, const char *key, int64_t value)
{
    if (l->on) {
        struct fl_fmt f = begin_field(l, key);
        fl_fmt_int(&f, value);
        end_field(l, &f);
    }
}

void fl_log_secs(struct fl_log_line *l, const char *key, int64_t us)
{
    if (l->on) {
        struct fl_fmt f = begin_field(l, key);
        fl_fmt_secs(&f, us);
        end_field(l, &f);
    }
}

void fl_log_begin(const struct fl_log *log, struct fl_log_line *l, enum fl_log_level level,
                  const char *msg)
{
    l->on = level <= log->level;
    if (!l->on) {
        return;
    }
    l->f = fl_fmt_of(l->text, sizeof(l->text) - TAIL_ROOM);
    fl_fmt_text(&l->f, "{\"ts\":\"");
    fl_fmt_rfc3339(&l->f, wall_ms(log));
    fl_fmt_text(&l->f, "\",\"level\":\"");
    fl_fmt_text(&l->f, fl_log_level_name(level));
    fl_fmt_char(&l->f, '"');
    fl_log_text(l, "msg", msg);
}

static void copy_line(const void *record, size_t len, struct fl_fmt *out)
{
    fl_fmt_span(out, (struct fl_span){record, len});
}

void fl_log_end(const struct fl_log *log, struct fl_log_line *l)
{
    if (!l->on) {
        return;
    }
    bool cut = l->f.cut;
    l->f.cap = sizeof(l->text);
    fl_fmt_text(&l->f, cut ? ",\"cut\":true}\n" : "}\n");
    l->on = false;
    if (log->ring == NULL) {
        (void)!write(STDERR_FILENO, l->text, l->f.len);
        return;
    }
    void *place = fl_log_reserve(log->ring, FL_LOG_STDERR, copy_line, l->f.len);
    if (place != NULL) {
        memcpy(place, l->text, l->f.len);
        fl_log_commit(log->ring, l->f.len);
    }
}
