/* docs/CONFIG.md is what the table says. `--write` makes it so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/model/directives.h"
#include "common/model/directives_table.h"

#define PAGE FL_SOURCE_DIR "/docs/CONFIG.md"

static char page[1 << 20], made[1 << 20];

static void page_is_current(void **state)
{
    (void)state;
    struct fl_fmt out = fl_fmt_of(made, sizeof(made));
    fl_directives_reference(&out);
    assert_false(out.cut);
    FILE *fp = fopen(PAGE, "rb");
    assert_non_null(fp);
    page[fread(page, 1, sizeof(page) - 1, fp)] = '\0';
    fclose(fp);
    if (strcmp(page, made) != 0) {
        print_error("docs/CONFIG.md is not current; run this test with --write\n");
    }
    assert_true(strcmp(page, made) == 0);
}

static void every_row_is_documented(void **state)
{
    (void)state;
    unsigned total = 0;
    struct fl_fmt out = fl_fmt_of(made, sizeof(made));
    fl_directives_reference(&out);
    for (unsigned s = 0; s < FL_SCOPE_COUNT; s++) {
        unsigned count;
        const struct fl_directive *d = fl_scope_rows((enum fl_scope)s, &count);
        assert_true(count > 0);
        for (unsigned i = 0; i < count; i++, total++) {
            char cell[80];
            snprintf(cell, sizeof(cell), "\n| `%s` | ", d[i].name);
            assert_non_null(strstr(made, cell));
            size_t n = d[i].doc ? strlen(d[i].doc) : 0;
            assert_true(n > 5 && d[i].doc[n - 1] == '.');
            assert_null(strchr(d[i].doc, '|'));
        }
    }
    assert_true(total > 120);
}

static int write_page(void)
{
    struct fl_fmt out = fl_fmt_of(made, sizeof(made));
    fl_directives_reference(&out);
    FILE *fp = fopen(PAGE, "wb");
    if (!fp) {
        return 1;
    }
    size_t n = fwrite(made, 1, out.len, fp);
    return fclose(fp) == 0 && n == out.len && !out.cut ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_is_current),
        cmocka_unit_test(every_row_is_documented),
    };
    if (argc > 1 && strcmp(argv[1], "--write") == 0) {
        return write_page();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
