#include "sidecar/policy/verdict_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"

#define NOW      1000000
#define INTERVAL 30000

#define NONE FL_VERDICT_UNKNOWN
#define UP   FL_VERDICT_HEALTHY
#define DOWN FL_VERDICT_UNREACHABLE
#define AUTH FL_VERDICT_AUTH_REJECTED
#define ERR  FL_VERDICT_ERRORING

struct row {
    enum fl_verdict_policy policy;
    enum fl_verdict_status own;
    int64_t own_age_s;
    enum fl_verdict_status pushed;
    int64_t pushed_age_s;
    enum fl_verdict_status shown;
    enum fl_verdict_source source;
    bool gated, probe;
    const char *other;
    int64_t own_for_s, pushed_for_s; /* has said so for; less than its age: since that probe */
};

static int64_t since(int64_t for_s, int64_t age_s)
{
    return NOW - (for_s > age_s ? for_s : age_s) * 1000;
}

static struct fl_merged merge(const struct row *r, bool keyed)
{
    struct fl_verdict own = {.status = r->own, .at_ms = NOW - r->own_age_s * 1000};
    struct fl_verdict pushed = {.status = r->pushed};
    fl_cause_set(&own.cause, "own", "seen here");
    fl_cause_set(&pushed.cause, "pushed", "seen there");
    const struct fl_merge_facts f = {.policy = r->policy,
                                     .own = &own,
                                     .pushed = &pushed,
                                     .pushed_age_ms = r->pushed_age_s * 1000,
                                     .own_since_ms = since(r->own_for_s, r->own_age_s),
                                     .pushed_since_ms = since(r->pushed_for_s, r->pushed_age_s),
                                     .expires_ms = 3 * INTERVAL,
                                     .now_ms = NOW,
                                     .keyed = keyed};
    struct fl_merged m;
    fl_verdict_merge(&f, &m);
    return m;
}

static void check(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct fl_merged m = merge(&rows[i], true);
        if (m.verdict.status != rows[i].shown || m.verdict.source != rows[i].source ||
            m.gated != rows[i].gated || m.probe_wanted != rows[i].probe ||
            strcmp(m.other_view, rows[i].other) != 0) {
            fail_msg("row %zu: %s source %d gated %d probe %d other '%s'", i,
                     fl_verdict_status_name(m.verdict.status), (int)m.verdict.source, m.gated,
                     m.probe_wanted, m.other_view);
        }
        if (m.verdict.source != FL_VERDICT_NONE) {
            assert_string_equal(m.verdict.cause.code,
                                m.verdict.source == FL_VERDICT_OWN ? "own" : "pushed");
        }
    }
}

#define NOBODY   FL_VERDICT_NONE
#define OWN      FL_VERDICT_OWN
#define PUSHED   FL_VERDICT_PUSHED
#define SPLIT    "unreachable from the controller, reachable from this pod"
#define POD_LATE "; this pod has not looked since"
#define CTL_LATE "; the controller has not looked since"
#define REACHED  "reachable from the controller, unreachable from this pod"
#define REJECT   "credentials rejected from the controller, reachable from this pod"

