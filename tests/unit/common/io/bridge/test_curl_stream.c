#include "common/io/bridge/curl_bridge.h"

#include "tests/unit/common/io/script_kit.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/fmt.h"

static struct fl_reactor *reactor;
static struct fl_curl *curl;
static struct script_conn *asker; /* the last one that asked */
static char url[128];

struct result {
    unsigned done, runs, heads, fields;
    enum fl_curl_fault fault;
    int status;
    char got[4096], body[256], text[256], warning[128];
    size_t got_len;
    int64_t retry_after_ms;
    struct fl_curl_call *call;
    bool refuse;
    void (*meanwhile)(struct result *r); /* within some */
};

static void asked(struct script_conn *c)
{
    asker = c;
}

static int set_up(void **state)
{
    (void)state;
    asker = NULL;
    assert_int_equal(fl_reactor_new(&reactor), 0);
    script_begin(reactor, asked);
    assert_int_equal(fl_curl_new(reactor, &curl), 0);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", script.port);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    curl = fl_curl_free(curl);
    script_done();
    fl_reactor_turn(reactor, 0);
    reactor = fl_reactor_free(reactor);
    return 0;
}

static bool on_some(void *arg, struct fl_span bytes)
{
    struct result *r = arg;
    if (bytes.len == 0) {
        r->heads++;
        assert_int_equal(r->runs, 0);
    } else {
        r->runs++;
        assert_true(bytes.len <= 16384);
        size_t n = bytes.len < sizeof(r->got) - 1 - r->got_len ? bytes.len
                                                               : sizeof(r->got) - 1 - r->got_len;
        memcpy(r->got + r->got_len, bytes.ptr, n);
        r->got_len += n;
        r->got[r->got_len] = '\0';
        if (r->meanwhile != NULL) {
            r->meanwhile(r);
        }
    }
    return !r->refuse;
}

static void on_field(void *arg, struct fl_span name, struct fl_span value)
{
    struct result *r = arg;
    r->fields++;
    if (fl_span_ieq(name, FL_SPAN("Warning"))) {
        script_copy(r->warning, sizeof(r->warning), value);
    }
}

static void on_done(void *arg, const struct fl_curl_answer *a)
{
    struct result *r = arg;
    r->done++;
    r->fault = a->fault;
    r->status = a->status;
    r->retry_after_ms = fl_curl_retry_after_ms(r->call);
    r->call = NULL;
    script_copy(r->body, sizeof(r->body), a->body);
    (void)snprintf(r->text, sizeof(r->text), "%s", a->text);
}

static struct fl_curl_conf conf_of(struct result *r)
{
    return (struct fl_curl_conf){.method = "GET",
                                 .url = url,
                                 .timeout_ms = 20000,
                                 .answer_max_bytes = 65536,
                                 .done = on_done,
                                 .arg = r,
                                 .some = on_some,
                                 .field = on_field};
}

static bool is_done(void *arg)
{
    return ((struct result *)arg)->done > 0;
}

static bool is_asked(void *arg)
{
    return script.requests >= *(unsigned *)arg;
}

static bool has_run(void *arg)
{
    return ((struct result *)arg)->runs > 0;
}

static bool has_head(void *arg)
{
    return ((struct result *)arg)->heads > 0;
}

static void start(const struct fl_curl_conf *conf, struct result *r)
{
    unsigned want = script.requests + 1;
    assert_int_equal(fl_curl_start(curl, conf, &r->call), 0);
    script_until(is_asked, &want, "a request");
}

static void begin(struct result *r)
{
    struct fl_curl_conf conf = conf_of(r);
    start(&conf, r);
}

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

