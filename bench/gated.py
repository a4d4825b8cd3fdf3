"""A backend that a verdict blocks: what its 503 costs at a given rate, and what another bucket notices of it.

Three open loops, in turn: the blocked bucket alone, another bucket alone, both at once. What the other bucket costs
beside the blocked one is the CPU time of both less what the 503s cost alone, per request of the other bucket.
"""

from __future__ import annotations

import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from measure import Load, cpu_ns
from proxies import Proxy, Running, fill
from report import Bar, number
from report import table as markdown

SHUT_PER_SECOND = 10000
OPEN_PER_SECOND = 4000
BLOCKED_WITHIN = 15  # seconds until the probe has found that nobody answers


@dataclass(frozen=True)
class Part:
    """One open loop."""

    arguments: list[str]

    @staticmethod
    def of(path: str, expect: str, per_second: int, seconds: float) -> Part:
        requests = int(per_second * seconds)
        return Part(["--path", path, "--expect", expect, "--connections", "32", "--warmup", "500", "--rate",
                     str(per_second), "--requests", str(requests)])


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


def block(program: Path, running: Running, parts: list[Part], cpu: int | None) -> tuple[float, list[dict]]:
    """CPU time in µs of the proxy while the parts run side by side, and their results."""
    loads = [Load(program, running.port, part.arguments, cpu) for part in parts]
    try:
        pids = running.pids()
        before = cpu_ns(pids)
        for load in loads:
            load.go()
        results = [load.result() for load in loads]
        return (cpu_ns(pids) - before) / 1000, results
    finally:
        for load in loads:
            load.__exit__(None)


def measure(program: Path, running: Running, rounds: int, quick: bool, cpu: int | None) -> dict:
    seconds = 0.5 if quick else 2.0
    shut = Part.of("/shut/1k", "503", SHUT_PER_SECOND, seconds)
    other = Part.of("/b/1k", "200", OPEN_PER_SECOND, seconds)
    seen: dict[str, list] = {"shut_us": [], "other_us": [], "both_us": [], "shut": [], "alone": [], "beside": []}
    for _ in range(rounds):
        spent, (result,) = block(program, running, [shut], cpu)
        seen["shut_us"].append(spent / result["requests"])
        seen["shut"].append(result)
        spent, (result,) = block(program, running, [other], cpu)
        seen["other_us"].append(spent / result["requests"])
        seen["alone"].append(result)
        spent, results = block(program, running, [shut, other], cpu)
        seen["both_us"].append(spent)
        seen["shut"].append(results[0])
        seen["beside"].append(results[1])
    shut_us = min(seen["shut_us"])
    seen["beside_us"] = [(both - shut_us * s["requests"]) / b["requests"]
                         for both, s, b in zip(seen["both_us"], seen["shut"][1::2], seen["beside"])]
    return seen


def row(name: str, costs: list[float], results: list[dict]) -> list[str]:
    def of(key: str) -> str:
        return number(median(r[key] for r in results))

    return [name, number(min(costs)), number(median(costs)), number(max(costs)), of("rps"), of("p50_us"), of("p99_us"),
            number(max(r["max_us"] for r in results)), str(sum(r["errors"] for r in results))]


def table(seen: dict) -> str:
    head = ["requests", "CPU µs/request min", "median", "max", "requests/s", "p50 µs", "p99 µs", "slowest µs", "errors"]
    return markdown(head, [
        row("503 of the blocked bucket", seen["shut_us"], seen["shut"]),
        row("another bucket, alone", seen["other_us"], seen["alone"]),
        row("another bucket, beside the 503s", seen["beside_us"], seen["beside"]),
    ])


def bars(seen: dict) -> list[Bar]:
    return [
        Bar("gated: median time of a 503 at 10,000/s, µs", median(r["p50_us"] for r in seen["shut"]), 1000),
        Bar("gated: the other bucket's CPU beside the 503s, × alone", min(seen["beside_us"]) / min(seen["other_us"]), 1.05),
        Bar("gated: slowest request of the other bucket (best round), ms",
            min(r["max_us"] for r in seen["beside"]) / 1000, 50),
    ]
