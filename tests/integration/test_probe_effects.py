"""What follows from a probe: recovery, quarantines that open, the boot gate, failed requests that are named, and pushed
verdicts beside our own."""
import time

import pytest

from bed import push
from bed.config import backend
from bed.play import meet, paced, parallel
from bed.probing import KEY, MASKED, http, judged, keys, probe_now, s3, store, verdict_becomes
from bed.process import wait_until
from bed.sidecar import next_id


# -- recovery ---------------------------------------------------------------------------------------------------------


def test_recovery(sidecar, origin):
    o = origin("a")
    o.refuse()
    s = sidecar(s3(o, probe={"interval": "500ms"}))
    verdict_becomes(s, "unreachable")
    down = time.monotonic()
    assert s.get("/releases/x").status == 503
    time.sleep(1)
    o.listen()
    back = time.monotonic()
    wait_until("the bucket to be served again", lambda: s.get("/releases/x").status == 200, 5)
    assert time.monotonic() - back <= 1.5, "within the interval and a bit"
    event = s.wait_event("backend recovered")
    assert event["level"] == "info" and event["backend"] == "minio"
    assert abs(event["downtime_secs"] - (time.monotonic() - down)) < 1.5
    assert len(s.events("backend recovered")) == 1 and len(s.events("backend unhealthy")) == 1
    assert s.metrics().sum("fairlead_backend_up", backend="minio") == 1


def test_test_connection_reopens_at_once(sidecar, origin):
    o = origin("a")
    o.refuse()
    s = sidecar(s3(o, probe={"interval": "1h"}))
    verdict_becomes(s, "unreachable")
    o.listen()
    v = probe_now(s)
    assert v["status"] == "healthy" and v["duration_ms"] < 1000
    assert s.get("/releases/x").status == 200


# -- a green probe opens a quarantine when nobody is usable -----------------------------------------------------------


def all_quarantined(sidecar, peers, probe, fail_timeout="3s"):
    """Data requests are reset, probes answered; every peer has just been quarantined. When that was."""
    for o in peers:
        o.rules("path=/health", "rst_request=0")
    s = sidecar(http(*peers, max_fails=1, fail_timeout=fail_timeout, probe=probe, route={"next_upstream_tries": 1}))
    assert judged(s, "pool")["status"] == "healthy"
    for o in peers:
        o.forget()
    for _ in peers:
        assert s.get("/x").status == 502
    return s, time.monotonic()


def data(o):
    return [e for e in o.ledger() if e.target != "/health"]


def test_green_probe_opens_when_nobody_is_usable(sidecar, origins):
    peers = origins(2)
    s, tripped = all_quarantined(sidecar, peers, {"interval": "300ms"})
    statuses = paced(20, 2.5, lambda i: s.get("/x").status)
    for o in peers:
        times = [e.at for e in data(o)]
        assert len(times) == 2, f"the failure and one trial per fail_timeout: {times}"
        assert times[1] < tripped + 1.5, "long before the window was over"
    assert statuses.count(503) >= 45
    events = s.admin("/_/api/admin/events?since=0")["events"]
    assert len([e for e in events if "probation" in str(e)]) == 2


def test_green_probe_ends_an_outage_early(sidecar, origins):
    peers = origins(2)
    s, tripped = all_quarantined(sidecar, peers, {"interval": "300ms"}, "60s")
    for o in peers:
        o.rules()
    wait_until("service", lambda: s.get("/x").status == 200, 3)
    assert time.monotonic() - tripped < 3
    s.wait_event("upstream readmitted")


def test_test_connection_opens_more_often(sidecar, origins):
    peers = origins(1) + origins(1)
    s, _ = all_quarantined(sidecar, peers, {"interval": "1h"}, "60s")
    time.sleep(1.5)  # what the failures themselves asked for
    s.get("/x"), s.get("/x"), s.get("/x"), s.get("/x")
    before = [len(data(o)) for o in peers]
    assert s.get("/x").header("X-Fairlead-Error") == "no_live_upstream"
    probe_now(s, "pool")
    assert s.get("/x").status == 502, "a trial, at once"
    assert sum(len(data(o)) for o in peers) == sum(before) + 1


def test_a_connect_proves_no_answer(sidecar, origins):
    peers = origins(2)
    s, tripped = all_quarantined(sidecar, peers, {"type": "tcp", "interval": "200ms"}, "5s")
    statuses = paced(20, 1.6, lambda i: s.get("/x").status)
    assert set(statuses) == {503}
    assert [len(data(o)) for o in peers] == [1, 1]
    probe_now(s, "pool")
    assert s.get("/x").status == 503


