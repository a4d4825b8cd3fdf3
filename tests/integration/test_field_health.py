"""Field reports BR-01 to BR-11: passive health, quarantine, return. Times are scaled, ratios kept."""
import os
import subprocess
import time

import pytest

from bed.config import backend, http, peer, s3
from bed.play import Caller, meet, paced, parallel, sleep_until
from bed.process import wait_until
from bed.sidecar import chain

DISABLED = "upstream server temporarily disabled"


def test_br01_sole_endpoint_is_never_quarantined(sidecar, origin):
    u1 = origin("u1", "at=accept rst")
    s = sidecar(http(u1, max_fails=1, fail_timeout="5s"))
    assert [s.get("/x").status for _ in range(5)] == [502] * 5
    assert u1.accepted == 5
    assert "quarantine" not in str(s.peer("pool", u1.address)["state"]).lower()
    u1.rules()
    assert s.get("/x").status == 200, "no blackout"


def test_br01_sole_endpoint_is_blocked_by_a_verdict(sidecar, origin):
    u1 = origin("u1")
    u1.refuse()
    s = sidecar({"boot_probe": "warn", **http(u1, probe={"type": "tcp", "interval": "10s", "timeout": "500ms"})})
    wait_until("the verdict", lambda: s.backend("pool")["verdict"]["status"] == "unreachable")
    response, line = s.traced("GET", "/x")
    assert response.status == 503 and response.header("X-Fairlead-Error") == "backend_unavailable"
    assert response.header("X-Fairlead-Backend") == "pool" and "refused" in response.header("X-Fairlead-Cause")
    assert line["upstream_addr"] == "-" and line["request_time"] < 0.05
    u1.listen()
    assert s.ask("POST", "/_/api/admin/backends/pool/probe", b"", {"Content-Type": "application/json"}).status == 200
    assert s.get("/x").status == 200, "Test connection reopens at once"
    assert s.wait_event("backend recovered")["backend"] == "pool"


