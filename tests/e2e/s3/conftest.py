"""Fixtures of the S3 suite: stores that live for the whole run, clients and sidecars for one test each."""
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(ROOT / "tests" / "integration")]

from bed.ports import Ports  # noqa: E402
from bed.reports import pytest_runtest_makereport  # noqa: E402,F401 (a hook)
from bed.sidecar import Sidecar  # noqa: E402
from ground import keys  # noqa: E402
from ground.bodies import Bodies  # noqa: E402
from ground.child import die_with_parent  # noqa: E402
from ground.stores import KINDS  # noqa: E402

BUILD = pathlib.Path(os.environ.get("FAIRLEAD_BUILD", ROOT / "build" / "release"))


@pytest.fixture(scope="session")
def ports():
    return Ports()


@pytest.fixture(scope="session", autouse=True)
def scratch_folder():
    folder = tempfile.mkdtemp(prefix="fl-e2e-")
    keys.set_scratch(folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def running_stores(ports):
    """The stores that some test asked for so far; started once."""
    stores = {}
    yield stores
    for store in stores.values():
        store.down()


@pytest.fixture(params=list(KINDS))
def store(request, running_stores, ports):
    """Three peers over one store, all running, with the bucket `releases`."""
    kind = request.param
    if kind not in running_stores:
        running_stores[kind] = KINDS[kind](ports)
        running_stores[kind].up().make_bucket(keys.BUCKET)
    store = running_stores[kind]
    yield store
    store.heal()


@pytest.fixture
def fresh_store(ports):
    """fresh_store(kind, peers) starts a store of its own for this test."""
    stores = []

    def start(kind, peers=3):
        stores.append(KINDS[kind](ports, peers))
        stores[-1].up().make_bucket(keys.BUCKET)
        return stores[-1]

    yield start
    for store in stores:
        store.down()


@pytest.fixture
def bodies(request):
    with tempfile.TemporaryDirectory(prefix="fl-bodies-") as folder:
        yield Bodies(folder, seed=request.node.name)


@pytest.fixture
def started():
    """The sidecars of this test, shown when it fails."""
    return []


@pytest.fixture(scope="module")
def leaving():
    """A sidecar drains for a second after SIGTERM: those of finished tests leave in the background and are judged here."""
    folder, processes = tempfile.mkdtemp(prefix="fl-"), []
    yield folder, processes
    faults = []
    for process in processes:
        status = process.wait(40)
        if status is None:
            process.kill()
        if status != process.expected_exit:
            faults.append(f"[{process.test}] exit {status}: {process.report()}")
    shutil.rmtree(folder, ignore_errors=True)
    assert not faults, "\n\n".join(faults)


@pytest.fixture
def sidecar(ports, started, leaving, request):
    """sidecar(config) starts one; each ends with 0 after SIGTERM."""
    binary = BUILD / "fairlead-sidecar"
    assert os.access(binary, os.X_OK), f"{binary} is missing: ./dev build, or set FAIRLEAD_BUILD"
    folder, processes = leaving

    def start(config, wait=True, expected_exit=0, **keywords):
        process = Sidecar(str(binary), config, folder, ports, preexec=die_with_parent,
                          name=f"sidecar {len(processes)}", **keywords)
        process.expected_exit, process.test = expected_exit, request.node.nodeid
        processes.append(process)
        started.append(process)
        return process.wait_started() if wait else process

    yield start
    for process in started:
        process.terminate()


@pytest.fixture
def client():
    """client(Class, sidecar, store) starts one that talks to the sidecar in front of the store."""
    clients = []

    def start(kind, front, store, *args):
        clients.append(store.without_broken(kind(f"http://127.0.0.1:{front.data_port}", *args)))
        return clients[-1]

    yield start
    for one in clients:
        one.close()
