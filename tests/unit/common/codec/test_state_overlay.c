#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What a push does to a file's configuration, and who owns what (contract.md section 3, last
 * paragraph). */
#include "common/codec/config_yaml.h"
#include "common/codec/state_json.h"
#include "common/model/directives.h"

static struct fl_findings f;
static struct fl_config *file;
static char said[8192];

#define FILE_TEXT                                                                                  \
    "drain_timeout: 7s\nhosts: [a.internal]\nbackends:\n"                                          \
    "  minio: {max_fails: 4, service: {namespace: s, name: m, port: s3}, peers: [{address: "       \
    "'10.0.0.1:1', weight: 5}, "                                                                   \
    "{address: '10.0.0.9:1', backup: true}]}\n"                                                    \
    "  web: {protocol: http, peers: [{address: '10.0.0.2:1'}]}\n"                                  \
    "routes: {a: minio, b: {backend: web, paths: {/x: {backend: minio}}}}\n"

static struct fl_config *load(const char *text)
{
    struct fl_config *c = fl_config_yaml_load("f", fl_span_of(text), NULL, 0, &f);
    assert_non_null(c);
    return c;
}

static int begin(void **state)
{
    (void)state;
    fl_findings_init(&f, "f");
    file = load(FILE_TEXT);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fl_config_free(file);
    fl_findings_done(&f);
    return 0;
}

static const char *errors(void)
{
    struct fl_fmt out = fl_fmt_of(said, sizeof(said));
    for (const struct fl_finding *i = f.first; i; i = i->next) {
        if (i->severity == FL_SEVERITY_ERROR) {
            fl_fmt_text(&out, i->text);
            fl_fmt_char(&out, '\n');
        }
    }
    return said;
}

static struct fl_config *over(const char *set)
{
    char body[2048];
    struct fl_fmt out = fl_fmt_of(body, sizeof(body));
    fl_fmt_printf(&out, "{\"epoch\":1,\"seq\":1,%s}", set);
    struct fl_state *s = fl_state_json_decode(fl_span_of(body), &f);
    if (!s) {
        print_error("%s", errors());
    }
    assert_non_null(s);
    struct fl_config *c = fl_state_overlay(file, s, &f);
    fl_state_free(s); /* the result owns its texts */
    return c;
}

static const struct fl_peer_conf *peer(const struct fl_backend_conf *b, const char *address)
{
    for (uint32_t i = 0; i < b->peer_count; i++) {
        if (strcmp(b->peers[i].address, address) == 0) {
            return &b->peers[i];
        }
    }
    return NULL;
}

static void no_push_gives_the_file(void **state)
{
    (void)state;
    struct fl_config *c = fl_state_overlay(file, NULL, &f);
    assert_non_null(c);
    char *a = fl_directives_show_text(file), *b = fl_directives_show_text(c);
    assert_string_equal(a, b);
    assert_true(c->hash == file->hash);
    assert_string_equal(c->file, "f");
    free(a);
    free(b);
    fl_config_free(file); /* and needs it no longer */
    file = NULL;
    assert_string_equal(fl_config_backend(c, "minio")->service.name, "m");
    assert_string_equal(fl_config_route(c, "b")->paths[0].prefix, "/x");
    fl_config_free(c);
}

static void members_fill_a_backend_of_the_file(void **state)
{
    (void)state;
    struct fl_config *c = over("\"backends\":{\"minio\":{\"peers\":[{\"address\":\"10.0.0.5:1\","
                               "\"tier\":\"last_resort\",\"zone\":\"z\"},"
                               "{\"address\":\"10.0.0.1:1\",\"weight\":0}]}}");
    assert_non_null(c);
    const struct fl_backend_conf *b = fl_config_backend(c, "minio");
    assert_int_equal(b->owner, FL_OWNER_FILE);
    assert_int_equal(b->max_fails, 4);
    assert_int_equal(b->peer_count, 3);
    assert_int_equal(peer(b, "10.0.0.5:1")->owner, FL_OWNER_CONTROLLER);
    assert_int_equal(peer(b, "10.0.0.5:1")->tier, FL_TIER_LAST_RESORT);
    assert_int_equal(peer(b, "10.0.0.5:1")->max_fails, 4); /* inherits as a written one does */
    assert_string_equal(peer(b, "10.0.0.5:1")->zone, "z");
    assert_int_equal(peer(b, "10.0.0.1:1")->weight, 0);
    assert_int_equal(peer(b, "10.0.0.1:1")->owner, FL_OWNER_FILE);
    assert_int_equal(peer(b, "10.0.0.9:1")->tier, FL_TIER_BACKUP);
    assert_int_equal(fl_config_backend(file, "minio")->peer_count, 2);
    assert_int_equal(fl_config_backend(file, "minio")->peers[0].weight, 5);
    fl_config_free(c);
}

static void members_are_no_part_of_the_written_configuration(void **state)
{
    (void)state;
    struct fl_config *c =
        over("\"backends\":{\"minio\":{\"peers\":[{\"address\":\"10.0.0.5:1\",\"zone\":\"z\"}]}}");
    assert_non_null(c);
    assert_true(c->hash == file->hash);
    char *text = fl_directives_show_text(c);
    assert_non_null(strstr(text, "# pushed: {address: \"10.0.0.5:1\""));
    assert_non_null(strstr(text, "zone: \"z\""));
    struct fl_config *again = load(text);
    assert_int_equal(fl_config_backend(again, "minio")->peer_count, 2);
    fl_config_free(again);
    free(text);
    fl_config_free(c);
}

