"""Verdicts with real processes: the controller probes for the whole cluster, pushes what it finds, and hears what the
pods see; both views are shown on both sides.

The controller's probe of a backend that a sidecar's file defines is its own business: here it asks for /controller,
the sidecar for /health, so that the origin can be away for one of them only."""
import json
import signal
import time

import pytest

from bed import push
from bed.probing import keys, store  # noqa: F401 (fixtures)
from bed.process import SLACK, wait_until
from bed.wire import Wire

ID = "pod-7f3a"
SERVICE = {"namespace": "storage", "name": "minio", "port": "s3"}
AWAY = "path=/controller rst_request=0"
OTHER = "unreachable from the controller, reachable from this pod"


def pod(key, interval="1s", **keys):
    """A sidecar whose members and interval probes are the controller's."""
    return {"id": ID, "push": {"public_key_file": key.public}, "start_wait": "500ms", "boot_probe": "warn",
            "backends": {"pool": {"protocol": "http", "service": SERVICE, "max_fails": 0, "probe": {
                "type": "http", "path": "/health", "interval": interval, "timeout": "1s"}, **keys}},
            "routes": {"*": {"backend": "pool", "connect_timeout": "300ms"}}}


def head(key, file, *sidecars, interval="1s", probe=None, **keys):
    at = [s.address if isinstance(s, push.FakeSidecar) else f"127.0.0.1:{s.status_port}" for s in sidecars]
    return {"source": f"file:{file.path}", "push": {"signing_key_file": key.private, "settle": "20ms"},
            "probe_defaults": {"interval": interval, "timeout": "1s"},
            "backends": {"pool": {"service": SERVICE, "probe": {"type": "http", "path": "/controller",
                                                                **(probe or {})}}},
            "sidecars": [{"address": a, "id": ID} for a in at], **keys}


@pytest.fixture
def pair(sidecar, controller, origin, key, file):
    """pair(*rules, sidecar=…, controller=…): one origin, both processes, both verdicts known."""

    def start(*rules, interval="1s", here=None, there=None):
        o = origin("a", *rules)
        file.set(o)
        s = sidecar(pod(key, interval, **(here or {})), wait=False)
        c = controller(head(key, file, s, interval=interval, **(there or {})))
        s.wait_started()
        wait_until("a verdict on either side", lambda: seen(c)["status"] != "unknown" and verdict(s)["status"] !=
                   "unknown", 10)
        return o, s, c

    return start


def seen(controller, name="pool"):
    """The controller's verdict of a backend."""
    backends = controller.admin("/_/api/admin/backends")["backends"]
    return next((b["verdict"] for b in backends if b["name"] == name), {"status": "unknown"})


def pods_see(controller):
    backends = controller.admin("/_/api/admin/backends")["backends"]
    return next(b for b in backends if b["name"] == "pool")["peers"][0]["sidecars"]


def verdict(sidecar):
    return sidecar.backend("pool")["verdict"]


def becomes(look, status, timeout=6):
    wait_until(lambda: f"{status}, is {look()}", lambda: look()["status"] == status, timeout)
    return look()


def test_what_both_see_blocks_and_what_both_see_again_opens(pair):
    o, s, c = pair()
    assert seen(c)["status"] == "healthy" and s.get("/x").status == 200
    o.refuse()
    down = becomes(lambda: seen(c), "unreachable")
    assert down["code"] == "connect_refused" and down["step"] == "connect" and o.address in down["cause"]
    becomes(lambda: verdict(s), "unreachable", 1.5)
    assert s.backend("pool")["blocked"] and verdict(s)["other_view"] == ""
    assert s.get("/x").header("X-Fairlead-Error") == "backend_unavailable"
    event = c.wait_event("backend unhealthy")
    assert (event["level"], event["backend"], event["status"], event["peers_down"]) == \
        ("error", "pool", "unreachable", "1/1")
    wait_until("the pod's own finding", lambda: pods_see(c)["failing"] == 1)
    assert pods_see(c)["code"] == "connect_refused" and pods_see(c)["cause"]
    m = c.metrics()
    assert m.sum("fairlead_controller_backend_state", backend="pool", state="unreachable") == 1
    assert m.sum("fairlead_controller_backend_state", backend="pool") == 1
    assert m.sum("fairlead_controller_probes_total", backend="pool", result="healthy") >= 1
    assert m.sum("fairlead_controller_probes_total", backend="pool", result="unreachable") >= 1
    o.listen()
    becomes(lambda: seen(c), "healthy")
    wait_until("service", lambda: s.get("/x").status == 200)
    event = c.wait_event("backend recovered")
    assert event["level"] == "info" and 0 < event["downtime_secs"] < 15
    assert len(c.events("backend unhealthy")) == 1


