"""Attempts to make the sidecar, its client and its upstream disagree about where a message ends: request smuggling in
all its classes, as bytes (the tables) and as sequences in time. After each, a new connection must see a clean upstream.
What is asked for is exact: which statuses the client sees, which requests the upstream sees, how the connection ends."""
import pytest

import corpus_run
from bed.config import http
from stage import Script, staged

EVIL = b"GET /b/evil HTTP/1.1\r\nHost: s3.local\r\n\r\n"
NEXT = b"GET /b/next HTTP/1.1\r\nHost: s3.local\r\n\r\n"
HOST = b"Host: s3.local\r\n"

shared = staged(http)
_numbers = iter(range(1, 1 << 30))


@pytest.fixture(autouse=True)
def cleared(shared):
    """A run that failed leaves nothing for the next; the sidecar never ends."""
    yield
    shared.curtain()
    assert shared.sidecar.running, shared.sidecar.report()


def get(target="/b/k", *lines, method="GET", version="HTTP/1.1"):
    return f"{method} {target} {version}\r\n".encode("latin-1") + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def post(*lines, body=b""):
    return get("/b/k", *lines, method="POST") + body


def sized(n, body=b"", *lines):
    return post(b"Content-Length: %d" % n, *lines, body=body)


def chunky(body, *lines):
    return post(b"Transfer-Encoding: chunked", *lines, body=body)


DONE = b"5\r\nhello\r\n0\r\n\r\n"
K, E, N, P = "GET /b/k HTTP/1.1", "GET /b/evil HTTP/1.1", "GET /b/next HTTP/1.1", "POST /b/k HTTP/1.1"
HUNDRED = b"".join(get(f"/b/{i}") for i in range(100))

