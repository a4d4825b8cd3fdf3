"""HTTP/1.1 as clients and origins really speak it, and bytes that must pass untouched."""
import hashlib
import os
import re
import time

import pytest

from bed.config import backend, http, peer, s3
from bed.origin import generated, sha256
from bed.play import parallel
from bed.process import wait_until
from bed.sidecar import chain
from bed.wire import Wire, call, chunked, head


# -- connections ----------------------------------------------------------------------------------------------------
def test_keep_alive_on_both_sides(sidecar, origin):
    o = origin()
    s = sidecar(http(o))
    with s.wire() as wire:
        for i in range(20):
            response = wire.request("GET", f"/x/{i}").response()
            assert response.status == 200 and (response.header("Connection") or "").lower() != "close"
    assert o.accepted == 1, "twenty requests, one upstream connection"
    lines = s.wait_access(20)
    assert [line["upstream_connect_time"] for line in lines[1:]] == ["0.000"] * 19, "reused: 0.000"


def test_connection_close_is_honoured_and_not_forwarded(sidecar, origin):
    o = origin()
    s = sidecar(http(o))
    with s.wire() as wire:
        response = wire.request("GET", "/x", {"Connection": "close"}).response()
        assert response.header("Connection") == "close" and wire.ended(2) == "fin"
    assert "close" not in str(o.only().header("Connection"))
    assert s.get("/x").status == 200 and o.accepted == 1, "the upstream connection lives on"


def test_origin_that_closes_after_each_answer(sidecar, origin):
    o = origin("a", "close")
    s = sidecar(http(o))
    with s.wire() as wire:
        for _ in range(5):
            response = wire.request("GET", "/x").response()
            assert response.status == 200 and response.header("Connection") is None, "the client's is another connection"
    assert o.accepted == 5
    o.rules("close_silent")
    with s.wire() as wire:
        assert [wire.request("GET", "/x").response().status for _ in range(5)] == [200] * 5


def test_pipelined_requests_are_answered_in_order(sidecar, origins):
    a, b = origins(2)
    for o in (a, b):
        o.rules("path=/slow delay=250 body=slow", "path=/fast body=fast", "path=/chunk size=9000 framing=chunked")
    s = sidecar(http(a, b))
    with s.wire() as wire:
        wire.send(head("GET", "/slow") + head("GET", "/fast") + head("HEAD", "/fast") + head("GET", "/chunk") +
                  head("PUT", "/fast", body=b"12345") + b"12345" + head("GET", "/slow"))
        bodies = [wire.response(m).body for m in ("GET", "GET", "HEAD", "GET", "PUT", "GET")]
    assert bodies == [b"slow", b"fast", b"", generated(9000), b"fast", b"slow"]


def test_pipelined_byte_by_byte(sidecar, origin):
    o = origin()
    s = sidecar(http(o))
    raw = head("GET", "/1") + head("PUT", "/2", {"Transfer-Encoding": "chunked"}) + chunked(b"abc", b"de") + \
        head("GET", "/3")
    with s.wire() as wire:
        for i in range(len(raw)):
            wire.send(raw[i:i + 1])
        assert [wire.response().status for _ in range(3)] == [200] * 3
    assert [e.target for e in o.ledger()] == ["/1", "/2", "/3"] and o.ledger()[1].sha256 == sha256(b"abcde")


def test_leading_empty_lines_are_ignored(sidecar, origin):
    s = sidecar(http(origin()))
    with s.wire() as wire:
        assert wire.send(b"\r\n\r\n" + head("GET", "/x")).response().status == 200


def test_http10_client(sidecar, origin):
    o = origin("a", "path=/c framing=chunked size=50000", "path=/u framing=close size=50000")
    s = sidecar(http(o))
    for target, body in (("/x", b"a\n"), ("/c", generated(50000)), ("/u", generated(50000))):
        with s.wire() as wire:
            response = wire.send(head("GET", target, version="HTTP/1.0")).response()
            assert response.status == 200 and response.body == body
            assert response.header("Transfer-Encoding") is None, "1.0 knows no chunks"
            assert wire.ended(2) == "fin"
    assert {e.version for e in o.ledger()} == {"HTTP/1.1"}


