#include "controller/decide/slices.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "common/base/rng.h"
#include "common/model/directives_table.h"
#include "slices_play.h"

#define T FL_MAYBE_TRUE
#define F FL_MAYBE_FALSE
#define N FL_MAYBE_NIL

static struct fl_slices *store;
static struct fl_arena arena;
static struct fl_kube_slice_port s3_9000[] = {{"s3", 9000}}, s3_9001[] = {{"s3", 9001}};
static const struct fl_service_ref ref = {"storage", "minio", "s3"};

static int set_up(void **state)
{
    (void)state;
    store = fl_slices_new(1);
    fl_arena_init(&arena, (size_t)64 << 20);
    return store ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    store = fl_slices_free(store);
    fl_arena_done(&arena);
    return 0;
}

static struct fl_kube_slice slice_of(const char *name, struct fl_kube_endpoint *endpoints,
                                     uint32_t count)
{
    return (struct fl_kube_slice){
        .meta = {"storage", name, "", ""},
        .service = "minio",
        .family = FL_ADDR_V4,
        .ports = s3_9000,
        .port_count = 1,
        .endpoints = endpoints,
        .endpoint_count = count,
    };
}

static struct fl_kube_endpoint live(const char *address, const char *uid)
{
    return (struct fl_kube_endpoint){address, uid, "z1", T, T, F};
}

static void put(const struct fl_kube_slice *s, int64_t now_ms)
{
    assert_int_equal(fl_slices_put(store, s, now_ms), 0);
}

/* A slice of live endpoints, by their addresses up to NULL; each is its own target. */
static void put_live(const char *name, int64_t now_ms, const char *const *addresses)
{
    struct fl_kube_endpoint endpoints[8];
    uint32_t n = 0;
    for (; addresses[n]; n++) {
        endpoints[n] = live(addresses[n], addresses[n]);
    }
    struct fl_kube_slice s = slice_of(name, endpoints, n);
    put(&s, now_ms);
}

static void put_service(const char *external_name, struct fl_kube_slice_port *ports, uint32_t count)
{
    struct fl_kube_service s = {{"storage", "minio", "", ""}, external_name, ports, count};
    assert_int_equal(fl_slices_put_service(store, &s), 0);
}

static struct fl_members members_of(const char *port)
{
    struct fl_members m = {0};
    struct fl_service_ref r = {ref.namespace, ref.name, port};
    assert_int_equal(fl_slices_members(store, &r, &arena, &m), FL_MEMBERS_FOUND);
    return m;
}

/* "10.0.0.1:9000 10.0.0.2:9000", with "!" behind a last resort and "+fallback". */
static void expect(const char *port, const char *wanted)
{
    char text[512];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    struct fl_members m = members_of(port);
    for (uint32_t i = 0; i < m.count; i++) {
        fl_fmt_text(&f, i ? " " : "");
        fl_fmt_text(&f, m.peers[i].address);
        fl_fmt_text(&f, m.peers[i].fallback_address[0] ? "+" : "");
        fl_fmt_text(&f, m.peers[i].fallback_address);
        fl_fmt_text(&f, m.peers[i].tier == FL_TIER_LAST_RESORT ? "!" : "");
    }
    assert_string_equal(text, wanted);
}

