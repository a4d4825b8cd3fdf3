"""The product as people run it, in containers of a real node: two controllers behind an election, stores that write
down what they did, and an application with the sidecar as native sidecar."""
import collections
import contextlib
import json
import os
import pathlib
import signal

from bed.push import Key
from bed.wire import call
from cluster.ground.api import APPS
from cluster.ground.oci import OURS, TOOLS
from cluster.ground.pods import Pod
from cluster.shop import ACCOUNT, eventually, role
from cluster.traffic import Traffic

CLOSED = {"runAsNonRoot": True, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
          "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}
POD_NAME = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def spread(app):
    return [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
             "labelSelector": {"matchLabels": {"app": app}}}]


class Container:
    """Our sidecar in a container, as traffic.Traffic and shop.peers want it."""
    data = ("127.0.0.1", 8420)

    def __init__(self, pod):
        self.pod = pod

    def network(self):
        return self.pod.network()

    def admin(self, path):
        with self.network():
            response = call(("127.0.0.1", 8421), "GET", path, timeout=10, host="127.0.0.1:8421")
        assert response.status == 200, repr(response)
        return json.loads(response.body)


class Store:
    """A workload of origins behind a service of its name. kind: "Deployment" or "StatefulSet"; pre_stop: seconds that
    a pod sleeps before it is told to end."""

    def __init__(self, fleet, name, kind, replicas=3, pre_stop=0, nodes=None):
        self.fleet, self.name, self.kind = fleet, name, kind
        self.node, self.ns = fleet.node, fleet.ns
        self.path = f"{APPS}/namespaces/{self.ns}/{kind.lower()}s/{name}"
        self.ns.service(name, {"s3": 9000})
        container = {
            "name": "store", "image": OURS["fairlead-origin"], "env": [POD_NAME],
            "args": ["--name", "$(POD_NAME)", "--listen", "0.0.0.0:9000", "--control", "127.0.0.1:9001", "--set",
                     "missing=200", "--journal", "/journal/$(POD_NAME)"],
            "volumeMounts": [{"name": "journal", "mountPath": "/journal"}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 9000}, "periodSeconds": 1, "failureThreshold": 1}}
        if pre_stop:
            container["lifecycle"] = {"preStop": {"sleep": {"seconds": pre_stop}}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {
                "containers": [container], "terminationGracePeriodSeconds": pre_stop + 8,
                "topologySpreadConstraints": spread(name),
                "volumes": [{"name": "journal", "hostPath": {"path": str(fleet.journals)}}]}}}
        spec.update({"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}} if kind == "Deployment" else
                    {"serviceName": name})
        self.node.apply({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}, self.ns.name)
        self.node.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": {
            "minAvailable": 2, "selector": {"matchLabels": {"app": name}}}}, self.ns.name)

    def pods(self):
        """Those that are to stay; `peer` is how the sidecar names one."""
        found = []
        for item in self.node.api.get(f"{self.ns.path}/pods?labelSelector=app%3D{self.name}")["items"]:
            if "deletionTimestamp" not in item["metadata"]:
                found.append(Pod(self.ns, item["metadata"]["name"], item["metadata"]["uid"]))
                found[-1].peer = f"{item['status'].get('podIP')}:9000"
        return found

    def settled(self):
        """All pods of the newest template, and ready."""
        o = self.node.api.get(self.path)
        s, want = o["status"], o["spec"]["replicas"]
        return (s.get("observedGeneration") == o["metadata"]["generation"] and s.get("updatedReplicas") == want
                and s.get("replicas") == want and s.get("readyReplicas") == want
                and s.get("currentRevision") == s.get("updateRevision"))

    def wait_settled(self, timeout=150):
        """… and the sidecar has exactly these."""
        eventually(f"{self.name} to be whole", self.settled, timeout, 0.1)
        eventually(f"the sidecar to have the pods of {self.name}", self.known, 30)

    def known(self):
        return self.fleet.primaries(self.name) == sorted(p.peer for p in self.pods())

    def roll(self, round):
        """Begins to replace all pods."""
        self.node.api.patch(self.path, {"spec": {"template": {"metadata": {"annotations": {"round": round}}}}})

    def rules(self, pod, *lines):
        """Of one pod's origin; none: as at the start."""
        with pod.network():
            assert call(("127.0.0.1", 9001), "PUT", "/rules", (), "\n".join(lines).encode(), 10).status == 200

    def kill(self, pod):
        """As the kernel does it when memory is short: no signal that can be heard, no grace."""
        for pid in self.node.groups.processes():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--journal" in words and f"/journal/{pod.name}".encode() in words:
                os.kill(int(pid), signal.SIGKILL)
                return
        raise AssertionError(f"no origin runs in {pod.name}")


