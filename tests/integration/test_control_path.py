"""The control path with real processes: membership file → controller → signed push → sidecar → traffic."""
import datetime
import json
import os
import random
import signal
import socket
import subprocess
import time

import pytest

from bed import push
from bed.process import SLACK, wait_until
from bed.sidecar import Sidecar, chain
from conftest import binary

ID = "pod-7f3a"
SERVICE = {"namespace": "storage", "name": "minio", "port": "s3"}
DISABLED = "upstream server temporarily disabled"


class FixedPorts:
    """Hands out given ports: for a sidecar that is started again at the same place."""

    def __init__(self, *ports):
        self.ports = list(ports)

    def take(self):
        return self.ports.pop(0)


def backend(**keys):
    return {"protocol": "http", "service": SERVICE, "probe": {"type": "none"}, **keys}


def sidecar_config(key, **keys):
    """A sidecar whose file defines the backend and whose members come by push."""
    config = {"id": ID, "push": {"public_key_file": key.public}, "start_wait": "500ms", "boot_probe": "off",
              "backends": {"pool": backend(keepalive={"idle": 0})},
              "routes": {"*": {"backend": "pool", "connect_timeout": "300ms"}}}
    config.update(keys)
    return config


def controller_config(key, file, *sidecars, interval="30s", **keys):
    return {"source": f"file:{file.path}", "push": {"signing_key_file": key.private},
            "probe_defaults": {"interval": interval},
            "backends": {"pool": {"service": SERVICE, "probe": {"type": "none"}}},
            "sidecars": [{"address": s.address if isinstance(s, push.FakeSidecar) else f"127.0.0.1:{s.status_port}",
                          "id": ID} for s in sidecars], **keys}


@pytest.fixture
def again(yard, folder, request):
    """again(sidecar, config) starts a killed or ended one at the same ports."""

    def start(old, config=None, wait=True):
        ports = FixedPorts(old.data_port, old.admin_port, old.status_port)
        fresh = yard.add(Sidecar(binary("fairlead-sidecar"), config or old.config, folder, ports,
                                 name=f"{old.name} again"), request.node.nodeid)
        return fresh.wait_started() if wait else fresh

    return start


def addresses(sidecar, name="pool"):
    """Members; not the DNS name that stands in for them before the first push."""
    return sorted(p["address"] for p in sidecar.backend(name)["peers"] if p["state"] != "unresolved")


def wait_members(sidecar, *origins, timeout=1.0, name="pool"):
    want = sorted(o if isinstance(o, str) else o.address for o in origins)
    wait_until(lambda: f"members {want}, has {addresses(sidecar, name)}",
               lambda: addresses(sidecar, name) == want, timeout)


def wait_filled(sidecar, timeout=5):
    def filled():
        try:
            return addresses(sidecar)
        except OSError:
            return []  # not yet listening

    wait_until("members", filled, timeout)


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def served_by(sidecar, count=8):
    answers = [sidecar.get("/x") for _ in range(count)]
    assert {a.status for a in answers} == {200}, answers
    return {a.origin for a in answers}


# ---- membership -------------------------------------------------------------------------------------------------
def test_the_file_changes_and_within_a_second_traffic_follows(sidecar, controller, origins, key, file):
    a, b, c = origins(3)
    file.set(a)
    s = sidecar(sidecar_config(key), wait=False)
    controller(controller_config(key, file, s))
    s.wait_started()
    wait_filled(s)
    assert served_by(s) == {"a"}

    file.set(a, b)
    wait_members(s, a, b)
    assert served_by(s) == {"a", "b"}

    file.set(b, c)
    wait_members(s, b, c)
    a.forget()
    assert served_by(s, 12) == {"b", "c"}
    assert a.requests == 0, "a peer that left gets no request"


