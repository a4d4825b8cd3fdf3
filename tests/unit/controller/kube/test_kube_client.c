#include "tests/unit/controller/kube/watch_kit.h"

struct result {
    unsigned done, heads;
    enum fl_curl_fault fault;
    int status, os_errno;
    int64_t retry_after_ms;
    char text[512], body[512], got[512];
    struct fl_kube_call *call;
    bool refuse, cancel;
};

static void on_done(void *arg, const struct fl_kube_answer *a)
{
    struct result *r = arg;
    r->done++;
    r->fault = a->fault;
    r->status = a->status;
    r->os_errno = a->os_errno;
    r->retry_after_ms = a->retry_after_ms;
    script_copy(r->text, sizeof(r->text), fl_span_of(a->text));
    script_copy(r->body, sizeof(r->body), a->body);
    r->call = NULL;
}

static bool on_some(void *arg, struct fl_span bytes)
{
    struct result *r = arg;
    r->heads += bytes.len == 0;
    size_t n = strlen(r->got);
    script_copy(r->got + n, sizeof(r->got) - n, bytes);
    if (r->cancel && bytes.len > 0) {
        fl_kube_cancel(&r->call);
    }
    return !(r->refuse && bytes.len > 0);
}

static bool is_done(void *arg)
{
    return ((struct result *)arg)->done > 0;
}

static struct fl_kube_request get(const char *path, struct result *r)
{
    return (struct fl_kube_request){.verb = "get",
                                    .resource = "leases",
                                    .method = "GET",
                                    .path = path,
                                    .timeout_ms = 20000,
                                    .done = on_done,
                                    .arg = r};
}

static void start(const struct fl_kube_request *q, struct result *r)
{
    unsigned want = script.requests + 1;
    assert_int_equal(fl_kube_start(kube, q, &r->call), 0);
    assert_int_equal(r->done, 0);
    script_until(is_asked, &want, "a request");
}

static void ends(struct result *r)
{
    script_until(is_done, r, "the end of a call");
    assert_int_equal(r->done, 1);
}

static void begin(struct result *r)
{
    struct fl_kube_request q = get("/apis/x", r);
    start(&q, r);
}

static void a_call_has_a_method_a_body_and_a_whole_answer(void **state)
{
    (void)state;
    char value[64], body[] = "{\"a\":1}";
    struct result r = {0};
    struct fl_kube_request q = get("/apis/coordination.k8s.io/v1/leases?x=1", &r);
    q.method = "PATCH";
    q.content_type = "application/merge-patch+json";
    q.body = fl_span_of(body);
    unsigned want = 1;
    assert_int_equal(fl_kube_start(kube, &q, &r.call), 0);
    memset(body, 'x', sizeof(body) - 1); /* it was copied */
    script_until(is_asked, &want, "a request");
    assert_string_equal(asker->method, "PATCH");
    assert_string_equal(asker->target, "/apis/coordination.k8s.io/v1/leases?x=1");
    assert_string_equal(asker->body, "{\"a\":1}");
    assert_string_equal(script_field(script.heads[0], "Content-Type", value, sizeof(value)),
                        "application/merge-patch+json");
    script_answer(asker, "201 Created", "", "{\"ok\":true}");
    ends(&r);
    assert_int_equal(r.fault, FL_CURL_NONE);
    assert_int_equal(r.status, 201);
    assert_string_equal(r.body, "{\"ok\":true}");
    assert_string_equal(r.text, "");
}

static void an_error_is_said_in_the_words_of_its_status(void **state)
{
    (void)state;
    struct result r = {0}, plain = {0}, empty = {0};
    begin(&r);
    script_answer(asker, "409 Conflict", "",
                  "{\"kind\":\"Status\",\"message\":\"the object has been modified\","
                  "\"reason\":\"Conflict\",\"details\":{\"retryAfterSeconds\":3},\"code\":409}");
    ends(&r);
    assert_int_equal(r.status, 409);
    assert_string_equal(r.text, "the object has been modified");
    assert_int_equal(r.retry_after_ms, 3000);
    begin(&plain);
    script_answer(asker, "429 Too Many Requests", "Retry-After: 2\r\n",
                  "Too many requests, please try again later.\nsecond line");
    ends(&plain);
    assert_string_equal(plain.text, "Too many requests, please try again later.");
    assert_int_equal(plain.retry_after_ms, 2000);
    begin(&empty);
    script_answer(asker, "503 Service Unavailable", "", "");
    ends(&empty);
    assert_string_equal(empty.text, "status 503");
}

