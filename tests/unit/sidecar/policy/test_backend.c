#include "sidecar/policy/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "tests/unit/sidecar/policy/pool_kit.h"

/* One exchange against a pool in which some addresses are dead (refused), as the proxy does it:
 * try, settle, try the next while the policy's two tries last. The chain is written as the access
 * log does. */
static void exchange(struct pool *pool, const char *dead, unsigned what, char chain[128])
{
    struct fl_fmt f = fl_fmt_of(chain, 128);
    pool_begin(pool);
    for (int tries = 0; tries < 2; tries++) {
        struct fl_pick pick = pool_pick(pool, what);
        fl_fmt_printf(&f, "%s%s", tries ? ", " : "", pool_name(pool, &pick));
        if (pick.kind != FL_PICK_PEER) {
            return;
        }
        if (!strstr(dead, pool_name(pool, &pick))) {
            pool_settle(pool, &pick, FL_OUTCOME_OK, 200);
            return;
        }
        pool_settle(pool, &pick, FL_OUTCOME_CONNECT_FAILED, 0);
    }
}

static const struct pool_spec pool_fail = {
    .protocol = FL_PROTOCOL_HTTP,
    .peers = {{.address = "127.0.0.1:9998"}, {.address = "127.0.0.1:9001"}},
};

/* Lesson 5.3, "pool-fail" and exercise 2: every 3 s for 30 s. Two upstreams are seen at 0, 12 and
 * 24 s. */
static void lesson_5_3_replayed_every_3_seconds(void **state)
{
    (void)state;
    struct pool pool;
    char chain[128];
    pool_init(&pool, &pool_fail);
    for (int second = 0; second <= 30; second += 3) {
        pool.now_ms = 1000000 + second * 1000;
        exchange(&pool, "127.0.0.1:9998", POOL_READ, chain);
        assert_string_equal(chain,
                            second % 12 == 0 ? "127.0.0.1:9998, 127.0.0.1:9001" : "127.0.0.1:9001");
    }
    pool_done(&pool);
}

static void a_dead_peer_comes_back_with_its_trial(void **state)
{
    (void)state;
    struct pool pool;
    char chain[128];
    pool_init(&pool, &pool_fail);
    exchange(&pool, "127.0.0.1:9998", POOL_READ, chain);
    pool.now_ms += 10000;
    exchange(&pool, "", POOL_READ, chain);
    assert_string_equal(chain, "127.0.0.1:9998");
    int alive = 0;
    for (int i = 0; i < 10; i++) {
        exchange(&pool, "", POOL_READ, chain);
        alive += strcmp(chain, "127.0.0.1:9998") == 0;
    }
    assert_int_equal(alive, 5);
    pool_done(&pool);
}

/* Lesson 5.3 section 4: the dead primary and its backup; all primaries gone leaves the backup with
 * 100 %. */
static void lesson_5_3_backup(void **state)
{
    (void)state;
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .fail_timeout_ms = 30000,
        .peers = {{.address = "127.0.0.1:9999"},
                  {.address = "127.0.0.1:9002", .tier = FL_TIER_BACKUP}},
    };
    struct pool pool;
    char chain[128];
    pool_init(&pool, &spec);
    for (int i = 0; i < 5; i++) { /* while the primary lives the backup is never chosen */
        exchange(&pool, "", POOL_READ, chain);
        assert_string_equal(chain, "127.0.0.1:9999");
    }
    assert_true(fl_backend_primary_usable(pool.b, pool.p, pool.now_ms));
    exchange(&pool, "127.0.0.1:9999", POOL_READ, chain);
    assert_string_equal(chain, "127.0.0.1:9999, 127.0.0.1:9002");
    assert_false(fl_backend_primary_usable(pool.b, pool.p, pool.now_ms));
    for (int i = 0; i < 20; i++) {
        pool.now_ms += 1000;
        exchange(&pool, "127.0.0.1:9999", POOL_WRITE | POOL_UNREPEATABLE, chain);
        assert_string_equal(chain, "127.0.0.1:9002");
    }
    assert_int_equal(pool.b->tally->lines[0].on_backup_picks, 21);
    pool.now_ms = 1000000 + 30000; /* reverts with the next pick after its return */
    exchange(&pool, "", POOL_READ, chain);
    assert_string_equal(chain, "127.0.0.1:9999");
    exchange(&pool, "", POOL_READ, chain);
    assert_string_equal(chain, "127.0.0.1:9999");
    pool_done(&pool);
}