def test_http10_origin_and_until_close_answers(sidecar, origin):
    o = origin("a", "path=/10 http10 close size=5000", "path=/u framing=close size=300000")
    s = sidecar(http(o))
    with s.wire() as wire:
        first = wire.request("GET", "/10").response()
        assert (first.body, first.version) == (generated(5000), "HTTP/1.1")
        second = wire.request("GET", "/u").response()
        assert second.body == generated(300000) and second.framing == "chunked", "its end must be visible"
        assert wire.request("GET", "/x").response().status == 200


def test_chunked_answer_with_trailers(sidecar, origin):
    o = origin("a", 'framing=chunked size=200000 chunk=3000 trailer="x-amz-checksum-crc32: AAAA" trailer="X-Two: 2"')
    s = sidecar(http(o))
    with s.wire() as wire:
        for _ in range(2):
            response = wire.request("GET", "/x", {"TE": "trailers"}).response()
            assert response.framing == "chunked" and response.body == generated(200000)
            assert response.trailers == [("x-amz-checksum-crc32", "AAAA"), ("X-Two", "2")]
    assert o.accepted == 1


@pytest.mark.parametrize("leave", ["fin", "rst"])
def test_client_abort_is_seen_at_once(sidecar, origin, leave):
    o = origin("a", "hang")
    s = sidecar(http(o))
    wire = s.wire().request("GET", "/x")
    o.until(hung=1)
    start = time.monotonic()
    wire.fin() if leave == "fin" else wire.rst()
    wait_until("the upstream to be closed", lambda: o.stats()["hung"] == 0, 2)
    assert time.monotonic() - start < 0.5
    line = s.wait_access(1, status=499)[0]
    assert line["class"] == "client_abort" and line["upstream_addr"] == o.address


def test_client_abort_in_the_body(sidecar, origin):
    o = origin("a", "size=50000000 rate=2000000")
    s = sidecar(http(o))
    wire = s.wire().request("GET", "/x")
    while len(wire.buffer) < 10000:
        wire.more()
    wire.rst()
    wait_until("the upstream to be closed", lambda: o.stats()["in_flight"] == 0, 3)
    line = s.wait_access(1)[0]
    assert (line["status"], line["class"]) == (200, "client_abort"), "the status that was sent"


def test_client_abort_in_an_upload(sidecar, origin):
    o = origin()
    s = sidecar(s3(o))
    wire = s.wire().send(head("PUT", "/b/k", {"Content-Length": 5000000}) + generated(300000))
    o.until(requests=1)
    wire.rst()
    wait_until("the upstream to be closed", lambda: o.stats()["in_flight"] == 0, 3)
    assert not o.only().complete, "an incomplete body never commits"
    assert s.wait_access(1)[0]["class"] == "client_abort"
    assert s.get("/b/k").body == b"a\n", "nothing was stored"


# -- bytes ----------------------------------------------------------------------------------------------------------
def test_request_reaches_the_origin_byte_exact(sidecar, origin):
    o = origin()
    s = sidecar(s3(o))
    target = "/b//x/./y/%2e%2E/..%2F%20+?a=%41+b&&c=/?&X-Amz-SignedHeaders=host%3Bx"
    fields = ["Host: MixedCase.Example:8080", "X-b: 2", "x-A:   padded\t value  ", "Accept-Encoding: identity;q=1, gzip",
              "X-b: 1", "Empty:", "x_under_score: 1", "x-amz-meta-utf8: \u00c3\u00a9", "Authorization: AWS4 Credential=AK/x",
              "User-Agent: test/1 (x; y)", "x-request-id: req-1", "Cookie: a=b", "Range: bytes=0-3"]
    raw = f"GET {target} HTTP/1.1\r\n" + "".join(f + "\r\n" for f in fields) + "\r\n"
    with s.wire() as wire:
        assert wire.send(raw.encode("latin-1")).response().status == 200
    got = o.only().raw_head.decode("latin-1").split("\r\n")
    assert got[0] == f"GET {target} HTTP/1.1"
    trimmed = [re.sub(r"^([^:]+):[ \t]*(.*?)[ \t]*$", r"\1: \2", f) for f in fields]
    sent = [re.sub(r"^([^:]+):[ \t]*(.*?)[ \t]*$", r"\1: \2", f) for f in got[1:] if f]
    assert sent == trimmed, "order, case and values; nothing added, nothing dropped"


