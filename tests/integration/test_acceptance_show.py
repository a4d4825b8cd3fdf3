"""The acceptance table of the diagnosis guide, rows J (readiness), K (slow requests, histogram), M (stale, removed, open,
cost); times are scaled down. Row L is the panel's, row N needs real stores."""
import json
import time

from bed import push
from bed.config import address_of, backend
from bed.play import parallel
from bed.probing import judged, s3, verdict_becomes
from bed.process import SLACK
from bed.s3_store import Silent
from bed.sidecar import chain
from bed.tracing import calls_of
from bed.wire import Wire
from test_apply import put

SLOW = "slow backend request"


def b1(where, route=None, probe=None, **keys):
    return s3(where, probe={"interval": "1h", "timeout": "400ms", **(probe or {})}, route=route, **keys)


def unprobed(*peers, slow="300ms", route=None, **keys):
    return {"slow_request": slow, "backends": {"minio": backend(*peers, protocol="s3", **keys)},
            "routes": {"releases": {"backend": "minio", **(route or {})}}}


# ---- J: readiness -----------------------------------------------------------------------------------------------
def test_J1_ready(sidecar, origin, dead):
    o = origin("a")
    config = b1(o)
    config["backends"]["gone"] = {**config["backends"]["minio"], "peers": [{"address": dead()}]}
    s = sidecar(config)
    verdict_becomes(s, "unreachable", "gone")
    accepts = o.accepted
    for port in (s.status_port, s.admin_port):
        start = time.monotonic()
        get = s.ask("GET", "/_/ready", port=port)
        assert time.monotonic() - start < 0.05
        assert get.status == 200 and get.header("Content-Type") == "application/json"
        ready = json.loads(get.body)
        assert set(ready["backends"].values()) <= {"healthy", "unreachable", "auth-rejected", "erroring", "unknown"}
        head = s.ask("HEAD", "/_/ready", port=port)
        assert head.status == 200 and not head.body and head.header("Content-Length") == get.header("Content-Length")
    assert o.accepted == accepts, "no backend I/O"


def test_J1_ready_while_every_backend_hangs(sidecar, origins, ports):
    """… and its probes with it. Timed against a page that looks at nothing, so that a busy machine does not matter."""
    three, silent = origins(3), Silent(ports)
    config = b1(three[0], probe={"timeout": "20s"})
    for i, where in enumerate([*three[1:], silent.address]):
        config["backends"][f"more{i}"] = {**config["backends"]["minio"], "peers": [{"address": address_of(where)}]}
    for o in three:
        o.rules("hang")
    s = sidecar(config)
    for o in three:
        o.until(requests=1)  # its probe hangs
    stuck = [s.wire(timeout=30) for _ in range(50)]
    for wire in stuck:
        wire.request("GET", "/releases/k")
    three[0].until(requests=51)
    before = [o.stats()["accepted"] for o in three]
    with Wire(("127.0.0.1", s.status_port), timeout=10) as wire:
        def took(path):
            start = time.monotonic()
            assert wire.request("GET", path, host="localhost").response().status == 200
            return time.monotonic() - start
        ready = sorted(took("/_/ready") for _ in range(300))
        live = sorted(took("/_/live") for _ in range(300))
    assert ready[150] < 0.005 * SLACK, "less than 5 ms in the middle"
    assert ready[285] < live[285] * 3 + 0.005 * SLACK, (ready[285], live[285])
    assert [o.stats()["accepted"] for o in three] == before, "no backend I/O"
    assert set(s.admin("/_/ready")["backends"].values()) == {"unknown"}
    for wire in stuck:
        wire.close()
    silent.close()


def test_J2_readiness_code(sidecar, origin, dead):
    """There is no `ready_policy` (the row has one): readiness is about the sidecar, so it stays 200."""
    o = origin("a")
    config = b1(o)
    config["backends"]["gone"] = {**config["backends"]["minio"], "peers": [{"address": dead()}]}
    s = sidecar(config)
    verdict_becomes(s, "unreachable", "gone")
    assert (s.admin("/_/ready")["status"], s.admin("/_/ready")["backend"]) == ("degraded", "ready")
    o.refuse()
    s.ask("POST", "/_/api/admin/backends/minio/probe", b"", {"Content-Type": "application/json"})
    assert (s.admin("/_/ready")["status"], s.admin("/_/ready")["backend"]) == ("degraded", "unavailable")
    assert s.ask("GET", "/_/ready", port=s.status_port).status == 200


def test_J3_namespace(sidecar, origin):
    o = origin("a")
    s = sidecar(unprobed(o))
    for method, path, statuses in (("PUT", "/_/x", (404, 405)), ("HEAD", "/_/nothing", (404,)), ("PUT", "/_/ready", (405,))):
        answer = s.ask(method, path)
        assert answer.status in statuses
        if method != "HEAD":
            assert json.loads(answer.body)["token"] in ("not_found", "method_not_allowed")
        assert s.call(method, path).status == 404, "nor by the data listener"
    assert o.requests == 0


