#include "controller/push/push_signer.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/sign/message_signature.h"

#define JOBS 200

/* RFC 9421 appendix B.1.4. */
static const char private_pem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n"
    "-----END PRIVATE KEY-----\n";
static const char public_pem[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=\n"
                                 "-----END PUBLIC KEY-----\n";

static struct fl_reactor *reactor;
static struct fl_push_signer *signer;
static struct fl_sign_key *key;
static struct fl_verify_keys *known;
static char digest[FL_CONTENT_DIGEST_TEXT];
static struct job {
    struct fl_push_job *job;
    int rc;
    unsigned ended; /* which one it was: from 1 */
} jobs[JOBS];
static unsigned ended;

static void on_signed(void *arg, int rc)
{
    struct job *j = arg;
    assert_int_equal(j->ended, 0);
    j->rc = rc;
    j->ended = ++ended;
}

static int set_up(void **state)
{
    (void)state;
    memset(jobs, 0, sizeof(jobs));
    ended = 0;
    known = fl_verify_keys_new();
    return known == NULL || fl_verify_keys_add_pem(known, fl_span_of(public_pem)) != 1 ||
           fl_sign_key_new(fl_span_of(private_pem), &key) < 0 ||
           fl_content_digest_of(FL_SPAN("a state"), digest) < 0 || fl_reactor_new(&reactor) < 0 ||
           fl_push_signer_new(reactor, &signer) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        fl_push_job_give(&jobs[i].job);
    }
    signer = fl_push_signer_free(signer);
    reactor = fl_reactor_free(reactor);
    fl_verify_keys_free(known);
    key = fl_sign_key_free(key);
    return 0;
}

static int ask_for(unsigned i, const char *id)
{
    char host[32]; /* is copied, as the id */
    (void)snprintf(host, sizeof(host), "10.0.0.%u:8422", i);
    const struct fl_push_head head = {host, id, digest, 7, 1700000000 + i};
    return fl_push_signer_ask(signer, key, &head, on_signed, &jobs[i], &jobs[i].job);
}

static void ask(unsigned i)
{
    char id[16];
    (void)snprintf(id, sizeof(id), "uid-%u", i);
    assert_int_equal(ask_for(i, id), 0);
}

static void until_ended(unsigned n)
{
    for (int i = 0; i < 10000 && ended < n; i++) {
        fl_reactor_turn(reactor, 1);
    }
    assert_int_equal(ended, n);
}

static struct fl_span field(struct fl_span head, const char *name)
{
    const char *at = memmem(head.ptr, head.len, name, strlen(name));
    assert_non_null(at);
    at += strlen(name);
    return (struct fl_span){at, strcspn(at, "\r")};
}

static void check(unsigned i)
{
    char want[64];
    int64_t created = 0;
    struct fl_span head = fl_push_job_text(jobs[i].job);
    const struct fl_sig_request rq = {FL_SPAN("PUT"), FL_SPAN(FL_PUSH_PATH),
                                      field(head, "\r\nContent-Type: "),
                                      field(head, "\r\nFairlead-Sidecar: ")};
    assert_int_equal(jobs[i].rc, 0);
    assert_true(fl_span_starts(head, FL_SPAN("PUT " FL_PUSH_PATH " HTTP/1.1\r\nHost: ")));
    assert_memory_equal(head.ptr + head.len - 4, "\r\n\r\n", 4);
    assert_int_equal(fl_message_verify(known, &rq, field(head, "\r\nContent-Digest: "),
                                       field(head, "\r\nSignature-Input: "),
                                       field(head, "\r\nSignature: "), &created),
                     FL_SIG_OK);
    assert_int_equal(created, 1700000000 + i);
    (void)snprintf(want, sizeof(want), "uid-%u", i);
    assert_true(fl_span_is(rq.sidecar, want));
    (void)snprintf(want, sizeof(want), "10.0.0.%u:8422", i);
    assert_true(fl_span_is(field(head, "\r\nHost: "), want));
    assert_true(fl_span_is(field(head, "\r\nContent-Length: "), "7"));
}

static void each_is_signed_for_whom_it_is_in_the_order_of_asking(void **state)
{
    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        ask(i);
    }
    assert_int_equal(ended, 0); /* never from within */
    until_ended(JOBS);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(jobs[i].ended, i + 1);
        check(i);
    }
}

static void what_is_not_to_be_sent_is_not(void **state)
{
    (void)state;
    char long_id[4096];
    memset(long_id, 'u', sizeof(long_id));
    long_id[sizeof(long_id) - 1] = '\0';
    assert_int_equal(ask_for(0, "two\r\nlines"), 0);
    assert_int_equal(ask_for(1, long_id), 0);
    ask(2);
    memset(digest, 'A', sizeof(digest) - 1);
    assert_int_equal(ask_for(3, "uid-3"), 0); /* no digest has this form */
    until_ended(4);
    assert_int_equal(jobs[3].rc, -EINVAL);
    assert_int_equal(jobs[0].rc, -EINVAL);
    assert_int_equal(jobs[1].rc, -EINVAL);
    check(2);
}

/* Before, while and after each is made, at all possible moments. */
static void one_that_was_given_back_is_not_told_of(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 30; round++) {
        for (unsigned i = 0; i < JOBS; i++) {
            jobs[i].ended = 0;
            ask(i);
        }
        usleep(round * 50);
        for (unsigned i = 0; i < JOBS; i += 2) {
            fl_push_job_give(&jobs[i].job);
            assert_null(jobs[i].job);
        }
        ended = 0;
        until_ended(JOBS / 2);
        fl_reactor_turn(reactor, 1);
        for (unsigned i = 0; i < JOBS; i++) {
            assert_int_equal(jobs[i].ended > 0, i % 2);
            fl_push_job_give(&jobs[i].job);
        }
    }
}

static void a_key_lives_as_long_as_it_is_needed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        ask(i);
    }
    key = fl_sign_key_free(key);
    until_ended(50);
    check(49);
}

static void freed_with_work_undone(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 20; i++) {
            ask(i);
        }
        usleep(round * 40);
        for (unsigned i = 0; i < 20; i++) {
            fl_push_job_give(&jobs[i].job);
        }
        signer = fl_push_signer_free(signer);
        assert_int_equal(fl_push_signer_new(reactor, &signer), 0);
    }
    fl_reactor_turn(reactor, 1);
    assert_int_equal(ended, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_is_signed_for_whom_it_is_in_the_order_of_asking),
        TEST(what_is_not_to_be_sent_is_not),
        TEST(one_that_was_given_back_is_not_told_of),
        TEST(a_key_lives_as_long_as_it_is_needed),
        TEST(freed_with_work_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
