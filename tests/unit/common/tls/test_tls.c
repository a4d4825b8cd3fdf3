/* Bytes both ways over a wire that the test holds: records cut anywhere, little room, ends in every
 * manner, and what the protocol does behind the application's back. */
#include "common/tls/tls.h"

#include "tests/unit/common/tls/party.h"

static struct party authority, host;
static struct fl_tls_terms *terms;

static int make_parties(void **state)
{
    (void)state;
    files_begin();
    authority = party_make((struct wish){.name = "Test authority", .authority = true});
    host = party_make((struct wish){.name = "x", .also = "DNS:store.example", .by = &authority});
    write_cert("ca.pem", &authority);
    terms = terms_of((struct fl_tls_conf){.verify = true, .ca_file = path_of("ca.pem")}, 1);
    return 0;
}

static int drop_parties(void **state)
{
    (void)state;
    static const char *const names[] = {"ca.pem"};
    fl_tls_terms_give(terms);
    party_free(&host);
    party_free(&authority);
    files_end(names, 1);
    return 0;
}

static int max_version; /* of the server; 0: the highest */

static struct fl_tls *connected(struct server *s)
{
    server_setup(s, &host);
    if (max_version != 0) {
        SSL_CTX_set_max_proto_version(s->ssl_ctx, max_version);
    }
    server_begin(s);
    struct fl_tls *t = client(terms, "store.example", 0);
    assert_int_equal(shake(s, t), 0);
    (void)server_pump(s);
    line.edge = false;
    fl_tls_edge(t, false);
    return t;
}

static void server_says(struct server *s, const void *bytes, size_t n)
{
    assert_int_equal(SSL_write(s->ssl, bytes, (int)n), (int)n);
    (void)server_pump(s);
}

static size_t server_hears(struct server *s, unsigned char *into, size_t cap)
{
    size_t got = 0;
    (void)server_pump(s);
    for (int n; got < cap && (n = SSL_read(s->ssl, into + got, (int)(cap - got))) > 0;) {
        got += (size_t)n;
    }
    ERR_clear_error();
    (void)server_pump(s);
    return got;
}

static void fill(unsigned char *bytes, size_t n)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        bytes[i] = (unsigned char)(x >> 24);
    }
}

static ssize_t send_one(struct fl_tls *t, const void *bytes, size_t n)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n};
    return fl_tls_sendv(t, &iov, 1);
}

