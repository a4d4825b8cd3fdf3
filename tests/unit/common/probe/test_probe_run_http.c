/* The http and s3 probes, against a peer that says what the test wants. */
#include "common/probe/probe_run.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/common/probe/peer_kit.h"

#define EMPTY "Content-Length: 0\r\n\r\n"

static struct fl_probe_run *run;
static struct fl_verdict last;
static unsigned dones;
static bool last_answered;
static char id_file[] = "/tmp/fl-probe-id-XXXXXX", secret_file[] = "/tmp/fl-probe-secret-XXXXXX";

static void done(void *arg, const struct fl_verdict *v, bool answered)
{
    assert_null(arg);
    last = *v;
    last_answered = answered;
    dones++;
}

static void write_key(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int make_files(void **state)
{
    (void)state;
    int a = mkstemp(id_file), b = mkstemp(secret_file);
    return a < 0 || b < 0 || close(a) != 0 || close(b) != 0;
}

static int remove_files(void **state)
{
    (void)state;
    return unlink(id_file) + unlink(secret_file);
}

static int set_up(void **state)
{
    (void)state;
    dones = 0;
    write_key(id_file, "AKIDEXAMPLE00000LE\n");
    write_key(secret_file, "secret");
    peer_listen(16);
    return fl_reactor_new(&reactor) == 0 && fl_probe_run_new(reactor, done, NULL, &run) == 0 ? 0
                                                                                             : -1;
}

static int tear_down(void **state)
{
    (void)state;
    run = fl_probe_run_free(run);
    fl_reactor_turn(reactor, 0);
    reactor = fl_reactor_free(reactor);
    peer_close();
    return 0;
}

static struct fl_probe_target http(void)
{
    return (struct fl_probe_target){.addr = peer.at,
                                    .type = FL_PROBE_HTTP,
                                    .timeout_ms = 1000,
                                    .fingerprint = 1,
                                    .path = "/health",
                                    .expect = "200-399"};
}

static struct fl_probe_target s3(bool keyed)
{
    return (struct fl_probe_target){.addr = peer.at,
                                    .type = FL_PROBE_S3,
                                    .timeout_ms = 1000,
                                    .fingerprint = 2,
                                    .host = "store.example",
                                    .bucket = "releases",
                                    .region = "us-east-1",
                                    .access_key_file = keyed ? id_file : "",
                                    .secret_key_file = keyed ? secret_file : ""};
}

static void begin(const struct fl_probe_target *t)
{
    assert_true(fl_probe_run_start(run, t));
    assert_false(fl_probe_run_start(run, t)); /* single flight */
}

static void hear(int i, const char *line)
{
    const char *head = peer_hear(i);
    if (strncmp(head, line, strlen(line)) != 0) {
        fail_msg("wanted '%s', heard '%s'", line, head);
    }
}

static void finished(enum fl_verdict_status status, const char *code, const char *cause,
                     const char *note)
{
    char text[sizeof(last.cause.text)];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    unsigned before = dones;
    turn_until(&dones, before + 1);
    for (const char *p = cause; *p != '\0'; p++) { /* @ stands for the peer's address */
        fl_fmt_span(&f, *p == '@' ? fl_span_of(peer.text) : (struct fl_span){p, 1});
    }
    assert_string_equal(last.cause.text, text);
    assert_string_equal(last.cause.code, code);
    assert_string_equal(last.note, note);
    assert_int_equal(last.status, status);
    assert_int_equal(last.source, FL_VERDICT_OWN);
    assert_false(fl_probe_run_busy(run));
}

static void http_on_one_connection(void **state)
{
    (void)state;
    const struct fl_probe_target t = http();
    for (int i = 0; i < 3; i++) {
        begin(&t);
        hear(0, "GET /health HTTP/1.1\r\nHost: 127.0.0.1:");
        peer_say(0, "HTTP/1.1 302 Found\r\nLocation: /\r\n" EMPTY);
        finished(FL_VERDICT_HEALTHY, "", "", "");
        assert_true(last_answered);
        assert_int_equal(last.fingerprint, 1);
    }
    assert_int_equal(peer.accepted, 1);
    begin(&t);
    hear(0, "GET /health");
    peer_say(0, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    finished(FL_VERDICT_ERRORING, "http_503", "@ answered with status 503", "");
    assert_true(last_answered);
    assert_string_equal(last.step, "status");
}

static void a_second_attempt_on_a_fresh_connection(void **state)
{
    (void)state;
    const struct fl_probe_target t = http();
    begin(&t);
    hear(0, "GET");
    peer_say(0, "HTTP/1.1 200 OK\r\n" EMPTY);
    finished(FL_VERDICT_HEALTHY, "", "", "");
    begin(&t);
    hear(0, "GET"); /* takes it, and leaves */
    peer_end(0);
    hear(1, "GET");
    peer_say(1, "HTTP/1.1 200 OK\r\n" EMPTY);
    finished(FL_VERDICT_HEALTHY, "", "", "");
    begin(&t);
    hear(1, "GET");
    peer_end(1);
    hear(2, "GET");
    assert_int_equal(dones, 2); /* no verdict before the second */
    peer_end(2);
    finished(FL_VERDICT_UNREACHABLE, "premature_close", "@ closed the connection without an answer",
             "");
    assert_false(last_answered);
    assert_string_equal(last.step, "head");
    assert_int_equal(peer.accepted, 3);
}

static void silent_twice_is_a_hang(void **state)
{
    (void)state;
    struct fl_probe_target t = http();
    t.timeout_ms = 120;
    begin(&t);
    hear(0, "GET");
    hear(1, "GET"); /* after the first timeout */
    assert_int_equal(dones, 0);
    assert_true(peer.conn[0].ended);
    finished(FL_VERDICT_UNREACHABLE, "no_answer", "@ accepts connections but does not answer", "");
    assert_in_range(last.duration_ms, 240, 700);
    begin(&t); /* silent once is not */
    hear(2, "GET");
    hear(3, "GET");
    peer_say(3, "HTTP/1.1 200 OK\r\n" EMPTY);
    finished(FL_VERDICT_HEALTHY, "", "", "");
}

static void s3_anonymous(void **state)
{
    (void)state;
    struct fl_probe_target t = s3(false);
    begin(&t);
    const char *head = peer_hear(0);
    assert_true(strncmp(head, "HEAD /releases HTTP/1.1\r\nHost: store.example\r\n", 46) == 0);
    assert_null(strstr(head, "Authorization"));
    peer_say(0, "HTTP/1.1 403 Forbidden\r\nContent-Length: 200\r\n\r\n");
    hear(0, "GET / HTTP/1.1\r\nHost: store.example\r\n"); /* on the same connection */
    peer_say(0, "HTTP/1.1 403 Forbidden\r\nContent-Length: 46\r\n\r\n"
                "<Error><Code>InvalidAccessKeyId</Code></Error>");
    finished(FL_VERDICT_HEALTHY, "", "", "reachable, credentials not checked");
    assert_false(fl_probe_run_keyed(run));
    t.bucket = "";
    begin(&t);
    hear(1, "GET / HTTP/1.1\r\n"); /* no bucket; and the definition is another */
    peer_say(1, "HTTP/1.1 503 Slow\r\nContent-Type: text/plain\r\nContent-Length: 36\r\n\r\n"
                "<Error><Code>SlowDown</Code></Error>");
    finished(FL_VERDICT_ERRORING, "http_503", "@ answered with status 503 (SlowDown)", "");
    assert_true(last_answered);
}

static void s3_with_keys(void **state)
{
    (void)state;
    const struct fl_probe_target t = s3(true);
    begin(&t);
    const char *head = peer_hear(0);
    assert_non_null(strstr(head, "Credential=AKIDEXAMPLE00000LE/"));
    assert_null(strstr(head, "secret"));
    peer_say(0, "HTTP/1.1 403 Forbidden\r\nContent-Length: 200\r\n\r\n");
    head = peer_hear(0);
    assert_true(strncmp(head, "GET / ", 6) == 0);
    assert_non_null(strstr(head, "Credential=AKIDEXAMPLE00000LE/"));
    peer_say(0, "HTTP/1.1 403 Forbidden\r\nContent-Length: 46\r\n\r\n"
                "<Error><Code>InvalidAccessKeyId</Code></Error>");
    finished(FL_VERDICT_AUTH_REJECTED, "credentials_rejected",
             "credentials rejected (status=403 code=InvalidAccessKeyId key=AKID****LE)", "");
    assert_true(fl_probe_run_keyed(run));
    assert_true(last_answered);
    begin(&t);
    hear(0, "HEAD /releases ");
    peer_say(0, "HTTP/1.1 404 Not Found\r\n\r\n");
    finished(FL_VERDICT_HEALTHY, "", "", "bucket releases is absent");
}

/* A rotated Secret counts with the next probe, which has a connection of its own. */
static void keys_are_read_anew(void **state)
{
    (void)state;
    const struct fl_probe_target t = s3(true);
    begin(&t);
    hear(0, "HEAD");
    peer_say(0, "HTTP/1.1 200 OK\r\n\r\n");
    finished(FL_VERDICT_HEALTHY, "", "", "");
    write_key(id_file, "AKIDSECOND");
    begin(&t);
    assert_non_null(strstr(peer_hear(1), "Credential=AKIDSECOND/"));
    assert_true(peer.conn[0].ended);
    peer_say(1, "HTTP/1.1 200 OK\r\n\r\n");
    finished(FL_VERDICT_HEALTHY, "", "", "");
}

/* Reachable, but not as it should be: shown, and nobody is kept out. */
static void keys_that_cannot_be_used(void **state)
{
    (void)state;
    struct fl_probe_target t = s3(true);
    t.secret_key_file = "/nowhere/secret";
    begin(&t);
    assert_null(strstr(peer_hear(0), "Authorization"));
    peer_say(0, "HTTP/1.1 200 OK\r\n\r\n");
    finished(FL_VERDICT_ERRORING, "probe_keys",
             "the keys of the probe cannot be used (secret_key_file: No such file or directory)",
             "");
    assert_string_equal(last.step, "send");
    begin(&t);
    hear(0, "HEAD");
    peer_close();
    finished(FL_VERDICT_UNREACHABLE, "connect_refused", "connect to @ failed (Connection refused)",
             "");
    write_key(id_file, "");
    peer_listen(4);
    t = s3(true);
    begin(&t);
    hear(0, "HEAD");
    peer_say(0, "HTTP/1.1 200 OK\r\n\r\n");
    finished(FL_VERDICT_ERRORING, "probe_keys",
             "the keys of the probe cannot be used (access_key_file holds no key)", "");
}

static void tls_is_not_spoken_in_clear(void **state)
{
    (void)state;
    struct fl_probe_target t = s3(true);
    t.tls = true;
    begin(&t);
    finished(FL_VERDICT_UNREACHABLE, "tls_unavailable",
             "TLS handshake with @ failed (its files could not be loaded, see the log)", "");
    assert_string_equal(last.step, "tls");
    turn_ms(20);
    assert_int_equal(peer.accepted, 0);
}

static void another_definition_another_connection(void **state)
{
    (void)state;
    struct fl_probe_target t = http();
    begin(&t);
    hear(0, "GET");
    peer_say(0, "HTTP/1.1 200 OK\r\n" EMPTY);
    finished(FL_VERDICT_HEALTHY, "", "", "");
    t.fingerprint = 99;
    begin(&t);
    hear(1, "GET");
    turn_ms(5);
    assert_true(peer.conn[0].ended);
    peer_say(1, "HTTP/1.1 200 OK\r\n" EMPTY);
    finished(FL_VERDICT_HEALTHY, "", "", "");
    assert_int_equal(last.fingerprint, 99);
    char path[] = "/other";
    t.path = path;
    begin(&t);
    memset(path, 'x', sizeof(path) - 1); /* it has its own copy */
    hear(2, "GET /other ");
    fl_probe_run_cancel(run);
    turn_ms(20);
    assert_true(peer.conn[2].ended);
    assert_int_equal(dones, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(http_on_one_connection),
        TEST(a_second_attempt_on_a_fresh_connection),
        TEST(silent_twice_is_a_hang),
        TEST(s3_anonymous),
        TEST(s3_with_keys),
        TEST(keys_are_read_anew),
        TEST(keys_that_cannot_be_used),
        TEST(tls_is_not_spoken_in_clear),
        TEST(another_definition_another_connection),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
