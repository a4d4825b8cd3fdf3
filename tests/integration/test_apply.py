"""Applying a configuration, by PUT /_/api/admin/config and by SIGHUP: one door. Judged whole, changed backends probed
first, then all of it or nothing."""
import json
import os
import re
import signal
import threading
import time

import pytest
import yaml

from bed import push
from bed.config import backend, http as unprobed
from bed.origin import generated
from bed.play import Caller, paced
from bed.probing import http, judged, keys, s3, store, verdict_becomes
from bed.process import wait_until
from bed.s3_store import Silent
from bed.sidecar import Dumper
from bed.tls import TlsServer, certs

YAML = {"Content-Type": "application/yaml"}
JSON = {"Content-Type": "application/json"}


def put(s, config, query="", kind=YAML, timeout=15):
    body = config if isinstance(config, (str, bytes)) else yaml.dump(config, Dumper=Dumper, sort_keys=False)
    return s.ask("PUT", "/_/api/admin/config" + query, body if isinstance(body, bytes) else body.encode(), kind,
                 timeout=timeout)


def running(s):
    """Everything that a refused apply must leave as it was."""
    config = s.ask("GET", "/_/api/admin/config")
    assert config.status == 200
    backends = s.admin("/_/api/admin/backends")
    return {
        "hash": config.header("ETag"),
        "config": config.text,
        "ready": s.admin("/_/ready"),
        "badges": [(b["name"], b["blocked"], {k: b["verdict"][k] for k in ("status", "cause", "note", "source")})
                   for b in backends["backends"]],
        "peers": [(b["name"], p["address"], p["state"], p["verdict"]["status"]) for b in backends["backends"]
                  for p in b["peers"]],
        "health_version": backends["health_version"],
    }


def sentence(name, cause, remedy):
    return (f"config refused: backend '{name}' failed its connection probe — {cause}. {remedy} and re-apply "
            "(nothing was changed)")


def with_peer(config, address, name="pool"):
    changed = json.loads(json.dumps(config))
    changed["backends"][name]["peers"] = [{"address": address}]
    return changed


# ---- the gate ---------------------------------------------------------------------------------------------------
def test_a_refused_connection_refuses_the_apply_and_nothing_changes(sidecar, origin, dead):
    o = origin("a")
    s = sidecar(http(o))
    judged(s, "pool")
    before, gone = running(s), dead()
    response = put(s, with_peer(s.config, gone))
    cause = f"connect to {gone} failed (Connection refused)"
    words = sentence("pool", cause, "Fix the address, or start the backend,")
    assert response.status == 400 and response.header("Content-Type") == "application/problem+json"
    problem = json.loads(response.body)
    assert (problem["status"], problem["token"], problem["backend"], problem["cause"], problem["detail"]) == \
        (400, "config_refused", "pool", cause, words)
    assert response.header("X-Fairlead-Error") == "config_refused"
    assert problem["refused"] == [{"backend": "pool", "status": "unreachable", "code": "connect_refused",
                                   "cause": cause, "detail": words}]
    assert f'"{problem["hash"]}"' == before["hash"]
    line = s.wait_event("config refused")
    assert (line["level"], line["backend"], line["cause"], line["detail"], line["source"]) == \
        ("error", "pool", cause, words, "api")
    event = s.admin("/_/api/admin/events")["events"][-1]
    assert (event["kind"], event["backend"], event["text"]) == ("config_refused", "pool", words)
    assert running(s) == before
    assert not s.events("backend unhealthy"), "the verdict on the refused definition is nobody's"
    assert s.get("/x").origin == "a"


