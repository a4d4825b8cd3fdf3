/* ready and metrics */
#include "common/base/json.h"
#include "controller/admin/pages.h"

static const char *const state_words[] = {"current", "behind", "unreachable"};
_Static_assert(FL_COUNTOF(state_words) == FL_SIDECAR_STATES, "a word per state");

const char *fl_pages_sidecar_word(enum fl_sidecar_state s)
{
    FL_MUST((unsigned)s < FL_SIDECAR_STATES);
    return state_words[s];
}

enum fl_sidecar_state fl_pages_sidecar_state(const struct fl_fanout_view *s)
{
    if (s->failures >= FL_PUSH_UNREACHABLE_AFTER) {
        return FL_SIDECAR_UNREACHABLE;
    }
    return s->lag_ms > 0 || s->acked_seq == 0 ? FL_SIDECAR_BEHIND : FL_SIDECAR_CURRENT;
}

struct fl_admin_view fl_pages_look(const struct fl_admin *admin)
{
    struct fl_admin_view v = {0};
    admin->look(admin->arg, &v);
    return v;
}

struct sums {
    uint32_t by_state[FL_SIDECAR_STATES];
    int64_t lag_ms; /* the longest */
};

static struct sums sum_sidecars(const struct fl_fanout *f)
{
    struct sums s = {0};
    for (uint32_t i = 0; i < fl_fanout_count(f); i++) {
        struct fl_fanout_view one;
        fl_fanout_glance(f, i, &one);
        s.by_state[fl_pages_sidecar_state(&one)]++;
        s.lag_ms = one.lag_ms > s.lag_ms ? one.lag_ms : s.lag_ms;
    }
    return s;
}

/* ---- ready: can this process do its work? A sidecar that is away is that sidecar's trouble. ----
 */

static const char *membership_word(const struct fl_admin_view *v, const char *fault)
{
    return !fl_pages_known(v) ? "waiting" : fault[0] != '\0' ? "stale" : "ready";
}

static void put_leadership(struct fl_json *j, const struct fl_admin_view *v)
{
    struct fl_cluster_view c;
    fl_cluster_view(v->cluster, &c);
    fl_json_bool(j, "leader", fl_fanout_leads(v->fanout));
    fl_json_int(j, "epoch", fl_fanout_epoch(v->fanout));
    fl_json_text(j, "holder", c.election.holder);
    fl_json_text(j, "election", c.election.fault.text);
    fl_json_text(j, "role", c.lacks.text);
}

static void write_ready(struct fl_fmt *out, void *arg)
{
    const struct fl_admin_view *v = arg;
    struct fl_json j = {out, false};
    struct sums s = sum_sidecars(v->fanout);
    char fault[FL_PAGES_FAULT_MAX];
    bool degraded = fl_pages_fault(v, fault) || s.by_state[FL_SIDECAR_UNREACHABLE] > 0;
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "status", !fl_pages_known(v) ? "waiting" : degraded ? "degraded" : "ready");
    fl_json_text(&j, "membership", membership_word(v, fault));
    fl_json_secs(&j, "membership_age_secs", fl_pages_age_ms(v));
    fl_json_text(&j, "fault", fault);
    if (v->cluster != NULL) {
        put_leadership(&j, v);
    }
    fl_json_open(&j, "sidecars", '{');
    for (unsigned i = 0; i < FL_SIDECAR_STATES; i++) {
        fl_json_int(&j, state_words[i], s.by_state[i]);
    }
    fl_json_close(&j, '}');
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

void fl_pages_ready(struct fl_mhd_call *call, void *arg)
{
    struct fl_admin_view v = fl_pages_look(arg);
    fl_mhd_reply_written(call, fl_pages_known(&v) ? 200 : 503, "application/json", write_ready, &v);
}

/* ---- metrics ---- */

void fl_pages_metric_head(struct fl_fmt *out, const char *name, const char *type, const char *help)
{
    fl_fmt_printf(out, "# HELP fairlead_controller_%s %s\n# TYPE fairlead_controller_%s %s\n", name,
                  help, name, type);
}

static void gauge_secs(struct fl_fmt *out, const char *name, const char *labels, const char *help,
                       int64_t ms)
{
    fl_pages_metric_head(out, name, "gauge", help);
    fl_fmt_printf(out, "fairlead_controller_%s%s ", name, labels);
    fl_fmt_secs(out, ms * 1000);
    fl_fmt_char(out, '\n');
}

static void write_metrics(struct fl_fmt *out, void *arg)
{
    const struct fl_admin_view *v = arg;
    struct sums s = sum_sidecars(v->fanout);
    fl_pages_metric_head(out, "leader", "gauge", "1 while this replica pushes and probes.");
    fl_fmt_printf(out, "fairlead_controller_leader %d\n", fl_fanout_leads(v->fanout) ? 1 : 0);
    if (v->cluster != NULL) {
        fl_pages_cluster_metrics(out, v);
    } else {
        gauge_secs(out, "watch_age_seconds", "{resource=\"file\"}",
                   "Since the membership in force was last seen to be what its source says.",
                   v->file_age_ms);
    }
    fl_pages_metric_head(out, "pushes_total", "counter", "Pushes to sidecars by how they ended.");
    for (unsigned r = 0; r < FL_PUSH_RESULT_COUNT; r++) {
        fl_fmt_printf(out, "fairlead_controller_pushes_total{result=\"%s\"} %llu\n",
                      fl_push_result_token((enum fl_push_result)r),
                      (unsigned long long)fl_fanout_total(v->fanout, (enum fl_push_result)r));
    }
    gauge_secs(out, "push_lag_seconds", "",
               "Age of the oldest change that some sidecar does not have; 0: all have all.",
               s.lag_ms);
    fl_pages_metric_head(out, "sidecars", "gauge", "Sidecars by state.");
    for (unsigned i = 0; i < FL_SIDECAR_STATES; i++) {
        fl_fmt_printf(out, "fairlead_controller_sidecars{state=\"%s\"} %u\n", state_words[i],
                      s.by_state[i]);
    }
    fl_pages_probe_metrics(out, v);
}

void fl_pages_metrics(struct fl_mhd_call *call, void *arg)
{
    struct fl_admin_view v = fl_pages_look(arg);
    fl_mhd_reply_written(call, 200, "text/plain; version=0.0.4", write_metrics, &v);
}