static void all_backups_share_and_terminating_peers_come_first(void **state)
{
    (void)state;
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .peers = {{.address = "10.0.0.4:1", .tier = FL_TIER_BACKUP},
                  {.address = "10.0.0.3:1", .tier = FL_TIER_BACKUP},
                  {.address = "10.0.0.2:1", .tier = FL_TIER_LAST_RESORT},
                  {.address = "10.0.0.1:1"}},
    };
    struct pool pool;
    char chain[128];
    pool_init(&pool, &spec);
    exchange(&pool, "10.0.0.1:1", POOL_READ, chain);
    assert_string_equal(chain, "10.0.0.1:1, 10.0.0.2:1");
    exchange(&pool, "10.0.0.2:1", POOL_READ, chain);
    assert_string_equal(chain, "10.0.0.2:1, 10.0.0.4:1");
    int of_3 = 0;
    for (int i = 0; i < 10; i++) {
        exchange(&pool, "", POOL_READ, chain);
        of_3 += strcmp(chain, "10.0.0.3:1") == 0;
    }
    assert_int_equal(of_3, 5);
    pool_done(&pool);
}

/* max_conns is not unusability: a full primary queues its requests, the backup stays idle. */
static void backups_are_for_failure_not_for_load(void **state)
{
    (void)state;
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .peers = {{.address = "10.0.0.1:1", .max_conns = 1},
                  {.address = "10.0.0.2:1", .max_conns = 1},
                  {.address = "10.0.0.3:1", .tier = FL_TIER_BACKUP}},
    };
    struct pool pool;
    pool_init(&pool, &spec);
    struct fl_pick one = pool_pick(&pool, POOL_READ), two, three;
    pool_begin(&pool);
    two = pool_pick(&pool, POOL_READ);
    pool_begin(&pool);
    three = pool_pick(&pool, POOL_READ);
    assert_int_equal(three.kind, FL_PICK_FULL);
    pool_settle(&pool, &one, FL_OUTCOME_OK, 200);
    three = pool_pick(&pool, POOL_READ);
    assert_string_equal(pool_name(&pool, &three), "10.0.0.1:1");
    /* one dies: its retry finds the other primary full and must not spill either */
    pool_settle(&pool, &three, FL_OUTCOME_CONNECT_FAILED, 0);
    three = pool_pick(&pool, POOL_READ);
    assert_int_equal(three.kind, FL_PICK_FULL);
    pool_settle(&pool, &two, FL_OUTCOME_CONNECT_FAILED, 0);
    three = pool_pick(&pool, POOL_READ);
    assert_string_equal(pool_name(&pool, &three), "10.0.0.3:1");
    pool_done(&pool);
}

static void twenty_picks_at_probation_give_one_trial(void **state)
{
    (void)state;
    struct pool pool;
    const char *name;
    pool_init(&pool, &pool_fail);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    assert_string_equal(name, "127.0.0.1:9998");
    pool.now_ms += 10000;
    struct fl_pick picks[20];
    int trials = 0;
    for (int i = 0; i < 20; i++) {
        pool_begin(&pool);
        picks[i] = pool_pick(&pool, POOL_READ);
        trials += picks[i].ticket.trial;
        assert_int_equal(picks[i].ticket.trial, picks[i].index == 0);
    }
    assert_int_equal(trials, 1);
    assert_int_equal(pool_in_flight(&pool), 20);
    for (int i = 0; i < 20; i++) {
        pool_settle(&pool, &picks[i], FL_OUTCOME_OK, 200);
    }
    assert_int_equal(pool_in_flight(&pool), 0);
    pool_done(&pool);
}

