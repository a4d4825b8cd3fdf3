#include "controller/tell.h"

#include "common/base/fmt.h"

#define NOTE_MAX 1024

static struct fl_event_about about_pod(const char *namespace, const char *name, const char *uid)
{
    return (struct fl_event_about){"v1", "Pod", namespace, name, uid};
}

void fl_tell_sidecar(struct fl_kube_events *e, enum fl_fanout_news what,
                     const struct fl_fanout_view *who)
{
    char note[NOTE_MAX];
    struct fl_fmt f = fl_fmt_of(note, sizeof(note));
    if (what != FL_FANOUT_UNREACHABLE) {
        return; /* there is no Event for what works again: the log and the metrics say so */
    }
    const struct fl_event_about about = about_pod(who->namespace, who->name, who->id);
    fl_fmt_printf(&f, "push to the sidecar failed %u times in a row: %s", who->failures,
                  who->error->text);
    if (who->hint[0] != '\0') {
        fl_fmt_printf(&f, " (%s)", who->hint);
    }
    fl_kube_events_say(e, FL_EVENT_SIDECAR_UNREACHABLE, &about, "Push", note);
}

/* GATE_TIMED_OUT stands for none. */
static enum fl_event_reason reason_of(enum fl_verdict_status status)
{
    switch (status) {
    case FL_VERDICT_HEALTHY:
        return FL_EVENT_BACKEND_RECOVERED;
    case FL_VERDICT_UNREACHABLE:
        return FL_EVENT_BACKEND_UNREACHABLE;
    case FL_VERDICT_AUTH_REJECTED:
        return FL_EVENT_BACKEND_CREDENTIALS;
    case FL_VERDICT_ERRORING:
        return FL_EVENT_BACKEND_ERRORING;
    case FL_VERDICT_UNKNOWN:
        break;
    }
    return FL_EVENT_REASON_COUNT;
}

void fl_tell_backend(struct fl_kube_events *e, const char *our_namespace, const char *our_pod,
                     const struct fl_backend_news *news)
{
    const struct fl_service_ref *s = &news->backend->conf.service;
    struct fl_event_about about = {"v1", "Service", s->namespace, s->name, ""};
    enum fl_event_reason reason = reason_of(news->status);
    char note[NOTE_MAX];
    struct fl_fmt f = fl_fmt_of(note, sizeof(note));
    if (reason == FL_EVENT_REASON_COUNT) {
        return;
    }
    if (s->name[0] == '\0') {
        about = about_pod(our_namespace, our_pod, "");
    }
    fl_fmt_printf(&f, "backend '%s' ", news->subject);
    if (news->status == FL_VERDICT_HEALTHY) {
        fl_fmt_text(&f, "is healthy again");
    } else {
        fl_fmt_printf(&f, "is %s: %s", fl_verdict_status_name(news->status), news->cause->text);
    }
    fl_kube_events_say(e, reason, &about, "Probe", note);
}

void fl_tell_annotation(struct fl_kube_events *e, const struct fl_kube_pod *pod, const char *said)
{
    const struct fl_event_about about =
        about_pod(pod->meta.namespace, pod->meta.name, pod->meta.uid);
    fl_kube_events_say(e, FL_EVENT_INVALID_ANNOTATION, &about, "Configure", said);
}
