#include "tests/unit/controller/kube/watch_kit.h"

/* ---- the usual way ---- */

static void a_streamed_list_goes_on_as_a_watch_and_then_from_its_last_version(void **state)
{
    (void)state;
    is_synced();
    assert_true(view().synced);
    assert_non_null(strstr(asker->target, "&timeoutSeconds="));
    says(EVENT("MODIFIED", "a", "104") EVENT("DELETED", "b", "105") EVENT("ADDED", "c", "106"));
    tells("[+a+b]~a-b+c");
    says(BOOKMARK("150"));
    ends_stream();
    request(2, WATCH_OF("150"));
    begins_stream();
    says(EVENT("MODIFIED", "c", "151"));
    tells("[+a+b]~a-b+c~c");
    ends_stream();
    request(3, WATCH_OF("151"));
    assert_int_equal(view().ends[FL_WATCH_CLOSED], 2);
    assert_false(view().failing);
    assert_int_equal(script.accepted, 1); /* the connection is used again */
}

static void nothing_in_its_head_asks_for_compression(void **state)
{
    (void)state;
    char value[256];
    is_synced();
    assert_string_equal(script_field(script.heads[0], "Accept-Encoding", value, sizeof(value)),
                        "identity");
    assert_string_equal(script_field(script.heads[0], "Accept", value, sizeof(value)),
                        "application/json");
    assert_string_equal(script_field(script.heads[0], "Authorization", value, sizeof(value)),
                        "Bearer one");
    assert_non_null(strstr(script_field(script.heads[0], "User-Agent", value, sizeof(value)),
                           "fairlead-controller/"));
    assert_null(strstr(script.heads[0], "gzip"));
}

static void a_selector_is_encoded(void **state)
{
    (void)state;
    selector = "fairlead.dev/injected=true,!old,a in (b, c)";
    open_watch();
    request(1, STREAM_OF("") "&labelSelector=fairlead.dev%2Finjected%3Dtrue%2C%21old%2Ca%20in%20"
                             "%28b%2C%20c%29");
}

static void a_line_may_come_byte_by_byte_and_many_at_once(void **state)
{
    (void)state;
    static const char line[] = EVENT("MODIFIED", "a", "101");
    char one[2] = "";
    is_synced();
    for (size_t i = 0; i + 1 < sizeof(line); i++) {
        if (line[i] != '\n') { /* known when its last brace is there */
            assert_string_equal(told, "[+a+b]");
        }
        one[0] = line[i];
        says(one);
        for (int turns = 0; turns < 3; turns++) {
            fl_reactor_turn(reactor, 1);
        }
    }
    tells("[+a+b]~a");
    says(EVENT("ADDED", "c", "102") EVENT("ADDED", "d", "103") EVENT("DELETED", "c", "104")
             BOOKMARK("110") EVENT("MODIFIED", "d", "111"));
    tells("[+a+b]~a+c+d-c~d");
    ends_stream();
    request(2, WATCH_OF("111"));
}

static void initial_events_give_no_version_and_no_half_list(void **state)
{
    (void)state;
    open_watch();
    request(1, STREAM_OF(""));
    begins_stream();
    says(EVENT("ADDED", "a", "90") BOOKMARK("95"));
    tells("[+a");
    script_end(asker);
    tells("[+a!");
    request(2, STREAM_OF(""));
    assert_false(view().synced);
    begins_stream();
    says(EVENT("ADDED", "a", "90") INITIAL_END("97"));
    tells("[+a![+a].");
    assert_true(view().synced);
}

/* ---- 410 ---- */

static void an_expired_event_is_a_new_list_and_its_status_gives_no_version(void **state)
{
    (void)state;
    is_synced();
    says(EVENT("MODIFIED", "a", "120")
             ERROR_EVENT("{\"kind\":\"Status\",\"metadata\":{\"resourceVersion\":\"999\"},"
                         "\"message\":\"too old resource version\",\"reason\":\"Expired\","
                         "\"code\":410}"));
    request(2, STREAM_OF("120"));
    assert_string_equal(told, "[+a+b]~a"); /* nothing is forgotten yet */
    begins_stream();
    says(EVENT("ADDED", "a", "120") INITIAL_END("130"));
    tells("[+a+b]~a[+a]");
    assert_int_equal(view().ends[FL_WATCH_EXPIRED], 1);
    assert_false(view().failing);
}

