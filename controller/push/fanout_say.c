#include <stdlib.h>
#include <string.h>

#include "controller/push/fanout_inner.h"

static void begin(const struct fl_log *log, struct fl_log_line *l, enum fl_log_level level,
                  const char *msg, const struct fl_sidecar *s)
{
    fl_log_begin(log, l, level, msg);
    fl_log_text(l, "sidecar", s->address);
    fl_log_text(l, "id", s->id);
    if (s->name[0] != '\0') {
        fl_log_text(l, "namespace", s->namespace);
        fl_log_text(l, "pod", s->name);
        fl_log_text(l, "node", s->node);
    }
}

static void say_failure(const struct fl_log *log, const struct fl_sidecar *s,
                        enum fl_log_level level, const char *msg, int64_t now_ms)
{
    struct fl_log_line l;
    begin(log, &l, level, msg, s);
    fl_log_text(&l, "code", fl_sidecar_error(s)->code);
    fl_log_text(&l, "cause", fl_sidecar_error(s)->text);
    if (s->hint[0] != '\0') {
        fl_log_text(&l, "hint", s->hint);
    }
    fl_log_int(&l, "failures", s->target.failures);
    fl_log_secs(&l, "next_try_secs", (s->target.not_before_ms - now_ms) * 1000);
    fl_log_end(log, &l);
}

static void say_pair(const struct fl_log *log, const struct fl_sidecar *s, enum fl_log_level level,
                     const char *msg, const struct fl_push_judgement *j, int64_t sent)
{
    struct fl_log_line l;
    begin(log, &l, level, msg, s);
    fl_log_int(&l, "epoch", sent);
    fl_log_int(&l, "told_epoch", j->report.epoch);
    fl_log_int(&l, "told_seq", j->report.seq);
    if (j->hint[0] != '\0') {
        fl_log_text(&l, "hint", j->hint);
    }
    fl_log_end(log, &l);
}

static void say_good(const struct fl_log *log, const struct fl_sidecar *s, enum fl_log_level level,
                     const char *msg, int64_t now_ms)
{
    struct fl_log_line l;
    begin(log, &l, level, msg, s);
    fl_log_int(&l, "epoch", s->acked_epoch);
    fl_log_int(&l, "seq", s->acked_seq);
    if (s->failing_since_ms != 0) {
        fl_log_secs(&l, "downtime_secs", (now_ms - s->failing_since_ms) * 1000);
    }
    fl_log_end(log, &l);
}

static bool is_failure(enum fl_push_lesson lesson)
{
    return lesson == FL_PUSH_FAILS || lesson == FL_PUSH_UNREACHABLE ||
           lesson == FL_PUSH_FAILS_STILL;
}

static void keep_error(struct fl_sidecar *s, const struct fl_cause *cause)
{
    s->error = s->error != NULL ? s->error : malloc(sizeof(*s->error));
    if (s->error != NULL) {
        *s->error = *cause;
    }
}

void fl_fanout_say(const struct fl_log *log, struct fl_sidecar *s,
                   const struct fl_push_judgement *j, enum fl_push_lesson lesson, int64_t sent,
                   int64_t now_ms)
{
    bool other = strcmp(fl_sidecar_error(s)->code, j->cause.code) != 0;
    bool first = j->report.result == FL_PUSH_OK && !s->reached;
    if (is_failure(lesson)) {
        keep_error(s, &j->cause);
        s->hint = j->hint;
        s->failing_since_ms = s->failing_since_ms ? s->failing_since_ms : now_ms;
    }
    switch (lesson) {
    case FL_PUSH_NOTHING:
        break;
    case FL_PUSH_FAILS:
        say_failure(log, s, FL_LOG_WARN, "push failed", now_ms);
        break;
    case FL_PUSH_FAILS_STILL:
        say_failure(log, s, other ? FL_LOG_WARN : FL_LOG_DEBUG, "push failed", now_ms);
        break;
    case FL_PUSH_UNREACHABLE:
        say_failure(log, s, FL_LOG_WARN, "SidecarUnreachable", now_ms);
        break;
    case FL_PUSH_RECOVERED:
        say_good(log, s, FL_LOG_INFO, "sidecar reached again", now_ms);
        first = false;
        break;
    case FL_PUSH_SEQ_RAISED:
        say_pair(log, s, FL_LOG_INFO, "push goes on from the sequence it was told", j, sent);
        break;
    case FL_PUSH_EPOCH_RAISED:
        say_pair(log, s, FL_LOG_WARN, "sidecar knows a higher epoch, going on above it", j, sent);
        break;
    case FL_PUSH_DRIFTED:
        say_good(log, s, FL_LOG_WARN, "sidecar drifted from what it was sent, pushing again",
                 now_ms);
        break;
    }
    if (first) {
        say_good(log, s, FL_LOG_INFO, "sidecar reached", now_ms);
    }
    if (j->report.result == FL_PUSH_OK) {
        s->reached = true;
        free(s->error);
        s->error = NULL;
        s->hint = "";
        s->failing_since_ms = 0;
    }
}
