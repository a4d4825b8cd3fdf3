#include "sidecar/admin/push.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/json.h"
#include "common/codec/answer_json.h"
#include "common/codec/state_json.h"
#include "common/io/bridge/http_guard.h"
#include "common/sign/message_signature.h"
#include "sidecar/admin/control_inner.h"
#include "sidecar/admin/state_file.h"

#define SKEW_WARN_S   300
#define SKEW_REFUSE_S 86400
#define WARN_EVERY_MS 60000

/* ---- may it? ---- */

static struct fl_sig_request request_of(const struct fl_mhd_call *call)
{
    return (struct fl_sig_request){
        .method = fl_mhd_method(call),
        .path = fl_mhd_path(call),
        .content_type = fl_mhd_field(call, "Content-Type"),
        .sidecar = fl_mhd_field(call, "Fairlead-Sidecar"),
    };
}

static void warn_skew(struct fl_control *c, int64_t skew_s)
{
    int64_t now_ms = fl_control_now_ms(c);
    if (c->skew_warned_ms != 0 && now_ms - c->skew_warned_ms < WARN_EVERY_MS) {
        return;
    }
    c->skew_warned_ms = now_ms;
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, FL_LOG_WARN, "push accepted in spite of its clock");
    fl_log_int(&l, "skew_secs", skew_s);
    fl_log_end(c->conf.log, &l);
}

static void refuse_signature(struct fl_mhd_call *call, enum fl_sig_error e)
{
    fl_mhd_problem(call, 401, fl_sig_error_token(e), fl_sig_error_text(e));
}

void fl_push_head(struct fl_mhd_call *call, void *arg)
{
    struct fl_control *c = arg;
    const struct fl_sig_request rq = request_of(call);
    int64_t created_s = 0;
    enum fl_sig_error e = fl_message_verify(c->keys, &rq, fl_mhd_field(call, "Content-Digest"),
                                            fl_mhd_field(call, "Signature-Input"),
                                            fl_mhd_field(call, "Signature"), &created_s);
    int64_t skew_s = created_s - fl_control_wall_ms(c) / 1000;
    int64_t off_s = skew_s < 0 ? -skew_s : skew_s;
    if (e != FL_SIG_OK) {
        refuse_signature(call, e);
    } else if (off_s > SKEW_REFUSE_S) {
        fl_mhd_problem(call, 401, "created_skew",
                       "the signature was created more than 24 h from this node's time");
    } else if (fl_mhd_has_query(call)) {
        fl_mhd_problem(call, 400, "bad_request", "a query is not part of what is signed");
    } else if (!fl_span_is(rq.content_type, "application/json")) {
        fl_mhd_problem(call, 415, "bad_request", "Content-Type must be application/json");
    } else if (rq.sidecar.len == 0 || !fl_span_is(rq.sidecar, c->current->config->id)) {
        fl_mhd_problem(call, 409, "other_pod", "fairlead-sidecar names another pod than this one");
    } else if (off_s > SKEW_WARN_S) {
        warn_skew(c, skew_s);
    }
}

/* ---- taking it ---- */

static void refuse_pair(struct fl_control *c, struct fl_mhd_call *call)
{
    char text[512];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    struct fl_json j = {&f, false};
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "type", "about:blank");
    fl_json_text(&j, "title", "Conflict");
    fl_json_int(&j, "status", 409);
    fl_json_text(&j, "token", "not_newer");
    fl_json_text(&j, "detail", "the pair (epoch, seq) is not higher than the one in force");
    fl_json_int(&j, "epoch", c->epoch);
    fl_json_int(&j, "seq", c->seq);
    fl_json_close(&j, '}');
    fl_mhd_add_field(call, "X-Fairlead-Error", "not_newer");
    fl_mhd_reply(call, 409, "application/problem+json", (struct fl_span){f.base, f.len});
}

