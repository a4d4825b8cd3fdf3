"""Memory: what slow sides hold in buffers of ours and of the kernel, the budget of buffer_memory, and that it all comes
back. The kernel's part is counted by ss, per socket of the sidecar. The figures of the process itself are only looked at
in a build without sanitizers."""
import re
import shutil
import statistics
import subprocess
import threading
import time

import pytest

from bed.config import http, s3
from bed.origin import generated
from bed.play import parallel
from bed.process import SLACK, wait_until
from bed.wire import Ended, head

MIB = 1 << 20
SOCKET = 4096  # slab of one socket: inode, file, epoll entry and all (counted by memory.stat of a container)
SKMEM = re.compile(r"skmem:\(r(\d+),rb(\d+),t\d+,tb\d+,f(\d+),w(\d+)")

needs_ss = pytest.mark.skipif(not shutil.which("ss"), reason="ss (iproute2) is missing")


def container(limit):
    """A prefix that gives a program a /sys/fs/cgroup of its own, whose memory.max is `limit`. It holds back nothing;
    the program believes it."""
    probe = ["unshare", "--mount", "true"]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespace to be had")
    script = 'mount -t tmpfs none /sys/fs/cgroup && echo "$0" > /sys/fs/cgroup/memory.max && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, str(limit))


class Sockets:
    """The TCP sockets of a process: how many, and the bytes they hold in the kernel."""

    def __init__(self, pid):
        lines = subprocess.run(["ss", "-tnmpH"], capture_output=True, text=True, check=True).stdout.split("\n")
        self.count = self.received = self.sent = self.reserved = 0
        self.windows = []
        for line, memory in zip(lines, lines[1:]):
            if f"pid={pid}," in line:
                read, window, ahead, written = map(int, SKMEM.search(memory).groups())
                self.count += 1
                self.received, self.sent = self.received + read, self.sent + written
                self.reserved += ahead
                self.windows.append(window)

    @property
    def bytes(self):
        return self.received + self.sent + self.reserved + self.count * SOCKET

    def __repr__(self):
        return f"{self.count} sockets, {self.received >> 10} KiB received, {self.sent >> 10} KiB to be sent"


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(("Private_Dirty", "Private_Clean")))


def sanitized(s):
    with open(f"/proc/{s.pid}/maps", encoding="ascii") as f:
        return "libasan" in f.read() or s.rss_kib() > 30 << 10


