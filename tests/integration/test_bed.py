"""The bed tests itself: what the other tests rely on when they judge the sidecar."""
import hashlib
import socket
import time

import pytest

from bed.metrics import Metrics
from bed.origin import generated, sha256
from bed.wire import Ended, Wire, call, chunked, head


def ask(o, method, target, headers=(), body=None, **keys):
    return call(o.address, method, target, headers, body, **keys)


def test_store_and_ledger(origin):
    o = origin("a", missing=404)
    body = bytes(range(256)) * 1000
    assert ask(o, "PUT", "/b/k", {"x-amz-meta-Q": "1"}, body).status == 200
    got = ask(o, "GET", "/b/k")
    assert (got.status, got.body, got.origin) == (200, body, "a")
    assert got.header("ETag") == '"%s"' % hashlib.md5(body).hexdigest()
    assert ask(o, "HEAD", "/b/k").header("Content-Length") == str(len(body))
    assert ask(o, "PUT", "/b/k", {"If-None-Match": "*"}, b"x").status == 412
    assert ask(o, "DELETE", "/b/k").status == 204
    assert ask(o, "GET", "/b/k").status == 404
    put = o.ledger("PUT")[0]
    assert put.sha256 == sha256(body) and put.complete and put.body_start == body[:256]
    assert put.header("X-AMZ-META-q") == "1" and b"x-amz-meta-Q: 1\r\n" in put.raw_head
    assert abs(put.at - time.monotonic()) < 5
    o.forget()
    assert o.ledger() == [] and o.accepted == 0


def test_refuse_reserves_the_port(origin):
    o = origin()
    o.refuse()
    with pytest.raises(ConnectionRefusedError):
        Wire(o.address)
    with socket.socket() as s, pytest.raises(OSError):
        s.bind((o.host, o.port))  # nobody else can take it meanwhile
    o.listen()
    assert ask(o, "GET", "/x").status == 200


def test_rules_are_counted_and_conditional(origin):
    o = origin()
    o.rules("status=503 code=SlowDown path=/p method=GET count=1", "status=404 query=uploads", "skip=1 status=418")
    assert ask(o, "GET", "/x?uploads").status == 404
    assert [ask(o, "GET", "/p").status for _ in range(3)] == [503, 200, 418]
    assert o.hits() == [1, 1, 1]
    with pytest.raises(AssertionError, match="bad word in rule: colour=red"):
        o.rules("colour=red")


def test_broken_answers(origin):
    o = origin()
    o.rules("count=1 rst_request=0", "count=1 size=100 cut=10 cut_end=rst", "count=1 size=100 cut=10",
            "count=1 fin_response=5", 'count=1 raw="SSH-2.0\\r\\n" close', "count=1 rst_response=0")
    how = []
    for _ in range(6):
        with pytest.raises((Ended, AssertionError)) as e:
            ask(o, "GET", "/x")
        how.append((getattr(e.value, "how", "garbage"), len(getattr(e.value, "partial", b""))))
    assert how == [("rst", 0), ("rst", 10), ("fin", 10), ("fin", 5), ("fin", 9), ("rst", 0)]


def test_accept_rules_show_connects(origin):
    o = origin()
    o.rules("at=accept rst count=1", "at=accept rst_after=4 count=1")
    for _ in range(2):
        with pytest.raises((Ended, OSError)):
            ask(o, "GET", "/x")
    assert [c["end"] for c in o.connections()] == ["own_rst", "own_rst"]
    assert o.accepted == 2 and o.requests == 0


def test_hang_and_release(origin):
    o = origin("a", "hang path=/h count=1")
    with Wire(o.address) as w:
        w.request("GET", "/h")
        o.until(hung=1)
        assert w.silent(0.05)
        o.release()
        assert w.response().status == 200
    with Wire(o.address) as w:
        o.rules("hang")
        w.request("GET", "/h")
        o.until(hung=1)
    o.until(peer_fin=2)
    assert o.stats()["hung"] == 0 and o.stats()["in_flight"] == 0