static void an_expired_status_too_and_for_a_list_without_a_version(void **state)
{
    (void)state;
    is_synced();
    says(EVENT("MODIFIED", "a", "120"));
    ends_stream();
    request(2, WATCH_OF("120"));
    script_answer(asker, "410 Gone", "", STATUS(410, "Expired", "too old resource version"));
    request(3, STREAM_OF("120"));
    script_answer(asker, "410 Gone", "", STATUS(410, "Expired", "too old resource version"));
    request(4, STREAM_OF(""));
    begins_stream();
    says(INITIAL_END("200"));
    tells("[+a+b]~a[]");
}

/* ---- servers without streams ---- */

#define NO_STREAMS                                                                                 \
    STATUS(422, "Invalid",                                                                         \
           "ListOptions.meta.k8s.io is invalid: sendInitialEvents: Forbidden: sendInitialEvents "  \
           "is forbidden for watch unless the WatchList feature gate is enabled")

static void falls_back(void)
{
    open_watch();
    request(1, STREAM_OF(""));
    script_answer(asker, "422 Unprocessable Entity", "", NO_STREAMS);
    request(2, LIST_OF("0"));
    script_answer(asker, "200 OK", "", LIST("100", OBJECT("a", "90") "," OBJECT("b", "91")));
    request(3, WATCH_OF("100"));
    tells("[+a+b]");
}

static void without_streams_it_lists_and_remembers_that(void **state)
{
    (void)state;
    falls_back();
    assert_int_equal(kit_logged("watching fails"), 0);
    begins_stream();
    says(EVENT("ADDED", "c", "101") ERROR_EVENT(STATUS(410, "Expired", "too old")));
    request(4, LIST_OF("101"));
    script_answer(asker, "200 OK", "", LIST("140", OBJECT("c", "101")));
    request(5, WATCH_OF("140"));
    tells("[+a+b]+c[+c]");
}

static void a_list_that_is_cut_is_not_in_force(void **state)
{
    (void)state;
    falls_back();
    script_answer(asker, "410 Gone", "", STATUS(410, "Expired", "too old"));
    request(4, LIST_OF("100"));
    script_say(asker, "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
                      "{\"metadata\":{\"resourceVersion\":\"140\"},\"items\":[" OBJECT("c", "101"));
    tells("[+a+b][+c");
    script_end(asker);
    tells("[+a+b][+c!");
    request(5, LIST_OF("100"));
    script_answer(asker, "200 OK", "", "{\"metadata\":{\"resourceVersion\":\"140\"},\"items\":[");
    request(6, LIST_OF("100")); /* whole for HTTP, and yet no list */
    script_answer(asker, "200 OK", "", LIST("140", ""));
    request(7, WATCH_OF("140"));
    tells("[+a+b][+c![[].");
    assert_int_equal(view().ends[FL_WATCH_CUT], 1);
    assert_int_equal(view().ends[FL_WATCH_BROKEN], 1);
}

static void a_server_that_is_behind_is_asked_for_a_consistent_list_in_pages(void **state)
{
    (void)state;
    static const char too_large[] =
        "{\"kind\":\"Status\",\"message\":\"Too large resource version\",\"reason\":\"Timeout\","
        "\"details\":{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"Too large "
        "resource version\"}],\"retryAfterSeconds\":1},\"code\":504}";
    falls_back();
    script_answer(asker, "410 Gone", "", STATUS(410, "Expired", "too old"));
    request(4, LIST_OF("100"));
    script_answer(asker, "504 Gateway Timeout", "", too_large);
    request(5, "/api/v1/pods?limit=500");
    script_answer(
        asker, "200 OK", "",
        "{\"metadata\":{\"resourceVersion\":\"50\",\"continue\":\"a+/=\"},\"items\":[" OBJECT(
            "a", "40") "]}");
    request(6, "/api/v1/pods?limit=500&continue=a%2B%2F%3D");
    script_answer(asker, "410 Gone", "", STATUS(410, "Expired", "the continue token is too old"));
    request(7, "/api/v1/pods?limit=500"); /* from its start */
    script_answer(
        asker, "200 OK", "",
        "{\"metadata\":{\"resourceVersion\":\"60\",\"continue\":\"x\"},\"items\":[" OBJECT(
            "a", "40") "]}");
    request(8, "/api/v1/pods?limit=500&continue=x");
    script_answer(asker, "200 OK", "", LIST("60", OBJECT("b", "41")));
    request(9, WATCH_OF("60"));
    tells("[+a+b][+a![+a+b].");
    assert_int_equal(view().ends[FL_WATCH_TOO_LARGE], 1);
}

