#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/io/read_file.h"

#define BIG_BYTES 20000 /* grows the text more than once */

static char path[] = "/tmp/fl-read-file-XXXXXX";
static char big[BIG_BYTES];
static char *const untouched = big;

static int begin(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(big); i++) {
        big[i] = (char)(i * 7 + i / 251); /* NUL bytes too */
    }
    int fd = mkstemp(path);
    close(fd);
    return fd < 0 ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    return unlink(path);
}

static void put(size_t len)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(big, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void read_back(const char *from, size_t len, size_t max_bytes)
{
    char *text = NULL;
    size_t got = SIZE_MAX;
    assert_int_equal(fl_read_file(from, max_bytes, &text, &got), 0);
    assert_int_equal(got, len);
    assert_memory_equal(text, big, len);
    assert_int_equal(text[len], '\0');
    free(text);
}

static void every_length_comes_back_whole(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 4094, 4095, 4096, 4097, 8191, 8192, BIG_BYTES};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        put(lengths[i]);
        read_back(path, lengths[i], BIG_BYTES);
    }
}

static void refuse(const char *from, size_t max_bytes, int rc)
{
    char *text = untouched;
    size_t len = 77;
    assert_int_equal(fl_read_file(from, max_bytes, &text, &len), rc);
    assert_ptr_equal(text, untouched);
    assert_int_equal(len, 77);
}

static void what_is_too_long_is_refused(void **state)
{
    (void)state;
    put(5000);
    read_back(path, 5000, 5000);
    refuse(path, 4999, -EFBIG);
    refuse(path, 0, -EFBIG);
    refuse("/dev/zero", BIG_BYTES, -EFBIG); /* no end at all */
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    refuse("/tmp", BIG_BYTES, -EISDIR);
    refuse("/tmp/fl-no-such-file/here", BIG_BYTES, -ENOENT);
}

static void a_pipe_is_read_to_its_end(void **state)
{
    (void)state;
    int ends[2];
    char name[64];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], big, 5000), 5000);
    close(ends[1]);
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[0]);
    read_back(name, 5000, BIG_BYTES);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_comes_back_whole),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(a_pipe_is_read_to_its_end),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
