/* What is shown is accepted again and means the same, for every key of the table: GET config, then
 * PUT. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/units.h"
#include "common/codec/config_yaml.h"
#include "common/model/directives.h"
#include "common/model/directives_table.h"
#include "common/model/outcome.h"
#include "tests/unit/common/codec/findings_kit.h"

#define PEERS   "peers: [{address: '10.0.0.1:9000'}]"
#define BACKEND "backends: {s: {" PEERS "}}\n"
#define ROUTE   "routes: {a: {backend: s}}\n"

/* Where a key of a scope stands in a document: before, "key: value", after. */
static const struct {
    enum fl_scope scope;
    const char *before, *after;
} places[] = {
    {FL_SCOPE_ROOT, BACKEND ROUTE, "\n"},
    {FL_SCOPE_LISTEN, BACKEND ROUTE "listen: {", "}\n"},
    {FL_SCOPE_CLIENT, BACKEND ROUTE "client: {", "}\n"},
    {FL_SCOPE_PUSH, BACKEND ROUTE "push: {", "}\n"},
    {FL_SCOPE_BACKEND, ROUTE "backends: {s: {" PEERS ", ", "}}\n"},
    {FL_SCOPE_SERVICE, ROUTE "backends: {s: {service: {", "}}}\n"},
    {FL_SCOPE_QUEUE, ROUTE "backends: {s: {" PEERS ", queue: {", "}}}\n"},
    {FL_SCOPE_KEEPALIVE, ROUTE "backends: {s: {" PEERS ", keepalive: {", "}}}\n"},
    {FL_SCOPE_RETRY_BUDGET, ROUTE "backends: {s: {" PEERS ", retry_budget: {", "}}}\n"},
    {FL_SCOPE_TLS, ROUTE "backends: {s: {" PEERS ", tls: {", "}}}\n"},
    {FL_SCOPE_PROBE, ROUTE "backends: {s: {" PEERS ", probe: {", "}}}\n"},
    {FL_SCOPE_PEER, ROUTE "backends: {s: {peers: [{", "}]}}\n"},
    {FL_SCOPE_ROUTE, BACKEND "routes: {a: {", "}}\n"},
    {FL_SCOPE_POLICY, BACKEND "routes: {a: {backend: s, ", "}}\n"},
    {FL_SCOPE_PATH, BACKEND "routes: {a: {backend: s, paths: {'/p': {", "}}}}\n"},
};

/* What some keys need beside them. */
static const struct {
    enum fl_scope scope;
    const char *name, *beside; /* NULL: any other key of the scope */
} company[] = {
    {FL_SCOPE_SERVICE, "namespace", ", name: n, port: p"},
    {FL_SCOPE_SERVICE, "name", ", namespace: n, port: p"},
    {FL_SCOPE_SERVICE, "port", ", namespace: n, name: p"},
    {FL_SCOPE_QUEUE, "size", ""},
    {FL_SCOPE_QUEUE, NULL, ", size: 5"},
    {FL_SCOPE_TLS, "server_name", ""},
    {FL_SCOPE_TLS, "cert_file", ", server_name: x, key_file: y"},
    {FL_SCOPE_TLS, "key_file", ", server_name: x, cert_file: y"},
    {FL_SCOPE_TLS, NULL, ", server_name: x"},
    {FL_SCOPE_PROBE, "access_key_file", ", secret_key_file: y"},
    {FL_SCOPE_PROBE, "secret_key_file", ", access_key_file: y"},
    {FL_SCOPE_PEER, "address", ""},
    {FL_SCOPE_PEER, NULL, ", address: '10.0.0.1:9000'"},
    {FL_SCOPE_ROUTE, "backend", ""},
    {FL_SCOPE_ROUTE, NULL, ", backend: s"},
};

static const char *beside(const struct fl_directive *d)
{
    for (size_t i = 0; i < FL_COUNTOF(company); i++) {
        if (company[i].scope == d->scope &&
            (company[i].name == NULL || strcmp(company[i].name, d->name) == 0)) {
            return company[i].beside;
        }
    }
    return "";
}

static char *shown_of(const char *text)
{
    struct fl_config *c = fl_config_yaml_load("f", fl_span_of(text), NULL, 0, &f);
    char *shown = c != NULL ? fl_directives_show_text(c) : NULL;
    fl_config_free(c);
    return shown;
}

/* Words that a reader of YAML 1.1 takes for a truth value stand bare for booleans only. */
static void has_no_stray_words(const char *shown)
{
    static const char *const words[] = {"off", "on", "yes", "no"};
    for (size_t i = 0; i < FL_COUNTOF(words); i++) {
        char bare[16];
        (void)snprintf(bare, sizeof(bare), " %s\n", words[i]);
        assert_null(strstr(shown, bare));
        (void)snprintf(bare, sizeof(bare), " %s:", words[i]);
        assert_null(strstr(shown, bare));
    }
}

/* 1 when the document is one that is accepted. */
static unsigned goes_round(const char *text)
{
    char *shown = shown_of(text);
    if (shown == NULL) {
        return 0;
    }
    fl_findings_done(&f);
    fl_findings_init(&f, "f");
    char *again = shown_of(shown);
    if (again == NULL) {
        print_error("%s\nis shown as\n%s\n%s", text, shown, findings());
    }
    assert_non_null(again);
    assert_string_equal(again, shown);
    has_no_stray_words(shown);
    free(again);
    free(shown);
    return 1;
}

static unsigned try_value(size_t place, const struct fl_directive *d, const char *value)
{
    char text[2048];
    int n = snprintf(text, sizeof(text), "%s%s: %s%s%s", places[place].before, d->name, value,
                     beside(d), places[place].after);
    assert_in_range(n, 1, sizeof(text) - 1);
    return goes_round(text);
}