static void a_definition_is_the_controllers(void **state)
{
    (void)state;
    struct fl_config *c = over(
        "\"backends\":{\"minio\":{\"protocol\":\"http\",\"peers\":[{\"address\":\"10.0.0.5:1\"}]},"
        "\"new\":{\"peers\":[{\"address\":\"10.0.0.6:1\"}]},\"seen\":{\"verdicts\":{}}},"
        "\"routes\":{\"a\":{\"backend\":\"new\"},\"z\":{\"invalid\":\"why\"}}");
    assert_non_null(c);
    const struct fl_backend_conf *b = fl_config_backend(c, "minio");
    assert_int_equal(b->owner, FL_OWNER_CONTROLLER);
    assert_int_equal(b->max_fails, 1); /* nothing of the file's definition is left */
    assert_string_equal(b->service.name, "");
    assert_int_equal(b->peer_count, 1);
    assert_int_equal(fl_config_backend(c, "new")->owner, FL_OWNER_CONTROLLER);
    assert_null(fl_config_backend(c, "seen"));
    assert_int_equal(fl_config_backend(c, "web")->owner, FL_OWNER_FILE);
    assert_string_equal(fl_config_route(c, "a")->backend, "new");
    assert_int_equal(fl_config_route(c, "a")->owner, FL_OWNER_CONTROLLER);
    assert_string_equal(fl_config_route(c, "z")->invalid, "why");
    assert_int_equal(fl_config_route(c, "b")->owner, FL_OWNER_FILE);
    /* a path of the file to a backend that changed its protocol follows it */
    assert_int_equal(fl_config_route(c, "b")->paths[0].policy.deadline_ms, 0);
    assert_int_equal(c->drain_timeout_ms, 7000);
    char *text = fl_directives_show_text(c);
    assert_non_null(strstr(text, "# invalid: \"z\" \"why\""));
    fl_config_free(load(text));
    free(text);
    fl_config_free(c);
}

static void a_push_that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    assert_null(over("\"routes\":{\"q\":{\"backend\":\"wbe\"}}"));
    assert_string_equal(errors(),
                        "routes.q.backend: there is no backend \"wbe\"; did you mean \"web\"?\n");
    assert_null(over("\"backends\":{\"web\":{\"peers\":[{\"address\":\"127.0.0.1:8420\"}]}}"));
}

static void overrides_reach_pushed_definitions(void **state)
{
    struct fl_config_override o = {"FAIRLEAD_DEADLINE", "5s"};
    (void)state;
    fl_config_free(file);
    file = fl_config_yaml_load("f", FL_SPAN(FILE_TEXT), &o, 1, &f);
    assert_non_null(file);
    struct fl_config *c =
        over("\"backends\":{\"n\":{\"peers\":[]}},\"routes\":{\"n\":{\"backend\":\"n\"}}");
    assert_non_null(c);
    assert_int_equal(fl_config_route(c, "n")->policy.deadline_ms, 5000);
    fl_config_free(c);
}

static void newest_wins(void **state)
{
    (void)state;
    assert_true(fl_state_newer(1, 2, 1, 1));
    assert_true(fl_state_newer(2, 0, 1, 9));
    assert_false(fl_state_newer(1, 1, 1, 1));
    assert_false(fl_state_newer(1, 9, 2, 0));
    assert_false(fl_state_newer(1, 0, 1, 1));
}

static void owners_are_kept(void **state)
{
    (void)state;
    struct fl_config *c = over(
        "\"backends\":{\"pushed\":{\"protocol\":\"http\",\"peers\":[{\"address\":\"10.0.0.5:1\"}]},"
        "\"web\":{\"protocol\":\"http\",\"max_fails\":9,\"peers\":[{\"address\":\"10.0.0.6:1\"}]}},"
        "\"routes\":{\"p\":{\"backend\":\"pushed\"}}");
    assert_non_null(c);
    /* what GET config showed, sent back: the controller's part is taken out */
    char *text = fl_directives_show_text(c);
    struct fl_config *same = load(text);
    assert_true(fl_state_settle_owners(file, c, same, &f));
    assert_null(fl_config_backend(same, "pushed"));
    assert_null(fl_config_backend(same, "web"));
    assert_null(fl_config_route(same, "p"));
    assert_non_null(fl_config_backend(same, "minio"));
    assert_int_equal(same->route_count, 2);
    fl_config_free(same);
    free(text);
    /* the same file again (SIGHUP): its shadowed definition stays behind the controller's */
    struct fl_config *again = load(FILE_TEXT);
    assert_true(fl_state_settle_owners(file, c, again, &f));
    assert_non_null(fl_config_backend(again, "web"));
    fl_config_free(again);
    /* a change of what is the controller's */
    struct fl_config *other = load("backends: {pushed: {protocol: http, max_fails: 2, peers: "
                                   "[]}}\nroutes: {p: pushed, mine: pushed}\n");
    assert_false(fl_state_settle_owners(file, c, other, &f));
    assert_string_equal(errors(), "backends.pushed: belongs to the controller, which pushed it; "
                                  "change it there, or take it out here\n");
    fl_config_free(other);
    fl_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_push_gives_the_file, begin, end),
        cmocka_unit_test_setup_teardown(members_fill_a_backend_of_the_file, begin, end),
        cmocka_unit_test_setup_teardown(members_are_no_part_of_the_written_configuration, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_definition_is_the_controllers, begin, end),
        cmocka_unit_test_setup_teardown(a_push_that_does_not_fit_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(overrides_reach_pushed_definitions, begin, end),
        cmocka_unit_test_setup_teardown(newest_wins, begin, end),
        cmocka_unit_test_setup_teardown(owners_are_kept, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
