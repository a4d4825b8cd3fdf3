"""Reading what a process spent (CPU, memory) and driving bench-load around exactly the requests that count."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from proxies import Running, pinned

IDLE_SECONDS = 5.0  # connections are idle then, and whoever gives memory back has done so
RESULT_SECONDS = 60  # the longest block takes a few


def cpu_ns(pids: list[int]) -> int:
    """utime + stime of all threads, in ns: the kernel's CPU clock of a process is the sum that /proc/PID/stat shows
    in ticks of 10 ms, without the rounding."""
    return sum(time.clock_gettime_ns((~pid) << 3 | 2) for pid in pids)


def ticks(pids: list[int]) -> tuple[int, int]:
    """utime and stime in ticks: only good for how the sum divides."""
    user = system = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        user += int(fields[11])
        system += int(fields[12])
    return user, system


def memory_kib(pids: list[int]) -> dict[str, int]:
    """Private_Dirty (what each further pod costs), Rss and Pss of the processes together."""
    total = {"Private_Dirty": 0, "Rss": 0, "Pss": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in total:
                total[name] += int(value.split()[0])
    return total


def socket_bytes(pids: list[int]) -> int:
    """Bytes that wait in the TCP sockets of the processes: not yet read, or not yet acknowledged by the other side."""
    inodes = set()
    for pid in pids:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes and fields[3] != "0A":  # 0A: a listener, whose queue counts connections
            total += sum(int(part, 16) for part in fields[4].split(":"))
    return total


SLABS = {"TCP", "sock_inode_cache", "filp", "eventpoll_epi", "eventpoll_pwq", "tw_sock_TCP"}


def slab_kib() -> int:
    """Kernel memory of sockets and what hangs on them, of the whole machine; 0 where it may not be read."""
    try:
        lines = Path("/proc/slabinfo").read_text().splitlines()[2:]
    except OSError:
        return 0
    rows = [line.split() for line in lines]
    return sum(int(r[1]) * int(r[3]) for r in rows if r[0] in SLABS) // 1024


def thread_count(pids: list[int]) -> int:
    return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)


@dataclass
class Block:
    """One measured run of one proxy."""

    cpu_us: float  # per request
    user_share: float  # of the CPU time, from ticks
    result: dict  # the JSON line of bench-load

    @property
    def errors(self) -> int:
        return self.result["errors"]


class Load:
    """bench-load, paused after its warm-up until go()."""

    def __init__(self, program: Path, port: int, arguments: list[str], cpu: int | None):
        command = [str(program), "--to", f"127.0.0.1:{port}", "--pause", *arguments]
        self.process = subprocess.Popen(
            pinned(command, cpu), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        if self.process.stdout.readline() != "ready\n":
            complaint = self.process.stderr.read().strip()
            self.process.wait()
            raise RuntimeError(f"{' '.join(command)}: {complaint}")

    def go(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self) -> dict:
        """When all requests are done; the connections are still open, until the end of the with block."""
        watchdog = threading.Timer(RESULT_SECONDS, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        watchdog.cancel()
        if not line:
            complaint = self.process.stderr.read().strip() or f"nothing within {RESULT_SECONDS} s; is its build up to date?"
            raise RuntimeError("bench-load gave no result: " + complaint)
        return json.loads(line)

    def __enter__(self) -> Load:
        return self

    def __exit__(self, failure, *_exc) -> None:
        if failure is not None:
            self.process.kill()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def measure(program: Path, proxy: Running, arguments: list[str], cpu: int | None) -> Block:
    """CPU time of the proxy per request, over the requests after the warm-up."""
    with Load(program, proxy.port, arguments, cpu) as load:
        pids = proxy.pids()
        user0, system0 = ticks(pids)
        before = cpu_ns(pids)
        load.go()
        result = load.result()
        spent = cpu_ns(pids) - before
        user1, system1 = ticks(pids)
    share = (user1 - user0) / max(1, user1 - user0 + system1 - system0)
    return Block(spent / 1000 / max(1, result["requests"]), share, result)


def measure_idle(program: Path, proxy: Running, connections: int, cpu: int | None) -> dict:
    """Memory before any client, with `connections` idle ones that had an answer each, and when they have left."""
    pids = proxy.pids()
    seen = {"start": memory_kib(pids), "threads": thread_count(pids), "slab_start": slab_kib()}
    arguments = ["--connections", str(connections), "--warmup", str(connections), "--spread", "8"]
    with Load(program, proxy.port, arguments, cpu) as load:
        time.sleep(IDLE_SECONDS)
        seen["idle"] = memory_kib(pids)
        seen["slab_idle"] = slab_kib()
        before = cpu_ns(pids)
        time.sleep(1.0)
        seen["idle_cpu_us_per_s"] = (cpu_ns(pids) - before) / 1000
        load.go()
        load.result()
    time.sleep(0.3)
    seen["after"] = memory_kib(pids)
    return seen


def measure_slow(program: Path, proxy: Running, arguments: list[str], cpu: int | None) -> dict:
    """The most memory while slow readers hold large answers."""
    pids = proxy.pids()
    peak = {"private_dirty_kib": 0, "socket_kib": 0}
    over = threading.Event()

    def sample() -> None:
        while not over.is_set():
            peak["private_dirty_kib"] = max(peak["private_dirty_kib"], memory_kib(pids)["Private_Dirty"])
            peak["socket_kib"] = max(peak["socket_kib"], socket_bytes(pids) // 1024)
            over.wait(0.1)

    with Load(program, proxy.port, arguments, cpu) as load:
        before = cpu_ns(pids)
        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            load.go()
            result = load.result()
        finally:
            over.set()
            sampler.join()
        spent = cpu_ns(pids) - before
    faults = {k: v for k, v in result["faults"].items() if v}
    return {
        **peak, "cpu_us_per_mib": spent / 1000 / max(1, result["bytes"] / (1 << 20)), "mib": result["bytes"] / (1 << 20),
        "faults": faults,
    }
