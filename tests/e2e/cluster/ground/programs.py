"""Our programs (and any other) inside a cluster, with what the integration tests' bed knows of them."""
import os
import subprocess

from bed.origin import Origin
from bed.process import Process, Stream, wait_until
from bed.sidecar import Controller, Sidecar

FAKETIME = "/usr/lib/{}/faketime/libfaketimeMT.so.1"


class Program(Process):
    """bed's Process, in a pod's network or (pod=None) in the cluster's.

    account: a pods.Account, seen under /var/run/secrets/kubernetes.io/serviceaccount; with it the environment has
    KUBERNETES_SERVICE_HOST and _PORT. mounts: {folder under /run that exists inside: folder}. user: a uid to run as.
    faketime: an offset ("+3h") of the wall clock; set_clock() changes it while the program runs.
    """
    _place = {}  # what bed's constructors do not pass on: set by placed()

    def __init__(self, name, argv, env=None, cwd=None, preexec=None, **place):
        place = {**self._place, **place}
        self.pod, self.cluster = place.get("pod"), place.get("cluster")
        if self.cluster is None:
            self.cluster = self.pod.cluster
        self.name, self.argv = name, [str(word) for word in argv]
        full, mounts = dict(os.environ), dict(place.get("mounts") or {})
        if place.get("account"):
            full.update(self.cluster.pod_environment)
            mounts.update(place["account"].mounts())
        if place.get("faketime"):
            full.update(self._fake_clock(place["faketime"]))
        full.update(env or {})
        self._popen = self.cluster.space.popen(
            self.argv, network=self.pod.descriptor() if self.pod else None, mounts=mounts, user=place.get("user"),
            setup=preexec, cwd=cwd, env=full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self._popen.pid
        self.out, self.err = Stream(self._popen.stdout), Stream(self._popen.stderr)
        self.killed = False
        self.cluster.add(self)

    # -- its clock --------------------------------------------------------------------------------------------------
    def _fake_clock(self, offset):
        library = FAKETIME.format(f"{os.uname().machine}-linux-gnu")
        assert os.path.exists(library), f"{library} is missing: Debian's package faketime"
        folder = self.cluster.folder / "clocks"
        folder.mkdir(exist_ok=True)
        self._clock = folder / f"{id(self):x}"
        self.set_clock(offset)
        return {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(self._clock), "FAKETIME_NO_CACHE": "1",
                "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def set_clock(self, offset):
        """The wall clock of a program that was started with faketime=…: "+0", "+90d", "-10m"."""
        new = self._clock.with_suffix(".new")
        new.write_text(offset + "\n", encoding="ascii")
        os.replace(new, self._clock)

    # -- the bed's questions, asked in the program's own network ----------------------------------------------------
    def network(self):
        return self.pod.network() if self.pod else self.cluster.network()

    def freeze(self):
        """SIGSTOP is asynchronous: without this wait it answers once more."""
        super().freeze()
        wait_until(f"{self.name} to be stopped", lambda: self._state() == "T", pause=0.002)

    def _state(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0]


class _Asked:
    """Questions of the bed, asked from the program's own network."""

    def ask(self, *words, **keywords):
        with self.network():
            return super().ask(*words, **keywords)


class ClusterSidecar(_Asked, Sidecar, Program):
    """bed's Sidecar in a pod; wires to it are opened in `with sidecar.network():`."""

    def call(self, *words, **keywords):
        with self.network():
            return super().call(*words, **keywords)


class ClusterController(_Asked, Controller, Program):
    """bed's Controller in a pod or in the cluster's network."""


class ClusterOrigin(Origin, Program):
    """bed's Origin in a pod or in the cluster's network."""

    def control(self, *words, **keywords):
        with self.network():
            return super().control(*words, **keywords)


def placed(kind, **place):
    """The class with its place, for bed's constructors: placed(ClusterOrigin, pod=pod)(binary, "a", "0.0.0.0:9000")."""
    return type(kind.__name__, (kind,), {"_place": place})


class DefaultPorts:
    """For bed's constructors, which ask for ports: those that our programs have by default."""

    def __init__(self, *ports):
        self._ports = list(ports)

    def take(self):
        return self._ports.pop(0)
