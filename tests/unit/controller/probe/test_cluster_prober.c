#include "controller/probe/cluster_prober.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fl_reactor *reactor;
static struct fl_log event_log = {.level = FL_LOG_ERROR}; /* no ring: said to nobody */
static struct fl_verdict_table table;
static struct fl_cluster_prober *prober;
static struct fl_controller_config *config;
static struct fl_backend_conf backend;
static struct fl_peer_conf peer;
static struct fl_state_backend members;
static struct fl_state state_of;
static enum fl_probe_news last_news;
static unsigned news_count;
static char address[32];
static int listener;

static void probed(void *arg, enum fl_probe_news news)
{
    (void)arg;
    last_news = news;
    news_count++;
}

static void tls_changed(void *arg)
{
    (void)arg;
}

/* Takes connections in and never says a word. */
static void open_listener(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
}

static unsigned connections(void)
{
    unsigned n = 0;
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; n++) {
        close(fd);
    }
    return n;
}

static void describe(enum fl_probe_type type)
{
    backend = (struct fl_backend_conf){.name = "pool", .protocol = FL_PROTOCOL_HTTP};
    backend.service = (struct fl_service_ref){"", "", ""};
    backend.tls.ca_file = backend.tls.server_name = backend.tls.cert_file = "";
    backend.tls.key_file = "";
    backend.probe = (struct fl_probe_conf){.type = type,
                                           .host = "",
                                           .path = "/",
                                           .expect = "200-399",
                                           .bucket = "",
                                           .region = "",
                                           .access_key_file = "",
                                           .secret_key_file = "",
                                           .secret = "",
                                           .interval_ms = 3600000,
                                           .timeout_ms = 200};
    peer = (struct fl_peer_conf){.address = address, .fallback_address = "", .zone = ""};
    peer.weight = 1;
    members = (struct fl_state_backend){.name = "pool", .has_peers = true};
    members.conf.peers = &peer;
    members.conf.peer_count = 1;
    state_of = (struct fl_state){.backends = &members, .backend_count = 1};
    config->cluster->backends = &backend;
    config->cluster->backend_count = 1;
}

static int start(void **state)
{
    (void)state;
    assert_int_equal(fl_reactor_new(&reactor), 0);
    fl_verdict_table_init(&table, 1);
    const struct fl_cluster_prober_conf conf = {reactor, &event_log,  1,   &table,
                                                probed,  tls_changed, NULL};
    assert_int_equal(fl_cluster_prober_new(&conf, &prober), 0);
    config = fl_controller_config_new();
    assert_non_null(config);
    open_listener();
    news_count = 0;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    config->cluster->backend_count = 0;
    fl_controller_config_free(config);
    fl_cluster_prober_free(prober);
    fl_reactor_turn(reactor, 0);
    fl_verdict_table_done(&table);
    fl_reactor_free(reactor);
    close(listener);
    return 0;
}

static bool synced(void)
{
    struct fl_probe_list list;
    fl_probe_list_init(&list);
    assert_true(fl_probe_list_add(&list, config, NULL, &state_of));
    bool gone = fl_cluster_prober_sync(prober, &list);
    fl_probe_list_done(&list);
    return gone;
}

static enum fl_verdict_status status(void)
{
    const struct fl_verdict *v = fl_verdict_table_get(&table, "pool", address);
    return v != NULL ? v->status : FL_VERDICT_UNKNOWN;
}

static void turn_until_news(unsigned count, int64_t limit_ms)
{
    int64_t end_ms = fl_reactor_now_ms(reactor) + limit_ms;
    while (news_count < count && fl_reactor_now_ms(reactor) < end_ms) {
        fl_reactor_turn(reactor, 20);
    }
    assert_int_equal(news_count, count);
}

static void silence_blocks_after_two_attempts(void **state)
{
    (void)state;
    describe(FL_PROBE_HTTP);
    assert_false(synced());
    uint64_t ticket = fl_cluster_prober_ask(prober, "pool");
    assert_true(fl_cluster_prober_asked(prober, "pool", ticket));
    assert_true(fl_cluster_prober_probing(prober, "pool", address));
    turn_until_news(1, 20000);
    assert_int_equal(last_news, FL_PROBE_NEWS_BLOCKS);
    assert_int_equal(status(), FL_VERDICT_UNREACHABLE);
    assert_int_equal(connections(), 2);
    assert_false(fl_cluster_prober_asked(prober, "pool", ticket));
}