/* A trial is preferably a request that can go elsewhere; after one further fail_timeout any will
 * do. */
static void trials_prefer_what_can_be_repeated(void **state)
{
    (void)state;
    struct pool pool;
    const char *name;
    const unsigned put = POOL_WRITE | POOL_UNREPEATABLE;
    pool_init(&pool, &pool_fail);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    for (int ms = 10000; ms < 20000; ms += 999) {
        pool.now_ms = 1000000 + ms;
        pool_one(&pool, put, FL_OUTCOME_OK, 200, &name);
        assert_string_equal(name, "127.0.0.1:9001");
    }
    pool.now_ms = 1000000 + 19999;
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name); /* the read is the trial */
    assert_string_equal(name, "127.0.0.1:9998");
    pool.now_ms = 1000000 + 19999 + 19999;
    pool_one(&pool, put, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "127.0.0.1:9001");
    pool.now_ms += 1;
    pool_one(&pool, put, FL_OUTCOME_OK, 200, &name); /* none came */
    assert_string_equal(name, "127.0.0.1:9998");
    pool_done(&pool);
}

static void with_nobody_else_any_request_is_the_trial(void **state)
{
    (void)state;
    struct pool pool;
    const char *name;
    const unsigned put = POOL_WRITE | POOL_UNREPEATABLE;
    pool_init(&pool, &pool_fail);
    pool_one(&pool, put, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    pool.now_ms += 5000;
    pool_one(&pool, put, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    struct fl_pick none = pool_pick(&pool, put);
    assert_int_equal(none.kind, FL_PICK_NONE);
    assert_int_equal(none.release_at_ms, 1010000);
    pool.now_ms = 1010000;
    pool_begin(&pool);
    struct fl_pick trial = pool_pick(&pool, put), other;
    assert_string_equal(pool_name(&pool, &trial), "127.0.0.1:9998");
    pool_begin(&pool);
    other = pool_pick(&pool, put);
    assert_int_equal(other.kind, FL_PICK_NONE); /* the other one is quarantined until 15 s */
    assert_int_equal(other.release_at_ms, 1015000);
    pool_settle(&pool, &trial, FL_OUTCOME_CLIENT_ABORT, 0); /* neutral: the next one is the trial */
    pool_one(&pool, put, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "127.0.0.1:9998");
    pool_done(&pool);
}

/* A backup counts as somebody who could take it; on s3 routes not for a write. */
static void a_backup_can_take_what_would_be_a_trial(void **state)
{
    (void)state;
    struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .peers = {{.address = "10.0.0.1:1"}, {.address = "10.0.0.2:1", .tier = FL_TIER_BACKUP}},
    };
    const unsigned put = POOL_WRITE | POOL_UNREPEATABLE;
    for (int s3 = 0; s3 < 2; s3++) {
        struct pool pool;
        const char *name;
        spec.protocol = s3 ? FL_PROTOCOL_S3 : FL_PROTOCOL_HTTP;
        pool_init(&pool, &spec);
        pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
        pool_one(&pool, put, FL_OUTCOME_OK, 200, &name);
        assert_string_equal(name, s3 ? "read_only" : "10.0.0.2:1");
        pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
        assert_string_equal(name, "10.0.0.2:1");
        pool.now_ms += 10000;
        pool_one(&pool, put, FL_OUTCOME_OK, 200, &name);
        assert_string_equal(name, s3 ? "10.0.0.1:1" : "10.0.0.2:1");
        pool_done(&pool);
    }
    spec.protocol = FL_PROTOCOL_S3;
    spec.same_store = true;
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    pool_one(&pool, put, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "10.0.0.2:1");
    pool_done(&pool);
}

/* An exchange that has lost one peer goes where it is safe, not into another's trial. */
static void a_second_try_is_no_trial_while_a_live_peer_is_left(void **state)
{
    (void)state;
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .max_fails = 1,
        .peers = {{.address = "10.0.0.1:1"}, {.address = "10.0.0.2:1"}, {.address = "10.0.0.3:1"}},
    };
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    assert_string_equal(name, "10.0.0.1:1");
    pool_begin(&pool);
    struct fl_pick first = pool_pick(&pool, POOL_READ);
    assert_string_equal(pool_name(&pool, &first), "10.0.0.2:1");
    pool.now_ms += 10000; /* meanwhile .1 comes to probation */
    pool_settle(&pool, &first, FL_OUTCOME_READ_TIMEOUT, 0);
    struct fl_pick second = pool_pick(&pool, POOL_READ);
    assert_string_equal(pool_name(&pool, &second), "10.0.0.3:1");
    pool_settle(&pool, &second, FL_OUTCOME_READ_TIMEOUT, 0);
    second = pool_pick(&pool, POOL_READ); /* nobody else */
    assert_string_equal(pool_name(&pool, &second), "10.0.0.1:1");
    assert_true(second.ticket.trial);
    pool_done(&pool);
}