def test_green_probe_opens_nothing_while_another_serves(sidecar, origins):
    a, b = origins(2)
    a.rules("path=/health", "rst_request=0")
    s = sidecar(http(a, b, max_fails=1, fail_timeout="5s", probe={"interval": "100ms"}))
    meet(s, a, target="/x")
    assert {s.get("/x").origin for _ in range(20)} == {"b"}
    time.sleep(1)
    assert len(data(a)) == 1
    probe_now(s, "pool")
    assert {s.get("/x").origin for _ in range(10)} == {"b"}


# -- the boot gate ----------------------------------------------------------------------------------------------------


def boot(mode, *backends):
    """One bucket per backend (name, peer, probe)."""
    return {"boot_probe": mode,
            "backends": {n: backend(p, protocol="s3", probe={"type": "s3", "timeout": "1s", "interval": "10s", **q})
                         for n, p, q in backends},
            "routes": {n: {"backend": n} for n, _, _ in backends}}


def test_boot_enforce_exits_when_all_fail(sidecar, store, keys, dead):
    wrong = keys(secret="wrong")
    s = sidecar(boot("enforce", ("one", dead(), {}), ("two", store().address, wrong)), wait=False, expected_exit=1)
    assert s.wait(10) == 1
    failing = {e["backend"]: e["status"] for e in s.events("backend unhealthy", level="error")}
    assert failing == {"one": "unreachable", "two": "auth-rejected"}
    assert len(s.events("every backend is down at boot")) == 1


def test_boot_enforce_runs_degraded_when_one_answers(sidecar, store, keys, dead):
    st = store(buckets=("two",))
    s = sidecar(boot("enforce", ("one", dead(), {}), ("two", st.address, keys())))
    ready = wait_until("both verdicts", lambda: next(
        (r for r in [s.admin("/_/ready")] if "unknown" not in r["backends"].values()), None))
    assert ready["backends"] == {"one": "unreachable", "two": "healthy"} and ready["status"] == "degraded"
    time.sleep(0.5)
    assert len(s.events("backend unhealthy", level="error")) == 1 and s.running


def test_boot_erroring_is_no_failure(sidecar, origin, dead):
    o = origin("a", "status=503 code=SlowDown")
    s = sidecar(boot("enforce", ("one", dead(), {}), ("two", o.address, {})))
    wait_until("both verdicts", lambda: s.admin("/_/ready")["backends"] == {"one": "unreachable", "two": "erroring"})
    time.sleep(0.5)
    assert s.running


def test_boot_warn_runs(sidecar, dead):
    s = sidecar(boot("warn", ("one", dead(), {})))
    verdict_becomes(s, "unreachable", "one")
    s.wait_event("every backend is down at boot")
    assert s.running and s.get("/one/x").status == 503


def test_boot_off_lets_the_first_request_decide(sidecar, origin):
    o = origin("a", "rst_request=0")
    s = sidecar(boot("off", ("one", o.address, {})))
    time.sleep(0.7)
    assert o.accepted == 0, "no probe at boot"
    assert s.backend("one")["verdict"]["status"] == "unknown"
    assert s.get("/one/x").header("X-Fairlead-Error") == "upstream_failed"
    verdict_becomes(s, "unreachable", "one")


# -- a deadline that passed, and a probe that is answered -------------------------------------------------------------


def test_deadline_with_a_probe_that_answers_is_named(sidecar, origin):
    o = origin("a", "path=/releases/slow hang")
    s = sidecar(s3(o, probe={"interval": "1h"}, route={"deadline": "500ms"}))
    assert judged(s)["status"] == "healthy"
    rid = next_id()
    response = s.get("/releases/slow%2Fone?X-Amz-Signature=0123", headers=[("x-request-id", rid)])
    assert response.status == 503 and response.header("X-Fairlead-Error") == "deadline"
    event = s.wait_event("backend request failed, probe answered")
    assert event["level"] == "warn" and event["request_id"] == rid
    assert (event["backend"], event["peer"], event["operation"], event["bucket"], event["key"], event["method"]) == \
        ("minio", o.address, "GetObject", "releases", "slow%2Fone", "GET")
    assert 0.45 <= event["total_secs"] <= 1.5 and "0123" not in str(event)
    assert s.get("/releases/x").status == 200, "the bucket stays open"
    assert len(s.events("backend request failed, probe answered")) == 1


