"""System calls of a sidecar's data thread, request by request, as strace sees them. `./dev test` installs it; without it these
tests fail."""
import re
import subprocess
from contextlib import contextmanager

WAITING = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "restart_syscall")


@contextmanager
def traced(sidecar, calls, file):
    """Within the block strace writes these calls (strace's names, with commas) into the file."""
    tracer = subprocess.Popen(["strace", "-f", "-e", f"trace={calls}", "-p", str(sidecar.pid), "-o", file],
                              stderr=subprocess.PIPE, text=True)
    try:
        attached = tracer.stderr.readline()
        assert "attached" in attached, attached
        yield
    finally:
        tracer.terminate()
        tracer.communicate(timeout=10)


def calls_of(sidecar, wire, path, count, status):
    """Names of the calls between the first and the last of `count` GETs of path/mNNN over one kept connection, waiting
    left out."""
    trace_file = sidecar.config_file + ".strace"
    for _ in range(20):
        assert wire.request("GET", f"{path}/k").response().status == status
    with traced(sidecar, "all", trace_file):
        for i in range(count):
            assert wire.request("GET", f"{path}/m{i:03}").response().status == status
    with open(trace_file, encoding="ascii", errors="replace") as f:
        lines = [line.split(None, 1) for line in f]
    server = next(tid for tid, text in lines if f"GET {path}/m000" in text)
    mine = [text for tid, text in lines if tid == server]
    first = next(i for i, text in enumerate(mine) if f"GET {path}/m000" in text)
    last = next(i for i, text in enumerate(mine) if f"GET {path}/m{count - 1:03}" in text)
    names = [m.group(1) for m in (re.match(r"(\w+)\(", text) for text in mine[first:last]) if m]
    return [name for name in names if name not in WAITING]