/* nginx lowers the weight of a peer that fails; we do not: 9:1 before and after. */
static void weight_survives_failures(void **state)
{
    (void)state;
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .max_fails = 5,
        .fail_timeout_ms = 1000,
        .peers = {{.address = "10.0.0.1:1", .weight = 9}, {.address = "10.0.0.2:1"}},
    };
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    for (int round = 0; round < 3; round++) {
        int nine = 0;
        for (int i = 0; i < 100; i++) {
            pool.now_ms += 1000;
            pool_one(&pool, POOL_READ, i % 3 ? FL_OUTCOME_OK : FL_OUTCOME_CONNECT_FAILED, 200,
                     &name);
            nine += strcmp(name, "10.0.0.1:1") == 0;
        }
        assert_int_equal(nine, 90);
    }
    pool_done(&pool);
}

static void a_single_peer_is_never_blocked(void **state)
{
    (void)state;
    struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .count_failures = FL_ON_ERROR | FL_ON_HTTP_503,
        .peers = {{.address = "10.0.0.1:1"}, {.address = "10.0.0.9:1", .down = true}},
    };
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    for (int i = 0; i < 10; i++) {
        struct fl_settled s =
            pool_one(&pool, POOL_READ, i % 2 ? FL_OUTCOME_CONNECT_FAILED : FL_OUTCOME_HTTP_STATUS,
                     503, &name);
        assert_string_equal(name, "10.0.0.1:1");
        assert_true(s.counted);
        assert_int_equal(s.peer.what, FL_HEALTH_SAME);
        assert_int_equal(s.route.what, FL_HEALTH_SAME);
    }
    assert_int_equal(pool.b->peers[0].peer->lines[0].failures, 10);
    /* it grows to two: marking begins, from zero */
    struct pool_spec two = spec;
    two.peers[2] = (struct pool_peer){.address = "10.0.0.2:1"};
    pool_reload(&pool, &two, NULL, NULL);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    assert_string_equal(name, "10.0.0.1:1");
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    assert_string_equal(name, "10.0.0.2:1");
    pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "none");
    /* it shrinks to one, which is quarantined: it opens at this pick */
    pool_reload(&pool, &spec, NULL, NULL);
    pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "10.0.0.1:1");
    pool_done(&pool);
}

static void panic_ignores_quarantine_and_says_so(void **state)
{
    (void)state;
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .panic_percent = 50,
        .peers = {{.address = "10.0.0.1:1"},
                  {.address = "10.0.0.2:1"},
                  {.address = "10.0.0.3:1"},
                  {.address = "10.0.0.4:1", .down = true}},
    };
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    pool_begin(&pool);
    struct fl_pick pick = pool_pick(&pool, POOL_READ);
    assert_false(pick.panic); /* two of three */
    pool_settle(&pool, &pick, FL_OUTCOME_CONNECT_FAILED, 0);
    unsigned seen = 0;
    for (int i = 0; i < 9; i++) {
        pool_begin(&pool);
        pick = pool_pick(&pool, POOL_READ);
        assert_int_equal(pick.kind, FL_PICK_PEER);
        assert_true(pick.panic); /* one of three: below 50 % */
        seen |= 1u << pick.index;
        struct fl_settled s = pool_settle(&pool, &pick, FL_OUTCOME_OK, 200);
        assert_int_equal(s.peer.what, FL_HEALTH_SAME);
    }
    assert_int_equal(seen, 7);
    pool.now_ms += 10000; /* trials win peers back even in panic */
    for (int i = 0; i < 9; i++) {
        pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    }
    pool_begin(&pool);
    pick = pool_pick(&pool, POOL_READ);
    assert_false(pick.panic);
    pool_done(&pool);
}

