#include "tests/sim/scenarios/bed_rules.h"

#include "common/base/fmt.h"
#include "sidecar/proxy/exchange.h"

/* The value of a string or number of a line; the lines are our own, so a search will do. */
static bool value(struct fl_span line, const char *name, char *out, size_t cap)
{
    char mark[48];
    struct fl_fmt f = fl_fmt_of(mark, sizeof mark);
    fl_fmt_printf(&f, "\"%s\":", name);
    const char *at = memmem(line.ptr, line.len, mark, f.len);
    const char *end = line.ptr + line.len;
    out[0] = '\0';
    if (at == NULL) {
        return false;
    }
    at += f.len;
    bool text = *at == '"';
    at += text;
    size_t n = 0;
    while (at < end && *at != '"' && (text || (*at != ',' && *at != '}')) && n + 1 < cap) {
        out[n++] = *at++;
    }
    out[n] = '\0';
    return true;
}

static uint64_t number(struct fl_span line, const char *name)
{
    char text[32];
    BED_MUST(value(line, name, text, sizeof text), "no '%s' in: %.*s", name, (int)line.len,
             line.ptr);
    return strtoull(text, NULL, 10);
}

/* "a, b" is two attempts, "-" none. */
static unsigned entries(struct fl_span line)
{
    char text[1024];
    BED_MUST(value(line, "upstream_addr", text, sizeof text), "no upstream_addr: %.*s",
             (int)line.len, line.ptr);
    if (strcmp(text, "-") == 0) {
        return 0;
    }
    unsigned n = 1;
    for (const char *at = text; (at = strstr(at, ", ")) != NULL; at += 2) {
        n++;
    }
    return n;
}

static void note_access(struct bed *b, struct fl_span line)
{
    char id[140];
    BED_MUST(line.len > 2 && line.ptr[0] == '{', "access log: %.*s", (int)line.len, line.ptr);
    (void)value(line, "request_id", id, sizeof id);
    unsigned tries = (unsigned)number(line, "tries"), attempts = entries(line);
    b->log_lines++;
    b->log_tries += tries;
    b->log_attempts += attempts;
    b->log_capped = b->log_capped || attempts == FL_ATTEMPTS_LOGGED;
    struct deal *d = deal_find(b, id, strlen(id));
    if (d == NULL) {
        return;
    }
    d->log_lines++;
    d->log_status = (int)number(line, "status");
    d->log_tries = tries;
    d->log_attempts = attempts;
    d->log_in = number(line, "bytes_in");
    d->log_out = number(line, "bytes_out");
    (void)value(line, "class", d->log_class, sizeof d->log_class);
    (void)value(line, "error", d->log_error, sizeof d->log_error);
    (void)value(line, "retry_reason", d->log_retry, sizeof d->log_retry);
}

static void watch(void *arg, enum fl_log_stream s, struct fl_span line)
{
    struct bed *b = arg;
    bed_say("%.*s", (int)line.len, line.ptr);
    if (s == FL_LOG_STDOUT) {
        note_access(b, line);
    } else {
        blob_add(&b->events, line.ptr, line.len);
    }
}

/* A line is looked at as soon as it is written (the linker is told to --wrap), so that none waits
 * in a ring and all stand in the order of events. */
void __real_fl_log_commit(struct fl_log_ring *ring, size_t size);
void __wrap_fl_log_commit(struct fl_log_ring *ring, size_t size);

static struct fl_log_writer *watched;

void bed_watch_logs(struct bed *b)
{
    watched = b != NULL ? b->logs : NULL;
    if (watched != NULL) {
        fl_log_writer_watch(watched, watch, b);
    }
}

void __wrap_fl_log_commit(struct fl_log_ring *ring, size_t size)
{
    __real_fl_log_commit(ring, size);
    if (watched != NULL) {
        fl_log_writer_drain(watched);
    }
}

unsigned bed_events(const struct bed *b, const char *text)
{
    unsigned n = 0;
    const char *at = b->events.bytes, *end = at != NULL ? at + b->events.len : NULL;
    while (at < end && (at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL) {
        n++;
        at++;
    }
    return n;
}
