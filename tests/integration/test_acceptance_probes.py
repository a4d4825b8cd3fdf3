"""The acceptance table of the diagnosis guide, rows D (schedule), E (a failing request), F (hang and slow), G, H
(answers), I (recovery); times are scaled down."""
import datetime
import json
import re
import time

import pytest

from bed.config import backend
from bed.probing import judged, keys, probe_now, s3, store, verdict_becomes
from bed.process import wait_until
from bed.wire import Ended
from test_apply import put

LIST = "method=GET path=/ "


def b1(where, route=None, probe=None, **keys):
    """Bucket `releases` on backend `minio`."""
    return s3(where, probe={"interval": "1h", "timeout": "400ms", **(probe or {})}, route=route, **keys)


def at(event):
    return datetime.datetime.fromisoformat(event["ts"].replace("Z", "+00:00")).timestamp()


# ---- D: schedule ------------------------------------------------------------------------------------------------
def test_D1_every_backend_every_interval(sidecar, origins):
    three = origins(3)
    config = b1(three[0], probe={"interval": "400ms"})
    for i, o in enumerate(three[1:]):
        config["backends"][f"more{i}"] = {**config["backends"]["minio"], "peers": [{"address": o.address}]}
    sidecar(config)
    time.sleep(4)
    for o in three:
        moments = [e.at for e in o.ledger()]
        assert len(moments) >= 8, "idle as it is"
        first, *gaps = [round(b - a, 2) for a, b in zip(moments, moments[1:])]
        assert first <= 0.6, "a random part of the interval, so that a start puts nobody in step"
        assert len(set(gaps)) > 1 and all(0.3 <= g <= 0.6 for g in gaps), gaps
        assert o.accepted == 1, "one connection for all probes of one definition"


def test_D2_a_new_connection_for_a_new_definition(sidecar, origin, folder, keys):
    o = origin("a")
    s = sidecar(b1(o, probe=keys()))
    judged(s)
    assert o.stats()["open"] == 1
    changed = json.loads(json.dumps(s.config))
    path = changed["backends"]["minio"]["probe"]["access_key_file"] + ".new"
    with open(path, "w", encoding="ascii") as f:
        f.write("AKIAOTHERKEY00000\n")
    changed["backends"]["minio"]["probe"]["access_key_file"] = path
    assert put(s, changed).status == 200
    wait_until("a probe with the new key", lambda: "AKIAOTHERKEY" in (o.ledger()[-1].header("Authorization") or ""))
    wait_until("the old connection to be closed", lambda: o.stats()["open"] == 1)
    assert o.ledger()[-1].conn != o.ledger()[0].conn


def test_D3_idle_death_is_found_without_traffic(sidecar, origin):
    o = origin("a")
    s = sidecar(b1(o, probe={"interval": "500ms"}))
    judged(s)
    o.refuse()
    start = time.monotonic()
    verdict_becomes(s, "unreachable", timeout=2)
    assert time.monotonic() - start < 0.5 * 1.1 + 0.5
    start = time.monotonic()
    assert s.get("/releases/k").status == 503 and time.monotonic() - start < 0.05


def test_D4_the_interval_of_the_environment(sidecar, origin):
    o = origin("a")
    s = sidecar(b1(o), env={"FAIRLEAD_PROBE_INTERVAL": "500ms"})
    judged(s)
    time.sleep(2.4)
    moments = [e.at for e in o.ledger()]
    assert all(0.44 <= b - a <= 0.65 for a, b in zip(moments[1:], moments[2:])) and len(moments) >= 4, moments
    for bad in ("0", "often"):
        refused = sidecar(b1(o), wait=False, env={"FAIRLEAD_PROBE_INTERVAL": bad}, expected_exit=2)
        assert refused.wait(5) == 2


# ---- E: a request finds a backend failing -----------------------------------------------------------------------
def at_once(s, count):
    """`count` requests under way at the same time, each on a connection of its own."""
    wires = [s.wire(timeout=30) for _ in range(count)]
    try:
        for i, wire in enumerate(wires):
            wire.request("GET", f"/releases/{i}")
        return [wire.response() for wire in wires]
    finally:
        for wire in wires:
            wire.close()


def test_E1_a_request_triggers_a_probe(sidecar, origin):
    o = origin("a")
    s = sidecar(b1(o))
    judged(s)
    o.refuse()
    start = time.time()
    assert s.get("/releases/k").status == 503
    found = s.wait_event("backend unhealthy", 2)
    assert at(found) - start < 0.3, "probed at once, twice"
    start = time.monotonic()
    assert s.get("/releases/k").header("X-Fairlead-Error") == "backend_unavailable"
    assert time.monotonic() - start < 0.05


