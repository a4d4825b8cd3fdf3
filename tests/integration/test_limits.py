"""Limits and attacks: slow heads and bodies, many and large heads, floods of connections, requests and resets, too few
descriptors, an end of the process under load. What is not attacked goes on, and everything comes back."""
import ctypes
import os
import re
import resource
import select
import socket
import statistics
import struct
import threading
import time

import pytest

from bed.config import FREE, http, s3
from bed.origin import generated
from bed.play import Caller, parallel
from bed.process import SLACK, wait_until
from bed.sidecar import descriptor_tables
from bed.wire import Ended, Wire, head

GET = head("GET", "/x")


class Meter:
    """CPU of the sidecar, its event lines, and how quickly it answers on both sides, while something goes on."""

    def __init__(self, sidecar, seconds=1.5, data=None):
        s, start = sidecar, time.monotonic()
        cpu, seen = s.cpu_seconds(), len(s.events())
        self.asked, self.data = [], []
        while time.monotonic() - start < seconds:
            for path in ("/_/ready", "/_/metrics"):
                at = time.monotonic()
                assert s.ask("GET", path, port=s.status_port).status == 200
                self.asked.append(time.monotonic() - at)
            if data:
                at = time.monotonic()
                assert data.request("GET", "/x").response().status == 200
                self.data.append(time.monotonic() - at)
            time.sleep(0.2)
        self.took = time.monotonic() - start
        self.cpu = (s.cpu_seconds() - cpu) / self.took
        self.events = s.events()[seen:]

    def quiet(self):
        assert self.cpu < 0.05, f"{self.cpu:.0%} of a CPU while nothing can be done"
        warned = [e for e in self.events if e["msg"] == "accept paused"]
        assert len(warned) <= self.took + 1 and len(self.events) <= 2 * self.took + 2, self.events
        assert statistics.median(self.asked) < 0.1 * SLACK, self.asked
        return self