static void bytes_are_handed_on_as_they_arrive(void **state)
{
    (void)state;
    struct result r = {0};
    begin(&r);
    script_say(asker, CHUNKED);
    script_until(has_head, &r, "the head");
    assert_int_equal(r.runs, 0);
    script_chunk(asker, "one\n");
    script_until(has_run, &r, "a run");
    assert_string_equal(r.got, "one\n");
    assert_int_equal(r.done, 0);
    script_chunk(asker, "two\n");
    script_say(asker, "0\r\n\r\n");
    script_until(is_done, &r, "the end");
    assert_string_equal(r.got, "one\ntwo\n");
    assert_string_equal(r.body, "");
    assert_int_equal(r.heads, 1);
    assert_int_equal(r.fault, FL_CURL_NONE);
}

static void a_long_answer_comes_in_buffers_and_has_no_limit(void **state)
{
    (void)state;
    struct result r = {0};
    static char much[3000000];
    memset(much, 'x', sizeof(much) - 1);
    begin(&r);
    script_answer(asker, "200 OK", "", much);
    script_until(is_done, &r, "the end");
    assert_int_equal(r.fault, FL_CURL_NONE);
    assert_true(r.runs >= sizeof(much) / 16384);
}

static void what_is_not_2xx_is_collected(void **state)
{
    (void)state;
    struct result r = {0};
    begin(&r);
    script_answer(asker, "403 Forbidden", "Warning: 299 - \"old\"\r\n", "no, you may not");
    script_until(is_done, &r, "the end");
    assert_int_equal(r.status, 403);
    assert_int_equal(r.heads, 0);
    assert_int_equal(r.runs, 0);
    assert_string_equal(r.body, "no, you may not");
    assert_string_equal(r.warning, "299 - \"old\"");
    assert_int_equal(r.retry_after_ms, 0);
}

static void retry_after_is_read_as_seconds_and_as_a_date(void **state)
{
    (void)state;
    struct result r = {0}, date = {0}, past = {0};
    char field[64];
    begin(&r);
    script_answer(asker, "429 Too Many Requests", "Retry-After: 7\r\n", "");
    script_until(is_done, &r, "the end");
    assert_int_equal(r.retry_after_ms, 7000);
    struct fl_fmt f = fl_fmt_of(field, sizeof(field));
    fl_fmt_text(&f, "Retry-After: ");
    fl_fmt_http_date(&f, fl_reactor_wall_ms(reactor) / 1000 + 60);
    fl_fmt_text(&f, "\r\n");
    begin(&date);
    script_answer(asker, "503 Unavailable", field, "");
    script_until(is_done, &date, "the end");
    assert_in_range(date.retry_after_ms, 30000, 60000);
    begin(&past);
    script_answer(asker, "503 Unavailable", "Retry-After: Mon, 30 Nov 2020 04:42:31 GMT\r\n", "");
    script_until(is_done, &past, "the end");
    assert_int_equal(past.retry_after_ms, 0);
}

static void its_taker_may_end_it(void **state)
{
    (void)state;
    struct result r = {.refuse = true}, late = {0};
    begin(&r);
    script_say(asker, CHUNKED);
    script_until(is_done, &r, "the end");
    assert_int_equal(r.fault, FL_CURL_OTHER);
    assert_int_equal(r.heads, 1);
    begin(&late);
    script_say(asker, CHUNKED);
    script_until(has_head, &late, "the head");
    late.refuse = true;
    script_chunk(asker, "a");
    script_chunk(asker, "b");
    script_until(is_done, &late, "the end");
    assert_int_equal(late.fault, FL_CURL_OTHER);
    assert_int_equal(late.status, 200);
    assert_int_equal(late.done, 1);
    assert_int_equal(late.runs, 1);
}

static void a_cut_in_the_middle_is_an_end_of_its_own(void **state)
{
    (void)state;
    struct result r = {0};
    begin(&r);
    script_say(asker, CHUNKED);
    script_chunk(asker, "half");
    script_end(asker);
    script_until(is_done, &r, "the end");
    assert_int_equal(r.fault, FL_CURL_ENDED);
    assert_string_equal(r.got, "half");
}

/* ---- silence ---- */

