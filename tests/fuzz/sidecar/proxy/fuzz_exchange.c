/* The whole data plane in virtual time: an input is a script of what clients and origins do, byte
 * by byte, with pauses, ends and changes of configuration between them.
 *
 * Oracles: what the sidecar sends is well-formed on both sides; an answer is for the request that
 * asked; a request that must not be repeated reaches origins whole at most once; nothing hangs, and
 * nothing is left at the end (tests/sim/scenarios/bed_rules.h). */
#include "sidecar/policy/peer.h"
#include "tests/fuzz/sidecar/proxy/stream.h"
#include "tests/sim/scenarios/bed.h"

enum { CLIENTS = 6, CONNS = 24, ORIGINS = 3, IDS = 128, OPS_MAX = 96 };

struct input {
    const uint8_t *at, *end;
};

struct asked {
    enum fl_http_method method;
    char id[32];
};

struct side {
    struct sim_conn *conn; /* NULL: gone */
    bool made, client;
    struct stream got, sent; /* sent: by a client, to know what it asked */
    struct blob asked;       /* struct asked, one for each request that was sent */
    /* Of an origin: the id of the request that came last; requests and final answers so far. One
     * that said anything of its own does not name requests any more: nobody could tell its second
     * answer to a request from the first one to the next. */
    char last_id[32];
    unsigned requests, finals;
    bool wild;
};

struct play {
    struct bed *bed;
    struct side clients[CLIENTS], conns[CONNS];
    unsigned conn_count, ids;
    unsigned whole[IDS]; /* how often origins received this request in full */
    bool once[IDS];      /* it must not be repeated */
    bool listening[ORIGINS];
};

static const char *const configs[] = {
    "backends:\n  store: {probe: {type: none}, peers: [{address: \"10.0.0.1:9000\"}, {address: "
    "\"10.0.0.2:9000\"}]}\nroutes:\n  \"*\": {backend: store}\n",
    "buffer_memory: 256KiB\nbackends:\n  store: {probe: {type: none}, max_conns: 1, queue: {size: "
    "2, "
    "timeout: 500ms, hold: 2s}, peers: [{address: \"10.0.0.1:9000\"}, {address: \"10.0.0.2:9000\", "
    "backup: true}]}\nroutes:\n  \"*\": {backend: store, next_upstream: [error, timeout, "
    "http_503], "
    "replay_after_send: reset, expect_gate: 1KiB}\n",
    "backends:\n  store: {protocol: http, probe: {type: none}, keepalive: {idle: 1, timeout: 1s}, "
    "peers: [{address: \"10.0.0.1:9000\"}, {address: \"10.0.0.2:9000\"}, {address: "
    "\"10.0.0.3:9000\"}]}\nroutes:\n  \"*\": {backend: store, next_upstream: [error, timeout, "
    "invalid_header, http_502, http_503], next_upstream_tries: 3, read_timeout: 1s, "
    "next_upstream_timeout: 2s}\n",
    "header_limit: 4KiB\nreplay_memory: 64KiB\nclient: {head_timeout: 1s, idle_timeout: 2s, "
    "body_timeout: 1s, write_timeout: 1s}\nbackends:\n  store: {probe: {type: none}, max_fails: 2, "
    "fail_timeout: 1s, slow_start: 1s, peers: [{address: \"10.0.0.1:9000\"}, {address: "
    "\"10.0.0.3:9000\"}]}\nroutes:\n  \"*\": {backend: store, next_upstream: [error, timeout, "
    "invalid_header, http_503], deadline: 3s, read_timeout: 500ms, replay_body: 1KiB}\n",
};
enum { CONFIGS = sizeof configs / sizeof configs[0] };

static unsigned byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static unsigned below(struct input *in, unsigned n)
{
    return byte(in) % n;
}

/* ---- what comes back ---- */

static unsigned number_of(const char *id)
{
    unsigned n = IDS;
    return sscanf(id, "fuzz-%u", &n) == 1 && n < IDS ? n : IDS;
}

static void read_requests(struct play *p, struct side *s)
{
    enum stream_step step;
    while ((step = stream_request(&s->got)) != STREAM_MORE) {
        BED_MUST(step != STREAM_BROKEN, "an origin got a malformed request");
        unsigned n = number_of(s->got.id);
        memcpy(s->last_id, s->got.id, sizeof s->last_id);
        s->requests += step == STREAM_HEAD;
        if (step == STREAM_WHOLE && n < IDS) {
            p->whole[n]++;
            BED_MUST(!p->once[n] || p->whole[n] == 1, "%s was repeated", s->got.id);
        }
    }
}

