#include "controller/push/push_judge.h"

#include <string.h>

#include "common/codec/json_parse.h"
#include "controller/push/push_answer.h"

#define TREE_BYTES_MAX ((size_t)4 << 20)

/* ---- no answer ---- */

static void judge_connect(const struct fl_push_reply *a, const char *address,
                          struct fl_push_judgement *j)
{
    if (a->os_errno != 0) {
        fl_cause_set(&j->cause, fl_cause_errno_code(a->os_errno), "connect to %s failed (%s)",
                     address, fl_cause_errno_text(a->os_errno));
    } else {
        fl_cause_set(&j->cause, "connect_failed", "connect to %s failed", address);
    }
    j->hint = "does the sidecar run, and is its status listener (port 8422) at this address?";
}

static void judge_fault(const struct fl_push_reply *a, const char *address,
                        struct fl_push_judgement *j)
{
    j->report.result = FL_PUSH_FAILED;
    switch (a->fault) {
    case FL_PUSH_FAULT_RESOLVE:
        fl_cause_set(&j->cause, "dns", "the host name of %s has no address", address);
        j->hint = "is the name spelt right, and does DNS answer?";
        break;
    case FL_PUSH_FAULT_CONNECT:
        judge_connect(a, address, j);
        break;
    case FL_PUSH_FAULT_CONNECT_TIMEOUT:
        fl_cause_set(&j->cause, "connect_timeout", "connect to %s timed out", address);
        j->hint = "packets are dropped: does a NetworkPolicy keep the controller from port 8422?";
        break;
    case FL_PUSH_FAULT_TIMEOUT:
        fl_cause_set(&j->cause, "read_timeout", "%s accepts connections but does not answer",
                     address);
        j->hint = "is a service mesh in between? exclude port 8422 from its inbound interception";
        break;
    case FL_PUSH_FAULT_ENDED:
        fl_cause_set(&j->cause, "premature_close",
                     "%s closed the connection before the answer was whole", address);
        j->hint = "is a service mesh in between? exclude port 8422 from its inbound interception";
        break;
    case FL_PUSH_FAULT_NOT_HTTP:
        fl_cause_set(&j->cause, "invalid_header", "%s does not answer in HTTP/1.1", address);
        j->hint = "is this the status listener of a sidecar?";
        break;
    case FL_PUSH_FAULT_TOO_LONG:
        fl_cause_set(&j->cause, "too_long", "the answer of %s is too long", address);
        j->hint = "is this the status listener of a sidecar?";
        break;
    case FL_PUSH_FAULT_NONE:
    case FL_PUSH_FAULT_OTHER:
        fl_cause_set(&j->cause, "push_failed", "push to %s failed (%s)", address, a->text);
        break;
    }
}

/* ---- an answer that is no 200 ---- */

static const char *hint_of(int status, bool pair)
{
    switch (status) {
    case 400:
        return "the sidecar cannot make a configuration of it together with its own file";
    case 401:
        return "does the sidecar's push.public_key_file hold the public half of "
               "push.signing_key_file? are the clocks within 24 h?";
    case 404:
    case 405:
        return "is this the status listener of a sidecar?";
    case 409:
        return pair ? "is another controller pushing to this sidecar?"
                    : "the sidecar at this address has another id than sidecars[].id says";
    case 413:
        return "the state is larger than the 1 MiB that a sidecar takes";
    default:
        return "";
    }
}

static struct fl_span text_of(const struct fl_node *root, const char *key)
{
    const struct fl_node *n = root != NULL ? fl_node_get(root, key) : NULL;
    return n != NULL && n->kind == FL_NODE_SCALAR ? n->text : FL_SPAN("");
}

/* Token and detail of problem+json, where it is that. */
static void say_refused(const struct fl_push_reply *a, const char *address,
                        struct fl_push_judgement *j)
{
    struct fl_arena tree;
    struct fl_findings f;
    char code[16];
    struct fl_fmt c = fl_fmt_of(code, sizeof(code));
    fl_arena_init(&tree, TREE_BYTES_MAX);
    fl_findings_init(&f, "");
    const struct fl_node *root = a->body.len > 0 ? fl_json_parse(a->body, &tree, &f) : NULL;
    struct fl_span token = text_of(root, "token"), detail = text_of(root, "detail");
    fl_fmt_printf(&c, "http_%d", a->status);
    if (token.len > 0) {
        fl_cause_set(&j->cause, code, "%s answered %d %.*s: %.*s", address, a->status,
                     (int)fl_span_first(token, 40).len, token.ptr,
                     (int)fl_span_first(detail, 200).len, detail.ptr);
    } else {
        fl_cause_set(&j->cause, code, "%s answered %d", address, a->status);
    }
    fl_findings_done(&f);
    fl_arena_done(&tree);
}

static void judge_conflict(const struct fl_push_reply *a, struct fl_push_judgement *j)
{
    struct fl_push_answer pair;
    if (fl_push_answer_read(a->body, &pair)) {
        j->report.result = FL_PUSH_CONFLICT;
        j->report.epoch = pair.epoch;
        j->report.seq = pair.seq;
    }
}

static void judge_accepted(const struct fl_push_reply *a, const char *address, uint64_t hash,
                           struct fl_push_judgement *j)
{
    struct fl_push_answer answer;
    if (fl_push_answer_read(a->body, &answer)) {
        j->report.result = FL_PUSH_OK;
        j->report.hash_differs = answer.hash != 0 && hash != 0 && answer.hash != hash;
    } else {
        fl_cause_set(&j->cause, "http_200", "%s answered 200, but not as a sidecar does", address);
        j->hint = "is this the status listener of a sidecar?";
    }
}

void fl_push_judge(const struct fl_push_reply *a, const char *address, uint64_t hash,
                   struct fl_push_judgement *ret)
{
    *ret = (struct fl_push_judgement){.report.result = FL_PUSH_REFUSED, .hint = ""};
    if (a->fault == FL_PUSH_FAULT_TOO_LONG && a->status == 200) {
        ret->report.result = FL_PUSH_OK; /* taken; it only has more to tell than we listen to */
    } else if (a->fault != FL_PUSH_FAULT_NONE || a->status == 0) {
        judge_fault(a, address, ret);
    } else if (a->status == 200) {
        judge_accepted(a, address, hash, ret);
    } else {
        if (a->status == 409) {
            judge_conflict(a, ret);
        }
        ret->hint = hint_of(a->status, ret->report.result == FL_PUSH_CONFLICT);
        say_refused(a, address, ret);
    }
}