# name: (bytes, statuses, request lines upstream, does the connection end). ANY: by FIN or RST, since the client was told
# and sends on. EARLY: an answer of our own that does not wait for a body; when that is not there yet, the connection ends.
ANY, EARLY = "any", "early"
ATTEMPTS = {
    # -- after an error nothing counts
    "request behind a bad one": (b"G\x00T / HTTP/1.1\r\n\r\n" + NEXT, [400], [], True),
    "good, bad, good": (get() + get("/b/k", b"X : y") + NEXT, [200, 400], [K], True),
    "good, unknown coding, good": (get() + post(b"Transfer-Encoding: br, chunked", body=DONE) + NEXT, [200, 501], [K], True),
    "good, version 2, good": (get() + get(version="HTTP/2.0") + NEXT, [200, 505], [K], True),
    "good, expectation, good": (get() + sized(len(EVIL), EVIL, b"Expect: tea") + NEXT, [200, 417], [K], True),
    "connect, then a tunnel's bytes": (get("s3.local:80", method="CONNECT") + EVIL, [501], [], True),
    "trace with a body": (get("/b/k", b"Content-Length: %d" % len(EVIL), method="TRACE") + EVIL, [501], [], True),
    "bad target with a body": (get("/b/%", b"Content-Length: %d" % len(EVIL)) + EVIL + NEXT, [400], [], True),
    "close, then more": (get("/b/k", b"Connection: close") + EVIL * 50, [200], [K], ANY),
    "1.0, then more": (get(version="HTTP/1.0") + EVIL * 50, [200], [K], ANY),
    "tls hello": (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + EVIL, [400], [], True),
    "http/0.9": (b"GET /b/k\r\n\r\n" + NEXT, [400], [], True),
    "h2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", [505], [], True),
    # -- a length that one side might not see (0.CL, CL.TE, TE.CL)
    "length after VT": (post(b"Content-Length:\x0b%d" % len(EVIL), body=EVIL), [400], [], True),
    "length with NBSP": (post(b"Content-Length: \xa0%d" % len(EVIL), body=EVIL), [400], [], True),
    "length with NEL": (post(b"Content-Length: %d\x85" % len(EVIL), body=EVIL), [400], [], True),
    "length in a folded line": (post(b"X: y\r\n Content-Length: %d" % len(EVIL), body=EVIL), [400], [], True),
    "length behind CR": (post(b"X: y\rContent-Length: %d" % len(EVIL), body=EVIL), [400], [], True),
    "length behind LF": (post(b"X: y\nContent-Length: %d" % len(EVIL), body=EVIL), [400], [], True),
    "length behind a broken value": (post(b"X: y\r\nContent-Length : %d" % len(EVIL), body=EVIL), [400], [], True),
    "two lengths apart": (post(b"Content-Length: 0", *[b"X-%d: y" % i for i in range(50)],
                               b"content-LENGTH: %d" % len(EVIL), body=EVIL), [400], [], True),
    "length 0 and an equal one": (post(b"Content-Length: 0", b"Content-Length: 0", body=EVIL), [400], [], True),
    "length and chunked apart": (post(b"Content-Length: 5", *[b"X-%d: y" % i for i in range(50)],
                                      b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + EVIL), [400], [], True),
    "quoted chunked": (post(b'Transfer-Encoding: "chunked"', body=DONE), [400], [], True),
    "chunked with a parameter": (post(b"Transfer-Encoding: chunked;a=b", body=DONE), [400], [], True),
    "chunked, identity apart": (post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", body=DONE), [400], [],
                                True),
    "chunked, semicolon": (post(b"Transfer-Encoding: chunked;", body=DONE), [400], [], True),
    "chunked in a list with VT": (post(b"Transfer-Encoding: x,\x0bchunked", body=DONE), [400], [], True),
    "x-chunked": (post(b"Transfer-Encoding: xchunked", b"Content-Length: 5", body=b"hello"), [400], [], True),
    "transfer_encoding": (post(b"Transfer_Encoding: chunked", b"Content-Length: 15", body=DONE + NEXT), [200, 200],
                          [P, N], False),
    "cl named by connection": (sized(len(EVIL), EVIL, b"Connection: content-length"), [400], [], True),
    "te named by connection": (chunky(DONE, b"Connection: close, transfer-encoding"), [400], [], True),
    "expect named by connection": (sized(5, b"hello", b"Expect: 100-continue", b"Connection: expect"), [400], [], True),
    "length with leading zeros": (post(b"Content-Length: 00000000000000000000000005", body=b"hello" + NEXT), [200, 200],
                                  [P, N], False),
    "length 2^63": (post(b"Content-Length: 9223372036854775808", body=b"hello"), [400], [], True),
    "length 2^64 + 5, zeros before": (post(b"Content-Length: 000018446744073709551621", body=b"hello"), [400], [], True),
    # -- bodies where none is expected (CL.0, TE.0)
    "get with a request as body": (get("/b/k", b"Content-Length: %d" % len(EVIL)) + EVIL + NEXT, [200, 200], [K, N], False),
    "head with a request as body": (get("/b/k", b"Content-Length: %d" % len(EVIL), method="HEAD") + EVIL + NEXT, [200, 200],
                                    ["HEAD /b/k HTTP/1.1", N], False),
    "options * with a request as body": (get("*", b"Content-Length: %d" % len(EVIL), method="OPTIONS") + EVIL + NEXT,
                                         [200, 200], [N], EARLY),
    "max-forwards 0 with a chunked body": (get("/b/k", b"Max-Forwards: 0", b"Transfer-Encoding: chunked", method="OPTIONS") +
                                           b"%x\r\n" % len(EVIL) + EVIL + b"\r\n0\r\n\r\n" + NEXT, [200, 200], [N], EARLY),
    "reserved path with a request as body": (get("/_/ready", b"Content-Length: %d" % len(EVIL)) + EVIL + NEXT, [404, 200],
                                             [N], EARLY),
    # -- chunks
    "chunk size with tab": (chunky(b"5\t\r\nhello\r\n0\r\n\r\n"), [400], [], True),
    "chunk size with VT": (chunky(b"5\x0b\r\nhello\r\n0\r\n\r\n"), [400], [], True),
    "chunk size with underscore": (chunky(b"1_0\r\n0123456789abcdef\r\n0\r\n\r\n"), [400], [], True),
    "chunk size of 20 digits": (chunky(b"00000000000000000005\r\nhello\r\n0\r\n\r\n" + NEXT), [200, 200], [P, N], False),
    "chunk size of 2^63": (chunky(b"8000000000000000\r\nhello\r\n0\r\n\r\n"), [400], [], True),
    "nameless extension": (chunky(b"5;=x\r\nhello\r\n0\r\n\r\n"), [400], [], True),
    "empty extension": (chunky(b"5;\r\nhello\r\n0\r\n\r\n"), [400], [], True),
    "extension quoted over CRLF": (chunky(b'5;a="\r\nhello\r\n0\r\n\r\n"\r\n'), [400], [], True),
    "extension with escaped quote": (chunky(b'5;a="\\"\r\n"\r\nhello\r\n0\r\n\r\n'), [400], [], True),
    "extension with LF after size": (chunky(b"2;\n\r\nab\r\n0\r\n\r\n" + EVIL), [400], [], True),
    "extension too long": (chunky(b"5;a=" + b"x" * 20000 + b"\r\nhello\r\n0\r\n\r\n"), [400], [], True),
    "extensions too long together": (chunky(b"".join(b"1;a=%s\r\nx\r\n" % (b"y" * 100) for _ in range(200)) + b"0\r\n\r\n"),
                                     [400], [], True),
    "leading zeros without end": (chunky(b"0" * 20000 + b"5\r\nhello\r\n0\r\n\r\n"), [400], [], True),
    "data longer than said": (chunky(b"3\r\nhello\r\n0\r\n\r\n" + EVIL), [400], [], True),
    "chunk end is LF CR": (chunky(b"5\r\nhello\n\r0\r\n\r\n"), [400], [], True),
    "last chunk ends with LF LF": (chunky(b"5\r\nhello\r\n0\n\n" + EVIL), [400], [], True),
    "last chunk, then junk": (chunky(b"0\r\nX" + EVIL), [400], [], True),
    "last chunk is -0": (chunky(b"5\r\nhello\r\n-0\r\n\r\n" + EVIL), [400], [], True),
    "empty line before the size": (chunky(b"\r\n5\r\nhello\r\n0\r\n\r\n"), [400], [], True),
    # -- trailers
    "framing as trailers": (chunky(b"5\r\nhello\r\n0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + NEXT),
                            [200, 200], [P, N], False),
    "trailer without colon": (chunky(b"5\r\nhello\r\n0\r\nX\r\n\r\n" + EVIL), [400], [], True),
    "trailer without name": (chunky(b"5\r\nhello\r\n0\r\n: x\r\n\r\n" + EVIL), [400], [], True),
    "trailer with NUL": (chunky(b"5\r\nhello\r\n0\r\nX: a\0b\r\n\r\n" + EVIL), [400], [], True),
    "trailer section without end": (chunky(b"5\r\nhello\r\n0\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 900)
                                                                               for i in range(80)) + b"\r\n" + EVIL),
                                    [431], [], True),
    # -- lines
    "LF ends the head": (b"GET /b/k HTTP/1.1\r\nHost: s3.local\r\n\n" + EVIL, [400], [], True),
    "CR CR LF": (b"GET /b/k HTTP/1.1\r\nHost: s3.local\r\r\n\r\n" + EVIL, [400], [], True),
    "9 empty lines": (b"\r\n" * 9 + NEXT, [400], [], True),
    "8 empty lines": (b"\r\n" * 8 + NEXT, [200], [N], False),
    "bare LF before": (b"\n" + NEXT, [400], [], True),
    "space before the first field": (b"GET /b/k HTTP/1.1\r\n Host: s3.local\r\nHost: s3.local\r\n\r\n", [400], [], True),
    "host twice": (get("/b/k", b"host: evil"), [400], [], True),
    "host with NUL": (b"GET /b/k HTTP/1.1\r\nHost: s3.local\0\r\n\r\n", [400], [], True),
    "host with port out of range": (b"GET /b/k HTTP/1.1\r\nHost: s3.local:65536\r\n\r\n", [400], [], True),
    "absolute form, empty host": (b"GET http:///b/k HTTP/1.1\r\nHost: s3.local\r\n\r\n", [400], [], True),
    "absolute form, user": (b"GET http://a@s3.local/b/k HTTP/1.1\r\nHost: s3.local\r\n\r\n", [400], [], True),
    "absolute form, no host field": (b"GET http://s3.local/b/k HTTP/1.1\r\n\r\n", [400], [], True),
    "tab in the target": (b"GET /b/k\tHTTP/1.1\r\nHost: s3.local\r\n\r\n", [400], [], True),
    "two spaces": (b"GET  /b/k HTTP/1.1\r\nHost: s3.local\r\n\r\n", [400], [], True),
    "request in the target": (b"GET /b/k HTTP/1.1\r\n\r\nGET /b/evil HTTP/1.1\r\nHost: s3.local\r\n\r\n", [400], [], True),
    # -- order
    "a hundred at once": (HUNDRED, [200] * 100, [f"GET /b/{i} HTTP/1.1" for i in range(100)], False),
    "post, get, post": (sized(5, b"hello") + NEXT + chunky(DONE) + NEXT, [200] * 4, [P, N, P, N], False),
    "chunked with much behind": (chunky(DONE) + NEXT * 450, [200] * 451, [P] + [N] * 450, False),
    "head, then a bad one": (get(method="HEAD") + get("/b/k", b"X : y"), [200, 400], ["HEAD /b/k HTTP/1.1"], True),
    "upgrade with bytes behind": (get("/b/k", b"Connection: Upgrade", b"Upgrade: websocket") + NEXT, [200, 200], [K, N],
                                  False),
    "h2c with settings": (get("/b/k", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk") +
                          NEXT, [200, 200], [K, N], False),
    "expect without a body": (get("/b/k", b"Expect: 100-continue") + NEXT, [200, 200], [K, N], False),
    "expect twice": (sized(5, b"hello", b"Expect: 100-continue", b"Expect: 100-continue") + NEXT, [200, 200], [P, N], False),
    "expect with an empty member": (sized(5, b"hello", b"Expect: 100-continue,"), [417], [], True),
}