class Readers(threading.Thread):
    """Connections that are read at `rate` bytes a second each, until `stop` is set."""

    def __init__(self, wires, rate):
        super().__init__(daemon=True)
        self.wires, self.rate, self.done = wires, rate, threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(0.2):
            for wire in self.wires:
                try:
                    wire.sock.settimeout(0)
                    wire.sock.recv(self.rate // 5)
                except OSError:
                    pass

    def end(self):
        self.done.set()
        self.join()
        for wire in self.wires:
            wire.rst()


def comes_back(s, idle_kib):
    """A sanitizer's allocator keeps what was freed."""
    if not sanitized(s):
        wait_until(lambda: f"memory to come back: {idle_kib} KiB, now {s.rss_kib()}",
                   lambda: s.rss_kib() < idle_kib + (3 << 10), 15)


def slow_readers(s, count, rate=10 << 10, **keys):
    return Readers([s.wire(**keys).request("GET", f"/b/{i}") for i in range(count)], rate)


def steady(measure, pause=0.4, tries=15):
    """The value of `measure` once it has stopped growing."""
    last = measure()
    for _ in range(tries):
        time.sleep(pause)
        now = measure()
        if now <= last * 1.02:
            return now
        last = now
    return last


# -- the kernel's buffers ----------------------------------------------------------------------------------------------
@needs_ss
def test_br40_fifty_slow_downloads(sidecar, origin):
    u1 = origin("u1", f"size={200 * MIB}", sndbuf=65536, ledger=False)
    s = sidecar({"access_log": "off", **s3(u1)})
    readers = slow_readers(s, 50, rcvbuf=16384)
    taken = steady(lambda: u1.stats()["bytes_out"])
    held = Sockets(s.pid)
    assert held.received < 50 * 300 << 10, held
    assert held.sent < 50 * 200 << 10, held
    assert taken < 60 * MIB, f"{taken >> 20} MiB taken from the origin"
    latency = []
    for _ in range(20):
        start = time.monotonic()
        assert s.call("HEAD", "/b/x").status == 200
        latency.append(time.monotonic() - start)
    assert statistics.median(latency) < 0.05 * SLACK
    readers.end()
    u1.kill()


@needs_ss
def test_br40_fifty_slow_downloads_in_a_small_container(sidecar, origin):
    """32 MiB: what the process holds, what the kernel holds for it, and the sockets, with 1,000 idle clients."""
    u1 = origin("u1", f"size={200 * MIB} path=/b/", sndbuf=65536, ledger=False)
    s = sidecar({"access_log": "off", **s3(u1)}, prefix=container(32 * MIB))
    idle = [s.wire() for _ in range(950)]
    for wire in idle[::10]:
        assert wire.request("HEAD", "/x").response("HEAD").status == 200
    readers = slow_readers(s, 50)
    steady(lambda: u1.stats()["bytes_out"])
    held = Sockets(s.pid)
    assert held.count >= 1050 and held.bytes < 19 * MIB, f"{held.bytes >> 20} MiB: {held}"
    if not sanitized(s):
        own = private_kib(s.pid) << 10
        assert own + held.bytes < 27 * MIB, f"{own >> 10} KiB and {held}"
    readers.end()
    u1.kill()


@needs_ss
def test_br40_slow_uploads_are_throttled(sidecar, origin):
    """Twenty of 500 MiB into backends that read 1 MiB/s in all."""
    u1 = origin("u1", f"read_rate={MIB // 20} method=PUT", rcvbuf=65536, ledger=False)
    s = sidecar({"access_log": "off", **s3(u1, route={"deadline": "5m"})})
    wires = [s.wire() for _ in range(20)]
    data = generated(MIB)

    def upload(i):
        framing = "Transfer-Encoding: chunked" if i % 2 else f"Content-Length: {500 * MIB}"
        wires[i].send(f"PUT /b/{i} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n")
        wires[i].sock.settimeout(1)
        try:
            for _ in range(8):
                wires[i].send(b"100000\r\n" + data + b"\r\n" if i % 2 else data)
        except OSError:
            pass  # back-pressure, as it must be

    parallel(20, upload)
    held = Sockets(s.pid)
    assert held.received < 20 * 300 << 10, held
    assert held.sent < 20 * 700 << 10, held
    for wire in wires:
        wire.rst()
    u1.kill()


@needs_ss
def test_a_fast_reader_has_its_window(sidecar, origin):
    u1 = origin("u1", f"size={64 * MIB} path=/large", "size=1 path=/small", ledger=False)
    s = sidecar({"access_log": "off", **http(u1)})
    wire, got = s.wire(), 0
    assert wire.request("GET", "/small").response().status == 200
    wire.request("GET", "/large")
    while got < 64 * MIB:
        got += len(wire.sock.recv(MIB))
    assert max(Sockets(s.pid).windows) > 400 << 10, "what proves fast is not held"


# -- buffer_memory -----------------------------------------------------------------------------------------------------
def test_a_thousand_long_heads_do_not_stop_the_rest(sidecar, origin):
    """60 MiB of heads that do not end, 16 MiB to hold them: others are still heard, and all is well when they are over."""
    s = sidecar({"client": {"head_timeout": "3s"}, **http(origin(ledger=False))})
    assert s.get("/x").status == 200
    idle, part = s.rss_kib(), head("GET", "/x", [("x-pad", "p" * (60 << 10))])[:-4]
    wires, start = [], time.monotonic()
    for _ in range(1000):
        wire = s.wire(timeout=20)
        wire.sock.setblocking(False)
        try:
            wire.sock.send(part)
        except OSError:
            pass
        wires.append(wire)
    latency = []
    while time.monotonic() - start < 2.7:
        at = time.monotonic()
        assert s.get("/x").status == 200
        latency.append(time.monotonic() - at)
    assert statistics.median(latency) < 0.2 * SLACK and len(latency) > 5, latency
    if not sanitized(s):
        assert s.rss_kib() - idle < (16 + 4) << 10
    wait_until("heads to time out", lambda: s.metrics().sum("fairlead_connections", kind="client") == 0, 10)
    assert len(s.access(error="request_timeout")) >= 100
    assert s.get("/x").status == 200
    for wire in wires:
        wire.close()
    comes_back(s, idle)


@pytest.mark.parametrize("path", ["/b/length", "/b/chunked"])
def test_hundreds_of_slow_readers_do_not_stop_the_rest(sidecar, origin, path):
    u1 = origin("u1", f"size={50 * MIB} path=/b/length", f"size={50 * MIB} framing=chunked chunk=30000 path=/b/chunked",
                ledger=False, sndbuf=65536)
    s = sidecar({"access_log": "off", **s3(u1)})
    assert s.call("HEAD", "/b/x").status == 200
    idle = s.rss_kib()
    readers = Readers([s.wire(rcvbuf=8192).request("GET", path) for _ in range(300)], 10 << 10)
    steady(lambda: u1.stats()["bytes_out"])
    latency = []
    for i in range(30):
        at = time.monotonic()
        assert s.call("PUT", f"/b/{i}", body=b"x" * 40000).status == 200
        assert len(s.get(f"/b/{i}").body) == 40000
        latency.append(time.monotonic() - at)
    assert statistics.median(latency) < 0.2 * SLACK, latency
    if not sanitized(s):
        assert s.rss_kib() - idle < (16 + 5) << 10
    readers.end()
    comes_back(s, idle)
    u1.kill()


def test_waiting_bodies_hold_no_memory(sidecar, origin):
    """400 uploads that have stopped after their first bytes, in both framings: 16 MiB would not be enough for a buffer
    each."""
    s = sidecar({"access_log": "errors", "client": {"body_timeout": "3s"}, **s3(origin(ledger=False), max_conns=0)})
    wires = []
    for i in range(400):
        framing, part = (("Transfer-Encoding: chunked", b"3\r\nabc\r\n") if i % 2 else ("Content-Length: 5000000", b"abc"))
        wire = s.wire().send(f"PUT /b/{i} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n")
        wires.append(wire.send(part))
    assert parallel(8, lambda i: s.call("PUT", f"/b/x{i}", body=b"y" * MIB).status) == [200] * 8
    assert s.metrics().sum("fairlead_connections", kind="client_active") >= 400
    for wire in wires:
        assert wire.response().status == 400


def test_br40_replay_memory_is_a_limit_and_no_error(sidecar, origins):
    a, b = origins(2, ledger=False)
    s = sidecar({"replay_memory": "1MiB", "access_log": "off", **s3(a, b, route={"replay_body": "1MiB"})})
    assert parallel(40, lambda i: s.call("PUT", f"/b/{i}", body=generated(MIB)).status) == [200] * 40
    assert s.metrics().sum("fairlead_unbuffered_bodies_total") > 0


# -- and comes back ----------------------------------------------------------------------------------------------------
def test_memory_comes_back_after_a_crowd(sidecar, origin):
    """1,000 clients with a request each under way, three times: exchanges, clients, upstreams and buffers are freed."""
    u1 = origin("u1", "delay=1200 path=/wait", ledger=False)
    s = sidecar({"access_log": "off", **http(u1, max_conns=0)})
    assert s.get("/x").status == 200
    idle, files, peak = s.rss_kib(), s.open_files(), 0
    for _ in range(2):
        wires = [s.wire().request("GET", "/wait", [("x-pad", "p" * 3000)]) for _ in range(1000)]
        peak = max(peak, s.rss_kib())
        for wire in wires:
            try:
                assert wire.response().status == 200
            except Ended:
                pass
            wire.close()
    assert sanitized(s) or peak - idle > 4 << 10, "it was a crowd"
    comes_back(s, idle)
    wait_until("descriptors", lambda: s.open_files() <= files + 16, 5)