static void a_401_is_tried_once_more_with_the_token_of_now(void **state)
{
    (void)state;
    char value[64];
    struct result r = {0}, twice = {0};
    struct fl_kube_request q = get("/apis/x", &r);
    q.method = "POST";
    q.body = FL_SPAN("abc");
    kit_write("token", "two");
    start(&q, &r);
    script_answer(asker, "401 Unauthorized", "", "{}");
    request(2, "/apis/x");
    assert_string_equal(asker->body, "abc");
    assert_string_equal(script_field(script.heads[0], "Authorization", value, sizeof(value)),
                        "Bearer one");
    assert_string_equal(script_field(script.heads[1], "Authorization", value, sizeof(value)),
                        "Bearer two");
    script_answer(asker, "200 OK", "", "{}");
    ends(&r);
    assert_int_equal(r.status, 200);
    begin(&twice);
    script_answer(asker, "401 Unauthorized", "", "{}");
    request(4, "/apis/x");
    script_answer(asker, "401 Unauthorized", "", "{}");
    ends(&twice);
    assert_int_equal(twice.status, 401);
    assert_int_equal(script.requests, 4);
}

static void tries_are_counted_by_verb_resource_and_code(void **state)
{
    (void)state;
    char text[2048];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    struct result r[4] = {0};
    fl_kube_metrics(kube, &f);
    assert_string_equal(text, "");
    for (int i = 0; i < 2; i++) {
        begin(&r[i]);
        script_answer(asker, "200 OK", "", "{}");
        ends(&r[i]);
    }
    begin(&r[2]);
    script_answer(asker, "401 Unauthorized", "", "{}");
    request(4, "/apis/x");
    script_end(asker);
    request(5, "/apis/x"); /* a kept connection may end at any time: libcurl takes a new one */
    script_end(asker);
    ends(&r[2]);
    struct fl_kube_request q = get("/api/v1/pods?watch=1", &r[3]);
    q.verb = "watch";
    q.some = on_some;
    start(&q, &r[3]);
    script_say(asker, CHUNKED);
    script_for(50);
    fl_kube_metrics(kube, &f); /* while it runs */
    assert_non_null(strstr(text, "# TYPE fairlead_controller_api_requests_total counter\n"));
    assert_non_null(strstr(text, "total{verb=\"get\",resource=\"leases\",code=\"200\"} 2\n"));
    assert_non_null(strstr(text, "total{verb=\"get\",resource=\"leases\",code=\"401\"} 1\n"));
    assert_non_null(strstr(text, "total{verb=\"get\",resource=\"leases\",code=\"error\"} 1\n"));
    assert_non_null(strstr(text, "total{verb=\"watch\",resource=\"leases\",code=\"200\"} 1\n"));
    script_say(asker, LAST_CHUNK);
    ends(&r[3]);
    f = fl_fmt_of(text, sizeof(text));
    fl_kube_metrics(kube, &f); /* and not again when it ends */
    assert_non_null(strstr(text, "total{verb=\"watch\",resource=\"leases\",code=\"200\"} 1\n"));
}

static void what_the_connection_met_is_a_sentence(void **state)
{
    (void)state;
    char words[128];
    struct result refused = {0}, ended = {0}, silent = {0}, strange = {0};
    begin(&ended);
    script_end(asker);
    ends(&ended);
    assert_int_equal(ended.fault, FL_CURL_ENDED);
    assert_non_null(strstr(ended.text, "closed the connection before the answer was whole"));
    struct fl_kube_request q = get("/apis/x", &silent);
    q.timeout_ms = 300;
    start(&q, &silent);
    ends(&silent);
    assert_int_equal(silent.fault, FL_CURL_TIMEOUT);
    assert_non_null(strstr(silent.text, "does not answer"));
    begin(&strange);
    script_say(asker, "SSH-2.0-OpenSSH_9.2\r\n");
    script_end(asker);
    ends(&strange);
    assert_int_equal(strange.fault, FL_CURL_NOT_HTTP);
    script_stop();
    q = get("/apis/x", &refused);
    assert_int_equal(fl_kube_start(kube, &q, &refused.call), 0);
    ends(&refused);
    assert_int_equal(refused.fault, FL_CURL_CONNECT);
    assert_int_equal(refused.os_errno, ECONNREFUSED);
    (void)snprintf(words, sizeof(words),
                   "connect to http://127.0.0.1:%u failed (Connection refused)", script.port);
    assert_string_equal(refused.text, words);
}

