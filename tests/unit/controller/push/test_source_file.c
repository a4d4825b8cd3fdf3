/* The source is part of the program and of no library: its text is built into this test. */
#include "controller/source_file.c"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#define LOOK 60
#define GOOD "services: {a/b: {ports: {s3: 9000}, endpoints: [{address: 10.0.0.%d}]}}\n"

static struct fl_reactor *reactor;
static struct fl_source_file *source;
static char folder[64], path[128], other[160];
static char said[16][512]; /* event lines */
static unsigned lines, changes;
static int log_pipe[2];
static struct fl_log_writer *writer;
static struct fl_log event_log;

static void on_line(void *arg, enum fl_log_stream s, struct fl_span line)
{
    (void)arg;
    (void)s;
    if (lines < 16) {
        struct fl_fmt f = fl_fmt_of(said[lines], sizeof(said[0]));
        fl_fmt_span(&f, fl_span_first(line, sizeof(said[0]) - 1));
    }
    lines++;
}

static void changed(void *arg)
{
    (void)arg;
    changes++;
}

static void write_file(const char *to, const char *text)
{
    FILE *f = fopen(to, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static const char *good(int n)
{
    static char text[128];
    (void)snprintf(text, sizeof(text), GOOD, n);
    return text;
}

static void start(void)
{
    const struct fl_source_file_conf conf = {reactor, &event_log, path, LOOK, changed, NULL};
    assert_int_equal(fl_source_file_new(&conf, &source), 0);
    fl_source_file_look(source);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/fl-source-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/services.yaml", folder);
    (void)snprintf(other, sizeof(other), "%s/other", folder);
    lines = changes = 0;
    assert_int_equal(fl_reactor_new(&reactor), 0);
    assert_int_equal(pipe(log_pipe), 0);
    assert_int_equal(fl_log_writer_new(&writer, log_pipe[1], log_pipe[1]), 0);
    event_log = (struct fl_log){.ring = fl_log_ring_new(writer, 65536), .level = FL_LOG_INFO};
    fl_log_writer_watch(writer, on_line, NULL);
    assert_int_equal(fl_log_writer_start(writer), 0);
    return 0;
}

static void end_log(void) /* everything said so far is in `said` afterwards */
{
    if (writer != NULL) {
        event_log.ring = NULL;
        fl_log_writer_stop(writer);
        writer = NULL;
    }
}

static int tear_down(void **state)
{
    (void)state;
    source = fl_source_file_free(source);
    reactor = fl_reactor_free(reactor);
    end_log();
    close(log_pipe[0]);
    close(log_pipe[1]);
    (void)unlink(path);
    (void)unlink(other);
    (void)rmdir(folder);
    return 0;
}

static void turn_ms(int64_t ms)
{
    int64_t end_ms = fl_reactor_now_ms(reactor) + ms;
    while (fl_reactor_now_ms(reactor) < end_ms) {
        fl_reactor_turn(reactor, end_ms - fl_reactor_now_ms(reactor));
    }
}

static int first_endpoint(void)
{
    const struct fl_services *s = fl_source_file_services(source);
    int n = -1;
    if (s == NULL || s->items[0].endpoint_count == 0 ||
        sscanf(s->items[0].endpoints[0].address, "10.0.0.%d", &n) != 1) {
        return -1;
    }
    return n;
}

static unsigned count_said(const char *words)
{
    unsigned n = 0;
    for (unsigned i = 0; i < lines && i < 16; i++) {
        n += strstr(said[i], words) != NULL;
    }
    return n;
}

static void what_is_closed_or_renamed_is_read_and_what_is_open_is_not(void **state)
{
    (void)state;
    write_file(path, good(1));
    start();
    assert_int_equal(first_endpoint(), 1);
    assert_int_equal(changes, 1);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(good(2), f) >= 0 && fflush(f) == 0);
    fl_reactor_turn(reactor, 10);
    assert_int_equal(first_endpoint(), 1);
    assert_int_equal(fclose(f), 0);
    fl_reactor_turn(reactor, 10);
    assert_int_equal(first_endpoint(), 2);
    write_file(other, good(3));
    fl_reactor_turn(reactor, 10);
    assert_int_equal(first_endpoint(), 2); /* another file of the folder */
    assert_int_equal(rename(other, path), 0);
    fl_reactor_turn(reactor, 10);
    assert_int_equal(first_endpoint(), 3);
    assert_int_equal(changes, 3);
}

static void a_hard_link_and_a_symbolic_one_are_whole_when_they_appear(void **state)
{
    (void)state;
    write_file(other, good(4));
    start();
    assert_int_equal(first_endpoint(), -1);
    assert_int_equal(link(other, path), 0);
    fl_reactor_turn(reactor, 10);
    assert_int_equal(first_endpoint(), 4);
    assert_int_equal(unlink(path), 0);
    fl_reactor_turn(reactor, 10);
    write_file(other, good(5));
    assert_int_equal(symlink("other", path), 0);
    fl_reactor_turn(reactor, 10);
    assert_int_equal(first_endpoint(), 5);
}

static void the_same_text_again_is_no_change(void **state)
{
    (void)state;
    write_file(path, good(1));
    start();
    write_file(path, good(1));
    fl_reactor_turn(reactor, 10);
    write_file(path, "# nothing");
    fl_reactor_turn(reactor, 10);
    write_file(path, good(1));
    fl_reactor_turn(reactor, 10);
    assert_int_equal(changes, 1);
    assert_string_equal(fl_source_file_fault(source), "");
}

static void a_fault_keeps_the_old_set_is_told_once_and_ages(void **state)
{
    (void)state;
    write_file(path, good(1));
    start();
    write_file(path, "services: [");
    turn_ms(4 * LOOK); /* several looks at the same broken text */
    assert_int_equal(first_endpoint(), 1);
    assert_non_null(strstr(fl_source_file_fault(source), "services.yaml:"));
    assert_true(fl_source_file_age_ms(source) >= 3 * LOOK);
    assert_int_equal(unlink(path), 0);
    turn_ms(3 * LOOK);
    assert_non_null(strstr(fl_source_file_fault(source), "No such file"));
    assert_int_equal(first_endpoint(), 1);
    write_file(path, good(2));
    turn_ms(20);
    assert_int_equal(first_endpoint(), 2);
    assert_string_equal(fl_source_file_fault(source), "");
    assert_true(fl_source_file_age_ms(source) < LOOK);
    write_file(path, "services: ["); /* told already, but it was good in between */
    turn_ms(20);
    end_log();
    assert_int_equal(count_said("the last good one stays"), 3);
    assert_int_equal(count_said("not valid YAML"), 2);
    assert_int_equal(count_said("is good again"), 1);
}

static void the_age_stays_small_while_all_is_well(void **state)
{
    (void)state;
    write_file(path, good(1));
    start();
    turn_ms(8 * LOOK);
    assert_true(fl_source_file_age_ms(source) <= LOOK + 200);
    assert_true(fl_source_file_read_unix_ms(source) > 0);
}

/* inotify on one folder does not see what happens to a link's target elsewhere. */
static void the_regular_look_finds_what_nobody_announced_once_it_rests(void **state)
{
    (void)state;
    char target[96];
    (void)snprintf(target, sizeof(target), "%s.target", folder);
    write_file(target, good(1));
    assert_int_equal(symlink(target, path), 0);
    start();
    FILE *f = fopen(target, "w");
    assert_non_null(f);
    for (int i = 0; i < 20; i++) { /* somebody writes slowly: whole only at the end */
        assert_true(fputs(i < 19 ? "#\n" : good(2), f) >= 0 && fflush(f) == 0);
        turn_ms(LOOK / 10);
        assert_int_equal(changes, 1);
        assert_string_equal(fl_source_file_fault(source), "");
    }
    assert_int_equal(fclose(f), 0);
    turn_ms(2 * LOOK);
    assert_int_equal(unlink(target), 0);
    assert_int_equal(changes, 2);
    assert_int_equal(first_endpoint(), 2);
}

static void a_folder_made_anew_is_watched_again(void **state)
{
    (void)state;
    char old[96];
    (void)snprintf(old, sizeof(old), "%s.old", folder);
    write_file(path, good(1));
    start();
    assert_int_equal(rename(folder, old), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    turn_ms(2 * LOOK);
    assert_string_not_equal(fl_source_file_fault(source), "");
    write_file(path, good(2));
    fl_reactor_turn(reactor, 10); /* by its announcement, before the next look */
    int now = first_endpoint();
    (void)snprintf(other, sizeof(other), "%s/services.yaml", old);
    (void)unlink(other);
    (void)rmdir(old);
    assert_int_equal(now, 2);
}

static void too_long_a_file_is_a_fault(void **state)
{
    (void)state;
    write_file(path, good(1));
    start();
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 5 * 1024; i++) {
        for (int k = 0; k < 8; k++) {
            assert_true(
                fputs("#123456789012345678901234567890123456789012345678901234567890123456789"
                      "0123456789012345678901234567890123456789012345678901234567\n",
                      f) >= 0);
        }
    }
    assert_int_equal(fclose(f), 0);
    fl_reactor_turn(reactor, 10);
    assert_int_equal(first_endpoint(), 1);
    assert_string_not_equal(fl_source_file_fault(source), "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_closed_or_renamed_is_read_and_what_is_open_is_not),
        TEST(a_hard_link_and_a_symbolic_one_are_whole_when_they_appear),
        TEST(the_same_text_again_is_no_change),
        TEST(a_fault_keeps_the_old_set_is_told_once_and_ages),
        TEST(the_age_stays_small_while_all_is_well),
        TEST(the_regular_look_finds_what_nobody_announced_once_it_rests),
        TEST(a_folder_made_anew_is_watched_again),
        TEST(too_long_a_file_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
