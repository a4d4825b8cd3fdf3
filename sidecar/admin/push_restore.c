/* push_restore - where a restart begins: the keys of the file, and the last good push of the state
 * file. */
#include <errno.h>
#include <stdlib.h>

#include "common/codec/state_json.h"
#include "common/io/read_file.h"
#include "sidecar/admin/control_inner.h"
#include "sidecar/admin/state_file.h"

#define KEY_FILE_MAX_BYTES 65536

int fl_push_read_keys(const struct fl_control *c, const struct fl_config *file,
                      struct fl_findings *f, struct fl_verify_keys **ret)
{
    *ret = NULL;
    const char *path = file->push.public_key_file;
    if (path[0] == '\0' || c->pushed_keys != NULL) {
        return 0; /* a pushed set replaces the file's for good */
    }
    char *text = NULL;
    size_t len = 0;
    int rc = fl_read_file(path, KEY_FILE_MAX_BYTES, &text, &len);
    if (rc < 0) {
        fl_findings_add(f, FL_SEVERITY_ERROR, 0, "push.public_key_file: cannot read %s (%s)", path,
                        fl_cause_errno_text(-rc));
        return -EINVAL;
    }
    struct fl_verify_keys *keys = fl_verify_keys_new();
    rc = keys != NULL ? fl_verify_keys_add_pem(keys, (struct fl_span){text, len}) : -ENOMEM;
    free(text);
    if (rc < 0) {
        fl_verify_keys_free(keys);
        fl_findings_add(f, FL_SEVERITY_ERROR, 0,
                        "push.public_key_file: %s must hold ed25519 public keys in PEM, at most 8",
                        path);
        return -EINVAL;
    }
    *ret = keys;
    return 0;
}

void fl_push_take_keys(struct fl_control *c, struct fl_verify_keys *keys)
{
    if (keys != NULL) {
        fl_verify_keys_free(c->keys);
        c->keys = keys;
    }
}

static void warn_ignored(struct fl_control *c, const char *why)
{
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, FL_LOG_WARN, "state file ignored");
    fl_log_text(&l, "path", c->file->state_file);
    fl_log_text(&l, "cause", why);
    fl_log_end(c->conf.log, &l);
}

static void restore_keys(struct fl_control *c, struct fl_span pem)
{
    struct fl_verify_keys *keys = pem.len > 0 ? fl_verify_keys_new() : NULL;
    char *text = keys != NULL ? strndup(pem.ptr, pem.len) : NULL;
    if (text != NULL && fl_verify_keys_add_pem(keys, pem) > 0) {
        fl_verify_keys_free(c->keys);
        c->keys = keys;
        c->pushed_keys = text;
    } else if (pem.len > 0) {
        warn_ignored(c, "its keys cannot be read, those of the configuration are in force");
        fl_verify_keys_free(keys);
        free(text);
    }
}

static void restore(struct fl_control *c, const struct fl_saved_state *saved, struct fl_state *s)
{
    int64_t age_ms = fl_control_wall_ms(c) - saved->saved_unix_ms;
    age_ms = age_ms > 0 ? age_ms : 0; /* a clock that was set back */
    for (uint32_t i = 0; i < s->backend_count; i++) {
        for (uint32_t j = 0; j < s->backends[i].verdict_count; j++) {
            s->backends[i].verdicts[j].age_ms += age_ms; /* they expire, membership does not */
        }
    }
    c->pushed = s;
    c->epoch = saved->epoch;
    c->seq = saved->seq;
    c->pushed_at_ms = fl_control_now_ms(c) - age_ms;
    c->pushed_at_ms -= c->pushed_at_ms == 0;
    c->restored = c->verdicts_new = true;
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, FL_LOG_INFO, "state restored");
    fl_log_int(&l, "epoch", c->epoch);
    fl_log_int(&l, "seq", c->seq);
    fl_log_secs(&l, "age_secs", age_ms * 1000);
    fl_log_end(c->conf.log, &l);
}

void fl_push_restore(struct fl_control *c)
{
    struct fl_saved_state saved;
    if (c->file->state_file[0] == '\0') {
        return;
    }
    int rc = fl_state_file_read(c->file->state_file, &saved);
    if (rc < 0) {
        if (rc != -ENOENT) {
            warn_ignored(c, rc == -EBADMSG ? "it is not whole" : fl_cause_errno_text(-rc));
        }
        return;
    }
    struct fl_findings f;
    fl_findings_init(&f, "");
    struct fl_state *s = fl_state_json_decode(saved.body, &f);
    struct fl_config *trial = s != NULL ? fl_control_effective(c, c->file, s, &f) : NULL;
    if (trial != NULL) {
        restore(c, &saved, s);
        restore_keys(c, saved.keys);
    } else {
        fl_state_free(s);
        warn_ignored(c, f.first != NULL ? f.first->text : "out of memory");
    }
    fl_config_free(trial);
    fl_findings_done(&f);
    fl_saved_state_done(&saved);
}

const char *fl_push_membership(const struct fl_control *c)
{
    int64_t longest_ms = 0;
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        const struct fl_snap_backend *b = &c->current->backends[i];
        if (b->conf->service.name[0] != '\0' && !b->has_members) {
            return "waiting";
        }
        if (b->conf->probe.interval_ms > longest_ms) {
            longest_ms = b->conf->probe.interval_ms;
        }
    }
    bool stale = c->pushed != NULL &&
                 fl_control_now_ms(c) - c->pushed_at_ms > FL_STALE_INTERVALS * longest_ms;
    return stale ? "stale" : "ready";
}