def test_br02_one_name_many_addresses(sidecar, origin, folder):
    own_hosts = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', os.path.join(folder, "hosts")]
    with open(own_hosts[-1], "w", encoding="ascii") as f:
        f.write("127.0.0.1 localhost\n127.0.0.2 pool.test\n127.0.0.3 pool.test\n")
    if subprocess.run(own_hosts + ["true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("may not mount here: no way to give a name two addresses")
    u = origin("u", host="127.0.0.3")
    gone = f"127.0.0.2:{u.port}"
    s = sidecar(http(peer(f"pool.test:{u.port}"), max_fails=1, fail_timeout="10s"), prefix=own_hosts)
    wait_until("both addresses to be peers", lambda: len(s.backend("pool")["peers"]) == 2)
    lines = [s.traced("GET", "/x") for _ in range(20)]
    assert {r.status for r, _ in lines} == {200}
    chains = [chain(line) for _, line in lines]
    assert len([c for c in chains if gone in c]) == 1, f"exactly one connect to the dead address: {chains}"
    assert s.peer("pool", gone)["state"] != s.peer("pool", u.address)["state"], "each has a state of its own"


def test_br03_whole_pool_trips_at_once(sidecar, origins):
    peers = origins(3)
    for o in peers:
        o.rules("hang")
    s = sidecar(http(*peers, max_fails=1, fail_timeout="1500ms",
                     route={"read_timeout": "300ms", "next_upstream_timeout": "900ms", "next_upstream_tries": 2}))
    first = parallel(20, lambda i: s.traced("GET", "/x"))
    assert {r.status for r, _ in first} <= {502, 503, 504}
    tripped = time.monotonic()
    for o in peers:
        o.forget()
    response, line = s.traced("GET", "/x")
    assert response.status == 503 and line["request_time"] < 0.05
    assert response.header("X-Fairlead-Error") == "no_live_upstream"
    healed = tripped + 2.5
    first_ok = None
    while time.monotonic() < tripped + 6:
        if time.monotonic() > healed and healed:
            trials = [o.requests for o in peers]
            assert max(trials) <= 2, f"at most one trial per fail_timeout and peer: {trials}"
            for o in peers:
                o.rules()
            healed_at, healed = time.monotonic(), 0
        status = s.get("/x").status
        if status == 200:
            first_ok = time.monotonic()
            break
        time.sleep(0.05)
    assert first_ok, "stuck: everything is healthy and nobody is let back in"
    assert first_ok - healed_at <= 1.5 + 0.5, f"back {first_ok - healed_at:.1f} s after the recovery"


def test_br04_probe_success_does_not_lift_a_quarantine(sidecar, origins):
    u1, u2 = origins(2)
    u1.rules("path=/health", "rst_request=0")
    s = sidecar(http(u1, u2, max_fails=1, fail_timeout="1500ms",
                     probe={"type": "http", "path": "/health", "interval": "200ms", "timeout": "1s"}))
    s.expected_to_fail_while_announced()
    statuses = paced(20, 4, lambda i: s.get("/x").status)
    assert set(statuses) == {200}
    data = [e.at for e in u1.ledger() if e.target != "/health"]
    assert 1 <= len(data) <= 3, f"1 + 1 per fail_timeout, got {len(data)}"
    assert all(b - a >= 1.45 for a, b in zip(data, data[1:])), data
    assert len([e for e in u1.ledger() if e.target == "/health"]) >= 5, "the probe did run and was green"


def test_br04_probe_failure_takes_a_peer_out_although_data_works(sidecar, origins):
    u1, u3 = origins(2)
    u3.rules("hang path=/health")
    s = sidecar(http(u1, u3, probe={"type": "http", "path": "/health", "interval": "300ms", "timeout": "300ms"}))
    s.expected_to_fail_while_announced()
    wait_until("the verdict on u3", lambda: s.peer("pool", u3.address)["verdict"] == "unreachable"
               or "unreachable" in str(s.peer("pool", u3.address)["verdict"]), 8)
    u3.forget()
    assert {s.get("/x").origin for _ in range(10)} == {"a"}
    assert [e for e in u3.ledger() if e.target != "/health"] == []
    u3.rules()
    wait_until("u3 to be back", lambda: s.get("/x").origin == "b", 8)


def test_br05_weights_survive_a_failure(sidecar, origins):
    u1, u2 = origins(2)
    s = sidecar(http(peer(u1, weight=9), u2, max_fails=1, fail_timeout="500ms"))
    u1.refuse()
    meet(s, u1, target="/x")
    time.sleep(0.6)
    u1.listen()
    wait_until("u1 to be back", lambda: s.get("/x").origin == "a", 3)
    caller = Caller(s.data)
    names = [caller.call("GET", "/x").origin for _ in range(400)]
    assert 352 <= names.count("a") <= 368, f"9:1 of 400 is 360:40, got {names.count('a')}:{names.count('b')}"


def test_br05_drained_peer_gets_nothing_whatever_its_probe_says(sidecar, origins):
    u1, u2 = origins(2)
    s = sidecar(http(u1, u2, probe={"type": "http", "path": "/health", "interval": "200ms", "timeout": "500ms"}))
    path = f"/_/api/admin/backends/pool/peers/{u2.address}/drain"
    assert s.ask("POST", path, b"", {"Content-Type": "application/json"}).status == 200
    u2.rules("status=500 path=/health count=3")
    time.sleep(1.2)
    u2.forget()
    assert {s.get("/x").origin for _ in range(30)} == {"a"}
    assert [e for e in u2.ledger() if e.target != "/health"] == []
    assert s.ask("POST", path.replace("/drain", "/undrain"), b"", {"Content-Type": "application/json"}).status == 200
    assert {s.get("/x").origin for _ in range(10)} == {"a", "b"}


def test_br06_no_stampede_on_return(sidecar, origins):
    u1, u2 = origins(2)
    u1.rules("rst_request=0 count=2")  # trips, then fails its first trial
    s = sidecar(http(u1, u2, max_fails=1, fail_timeout="800ms", slow_start="1s"))
    statuses = paced(50, 3.2, lambda i: s.get("/x").status)
    assert set(statuses) == {200}
    times = [e.at for e in u1.ledger()]
    assert times[1] - times[0] >= 0.75 and times[2] - times[1] >= 0.75, "one request a window until one success"
    after = [t for t in times[2:] if t <= times[2] + 0.1]
    assert len(after) <= 3, f"no burst in the first 100 ms: {len(after)}"
    ramp = [t for t in times if times[2] < t <= times[2] + 0.4]
    full = [t for t in times if times[2] + 1.0 < t <= times[2] + 1.4]
    if full:
        assert len(ramp) < 10, f"half of 50/s for 0.4 s is 10; a ramp stays below: {len(ramp)}"


def test_br07_pools_do_not_share_state(sidecar, origins):
    u1, u2 = origins(2)
    u1.rules("rst_request=0 path=/a/")
    config = {"backends": {"a": backend(u1, u2, max_fails=1, fail_timeout="10s"),
                           "b": backend(u1, u2, max_fails=1, fail_timeout="10s")},
              "routes": {"a": {"backend": "a"}, "b": {"backend": "b"}}}
    s = sidecar(config)
    meet(s, u1, target="/a/x")
    for when in ("before", "after"):
        assert {s.get("/a/x").origin for _ in range(6)} == {"b"}, f"quarantined in a, {when} the reload"
        assert {s.get("/b/x").origin for _ in range(6)} == {"a", "b"}, f"live in b, {when} the reload"
        if when == "before":
            config["slow_request"] = "4s"
            s.write_config({**s.config, **config})
            s.signal(1)
            time.sleep(0.5)
    m = s.metrics()
    assert m.sum("fairlead_quarantines_total", backend="a") == 1
    assert m.sum("fairlead_quarantines_total", backend="b") == 0


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_br08_idle_race_is_nobodys_fault(sidecar, origins, method):
    u1, u2 = origins(2, idle_ms=150)
    s = sidecar(http(u1, u2, max_fails=1, fail_timeout="10s"))
    caller, start, results = Caller(s.data), time.monotonic(), []
    for i in range(50):  # at twice the idle time of each peer, +-4 ms, so that requests and FINs cross
        sleep_until(start + i * 0.075 + (i % 9 - 4) / 1000)
        results.append(caller.call(method, f"/x/{i}", (), b"n" if method == "POST" else None))
    assert s.events(DISABLED) == []
    failed = [r for r in results if r.status != 200]
    if method == "GET":
        assert failed == [], "replayed on a fresh connection"
    assert all(r.status == 502 and r.header("X-Fairlead-Error") == "stale_reuse" for r in failed), failed
    assert len(failed) <= 3, f"{len(failed)} of 50: a socket whose FIN is already there must not be written to"
    seen = [e.target for o in (u1, u2) for e in o.ledger()]
    if method == "POST":
        assert len(seen) == len(set(seen)), "a POST is never seen twice"


def test_br08_stale_get_spends_no_try(sidecar, origin):
    """The peer resets each second request of a connection: a pooled connection that ends before any response byte."""
    u1 = origin("u1")
    s = sidecar(http(u1, peer(origin("spare"), backup=True), max_fails=1, fail_timeout="10s",
                     route={"next_upstream_tries": 1}))
    caller = Caller(s.data)
    assert caller.call("GET", "/x").status == 200
    u1.rules("rst_request=0 count=1")
    response, line = s.traced("GET", "/x")
    assert response.status == 200 and response.origin == "u1", "same peer, fresh connection"
    assert chain(line) == [u1.address, u1.address] and line["tries"] == 1, "an entry of its own, no try"
    assert s.events(DISABLED) == []


def test_br10_hung_process_behind_a_live_listen_queue(sidecar, origins):
    u1, u2 = origins(2)
    s = sidecar(http(u1, u2, max_fails=1, fail_timeout="1s", route={"read_timeout": "400ms", "connect_timeout": "400ms"},
                     probe={"type": "http", "path": "/health", "interval": "500ms", "timeout": "400ms"}))
    s.expected_to_fail_while_announced()
    assert s.get("/x").status == 200
    u1.freeze()
    statuses = paced(10, 3, lambda i: s.get("/x").status, 16)
    assert set(statuses) == {200}, "each is saved by the other peer"
    state = s.peer("pool", u1.address)
    assert "unreachable" in str(state["verdict"]), f"the probe must see it too: {state}"
    assert s.backend("pool")["verdict"]["status"] == "healthy", "one of two: the backend as such is healthy"
    u1.thaw()
    wait_until("u1 to serve again", lambda: s.get("/x").origin == "a", 8)


def test_br11_throttling_is_not_death(sidecar, origins):
    u1, u2 = origins(2)
    for o in (u1, u2):
        o.rules('status=503 code=SlowDown header="Retry-After: 7" percent=30 method=GET')
    s = sidecar(s3(u1, u2, max_fails=1, route={"next_upstream": ["error", "timeout", "http_503"]}))
    caller = Caller(s.data)
    results = [caller.call("GET", f"/b/{i}") for i in range(150)]
    throttled = [r for r in results if r.status == 503]
    assert 20 <= len(throttled) <= 70
    for r in throttled:
        assert r.header("Retry-After") == "7" and r.header("X-Fairlead-Error") is None and r.origin
        assert r.body.endswith(b"<Error><Code>SlowDown</Code><Message>said by the origin</Message></Error>")
    assert u1.requests + u2.requests == 150, "not retried"
    assert s.events(DISABLED) == []
