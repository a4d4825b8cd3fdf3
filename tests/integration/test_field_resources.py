"""Field reports BR-39, 40 (part), 47, 48, 49 (part), 51: draining, limits, reloads, the admin side."""
import os
import resource
import signal
import threading
import time

import pytest

from bed.config import http, s3
from bed.origin import generated
from bed.play import Caller, paced, parallel
from bed.process import wait_until
from bed.wire import Wire


def test_br39_drain_finishes_what_is_live_and_ends(sidecar, origin):
    u1 = origin("u1", "size=200000 rate=200000 path=/live")
    s = sidecar({"drain_timeout": "10s", **http(u1)})
    idle = [s.wire() for _ in range(3)]
    for wire in idle:
        assert wire.request("GET", "/x").response().status == 200
    live = s.wire().request("GET", "/live")
    u1.until(requests=4)
    start = time.monotonic()
    s.terminate()
    assert all(wire.ended(2) == "fin" for wire in idle), "idle keep-alives are closed politely"
    assert time.monotonic() - start < 1.5
    assert live.response().body == generated(200000), "the live download is finished"
    assert s.wait(5) == 0


def test_br39_drain_has_an_end(sidecar, origin):
    u1 = origin("u1", "size=10000000 rate=50000 path=/live", "hang path=/hang")
    s = sidecar({"drain_timeout": "1s", **http(u1)})
    endless, hung = s.wire().request("GET", "/live"), s.wire().request("GET", "/hang")
    u1.until(requests=2)
    start = time.monotonic()
    s.terminate()
    assert s.wait(5) == 0, "cut at drain_timeout, and still a clean exit"
    assert 0.9 <= time.monotonic() - start <= 3.5
    assert endless.ended(1) and hung.ended(1)


def test_br39_new_requests_are_served_while_draining(sidecar, origin):
    u1 = origin("u1", "size=100000 rate=100000 path=/live")
    s = sidecar(http(u1))
    live = s.wire().request("GET", "/live")
    u1.until(requests=1)
    s.terminate()
    time.sleep(0.2)
    assert s.get("/x").status == 200, "the application may still be finishing"
    ready = s.ask("GET", "/_/ready", port=s.status_port)
    assert ready.status == 503 and b"draining" in ready.body
    assert len(live.response().body) == 100000
    assert s.wait(5) == 0


def test_br40_slow_readers_do_not_fill_memory(sidecar, origin):
    u1 = origin("u1", f"size={100 << 20} method=GET", "read_rate=1000000 method=PUT", sndbuf=65536, rcvbuf=65536)
    s = sidecar(s3(u1))
    assert s.call("HEAD", "/b").status == 200
    before = s.rss_kib()
    readers = [s.wire(rcvbuf=16384) for _ in range(8)]
    for i, wire in enumerate(readers):
        wire.request("GET", f"/b/{i}")
    writers = [s.wire(sndbuf=16384) for _ in range(4)]
    for i, wire in enumerate(writers):
        wire.send(f"PUT /b/{i} HTTP/1.1\r\nHost: x\r\nContent-Length: {100 << 20}\r\n\r\n")
        wire.sock.settimeout(0.3)
        try:
            wire.send(generated(4 << 20))
        except OSError:
            pass  # back-pressure, as it must be
    time.sleep(0.7)
    grown = s.rss_kib() - before
    assert grown < 24 * 1024, f"{grown} KiB for 12 stalled transfers of 100 MiB"
    sent = u1.stats()["bytes_out"]
    assert sent < 32 << 20, f"the origin is throttled too: {sent >> 20} MiB taken from it"
    for wire in readers + writers:
        wire.rst()
    u1.kill()


