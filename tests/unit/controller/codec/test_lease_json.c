#include "controller/codec/lease_json.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>

#include "controller/codec/micro_time.h"

/* As a 1.37 API server gives it, with what others have put into it. */
static const char lease[] =
    "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{\"name\":\"fc\","
    "\"namespace\":\"fairlead\",\"uid\":\"5f0c6f2e-9d1b-4a8e-8d0b-0d6c8f6c7a11\","
    "\"resourceVersion\":\"4821\",\"creationTimestamp\":\"2026-11-30T09:00:00Z\","
    "\"labels\":{\"team\":\"a/b\"},\"managedFields\":[{\"manager\":\"x\",\"fieldsV1\":"
    "{\"f:spec\":{\"f:holderIdentity\":{}}}}]},\"spec\":{\"holderIdentity\":\"pod-1_ab\","
    "\"leaseDurationSeconds\":15,\"acquireTime\":\"2026-11-30T09:21:47.000123Z\","
    "\"renewTime\":\"2026-11-30T09:22:01.654321Z\",\"leaseTransitions\":7,"
    "\"preferredHolder\":\"q\"}}";

#define ACQUIRED INT64_C(1796030507000123)
#define RENEWED  INT64_C(1796030521654321)

static char text[4096];

static struct fl_fmt empty(void)
{
    return fl_fmt_of(text, sizeof(text));
}

static void a_lease_is_read(void **state)
{
    struct fl_lease_record r;
    (void)state;
    assert_int_equal(fl_lease_json_decode(fl_span_of(lease), &r), 0);
    assert_string_equal(r.uid, "5f0c6f2e-9d1b-4a8e-8d0b-0d6c8f6c7a11");
    assert_string_equal(r.holder, "pod-1_ab");
    assert_int_equal(r.duration_s, 15);
    assert_int_equal(r.transitions, 7);
    assert_int_equal(r.version, 4821);
    assert_int_equal(r.acquire_us, ACQUIRED);
    assert_int_equal(r.renew_us, RENEWED);
}

static struct fl_lease_record read_of(const char *json)
{
    struct fl_lease_record r;
    assert_int_equal(fl_lease_json_decode(fl_span_of(json), &r), 0);
    return r;
}

static void what_is_absent_or_null_is_nothing(void **state)
{
    (void)state;
    struct fl_lease_record r = read_of("{\"kind\":\"Lease\",\"metadata\":{}}");
    assert_string_equal(r.uid, "");
    assert_string_equal(r.holder, "");
    assert_int_equal(r.duration_s + r.transitions + r.renew_us + r.acquire_us + r.version, 0);
    r = read_of("{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"v1\"},\"spec\":{"
                "\"holderIdentity\":null,\"renewTime\":null,\"leaseTransitions\":null}}");
    assert_string_equal(r.holder, "");
    assert_int_equal(r.version, 0); /* no number */
}

static void a_holder_without_a_time_is_a_holder(void **state)
{
    (void)state;
    struct fl_lease_record r = read_of("{\"kind\":\"Lease\",\"metadata\":{},\"spec\":{"
                                       "\"holderIdentity\":\"x\",\"renewTime\":\"yesterday\"}}");
    assert_string_equal(r.holder, "x");
    assert_int_equal(r.renew_us, 0);
}

static void a_holder_without_end_is_cut(void **state)
{
    struct fl_fmt f = empty();
    (void)state;
    fl_fmt_text(&f, "{\"kind\":\"Lease\",\"metadata\":{},\"spec\":{\"holderIdentity\":\"");
    for (int i = 0; i < 1000; i++) {
        fl_fmt_char(&f, 'x');
    }
    fl_fmt_text(&f, "\"}}");
    assert_int_equal(strlen(read_of(text).holder), FL_LEASE_HOLDER_MAX - 1);
}

static void what_is_no_lease_is_refused_and_touches_nothing(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "null",
        "\"Lease\"",
        "{\"metadata\":{}}",
        "{\"kind\":\"Status\",\"metadata\":{}}",
        "{\"kind\":\"Lease\"}",
        "{\"kind\":\"Lease\",\"metadata\":[]}",
        "{\"kind\":\"Lease\",\"metadata\":{},\"spec\":7}",
        "{\"kind\":\"Lease\",\"metadata\":{},\"spec\":{\"holderIdentity\":7}}",
        "{\"kind\":\"Lease\",\"metadata\":{},\"spec\":{\"leaseTransitions\":\"7\"}}",
        "{\"kind\":\"Lease\",\"metadata\":{},\"spec\":{\"leaseTransitions\":2147483648}}",
        "{\"kind\":\"Lease\",\"metadata\":{},\"spec\":{\"leaseDurationSeconds\":1.5}}",
        "{\"kind\":\"Lease\",\"metadata\":{},\"spec\":{\"renewTime\":7}}",
        "{\"kind\":\"Lease\",\"metadata\":{},\"spec\":{}} x",
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        struct fl_lease_record r = {.transitions = 77};
        assert_int_equal(fl_lease_json_decode(fl_span_of(bad[i]), &r), -EBADMSG);
        assert_int_equal(r.transitions, 77);
    }
}