/* What the client has asked so far, as far as it is well-formed. */
static void read_asked(struct side *s)
{
    enum stream_step step;
    while ((step = stream_request(&s->sent)) != STREAM_MORE) {
        if (step == STREAM_HEAD) {
            struct asked a = {.method = s->sent.head.request.method};
            memcpy(a.id, s->sent.id, sizeof a.id);
            blob_add(&s->asked, &a, sizeof a);
        }
    }
}

static void read_answers(struct side *s)
{
    enum stream_step step;
    do {
        static const struct asked none = {.method = FL_METHOD_GET};
        unsigned n = s->got.whole;
        bool known = n < s->asked.len / sizeof(struct asked);
        const struct asked *a =
            known ? (const struct asked *)(const void *)s->asked.bytes + n : &none;
        step = stream_response(&s->got, a->method);
        BED_MUST(step != STREAM_BROKEN, "a client got a malformed answer to request %u", n);
        if (step == STREAM_HEAD) {
            BED_MUST(s->got.id[0] == '\0' || strcmp(s->got.id, a->id) == 0,
                     "request '%s' got the answer for '%s'", a->id, s->got.id);
        }
    } while (step != STREAM_MORE);
}

static void on_data(struct sim_conn *c, const char *bytes, size_t n)
{
    struct side *s = c->user;
    if (s == NULL) {
        return;
    }
    stream_add(&s->got, bytes, n);
    if (s->client) {
        read_answers(s);
    } else {
        read_requests(c->arg, s);
    }
}

static void on_accept(struct sim_conn *c)
{
    struct play *p = c->arg;
    if (p->conn_count == CONNS) {
        sim_reset(c);
        return;
    }
    struct side *s = &p->conns[p->conn_count++];
    s->conn = c;
    s->made = true;
    c->user = s;
}

static void on_close(struct sim_conn *c, int err)
{
    struct side *s = c->user;
    (void)err;
    if (s != NULL) {
        s->conn = NULL;
    }
}

static void on_eof(struct sim_conn *c)
{
    sim_close(c);
}

static const struct sim_endpoint origin_ep = {
    .on_open = on_accept, .on_data = on_data, .on_eof = on_eof, .on_close = on_close};
static const struct sim_endpoint client_ep = {
    .on_data = on_data, .on_eof = on_eof, .on_close = on_close};

/* ---- what is done ---- */

/* @ is the number, or the id, of a request. */
static const char *const requests[] = {
    "GET /b/k HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\n\r\n",
    "HEAD /b/k HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\n\r\n",
    "PUT /b/k HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nContent-Length: 5\r\n\r\nhello",
    "PUT /b/k HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nContent-Length: 70000\r\n\r\n",
    "PUT /b/k HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nTransfer-Encoding: chunked\r\n\r\n",
    ("PUT /b/k HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nExpect: "
     "100-continue\r\nContent-Length: "
     "2000\r\n\r\n"),
    "GET /b/k HTTP/1.0\r\nx-request-id: fuzz-@\r\nConnection: keep-alive\r\n\r\n",
    "GET http://h/b/k HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nConnection: close\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\n\r\n",
    ("PUT /b/k HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nTransfer-Encoding: chunked\r\n\r\n"
     "3\r\nabc\r\n4\r\ndefg\r\n0\r\nx-tail: t\r\n\r\n"),
    /* from here on: not to be repeated */
    "POST /b/k?uploads HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nContent-Length: 0\r\n\r\n",
    ("POST /b/k?uploads HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nContent-Length: "
     "3\r\n\r\nabc"),
    ("POST /b/k?uploads HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nExpect: 100-continue\r\n"
     "Content-Length: 2000\r\n\r\n"),
    ("PUT /b/k HTTP/1.1\r\nHost: h\r\nx-request-id: fuzz-@\r\nIf-None-Match: *\r\nContent-Length: "
     "1\r\n\r\nx"),
};
enum { REQUESTS = sizeof requests / sizeof requests[0], ONCE = 10 };