def test_a_backend_that_the_controller_defines_needs_nothing_in_the_sidecars_file(sidecar, controller, origins, key,
                                                                                 file):
    a, b = origins(2)
    file.set(a, {"address": b.address, "terminating": True})
    s = sidecar(sidecar_config(key, backends={}, routes={}))
    assert s.get("/x").status == 421
    controller(controller_config(key, file, s, backends={"minio": backend(max_fails=3)},
                                 routes={"*": {"backend": "minio", "read_timeout": "7s"}}))
    wait_until("the pushed backend", lambda: any(x["name"] == "minio" and x["peers"]
                                                 for x in s.admin("/_/api/admin/backends")["backends"]))
    assert served_by(s) == {"a"}, "a terminating peer is the last resort"
    assert {p["address"]: p["tier"] for p in s.backend("minio")["peers"]} == {a.address: "primary",
                                                                              b.address: "last_resort"}
    assert "7s" in json.dumps(s.admin("/_/api/admin/routes"))
    a.refuse()
    assert s.get("/x").origin == "b", "nobody else is left"


def test_an_endpoint_that_is_not_ready_is_out_and_one_that_only_serves_comes_last(sidecar, controller, origins, key,
                                                                                  file):
    a, b, c = origins(3)
    file.set(a, {"address": b.address, "ready": False}, {"address": c.address, "serving": False})
    s = sidecar(sidecar_config(key), wait=False)
    controller(controller_config(key, file, s))
    wait_filled(s)
    assert {p["address"]: p["tier"] for p in s.backend("pool")["peers"]} == {a.address: "primary",
                                                                             c.address: "last_resort"}


def test_nobody_left_is_no_live_upstream_and_never_had_members_is_no_membership(sidecar, controller, origin, key,
                                                                                file):
    a = origin("a")
    s = sidecar(sidecar_config(key, start_wait="200ms"))
    response = s.get("/x")
    assert response.status == 503 and response.header("X-Fairlead-Error") == "no_membership"
    assert s.admin("/_/ready")["membership"] == "waiting"
    file.set(a)
    controller(controller_config(key, file, s))
    wait_filled(s)
    assert s.get("/x").status == 200
    assert s.admin("/_/ready")["membership"] == "ready"
    file.set()
    wait_members(s)
    response = s.get("/x")
    assert response.status == 503 and response.header("X-Fairlead-Error") == "no_live_upstream"


def test_started_waits_for_members_and_comes_with_the_first_push(sidecar, controller, origin, key, file):
    a = origin("a")
    s = sidecar(sidecar_config(key, start_wait="20s"), wait=False)

    def status():
        try:
            return s.ask("GET", "/_/started", port=s.status_port).status
        except OSError:
            return 0

    wait_until("the listener", lambda: status() != 0)
    time.sleep(0.3)
    assert status() == 503
    file.set(a)
    began = time.monotonic()
    controller(controller_config(key, file, s))
    wait_until("started", lambda: status() == 200, 5)
    assert time.monotonic() - began < 5, "long before start_wait"
    assert s.get("/x").status == 200, "started means that there are members"


def test_started_comes_after_start_wait_without_a_controller(sidecar, key):
    began = time.monotonic()
    s = sidecar(sidecar_config(key, start_wait="800ms"))
    assert 0.7 <= time.monotonic() - began < 4
    assert s.get("/x").header("X-Fairlead-Error") == "no_membership"


def test_what_health_knows_of_a_peer_survives_a_push(sidecar, controller, origins, key, file):
    a, b, c = origins(3)
    a.refuse()
    file.set(a, b)
    s = sidecar(sidecar_config(key, backends={"pool": backend(max_fails=1, fail_timeout="60s")}), wait=False)
    controller(controller_config(key, file, s))
    s.wait_started()
    wait_filled(s)
    assert served_by(s) == {"b"}
    s.wait_event(DISABLED, peer=a.address)
    before = s.peer("pool", a.address)
    assert before["state"] == "quarantined"
    file.set(a, b, c)
    wait_members(s, a, b, c)
    after = s.peer("pool", a.address)
    assert after["state"] == "quarantined"
    assert abs(moment(after["quarantined_until"]) - moment(before["quarantined_until"])) < 0.1
    a.listen()
    assert served_by(s, 12) == {"b", "c"}


