"""docs/diagnose.md is true: every command in it is run as it stands, in its order, against twelve injected faults, and its
output must be what the guide shows. In what is shown, `…` stands for anything; ports, times and ids may differ.

FAIRLEAD_SHOW=1 prints what each command gives: that is where the guide's outputs come from."""
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
import yaml

from bed import push
from bed.config import backend
from bed.probing import keys, store  # noqa: F401 (fixtures)
from bed.process import wait_until
from bed.s3_store import Silent
from bed.sidecar import Dumper
from bed.tls import TlsServer, certs  # noqa: F401
from conftest import ROOT

GUIDE = (ROOT / "docs" / "diagnose.md").read_text(encoding="utf-8")
FAULTS = ["refused", "filtered", "hang", "closes", "ssh", "expired", "name", "secret", "clock", "region", "overload",
          "console"]


def commands():
    """(command, the output that the guide shows) of every fenced block, in order."""
    found = []
    for block in re.findall(r"^```\n(.*?)^```", GUIDE, re.M | re.S):
        if not block.startswith("$ "):
            continue
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            lines = part.split("\n")
            last = next(i for i, line in enumerate(lines) if not line.rstrip().endswith(("|", "\\", ",")))
            found.append(("\n".join(lines[:last + 1]), "\n".join(lines[last + 1:]).rstrip()))
    return found


VOLATILE = [(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"), (r"127\.0\.0\.1:\d+", "ADDRESS"),
            (r"\b[0-9a-f]{32}\b", "ID"), (r"\b\d+\.\d s\b", "SECS s"),
            (r"\b\d\d:\d\d:\d\d\.\d{3} UTC", "CLOCK UTC"),
            (r'"(\w+_secs|times)":"?[\d.]+"?', r'"\1":SECS'), (r"\b3[56]\d\d s ahead", "SKEW s ahead")]


def plain(text):
    for pattern, word in VOLATILE:
        text = re.sub(pattern, word, text)
    return "\n".join(line.rstrip() for line in re.sub(r"[ \t]{2,}|\t", "  ", text).split("\n")).strip()


def matches(shown, got):
    pieces = [re.escape(piece) for piece in plain(shown).split("…")]
    return re.fullmatch(r"[\s\S]*?".join(pieces), plain(got)) is not None


@pytest.fixture
def ground(sidecar, origin, dead, ports, store, keys, certs):  # noqa: F811
    """Twelve backends with a fault each, one that is well, one with a dead peer beside a good one."""
    silent, good = Silent(ports), origin("good", "path=/b-ok/slow delay=400")
    authority = certs.ca()
    server = TlsServer(ports, certs.issue("old", authority, days=0))
    wrong = dict(keys(secret="wrong"))
    for name, path in wrong.items():  # the next call writes the same files
        os.rename(path, path + ".wrong")
        wrong[name] = path + ".wrong"
    own = keys()
    where = {
        "refused": (dead(), {}), "filtered": (silent.address, {}), "hang": (origin("hang", "hang"), {}),
        "closes": (origin("closes", "fin_response=0"), {}), "ssh": (origin("ssh", r'raw="SSH-2.0-x\r\n"'), {}),
        "expired": (server.address, {"tls": {"ca_file": authority[0], "server_name": "store.example"}}),
        "name": ("minio.storage.svc.invalid:9000", {}), "secret": (store().address, wrong),
        "clock": (store(ahead=3600).address, own), "region": (store(region="eu-west-1").address, own),
        "overload": (origin("overload", "status=503 code=SlowDown"), {}),
        "console": (origin("console", 'status=404 header="Content-Type: text/html"'), {}),
    }
    probe = {"type": "s3", "interval": "60s", "timeout": "400ms"}
    backends = {}
    for name, (at, more) in where.items():
        tls = {"tls": more["tls"]} if "tls" in more else {}
        backends[name] = backend(at, protocol="s3", **tls, probe={**probe, **(more if not tls else {})})
    backends["ok"] = backend(good, protocol="s3", probe=probe)
    backends["two"] = backend(good, dead(), protocol="s3", probe=probe)
    s = sidecar({"boot_probe": "warn", "slow_request": "300ms", "backends": backends,
                 "routes": {f"b-{name}": {"backend": name, "connect_timeout": "300ms"} for name in backends}})
    wait_until("all verdicts", lambda: "unknown" not in s.admin("/_/ready")["backends"].values(), 45)
    changed = yaml.safe_load(yaml.dump(s.config, Dumper=Dumper))
    changed["backends"]["ok"]["peers"] = [{"address": "127.0.0.1:1"}]
    with open(os.path.join(s.folder, "sidecar.yaml.new"), "w", encoding="utf-8") as f:
        yaml.dump(changed, f, Dumper=Dumper, sort_keys=False)
    yield s
    silent.close()
    server.close()


def run(s, command):
    """What a person sees on standard output."""
    return typed(s, command).stdout


def typed(s, command):
    """As a person types it: $A, $D and $POD are set, and kubectl shows the logs of this very process."""
    log = os.path.join(s.folder, "log")
    with open(log, "w", encoding="utf-8") as f:
        f.write("\n".join([*s.out.lines, *s.err.lines]) + "\n")
    shell = (f"A=http://127.0.0.1:{s.admin_port} D=http://127.0.0.1:{s.data_port} POD=app-0\n"
             f'kubectl() {{ test "$*" = "logs app-0 -c fairlead" && cat {log}; }}\n')
    return subprocess.run(["bash", "-c", shell + command], cwd=s.folder, capture_output=True, text=True, timeout=60,
                          check=False)


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="jq or curl is not here")
def test_every_command_of_the_guide_gives_what_it_shows(ground):
    s = ground
    assert s.get("/b-ok/slow").status == 200 and s.get("/b-overload/k").status == 503
    s.wait_event("slow backend request")
    stop = threading.Event()

    def traffic():  # somebody uses the bucket meanwhile
        while not stop.wait(0.5):
            s.get("/b-hang/k")

    user = threading.Thread(target=traffic)
    user.start()
    wrong = []
    try:
        for command, shown in commands():
            start = time.monotonic()
            got = run(s, command)
            if os.environ.get("FAIRLEAD_SHOW"):
                print(f"\n$ {command}\n{got}", end="")
            if not matches(shown, got):
                wrong.append(f"$ {command}\n--- the guide shows\n{plain(shown)}\n--- it gave\n{plain(got)}")
            assert time.monotonic() - start < 20, command
    finally:
        stop.set()
        user.join()
    assert not wrong, "\n\n".join(wrong)