static void refuse_findings(struct fl_mhd_call *call, const struct fl_findings *f)
{
    char text[1024];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    for (const struct fl_finding *one = f->first; one != NULL; one = one->next) {
        if (one->severity == FL_SEVERITY_ERROR) {
            fl_fmt_text(&out, out.len ? "; " : "");
            fl_findings_print(f, one, &out);
        }
    }
    fl_fmt_text(&out, out.len ? " (nothing was changed)" : "out of memory (nothing was changed)");
    fl_mhd_problem(call, f->errors > 0 ? 400 : 503,
                   f->errors > 0 ? "bad_request" : "local_resource", text);
}

/* The keys that a state brings, as a set and as one text; NULL and 0: it brings none. -EINVAL,
 * -ENOMEM. */
static int take_keys(const struct fl_state *s, struct fl_verify_keys **ret_set, char **ret_text)
{
    *ret_set = NULL;
    *ret_text = NULL;
    if (s->keys.count == 0) {
        return 0;
    }
    size_t cap = 1;
    for (uint32_t i = 0; i < s->keys.count; i++) {
        cap += strlen(s->keys.items[i]) + 1;
    }
    struct fl_verify_keys *set = fl_verify_keys_new();
    char *text = malloc(cap);
    int rc = set == NULL || text == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; rc >= 0 && i < s->keys.count; i++) {
        rc = fl_verify_keys_add_pem(set, fl_span_of(s->keys.items[i]));
    }
    if (rc < 0) {
        fl_verify_keys_free(set);
        free(text);
        return rc;
    }
    struct fl_fmt f = fl_fmt_of(text, cap);
    for (uint32_t i = 0; i < s->keys.count; i++) {
        fl_fmt_text(&f, s->keys.items[i]);
        fl_fmt_text(&f, "\n");
    }
    *ret_set = set;
    *ret_text = text;
    return 0;
}

static void put_in_force(struct fl_control *c, struct fl_state *s, struct fl_verify_keys *keys,
                         char *keys_text, int64_t at_ms)
{
    fl_state_free(c->pushed);
    c->pushed = s;
    c->epoch = s->epoch;
    c->seq = s->seq;
    c->pushed_at_ms = at_ms;
    c->verdicts_new = true;
    if (keys != NULL) {
        fl_verify_keys_free(c->keys);
        free(c->pushed_keys);
        c->keys = keys;
        c->pushed_keys = keys_text;
    }
}

static void save(struct fl_control *c, struct fl_span body)
{
    const char *path = c->file->state_file;
    if (path[0] == '\0') {
        return;
    }
    const struct fl_saved_state s = {
        c->epoch, c->seq, fl_control_wall_ms(c), fl_span_of(c->pushed_keys), body, NULL};
    int rc = fl_state_file_write(path, &s);
    if (rc < 0) {
        struct fl_log_line l;
        fl_log_begin(c->conf.log, &l, FL_LOG_WARN, "state file not written");
        fl_log_text(&l, "path", path);
        fl_log_text(&l, "cause", fl_cause_errno_text(-rc));
        fl_log_end(c->conf.log, &l);
    }
}

static void tell(struct fl_control *c, bool changed)
{
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, changed ? FL_LOG_INFO : FL_LOG_DEBUG, "pushed state accepted");
    fl_log_int(&l, "epoch", c->epoch);
    fl_log_int(&l, "seq", c->seq);
    fl_log_end(c->conf.log, &l);
    if (changed) {
        fl_events_add(c->events, fl_control_wall_ms(c), "push_accepted", "", "",
                      "epoch %lld seq %lld", (long long)c->epoch, (long long)c->seq);
    }
}

/* ---- the answer: the second vantage point ---- */

static int64_t wall_of(const struct fl_control *c, int64_t at_ms)
{
    return at_ms != 0 ? fl_control_wall_ms(c) - (fl_control_now_ms(c) - at_ms) : 0;
}

