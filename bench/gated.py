"""A backend that a verdict blocks: what its 503 costs at a given rate, and what another bucket notices of it.

Times: two open loops, the blocked bucket alone, then beside another bucket.

CPU: a request costs more on a thread that is woken for it than on one that has more to do in the same turn, so the
other bucket alone and the other bucket beside 10,000 503s a second cannot be compared: the second looks cheaper.
Therefore both loads run in every round, and only the process that answers them differs: "apart", the other bucket's
requests go to one sidecar and the 503s to a second; "together", all go to the first. The other bucket's load is a
closed loop of 256 connections, and a process that only spins shares the proxies' processor, so that every turn of every
proxy finds a backlog, apart and together. What the other bucket costs together is the CPU time of the first sidecar
less what the 503s cost the second one in the same pair of blocks. bench/gated_count.py counts instead of timing.
"""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from measure import Load, cpu_ns
from proxies import Proxy, Running, fill, pinned
from report import Bar, number
from report import table as markdown

SHUT_PER_SECOND = 10000
OPEN_PER_SECOND = 4000
SHARE_SECONDS = 1  # of one block of CPU time: short, and many of them
PAIRS = 3  # in each round
BLOCKED_WITHIN = 15  # seconds until the probe has found that nobody answers


@dataclass(frozen=True)
class Part:
    """One load."""

    arguments: list[str]

    @staticmethod
    def of(path: str, expect: str, per_second: int, seconds: float) -> Part:
        requests = int(per_second * seconds)
        return Part(["--path", path, "--expect", expect, "--connections", "32", "--warmup", "500", "--rate",
                     str(per_second), "--requests", str(requests)])

    @staticmethod
    def lasting(path: str, expect: str, connections: int, per_second: int = 0) -> Part:
        """For SHARE_SECONDS; per_second 0: a closed loop."""
        return Part(["--path", path, "--expect", expect, "--connections", str(connections), "--warmup", "500",
                     "--rate", str(per_second), "--seconds", str(SHARE_SECONDS)])


def start(proxy: Proxy, port: int, origin: int, dead: int, directory: Path, cpu: int | None) -> Running:
    config = fill("fairlead-gated.yaml", directory, PORT=port, ADMIN_PORT=port + 1000, STATUS_PORT=port + 2000,
                  ORIGIN=origin, DEAD=dead)
    running = Running([str(proxy.program), "--config", str(config)], directory, cpu, port, "gated")
    try:
        running.wait_until_listening()
        wait_until_blocked(port)
    except BaseException:
        running.stop()
        raise
    return running


def wait_until_blocked(port: int) -> None:
    """Asks the metrics whether the bucket's 503 comes from the verdict."""
    end = time.monotonic() + BLOCKED_WITHIN
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/shut/x", timeout=5).close()
        except OSError:
            pass
        with urllib.request.urlopen(f"http://127.0.0.1:{port + 2000}/_/metrics", timeout=5) as page:
            for line in page.read().decode().splitlines():
                if line.startswith("fairlead_gated_requests_total{") and float(line.split()[-1]) > 0:
                    return
        time.sleep(0.1)
    raise RuntimeError("the backend is not blocked; is the metric's name still fairlead_gated_requests_total?")


def block(program: Path, cpu: int | None, *loads: tuple[Running, Part]) -> tuple[list[float], list[dict]]:
    """CPU time in µs of each load's proxy while all run side by side, and their results."""
    running = [Load(program, proxy.port, part.arguments, cpu) for proxy, part in loads]
    try:
        before = [cpu_ns(proxy.pids()) for proxy, _ in loads]
        for load in running:
            load.go()
        results = [load.result() for load in running]
        return [(cpu_ns(proxy.pids()) - at) / 1000 for (proxy, _), at in zip(loads, before)], results
    finally:
        for load in running:
            load.__exit__(None)