/* ---- ends of watches ---- */

static void a_cut_in_the_middle_of_a_line_loses_nothing(void **state)
{
    (void)state;
    is_synced();
    says(EVENT("MODIFIED", "a", "101"));
    says("{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"b\"");
    tells("[+a+b]~a");
    script_end(asker);
    request(2, WATCH_OF("101"));
    assert_string_equal(told, "[+a+b]~a");
    assert_int_equal(view().ends[FL_WATCH_CUT], 1);
    begins_stream();
    says("{\"type\":\"MODIFIED\",\"object\":"); /* and when HTTP calls that an end */
    ends_stream();
    request(3, WATCH_OF("101"));
    assert_int_equal(view().ends[FL_WATCH_CUT], 2);
}

static void three_short_watches_in_a_row_are_a_new_list(void **state)
{
    (void)state;
    is_synced();
    says(BOOKMARK("110"));
    ends_stream();
    for (unsigned n = 2; n <= 4; n++) {
        request(n, WATCH_OF("110"));
        begins_stream();
        ends_stream();
    }
    request(5, STREAM_OF("110"));
    assert_int_equal(view().ends[FL_WATCH_SHORT], 3);
    assert_true(view().failing);
    assert_string_equal(view().fault.code, "short");
    assert_string_equal(told, "[+a+b]!");
    begins_stream();
    says(INITIAL_END("120"));
    tells("[+a+b]![].");
}

static void silence_is_a_new_watch_on_another_connection_not_a_list(void **state)
{
    (void)state;
    limits.stall_ms = 1000;
    is_synced();
    for (int i = 0; i < 12; i++) {
        says(BOOKMARK("108"));
        script_for(100);
    }
    assert_int_equal(script.requests, 1);
    request(2, WATCH_OF("108")); /* half open: nothing comes any more */
    assert_int_equal(asker->number, 2);
    assert_int_equal(view().ends[FL_WATCH_STALLED], 1);
    assert_string_equal(told, "[+a+b]");
}

static void a_server_that_accepts_and_is_silent_is_not_waited_for(void **state)
{
    (void)state;
    limits.head_ms = 300;
    open_watch();
    request(1, STREAM_OF(""));
    request(2, STREAM_OF(""));
    assert_string_equal(told, "!");
    assert_string_equal(view().fault.code, "stalled");
    assert_string_equal(view().fault.text, "watch pods: the API server accepts, but is silent");
}

static void that_is_a_failure_though_it_watches_anew_at_once(void **state)
{
    (void)state;
    limits.head_ms = 300;
    is_synced();
    ends_stream();
    request(2, WATCH_OF("100"));
    request(3, WATCH_OF("100"));
    assert_string_equal(told, "[+a+b]!");
    assert_int_equal(view().ends[FL_WATCH_STALLED], 1);
}

static void a_watch_that_overstays_is_ended(void **state)
{
    (void)state;
    limits.timeout_s = 1;
    limits.grace_ms = 200;
    is_synced();
    assert_non_null(strstr(asker->target, "&timeoutSeconds=1&"));
    struct script_conn *first = asker;
    for (int64_t end_ms = fl_reactor_now_ms(reactor) + 20000; script.requests == 1;) {
        assert_true(fl_reactor_now_ms(reactor) < end_ms);
        script_chunk(first, BOOKMARK("109"));
        script_for(50);
    }
    request(2, WATCH_OF("109"));
    assert_int_equal(view().ends[FL_WATCH_STALLED], 1);
}

