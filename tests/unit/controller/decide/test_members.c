#include "controller/decide/members.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "common/model/directives_table.h"

#define ENDPOINTS_MAX 16

static struct fl_arena arena;
static struct fl_service_endpoint endpoints[ENDPOINTS_MAX];
static struct fl_service_port ports[] = {{"s3", 9000}, {"console", 9001}, {"7000", 7777}};
static struct fl_service services[2];
static struct fl_services document = {.items = services, .count = 2};
static const struct fl_service_ref ref = {"storage", "minio", "s3"};

static int set_up(void **state)
{
    (void)state;
    fl_arena_init(&arena, (size_t)1 << 20);
    services[0] = (struct fl_service){.namespace = "other", .name = "minio"};
    services[1] = (struct fl_service){.namespace = "storage",
                                      .name = "minio",
                                      .ports = ports,
                                      .port_count = 3,
                                      .endpoints = endpoints};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fl_arena_done(&arena);
    return 0;
}

static void add(const char *address, bool ready, bool serving, bool terminating, const char *zone)
{
    struct fl_service *s = &services[1];
    assert_true(s->endpoint_count < ENDPOINTS_MAX);
    endpoints[s->endpoint_count++] =
        (struct fl_service_endpoint){address, zone, ready, serving, terminating};
}

static struct fl_members found(const struct fl_service_ref *r)
{
    struct fl_members m = {0};
    assert_int_equal(fl_members_of(&document, r, &arena, &m), FL_MEMBERS_FOUND);
    return m;
}

/* All 27 combinations, against the sentences of behaviour.md section 8 written out by hand. */
static void the_tier_follows_from_the_three_conditions(void **state)
{
    (void)state;
    enum { OUT = -1 };
    /* [ready][serving][terminating], each nil, false, true */
    static const int want[3][3][3] = {
        {{FL_TIER_PRIMARY, FL_TIER_PRIMARY, FL_TIER_LAST_RESORT},
         {FL_TIER_LAST_RESORT, FL_TIER_LAST_RESORT, FL_TIER_LAST_RESORT},
         {FL_TIER_PRIMARY, FL_TIER_PRIMARY, FL_TIER_LAST_RESORT}},
        {{OUT, OUT, FL_TIER_LAST_RESORT}, {OUT, OUT, OUT}, {OUT, OUT, FL_TIER_LAST_RESORT}},
        {{FL_TIER_PRIMARY, FL_TIER_PRIMARY, FL_TIER_LAST_RESORT},
         {FL_TIER_LAST_RESORT, FL_TIER_LAST_RESORT, FL_TIER_LAST_RESORT},
         {FL_TIER_PRIMARY, FL_TIER_PRIMARY, FL_TIER_LAST_RESORT}},
    };
    for (int r = 0; r < 3; r++) {
        for (int s = 0; s < 3; s++) {
            for (int t = 0; t < 3; t++) {
                enum fl_tier tier = FL_TIER_BACKUP;
                bool in =
                    fl_members_tier((enum fl_maybe)r, (enum fl_maybe)s, (enum fl_maybe)t, &tier);
                int got = in ? (int)tier : OUT;
                if (got != want[r][s][t]) {
                    fail_msg("ready %d serving %d terminating %d: %d", r, s, t, got);
                }
            }
        }
    }
}

static void the_port_is_found_by_name_or_number_and_an_endpoint_may_have_its_own(void **state)
{
    (void)state;
    const struct fl_service_ref number = {"storage", "minio", "9001"},
                                named_like_one = {"storage", "minio", "7000"};
    add("10.0.0.1", true, true, false, "");
    add("127.0.0.1:9", true, true, false, "");
    assert_string_equal(found(&ref).peers[0].address, "10.0.0.1:9000");
    assert_string_equal(found(&ref).peers[1].address, "127.0.0.1:9");
    assert_string_equal(found(&number).peers[0].address, "10.0.0.1:9001");
    assert_string_equal(found(&named_like_one).peers[0].address, "10.0.0.1:7777");
}

static void an_ipv6_address_gets_its_brackets_once(void **state)
{
    (void)state;
    add("fd00::1", true, true, false, "");
    add("[fd00::2]:8", true, true, false, "");
    struct fl_members m = found(&ref);
    assert_int_equal(m.count, 2);
    assert_string_equal(m.peers[0].address, "[fd00::1]:9000");
    assert_string_equal(m.peers[1].address, "[fd00::2]:8");
}

static void members_come_in_the_order_of_their_addresses_whatever_the_document_has(void **state)
{
    (void)state;
    static const char *const want[] = {"9.0.0.2:9000", "10.0.0.1:80", "10.0.0.1:9000",
                                       "10.0.0.10:9000", "[::1]:9000"};
    add("10.0.0.10", true, true, false, "");
    add("::1", true, true, false, "");
    add("10.0.0.1", true, true, false, "");
    add("10.0.0.1:80", true, true, false, "");
    add("9.0.0.2", true, true, false, "");
    struct fl_members m = found(&ref);
    assert_int_equal(m.count, 5);
    for (uint32_t i = 0; i < m.count; i++) {
        assert_string_equal(m.peers[i].address, want[i]);
    }
}

