#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/check.h"
#include "common/model/nearest.h"
#include "common/model/syntax.h"

static const char *nearest(const char *given)
{
    static const char *const words[] = {"max_fails", "fail_timeout", "max_conns",   "weight",
                                        "warn",      "off",          "read_timeout"};
    struct fl_nearest n = fl_nearest_to(fl_span_of(given));
    for (size_t i = 0; i < FL_COUNTOF(words); i++) {
        fl_nearest_offer(&n, words[i]);
    }
    return n.best ? n.best : "";
}

static void mistakes_find_their_word(void **state)
{
    (void)state;
    assert_string_equal(nearest("max_fail"), "max_fails");
    assert_string_equal(nearest("max_fials"), "max_fails");
    assert_string_equal(nearest("maxfails"), "max_fails");
    assert_string_equal(nearest("Max-Fails"), "max_fails");
    assert_string_equal(nearest("max_conn"), "max_conns");
    assert_string_equal(nearest("wieght"), "weight");
    assert_string_equal(nearest("warning"), "warn");
    assert_string_equal(nearest("of"), "off");
    assert_string_equal(nearest("proxy_read_timeout"), "read_timeout");
    assert_string_equal(nearest("x"), "");
    assert_string_equal(nearest("no"), "");
    assert_string_equal(nearest(""), "");
    assert_string_equal(nearest("something_else"), "");
    char longer[300];
    memset(longer, 'w', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_string_equal(nearest(longer), "");
    struct fl_nearest n = fl_nearest_to(FL_SPAN("weight"));
    fl_nearest_offer(&n, longer);
    assert_null(n.best);
}

/* One predicate against texts that it must take (before NULL) and refuse. */
static void judge(bool (*is)(struct fl_span), const char *const *texts)
{
    bool good = true;
    for (size_t i = 0; i < 40 && (texts[i] || good); i++) {
        if (!texts[i]) {
            good = false;
            continue;
        }
        if (texts[i][0] == '$') {
            return;
        }
        if (is(fl_span_of(texts[i])) != good) {
            print_error("%s\n", texts[i]);
        }
        assert_int_equal(is(fl_span_of(texts[i])), good);
    }
}

static bool is_data(struct fl_span s)
{
    return fl_syntax_is_listen(s, true);
}

static bool is_status(struct fl_span s)
{
    return fl_syntax_is_listen(s, false);
}

static void addresses(void **state)
{
    (void)state;
    judge(fl_syntax_is_peer, (const char *const[]){"10.0.1.10:9000",
                                                   "[::1]:9000",
                                                   "name:1",
                                                   "a-b.c_d.svc.:65535",
                                                   NULL,
                                                   "",
                                                   ":9000",
                                                   "name",
                                                   "name:",
                                                   "name:0",
                                                   "name:65536",
                                                   "name:http",
                                                   "10.0.1:9000",
                                                   "10.0.1.999:9000",
                                                   "::1:9000",
                                                   "[::1]",
                                                   "[::g]:1",
                                                   "[name]:1",
                                                   "a b:1",
                                                   "a..b:1",
                                                   "-a:1",
                                                   "unix:/x",
                                                   "http://a:1",
                                                   "a:1/",
                                                   "$"});
    judge(fl_syntax_is_endpoint,
          (const char *const[]){"10.0.1.10", "10.0.1.10:9000", "::1", "[::1]:9000", "fd00::1:2",
                                NULL, "", "name", "10.0.1", "10.0.1.10:0", "unix:/x", "[::1]",
                                "10.0.1.10:99999", "$"});
    judge(is_data,
          (const char *const[]){"127.0.0.1:8420", "[::]:8420", "unix:/run/x", "0.0.0.0:0", NULL,
                                "localhost:8420", ":8420", "8420", "unix:", "", "$"});
    judge(is_status, (const char *const[]){"[::]:8422", NULL, "unix:/run/x", "$"});
    judge(fl_syntax_is_host,
          (const char *const[]){"a", "s3.internal", "a.b.", "10.0.0.1", "x_y", NULL, "", ".", ".a",
                                "a..b", "10.0.0", "a b", "a:1", "a/b", "\xc3\xa9", "$"});
}

static void names(void **state)
{
    (void)state;
    judge(fl_syntax_is_statuses,
          (const char *const[]){"200", "200-399", "200,204", "100-199,404,500-599", NULL, "", "20",
                                "2000", "099", "600", "399-200", "200-", "-200", "200,", ",200",
                                "200 ,204", "200-300-400", "$"});
    judge(fl_syntax_is_backend, (const char *const[]){"minio", "A.b_c-d", "minio.storage:9000", "9",
                                                      NULL, "", "-a", ".a", "a/b", "a b", "$"});
    judge(fl_syntax_is_s3_bucket, (const char *const[]){"b", "my.bucket", "My_Bucket", NULL, "",
                                                        "_x", "a/b", "a+b", ".", "$"});
    judge(fl_syntax_is_segment,
          (const char *const[]){"api", "v1+x", "\xc3\xa9", "~", NULL, "", ".", "..", "a/b", "a b",
                                "a?b", "a#", "a\x7f", "$"});
    judge(fl_syntax_is_service,
          (const char *const[]){"minio", "a-1", "0", NULL, "", "-a", "a-", "A", "a.b", "a_b", "$"});
    struct fl_span nul = {"a\0b", 3};
    assert_false(fl_syntax_is_segment(nul));
    assert_false(fl_syntax_is_backend(nul));
    assert_false(fl_syntax_is_service(nul));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_find_their_word),
        cmocka_unit_test(addresses),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