// clang-format off
static const struct row confirm[] = {
    {FL_VERDICTS_CONFIRM, NONE, 0, NONE, 0, NONE, NOBODY, false, false, "", 0, 0},
    {FL_VERDICTS_CONFIRM, UP, 10, NONE, 0, UP, OWN, false, false, "", 0, 0},
    {FL_VERDICTS_CONFIRM, DOWN, 10, NONE, 0, DOWN, OWN, true, false, "", 0, 0},
    {FL_VERDICTS_CONFIRM, AUTH, 10, NONE, 0, AUTH, OWN, true, false, "", 0, 0},
    {FL_VERDICTS_CONFIRM, ERR, 10, NONE, 0, ERR, OWN, false, false, "", 0, 0},
    {FL_VERDICTS_CONFIRM, NONE, 0, UP, 5, UP, PUSHED, false, false, "", 0, 0},
    {FL_VERDICTS_CONFIRM, NONE, 0, ERR, 5, ERR, PUSHED, false, false, "", 0, 0},
    /* the rule: unreachable is asked about, shown, and gates only with the own failure */
    {FL_VERDICTS_CONFIRM, NONE, 0, DOWN, 5, DOWN, PUSHED, false, true, "", 0, 0},
    {FL_VERDICTS_CONFIRM, UP, 20, DOWN, 5, UP, OWN, false, true, SPLIT POD_LATE, 0, 0},
    {FL_VERDICTS_CONFIRM, UP, 5, DOWN, 5, UP, OWN, false, false, SPLIT, 60, 0}, /* asked and answered */
    {FL_VERDICTS_CONFIRM, UP, 1, DOWN, 5, UP, OWN, false, false, SPLIT, 60, 0},
    /* said again: the own look is from within its opinion, if before its last probe */
    {FL_VERDICTS_CONFIRM, UP, 20, DOWN, 5, UP, OWN, false, true, SPLIT, 60, 30},
    /* one has changed its mind, the other has not looked since */
    {FL_VERDICTS_CONFIRM, DOWN, 1, UP, 5, DOWN, OWN, true, false, REACHED CTL_LATE, 0, 0},
    {FL_VERDICTS_CONFIRM, DOWN, 1, UP, 5, DOWN, OWN, true, false, REACHED, 6, 0},
    {FL_VERDICTS_CONFIRM, UP, 1, DOWN, 5, UP, OWN, false, false, SPLIT CTL_LATE, 0, 0},
    {FL_VERDICTS_CONFIRM, DOWN, 1, DOWN, 5, DOWN, OWN, true, false, "", 0, 0},
    {FL_VERDICTS_CONFIRM, DOWN, 20, DOWN, 5, DOWN, OWN, true, true, "", 0, 0},
    /* an own verdict of long ago is no contradiction to what was seen just now */
    {FL_VERDICTS_CONFIRM, UP, 3600, DOWN, 5, DOWN, PUSHED, false, true, SPLIT POD_LATE, 0, 0},
    {FL_VERDICTS_CONFIRM, UP, 3600, ERR, 5, ERR, PUSHED, false, false, "answering with errors from the controller, reachable from this pod" POD_LATE, 0, 0},
    {FL_VERDICTS_CONFIRM, UP, 3600, NONE, 0, UP, OWN, false, false, "", 0, 0},
    /* but it goes on to block */
    {FL_VERDICTS_CONFIRM, DOWN, 3600, UP, 5, DOWN, OWN, true, false, REACHED POD_LATE, 0, 0},
    /* the controller's expired key must not cut off applications with good keys */
    {FL_VERDICTS_CONFIRM, NONE, 0, AUTH, 5, AUTH, PUSHED, false, true, "", 0, 0},
    {FL_VERDICTS_CONFIRM, UP, 20, AUTH, 5, UP, OWN, false, true, REJECT POD_LATE, 0, 0},
    {FL_VERDICTS_CONFIRM, UP, 1, AUTH, 5, UP, OWN, false, false, REJECT, 60, 0},
    {FL_VERDICTS_CONFIRM, AUTH, 1, AUTH, 5, AUTH, OWN, true, false, "", 0, 0},
    /* 3 intervals without refresh */
    {FL_VERDICTS_CONFIRM, NONE, 0, DOWN, 90, DOWN, PUSHED, false, true, "", 0, 0},
    {FL_VERDICTS_CONFIRM, NONE, 0, DOWN, 91, NONE, NOBODY, false, false, "", 0, 0},
    {FL_VERDICTS_CONFIRM, DOWN, 1, DOWN, 91, DOWN, OWN, true, false, "", 0, 0}, /* loss unblocks nothing early */
    {FL_VERDICTS_CONFIRM, UP, 3600, DOWN, 91, UP, OWN, false, false, "", 0, 0},
};