def limit_files(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def test_br47_out_of_descriptors(sidecar, origins):
    u1, u2 = origins(2)
    s = sidecar(http(u1, u2, max_fails=1), preexec=limit_files(64))
    live = s.wire()
    assert live.request("GET", "/x").response().status == 200
    idle = []
    for _ in range(100):
        idle.append(Wire(s.data, timeout=5))
    time.sleep(0.3)
    cpu, start = s.cpu_seconds(), time.monotonic()
    warned = len(s.events())
    time.sleep(2)
    used = (s.cpu_seconds() - cpu) / (time.monotonic() - start)
    assert used < 0.10, f"a busy accept loop: {used:.0%} of a CPU"
    assert len(s.events()) - warned <= 6, f"log flood: {s.events()[warned:]}"
    assert s.ask("GET", "/_/ready", port=s.status_port).status == 200, "ready and metrics stay reachable"
    s.metrics()
    response = live.request("GET", "/x").response()
    assert response.status == 200 or response.header("X-Fairlead-Error") == "local_resource"
    assert s.events("upstream server temporarily disabled") == [], "our own exhaustion is not a peer's fault"
    for wire in idle:
        wire.close()
    wait_until("new clients to be served", lambda: s.get("/x").status == 200, 5)


def test_br47_connection_cap_is_overload(sidecar, origin):
    u1 = origin("u1")
    s = sidecar({"max_connections": 10, **http(u1)})
    wires = [s.wire() for _ in range(10)]
    for wire in wires:
        assert wire.request("GET", "/x").response().status == 200
    extra = s.wire(timeout=2)
    extra.request("GET", "/x")
    try:
        response = extra.response()
        assert response.status == 503 and response.header("X-Fairlead-Error") == "overload"
    except OSError:
        pass  # not accepted until a place is free
    for wire in wires:
        wire.close()
    wait_until("a place", lambda: s.get("/x").status == 200, 5)


def test_br48_metric_cardinality_is_bounded(sidecar, origin):
    u1 = origin("u1")
    s = sidecar({**s3(u1), "routes": {"known": {"backend": "store"}}})
    caller = Caller(s.data)
    for method in ("GET", "PUT", "HEAD", "DELETE"):
        caller.call(method, "/known/x", body=b"x" if method == "PUT" else None)
        caller.call(method, "/unknown/x", body=b"x" if method == "PUT" else None)
    caller.call("ODD", "/known/x")
    before = s.metrics()
    for i in range(150):
        caller.call("GET", f"/known/key-{i}")
        caller.call("GET", f"/bucket-{i}/key")
        caller.call(f"ODD{i}", f"/known/k?query-{i}")
    after = s.metrics()
    assert len(after.samples) <= len(before.samples) + 20, f"{len(before.samples)} -> {len(after.samples)} series"
    labels = {v for _, have, _ in after.samples for v in have.values()}
    assert not [v for v in labels if "key-" in v or "bucket-" in v or "query-" in v or v.startswith("ODD")], labels


def test_br49_reload_drops_nothing_and_forgets_nothing(sidecar, origins):
    a, b, c = origins(3)
    c.rules("rst_request=0")
    s = sidecar(http(a, b, c, max_fails=1, fail_timeout="60s"))
    wait_until("c to be quarantined", lambda: s.get("/x") and s.events("upstream server temporarily disabled"))
    for o in (a, b):
        o.rules("size=300000 rate=100000 path=/long")
    downloads = [s.wire().request("GET", "/long") for _ in range(6)]
    stop = threading.Event()

    def reload():
        for i in range(12):
            s.write_config({**s.config, "slow_request": f"{5 + i}s"})
            s.signal(signal.SIGHUP)
            if stop.wait(0.25):
                return

    thread = threading.Thread(target=reload)
    thread.start()
    caller = Caller(s.data)
    statuses = paced(60, 3.2, lambda i: caller.call("GET", "/x").status)
    stop.set()
    thread.join()
    assert set(statuses) == {200}
    assert all(wire.response().body == generated(300000) for wire in downloads), "long downloads survive"
    assert c.requests == 1, "c kept its quarantine through twelve reloads"
    assert len(s.events("upstream server temporarily disabled")) == 1

    good = dict(s.config)
    s.write_config({**good, "routes": {"*": {"backend": "nowhere"}}})
    s.signal(signal.SIGHUP)
    refused = s.wait_event("config refused")
    assert "nowhere" in str(refused), refused
    assert s.get("/x").status == 200, "nothing was changed"


def test_br49_apply_with_put_config(sidecar, origins):
    a, b = origins(2)
    s = sidecar(http(a))
    import yaml
    config = {**s.config, **http(b)}
    kind = {"Content-Type": "application/yaml"}
    response = s.ask("PUT", "/_/api/admin/config", yaml.safe_dump(config).encode(), kind)
    assert response.status == 200, repr(response)
    wait_until("the new peer", lambda: s.get("/x").origin == "b", 2)
    bad = s.ask("PUT", "/_/api/admin/config", b"backends: {pool: {protocol: htp}}\n", kind)
    assert bad.status == 400 and b"nothing was changed" in bad.body, repr(bad)
    assert s.get("/x").origin == "b"
    plain = s.ask("PUT", "/_/api/admin/config", b"{}", {"Content-Type": "text/plain"})
    assert plain.status in (400, 403, 415), repr(plain)


@pytest.mark.parametrize("port", ["admin_port", "status_port"])
def test_br51_idle_connections_do_not_silt_up_the_admin_side(sidecar, origin, port):
    s = sidecar(http(origin("u1")))
    number = getattr(s, port)
    silent = []
    for i in range(80):
        try:
            wire = Wire(("127.0.0.1", number), timeout=2)
        except OSError:
            continue
        if i % 4 == 0:
            try:
                wire.send("GET /_/ready HTTP/1.1\r\nHo")
            except OSError:
                pass
        silent.append(wire)
    for _ in range(5):
        start = time.monotonic()
        response = s.ask("GET", "/_/ready", port=number, timeout=3)
        assert response.status == 200 and time.monotonic() - start < 0.5
    assert s.get("/x").status == 200, "data is not touched"


def test_br50_admin_is_not_for_strangers(sidecar, origin):
    s = sidecar(http(origin("u1")))
    probe = "/_/api/admin/backends/pool/probe"
    get = s.ask("GET", probe)
    assert get.status == 405 and get.header("Allow"), repr(get)
    json = {"Content-Type": "application/json"}
    assert s.ask("POST", probe, b"", {**json, "Origin": "http://evil.example"}).status == 403
    evil = Wire(("127.0.0.1", s.admin_port)).request("POST", probe, json, b"", host="evil.example").response()
    assert evil.status == 403, "DNS rebinding"
    assert s.ask("POST", probe, b"x=1", {"Content-Type": "text/plain"}).status in (400, 403, 415)
    for target in ("/_/api/admin/backends", "/_/ready", "/_/x"):
        answer = s.get(target)
        assert answer.status == 404 and answer.header("X-Fairlead-Error") == "not_found", f"{target}: {answer!r}"
    public = s.ask("GET", "/_/api/admin/backends", port=s.status_port)
    assert public.status == 404, "the status port is open to the cluster: no admin API there"


def test_many_clients_at_once(sidecar, origins):
    s = sidecar(http(*origins(2)))

    def client(i):
        with s.wire() as wire:
            return [wire.request("GET", f"/x/{i}/{n}").response().status for n in range(10)]

    assert {status for r in parallel(60, client) for status in r} == {200}
    assert os.path.exists(f"/proc/{s.pid}")
