#include "sidecar/admin/state_file.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/fl-state-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/fl-state-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/state", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(dir); /* fails when a temporary file was left behind */
}

static const struct fl_saved_state good = {
    7, 42, 1764477751123, {"KEYS\n", 5}, {"{\"epoch\":7}\n\0x", 13}, NULL,
};

static void round_trip(void **state)
{
    (void)state;
    struct fl_saved_state s;
    assert_int_equal(fl_state_file_read(path, &s), -ENOENT);
    assert_int_equal(fl_state_file_write(path, &good), 0);
    assert_int_equal(fl_state_file_read(path, &s), 0);
    assert_int_equal(s.epoch, 7);
    assert_int_equal(s.seq, 42);
    assert_int_equal(s.saved_unix_ms, 1764477751123);
    assert_true(fl_span_eq(s.keys, good.keys));
    assert_true(fl_span_eq(s.body, good.body));
    fl_saved_state_done(&s);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* empty parts */
    const struct fl_saved_state bare = {1, 1, 1, {0}, {0}, NULL};
    assert_int_equal(fl_state_file_write(path, &bare), 0);
    assert_int_equal(fl_state_file_read(path, &s), 0);
    assert_int_equal(s.keys.len + s.body.len, 0);
    fl_saved_state_done(&s);
}

static size_t slurp(char *into, size_t cap)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(into, 1, cap, f);
    (void)fclose(f);
    return n;
}

static void spill(const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    char text[512];
    struct fl_saved_state s;
    assert_int_equal(fl_state_file_write(path, &good), 0);
    size_t n = slurp(text, sizeof(text));
    for (size_t i = 0; i < n * 8; i++) { /* every flipped bit */
        text[i / 8] = (char)(text[i / 8] ^ (1 << (i % 8)));
        spill(text, n);
        assert_int_equal(fl_state_file_read(path, &s), -EBADMSG);
        text[i / 8] = (char)(text[i / 8] ^ (1 << (i % 8)));
    }
    for (size_t i = 0; i < n; i++) { /* every truncation */
        spill(text, i);
        assert_int_equal(fl_state_file_read(path, &s), -EBADMSG);
    }
    text[n] = 'x';
    spill(text, n + 1);
    assert_int_equal(fl_state_file_read(path, &s), -EBADMSG);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(fl_state_file_read(path, &s), -EISDIR);
    assert_int_equal(fl_state_file_write(path, &good), -EISDIR); /* and no temporary file stays */
    assert_int_equal(rmdir(path), 0);
}

static void an_old_file_survives_a_failed_write(void **state)
{
    (void)state;
    struct fl_saved_state s;
    assert_int_equal(fl_state_file_write(path, &good), 0);
    char temporary[80];
    (void)snprintf(temporary, sizeof(temporary), "%s.new", path);
    assert_int_equal(symlink("/dev/full", temporary), 0); /* a planted link is not followed */
    struct fl_saved_state next = good;
    next.seq = 43;
    assert_int_equal(fl_state_file_write(path, &next), -ELOOP);
    assert_int_equal(unlink(temporary), 0);
    assert_int_equal(fl_state_file_read(path, &s), 0);
    assert_int_equal(s.seq, 42);
    fl_saved_state_done(&s);
    assert_int_equal(fl_state_file_write(path, &next), 0);
    assert_int_equal(fl_state_file_read(path, &s), 0);
    assert_int_equal(s.seq, 43);
    fl_saved_state_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(anything_else_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_old_file_survives_a_failed_write, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
