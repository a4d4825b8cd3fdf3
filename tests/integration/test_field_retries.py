"""Field reports BR-12 to BR-19: what is repeated, with which body, and how often at most."""
import random
import time

import pytest

from bed.config import FREE, http, peer, s3
from bed.origin import generated, sha256
from bed.play import Caller, meet, paced, parallel
from bed.sidecar import chain

RESET = {"replay_after_send": "reset"}


def test_br12_complete_multipart_upload_is_not_executed_twice(sidecar, origins):
    u1, u2 = origins(2)
    for o in (u1, u2):
        o.rules("hang method=POST")
    s = sidecar(s3(u1, u2, route={"long_deadline": "600ms"}))
    response, line = s.traced("POST", "/b/k?uploadId=abc", body=b"<CompleteMultipartUpload/>")
    assert response.status == 503 and response.header("X-Fairlead-Error") == "deadline", repr(response)
    assert response.header("X-Fairlead-Backend") == "store"
    assert len(u1.ledger()) + len(u2.ledger()) == 1 and len(chain(line)) == 1


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("protocol", [http, s3])
def test_br13_refused_means_nothing_sent(sidecar, origin, dead, method, protocol):
    u2, body, gone = origin("u2"), generated(65536), dead()
    s = sidecar(protocol(gone, u2))
    response, line = meet(s, gone, method, "/b/k", body=body)
    assert response.status == 200 and len(chain(line)) == 2
    assert all(e.sha256 == sha256(body) and e.complete for e in u2.ledger())


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_br13_reset_right_after_accept(sidecar, origins, method):
    u1, u2 = origins(2)
    u1.rules("at=accept rst")
    body = generated(65536)
    s = sidecar(s3(u1, u2, route=RESET))
    response, line = meet(s, u1, method, "/b/k", body=body)
    sent = [e for e in u2.ledger(method) if e.header("x-request-id") == line["request_id"]]
    if method == "PUT":
        assert response.status == 200 and len(sent) == 1 and sent[0].sha256 == sha256(body)
    elif response.status == 200:
        assert len(sent) == 1 and sent[0].sha256 == sha256(body), "repeated only because nothing had been written"
    else:
        assert response.status == 503 and sent == [], "written, so it must not be repeated"


def test_br14_a_replayed_put_is_whole_or_is_not(sidecar, origins):
    u1, u2 = origins(2)
    body, rng = generated(1 << 20), random.Random(14)
    s = sidecar(s3(u1, u2, max_fails=0, route=RESET, **FREE))
    outcomes = set()
    for i in range(24):
        u1.rules(f"rst_request={rng.choice([0, 1, 1000, 65536, rng.randrange(1 << 20)])}")
        response, line = s.traced("PUT", f"/b/k{i}", body=body)
        outcomes.add(response.status)
        if response.status == 200:
            assert chain(line)[-1] == u2.address
        else:
            assert response.status == 503 and chain(line) == [u1.address], line
    puts = u2.ledger("PUT")
    assert puts and all(e.complete and e.sha256 == sha256(body) for e in puts), "short, empty or mislabelled body"
    assert outcomes == {200, 503}, "a body of 1 MiB is over replay_body: it cannot be replayed once it is gone"
    assert s.metrics().sum("fairlead_retry_refused_total", reason="body_not_replayable") >= 1


def test_br15_replay_buffer_boundary(sidecar, origins):
    limit = 65536
    u1, u2 = origins(2)
    u1.rules("rst_request=1024")
    s = sidecar(s3(u1, u2, max_fails=0, route={**RESET, "replay_body": "64KiB"}, **FREE))
    for size, replayed in ((limit - 1, True), (limit, True), (limit + 1, False)):
        body = generated(size)
        response, line = meet(s, u1, "PUT", f"/b/{size}", body=body)
        assert response.status == (200 if replayed else 503), f"{size} bytes: {response!r} {line}"
        got = [e for e in u2.ledger() if e.header("x-request-id") == line["request_id"]]
        assert [e.sha256 for e in got] == ([sha256(body)] if replayed else [])
    m = s.metrics()
    assert m.sum("fairlead_retry_refused_total", reason="body_not_replayable") == 1
    assert m.sum("fairlead_unbuffered_bodies_total") >= 1
    u1.rules()
    u1.refuse()
    for size in (limit - 1, limit, limit + 1, 4 << 20):
        response, line = meet(s, u1, "PUT", f"/b/r{size}", body=generated(size))
        assert response.status == 200 and len(chain(line)) == 2, f"{size} bytes: refused, so nothing was lost"
    assert all(e.complete for e in u2.ledger())