static bool block_first(void *arg, const struct fl_backend_conf *b, const char *address,
                        struct fl_verdict *ret, bool *ret_gated)
{
    (void)b;
    const char *const *blocked = arg;
    for (; *blocked; blocked++) {
        if (strcmp(*blocked, address) == 0) {
            *ret = (struct fl_verdict){.status = FL_VERDICT_UNREACHABLE, .source = FL_VERDICT_OWN};
            fl_cause_set(&ret->cause, "connect_refused",
                         "connect to %s failed (Connection refused)", address);
            *ret_gated = true;
            return true;
        }
    }
    return false;
}

static void verdicts_gate_peers_and_the_backend(void **state)
{
    (void)state;
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_S3,
        .panic_percent = 100,
        .peers = {{.address = "10.0.0.1:1"}, {.address = "10.0.0.2:1"}},
    };
    const char *one[] = {"10.0.0.1:1", NULL}, *both[] = {"10.0.0.2:1", "10.0.0.1:1", NULL};
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    pool_reload(&pool, &spec, block_first, one);
    assert_string_equal(pool.b->peers_down, "1/2");
    assert_int_equal(pool.b->verdict.status, FL_VERDICT_UNKNOWN);
    for (int i = 0; i < 4; i++) { /* not even panic opens what a verdict closes */
        pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
        assert_string_equal(name, "10.0.0.2:1");
    }
    pool_reload(&pool, &spec, block_first, both);
    assert_true(pool.b->gated);
    assert_string_equal(pool.b->peers_down, "2/2");
    pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "gated");
    struct fl_cause cause;
    fl_backend_cause(pool.b, &cause);
    assert_string_equal(cause.text, "connect to 10.0.0.1:1 failed (Connection refused)");
    pool_done(&pool);
}

static void a_backend_without_members(void **state)
{
    (void)state;
    const struct pool_spec none = {.protocol = FL_PROTOCOL_S3};
    const struct pool_spec named = {.protocol = FL_PROTOCOL_S3,
                                    .peers = {{.address = "minio.storage:9000"}}};
    struct pool pool;
    const char *name;
    struct fl_cause cause;
    pool_init(&pool, &none);
    pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "no_members");
    fl_backend_cause(pool.b, &cause);
    assert_string_equal(cause.code, "no_members");
    pool_reload(&pool, &named, NULL, NULL); /* a name that is not resolved is no member */
    pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "no_members");
    pool_reload(&pool, &pool_fail, NULL, NULL);
    pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    pool_reload(&pool, &none, NULL, NULL); /* scaled to zero: it had some */
    pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "none");
    fl_backend_cause(pool.b, &cause);
    assert_string_equal(cause.code, "no_peers");
    pool_done(&pool);
}

static void drained_removed_down_and_weightless_take_nothing(void **state)
{
    (void)state;
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .peers = {{.address = "10.0.0.1:1"},
                  {.address = "10.0.0.2:1"},
                  {.address = "10.0.0.3:1", .down = true},
                  {.address = "10.0.0.4:1", .weight_zero = true},
                  {.address = "10.0.0.5:1"}},
    };
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    pool.b->peers[0].peer->drained = true;
    pool.b->peers[4].peer->removed = true;
    for (int i = 0; i < 3; i++) {
        pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
        assert_string_equal(name, "10.0.0.2:1");
    }
    pool.b->peers[0].peer->drained = false;
    pool.b->peers[1].peer->drained = true;
    pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "10.0.0.1:1");
    pool_done(&pool);
}

