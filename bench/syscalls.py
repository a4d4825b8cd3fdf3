#!/usr/bin/env python3
"""System calls and allocations per keep-alive request, counted exactly on the thread that moves the data.

Counts are exact where timings are not: after a warm-up, strace attaches to the busiest thread, exactly N requests pass,
and the totals are divided by N. A proxy between two sockets needs 4 data calls (recv, send, recv, send), no epoll_ctl,
nothing else but epoll_wait, which a batch of events shares. Allocations are counted by the shim malloc_count.c.

For tests: calls_per_request() and allocations_per_request().
"""

from __future__ import annotations

import argparse
import os
import signal
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measure import Load  # noqa: E402
from proxies import Proxy, Running, Setting, all_proxies, first_free, start  # noqa: E402
from report import table  # noqa: E402

HERE = Path(__file__).resolve().parent
DATA_CALLS = {"read", "readv", "recvfrom", "recvmsg", "recvmmsg", "write", "writev", "sendto", "sendmsg", "sendmmsg",
              "sendfile", "splice"}
WAIT_CALLS = {"epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "select"}
# Attaching interrupts a waiting thread once, which shows as one of these.
ATTACH_CALLS = {"restart_syscall"}
WARMUP = 20000  # enough to tell the busiest thread by ticks of 10 ms
ROW = struct.Struct("<QQQQ")  # struct row of malloc_count.c


@dataclass(frozen=True)
class Calls:
    """Per request."""

    data: float
    wait: float
    epoll_ctl: float
    other: dict[str, float]

    def is_minimal(self) -> bool:
        return abs(self.data - 4) <= 0.02 and self.epoll_ctl == 0 and not self.other


def threads_of(running: Running) -> list[tuple[int, int]]:
    """(ticks of CPU, thread id) of every thread of the process and its children."""
    found = []
    for pid in running.pids():
        for tid in os.listdir(f"/proc/{pid}/task"):
            fields = Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()
            found.append((int(fields[11]) + int(fields[12]), int(tid)))
    return found


def busiest_thread(running: Running) -> int:
    """The data thread, after a warm-up: nothing else has spent as much."""
    return max(threads_of(running))[1]


def load_arguments(requests: int, connections: int, path: str) -> list[str]:
    return ["--connections", str(connections), "--path", path, "--warmup", str(WARMUP), "--requests", str(requests)]


def trace(tid: int, load: Load, output: Path) -> None:
    """strace -c on one thread while the load runs."""
    command = ["strace", "-c", "-U", "calls,errors,name", "-p", str(tid), "-o", str(output)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        if "attached" not in tracer.stderr.readline():
            raise RuntimeError("strace cannot attach: " + tracer.stderr.read())
        load.go()
        result = load.result()
        if result["errors"]:
            raise RuntimeError(f"errors while counting: {result}")
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        tracer.stderr.close()


def read_table(output: Path) -> dict[str, int]:
    counts = {}
    for line in output.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0].isdigit() and fields[-1] != "total":
            counts[fields[-1]] = int(fields[0])
    return counts


def calls_per_request(load_program: Path, running: Running, requests: int = 2000, connections: int = 1,
                      path: str = "/b/1k") -> Calls:
    output = running.directory / "strace"
    for _ in range(2):  # a thread slowed by strace has more in flight at once: its memory is taken in the first round
        with Load(load_program, running.port, load_arguments(requests, connections, path), None) as load:
            trace(busiest_thread(running), load, output)
    counts = read_table(output)
    other = {name: n / requests for name, n in counts.items()
             if name not in DATA_CALLS | WAIT_CALLS | ATTACH_CALLS and name != "epoll_ctl"}
    return Calls(
        data=sum(n for name, n in counts.items() if name in DATA_CALLS) / requests,
        wait=sum(n for name, n in counts.items() if name in WAIT_CALLS) / requests,
        epoll_ctl=counts.get("epoll_ctl", 0) / requests,
        other=other,
    )


def shim_environment(build: Path) -> dict[str, str]:
    """What to start a proxy with, so that allocations_per_request() can count."""
    return {"LD_PRELOAD": str(build / "bench" / "bench-malloc-count.so")}


def allocations(running: Running) -> dict[int, tuple[int, int, int]]:
    """Thread id -> allocations, frees, bytes since the start."""
    found = {}
    for pid in running.pids():
        file = Path(f"/dev/shm/fairlead-malloc-{pid}")
        if file.exists():
            for thread, count, frees, size in ROW.iter_unpack(file.read_bytes()):
                if thread:
                    found[thread] = (count, frees, size)
    return found


def forget_allocations(running: Running, pids: list[int]) -> None:
    """Removes the files of the shim; of a proxy that has ended."""
    for pid in {running.process.pid, *pids}:
        Path(f"/dev/shm/fairlead-malloc-{pid}").unlink(missing_ok=True)


def allocations_per_request(load_program: Path, running: Running, requests: int = 10000, connections: int = 8,
                            path: str = "/b/1k") -> float:
    """Calls of malloc and its kin by the data thread, of a proxy started with shim_environment()."""
    with Load(load_program, running.port, load_arguments(requests, connections, path), None) as load:
        thread = busiest_thread(running)
        before = allocations(running)
        if not before:
            raise RuntimeError(f"{running.name} was not started with the shim")
        load.go()
        result = load.result()
        if result["errors"]:
            raise RuntimeError(f"errors while counting: {result}")
        nothing = (0, 0, 0)
        return (allocations(running).get(thread, nothing)[0] - before.get(thread, nothing)[0]) / requests


def count(proxy: Proxy, setting: Setting, options: argparse.Namespace, directory: Path) -> tuple[Calls, float]:
    load = options.build / "bench" / "bench-load"
    with start(proxy, setting, directory / proxy.name, None) as running:
        calls = calls_per_request(load, running, options.requests, options.connections, options.path)
    with start(proxy, setting, directory / f"{proxy.name}-shim", None, shim_environment(options.build)) as running:
        pids = running.pids()
        try:
            mallocs = allocations_per_request(load, running, options.requests, options.connections, options.path)
        finally:
            running.stop()
            forget_allocations(running, pids)
    return calls, mallocs


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proxies", default="fairlead,fairlead-s3,nginx,haproxy,relay", help="comma-separated")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--path", default="/b/1k")
    parser.add_argument("--check", action="store_true", help="exit 1 unless fairlead needs 4.00 data calls, no epoll_ctl, "
                        "no other call and no allocation")
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "release", help="build directory")
    parser.add_argument("--port", type=int, help="first of the loopback ports (default: free ones from 19100)")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.port = options.port or first_free(19100)
    return options