def test_E2_a_probe_that_succeeds_leaves_it_open(sidecar, origin):
    """The design names the request in `backend request failed, probe answered` when it met its deadline; one that broke
    at once has its own line."""
    o = origin("a", "method=GET path=/releases count=1 rst_request=0", "method=GET path=/releases/slow count=1 hang")
    s = sidecar(b1(o, route={"deadline": "500ms", "read_timeout": "2s", "next_upstream": "off"}))
    judged(s)
    before = o.requests
    assert s.get("/releases/k").status == 503
    wait_until("the probe", lambda: o.requests >= before + 2)
    line = s.wait_event("upstream prematurely closed connection")
    assert line["level"] == "warn" and line["backend"] == "minio"
    assert s.get("/releases/slow").status == 503
    named = s.wait_event("backend request failed, probe answered")
    assert (named["level"], named["backend"], named["operation"], named["bucket"], named["key"]) == \
        ("warn", "minio", "GetObject", "releases", "slow")
    assert s.get("/releases/k").status == 200 and s.backend("minio")["verdict"]["status"] == "healthy"
    assert len(s.events("backend request failed, probe answered")) == 1 and not s.events("backend unhealthy")


def test_E3_one_probe_at_a_time(sidecar, origin):
    o = origin("a")
    s = sidecar(b1(o, route={"read_timeout": "700ms", "deadline": "800ms"}))
    judged(s)
    o.forget()
    o.rules("hang")
    assert {r.status for r in at_once(s, 500)} == {503}
    s.wait_event("backend unhealthy")
    probes = [e for e in o.ledger() if e.method == "HEAD"]
    assert 1 <= len(probes) <= 4, probes  # two attempts each
    for a, b in zip(probes, probes[1:]):
        assert b.at - a.at >= 0.35, "not side by side"


def test_E3_failures_that_go_on_start_a_probe_a_second(sidecar, origin):
    """The probe is answered at once, so that only its spacing holds further ones back."""
    o = origin("a", "method=GET rst_request=0")
    s = sidecar(b1(o, route={"next_upstream": "off"}))
    judged(s)
    time.sleep(1.1)  # the probe of the start is past
    o.forget()
    start = time.monotonic()
    for _ in range(3):
        assert {r.status for r in at_once(s, 500)} == {503}
    seconds = time.monotonic() - start
    probes = [e.at for e in o.ledger() if e.method == "HEAD"]
    assert 1 <= len(probes) <= 2 + seconds, (len(probes), seconds)
    assert all(b - a > 0.9 for a, b in zip(probes, probes[1:])), probes
    assert not s.events("backend unhealthy"), "a green probe leaves it open"


# ---- F: hanging and slow ----------------------------------------------------------------------------------------
def hanging(sidecar, origin, *rules, **route):
    o = origin("a")
    s = sidecar(b1(o, route={"deadline": "600ms", "read_timeout": "5s", "send_timeout": "5s", **route}))
    judged(s)
    o.rules(*(rules or ["hang"]))
    return s, o


def test_F1_hang_request(sidecar, origin):
    """The token is `deadline` (the row says timeout)."""
    s, o = hanging(sidecar, origin)
    before = o.requests
    start = time.monotonic()
    response = s.get("/releases/k")
    took = time.monotonic() - start
    assert response.status == 503 and 0.6 <= took < 0.9, "retries included"
    assert response.header("X-Fairlead-Error") == "deadline" and "minio" in response.text
    wait_until("a probe at once", lambda: o.requests >= before + 2, 0.3)


def test_F2_hang_verdict(sidecar, origin):
    s, o = hanging(sidecar, origin)
    s.get("/releases/k")
    line = s.wait_event("backend unhealthy", 4)
    assert line["status"] == "unreachable" and line["cause"] == f"{o.address} accepts connections but does not answer"
    probes = [e.at for e in o.ledger() if e.method == "HEAD"][-2:]
    assert 0.38 <= probes[1] - probes[0] < 0.7, "two silent attempts, each as long as the timeout"
    start = time.monotonic()
    assert s.get("/releases/k").status == 503 and time.monotonic() - start < 0.05


