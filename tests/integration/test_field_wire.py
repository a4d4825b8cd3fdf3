"""Field reports BR-41, 44, 45, 55: Expect, bodiless answers, framing, and what may not pass at all."""
import time

import pytest

from bed.config import FREE, http, s3
from bed.origin import generated, sha256
from bed.wire import Ended, chunked, head
from bed.sidecar import chain

WAIT = {"Expect": "100-continue"}
MIB = generated(1 << 20)


# -- BR-41: Expect: 100-continue ------------------------------------------------------------------------------------
def upload(wire, method="PUT", target="/b/k", body=MIB, headers=()):
    """Sends the head with Expect, then the body once 100 came; (interim heads, final response)."""
    wire.send(head(method, target, {**WAIT, "Content-Length": len(body), **dict(headers)}))
    interim = [wire.read_interim()]
    while interim[-1].status not in (100,) and interim[-1].status < 200:
        interim.append(wire.read_interim())
    if interim[-1].status == 100:
        wire.send(body)
        return interim, wire.response(method)
    return interim, None


def test_br41_a_origin_says_100_at_once(sidecar, origin):
    u1 = origin("u1")
    s = sidecar(s3(u1))
    with s.wire() as wire:
        start = time.monotonic()
        interim, final = upload(wire)
        assert final.status == 200 and time.monotonic() - start < 0.8
        assert [i.status for i in interim] == [100] and interim[0].headers == [], "a bare 100"
        assert wire.request("GET", "/b/k").response().body == MIB
    put = u1.only(method="PUT")
    assert put.sha256 == sha256(MIB) and put.header("Expect") == "100-continue", "forwarded, not answered by us"


def test_br41_b_origin_never_says_100(sidecar, origin):
    u1 = origin("u1", "continue=never")
    s = sidecar(s3(u1))
    with s.wire() as wire:
        start = time.monotonic()
        interim, final = upload(wire)
        assert final.status == 200 and [i.status for i in interim] == [100]
        assert 0.8 <= time.monotonic() - start <= 2.0, "we say 100 ourselves after one second of silence"
    assert u1.only().sha256 == sha256(MIB)
    assert s.events("upstream server temporarily disabled") == []


def test_br41_c_final_status_without_100(sidecar, origin):
    u1 = origin("u1", "early status=403 code=AccessDenied method=PUT")
    s = sidecar(s3(u1))
    with s.wire() as wire:
        wire.send(head("PUT", "/b/k", {**WAIT, "Content-Length": len(MIB)}))
        response = wire.response()
        assert response.status == 403 and b"AccessDenied" in response.body and response.interim == []
    u1.until(peer_fin=1)
    put = u1.only(method="PUT")
    assert put.body_bytes == 0, "not a byte of the body went out"
    assert s.get("/b/x").status == 200
    assert u1.ledger("GET")[0].conn != put.conn, "the connection that still expects a body is not reused"


def test_br41_d_client_does_not_wait(sidecar, origin):
    u1 = origin("u1")
    s = sidecar(s3(u1))
    with s.wire() as wire:
        wire.send(head("PUT", "/b/k", {**WAIT, "Content-Length": len(MIB)}) + MIB)
        assert wire.response().status == 200
    assert u1.only().sha256 == sha256(MIB)


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_br41_request_moves_on_while_100_is_pending(sidecar, origins, method):
    """Whatever its method: none of its body has been sent."""
    u1, u2 = origins(2)
    u1.rules("rst_request=0")
    s = sidecar(s3(u1, u2, max_fails=0, **FREE))
    for _ in range(3):
        with s.wire() as wire:
            interim, final = upload(wire, method)
            assert final.status == 200 and [i.status for i in interim] == [100], "exactly one 100"
    assert u1.requests >= 1 and all(e.sha256 == sha256(MIB) for e in u2.ledger()), u2.ledger()
    assert len(u2.ledger()) == 3


def test_br41_second_100_is_swallowed(sidecar, origins):
    u1, u2 = origins(2)
    u1.rules('early raw="HTTP/1.1 100 Continue\\r\\n\\r\\n" close')
    s = sidecar(s3(u1, u2, max_fails=0, **FREE))
    for i in range(4):
        with s.wire() as wire:
            wire.send(head("PUT", f"/b/{i}", {**WAIT, "Content-Length": 1000}))
            assert wire.read_interim().status == 100
            time.sleep(0.1)  # u1 is gone by now
            wire.send(generated(1000))
            response = wire.response()
            assert response.status == 200 and response.interim == [], "no second 100 for the client"
    assert u1.requests >= 1 and all(e.complete and e.body_bytes == 1000 for e in u2.ledger())