# ---- the file ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["written in place", "link swapped", "configmap"])
def test_every_way_of_replacing_a_file_is_seen(fake, controller, key, folder, how):
    text = "services: {{storage/minio: {{ports: {{s3: 9000}}, endpoints: [{{address: {}}}]}}}}\n"
    file = push.Membership(folder)
    if how == "link swapped":
        for n in (1, 2):
            with open(f"{folder}/v{n}.yaml", "w", encoding="utf-8") as f:
                f.write(text.format(f"127.10.0.{n}"))
        os.symlink("v1.yaml", file.path)
    elif how == "configmap":
        for n in (1, 2):
            os.mkdir(f"{folder}/..v{n}")
            with open(f"{folder}/..v{n}/services.yaml", "w", encoding="utf-8") as f:
                f.write(text.format(f"127.10.0.{n}"))
        os.symlink("..v1", f"{folder}/..data")
        os.symlink("..data/services.yaml", file.path)
    else:
        file.write(text.format("127.10.0.1"))
    f = fake()
    controller(controller_config(key, file, f))
    assert f.wait(1).peers("pool") == ["127.10.0.1:9000"]
    if how == "link swapped":
        os.symlink("v2.yaml", file.path + ".new")
        os.rename(file.path + ".new", file.path)
    elif how == "configmap":
        os.symlink("..v2", f"{folder}/..data_tmp")
        os.rename(f"{folder}/..data_tmp", f"{folder}/..data")
    else:
        with open(file.path, "w", encoding="utf-8") as out:
            half = text.format("127.10.0.2")
            out.write(half[:40])
            out.flush()
            time.sleep(0.3)
            assert len(f.pushes) == 1, "a file that is being written is not read"
            out.write(half[40:])
    assert f.wait(2, 1).peers("pool") == ["127.10.0.2:9000"]


def test_a_broken_file_changes_nothing_is_told_once_and_ages(sidecar, controller, origins, key, file):
    a, b = origins(2)
    file.set(a)
    s = sidecar(sidecar_config(key), wait=False)
    c = controller(controller_config(key, file, s, interval="1s"))
    s.wait_started()
    wait_filled(s)
    broken = "membership file is broken, the last good one stays"
    for text in ("services: [", "services: [", "services: {storage/minio: {ports: {s3: 9000}, endpoint: []}}"):
        file.write(text)
        time.sleep(0.3)
    assert len(c.events(broken)) == 2, "once per distinct content"
    assert "endpoints" in c.events(broken)[1]["cause"], "names the nearest key"
    wait_until("the age to grow", lambda: c.metrics().sum("fairlead_controller_watch_age_seconds", resource="file")
               >= 6, 10, 0.2)
    assert len(c.events(broken)) == 2, "and the look every 5 s does not tell it again"
    assert c.admin("/_/api/admin/services")["error"] and c.admin("/_/ready")["membership"] == "stale"
    assert addresses(s) == [a.address] and s.get("/x").origin == "a"
    os.unlink(file.path)
    c.wait_event(broken, count=3)
    assert "No such file" in c.events(broken)[2]["cause"]
    file.set(b)
    wait_members(s, b)
    c.wait_event("membership file is good again")
    assert c.metrics().sum("fairlead_controller_watch_age_seconds", resource="file") < 6
    assert c.admin("/_/ready")["membership"] == "ready"


def test_a_controller_without_membership_pushes_nothing(fake, controller, key, file):
    f = fake()
    file.write("services: nonsense")
    c = controller(controller_config(key, file, f, interval="100ms"), wait=False)
    c.wait_event("membership file is broken, nothing is pushed")
    time.sleep(0.5)
    assert not f.connects, "sidecars keep what they have"
    assert c.ask("GET", "/_/ready").status == 503
    file.set("127.10.0.1")
    assert f.wait(1, 1).peers("pool") == ["127.10.0.1:9000"]
    assert c.ask("GET", "/_/ready").status == 200


# ---- who may push -----------------------------------------------------------------------------------------------
@pytest.fixture
def filled(sidecar, origin, key):
    """A sidecar with the set {a} of epoch 1000, seq 10, pushed by hand."""
    a = origin("a")
    s = sidecar(sidecar_config(key, start_wait="100ms"))
    body = push.state(1000, 10, {"pool": push.members(a)})
    response = push.put(("127.0.0.1", s.status_port), push.signed(key, ID, body), body)
    assert response.status == 200, response
    s.origin_a = a
    return s


def refused(sidecar, headers, body, statuses, path=push.PATH):
    response = push.put(("127.0.0.1", sidecar.status_port), headers, body, path)
    assert response.status in statuses, response
    assert addresses(sidecar) == [sidecar.origin_a.address] and sidecar.get("/x").origin == "a", "the old set serves"
    return response