static enum fl_members_found found(const char *port)
{
    struct fl_members m;
    struct fl_service_ref r = {ref.namespace, ref.name, port};
    return fl_slices_members(store, &r, &arena, &m);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void members_are_the_union_over_all_slices_in_order(void **state)
{
    (void)state;
    put_live("b", 0, LIST("10.0.0.10", "10.0.0.2"));
    put_live("a", 0, LIST("10.0.0.3"));
    expect("s3", "10.0.0.2:9000 10.0.0.3:9000 10.0.0.10:9000");
    struct fl_members m = members_of("s3");
    assert_string_equal(m.peers[0].zone, "z1");
    assert_int_equal(m.peers[0].weight, 1);
    assert_int_equal(m.peers[0].owner, FL_OWNER_CONTROLLER);
    assert_int_equal(m.peers[0].tier, FL_TIER_PRIMARY);
}

static void what_is_given_is_marked_as_given(void **state)
{
    (void)state;
    struct fl_kube_endpoint v4[] = {live("10.0.0.1", "p1"), {"10.0.0.2", "p2", "", T, T, F}};
    struct fl_kube_endpoint v6[] = {live("fd00::1", "p1")};
    struct fl_kube_slice a = slice_of("a", v4, 2), b = slice_of("b", v6, 1);
    b.family = FL_ADDR_V6;
    put(&a, 0);
    put(&b, 0);
    uint64_t bits[4];
    static const char *const names[] = {"address", "tier", "zone", "fallback_address"};
    for (unsigned i = 0; i < 4; i++) {
        bits[i] = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, names[i]));
    }
    struct fl_members m = members_of("s3");
    assert_int_equal(m.count, 2);
    assert_int_equal(m.peers[0].set, bits[0] | bits[1] | bits[2] | bits[3]);
    assert_int_equal(m.peers[1].set, bits[0] | bits[1]);
}

static void a_slice_that_goes_is_not_a_service_that_goes(void **state)
{
    (void)state;
    put_live("a", 0, LIST("10.0.0.1"));
    put_live("b", 0, LIST("10.0.0.2"));
    fl_slices_remove(store, "storage", "a", 0);
    expect("s3", "10.0.0.2:9000");
    fl_slices_remove(store, "other", "b", 0);
    fl_slices_remove(store, "storage", "never", 0);
    expect("s3", "10.0.0.2:9000");
}

static void the_port_is_found_by_name_in_each_slice(void **state)
{
    (void)state;
    struct fl_kube_endpoint one[] = {live("10.0.0.1", "p1")}, two[] = {live("10.0.0.2", "p2")};
    struct fl_kube_slice a = slice_of("a", one, 1), b = slice_of("b", two, 1);
    b.ports = s3_9001;
    put(&a, 0);
    put(&b, 0);
    expect("s3", "10.0.0.1:9000 10.0.0.2:9001");
    expect("9001", "10.0.0.2:9001");
    assert_int_equal(found("admin"), FL_MEMBERS_NO_PORT);
    assert_int_equal(found("80"), FL_MEMBERS_NO_PORT);
    struct fl_kube_slice_port of_service[] = {{"s3", 80}};
    put_service("", of_service, 1);
    expect("80", "10.0.0.1:9000 10.0.0.2:9001");
}

static void a_headless_service_may_have_no_ports(void **state)
{
    (void)state;
    struct fl_kube_endpoint one[] = {live("10.0.0.1", "p1")};
    struct fl_kube_slice a = slice_of("a", one, 1);
    a.port_count = 0;
    put(&a, 0);
    expect("9000", "10.0.0.1:9000");
    assert_int_equal(found("s3"), FL_MEMBERS_NO_PORT);
    assert_int_equal(found("0"), FL_MEMBERS_NO_PORT);
    assert_int_equal(found("70000"), FL_MEMBERS_NO_PORT);
}

static void nothing_said_means_ready(void **state)
{
    (void)state;
    struct fl_kube_endpoint e[] = {
        {"10.0.0.1", "", "", N, N, N}, {"10.0.0.2", "", "", F, N, N}, {"10.0.0.3", "", "", T, F, N},
        {"10.0.0.4", "", "", F, T, T}, {"10.0.0.5", "", "", F, F, T}, {"10.0.0.6", "", "", T, T, T},
    };
    struct fl_kube_slice a = slice_of("a", e, 6);
    put(&a, 0);
    /* .3 and .6 as of publishNotReadyAddresses */
    expect("s3", "10.0.0.1:9000 10.0.0.3:9000! 10.0.0.4:9000! 10.0.0.6:9000!");
}