static void a_new_lease_is_what_the_server_takes(void **state)
{
    const struct fl_lease_record r = {.holder = "a\"b",
                                      .duration_s = 15,
                                      .transitions = 3,
                                      .acquire_us = ACQUIRED,
                                      .renew_us = RENEWED};
    const struct fl_lease_record nobody = {.duration_s = 15};
    struct fl_fmt f = empty();
    (void)state;
    fl_lease_json_new("ns", "fc", &r, &f);
    assert_string_equal(
        text, "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"
              "\"namespace\":\"ns\",\"name\":\"fc\"},\"spec\":{\"holderIdentity\":\"a\\\"b\","
              "\"leaseDurationSeconds\":15,\"leaseTransitions\":3,"
              "\"acquireTime\":\"2026-11-30T09:21:47.000123Z\","
              "\"renewTime\":\"2026-11-30T09:22:01.654321Z\"}}");
    f = empty();
    fl_lease_json_new("ns", "fc", &nobody, &f);
    assert_non_null(strstr(text, "\"spec\":{\"holderIdentity\":\"\",\"leaseDurationSeconds\":15,"
                                 "\"leaseTransitions\":0}}"));
}

static void a_replacement_changes_our_fields_and_nothing_else(void **state)
{
    struct fl_lease_record r = {
        .holder = "me", .duration_s = 1, .transitions = 8, .renew_us = RENEWED + 1};
    struct fl_arena a;
    struct fl_span made;
    (void)state;
    fl_arena_init(&a, 1 << 20);
    assert_int_equal(fl_lease_json_replace(fl_span_of(lease), &r, &a, &made), 0);
    assert_int_equal(made.len, strlen(made.ptr));
    struct fl_lease_record back = read_of(made.ptr);
    assert_string_equal(back.holder, "me");
    assert_int_equal(back.duration_s, 1);
    assert_int_equal(back.transitions, 8);
    assert_int_equal(back.acquire_us, 0);
    assert_int_equal(back.renew_us, RENEWED + 1);
    assert_int_equal(back.version, 4821); /* without it the server says 422 */
    assert_non_null(strstr(made.ptr, "\"renewTime\":\"2026-11-30T09:22:01.654322Z\""));
    assert_non_null(strstr(made.ptr, "\"labels\":{\"team\":\"a/b\"}"));
    assert_non_null(strstr(made.ptr, "\"managedFields\":[{\"manager\":\"x\""));
    assert_non_null(strstr(made.ptr, "\"preferredHolder\":\"q\""));
    fl_arena_done(&a);
}

static void a_lease_without_a_spec_gets_one(void **state)
{
    static const char *const none[] = {"{\"kind\":\"Lease\",\"metadata\":{},\"spec\":null}",
                                       "{\"kind\":\"Lease\",\"metadata\":{}}"};
    struct fl_lease_record r = {.holder = "me", .duration_s = 15, .transitions = 1};
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(none); i++) {
        struct fl_arena a;
        struct fl_span made;
        fl_arena_init(&a, 1 << 20);
        assert_int_equal(fl_lease_json_replace(fl_span_of(none[i]), &r, &a, &made), 0);
        assert_string_equal(read_of(made.ptr).holder, "me");
        fl_arena_done(&a);
    }
}

static void a_replacement_of_something_else_or_without_memory_is_refused(void **state)
{
    const struct fl_lease_record r = {.holder = "me"};
    struct fl_arena a;
    struct fl_span made = FL_SPAN("untouched");
    (void)state;
    fl_arena_init(&a, 16);
    assert_int_equal(fl_lease_json_replace(fl_span_of(lease), &r, &a, &made), -ENOMEM);
    assert_int_equal(fl_lease_json_replace(FL_SPAN("{}"), &r, &a, &made), -EBADMSG);
    assert_true(fl_span_is(made, "untouched"));
    fl_arena_done(&a);
}

/* --- times --- */

static void times_have_six_digits_always(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } row[] = {
        {0, "1970-01-01T00:00:00.000000Z"},        {1, "1970-01-01T00:00:00.000001Z"},
        {999, "1970-01-01T00:00:00.000999Z"},      {1000, "1970-01-01T00:00:00.001000Z"},
        {ACQUIRED, "2026-11-30T09:21:47.000123Z"}, {-1, "1969-12-31T23:59:59.999999Z"},
        {-1000, "1969-12-31T23:59:59.999000Z"},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(row); i++) {
        char t[FL_MICRO_TIME_MAX];
        int64_t back;
        assert_string_equal(fl_micro_time_text(row[i].us, t), row[i].text);
        assert_true(fl_micro_time_parse(fl_span_of(t), &back));
        assert_int_equal(back, row[i].us);
    }
}

static void any_number_of_digits_is_read(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } row[] = {
        {"1970-01-01T00:00:01Z", 1000000},           {"1970-01-01T00:00:01.5Z", 1500000},
        {"1970-01-01T00:00:01.25Z", 1250000},        {"1970-01-01T00:00:01.1234Z", 1123400},
        {"1970-01-01T00:00:01.123456789Z", 1123456}, {"1970-01-01T01:00:01.000001+01:00", 1000001},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(row); i++) {
        int64_t us = -1;
        assert_true(fl_micro_time_parse(fl_span_of(row[i].text), &us));
        assert_int_equal(us, row[i].us);
    }
    int64_t us = 7;
    assert_false(fl_micro_time_parse(FL_SPAN("1970-01-01"), &us));
    assert_false(fl_micro_time_parse(FL_SPAN(""), &us));
    assert_int_equal(us, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_read),
        cmocka_unit_test(what_is_absent_or_null_is_nothing),
        cmocka_unit_test(a_holder_without_a_time_is_a_holder),
        cmocka_unit_test(a_holder_without_end_is_cut),
        cmocka_unit_test(what_is_no_lease_is_refused_and_touches_nothing),
        cmocka_unit_test(a_new_lease_is_what_the_server_takes),
        cmocka_unit_test(a_replacement_changes_our_fields_and_nothing_else),
        cmocka_unit_test(a_lease_without_a_spec_gets_one),
        cmocka_unit_test(a_replacement_of_something_else_or_without_memory_is_refused),
        cmocka_unit_test(times_have_six_digits_always),
        cmocka_unit_test(any_number_of_digits_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
