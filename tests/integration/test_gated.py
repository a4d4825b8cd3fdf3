"""While a verdict blocks a backend: answers at once, from memory, before the body; nobody is asked; the other buckets
do not notice."""
import time
import xml.etree.ElementTree as ET

import pytest

from bed.config import backend
from bed.play import parallel
from bed.probing import judged, probe_now
from bed.process import wait_until
from bed.tracing import calls_of
from bed.wire import Ended, chunked

MIB = 1 << 20


@pytest.fixture
def shut(sidecar, origins):
    """Bucket `shut` on a backend that is unreachable, bucket `open` on one that is well."""
    a, b = origins(2)
    probe = {"type": "s3", "interval": "1h", "timeout": "2s"}
    a.refuse()
    s = sidecar({"boot_probe": "warn", "access_log": "all",
                 "backends": {"one": backend(a, protocol="s3", probe=probe),
                              "two": backend(b, protocol="s3", probe=probe)},
                 "routes": {"shut": {"backend": "one"}, "open": {"backend": "two"}}})
    assert judged(s, "one")["status"] == "unreachable" and judged(s, "two")["status"] == "healthy"
    s.shut, s.good = a, b
    s.cause = f"connect to {a.address} failed (Connection refused)"
    return s


@pytest.fixture
def gated(shut):
    """… whose listener is back, so that whoever asked would get an answer; but no probe will see it for 2 s."""
    wait_until("a second probe to have failed",
               lambda: shut.metrics().sum("fairlead_probes_total", backend="one") >= 2, 5, 0.05)
    shut.shut.listen()
    shut.shut.forget()
    return shut


def accepted(s):
    return s.shut.stats()["accepted"]


def test_every_method_gets_its_503_at_once_and_nobody_is_asked(gated):
    s, before = gated, accepted(gated)
    methods = [("GET", None), ("HEAD", None), ("PUT", b"x" * MIB), ("POST", b"x"), ("DELETE", None), ("OPTIONS", None)]
    gate = s.metrics().sum("fairlead_gated_requests_total", backend="one", state="unreachable")
    for method, body in methods:
        with s.wire() as wire:
            start = time.monotonic()
            try:
                wire.request(method, "/shut/k", body=body)
            except OSError:
                pass  # the answer is there before the body has gone out
            response = wire.response(method)
            assert time.monotonic() - start < 0.05, method
            assert response.status == 503, method
            assert response.header("X-Fairlead-Error") == "backend_unavailable"
            assert response.header("X-Fairlead-Backend") == "one" and response.header("X-Fairlead-Cause") == s.cause
            assert response.header("Retry-After") == "1" and response.header("Proxy-Status")
            if method == "HEAD":
                assert not response.body
            else:
                error = {c.tag: c.text for c in ET.fromstring(response.body)}
                assert error["Code"] == "ServiceUnavailable" and error["RequestId"] == response.header("x-amz-request-id")
                assert all(w in error["Message"] for w in ("shut", "one", s.cause))
    assert accepted(s) == before and s.shut.requests == 0
    assert s.metrics().sum("fairlead_gated_requests_total", backend="one", state="unreachable") - gate == len(methods)


@pytest.mark.parametrize("target", ["/shut?list-type=2", "/shut", "/shut/", "/shut/k?acl", "/shut/absent"])
def test_no_misleading_answer(shut, target):
    response = shut.get(target)
    assert response.status == 503 and b"ServiceUnavailable" in response.body


def test_expect_is_refused_before_the_body(shut):
    with shut.wire() as wire:
        wire.request("PUT", "/shut/k", {"Content-Length": str(1 << 30), "Expect": "100-continue"})
        response = wire.response()
        assert response.status == 503 and not response.interim, "no 100"


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_without_expect_the_answer_comes_before_the_body_and_survives_it(shut, framing):
    """The client sends on regardless; it still gets the answer, and a clean end."""
    with shut.wire() as wire:
        headers = {"Content-Length": str(64 * MIB)} if framing == "length" else {"Transfer-Encoding": "chunked"}
        wire.request("PUT", "/shut/k", headers)
        wire.send(b"x" * 1000 if framing == "length" else chunked(b"x" * 1000)[:-5])
        time.sleep(0.1)
        wire.send((b"x" if framing == "length" else chunked(b"x")[:-5]) * 100)
        response = wire.response()
        assert response.status == 503 and response.header("X-Fairlead-Cause") == shut.cause
        try:
            assert wire.ended(5) == "fin"
        except (Ended, OSError) as e:
            pytest.fail(f"not a clean end: {e}")


def test_a_terabyte_is_not_read(shut):
    s = shut
    rss = s.rss_kib()
    with s.wire() as wire:
        wire.request("PUT", "/shut/k", {"Content-Length": str(1 << 40)})
        piece = b"x" * 65536
        start = time.monotonic()
        try:
            while time.monotonic() - start < 6:
                wire.sock.send(piece)
        except OSError:
            pass
    assert time.monotonic() - start < 4.5, "it reads on for 2 s at most, so that the answer is not lost"
    assert s.rss_kib() - rss < 8192
    line = s.access(route="shut")[-1]
    assert line["status"] == 503 and line["upstream_addr"] == "-" and line["class"] == "gated"


def test_the_other_bucket_does_not_notice(shut):
    s = shut
    statuses = parallel(8, lambda i: [(s.get(f"/open/{i}/{n}").status, s.get(f"/shut/{i}/{n}").status)
                                      for n in range(25)])
    assert {pair for one in statuses for pair in one} == {(200, 503)}
    assert s.good.requests >= 200 and s.shut.requests == 0


def test_it_reopens_at_once_when_asked(gated):
    s = gated
    assert s.get("/shut/k").status == 503
    assert probe_now(s, "one")["status"] == "healthy"
    assert s.get("/shut/k").status == 200
    recovered = s.wait_event("backend recovered")
    assert recovered["backend"] == "one" and recovered["downtime_secs"] > 1


def test_two_system_calls_a_request(shut):
    """recv and send on a kept connection; waiting for events is not counted. No connect, no socket, no clock."""
    count = 200
    with shut.wire() as wire:
        calls = calls_of(shut, wire, "/shut", count, 503)
    woken = calls.count("write")  # of the log writer, when it sleeps: not of each request
    assert (len(calls) - woken) / (count - 1) <= 2.02, {name: calls.count(name) for name in set(calls)}
    assert woken <= count // 4
    assert "connect" not in calls and "socket" not in calls
    assert shut.shut.requests == 0


def test_five_hundred_at_once_start_one_probe(sidecar, origin):
    """A backend that starts to fail under 500 requests: one probe per peer, and one verdict."""
    o = origin("a", ledger=False)
    s = sidecar({"boot_probe": "warn",
                 "backends": {"one": backend(o, protocol="s3", probe={"type": "s3", "interval": "1h",
                                                                      "timeout": "500ms"})},
                 "routes": {"b": {"backend": "one", "deadline": "1s", "read_timeout": "600ms"}}})
    assert judged(s, "one")["status"] == "healthy"
    before = s.metrics().sum("fairlead_probes_total", backend="one")
    o.rules("hang")
    statuses = parallel(250, lambda i: [s.call("GET", f"/b/{i}").status for _ in range(2)])
    assert {status for pair in statuses for status in pair} == {503}
    s.wait_event("backend unhealthy")
    assert s.metrics().sum("fairlead_probes_total", backend="one") - before <= 3
    assert len(s.events("backend unhealthy")) == 1
