#include "controller/decide/pods.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"
#include "common/base/rng.h"

static struct fl_pods *store;

static int set_up(void **state)
{
    (void)state;
    store = fl_pods_new(1);
    return store ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    store = fl_pods_free(store);
    return 0;
}

static struct fl_kube_pod pod_of(const char *namespace, const char *name)
{
    return (struct fl_kube_pod){.meta = {namespace, name, "uid", "1"},
                                .node = "node",
                                .ip = "10.0.0.1",
                                .phase = "Running",
                                .started = true};
}

static bool put(const struct fl_kube_pod *p)
{
    bool changed = false;
    assert_int_equal(fl_pods_put(store, p, &changed), 0);
    return changed;
}

static bool put_named(const char *namespace, const char *name)
{
    struct fl_kube_pod p = pod_of(namespace, name);
    return put(&p);
}

/* "a/b c/d": all pods in their order. */
static void expect(const char *wanted)
{
    char text[512];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    uint32_t n = 0;
    for (const struct fl_kube_pod *p = NULL; (p = fl_pods_next(store, p)) != NULL; n++) {
        fl_fmt_printf(&f, "%s%s/%s", n ? " " : "", p->meta.namespace, p->meta.name);
    }
    assert_string_equal(text, wanted);
    assert_int_equal(fl_pods_count(store), n);
}

static void pods_are_walked_in_order(void **state)
{
    (void)state;
    expect("");
    put_named("b", "x");
    put_named("a", "z");
    put_named("ab", "a");
    put_named("a", "y");
    expect("a/y a/z ab/a b/x");
    assert_true(fl_pods_remove(store, "a", "z"));
    assert_false(fl_pods_remove(store, "a", "z"));
    expect("a/y ab/a b/x");
}

static void only_what_we_use_is_a_change(void **state)
{
    (void)state;
    struct fl_kube_annotation of[] = {{"fairlead.dev/x", "1"}}, other[] = {{"fairlead.dev/x", "2"}};
    struct fl_kube_annotation third[] = {{"fairlead.dev/y", "2"}};
    struct fl_kube_pod p = pod_of("a", "b");
    assert_true(put(&p));
    assert_false(put(&p));
    p.meta.resource_version = "2";
    assert_false(put(&p));
#define CHANGES(what)                                                                              \
    what;                                                                                          \
    assert_true(put(&p));                                                                          \
    assert_false(put(&p))
    CHANGES(p.meta.uid = "other");
    CHANGES(p.node = "n2");
    CHANGES(p.ip = "10.0.0.2");
    CHANGES(p.phase = "Pending");
    CHANGES(p.deleting = true);
    CHANGES(p.started = false);
    CHANGES(p.gate = FL_GATE_FALSE);
    CHANGES(p.gate = FL_GATE_TRUE);
    CHANGES(p.annotations = of; p.annotation_count = 1);
    CHANGES(p.annotations = other);
    CHANGES(p.annotations = third);
    CHANGES(p.annotation_count = 0);
}

static void texts_are_copies(void **state)
{
    (void)state;
    char key[] = "fairlead.dev/log-level", value[] = "debug", ip[] = "10.9.9.9";
    struct fl_kube_annotation of[] = {{key, value}};
    struct fl_kube_pod p = pod_of("a", "b");
    p.ip = ip;
    p.annotations = of;
    p.annotation_count = 1;
    put(&p);
    memset(key, 'x', sizeof(key) - 1);
    memset(value, 'x', sizeof(value) - 1);
    memset(ip, 'x', sizeof(ip) - 1);
    const struct fl_kube_pod *kept = fl_pods_next(store, NULL);
    assert_string_equal(kept->ip, "10.9.9.9");
    assert_string_equal(kept->annotations[0].key, "fairlead.dev/log-level");
    assert_string_equal(kept->annotations[0].value, "debug");
    assert_string_equal(kept->meta.uid, "uid");
    assert_string_equal(kept->meta.resource_version, "");
    assert_string_equal(kept->node, "node");
}

static void the_bootstrap_is_not_kept(void **state)
{
    (void)state;
    struct fl_kube_annotation of[] = {{"FairLead.dev/bootstrap", "long"}, {"fairlead.dev/x", "1"}};
    struct fl_kube_pod p = pod_of("a", "b");
    p.annotations = of;
    p.annotation_count = 2;
    put(&p);
    const struct fl_kube_pod *kept = fl_pods_next(store, NULL);
    assert_int_equal(kept->annotation_count, 1);
    assert_string_equal(kept->annotations[0].key, "fairlead.dev/x");
    of[0].value = "another";
    assert_false(put(&p));
}

static void a_relist_drops_what_it_did_not_name(void **state)
{
    (void)state;
    put_named("a", "1");
    put_named("a", "2");
    put_named("a", "3");
    fl_pods_begin(store);
    assert_false(put_named("a", "3"));
    fl_pods_begin(store); /* once more */
    assert_false(put_named("a", "2"));
    assert_true(put_named("a", "4"));
    expect("a/1 a/2 a/3 a/4");
    assert_true(fl_pods_end(store));
    expect("a/2 a/4");
    fl_pods_begin(store);
    put_named("a", "2");
    put_named("a", "4");
    assert_false(fl_pods_end(store));
    put_named("a", "0");
    fl_pods_begin(store);
    assert_true(fl_pods_end(store));
    expect("");
}