/* The deadline that passed while nobody looked is no evidence. */
static void a_probe_that_was_under_way_in_a_stall_is_made_once_more(void **state)
{
    (void)state;
    describe(FL_PROBE_HTTP);
    assert_false(synced());
    (void)fl_cluster_prober_ask(prober, "pool");
    fl_reactor_turn(reactor, 0);
    usleep(2300000);
    turn_until_news(1, 20000);
    assert_int_equal(status(), FL_VERDICT_UNREACHABLE);
    assert_int_equal(connections(), 4);
    uint64_t counts[5];
    assert_true(fl_cluster_prober_counts(prober, "pool", counts));
    assert_int_equal(counts[FL_VERDICT_UNREACHABLE], 1);
}

static void a_verdict_goes_with_its_definition_and_its_peer(void **state)
{
    (void)state;
    describe(FL_PROBE_TCP);
    assert_false(synced());
    (void)fl_cluster_prober_ask(prober, "pool");
    turn_until_news(1, 20000);
    assert_int_equal(last_news, FL_PROBE_NEWS_CHANGED);
    assert_int_equal(status(), FL_VERDICT_HEALTHY);
    assert_false(synced()); /* the same: it stays */
    (void)fl_cluster_prober_ask(prober, "pool");
    turn_until_news(2, 20000);
    assert_int_equal(last_news, FL_PROBE_NEWS_AGE);
    backend.probe.timeout_ms = 300;
    assert_true(synced());
    assert_int_equal(status(), FL_VERDICT_UNKNOWN);
    turn_until_news(3, 20000); /* at once, unasked */
    assert_int_equal(status(), FL_VERDICT_HEALTHY);
    peer.down = true;
    assert_true(synced());
    assert_int_equal(status(), FL_VERDICT_UNKNOWN);
    uint64_t ticket = fl_cluster_prober_ask(prober, "pool");
    assert_false(fl_cluster_prober_asked(prober, "pool", ticket));
    uint64_t counts[5];
    assert_true(fl_cluster_prober_counts(prober, "pool", counts)); /* counters do not fall */
    assert_int_equal(counts[FL_VERDICT_HEALTHY], 3);
}

static void none_is_not_probed_and_nobody_is_no_crash(void **state)
{
    (void)state;
    describe(FL_PROBE_NONE);
    backend.probe.set = UINT64_MAX;
    assert_false(synced());
    uint64_t ticket = fl_cluster_prober_ask(prober, "pool");
    assert_false(fl_cluster_prober_asked(prober, "pool", ticket));
    assert_false(fl_cluster_prober_probing(prober, "other", address));
    uint64_t counts[5];
    assert_false(fl_cluster_prober_counts(prober, "pool", counts));
}

/* Two configurations that share a subject, and one whose backend has the same name only. */
static void a_subject_that_two_lists_share_is_probed_once(void **state)
{
    (void)state;
    struct fl_probe_list list;
    describe(FL_PROBE_TCP);
    fl_probe_list_init(&list);
    for (int i = 0; i < 3; i++) {
        assert_true(fl_probe_list_add(&list, config, NULL, &state_of));
    }
    snprintf(list.items[2].subject, sizeof(list.items[2].subject), "shop/pool:http");
    assert_false(fl_cluster_prober_sync(prober, &list));
    fl_probe_list_done(&list);
    (void)fl_cluster_prober_ask(prober, "pool");
    turn_until_news(1, 20000);
    assert_int_equal(status(), FL_VERDICT_HEALTHY);
    assert_null(fl_verdict_table_get(&table, "shop/pool:http", address));
    (void)fl_cluster_prober_ask(prober, "shop/pool:http");
    turn_until_news(2, 20000);
    assert_non_null(fl_verdict_table_get(&table, "shop/pool:http", address));
    assert_int_equal(connections(), 2);
    assert_true(synced()); /* the other subject is gone, and its verdict */
    assert_null(fl_verdict_table_get(&table, "shop/pool:http", address));
    assert_int_equal(status(), FL_VERDICT_HEALTHY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_subject_that_two_lists_share_is_probed_once, start, stop),
        cmocka_unit_test_setup_teardown(silence_blocks_after_two_attempts, start, stop),
        cmocka_unit_test_setup_teardown(a_probe_that_was_under_way_in_a_stall_is_made_once_more,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_verdict_goes_with_its_definition_and_its_peer, start,
                                        stop),
        cmocka_unit_test_setup_teardown(none_is_not_probed_and_nobody_is_no_crash, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
