#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/model/config.h"
#include "common/model/directives.h"
#include "common/model/directives_field.h"
#include "common/model/directives_scope.h"
#include "common/model/outcome.h"

static const struct fl_directive *row(enum fl_scope s, const char *name)
{
    const struct fl_directive *d = fl_scope_find(s, name);
    assert_non_null(d);
    return d;
}

static bool is_number(enum fl_type t)
{
    return t <= FL_TYPE_BOOL;
}

/* A row that contradicts itself would be a wrong message at best. */
static void every_row_is_sound(void **state)
{
    (void)state;
    for (unsigned s = 0; s < FL_SCOPE_COUNT; s++) {
        unsigned count;
        const struct fl_directive *d = fl_scope_rows((enum fl_scope)s, &count);
        assert_true(count > 0 && count <= 64);
        for (unsigned i = 0; i < count; i++) {
            int64_t v;
            assert_int_equal(d[i].scope, s);
            assert_int_equal(fl_directive_bit(&d[i]), i);
            assert_ptr_equal(fl_scope_find((enum fl_scope)s, d[i].name), &d[i]); /* no name twice */
            assert_true(d[i].min <= d[i].max);
            assert_true(d[i].type != FL_TYPE_ENUM || d[i].words);
            assert_true((d[i].type != FL_TYPE_UINT && d[i].type != FL_TYPE_TEXT) || d[i].max > 0);
            if (is_number(d[i].type) && d[i].fallback) {
                assert_int_equal(fl_field_parse(&d[i], fl_span_of(d[i].fallback), false, &v),
                                 FL_PARSED);
            }
            if (is_number(d[i].type) && d[i].fallback_http) {
                assert_int_equal(fl_field_parse(&d[i], fl_span_of(d[i].fallback_http), false, &v),
                                 FL_PARSED);
            }
            assert_true(fl_value_is_plain(d[i].type) || d[i].type == FL_TYPE_PORTS ||
                        d[i].child != FL_SCOPE_ROOT);
        }
    }
}

static void a_new_configuration_has_the_defaults(void **state)
{
    (void)state;
    struct fl_config *c = fl_config_new();
    assert_non_null(c);
    assert_int_equal(c->listen.data.count, 1);
    assert_string_equal(c->listen.data.items[0], "127.0.0.1:8420");
    assert_string_equal(c->listen.admin, "127.0.0.1:8421");
    assert_string_equal(c->listen.status, "[::]:8422");
    assert_string_equal(c->id, "");
    assert_int_equal(c->threads, 0);
    assert_string_equal(c->hosts.items[0], "s3.internal");
    assert_int_equal(c->boot_probe, FL_BOOT_ENFORCE);
    assert_int_equal(c->start_wait_ms, 5000);
    assert_int_equal(c->drain_timeout_ms, 25000);
    assert_int_equal(c->log_level, 2);
    assert_int_equal(c->access_log, FL_ACCESS_ALL);
    assert_int_equal(c->header_limit_bytes, 65536);
    assert_int_equal(c->max_connections, 4096);
    assert_int_equal(c->buffer_memory_bytes, 16 << 20);
    assert_int_equal(c->replay_memory_bytes, 8 << 20);
    assert_int_equal(c->client.head_timeout_ms, 10000);
    assert_int_equal(c->client.idle_timeout_ms, 60000);
    assert_int_equal(c->client.body_timeout_ms, 30000);
    assert_int_equal(c->client.write_timeout_ms, 60000);
    assert_int_equal(c->set, 0);
    assert_null(fl_config_backend(c, "x"));
    assert_null(fl_config_free(c));
    assert_null(fl_config_free(NULL));
}

