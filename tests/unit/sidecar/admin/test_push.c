/* PUT /_/api/push/v1/state from end to end: signature, order, overlay, keys, state file. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "tests/unit/sidecar/admin/harness.h"

#include <time.h>

#include "common/sign/message_signature.h"
#include "sidecar/admin/push.h"

/* RFC 9421 B.1.4 and RFC 8410 section 10.3 */
static const char key_a[] = "-----BEGIN PRIVATE KEY-----\n"
                            "MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n"
                            "-----END PRIVATE KEY-----\n";
static const char public_a[] = "-----BEGIN PUBLIC KEY-----\n"
                               "MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=\n"
                               "-----END PUBLIC KEY-----\n";
static const char key_b[] = "-----BEGIN PRIVATE KEY-----\n"
                            "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
                            "-----END PRIVATE KEY-----\n";

static char dir[64], key_path[96], state_path[96], yaml[4096];
static struct fl_sign_key *signer, *other;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/fl-push-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    (void)snprintf(key_path, sizeof(key_path), "%s/public.pem", dir);
    (void)snprintf(state_path, sizeof(state_path), "%s/state", dir);
    FILE *f = fopen(key_path, "w");
    if (f == NULL || fputs(public_a, f) < 0 || fclose(f) != 0) {
        return -1;
    }
    (void)snprintf(yaml, sizeof(yaml),
                   "id: pod-1\n"
                   "boot_probe: off\n"
                   "log_level: error\n"
                   "start_wait: 1h\n"
                   "state_file: %s\n"
                   "push: {public_key_file: %s}\n"
                   "backends:\n"
                   "  minio:\n"
                   "    protocol: http\n"
                   "    service: {namespace: storage, name: minio, port: \"9000\"}\n"
                   "    probe: {type: tcp, interval: 1s, timeout: 1s}\n"
                   "routes:\n"
                   "  releases: {backend: minio}\n",
                   state_path, key_path);
    return fl_sign_key_new(FL_SPAN(key_a), &signer) == 0 &&
                   fl_sign_key_new(FL_SPAN(key_b), &other) == 0
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    h_tear_down(state);
    signer = fl_sign_key_free(signer);
    other = fl_sign_key_free(other);
    (void)unlink(key_path);
    (void)unlink(state_path);
    return rmdir(dir);
}

struct send {
    const struct fl_sign_key *key;
    const char *id, *content_type;
    int64_t created_s;       /* 0: now */
    const char *signed_body; /* NULL: body */
};

static int push_as(struct send s, const char *body)
{
    char fields[1024];
    struct fl_sig_fields sig;
    const struct fl_sig_request rq = {FL_SPAN("PUT"), FL_SPAN(FL_PUSH_PATH),
                                      fl_span_of(s.content_type), fl_span_of(s.id)};
    assert_int_equal(fl_message_sign(s.key, &rq, fl_span_of(s.signed_body ? s.signed_body : body),
                                     s.created_s ? s.created_s : (int64_t)time(NULL), &sig),
                     0);
    (void)snprintf(
        fields, sizeof(fields),
        "Content-Type: %s\r\nFairlead-Sidecar: %s\r\nContent-Digest: %s\r\nSignature-Input: %s\r\n"
        "Signature: %s\r\n",
        s.content_type, s.id, sig.content_digest, sig.signature_input, sig.signature);
    return h_request(&h.status_at, "PUT", FL_PUSH_PATH, fields, body, strlen(body));
}

static const struct send by_a = {NULL, "pod-1", "application/json", 0, NULL};

static int push(const char *body)
{
    struct send s = by_a;
    s.key = signer;
    return push_as(s, body);
}

static const char *token(void)
{
    static char text[64];
    struct json_object *o = h_json();
    (void)snprintf(text, sizeof(text), "%s", h_at(o, "token"));
    json_object_put(o);
    return text;
}

#define BODY(epoch, seq, peers)                                                                    \
    "{\"epoch\":" #epoch ",\"seq\":" #seq ",\"backends\":{\"minio\":{\"peers\":[" peers "]}}}"

