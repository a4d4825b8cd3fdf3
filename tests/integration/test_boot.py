"""The start: backends are probed at once and side by side, each that fails is named with its cause, and a process
without any working one ends."""
import json
import time

import pytest

from bed.config import backend
from bed.probing import judged, keys, s3, store, verdict_becomes
from bed.process import Process, wait_until
from test_apply import put

OVERRIDES = ["FAIRLEAD_BOOT_PROBE", "FAIRLEAD_PROBE_INTERVAL", "FAIRLEAD_DEADLINE", "FAIRLEAD_SLOW_REQUEST"]


def config(mode="enforce", **backends):
    """One bucket per backend, of its name."""
    return {"boot_probe": mode,
            "backends": {name: backend(where, probe={"type": "http", "path": "/health", "timeout": "300ms"})
                         for name, where in backends.items()},
            "routes": {name: {"backend": name} for name in backends}}


def ended(s, timeout=6):
    status = s.wait(timeout)
    assert status is not None, f"it still runs:\n{s.report()}"
    return status


def refused_cause(address):
    return f"connect to {address} failed (Connection refused)"


def test_some_fail_it_starts_degraded_and_names_each(sidecar, origins, dead):
    a, b = origins(2)
    b.rules("hang")
    gone = dead()
    s = sidecar(config(one=a, two=gone, three=b))
    s.wait_event("started with backends down")
    lines = {e["backend"]: e for e in s.events("backend unhealthy")}
    assert set(lines) == {"two", "three"} and len(s.events("backend unhealthy")) == 2, "one line each"
    assert lines["two"]["level"] == lines["three"]["level"] == "error"
    assert lines["two"]["cause"] == refused_cause(gone)
    assert lines["three"]["cause"] == f"{b.address} accepts connections but does not answer"
    summary = s.events("started with backends down")[0]
    assert (summary["level"], summary["backends"], summary["down"]) == ("warn", 3, 2)
    ready = s.admin("/_/ready")
    assert (ready["status"], ready["backend"]) == ("degraded", "ready")
    assert ready["backends"] == {"one": "healthy", "two": "unreachable", "three": "unreachable"}
    assert s.get("/one/x").status == 200
    for name in ("two", "three"):
        response = s.get(f"/{name}/x")
        assert response.status == 503 and response.header("X-Fairlead-Cause") == lines[name]["cause"]


def test_backends_are_probed_side_by_side(sidecar, origins):
    slow = origins(6)
    for o in slow:
        o.rules("path=/health delay=200")
    begin = time.monotonic()
    s = sidecar(config(**{f"b{i}": o for i, o in enumerate(slow)}))
    wait_until("all healthy", lambda: set(s.admin("/_/ready")["backends"].values()) == {"healthy"}, 5)
    assert time.monotonic() - begin < 0.2 * 1.5 + 0.6, "not one after another (and the process starts meanwhile)"
    assert [o.requests for o in slow] == [1] * 6


def test_it_listens_and_serves_while_it_probes(sidecar, origins):
    a, b = origins(2)
    for o in (a, b):
        o.rules("path=/health delay=250")
    s = sidecar(config(one=a, two=b))
    assert s.get("/one/x").status == 200
    assert s.admin("/_/ready")["backends"] == {"one": "unknown", "two": "unknown"}
    verdict_becomes(s, "healthy", "one")


def test_all_fail_and_it_ends_with_1(sidecar, dead, origin):
    gone, o = dead(), origin("a", "hang")
    begin = time.monotonic()
    s = sidecar(config(one=gone, two=o), wait=False, expected_exit=1)
    assert ended(s) == 1
    assert time.monotonic() - begin < 5
    lines = {e["backend"]: e for e in s.events("backend unhealthy")}
    assert set(lines) == {"one", "two"} and lines["one"]["cause"] == refused_cause(gone)
    last = s.events()[-1]
    assert last["level"] == "error" and last["msg"] == "every backend is down at boot"
    assert (last["boot_probe"], last["backends"], last["down"]) == ("enforce", 2, 2)
    assert "FAIRLEAD_BOOT_PROBE=warn" in last["remedy"]


def test_rejected_credentials_fail_a_boot_too(sidecar, store, keys):
    st = store()
    wrong = keys(secret="wrong")
    s = sidecar({**s3(st.address, probe=wrong), "boot_probe": "enforce"}, wait=False, expected_exit=1)
    assert ended(s) == 1
    line = s.events("backend unhealthy")[0]
    assert line["status"] == "auth-rejected" and "SignatureDoesNotMatch" in line["cause"]


def test_a_name_without_an_address_fails_a_boot(sidecar):
    s = sidecar(config(one="no-such-host.invalid:9000"), wait=False, expected_exit=1)
    assert ended(s, 45) == 1
    assert s.events("backend unhealthy")[0]["cause"].startswith("no address for no-such-host.invalid:9000 (")


