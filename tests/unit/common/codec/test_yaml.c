#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/codec/json_parse.h"
#include "common/codec/yaml.h"

struct tree {
    struct fl_arena a;
    struct fl_findings f;
    const struct fl_node *root;
    char text[512]; /* the findings */
};

typedef struct fl_node *parse_fn(struct fl_span text, struct fl_arena *a, struct fl_findings *f);

static struct tree parse(parse_fn *with, struct fl_span text)
{
    struct tree t;
    fl_arena_init(&t.a, (size_t)64 << 20);
    fl_findings_init(&t.f, "");
    t.root = with(text, &t.a, &t.f);
    struct fl_fmt out = fl_fmt_of(t.text, sizeof(t.text));
    for (const struct fl_finding *i = t.f.first; i; i = i->next) {
        fl_findings_print(&t.f, i, &out);
    }
    assert_true(!t.root == (t.f.errors > 0));
    return t;
}

static void done(struct tree *t)
{
    fl_findings_done(&t->f);
    fl_arena_done(&t->a);
}

static void nodes_have_places(void **state)
{
    (void)state;
    struct tree t =
        parse(fl_yaml_parse, FL_SPAN("# c\na: 1\nb:\n  - x\n  - {c: 'd', e: }\nf: \"\"\n"));
    const struct fl_node *a = fl_node_get(t.root, "a"), *b = fl_node_get(t.root, "b"),
                         *f = fl_node_get(t.root, "f");
    assert_int_equal(t.root->kind, FL_NODE_MAP);
    assert_true(fl_span_is(a->text, "1") && !a->quoted && a->kind == FL_NODE_SCALAR);
    assert_int_equal(a->line, 2);
    assert_int_equal(a->column, 4);
    assert_int_equal(b->key_line, 3);
    assert_int_equal(b->line, 4);
    assert_int_equal(b->kind, FL_NODE_LIST);
    const struct fl_node *map = b->first->next;
    assert_int_equal(map->kind, FL_NODE_MAP);
    assert_true(fl_node_get(map, "c")->quoted);
    assert_int_equal(fl_node_get(map, "e")->kind, FL_NODE_NULL);
    assert_null(map->next);
    assert_int_equal(f->kind, FL_NODE_SCALAR); /* "" is a text, not nothing */
    assert_true(f->quoted && f->text.len == 0);
    assert_null(fl_node_get(t.root, "g"));
    assert_null(fl_node_get(a, "g"));
    assert_null(fl_node_get(NULL, "g"));
    done(&t);
}

static void empty_documents(void **state)
{
    static const char *const texts[] = {"",  "\n\n", "# only\n",   "---\n", "\xef\xbb\xbf",
                                        "~", "null", "--- \n...\n"};
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        struct tree t = parse(fl_yaml_parse, fl_span_of(texts[i]));
        assert_non_null(t.root);
        assert_int_equal(t.root->kind, FL_NODE_NULL);
        done(&t);
    }
}

static void yaml_is_bounded(void **state)
{
    (void)state;
    char deep[64] = {0};
    memset(deep, '[', FL_YAML_DEPTH_MAX);
    memset(deep + FL_YAML_DEPTH_MAX, ']', FL_YAML_DEPTH_MAX);
    struct tree t = parse(fl_yaml_parse, fl_span_of(deep));
    assert_non_null(t.root);
    done(&t);
    memset(deep, '[', FL_YAML_DEPTH_MAX + 1);
    t = parse(fl_yaml_parse, fl_span_of(deep));
    assert_string_equal(t.text, "line 1: error: this is nested too deeply");
    done(&t);
    size_t n = FL_YAML_BYTES_MAX + 1;
    char *large = malloc(n);
    assert_non_null(large);
    memset(large, '#', n);
    t = parse(fl_yaml_parse, (struct fl_span){large, n});
    assert_string_equal(t.text, "error: the document is larger than 4 MiB");
    done(&t);
    t = parse(fl_yaml_parse, (struct fl_span){large, n - 1});
    assert_non_null(t.root);
    done(&t);
    free(large);
}

static void refused(parse_fn *with, struct fl_span text, const char *why)
{
    struct tree t = parse(with, text);
    assert_null(t.root);
    if (!strstr(t.text, why)) {
        print_error("%s\n", t.text);
    }
    assert_non_null(strstr(t.text, why));
    done(&t);
}