def test_deadline_with_a_probe_that_fails_blocks_and_names_nobody(sidecar, origin):
    o = origin("a")
    s = sidecar(s3(o, probe={"interval": "1h", "timeout": "300ms"}, route={"deadline": "500ms"}))
    assert judged(s)["status"] == "healthy"
    o.rules("hang")
    assert s.get("/releases/slow").status == 503
    verdict_becomes(s, "unreachable")
    assert s.events("backend request failed, probe answered") == []


def test_other_failures_are_not_named(sidecar, origin):
    o = origin("a", "path=/releases/x rst_request=0")
    s = sidecar(s3(o, probe={"interval": "1h"}))
    assert judged(s)["status"] == "healthy"
    o.forget()
    assert s.get("/releases/x").status == 503
    wait_until("the probe", lambda: o.ledger(method="HEAD"))
    time.sleep(0.2)
    assert s.events("backend request failed, probe answered") == []


def test_many_deadlines_one_line(sidecar, origin):
    o = origin("a", "path=/releases/slow hang")
    s = sidecar(s3(o, probe={"interval": "1h"}, route={"deadline": "500ms"}))
    assert judged(s)["status"] == "healthy"
    assert set(parallel(30, lambda i: s.get(f"/releases/slow/{i}").status)) == {503}
    s.wait_event("backend request failed, probe answered")
    time.sleep(1.5)
    assert 1 <= len(s.events("backend request failed, probe answered")) <= 2, "one probe, one line; a straggler at most"


# -- pushed verdicts --------------------------------------------------------------------------------------------------


class Pusher:
    """Says what the controller found of the one peer of `minio`."""

    def __init__(self, sidecar, key, address):
        self.sidecar, self.key, self.address, self.seq = sidecar, key, address, 0

    def say(self, status, cause):
        self.seq += 1
        verdict = {"status": status, "code": "x", "cause": cause, "step": "status", "age_ms": 5}
        body = push.state(1, self.seq, {"minio": {**push.members(self.address), "verdicts": {self.address: verdict}}})
        response = push.put(("127.0.0.1", self.sidecar.status_port), push.signed(self.key, "pod-1", body), body)
        assert response.status == 200, repr(response)


@pytest.fixture
def pushed(sidecar, folder):
    """pushed(address, probe) starts a sidecar that takes pushes: (sidecar, pusher)."""

    def start(address, probe):
        key = push.Key(folder)
        s = sidecar({"id": "pod-1", "push": {"public_key_file": key.public},
                     **s3(address, probe={"interval": "1h", **probe})})
        assert judged(s)["status"] == "healthy"
        return s, Pusher(s, key, address)

    return start


def test_pushed_rejection_blocks_only_when_our_own_key_is_rejected_too(pushed, store, keys):
    st = store()
    s, controller = pushed(st.address, keys())
    asked = len(st.asked)
    controller.say("auth-rejected", "credentials rejected (the controller's)")
    wait_until("an own look", lambda: len(st.asked) > asked, 15)
    assert s.get("/releases/x").header("X-Fairlead-Error") is None
    assert s.backend("minio")["verdict"]["status"] == "healthy", "own evidence first"
    st.keys = {KEY: "another"}
    asked = len(st.asked)
    controller.say("auth-rejected", "credentials rejected (the controller's)")
    wait_until("an own look", lambda: len(st.asked) > asked, 15)
    v = verdict_becomes(s, "auth-rejected")
    assert v["cause"] == f"credentials rejected (status=403 code=SignatureDoesNotMatch key={MASKED})"
    assert s.get("/releases/x").header("X-Fairlead-Error") == "backend_unavailable"


def test_pushed_rejection_never_blocks_an_anonymous_prober(pushed, origin):
    o = origin("a")
    s, controller = pushed(o.address, {})
    asked = o.requests
    controller.say("auth-rejected", "credentials rejected (the controller's)")
    time.sleep(0.5)
    assert o.requests == asked, "an unsigned look could say nothing of keys"
    assert s.get("/releases/x").status == 200


def test_pushed_unreachable_is_confirmed_by_an_own_answer(pushed, origin):
    o = origin("a")
    s, controller = pushed(o.address, {"timeout": "300ms"})
    asked = o.requests
    controller.say("unreachable", "connect refused over there")
    wait_until("an own look", lambda: o.requests > asked)
    assert s.get("/releases/x").status == 200
    wait_until("the disagreement", lambda: "from the controller" in str(s.peer("minio", o.address)["verdict"]))
    o.rules("hang")
    controller.say("unreachable", "connect refused over there")
    verdict_becomes(s, "unreachable")
    assert s.get("/releases/x").status == 503