def finish(stage, run):
    corpus_run.aftermath(stage, run, next(_numbers))


def run_of(stage, client, methods=()):
    run = corpus_run.Run(stage, client, 0)
    run.methods = list(methods)
    return run


@pytest.mark.parametrize("form", ["whole", "bytes", "lines"])
@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempt(shared, name, form):
    raw, statuses, lines, ends = ATTEMPTS[name]
    stage = shared
    client = stage.client(unix=form != "whole")
    run = run_of(stage, client, ["HEAD" if b"HEAD" in raw[:5] else "GET"])
    if form == "whole":
        client.push(raw)
    else:
        stage.send_pieces(client, corpus_run.pieces_of(raw, form))
    stage.until(lambda: client.ended if ends in (True, ANY) else client.ended or
                client.data.count(b"HTTP/1.1 ") >= len(statuses) <= len(run.finals), 6)
    stage.settle()
    finals, _, rest = run.look()
    if ends == EARLY and client.ended:
        statuses, lines = statuses[:1], []
    assert [f.status for f in finals] == statuses and rest is None, (finals, rest)
    assert [m.line for m in stage.seen] == lines
    assert client.ended in {True: ["fin"], False: [None], ANY: ["fin", "rst"], EARLY: ["fin", None]}[ends]
    answered = [f for f in finals if f.get("x-number")]
    assert [f.get("x-number") for f in answered] == [str(i + 1) for i in range(len(lines))], "answers out of order"
    for m in stage.seen:
        assert not m.trailers or {n.lower() for n, _ in m.trailers}.isdisjoint({"content-length", "transfer-encoding"})
    finish(stage, run)