class Fleet:
    """One per file: pods stay from test to test."""

    def __init__(self, node, folder):
        self.node, self.key = node, Key(str(folder))
        self.home, self.ns = node.namespace("fairlead"), node.namespace("shop")
        self.journals = node.folder / f"journals-{self.ns}"
        self.journals.mkdir()
        self.journals.chmod(0o777)
        node.apply(role(self.home.name))

    def controllers(self, backends):
        """The Deployment of two, with the signing key from a Secret."""
        read = lambda path: pathlib.Path(path).read_text(encoding="ascii")  # noqa: E731
        self.node.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "signing"},
                         "stringData": {"push.key": read(self.key.private)}}, self.home.name)
        self.home.config("controller", **{"fairlead.yaml": {
            "source": "kubernetes", "push": {"signing_key_file": "/keys/push.key"},
            "probe_defaults": {"interval": "2s"},
            "leader_election": {"namespace": self.home.name, "name": "fairlead-controller"}, "backends": {
                name: {"protocol": protocol, "probe": {"type": "tcp"},
                       "service": {"namespace": self.ns.name, "name": service, "port": "s3"}}
                for name, (protocol, service) in backends.items()}}})
        container = {
            "name": "controller", "image": OURS["fairlead-controller"], "env": [POD_NAME], "securityContext": CLOSED,
            "args": ["--config", "/etc/fairlead/fairlead.yaml"],
            "readinessProbe": {"httpGet": {"path": "/_/ready", "port": 8432}, "periodSeconds": 1},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/fairlead"}, {"name": "keys", "mountPath": "/keys"}]}
        self.node.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "controller"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "controller"}}, "template": {
                "metadata": {"labels": {"app": "controller"}}, "spec": {
                    "serviceAccountName": ACCOUNT, "containers": [container], "terminationGracePeriodSeconds": 5,
                    "topologySpreadConstraints": spread("controller"), "volumes": [
                        {"name": "config", "configMap": {"name": "controller"}},
                        {"name": "keys", "secret": {"secretName": "signing"}}]}}}}, self.home.name)

    def application(self, routes, node="n1"):
        """A pod with the sidecar in front of it, written by hand as the injector would."""
        public = pathlib.Path(self.key.public).read_text(encoding="ascii")
        self.ns.config("sidecar", **{"push.pub": public, "fairlead.yaml": {
            "id": "UID", "push": {"public_key_file": "/etc/fairlead/push.pub"}, "boot_probe": "off",
            "listen": {"status": "[::]:8422"}, "start_wait": "10s", "backends": {}, "routes": {}}})
        mounts = [{"name": "config", "mountPath": "/etc/fairlead"}, {"name": "run", "mountPath": "/run/fairlead"}]
        configure = {
            "name": "configure", "image": TOOLS, "volumeMounts": mounts,
            "env": [{"name": "UID_OF_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
            "command": ["sh", "-c", "sed s/UID/$UID_OF_POD/ /etc/fairlead/fairlead.yaml > /run/fairlead/fairlead.yaml"]}
        sidecar = {
            "name": "fairlead", "image": OURS["fairlead-sidecar"], "restartPolicy": "Always", "volumeMounts": mounts,
            "args": ["--config", "/run/fairlead/fairlead.yaml"], "securityContext": CLOSED,
            "readinessProbe": {"httpGet": {"path": "/_/ready", "port": 8422}, "periodSeconds": 1}}
        pod = self.ns.pod("app", labels={"app": "app", "fairlead.dev/injected": "true"}, nodeName=node,
                          annotations={f"route.fairlead.dev/{b}": backend for b, backend in routes.items()},
                          initContainers=[configure, sidecar],
                          containers=[{"name": "main", "image": TOOLS, "command": [
                              "sh", "-c", "trap exit TERM; while :; do sleep 0.2; done"]}],
                          volumes=[{"name": "config", "configMap": {"name": "sidecar"}},
                                   {"name": "run", "emptyDir": {}}])
        self.app = Container(pod.wait_condition("Ready"))

    def primaries(self, backend):
        for b in self.app.admin("/_/api/admin/backends")["backends"]:
            if b["name"] == backend:
                return sorted(p["address"] for p in b["peers"] if p["tier"] == "primary")
        return []

    def leader(self):
        """The name of the pod that leads."""
        lease = self.node.api.find(f"/apis/coordination.k8s.io/v1/namespaces/{self.home}/leases/fairlead-controller")
        holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
        return next((p.name for p in self.home.pods("app=controller") if holder.startswith(p.name)), None)

    @contextlib.contextmanager
    def traffic(self, *buckets, rate=50):
        """50 requests a second to each bucket, on two connections. Yields {bucket: Load}."""
        loads = {b: Load(self, b, rate) for b in buckets}
        with contextlib.ExitStack() as running:
            for load in loads.values():
                for steady in load.all:
                    running.enter_context(steady)
            yield loads

    def journal(self, pod):
        """What a store wrote down; it may be gone."""
        return (self.journals / pod.name).read_text(encoding="latin-1")

    def done(self, prefix):
        """{target: how often} of the PUTs that stores answered 200, whether they are still there or not."""
        found = collections.Counter()
        for file in self.journals.iterdir():
            for line in file.read_text(encoding="latin-1").splitlines():
                _, status, method, target = line.split(" ", 3)
                if method == "PUT" and status == "200" and target.startswith(prefix):
                    found[target] += 1
        return found


class Load:
    """The traffic to one bucket; looked at when it is over."""

    def __init__(self, fleet, bucket, rate):
        self.fleet, self.all = fleet, [Traffic(fleet.app, rate / 2, bucket) for _ in range(2)]

    @property
    def sent(self):
        return sum(t.sent for t in self.all)

    @property
    def faults(self):
        return [fault for t in self.all for fault in t.faults]

    @property
    def slowest(self):
        return max(t.slowest for t in self.all)

    def doubled(self):
        return sorted(target for t in self.all for target, n in self.fleet.done(t.prefix).items() if n > 1)

    def lost(self):
        """PUTs that were answered 200 and that no store has."""
        found = []
        for t in self.all:
            failed = {fault.split(" ")[1].rstrip(":") for fault in t.faults}
            found += {f"{t.prefix}{i}" for i in range(1, t.sent, 2)} - set(self.fleet.done(t.prefix)) - failed
        return sorted(found)

    def check(self, faults=0, doubled=0):
        """At most so many failed requests, all of them PUTs, and so many doubled PUTs."""
        assert self.sent > 50, f"only {self.sent} requests were made"
        failed, twice, lost = self.faults, self.doubled(), self.lost()
        assert len(failed) <= faults, f"{len(failed)} of {self.sent} requests failed: {failed[:5]}"
        assert all(fault.startswith("PUT ") for fault in failed), failed
        assert len(twice) <= doubled, f"done twice: {twice[:5]}"
        assert not lost, f"{len(lost)} answered with 200, and no store has them: {lost[:5]}"