@pytest.mark.parametrize("how", ["key", "environment"])
def test_warn_runs_and_answers_503(sidecar, dead, how):
    gone = dead()
    s = sidecar(config("warn" if how == "key" else "enforce", one=gone),
                env={"FAIRLEAD_BOOT_PROBE": "warn"} if how == "environment" else None)
    line = s.wait_event("every backend is down at boot")
    assert line["boot_probe"] == "warn" and "remedy" not in line
    response = s.get("/one/x")
    assert response.status == 503 and response.header("X-Fairlead-Cause") == refused_cause(gone)
    ready = s.ask("GET", "/_/ready", port=s.status_port)
    assert ready.status == 200 and b'"status":"degraded","backend":"unavailable"' in ready.body


def test_off_asks_nobody_and_the_first_request_decides(sidecar, origins, dead):
    a, b = origins(2)
    gone = dead()
    s = sidecar(config("off", one=a, two=gone, three=b))
    time.sleep(0.4)
    assert a.accepted == b.accepted == 0, "no probe"
    assert set(s.admin("/_/ready")["backends"].values()) == {"unknown"}
    assert not s.events("backend unhealthy") and not s.events("started with")
    response = s.get("/two/x")
    assert response.status == 502 and response.header("X-Fairlead-Error") == "upstream_failed"
    verdict_becomes(s, "unreachable", "two")
    assert s.get("/one/x").status == 200


def test_erroring_is_no_reason_to_end(sidecar, origin, dead):
    o = origin("a", "status=503 code=SlowDown")
    s = sidecar(config(one=o, two=dead()))
    s.wait_event("started with backends down")
    assert judged(s, "one")["status"] == "erroring"
    assert s.get("/one/x").status == 503 and s.get("/one/x").origin == "a", "it is asked"
    assert s.running


def test_without_probes_there_is_nothing_to_judge(sidecar, dead):
    unprobed = config(one=dead())
    unprobed["backends"]["one"]["probe"] = {"type": "none"}
    s = sidecar(unprobed)
    time.sleep(0.3)
    assert s.running and not s.events("every backend")
    assert s.get("/one/x").status == 502


def test_one_backend_without_a_probe_does_not_save_the_others(sidecar, dead, origin):
    """… it cannot be judged, so it does not count."""
    both = config(one=dead(), two=origin("a"))
    both["backends"]["two"]["probe"] = {"type": "none"}
    s = sidecar(both, wait=False, expected_exit=1)
    assert ended(s) == 1


def test_a_peer_that_comes_up_while_it_is_asked_again_is_in_time(sidecar, origin, ports):
    """A failed probe is tried a second time before it counts."""
    o = origin("a", "path=/health count=1 rst_request=0")
    s = sidecar(config(one=o))
    assert judged(s, "one")["status"] == "healthy" and o.requests == 2
    assert not s.events("backend unhealthy")


# ---- configuration faults ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("routes, words", [
    ({"one": {"backend": "onee"}}, ["routes.one", "onee", '"one"']),
])
def test_a_route_to_an_unknown_backend_is_the_same_fault_at_boot_and_on_an_apply(sidecar, origin, routes, words):
    o = origin("a")
    bad = {**config(one=o), "routes": routes}
    s = sidecar(bad, wait=False, expected_exit=2)
    assert ended(s) == 2
    fault = next(line for line in s.err.lines if ": error: " in line)
    assert all(w in fault for w in words), fault
    good = sidecar(config("warn", one=o))
    problem = json.loads(put(good, {**bad, "listen": good.config["listen"]}).body)
    assert problem["findings"] == [fault.replace(s.config_file, "PUT config", 1)]


def test_two_backends_of_one_name_are_the_same_fault_at_boot_and_on_an_apply(sidecar, origin):
    o = origin("a")
    good = sidecar(config("warn", one=o))
    text = (f"listen: {{data: ['127.0.0.1:{good.data_port}'], admin: '127.0.0.1:{good.admin_port}', "
            f"status: '127.0.0.1:{good.status_port}'}}\n"
            f"backends:\n  one: {{protocol: http, peers: [{{address: '{o.address}'}}]}}\n"
            f"  one: {{protocol: http, peers: [{{address: '{o.address}'}}]}}\nroutes: {{one: {{backend: one}}}}\n")
    problem = json.loads(put(good, text).body)
    path = good.config_file + ".twice"
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    check = Process("check", [good.argv[0], "--config", path, "--check"])
    assert check.wait(5) == 2
    fault = check.err.lines[0]
    assert problem["findings"] == [fault.replace(path, "PUT config", 1)] and "one" in fault and ":4: " in fault


@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("value", ["0", "soon", "-1s", "5"])
def test_overrides_that_are_zero_or_no_value_are_refused(sidecar, origin, name, value):
    s = sidecar(config(one=origin("a")), wait=False, env={name: value}, expected_exit=2)
    assert ended(s) == 2
    assert any(name in line and value in line for line in s.err.lines), s.err.text()


def test_overrides_count(sidecar, origin):
    s = sidecar(config("warn", one=origin("a")), env={"FAIRLEAD_PROBE_INTERVAL": "1s", "FAIRLEAD_SLOW_REQUEST": "9s",
                                              "FAIRLEAD_BOOT_PROBE": "warn"})
    text = s.ask("GET", "/_/api/admin/config").text
    for line in ("interval: 1s", "slow_request: 9s", "boot_probe: warn"):
        assert line in text, text