def test_one_flipped_bit_anywhere_is_refused(filled, origin, key):
    body = push.state(1000, 11, {"pool": push.members(origin("evil"))})
    good = push.signed(key, ID, body)
    rng = random.Random(4711)
    for name in [n for n, _ in good]:
        for _ in range(6):
            value = dict(good)[name]
            at = rng.randrange(len(value))
            flipped = chr(ord(value[at]) ^ 1 << rng.randrange(7))
            if flipped in "\r\n\0" or not 0x20 < ord(flipped) < 0x7F:
                continue  # not a field value any more: refused below HTTP
            forged = [(n, v[:at] + flipped + v[at + 1:] if n == name else v) for n, v in good]
            refused(filled, forged, body, (400, 401, 409, 415))
    for _ in range(12):
        at, bit = rng.randrange(len(body)), rng.randrange(8)
        refused(filled, good, body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1:], (401,))
    assert push.put(("127.0.0.1", filled.status_port), good, body).status == 200, "the original is good"


def test_what_is_signed_for_another_path_pod_or_by_another_key_is_refused(filled, origin, key, folder):
    body = push.state(1000, 11, {"pool": push.members(origin("evil"))})
    refused(filled, push.signed(key, ID, body, path=push.PATH + "x"), body, (401,))
    refused(filled, push.signed(key, ID, body), body, (404,), push.PATH + "x")
    refused(filled, push.signed(key, ID, body), body, (400, 401, 404), push.PATH + "?x=1")
    refused(filled, push.signed(key, "pod-other", body), body, (409,))
    other = push.Key(folder, "other")
    refused(filled, push.signed(other, ID, body), body, (401,))
    refused(filled, push.signed(other, ID, body, keyid=key.id), body, (401,))
    refused(filled, push.signed(key, ID, body, created=time.time() - 25 * 3600), body, (401,))
    refused(filled, [("Content-Type", "application/json")], body, (401,))


def test_a_pair_that_is_not_higher_is_refused_and_told_what_is_in_force(filled, origin, key):
    evil = origin("evil")
    for epoch, seq in ((1000, 10), (1000, 9), (999, 5000), (0, 0)):
        body = push.state(epoch, seq, {"pool": push.members(evil)})
        response = refused(filled, push.signed(key, ID, body), body, (409,))
        told = json.loads(response.body)
        assert (told["epoch"], told["seq"]) == (1000, 10)


def test_a_state_that_is_no_configuration_changes_nothing(filled, key):
    body = push.state(1000, 11, {"pool": {"peers": [{"address": "nonsense"}]}})
    response = refused(filled, push.signed(key, ID, body), body, (400,))
    assert "nonsense" in response.text or "address" in response.text


# ---- epochs -----------------------------------------------------------------------------------------------------
def test_a_restarted_controller_goes_on(sidecar, controller, origins, key, file):
    a, b, c = origins(3)
    file.set(a)
    s = sidecar(sidecar_config(key), wait=False)
    first = controller(controller_config(key, file, s))
    s.wait_started()
    wait_filled(s)
    first.kill()
    file.set(b)  # while there is no controller
    second = controller(controller_config(key, file, s))
    wait_members(s, b, timeout=3)
    second.kill()
    file.set(c)
    third = controller(controller_config(key, file, s))  # within the same second as the one before, as like as not
    wait_members(s, c, timeout=3)
    pod = third.admin("/_/api/admin/pods")["pods"][0]
    assert pod["state"] == "current" and pod["epoch"] > 1_600_000_000 and pod["failures"] == 0


def test_a_higher_epoch_is_told_and_gone_above(sidecar, controller, origin, key, file):
    a = origin("a")
    s = sidecar(sidecar_config(key, start_wait="100ms"))
    epoch = int(time.time()) + 5000
    body = push.state(epoch, 3, {"pool": push.members("127.0.0.1:1")})
    assert push.put(("127.0.0.1", s.status_port), push.signed(key, ID, body), body).status == 200
    file.set(a)
    c = controller(controller_config(key, file, s))
    wait_members(s, a, timeout=3)
    line = c.wait_event("sidecar knows a higher epoch")
    assert line["told_epoch"] == epoch and line["level"] == "warn" and "another controller" in line["hint"]
    assert c.admin("/_/api/admin/pods")["pods"][0]["epoch"] == epoch + 1


