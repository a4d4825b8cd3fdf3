#include "common/http1/field_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define X(id, name, flags) {FL_HTTP_##id, name, flags},
static const struct {
    enum fl_http_id id;
    const char *name;
    unsigned flags;
} table[] = {FL_HTTP_IDS(X)};
#undef X

static enum fl_http_id id_of(const char *name)
{
    return fl_field_id_of(fl_span_of(name));
}

/* The name of a row as it may come over the wire; a prefix gets something behind it. */
static size_t spell(unsigned row, char out[64])
{
    size_t len = strlen(table[row].name);
    assert_true(len < 60);
    memcpy(out, table[row].name, len + 1);
    if (len > 0 && out[len - 1] == '*') {
        memcpy(out + len - 1, "zz", 3);
        len++;
    }
    return len;
}

static void every_name_in_any_case(void **state)
{
    (void)state;
    for (unsigned i = 0; i < FL_HTTP_ID_COUNT; i++) {
        char name[64];
        size_t len = spell(i, name);
        if (len == 0) {
            continue;
        }
        assert_int_equal(id_of(name), table[i].id);
        for (size_t k = 0; k < len; k++) {
            if (name[k] >= 'a' && name[k] <= 'z') {
                name[k] = (char)(name[k] - 32);
                assert_int_equal(id_of(name), table[i].id);
            }
        }
        assert_int_equal(fl_field_id_flags(table[i].id), table[i].flags);
    }
}

/* One letter off, one letter more or less is another name. */
static void near_misses(void **state)
{
    (void)state;
    for (unsigned i = 0; i < FL_HTTP_ID_COUNT; i++) {
        char name[64];
        size_t len = strlen(table[i].name);
        bool amz = strncmp(table[i].name, "x-amz-", 6) == 0;
        if (len == 0 || table[i].name[len - 1] == '*') {
            continue;
        }
        for (size_t k = 0; k <= len; k++) {
            enum fl_http_id other = amz && k >= 6 ? FL_HTTP_X_AMZ_OTHER : FL_HTTP_OTHER;
            spell(i, name);
            name[k] = k == len ? 'q' : name[k] == 'q' ? 'z' : 'q';
            name[k == len ? len + 1 : len] = '\0';
            assert_int_equal(id_of(name), other);
        }
        spell(i, name);
        name[len - 1] = '\0';
        assert_int_equal(id_of(name), amz ? FL_HTTP_X_AMZ_OTHER : FL_HTTP_OTHER);
    }
}

/* Every token character in the place of every other: only the two cases of a letter are the same.
 */
static void one_character_at_a_time(void **state)
{
    static const char tchar[] =
        "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static const char *const names[] = {"te",
                                        "host",
                                        "expect",
                                        "connection",
                                        "content-length",
                                        "transfer-encoding",
                                        "if-unmodified-since"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        enum fl_http_id id = id_of(names[i]);
        for (size_t k = 0; names[i][k] != '\0'; k++) {
            for (const char *c = tchar; *c != '\0'; c++) {
                char name[64];
                memcpy(name, names[i], strlen(names[i]) + 1);
                name[k] = *c;
                bool same = fl_ascii_lower(*c) == names[i][k];
                bool alike = *c == '_' && names[i][k] == '-' &&
                             (id == FL_HTTP_CONTENT_LENGTH || id == FL_HTTP_TRANSFER_ENCODING);
                assert_int_equal(id_of(name), same    ? id
                                              : alike ? FL_HTTP_LOOK_ALIKE
                                                      : FL_HTTP_OTHER);
            }
        }
    }
}

static void look_alikes_and_prefixes(void **state)
{
    (void)state;
    assert_int_equal(id_of("Content_Length"), FL_HTTP_LOOK_ALIKE);
    assert_int_equal(id_of("TRANSFER_ENCODING"), FL_HTTP_LOOK_ALIKE);
    assert_int_equal(id_of("x-amz-meta-content_length"), FL_HTTP_X_AMZ_OTHER);
    assert_int_equal(id_of("x_amz-date"), FL_HTTP_OTHER);
    assert_int_equal(id_of("x-amz-"), FL_HTTP_X_AMZ_OTHER);
    assert_int_equal(id_of("x-amz"), FL_HTTP_OTHER);
    assert_int_equal(id_of("x-amz-copy-source-if-match"), FL_HTTP_X_AMZ_COPY_SOURCE_IF);
    assert_int_equal(id_of("x-amz-copy-source-if-"), FL_HTTP_X_AMZ_OTHER);
    assert_int_equal(id_of("x-amz-copy-source-range"), FL_HTTP_X_AMZ_OTHER);
    assert_int_equal(id_of("X-Amz-If-Match-Size"), FL_HTTP_X_AMZ_IF_MATCH);
    assert_int_equal(id_of("x-amz-if-match-last-modified-time"), FL_HTTP_X_AMZ_IF_MATCH);
    assert_int_equal(id_of(""), FL_HTTP_OTHER);
    assert_int_equal(id_of("t"), FL_HTTP_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_in_any_case),
        cmocka_unit_test(near_misses),
        cmocka_unit_test(one_character_at_a_time),
        cmocka_unit_test(look_alikes_and_prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
