"""docs/diagnose.md is true: every command in it is run as it stands, in its order, against twelve injected faults, and its
output must be what the guide shows. In what is shown, `…` stands for anything; ports, times and ids may differ.

FAIRLEAD_SHOW=1 prints what each command gives: that is where the guide's outputs come from."""
import os
import re
import shutil
import subprocess
import threading
import time

import pytest
import yaml

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
            (r"\b[0-9a-f]{32}\b", "ID"),
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
    """As a person types it: $A, $D and $POD are set, and kubectl shows the logs of this very process."""
    log = os.path.join(s.folder, "log")
    with open(log, "w", encoding="utf-8") as f:
        f.write("\n".join([*s.out.lines, *s.err.lines]) + "\n")
    shell = (f"A=127.0.0.1:{s.admin_port} D=127.0.0.1:{s.data_port} POD=app-0\n"
             f'kubectl() {{ test "$*" = "logs app-0 -c fairlead" && cat {log}; }}\n')
    return subprocess.run(["bash", "-c", shell + command], cwd=s.folder, capture_output=True, text=True, timeout=60,
                          check=False).stdout


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


def test_each_fault_is_found_by_one_command_and_by_one_request(ground):
    """The first command of the guide names each of the twelve with its cause; so does, without the admin API, a request to
    its bucket, where the verdict blocks it."""
    s, first = ground, commands()[0][0]
    lines = {line.split("\t")[0]: line.split("\t") for line in run(s, first).split("\n") if line}
    for name in FAULTS:
        v = s.backend(name)["verdict"]
        assert v["status"] != "healthy" and v["cause"], (name, v)
        used = "1/1" if v["status"] == "erroring" else "0/1"
        assert lines[name][1:7] == [f"b-{name}", v["status"], v["code"], v["since"], v["source"], used], lines[name]
        assert lines[name][7] == v["cause"], lines[name]
        code = "tls_…" if v["code"].startswith("tls_") else "http_500` … `http_503" if v["code"] == "http_503" else v["code"]
        assert f"`{code}`" in GUIDE, f"the guide says what to do about {v['code']}"
        if v["status"] != "erroring":
            response = s.get(f"/b-{name}/k")
            assert response.header("X-Fairlead-Backend") == name and response.header("X-Fairlead-Cause") == v["cause"]
    assert len({s.backend(name)["verdict"]["code"] for name in FAULTS}) == 12, "twelve different faults"
    assert lines["ok"][2] == lines["two"][2] == "healthy"


def test_a_verdict_from_before_the_fault_is_replaced_by_asking_at_once(sidecar, origin):
    """The guide's word on `healthy` beside a bucket that fails: a store that answers, but wrongly, is left to the next
    probe; the command of section 2 does not wait for it."""
    o = origin("a")
    s = sidecar({"boot_probe": "warn", "routes": {"b": {"backend": "refused"}}, "backends": {
        "refused": backend(o, protocol="s3", probe={"type": "s3", "interval": "10m", "timeout": "5s"})}})
    wait_until("the first verdict", lambda: s.backend("refused")["verdict"]["status"] == "healthy", 10)
    first, ask = commands()[0][0], next(c for c, _ in commands() if "/probe" in c)
    o.rules("status=503 code=SlowDown")
    response = s.get("/b/k")
    assert response.status == 503 and response.header("X-Fairlead-Error") is None
    assert run(s, first).split("\t")[:3] == ["refused", "b", "healthy"]
    assert '"status":"erroring","code":"http_503"' in run(s, ask)
    assert run(s, first).split("\t")[2:4] == ["erroring", "http_503"]


def test_the_guide_has_commands():
    assert len(commands()) >= 12 and all(shown for _, shown in commands())