def test_expect_and_interim(origin):
    o = origin()
    with Wire(o.address) as w:
        w.send(head("PUT", "/b/k", {"Expect": "100-continue", "Content-Length": 3}))
        assert w.read_interim().status == 100
        assert w.send(b"abc").response().status == 200
    o.rules('continue=never interim="HTTP/1.1 103 Early Hints\\r\\nLink: <x>\\r\\n\\r\\n"')
    with Wire(o.address) as w:
        w.send(head("PUT", "/b/k", {"Expect": "100-continue", "Content-Length": 3}))
        assert w.read_interim().status == 103 and w.silent(0.05)
        assert w.send(b"abc").response().status == 200
    o.rules("early status=403 code=AccessDenied")
    with Wire(o.address) as w:
        w.send(head("PUT", "/b/k", {"Expect": "100-continue", "Content-Length": 3}))
        assert w.response().status == 403
    assert [e.complete for e in o.ledger()] == [True, True] or o.ledger()[2].body_bytes == 0


def test_chunked_both_ways(origin):
    o = origin()
    o.rules('framing=chunked size=100000 chunk=7000 trailer="X-Sum: 1" method=GET')
    got = ask(o, "GET", "/x")
    assert (got.framing, got.body, got.trailers) == ("chunked", generated(100000), [("X-Sum", "1")])
    with Wire(o.address) as w:
        w.send(head("PUT", "/b/k", {"Transfer-Encoding": "chunked"}) +
               chunked(b"ab", b"cde", trailers=[("X-T", "v")]))
        assert w.response().status == 200
    put = o.only(method="PUT")
    assert (put.body_bytes, put.sha256, put.trailers) == (5, sha256(b"abcde"), "X-T: v\r\n")


def test_slow_and_idle(origin):
    o = origin("a", "size=2000 rate=10000 path=/slow")
    t = time.monotonic()
    assert len(ask(o, "GET", "/slow").body) == 2000
    assert 0.1 < time.monotonic() - t < 2
    o.set(idle_ms=50)
    with Wire(o.address) as w:
        assert w.request("GET", "/x").response().status == 200
        assert w.ended(2) == "fin"
    o.set(idle_ms=0, keepalive=2)
    with Wire(o.address) as w:
        assert w.request("GET", "/x").response().header("Connection") is None
        assert w.request("GET", "/x").response().header("Connection") == "close"
        assert w.ended(2) == "fin"


def test_graceful_stop_finishes_what_is_in_flight(origin):
    o = origin("a", "delay=300 path=/d")
    with Wire(o.address) as idle, Wire(o.address) as busy:
        idle.request("GET", "/x").response()
        busy.request("GET", "/d")
        o.until(requests=2)
        o.graceful()
        assert busy.response().status == 200
        assert idle.ended(2) == "fin"
    assert o.wait(3) == 0


def test_pipelining_and_http10(origin):
    o = origin()
    with Wire(o.address) as w:
        w.send(head("GET", "/1") + head("HEAD", "/2") + head("GET", "/3", version="HTTP/1.0"))
        assert [w.response("GET").status, w.response("HEAD").status] == [200, 200]
        last = w.response()
        assert last.header("Connection") == "close" and w.ended(2) == "fin"
    assert [e.target for e in o.ledger()] == ["/1", "/2", "/3"]


def test_a_journal_has_what_was_done_before_it_was_answered_and_outlives_a_kill(origin, tmp_path):
    journal = tmp_path / "journal"
    o = origin("a", "path=/late delay=5000", "path=/cut rst_response=1", extra=["--journal", str(journal)])
    assert ask(o, "PUT", "/b/k", body=b"1").status == 200
    with pytest.raises(Ended):
        ask(o, "PUT", "/cut", body=b"1")
    with Wire(o.address) as late:
        late.request("PUT", "/late", body=b"1")
        o.until(requests=3)
        o.kill()
    lines = journal.read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["200 PUT /b/k", "200 PUT /cut"]


def test_metrics_parser_is_strict():
    good = Metrics('# TYPE a counter\na{x="1",y="q\\"z"} 2\na{x="2"} 3\nb 1\n')
    assert good.sum("a") == 5 and good.sum("a", x="1") == 2 and good.label_values("x") == {"1", "2"}
    for bad in ('a{x="1"} 2\na{x="1"} 3\n', "a b c d\n", "a 1"):
        with pytest.raises(AssertionError):
            Metrics(bad)
