#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/model/findings.h"

static char text[1 << 18];

static const char *all(const struct fl_findings *f)
{
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    for (const struct fl_finding *i = f->first; i; i = i->next) {
        fl_findings_print(f, i, &out);
        fl_fmt_char(&out, '\n');
    }
    return text;
}

static void they_come_in_document_order(void **state)
{
    struct fl_findings f;
    (void)state;
    fl_findings_init(&f, "a.yaml");
    fl_findings_add(&f, FL_SEVERITY_ERROR, 0, "whole");
    fl_findings_add(&f, FL_SEVERITY_WARNING, 7, "seven %d", 1);
    fl_findings_add(&f, FL_SEVERITY_ERROR, 3, "three");
    fl_findings_add(&f, FL_SEVERITY_ERROR, 7, "seven 2");
    fl_findings_add(&f, FL_SEVERITY_ERROR, 9, "nine");
    fl_findings_add(&f, FL_SEVERITY_ERROR, 0, "whole 2");
    fl_findings_add(&f, FL_SEVERITY_ERROR, 8, "eight");
    assert_string_equal(
        all(&f), "a.yaml:3: error: three\na.yaml:7: warning: seven 1\na.yaml:7: error: seven 2\n"
                 "a.yaml:8: error: eight\na.yaml:9: error: nine\na.yaml: error: whole\na.yaml: "
                 "error: whole 2\n");
    assert_int_equal(f.errors, 6);
    assert_int_equal(f.warnings, 1);
    assert_string_equal(f.last->text, "whole 2");
    fl_findings_done(&f);
    assert_null(f.first);
}

static void without_a_file(void **state)
{
    struct fl_findings f;
    (void)state;
    fl_findings_init(&f, NULL);
    fl_findings_add(&f, FL_SEVERITY_ERROR, 2, "x");
    fl_findings_add(&f, FL_SEVERITY_WARNING, 0, "y");
    assert_string_equal(all(&f), "line 2: error: x\nwarning: y\n");
    fl_findings_done(&f);
}

static void foreign_bytes_steer_nothing(void **state)
{
    struct fl_findings f;
    char longer[5000];
    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    fl_findings_init(&f, "a");
    fl_findings_add(&f, FL_SEVERITY_ERROR, 1, "%s", "\x1b[31m\r\nnew line \xc3\xa9");
    assert_string_equal(all(&f), "a:1: error: ?[31m??new line \xc3\xa9\n");
    fl_findings_add(&f, FL_SEVERITY_ERROR, 2, "%s", longer);
    assert_int_equal(strlen(f.last->text), 1023);
    fl_findings_done(&f);
}

static void a_flood_is_counted_but_not_kept(void **state)
{
    struct fl_findings f;
    unsigned kept = 0;
    (void)state;
    fl_findings_init(&f, "a");
    for (int i = 0; i < 100000; i++) {
        fl_findings_add(&f, FL_SEVERITY_ERROR, i, "again");
    }
    for (const struct fl_finding *i = f.first; i; i = i->next) {
        kept++;
    }
    assert_int_equal(f.errors, 100000);
    assert_int_equal(kept, 200);
    fl_findings_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_come_in_document_order),
        cmocka_unit_test(without_a_file),
        cmocka_unit_test(foreign_bytes_steer_nothing),
        cmocka_unit_test(a_flood_is_counted_but_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