static void observe(const struct fl_control *c, const char *backend, const struct fl_snap_peer *p,
                    struct fl_observation *ret)
{
    struct fl_watch_view w = {0};
    *ret = (struct fl_observation){.backend = backend, .peer = p->peer->address};
    if (fl_prober_look(c->prober, backend, p->peer->address, &w)) {
        ret->cause = w.own->cause;
        ret->since_unix_ms = wall_of(c, w.own->at_ms);
        if (w.own->status == FL_VERDICT_HEALTHY) {
            fl_cause_set(&ret->cause, "healthy", "%s", w.own->note);
        } else if (w.own->status == FL_VERDICT_UNKNOWN) {
            fl_cause_set(&ret->cause, "unknown", "not probed from here");
        }
    }
    for (unsigned i = 0; i < c->conf.threads; i++) {
        const struct fl_peer_line *line = &p->peer->lines[i];
        ret->failures += atomic_load_explicit(&line->failures, memory_order_relaxed);
        ret->requests += atomic_load_explicit(&line->requests, memory_order_relaxed);
    }
}

static void write_answer(struct fl_fmt *out, void *arg)
{
    fl_answer_json_encode(arg, out);
}

static void answer(struct fl_control *c, struct fl_mhd_call *call)
{
    size_t cap = 0;
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        cap += c->current->backends[i].peer_count;
    }
    struct fl_observation *seen = calloc(cap + 1, sizeof(*seen));
    struct fl_push_answer a = {c->epoch, c->seq, c->pushed->hash, seen, 0};
    for (uint32_t i = 0; seen != NULL && i < c->current->backend_count; i++) {
        const struct fl_snap_backend *b = &c->current->backends[i];
        for (uint32_t j = 0; j < b->peer_count; j++) {
            observe(c, b->conf->name, &b->peers[j], &seen[a.count++]);
        }
    }
    fl_mhd_reply_written(call, 200, "application/json", write_answer, &a);
    free(seen);
}

/* Decoded, newer, and the whole of it makes a valid configuration; else answered. */
static struct fl_state *judge(struct fl_control *c, struct fl_mhd_call *call, struct fl_findings *f)
{
    struct fl_state *s = fl_state_json_decode(fl_mhd_body(call), f);
    if (s == NULL) {
        refuse_findings(call, f);
        return NULL;
    }
    if (!fl_state_newer(s->epoch, s->seq, c->epoch, c->seq)) {
        refuse_pair(c, call);
        return fl_state_free(s);
    }
    struct fl_config *trial = fl_control_effective(c, c->file, s, f);
    if (trial == NULL) {
        refuse_findings(call, f);
        return fl_state_free(s);
    }
    fl_config_free(trial);
    return s;
}

void fl_push_handle(struct fl_mhd_call *call, void *arg)
{
    struct fl_control *c = arg;
    if (!fl_content_digest_matches(fl_mhd_field(call, "Content-Digest"), fl_mhd_body(call))) {
        refuse_signature(call, FL_SIG_DIGEST_MISMATCH);
        return;
    }
    struct fl_findings f;
    fl_findings_init(&f, "");
    struct fl_state *s = judge(c, call, &f);
    struct fl_verify_keys *keys = NULL;
    char *keys_text = NULL;
    if (s != NULL && take_keys(s, &keys, &keys_text) < 0) {
        fl_mhd_problem(call, 400, "bad_request",
                       "keys: each must be the PEM text of ed25519 public keys, at most 8 in all "
                       "(nothing was changed)");
        s = fl_state_free(s);
    }
    if (s != NULL) {
        bool changed = c->pushed == NULL || c->pushed->hash != s->hash;
        put_in_force(c, s, keys, keys_text, fl_control_now_ms(c));
        c->restored = false;
        fl_control_rebuild(c); /* before the answer: acknowledged is published */
        save(c, fl_mhd_body(call));
        tell(c, changed);
        answer(c, call);
    }
    fl_findings_done(&f);
}