static void profiles_are_those_of_the_lesson(void **state)
{
    (void)state;
    const struct fl_directive *fails = row(FL_SCOPE_BACKEND, "max_fails"),
                              *wait = row(FL_SCOPE_BACKEND, "fail_timeout");
    const struct fl_directive *read = row(FL_SCOPE_POLICY, "read_timeout"),
                              *tries = row(FL_SCOPE_POLICY, "next_upstream_tries");
    assert_string_equal(fl_profile_text(FL_PROFILE_READ, fails), "3");
    assert_string_equal(fl_profile_text(FL_PROFILE_WRITE, fails), "3");
    assert_string_equal(fl_profile_text(FL_PROFILE_REPORT, fails), "2");
    assert_string_equal(fl_profile_text(FL_PROFILE_REPORT, wait), "30s");
    assert_string_equal(fl_profile_text(FL_PROFILE_READ, read), "10s");
    assert_string_equal(fl_profile_text(FL_PROFILE_WRITE, read), "30s");
    assert_string_equal(fl_profile_text(FL_PROFILE_REPORT, read), "300s");
    assert_string_equal(fl_profile_text(FL_PROFILE_READ, tries), "2");
    assert_string_equal(fl_profile_text(FL_PROFILE_WRITE, tries), "1");
    assert_string_equal(
        fl_profile_text(FL_PROFILE_READ, row(FL_SCOPE_POLICY, "next_upstream_timeout")), "2s");
    assert_null(fl_profile_text(FL_PROFILE_WRITE, row(FL_SCOPE_POLICY, "next_upstream_timeout")));
    assert_null(fl_profile_text(FL_PROFILE_WRITE, row(FL_SCOPE_BACKEND, "balance")));
    assert_string_equal(fl_profile_text(FL_PROFILE_READ, row(FL_SCOPE_BACKEND, "balance")),
                        "least_conn");
    assert_null(fl_profile_text(FL_PROFILE_NONE, fails));
}

/* A number is stored and loaded in the width of its field, and no wider. */
static void fields_keep_to_their_width(void **state)
{
    (void)state;
    struct fl_backend_conf b;
    memset(&b, 0xaa, sizeof(b));
    fl_field_store(row(FL_SCOPE_BACKEND, "same_store"), &b, 1);
    fl_field_store(row(FL_SCOPE_BACKEND, "max_fails"), &b, UINT32_MAX);
    fl_field_store(row(FL_SCOPE_BACKEND, "fail_timeout"), &b, 5);
    assert_true(b.same_store);
    assert_int_equal(b.max_fails, UINT32_MAX);
    assert_int_equal(b.max_conns, 0xaaaaaaaa);
    assert_int_equal(b.fail_timeout_ms, 5);
    assert_int_equal(b.slow_start_ms, (int64_t)0xaaaaaaaaaaaaaaaa);
    assert_int_equal(fl_field_load(row(FL_SCOPE_BACKEND, "max_fails"), &b), UINT32_MAX);
    struct fl_peer_conf p = {0};
    fl_field_store(row(FL_SCOPE_PEER, "backup"), &p, 1);
    assert_int_equal(p.tier, FL_TIER_BACKUP);
    assert_int_equal(fl_field_load(row(FL_SCOPE_PEER, "backup"), &p), 1);
    p.tier = FL_TIER_LAST_RESORT;
    assert_int_equal(fl_field_load(row(FL_SCOPE_PEER, "backup"), &p), 0);
}

static void conditions_parse_by_name(void **state)
{
    (void)state;
    for (uint32_t bit = FL_ON_ERROR; bit <= FL_ON_NON_IDEMPOTENT; bit <<= 1) {
        assert_int_equal(fl_field_condition(fl_span_of(fl_condition_name((enum fl_condition)bit))),
                         bit);
    }
    assert_int_equal(fl_field_condition(FL_SPAN("off")), 0);
    assert_int_equal(fl_field_condition(FL_SPAN("http_501")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_sound),
        cmocka_unit_test(a_new_configuration_has_the_defaults),
        cmocka_unit_test(profiles_are_those_of_the_lesson),
        cmocka_unit_test(fields_keep_to_their_width),
        cmocka_unit_test(conditions_parse_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