# ---- who is away ------------------------------------------------------------------------------------------------
def test_a_dead_controller_stops_nothing(sidecar, controller, origins, key, file):
    a, b = origins(2)
    file.set(a, b)
    s = sidecar(sidecar_config(key), wait=False)
    c = controller(controller_config(key, file, s, interval="300ms"))
    s.wait_started()
    wait_filled(s)
    c.kill()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert served_by(s) == {"a", "b"}
        time.sleep(0.1)
    assert addresses(s) == sorted([a.address, b.address])


def test_the_state_file_serves_before_any_push_and_the_push_comes_within_an_interval(sidecar, controller, again,
                                                                                     origins, key, file, folder):
    a, b = origins(2)
    file.set(a)
    config = sidecar_config(key, state_file=os.path.join(folder, "state"), start_wait="20s")
    s = sidecar(config, wait=False)
    c = controller(controller_config(key, file, s, interval="2s"))
    s.wait_started()
    c.freeze()
    s.kill()
    s = again(s)  # started means that there are members
    assert served_by(s) == {"a"}, "with nobody to push"
    s.kill()
    file.set(b)
    began = time.monotonic()
    s = again(s)
    c.thaw()
    wait_members(s, b, timeout=5)
    assert time.monotonic() - began < 5


def test_a_wiped_sidecar_is_filled_again_within_an_interval(sidecar, controller, again, origin, key, file):
    a = origin("a")
    file.set(a)
    s = sidecar(sidecar_config(key), wait=False)
    c = controller(controller_config(key, file, s, interval="1s"))
    s.wait_started()
    wait_filled(s)
    s.kill()
    s = again(s, wait=False)
    wait_filled(s, 4)
    assert addresses(s) == [a.address] and s.get("/x").status == 200 and c.running


def test_a_sidecar_that_is_down_is_tried_ever_more_rarely_and_told_at_the_third_failure(fake, controller, key, file):
    f = fake(lambda push: None)
    file.set("127.10.0.1")
    c = controller(controller_config(key, file, f, interval="200ms"))
    line = c.wait_event("SidecarUnreachable", 8)
    assert line["failures"] == 3 and line["sidecar"] == f.address and line["id"] == ID
    assert line["code"] == "premature_close" and "mesh" in line["hint"]
    wait_until("the fourth try", lambda: len(f.connects) >= 4, 10)
    gaps = [b - a for a, b in zip(f.connects, f.connects[1:])]
    for gap, least in zip(gaps, (1, 2, 4)):
        assert least * 0.95 <= gap <= least * 1.5 + 0.5, gaps
    assert c.metrics().sum("fairlead_controller_sidecars", state="unreachable") == 1
    assert c.metrics().sum("fairlead_controller_push_lag_seconds") > 6
    pod = c.admin("/_/api/admin/pods")["pods"][0]
    assert pod["state"] == "unreachable" and pod["last_error"]["code"] == "premature_close"
    assert c.admin("/_/ready")["status"] == "degraded"


@pytest.mark.parametrize("answer, code, hint", [
    ((401, {"token": "unknown_key", "detail": "no such key"}), "http_401", "public_key_file"),
    ((404, None), "http_404", "status listener"),
    ((409, {"token": "other_pod"}), "http_409", "another id"),
    ((413, None), "http_413", "1 MiB"),
    (0.7, "read_timeout", "mesh"),
])
def test_each_failure_has_its_cause_and_hint(fake, controller, key, file, answer, code, hint):
    f = fake(lambda push: answer)
    file.set("127.10.0.1")
    c = controller(controller_config(key, file, f, push={"signing_key_file": key.private, "timeout": "300ms"}))
    line = c.wait_event("push failed")
    assert line["code"] == code and hint in line["hint"] and f.address in line["cause"]


def test_nobody_listens(dead, controller, key, file, fake):
    file.set("127.10.0.1")
    address = dead()
    config = controller_config(key, file)
    config["sidecars"] = [{"address": address, "id": ID}]
    line = controller(config).wait_event("push failed")
    assert line["code"] == "connect_refused" and "Connection refused" in line["cause"]


