/* What the other side does wrong, and the fault that it is called. */
#include "tests/unit/common/tls/party.h"

static struct party authority, stranger, good, expired, early, other, alone, by_address,
    by_stranger, mine;

static int make_parties(void **state)
{
    (void)state;
    files_begin();
    authority = party_make((struct wish){.name = "Test authority", .authority = true});
    stranger = party_make((struct wish){.name = "Stranger", .authority = true});
    struct wish w = {.name = "x", .also = "DNS:store.example", .by = &authority};
    good = party_make(w);
    w.from_s = -7200;
    w.until_s = -3600;
    expired = party_make(w);
    w.from_s = 3600;
    w.until_s = 7200;
    early = party_make(w);
    other = party_make((struct wish){.name = "x", .also = "DNS:other.example", .by = &authority});
    alone = party_make((struct wish){.name = "store.example", .also = "DNS:store.example"});
    by_address = party_make((struct wish){.name = "x", .also = "IP:10.0.0.1", .by = &authority});
    by_stranger =
        party_make((struct wish){.name = "x", .also = "DNS:store.example", .by = &stranger});
    mine = party_make((struct wish){.name = "client", .by = &authority});
    write_cert("ca.pem", &authority);
    write_cert("alone.pem", &alone);
    write_cert("mine.pem", &mine);
    write_key("mine.key", &mine, NULL);
    return 0;
}

static int drop_parties(void **state)
{
    (void)state;
    static const char *const names[] = {"ca.pem", "alone.pem", "mine.pem", "mine.key"};
    struct party *const all[] = {&authority, &stranger, &good,       &expired,     &early,
                                 &other,     &alone,    &by_address, &by_stranger, &mine};
    for (size_t i = 0; i < FL_COUNTOF(all); i++) {
        party_free(all[i]);
    }
    files_end(names, FL_COUNTOF(names));
    return 0;
}

/* The result of a handshake with this server, called by this name. */
static int meet(const struct party *server_party, const char *name, struct fl_tls_conf conf)
{
    struct server s;
    struct fl_tls_terms *terms = terms_of(conf, 1);
    server_setup(&s, server_party);
    server_begin(&s);
    struct fl_tls *t = client(terms, name, 0);
    int rc = shake(&s, t);
    fl_tls_close(&t);
    fl_tls_terms_give(terms);
    server_end(&s);
    return rc;
}

static struct fl_tls_conf trusting(const char *file)
{
    return (struct fl_tls_conf){.verify = true, .ca_file = path_of(file)};
}

static void certificates(void **state)
{
    (void)state;
    struct fl_tls_conf ca = trusting("ca.pem");
    assert_int_equal(meet(&good, "store.example", ca), 0);
    assert_int_equal(meet(&good, "STORE.example.", ca), 0);
    assert_int_equal(meet(&expired, "store.example", ca), -FL_TLS_EXPIRED);
    assert_int_equal(meet(&early, "store.example", ca), -FL_TLS_NOT_YET_VALID);
    assert_int_equal(meet(&other, "store.example", ca), -FL_TLS_HOSTNAME_MISMATCH);
    assert_int_equal(meet(&good, "example", ca), -FL_TLS_HOSTNAME_MISMATCH);
    assert_int_equal(meet(&alone, "store.example", ca), -FL_TLS_SELF_SIGNED);
    assert_int_equal(meet(&by_stranger, "store.example", ca), -FL_TLS_UNKNOWN_ISSUER);
}

/* Without a name the address itself must be in the certificate. */
static void addresses(void **state)
{
    (void)state;
    struct fl_tls_conf ca = trusting("ca.pem");
    assert_int_equal(meet(&by_address, "", ca), 0);
    assert_int_equal(meet(&by_address, "10.0.0.1", ca), 0);
    assert_int_equal(meet(&by_address, "10.0.0.2", ca), -FL_TLS_ADDRESS_MISMATCH);
    assert_int_equal(meet(&good, "", ca), -FL_TLS_ADDRESS_MISMATCH);
    assert_int_equal(meet(&by_address, "store.example", ca), -FL_TLS_HOSTNAME_MISMATCH);
}

