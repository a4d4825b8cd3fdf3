"""Exact counts of the hot path, on the optimised build: per keep-alive request 4 data calls, no epoll_ctl, no allocation.

Counted by bench/syscalls.py with strace and a malloc shim (sanitizers allocate on their own, so the dev build cannot
show it).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RELEASE = Path(os.environ.get("FAIRLEAD_RELEASE", ROOT / "build" / "release"))
PORT = 18700  # below the range that the bed gives out, and not ephemeral


def count(*arguments, port):
    command = [sys.executable, str(ROOT / "bench" / "syscalls.py"), "--build", str(RELEASE), "--port", str(port), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def row(output, proxy):
    line = next(x for x in output.splitlines() if re.match(rf"\|?\s*{proxy}\b", x))
    return [cell.strip() for cell in line.strip("| ").split("|")]


@pytest.mark.parametrize("connections, path", [(1, "/b/1k"), (8, "/b/1k"), (8, "/b/16k")])
def test_keep_alive_request_costs_four_data_calls_and_no_allocation(connections, path):
    done = count("--proxies", "fairlead", "--check", "--connections", str(connections), "--path", path, port=PORT)
    assert done.returncode == 0, done.stdout + done.stderr
    _, data, _, epoll_ctl, other, allocations = row(done.stdout, "fairlead")
    assert (data, epoll_ctl, other, allocations) == ("4.000", "0.000", "none", "0.000"), done.stdout


def test_s3_routes_cost_the_same():
    done = count("--proxies", "fairlead-s3", port=PORT)
    assert done.returncode == 0, done.stdout + done.stderr
    _, data, _, epoll_ctl, other, allocations = row(done.stdout, "fairlead-s3")
    assert (data, epoll_ctl, other, allocations) == ("4.000", "0.000", "none", "0.000"), done.stdout