static const char *const answers[] = {
    "HTTP/1.1 200 OK\r\nx-for: @\r\nContent-Length: 5\r\n\r\nhello",
    ("HTTP/1.1 200 OK\r\nx-for: @\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-tail: "
     "t\r\n\r\n"),
    "HTTP/1.1 200 OK\r\nx-for: @\r\nContent-Length: 70000\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
    "HTTP/1.1 204 No Content\r\nx-for: @\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nx-for: @\r\nContent-Length: 9\r\n\r\n",
    "HTTP/1.1 503 Slow Down\r\nx-for: @\r\nContent-Length: 22\r\n\r\n<Code>SlowDown</Code>\n",
    "HTTP/1.1 503 No\r\nx-for: @\r\nContent-Length: 100\r\n\r\nno",
    "HTTP/1.1 200 OK\r\nx-for: @\r\n\r\nuntil the end",
    "HTTP/1.0 200 OK\r\nx-for: @\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nx-for: @\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 417 No\r\nx-for: @\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 502 Bad\r\nx-for: @\r\nContent-Length: 0\r\n\r\n",
};
enum { ANSWERS = sizeof answers / sizeof answers[0], HUNDRED = 3, HINTS = 4 };

static void say(struct side *s, const char *bytes, size_t n)
{
    if (s->conn == NULL) {
        return;
    }
    sim_send(s->conn, bytes, n);
    if (s->client) {
        stream_add(&s->sent, bytes, n);
        read_asked(s);
    }
}

static void say_text(struct side *s, const char *text, const char *id)
{
    struct blob out = {0};
    for (; *text != '\0'; text++) {
        if (*text == '@') {
            blob_text(&out, id);
        } else {
            blob_add(&out, text, 1);
        }
    }
    say(s, out.bytes, out.len);
    blob_done(&out);
}

static void say_request(struct play *p, struct side *s, unsigned which)
{
    char number[16];
    unsigned id = p->ids < IDS - 1 ? p->ids++ : IDS - 1;
    snprintf(number, sizeof number, "%u", id);
    /* Behind bytes of its own it may be something else: a field of a GET, say. */
    p->once[id] = which >= ONCE && id < IDS - 1 && !s->wild;
    say_text(s, requests[which], number);
}

static void say_answer(struct side *s, unsigned which)
{
    bool final = which != HUNDRED && which != HINTS;
    if (!final || s->finals < s->requests) {
        s->finals += final;
        say_text(s, answers[which], s->wild ? "" : s->last_id);
    }
}

static void say_raw(struct side *s, struct input *in)
{
    size_t n = byte(in), left = (size_t)(in->end - in->at);
    s->wild = true;
    n = n < left ? n : left;
    say(s, (const char *)in->at, n);
    in->at += n;
}

static void say_fill(struct side *s, unsigned steps)
{
    char fill[257];
    memset(fill, 'f', sizeof fill);
    for (unsigned i = 0; i < steps; i++) {
        say(s, fill, sizeof fill);
    }
}

static void dial(struct play *p, struct side *s, struct input *in)
{
    if (s->made) {
        return;
    }
    struct sim_path path = sim_path_default();
    unsigned how = byte(in);
    path.latency_us = (how & 3) * 1000;
    path.send_bytes = how & 4 ? 2048 : 65536;
    path.recv_bytes = how & 8 ? 2048 : 65536;
    path.fragment_pct = how & 16 ? 50 : 0;
    path.short_write_pct = how & 32 ? 50 : 0;
    s->made = s->client = true;
    s->conn = sim_dial(p->bed->world, "10.9.9.9:999", BED_FRONT, &path, &client_ep, p);
    s->conn->user = s;
}

static void end(struct side *s, unsigned how)
{
    if (s->conn == NULL) {
        return;
    }
    switch (how % 5) {
    case 0:
        sim_finish(s->conn);
        break;
    case 1:
        sim_close(s->conn);
        break;
    case 2:
        sim_reset(s->conn);
        break;
    case 3:
        sim_hold(s->conn, true);
        break;
    default:
        sim_hold(s->conn, false);
        break;
    }
}

static void address(char out[24], unsigned origin)
{
    snprintf(out, 24, "10.0.0.%u:9000", origin + 1);
}