def test_a_sidecar_may_be_given_by_name(fake, controller, key, file):
    f = fake()
    file.set("127.10.0.1")
    config = controller_config(key, file)
    config["sidecars"] = [{"address": f"localhost:{f.port}", "id": ID}, {"address": "no-such.invalid:1", "id": "x"}]
    c = controller(config)
    assert f.wait(1).peers("pool") == ["127.10.0.1:9000"]
    line = c.wait_event("push failed", sidecar="no-such.invalid:1", timeout=8)
    assert line["code"] in ("dns", "read_timeout", "connect_timeout")


# ---- the plan, seen from the wire -------------------------------------------------------------------------------
def test_a_removal_goes_out_at_once_and_an_addition_settles(fake, controller, key, file):
    f = fake()
    file.set("127.10.0.1", "127.10.0.2")
    controller(controller_config(key, file, f))
    f.wait(1)
    times = {"removal": [], "addition": []}
    for round_ in range(5):
        moment = file.set("127.10.0.1")
        times["removal"].append(f.wait(2 * round_ + 2).at - moment)
        moment = file.set("127.10.0.1", "127.10.0.2")
        times["addition"].append(f.wait(2 * round_ + 3).at - moment)
    assert min(times["removal"]) < 0.02, times
    # `moment` is late when this process had to wait for its turn: one early figure proves nothing
    assert 0.045 <= sorted(times["addition"])[2] < 0.2 * SLACK, times


def test_a_slow_sidecar_gets_the_newest_state_next_and_no_queue(fake, controller, key, file):
    def slow(push):
        time.sleep(0.5)
        return push_ok(push)

    push_ok = push.FakeSidecar.accept
    f, quick = fake(slow), fake()
    file.set("127.10.0.1")
    config = controller_config(key, file, f, quick)
    config["sidecars"][1]["id"] = "quick"
    controller(config)
    f.wait(1)
    for n in range(2, 9):
        file.set(f"127.10.0.{n}")  # each takes the one before away
        time.sleep(0.03)
    assert f.wait(2, 2).peers("pool") == ["127.10.0.8:9000"], "none of those between"
    assert f.open_most == 1, "one push in flight"
    wait_until("the quick one", lambda: quick.pushes[-1].peers("pool") == ["127.10.0.8:9000"])
    assert len(quick.pushes) >= 5, "a slow sidecar holds nobody up"
    time.sleep(0.7)
    assert len(f.pushes) == 2


def test_an_unchanged_state_is_pushed_again_with_a_new_seq(fake, controller, key, file):
    f = fake()
    file.set("127.10.0.1")
    c = controller(controller_config(key, file, f, interval="200ms"))
    f.wait(4)
    assert [p.seq for p in f.pushes[:4]] == [1, 2, 3, 4] and len({p.epoch for p in f.pushes}) == 1
    assert len({json.dumps(p.state["backends"]) for p in f.pushes}) == 1
    assert f.pushes[0].fields["fairlead-sidecar"] == ID
    assert c.metrics().sum("fairlead_controller_push_lag_seconds") == 0


def test_another_hash_is_pushed_over_once_and_told_once(fake, controller, key, file):
    f = fake(lambda p: push.FakeSidecar.accept(p, "00000000000000ff"))
    file.set("127.10.0.1")
    c = controller(controller_config(key, file, f, interval="1s"))
    f.wait(2)
    assert f.pushes[1].at - f.pushes[0].at < 0.3, "at once"
    f.wait(4, 5)
    assert f.pushes[2].at - f.pushes[1].at > 0.5, "then with the interval only"
    assert len(c.events("sidecar drifted")) == 1


def test_the_sidecars_own_findings_are_shown(sidecar, controller, origins, key, file):
    a, b = origins(2)
    b.refuse()
    file.set(a, b)
    probing = backend(probe={"type": "tcp", "interval": "10s", "timeout": "500ms"})
    s = sidecar(sidecar_config(key, backends={"pool": probing}, boot_probe="warn"), wait=False)
    c = controller(controller_config(key, file, s, interval="300ms"))
    s.wait_started()

    def codes():
        pods = c.admin("/_/api/admin/pods")["pods"]
        return {o["peer"]: o["code"] for o in pods[0]["observations"]}

    wait_until(lambda: f"both views, has {codes()}",
               lambda: codes().get(a.address) == "healthy" and codes().get(b.address) == "connect_refused", 8, 0.1)
    pool = next(x for x in c.admin("/_/api/admin/backends")["backends"] if x["name"] == "pool")
    seen = {p["address"]: p["sidecars"] for p in pool["peers"]}
    assert seen[a.address]["reached"] == 1 and seen[b.address]["failing"] == 1
    assert seen[b.address]["seen_by"] == f"127.0.0.1:{s.status_port}"


