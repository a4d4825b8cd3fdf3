#include "common/probe/probe_keys.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/fl-keys-XXXXXX", id_file[64], secret_file[64], why[96];
static struct fl_probe_keys keys;

static void put(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static bool read_pair(const char *id, size_t id_len, const char *secret)
{
    put(id_file, id, id_len);
    put(secret_file, secret, strlen(secret));
    return fl_probe_keys_read(id_file, secret_file, &keys, why);
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(id_file, sizeof(id_file), "%s/id", folder);
    (void)snprintf(secret_file, sizeof(secret_file), "%s/secret", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(id_file);
    (void)unlink(secret_file);
    return rmdir(folder);
}

static void white_space_is_no_part(void **state)
{
    (void)state;
    assert_true(read_pair("AKID\n", 5, " \t s/ec,ret+=\r\n\n"));
    assert_string_equal(keys.access_key, "AKID");
    assert_string_equal(keys.secret_key, "s/ec,ret+=");
    assert_string_equal(why, "");
    uint64_t hash = keys.hash;
    assert_true(hash != 0);
    assert_true(read_pair("AKID", 4, "s/ec,ret+="));
    assert_true(keys.hash == hash);
    assert_true(read_pair("AKI", 3, "Ds/ec,ret+="));
    assert_true(keys.hash != hash);
}

static void no_names_no_keys(void **state)
{
    (void)state;
    assert_true(fl_probe_keys_read("", "", &keys, why));
    assert_string_equal(keys.access_key, "");
    assert_true(keys.hash == 0);
    assert_true(fl_probe_keys_read(NULL, NULL, &keys, why));
}

static void refused(const char *id, size_t id_len, const char *secret, const char *text)
{
    assert_false(read_pair(id, id_len, secret));
    assert_string_equal(why, text);
    assert_string_equal(keys.access_key, "");
    assert_string_equal(keys.secret_key, "");
    assert_true(keys.hash == 0);
}

static void what_is_no_key(void **state)
{
    (void)state;
    refused("", 0, "s", "access_key_file holds no key");
    refused(" \n", 2, "s", "access_key_file holds no key");
    refused("A B", 3, "s", "access_key_file holds no key");
    refused("A/B", 3, "s", "access_key_file holds no key");
    refused("A,B", 3, "s", "access_key_file holds no key");
    refused("A\0B", 3, "s", "access_key_file holds no key");
    refused("A\0", 2, "s", "access_key_file holds no key");
    refused("\xc3\xa9", 2, "s", "access_key_file holds no key");
    refused("A", 1, "", "secret_key_file holds no key");
    refused("A", 1, "two\nlines", "secret_key_file holds no key");
    char text[2000];
    memset(text, 'k', sizeof(text));
    refused(text, FL_PROBE_ACCESS_MAX + 1, "s", "access_key_file holds no key");
    refused(text, 1999, "s", "access_key_file: File too large");
    assert_true(read_pair(text, FL_PROBE_ACCESS_MAX, "s"));
    text[FL_S3_SECRET_MAX + 1] = '\0';
    refused("A", 1, text, "secret_key_file holds no key");
    text[FL_S3_SECRET_MAX] = '\0';
    assert_true(read_pair("A", 1, text));
}

static void what_cannot_be_read(void **state)
{
    (void)state;
    assert_true(read_pair("A", 1, "s"));
    assert_false(fl_probe_keys_read("/nowhere/id", secret_file, &keys, why));
    assert_string_equal(why, "access_key_file: No such file or directory");
    assert_false(fl_probe_keys_read(id_file, folder, &keys, why));
    assert_string_equal(why, "secret_key_file: Is a directory");
    assert_string_equal(keys.access_key, ""); /* half a pair is none */
    assert_false(fl_probe_keys_read(id_file, "", &keys, why));
    assert_int_equal(unlink(id_file), 0);
    assert_int_equal(mkfifo(id_file, 0600), 0);
    assert_false(fl_probe_keys_read(id_file, secret_file, &keys, why)); /* must not wait */
    assert_int_equal(unlink(id_file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_space_is_no_part),
        cmocka_unit_test(no_names_no_keys),
        cmocka_unit_test(what_is_no_key),
        cmocka_unit_test(what_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