/* A file may name the certificate itself. */
static void a_pinned_certificate_is_trusted(void **state)
{
    (void)state;
    assert_int_equal(meet(&alone, "store.example", trusting("alone.pem")), 0);
    assert_int_equal(meet(&alone, "other.example", trusting("alone.pem")),
                     -FL_TLS_HOSTNAME_MISMATCH);
    assert_int_equal(meet(&good, "store.example", trusting("alone.pem")), -FL_TLS_UNKNOWN_ISSUER);
}

static void without_verification_anybody_will_do(void **state)
{
    (void)state;
    struct fl_tls_conf off = {.verify = false};
    assert_int_equal(meet(&expired, "store.example", off), 0);
    assert_int_equal(meet(&other, "store.example", off), 0);
    assert_int_equal(meet(&alone, "", off), 0);
    assert_int_equal(meet(&by_stranger, "", off), 0);
}

/* ---- no TLS, or none that we speak ---- */

/* The handshake with a peer that says these bytes and then `end`s: 0 stays open. */
static int hear(const void *bytes, size_t n, int end)
{
    struct fl_tls_terms *terms = terms_of((struct fl_tls_conf){.verify = false}, 0);
    line_reset();
    struct fl_tls *t = client(terms, "x", FL_TLS_NO_LANE);
    assert_int_equal(fl_tls_handshake(t), -EAGAIN);
    wire_put(&line.to_client, bytes, n);
    line.to_client.ended = end == EOF;
    line.to_client.broken = end > 0 ? end : 0;
    fl_tls_edge(t, end != 0);
    int rc = fl_tls_handshake(t);
    fl_tls_close(&t);
    fl_tls_terms_give(terms);
    line_reset();
    return rc;
}