def diagnose(s):
    """The one command of the guide, as it stands there: what it says of each backend, and how long it took."""
    start = time.monotonic()
    printed, decoder, found = run(s, commands()[0][0]).strip(), json.JSONDecoder(), {}
    summary, end = decoder.raw_decode(printed)
    while printed[end:].strip():
        printed = printed[end:].strip()
        entry, end = decoder.raw_decode(printed)
        found[entry["backend"]] = entry
    assert summary.startswith(f"something is wrong with {len(found)} of " if found else "all is well: "), summary
    return found, time.monotonic() - start


# Of each fault: finding, code, what the remedy must speak of. The place and the cause are the backend's own.
SAID = {
    "refused": ("blocked", "connect_refused", "start the store"),
    "filtered": ("blocked", "connect_timeout", "network policy"),
    "hang": ("blocked", "no_answer", "restart it"), "closes": ("blocked", "premature_close", "look at its log"),
    "ssh": ("blocked", "invalid_header", "another service"), "expired": ("blocked", "tls_expired", "renew"),
    "name": ("blocked", "dns_failure", "DNS"), "secret": ("blocked", "credentials_rejected", "probe.secret_key_file"),
    "clock": ("erroring", "clock_skew", "NTP"), "region": ("erroring", "wrong_region", "probe.region"),
    "overload": ("erroring", "http_503", "overloaded"), "console": ("erroring", "not_s3", "a console"),
}


def test_the_one_command_names_fault_place_and_remedy_of_each_of_the_twelve(ground):
    s = ground
    asked = time.time()
    found, _ = diagnose(s)
    assert set(found) == {*FAULTS, "two"}, "and not the one that is well"
    for name, (finding, code, remedy) in SAID.items():
        said, b = found[name], s.backend(name)
        where = b["peers"][0]["address"]
        assert (said["finding"], said["code"], said["buckets"]) == (finding, code, f"b-{name}"), said
        assert where in said["peers"] and said["cause"] == b["verdict"]["cause"] and remedy in said["remedy"], said
        assert where in said["cause"] or code in ("credentials_rejected", "clock_skew", "wrong_region"), said
        assert unix(said["since"]) <= asked and said["last_well"] is None, said
        assert "this pod" in said["seen"] and "no second view" in said["seen"] and said["next"], said
        response = s.get(f"/b-{name}/k")
        if finding == "blocked":
            assert "503 backend_unavailable" in said["traffic"] and response.status == 503
            assert response.header("X-Fairlead-Error") == "backend_unavailable"
            assert (response.header("X-Fairlead-Backend"), response.header("X-Fairlead-Cause")) == (name, said["cause"])
        else:
            assert "the store's own answers" in said["traffic"] and response.header("X-Fairlead-Error") is None
        in_guide = {"tls_expired": "tls_…", "http_503": "http_500` … `http_503"}.get(code, code)
        assert f"`{in_guide}`" in GUIDE, f"the guide has a line on {code}"
        assert s.admin(f"/_/api/admin/explain?target=/b-{name}/k")["diagnosis"]["cause"] == said["cause"]
    assert "3600 s ahead" in found["clock"]["note"] and "eu-west-1" in found["region"]["cause"]
    assert found["region"]["note"] == "the store expects eu-west-1"
    assert "as the probe did: status 503" in found["overload"]["traffic"]
    assert "clients sign with their own" in found["secret"]["traffic"]
    assert found["two"]["finding"] == "peers out" and "other 1 of 2" in found["two"]["traffic"]
    assert len({f["code"] for f in found.values()}) == 12 and len({f["remedy"] for f in found.values()}) == 12


