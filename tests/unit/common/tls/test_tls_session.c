/* Sessions: resumed where they were proved, and nowhere else. */
#include "tests/unit/common/tls/party.h"

static struct party authority, host;

static int make_parties(void **state)
{
    (void)state;
    files_begin();
    authority = party_make((struct wish){.name = "Test authority", .authority = true});
    host = party_make((struct wish){
        .name = "x", .also = "DNS:store.example,DNS:other.example", .by = &authority});
    write_cert("ca.pem", &authority);
    return 0;
}

static int drop_parties(void **state)
{
    (void)state;
    static const char *const names[] = {"ca.pem"};
    party_free(&host);
    party_free(&authority);
    files_end(names, 1);
    return 0;
}

static struct fl_tls_terms *fresh_terms(void)
{
    return terms_of((struct fl_tls_conf){.verify = true, .ca_file = path_of("ca.pem")}, 2);
}

struct call {
    const char *name;
    unsigned lane;
    uint8_t host; /* last byte of the address */
    bool cut;     /* the connection ends without close_notify */
};

/* One connection with a request and an answer; was it resumed, by the word of both sides? */
static bool resumed(struct server *s, struct fl_tls_terms *terms, struct call c)
{
    struct fl_addr addr = server_addr;
    struct fl_tls *t = NULL;
    char bytes[64];
    addr.ip[3] = c.host;
    const struct fl_tls_peer peer = {&addr, c.name, c.lane};
    server_begin(s);
    assert_int_equal(fl_tls_open(terms, 7, &peer, &t), 0);
    assert_int_equal(shake(s, t), 0);
    (void)server_pump(s);
    assert_int_equal(SSL_write(s->ssl, "answer", 6), 6);
    (void)server_pump(s);
    line.to_client.ended = c.cut;
    fl_tls_edge(t, c.cut);
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), 6);
    if (c.cut) {
        assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), -FL_TLS_CUT);
    }
    bool is = fl_tls_resumed(t);
    assert_int_equal(SSL_session_reused(s->ssl), is);
    fl_tls_close(&t);
    return is;
}

static const struct call plain = {"store.example", 0, 1, false};

static void a_second_connection_resumes(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < 2; i++) {
        struct server s;
        struct fl_tls_terms *terms = fresh_terms();
        server_setup(&s, &host);
        SSL_CTX_set_max_proto_version(s.ssl_ctx, versions[i]);
        assert_false(resumed(&s, terms, plain));
        for (int again = 0; again < 3; again++) {
            assert_true(resumed(&s, terms, plain));
        }
        fl_tls_terms_give(terms);
        server_end(&s);
    }
}

static void only_what_was_proved(void **state)
{
    (void)state;
    struct server s;
    struct fl_tls_terms *terms = fresh_terms(), *others = fresh_terms();
    server_setup(&s, &host);
    assert_false(resumed(&s, terms, plain));
    struct call c = plain;
    c.name = "other.example"; /* its certificate was never looked at for this name */
    assert_false(resumed(&s, terms, c));
    c = plain;
    c.host = 2;
    assert_false(resumed(&s, terms, c));
    c = plain;
    c.lane = 1; /* each thread its own */
    assert_false(resumed(&s, terms, c));
    c.lane = FL_TLS_NO_LANE; /* a probe wants to see the certificate */
    assert_false(resumed(&s, terms, c));
    assert_false(resumed(&s, terms, c));
    assert_false(resumed(&s, others, plain)); /* other terms, another proof */
    assert_true(resumed(&s, terms, plain));
    fl_tls_terms_give(terms);
    fl_tls_terms_give(others);
    server_end(&s);
}

static void a_cut_does_not_spoil_the_session(void **state)
{
    (void)state;
    struct server s;
    struct fl_tls_terms *terms = fresh_terms();
    server_setup(&s, &host);
    struct call c = plain;
    c.cut = true;
    assert_false(resumed(&s, terms, c));
    assert_true(resumed(&s, terms, c));
    fl_tls_terms_give(terms);
    server_end(&s);
}