static void change_origin(struct play *p, struct input *in)
{
    unsigned i = below(in, ORIGINS), how = byte(in);
    char at[24];
    address(at, i);
    if (how & 1) {
        if (p->listening[i]) {
            sim_unlisten(p->bed->world, at);
        } else {
            sim_listen(p->bed->world, at, &origin_ep, p);
        }
        p->listening[i] = !p->listening[i];
        return;
    }
    struct sim_path path = sim_path_default();
    path.connect = (enum sim_connect)(how >> 1 & 3);
    path.latency_us = how & 8 ? 20000 : 0;
    path.send_bytes = path.recv_bytes = how & 16 ? 4096 : 65536;
    path.fragment_pct = how & 32 ? 50 : 0;
    path.short_write_pct = how & 64 ? 50 : 0;
    sim_set_path(p->bed->world, at, &path);
}

static void change_sidecar(struct play *p, struct input *in)
{
    unsigned how = byte(in);
    char at[24];
    address(at, how >> 2 & 1);
    struct fl_peer *peer = bed_peer(p->bed, at);
    switch (how & 3) {
    case 0:
        bed_publish(p->bed, configs[(how >> 2) % CONFIGS]);
        break;
    case 1:
        if (peer != NULL) {
            atomic_store(&peer->drained, (how & 8) != 0);
        }
        break;
    case 2:
        sim_fault(p->bed->world, how & 4 ? SIM_CALL_CONNECT : SIM_CALL_ACCEPT, 24 /* EMFILE */,
                  how >> 3 & 1, how >> 4 & 3);
        break;
    default:
        if (how >> 2 == 9) {
            fl_engine_drain(p->bed->engine);
        }
        break;
    }
}

static void pass_time(struct play *p, struct input *in)
{
    static const int64_t ms[] = {0, 1, 5, 30, 100, 300, 1000, 1500, 3000, 11000, 31000, 61000};
    bed_run_for(p->bed, ms[below(in, 12)]);
}

static struct side *conn_of(struct play *p, unsigned n)
{
    return &p->conns[p->conn_count > 0 ? p->conn_count - 1 - n % p->conn_count : 0];
}

static void act(struct play *p, struct input *in)
{
    unsigned op = byte(in), who = op >> 4;
    struct side *client = &p->clients[who % CLIENTS], *conn = conn_of(p, who);
    if (op % 16 < 6) {
        dial(p, client, in);
    }
    switch (op % 16) {
    case 0:
    case 1:
    case 2:
        say_request(p, client, below(in, REQUESTS));
        break;
    case 3:
        say_raw(client, in);
        break;
    case 4:
        say_fill(client, byte(in));
        break;
    case 5:
        end(client, byte(in));
        break;
    case 6:
    case 7:
    case 8:
        say_answer(conn, below(in, ANSWERS));
        break;
    case 9:
        say_raw(conn, in);
        break;
    case 10:
        say_fill(conn, byte(in));
        break;
    case 11:
        end(conn, byte(in));
        break;
    case 12:
        change_origin(p, in);
        break;
    case 13:
        change_sidecar(p, in);
        break;
    default:
        pass_time(p, in);
        break;
    }
}

static void finish(struct play *p)
{
    bed_run_for(p->bed, 1);
    for (unsigned i = 0; i < CLIENTS; i++) {
        end(&p->clients[i], 2);
    }
    for (unsigned i = 0; i < CONNS; i++) {
        end(&p->conns[i], 4);
        end(&p->conns[i], 1);
    }
    bed_end(p->bed);
    for (unsigned i = 0; i < CLIENTS; i++) {
        stream_done(&p->clients[i].got);
        stream_done(&p->clients[i].sent);
        blob_done(&p->clients[i].asked);
    }
    for (unsigned i = 0; i < CONNS; i++) {
        stream_done(&p->conns[i].got);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play play; /* large */
    struct input in = {data, data + size};
    memset(&play, 0, sizeof play);
    unsigned how = byte(&in);
    play.bed = bed_new(how, 1 + (how >> 3 & 1), configs[how % CONFIGS]);
    play.bed->peers_left = true;
    sim_set_shuffle(play.bed->world, how & 4);
    for (unsigned i = 0; i < ORIGINS; i++) {
        char at[24];
        address(at, i);
        sim_listen(play.bed->world, at, &origin_ep, &play);
        play.listening[i] = true;
    }
    for (unsigned i = 0; i < OPS_MAX && in.at < in.end; i++) {
        act(&play, &in);
    }
    finish(&play);
    return 0;
}
