/* fanout_bed - status listeners of sidecars on the test's own reactor, and a fan-out that pushes to
 * them. A listener takes pushes as its script says and remembers them. */
#ifndef FL_TESTS_FANOUT_BED_H
#define FL_TESTS_FANOUT_BED_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/state_json.h"
#include "common/io/sock.h"
#include "common/sign/message_signature.h"
#include "controller/push/fanout_inner.h"

#define SIDECARS    6
#define REQUEST_MAX 65536
#define WAIT_MS     10000 /* a generous limit: the machine may be busy */

/* RFC 9421 appendix B.1.4 and RFC 8410 section 10. */
static const char old_private[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n"
    "-----END PRIVATE KEY-----\n";
static const char old_public[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=\n"
                                 "-----END PUBLIC KEY-----\n";
static const char new_private[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
    "-----END PRIVATE KEY-----\n";
static const char new_public[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
                                 "-----END PUBLIC KEY-----\n";

enum script { TAKES, SILENT, REFUSES, CONFLICTS };

struct listener {
    struct fl_io io;
    struct fl_addr at;
    char address[FL_ADDR_TEXT_MAX];
    enum script script;
    int64_t told_epoch, told_seq; /* CONFLICTS */
    bool checks; /* takes only what `keys` know, and learns from `keys` of a state */
    struct fl_verify_keys *keys;
    unsigned pushes, connections, open;
    int64_t epoch, seq; /* of the last push */
    char id[129], body[REQUEST_MAX];
};

struct connection {
    struct fl_io io;
    struct fl_task gone;
    struct listener *at;
    size_t got;
    char bytes[REQUEST_MAX];
};

static struct fl_reactor *reactor;
static struct fl_fanout *fanout;
static struct listener listeners[SIDECARS];
static const struct fl_log quiet = {.level = FL_LOG_ERROR};

/* ---- listeners ---- */

static void free_connection(struct fl_task *t)
{
    free(fl_container_of(t, struct connection, gone));
}

static void end_connection(struct connection *c)
{
    if (c->io.fd >= 0) {
        fl_reactor_close(reactor, &c->io);
        c->at->open--;
        fl_reactor_later(reactor, &c->gone);
    }
}

static struct fl_span field_of(const char *head, const char *name)
{
    const char *at = strcasestr(head, name);
    if (at == NULL) {
        return FL_SPAN("");
    }
    at += strlen(name);
    return (struct fl_span){at, strcspn(at, "\r\n")};
}

/* As a sidecar does: the signature by a key that it holds, and then the keys that the state brings.
 */
static bool is_signed(struct listener *l, const char *head, const char *body)
{
    int64_t created = 0;
    const struct fl_sig_request rq = {FL_SPAN("PUT"), FL_SPAN(FL_PUSH_PATH),
                                      FL_SPAN("application/json"),
                                      field_of(head, "\r\nFairlead-Sidecar: ")};
    struct fl_span digest = field_of(head, "\r\nContent-Digest: ");
    if (fl_message_verify(l->keys, &rq, digest, field_of(head, "\r\nSignature-Input: "),
                          field_of(head, "\r\nSignature: "), &created) != FL_SIG_OK ||
        !fl_content_digest_matches(digest, fl_span_of(body))) {
        return false;
    }
    struct fl_findings f;
    fl_findings_init(&f, "");
    struct fl_state *s = fl_state_json_decode(fl_span_of(body), &f);
    assert_non_null(s);
    if (s->keys.count > 0) {
        fl_verify_keys_free(l->keys);
        l->keys = fl_verify_keys_new();
        for (uint32_t i = 0; i < s->keys.count; i++) {
            assert_int_equal(fl_verify_keys_add_pem(l->keys, fl_span_of(s->keys.items[i])), 1);
        }
    }
    fl_state_free(s);
    fl_findings_done(&f);
    return true;
}

static void answer(struct connection *c, const char *head, const char *body)
{
    struct listener *l = c->at;
    char out[512], text[256];
    struct fl_fmt t = fl_fmt_of(text, sizeof(text)), o = fl_fmt_of(out, sizeof(out));
    long long epoch = 0, seq = 0;
    int status = l->script == REFUSES ? 500 : l->script == CONFLICTS ? 409 : 200;
    assert_int_equal(sscanf(body, "{\"epoch\":%lld,\"seq\":%lld", &epoch, &seq), 2);
    l->pushes++;
    l->epoch = epoch;
    l->seq = seq;
    struct fl_span id = field_of(head, "\r\nFairlead-Sidecar: ");
    memcpy(l->id, id.ptr, id.len);
    l->id[id.len] = '\0';
    memcpy(l->body, body, strlen(body) + 1);
    if (l->script == SILENT) {
        return;
    }
    if (l->checks && !is_signed(l, head, body)) {
        status = 401;
    }
    if (status == 409) {
        fl_fmt_printf(&t, "{\"epoch\":%lld,\"seq\":%lld}", (long long)l->told_epoch,
                      (long long)l->told_seq);
    } else if (status == 200) {
        fl_fmt_printf(&t,
                      "{\"epoch\":%lld,\"seq\":%lld,\"hash\":\"0000000000000000\","
                      "\"observations\":[{\"backend\":\"b\",\"peer\":\"10.0.0.1:1\",\"code\":"
                      "\"healthy\",\"cause\":\"\",\"since\":1,\"failures\":0,\"requests\":%u}]}",
                      epoch, seq, l->pushes);
    }
    fl_fmt_printf(&o, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n%.*s", status, t.len, (int)t.len,
                  text);
    struct iovec iov = {out, o.len};
    (void)fl_sock_sendv(c->io.fd, &iov, 1);
    c->got = 0;
}

static void on_bytes(struct fl_io *io, unsigned events)
{
    struct connection *c = fl_container_of(io, struct connection, io);
    (void)events;
    for (;;) {
        ssize_t n = fl_sock_recv(io->fd, c->bytes + c->got, REQUEST_MAX - 1 - c->got);
        if (n == -EAGAIN) {
            return;
        }
        if (n <= 0) {
            end_connection(c);
            return;
        }
        c->got += (size_t)n;
        c->bytes[c->got] = '\0';
        const char *stop = strstr(c->bytes, "\r\n\r\n");
        struct fl_span length = field_of(c->bytes, "\r\nContent-Length: ");
        if (stop != NULL &&
            c->got >= (size_t)(stop + 4 - c->bytes) + strtoul(length.ptr, NULL, 10)) {
            answer(c, c->bytes, stop + 4);
        }
    }
}

static void on_newcomer(struct fl_io *io, unsigned events)
{
    struct listener *l = fl_container_of(io, struct listener, io);
    (void)events;
    for (int fd; (fd = fl_sock_accept(io->fd, NULL)) >= 0;) {
        struct connection *c = calloc(1, sizeof(*c));
        assert_non_null(c);
        c->at = l;
        c->io = (struct fl_io){.fd = -1, .on_event = on_bytes};
        fl_task_init(&c->gone, free_connection);
        assert_int_equal(fl_reactor_add(reactor, &c->io, fd), 0);
        l->connections++;
        l->open++;
    }
}

static void open_listener(struct listener *l)
{
    struct fl_addr any;
    int fd = -1;
    memset(l, 0, sizeof(*l));
    l->io = (struct fl_io){.fd = -1, .on_event = on_newcomer};
    assert_true(fl_addr_parse(FL_SPAN("127.0.0.1:0"), &any));
    assert_int_equal(fl_sock_listen(&any, 16, &fd), 0);
    assert_int_equal(fl_sock_local(fd, &l->at), 0);
    struct fl_fmt f = fl_fmt_of(l->address, sizeof(l->address));
    fl_addr_print(&l->at, &f);
    assert_int_equal(fl_reactor_add_level(reactor, &l->io, fd), 0);
}

/* ---- the fan-out ---- */

static struct fl_sign_key *key_of(const char *pem)
{
    struct fl_sign_key *k = NULL;
    assert_int_equal(fl_sign_key_new(fl_span_of(pem), &k), 0);
    return k;
}

static void set_key(const char *pem)
{
    struct fl_sign_key *k = key_of(pem);
    fl_fanout_set_key(fanout, &k);
    assert_null(k);
}

static void configure(int64_t interval_ms)
{
    struct fl_controller_config *c = fl_controller_config_new(); /* of kubernetes: no list */
    assert_non_null(c);
    c->probe_defaults.interval_ms = interval_ms;
    c->push.concurrency = 64;
    c->push.timeout_ms = 5000;
    c->push.settle_ms = 20;
    assert_int_equal(fl_fanout_configure(fanout, c), 0);
    fl_controller_config_free(c);
}

static struct fl_fanout_target target_of(unsigned i, const char *configuration)
{
    static const char *const ids[] = {"uid-0", "uid-1", "uid-2", "uid-3", "uid-4", "uid-5"};
    return (struct fl_fanout_target){listeners[i].address, ids[i], "shop", "web", "node-1",
                                     configuration,        false};
}

static void put(unsigned i, const char *configuration)
{
    const struct fl_fanout_target t = target_of(i, configuration);
    assert_int_equal(fl_fanout_put_target(fanout, &t), 0);
}

/* A state that is told from others by its only peer. */
static void offer(const char *configuration, const char *peer, bool at_once)
{
    char text[256];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    struct fl_findings said;
    fl_findings_init(&said, "");
    fl_fmt_printf(&f,
                  "{\"epoch\":1,\"seq\":1,\"routes\":{},\"backends\":{\"b\":{\"peers\":"
                  "[{\"address\":\"%s:9000\"}]}}}",
                  peer);
    struct fl_state *s = fl_state_json_decode((struct fl_span){text, f.len}, &said);
    assert_non_null(s);
    fl_findings_done(&said);
    fl_fanout_offer(fanout, configuration, s, at_once);
}

static struct fl_fanout_view view_of(unsigned i)
{
    const struct fl_fanout_target t = target_of(i, "");
    struct fl_fanout_view v;
    assert_true(fl_fanout_find(fanout, t.address, t.id, &v));
    return v;
}

static bool has(unsigned i, const char *peer)
{
    return strstr(listeners[i].body, peer) != NULL;
}

static void turn(void)
{
    fl_reactor_turn(reactor, 0);
}

/* Turns until the statement holds; fails after WAIT_MS. */
#define UNTIL(statement)                                                                           \
    do {                                                                                           \
        turn(); /* the clock moves */                                                              \
        int64_t end_ms = fl_reactor_now_ms(reactor) + WAIT_MS;                                     \
        while (!(statement)) {                                                                     \
            if (fl_reactor_now_ms(reactor) > end_ms) {                                             \
                fail_msg("never: %s", #statement);                                                 \
            }                                                                                      \
            fl_reactor_turn(reactor, 20);                                                          \
        }                                                                                          \
    } while (0)

/* Turns for a while in which nothing must come of it. */
static void rest(int64_t ms)
{
    turn();
    for (int64_t end_ms = fl_reactor_now_ms(reactor) + ms; fl_reactor_now_ms(reactor) < end_ms;) {
        fl_reactor_turn(reactor, 10);
    }
}

static void open_bed(const struct fl_fanout_conf *more)
{
    struct fl_fanout_conf conf = *more;
    assert_int_equal(fl_reactor_new(&reactor), 0);
    turn();
    conf.reactor = reactor;
    conf.log = &quiet;
    conf.seed = 42;
    for (unsigned i = 0; i < SIDECARS; i++) {
        open_listener(&listeners[i]);
    }
    assert_int_equal(fl_fanout_new(&conf, &fanout), 0);
    configure(30000);
}

static void close_bed(void)
{
    fanout = fl_fanout_free(fanout);
    UNTIL(listeners[0].open + listeners[1].open + listeners[2].open + listeners[3].open +
              listeners[4].open + listeners[5].open ==
          0);
    for (unsigned i = 0; i < SIDECARS; i++) {
        fl_reactor_close(reactor, &listeners[i].io);
        fl_verify_keys_free(listeners[i].keys);
    }
    turn();
    reactor = fl_reactor_free(reactor);
}

#endif