/* The way of the data plane: read while something is known to be there. */
static ssize_t take_all(struct fl_tls *t, unsigned char *into, size_t cap)
{
    size_t got = 0;
    if (line.edge) {
        line.edge = false;
        fl_tls_edge(t, line.to_client.ended || line.to_client.broken != 0);
    }
    while (fl_tls_readable(t) && got < cap) {
        ssize_t n = fl_tls_recv(t, into + got, cap - got);
        if (n == -EAGAIN) {
            break;
        }
        if (n <= 0) {
            return got > 0 ? (ssize_t)got : n;
        }
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* ---- ---- */

static void both_versions_carry_both_ways(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < FL_COUNTOF(versions); i++) {
        struct server s;
        unsigned char bytes[64];
        max_version = versions[i];
        struct fl_tls *t = connected(&s);
        max_version = 0;
        assert_int_equal(SSL_version(s.ssl), versions[i]);
        assert_string_equal(SSL_get_servername(s.ssl, TLSEXT_NAMETYPE_host_name), "store.example");
        assert_int_equal(send_one(t, "GET / HTTP/1.1", 14), 14);
        assert_int_equal(server_hears(&s, bytes, sizeof bytes), 14);
        assert_memory_equal(bytes, "GET / HTTP/1.1", 14);
        server_says(&s, "HTTP/1.1 200", 12);
        assert_int_equal(take_all(t, bytes, sizeof bytes), 12);
        assert_memory_equal(bytes, "HTTP/1.1 200", 12);
        fl_tls_close(&t);
        assert_null(t);
        server_end(&s);
    }
}

/* One send and one recv for a request on a kept connection: head and first body bytes share a
 * record, and a read that came short is not asked again. */
static void one_call_each_way(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[8192];
    struct fl_tls *t = connected(&s);
    assert_int_equal(take_all(t, bytes, sizeof bytes), 0); /* the tickets of TLS 1.3 */
    char head[300], line_end[] = "\r\n", body[2000];
    memset(head, 'h', sizeof head);
    memset(body, 'b', sizeof body);
    const struct iovec iov[] = {{head, sizeof head}, {line_end, 2}, {body, 0}, {body, sizeof body}};
    line.sends = line.recvs = 0;
    assert_int_equal(fl_tls_sendv(t, iov, 4), 2302);
    assert_int_equal(line.sends, 1);
    assert_int_equal(server_hears(&s, bytes, sizeof bytes), 2302);
    server_says(&s, head, sizeof head);
    server_says(&s, body, sizeof body);
    assert_int_equal(take_all(t, bytes, sizeof bytes), 2300);
    assert_int_equal(line.recvs, 1);
    assert_false(fl_tls_readable(t));
    fl_tls_close(&t);
    server_end(&s);
}

static void a_byte_at_a_time(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[512];
    fill(bytes, sizeof bytes);
    server_setup(&s, &host);
    server_begin(&s);
    struct fl_tls *t = client(terms, "store.example", 0);
    line.recv_at_most = line.send_at_most = 1;
    /* each call of the "kernel" comes short, so each needs an event of its own */
    int rc = -EAGAIN;
    for (int i = 0; i < 20000 && rc == -EAGAIN; i++) {
        rc = fl_tls_handshake(t);
        (void)server_pump(&s);
        fl_tls_edge(t, false);
    }
    assert_int_equal(rc, 0);
    size_t sent = 0;
    for (int i = 0; i < 2000 && sent < 200; i++) {
        ssize_t n = send_one(t, bytes + sent, 200 - sent);
        assert_true(n == -EAGAIN || n > 0);
        sent += n > 0 ? (size_t)n : 0;
        fl_tls_edge(t, false);
    }
    unsigned char heard[512];
    assert_int_equal(server_hears(&s, heard, sizeof heard), 200);
    assert_memory_equal(heard, bytes, 200);
    server_says(&s, "answer", 6);
    size_t got = 0;
    for (int i = 0; i < 5000 && got < 6; i++) {
        ssize_t n = fl_tls_recv(t, bytes + got, sizeof bytes - got);
        assert_true(n == -EAGAIN || n > 0);
        got += n > 0 ? (size_t)n : 0;
        fl_tls_edge(t, false);
    }
    assert_int_equal(got, 6);
    assert_memory_equal(bytes, "answer", 6);
    fl_tls_close(&t);
    server_end(&s);
}

enum { BIG = 3 * 1024 * 1024 + 77 };

static void a_big_body_up(void **state)
{
    (void)state;
    struct server s;
    struct fl_tls *t = connected(&s);
    unsigned char *body = malloc(BIG), *heard = malloc(BIG);
    size_t sent = 0, got = 0;
    fill(body, BIG);
    line.room = 9000; /* less than a record: each is stuck once at least */
    while (sent < BIG) {
        size_t n = BIG - sent < 61440 ? BIG - sent : 61440;
        struct iovec iov[] = {{body + sent, n / 3}, {body + sent + n / 3, n - n / 3}};
        ssize_t rc = fl_tls_sendv(t, iov, 2);
        if (rc == -EAGAIN || (size_t)rc < n) {
            assert_true(line.room == 0);
        }
        sent += rc > 0 ? (size_t)rc : 0;
        got += server_hears(&s, heard + got, BIG - got);
        fl_tls_edge(t, false);
    }
    got += server_hears(&s, heard + got, BIG - got);
    assert_int_equal(got, BIG);
    assert_memory_equal(body, heard, BIG);
    free(body);
    free(heard);
    fl_tls_close(&t);
    server_end(&s);
}

static void a_big_body_down(void **state)
{
    (void)state;
    struct server s;
    struct fl_tls *t = connected(&s);
    unsigned char *body = malloc(BIG), *heard = malloc(BIG);
    size_t said = 0, got = 0, step = 1;
    fill(body, BIG);
    while (got < BIG) {
        size_t n = BIG - said < step ? BIG - said : step;
        if (n > 0) {
            server_says(&s, body + said, n);
        }
        said += n;
        step = step * 7 % 100003 + 1; /* records of every size */
        ssize_t rc = take_all(t, heard + got, BIG - got < 61440 ? BIG - got : 61440);
        assert_true(rc >= 0);
        got += (size_t)rc;
        if (!fl_tls_readable(t)) { /* then all that was said must have come */
            assert_int_equal(got, said);
        }
    }
    assert_memory_equal(body, heard, BIG);
    free(body);
    free(heard);
    fl_tls_close(&t);
    server_end(&s);
}

/* A read that leaves bytes behind says so; nothing else will wake us. */
static void bytes_left_behind_are_readable(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[4096];
    struct fl_tls *t = connected(&s);
    (void)take_all(t, bytes, sizeof bytes);
    memset(bytes, 'a', sizeof bytes);
    server_says(&s, bytes, 1000); /* two records in one delivery */
    server_says(&s, bytes, 2000);
    fl_tls_edge(t, false);
    line.edge = false;
    line.recvs = 0;
    size_t got = 0;
    while (fl_tls_readable(t)) {
        ssize_t n = fl_tls_recv(t, bytes, 7);
        if (n == -EAGAIN) {
            break;
        }
        assert_in_range(n, 1, 7);
        got += (size_t)n;
    }
    assert_int_equal(got, 3000);
    assert_int_equal(line.recvs, 1);
    fl_tls_close(&t);
    server_end(&s);
}

/* ---- ends ---- */

static void an_end_in_good_order(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[64];
    struct fl_tls *t = connected(&s);
    server_says(&s, "last", 4);
    SSL_shutdown(s.ssl);
    (void)server_pump(&s);
    line.to_client.ended = true;
    assert_int_equal(take_all(t, bytes, sizeof bytes), 4);
    assert_true(fl_tls_readable(t)); /* the end is still to be told */
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), 0);
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), 0);
    assert_true(fl_tls_readable(t));
    fl_tls_close(&t);
    server_end(&s);
}