static void a_quiet_watch_works_when_it_has_outlived_a_second(void **state)
{
    (void)state;
    is_synced();
    script_end(asker);
    request(2, WATCH_OF("100"));
    script_answer(asker, "500 Internal Server Error", "", STATUS(500, "InternalError", "oops"));
    tells("[+a+b]!");
    request(3, WATCH_OF("100"));
    int64_t began_ms = fl_reactor_now_ms(reactor);
    begins_stream();
    tells("[+a+b]!.");
    assert_true(fl_reactor_now_ms(reactor) - began_ms >= FL_WATCH_SHORT_MS);
    assert_true(view().age_ms <= fl_reactor_now_ms(reactor) - began_ms); /* the head was a word */
    assert_string_equal(view().fault.code, "");
}

/* ---- trouble ---- */

static void what_the_server_asks_for_is_waited_for(void **state)
{
    (void)state;
    is_synced();
    ends_stream();
    request(2, WATCH_OF("100"));
    script_answer(asker, "429 Too Many Requests", "Retry-After: 1\r\nContent-Type: text/plain\r\n",
                  "Too many requests, please try again later.\n");
    int64_t began_ms = fl_reactor_now_ms(reactor);
    request(3, WATCH_OF("100"));
    assert_true(fl_reactor_now_ms(reactor) - began_ms >= 990);
    assert_string_equal(view().fault.text,
                        "watch pods: status 429: Too many requests, please try again later.");
    begins_stream();
    says(ERROR_EVENT("{\"kind\":\"Status\",\"message\":\"slow down\",\"reason\":"
                     "\"TooManyRequests\",\"details\":{\"retryAfterSeconds\":1},\"code\":429}"));
    began_ms = fl_reactor_now_ms(reactor);
    request(4, WATCH_OF("100"));
    assert_true(fl_reactor_now_ms(reactor) - began_ms >= 990);
    assert_int_equal(view().ends[FL_WATCH_THROTTLED], 2);
}

static void errors_of_the_server_keep_the_version(void **state)
{
    (void)state;
    is_synced();
    says(ERROR_EVENT(STATUS(500, "InternalError", "etcdserver: leader changed")));
    request(2, WATCH_OF("100"));
    assert_string_equal(view().fault.text, "watch pods: status 500: etcdserver: leader changed");
    script_answer(asker, "503 Service Unavailable", "", "shutting down");
    request(3, WATCH_OF("100"));
    assert_int_equal(view().ends[FL_WATCH_SERVER_ERROR], 2);
}

static void a_refused_connect_keeps_what_is_known_and_then_lists(void **state)
{
    (void)state;
    char words[128];
    uint16_t port = script.port;
    is_synced();
    says(BOOKMARK("177"));
    script_for(50);
    script_stop();
    script_end(asker);
    tells("[+a+b]!");
    (void)snprintf(words, sizeof(words),
                   "watch pods: connect to http://127.0.0.1:%u failed (Connection refused)", port);
    assert_string_equal(view().fault.text, words);
    assert_string_equal(view().fault.code, "connect_refused");
    assert_true(view().synced);
    while (view().ends[FL_WATCH_UNREACHABLE] < 3) {
        fl_reactor_turn(reactor, 20);
    }
    assert_int_equal(kit_logged("watching fails"), kit_logged("\"level\":\"debug\"") + 1);
    script_listen(port);
    request(2, STREAM_OF("177"));
    begins_stream();
    says(EVENT("ADDED", "c", "180") INITIAL_END("180"));
    tells("[+a+b]![+c].");
    assert_int_equal(kit_logged("watching works again"), 1);
}

static void a_401_takes_the_new_token_and_nobody_sees_it(void **state)
{
    (void)state;
    char value[64];
    is_synced();
    ends_stream();
    request(2, WATCH_OF("100"));
    kit_write("token", "two");
    script_answer(asker, "401 Unauthorized", "", STATUS(401, "Unauthorized", "Unauthorized"));
    request(3, WATCH_OF("100"));
    assert_string_equal(script_field(script.heads[2], "Authorization", value, sizeof(value)),
                        "Bearer two");
    begins_stream();
    says(EVENT("ADDED", "c", "180"));
    tells("[+a+b]+c");
    assert_int_equal(view().ends[FL_WATCH_UNAUTHORIZED], 0);
}