def test_br41_empty_body_with_expect_is_wholly_sent(sidecar, origins):
    """boto3 sends Expect with Content-Length: 0, and with If-None-Match: * such a PUT is a lock."""
    u1, u2 = origins(2)
    for o in (u1, u2):
        o.rules("rst_request=0 method=PUT")
    s = sidecar(s3(u1, u2))
    response = s.call("PUT", "/b/lock", {**WAIT, "Content-Length": "0", "If-None-Match": "*"})
    assert response.status == 503
    assert len(u1.ledger()) + len(u2.ledger()) == 1


def test_br41_another_1xx_is_relayed_and_ends_retrying(sidecar, origins):
    for o in (u := origins(2)):
        o.rules('interim="HTTP/1.1 103 Early Hints\\r\\nLink: </x>\\r\\n\\r\\n" rst_response=0 end_ms=50 status=200')
    s = sidecar(http(*u))
    with s.wire() as wire:
        wire.request("GET", "/x")
        early = wire.read_interim()
        assert early.status == 103 and early.header("Link") == "</x>"
        assert wire.response().status == 502
    assert sum(o.requests for o in u) == 1
    for o in u:
        o.rules('interim="HTTP/1.1 103 Early Hints\\r\\nLink: </x>\\r\\n\\r\\n"')
    response = s.get("/x")
    assert response.status == 200 and [i.status for i in response.interim] == [103]


def test_br41_expect_gate_asks_for_the_client(sidecar, origins):
    u1, u2 = origins(2)
    u1.rules("rst_request=0")
    s = sidecar(s3(u1, u2, max_fails=0, route={"expect_gate": "64KiB"}, **FREE))
    for i in range(3):
        response = s.call("PUT", f"/b/{i}", body=MIB)
        assert response.status == 200 and response.interim == [], "the client did not ask, so it sees no 100"
    assert all(e.header("Expect") == "100-continue" and e.sha256 == sha256(MIB) for e in u2.ledger("PUT"))
    assert u1.requests >= 1, "although over replay_body, it moved on: no body byte had been sent"
    u1.rules()  # a small one is not gated, so it must not meet the peer that resets
    assert s.call("PUT", "/b/small", body=b"x" * 100).status == 200
    assert [e.header("Expect") for e in u1.ledger() + u2.ledger() if e.target == "/b/small"][-1] is None


def test_br41_expect_gate_takes_417_for_a_no(sidecar, origin):
    u1 = origin("u1", "early close status=417 count=1")
    s = sidecar(s3(u1, route={"expect_gate": "64KiB"}))
    assert s.call("PUT", "/b/k", body=MIB).status == 200
    first, second = u1.ledger("PUT")
    assert (first.header("Expect"), second.header("Expect")) == ("100-continue", None)
    assert second.sha256 == sha256(MIB)


# -- BR-44: HEAD and bodiless answers -------------------------------------------------------------------------------
def test_br44_bodiless_answers_keep_length_and_connection(sidecar, origin):
    u1 = origin("u1")
    s = sidecar(http(u1))
    cases = [("HEAD", "size=7", 200, "7"), ("HEAD", f"size={5 << 30}", 200, str(5 << 30)),
             ("HEAD", "status=404 size=9", 404, "9"), ("GET", "status=204", 204, None),
             ("GET", "status=304 size=7", 304, "7"), ("HEAD", "framing=chunked size=7", 200, None)]
    with s.wire() as wire:
        for method, rule, status, length in cases:
            u1.rules(rule + " path=/x")
            start = time.monotonic()
            response = wire.request(method, "/x").response("HEAD")
            assert (response.status, response.header("Content-Length")) == (status, length), f"{method} {rule}"
            assert time.monotonic() - start < 0.3, "waits for no body"
            assert wire.request("GET", "/next").response().body == b"u1\n", f"next request after {method} {rule}"
    assert u1.accepted == 1, "one upstream connection for all of them"