static void silence_ends_it_and_bytes_keep_it(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_conf conf = conf_of(&r);
    conf.stall_ms = 800;
    start(&conf, &r);
    script_say(asker, CHUNKED);
    for (int i = 0; i < 12; i++) { /* longer than the limit, never silent for so long */
        script_chunk(asker, "x");
        script_for(100);
    }
    assert_int_equal(r.done, 0);
    int64_t began_ms = fl_reactor_now_ms(reactor);
    script_until(is_done, &r, "the end");
    assert_int_equal(r.fault, FL_CURL_TIMEOUT);
    assert_string_equal(r.text, "no byte for 800 ms");
    assert_int_equal(r.status, 200);
    assert_true(fl_reactor_now_ms(reactor) - began_ms >= 600);
}

static void a_head_that_never_comes_is_silence_too(void **state)
{
    (void)state;
    struct result r = {0}, quiet = {0};
    struct fl_curl_conf conf = conf_of(&r), patient = conf_of(&quiet);
    conf.stall_ms = 150;
    start(&patient, &quiet);
    start(&conf, &r);
    script_until(is_done, &r, "the end");
    assert_int_equal(r.fault, FL_CURL_TIMEOUT);
    assert_int_equal(r.status, 0);
    assert_int_equal(quiet.done, 0); /* it has no such limit */
}

/* ---- calls from within ---- */

static struct result inner;

static void start_another(struct result *r)
{
    struct fl_curl_conf conf = conf_of(&inner);
    assert_int_equal(fl_curl_start(curl, &conf, &inner.call), 0);
    r->meanwhile = NULL;
}

static void another_may_be_started_from_within(void **state)
{
    (void)state;
    struct result r = {.meanwhile = start_another};
    inner = (struct result){0};
    begin(&r);
    struct script_conn *first = asker;
    script_say(first, CHUNKED);
    script_chunk(first, "x");
    unsigned want = 2;
    script_until(is_asked, &want, "the second request");
    assert_ptr_not_equal(asker, first);
    script_answer(asker, "200 OK", "", "inner");
    script_until(is_done, &inner, "the end of the second");
    assert_string_equal(inner.got, "inner");
    assert_int_equal(r.done, 0);
}

static void cancel_both(struct result *r)
{
    fl_curl_cancel(&inner.call);
    fl_curl_cancel(&r->call);
    assert_null(r->call);
    r->meanwhile = NULL;
}

static void itself_and_others_may_be_cancelled_from_within(void **state)
{
    (void)state;
    struct result r = {.meanwhile = cancel_both};
    inner = (struct result){0};
    begin(&inner);
    script_say(asker, CHUNKED);
    struct script_conn *other = asker;
    begin(&r);
    script_say(asker, CHUNKED);
    script_chunk(asker, "x");
    script_until(has_run, &r, "a run");
    script_chunk(asker, "y");
    script_chunk(other, "y");
    script_for(100);
    assert_int_equal(r.runs, 1);
    assert_int_equal(r.done + inner.done + inner.runs, 0);
    assert_true(asker->gone && other->gone); /* their connections have ended */
}

static void start_and_cancel(struct result *r)
{
    struct fl_curl_conf conf = conf_of(&inner);
    assert_int_equal(fl_curl_start(curl, &conf, &inner.call), 0);
    fl_curl_cancel(&inner.call);
    r->meanwhile = NULL;
}

static void one_that_was_only_just_started_too(void **state)
{
    (void)state;
    struct result r = {.meanwhile = start_and_cancel};
    inner = (struct result){0};
    begin(&r);
    script_say(asker, CHUNKED);
    script_chunk(asker, "x");
    script_until(has_run, &r, "a run");
    script_for(100);
    assert_int_equal(script.requests, 1);
    assert_int_equal(inner.done, 0);
}

/* ---- connections ---- */

static void round_trip(bool reuse)
{
    struct result r = {0};
    struct fl_curl_conf conf = conf_of(&r);
    conf.some = NULL;
    conf.reuse = reuse;
    start(&conf, &r);
    script_answer(asker, "200 OK", "", "x");
    script_until(is_done, &r, "the end");
    assert_int_equal(r.fault, FL_CURL_NONE);
}