static void of_a_move_between_slices_the_newer_one_counts(void **state)
{
    (void)state;
    struct fl_kube_endpoint was[] = {live("10.0.0.1", "p1"), live("10.0.0.9", "p9")};
    struct fl_kube_endpoint is[] = {{"10.0.0.1", "p1", "z1", F, F, T}};
    struct fl_kube_slice a = slice_of("a", was, 2), b = slice_of("b", is, 1);
    a.trigger_unix_ms = 100;
    b.trigger_unix_ms = 200;
    put(&a, 0);
    put(&b, 0);
    expect("s3", "10.0.0.9:9000"); /* it does not live on in the slice that it left */
    a.trigger_unix_ms = 300;
    put(&a, 0);
    expect("s3", "10.0.0.1:9000 10.0.0.9:9000");
}

static void of_a_reused_address_the_live_one_counts_whatever_is_newer(void **state)
{
    (void)state;
    struct fl_kube_endpoint ghost[] = {{"10.0.0.1", "old", "z1", F, T, T}};
    struct fl_kube_endpoint fresh[] = {live("10.0.0.1", "new")};
    struct fl_kube_slice a = slice_of("a", ghost, 1), b = slice_of("b", fresh, 1);
    a.trigger_unix_ms = 900;
    b.trigger_unix_ms = 1;
    put(&b, 0);
    put(&a, 0);
    expect("s3", "10.0.0.1:9000");
    fresh[0].ready = fresh[0].serving = F; /* not yet */
    put(&b, 0);
    expect("s3", "10.0.0.1:9000!");
}

static void a_ghost_that_still_serves_has_its_address_before_one_that_does_not(void **state)
{
    (void)state;
    struct fl_kube_endpoint serves[] = {{"10.0.0.1", "a", "z1", F, T, T}};
    struct fl_kube_endpoint dead[] = {{"10.0.0.1", "b", "z1", F, F, T}};
    struct fl_kube_slice a = slice_of("a", serves, 1), b = slice_of("b", dead, 1);
    b.trigger_unix_ms = 900;
    put(&a, 0);
    put(&b, 0);
    expect("s3", "10.0.0.1:9000!");
    assert_int_equal(fl_slices_next_ms(store), INT64_MAX); /* not because it is held */
}

static void one_target_in_two_families_is_one_peer(void **state)
{
    (void)state;
    struct fl_kube_endpoint v4[] = {live("10.0.0.1", "p1"), live("10.0.0.2", "p2")};
    struct fl_kube_endpoint v6[] = {live("fd00::1", "p1"), live("fd00::3", "p3")};
    struct fl_kube_slice a = slice_of("a", v4, 2), b = slice_of("b", v6, 2);
    b.family = FL_ADDR_V6;
    put(&a, 0);
    put(&b, 0);
    expect("s3", "10.0.0.1:9000+[fd00::1]:9000 10.0.0.2:9000 [fd00::3]:9000");
    v4[1].ready = v4[1].serving = F; /* IPv6 has more ready ones now */
    put(&a, 0);
    expect("s3", "[fd00::1]:9000+10.0.0.1:9000 [fd00::3]:9000");
}

static void only_ready_endpoints_make_a_family_the_primary_one(void **state)
{
    (void)state;
    struct fl_kube_endpoint v4[] = {live("10.0.0.1", "p1")};
    struct fl_kube_endpoint v6[] = {live("fd00::1", "p1"), {"fd00::2", "p2", "z1", F, T, T}};
    struct fl_kube_slice a = slice_of("a", v4, 1), b = slice_of("b", v6, 2);
    b.family = FL_ADDR_V6;
    put(&a, 0);
    put(&b, 0);
    expect("s3", "10.0.0.1:9000+[fd00::1]:9000 [fd00::2]:9000!");
}

static void without_a_target_families_cannot_be_paired(void **state)
{
    (void)state;
    struct fl_kube_endpoint v4[] = {live("10.0.0.1", "")}, v6[] = {live("fd00::1", "")};
    struct fl_kube_slice a = slice_of("a", v4, 1), b = slice_of("b", v6, 1);
    b.family = FL_ADDR_V6;
    put(&a, 0);
    put(&b, 0);
    expect("s3", "10.0.0.1:9000 [fd00::1]:9000");
}