FAULTS = {
    "hang": (["hang"], "{a} accepts connections but does not answer", "Fix the endpoint, or the backend behind it,"),
    "reset": (["rst_request=0"], "{a} closed the connection without an answer (Connection reset by peer)",
              "Fix the endpoint, or the backend behind it,"),
    "closed": (["fin_response=0"], "{a} closed the connection without an answer",
               "Fix the endpoint, or the backend behind it,"),
    "not http": ([r'raw="SSH-2.0-x\r\n"'], "the answer of {a} is not valid HTTP",
                 "Fix the endpoint, or the backend behind it,"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_definite_fault_is_named(sidecar, origins, name):
    rules, cause, remedy = FAULTS[name]
    a, b = origins(2)
    b.rules(*rules)
    s = sidecar(http(a, probe={"timeout": "200ms"}))
    judged(s, "pool")
    before = running(s)
    response = put(s, with_peer(s.config, b.address))
    assert response.status == 400, repr(response)
    assert json.loads(response.body)["detail"] == sentence("pool", cause.format(a=b.address), remedy)
    assert running(s) == before


def test_a_connect_that_times_out_refuses(sidecar, origin, ports):
    s = sidecar(http(origin("a"), probe={"timeout": "200ms"}))
    silent = Silent(ports)
    response = put(s, with_peer(s.config, silent.address))
    assert response.status == 400
    assert json.loads(response.body)["cause"] == f"connect to {silent.address} timed out"
    silent.close()


def test_a_name_that_gives_no_address_refuses(sidecar, origin):
    s = sidecar(http(origin("a")))
    response = put(s, with_peer(s.config, "no-such-host.invalid:9000"), timeout=40)
    assert response.status == 400, repr(response)
    problem = json.loads(response.body)
    assert problem["cause"].startswith("no address for no-such-host.invalid:9000 ("), problem
    assert "Fix the name, or the DNS that should know it, and re-apply (nothing was changed)" in problem["detail"]


def test_a_name_is_resolved_before_it_is_probed(sidecar, origins):
    a, b = origins(2)
    s = sidecar(http(a))
    response = put(s, with_peer(s.config, f"localhost:{b.port}"), timeout=40)
    assert response.status == 200, repr(response)
    wait_until("b to serve", lambda: s.get("/x").origin == "b")


def test_rejected_keys_refuse_and_the_keys_of_the_running_one_stay(sidecar, store, keys):
    st = store()
    s = sidecar(s3(st.address, probe=keys()))
    assert judged(s)["status"] == "healthy"
    before = running(s)
    wrong = json.loads(json.dumps(s.config))
    path = wrong["backends"]["minio"]["probe"]["secret_key_file"] + ".new"
    with open(path, "w", encoding="ascii") as f:
        f.write("wrong\n")
    wrong["backends"]["minio"]["probe"]["secret_key_file"] = path
    response = put(s, wrong)
    assert response.status == 400, repr(response)
    problem = json.loads(response.body)
    assert problem["refused"][0]["status"] == "auth-rejected"
    assert problem["detail"] == sentence(
        "minio", "credentials rejected (status=403 code=SignatureDoesNotMatch key=AKIA****E7)",
        "Fix the keys in probe.access_key_file and probe.secret_key_file")
    assert running(s) == before


def test_erroring_only_warns(sidecar, origins):
    a, b = origins(2)
    b.rules("path=/health status=503")
    s = sidecar(http(a))
    judged(s, "pool")
    response = put(s, with_peer(s.config, b.address))
    assert response.status == 200, repr(response)
    answer = json.loads(response.body)
    assert any(f"backend 'pool': {b.address} answered with status 503" in w for w in answer["warnings"]), answer
    assert s.get("/x").origin == "b"
    verdict_becomes(s, "erroring", "pool")


def test_force_skips_the_gate(sidecar, origin, dead):
    s = sidecar(http(origin("a")))
    judged(s, "pool")
    gone = dead()
    response = put(s, with_peer(s.config, gone), "?force=1")
    assert response.status == 200, repr(response)
    verdict_becomes(s, "unreachable", "pool")
    assert put(s, s.config, "?force=yes").status == 400


@pytest.mark.parametrize("mode, status", [("off", 200), ("warn", 400), ("enforce", 400)])
def test_boot_probe_off_skips_the_gate_and_warn_does_not(sidecar, origin, dead, mode, status):
    s = sidecar({**http(origin("a")), "boot_probe": mode})
    response = put(s, with_peer(s.config, dead()))
    assert response.status == status, repr(response)


def test_only_what_changed_is_probed(sidecar, origins, dead):
    """… and what is unhealthy already does not stand in the way of a change elsewhere."""
    a, b, c = origins(3)
    config = http(a)
    config["backends"]["other"] = {**config["backends"]["pool"], "peers": [{"address": b.address}]}
    config["backends"]["gone"] = {**config["backends"]["pool"], "peers": [{"address": dead()}]}
    s = sidecar(config)
    for name in ("pool", "other", "gone"):
        judged(s, name)
    a.forget(), b.forget()
    policy = {**s.config, "routes": {"*": {"backend": "pool", "read_timeout": "7s"},
                                     "third": {"backend": "gone"}}}
    assert put(s, policy).status == 200, "routes and policies are no definition"
    weights = json.loads(json.dumps(policy))
    weights["backends"]["pool"].update(max_fails=7, balance="least_conn", max_conns=3)
    assert put(s, weights).status == 200
    assert a.requests == b.requests == 0
    changed = with_peer(weights, c.address, "other")
    assert put(s, changed).status == 200
    assert [e.target for e in c.ledger()][0] == "/health"
    assert a.requests == b.requests == 0
    assert s.backend("gone")["verdict"]["status"] == "unreachable"


@pytest.mark.parametrize("kind", ["http", "s3", "tcp", "name"])
def test_what_an_accepted_apply_asked_is_not_asked_again(sidecar, origins, keys, kind):
    """The gate's verdict and its connection are taken over: one probe, one connection, and no moment without them."""
    a, b = origins(2)
    make = s3 if kind == "s3" else http
    probe = {"interval": "1h", **(keys() if kind == "s3" else {"type": "tcp"} if kind == "tcp" else {})}
    s = sidecar(make(a, probe=probe))
    name = "minio" if kind == "s3" else "pool"
    judged(s, name)
    before = s.metrics().sum("fairlead_probes_total", backend=name)
    assert put(s, with_peer(s.config, f"localhost:{b.port}" if kind == "name" else b.address, name), timeout=40).status == 200
    v = s.backend(name)["verdict"]
    assert (v["status"], v["source"]) == ("healthy", "own"), "known at once"
    if kind != "s3":
        assert s.get("/x").origin == "b", "served at once"
    time.sleep(0.3)
    probes = [e for e in b.ledger() if e.target in ("/health", "/releases")]
    assert len(probes) == (0 if kind == "tcp" else 1)
    if kind in ("http", "s3"):
        assert s.ask("POST", f"/_/api/admin/backends/{name}/probe", b"", JSON).status == 200
        assert {e.conn for e in b.ledger() if e.target in ("/health", "/releases")} == {probes[0].conn}
        assert s.metrics().sum("fairlead_probes_total", backend=name) == before + 2
    if kind == "tcp":
        assert b.accepted <= 2, "the gate's connect, and the request's"


def test_a_tls_backend_is_shaken_hands_with_once(sidecar, origin, ports, certs):
    authority = certs.ca()
    server = TlsServer(ports, certs.issue("good", authority))
    s = sidecar(http(origin("a"), probe={"interval": "1h"}))
    judged(s, "pool")
    changed = with_peer(s.config, server.address)
    changed["backends"]["pool"]["tls"] = {"ca_file": authority[0], "server_name": "store.example"}
    assert put(s, changed).status == 200
    assert s.backend("pool")["verdict"]["status"] == "healthy"
    time.sleep(0.3)
    assert [rq.target for rq in server.seen] == ["/health"] and server.accepted == 1
    server.close()


def test_a_verdict_that_is_taken_over_is_told(sidecar, origin):
    o = origin("a", "path=/other status=503")
    s = sidecar(http(o))
    judged(s, "pool")
    warned = json.loads(json.dumps(s.config))
    warned["backends"]["pool"]["probe"]["path"] = "/other"
    assert put(s, warned).status == 200
    line = s.wait_event("backend unhealthy")
    assert (line["level"], line["status"]) == ("warn", "erroring")
    assert s.backend("pool")["verdict"]["status"] == "erroring"
    assert len([e for e in o.ledger() if e.target == "/other"]) == 1


def test_a_green_gate_opens_a_quarantine_as_any_probe_that_people_ask_for(sidecar, origins):
    two = origins(2)
    for o in two:
        o.rules("path=/x rst_request=0")
    s = sidecar(http(*two, fail_timeout="60s", probe={"interval": "1h"}))
    judged(s, "pool")
    states = lambda: [p["state"] for p in s.backend("pool")["peers"]]

    def all_out():  # the first green probe opens one, a failed trial closes it for good
        s.get("/x")
        return states() == ["quarantined"] * 2

    wait_until("both quarantined", all_out, 10, 0.3)
    time.sleep(1.5)
    s.get("/x")
    assert states() == ["quarantined"] * 2
    changed = json.loads(json.dumps(s.config))
    changed["backends"]["pool"]["probe"]["path"] = "/other"
    assert put(s, changed).status == 200
    assert "probation" in states(), states()
    assert s.get("/y").status == 200


def test_one_of_several_peers_may_be_down(sidecar, origins, dead):
    a, b = origins(2)
    s = sidecar(http(a))
    judged(s, "pool")
    gone = dead()
    config = with_peer(s.config, b.address)
    config["backends"]["pool"]["peers"].append({"address": gone})
    response = put(s, config)
    assert response.status == 200, repr(response)
    assert any(gone in w for w in json.loads(response.body)["warnings"])


def test_backends_are_probed_side_by_side(sidecar, origins):
    slow = origins(5)
    a = slow.pop()
    for o in slow:
        o.rules("path=/health delay=700")
    s = sidecar(http(a))
    config = json.loads(json.dumps(s.config))
    for i, o in enumerate(slow):
        config["backends"][f"b{i}"] = {**config["backends"]["pool"], "peers": [{"address": o.address}]}
    start = time.monotonic()
    assert put(s, config).status == 200
    assert 0.6 < time.monotonic() - start < 1.8


def test_several_refused_backends_are_all_named(sidecar, origin, dead):
    s = sidecar(http(origin("a")))
    config = json.loads(json.dumps(s.config))
    for name in ("one", "two"):
        config["backends"][name] = {**config["backends"]["pool"], "peers": [{"address": dead()}]}
    problem = json.loads(put(s, config).body)
    assert [r["backend"] for r in problem["refused"]] == ["one", "two"]
    s.wait_event("config refused", count=2)
    assert [line["backend"] for line in s.events("config refused")] == ["one", "two"], "a line each"


def test_a_second_apply_waits_for_nobody(sidecar, origins):
    a, b = origins(2)
    b.rules("path=/health delay=1500")
    s = sidecar(http(a))
    results = []
    thread = threading.Thread(target=lambda: results.append(put(s, with_peer(s.config, b.address))))
    thread.start()
    b.until(requests=1)
    busy = put(s, s.config)
    assert busy.status == 409 and json.loads(busy.body)["token"] == "busy", repr(busy)
    assert s.admin("/_/ready")["status"] == "ready", "the control thread goes on meanwhile"
    assert s.get("/x").origin == "a", "not yet in force"
    thread.join()
    assert results[0].status == 200
    assert s.get("/x").origin == "b"


def test_one_that_is_told_to_end_does_not_wait_for_an_apply(sidecar, origins):
    a, b = origins(2)
    b.rules("path=/health hang")
    s = sidecar(http(a, probe={"timeout": "20s"}))
    threading.Thread(target=lambda: pytest.raises(Exception, put, s, with_peer(s.config, b.address)),
                     daemon=True).start()
    b.until(requests=1)
    s.terminate()
    assert s.wait(5) == 0


@pytest.mark.parametrize("way", ["as it is", "YAML library", "JSON"])
def test_what_get_shows_is_taken_back_by_put(sidecar, origin, way):
    """... unchanged, also by way of a library that takes a bare `off` for a boolean and `1.10` for a number."""
    o = origin("a")
    config = {"boot_probe": "off", "access_log": "off", "hosts": ["off.example"], "backends": {
        "no": backend(o, protocol="s3", tls={"verify": False}, panic_threshold="0%", quarantine_max="8x"),
        "1e3": backend({"address": o.address, "backup": True}, o.address.replace("127.0.0.1", "127.0.0.2"))},
        "routes": {"off": {"backend": "no", "deadline": "off", "long_deadline": "off", "expect_gate": "off",
                           "next_upstream": "off", "paths": {"/on/": {"count_failures": "off"}, "= /1.0": {}}},
                   "true": {"backend": "1e3", "replay_body": "0"}, "123": {"backend": "1e3"}, "1.10": {"backend": "no"}}}
    s = sidecar(config)
    shown = s.ask("GET", "/_/api/admin/config")
    read = yaml.safe_load(shown.body)
    assert read["routes"]["off"]["deadline"] == "off" and "1.10" in read["routes"] and read["boot_probe"] == "off"
    text = shown.body if way == "as it is" else yaml.safe_dump(read) if way == "YAML library" else json.dumps(read)
    answer = put(s, text, kind=JSON if way == "JSON" else YAML)
    assert answer.status == 200 and json.loads(answer.body)["changed"] is False, answer.text
    assert s.ask("GET", "/_/api/admin/config").body == shown.body
    assert not json.loads(answer.body)["warnings"]


# ---- SIGHUP -----------------------------------------------------------------------------------------------------
def test_sighup_goes_through_the_same_gate(sidecar, origins, dead):
    a, b = origins(2)
    s = sidecar(http(a))
    judged(s, "pool")
    before, gone, good = running(s), dead(), dict(s.config)
    s.write_config(with_peer(good, gone))
    s.signal(signal.SIGHUP)
    line = s.wait_event("config refused")
    cause = f"connect to {gone} failed (Connection refused)"
    assert line["source"] == "file" and line["cause"] == cause
    assert line["detail"] == sentence("pool", cause, "Fix the address, or start the backend,")
    assert running(s) == before
    s.write_config(with_peer(good, b.address))
    s.signal(signal.SIGHUP)
    s.wait_event("config applied", source="file", file=s.config_file)
    assert s.get("/x").origin == "b"


def test_a_file_that_was_put_right_is_not_kept_waiting(sidecar, origins):
    """A reload that still asks a hanging backend gives way to the next one."""
    a, b, c = origins(3)
    b.rules("path=/health hang")
    s = sidecar(http(a, probe={"timeout": "20s"}))
    good = dict(s.config)
    s.write_config(with_peer(good, b.address))
    s.signal(signal.SIGHUP)
    b.until(requests=1)
    s.write_config(with_peer(good, c.address))
    s.signal(signal.SIGHUP)
    s.wait_event("config applied")
    assert s.get("/x").origin == "c"
    assert len(s.events("config applied")) == 1 and not s.events("config refused")


def test_a_reload_waits_for_an_apply_of_the_api(sidecar, origins):
    a, b, c = origins(3)
    b.rules("path=/health delay=700")
    s = sidecar(http(a))
    results = []
    config = with_peer(s.config, b.address)
    s.write_config(with_peer(s.config, c.address))
    thread = threading.Thread(target=lambda: results.append(put(s, config)))
    thread.start()
    b.until(requests=1)
    s.signal(signal.SIGHUP)
    thread.join()
    assert results[0].status == 200, "decided as if nobody had asked meanwhile"
    s.wait_event("config applied", source="file")
    assert [e["source"] for e in s.events("config applied")] == ["api", "file"]
    assert s.get("/x").origin == "c"


def test_what_was_put_is_in_memory_only(sidecar, origins):
    a, b = origins(2)
    s = sidecar(http(a))
    response = put(s, with_peer(s.config, b.address))
    assert "in memory" in json.loads(response.body)["note"]
    assert s.get("/x").origin == "b"
    s.signal(signal.SIGHUP)
    s.wait_event("config applied", source="file")
    assert s.get("/x").origin == "a", "the file counts again"


def test_a_file_that_is_gone_changes_nothing(sidecar, origin):
    s = sidecar(http(origin("a")))
    judged(s, "pool")
    before = running(s)
    os.rename(s.config_file, s.config_file + ".gone")
    s.signal(signal.SIGHUP)
    line = s.wait_event("config refused")
    assert "No such file" in line["cause"]
    assert running(s) == before


# ---- forms ------------------------------------------------------------------------------------------------------
def test_what_get_shows_may_be_put_back(sidecar, origin):
    s = sidecar(http(origin("a")))
    judged(s, "pool")
    before = running(s)
    response = put(s, before["config"])
    assert response.status == 200 and json.loads(response.body)["changed"] is False, repr(response)
    assert running(s) == before


@pytest.mark.parametrize("kind", ["application/json", "application/yaml", "Application/JSON; charset=utf-8"])
def test_media_types(sidecar, origin, kind):
    s = sidecar(http(origin("a")))
    config = {**s.config, "slow_request": "7s"}
    response = put(s, json.dumps(config), kind={"Content-Type": kind})
    assert response.status == 200, repr(response)
    answer = json.loads(response.body)
    assert re.fullmatch("[0-9a-f]{16}", answer["hash"]) and answer["status"] == "applied" and answer["changed"]
    assert s.ask("GET", "/_/api/admin/config").header("ETag") == f'"{answer["hash"]}"'
    assert "slow_request: 7s" in s.ask("GET", "/_/api/admin/config").text


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_other_media_types_are_refused_before_the_body(sidecar, origin, kind):
    s = sidecar(http(origin("a")))
    assert put(s, s.config, kind={"Content-Type": kind} if kind else {}).status == 415


def test_env_overrides_hold_for_what_is_applied(sidecar, origin):
    s = sidecar(http(origin("a")), env={"FAIRLEAD_SLOW_REQUEST": "9s"})
    assert put(s, {**s.config, "slow_request": "7s"}).status == 200
    assert "slow_request: 9s" in s.ask("GET", "/_/api/admin/config").text


def test_keys_that_need_a_restart_stay_and_say_so(sidecar, origins):
    a, b = origins(2)
    s = sidecar(http(a))
    changed = with_peer({**s.config, "threads": 3, "max_connections": 77, "buffer_memory": "32MiB",
                         "replay_memory": "1MiB", "id": "other",
                         "listen": {**s.config["listen"], "data": ["127.0.0.1:1"], "status": "127.0.0.1:2"}},
                        b.address)
    response = put(s, changed)
    assert response.status == 200, repr(response)
    warnings = json.loads(response.body)["warnings"]
    for key in ("threads", "max_connections", "buffer_memory", "replay_memory", "id", "listen.data", "listen.status"):
        assert any(f"{key}: is taken at the start: restart to change it" in w for w in warnings), (key, warnings)
        assert any(re.match(r"PUT config:\d+: warning: " + key, w) for w in warnings), "with its line"
    assert s.get("/x").origin == "b", "the rest is in force"
    assert "threads: 3" not in s.ask("GET", "/_/api/admin/config").text


# ---- traffic ----------------------------------------------------------------------------------------------------
def test_traffic_does_not_notice(sidecar, origins):
    """Running exchanges, idle connections and what is known of peers live through applies, accepted or refused."""
    a, b, c = origins(3)
    c.rules("path=/x rst_request=0")
    s = sidecar(unprobed(a, b, c, max_fails=1, fail_timeout="60s", route={"next_upstream_tries": 3}))
    wait_until("c to be quarantined", lambda: s.get("/x") and s.events("upstream server temporarily disabled"))
    for o in (a, b):
        o.rules("size=200000 rate=100000 path=/long")
    downloads = [s.wire().request("GET", "/long") for _ in range(4)]
    quarantine = s.peer("pool", c.address)["quarantined_until"]
    stop = threading.Event()

    def apply():
        for i in range(20):
            bad = i % 2
            put(s, "routes: [" if bad else {**s.config, "slow_request": f"{5 + i}s"})
            if stop.wait(0.1):
                return

    thread = threading.Thread(target=apply)
    thread.start()
    caller = Caller(s.data)
    opened = a.stats()["accepted"] + b.stats()["accepted"]
    statuses = paced(100, 2.2, lambda i: caller.call("GET", "/x").status)
    stop.set()
    thread.join()
    assert set(statuses) == {200}
    assert all(w.response().body == generated(200000) for w in downloads)
    assert s.peer("pool", c.address)["state"] == "quarantined"
    assert s.peer("pool", c.address)["quarantined_until"][:19] == quarantine[:19]
    assert a.stats()["accepted"] + b.stats()["accepted"] - opened <= 16, \
        "idle connections are kept: at most one per worker and peer"


# ---- whose is it ------------------------------------------------------------------------------------------------
def test_what_is_the_controllers_is_left_alone(sidecar, origins, folder):
    """409 naming the owner; by SIGHUP it is logged; nothing changes either way."""
    a, b = origins(2)
    key = push.Key(folder)
    s = sidecar({"id": "pod-1", "push": {"public_key_file": key.public}, "boot_probe": "warn",
                 "backends": {"mine": backend(a)}, "routes": {"mine": {"backend": "mine"}}})
    body = push.state(1, 1, {"theirs": {"protocol": "http", "probe": {"type": "none"},
                                        **push.members(b.address)}}, {"theirs": {"backend": "theirs"}})
    status = ("127.0.0.1", s.status_port)
    assert push.put(status, push.signed(key, "pod-1", body), body).status == 200
    assert s.get("/theirs/x").origin == "b"
    before = running(s)
    head, found, tail = before["config"].partition("  theirs:\n")
    assert found and "max_fails: 1\n" in tail
    response = put(s, head + found + tail.replace("max_fails: 1\n", "max_fails: 7\n", 1))
    problem = json.loads(response.body)
    assert response.status == 409 and problem["token"] == "owned_by_controller", repr(response)
    assert "backends.theirs" in problem["detail"] and "controller" in problem["detail"]
    assert "nothing was changed" in problem["detail"]
    assert running(s) == before
    s.write_config({**s.config, "routes": {"theirs": {"backend": "mine"}}})
    s.signal(signal.SIGHUP)
    line = s.wait_event("config refused", source="file")
    assert "routes.theirs" in line["cause"] and "controller" in line["cause"]
    assert running(s) == before
    mine = before["config"].replace("slow_request: 5s\n", "slow_request: 7s\n")
    assert put(s, mine).status == 200, "what is the file's may be changed beside it"
    assert s.get("/theirs/x").origin == "b" and s.get("/mine/x").origin == "a"
