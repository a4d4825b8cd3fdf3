#include "controller/push/edition.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "common/codec/config_yaml.h"
#include "common/codec/state_json.h"
#include "controller/decide/compose.h"
#include "controller/decide/membership.h"

static const char config_text[] =
    "source: file:/x\n"
    "probe_defaults: {interval: 7s}\n"
    "backends:\n"
    "  minio:\n"
    "    protocol: http\n"
    "    service: {namespace: storage, name: minio, port: s3}\n"
    "    max_fails: 3\n"
    "    profile: read\n"
    "    verdicts: trust\n"
    "    queue: {size: 5}\n"
    "    probe: {type: s3, access_key_file: /keys/id, secret_key_file: /keys/secret}\n"
    "    peers: [{address: \"10.9.0.5:9000\", backup: true, weight: 4}]\n"
    "  filled: {service: {namespace: storage, name: minio, port: s3}}\n"
    "  bare: {service: {namespace: storage, name: minio, port: s3}}\n"
    "  absent: {service: {namespace: storage, name: none, port: s3}}\n"
    "routes:\n"
    "  releases: minio\n"
    "  plain: bare\n"
    "  \"*\": {backend: minio, next_upstream: off, paths: {\"= /a\": {read_timeout: 3s}}}\n";
static const char services_text[] = "services:\n"
                                    "  storage/minio:\n"
                                    "    ports: {s3: 9000}\n"
                                    "    endpoints:\n"
                                    "      - {address: 10.0.0.2, zone: eu-1a}\n"
                                    "      - {address: 10.0.0.1, terminating: true}\n"
                                    "      - {address: \"fd00::1\"}\n"
                                    "      - {address: 10.0.0.4, ready: false}\n";

static struct fl_controller_config *config;
static struct fl_services *services;
static struct fl_verdict_table verdicts;
static struct fl_findings findings;

static int set_up(void **state)
{
    (void)state;
    fl_findings_init(&findings, "");
    fl_verdict_table_init(&verdicts, 1);
    config = fl_controller_config_yaml_load("c.yaml", FL_SPAN(config_text), &findings);
    services = fl_services_yaml_load(FL_SPAN(services_text), &findings);
    if (config == NULL || services == NULL) {
        fail_msg("refused: %s", findings.first->text);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fl_controller_config_free(config);
    fl_services_free(services);
    fl_verdict_table_done(&verdicts);
    fl_findings_done(&findings);
    return 0;
}

static struct fl_state *compose(void)
{
    struct fl_membership m = fl_membership_of_services(services);
    struct fl_state *s = fl_compose_state(config, &m, NULL, &verdicts, 1000, &findings);
    assert_non_null(s);
    s->hash = fl_state_json_hash(s);
    return s;
}

static void the_text_is_the_contracts(void **state)
{
    (void)state;
    static const char members[] =
        "{\"address\":\"10.0.0.1:9000\",\"tier\":\"last_resort\"},"
        "{\"address\":\"10.0.0.2:9000\",\"tier\":\"primary\",\"zone\":\"eu-1a\"},"
        "{\"address\":\"[fd00::1]:9000\",\"tier\":\"primary\"}]";
    struct fl_state *s = compose();
    struct fl_edition *e = fl_edition_new(s, 1, 1700000000, 5);
    assert_non_null(e);
    assert_non_null(strstr(e->body.ptr, "{\"epoch\":1700000000,\"seq\":5,\"routes\":{"));
    assert_non_null(strstr(e->body.ptr, members));
    assert_non_null(strstr(e->body.ptr, "\"absent\":{}")); /* no members is not an empty set */
    assert_non_null(strstr(e->body.ptr, "\"interval\":\"7s\""));
    assert_non_null(strstr(e->body.ptr, "\"verdict_policy\":\"trust\""));
    assert_non_null(strstr(e->body.ptr, "\"filled\":{\"peers\":["));
    assert_null(strstr(e->body.ptr, "/keys/"));
    fl_edition_give(&e);
    assert_null(e);
    fl_state_free(s);
}

/* Both sides must come to the same hash, or every answer looks like drift. */
static void a_sidecar_reads_back_the_same_set(void **state)
{
    (void)state;
    struct fl_state *s = compose();
    struct fl_edition *e = fl_edition_new(s, 1, 1700000000, 5);
    assert_non_null(e);
    struct fl_findings f;
    fl_findings_init(&f, "");
    struct fl_state *back = fl_state_json_decode(e->body, &f);
    if (back == NULL) {
        fail_msg("refused: %s in %s", f.first->text, e->body.ptr);
        return;
    }
    assert_int_equal(f.warnings, 0);
    assert_true(back->hash == e->hash && e->hash != 0);
    assert_int_equal(back->epoch, 1700000000);
    assert_int_equal(back->seq, 5);
    assert_int_equal(back->backend_count, 4);
    assert_false(back->backends[0].owns || back->backends[0].has_peers); /* absent */
    assert_true(back->backends[1].owns);  /* bare: a route names it */
    assert_false(back->backends[2].owns); /* filled */
    assert_int_equal(back->backends[3].conf.peer_count, 4);
    struct fl_config *none = fl_config_new(), *all = fl_state_overlay(none, back, &f);
    if (all == NULL) {
        fail_msg("not a configuration: %s", f.first->text);
    }
    fl_config_free(all);
    fl_config_free(none);
    fl_state_free(back);
    fl_findings_done(&f);
    fl_edition_give(&e);
    fl_state_free(s);
}

static void the_pair_and_the_verdicts_are_not_in_the_hash(void **state)
{
    (void)state;
    struct fl_verdict v = {.status = FL_VERDICT_UNREACHABLE};
    struct fl_state *s = compose();
    uint64_t before = s->hash;
    assert_int_equal(fl_verdict_table_set(&verdicts, "minio", "10.0.0.2:9000", &v), 0);
    struct fl_state *t = compose();
    struct fl_edition *a = fl_edition_new(s, 1, 1, 1), *b = fl_edition_new(t, 2, 9, 9);
    assert_true(a->hash == before && b->hash == before);
    assert_null(strstr(a->body.ptr, "unreachable"));
    assert_non_null(strstr(b->body.ptr, "\"10.0.0.2:9000\":{\"status\":\"unreachable\""));
    assert_string_not_equal(a->digest, b->digest);
    services->items[0].endpoints[0].ready = false;
    struct fl_state *u = compose();
    assert_true(u->hash != before);
    fl_edition_give(&a);
    fl_edition_give(&b);
    fl_state_free(s);
    fl_state_free(t);
    fl_state_free(u);
}

static void an_edition_lives_as_long_as_somebody_holds_it(void **state)
{
    (void)state;
    struct fl_state *s = compose();
    struct fl_edition *e = fl_edition_new(s, 1, 1, 1), *held = fl_edition_take(e);
    fl_state_free(s);
    fl_edition_give(&e);
    assert_true(held->body.len > 0 && held->body.ptr[0] == '{'); /* ASan would see a freed one */
    fl_edition_give(&held);
    fl_edition_give(&held);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_text_is_the_contracts),
        TEST(a_sidecar_reads_back_the_same_set),
        TEST(the_pair_and_the_verdicts_are_not_in_the_hash),
        TEST(an_edition_lives_as_long_as_somebody_holds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