static void one_address_in_two_forms_is_one_peer_in_the_better_tier(void **state)
{
    (void)state;
    add("10.0.0.1", true, true, true, "a");
    add("10.0.0.1:9000", true, true, false, "b");
    struct fl_members m = found(&ref);
    assert_int_equal(m.count, 1);
    assert_int_equal(m.peers[0].tier, FL_TIER_PRIMARY);
    assert_string_equal(m.peers[0].zone, "b");
    endpoints[0].terminating = false;
    endpoints[1].terminating = true; /* the other way round */
    m = found(&ref);
    assert_int_equal(m.count, 1);
    assert_int_equal(m.peers[0].tier, FL_TIER_PRIMARY);
    assert_string_equal(m.peers[0].zone, "a");
    endpoints[0].terminating = true;
    assert_int_equal(found(&ref).peers[0].tier, FL_TIER_LAST_RESORT);
}

static void the_first_service_of_the_document_counts_too(void **state)
{
    (void)state;
    const struct fl_service_ref first = {"other", "minio", "s3"};
    services[0] = services[1];
    services[0].namespace = "other";
    add("10.0.0.1", true, true, false, "");
    services[0].endpoint_count = 1;
    assert_int_equal(found(&first).count, 1);
}

static void who_is_out_is_not_a_member_and_nobody_is_an_empty_set(void **state)
{
    (void)state;
    add("10.0.0.1", false, true, false, "");
    add("10.0.0.2", false, false, true, "");
    assert_int_equal(found(&ref).count, 0);
    services[1].endpoint_count = 0;
    assert_int_equal(found(&ref).count, 0);
}

static void only_what_is_known_counts_as_given(void **state)
{
    (void)state;
    uint64_t zone = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, "zone"));
    uint64_t weight = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, "weight"));
    add("10.0.0.1", true, true, false, "");
    add("10.0.0.2", true, true, false, "eu-1a");
    struct fl_members m = found(&ref);
    assert_true((m.peers[0].set & zone) == 0);
    assert_true((m.peers[1].set & zone) != 0);
    assert_true((m.peers[1].set & weight) == 0); /* the backend's defaults are for the sidecar */
    assert_true(
        (m.peers[0].set & 1U << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, "address"))) != 0);
    assert_int_equal(m.peers[0].weight, 1);
    assert_string_equal(m.peers[0].fallback_address, "");
    assert_int_equal(m.peers[0].owner, FL_OWNER_CONTROLLER);
}

static void an_unknown_service_or_port_is_told_apart_from_an_empty_one(void **state)
{
    (void)state;
    struct fl_members m = {NULL, 77};
    const struct fl_service_ref service = {"storage", "minio2", "s3"},
                                space = {"storage2", "minio", "s3"},
                                port = {"storage", "minio", "s4"},
                                number = {"storage", "minio", "9002"};
    assert_int_equal(fl_members_of(&document, &service, &arena, &m), FL_MEMBERS_NO_SERVICE);
    assert_int_equal(fl_members_of(&document, &space, &arena, &m), FL_MEMBERS_NO_SERVICE);
    assert_int_equal(fl_members_of(&document, &port, &arena, &m), FL_MEMBERS_NO_PORT);
    assert_int_equal(fl_members_of(&document, &number, &arena, &m), FL_MEMBERS_NO_PORT);
    assert_int_equal(m.count, 77);
}

static void too_little_memory_is_said_and_leaves_the_result_alone(void **state)
{
    (void)state;
    struct fl_members m = {NULL, 77};
    struct fl_arena small;
    for (int i = 0; i < ENDPOINTS_MAX; i++) {
        static char text[ENDPOINTS_MAX][32];
        (void)snprintf(text[i], sizeof(text[i]), "10.0.0.%d", i + 1);
        add(text[i], true, true, false, "");
    }
    fl_arena_init(&small, 64);
    assert_int_equal(fl_members_of(&document, &ref, &small, &m), FL_MEMBERS_NO_MEMORY);
    assert_int_equal(m.count, 77);
    fl_arena_done(&small);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_tier_follows_from_the_three_conditions),
        TEST(the_port_is_found_by_name_or_number_and_an_endpoint_may_have_its_own),
        TEST(an_ipv6_address_gets_its_brackets_once),
        TEST(members_come_in_the_order_of_their_addresses_whatever_the_document_has),
        TEST(one_address_in_two_forms_is_one_peer_in_the_better_tier),
        TEST(the_first_service_of_the_document_counts_too),
        TEST(who_is_out_is_not_a_member_and_nobody_is_an_empty_set),
        TEST(only_what_is_known_counts_as_given),
        TEST(an_unknown_service_or_port_is_told_apart_from_an_empty_one),
        TEST(too_little_memory_is_said_and_leaves_the_result_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
