#include "sidecar/admin/view.h"

#include "common/base/units.h"

const char *const fl_view_peer_states[] = {"live",    "quarantined", "probation", "trial",
                                           "drained", "down",        "blocked",   NULL};

static const struct {
    const char *why, *state; /* a word of fl_backend_why_not to one of ours */
} words[] = {
    {"quarantined", "quarantined"},
    {"probation", "probation"},
    {"trial_out", "trial"},
    {"drained", "drained"},
    {"removed", "drained"},
    {"weight_zero", "drained"},
    {"down", "down"},
    {"verdict", "blocked"},
};

/* No route: what the peer is to everybody. */
static const struct fl_snap_policy no_policy = {.route = "", .invalid = ""};

const char *fl_view_peer_state(const struct fl_snap_backend *b, uint32_t i, int64_t now_ms,
                               int64_t *ret_until_ms)
{
    const struct fl_ask ask = {.now_ms = now_ms};
    const char *why = fl_backend_why_not(b, &no_policy, i, &ask, ret_until_ms);
    const struct fl_snap_peer *p = &b->peers[i];
    bool passive = p->health.max_fails > 0 && b->countable > 1;
    if (passive && strcmp(why, "verdict") == 0 &&
        fl_peer_health_gate(&p->peer->health, now_ms, ret_until_ms) == FL_HEALTH_QUARANTINED) {
        return "quarantined"; /* its end is known, and the verdict is shown beside it anyway */
    }
    for (size_t k = 0; k < FL_COUNTOF(words); k++) {
        if (strcmp(words[k].why, why) == 0) {
            return words[k].state;
        }
    }
    return "live"; /* eligible, or only full */
}

static bool is_live(const struct fl_snap_backend *b, uint32_t i, int64_t now_ms)
{
    int64_t until_ms;
    return strcmp(fl_view_peer_state(b, i, now_ms, &until_ms), "live") == 0;
}

bool fl_view_on_backup(const struct fl_snap_backend *b, int64_t now_ms)
{
    bool other = false;
    for (uint32_t i = 0; i < b->peer_count; i++) {
        bool live = is_live(b, i, now_ms);
        if (live && b->peers[i].conf->tier == FL_TIER_PRIMARY) {
            return false;
        }
        other |= live;
    }
    return other;
}

bool fl_view_panics(const struct fl_snap_backend *b, int64_t now_ms)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < b->peer_count; i++) {
        live += is_live(b, i, now_ms);
    }
    return !b->gated && live * 100 < b->conf->panic_threshold_percent * b->countable;
}

const char *fl_view_tier(enum fl_tier t)
{
    switch (t) {
    case FL_TIER_PRIMARY:
        return "primary";
    case FL_TIER_LAST_RESORT:
        return "last_resort";
    case FL_TIER_BACKUP:
        break;
    }
    return "backup";
}

bool fl_view_routed(const struct fl_snap_route *r, const struct fl_snap_backend *b)
{
    bool here = r->policy.backend == b;
    for (uint32_t i = 0; i < r->path_count; i++) {
        here |= r->paths[i].policy.backend == b;
    }
    return here;
}

int64_t fl_view_unix_ms(const struct fl_control *c, int64_t at_ms)
{
    return at_ms != 0 ? fl_control_wall_ms(c) + (at_ms - fl_control_now_ms(c)) : 0;
}

void fl_view_conditions(struct fl_json *j, const char *key, uint32_t mask)
{
    fl_json_open(j, key, '[');
    for (uint32_t bit = 1; bit != 0 && bit <= mask; bit <<= 1) {
        if (mask & bit) {
            fl_json_text(j, NULL, fl_condition_name((enum fl_condition)bit));
        }
    }
    fl_json_close(j, ']');
}

void fl_view_duration(struct fl_json *j, const char *key, int64_t ms)
{
    char text[32];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_units_print_duration(&f, ms);
    fl_json_text(j, key, text);
}

static void put_size(struct fl_json *j, const char *key, uint64_t bytes, const char *zero)
{
    char text[32];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_units_print_size(&f, bytes);
    fl_json_text(j, key, bytes == 0 && zero != NULL ? zero : text);
}

static const char *replay_name(enum fl_replay_after_send r)
{
    switch (r) {
    case FL_REPLAY_NEVER:
        return "never";
    case FL_REPLAY_RESET:
        return "reset";
    case FL_REPLAY_ALWAYS:
        break;
    }
    return "always";
}

void fl_view_policy(struct fl_json *j, const struct fl_policy_conf *p)
{
    fl_view_conditions(j, "next_upstream", p->next_upstream);
    fl_json_uint(j, "next_upstream_tries", p->next_upstream_tries);
    fl_view_duration(j, "next_upstream_timeout", p->next_upstream_timeout_ms);
    fl_view_duration(j, "connect_timeout", p->connect_timeout_ms);
    fl_view_duration(j, "send_timeout", p->send_timeout_ms);
    fl_view_duration(j, "read_timeout", p->read_timeout_ms);
    fl_view_duration(j, "deadline", p->deadline_ms);
    fl_view_duration(j, "long_deadline", p->long_deadline_ms);
    fl_view_conditions(j, "count_failures", p->count_failures);
    put_size(j, "replay_body", p->replay_body_bytes, NULL);
    fl_json_text(j, "replay_after_send", replay_name(p->replay_after_send));
    put_size(j, "expect_gate", p->expect_gate_bytes, "off");
}
