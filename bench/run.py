#!/usr/bin/env python3
"""Fairlead beside nginx, HAProxy and a bare relay: CPU per request, latency, memory; all in one run, interleaved.

The measure is CPU time of the proxy per request (utime + stime of all its threads), because it does not depend on who
else uses the machine; requests/s and latency are printed beside it. Rounds go A B C D, then D C B A, so that a drift of
the machine hits all alike. With two processors the proxy runs alone on CPU 1, load and origin on CPU 0 (--pin).

Needs a release build (./dev bench makes one). Builds nothing itself.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gated  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
from proxies import TLS_NAME, Fairlead, Proxy, Running, Setting, all_proxies, fill, first_free, start  # noqa: E402
from scenarios import SCENARIOS, SLOW_ARGUMENTS, Scenario  # noqa: E402

HERE = Path(__file__).resolve().parent
PINS = {"split": (1, 0), "shared": (1, 1), "none": (None, None)}  # processors of the proxy, and of load and origin
ONLY_LARGE = {"haproxy-splice", "relay-splice"}  # the same as their plain variants on small answers


class Bench:
    def __init__(self, options: argparse.Namespace, directory: Path):
        self.options = options
        self.directory = directory
        self.proxy_cpu, self.load_cpu = PINS[options.pin] if (os.cpu_count() or 1) >= 2 else PINS["none"]
        self.load = options.build / "bench" / "bench-load"
        self.origin_ports = [options.port + i for i in range(4)]
        self.dead_ports = [options.port + 4 + i for i in range(4)]
        self.tls_port = options.port + 8
        self.proxies = self.chosen_proxies()
        self.bars: list[report.Bar] = []
        self.raw: dict[str, dict] = {}

    def chosen_proxies(self) -> list[Proxy]:
        known = all_proxies(self.options.build)
        for also in self.options.also:
            name, _, program = also.partition("=")
            known.append(Fairlead(name, Path(program).resolve(), options={"protocol": "http"}))
        if self.options.proxies:
            wanted = self.options.proxies.split(",")
            unknown = set(wanted) - {p.name for p in known}
            if unknown:
                sys.exit(f"unknown proxy: {', '.join(sorted(unknown))}; known: {', '.join(p.name for p in known)}")
            known = [p for p in known if p.name in wanted or any(a.startswith(p.name + "=") for a in self.options.also)]
        for proxy in known:
            if not proxy.available():
                print(f"left out, not there: {proxy.name} ({proxy.program})", file=sys.stderr)
        return [p for p in known if p.available()]

    def start_origin(self) -> Running:
        command = [str(self.options.build / "bench" / "bench-origin")]
        for port in self.origin_ports:
            command += ["--listen", f"127.0.0.1:{port}"]
        directory = self.directory / "origin"
        directory.mkdir()
        origin = Running(command, directory, self.load_cpu, self.origin_ports[0], "origin")
        origin.wait_until_listening()
        return origin

    def start_tls_origin(self) -> Running:
        """nginx with the answers of the origin in files, and a certificate of its own making."""
        directory = self.directory / "tls-origin"
        (directory / "b").mkdir(parents=True)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", f"/CN={TLS_NAME}",
                        "-addext", f"subjectAltName=DNS:{TLS_NAME}"], cwd=directory, check=True, capture_output=True)
        for name in ("1k", "1m"):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.origin_ports[0]}/b/{name}", timeout=10) as answer:
                (directory / "b" / name).write_bytes(answer.read())
        config = fill("tls-origin.conf", directory, DIR=directory, PORT=self.tls_port,
                      USER="user root;" if os.geteuid() == 0 else "")
        origin = Running(["nginx", "-p", str(directory), "-c", str(config)], directory, self.load_cpu, self.tls_port,
                         "tls-origin")
        origin.wait_until_listening()
        return origin

    def setting(self, scenario: Scenario, index: int) -> Setting:
        peers = self.origin_ports[: scenario.live] + self.dead_ports[: scenario.dead]
        if scenario.tls:
            peers = [self.tls_port]
        # ports of its own: a SYN that meets the TIME_WAIT of the scenario before may be dropped, and waits for seconds
        port = self.options.port + 10 + 12 * SCENARIOS.index(scenario) + index
        return Setting(port, peers, scenario.dead, scenario.log,
                       self.directory / "tls-origin" / "cert.pem" if scenario.tls else None,
                       max(4096, scenario.connections + 16))

    def start_all(self, scenario: Scenario) -> list[tuple[Proxy, Running]]:
        started: list[tuple[Proxy, Running]] = []
        for index, proxy in enumerate(self.proxies):
            setting = self.setting(scenario, index)
            if not proxy.supports(setting) or (proxy.name in ONLY_LARGE and not scenario.large):
                continue
            try:
                directory = self.directory / scenario.name / proxy.name
                started.append((proxy, start(proxy, setting, directory, self.proxy_cpu)))
            except RuntimeError as broken:
                print(f"left out, does not start: {broken}", file=sys.stderr)
        return started

    def works(self, scenario: Scenario, running: Running) -> bool:
        command = [str(self.load), "--to", f"127.0.0.1:{running.port}", *scenario.check_arguments()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and json.loads(done.stdout)["errors"] == 0:
            return True
        print(f"left out, wrong answers: {running.name} in {scenario.name}: {done.stdout}{done.stderr}", file=sys.stderr)
        return False

    def run(self, scenario: Scenario) -> str:
        if scenario.kind == "gated":
            return self.run_gated(scenario)
        started = self.start_all(scenario)
        try:
            if scenario.kind == "cpu":
                return self.run_cpu(scenario, [(p, r) for p, r in started if self.works(scenario, r)])
            return self.run_memory(scenario, started)
        finally:
            for _, running in started:
                running.stop()

    def run_cpu(self, scenario: Scenario, started: list[tuple[Proxy, Running]]) -> str:
        rows = {r.name: report.Row(r.name, p.is_floor, []) for p, r in started}
        arguments = scenario.load_arguments(self.options.quick)
        for number in range(self.options.rounds * scenario.times):
            order = started if number % 2 == 0 else list(reversed(started))
            for _, running in list(order):
                try:
                    rows[running.name].blocks.append(measure.measure(self.load, running, arguments, self.load_cpu))
                except RuntimeError as broken:
                    print(f"{running.name} in {scenario.name}: {broken}", file=sys.stderr)
        measured = [row for row in rows.values() if row.blocks]
        self.bars += report.bars(scenario, measured, {})
        self.raw[scenario.name] = {
            row.name: [{"cpu_us": b.cpu_us, "user_share": b.user_share, **b.result} for b in row.blocks]
            for row in measured
        }
        return report.cpu_table(measured)

    def run_memory(self, scenario: Scenario, started: list[tuple[Proxy, Running]]) -> str:
        seen: dict[str, dict] = {}
        for _, running in started:
            try:
                if scenario.kind == "idle":
                    seen[running.name] = measure.measure_idle(self.load, running, scenario.connections,
                                                                      self.load_cpu)
                else:
                    seen[running.name] = measure.measure_slow(self.load, running, SLOW_ARGUMENTS, self.load_cpu)
            except RuntimeError as broken:
                print(f"{running.name} in {scenario.name}: {broken}", file=sys.stderr)
        self.raw[scenario.name] = seen
        if scenario.kind == "idle":
            self.bars += report.bars(scenario, [], seen)
            return report.idle_table(seen, scenario.connections)
        return report.slow_table(seen)

    def run_gated(self, scenario: Scenario) -> str:
        proxy = next((p for p in self.proxies if p.name == "fairlead"), None)
        if proxy is None:
            return "fairlead is not among the proxies."

        def sidecar(index: int, cpu: int | None) -> Running:
            directory = self.directory / scenario.name / str(index)
            directory.mkdir(parents=True)
            return gated.start(proxy, self.setting(scenario, index).port, self.origin_ports[0], self.dead_ports[0],
                               directory, cpu)

        rounds, quick = self.options.rounds, self.options.quick
        with sidecar(0, self.proxy_cpu) as running:
            seen = gated.measure(self.load, running, rounds, quick, self.load_cpu)
        with sidecar(1, self.proxy_cpu) as first, sidecar(2, self.proxy_cpu) as second:
            shared = gated.share(self.load, first, second, rounds * gated.PAIRS, (self.proxy_cpu, self.load_cpu))
        self.raw[scenario.name] = {"times": seen, "cpu": shared}
        self.bars += gated.bars(seen, shared)
        return gated.table(seen, shared)

    def heading(self) -> str:
        model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                      if line.startswith("model name")), platform.machine())
        commit = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty"], capture_output=True,
                                text=True, check=False).stdout.strip()
        pins = f"proxy on CPU {self.proxy_cpu}, load and origin on CPU {self.load_cpu}"
        if self.proxy_cpu is None:
            pins = "nothing pinned"
        often = "".join(f", {s.times} times as many of {s.name}" for s in SCENARIOS if s.times > 1)
        lines = [
            "# Benchmark results", "",
            f"`bench/run.py {shlex.join(sys.argv[1:])}` at {commit or 'an unknown commit'}, "
            f"{datetime.date.today().isoformat()}.", "",
            f"- {model}, {os.cpu_count()} processors, Linux {platform.release()}; {pins}; loopback.",
            f"- {self.options.rounds} rounds, interleaved{often}; load average at the start {os.getloadavg()[0]:.1f}.",
            "- nginx in the ratios is the cheaper of its two variants, floor the cheaper relay.",
        ]
        lines += [f"- {p.name}: {p.version()}" for p in self.proxies]
        return "\n".join(lines)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", help="only this one; may be repeated; list: show them")
    parser.add_argument("--rounds", type=int, help="measured blocks of each proxy (default 9, with --quick 2)")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=PROGRAM", help="another build of the "
                        "sidecar beside the others, to see whether a change wins; may be repeated")
    parser.add_argument("--proxies", help="comma-separated; default: all that are there")
    parser.add_argument("--quick", action="store_true", help="a fifth of the requests, two rounds")
    parser.add_argument("--write", action="store_true", help="also write bench/RESULTS.md")
    parser.add_argument("--json", type=Path, help="write every block to this file")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed or not measured")
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "release", help="build directory")
    parser.add_argument("--port", type=int, help="first of the loopback ports (default: free ones from 19100)")
    parser.add_argument("--pin", choices=PINS, default="split", help="split: the proxy alone on CPU 1, load and origin on "
                        "CPU 0; shared: all on CPU 1, which spares the interrupts that wake another processor")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 9)
    options.build = options.build.resolve()
    options.port = options.port or first_free(19100)
    return options


def chosen_scenarios(options: argparse.Namespace) -> list[Scenario]:
    if options.scenario == ["list"]:
        sys.exit("\n".join(f"{s.name:16} {s.says}" for s in SCENARIOS))
    if not options.scenario:
        return SCENARIOS
    unknown = set(options.scenario) - {s.name for s in SCENARIOS}
    if unknown:
        sys.exit(f"unknown scenario: {', '.join(sorted(unknown))}; --scenario list shows them")
    return [s for s in SCENARIOS if s.name in options.scenario]


def main() -> int:
    options = parse_options()
    scenarios = chosen_scenarios(options)
    if not (options.build / "bench" / "bench-load").exists():
        sys.exit(f"no bench-load in {options.build}/bench: build the release preset first")
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as directory:
        bench = Bench(options, Path(directory))
        parts = [bench.heading()]
        print(parts[0], flush=True)
        with contextlib.ExitStack() as origins:
            origins.enter_context(bench.start_origin())
            if any(s.tls for s in scenarios):
                origins.enter_context(bench.start_tls_origin())
            for scenario in scenarios:
                parts.append(f"## {scenario.name}: {scenario.says}\n\n{bench.run(scenario)}")
                print("\n" + parts[-1], flush=True)
    if bench.bars:
        parts.append("## Bars\n\n" + report.bars_table(bench.bars))
        print("\n" + parts[-1])
    if options.write:
        (HERE / "RESULTS.md").write_text("\n\n".join(parts) + "\n")
    if options.json:
        options.json.write_text(json.dumps(bench.raw, indent=1))
    unmet = not bench.bars or any(not b.is_met() for b in bench.bars)
    return 1 if options.check and unmet else 0


if __name__ == "__main__":
    sys.exit(main())