static void why_not_word_by_word(void **state)
{
    (void)state;
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_S3,
        .count_failures = FL_ON_ERROR | FL_ON_HTTP_503,
        .peers = {{.address = "10.0.0.1:1"},
                  {.address = "10.0.0.2:1", .down = true},
                  {.address = "10.0.0.3:1"},
                  {.address = "10.0.0.4:1"},
                  {.address = "10.0.0.5:1"},
                  {.address = "10.0.0.6:1", .weight_zero = true},
                  {.address = "10.0.0.7:1", .max_conns = 1},
                  {.address = "10.0.0.8:1", .tier = FL_TIER_BACKUP},
                  {.address = "10.0.0.9:1"},
                  {.address = "10.0.0.10:1"}},
    };
    const char *gated[] = {"10.0.0.10:1", NULL};
    struct pool pool;
    pool_init(&pool, &spec);
    pool_reload(&pool, &spec, block_first, gated);
    pool.b->peers[2].peer->drained = true;
    pool.b->peers[3].peer->removed = true;
    pool.b->peers[6].peer->lines[0].in_flight = 1;
    const struct fl_health_policy hp = {1, 10000, 1};
    struct fl_health_ticket t = fl_peer_health_ticket(&pool.b->peers[4].peer->health);
    fl_peer_health_settle(&pool.b->peers[4].peer->health, &hp, &t, FL_HEALTH_FAILED, pool.now_ms,
                          NULL);
    fl_peer_health_settle(pool.p->status_health[8], &hp, &t, FL_HEALTH_FAILED, pool.now_ms + 5,
                          NULL);
    static const char *const words[] = {
        "eligible",    "down",      "drained",          "removed",           "quarantined",
        "weight_zero", "max_conns", "read_only_backup", "route_quarantined", "verdict"};
    struct fl_ask ask = pool_ask(&pool, POOL_WRITE);
    int64_t until;
    for (uint32_t i = 0; i < FL_COUNTOF(words); i++) {
        assert_string_equal(fl_backend_why_not(pool.b, pool.p, i, &ask, &until), words[i]);
        assert_int_equal(until, i == 4 ? pool.now_ms + 10000 : i == 8 ? pool.now_ms + 10005 : 0);
    }
    ask.now_ms += 10000;
    assert_string_equal(fl_backend_why_not(pool.b, pool.p, 4, &ask, &until), "probation");
    assert_true(fl_peer_health_take_trial(&pool.b->peers[4].peer->health, ask.now_ms, &t));
    assert_string_equal(fl_backend_why_not(pool.b, pool.p, 4, &ask, &until), "trial_out");
    ask.write = false;
    assert_string_equal(fl_backend_why_not(pool.b, pool.p, 7, &ask, &until), "eligible");
    pool.b->peers[6].peer->lines[0].in_flight = 0;
    pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lesson_5_3_replayed_every_3_seconds),
        cmocka_unit_test(a_dead_peer_comes_back_with_its_trial),
        cmocka_unit_test(lesson_5_3_backup),
        cmocka_unit_test(all_backups_share_and_terminating_peers_come_first),
        cmocka_unit_test(backups_are_for_failure_not_for_load),
        cmocka_unit_test(twenty_picks_at_probation_give_one_trial),
        cmocka_unit_test(trials_prefer_what_can_be_repeated),
        cmocka_unit_test(with_nobody_else_any_request_is_the_trial),
        cmocka_unit_test(a_backup_can_take_what_would_be_a_trial),
        cmocka_unit_test(a_second_try_is_no_trial_while_a_live_peer_is_left),
        cmocka_unit_test(weight_survives_failures),
        cmocka_unit_test(a_single_peer_is_never_blocked),
        cmocka_unit_test(panic_ignores_quarantine_and_says_so),
        cmocka_unit_test(verdicts_gate_peers_and_the_backend),
        cmocka_unit_test(a_backend_without_members),
        cmocka_unit_test(drained_removed_down_and_weightless_take_nothing),
        cmocka_unit_test(why_not_word_by_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
