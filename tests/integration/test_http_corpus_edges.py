"""The edges: limits hit exactly, answers of our own over bodies that still come, and slow or silent sides between which
memory must not get mixed up."""
import random
import time

import pytest

import corpus_run
from bed.config import http
from stage import Script, echo, staged
from test_http_corpus_desync import EVIL, HOST, NEXT, OK, Early, Raw, get, one, run_of

small = staged(http, {"header_limit": "8KiB", "client": {"body_timeout": "300ms", "head_timeout": "5s"}})
large = staged(http, {"header_limit": "64KiB"})
hasty = staged(lambda a: http(a, route={"read_timeout": "400ms"}))
_numbers = iter(range(1, 1 << 30))


@pytest.fixture(params=["small", "large"])
def limited(request):
    """(stage, its header_limit)"""
    stage = request.getfixturevalue(request.param)
    yield stage, {"small": 8192, "large": 65536}[request.param]
    stage.curtain()


@pytest.fixture
def quick(hasty):
    yield hasty
    hasty.curtain()
    assert hasty.sidecar.running, hasty.sidecar.report()


def finish(stage, run):
    corpus_run.aftermath(stage, run, next(_numbers))


def ask(stage, raw, form="whole"):
    client = stage.client(unix=form == "bytes")
    run = run_of(stage, client)
    if form == "whole":
        client.push(raw)
    else:
        stage.send_pieces(client, corpus_run.pieces_of(raw, "bytes"))
    stage.until(lambda: run.finals or client.ended)
    stage.settle()
    return client, run


# -- requests ---------------------------------------------------------------------------------------------------------
def padded(size, start=b"GET /b/k HTTP/1.1\r\n" + HOST):
    """A request head of exactly `size` bytes."""
    return start + b"X-Pad: " + b"x" * (size - len(start) - 11) + b"\r\n\r\n"


@pytest.mark.parametrize("form", ["whole", "bytes"])
@pytest.mark.parametrize("over", [-1, 0, 1, 2, 4096])
def test_request_head_limit(limited, over, form):
    stage, limit = limited
    raw = padded(limit + over)
    assert len(raw) == limit + over
    client, run = ask(stage, raw, form)
    assert [f.status for f in run.finals] == [200 if over <= 0 else 431]
    if over <= 0:
        assert [v for n, v in stage.seen[0].fields if n == "X-Pad"] == ["x" * (limit + over - len(padded(0)))]
    finish(stage, run)