# -- BR-45: framing kept --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [0, 16384, 300000, 24 << 20])
def test_br45_length_stays_length(sidecar, origin, size):
    u1, body = origin("u1"), generated(size)
    s = sidecar(s3(u1))
    headers = {"Content-Encoding": "aws-chunked", "x-amz-trailer": "x-amz-checksum-crc32",
               "x-amz-decoded-content-length": "5"}
    assert s.call("PUT", "/b/k", headers, body).status == 200
    put = u1.only()
    assert put.all("Content-Length") == [str(size)] and put.all("Transfer-Encoding") == []
    assert put.header("Content-Encoding") == "aws-chunked" and put.header("x-amz-trailer") == "x-amz-checksum-crc32"
    assert put.body_bytes == size and (not size or put.sha256 == sha256(body)), "nothing decoded"


@pytest.mark.parametrize("size", [5, 16384, 300000, 8 << 20])
def test_br45_chunked_stays_chunked_with_trailers(sidecar, origin, size):
    u1, body = origin("u1"), generated(size)
    s = sidecar(s3(u1))
    parts = [body[i:i + 60000] for i in range(0, size, 60000)]
    with s.wire() as wire:
        wire.send(head("PUT", "/b/k", {"Transfer-Encoding": "chunked", "Trailer": "x-amz-checksum-crc32"}))
        wire.send(chunked(*parts, trailers=[("x-amz-checksum-crc32", "AAAAAA==")]))
        assert wire.response().status == 200
        assert wire.request("GET", "/b/k").response().body == body
    put = u1.only(method="PUT")
    assert put.all("Content-Length") == [] and put.all("Transfer-Encoding") == ["chunked"]
    assert put.sha256 == sha256(body) and put.trailers == "x-amz-checksum-crc32: AAAAAA==\r\n"


def test_br45_no_body_means_no_framing(sidecar, origin):
    u1 = origin("u1")
    s = sidecar(s3(u1))
    for method in ("GET", "DELETE", "POST", "PUT"):
        assert s.call(method, f"/b/{method}").status in (200, 204)
    for e in u1.ledger():
        assert e.all("Transfer-Encoding") == [] and e.header("Content-Length") in (None, "0"), e.raw_head
    assert u1.only(method="GET").header("Content-Length") is None, "nothing invented"


# -- BR-55: ambiguous framing ---------------------------------------------------------------------------------------
BASE = "PUT /b/k HTTP/1.1\r\nHost: x\r\n"
SMUGGLED = "GET /b/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
AMBIGUOUS = {
    "length and chunked": BASE + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": BASE + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "list of lengths": BASE + "Content-Length: 5, 6\r\n\r\nhello!",
    "empty length": BASE + "Content-Length:\r\n\r\n",
    "signed length": BASE + "Content-Length: +5\r\n\r\nhello",
    "hex length": BASE + "Content-Length: 0x5\r\n\r\nhello",
    "huge length": BASE + "Content-Length: 18446744073709551616\r\n\r\n",
    "chunked is not last": BASE + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked twice": BASE + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "not quite chunked": BASE + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": BASE.replace("1.1", "1.0") + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "space before colon": BASE + "Content-Length : 5\r\n\r\nhello",
    "folded header": BASE + "X-A: 1\r\n Content-Length: 5\r\n\r\nhello",
    "bare CR": BASE + "X-A: 1\rContent-Length: 5\r\n\r\nhello",
    "bare LF": "GET /b/k HTTP/1.1\nHost: x\n\n",
    "NUL": BASE + "X-A: 1\0\r\nContent-Length: 0\r\n\r\n",
    "no host": "GET /b/k HTTP/1.1\r\n\r\n",
    "two hosts": "GET /b/k HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "header without name": BASE + ": x\r\n\r\n",
    "header without colon": BASE + "x\r\n\r\n",
    "space in target": "GET /b/k k HTTP/1.1\r\nHost: x\r\n\r\n",
    "chunk size with sign": BASE + "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    "chunk size with 0x": BASE + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "chunk line ends with LF": BASE + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
    "chunk data not followed by CRLF": BASE + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
    "chunk size overflows": BASE + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
    "connection names host": BASE + "Connection: host, content-length\r\nContent-Length: 0\r\n\r\n",
}