# ---- one command where a look at the last probes would not do ----------------------------------------------------
def unix(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def pool(sidecar, *peers, probe=None, **keys):
    """Probed every ten minutes, and well when it starts: what is found later is not found by waiting."""
    s = sidecar({"boot_probe": "warn", "routes": {"b": {"backend": "pool", "connect_timeout": "300ms",
                                                        "read_timeout": "500ms"}},
                 "backends": {"pool": backend(*peers, protocol="s3", **{
                     "probe": {"type": "s3", "interval": "10m", "timeout": "30s", **(probe or {})}, **keys})}})
    wait_until("the first verdict", lambda: s.backend("pool")["verdict"]["status"] == "healthy", 10)
    assert diagnose(s)[0] == {}
    return s


@pytest.mark.parametrize("rule, finding, code, traffic", [
    ("status=503 code=SlowDown", "erroring", "http_503", "own answers"),
    ('status=404 header="Content-Type: text/html"', "erroring", "not_s3", "own answers"),
    ("fin_response=0", "blocked", "premature_close", "503 backend_unavailable"),
])
def test_a_fault_from_after_the_last_probe(sidecar, origin, rule, finding, code, traffic):
    o = origin("a")
    s = pool(sidecar, o)
    injected = time.time()
    o.rules(rule)
    s.get("/b/k") if finding == "blocked" else time.sleep(1.2)
    said = diagnose(s)[0]["pool"]
    assert (said["finding"], said["code"]) == (finding, code) and traffic in said["traffic"], said
    well, since = said["last_well"][11:23], said["since"][11:23]
    assert said["remedy"].startswith(f"it was well at {well[:8]} UTC as it is configured now"), said
    if unix(said["since"]) - unix(said["last_well"]) > 1:
        assert said["began"] == f"between {well} (last well) and {since} UTC (first noticed)", said
    assert o.address in said["peers"] and unix(said["last_well"]) < injected + 0.1 <= unix(said["since"]) + 0.2, said


def test_a_frozen_pool_is_named_before_a_probe_has_decided_it(sidecar, origins):
    """A verdict takes a minute here. The command takes six seconds, whether requests have met the fault or not."""
    a, b = origins(2)
    s = pool(sidecar, a, b, max_fails=1, fail_timeout="60s")
    a.signal(signal.SIGSTOP)
    b.signal(signal.SIGSTOP)
    found, took = diagnose(s)
    said = found["pool"]
    assert 4.5 < took < 7.5 and (said["finding"], said["code"]) == ("no answer yet", "no_answer"), (took, said)
    assert "has not answered yet" in said["cause"] and "has waited for 5." in said["seen"], said
    assert "(2 of 2, all the same)" in said["peers"] and "two tries of at most 30.0 s each" in said["next"], said
    assert "waits for at most 30.0 s (deadline" in said["traffic"], said
    assert s.get("/b/k").status == 503
    wait_until("both to be out", lambda: s.get("/b/k").header("X-Fairlead-Error") == "no_live_upstream")
    said = diagnose(s)[0]["pool"]
    assert (said["finding"], said["code"]) == ("no peer usable", "no_answer"), said
    assert s.backend("pool")["verdict"]["status"] == "healthy", "the badge is the probe's word"
    assert "by requests of this pod" in said["seen"] and "healthy, which was before this" in said["seen"]
    assert "503 no_live_upstream" in said["traffic"] and "tries a peer again in" in said["next"]
    assert "restart it" in said["remedy"] and "being asked now" in said["next"], said


def test_a_silent_drop_is_named_before_a_probe_has_decided_it(sidecar, origin, ports):
    o = origin("a")
    s = pool(sidecar, o)
    o.kill()
    silent = Silent(ports, o.port)
    try:
        assert s.get("/b/k").status == 503
        said = diagnose(s)[0]["pool"]
        assert said["code"] == "connect_timeout" and o.address in said["cause"] and "network policy" in said["remedy"]
        assert said["finding"] in ("requests fail", "blocked"), said
    finally:
        silent.close()


def test_requests_that_fail_beside_a_good_probe_are_shown_while_they_do(sidecar, origins):
    """Quarantine and verdict are kept apart: the verdict stays the probe's, and what requests get is said beside it."""
    a, b = origins(2, missing=404)
    for o in (a, b):
        o.rules("path=/b/k fin_response=0")
    s = pool(sidecar, a, b, fail_timeout="20s")
    s.get("/b/k")
    wait_until("both to be out", lambda: s.get("/b/k").header("X-Fairlead-Error") == "no_live_upstream")
    entry = s.backend("pool")
    assert entry["verdict"]["status"] == "healthy" and entry["diagnosis"]["finding"] == "no peer usable", entry
    assert entry["diagnosis"]["code"] == "premature_close" and "healthy" in entry["diagnosis"]["seen"], entry


def test_the_only_peer_is_never_out_and_its_failures_are_shown(sidecar, origin):
    o = origin("a")
    s = pool(sidecar, o, fail_timeout="1s", probe={"timeout": "1s"})
    o.rules("path=/b/k fin_response=0")
    s.get("/b/k")
    wait_until("its probe to be good", lambda: s.backend("pool")["verdict"]["status"] == "healthy" and
               not s.backend("pool")["peers"][0]["probing"])
    s.get("/b/k")
    said = s.backend("pool")["diagnosis"]
    assert (said["finding"], said["code"]) == ("requests fail", "premature_close"), said
    assert "goes on" in said["traffic"], said
    assert s.get("/b/other").status == 200 and s.backend("pool")["diagnosis"] is None


def test_a_drained_pool_says_who_did_it(sidecar, origin):
    o = origin("a")
    s = pool(sidecar, o)
    s.ask("POST", f"/_/api/admin/backends/pool/peers/{o.address}/drain", b"", {"Content-Type": "application/json"})
    said = diagnose(s)[0]["pool"]
    assert (said["finding"], said["code"]) == ("no peer usable", "drained") and "operator" in said["seen"], said
    assert "undrain" in said["remedy"] and said["next"], said


def test_which_side_of_the_network_it_is(sidecar, origin, key):
    """The second view is the controller's, with its age; one from before the fault is said to be so."""
    o = origin("a")
    s = sidecar({"id": "pod-1", "push": {"public_key_file": key.public}, "boot_probe": "warn",
                 "routes": {"b": {"backend": "pool"}}, "backends": {"pool": backend(o, protocol="s3", probe={
                     "type": "s3", "interval": "60s", "timeout": "2s"})}})

    def pushed(seq, status, age_ms, code="connect_refused"):
        body = push.state(1, seq, {"pool": {"verdicts": {o.address: {
            "status": status, "code": "" if status == "healthy" else code, "cause": "x", "step": "connect",
            "age_ms": age_ms}}}})
        assert push.put(("127.0.0.1", s.status_port), push.signed(key, "pod-1", body), body).status == 200
        return diagnose(s)[0]["pool"]["seen"]

    wait_until("the first verdict", lambda: s.backend("pool")["verdict"]["status"] == "healthy", 10)
    o.refuse()
    assert "no second view" in diagnose(s)[0]["pool"]["seen"]
    assert "before this: ask it again" in pushed(1, "healthy", 30000)
    assert "it is this pod or its node" in pushed(2, "healthy", 0)
    assert "for the whole cluster" in pushed(3, "unreachable", 0)
    assert "sees another fault" in pushed(4, "erroring", 0, "http_503")


def test_a_controller_that_saw_the_same_fault_earlier_sees_it_too(sidecar, origin, key):
    """The first of both views is when it began; only a good one, or one of before it was well, is too old to compare."""
    o = origin("a")
    s = sidecar({"id": "pod-1", "push": {"public_key_file": key.public}, "boot_probe": "warn",
                 "routes": {"b": {"backend": "pool"}}, "backends": {"pool": backend(o, protocol="s3", probe={
                     "type": "s3", "interval": "60s", "timeout": "2s"})}})
    wait_until("the first verdict", lambda: s.backend("pool")["verdict"]["status"] == "healthy", 10)
    time.sleep(2.2)
    o.rules("status=503")
    body = push.state(1, 1, {"pool": {"verdicts": {o.address: {
        "status": "erroring", "code": "http_503", "cause": "x", "step": "status", "age_ms": 1500}}}})
    assert push.put(("127.0.0.1", s.status_port), push.signed(key, "pod-1", body), body).status == 200
    asked = time.time()
    said = diagnose(s)[0]["pool"]
    assert "the controller sees it, too, 1." in said["seen"] and "before this" not in said["seen"], said
    assert 1.2 < asked - unix(said["since"]) < 2.5 and unix(said["last_well"]) < unix(said["since"]), (asked, said)


def test_who_is_blocked_already_is_not_waited_for(sidecar, origins):
    """A verdict that stands needs no second hang; a backend that is well again is open before the command returns."""
    a, b = origins(2)
    s = sidecar({"boot_probe": "warn", "routes": {"b": {"backend": "pool"}}, "backends": {"pool": backend(
        a, b, protocol="s3", probe={"type": "s3", "interval": "10m", "timeout": "4s"})}})
    wait_until("the first verdict", lambda: s.backend("pool")["verdict"]["status"] == "healthy", 10)
    a.signal(signal.SIGSTOP)
    b.signal(signal.SIGSTOP)
    s.ask("POST", "/_/api/admin/backends/pool/probe", b"", {"Content-Type": "application/json"}, timeout=20)
    assert s.backend("pool")["blocked"]
    found, took = diagnose(s)
    said = found["pool"]
    assert took < 2 and (said["finding"], said["code"]) == ("blocked", "no_answer"), (took, said)
    assert "(2 of 2, all the same)" in said["peers"] and "being asked now" in said["next"], said
    a.signal(signal.SIGCONT)
    b.signal(signal.SIGCONT)
    wait_until("the open probes to be over", lambda: diagnose(s)[0] == {}, 15)
    assert s.get("/b/k").status == 200


def test_peers_with_faults_of_their_own_are_named_with_each(sidecar, origins):
    a, b = origins(2)
    a.refuse()
    b.rules("fin_response=0")
    s = sidecar({"boot_probe": "off", "routes": {"b": {"backend": "pool"}}, "backends": {"pool": backend(
        a, b, protocol="s3", probe={"type": "s3", "interval": "10m", "timeout": "2s"})}})
    said = diagnose(s)[0]["pool"]
    assert f"{a.address} connect_refused" in said["peers"] and f"{b.address} premature_close" in said["peers"], said
    assert said["peers"].endswith("(2 of 2)") and said["began"].endswith("no probe of this process has found it well as it is configured now")


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="jq or curl is not here")
def test_silence_is_never_all_is_well(sidecar, origin, dead):
    """All well prints a line that says so; a port where nobody listens, an error and a status that is not 0."""
    s = pool(sidecar, origin("a"))
    command = commands()[0][0]
    done = typed(s, command)
    assert done.stdout == '"all is well: nothing is wrong with any of 1 backends"\n' and done.returncode == 0, done
    reach = re.search(r"^curl .*\$A/_/live$", GUIDE, re.M)[0]
    assert typed(s, reach).returncode == 0, "the line that waits for the port-forward"
    port = s.admin_port
    s.admin_port = int(str(dead()).rsplit(":", 1)[1])
    try:
        done = typed(s, command)
    finally:
        s.admin_port = port
    assert "curl: (7)" in done.stderr and done.stdout == "" and done.returncode != 0, done


def test_all_are_asked_side_by_side_and_only_by_a_post(sidecar, origin):
    o = origin("a", "delay=700")
    names = [f"b{i}" for i in range(8)]
    probe = {"type": "s3", "interval": "10m", "timeout": "5s"}
    s = sidecar({"boot_probe": "off", "routes": {name: {"backend": name} for name in names},
                 "backends": {name: backend(o, protocol="s3", probe=probe) for name in names}})
    found, took = diagnose(s)
    assert found == {} and took < 3, (found, took)
    assert all(b["verdict"]["status"] == "healthy" for b in s.admin("/_/api/admin/backends")["backends"])
    everybody = "/_/api/admin/backends/*/probe"
    assert s.ask("GET", everybody).status == 405
    assert s.ask("POST", everybody, b"", {"Content-Type": "text/plain"}).status == 415
    foreign = {"Content-Type": "application/json", "Origin": "http://x.example"}
    assert s.ask("POST", everybody, b"", foreign).status == 403


def test_the_guide_has_commands():
    assert len(commands()) >= 12 and all(shown for _, shown in commands())
