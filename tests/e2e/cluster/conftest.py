"""Fixtures of the cluster suite: a control plane or a whole node for each test file. README.md tells how to use it."""
import os
import pathlib
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
# `cluster.ground`, not `ground`: the suites of tests/e2e may run in one process.
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "integration")]

from bed.reports import pytest_runtest_makereport  # noqa: E402,F401 (a hook)
from cluster.ground.janitor import Janitor  # noqa: E402
from cluster.ground.node import Node  # noqa: E402
from cluster.ground.plane import Plane  # noqa: E402

BUILD = pathlib.Path(os.environ.get("FAIRLEAD_BUILD", ROOT / "build" / "release"))


@pytest.fixture(scope="session")
def kubernetes():
    """The folder with the programs of Kubernetes."""
    folder = os.environ.get("FAIRLEAD_E2E_KUBERNETES", "")
    if not os.access(pathlib.Path(folder, "kube-apiserver"), os.X_OK):
        pytest.fail("FAIRLEAD_E2E_KUBERNETES names no folder with kube-apiserver: run `./dev e2e cluster`, or set what "
                    "tests/e2e/cluster/install.sh prints", pytrace=False)
    if os.geteuid() != 0:
        pytest.fail("the cluster suite makes namespaces: run it as root", pytrace=False)
    return folder


class Clusters:
    """Makes clusters of a kind and ends them."""

    def __init__(self, kind, kubernetes):
        self._kind, self._kubernetes, self._running = kind, kubernetes, []

    def start(self, **options):
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"fl-{self._kind.__name__.lower()}-"))
        folder.chmod(0o755)  # programs may run as another user
        janitor = Janitor()
        janitor.remove(folder)
        try:
            cluster = self._kind(folder, self._kubernetes, BUILD, janitor, **options)
        except BaseException:
            janitor.dismiss()
            raise
        self._running.append((cluster, janitor))
        return cluster.up()

    def end(self):
        running, self._running = self._running, []
        for cluster, janitor in running:
            try:
                cluster.down()
            finally:
                janitor.dismiss()


def clusters_of(kind, kubernetes):
    """A generator for fixtures: a Clusters, ended after its use."""
    clusters = Clusters(kind, kubernetes)
    try:
        yield clusters
    finally:
        clusters.end()


@pytest.fixture(scope="module")
def shared_plane(kubernetes):
    """The plane of this file, for fixtures of a file; tests take `plane`."""
    for planes in clusters_of(Plane, kubernetes):
        yield planes.start()


@pytest.fixture(scope="module")
def shared_node(kubernetes, request):
    """The node of this file, for fixtures of a file; tests take `node`. A file that says NODES = 2 gets two."""
    for nodes in clusters_of(Node, kubernetes):
        yield nodes.start(nodes=getattr(request.module, "NODES", 1))


@pytest.fixture
def started():
    """What is shown of this test when it fails; programs of planes and nodes are added by their fixtures."""
    return []


def attend(cluster, started):
    """Around a test: in the cluster's network; afterwards its programs end and all daemons run again."""
    started.extend(cluster.daemons.values())
    cluster.started = started
    with cluster.network():
        try:
            yield cluster
        finally:
            try:
                cluster.heal()
            finally:
                cluster.dismiss()


@pytest.fixture
def plane(shared_plane, started):
    """The plane of this file, healed after each test; the test itself is in the plane's network meanwhile."""
    yield from attend(shared_plane, started)


@pytest.fixture
def node(shared_node, started):
    """The node of this file (see shared_node), as `plane` is the plane."""
    yield from attend(shared_node, started)


def maker(kind, kubernetes, started):
    for clusters in clusters_of(kind, kubernetes):

        def start(**options):
            made = clusters.start(**options)
            started.extend(made.daemons.values())
            made.started = started
            return made

        yield start


@pytest.fixture
def new_plane(kubernetes, started):
    """new_plane(apiserver_flags=[…], controller_flags=[…], nodes=3): a plane for this test alone. Its network is
    entered by `with plane.network():`; helpers do that themselves."""
    yield from maker(Plane, kubernetes, started)


@pytest.fixture
def new_node(kubernetes, started):
    """new_node(nodes=1, kubelet_flags=[…], images=[…], …): the same for nodes."""
    yield from maker(Node, kubernetes, started)