@pytest.mark.parametrize("balance", ["round_robin", "least_conn", "random_two"])
def test_br16_retry_goes_elsewhere_at_once(sidecar, origin, dead, balance):
    u2, gone = origin("u2"), dead()
    s = sidecar(http(gone, u2, max_fails=0, balance=balance, **FREE))
    results = [s.traced("GET", "/x") for _ in range(40)]
    for burst in range(3):
        results += parallel(32, lambda i: s.traced("GET", "/x"))
    assert {r.status for r, _ in results} == {200}
    chains = [chain(line) for _, line in results]
    assert all(len(c) == len(set(c)) for c in chains), "no peer twice while an untried one exists"
    assert any(gone in c for c in chains)
    slow = sorted(line["request_time"] for _, line in results[:40])[-3]
    assert slow < 0.1, f"no pause before the next peer: {slow}"


def test_br17_budget_cuts_the_sum_of_timeouts(sidecar, origins):
    peers = origins(3)
    for o in peers:
        o.rules("hang")
    s = sidecar(http(*peers, max_fails=0, route={"read_timeout": "400ms", "next_upstream_tries": 3,
                                                 "next_upstream_timeout": "600ms"}))
    response, line = s.traced("GET", "/x")
    assert response.status == 504 and 0.55 <= line["request_time"] <= 0.95, line
    times = [float(t) for t in chain(line, "upstream_response_time")]
    assert len(times) == 2 and 0.38 <= times[0] <= 0.6 and 0.15 <= times[1] <= 0.35, f"clipped to what is left: {times}"


def test_br17_zero_means_every_peer_once(sidecar, origin):
    u1 = origin("u1", "at=accept rst")
    s = sidecar(http(u1, route={"next_upstream_tries": 0, "next_upstream_timeout": "0s"}))
    response, line = s.traced("GET", "/x")
    assert response.status == 502 and u1.accepted == 1 and line["request_time"] < 0.1


def test_br18_discarded_attempt_does_not_leak(sidecar, origins):
    u1, u2 = origins(2)
    size = 1 << 20
    u1.rules('status=503 header="X-A: 1" framing=chunked size=3000 chunk=1000 rate=30000')
    u2.rules(f'status=200 header="X-B: 1" framing=chunked size={size} chunk=5000')
    s = sidecar(http(u1, u2, max_fails=0, route={"next_upstream": ["error", "timeout", "http_503"]}, **FREE))
    for _ in range(6):
        with s.wire() as wire:
            for _ in range(2):
                response = wire.request("GET", "/x").response()
                assert response.status == 200
                assert response.header("X-B") == "1" and response.header("X-A") is None
                assert response.body == generated(size)
    assert u1.requests >= 1
    lines = s.wait_access(12)
    assert {line["upstream_status"] for line in lines} <= {"503, 200", "200"}
    u1.rules()
    assert "a" in {s.get("/x").origin for _ in range(4)}, "u1's next connection is clean"


def test_br18_last_listed_status_is_relayed(sidecar, origins):
    u1, u2 = origins(2)
    for o in (u1, u2):
        o.rules('status=503 body="from the backend" header="X-A: 1"')
    s = sidecar(http(u1, u2, route={"next_upstream": ["error", "timeout", "http_503"]}))
    response, line = s.traced("GET", "/x")
    assert (response.status, response.body, response.header("X-A")) == (503, b"from the backend", "1")
    assert response.header("X-Fairlead-Error") is None and line["upstream_status"] == "503, 503"


def test_br19_no_retry_storm(sidecar, origins):
    peers = origins(3)
    for o in peers:
        o.rules("hang")
    s = sidecar(http(*peers, max_fails=1, fail_timeout="2s",
                     route={"read_timeout": "500ms", "next_upstream_tries": 3, "next_upstream_timeout": "3s"}))
    files = s.open_files()
    began = time.monotonic()
    lines = paced(120, 4, lambda i: s.traced("GET", "/x")[1], 100)
    took = time.monotonic() - began  # a slow machine takes longer, and has more rounds of trials
    attempts = sum(len(chain(line)) for line in lines)
    assert attempts <= 1.25 * len(lines), f"{attempts} attempts for {len(lines)} requests"
    late = sorted(line["request_time"] for line in lines[120:] if line["upstream_addr"] == "-")
    assert len(late) > 250, "once tripped, almost everything is a fast 503"
    assert late[int(len(late) * 0.99)] < 0.05, f"p99 of the fast 503s is {late[int(len(late) * 0.99)]}"
    tried = [line for line in lines[120:] if line["upstream_addr"] != "-"]
    assert len(tried) <= 3 * (took / 2 + 1), f"trials only, of 3 peers each 2 s: {len(tried)} in {took:.1f} s"
    time.sleep(0.7)
    assert s.open_files() <= files + 16, "no growth of sockets"