static unsigned try_number(size_t place, const struct fl_directive *d, int64_t v)
{
    char text[64];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    if (d->type == FL_TYPE_DURATION) {
        fl_units_print_duration(&out, v);
    } else if (d->type == FL_TYPE_SIZE) {
        fl_units_print_size(&out, (uint64_t)v);
    } else {
        fl_fmt_int(&out, v);
        fl_fmt_text(&out, d->type == FL_TYPE_PERCENT    ? "%"
                          : d->type == FL_TYPE_MULTIPLE ? "x"
                                                        : "");
    }
    unsigned good = try_value(place, d, text);
    assert_int_equal(good, 1);
    return good;
}

static unsigned try_words(size_t place, const struct fl_directive *d)
{
    unsigned good = 0;
    for (size_t i = 0; d->words[i] != NULL; i++) {
        char quoted[64];
        (void)snprintf(quoted, sizeof(quoted), "\"%s\"", d->words[i]);
        good += try_value(place, d, d->words[i]) && try_value(place, d, quoted);
        bool off = strcmp(d->words[i], "off") == 0;
        assert_true(!off || try_value(place, d, "false"));
    }
    return good;
}

static unsigned try_conditions(size_t place, const struct fl_directive *d)
{
    unsigned good = 0;
    for (uint32_t bit = FL_ON_ERROR; bit <= FL_ON_NON_IDEMPOTENT; bit <<= 1) {
        char list[64];
        (void)snprintf(list, sizeof(list), "[%s]", fl_condition_name((enum fl_condition)bit));
        good += try_value(place, d, list);
    }
    assert_true(try_value(place, d, "off"));
    assert_true(try_value(place, d, "'off'"));
    assert_true(try_value(place, d, "false"));
    return good;
}

static unsigned try_texts(size_t place, const struct fl_directive *d)
{
    static const char *const texts[] = {
        "x",         "off",       "false",   "null.x",  "123",       "1.10",
        "'a: b #c'", "\"\\\"q\"", "'\\'",    "'- [{'",  "\xc3\xa9",  "'%'",
        "'s'",       "/p",        "200,404", "x:9000",  "[::1]:90",  "127.0.0.1:80",
        "'*'",       "[x, 'no']", "'~'",     "s3.on.y", "x.internal"};
    unsigned good = 0;
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        char quoted[64];
        (void)snprintf(quoted, sizeof(quoted), "\"%s\"", texts[i]);
        good += try_value(place, d, texts[i]);
        good += texts[i][0] == '[' && texts[i][1] == ':' ? try_value(place, d, quoted) : 0;
    }
    return good;
}

static unsigned try_key(size_t place, const struct fl_directive *d)
{
    if (d->flags & (FL_D_PUSH | FL_D_ANNOTATION)) {
        return 1; /* not a file's */
    }
    if (d->type <= FL_TYPE_THREADS) {
        unsigned good = try_number(place, d, d->min) + try_number(place, d, d->max);
        assert_true(!(d->flags & FL_D_ZERO) || try_number(place, d, 0));
        assert_true(!(d->flags & FL_D_OFF) ||
                    (try_value(place, d, "off") && try_value(place, d, "false")));
        assert_true(d->type != FL_TYPE_THREADS || try_value(place, d, "auto"));
        return good;
    }
    if (d->type == FL_TYPE_BOOL || d->type == FL_TYPE_BACKUP) {
        return try_value(place, d, "true") + try_value(place, d, "false");
    }
    if (d->type == FL_TYPE_ENUM) {
        return try_words(place, d);
    }
    if (d->type == FL_TYPE_CONDITIONS) {
        return try_conditions(place, d);
    }
    return d->type <= FL_TYPE_NAMESPACES ? try_texts(place, d) : 1; /* the rest are mappings */
}

static void every_key_of_the_table_goes_round(void **state)
{
    unsigned keys = 0;
    (void)state;
    for (size_t place = 0; place < FL_COUNTOF(places); place++) {
        unsigned count;
        const struct fl_directive *d = fl_scope_rows(places[place].scope, &count);
        for (unsigned i = 0; i < count; i++, keys++) {
            unsigned good = try_key(place, &d[i]);
            if (good == 0) {
                print_error("no value of %s was accepted: %s\n", d[i].name, findings());
            }
            assert_true(good > 0);
        }
    }
    assert_true(keys > 80);
}

/* A scope that is new in the table is new here. */
static void every_scope_of_a_sidecar_is_looked_at(void **state)
{
    (void)state;
    for (int s = 0; s < FL_SCOPE_COUNT; s++) {
        bool found = !(fl_scope_row((enum fl_scope)s)->document & FL_IN_SIDECAR);
        for (size_t i = 0; i < FL_COUNTOF(places); i++) {
            found = found || places[i].scope == (enum fl_scope)s;
        }
        assert_true(found);
    }
}

static void names_of_backends_and_routes_go_round(void **state)
{
    static const char *const names[] = {"off", "no",  "on",   "yes", "null", "true", "123",
                                        "1e3", "0x1", "1.10", "a-b", "y",    "n",    "2026-11-30"};
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text),
                       "backends: {\"%s\": {" PEERS "}}\nroutes: {\"%s\": {backend: \"%s\"}}\n",
                       names[i], names[i], names[i]);
        unsigned good = goes_round(text);
        assert_true(good || strlen(names[i]) < 3); /* no bucket has so short a name */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_key_of_the_table_goes_round, begin, end),
        cmocka_unit_test_setup_teardown(every_scope_of_a_sidecar_is_looked_at, begin, end),
        cmocka_unit_test_setup_teardown(names_of_backends_and_routes_go_round, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
