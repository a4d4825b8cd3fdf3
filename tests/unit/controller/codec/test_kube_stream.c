#include "controller/codec/kube_stream.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What came out, as one text: "A{…}\nM{…}\n". */
struct heard {
    char text[4096];
    size_t len, count;
    size_t stop_at; /* refuse this one; 0 none */
};

static bool hear(void *arg, enum fl_kube_event event, struct fl_span object)
{
    static const char letters[] = "AMDBE?";
    struct heard *h = arg;
    char *copy = malloc(object.len); /* of exactly its size: the sanitizer sees what is beyond */
    assert_non_null(copy);
    memcpy(copy, object.ptr, object.len);
    if (h->len + object.len + 2 < sizeof(h->text)) {
        h->text[h->len++] = letters[event];
        memcpy(h->text + h->len, copy, object.len);
        h->len += object.len;
        h->text[h->len++] = '\n';
        h->text[h->len] = '\0';
    }
    free(copy);
    return ++h->count != h->stop_at;
}

static int feed_in(struct fl_kube_stream *s, const char *text, size_t piece)
{
    struct fl_span left = fl_span_of(text);
    int err = 0;
    while (left.len && err == 0) {
        err = fl_kube_stream_feed(s, fl_span_first(left, piece));
        left = fl_span_from(left, piece);
    }
    return err;
}

/* The same result however the bytes are split. */
static void expect(enum fl_kube_form form, const char *text, int err, const char *heard)
{
    for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
        struct heard h = {0};
        struct fl_kube_stream *s = fl_kube_stream_new(form, 256, hear, &h);
        assert_non_null(s);
        assert_int_equal(feed_in(s, text, piece), err);
        assert_string_equal(h.text, heard);
        assert_int_equal(fl_kube_stream_feed(s, FL_SPAN("")), err);
        if (err) {
            assert_false(fl_kube_stream_whole(s));
        }
        assert_null(fl_kube_stream_free(s));
    }
}

static void a_list_gives_its_items(void **state)
{
    (void)state;
    expect(FL_KUBE_LIST,
           "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"7\"},"
           "\"items\":[{\"a\":1},{\"b\":[{}]},{}]}",
           0, "A{\"a\":1}\nA{\"b\":[{}]}\nA{}\n");
    expect(FL_KUBE_LIST, "{\"items\":[]}", 0, "");
    expect(FL_KUBE_LIST, " \r\n{ \"items\" : [ {} \t, {} ] , \"x\" : 1 } \r\n", 0, "A{}\nA{}\n");
    expect(FL_KUBE_LIST, "{\"items\":null,\"metadata\":null}", 0, "");
}

static void unknown_members_are_passed_over(void **state)
{
    (void)state;
    expect(FL_KUBE_LIST,
           "{\"x\":{\"items\":[{\"no\":1}]},\"y\":[[{}],\"]\"],\"z\":\"a\\\"}\",\"n\":-1.5E+9,"
           "\"t\":true,\"itemsandmuchmorethanthat\":[{}],\"items\":[{\"s\":\"}\\\\\"}]}",
           0, "A{\"s\":\"}\\\\\"}\n");
    expect(FL_KUBE_WATCH, "{\"extra\":{\"object\":1},\"type\":\"ADDED\",\"object\":{},\"more\":[]}",
           0, "A{}\n");
}

static void brackets_within_strings_count_for_nothing(void **state)
{
    (void)state;
    expect(FL_KUBE_LIST, "{\"items\":[{\"a\":\"]}\\\"{[\"},{\"\\\\\":\"\\\\\"}]}", 0,
           "A{\"a\":\"]}\\\"{[\"}\nA{\"\\\\\":\"\\\\\"}\n");
}

static void metadata_may_stand_before_or_behind(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"metadata\":{\"resourceVersion\":\"12\",\"continue\":\"ab\\u0063\",\"x\":{}},\"items\":["
        "]}",
        "{\"items\":[{}],\"metadata\":{\"continue\":\"abc\",\"resourceVersion\":\"12\"}}",
    };
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        for (size_t piece = 1; piece < 90; piece += 3) {
            struct heard h = {0};
            struct fl_kube_stream *s = fl_kube_stream_new(FL_KUBE_LIST, 256, hear, &h);
            assert_string_equal(fl_kube_stream_version(s), "");
            assert_string_equal(fl_kube_stream_continue(s), "");
            assert_int_equal(feed_in(s, texts[i], piece), 0);
            assert_string_equal(fl_kube_stream_version(s), "12");
            assert_string_equal(fl_kube_stream_continue(s), "abc");
            assert_true(fl_kube_stream_whole(s));
            fl_kube_stream_free(s);
        }
    }
}