def files(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def connections(s, kind):
    return s.metrics().sum("fairlead_connections", kind=kind)


def settled(s, timeout=5):
    """Nothing is under way any more: no client, no exchange, no busy upstream."""
    wait_until(lambda: f"no connections, has {s.metrics().series('fairlead_connections')}",
               lambda: all(connections(s, k) == 0 for k in ("client", "client_active", "upstream_active", "queued")),
               timeout, 0.05)


def half_closed(pid):
    """Sockets of this process in CLOSE_WAIT."""
    inodes = {target for table in descriptor_tables(pid) for target in table.values()}
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    return [row for row in rows if row[3] == "08" and f"socket:[{row[9]}]" in inodes]


# -- slow clients ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", [http, s3])
def test_slow_heads_end_after_their_time(sidecar, origin, protocol):
    """10 s from the first byte, whatever comes meanwhile; here 1 s."""
    s = sidecar({"client": {"head_timeout": "1s"}, **protocol(origin())})
    wires, quick, latency = [s.wire() for _ in range(60)], s.wire(), []
    first = select.poll()  # select() takes no descriptor above 1023
    first.register(wires[0].sock, select.POLLIN)
    start = time.monotonic()
    for n in range(len(GET) - 1):
        for wire in wires:
            try:
                wire.send(GET[n:n + 1])
            except OSError:
                pass  # refused meanwhile
        at = time.monotonic()
        assert quick.request("GET", "/x").response().status == 200
        latency.append(time.monotonic() - at)
        if first.poll(40):
            break
    took = time.monotonic() - start
    assert 0.9 < took < 1.6 * SLACK, "bytes that trickle in give no new time"
    assert statistics.median(latency) < 0.05 * SLACK
    for wire in wires:
        response = wire.response()
        assert response.status == (400 if protocol is s3 else 408)
        assert response.header("X-Fairlead-Error") == "request_timeout" and wire.ended(2)
    assert s.wait_access(60, error="request_timeout")


def test_slow_bodies_end_when_they_stall(sidecar, origin):
    s = sidecar({"client": {"body_timeout": "500ms"}, **s3(origin(), max_fails=1)})
    wires = [s.wire() for _ in range(40)]
    for i, wire in enumerate(wires):
        framing = "Content-Length: 100000" if i % 2 else "Transfer-Encoding: chunked"
        wire.send(f"PUT /b/{i} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n3\r\nab")
    moving = s.wire().send("PUT /b/moving HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n")
    for _ in range(8):
        time.sleep(0.2)
        moving.send(b"x")
        assert s.get("/b/x").status == 200
    assert moving.response().status == 200, "1.6 s in all, but it never stalled"
    moving.close()
    for wire in wires:
        response = wire.response()
        assert response.status == 400 and b"RequestTimeout" in response.body and wire.ended(2)
    assert s.events("upstream server temporarily disabled") == [], "a slow client is no failure of the peer"
    settled(s)


def test_a_reader_that_stops_is_cut_and_costs_nobody(sidecar, origin):
    u1 = origin("u1", f"size={64 << 20} path=/large")
    s = sidecar({"client": {"write_timeout": "1s"}, **http(u1, max_fails=1)})
    stuck = [s.wire(rcvbuf=8192).request("GET", "/large") for _ in range(10)]
    start = time.monotonic()
    Meter(s, 0.6, s.wire()).quiet()
    lines = s.wait_access(10, 5, **{"class": "client_timeout"})
    assert 0.9 < time.monotonic() - start and all(line["uri"] == "/large" for line in lines)
    for wire in stuck:
        with pytest.raises(Ended):
            wire.response()
    assert s.events("upstream server temporarily disabled") == []
    settled(s)


# -- heads -------------------------------------------------------------------------------------------------------------
def test_many_and_large_heads(sidecar, origin):
    s = sidecar(http(origin("u1")))
    many = [(f"x-{i}", "v") for i in range(120)]
    assert s.call("GET", "/x", many).status == 200
    assert s.call("GET", "/x", many * 2).status == 431
    room = (64 << 10) - len(head("GET", "/x", [("x-pad", "")]))
    assert s.call("GET", "/x", [("x-pad", "p" * room)]).status == 200
    assert s.call("GET", "/x", [("x-pad", "p" * (room + 1))]).status == 431
    hops = [("Connection", ", ".join(f"x-{i}" for i in range(0, 120, 2)))]
    assert s.call("GET", "/x", hops + many).status == 200, "sixty gaps in a head"
    results = parallel(12, lambda i: s.call("GET", "/x", [("x-pad", "p" * (60 << 10))]).status)
    assert results == [200] * 12


# -- floods ------------------------------------------------------------------------------------------------------------
def pour(wire, request, count):
    """Sends `count` requests without waiting and reads their answers meanwhile; the statuses."""
    thread = threading.Thread(target=wire.sock.sendall, args=(request * count,))
    thread.start()
    while wire.buffer.count(b"HTTP/1.1 ") < count:
        assert wire.more(), f"ended after {wire.buffer.count(b'HTTP/1.1 ')} answers"
    thread.join()
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d{3})", wire.buffer)]


@pytest.mark.parametrize("target, status", [("/x", 200), ("/_/x", 404)], ids=["relayed", "answered"])
def test_a_flood_of_pipelined_requests_is_served_in_turn(sidecar, origin, target, status):
    """Recursion from one request into the next would end the stack of a data thread, which has 256 KiB."""
    s = sidecar({"access_log": "off", **http(origin("u1", "size=1", ledger=False))})
    flood, other, latency = s.wire(timeout=60), s.wire(), []
    assert other.request("GET", "/x").response().status == 200
    result = []
    thread = threading.Thread(target=lambda: result.append(pour(flood, head("GET", target), 10000)))
    thread.start()
    while thread.is_alive() and len(latency) < 2000:
        at = time.monotonic()
        assert other.request("GET", "/x").response().status == 200
        latency.append(time.monotonic() - at)
        time.sleep(0.01)
    thread.join()
    assert result and result[0] == [status] * 10000
    assert statistics.median(latency) < 0.05 * SLACK, f"{max(latency):.3f} s at most"


@pytest.mark.parametrize("threads", [1, 3])
def test_a_flood_of_connections_pauses_accepting(sidecar, origin, threads):
    """The default cap, and more."""
    s = sidecar({"threads": threads, **http(origin())})
    inside = s.wire()
    assert inside.request("GET", "/x").response().status == 200
    crowd = []
    for _ in range(4096 + 400):
        one = socket.socket()
        one.setblocking(False)
        try:
            one.connect(s.data)
        except BlockingIOError:
            pass
        crowd.append(one)
    wait_until("the cap", lambda: connections(s, "client") >= 4096, 15)
    Meter(s, 2, inside).quiet()
    assert 4096 <= connections(s, "client") < 4096 + threads
    paused = s.wait_event("accept paused")
    assert paused["reason"] == "max_connections reached" and paused["connections"] >= 4096
    for one in crowd:
        one.close()
    wait_until("new clients to be served", lambda: s.get("/x").status == 200, 5)
    inside.close()
    settled(s, 10)