def measure(program: Path, running: Running, rounds: int, quick: bool, cpu: int | None) -> dict:
    """The times."""
    seconds = 0.5 if quick else 2.0
    shut = Part.of("/shut/1k", "503", SHUT_PER_SECOND, seconds)
    other = Part.of("/b/1k", "200", OPEN_PER_SECOND, seconds)
    seen: dict[str, list] = {"shut_us": [], "shut": [], "beside": []}
    for _ in range(rounds):
        (spent,), (result,) = block(program, cpu, (running, shut))
        seen["shut_us"].append(spent / result["requests"])
        seen["shut"].append(result)
        _, results = block(program, cpu, (running, shut), (running, other))
        seen["shut"].append(results[0])
        seen["beside"].append(results[1])
    return seen


@contextmanager
def contended(cpu: int | None):
    """Somebody else has work for this processor, too: what is there gets its turns, and finds a backlog at each."""
    spinner = subprocess.Popen(pinned([sys.executable, "-c", "while True: pass"], cpu))
    try:
        yield
    finally:
        spinner.kill()
        spinner.wait()


def share(program: Path, first: Running, second: Running, pairs: int, cpus: tuple) -> dict:
    """The CPU time; cpus: of the proxies, and of the loads."""
    shut = Part.lasting("/shut/1k", "503", 32, SHUT_PER_SECOND)
    other = Part.lasting("/b/1k", "200", 256)
    seen: dict[str, list] = {"shut_us": [], "alone_us": [], "beside_us": [], "ratio": [], "shut": [], "alone": [],
                             "beside": []}
    for number in range(pairs):
        def apart():
            return block(program, cpus[1], (first, other), (second, shut))

        def together():
            return block(program, cpus[1], (first, other), (first, shut))

        order = (apart, together) if number % 2 == 0 else (together, apart)
        with contended(cpus[0]):
            done = {way.__name__: way() for way in order}
        (alone_us, shut_us), (alone, shut_alone) = done["apart"]
        (both_us, _), (beside, shut_beside) = done["together"]
        seen["shut_us"].append(shut_us / shut_alone["requests"])
        seen["alone_us"].append(alone_us / alone["requests"])
        seen["beside_us"].append((both_us - seen["shut_us"][-1] * shut_beside["requests"]) / beside["requests"])
        seen["ratio"].append(seen["beside_us"][-1] / seen["alone_us"][-1])
        seen["shut"].append(shut_alone)
        seen["alone"].append(alone)
        seen["beside"].append(beside)
    return seen


def row(name: str, costs: list[float], results: list[dict]) -> list[str]:
    def of(key: str) -> str:
        return number(median(r[key] for r in results))

    return [name, number(min(costs)), number(median(costs)), number(max(costs)), of("rps"), of("p50_us"), of("p99_us"),
            number(max(r["max_us"] for r in results)), str(sum(r["errors"] for r in results))]


def table(seen: dict, shared: dict) -> str:
    head = ["requests", "CPU µs/request min", "median", "max", "requests/s", "p50 µs", "p99 µs", "slowest µs", "errors"]
    return markdown(head, [
        row("503 of the blocked bucket, 10,000/s", seen["shut_us"], seen["shut"]),
        row("503, backlogged, in a sidecar of its own", shared["shut_us"], shared["shut"]),
        row("another bucket, the 503s in another sidecar", shared["alone_us"], shared["alone"]),
        row("another bucket, the 503s in the same sidecar", shared["beside_us"], shared["beside"]),
    ])


def bars(seen: dict, shared: dict) -> list[Bar]:
    return [
        Bar("gated: median time of a 503 at 10,000/s, µs", median(r["p50_us"] for r in seen["shut"]), 1000),
        Bar("gated: the other bucket's CPU beside the 503s, × with them elsewhere (median of pairs)",
            median(shared["ratio"]), 1.05),
        Bar("gated: slowest request of the other bucket (best round), ms",
            min(r["max_us"] for r in seen["beside"]) / 1000, 50),
    ]
