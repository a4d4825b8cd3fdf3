"""What the gate costs, counted instead of timed: a request of another bucket beside the 503s of a blocked backend, and a
request where nothing is wrong, with probes and without.

Times on a shared machine differ by more than the 5 % in question. Counts do not: user instructions (callgrind) and
system calls (strace) of four fresh sidecars, one that serves nothing, one the other bucket alone, one the 503s alone,
one both at once on the same thread. What the other bucket costs beside them is the last, less start-up and less the
503s.
Not counted: what the kernel does within a call, and the caches; bench/gated.py has the time.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gated import wait_until_blocked  # noqa: E402
from measure import Load  # noqa: E402
from proxies import Running, all_proxies, fill, first_free  # noqa: E402
from report import table  # noqa: E402
from syscalls import read_table  # noqa: E402

HERE = Path(__file__).resolve().parent
LIMIT = 1.05
WELL_LIMIT = 1.01  # with probes, all well, against none
PROBED = "{type: http, path: /b/1k, interval: 1h}"
END_SECONDS = 60  # callgrind writes its file at the end
CONNECTIONS = 32


def callgrind(out: Path) -> list[str]:
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]


def strace(out: Path) -> list[str]:
    return ["strace", "-f", "-c", "-U", "calls,errors,name", "-o", str(out)]


def instructions(out: Path) -> int:
    return next(int(line.split()[1]) for line in out.read_text().splitlines() if line.startswith("totals:"))


def calls(out: Path) -> int:
    return sum(read_table(out).values())


TOOLS = {"user instructions": (callgrind, instructions), "system calls": (strace, calls)}


class Count:
    def __init__(self, options: argparse.Namespace, directory: Path):
        self.options, self.directory, self.made = options, directory, 0
        self.program = next(p.program for p in all_proxies(options.build) if p.name == "fairlead")
        self.load = options.build / "bench" / "bench-load"

    def end(self, running: Running) -> None:
        for pid in running.pids()[-1:]:  # strace hands no signal on
            subprocess.run(["kill", f"-{signal.SIGTERM.value}", str(pid)], check=False)
        running.process.wait(END_SECONDS)

    def config(self, directory: Path, port: int, probe: str | None) -> Path:
        values = {"PORT": port, "ADMIN_PORT": port + 1000, "STATUS_PORT": port + 2000, "ORIGIN": self.options.port}
        if probe is None:
            return fill("fairlead-gated.yaml", directory, DEAD=self.options.port + 1, **values)
        return fill("fairlead-gate.yaml", directory, PROBE=probe, **values)

    def run(self, tool: str, *paths: str, probe: str | None = None) -> int:
        """The tool's total of a sidecar that served so many requests to each of the paths. probe: of its only backend;
        None: two backends, of which one is blocked."""
        wrap, total = TOOLS[tool]
        self.made += 1
        directory = self.directory / str(self.made)
        directory.mkdir()
        port = self.options.port + 10 + self.made
        config = self.config(directory, port, probe)
        command = [*wrap(directory / "out"), str(self.program), "--config", str(config)]
        with Running(command, directory, None, port, tool) as running:
            running.wait_until_listening(30)
            if probe is None:
                wait_until_blocked(port)
            loads = [Load(self.load, port, ["--path", path, "--expect", "503" if path.startswith("/shut") else "200",
                                            "--connections", str(CONNECTIONS), "--timeout", "60",
                                            "--requests", str(self.options.requests)], None) for path in paths]
            for load in loads:
                load.go()
            errors = sum(load.result()["errors"] for load in loads)
            for load in loads:
                load.__exit__(None)
            self.end(running)
        if errors:
            raise RuntimeError(f"{errors} wrong answers under {tool}")
        return total(directory / "out")

    def measure(self, tool: str) -> tuple[float, float, float]:
        """Per request: a 503; another bucket's alone; another bucket's beside as many 503s."""
        n, shut, other = self.options.requests, "/shut/1k", "/b/1k"
        nothing = self.run(tool)
        gone = self.run(tool, shut) - nothing
        alone = self.run(tool, other) - nothing
        both = self.run(tool, shut, other) - nothing
        return gone / n, alone / n, (both - gone) / n

    def well(self, tool: str, probe: str) -> float:
        """Per request of a sidecar whose only backend is well, or not probed."""
        return (self.run(tool, "/b/1k", probe=probe) - self.run(tool, probe=probe)) / self.options.requests


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20000, help="of each load")
    parser.add_argument("--check", action="store_true", help=f"exit 1 when a ratio is above {LIMIT}, or {WELL_LIMIT}")
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "release", help="build directory")
    parser.add_argument("--port", type=int, help="first of the loopback ports (default: free ones from 19100)")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.port = options.port or first_free(19100)
    return options


def main() -> int:
    options = parse_options()
    rows, well_rows, fine = [], [], True
    with tempfile.TemporaryDirectory(prefix="fairlead-gated-") as name:
        directory = Path(name)
        (directory / "origin").mkdir()
        command = [str(options.build / "bench" / "bench-origin"), "--listen", f"127.0.0.1:{options.port}"]
        with Running(command, directory / "origin", None, options.port, "origin") as origin:
            origin.wait_until_listening()
            count = Count(options, directory)
            for tool, (wrap, _) in TOOLS.items():
                if shutil.which(wrap(directory)[0]) is None:
                    sys.exit(f"{wrap(directory)[0]} is not there")
                gone, alone, beside = count.measure(tool)
                without, probed = count.well(tool, "{type: none}"), count.well(tool, PROBED)
                fine &= beside / alone <= LIMIT and probed / without <= WELL_LIMIT
                rows.append([tool, f"{gone:,.2f}", f"{alone:,.2f}", f"{beside:,.2f}", f"{beside / alone:.3f}"])
                well_rows.append([tool, f"{without:,.2f}", f"{probed:,.2f}", f"{probed / without:.3f}"])
    print(table(["a request", "503", "another bucket, alone", "another bucket, beside as many 503s", "×"], rows))
    print(table(["a request", "backend not probed", "probed and well", "×"], well_rows))
    return 1 if options.check and not fine else 0


if __name__ == "__main__":
    sys.exit(main())