def test_answer_reaches_the_client_byte_exact(sidecar, origin):
    fields = ["X-b: 2", "x-A: padded\t value", "Set-Cookie: a=1", "Set-Cookie: b=2", "ETag: \\\"q\\\"", "Server: odd/1",
              "Date: yesterday", "x_under: 1", "Empty:"]
    o = origin("a", "status=200 body=hi " + " ".join(f'header="{f}"' for f in fields))
    s = sidecar(s3(o))
    raw = s.get("/b/k").raw_head.decode("latin-1")
    at = [raw.index("\r\n" + f.replace("\\", "")) for f in fields]
    assert at == sorted(at), f"order kept: {raw}"
    for name in ("Via", "X-Cache", "Proxy-Status", "X-Fairlead"):
        assert name not in raw


def test_nothing_is_added_but_a_request_id(sidecar, origin):
    o = origin()
    s = sidecar(http(o))
    assert s.get("/x").status == 200
    headers = dict(o.only().headers)
    made = headers.pop("x-request-id", None) or headers.pop("X-Request-Id", None)
    assert made and re.fullmatch(r"[0-9a-f]{32}", made), made
    assert set(headers) <= {"Host", "Connection"}, headers
    assert s.line_of(made)["status"] == 200


def test_hop_by_hop_fields_stop_here(sidecar, origin):
    o = origin("a", 'status=200 body=x header="Connection: x-secret, keep-alive" header="X-Secret: 1" '
                    'header="Keep-Alive: timeout=5" header="X-Kept: 1"')
    s = sidecar(http(o))
    response = s.call("GET", "/x", [("Connection", "x-drop, keep-alive, te"), ("X-Drop", "1"), ("TE", "trailers"),
                                    ("Keep-Alive", "timeout=5"), ("Proxy-Connection", "keep-alive"), ("Upgrade", "h2c"),
                                    ("X-Keep", "1")])
    names = {n.lower() for n, _ in o.only().headers}
    assert not names & {"x-drop", "keep-alive", "proxy-connection", "upgrade"}, names
    assert "x-keep" in names
    assert response.header("X-Secret") is None and response.header("X-Kept") == "1"


def test_absolute_form_becomes_origin_form(sidecar, origin):
    o = origin()
    s = sidecar({"hosts": ["s3.internal"], **s3(o)})
    response = s.call("GET", "http://releases.s3.internal/k?x=1", host="ignored.example")
    assert response.status == 200
    got = o.only()
    assert got.target == "/k?x=1" and got.all("Host") == ["releases.s3.internal"]


# -- routing --------------------------------------------------------------------------------------------------------
def test_bucket_in_path_or_host(sidecar, origins):
    a, b, rest = origins(3)
    s = sidecar({"hosts": ["s3.internal", "minio.storage.svc"],
                 "backends": {n: backend(o, protocol="s3") for n, o in (("a", a), ("b", b), ("rest", rest))},
                 "routes": {"alpha": {"backend": "a"}, "beta.x": {"backend": "b"}, "*": {"backend": "rest"}}})
    for target, host, name in (("/alpha/k", "x", "a"), ("/alpha", "x", "a"), ("/alpha?list-type=2", "x", "a"),
                               ("/alphabet/k", "x", "c"), ("/beta.x/k", "x", "b"), ("/k", "alpha.s3.internal", "a"),
                               ("/alpha/k", "beta.x.s3.internal:8420", "b"), ("/k", "ALPHA.S3.Internal", "a"),
                               ("/alpha/k", "s3.internal", "a"), ("/k", "alpha.minio.storage.svc", "a"),
                               ("/", "s3.internal", "c"), ("/alpha/k", "alpha.other.example", "a")):
        response = s.call("GET", target, host=host)
        assert response.origin == name, f"{target} at {host} went to {response.origin}, not {name}"