static void a_token_that_is_refused_twice_is_a_failure(void **state)
{
    (void)state;
    is_synced();
    ends_stream();
    for (unsigned n = 2; n <= 3; n++) {
        request(n, WATCH_OF("100"));
        script_answer(asker, "401 Unauthorized", "", STATUS(401, "Unauthorized", "Unauthorized"));
    }
    request(4, WATCH_OF("100"));
    assert_int_equal(view().ends[FL_WATCH_UNAUTHORIZED], 1);
    assert_string_equal(view().fault.text,
                        "watch pods: the API does not know us (401): Unauthorized");
}

static void a_missing_permission_names_verb_and_resource(void **state)
{
    (void)state;
    open_watch();
    request(1, STREAM_OF(""));
    script_answer(asker, "403 Forbidden", "",
                  STATUS(403, "Forbidden",
                         "pods is forbidden: User \\\"system:serviceaccount:shop:fairlead\\\" "
                         "cannot watch resource \\\"pods\\\" in API group \\\"\\\""));
    tells("!");
    assert_string_equal(view().fault.code, "forbidden");
    assert_string_equal(view().fault.text,
                        "may not watch pods (403): pods is forbidden: User "
                        "\"system:serviceaccount:shop:fairlead\" cannot watch resource \"pods\" "
                        "in API group \"\"");
    assert_false(view().synced);
}

static void a_wait_is_cut_short_when_there_is_reason_to_hope(void **state)
{
    (void)state;
    limits.backoff_min_ms = 20000;
    open_watch();
    request(1, STREAM_OF(""));
    script_answer(asker, "403 Forbidden", "", STATUS(403, "Forbidden", "no"));
    tells("!");
    script_for(100);
    assert_int_equal(script.requests, 1);
    fl_kube_watch_hurry(watch);
    request(2, STREAM_OF(""));
    fl_kube_watch_hurry(watch); /* nothing waits */
    begins_stream();
    says(EVENT("ADDED", "a", "90") INITIAL_END("97"));
    tells("![+a].");
}

/* ---- strange things ---- */

static void what_is_unknown_or_broken_is_counted_and_skipped(void **state)
{
    (void)state;
    is_synced();
    says("{\"type\":\"RENAMED\",\"object\":" OBJECT(
        "a", "101") "}\n"
                    "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":7}}}\n" EVENT(
                        "MODIFIED", "b", "103"));
    tells("[+a+b]~b");
    assert_int_equal(view().skipped, 2);
    assert_false(view().failing);
}

static void what_is_not_the_api_is_a_new_list(void **state)
{
    (void)state;
    is_synced();
    says("<html>welcome to the hotel</html>\n");
    request(2, STREAM_OF("100"));
    assert_string_equal(view().fault.text, "watch pods: what came is not what the API sends");
    assert_int_equal(view().ends[FL_WATCH_BROKEN], 1);
}