# ---- K: slow requests -------------------------------------------------------------------------------------------
def test_K1_the_slow_line(sidecar, origin):
    o = origin("a", "path=/releases/slow delay=450")
    s = sidecar(unprobed(o))
    s.get("/releases/fast")
    assert s.get("/releases/slow").status == 200
    line = s.wait_event(SLOW)
    assert (line["level"], line["backend"], line["peer"], line["operation"], line["bucket"], line["key"]) == \
        ("warn", "minio", o.address, "GetObject", "releases", "slow")
    assert 0.4 <= line["total_secs"] < 0.7 and (line["attempts"], line["statuses"]) == (1, "200")
    assert line["before_first_attempt_secs"] < 0.05
    time.sleep(0.1)
    assert len(s.events(SLOW)) == 1


def test_K2_a_retry_is_visible(sidecar, origins):
    a, b = origins(2)
    a.rules("path=/releases/k fin_response=0 end_ms=250")
    b.rules("path=/releases/k delay=250")
    s = sidecar(unprobed(a, b, max_fails=0, retry_budget={"ratio": "100%", "min_per_second": 100}))
    for _ in range(8):  # round robin starts at random
        assert s.get("/releases/k").status == 200
        time.sleep(0.1)
        lines = [e for e in s.events(SLOW) if e["attempts"] == 2]
        if lines:
            break
    line = lines[0]
    assert line["peer"] == b.address and len(str(line["times"]).split(",")) == 2
    assert chain(s.line_of(line["request_id"])) == [a.address, b.address], "both peers are in the access log"
    assert "200" in str(line["statuses"]) and "502" in str(line["statuses"]), line
    assert line["total_secs"] >= 0.45


def test_K3_a_queue_is_visible(sidecar, origin):
    o = origin("a", "delay=450")
    s = sidecar(unprobed(o, max_conns=1, queue={"size": 10, "timeout": "5s"}))
    assert [r.status for r in parallel(2, lambda i: s.get(f"/releases/{i}"))] == [200, 200]
    s.wait_event(SLOW, count=2)
    waits = sorted(float(e["before_first_attempt_secs"]) for e in s.events(SLOW))
    assert waits[0] < 0.05 and 0.35 <= waits[1] < 0.8
    assert all(e["attempts"] == 1 for e in s.events(SLOW))


def test_K4_uploads_have_an_allowance(sidecar, origin):
    """+1 s per MiB."""
    o = origin("a", "path=/releases/in delay=900", "path=/releases/over delay=1600")
    s = sidecar(unprobed(o))
    body = b"x" * (1 << 20)
    assert s.call("PUT", "/releases/in", body=body).status == 200
    time.sleep(0.1)
    assert not s.events(SLOW)
    assert s.call("PUT", "/releases/over", body=body).status == 200
    assert s.wait_event(SLOW)["key"] == "over"


def test_K5_secrets_of_the_query(sidecar, origin):
    s = sidecar(unprobed(origin("a", "delay=400")))
    s.get("/releases/k?X-Amz-Signature=deadbeef&X-Amz-Security-Token=topsecret&X-Amz-Credential=AKIA")
    s.wait_event(SLOW)
    logged = s.err.text() + s.out.text()
    assert "deadbeef" not in logged and "topsecret" not in logged


def test_K6_the_histogram(sidecar, origins):
    a, b = origins(2)
    a.rules("delay=3")
    config = unprobed(a)
    config["backends"]["other"] = {**config["backends"]["minio"], "peers": [{"address": b.address}]}
    config["routes"]["*"] = {"backend": "other"}
    s = sidecar(config)
    for i in range(7):
        s.get(f"/releases/{i}")
    for i in range(5):
        s.get(f"/client-chosen-{i}/k")
    name = "fairlead_backend_request_duration_seconds"
    m = s.metrics()
    assert m.sum(name + "_count", backend="minio", operation="GetObject") == 7
    assert m.sum(name + "_count", backend="other", operation="GetObject") == 5
    assert m.sum(name + "_sum", backend="minio") > 0
    text = s.ask("GET", "/_/metrics").text
    bounds = {float(line.split('le="')[1].split('"')[0]) for line in text.splitlines()
              if line.startswith(name + "_bucket") and 'le="+Inf"' not in line}
    assert max(bounds) >= 60
    assert "client-chosen" not in text and 'key="' not in text
    assert m.sum("fairlead_attempts_total", backend="minio") == 7