static void an_address_of_the_wrong_kind_is_left_out(void **state)
{
    (void)state;
    struct fl_kube_endpoint e[] = {live("fd00::1", "a"), live("10.0.0.1:80", "b"),
                                   live("host.example", "c"), live("10.0.0.1", "d")};
    struct fl_kube_slice a = slice_of("a", e, 4);
    put(&a, 0);
    expect("s3", "10.0.0.1:9000");
    a.family = FL_ADDR_NONE;
    put(&a, 0);
    assert_true(fl_slices_run(store, FL_SLICES_HOLD_MS));
    expect("s3", "");
}

static void an_external_name_is_the_one_peer(void **state)
{
    (void)state;
    struct fl_kube_slice_port of_service[] = {{"s3", 443}};
    put_service("s3.example.com", of_service, 1);
    expect("s3", "s3.example.com:443");
    expect("9000", "s3.example.com:9000");
    assert_int_equal(found("admin"), FL_MEMBERS_NO_PORT);
    put_service("s3.example.org", of_service, 1);
    expect("s3", "s3.example.org:443");
    put_service("", of_service, 1);
    expect("s3", "");
}

static void a_service_without_slices_has_no_members(void **state)
{
    (void)state;
    struct fl_kube_slice_port of_service[] = {{"s3", 80}};
    assert_int_equal(found("s3"), FL_MEMBERS_NO_SERVICE);
    put_service("", of_service, 1);
    expect("s3", "");
    expect("80", "");
    assert_int_equal(found("admin"), FL_MEMBERS_NO_PORT);
}

static void a_half_seen_move_empties_nothing(void **state)
{
    (void)state;
    struct fl_slices_service row;
    size_t at = 0;
    put_live("a", 1000, LIST("10.0.0.1", "10.0.0.2"));
    assert_int_equal(fl_slices_next_ms(store), INT64_MAX);
    fl_slices_remove(store, "storage", "a", 5000);
    expect("s3", "10.0.0.1:9000 10.0.0.2:9000");
    assert_true(fl_slices_next(store, &at, &row) && row.held && row.slices == 0);
    assert_int_equal(fl_slices_next_ms(store), 5000 + FL_SLICES_HOLD_MS);
    assert_false(fl_slices_run(store, 5000 + FL_SLICES_HOLD_MS - 1));
    put_live("b", 6999, LIST("10.0.0.1", "10.0.0.2", "10.0.0.3"));
    expect("s3", "10.0.0.1:9000 10.0.0.2:9000 10.0.0.3:9000");
    assert_int_equal(fl_slices_next_ms(store), INT64_MAX);
    assert_false(fl_slices_run(store, 99999));
}

static void what_is_held_ends(void **state)
{
    (void)state;
    struct fl_kube_endpoint e[] = {live("10.0.0.1", "p1")};
    struct fl_kube_slice a = slice_of("a", e, 1);
    put(&a, 0);
    e[0].ready = e[0].serving = F;
    put(&a, 10);
    expect("s3", "10.0.0.1:9000");
    assert_true(fl_slices_run(store, 10 + FL_SLICES_HOLD_MS));
    expect("s3", "");
    assert_int_equal(fl_slices_next_ms(store), INT64_MAX);
}

/* The old slice still says that the pod is well: by the newer one it is not. */
static void a_member_that_is_outdated_counts_as_gone(void **state)
{
    (void)state;
    struct fl_kube_endpoint was[] = {live("10.0.0.1", "p1")},
                            is[] = {{"10.0.0.1", "p1", "", F, F, F}};
    struct fl_kube_slice a = slice_of("a", was, 1), b = slice_of("b", is, 1);
    a.trigger_unix_ms = 1;
    b.trigger_unix_ms = 2;
    put(&a, 0);
    put(&b, 100);
    expect("s3", "10.0.0.1:9000");
    assert_int_equal(fl_slices_next_ms(store), 100 + FL_SLICES_HOLD_MS);
    assert_true(fl_slices_run(store, 100 + FL_SLICES_HOLD_MS));
    expect("s3", "");
}

