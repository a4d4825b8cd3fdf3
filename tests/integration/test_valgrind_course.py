"""Both programs through their lives: what tests/valgrind/run.sh runs them through under memcheck. Nothing is timed here; it
counts that everything happened and that the end is clean (an error of memcheck makes the exit code 9)."""
import json
import os
import signal
import subprocess

import pytest

from bed import push
from bed.config import FREE, backend, peer
from bed.probing import keys, store, verdict_becomes  # noqa: F401 (fixtures)
from bed.process import wait_until
from bed.tls import TlsServer, certs  # noqa: F401
from bed.wire import Ended, chunked
from test_apply import JSON, put
from test_tap import Watcher

pytestmark = pytest.mark.skipif("FAIRLEAD_VALGRIND" not in os.environ, reason="run by ./dev valgrind")
PAGES = ["/_/ready", "/_/live", "/_/started", "/_/metrics", "/_/api/admin/backends", "/_/api/admin/routes",
         "/_/api/admin/events", "/_/api/admin/config", "/_/api/admin/explain?method=PUT&target=/b/k", "/_/nothing"]


def serve(s, rounds):
    """Reads and writes as applications send them; the dead peer is met on the way."""
    for i in range(rounds):
        assert s.call("PUT", f"/b/k{i}", body=b"x" * (1 << (2 * (i % 11)))).status == 200
        assert s.get(f"/b/k{i}").status == 200
        s.call("HEAD", f"/b/k{i}"), s.call("DELETE", f"/b/k{i}"), s.get("/b?list-type=2"), s.get("/b/absent?versionId=1")
        s.call("POST", f"/b/k{i}?uploads"), s.get("/h/x"), s.get("/nobody/x"), s.get("/t/x")
    with s.wire() as wire:
        wire.request("PUT", "/b/chunked", {"Transfer-Encoding": "chunked"})
        wire.send(chunked(b"y" * 100000))
        assert wire.response().status == 200
    for raw in (b"GET / HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n", b"GET /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: z\r\n\r\n",
                b"GET /b/" + b"k" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"):
        with s.wire() as wire:
            try:
                wire.send(raw)
                wire.response()
            except (Ended, OSError):
                pass
    with s.wire() as wire:  # leaves in the middle
        wire.request("PUT", "/b/gone", {"Content-Length": "1000000"})
        wire.send(b"z" * 1000)


def test_a_sidecar(sidecar, origins, origin, dead, ports, key, folder, store, keys, certs):  # noqa: F811
    a, b = origins(2)
    cut = origin("cut", "path=/cut/ size=100000 cut=5000", "path=/slow hang")
    authority = certs.ca()
    server = TlsServer(ports, certs.issue("good", authority))
    probe = {"type": "s3", "interval": "1s", "timeout": "2s"}
    s = sidecar({
        "id": "pod", "boot_probe": "warn", "push": {"public_key_file": key.public}, "start_wait": "500ms",
        "state_file": os.path.join(folder, "state"), "slow_request": "50ms", "backends": {
            "store": backend(peer(a, max_fails=1), peer(dead()), f"localhost:{b.port}", protocol="s3", fail_timeout="500ms",
                             probe={"type": "none"}, **FREE),
            "pool": {"protocol": "http", "service": {"namespace": "n", "name": "p", "port": "x"}, "probe": {
                "type": "http", "interval": "1s"}},
            "cut": backend(cut, protocol="s3", probe=probe), "gone": backend(dead(), protocol="s3", probe=probe),
            "keyed": backend(store().address, protocol="s3", probe={**probe, **keys()}),
            "tls": backend(server.address, protocol="s3", tls={"ca_file": authority[0], "server_name": "store.example"},
                           probe=probe)},
        "routes": {"b": {"backend": "store", "replay_after_send": "always"}, "h": {"backend": "pool"},
                   "cut": {"backend": "cut", "deadline": "400ms", "read_timeout": "300ms"}, "g": {"backend": "gone"},
                   "k": {"backend": "keyed"}, "t": {"backend": "tls"}}})
    verdict_becomes(s, "unreachable", "gone")
    verdict_becomes(s, "healthy", "keyed")
    tap = Watcher(s)
    serve(s, 12)
    assert tap.take(20)
    tap.close()
    with s.wire() as wire, pytest.raises(Ended):
        wire.request("GET", "/cut/k").response()
    assert s.get("/g/x").status == 503
    for page in PAGES:
        s.ask("GET", page), s.ask("HEAD", page, port=s.status_port)
    for path in ("gone/probe", "store/probe", f"store/peers/{a.address}/drain", f"store/peers/{a.address}/undrain"):
        s.ask("POST", "/_/api/admin/backends/" + path, b"", JSON)

    body = push.state(5, 1, {"pool": {**push.members(a, b), "verdicts": {a.address: {
        "status": "unreachable", "code": "connect_timeout", "cause": "x", "step": "connect", "age_ms": 1}}}})
    at = ("127.0.0.1", s.status_port)
    assert push.put(at, push.signed(key, "pod", body), body).status == 200
    assert push.put(at, push.signed(key, "pod", body), body).status == 409
    assert push.put(at, push.signed(key, "other", body), body).status == 409
    wait_until("members", lambda: s.get("/h/x").status == 200)

    moved = json.loads(json.dumps(s.config))
    moved["backends"]["keyed"]["probe"]["region"] = "eu-west-1"
    moved["backends"]["more"] = backend(b, f"localhost:{a.port}", protocol="s3", probe=probe)
    assert put(s, moved, timeout=100).status == 200
    moved["backends"]["more"]["peers"] = [{"address": dead()}]
    assert put(s, moved, timeout=100).status == 400
    assert put(s, "backends: [", timeout=100).status == 400
    assert put(s, s.ask("GET", "/_/api/admin/config").body, timeout=100).status == 200
    s.signal(signal.SIGHUP)
    s.wait_event("config applied", 10, source="file")
    serve(s, 3)
    b.refuse()
    serve(s, 3)
    s.terminate()
    assert s.wait(120) == 0
    server.close()


def test_a_controller(controller, fake, origins, dead, key, file, folder):
    a, b = origins(2)
    takers = [fake(), fake(lambda p: (500, None))]
    file.set(a, b)
    probe = {"type": "http", "path": "/health", "interval": "500ms", "timeout": "1s"}
    c = controller({"source": f"file:{file.path}", "push": {"signing_key_file": key.private, "settle": "20ms"},
                    "probe_defaults": {"interval": "500ms", "timeout": "1s"},
                    "backends": {"pool": {"protocol": "http", "service": {"namespace": "storage", "name": "minio",
                                                                          "port": "s3"}, "probe": probe},
                                 "gone": {"protocol": "s3", "peers": [{"address": dead()}]},
                                 "named": {"protocol": "http", "probe": probe, "peers": [
                                     {"address": f"localhost:{b.port}"}, {"address": "no-such-host.invalid:9"}]}},
                    "routes": {"b": {"backend": "pool"}},
                    "sidecars": [{"address": t.address, "id": f"pod{i}"} for i, t in enumerate([*takers])] +
                                [{"address": dead(), "id": "nobody"}]})
    takers[0].wait(3, 20)
    wait_until("the verdict of a name", lambda: {p["verdict"]["code"] for one in c.admin(
        "/_/api/admin/backends")["backends"] for p in one["peers"] if one["name"] == "named"} == {"", "dns_failure"}, 30)
    for page in ("/_/ready", "/_/metrics", "/_/api/admin/backends", "/_/api/admin/pods", "/_/api/admin/services", "/_/none"):
        c.ask("GET", page)
    assert c.ask("POST", "/_/api/admin/backends/pool/probe", b"", JSON).status == 200
    b.refuse()
    file.set(a)
    takers[0].wait(len(takers[0].pushes) + 2, 20)
    file.write("services: [")
    c.wait_event("membership", 10)
    file.set(a, b, {"address": "127.0.0.1:1", "ready": False})
    c.signal(signal.SIGHUP)
    c.wait_event("config applied", 10)
    takers[0].wait(len(takers[0].pushes) + 2, 20)
    c.terminate()
    assert c.wait(120) == 0


def test_the_checks(folder):
    from conftest import BUILD, ROOT
    for program, name in (("fairlead-sidecar", "s3-two-stores"), ("fairlead-sidecar", "http-profiles")):
        done = subprocess.run([str(BUILD / program), "--config", str(ROOT / "examples" / f"{name}.yaml"), "--show-config",
                               "--check"], capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