static void a_watch_gives_its_lines(void **state)
{
    (void)state;
    expect(FL_KUBE_WATCH,
           "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n{\"type\":\"MODIFIED\",\"object\":{\"a\":2}}"
           "\r\n"
           "{\"type\":\"DELETED\",\"object\":{}}\n\n{\"type\":\"BOOKMARK\",\"object\":{\"b\":{}}}"
           "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n{\"type\":\"NEWS\",\"object\":{}}\n",
           0, "A{\"a\":1}\nM{\"a\":2}\nD{}\nB{\"b\":{}}\nE{\"code\":410}\n?{}\n");
}

static void the_object_may_stand_before_its_type(void **state)
{
    (void)state;
    expect(FL_KUBE_WATCH,
           "{\"object\":{\"a\":\"x\"},\"type\":\"DELETED\"}\n{\"type\":\"ADDED\",\"object\":{}}\n",
           0, "D{\"a\":\"x\"}\nA{}\n");
}

static void whole_says_whether_an_answer_was_cut(void **state)
{
    (void)state;
    struct heard h = {0};
    struct fl_kube_stream *list = fl_kube_stream_new(FL_KUBE_LIST, 99, hear, &h);
    struct fl_kube_stream *watch = fl_kube_stream_new(FL_KUBE_WATCH, 99, hear, &h);
    assert_false(fl_kube_stream_whole(list));
    assert_int_equal(fl_kube_stream_feed(list, FL_SPAN("{\"items\":[{}]")), 0);
    assert_false(fl_kube_stream_whole(list));
    assert_int_equal(fl_kube_stream_feed(list, FL_SPAN("}\n")), 0);
    assert_true(fl_kube_stream_whole(list));
    assert_true(fl_kube_stream_whole(watch));
    assert_int_equal(fl_kube_stream_feed(watch, FL_SPAN("{\"type\":\"ADDED\",\"object\":{}")), 0);
    assert_false(fl_kube_stream_whole(watch));
    assert_int_equal(fl_kube_stream_feed(watch, FL_SPAN("}")), 0);
    assert_true(fl_kube_stream_whole(watch));
    fl_kube_stream_free(list);
    fl_kube_stream_free(watch);
}

static void a_status_is_no_empty_list(void **state)
{
    (void)state;
    expect(FL_KUBE_LIST, "{\"kind\":\"Status\",\"metadata\":{},\"code\":500}", -EBADMSG, "");
    expect(FL_KUBE_LIST, "{}", -EBADMSG, "");
    expect(FL_KUBE_WATCH, "{\"kind\":\"Status\",\"code\":500}", -EBADMSG, "");
    expect(FL_KUBE_WATCH, "{\"type\":\"ADDED\"}", -EBADMSG, "");
    expect(FL_KUBE_WATCH, "{\"object\":{}}", -EBADMSG, "");
}

static void what_is_not_json_is_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "Too many requests",
        "[",
        "\"items\"",
        "{items:[]}",
        "{,\"items\":[]}",
        "{\"items\":[,{}]}",
        "{\"items\":[{},]}",
        "{\"items\":[]]}",
        "{\"items\":[5]}",
        "{\"items\":[null]}",
        "{\"items\":[[]]}",
        "{\"items\":{}}",
        "{\"items\":\"\"}",
        "{\"items\":nul}",
        "{\"items\":nulll}",
        "{\"items\":7}",
        "{\"items\":[{\"a\":[}]}",
        "{\"items\":[]}x",
        "{\"items\":[]}{}",
        "{\"items\":[],\"items\":[]}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{\"a\":1 2}",
        "{\"a\":1,}",
        "{\"\n\":1}",
        "{\"metadata\":[]}",
        "{\"metadata\":{\"resourceVersion\":7}}",
        "{\"metadata\":{\"x\"}}",
        "{\"metadata\":{},\"metadata\":{}}",
    };
    static const char *const lines[] = {
        "{\"type\":7,\"object\":{}}",
        "{\"type\":\"ADDED\",\"object\":null}",
        "{\"type\":\"ADDED\",\"object\":[]}",
        "{\"type\":\"ADDED\",\"type\":\"ADDED\",\"object\":{}}",
        "{\"object\":{},\"object\":{},\"type\":\"ADDED\"}",
        ",",
        "null",
    };
    for (size_t i = 0; i < FL_COUNTOF(lists); i++) {
        struct heard h = {0};
        struct fl_kube_stream *s = fl_kube_stream_new(FL_KUBE_LIST, 256, hear, &h);
        if (feed_in(s, lists[i], 1) != -EBADMSG) {
            fail_msg("taken: %s", lists[i]);
        }
        fl_kube_stream_free(s);
    }
    for (size_t i = 0; i < FL_COUNTOF(lines); i++) {
        expect(FL_KUBE_WATCH, lines[i], -EBADMSG, "");
    }
}