def test_slash_route_takes_requests_without_a_bucket(sidecar, origins):
    a, b = origins(2)
    s = sidecar({"backends": {"a": backend(a, protocol="s3"), "b": backend(b, protocol="s3")},
                 "routes": {"/": {"backend": "b"}, "*": {"backend": "a"}}})
    assert s.get("/").origin == "b" and s.get("/x/k").origin == "a"


def test_longest_prefix_and_exact_match(sidecar, origins):
    a, b, c, d = origins(4)
    s = sidecar({"backends": {o.label: backend(o) for o in (a, b, c, d)},
                 "routes": {"*": {"backend": "a", "paths": {
                     "/api/": {"backend": "b"}, "/api/v2/": {"backend": "c"}, "= /api/v2/exact": {"backend": "d"},
                     "/sp ace/": {"backend": "d"}}}}})
    for target, name in (("/", "a"), ("/other", "a"), ("/api", "a"), ("/api/x", "b"), ("/api/v2", "b"),
                         ("/api/v2/x", "c"), ("/api/v2/exact", "d"), ("/api/v2/exact?q=1", "d"),
                         ("/api/v2/exact/more", "c"), ("/sp%20ace/x", "d"), ("/api//v2/x", "c"), ("/api/./v2/x", "c"),
                         ("/api/v3/../v2/x", "c"), ("/%61pi/x", "b")):
        response = s.get(target)
        assert response.origin == name, f"{target} went to {response.origin}, not {name}"
    assert "/api/v3/../v2/x" in [e.target for e in c.ledger()], "matched on a copy, forwarded as it came"


def test_bucket_paths_override_policy_by_longest_prefix(sidecar, origins):
    a, b = origins(2)
    for o in (a, b):
        o.rules("hang")
    s = sidecar({"backends": {"store": backend(a, b, protocol="s3", max_fails=0)},
                 "routes": {"logs": {"backend": "store", "read_timeout": "600ms", "next_upstream_tries": 1,
                                     "paths": {"/hot/": {"read_timeout": "200ms"}}}}})
    assert 0.15 <= s.traced("GET", "/logs/hot/x")[1]["request_time"] <= 0.45
    assert 0.55 <= s.traced("GET", "/logs/cold/x")[1]["request_time"] <= 0.95


# -- listeners ------------------------------------------------------------------------------------------------------
def test_unix_socket_and_ipv6_listener(sidecar, origin, ports, folder):
    o, port, path = origin(), ports.take(), os.path.join(folder, "data.sock")
    tcp = ports.take()
    s = sidecar({**http(o), "listen": {"data": [f"127.0.0.1:{tcp}", f"[::1]:{port}", f"unix:{path}"]}})
    for address in (f"127.0.0.1:{tcp}", f"[::1]:{port}", f"unix:{path}"):
        assert call(address, "GET", "/x").status == 200, address
    assert "::1" in {line["remote_addr"].strip("[]") for line in s.wait_access(3)}


def test_ipv6_origin(sidecar, origin):
    o = origin("six", host="::1")
    s = sidecar(http(o))
    response, line = s.traced("GET", "/x")
    assert response.status == 200 and line["upstream_addr"] == o.address and o.address.startswith("[::1]:")


def test_status_listener_serves_both_families(sidecar, origin, ports):
    port = ports.take()
    s = sidecar({**http(origin()), "listen": {"status": f"[::]:{port}"}}, wait=False)
    for address in (f"127.0.0.1:{port}", f"[::1]:{port}"):
        def answered():
            try:
                return call(address, "GET", "/_/started").status == 200
            except OSError:
                return False
        wait_until(f"/_/started at {address}\n{s.report()}", answered, 10)