def test_F3_upload_deadline(sidecar, origin):
    """30 s + 1 s per MiB; here 600 ms + 1 s per MiB."""
    s, _ = hanging(sidecar, origin, "method=PUT hang", "method=HEAD path=/releases/ hang")
    for target in ("/releases/k", "/releases/k?partNumber=1&uploadId=u"):
        start = time.monotonic()
        response = s.call("PUT", target, body=b"x" * (1 << 20))
        took = time.monotonic() - start
        assert response.status == 503 and 1.6 <= took < 2.0, (target, took)
    start = time.monotonic()
    assert s.call("HEAD", "/releases/k").status == 503 and 0.6 <= time.monotonic() - start < 0.9


def test_F4_a_slow_client_is_not_the_backend(sidecar, origin):
    s, o = hanging(sidecar, origin, "path=/nothing hang")
    probes = s.metrics().sum("fairlead_probes_total", backend="minio")
    with s.wire() as wire:
        wire.request("PUT", "/releases/k", {"Content-Length": "1000"})
        for _ in range(20):
            wire.send(b"x" * 50)
            time.sleep(0.12)
        assert wire.response().status == 200, "2.4 s for a deadline of 1.6 s: the client's own time is not counted"
    assert s.metrics().sum("fairlead_probes_total", backend="minio") == probes
    assert s.peer("minio", o.address)["failures"] == 0


def test_F5_a_slow_answer_stays_open(sidecar, origin):
    s, _ = hanging(sidecar, origin, "delay=350")
    for _ in range(4):
        assert s.get("/releases/k").status == 200
    assert probe_now(s)["status"] == "healthy" and not s.events("backend unhealthy")


@pytest.mark.parametrize("first", ["hang", "rst_request=0", "fin_response=0"])
def test_F6_one_bad_attempt_is_no_verdict(sidecar, origin, first):
    o = origin("a")
    s = sidecar(b1(o))
    judged(s)
    o.forget()
    o.rules("method=HEAD count=1 " + first)
    assert probe_now(s)["status"] == "healthy" and o.requests == 2
    assert not s.events("backend unhealthy")


def test_F7_after_the_first_byte(sidecar, origin):
    """The log says `truncated` (the row says mid_body)."""
    s, o = hanging(sidecar, origin, "path=/releases/k size=100000 cut=5000 cut_end=stall", read_timeout="500ms")
    before = o.requests
    with s.wire() as wire:
        wire.request("GET", "/releases/k", [("x-request-id", "f7")])
        with pytest.raises(Ended) as ended:
            wire.response()
    assert len(ended.value.partial) < 100000
    line = s.line_of("f7")
    assert line["error"] == "truncated" and line["tries"] == 1
    assert len([e for e in o.ledger() if e.method == "GET"]) == 1, "no retry"


# ---- G, H: answers ----------------------------------------------------------------------------------------------
def test_G1_a_5xx_is_a_badge(sidecar, origin):
    o = origin("a", "method=HEAD status=500")
    s = sidecar(b1(o))
    assert judged(s)["status"] == "erroring"
    assert s.admin("/_/ready")["backends"] == {"minio": "erroring"}
    assert s.metrics().sum("fairlead_backend_state", backend="minio", state="erroring") == 1
    assert s.get("/releases/k").status == 200 and not s.backend("minio")["blocked"]
    assert s.wait_event("backend unhealthy")["level"] == "warn"


def test_G2_slow_down_is_neutral(sidecar, origin):
    o = origin("a", 'method=GET path=/releases status=503 code=SlowDown header="x-amz-request-id: theirs"')
    s = sidecar(b1(o, route={"next_upstream": ["error", "timeout", "http_503"],
                             "count_failures": ["error", "timeout", "http_503"]}))
    judged(s)
    with s.wire() as wire:
        for _ in range(100):
            response = wire.request("GET", "/releases/k").response()
            assert response.status == 503 and response.header("x-amz-request-id") == "theirs"
            assert b"SlowDown" in response.body and response.header("X-Fairlead-Error") is None
    assert len([e for e in o.ledger() if e.method == "GET"]) == 100, "one attempt each"
    assert s.peer("minio", o.address)["state"] == "live"
    assert not s.events("upstream server temporarily disabled")


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_H1_bad_keys(sidecar, origin, keys, code):
    o = origin("a", "method=HEAD status=403", LIST + f"status=403 code={code}")
    s = sidecar(b1(o, probe=keys()))
    v = judged(s)
    assert v["status"] == "auth-rejected" and "403" in v["cause"] and code in v["cause"]
    assert s.get("/releases/k").status == 503 and s.backend("minio")["blocked"]