@pytest.fixture(scope="module")
def shared(yard, request):
    """One sidecar with one origin for the many vectors of this file."""
    from bed.origin import Origin
    from bed.sidecar import Sidecar
    import conftest
    import tempfile
    with tempfile.TemporaryDirectory(prefix="fl-") as path:
        made = []
        o = Origin(conftest.binary("fairlead-origin"), "u1", f"127.0.0.1:{yard.ports.take()}", (), {"missing": 200})
        made.append(o)
        s = Sidecar(conftest.binary("fairlead-sidecar"), http(o, max_fails=1), path, yard.ports)
        s.test, s.expected_exit = request.node.nodeid, 0
        s.wait_started()
        yield s, o
        s.terminate()
        yard.leaving.append(s)
        o.kill()


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_br55_ambiguous_request_is_refused(shared, name):
    s, u1 = shared
    u1.forget()
    with s.wire() as wire:
        wire.send(AMBIGUOUS[name] + SMUGGLED)
        response = wire.response()
        assert response.status in (400, 501), f"{name}: {response!r}"
        assert response.header("X-Fairlead-Error") in ("bad_request", "not_implemented")
        assert wire.ended(4) in ("fin", "rst"), "nothing after it is read"
    assert [e for e in u1.ledger() if e.complete and e.end == "answered"] == [], "no whole request reached the origin"
    assert s.get("/b/canary").status == 200
    assert [e.target for e in u1.ledger() if e.end == "answered"] == ["/b/canary"], "and the pool is clean"
    assert s.events("upstream server temporarily disabled") == []


BAD_ANSWERS = {
    "length and chunked": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "length is a word": "HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n",
    "folded header": "HTTP/1.1 200 OK\r\nX-A: 1\r\n b\r\nContent-Length: 0\r\n\r\n",
    "NUL": "HTTP/1.1 200 OK\r\nX-A: \\x00\r\nContent-Length: 0\r\n\r\n",
    "no status line": "SSH-2.0-OpenSSH_9.2\r\n",
    "status of two digits": "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/2": "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "101 that nobody asked for": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "unknown coding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_br55_ambiguous_answer_is_a_502(shared, name):
    s, u1 = shared
    raw = BAD_ANSWERS[name].replace("\r", "\\r").replace("\n", "\\n")
    u1.rules(f'raw="{raw}" close count=1')
    try:
        response, line = s.traced("GET", "/b/k")
        assert response.status == 502 and response.header("X-Fairlead-Error") == "upstream_failed", repr(response)
        assert line["class"] == "invalid_header" and line["upstream_status"] == "502"
    finally:
        u1.rules()
    assert s.get("/b/canary").body == b"u1\n"


def test_br55_surplus_bytes_are_never_another_response(shared):
    s, u1 = shared
    u1.rules('raw="HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nokHTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nevil" '
             'count=1 path=/b/surplus')
    with s.wire() as wire:
        assert wire.request("GET", "/b/surplus").response().body == b"ok"
        assert wire.request("GET", "/b/next").response().body == b"u1\n"
    entries = u1.ledger()
    assert entries[-1].conn != entries[-2].conn, "that connection is not reused"


def test_truncated_answers_are_never_a_clean_end(sidecar, origins):
    u = origins(2)
    s = sidecar(http(*u, max_fails=0))
    for rule in ("size=100000 cut=5000", "size=100000 cut=5000 cut_end=rst",
                 "size=100000 framing=chunked cut=5000", "size=100000 framing=chunked cut=5000 cut_end=rst"):
        for o in u:
            o.rules(rule)
        before = len(s.access(error="truncated"))
        with pytest.raises(Ended) as e:
            s.get("/x")
        assert e.value.response.status == 200, f"{rule}: the head had been relayed"
        line = s.wait_access(before + 1, error="truncated")[-1]
        assert line["status"] == 200 and line["class"] == "truncated" and len(chain(line)) == 1, line
    assert s.peer("pool", u[0].address)["failures"] + s.peer("pool", u[1].address)["failures"] == 4


def test_stalled_body_is_cut_visibly(sidecar, origins):
    u = origins(2)
    for o in u:
        o.rules("size=100000 cut=5000 cut_end=stall")
    s = sidecar(http(*u, route={"read_timeout": "300ms"}))
    start = time.monotonic()
    with pytest.raises(Ended):
        s.get("/x")
    assert 0.25 <= time.monotonic() - start <= 1.5
    line = s.wait_access(1, error="truncated")[0]
    assert line["status"] == 200 and line["class"] in ("truncated", "read_timeout")
    assert sum(o.requests for o in u) == 1, "never retried once bytes reached the client"