def test_what_only_the_controller_cannot_reach_stays_open_and_both_sides_say_so(pair):
    o, s, c = pair()
    o.rules(AWAY)
    becomes(lambda: seen(c), "unreachable")
    wait_until("the other view", lambda: verdict(s)["other_view"] == OTHER)
    wait_until("the controller to hear of it", lambda: seen(c)["other_view"] ==
               "unreachable from the controller, reachable from 1 of 1 pods")
    for _ in range(20):
        assert s.get("/x").status == 200 and not s.backend("pool")["blocked"]
        time.sleep(0.05)
    assert pods_see(c)["reached"] == 1 and pods_see(c)["failing"] == 0
    o.rules()
    becomes(lambda: seen(c), "healthy")
    wait_until("agreement", lambda: verdict(s)["other_view"] == "" and seen(c)["other_view"] == "")


def slow_look(pair, policy):
    """The controller cannot reach it, and the sidecar's own look takes a while."""
    o, s, c = pair(here={"verdicts": policy}, interval="2s")
    o.forget()
    o.rules(AWAY, "path=/health delay=800")
    becomes(lambda: seen(c), "unreachable")
    return o, s, c


def blocked_within(s, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if s.backend("pool")["blocked"]:
            return True
        time.sleep(0.01)
    return False


def test_trust_blocks_before_the_own_look_has_ended(pair):
    o, s, c = slow_look(pair, "trust")
    assert blocked_within(s, 0.7)
    response = s.get("/x")
    assert response.status == 503 and response.header("X-Fairlead-Error") == "backend_unavailable"
    o.rules()
    wait_until("service", lambda: s.get("/x").status == 200, 8)


def test_trust_blocks_once_for_one_opinion_however_often_it_is_said(pair):
    """The controller says "unreachable" with every push; the pod has looked since and goes on looking."""
    o, s, c = pair(here={"verdicts": "trust"}, interval="500ms")
    o.forget()
    o.rules(AWAY)
    becomes(lambda: seen(c), "unreachable")
    wait_until("the own look", lambda: verdict(s)["other_view"] == OTHER and not s.backend("pool")["blocked"])
    s.wait_event("backend recovered")
    said, version = len(s.events("backend")), s.admin("/_/api/admin/backends")["health_version"]
    assert len(s.events("backend unhealthy")) == len(s.events("backend recovered")) == 1
    assert not blocked_within(s, 4), "a refresh is no news"
    assert len(s.events("backend")) == said and s.admin("/_/api/admin/backends")["health_version"] == version
    assert len([e for e in o.ledger() if e.target == "/health"]) >= 4, "but it is asked about each time"
    o.refuse()
    becomes(lambda: verdict(s), "unreachable", 2)
    assert s.backend("pool")["blocked"], "and when the pod sees it, too, it blocks"


def test_a_look_from_before_the_change_is_shown_as_such(pair):
    o, s, c = pair(interval="5s")

    def ask(program):
        return json.loads(program.ask("POST", "/_/api/admin/backends/pool/probe", b"",
                                      {"Content-Type": "application/json"}).body)["verdict"]

    assert ask(c)["status"] == "healthy"  # not again for a while
    o.rules("path=/health rst_request=0")
    view = "reachable from the controller, unreachable from this pod"
    assert ask(s)["status"] == "unreachable"
    wait_until("what the controller saw before", lambda: verdict(s)["other_view"] ==
               f"{view}; the controller has not looked since")
    wait_until("its look of now", lambda: verdict(s)["other_view"] == view, 12)


def test_confirm_does_not(pair):
    _, s, _ = slow_look(pair, "confirm")
    assert not blocked_within(s, 1.5)
    assert verdict(s)["other_view"] == OTHER


def test_ignore_hears_nothing(pair):
    o, s, c = slow_look(pair, "ignore")
    assert not blocked_within(s, 1.5)
    assert verdict(s)["other_view"] == "" and verdict(s)["status"] == "healthy"
    assert not [e for e in o.ledger() if e.target == "/health"], "no look of its own either"


def test_without_the_controller_its_word_lasts_three_intervals_and_no_longer(pair):
    o, s, c = pair(interval="2s")
    o.rules(AWAY)
    becomes(lambda: seen(c), "unreachable")
    wait_until("the other view", lambda: verdict(s)["other_view"] == OTHER)
    probed = c.events("backend unhealthy")
    c.kill()
    gone = time.monotonic()
    assert probed
    while time.monotonic() - gone < 1:
        assert verdict(s)["other_view"] == OTHER, "not before its time"
        assert s.get("/x").status == 200, "blocks nothing"
        time.sleep(0.05)
    wait_until("the word to expire", lambda: verdict(s)["other_view"] == "", 7.5)
    assert s.get("/x").status == 200 and verdict(s)["status"] == "healthy"


def test_without_the_controller_nothing_opens_early_and_the_pod_finds_the_way_back(pair):
    o, s, c = pair(interval="1s")
    o.refuse()
    becomes(lambda: verdict(s), "unreachable")
    c.kill()
    end = time.monotonic() + 4.5
    while time.monotonic() < end:  # longer than three intervals
        assert s.get("/x").header("X-Fairlead-Error") == "backend_unavailable"
        time.sleep(0.1)
    o.listen()
    wait_until("service", lambda: s.get("/x").status == 200, 3)


# ---- what is pushed, and when -----------------------------------------------------------------------------------
def verdicts_of(p, backend="pool"):
    return p.state["backends"].get(backend, {}).get("verdicts", {})


def wait_verdict(f, status, timeout=8):
    wait_until(lambda: f"{status} in a push", lambda: any(
        v["status"] == status for p in f.pushes for v in verdicts_of(p).values()), timeout)
    return next(p for p in f.pushes for v in verdicts_of(p).values() if v["status"] == status)


def test_a_verdict_that_blocks_does_not_settle(fake, controller, origin, key, file):
    o = origin("a")
    file.set(o)
    f = fake()
    config = head(key, file, f)
    config["push"]["settle"] = "3s"
    c = controller(config)
    wait_verdict(f, "healthy")
    o.refuse()
    event = c.wait_event("backend unhealthy")
    found = time.monotonic()
    p = wait_verdict(f, "unreachable", 1)
    assert p.at - found < 0.3 * SLACK, event
    v = verdicts_of(p)[o.address]
    assert v["age_ms"] <= 10 * SLACK and v["code"] == "connect_refused" and v["step"] == "connect"
    o.listen()
    c.wait_event("backend recovered")
    assert verdicts_of(f.pushes[-1])[o.address]["status"] == "unreachable", "good news may settle"


def test_an_unchanged_verdict_is_refreshed_each_interval(fake, controller, origin, key, file):
    o = origin("a")
    file.set(o)
    f = fake()
    controller(head(key, file, f, interval="500ms"))
    first = wait_verdict(f, "healthy")
    time.sleep(4)
    later = [p for p in f.pushes if p.at > first.at]
    assert 5 <= len(later) <= 10, [round(p.at - first.at, 2) for p in later]
    ages = [verdicts_of(p)[o.address]["age_ms"] for p in later]
    assert max(ages) < 900 * SLACK, ages
    assert [p.seq for p in later] == sorted({p.seq for p in later})
    assert 6 <= o.requests <= 12


def test_what_hangs_is_found_so_again_before_sidecars_forget_it(fake, controller, origin, key, file):
    o = origin("a", "hang")
    file.set(o)
    f = fake()
    controller(head(key, file, f, probe={"timeout": "600ms"}))  # two attempts: longer than the interval
    wait_verdict(f, "unreachable")
    time.sleep(9)
    told = [(p.at, p.at - v["age_ms"] / 1000) for p in f.pushes for v in verdicts_of(p).values()]
    oldest = [later[0] - earlier[1] for earlier, later in zip(told, told[1:])]  # just before the next push
    assert max(oldest) < 2.6, [round(x, 2) for x in oldest]


def test_keys_sign_the_probe_and_never_leave(fake, controller, store, keys, key, file):  # noqa: F811
    st = store(buckets=("releases",))
    file.set(st.address)
    f = fake()
    config = head(key, file, f, routes={"releases": {"backend": "minio"}}, backends={"minio": {
        "protocol": "s3", "service": SERVICE, "probe": {"type": "s3", **keys(secret="wrong")}}})
    c = controller(config)
    event = c.wait_event("backend unhealthy", 8)
    assert event["status"] == "auth-rejected" and "SignatureDoesNotMatch" in event["cause"]
    keys()  # rotated: read anew for each probe
    c.wait_event("backend recovered", 8)
    assert f.pushes and all(b"key_file" not in p.body and b"secret" not in p.body and b"wrong" not in p.body
                            for p in f.pushes)
    assert any(v["status"] == "auth-rejected" for p in f.pushes for v in verdicts_of(p, "minio").values())


def test_a_backend_that_is_only_filled_is_asked_for_a_connect(controller, origin, key, file, fake):
    o = origin("a", "hang")
    file.set(o)
    config = head(key, file, fake())
    config["backends"] = {"pool": {"service": SERVICE}}
    c = controller(config)
    becomes(lambda: seen(c), "healthy")
    assert o.requests == 0


def test_a_peer_that_is_written_as_a_name_is_probed_at_each_of_its_addresses(fake, controller, origin, key, file):
    o = origin("a")
    name = f"localhost:{o.port}"
    file.set("127.0.0.1:1")
    f = fake()
    there = head(key, file, f)
    there["backends"] = {"pool": {"protocol": "http", "peers": [{"address": name}], "probe": {
        "type": "http", "path": "/controller", "interval": "1s", "timeout": "1s"}}}
    c = controller(there)
    becomes(lambda: seen(c), "healthy", 10)
    asked = next(e for e in o.ledger() if e.target == "/controller")
    assert asked.header("Host") == name, "as a sidecar would ask"
    assert wait_verdict(f, "healthy") and list(verdicts_of(f.pushes[-1])) == [name], "the verdict is the name's"
    o.rules(AWAY)
    down = becomes(lambda: seen(c), "unreachable", 10)
    assert down["code"] == "premature_close" and f"127.0.0.1:{o.port}" in down["cause"], "which address, and why"
    wait_verdict(f, "unreachable")
    peer = next(b for b in c.admin("/_/api/admin/backends")["backends"] if b["name"] == "pool")["peers"][0]
    assert peer["address"] == name and peer["verdict"]["status"] == "unreachable"
    o.rules()
    tested = c.ask("POST", "/_/api/admin/backends/pool/probe", b"", {"Content-Type": "application/json"})
    assert tested.status == 200 and json.loads(tested.body)["verdict"]["status"] == "healthy"


def test_a_sidecar_takes_the_verdict_of_a_name_for_each_of_its_addresses(sidecar, origin, key):
    o = origin("a")
    name = f"localhost:{o.port}"
    config = pod(key, interval="60s", verdicts="trust")
    config["backends"]["pool"].update(peers=[{"address": name}])
    del config["backends"]["pool"]["service"]
    s = sidecar(config)
    becomes(lambda: verdict(s), "healthy")
    o.rules("path=/health delay=700")
    for seq, said in ((1, name), (2, "elsewhere:9000")):
        body = push.state(1, seq, {"pool": {"verdicts": {said: {
            "status": "unreachable", "code": "connect_timeout", "cause": "x", "step": "connect", "age_ms": 0}}}})
        assert push.put(("127.0.0.1", s.status_port), push.signed(key, ID, body), body).status == 200
        assert blocked_within(s, 0.5) == (said == name)
        wait_until(lambda: f"the own look, seq {seq}: {s.backend('pool')}", lambda: not s.backend("pool")["blocked"] and verdict(s)["other_view"] == OTHER)


def test_connection_test(controller, origin, key, file, fake):
    o = origin("a")
    file.set(o)
    c = controller(head(key, file, fake(), interval="1h"))

    def ask(name="pool", method="POST"):
        return c.ask(method, f"/_/api/admin/backends/{name}/probe", b"" if method == "POST" else None,
                     {"Content-Type": "application/json"})

    response = ask()
    assert response.status == 200, repr(response)
    said = json.loads(response.body)
    assert said["name"] == "pool" and said["verdict"]["status"] == "healthy"
    assert said["peers"][0]["verdict"]["status"] == "healthy" and said["peers"][0]["probing"] is False
    o.refuse()
    said = json.loads(ask().body)
    assert said["verdict"]["status"] == "unreachable" and said["peers"][0]["verdict"]["code"] == "connect_refused"
    assert ask("nobody").status == 404
    assert ask(method="GET").status == 405
    other = c.ask("POST", "/_/api/admin/backends/pool/probe", b"", {"Content-Type": "application/json",
                                                                    "Origin": "http://elsewhere.example"})
    assert other.status == 403, "not from a foreign page"


def test_who_waits_for_a_probe_does_not_hold_up_the_end(controller, origin, key, file, fake):
    file.set(origin("a", "hang"))
    c = controller(head(key, file, fake(), interval="1h", probe={"timeout": "20s"}))
    with Wire(("127.0.0.1", c.admin_port), 5) as wire:
        wire.request("POST", "/_/api/admin/backends/pool/probe", [("Content-Type", "application/json")], b"")
        wait_until("the probe", lambda: c.admin("/_/api/admin/backends")["backends"][0]["peers"][0]["probing"])
        c.terminate()
        assert c.wait(3) == 0


def test_a_verdict_of_another_definition_is_forgotten(controller, origin, key, file, fake):
    o = origin("a", AWAY)
    file.set(o)
    config = head(key, file, fake(), interval="2s")
    c = controller(config)
    becomes(lambda: seen(c), "unreachable")
    config["backends"]["pool"]["probe"]["path"] = "/else"
    config["listen"] = c.config["listen"]
    c.write_config(config)
    c.signal(signal.SIGHUP)
    c.wait_event("config applied")
    becomes(lambda: seen(c), "healthy", 1)


# ---- many -------------------------------------------------------------------------------------------------------
def total(c, result=None):
    return c.metrics().sum("fairlead_controller_probes_total", **({"result": result} if result else {}))


def test_a_large_cluster_is_probed_evenly_hung_peers_delay_nobody_and_a_stop_flips_none(controller, origin, key, file,
                                                                                      fake):
    interval = 8
    o = origin("a", host="0.0.0.0", ledger=False)
    hung = origin("hung", "hang", host="0.0.0.0", ledger=False)
    file.set()

    def listed(i, at):
        return {"protocol": "http", "probe": {"type": "http", "path": "/health", "timeout": "500ms"},
                "peers": [{"address": f"127.0.{i + 1}.{k + 1}:{at.port}"} for k in range(4)]}

    backends = {f"b{i}": listed(i, o) for i in range(200)}
    backends.update({f"hung{i}": listed(i, hung) for i in range(5)})
    c = controller(head(key, file, fake(), interval=f"{interval}s", backends=backends))
    wait_until(lambda: f"800 healthy, {total(c)}", lambda: total(c, "healthy") >= 800, 15, 0.2)
    time.sleep(interval)
    before, began = total(c, "healthy"), time.monotonic()
    time.sleep(interval)
    after, passed = total(c, "healthy"), time.monotonic() - began
    rate, want = (after - before) / passed, 800 / interval
    assert 0.8 * want <= rate <= 1.2 * want, f"{rate:.1f}/s, not {want}/s"

    c.signal(signal.SIGSTOP)
    time.sleep(interval / 2)
    c.signal(signal.SIGCONT)
    before = total(c, "healthy")
    time.sleep(interval)
    assert total(c, "healthy") - before >= 800 * 0.8
    flipped = {e["backend"] for e in c.events("backend unhealthy")}
    assert flipped == {f"hung{i}" for i in range(5)}
    m = c.metrics()
    assert m.sum("fairlead_controller_backend_state", state="healthy") == 200
    assert m.sum("fairlead_controller_probes_total", result="unreachable", backend="b0") == 0
    assert sum(m.sum("fairlead_controller_probes_total", result="unreachable", backend=f"b{i}")
               for i in range(200)) == 0