# ---- the program ------------------------------------------------------------------------------------------------
def run(folder, config, *args):
    path = os.path.join(folder, "c.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(config if isinstance(config, str) else json.dumps(config))
    return subprocess.run([binary("fairlead-controller"), "--config", path, *args], capture_output=True, text=True,
                          timeout=20, check=False)


def test_without_a_cluster_the_kubernetes_source_says_what_it_misses(folder, key, monkeypatch):
    done = run(folder, "source: kubernetes\n")
    assert done.returncode == 2 and "push.signing_key_file: is missing" in done.stderr
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    done = run(folder, {"source": "kubernetes", "push": {"signing_key_file": key.private},
                        "listen": {"admin": "127.0.0.1:0", "status": "127.0.0.1:0"}})
    assert done.returncode == 1 and "KUBECONFIG" in done.stderr


def test_a_missing_or_wrong_key_is_a_clear_error(folder, key, file):
    file.set()
    config = controller_config(key, file)
    config["sidecars"] = [{"address": "127.0.0.1:1", "id": ID}]
    for value, words in (("", "signing_key_file is missing"), (folder + "/none", "No such file"),
                         (key.public, "not an unencrypted ed25519 private key")):
        config["push"]["signing_key_file"] = value
        for args in ((), ("--check",)):
            done = run(folder, config, *args)
            assert done.returncode == 2 and words in done.stderr.replace(": ", " ", 99).replace("  ", " "), done.stderr


def test_check_looks_at_the_membership_file_too(folder, key, file):
    file.write("services:\n  storage/minio:\n    ports: {s3: 9000}\n    endpoint: []\n")
    done = run(folder, controller_config(key, file), "--check")
    assert done.returncode == 2 and f"{file.path}:4: error" in done.stderr and "endpoints" in done.stderr
    file.set("127.10.0.1")
    done = run(folder, controller_config(key, file), "--check")
    assert done.returncode == 0
    done = run(folder, controller_config(key, file), "--show-config")
    assert done.returncode == 0 and "settle: 50ms" in done.stdout


def test_a_taken_port_refuses_the_start(folder, key, file, ports):
    file.set()
    with socket.socket() as taken:
        port = ports.take()
        taken.bind(("127.0.0.1", port))
        taken.listen()
        config = controller_config(key, file, listen={"status": f"127.0.0.1:{port}", "admin": "127.0.0.1:0"})
        done = run(folder, config)
    assert done.returncode == 1 and "cannot listen" in done.stderr and str(port) in done.stderr


def test_sighup_reads_the_configuration_again_or_refuses_it(fake, controller, key, file):
    f, g = fake(), fake()
    file.set("127.10.0.1")
    config = controller_config(key, file, f)
    c = controller(config)
    f.wait(1)
    listen = {"admin": f"127.0.0.1:{c.admin_port}", "status": f"127.0.0.1:{c.status_port}"}
    c.write_config({**config, "listen": listen, "nonsense": 1})
    c.signal(signal.SIGHUP)
    c.wait_event("config refused")
    fresh = controller_config(key, file, f, g, backends={"pool": backend(), "more": {"service": SERVICE}},
                              listen=listen)
    fresh["sidecars"][1]["id"] = "g"
    c.write_config(fresh)
    c.signal(signal.SIGHUP)
    assert set(g.wait(1).state["backends"]) == {"pool", "more"}
    assert f.wait(2).state["backends"]["pool"]["protocol"] == "http"
    c.write_config({**fresh, "sidecars": fresh["sidecars"][1:]})
    c.signal(signal.SIGHUP)
    c.wait_event("config applied", count=2)
    file.set("127.10.0.2")
    wait_until("g's push", lambda: g.pushes[-1].peers("pool") == ["127.10.0.2:9000"])
    time.sleep(0.1)
    assert f.pushes[-1].peers("pool") == ["127.10.0.1:9000"], "no longer one of ours"