def main() -> int:
    options = parse_options()
    lines, minimal = [], False
    with tempfile.TemporaryDirectory(prefix="fairlead-syscalls-") as name:
        directory = Path(name)
        origin_directory = directory / "origin"
        origin_directory.mkdir()
        command = [str(options.build / "bench" / "bench-origin"), "--listen", f"127.0.0.1:{options.port}"]
        with Running(command, origin_directory, None, options.port, "origin") as origin:
            origin.wait_until_listening()
            for index, proxy in enumerate(all_proxies(options.build)):
                if proxy.name not in options.proxies.split(","):
                    continue
                if not proxy.available():
                    print(f"left out, not there: {proxy.name} ({proxy.program})", file=sys.stderr)
                    continue
                calls, mallocs = count(proxy, Setting(options.port + 10 + index, [options.port]), options, directory)
                other = ", ".join(f"{k} {v:.3f}" for k, v in sorted(calls.other.items())) or "none"
                lines.append([proxy.name, f"{calls.data:.3f}", f"{calls.wait:.3f}", f"{calls.epoll_ctl:.3f}", other,
                              f"{mallocs:.3f}"])
                if proxy.name == "fairlead":
                    minimal = calls.is_minimal() and mallocs == 0
    print(f"{options.requests} keep-alive GETs of {options.path}, {options.connections} connection(s), the data thread:\n")
    print(table(["proxy", "data calls/request", "epoll_wait", "epoll_ctl", "other calls", "allocations"], lines))
    return 1 if options.check and not minimal else 0


if __name__ == "__main__":
    sys.exit(main())