/* More outdated ones than the quick look tries. */
static void nothing_is_held_while_one_member_is_left(void **state)
{
    (void)state;
    char addresses[12][16];
    struct fl_kube_endpoint was[12], is[12];
    for (unsigned i = 0; i < 12; i++) {
        struct fl_fmt f = fl_fmt_of(addresses[i], sizeof(addresses[i]));
        fl_fmt_printf(&f, "10.0.0.%u", i + 1);
        was[i] = live(addresses[i], addresses[i]);
        is[i] = was[i];
        is[i].ready = is[i].serving = F;
    }
    struct fl_kube_slice a = slice_of("a", was, 12), b = slice_of("b", is, 11);
    b.trigger_unix_ms = 2;
    put(&a, 0);
    put(&b, 100);
    expect("s3", "10.0.0.12:9000");
    assert_int_equal(fl_slices_next_ms(store), INT64_MAX);
    b.endpoint_count = 12;
    put(&b, 200);
    expect("s3", "10.0.0.12:9000");
    assert_int_equal(fl_slices_next_ms(store), 200 + FL_SLICES_HOLD_MS);
}

static void each_port_is_held_by_itself(void **state)
{
    (void)state;
    struct fl_kube_slice_port admin[] = {{"admin", 9100}};
    struct fl_kube_endpoint e[] = {live("10.0.0.1", "p1")}, other[] = {live("10.0.0.2", "p2")};
    struct fl_kube_slice a = slice_of("a", e, 1), b = slice_of("b", other, 1);
    b.ports = admin;
    put(&a, 0);
    put(&b, 0);
    fl_slices_remove(store, "storage", "a", 100);
    expect("s3", "10.0.0.1:9000");
    expect("admin", "10.0.0.2:9100");
    fl_slices_remove(store, "storage", "b", 1100);
    expect("s3", "10.0.0.1:9000");
    expect("admin", "10.0.0.2:9100");
    assert_true(fl_slices_run(store, 2100));
    assert_int_equal(found("s3"), FL_MEMBERS_NO_SERVICE);
    expect("admin", "10.0.0.2:9100");
    assert_true(fl_slices_run(store, 3100));
    assert_int_equal(found("admin"), FL_MEMBERS_NO_SERVICE);
}

static void the_end_of_a_service_empties_its_pool_at_once(void **state)
{
    (void)state;
    put_service("", s3_9000, 1);
    put_live("a", 0, LIST("10.0.0.1"));
    fl_slices_remove_service(store, "storage", "minio", 10);
    expect("s3", ""); /* its slice is still there */
    put_live("a", 20, LIST("10.0.0.1", "10.0.0.2"));
    expect("s3", "");
    put_service("", s3_9000, 1);
    expect("s3", "10.0.0.1:9000 10.0.0.2:9000");
    fl_slices_remove(store, "storage", "a", 30);
    expect("s3", "10.0.0.1:9000 10.0.0.2:9000");
    fl_slices_remove_service(store, "storage", "minio", 40);
    assert_int_equal(found("s3"), FL_MEMBERS_NO_SERVICE);
    assert_int_equal(fl_slices_next_ms(store), INT64_MAX);
}

static void a_relist_is_in_force_at_its_end_as_a_whole(void **state)
{
    (void)state;
    put_live("a", 0, LIST("10.0.0.1"));
    put_live("b", 0, LIST("10.0.0.2"));
    fl_slices_begin(store);
    put_live("b", 10, LIST("10.0.0.3"));
    expect("s3", "10.0.0.1:9000 10.0.0.2:9000");
    fl_slices_begin(store); /* once more: what was said is void */
    put_live("c", 20, LIST("10.0.0.4"));
    expect("s3", "10.0.0.1:9000 10.0.0.2:9000");
    fl_slices_end(store, 30);
    expect("s3", "10.0.0.4:9000");
    assert_int_equal(fl_slices_next_ms(store), INT64_MAX); /* a move within it: nothing is held */
    fl_slices_begin(store);
    fl_slices_end(store, 40);
    expect("s3", "10.0.0.4:9000");
    assert_int_equal(fl_slices_next_ms(store), 40 + FL_SLICES_HOLD_MS);
}

