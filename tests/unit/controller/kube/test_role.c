#include "controller/kube/role.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/yaml.h"

#define MANIFEST   FL_SOURCE_DIR "/deploy/manifests/controller-rbac.yaml"
#define RIGHTS_MAX 64
#define TEXT_MAX   200

struct rights { /* "verb group/resource in NAMESPACE name NAME" */
    char text[RIGHTS_MAX][TEXT_MAX];
    size_t count;
};

static const struct fl_role role = {
    .election = true, .namespace = "fairlead", .lease = "fairlead-controller"};
static char file[32768];
static struct fl_arena arena;

static void add(struct rights *r, const char *verb, const char *group, const char *resource,
                const char *namespace, const char *name)
{
    assert_true(r->count < RIGHTS_MAX);
    (void)snprintf(r->text[r->count++], TEXT_MAX, "%s %s/%s in '%s' name '%s'", verb, group,
                   resource, namespace, name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void sort(struct rights *r)
{
    qsort(r->text, r->count, TEXT_MAX, by_text);
}

static const char *text(const struct fl_node *n)
{
    char *t = n ? fl_arena_text(&arena, n->text) : NULL;
    return t ? t : "";
}

/* The values of a list, "" when there is none. */
static size_t list(const struct fl_node *rule, const char *key, const char *ret[8])
{
    const struct fl_node *l = fl_node_get(rule, key);
    size_t n = 0;
    ret[0] = "";
    for (const struct fl_node *i = l ? l->first : NULL; i; i = i->next) {
        assert_true(n < 8);
        ret[n++] = text(i);
    }
    return n ? n : 1;
}

static void expand(const struct fl_node *rule, const char *namespace, struct rights *r)
{
    const char *groups[8], *resources[8], *names[8], *verbs[8];
    size_t g = list(rule, "apiGroups", groups), s = list(rule, "resources", resources);
    size_t n = list(rule, "resourceNames", names), v = list(rule, "verbs", verbs);
    for (size_t i = 0; i < g * s * n * v; i++) {
        add(r, verbs[i % v], groups[i / v % g], resources[i / v / g % s], namespace,
            names[i / v / g / s]);
    }
}

/* The documents of the manifest, one after the other; NULL at the end. */
static const struct fl_node *next_document(char **at)
{
    struct fl_findings f;
    char *from = *at, *end = from ? strstr(from, "\n---\n") : NULL;
    if (from == NULL) {
        return NULL;
    }
    *at = end ? end + 5 : NULL;
    size_t len = end ? (size_t)(end - from) + 1 : strlen(from);
    fl_findings_init(&f, "");
    const struct fl_node *n = fl_yaml_parse((struct fl_span){from, len}, &arena, &f);
    fl_findings_done(&f);
    assert_non_null(n);
    return n;
}

static int set_up(void **state)
{
    (void)state;
    FILE *in = fopen(MANIFEST, "r");
    assert_non_null(in);
    size_t n = fread(file, 1, sizeof(file) - 1, in);
    assert_in_range(n, 1, sizeof(file) - 2);
    file[n] = '\0';
    fl_arena_init(&arena, (size_t)8 << 20);
    return fclose(in);
}

static int tear_down(void **state)
{
    (void)state;
    fl_arena_done(&arena);
    return 0;
}

static bool is_kind(const struct fl_node *d, const char *kind)
{
    return strcmp(text(fl_node_get(d, "kind")), kind) == 0;
}

static void the_manifest_grants_exactly_what_is_needed(void **state)
{
    static struct rights granted, needed;
    struct fl_self_check_row rows[FL_ROLE_ROWS_MAX];
    char *at = file;
    (void)state;
    for (const struct fl_node *d; (d = next_document(&at)) != NULL;) {
        const char *namespace = text(fl_node_get(fl_node_get(d, "metadata"), "namespace"));
        const struct fl_node *rules = fl_node_get(d, "rules");
        assert_int_equal(rules != NULL, is_kind(d, "ClusterRole") || is_kind(d, "Role"));
        assert_true(is_kind(d, "ClusterRole") || is_kind(d, "ClusterRoleBinding") ||
                    strcmp(namespace, "fairlead") == 0);
        for (const struct fl_node *i = rules ? rules->first : NULL; i; i = i->next) {
            expand(i, namespace, &granted);
        }
    }
    size_t n = fl_role_rows(&role, rows);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(rows[i].subresource, "");
        add(&needed, rows[i].verb, rows[i].group, rows[i].resource, rows[i].namespace,
            rows[i].name);
    }
    sort(&granted);
    sort(&needed);
    for (size_t i = 0; i < granted.count || i < needed.count; i++) {
        assert_string_equal(i < granted.count ? granted.text[i] : "(not granted)",
                            i < needed.count ? needed.text[i] : "(not needed)");
    }
    assert_int_equal(n, FL_ROLE_ROWS_MAX);
}

static void each_role_is_bound_to_the_account(void **state)
{
    char *at = file;
    int bound = 0, accounts = 0;
    (void)state;
    for (const struct fl_node *d; (d = next_document(&at)) != NULL;) {
        accounts += is_kind(d, "ServiceAccount");
        if (!is_kind(d, "ClusterRoleBinding") && !is_kind(d, "RoleBinding")) {
            continue;
        }
        const struct fl_node *ref = fl_node_get(d, "roleRef");
        const struct fl_node *subject = fl_node_get(d, "subjects")->first;
        assert_string_equal(text(fl_node_get(ref, "kind")),
                            is_kind(d, "RoleBinding") ? "Role" : "ClusterRole");
        assert_string_equal(text(fl_node_get(ref, "name")), "fairlead-controller");
        assert_string_equal(text(fl_node_get(subject, "kind")), "ServiceAccount");
        assert_string_equal(text(fl_node_get(subject, "name")), "fairlead-controller");
        assert_string_equal(text(fl_node_get(subject, "namespace")), "fairlead");
        assert_null(subject->next);
        bound++;
    }
    assert_int_equal(bound, 2);
    assert_int_equal(accounts, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_manifest_grants_exactly_what_is_needed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(each_role_is_bound_to_the_account, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
