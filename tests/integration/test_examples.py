"""The examples are what people copy: each must pass the check, and the demo must run as it says."""
import os
import re
import signal
import socket
import subprocess
import time

import pytest
import yaml

from bed.process import SLACK, wait_until
from bed.wire import call
from conftest import BUILD, ROOT, binary

EXAMPLES = sorted(p.name for p in (ROOT / "examples").glob("*.yaml"))
DEMO_PORTS = [("127.0.0.1", 9001), ("127.0.0.2", 9001), ("127.0.0.3", 9001), ("127.0.0.1", 8420), ("127.0.0.1", 8421),
              ("127.0.0.1", 8422), ("127.0.0.1", 8431), ("127.0.0.1", 8432)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_passes_the_check(name):
    program = "fairlead-controller" if name.startswith("controller") else "fairlead-sidecar"
    done = subprocess.run([binary(program), "--config", f"examples/{name}", "--check"], cwd=ROOT, timeout=20,
                          capture_output=True, text=True, check=False)
    findings = [line for line in (done.stdout + done.stderr).splitlines() if ": error: " in line]
    if program == "fairlead-controller":  # the key of the example is made by its reader
        findings = [line for line in findings if "push-private.pem" not in line]
    assert not findings and (done.returncode == 0 or program == "fairlead-controller"), done.stdout + done.stderr


MANIFESTS = {"deploy/manifests/controller.yaml": ("controller.yaml", "fairlead-controller"),
             "examples/kubernetes/app.yaml": ("sidecar.yaml", "fairlead-sidecar")}


@pytest.mark.parametrize("manifest", sorted(MANIFESTS))
def test_configuration_in_a_manifest_passes_the_check(manifest, tmp_path, key):
    file, program = MANIFESTS[manifest]
    documents = yaml.safe_load_all((ROOT / manifest).read_text(encoding="utf-8"))
    text = next(d for d in documents if d["kind"] == "ConfigMap")["data"][file]
    for place, ours in (("/etc/fairlead/key/push.key", key.private), ("/etc/fairlead/push.pub", key.public),
                        ("/run/fairlead", str(tmp_path)), ("POD_UID", "some-uid")):
        text = text.replace(place, ours)
    (tmp_path / file).write_text(text, encoding="utf-8")
    done = subprocess.run([binary(program), "--config", tmp_path / file, "--check"], timeout=20, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def is_busy(address):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(address) == 0


def is_dead(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


class Demo:
    def __init__(self, tmp):
        self.log = open(tmp / "demo.log", "w+", encoding="utf-8")
        env = {**os.environ, "FAIRLEAD_BUILD": str(BUILD), "TMPDIR": str(tmp)}
        self.popen = subprocess.Popen(["bash", str(ROOT / "examples/demo/run.sh")], stdin=subprocess.DEVNULL,
                                      stdout=self.log, stderr=subprocess.STDOUT, env=env, start_new_session=True)

    def text(self):
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()

    def interrupt(self):
        os.killpg(self.popen.pid, signal.SIGINT)  # as the terminal does: to the whole foreground group
        return self.popen.wait(60 * SLACK)


@pytest.fixture
def demo(tmp_path):
    for name in ("fairlead-origin", "fairlead-sidecar", "fairlead-controller"):
        binary(name)
    if any(is_busy(a) for a in DEMO_PORTS):
        pytest.skip("a port of the demo is busy")
    running = Demo(tmp_path)
    yield running
    if running.popen.poll() is None:
        running.interrupt()


def test_demo_tour(demo):
    def printed():
        assert demo.popen.poll() is None, demo.text()
        return "Bring the store back" in demo.text()

    wait_until(lambda: "the tour to be printed:\n" + demo.text(), printed, 40, 0.1)
    pid = int(re.search(r"kill -9 (\d+)", demo.text()).group(1))
    assert open(f"/proc/{pid}/comm", encoding="ascii").read().startswith("fairlead-origi")
    assert call("127.0.0.1:8420", "GET", "/demo/hello").body == b"hello from the bucket\n"
    shown = re.findall(r"^    \w+ +http://(127\.0\.0\.1:\d+)(/\S*)?", demo.text(), re.M)
    assert [address for address, _ in shown] == [f"127.0.0.1:{port}" for port in (8420, 8421, 8422, 8431)]
    for address, path in shown[1:]:
        assert call(address, "GET", path, host=address).status == 200, address + path
    os.kill(pid, signal.SIGKILL)
    wait_until("the store to be dead, its connections too", lambda: is_dead(pid), 10, 0.01)
    assert [call("127.0.0.1:8420", "GET", "/demo/hello").status for _ in range(12)] == [200] * 12
    metrics = call("127.0.0.1:8422", "GET", "/_/metrics").text
    assert re.search(r"^fairlead_quarantines_total\{.*\} 1$", metrics, re.M), metrics
    wait_until("the quarantine line", lambda: "upstream server temporarily disabled" in demo.text(), 5)
    wait_until("the attempt chain", lambda: re.search(
        r'upstream_addr="127\.0\.0\.2:9001, 127\.0\.0\.[13]:9001"', demo.text()), 5)
    assert re.search(r"^\[sidecar\] ", demo.text(), re.M)
    status = demo.interrupt()
    assert status == 0 and "Killed" not in demo.text(), demo.text()
    time.sleep(0.1)
    assert not any(is_busy(a) for a in DEMO_PORTS), "a child was left behind"


def test_demo_names_a_busy_port(tmp_path):
    for name in ("fairlead-origin", "fairlead-sidecar", "fairlead-controller"):
        binary(name)
    if any(is_busy(a) for a in DEMO_PORTS):
        pytest.skip("a port of the demo is busy")
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.3", 9001))
        squatter.listen(1)
        refused = subprocess.run(["bash", str(ROOT / "examples/demo/run.sh")], env={
            **os.environ, "FAIRLEAD_BUILD": str(BUILD), "TMPDIR": str(tmp_path)}, timeout=60, capture_output=True,
            text=True, check=False)
    assert refused.returncode == 1 and "port 9001 on 127.0.0.3 is busy" in refused.stderr, refused.stderr


def test_demo_with_an_own_configuration(tmp_path, ports, origin):
    import yaml
    from bed.config import http
    data, admin, status = ports.take(), ports.take(), ports.take()
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**http(origin("mine")), "listen": {
        "data": [f"127.0.0.1:{data}"], "admin": f"127.0.0.1:{admin}", "status": f"127.0.0.1:{status}"}}))
    running = subprocess.Popen(["bash", str(ROOT / "examples/demo/run.sh"), "--config", str(path)],
                               env={**os.environ, "FAIRLEAD_BUILD": str(BUILD)}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        wait_until("the sidecar of --config", lambda: is_busy(("127.0.0.1", data)), 10)
        assert call(f"127.0.0.1:{data}", "GET", "/x").body == b"mine\n"
    finally:
        running.terminate()
        assert running.wait(40) == 0