@pytest.mark.parametrize("framed", [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_request_head_limit_with_a_body_behind(limited, framed):
    """The body does not count, also when it comes in the same segment."""
    stage, limit = limited
    body = b"hello" if b"5" in framed else b"5\r\nhello\r\n0\r\n\r\n"
    client, run = ask(stage, padded(limit, b"PUT /b/k HTTP/1.1\r\n" + HOST + framed) + body + NEXT)
    stage.until(lambda: len(run.finals) == 2)
    assert [f.status for f in run.finals] == [200, 200] and stage.seen[0].body == b"hello"
    finish(stage, run)


def test_request_head_limit_behind_another_request(limited):
    stage, limit = limited
    client, run = ask(stage, NEXT * 3 + padded(limit) + NEXT)
    stage.until(lambda: len(run.finals) == 5)
    assert [f.status for f in run.finals] == [200] * 5
    finish(stage, run)


@pytest.mark.parametrize("start", [b"GET http://s3.local/b/k HTTP/1.1\r\n" + HOST, b"GET /b/k HTTP/1.0\r\n" + HOST,
                                   b"GET /b/k HTTP/1.0\r\n", b"GET http://s3.local/b/k HTTP/1.0\r\n",
                                   b"GET http://s3.local HTTP/1.0\r\n"])
def test_request_head_limit_with_a_line_written_anew(limited, start):
    stage, limit = limited
    client, run = ask(stage, padded(limit, start))
    assert [f.status for f in run.finals] == [200]
    finish(stage, run)


@pytest.mark.parametrize("count,status", [(127, 200), (128, 200), (129, 431), (1000, 431)])
def test_request_field_count(limited, count, status):
    stage, limit = limited
    lines = [b"x%d: 1" % i for i in range(count - 1)]
    client, run = ask(stage, get("/b/k", *lines))
    assert [f.status for f in run.finals] == [status if len(get("/b/k", *lines)) <= limit else 431]
    if status == 200:
        got = stage.seen[0].fields
        assert [n for n, _ in got] == ["Host"] + [f"x{i}" for i in range(count - 1)] + ["x-request-id"]
    finish(stage, run)


def test_request_fields_dropped_one_by_one(limited):
    """Every second one is hop-by-hop: more pieces than a gather holds."""
    stage, _ = limited
    lines = [b"Connection: " + b", ".join(b"h%d" % i for i in range(62))]
    for i in range(62):
        lines += [b"h%d: drop" % i, b"k%d: keep" % i]
    client, run = ask(stage, get("/b/k", *lines))
    assert [f.status for f in run.finals] == [200]
    assert [n for n, _ in stage.seen[0].fields] == ["Host"] + [f"k{i}" for i in range(62)] + ["x-request-id"]
    finish(stage, run)


@pytest.mark.parametrize("count,status", [(64, 200), (65, 400)])
def test_connection_options(limited, count, status):
    stage, _ = limited
    client, run = ask(stage, get("/b/k", b"Connection: " + b",".join(b"h%d" % i for i in range(count))))
    assert [f.status for f in run.finals] == [status]
    finish(stage, run)


@pytest.mark.parametrize("method,status", [("M" * 32, 200), ("M" * 33, 501)])
def test_method_length(limited, method, status):
    stage, _ = limited
    client, run = ask(stage, get(method=method))
    assert [f.status for f in run.finals] == [status]
    finish(stage, run)


@pytest.mark.parametrize("size,status", [(32768, 200), (32769, 414), (60000, 414), (70000, 414)])
def test_target_length(large, size, status):
    client, run = ask(large, get("/b/" + "k" * (size - 3)))
    assert [f.status for f in run.finals] == [status]
    assert status != 200 or large.seen[0].target == "/b/" + "k" * (size - 3)
    finish(large, run)
    large.curtain()


@pytest.mark.parametrize("over,status", [(0, 200), (1, 431)])
def test_trailer_limit(small, over, status):
    """Trailers have the limit of the head, for themselves."""
    lines = [b"X-T%02d: %s\r\n" % (i, b"y" * 1000) for i in range(8)]
    room = 8192 - sum(map(len, lines))
    lines.append(b"X-End: " + b"z" * (room - 9 + over) + b"\r\n")
    client, run = ask(small, get("/b/k", b"Transfer-Encoding: chunked", method="PUT") + b"2\r\nok\r\n0\r\n" +
                      b"".join(lines) + b"\r\n")
    assert [f.status for f in run.finals] == [status]
    assert status != 200 or len(small.seen[0].trailers) == 9
    finish(small, run)
    small.curtain()


# -- answers ----------------------------------------------------------------------------------------------------------
def answer(size, start=b"HTTP/1.1 200 OK\r\n", framing=b"Content-Length: 2\r\n"):
    return start + framing + b"X-Pad: " + b"x" * (size - len(start + framing) - 11) + b"\r\n\r\n"


@pytest.mark.parametrize("piece", [None, 997])
@pytest.mark.parametrize("over", [-1, 0, 1, 4096])
def test_response_head_limit(limited, over, piece):
    stage, limit = limited
    raw = answer(limit + over)
    stage.script = Script()
    stage.script.on_request = lambda conn, m: conn.answer(raw + b"ok", piece=piece) if m.target == "/b/k" else \
        conn.push(echo(m, len(stage.seen)))
    client, run = ask(stage, get())
    assert [f.status for f in run.finals] == [200 if over <= 0 else 502]
    if over <= 0:
        assert run.finals[0].body == b"ok" and len(run.finals[0].get("x-pad")) == limit + over - len(answer(0))
    finish(stage, run)


def test_heads_that_fill_their_limit_without_an_end(limited):
    """Refused at the last byte, not when a timeout ends the wait for another."""
    stage, limit = limited
    start = time.monotonic()
    client, run = ask(stage, padded(limit + 100)[:limit])
    assert [f.status for f in run.finals] == [431]
    client, run = one(stage, get(), answer(limit + 100)[:limit])
    assert [f.status for f in run.finals] == [502] and time.monotonic() - start < 2
    stage.seen.clear()
    finish(stage, run)


@pytest.mark.parametrize("start,framing,eof", [
    (b"HTTP/1.0 200 OK\r\n", b"", True), (b"HTTP/1.1 200\r\n", b"Content-Length: 2\r\n", False),
    (b"HTTP/1.1 200 OK\r\n", b"", True), (b"HTTP/1.1 200 OK\r\nContent-Length: 0002\r\n", b"", False),
    (b"HTTP/1.1 200 " + b"r" * 500 + b"\r\n", b"Content-Length: 2\r\n", False)])
def test_response_head_limit_with_lines_written_anew(limited, start, framing, eof):
    """What we add to a head that fills its limit has room."""
    stage, limit = limited
    client, run = one(stage, get(), answer(limit, start, framing) + b"ok", eof)
    assert [(f.status, f.body) for f in run.finals] == [(200, b"ok")]
    finish(stage, run)


@pytest.mark.parametrize("count,status", [(127, 200), (128, 200), (129, 502)])
def test_response_field_count(limited, count, status):
    stage, _ = limited
    lines = b"".join(b"x%d: 1\r\n" % i for i in range(count - 1))
    client, run = one(stage, get(), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + lines + b"\r\nok")
    assert [f.status for f in run.finals] == [status]
    if status == 200:
        assert [n for n, _ in run.finals[0].fields] == ["Content-Length"] + [f"x{i}" for i in range(count - 1)]
    finish(stage, run)


def test_response_fields_dropped_and_mended_one_by_one(limited):
    stage, _ = limited
    lines = b"Connection: " + b", ".join(b"h%d" % i for i in range(42)) + b"\r\n"
    for i in range(42):
        lines += b"h%d: drop\r\nk%d : mend\r\nn%d: keep\r\n" % (i, i, i)
    client, run = one(stage, get(), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + lines + b"\r\nok")
    want = [("Content-Length", "2")] + [f for i in range(42) for f in ((f"k{i}", "mend"), (f"n{i}", "keep"))]
    assert run.finals[0].fields == want
    finish(stage, run)


# -- our own answers over bodies that still come ----------------------------------------------------------------------
bare = staged(lambda a: {"backends": {"pool": {"protocol": "http", "peers": [{"address": a}], "probe": {"type": "none"}}},
                         "routes": {"b": {"backend": "pool"}}})


@pytest.mark.parametrize("expect", [False, True])
@pytest.mark.parametrize("target,status", [("/other/k", 421), ("/_/x", 404), ("/b/%", 400)])
@pytest.mark.parametrize("arrives", ["with the head", "later"])
def test_refusal_before_the_body(bare, target, status, arrives, expect):
    """The fast path: the rest of the body is not the next request, and the answer is not lost in a reset."""
    stage = bare
    client = stage.client()
    run = run_of(stage, client)
    lines = [b"Content-Length: %d" % (len(EVIL) * 20000)] + ([b"Expect: 100-continue"] if expect else [])
    raw = get(target, *lines, method="PUT")
    client.push(raw if arrives == "later" else raw + EVIL * 500)
    if arrives == "later":
        stage.until(lambda: run.finals)
        stage.settle()
    start = time.monotonic()
    while client.ended is None and not client.refused and time.monotonic() - start < 3:
        client.push(EVIL * 100)
        stage.pump(0.001)
    finals, interim, rest = run.look()
    assert [f.status for f in finals] == [status] and not interim and rest is None and stage.seen == []
    assert "close" in finals[0].options and client.ended
    stage.seen.clear()
    finish(stage, run)
    stage.curtain()


def test_no_live_upstream_with_a_body(sidecar, dead):
    """The fast 503 when nobody is left: as above."""
    s = sidecar(http(dead(), dead(), max_fails=1))
    s.get("/b/k")
    with s.wire() as wire:
        wire.send(get("/b/k", b"Content-Length: %d" % (len(EVIL) * 3000), method="PUT") + EVIL * 3000 + NEXT)
        response = wire.response()
        assert response.status == 503 and response.header("X-Fairlead-Error") == "no_live_upstream"
        if (response.header("Connection") or "") != "close":
            assert wire.response().status == 503
        else:
            assert wire.ended(3) == "fin" and wire.buffer == b""
    lines = s.wait_access(2)
    assert {line["uri"] for line in lines} <= {"/b/k", "/b/next"}, "nothing of the body was taken for a request"


# -- silent sides (pause-based desync) --------------------------------------------------------------------------------
@pytest.mark.parametrize("framed", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def test_pause_in_the_body(small, framed):
    """The client falls silent in its body and goes on after the 408: what it sends is no request."""
    stage = small
    client = stage.client()
    run = run_of(stage, client)
    client.push(get("/b/k", framed, method="PUT") + (b"half" if b"Length" in framed else b"4\r\nhalf\r\n"))
    stage.until(lambda: run.finals or client.ended)
    client.push(EVIL * 10)
    stage.until(lambda: client.ended)
    assert [f.status for f in run.finals] == [408] and run.look()[2] is None and client.ended
    assert stage.seen == []
    finish(stage, run)
    stage.curtain()


def test_upstream_pauses_in_its_answer_and_goes_on(quick):
    """Cut after the silence; the rest, and whatever follows it, reaches nobody."""
    stage = quick
    stage.script = Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    client = stage.client()
    run = run_of(stage, client)
    client.push(get())
    stage.until(lambda: client.ended)
    assert run.finals == [] and client.data.endswith(b"half")
    stage.script.conn.push(b"-cut--" + OK)
    stage.until(lambda: stage.script.conn.ended)
    finish(stage, run)


def test_answer_after_the_timeout(quick):
    """An answer that comes too late belongs to nobody."""
    stage = quick

    class Late(Script):
        conn = None

        def on_request(self, conn, message):
            if message.target == "/b/k":
                self.conn = conn
            else:
                super().on_request(conn, message)

    stage.script = late = Late()
    client = stage.client()
    run = run_of(stage, client)
    client.push(get())
    stage.until(lambda: run.finals)
    assert run.finals[0].status == 504
    late.conn.push(OK * 3)
    client.push(NEXT)
    stage.until(lambda: len(run.finals) == 2)
    assert run.finals[1].body.endswith(b"/b/next")
    finish(stage, run)


# -- slow clients: what waits for them must not change underneath -----------------------------------------------------
class Interims(Script):
    """Large interim answers, then silence; /b/big is answered with a MiB of noise that goes through the same buffers."""

    def __init__(self, status, count=16, size=60000):
        self.raw = b"".join(b"HTTP/1.1 %d Hint\r\nLink: %s\r\n\r\n" % (status, b"%x" % i * size) for i in range(count))
        self.conn = None

    def on_request(self, conn, message):
        if message.target == "/b/big":
            conn.push(b"HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" + b"\n!" * (1 << 19))
        elif message.target == "/b/k" and self.conn is None:
            self.conn = conn
            conn.push(self.raw)
        else:
            super().on_request(conn, message)


def churn(stage, times=3):
    for _ in range(times):
        other = stage.client()
        other.push(get("/b/big"))
        stage.until(lambda: len(other.data) > 1 << 20)
        assert other.data.endswith(b"\n!" * 1000)
        other.close()


@pytest.mark.parametrize("status", [100, 103])
def test_interim_answers_to_a_client_that_does_not_read(quick, status):
    """The upstream sends hints and falls silent, the client takes nothing, the try times out while half a hint waits to
    be sent: what the client gets in the end are whole hints and one answer, not bytes of others."""
    stage = quick
    stage.script = Interims(status)
    client = stage.client(rcvbuf=2048)
    client.paused = True
    run = run_of(stage, client)
    client.push(get())
    stage.until(lambda: stage.script.conn is not None)
    for _ in range(10):
        stage.wait(0.08)
        churn(stage, 1)
    client.paused = False
    stage.until(lambda: run.finals or client.ended, 10)
    finals, interim, rest = run.look()
    assert [f.status for f in finals] == [504] and rest is None, (finals, str(rest)[:300])
    for f in interim:
        value = f.get("link")
        assert f.status == status and len(value) == 60000 and set(value) == {value[0]}, value[:100]
    finish(stage, run)


def test_interim_answers_cut_by_the_upstream(quick):
    """As above, but the upstream goes."""
    stage = quick
    stage.script = Interims(103)
    client = stage.client(rcvbuf=2048)
    client.paused = True
    run = run_of(stage, client)
    client.push(get())
    stage.until(lambda: stage.script.conn is not None)
    stage.wait(0.1)
    stage.script.conn.close(reset=True)
    for _ in range(10):
        stage.wait(0.05)
        churn(stage, 1)
    client.paused = False
    stage.until(lambda: run.finals or client.ended, 10)
    finals, interim, rest = run.look()
    assert len(finals) == 1 and finals[0].status in (502, 504) and rest is None, (finals, str(rest)[:300])
    assert all(set(f.get("link")) == {f.get("link")[0]} for f in interim)
    finish(stage, run)


def test_early_answer_to_a_client_that_does_not_read(quick):
    """A large early answer waits for a client that is still sending its body."""
    stage = quick
    size = 4 << 20
    stage.script = Early(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"y" * size)
    client = stage.client(rcvbuf=2048)
    client.paused = True
    run = run_of(stage, client)
    client.push(get("/b/k", b"Content-Length: 100000000", method="PUT"))
    for _ in range(20):
        client.push(EVIL * 100)
        stage.wait(0.01)
    client.paused = False
    stage.until(lambda: run.finals or client.ended, 10)
    assert [len(f.body) for f in run.finals] == [size] and set(run.finals[0].body) == {ord("y")}
    stage.until(lambda: client.ended)
    assert client.ended
    finish(stage, run)


# -- where a read ends ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("framed", ["length", "chunked"])
@pytest.mark.parametrize("total", [4096, 16384, 65536])
def test_request_ends_where_a_buffer_does(large, total, framed):
    """The last byte of a request and the first of the next lie on both sides of a buffer's end."""
    stage = large
    for off in range(-3, 4):
        field = b"Content-Length: %06d" if framed == "length" else b"Transfer-Encoding: chunked"
        start = get("/b/k", field % 0 if framed == "length" else field, method="PUT")
        room = total + off - len(start) - (0 if framed == "length" else len(b"00000\r\n\r\n0\r\n\r\n"))
        body = random.Random(off).randbytes(room)
        raw = start.replace(b"000000", b"%06d" % room, 1) + body if framed == "length" else \
            start + b"%05x\r\n" % room + body + b"\r\n0\r\n\r\n"
        assert len(raw) == total + off
        client = stage.client()
        run = run_of(stage, client)
        client.push(raw + NEXT + NEXT)
        stage.until(lambda: len(run.finals) == 3 or client.ended)
        assert [f.status for f in run.finals] == [200] * 3
        assert stage.seen[0].body == body and stage.seen[0].framing == framed
        finish(stage, run)
        stage.curtain()


def split(rng, data, most):
    pieces = []
    while data:
        n = rng.choice([1, 2, 3, rng.randrange(1, most), rng.randrange(1, most)])
        pieces.append(data[:n])
        data = data[n:]
    return pieces


def chunks_of(rng, body):
    out = b""
    for piece in split(rng, body, 6000):
        ext = rng.choice([b"", b"", b";a", b';a="b;\\"c"', b" ; a = b"])
        out += (b"%x" if rng.random() < 0.5 else b"%06X") % len(piece) + ext + b"\r\n" + piece + b"\r\n"
    return out + b"000" + b"\r\nX-Sum: 1\r\n\r\n"


@pytest.mark.parametrize("seed", range(16))
def test_chunks_and_segments_at_random(large, seed):
    """Both ways at once: chunks of any size in segments of any size, two requests behind each other."""
    stage, rng = large, random.Random(seed)
    bodies = [rng.randbytes(rng.choice([0, 1, 5000, 50000])) for _ in range(4)]
    answers = iter([chunks_of(rng, bodies[2]), chunks_of(rng, bodies[3])])

    class Answers(Script):
        def on_request(self, conn, message):
            if message.method != "PUT":
                return super().on_request(conn, message)
            conn.push(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for piece in split(rng, next(answers), 9000):
                conn.push(piece)
                conn.stage.pump(0)
            return None

    stage.script = Answers()
    client = stage.client(unix=True)
    run = run_of(stage, client)
    raw = b"".join(get(f"/b/{i}", b"Transfer-Encoding: chunked", method="PUT") + chunks_of(rng, bodies[i]) for i in (0, 1))
    stage.send_pieces(client, split(rng, raw, 9000))
    stage.until(lambda: len(run.finals) == 2 or client.ended)
    assert [m.body for m in stage.seen] == bodies[:2] and [m.trailers for m in stage.seen] == [[("X-Sum", "1")]] * 2
    assert [f.body for f in run.finals] == bodies[2:] and [f.trailers for f in run.finals] == [[("X-Sum", "1")]] * 2
    finish(stage, run)
    stage.curtain()


# -- ends that must be seen -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("raw,eof", [
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "fin"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", "fin"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nX\r\n", None),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", "fin"),
    (b"HTTP/1.1 200 OK\r\n\r\nhello", "rst"), (b"HTTP/1.0 200 OK\r\n\r\nhello", "rst")])
@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
def test_a_cut_answer_has_no_clean_end(large, raw, eof, version):
    """Where only the end of the connection could end the answer, it is an RST."""
    stage = large

    class Cut(Script):
        done = False

        def on_request(self, conn, message):
            if self.done:
                return super().on_request(conn, message)
            self.done = True
            conn.answer(raw)
            conn.stage.settle(0.01)
            if eof:
                conn.fin() if eof == "fin" else conn.close(reset=True)
            return None

    stage.script = Cut()
    client = stage.client()
    run = run_of(stage, client)
    client.push(get(version=version))
    stage.until(lambda: client.ended)
    assert client.ended == "rst" and run.finals == [] and b"hello" in client.data, (client.ended, client.data)
    assert b"\r\n0\r\n" not in client.data
    finish(stage, run)
    stage.curtain()


# -- our own answers quote what the client sent -----------------------------------------------------------------------
@pytest.mark.parametrize("target", ["/%0d%0aX-Evil:%201%0d%0a%0d%0abody/k", "/%22%5c%0a/k", "/%00%7f%ff/k", "/x%3cy%3e&/k",
                                    "/" + "%0a" * 300 + "/k"])
def test_refusals_quote_safely(bare, target):
    """Response splitting: what a refused request named is escaped in header and body."""
    stage = bare
    client = stage.client()
    run = run_of(stage, client)
    client.push(get(target, b"x-request-id: a\"\\b\xff") + NEXT)
    stage.until(lambda: len(run.finals) == 2 or client.ended)
    finals, _, rest = run.look()
    assert [f.status for f in finals][:1] in ([421], [400]) and rest is None
    assert not finals[0].all("x-evil") and finals[0].get("x-request-id") is not None
    for name, value in finals[0].fields:
        assert all(c >= " " and c != "\x7f" for c in value), (name, value)
    stage.seen.clear()
    finish(stage, run)
    stage.curtain()