static void a_push_needs_an_address_and_a_sidecar_that_runs(void **state)
{
    (void)state;
    struct fl_kube_pod p = pod_of("a", "b");
    assert_true(fl_pods_is_target(&p));
    p.deleting = true;
    assert_true(fl_pods_is_target(&p));
    p.phase = "Pending"; /* a native sidecar runs before its pod does */
    assert_true(fl_pods_is_target(&p));
    p.phase = "Failed";
    assert_false(fl_pods_is_target(&p));
    p.phase = "Succeeded";
    assert_false(fl_pods_is_target(&p));
    p.phase = "Running";
    p.ip = "";
    assert_false(fl_pods_is_target(&p));
    p.ip = "10.0.0.1";
    p.started = false;
    assert_false(fl_pods_is_target(&p));
}

static const char *key_of(const char *namespace, struct fl_kube_annotation *of, uint32_t count)
{
    static char keys[4][FL_POD_CONFIGURATION_MAX];
    static unsigned at;
    struct fl_kube_pod p = pod_of(namespace, "x");
    p.annotations = of;
    p.annotation_count = count;
    char *key = keys[at++ % 4];
    fl_pods_configuration(&p, key);
    return key;
}

static void one_key_is_one_configuration(void **state)
{
    (void)state;
    struct fl_kube_annotation a[] = {{"fairlead.dev/a", "1"}, {"route.fairlead.dev/b", "2"}};
    struct fl_kube_annotation b[] = {{"fairlead.dev/a", "1"},
                                     {"fairlead.dev/bootstrap", "x"},
                                     {"fairlead.dev/injected-hash", "y"},
                                     {"route.fairlead.dev/b", "2"}};
    struct fl_kube_annotation c[] = {{"fairlead.dev/a", "1r"}, {"oute.fairlead.dev/b", "2"}};
    struct fl_kube_annotation injected[] = {{"fairlead.dev/bootstrap", "x"}};
    assert_string_equal(key_of("shop", a, 2), key_of("shop", b, 4));
    assert_string_not_equal(key_of("shop", a, 2), key_of("shop", a, 1));
    assert_string_not_equal(key_of("shop", a, 2), key_of("shop", c, 2));
    assert_string_not_equal(key_of("shop", a, 2), key_of("other", a, 2));
    assert_string_equal(key_of("shop", NULL, 0), "");
    assert_string_equal(key_of("shop", injected, 1), "");
    char longest[64];
    memset(longest, 'n', 63);
    longest[63] = '\0';
    assert_int_equal(strlen(key_of(longest, a, 2)), 32 + 1 + 63);
    assert_string_equal(key_of(longest, a, 2) + 33, longest);
}

/* Against a plain set of flags. */
static void random_histories_agree_with_a_set(void **state)
{
    (void)state;
    static char names[300][8];
    bool there[300] = {false}, listed[300] = {false};
    struct fl_rng rng;
    fl_rng_seed(&rng, 5);
    for (unsigned i = 0; i < 300; i++) {
        struct fl_fmt f = fl_fmt_of(names[i], sizeof(names[i]));
        fl_fmt_printf(&f, "p%u", i);
    }
    for (unsigned step = 0; step < 20000; step++) {
        unsigned i = fl_rng_below(&rng, 300), op = fl_rng_below(&rng, 100);
        if (op < 60) {
            assert_int_equal(put_named(i % 3 ? "a" : "b", names[i]), !there[i]);
            there[i] = listed[i] = true;
        } else if (op < 98) {
            assert_int_equal(fl_pods_remove(store, i % 3 ? "a" : "b", names[i]), there[i]);
            there[i] = false;
        } else if (op == 98) {
            fl_pods_begin(store);
            memset(listed, 0, sizeof(listed));
        } else {
            bool gone = false;
            for (unsigned k = 0; k < 300; k++) {
                gone = gone || (there[k] && !listed[k]);
                there[k] = there[k] && listed[k];
            }
            assert_int_equal(fl_pods_end(store), gone);
        }
        unsigned count = 0;
        for (unsigned k = 0; k < 300; k++) {
            count += there[k];
        }
        assert_int_equal(fl_pods_count(store), count);
    }
    const struct fl_kube_pod *last = NULL;
    for (const struct fl_kube_pod *p = NULL; (p = fl_pods_next(store, p)) != NULL; last = p) {
        assert_true(there[strtoul(p->meta.name + 1, NULL, 10)]);
        if (last) {
            int c = strcmp(last->meta.namespace, p->meta.namespace);
            assert_true(c < 0 || (c == 0 && strcmp(last->meta.name, p->meta.name) < 0));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(pods_are_walked_in_order),
        TEST(only_what_we_use_is_a_change),
        TEST(texts_are_copies),
        TEST(the_bootstrap_is_not_kept),
        TEST(a_relist_drops_what_it_did_not_name),
        TEST(a_push_needs_an_address_and_a_sidecar_that_runs),
        TEST(one_key_is_one_configuration),
        TEST(random_histories_agree_with_a_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