static void what_came_before_a_fault_was_handed_on(void **state)
{
    (void)state;
    expect(FL_KUBE_LIST, "{\"items\":[{\"a\":1},{\"b\":]}", -EBADMSG, "A{\"a\":1}\n");
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    char text[256] = "{\"items\":[";
    for (unsigned depth = 64; depth <= 65; depth++) {
        size_t n = strlen("{\"items\":[");
        for (unsigned i = 0; i < depth; i++) {
            text[n++] = i == 0 ? '{' : '[';
            if (i == 0) {
                memcpy(text + n, "\"a\":", 4);
                n += 4;
            }
        }
        for (unsigned i = depth; i > 0; i--) {
            text[n++] = i == 1 ? '}' : ']';
        }
        memcpy(text + n, "]}", 3);
        struct heard h = {0};
        struct fl_kube_stream *s = fl_kube_stream_new(FL_KUBE_LIST, 256, hear, &h);
        assert_int_equal(feed_in(s, text, 7), depth == 64 ? 0 : -EBADMSG);
        fl_kube_stream_free(s);
    }
}

static void an_object_may_be_as_large_as_the_limit_and_no_larger(void **state)
{
    (void)state;
    char text[300];
    for (int fill = 247; fill <= 251; fill++) {
        struct heard h = {0};
        struct fl_kube_stream *s = fl_kube_stream_new(FL_KUBE_LIST, 256, hear, &h);
        int n = snprintf(text, sizeof(text), "{\"items\":[{\"a\":\"%0*d\"}]}", fill, 0);
        assert_in_range(n, 1, sizeof(text) - 1);
        int err = feed_in(s, text, 11);
        assert_int_equal(err, fill + 8 <= 256 ? 0 : -EMSGSIZE);
        assert_int_equal(h.count, err ? 0 : 1);
        fl_kube_stream_free(s);
    }
}

static void a_listener_that_says_stop_is_obeyed(void **state)
{
    (void)state;
    struct heard h = {.stop_at = 2};
    struct fl_kube_stream *s = fl_kube_stream_new(FL_KUBE_LIST, 256, hear, &h);
    assert_int_equal(fl_kube_stream_feed(s, FL_SPAN("{\"items\":[{},{},{}]}")), -ECANCELED);
    assert_int_equal(h.count, 2);
    assert_int_equal(fl_kube_stream_feed(s, FL_SPAN(",{}]}")), -ECANCELED);
    assert_int_equal(h.count, 2);
    fl_kube_stream_free(s);
}

static bool count_only(void *arg, enum fl_kube_event event, struct fl_span object)
{
    (void)event;
    *(const char **)arg = object.ptr;
    return true;
}

static void the_room_of_one_object_serves_the_next(void **state)
{
    (void)state;
    const char *first = NULL, *later = NULL;
    struct fl_kube_stream *s = fl_kube_stream_new(FL_KUBE_WATCH, 1 << 20, count_only, &later);
    char *line = malloc(70000);
    assert_non_null(line);
    static const char head[] = "{\"type\":\"ADDED\",\"object\":{\"a\":\"", tail[] = "\"}}\n";
    size_t n = 60000;
    memset(line, '0', n);
    memcpy(line, head, sizeof(head) - 1);
    memcpy(line + n - (sizeof(tail) - 1), tail, sizeof(tail) - 1);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(fl_kube_stream_feed(s, (struct fl_span){line, n}), 0);
        first = first ? first : later;
        assert_ptr_equal(first, later);
    }
    free(line);
    fl_kube_stream_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_gives_its_items),
        cmocka_unit_test(unknown_members_are_passed_over),
        cmocka_unit_test(brackets_within_strings_count_for_nothing),
        cmocka_unit_test(metadata_may_stand_before_or_behind),
        cmocka_unit_test(a_watch_gives_its_lines),
        cmocka_unit_test(the_object_may_stand_before_its_type),
        cmocka_unit_test(whole_says_whether_an_answer_was_cut),
        cmocka_unit_test(a_status_is_no_empty_list),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(what_came_before_a_fault_was_handed_on),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(an_object_may_be_as_large_as_the_limit_and_no_larger),
        cmocka_unit_test(a_listener_that_says_stop_is_obeyed),
        cmocka_unit_test(the_room_of_one_object_serves_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