static const struct row trust[] = {
    {FL_VERDICTS_TRUST, NONE, 0, DOWN, 5, DOWN, PUSHED, true, true, "", 0, 0},
    {FL_VERDICTS_TRUST, UP, 20, DOWN, 5, DOWN, PUSHED, true, true, SPLIT POD_LATE, 0, 0},
    /* a later own look opens, and a controller that only says it again does not close: it is asked about */
    {FL_VERDICTS_TRUST, UP, 1, DOWN, 5, UP, OWN, false, false, SPLIT, 60, 0},
    {FL_VERDICTS_TRUST, UP, 6, DOWN, 5, UP, OWN, false, true, SPLIT, 60, 30},
    {FL_VERDICTS_TRUST, UP, 31, DOWN, 5, DOWN, PUSHED, true, true, SPLIT POD_LATE, 60, 30},
    {FL_VERDICTS_TRUST, DOWN, 6, DOWN, 5, DOWN, OWN, true, true, "", 0, 30},
    {FL_VERDICTS_TRUST, NONE, 0, AUTH, 5, AUTH, PUSHED, false, true, "", 0, 0},
    {FL_VERDICTS_TRUST, UP, 20, AUTH, 5, UP, OWN, false, true, REJECT POD_LATE, 0, 0},
    {FL_VERDICTS_TRUST, NONE, 0, DOWN, 91, NONE, NOBODY, false, false, "", 0, 0},
    {FL_VERDICTS_TRUST, DOWN, 20, UP, 5, DOWN, OWN, true, false, REACHED POD_LATE, 0, 0},
};

static const struct row ignore[] = {
    {FL_VERDICTS_IGNORE, NONE, 0, DOWN, 5, NONE, NOBODY, false, false, "", 0, 0},
    {FL_VERDICTS_IGNORE, UP, 20, DOWN, 5, UP, OWN, false, false, "", 0, 0},
    {FL_VERDICTS_IGNORE, DOWN, 20, UP, 5, DOWN, OWN, true, false, "", 0, 0},
};
// clang-format on

static void confirm_asks_first(void **state)
{
    (void)state;
    check(confirm, FL_COUNTOF(confirm));
}

static void trust_blocks_first(void **state)
{
    (void)state;
    check(trust, FL_COUNTOF(trust));
}

static void ignore_hears_nothing(void **state)
{
    (void)state;
    check(ignore, FL_COUNTOF(ignore));
}

static void without_keys_an_auth_verdict_asks_for_nothing(void **state)
{
    (void)state;
    const struct row r = {
        FL_VERDICTS_CONFIRM, UP, 20, AUTH, 5, UP, OWN, false, false, REJECT, 0, 0};
    assert_false(merge(&r, false).probe_wanted);
}

/* A verdict of an old definition never gates the new one. */
static void another_fingerprint_is_no_evidence(void **state)
{
    (void)state;
    struct fl_verdict own = {.status = DOWN, .at_ms = NOW, .fingerprint = 1};
    struct fl_verdict pushed = {.status = DOWN, .fingerprint = 1};
    struct fl_merge_facts f = {.policy = FL_VERDICTS_TRUST,
                               .own = &own,
                               .pushed = &pushed,
                               .expires_ms = 90000,
                               .now_ms = NOW,
                               .fingerprint = 2};
    struct fl_merged m;
    fl_verdict_merge(&f, &m);
    assert_int_equal(m.verdict.status, NONE);
    assert_false(m.gated || m.probe_wanted);
    f.fingerprint = 1;
    fl_verdict_merge(&f, &m);
    assert_true(m.gated);
    f.own = f.pushed = NULL;
    fl_verdict_merge(&f, &m);
    assert_int_equal(m.verdict.status, NONE);
    assert_false(m.gated);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confirm_asks_first),
        cmocka_unit_test(trust_blocks_first),
        cmocka_unit_test(ignore_hears_nothing),
        cmocka_unit_test(without_keys_an_auth_verdict_asks_for_nothing),
        cmocka_unit_test(another_fingerprint_is_no_evidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
