"""Fixtures of the integration tests. The binaries are those of FAIRLEAD_BUILD (default: build/dev of the repository)."""
import os
import pathlib
import signal
import tempfile

import pytest

from bed.origin import Origin
from bed.ports import Ports
from bed.push import FakeSidecar, Key, Membership
from bed.reports import pytest_runtest_makereport  # noqa: F401 (a hook)
from bed.sidecar import Controller, Sidecar

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FAIRLEAD_BUILD", ROOT / "build" / "dev"))
LEAVING_MAX = 6


def binary(name):
    path = BUILD / name
    if not os.access(path, os.X_OK):
        pytest.fail(f"{path} is missing: build it, or point FAIRLEAD_BUILD at a build directory", pytrace=False)
    return str(path)


def verdict_on(process, status):
    """Why this end of a process is a failure; '' when it is not."""
    complaint = process.complaint()
    if complaint:
        return f"{process.name} printed a sanitizer report or failed an assertion:\n{complaint}"
    if process.killed or status == process.expected_exit:
        return ""
    if status is None:
        return f"{process.name} did not end after SIGTERM:\n{process.report()}"
    return f"{process.name} exited with {status} instead of {process.expected_exit}:\n{process.report()}"


class Yard:
    """Everything the tests started. A sidecar drains for a second after SIGTERM, so processes of finished tests leave
    in the background and are judged at the end of their module."""

    def __init__(self):
        self.ports, self.current, self.leaving, self.faults = Ports(), [], [], []

    def add(self, process, test, expected_exit=0):
        process.test, process.expected_exit = test, expected_exit
        self.current.append(process)
        return process

    def judge(self, process, timeout=40):
        status = process.wait(timeout)
        fault = verdict_on(process, status)
        if status is None:
            process.kill()
        if fault:
            self.faults.append(f"[{process.test}] {fault}")
        return fault

    def dismiss(self):
        """After a test: programs get SIGTERM and leave in the background; origins end at once."""
        for process in self.current:
            process.signal(signal.SIGCONT)
            if isinstance(process, Origin):
                process.kill()
                if process.complaint():
                    self.faults.append(f"[{process.test}] {process.name}:\n{process.complaint()}")
            else:
                process.terminate()
                self.leaving.append(process)
        self.current = []
        while len(self.leaving) > LEAVING_MAX:
            self.judge(self.leaving.pop(0))

    def close_books(self):
        while self.leaving:
            self.judge(self.leaving.pop(0))
        faults, self.faults = self.faults, []
        return faults


@pytest.fixture(scope="session")
def yard():
    yard = Yard()
    yield yard
    yard.dismiss()
    yard.close_books()


@pytest.fixture(scope="module", autouse=True)
def clean_exits(yard):
    """Every sidecar and controller of this module ended with 0 after SIGTERM and printed no sanitizer report."""
    yield
    faults = yard.close_books()
    assert not faults, "\n\n".join(faults)


@pytest.fixture(autouse=True)
def started(yard, request):
    """The processes of this test, shown when it fails, dismissed after it."""
    yield yard.current
    yard.dismiss()


@pytest.fixture
def folder():
    """A private directory with a short path (unix sockets)."""
    with tempfile.TemporaryDirectory(prefix="fl-") as path:
        yield path


@pytest.fixture
def ports(yard):
    return yard.ports


@pytest.fixture
def dead(yard):
    """Makes the address of a port where nobody listens."""
    return lambda host="127.0.0.1": f"{host}:{yard.ports.take()}"


@pytest.fixture
def origin(yard, request):
    """origin(name, *rules, host=…, port=…, **settings) starts one; objects it never stored answer 200 with its name."""

    def start(name="a", *rules, host="127.0.0.1", port=None, ledger=True, extra=(), **settings):
        shown = f"[{host}]" if ":" in host else host
        settings.setdefault("missing", 200)
        return yard.add(Origin(binary("fairlead-origin"), name, f"{shown}:{port or yard.ports.take()}", rules,
                               settings, ledger, extra), request.node.nodeid)

    return start


@pytest.fixture
def origins(origin):
    """origins(n, **settings): n of them, named a, b, c …"""
    return lambda n, **settings: [origin(chr(ord("a") + i), **settings) for i in range(n)]


@pytest.fixture
def sidecar(yard, request, folder):
    """sidecar(config) starts one and waits until it is started."""

    def start(config, wait=True, env=None, args=(), preexec=None, expected_exit=0, prefix=()):
        name = "sidecar" if not any(isinstance(p, Sidecar) for p in yard.current) else f"sidecar {len(yard.current)}"
        process = yard.add(Sidecar(binary("fairlead-sidecar"), config, folder, yard.ports, env, args, preexec, name,
                                   prefix),
                           request.node.nodeid, expected_exit)
        return process.wait_started() if wait else process

    return start


@pytest.fixture
def controller(yard, request, folder):
    def start(config, wait=True, env=None, args=()):
        process = yard.add(Controller(binary("fairlead-controller"), config, folder, yard.ports, env, args),
                           request.node.nodeid)
        return process.wait_started() if wait else process

    return start


@pytest.fixture
def key(folder):
    """The pair that signs pushes."""
    return Key(folder)


@pytest.fixture
def file(folder):
    """The membership file of a controller."""
    return Membership(folder)


@pytest.fixture
def fake(ports):
    """fake(answer) starts a status listener that takes pushes as a sidecar would."""
    made = []

    def start(answer=None):
        made.append(FakeSidecar(ports, answer))
        return made[-1]

    yield start
    for one in made:
        one.close()