# -- bodies ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1, 1000, 65535, 65536, 65537, 1 << 20, 24 << 20])
def test_bodies_of_all_sizes_both_ways(sidecar, origin, size):
    o = origin()
    s = sidecar(s3(o))
    body = generated(size)
    with s.wire(timeout=60) as wire:
        assert wire.request("PUT", "/b/k", (), body).response().status == 200
        response = wire.request("GET", "/b/k").response()
    assert response.header("Content-Length") == str(size)
    assert hashlib.sha256(response.body).digest() == hashlib.sha256(body).digest()
    line = s.wait_access(2)[-1]
    assert line["bytes_out"] >= size


def test_range_and_partial_content(sidecar, origin):
    o = origin()
    s = sidecar(s3(o))
    s.call("PUT", "/b/k", body=generated(1000))
    response = s.call("GET", "/b/k", {"Range": "bytes=10-19"})
    assert (response.status, response.body) == (206, generated(10, 10))


def test_slow_client_gets_everything(sidecar, origin):
    o = origin("a", f"size={8 << 20}")
    s = sidecar(http(o))
    with s.wire(rcvbuf=32768) as wire:
        wire.request("GET", "/x")
        digest, total = hashlib.sha256(), 0
        want = 8 << 20
        response = wire.read_interim()
        assert response.status == 200
        while total < want:
            data, wire.buffer = wire.buffer, b""
            digest.update(data)
            total += len(data)
            if total < want:
                wire.more()
                time.sleep(0.001)
    assert total == want and digest.hexdigest() == sha256(generated(want))


def test_early_answer_to_an_upload(sidecar, origin):
    o = origin("a", "early status=403 code=AccessDenied close method=PUT")
    s = sidecar(s3(o))
    with s.wire() as wire:
        wire.send(head("PUT", "/b/k", {"Content-Length": 20000000}))
        try:
            for _ in range(200):
                wire.send(generated(100000))
        except OSError:
            pass
        assert wire.response().status == 403, "the refusal reaches the client although it was still sending"
    assert s.get("/b/x").status == 200


def test_many_uploads_at_once_keep_apart(sidecar, origins):
    s = sidecar(s3(*(u := origins(2))))

    def one(i):
        body = bytes([i]) * (100000 + i)
        with s.wire() as wire:
            assert wire.request("PUT", f"/b/{i}", (), body).response().status == 200
        return sha256(body)

    want = parallel(24, one)
    got = {e.target: e.sha256 for o in u for e in o.ledger("PUT")}
    assert [got[f"/b/{i}"] for i in range(24)] == want


def test_unknown_methods_pass_and_are_not_repeated(sidecar, origins):
    a, b = origins(2)
    s = sidecar(http(a, b))
    assert s.call("PROPFIND", "/x").status == 200 and s.call("OPTIONS", "/x").status == 200
    for o in (a, b):
        o.rules("rst_request=0 method=PURGE")
    response, line = s.traced("PURGE", "/x")
    assert response.status == 502 and len(chain(line)) == 1


def test_max_conns_queue_and_hold(sidecar, origin):
    o = origin("a", "delay=300")
    s = sidecar(http(peer(o, max_conns=1), queue={"size": 4, "timeout": "2s"}))
    statuses = [r.status for r in parallel(3, lambda i: s.get("/x"))]
    assert statuses == [200] * 3 and o.stats()["in_flight_peak"] == 1, "queued, not refused"


def test_hold_bridges_a_restart(sidecar, origin):
    o = origin()
    o.rules("at=accept rst count=1")
    spare = origin("spare", "at=accept rst count=1")
    s = sidecar(http(o, spare, max_fails=1, fail_timeout="500ms", queue={"size": 8, "timeout": "250ms", "hold": "2s"}))
    start = time.monotonic()
    assert s.get("/x").status == 200, "trips both, then waits for the release instead of a 503"
    assert 0.2 <= time.monotonic() - start <= 1.5


def test_wire_of_the_bed_rejects_leftovers(sidecar, origin):
    """After a response there is nothing but the next response."""
    s = sidecar(http(origin("a", "size=10")))
    with Wire(s.data) as wire:
        for _ in range(3):
            assert wire.request("GET", "/x").response().body == generated(10) and wire.buffer == b""
        assert wire.silent(0.1)