static void a_warning_is_logged_once_per_text(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct result r = {0};
        begin(&r);
        script_answer(asker, "200 OK",
                      "Warning: 299 - \"v1 Endpoints is deprecated\"\r\n"
                      "Warning: 299 - \"so is this\"\r\n",
                      "{}");
        ends(&r);
    }
    assert_int_equal(kit_logged("the Kubernetes API warns"), 2);
    assert_int_equal(kit_logged("Endpoints is deprecated"), 1);
}

static void connections_are_kept_but_not_after_silence(void **state)
{
    (void)state;
    struct result r[5] = {0};
    begin(&r[0]); /* two at once: two connections, which are kept */
    struct script_conn *first = asker;
    begin(&r[1]);
    script_answer(first, "200 OK", "", "{}");
    script_answer(asker, "200 OK", "", "{}");
    ends(&r[0]);
    ends(&r[1]);
    begin(&r[2]);
    script_answer(asker, "200 OK", "", "{}");
    ends(&r[2]);
    assert_int_equal(script.accepted, 2);
    struct fl_kube_request q = get("/apis/x", &r[3]);
    q.timeout_ms = 300;
    start(&q, &r[3]);
    ends(&r[3]);
    assert_int_equal(script.accepted, 2);
    begin(&r[4]); /* the other one may be as dead */
    assert_int_equal(asker->number, 3);
}

static void a_stream_is_handed_on_and_may_be_ended_by_its_taker(void **state)
{
    (void)state;
    struct result r = {0}, error = {0};
    struct fl_kube_request q = get("/api/v1/pods?watch=1", &r);
    q.some = on_some;
    start(&q, &r);
    script_say(asker, CHUNKED);
    script_for(50);
    assert_int_equal(r.heads, 1);
    script_chunk(asker, "one");
    script_for(50);
    assert_string_equal(r.got, "one");
    r.refuse = true;
    script_chunk(asker, "two");
    ends(&r);
    assert_int_equal(r.fault, FL_CURL_OTHER);
    q.arg = &error;
    start(&q, &error);
    script_answer(asker, "410 Gone", "", "{\"kind\":\"Status\",\"message\":\"too old\"}");
    ends(&error);
    assert_int_equal(error.heads, 0);
    assert_string_equal(error.text, "too old");
    assert_string_equal(error.got, "");
}

static void a_cancelled_call_is_not_answered(void **state)
{
    (void)state;
    struct result r = {0}, within = {.cancel = true};
    begin(&r);
    fl_kube_cancel(&r.call);
    assert_null(r.call);
    fl_kube_cancel(&r.call); /* harmless */
    script_answer(asker, "200 OK", "", "{}");
    struct fl_kube_request q = get("/api/v1/pods?watch=1", &within);
    q.some = on_some;
    start(&q, &within);
    script_say(asker, CHUNKED);
    script_chunk(asker, "one");
    script_chunk(asker, "two");
    script_for(150);
    assert_int_equal(r.done + within.done, 0);
    assert_null(within.call);
    assert_true(strncmp(within.got, "one", 3) == 0);
    begin(&r); /* and one more under way when all goes */
}

static struct result again;

static void start_again(void *arg, const struct fl_kube_answer *a)
{
    struct fl_kube_request q = get("/again", &again);
    on_done(arg, a);
    assert_int_equal(fl_kube_start(kube, &q, &again.call), 0);
}

static void done_may_start_the_next(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_kube_request q = get("/apis/x", &r);
    again = (struct result){0};
    q.done = start_again;
    start(&q, &r);
    script_answer(asker, "200 OK", "", "{}");
    request(2, "/again");
    script_answer(asker, "200 OK", "", "{}");
    ends(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_has_a_method_a_body_and_a_whole_answer),
        TEST(an_error_is_said_in_the_words_of_its_status),
        TEST(a_401_is_tried_once_more_with_the_token_of_now),
        TEST(tries_are_counted_by_verb_resource_and_code),
        TEST(what_the_connection_met_is_a_sentence),
        TEST(a_warning_is_logged_once_per_text),
        TEST(connections_are_kept_but_not_after_silence),
        TEST(a_stream_is_handed_on_and_may_be_ended_by_its_taker),
        TEST(a_cancelled_call_is_not_answered),
        TEST(done_may_start_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