static void other_protocols(void **state)
{
    (void)state;
    static const char http[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    static const char ssh[] = "SSH-2.0-OpenSSH_9.2p1\r\n";
    static const char smtp[] = "220 mail.example ESMTP\r\n";
    assert_int_equal(hear(http, sizeof http - 1, EOF), -FL_TLS_WRONG_VERSION);
    assert_int_equal(hear(ssh, sizeof ssh - 1, 0), -FL_TLS_WRONG_VERSION);
    assert_int_equal(hear(smtp, sizeof smtp - 1, 0), -FL_TLS_WRONG_VERSION);
    assert_int_equal(hear("", 0, EOF), -FL_TLS_CLOSED);
    assert_int_equal(hear("\x16\x03\x03", 3, EOF), -FL_TLS_CLOSED);
    assert_int_equal(hear("", 0, ECONNRESET), -ECONNRESET);
    assert_int_equal(hear("", 0, 0), -EAGAIN);
}

/* Clear text before the handshake must never pass for an answer. */
static void clear_text_before_the_handshake_is_refused(void **state)
{
    (void)state;
    struct server s;
    struct fl_tls_terms *terms = terms_of(trusting("ca.pem"), 1);
    server_setup(&s, &good);
    server_begin(&s);
    struct fl_tls *t = client(terms, "store.example", 0);
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    wire_put(&line.to_client, answer, sizeof answer - 1);
    line.edge = true;
    assert_int_equal(shake(&s, t), -FL_TLS_WRONG_VERSION);
    fl_tls_close(&t);
    fl_tls_terms_give(terms);
    server_end(&s);
}

static void an_alert(unsigned char number, int fault)
{
    unsigned char bytes[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, number};
    assert_int_equal(hear(bytes, sizeof bytes, 0), -fault);
}

static void alerts(void **state)
{
    (void)state;
    an_alert(SSL_AD_HANDSHAKE_FAILURE, FL_TLS_ALERT_HANDSHAKE);
    an_alert(SSL_AD_PROTOCOL_VERSION, FL_TLS_ALERT_VERSION);
    an_alert(SSL_AD_INTERNAL_ERROR, FL_TLS_ALERT_INTERNAL);
    an_alert(SSL_AD_UNRECOGNIZED_NAME, FL_TLS_ALERT_NAME);
    an_alert(SSL_AD_ACCESS_DENIED, FL_TLS_ALERT_ACCESS);
    an_alert(SSL_AD_CERTIFICATE_REQUIRED, FL_TLS_ALERT_WANTS_CERT);
    an_alert(SSL_AD_USER_CANCELLED, FL_TLS_ALERT_OTHER);
}

static void an_old_version_is_not_spoken(void **state)
{
    (void)state;
    struct server s;
    struct fl_tls_terms *terms = terms_of(trusting("ca.pem"), 1);
    server_setup(&s, &good);
    SSL_CTX_set_security_level(s.ssl_ctx, 0);
    SSL_CTX_set_min_proto_version(s.ssl_ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(s.ssl_ctx, TLS1_1_VERSION);
    server_begin(&s);
    struct fl_tls *t = client(terms, "store.example", 0);
    assert_int_equal(shake(&s, t), -FL_TLS_ALERT_VERSION);
    fl_tls_close(&t);
    fl_tls_terms_give(terms);
    server_end(&s);
}

/* ---- our own certificate ---- */

static void wants_client_certificate(struct server *s, const struct party *server_party,
                                     int max_version)
{
    server_setup(s, server_party);
    SSL_CTX_set_max_proto_version(s->ssl_ctx, max_version);
    SSL_CTX_set_verify(s->ssl_ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(s->ssl_ctx), authority.cert);
    server_begin(s);
}

static void a_certificate_is_shown(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < 2; i++) {
        struct server s;
        struct fl_tls_conf conf = trusting("ca.pem");
        conf.cert_file = path_of("mine.pem");
        conf.key_file = path_of("mine.key");
        struct fl_tls_terms *terms = terms_of(conf, 1);
        wants_client_certificate(&s, &good, versions[i]);
        struct fl_tls *t = client(terms, "store.example", 0);
        assert_int_equal(shake(&s, t), 0);
        (void)server_pump(&s);
        X509 *seen = SSL_get1_peer_certificate(s.ssl);
        assert_non_null(seen);
        assert_int_equal(X509_cmp(seen, mine.cert), 0);
        X509_free(seen);
        fl_tls_close(&t);
        fl_tls_terms_give(terms);
        server_end(&s);
    }
}

/* With TLS 1.3 our side of the handshake is over before the peer has looked at our certificate; its
 * refusal comes when the request has gone already, and nobody has read it. */
static void a_refusal_may_come_late(void **state)
{
    (void)state;
    struct server s;
    char bytes[16];
    struct fl_tls_terms *terms = terms_of(trusting("ca.pem"), 1);
    wants_client_certificate(&s, &good, TLS1_3_VERSION);
    struct fl_tls *t = client(terms, "store.example", 0);
    assert_int_equal(shake(&s, t), 0);
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof bytes};
    memset(bytes, 'r', sizeof bytes);
    assert_int_equal(fl_tls_sendv(t, &iov, 1), sizeof bytes);
    (void)server_pump(&s);
    fl_tls_edge(t, false);
    int rc = (int)fl_tls_recv(t, bytes, sizeof bytes);
    assert_int_equal(rc, -FL_TLS_ALERT_WANTS_CERT);
    assert_true(fl_tls_fault_is_refusal(-rc));
    fl_tls_close(&t);
    server_end(&s);

    wants_client_certificate(&s, &good, TLS1_2_VERSION);
    t = client(terms, "store.example", 0);
    assert_int_equal(shake(&s, t), -FL_TLS_ALERT_HANDSHAKE);
    fl_tls_close(&t);
    fl_tls_terms_give(terms);
    server_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificates),
        cmocka_unit_test(addresses),
        cmocka_unit_test(a_pinned_certificate_is_trusted),
        cmocka_unit_test(without_verification_anybody_will_do),
        cmocka_unit_test(other_protocols),
        cmocka_unit_test(clear_text_before_the_handshake_is_refused),
        cmocka_unit_test(alerts),
        cmocka_unit_test(an_old_version_is_not_spoken),
        cmocka_unit_test(a_certificate_is_shown),
        cmocka_unit_test(a_refusal_may_come_late),
    };
    return cmocka_run_group_tests(tests, make_parties, drop_parties);
}