static void an_accepted_push_is_in_force_when_answered(void **state)
{
    (void)state;
    h_start(yaml);
    assert_int_equal(h_request(&h.status_at, "GET", "/_/started", "", NULL, 0), 503);
    assert_string_equal(h_look("/_/started", "waiting_for.0"), "minio");
    assert_string_equal(h_look("/_/ready", "membership"), "waiting");
    assert_int_equal(
        push(BODY(
            3, 7,
            "{\"address\":\"127.0.0.1:1\"},{\"address\":\"127.0.0.1:2\",\"tier\":\"backup\"}")),
        200);
    struct json_object *o = h_json();
    assert_string_equal(h_at(o, "epoch"), "3");
    assert_string_equal(h_at(o, "seq"), "7");
    assert_int_equal(strlen(h_at(o, "hash")), 16);
    assert_string_equal(h_at(o, "observations.0.backend"), "minio");
    assert_string_equal(h_at(o, "observations.1.peer"), "127.0.0.1:2");
    json_object_put(o);
    assert_int_equal(h.control->current->backends[0].peer_count, 2);
    assert_ptr_equal(fl_engine_snapshot(h.engine), h.control->current);
    assert_int_equal(h_request(&h.status_at, "GET", "/_/started", "", NULL, 0), 200);
    assert_string_equal(h_look("/_/ready", "membership"), "ready");
}

static void order_is_epoch_then_seq(void **state)
{
    (void)state;
    h_start(yaml);
    assert_int_equal(push(BODY(3, 7, "")), 200);
    assert_int_equal(push(BODY(3, 7, "")), 409);
    struct json_object *o = h_json();
    assert_string_equal(h_at(o, "epoch"), "3");
    assert_string_equal(h_at(o, "seq"), "7");
    json_object_put(o);
    assert_int_equal(push(BODY(3, 6, "")), 409);
    assert_int_equal(push(BODY(2, 99, "")), 409);
    assert_int_equal(push(BODY(3, 8, "")), 200);
    assert_int_equal(push(BODY(4, 1, "")), 200);
    assert_int_equal(push(BODY(3, 100, "")), 409);
    assert_int_equal(h.control->epoch, 4);
}

static void refused_pushes_change_nothing(void **state)
{
    (void)state;
    h_start(yaml);
    assert_int_equal(push(BODY(1, 1, "{\"address\":\"127.0.0.1:1\"}")), 200);
    h_settle(); /* its first probe */
    const struct fl_snapshot *before = h.control->current;
    const char *body = BODY(1, 2, "{\"address\":\"127.0.0.1:9\"}");
    struct send s = by_a;
    s.key = other;
    assert_int_equal(push_as(s, body), 401);
    assert_string_equal(token(), "unknown_key");
    s.key = signer;
    s.id = "pod-2";
    assert_int_equal(push_as(s, body), 409);
    assert_string_equal(token(), "other_pod");
    s.id = "pod-1";
    s.content_type = "application/yaml";
    assert_int_equal(push_as(s, body), 415);
    s.content_type = "application/json";
    s.signed_body = BODY(1, 3, "");
    assert_int_equal(push_as(s, body), 401);
    assert_string_equal(token(), "digest_mismatch");
    s.signed_body = NULL;
    s.created_s = (int64_t)time(NULL) - 90000;
    assert_int_equal(push_as(s, body), 401);
    assert_string_equal(token(), "created_skew");
    s.created_s = (int64_t)time(NULL) + 90000;
    assert_int_equal(push_as(s, body), 401);
    assert_int_equal(h_request(&h.status_at, "PUT", FL_PUSH_PATH,
                               "Content-Type: application/json\r\n", body, strlen(body)),
                     401);
    assert_string_equal(token(), "missing");
    assert_int_equal(push("{\"epoch\":1,\"seq\":2"), 400);
    assert_int_equal(push("{\"epoch\":1,\"seq\":2,\"routes\":{\"x\":{\"backend\":\"nobody\"}}}"),
                     400);
    assert_int_equal(push("{\"epoch\":1,\"seq\":2,\"keys\":[\"no key\"]}"), 400);
    assert_ptr_equal(h.control->current, before);
    assert_int_equal(h.control->seq, 1);
    /* a clock that is ten minutes off only warns */
    s.created_s = (int64_t)time(NULL) - 600;
    assert_int_equal(push_as(s, body), 200);
    assert_string_equal(h.control->current->backends[0].peers[0].peer->address, "127.0.0.1:9");
}

