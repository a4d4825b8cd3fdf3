#!/usr/bin/env python3
"""How long until a change has reached every sidecar: bench-push-scale in its scenarios, as a Markdown table.

    bench/push_scale.py [--build build/release] [--scenario NAME]... [--rounds 3] [--priority]

The fan-out and the receivers are two processes on this machine, so each push costs both sides' processors and the
whole of loopback's TCP in the sender. --priority runs them under SCHED_RR, for a machine on which others work: the
times are then those of a machine that is ours, but for what its neighbours take from caches and clock.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = {  # name: (what it is, arguments)
    "rollout": ("1,000 sidecars, one state of 100 peers, a change every 0.3 s",
                ["--changes", "21", "--pause-ms", "300"]),
    "rare": ("the same, a change every 8 s: sidecars have closed their idle connections",
             ["--changes", "7", "--pause-ms", "8000"]),
    "groups": ("1,000 sidecars in 50 configurations of 100 peers each, and the state of each changes",
               ["--changes", "11", "--configurations", "50"]),
    "large": ("100 sidecars, one state of all 50 backends, 5,000 peers",
              ["--receivers", "100", "--changes", "6", "--backends", "50"]),
    "five": ("5,000 sidecars, one state of 100 peers", ["--receivers", "5000", "--changes", "6", "--pause-ms", "2000"]),
}
COLUMNS = [("p50_ms", "p50 ms"), ("p99_ms", "p99 ms"), ("p99_worst_ms", "worst p99 ms"), ("max_ms", "last ms"),
           ("cpu_us_per_push", "CPU µs/push"), ("refresh_cpu_ms_per_s", "CPU ms/s at rest"),
           ("body_bytes", "bytes"), ("connections", "connections"), ("rss_kib", "RSS KiB")]


def run(program: Path, arguments: list[str], priority: bool) -> dict:
    command = (["chrt", "-r", "10"] if priority else []) + [str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    result = json.loads(done.stdout)
    if result["missed"]:
        raise SystemExit(f"{result['missed']} changes did not arrive: {done.stderr}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--priority", action="store_true")
    options = parser.parse_args()
    program = options.build.resolve() / "bench" / "bench-push-scale"
    print("| scenario | changes | " + " | ".join(title for _, title in COLUMNS) + " |")
    print("| --- |" + " ---: |" * (len(COLUMNS) + 1))
    for name in options.scenario or SCENARIOS:
        _, arguments = SCENARIOS[name]
        rounds = [run(program, arguments, options.priority) for _ in range(options.rounds)]
        cells = []
        for key, _ in COLUMNS:
            values = [one[key] for one in rounds]
            value = max(values) if key == "p99_worst_ms" else median(values)
            cells.append(f"{value:,.1f}" if isinstance(value, float) and value < 1000 else f"{value:,.0f}")
        print(f"| {name} | {sum(one['changes'] for one in rounds)} | " + " | ".join(cells) + " |", flush=True)
    print()
    for name in options.scenario or SCENARIOS:
        print(f"- {name}: {SCENARIOS[name][0]}.")


if __name__ == "__main__":
    main()