static void an_end_without_close_notify_is_a_cut(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[64];
    struct fl_tls *t = connected(&s);
    server_says(&s, "last", 4);
    line.to_client.ended = true;
    assert_int_equal(take_all(t, bytes, sizeof bytes), 4);
    assert_true(fl_tls_readable(t));
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), -FL_TLS_CUT);
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), -FL_TLS_CUT);
    unsigned sends = line.sends;
    fl_tls_close(&t);
    assert_int_equal(line.sends, sends); /* nobody is there to be told */
    server_end(&s);
}

static void a_record_cut_in_two_is_a_cut(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[4096] = {0};
    struct fl_tls *t = connected(&s);
    (void)take_all(t, bytes, sizeof bytes);
    server_says(&s, bytes, 3000);
    line.to_client.end -= 10;
    line.to_client.ended = line.edge = true;
    assert_int_equal(take_all(t, bytes, sizeof bytes), -FL_TLS_CUT);
    fl_tls_close(&t);
    server_end(&s);
}

static void a_reset_is_its_errno(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[64];
    struct fl_tls *t = connected(&s);
    line.to_client.broken = ECONNRESET;
    line.edge = true;
    assert_int_equal(take_all(t, bytes, sizeof bytes), -ECONNRESET);
    fl_tls_close(&t);
    server_end(&s);
}

/* The peer answered and closed while we were still sending: the answer must be readable. */
static void an_answer_is_read_after_sending_broke(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[64];
    struct fl_tls *t = connected(&s);
    server_says(&s, "HTTP/1.1 413", 12);
    line.send_errno = EPIPE;
    assert_int_equal(send_one(t, "body", 4), -EPIPE);
    assert_int_equal(send_one(t, "body", 4), -EPIPE);
    assert_int_equal(take_all(t, bytes, sizeof bytes), 12);
    assert_memory_equal(bytes, "HTTP/1.1 413", 12);
    fl_tls_close(&t);
    server_end(&s);
}

static void damaged_bytes_are_a_protocol_error(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[256] = {0};
    struct fl_tls *t = connected(&s);
    (void)take_all(t, bytes, sizeof bytes);
    server_says(&s, bytes, 100);
    line.to_client.bytes[line.to_client.end - 5] ^= 1;
    assert_int_equal(take_all(t, bytes, sizeof bytes), -FL_TLS_PROTOCOL);
    fl_tls_close(&t);
    server_end(&s);
}

static void close_says_so(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[64];
    struct fl_tls *t = connected(&s);
    fl_tls_close(&t);
    assert_int_equal(server_hears(&s, bytes, sizeof bytes), 0);
    assert_int_equal(SSL_get_shutdown(s.ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
    server_end(&s);
}

/* ---- behind the application's back ---- */

/* A ticket, on an idle connection: an event without bytes of the application. */
static void a_late_ticket_is_no_data(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[64];
    struct fl_tls *t = connected(&s);
    (void)take_all(t, bytes, sizeof bytes);
    assert_int_equal(SSL_new_session_ticket(s.ssl), 1);
    (void)SSL_do_handshake(s.ssl);
    (void)server_pump(&s);
    assert_true(line.edge);
    fl_tls_edge(t, false);
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), -EAGAIN);
    assert_false(fl_tls_readable(t));
    server_says(&s, "data", 4);
    assert_int_equal(take_all(t, bytes, sizeof bytes), 4);
    fl_tls_close(&t);
    server_end(&s);
}