def test_H2_a_scoped_key(sidecar, origin, keys):
    o = origin("a", "method=HEAD status=403", LIST + "status=403 code=AccessDenied")
    s = sidecar(b1(o, probe=keys()))
    v = judged(s)
    assert v["status"] == "healthy" and v["note"]
    o.rules()
    assert s.get("/releases/k").status == 200


def test_H3_head_bucket_is_enough(sidecar, origin, keys):
    o = origin("a")
    s = sidecar(b1(o, probe=keys()))
    judged(s)
    assert [f"{e.method} {e.target}" for e in o.ledger()] == ["HEAD /releases"]


def test_H4_no_routed_bucket(sidecar, origin, keys):
    o = origin("a")
    config = b1(o, probe=keys())
    config["routes"] = {"*": {"backend": "minio"}}
    judged(sidecar(config))
    assert [(e.method, e.target.partition("?")[0]) for e in o.ledger()] == [("GET", "/")], "ListBuckets"


def test_H5_an_absent_bucket(sidecar, origin, keys):
    s = sidecar(b1(origin("a", "method=HEAD status=404"), probe=keys()))
    v = judged(s)
    assert (v["status"], v["note"]) == ("healthy", "bucket releases is absent")


def test_H6_clock_region_redirect(sidecar, store, origin, keys):
    """The seconds are in the note: a cause has no counters."""
    s = sidecar(b1(store(ahead=3600).address, probe=keys()))
    v = judged(s)
    assert v["status"] == "erroring" and "clock" in v["cause"] and "credential" not in v["cause"]
    seconds = [int(word) for word in re.findall(r"\d+", v["note"])]
    assert any(3590 <= n <= 3660 for n in seconds), v["note"]
    for elsewhere in (store(region="eu-west-1").address,
                      origin("a", 'method=HEAD status=301 header="x-amz-bucket-region: eu-west-1"')):
        v = judged(sidecar(b1(elsewhere, probe=keys())))
        assert v["status"] == "erroring" and "eu-west-1" in v["cause"] and "credential" not in v["cause"], v


def test_H7_keyless(sidecar, origin):
    o = origin("a", "method=HEAD status=403", LIST + "status=403 code=AccessDenied")
    s = sidecar(b1(o))
    v = judged(s)
    assert (v["status"], v["note"]) == ("healthy", "reachable, credentials not checked")
    o.rules("method=HEAD status=403", LIST + "status=403 code=InvalidAccessKeyId")
    assert probe_now(s)["status"] == "healthy", "never auth-rejected"


# ---- I: recovery ------------------------------------------------------------------------------------------------
def test_I1_recovery(sidecar, origin):
    o = origin("a")
    s = sidecar(b1(o, probe={"interval": "500ms"}))
    judged(s)
    o.refuse()
    verdict_becomes(s, "unreachable", timeout=3)
    assert s.metrics().sum("fairlead_backend_up", backend="minio") == 0
    o.listen()
    start = time.monotonic()
    wait_until("the bucket to serve", lambda: s.get("/releases/k").status == 200, 3)
    assert time.monotonic() - start < 0.5 * 1.1 + 1
    line = s.wait_event("backend recovered")
    assert line["level"] == "info" and line["backend"] == "minio" and line["downtime_secs"] > 0
    assert s.metrics().sum("fairlead_backend_up", backend="minio") == 1
    assert len(s.events("backend recovered")) == 1


def test_I2_test_connection_reopens_at_once(sidecar, origin):
    o = origin("a")
    o.refuse()
    s = sidecar(b1(o))
    verdict_becomes(s, "unreachable")
    o.listen()
    response = s.ask("POST", "/_/api/admin/backends/minio/probe", b"", {"Content-Type": "application/json"})
    entry = json.loads(response.body)
    assert response.status == 200 and entry["name"] == "minio" and entry["verdict"]["status"] == "healthy"
    assert entry["verdict"]["probed_at"] and entry["verdict"]["duration_ms"] >= 0
    assert s.get("/releases/k").status == 200


def test_I3_errors_of_the_probe_api(sidecar, origin):
    """There are no sessions, so there is no 401 (the row has one)."""
    s = sidecar(b1(origin("a")))
    kind = {"Content-Type": "application/json"}
    assert s.ask("POST", "/_/api/admin/backends/nobody/probe", b"", kind).status == 404
    get = s.ask("GET", "/_/api/admin/backends/minio/probe")
    assert get.status == 405 and get.header("Allow") == "POST"
    assert s.ask("POST", "/_/api/admin/backends/minio/probe", b"").status == 415