static void without_keys_all_are_refused(void **state)
{
    (void)state;
    h_start("id: pod-1\nboot_probe: off\nbackends: {m: {protocol: http, peers: [{address: "
            "\"127.0.0.1:1\"}], probe: "
            "{type: none}}}\nroutes: {\"*\": {backend: m}}\n");
    assert_int_equal(push(BODY(1, 1, "")), 401);
    assert_string_equal(token(), "no_keys");
    assert_int_equal(h_request(&h.admin_at, "PUT", FL_PUSH_PATH, "", "{}", 2),
                     404); /* status listener only */
}

static void keys_rotate_by_push(void **state)
{
    (void)state;
    char pem[256], body[1024];
    struct fl_fmt f = fl_fmt_of(pem, sizeof(pem));
    assert_int_equal(fl_sign_key_public_pem(other, &f), 0);
    h_start(yaml);
    struct fl_fmt b = fl_fmt_of(body, sizeof(body));
    fl_fmt_text(&b, "{\"epoch\":1,\"seq\":1,\"keys\":[\"");
    fl_fmt_json(&b, fl_span_of(pem));
    fl_fmt_text(&b, "\"],\"backends\":{\"minio\":{\"peers\":[{\"address\":\"127.0.0.1:1\"}]}}}");
    assert_int_equal(push(body), 200);
    assert_int_equal(push(BODY(1, 2, "")), 401); /* the old key is out */
    struct send s = by_a;
    s.key = other;
    assert_int_equal(push_as(s, BODY(1, 2, "{\"address\":\"127.0.0.1:1\"}")),
                     200); /* brings no keys: they stay */
    h_stop();
    h_start(yaml); /* and a restart remembers */
    assert_int_equal(push_as(s, BODY(1, 2, "")), 409);
    assert_int_equal(push(BODY(1, 3, "")), 401);
    assert_int_equal(push_as(s, BODY(1, 3, "")), 200);
}

static void a_restart_begins_with_the_last_state(void **state)
{
    (void)state;
    h_start(yaml);
    assert_int_equal(
        push(BODY(5, 9, "{\"address\":\"127.0.0.1:1\"},{\"address\":\"127.0.0.1:2\"}")), 200);
    h_stop();
    h_start(yaml);
    assert_true(h.control->restored);
    assert_int_equal(h.control->current->backends[0].peer_count, 2); /* before any turn */
    assert_true(fl_control_started(h.control));
    assert_int_equal(push(BODY(5, 9, "")), 409); /* a recorded push is no use */
    assert_string_equal(h_look("/_/ready", "membership"), "ready");
    h_turn_ms(3500); /* 3 intervals of 1 s and nobody pushes */
    assert_string_equal(h_look("/_/ready", "membership"), "stale");
    assert_int_equal(h.control->current->backends[0].peer_count,
                     2); /* membership does not expire */
    assert_int_equal(push(BODY(5, 10, "{\"address\":\"127.0.0.1:1\"}")), 200);
    assert_string_equal(h_look("/_/ready", "membership"), "ready");
    h_stop();
    FILE *f = fopen(state_path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, -3, SEEK_END), 0);
    assert_int_equal(fputc('#', f), '#');
    assert_int_equal(fclose(f), 0);
    h_start(yaml); /* not whole: as if there were none */
    assert_false(h.control->restored);
    assert_int_equal(h.control->current->backends[0].peer_count, 0);
    assert_int_equal(push(BODY(1, 1, "")), 200);
}