# ---- M: stale, removed, open, cost ------------------------------------------------------------------------------
def test_M1_a_verdict_of_an_old_definition_gates_nobody(sidecar, origin, dead):
    s = sidecar(b1(dead()))
    assert judged(s)["status"] == "unreachable"
    assert s.get("/releases/k").status == 503
    changed = json.loads(json.dumps(s.config))
    changed["backends"]["minio"]["peers"] = [{"address": origin("a").address}]
    assert put(s, changed).status == 200
    assert s.get("/releases/k").status == 200, "at once"
    same_place = json.loads(json.dumps(changed))
    same_place["backends"]["minio"]["probe"]["timeout"] = "500ms"
    assert put(s, same_place, "?force=1").status == 200
    assert s.get("/releases/k").status == 200


def test_M2_a_backend_that_is_removed(sidecar, origin, dead):
    o, gone = origin("a"), dead()
    config = b1(o)
    config["backends"]["gone"] = {**config["backends"]["minio"], "peers": [{"address": gone}]}
    s = sidecar(config)
    verdict_becomes(s, "unreachable", "gone")
    without = json.loads(json.dumps(s.config))
    del without["backends"]["gone"]
    assert put(s, without).status == 200
    assert [b["name"] for b in s.admin("/_/api/admin/backends")["backends"]] == ["minio"]
    assert s.admin("/_/ready")["backends"].keys() == {"minio"} and s.admin("/_/ready")["status"] == "ready"
    for line in s.ask("GET", "/_/metrics").text.splitlines():
        assert 'backend="gone"' not in line or line.startswith(("fairlead_probes_total", "fairlead_gated",
                                                                "fairlead_quarantines", "fairlead_attempts")), line
    listener = origin("b", port=int(gone.rpartition(":")[2]))
    time.sleep(2.5)
    assert listener.accepted == 0, "no more probes"


def test_M3_never_probed_flows(sidecar, origin):
    o = origin("a", "method=HEAD hang")
    s = sidecar({**b1(o, probe={"timeout": "2s"}), "boot_probe": "warn"})
    assert s.admin("/_/ready")["backends"] == {"minio": "unknown"}
    assert s.get("/releases/k").status == 200


def test_M3_a_controller_that_is_gone(sidecar, origin, key):
    """Ten minutes are 20 intervals; here they are of 300 ms. Its last word was that the backend is unreachable."""
    o = origin("a")
    s = sidecar({"id": "pod", "push": {"public_key_file": key.public}, "start_wait": "200ms", "boot_probe": "warn",
                 "backends": {"minio": {"protocol": "s3", "service": {"namespace": "n", "name": "m", "port": "s3"},
                                        "probe": {"type": "s3", "interval": "300ms", "timeout": "1s"}}},
                 "routes": {"releases": {"backend": "minio"}}})
    assert s.admin("/_/ready")["membership"] == "waiting"
    bad = {"status": "unreachable", "code": "connect_timeout", "cause": "x", "step": "connect", "age_ms": 0}
    body = push.state(1, 1, {"minio": {**push.members(o), "verdicts": {o.address: bad}}})
    assert push.put(("127.0.0.1", s.status_port), push.signed(key, "pod", body), body).status == 200
    age = lambda: s.metrics().sum("fairlead_membership_age_seconds")
    verdict_becomes(s, "healthy")
    assert s.admin("/_/ready")["membership"] == "ready" and age() < 5
    first, end = age(), time.monotonic() + 20 * 0.3
    while time.monotonic() < end:
        assert s.get("/releases/k").status == 200 and not s.backend("minio")["blocked"]
        time.sleep(0.1)
    assert age() - first >= 5 and s.admin("/_/ready")["membership"] == "stale", "its age is shown"
    assert s.backend("minio")["verdict"]["other_view"] == "" and not s.events("backend unhealthy", level="error")
    assert s.admin("/_/ready")["status"] == "ready"


def test_M4_cost_of_the_gate(sidecar, origin):
    """The row says 1 % of the throughput. A probed backend that is well takes the same system calls as one that nobody
    probes; bench/gated_count.py counts instructions as well."""
    o = origin("a", ledger=False)
    probed, plain = sidecar(b1(o)), sidecar(unprobed(o))
    judged(probed)
    with probed.wire() as wire:
        gated = calls_of(probed, wire, "/releases", 200, 200)
    with plain.wire() as wire:
        open_to_all = calls_of(plain, wire, "/releases", 200, 200)
    for calls in (gated, open_to_all):
        del calls[:calls.index("recvfrom")]
        woken = calls.count("write")  # of the log writer, when it sleeps: not of each request
        assert woken <= 50 and set(calls) <= {"recvfrom", "sendto", "write"}, {c: calls.count(c) for c in set(calls)}
        assert (len(calls) - woken) / 199 <= 4.04