static void what_yaml_is_refused(void **state)
{
    (void)state;
    refused(fl_yaml_parse, FL_SPAN("a: &x 1\n"), "line 1: error: anchors");
    refused(fl_yaml_parse, FL_SPAN("a: &x [1]\n"), "line 1: error: anchors");
    refused(fl_yaml_parse, FL_SPAN("&x a: 1\n"), "anchors");
    refused(fl_yaml_parse, FL_SPAN("a: 1\nb: *x\n"), "line 2: error: aliases");
    refused(fl_yaml_parse, FL_SPAN("<<: *x\n"), "aliases");
    refused(fl_yaml_parse, FL_SPAN("a: !!int 1\n"), "tags");
    refused(fl_yaml_parse, FL_SPAN("a: !x {b: c}\n"), "tags");
    refused(fl_yaml_parse, FL_SPAN("a: 1\n--- \nb: 1\n"), "line 2: error: a second document");
    refused(fl_yaml_parse, FL_SPAN("a: \"x\\0y\"\n"), "NUL");
    refused(fl_yaml_parse, FL_SPAN("a: x\0y\n"), "line 1: error: a NUL byte");
    refused(fl_yaml_parse, FL_SPAN("a: 1\n\tb: 2\n"), "line 2: error: a tab");
    refused(fl_yaml_parse, FL_SPAN("? [a]\n: b\n"), "a key is one word");
    refused(fl_yaml_parse, FL_SPAN("a: \xff\n"), "UTF-8");
    refused(fl_yaml_parse, FL_SPAN("a: \"\\ud800\"\n"), "not valid YAML");
    refused(fl_yaml_parse, FL_SPAN("a: @b\n"), "quote the value");
}

static void json_is_the_same_tree(void **state)
{
    (void)state;
    struct tree t = parse(fl_json_parse, FL_SPAN("{\"a\":1,\"b\":[\"x\",{\"c\":null,\"d\":true,"
                                                 "\"e\":1.50,\"f\":-3}],\"\":\"\\u00e9\"}"));
    const struct fl_node *b = fl_node_get(t.root, "b"), *map = b->first->next;
    assert_true(fl_span_is(fl_node_get(t.root, "a")->text, "1") &&
                !fl_node_get(t.root, "a")->quoted);
    assert_true(b->first->quoted && fl_span_is(b->first->text, "x"));
    assert_int_equal(fl_node_get(map, "c")->kind, FL_NODE_NULL);
    assert_true(fl_span_is(fl_node_get(map, "d")->text, "true"));
    assert_true(fl_span_is(fl_node_get(map, "e")->text, "1.50"));
    assert_true(fl_span_is(fl_node_get(map, "f")->text, "-3"));
    assert_true(fl_span_is(fl_node_get(t.root, "")->text, "\xc3\xa9"));
    assert_int_equal(b->line, 0);
    done(&t);
    t = parse(fl_json_parse, FL_SPAN(" null "));
    assert_int_equal(t.root->kind, FL_NODE_NULL);
    done(&t);
}

static void what_json_is_refused(void **state)
{
    (void)state;
    refused(fl_json_parse, FL_SPAN(""), "it ends too early");
    refused(fl_json_parse, FL_SPAN("{\"a\":"), "it ends too early at byte 5");
    refused(fl_json_parse, FL_SPAN("{\"a\":1}x"), "not valid JSON");
    refused(fl_json_parse, FL_SPAN("{\"a\":1}{\"a\":1}"), "not valid JSON");
    refused(fl_json_parse, FL_SPAN("{\"a\":1,}"), "not valid JSON");
    refused(fl_json_parse, FL_SPAN("/* c */ {}"), "not valid JSON");
    refused(fl_json_parse, FL_SPAN("{\"a\":\"\xff\"}"), "not valid JSON");
    refused(fl_json_parse, FL_SPAN("{\"a\":\"x\\u0000y\"}"), "NUL");
    refused(fl_json_parse, FL_SPAN("[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]"), "not valid JSON");
    char *large = malloc(FL_JSON_BYTES_MAX + 1);
    assert_non_null(large);
    memset(large, ' ', FL_JSON_BYTES_MAX + 1);
    refused(fl_json_parse, (struct fl_span){large, FL_JSON_BYTES_MAX + 1}, "larger than 1 MiB");
    for (size_t i = 0; i < FL_JSON_BYTES_MAX; i += 3) {
        memcpy(large + i, "[],", 3 < FL_JSON_BYTES_MAX - i ? 3 : FL_JSON_BYTES_MAX - i);
    }
    refused(fl_json_parse, (struct fl_span){large, FL_JSON_BYTES_MAX}, "too many");
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_have_places),     cmocka_unit_test(empty_documents),
        cmocka_unit_test(yaml_is_bounded),       cmocka_unit_test(what_yaml_is_refused),
        cmocka_unit_test(json_is_the_same_tree), cmocka_unit_test(what_json_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