static void pushed_verdicts_are_confirmed(void **state)
{
    (void)state;
    struct fl_addr open_at;
    char body[2048], text[64];
    int fd = h_listen(&open_at);
    struct fl_fmt t = fl_fmt_of(text, sizeof(text));
    fl_addr_print(&open_at, &t);
    h_start(yaml);
    (void)snprintf(
        body, sizeof(body),
        "{\"epoch\":1,\"seq\":1,\"backends\":{\"minio\":{\"peers\":[{\"address\":\"%s\"}]}}}",
        text);
    assert_int_equal(push(body), 200);
    h_settle(); /* the first own probe */
    assert_string_equal(h_look("/_/api/admin/backends", "backends.0.verdict.status"), "healthy");
    uint64_t n[5];
    assert_true(fl_prober_counts(h.control->prober, "minio", n));
    uint64_t before = n[FL_VERDICT_HEALTHY];
    h_turn_ms(1100); /* in a cluster the interval is the controller's: no further probe */
    assert_true(fl_prober_counts(h.control->prober, "minio", n));
    assert_int_equal(n[FL_VERDICT_HEALTHY], before);
    (void)snprintf(body, sizeof(body),
                   "{\"epoch\":1,\"seq\":2,\"backends\":{\"minio\":{\"peers\":[{\"address\":\"%s\"}"
                   "],\"verdicts\":{\"%s\":"
                   "{\"status\":\"unreachable\",\"code\":\"connect_refused\",\"cause\":\"refused "
                   "there\",\"step\":\"connect\","
                   "\"age_ms\":5}}}}}",
                   text, text);
    assert_int_equal(push(body), 200);
    h_turn_ms(50);
    assert_true(fl_prober_counts(h.control->prober, "minio", n));
    assert_int_equal(n[FL_VERDICT_HEALTHY], before + 1); /* an own look, at once */
    assert_false(h.control->current->backends[0].gated);
    assert_string_equal(h_look("/_/api/admin/backends", "backends.0.verdict.status"), "healthy");
    assert_non_null(strstr(h_look("/_/api/admin/backends", "backends.0.peers.0.verdict.other_view"),
                           "from the controller"));
    /* now it is true from here, too */
    close(fd);
    body[strcspn(body, "2")] = '3'; /* seq */
    h_turn_ms(1000);
    assert_int_equal(push(body), 200);
    h_turn_ms(100);
    assert_true(h.control->current->backends[0].gated);
    assert_string_equal(h_look("/_/ready", "backends.minio"), "unreachable");
    assert_string_equal(h_look("/_/ready", "backend"), "unavailable");
}

static void an_unreadable_key_file_stops_the_start(void **state)
{
    (void)state;
    struct fl_findings f;
    fl_findings_init(&f, "");
    FILE *file = fopen(key_path, "w");
    assert_non_null(file);
    assert_true(fputs("no key\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    struct fl_config *c = h_config(yaml);
    struct fl_log log = {.level = FL_LOG_ERROR};
    struct fl_reactor *r;
    assert_int_equal(fl_reactor_new(&r), 0);
    struct fl_registry *registry = fl_registry_new(1);
    const struct fl_control_conf conf = {
        .reactor = r, .registry = registry, .log = &log, .threads = 1, .booted = h_on_booted};
    struct fl_control *control = NULL;
    assert_int_equal(fl_control_new(&conf, c, &f, &control), -EINVAL);
    assert_int_equal(f.errors, 1);
    assert_non_null(strstr(f.first->text, "public_key_file"));
    assert_null(control);
    fl_config_free(c);
    fl_registry_free(registry);
    fl_reactor_turn(r, 0);
    fl_reactor_free(r);
    fl_findings_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_accepted_push_is_in_force_when_answered, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(order_is_epoch_then_seq, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_pushes_change_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_keys_all_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_rotate_by_push, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restart_begins_with_the_last_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pushed_verdicts_are_confirmed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unreadable_key_file_stops_the_start, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