/* A server that has lost its ticket keys: a handshake in full, and then its new tickets. */
static void a_forgotten_session_is_made_anew(void **state)
{
    (void)state;
    struct server s, after;
    struct fl_tls_terms *terms = fresh_terms();
    server_setup(&s, &host);
    server_setup(&after, &host);
    assert_false(resumed(&s, terms, plain));
    assert_false(resumed(&after, terms, plain));
    assert_true(resumed(&after, terms, plain));
    fl_tls_terms_give(terms);
    server_end(&s);
    server_end(&after);
}

/* A certificate that has run out is not taken for valid because a ticket still is. */
static void an_expired_certificate_is_not_resumed(void **state)
{
    (void)state;
    struct server s;
    struct fl_tls *t = NULL;
    struct fl_tls_terms *terms = fresh_terms();
    struct party brief = party_make((struct wish){
        .name = "x", .also = "DNS:store.example", .by = &authority, .from_s = -60, .until_s = 2});
    server_setup(&s, &brief);
    assert_false(resumed(&s, terms, plain));
    sleep(3);
    server_begin(&s);
    t = client(terms, "store.example", 0);
    assert_int_equal(shake(&s, t), -FL_TLS_EXPIRED);
    fl_tls_close(&t);
    fl_tls_terms_give(terms);
    party_free(&brief);
    server_end(&s);
}

static void many_peers(void **state)
{
    (void)state;
    struct server s;
    struct fl_tls_terms *terms = fresh_terms();
    server_setup(&s, &host);
    struct call c = plain;
    for (uint8_t i = 0; i < 20; i++) {
        c.host = i;
        assert_false(resumed(&s, terms, c));
    }
    for (uint8_t i = 0; i < 20; i++) {
        c.host = i;
        assert_true(resumed(&s, terms, c));
    }
    fl_tls_terms_give(terms);
    server_end(&s);
}

/* Connections outlive the terms' other holders. */
static void the_last_holder_frees(void **state)
{
    (void)state;
    struct server s;
    struct fl_tls_terms *terms = fresh_terms();
    server_setup(&s, &host);
    server_begin(&s);
    struct fl_tls *t = client(terms, "store.example", 0);
    fl_tls_terms_give(terms);
    assert_int_equal(shake(&s, t), 0);
    (void)server_pump(&s);
    char bytes[8];
    fl_tls_edge(t, false);
    assert_int_equal(fl_tls_recv(t, bytes, sizeof bytes), -EAGAIN); /* stores the tickets */
    fl_tls_close(&t);
    server_end(&s);
}

static void proofs_differ(void **state)
{
    (void)state;
    struct fl_tls_terms *a = fresh_terms(), *b = fresh_terms();
    assert_true(fl_tls_terms_proof(a, "x") == fl_tls_terms_proof(a, "X"));
    assert_true(fl_tls_terms_proof(a, "x") != fl_tls_terms_proof(a, "y"));
    assert_true(fl_tls_terms_proof(a, "x") != fl_tls_terms_proof(b, "x"));
    assert_true(fl_tls_terms_proof(a, NULL) == fl_tls_terms_proof(a, ""));
    assert_true(fl_tls_terms_proof(a, NULL) != 0);
    fl_tls_terms_give(a);
    fl_tls_terms_give(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_connection_resumes),
        cmocka_unit_test(only_what_was_proved),
        cmocka_unit_test(a_cut_does_not_spoil_the_session),
        cmocka_unit_test(a_forgotten_session_is_made_anew),
        cmocka_unit_test(an_expired_certificate_is_not_resumed),
        cmocka_unit_test(many_peers),
        cmocka_unit_test(the_last_holder_frees),
        cmocka_unit_test(proofs_differ),
    };
    return cmocka_run_group_tests(tests, make_parties, drop_parties);
}