/* TLS 1.3: the peer changes its keys and asks for ours, in the middle of bodies both ways. */
static void keys_change_while_bodies_flow(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[2048], heard[2048];
    struct fl_tls *t = connected(&s);
    for (int round = 0; round < 20; round++) {
        memset(bytes, 'a' + round, sizeof bytes);
        assert_int_equal(SSL_key_update(s.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        server_says(&s, bytes, 1500);
        if (round % 2 == 0) {
            line.room = 0; /* our answer to it cannot leave yet */
        }
        assert_int_equal(take_all(t, heard, sizeof heard), 1500);
        assert_memory_equal(heard, bytes, 1500);
        ssize_t n = send_one(t, bytes, sizeof bytes);
        if (round % 2 == 0) {
            assert_int_equal(n, -EAGAIN);
            line.room = SIZE_MAX;
            fl_tls_edge(t, false);
            n = send_one(t, bytes, sizeof bytes);
        }
        assert_int_equal(n, sizeof bytes);
        assert_int_equal(server_hears(&s, heard, sizeof heard), sizeof bytes);
        assert_memory_equal(heard, bytes, sizeof bytes);
    }
    fl_tls_close(&t);
    server_end(&s);
}

/* TLS 1.2: a wish to renegotiate is refused, and what was said around it is not lost. */
static void renegotiation_is_refused(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[256];
    max_version = TLS1_2_VERSION;
    struct fl_tls *t = connected(&s);
    max_version = 0;
    server_says(&s, "before", 6);
    assert_int_equal(SSL_renegotiate(s.ssl), 1);
    (void)SSL_do_handshake(s.ssl); /* sends HelloRequest */
    (void)server_pump(&s);
    assert_int_equal(take_all(t, bytes, sizeof bytes), 6);
    assert_memory_equal(bytes, "before", 6);
    assert_int_equal(line.to_server.end - line.to_server.start > 0, 1); /* the refusal */
    assert_int_equal(SSL_num_renegotiations(s.ssl), 1);
    assert_int_equal(server_hears(&s, bytes, sizeof bytes), 0);
    assert_false(SSL_is_init_finished(s.ssl)); /* a server of OpenSSL gives up then */
    fl_tls_close(&t);
    server_end(&s);
}

/* The caller comes back with more behind the same bytes. */
static void a_stuck_record_is_finished_with_more_behind_it(void **state)
{
    (void)state;
    struct server s;
    static unsigned char bytes[40000], heard[40000];
    struct fl_tls *t = connected(&s);
    fill(bytes, sizeof bytes);
    line.room = 100;
    assert_int_equal(send_one(t, bytes, 500), -EAGAIN);
    line.room = 50;
    fl_tls_edge(t, false);
    assert_int_equal(send_one(t, bytes, 500), -EAGAIN);
    line.room = SIZE_MAX;
    fl_tls_edge(t, false);
    struct iovec iov[] = {{bytes, 300}, {bytes + 300, sizeof bytes - 300}};
    assert_int_equal(fl_tls_sendv(t, iov, 2), sizeof bytes);
    assert_int_equal(server_hears(&s, heard, sizeof heard), sizeof heard);
    assert_memory_equal(heard, bytes, sizeof bytes);
    fl_tls_close(&t);
    server_end(&s);
}

/* No event, no system call: what is known to be empty or full is not asked again. */
static void nothing_is_asked_twice(void **state)
{
    (void)state;
    struct server s;
    unsigned char bytes[1000] = {0};
    struct fl_tls *t = connected(&s);
    (void)take_all(t, bytes, sizeof bytes);
    line.recvs = line.sends = 0;
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), -EAGAIN);
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), -EAGAIN);
    assert_int_equal(line.recvs, 0);
    line.room = 10;
    assert_int_equal(send_one(t, bytes, sizeof bytes), -EAGAIN);
    assert_int_equal(send_one(t, bytes, sizeof bytes), -EAGAIN);
    assert_int_equal(line.sends, 1);
    fl_tls_edge(t, true); /* with the end announced a short read proves nothing */
    server_says(&s, bytes, 20);
    line.to_client.ended = true;
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), 20);
    assert_true(fl_tls_readable(t));
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), -FL_TLS_CUT);
    fl_tls_close(&t);
    server_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_versions_carry_both_ways),
        cmocka_unit_test(one_call_each_way),
        cmocka_unit_test(a_byte_at_a_time),
        cmocka_unit_test(a_big_body_up),
        cmocka_unit_test(a_big_body_down),
        cmocka_unit_test(bytes_left_behind_are_readable),
        cmocka_unit_test(an_end_in_good_order),
        cmocka_unit_test(an_end_without_close_notify_is_a_cut),
        cmocka_unit_test(a_record_cut_in_two_is_a_cut),
        cmocka_unit_test(a_reset_is_its_errno),
        cmocka_unit_test(an_answer_is_read_after_sending_broke),
        cmocka_unit_test(damaged_bytes_are_a_protocol_error),
        cmocka_unit_test(close_says_so),
        cmocka_unit_test(a_late_ticket_is_no_data),
        cmocka_unit_test(keys_change_while_bodies_flow),
        cmocka_unit_test(renegotiation_is_refused),
        cmocka_unit_test(a_stuck_record_is_finished_with_more_behind_it),
        cmocka_unit_test(nothing_is_asked_twice),
    };
    return cmocka_run_group_tests(tests, make_parties, drop_parties);
}