def test_too_few_descriptors_leave_one_for_each_upstream(sidecar, origins):
    s = sidecar(http(*origins(2), max_fails=1, keepalive={"idle": 0}), preexec=files(64))
    live = s.wire()
    assert live.request("GET", "/x").response().status == 200
    crowd = [Wire(s.data, timeout=5) for _ in range(100)]
    meter = Meter(s, 2, live).quiet()
    assert meter.data, "a live client is served, by a fresh connection each time"
    assert [e["reason"] for e in s.events("accept paused")][:1] == ["out of descriptors"]
    accepted = int(connections(s, "client"))
    assert 10 <= accepted <= 32
    served = parallel(8, lambda i: crowd[i].request("GET", "/x").response().status)
    assert served == [200] * 8, "who was let in is served"
    assert s.events("upstream server temporarily disabled") == []
    for wire in crowd:
        wire.close()
    wait_until("new clients to be served", lambda: s.get("/x").status == 200, 5)


def test_a_storm_of_resets(sidecar, origin):
    s = sidecar(http(origin("u1", "delay=5 path=/slow", ledger=False), max_fails=1))
    inside = s.wire()
    assert inside.request("GET", "/x").response().status == 200
    before, linger = s.open_files(), struct.pack("ii", 1, 0)
    told = [b"", GET[:20], GET, head("GET", "/slow"), head("PUT", "/slow", body=b"x" * 9) + b"xx"]

    def storm(worker):
        for i in range(2500):
            one = socket.socket()
            one.connect(s.data)
            if told[i % 5]:
                one.send(told[i % 5])
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            one.close()
        return worker

    threads = [threading.Thread(target=storm, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    latency = []
    while any(t.is_alive() for t in threads):
        at = time.monotonic()
        assert inside.request("GET", "/x").response().status == 200
        latency.append(time.monotonic() - at)
        time.sleep(0.01)
    assert statistics.median(latency) < 0.1 * SLACK
    inside.close()
    settled(s)
    wait_until("descriptors", lambda: s.open_files() <= before + 16 + 5, 5)  # 16 kept for the peer
    assert half_closed(s.pid) == []
    assert s.events("upstream server temporarily disabled") == [], "clients that leave are no failure of the peer"


# -- BR-46 -------------------------------------------------------------------------------------------------------------
def test_br46_nothing_leaks_in_ten_thousand_cycles(sidecar, origins):
    """Clients that leave early, backends that end in the middle, while idle or before an answer; retries."""
    odd = "fin_response=120 path=/cut|rst_request=0 path=/reset|close path=/close|delay=30 path=/late".split("|")
    a, b = origins(2, ledger=False)
    a.rules(*odd)
    s = sidecar({"access_log": "off", **http(a, b, max_fails=0, keepalive={"idle": 4}, **FREE)},
                env={"ASAN_OPTIONS": "exitcode=99:detect_leaks=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=64"})
    targets = ["/x", "/cut", "/reset", "/close", "/late", "/x"]

    def cycles(worker):
        for i in range(850):
            target, leave = targets[(i + worker) % 6], i % 5
            try:
                with Wire(s.data) as wire:
                    wire.request("PUT" if i % 7 == 0 else "GET", target, body=b"y" * 300 if i % 7 == 0 else None)
                    if leave == 0:
                        wire.rst()
                    elif leave == 1:
                        wire.fin()
                    elif leave == 2:
                        wire.request("GET", "/x")
                        wire.response()
                    else:
                        wire.response()
            except (Ended, OSError, AssertionError):
                pass
        return worker

    sizes, counts = [], []
    for _ in range(3):
        parallel(4, cycles)
        settled(s)
        time.sleep(0.2)
        sizes.append(s.rss_kib())
        counts.append(s.open_files())
        assert half_closed(s.pid) == []
    assert max(counts) - min(counts) <= 5 + 8, counts
    assert sizes[2] - sizes[1] < 2048, f"RSS after each round: {sizes} KiB"


# -- the end of the process --------------------------------------------------------------------------------------------
def test_br39_an_end_is_not_held_up_and_says_what_it_cut(sidecar, origin):
    u1 = origin("u1", "size=10000000 rate=50000 path=/live", "fin_response=200 size=9000 path=/cut", "hang path=/hang")
    s = sidecar({"drain_timeout": "1500ms", **http(u1, max_fails=0)})
    idle = [s.wire() for _ in range(3)]
    assert [w.request("GET", "/x").response().status for w in idle] == [200] * 3
    frozen = s.wire(rcvbuf=4096).request("GET", "/live")  # as a client whose machine is gone: nothing comes back
    live, hung, cut = (s.wire().request("GET", t) for t in ("/live", "/hang", "/cut"))
    assert cut.ended(2)
    u1.until(requests=7)
    start = time.monotonic()
    s.terminate()
    assert all(w.ended(2) == "fin" for w in idle), "a second to themselves, then closed"
    assert s.wait(6) == 0 and 1.4 < time.monotonic() - start < 3.5 * SLACK
    assert s.wait_event("stopped")["requests_cut"] == 3, "live, frozen and hung"
    assert live.ended(1) and hung.ended(1) and frozen.ended(1)


def test_sigterm_under_load_fails_nothing(sidecar, origins):
    """A client that replaces a connection closed between two requests sees no failure until the port is closed, which
    happens when it has been silent for a second."""
    s = sidecar(http(*origins(2), max_fails=0))
    caller, stop, seen, faults = Caller(s.data), threading.Event(), [], []

    def load(i):
        while not stop.is_set():
            try:
                body = b"x" * 20000 if i % 2 else None
                seen.append(caller.call("PUT" if body else "GET", f"/{i}", body=body).status)
            except (Ended, OSError, AssertionError) as e:
                faults.append(repr(e))
            time.sleep(0.002)

    threads = [threading.Thread(target=load, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    time.sleep(0.7)
    s.terminate()
    time.sleep(1.5)
    assert s.running, "it does not leave while it is asked"
    stop.set()
    for t in threads:
        t.join()
    assert faults == [] and set(seen) == {200} and len(seen) > 500, (faults[:3], len(seen))
    assert s.wait(5) == 0
    assert s.wait_event("stopped")["requests_cut"] == 0


def test_a_download_of_long_breath_outlives_sigterm(sidecar, origin):
    s = sidecar(http(origin("u1", "size=400000 rate=300000 path=/live")))
    live = s.wire().request("GET", "/live")
    live.more()
    s.terminate()
    assert live.response().body == generated(400000)
    assert s.wait(5) == 0


# -- descriptor tables -------------------------------------------------------------------------------------------------
def forbid_close_range():
    """As a seccomp profile would: EPERM (struct sock_filter: what, jumps, value)."""
    number = struct.pack("HBBI", 0x20, 0, 0, 0)  # load the system call's number
    is_it = struct.pack("HBBI", 0x15, 0, 1, 436)  # close_range has this one on all machines
    refuse, allow = struct.pack("HBBI", 0x06, 0, 0, 0x50001), struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000)
    program = number + is_it + refuse + allow
    libc, held = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(program, len(program))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(held)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filters, 0, 0) == 0  # NO_NEW_PRIVS, SECCOMP


def listeners(table):
    with open("/proc/net/tcp", encoding="ascii") as rows:
        listening = {f"socket:[{row[9]}]": int(row[1].split(":")[1], 16)
                     for row in (line.split() for line in rows) if row[3] == "0A"}
    return {listening[target] for target in table.values() if target in listening}


@pytest.mark.parametrize("forbidden", [False, True], ids=["own", "shared"])
def test_data_threads_have_a_descriptor_table_of_their_own_where_they_may(sidecar, origin, forbidden):
    s = sidecar(http(origin("u1", "size=5")), preexec=forbid_close_range if forbidden else None)
    wires = [s.wire() for _ in range(8)]
    assert all(wire.request("GET", "/x").response().status == 200 for wire in wires)
    tables = descriptor_tables(s.pid)
    assert len(tables) == (1 if forbidden else 2)
    assert s.data[1] in listeners(tables[0]), "what tools show of the process is what serves"
    assert s.data[1] not in set().union(*map(listeners, tables[1:])), "one copy: the port is free once it is closed"
    assert s.admin("/_/ready")["status"] == "ready"
    s.terminate()
    assert s.wait(5) == 0