def test_trailers_that_connection_names_stop_here(shared):
    stage = shared
    client = stage.client()
    run = run_of(stage, client)
    client.push(chunky(b"5\r\nhello\r\n0\r\nX-Hop: 1\r\nX-Sum: 2\r\n\r\n", b"Connection: x-HOP"))
    stage.until(lambda: run.finals)
    assert stage.seen[0].trailers == [("X-Sum", "2")]
    finish(stage, run)


# -- in time ----------------------------------------------------------------------------------------------------------
class Early(Script):
    """Answers as soon as the head is there, and goes on reading (or not)."""

    def __init__(self, raw=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly", end=None):
        self.raw, self.end, self.heads, self.conns = raw, end, 0, []

    def on_head(self, conn, message):
        self.heads += 1
        self.conns.append(conn)
        if self.heads == 1:
            conn.push(self.raw)
            if self.end == "fin":
                conn.fin()
            elif self.end == "rst":
                conn.close(reset=True)

    def on_request(self, conn, message):
        if self.heads > 1:
            super().on_request(conn, message)


@pytest.mark.parametrize("end", [None, "fin"])
@pytest.mark.parametrize("expect", [False, True])
@pytest.mark.parametrize("framed", ["length", "chunked"])
def test_early_answer_leaves_the_body_unread(shared, end, expect, framed):
    """The rest of the upload is no request, whether it comes or not (0.CL, Expect desync)."""
    stage = shared
    stage.script = Early(end=end)
    client = stage.client()
    run = run_of(stage, client)
    framing = b"Content-Length: %d" % (len(EVIL) * 40) if framed == "length" else b"Transfer-Encoding: chunked"
    client.push(get("/b/k", framing, *([b"Expect: 100-continue"] if expect else []), method="PUT"))
    stage.until(lambda: run.finals)
    for _ in range(40):
        client.push(EVIL if framed == "length" else b"%x\r\n%s\r\n" % (len(EVIL), EVIL))
        stage.pump(0)
    client.push(EVIL)
    stage.until(lambda: client.ended)
    finals, interim, rest = run.look()
    assert [(f.status, f.body) for f in finals] == [(200, b"early")] and rest is None and not interim
    assert "close" in finals[0].options and client.ended == "fin"
    assert stage.seen == [] or all(m.line.startswith("PUT") for m in stage.seen)
    stage.until(lambda: all(c.ended or c.closed for c in stage.script.conns[:1]))
    assert stage.script.conns[0].ended or end == "fin", "a connection with half a request on it is not kept"
    finish(stage, run)


def test_early_answer_to_a_body_that_is_all_there(shared):
    """The body has left in full: both connections go on, and the next request is read as one."""
    stage = shared
    stage.script = Early()
    client = stage.client()
    run = run_of(stage, client)
    client.push(sized(len(EVIL), EVIL))
    stage.until(lambda: run.finals)
    client.push(NEXT)
    stage.until(lambda: len(run.finals) == 2 or client.ended)
    assert [f.status for f in run.finals] == [200, 200] and [m.line for m in stage.seen] == [P, N]
    finish(stage, run)


def surplus_cases():
    evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Evil: 1\r\n\r\nevil"
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    yield "length", "GET", ok, evil
    yield "one byte", "GET", ok, b"\n"
    yield "CRLF", "GET", ok, b"\r\n"
    yield "chunked", "GET", chunk, evil
    yield "head", "HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"ok"
    yield "head with a response", "HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", evil
    yield "204", "GET", b"HTTP/1.1 204 No Content\r\n\r\n", evil
    yield "204 with length", "GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n", b"evil"
    yield "304", "GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", b"evil"
    yield "205", "GET", b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", evil
    yield "interim after the final", "GET", ok, b"HTTP/1.1 100 Continue\r\n\r\n" + evil
    yield "error answer", "GET", b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", evil


SURPLUS = {name: rest for name, *rest in surplus_cases()}


class Surplus(Script):
    def __init__(self, raw, more, how):
        self.raw, self.more, self.how, self.conn = raw, more, how, None

    def on_request(self, conn, message):
        if self.conn is not None:
            return super().on_request(conn, message)
        self.conn = conn
        if self.how == "together":
            return conn.push(self.raw + self.more)
        conn.push(self.raw)
        if self.how == "at once":
            conn.push(self.more)
        return None


@pytest.mark.parametrize("how", ["together", "at once", "after the client has it", "idle"])
@pytest.mark.parametrize("name", SURPLUS)
def test_surplus_of_an_answer_is_nobodys(shared, name, how):
    """Response queue poisoning: bytes behind an answer never become the next one, of whichever client."""
    stage = shared
    method, raw, more = SURPLUS[name]
    script = stage.script = Surplus(raw, more, how)
    client = stage.client()
    run = run_of(stage, client, [method])
    client.push(get(method=method))
    stage.until(lambda: run.finals)
    if how == "idle":
        stage.settle()
    if how in ("after the client has it", "idle"):
        script.conn.push(more)
    stage.until(lambda: script.conn.ended)
    assert script.conn.ended, "the connection is not used on"
    assert len(run.finals) == 1 and run.look()[2] is None and b"evil" not in client.data, client.data
    client.push(NEXT)
    stage.until(lambda: len(run.finals) == 2)
    assert run.finals[1].body.endswith(b"GET /b/next")
    finish(stage, run)


@pytest.mark.parametrize("size", [n + d for n in (4096, 8192, 16384, 32768, 61440, 65536) for d in (-1, 0, 1)])
def test_surplus_behind_a_full_buffer(shared, size):
    """The head and body end where a read ends: whether more has come is not known without asking."""
    stage = shared
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %05d\r\n\r\n"
    body = b"x" * (size - len(head % 0))
    evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    script = stage.script = Surplus(head % len(body) + body, evil, "together")
    client = stage.client()
    run = run_of(stage, client)
    client.push(get())
    stage.until(lambda: run.finals)
    assert run.finals[0].body == body
    stage.until(lambda: script.conn.ended)
    assert script.conn.ended
    finish(stage, run)


def test_keeps_a_clean_connection(shared):
    """The counterpart of the tests above: without surplus, one connection serves them all."""
    stage = shared
    stage.curtain()
    for u in stage.open_upstreams():
        u.close()
    for size in (0, 1, 4096, 16384 - 60, 16384, 65536, 1 << 20):
        stage.script = Surplus(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size, b"", "together")
        client = stage.client()
        run = run_of(stage, client)
        client.push(get())
        stage.until(lambda: run.finals)
        assert len(run.finals[0].body) == size
        client.close()
        stage.settle()
    assert stage.accepted == 1
    stage.curtain()


class Raw(Script):
    """One raw answer to the first whole request, the usual ones then."""

    def __init__(self, raw, eof=False):
        self.raw, self.eof, self.conn = raw, eof, None

    def on_head(self, conn, message):
        pass

    def on_request(self, conn, message):
        if self.conn is not None:
            return super().on_request(conn, message)
        self.conn = conn
        return conn.answer(self.raw, self.eof)


def one(stage, raw_request, raw_answer, eof=False, methods=("GET",)):
    stage.script = Raw(raw_answer, eof)
    client = stage.client()
    run = run_of(stage, client, methods)
    client.push(raw_request)
    stage.until(lambda: run.finals or client.ended)
    stage.settle()
    return client, run


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize("count", [1, 15, 16, 17, 1000])
def test_interim_flood(shared, count):
    stage = shared
    client, run = one(stage, get(), b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * count + OK)
    finals, interim, rest = run.look()
    assert [f.status for f in finals] == [200 if count <= 16 else 502] and rest is None
    assert len(interim) == min(count, 16)
    assert count <= 16 or stage.script.conn.ended
    finish(stage, run)


def test_interim_with_a_length_has_no_body(shared):
    stage = shared
    client, run = one(stage, get(), b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n" + OK)
    finals, interim, _ = run.look()
    assert [f.status for f in finals] == [200] and len(interim) == 1 and not interim[0].all("content-length")
    finish(stage, run)


@pytest.mark.parametrize("lines", [[], [b"Connection: Upgrade", b"Upgrade: websocket"], [b"Upgrade: h2c"]])
def test_101_is_never_a_tunnel(shared, lines):
    stage = shared
    raw = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    client, run = one(stage, get("/b/k", *lines), raw + OK)
    client.push(NEXT)
    stage.until(lambda: len(run.finals) == 2)
    assert [f.status for f in run.finals] == [502, 200] and stage.script.conn.ended
    assert [m.line for m in stage.seen] == [K, N]
    finish(stage, run)


def test_answer_before_the_question(shared):
    """A server that speaks first gives its words to whoever asks, and to nobody else."""
    stage = shared
    for u in stage.open_upstreams():
        u.close()
    stage.settle()
    plain = stage._accept

    def accept():
        plain()
        stage.upstreams[-1].push(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")
    stage._accept = accept
    try:
        client = stage.client()
        run = run_of(stage, client)
        client.push(get())
        stage.until(lambda: run.finals)
    finally:
        stage._accept = plain
    assert run.finals[0].status in (200, 502)
    stage.until(lambda: stage.upstreams[-1].ended)
    assert stage.upstreams[-1].ended, "the answer to the request came too: surplus"
    finish(stage, run)


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("framed", ["length", "chunked"])
def test_client_leaves_in_its_body(shared, how, framed):
    """Half a request never becomes a whole one."""
    stage = shared
    client = stage.client()
    client.push(get("/b/k", b"Content-Length: 1000", method="PUT") + b"half" if framed == "length" else
                get("/b/k", b"Transfer-Encoding: chunked", method="PUT") + b"4\r\nhalf\r\n")
    stage.until(lambda: any(u.partial.endswith(b"half" if framed == "length" else b"half\r\n") for u in stage.upstreams))
    conn = next(u for u in stage.upstreams if u.partial)
    client.fin() if how == "fin" else client.close(reset=True)
    stage.until(lambda: conn.ended)
    assert conn.ended and stage.seen == []
    run = run_of(stage, client)
    finish(stage, run)


def test_client_leaves_in_the_answer(shared):
    """The rest of an answer that nobody reads is not given to the next."""
    stage = shared
    stage.script = Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
    client = stage.client()
    client.push(get())
    stage.until(lambda: client.data.endswith(b"half"))
    client.close(reset=True)
    conn = stage.script.conn
    stage.until(lambda: conn.ended)
    assert conn.ended
    finish(stage, run_of(stage, client))


@pytest.mark.parametrize("raw", [b"1\r\nx\r\n" * 3000, b"5;a=b\r\nhello\r\n" * 500])
def test_answer_chunks_of_any_shape(shared, raw):
    """One byte each, or with extensions: recoded, never passed on."""
    stage = shared
    client, run = one(stage, get(), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + raw + b"0;z\r\n\r\n")
    assert run.finals[0].body in (b"x" * 3000, b"hello" * 500)
    finish(stage, run)


@pytest.mark.parametrize("tail", [b"5;a=" + b"x" * 20000 + b"\r\nhello\r\n0\r\n\r\n", b"5\nhello\r\n0\r\n\r\n",
                                  b"ffffffffffffffffff\r\n", b"5\r\nhello0\r\n\r\n", b"0\r\nX\r\n\r\n", b"0\n\n",
                                  b"0\r\nX: a\0\r\n\r\n"])
def test_answer_with_broken_chunks_is_cut(shared, tail):
    stage = shared
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" + tail
    stage.script = Raw(raw)
    client = stage.client()
    run = run_of(stage, client)
    client.push(get())
    stage.until(lambda: client.ended)
    assert client.ended and run.finals == [] and b"\r\n0\r\n" not in client.data
    assert stage.script.conn.ended
    finish(stage, run)


def test_answer_trailers_that_would_be_fields(shared):
    stage = shared
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 9\r\n" \
          b"Set-Cookie: a=b\r\nTransfer-Encoding: gzip\r\nX-Sum: 1\r\n\r\n"
    client, run = one(stage, get(), raw)
    assert run.finals[0].trailers == [("X-Sum", "1")] and not run.finals[0].all("set-cookie")
    finish(stage, run)


def test_two_clients_in_one_step(shared):
    """Requests that arrive in turns, byte by byte, do not mix."""
    stage = shared
    clients = [stage.client(unix=True) for _ in range(8)]
    raws = [sized(20, b"%d" % i * 20, b"X-Who: %d" % i) + get(f"/b/{i}") for i in range(8)]
    for at in range(max(map(len, raws))):
        for client, raw in zip(clients, raws):
            client.push(raw[at:at + 1])
        stage.pump(0)
    runs = [run_of(stage, c) for c in clients]
    stage.until(lambda: all(len(r.finals) == 2 for r in runs))
    for i, run in enumerate(runs):
        assert run.finals[1].body.endswith(b"GET /b/%d" % i)
    posts = [m for m in stage.seen if m.method == "POST"]
    assert sorted((m.get("x-who"), m.body) for m in posts) == [(str(i), b"%d" % i * 20) for i in range(8)]
    finish(stage, runs[0])


def test_a_long_answer_survives_what_comes_behind_close(shared):
    """Bytes behind a request with Connection: close are read off before the socket goes, else their RST would take the
    answer along."""
    stage = shared
    size = 3 << 20
    stage.script = Raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
    client = stage.client(rcvbuf=4096)
    client.paused = True
    run = run_of(stage, client)
    client.push(get("/b/k", b"Connection: close") + EVIL * 20000)
    stage.until(lambda: stage.script.conn is not None)
    stage.wait(0.3)
    client.paused = False
    stage.until(lambda: client.ended, 10)
    assert [len(f.body) for f in run.finals] == [size] and [m.line for m in stage.seen] == [K]
    finish(stage, run)


@pytest.mark.parametrize("first", ["request", "surplus"])
def test_surplus_in_the_same_moment_as_a_request(shared, first):
    """Bytes that arrive while a kept connection is being taken look like an early answer; nobody can tell. They reach at
    most that one request: the true answer is then surplus, and the connection ends."""
    stage = shared
    evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Evil: 1\r\n\r\nevil"
    for _ in range(10):
        warm, client = stage.client(), stage.client()
        warm.push(NEXT)
        stage.until(lambda: warm.data.endswith(b"/b/next"))
        stage.settle()
        kept = [u for u in stage.open_upstreams() if u.requests][-1]
        run = run_of(stage, client)
        if first == "request":
            client.push(get())
            kept.push(evil)
        else:
            kept.push(evil)
            client.push(get())
        stage.until(lambda: run.finals)
        stage.until(lambda: kept.ended)
        assert kept.ended and len(run.finals) == 1 and run.look()[2] is None
        client.push(NEXT)
        stage.until(lambda: len(run.finals) == 2)
        assert run.finals[1].body.endswith(b"GET /b/next")
        stage.curtain()