static void an_object_without_end_is_not_collected(void **state)
{
    (void)state;
    static char much[65537];
    memset(much, 'x', sizeof(much) - 1);
    is_synced();
    struct script_conn *first = asker;
    says("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"");
    for (int i = 0; i < 80 && !first->gone; i++) {
        script_chunk(first, much);
        fl_reactor_turn(reactor, 1);
    }
    request(2, STREAM_OF("100"));
    assert_string_equal(view().fault.text, "watch pods: an object is larger than 4 MiB");
}

static struct fl_kube_call *inner;
static unsigned inner_done;

static void on_inner_done(void *arg, const struct fl_kube_answer *a)
{
    (void)arg;
    inner = NULL;
    inner_done++;
    assert_int_equal(a->status, 200);
}

static void call_from_within(void)
{
    const struct fl_kube_request q = {.verb = "get",
                                      .resource = "version",
                                      .method = "GET",
                                      .path = "/version",
                                      .timeout_ms = 10000,
                                      .done = on_inner_done};
    struct fl_kube_call *gone = NULL;
    meanwhile = NULL;
    assert_int_equal(fl_kube_start(kube, &q, &gone), 0);
    fl_kube_cancel(&gone);
    assert_int_equal(fl_kube_start(kube, &q, &inner), 0);
}

static void objects_may_start_and_cancel_calls(void **state)
{
    (void)state;
    is_synced();
    struct script_conn *first = asker;
    inner_done = 0;
    meanwhile = call_from_within;
    says(EVENT("MODIFIED", "a", "101") EVENT("MODIFIED", "b", "102"));
    request(2, "/version");
    script_answer(asker, "200 OK", "", "{}");
    script_until(has_told, (void *)(uintptr_t) "[+a+b]~a~b", "both events");
    while (inner_done == 0) {
        fl_reactor_turn(reactor, 20);
    }
    script_chunk(first, EVENT("MODIFIED", "a", "103"));
    tells("[+a+b]~a~b~a");
    assert_int_equal(script.requests, 2);
}

static void its_age_is_that_of_the_last_word(void **state)
{
    (void)state;
    is_synced();
    script_for(200);
    int64_t before_ms = view().age_ms;
    assert_true(before_ms >= 190);
    says(BOOKMARK("109"));
    script_for(20);
    assert_true(view().age_ms < before_ms);
}

static void it_may_go_at_any_time(void **state)
{
    (void)state;
    for (int moment = 0; moment < 5; moment++) {
        unsigned before = script.requests;
        told[0] = '\0';
        open_watch();
        request(before + 1, STREAM_OF(""));
        if (moment > 0) {
            begins_stream();
        }
        if (moment > 1) {
            says(EVENT("ADDED", "a", "90"));
            tells("[+a");
        }
        if (moment > 2) {
            says(INITIAL_END("100"));
            tells("[+a]");
        }
        if (moment > 3) {
            says(ERROR_EVENT(STATUS(500, "InternalError", "oops")));
            tells("[+a]!");
        }
        watch = fl_kube_watch_free(watch);
        script_for(100);
        assert_int_equal(script.requests, before + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_streamed_list_goes_on_as_a_watch_and_then_from_its_last_version),
        TEST(nothing_in_its_head_asks_for_compression),
        TEST(a_selector_is_encoded),
        TEST(a_line_may_come_byte_by_byte_and_many_at_once),
        TEST(initial_events_give_no_version_and_no_half_list),
        TEST(an_expired_event_is_a_new_list_and_its_status_gives_no_version),
        TEST(an_expired_status_too_and_for_a_list_without_a_version),
        TEST(without_streams_it_lists_and_remembers_that),
        TEST(a_list_that_is_cut_is_not_in_force),
        TEST(a_server_that_is_behind_is_asked_for_a_consistent_list_in_pages),
        TEST(a_cut_in_the_middle_of_a_line_loses_nothing),
        TEST(three_short_watches_in_a_row_are_a_new_list),
        TEST(silence_is_a_new_watch_on_another_connection_not_a_list),
        TEST(a_server_that_accepts_and_is_silent_is_not_waited_for),
        TEST(that_is_a_failure_though_it_watches_anew_at_once),
        TEST(a_watch_that_overstays_is_ended),
        TEST(a_quiet_watch_works_when_it_has_outlived_a_second),
        TEST(what_the_server_asks_for_is_waited_for),
        TEST(errors_of_the_server_keep_the_version),
        TEST(a_refused_connect_keeps_what_is_known_and_then_lists),
        TEST(a_401_takes_the_new_token_and_nobody_sees_it),
        TEST(a_token_that_is_refused_twice_is_a_failure),
        TEST(a_missing_permission_names_verb_and_resource),
        TEST(a_wait_is_cut_short_when_there_is_reason_to_hope),
        TEST(what_is_unknown_or_broken_is_counted_and_skipped),
        TEST(what_is_not_the_api_is_a_new_list),
        TEST(an_object_without_end_is_not_collected),
        TEST(objects_may_start_and_cancel_calls),
        TEST(its_age_is_that_of_the_last_word),
        TEST(it_may_go_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