static void a_relist_of_services_ends_those_that_are_gone(void **state)
{
    (void)state;
    put_live("a", 0, LIST("10.0.0.1"));
    fl_slices_begin_services(store);
    fl_slices_end_services(store, 0);
    expect("s3", "10.0.0.1:9000"); /* never known: nothing says that it ended */
    put_service("", s3_9000, 1);
    fl_slices_begin_services(store);
    put_service("", s3_9000, 1);
    fl_slices_end_services(store, 0);
    expect("s3", "10.0.0.1:9000");
    fl_slices_begin_services(store);
    fl_slices_end_services(store, 0);
    expect("s3", "");
}

static void a_slice_may_change_its_service(void **state)
{
    (void)state;
    struct fl_kube_endpoint e[] = {live("10.0.0.1", "p1")};
    struct fl_kube_slice a = slice_of("a", e, 1);
    struct fl_service_ref other = {"storage", "other", "s3"};
    struct fl_members m;
    put(&a, 0);
    a.service = "other";
    put(&a, 0);
    assert_int_equal(fl_slices_members(store, &other, &arena, &m), FL_MEMBERS_FOUND);
    assert_int_equal(m.count, 1);
    assert_true(fl_slices_run(store, FL_SLICES_HOLD_MS));
    assert_int_equal(found("s3"), FL_MEMBERS_NO_SERVICE);
    a.service = "";
    put(&a, 3000);
    assert_true(fl_slices_run(store, 3000 + FL_SLICES_HOLD_MS));
    assert_int_equal(fl_slices_members(store, &other, &arena, &m), FL_MEMBERS_NO_SERVICE);
}

static uint8_t next_byte(void *arg)
{
    return (uint8_t)(fl_rng_next(arg) >> 32);
}

/* Moves half seen, relists, reused addresses, ends of services, time: against the plain list. */
static void random_histories_agree_with_the_plain_list(void **state)
{
    (void)state;
    unsigned long asked = 0, members = 0, held = 0, empty = 0, fallbacks = 0;
    unsigned long changes = 0, rests = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        static struct play p;
        struct fl_rng rng;
        fl_rng_seed(&rng, seed * 7919);
        play_begin(&p, next_byte, &rng);
        for (int step = 0; step < 100; step++) {
            play_step(&p);
        }
        asked += p.asked;
        members += p.members;
        held += p.held;
        empty += p.empty;
        fallbacks += p.fallbacks;
        changes += p.changes;
        rests += p.rests;
        play_end(&p);
    }
    /* It saw what it is for. */
    assert_true(members > asked / 10 && held > asked / 100 && empty > asked / 100 &&
                fallbacks > 50);
    assert_true(changes > 500 && rests > 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(members_are_the_union_over_all_slices_in_order),
        TEST(what_is_given_is_marked_as_given),
        TEST(a_slice_that_goes_is_not_a_service_that_goes),
        TEST(the_port_is_found_by_name_in_each_slice),
        TEST(a_headless_service_may_have_no_ports),
        TEST(nothing_said_means_ready),
        TEST(of_a_move_between_slices_the_newer_one_counts),
        TEST(of_a_reused_address_the_live_one_counts_whatever_is_newer),
        TEST(one_target_in_two_families_is_one_peer),
        TEST(only_ready_endpoints_make_a_family_the_primary_one),
        TEST(a_ghost_that_still_serves_has_its_address_before_one_that_does_not),
        TEST(a_member_that_is_outdated_counts_as_gone),
        TEST(nothing_is_held_while_one_member_is_left),
        TEST(without_a_target_families_cannot_be_paired),
        TEST(an_address_of_the_wrong_kind_is_left_out),
        TEST(an_external_name_is_the_one_peer),
        TEST(a_service_without_slices_has_no_members),
        TEST(a_half_seen_move_empties_nothing),
        TEST(what_is_held_ends),
        TEST(each_port_is_held_by_itself),
        TEST(the_end_of_a_service_empties_its_pool_at_once),
        TEST(a_relist_is_in_force_at_its_end_as_a_whole),
        TEST(a_relist_of_services_ends_those_that_are_gone),
        TEST(a_slice_may_change_its_service),
        TEST(random_histories_agree_with_the_plain_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