static void a_connection_is_kept_when_the_call_says_so(void **state)
{
    (void)state;
    round_trip(false);
    round_trip(false);
    assert_int_equal(script.accepted, 2);
    round_trip(true);
    round_trip(true);
    round_trip(true);
    assert_int_equal(script.accepted, 3);
    round_trip(false); /* neither takes a kept one nor leaves one */
    assert_int_equal(script.accepted, 4);
}

static void kept_ones_are_dropped_on_demand(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_conf conf = conf_of(&r);
    round_trip(true);
    fl_curl_drop_kept(curl);
    round_trip(true);
    assert_int_equal(script.accepted, 2);
    conf.reuse = true;
    start(&conf, &r); /* takes the kept one, and is under way while they are dropped */
    struct script_conn *under_way = asker;
    fl_curl_drop_kept(curl);
    round_trip(true);
    assert_int_equal(script.accepted, 3);
    script_answer(under_way, "200 OK", "", "x");
    script_until(is_done, &r, "the end");
    assert_int_equal(r.fault, FL_CURL_NONE);
    round_trip(true);
    assert_int_equal(script.accepted, 3);
    assert_int_equal(asker->number, 3); /* not the one that was dropped under way */
}

/* The options of our end of the connection to the server; -1: none found. */
static int option_of_client(int level, int name)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t len = sizeof(peer);
        int value = -1;
        if (getpeername(fd, (struct sockaddr *)(void *)&peer, &len) == 0 &&
            peer.sin_family == AF_INET && ntohs(peer.sin_port) == script.port) {
            len = sizeof(value);
            assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
            return value;
        }
    }
    return -1;
}

static void a_silent_connection_is_probed_when_the_call_says_so(void **state)
{
    (void)state;
    struct result r = {0}, plain = {0};
    struct fl_curl_conf conf = conf_of(&plain);
    start(&conf, &plain);
    assert_int_equal(option_of_client(IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    fl_curl_cancel(&plain.call);
    conf = conf_of(&r);
    conf.keepalive = true;
    start(&conf, &r);
    assert_int_equal(option_of_client(SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option_of_client(IPPROTO_TCP, TCP_KEEPIDLE), 30);
    assert_int_equal(option_of_client(IPPROTO_TCP, TCP_KEEPINTVL), 10);
    assert_int_equal(option_of_client(IPPROTO_TCP, TCP_KEEPCNT), 3);
    assert_int_equal(option_of_client(IPPROTO_TCP, TCP_USER_TIMEOUT), 45000);
}

static void https_needs_terms(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_conf conf = conf_of(&r);
    (void)snprintf(url, sizeof(url), "https://127.0.0.1:%u/", script.port);
    assert_int_equal(fl_curl_start(curl, &conf, &r.call), 0);
    script_until(is_done, &r, "the end");
    assert_int_not_equal(r.fault, FL_CURL_NONE);
    assert_int_equal(script.accepted, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_are_handed_on_as_they_arrive),
        TEST(a_long_answer_comes_in_buffers_and_has_no_limit),
        TEST(what_is_not_2xx_is_collected),
        TEST(retry_after_is_read_as_seconds_and_as_a_date),
        TEST(its_taker_may_end_it),
        TEST(a_cut_in_the_middle_is_an_end_of_its_own),
        TEST(silence_ends_it_and_bytes_keep_it),
        TEST(a_head_that_never_comes_is_silence_too),
        TEST(another_may_be_started_from_within),
        TEST(itself_and_others_may_be_cancelled_from_within),
        TEST(one_that_was_only_just_started_too),
        TEST(a_connection_is_kept_when_the_call_says_so),
        TEST(kept_ones_are_dropped_on_demand),
        TEST(a_silent_connection_is_probed_when_the_call_says_so),
        TEST(https_needs_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
