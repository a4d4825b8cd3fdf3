"""Namespaces and pods as objects of a test."""
import contextlib
import json
import os
import pathlib
import re
import shutil

from bed.process import wait_until

from .api import CORE, DISCOVERY, STRATEGIC
from .programs import ClusterController, ClusterOrigin, ClusterSidecar, DefaultPorts, Program, placed
from .spaces import ACCOUNT, in_network


class Namespace:
    """A namespace of the cluster; str() is its name."""

    def __init__(self, cluster, name):
        self.cluster, self.name, self.path = cluster, name, f"{CORE}/namespaces/{name}"

    def __str__(self):
        return self.name

    def pod(self, name, labels=None, annotations=None, wait=True, **spec):
        """A pod, Running and with an address when this returns (wait=False: only created). spec: more of its spec; on
        a node it needs containers=[{"name", "image", …}]."""
        spec.setdefault("containers", [{"name": "main", "image": "none"}])
        spec.setdefault("terminationGracePeriodSeconds", 1)
        self.cluster.api.post(f"{self.path}/pods", {"metadata": {
            "name": name, "labels": labels or {"app": name}, "annotations": annotations or {}}, "spec": spec})
        pod = Pod(self, name)
        return pod.wait_running() if wait else pod

    def pods(self, selector=""):
        """The pods that are there now, as Pod objects."""
        items = self.cluster.api.get(f"{self.path}/pods?labelSelector={selector.replace('=', '%3D')}")["items"]
        return [Pod(self, item["metadata"]["name"], item["metadata"]["uid"]) for item in items]

    def service(self, name, ports, selector=None, **spec):
        """A Service; ports: {name: port} or {name: (port, target)}; selector None: for the pods labelled app=NAME,
        {}: none at all (slices by hand, see slice())."""
        entries = []
        for label, port in ports.items():
            port, target = port if isinstance(port, tuple) else (port, port)
            entries.append({"name": label, "port": port, "targetPort": target, "protocol": "TCP"})
        selector = {"app": name} if selector is None else selector
        return self.cluster.api.post(f"{self.path}/services", {
            "metadata": {"name": name}, "spec": {"selector": selector or None, "ports": entries, **spec}})

    def slice(self, name, service, endpoints, ports, family="IPv4"):
        """Writes an EndpointSlice by hand (again: replaces it). endpoints: {address: {"ready": …} or None} ; ports:
        {name: port}. No loopback addresses: the API refuses them."""
        body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
                "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
                "endpoints": [{"addresses": [address], "conditions": conditions or {}}
                              for address, conditions in endpoints.items()],
                "ports": [{"name": label, "port": port, "protocol": "TCP"} for label, port in ports.items()]}
        path = f"{DISCOVERY}/namespaces/{self.name}/endpointslices"
        old = self.cluster.api.find(f"{path}/{name}")
        if old is None:
            return self.cluster.api.post(path, body)
        body["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return self.cluster.api.put(f"{path}/{name}", body)

    def config(self, name, **files):
        """A ConfigMap; what is not text becomes JSON, which is YAML."""
        data = {file: content if isinstance(content, str) else json.dumps(content) for file, content in files.items()}
        self.cluster.api.post(f"{self.path}/configmaps", {"metadata": {"name": name}, "data": data})
        return name

    def account(self, name):
        """A service account."""
        self.cluster.api.post(f"{self.path}/serviceaccounts", {"metadata": {"name": name}})
        return name

    def events(self):
        """The Events about objects of this namespace (events.k8s.io)."""
        return self.cluster.api.get(f"/apis/events.k8s.io/v1/namespaces/{self.name}/events")["items"]

    def delete(self):
        """Begins to delete it with all that is in it; that takes some seconds, nobody has to wait."""
        self.cluster.api.delete(self.path)


class Pod:
    def __init__(self, namespace, name, uid=None):
        self.namespace, self.name, self.cluster = namespace, name, namespace.cluster
        self.path = f"{namespace.path}/pods/{name}"
        self.uid = uid or self.object()["metadata"]["uid"]
        self._network = None

    def object(self):
        return self.cluster.api.get(self.path)

    @property
    def address(self):
        return self.object()["status"].get("podIP")

    def condition(self, kind):
        """"True", "False", "Unknown" or None when there is no such condition."""
        return next((c["status"] for c in self.object()["status"].get("conditions", []) if c["type"] == kind), None)

    def wait_running(self, timeout=60):
        self.cluster.api.wait(f"{self.name} to run", self.path, lambda pod: pod["status"].get("phase") == "Running" and
                              pod["status"].get("podIP"), timeout, 0.05)
        return self

    def wait_condition(self, kind, status="True", timeout=60):
        self.cluster.api.wait(f"{self.name} to have {kind}={status}", self.path, lambda pod: any(
            c["type"] == kind and c["status"] == status for c in pod["status"].get("conditions", [])), timeout, 0.05)
        return self

    def annotate(self, **annotations):
        """pod.annotate(**{"ground/ready": "false"}); None takes an annotation away."""
        return self.cluster.api.patch(self.path, {"metadata": {"annotations": annotations}})

    def set_condition(self, kind, status, reason="Test"):
        """As the owner of a readiness gate does it."""
        return self.cluster.api.patch(self.path + "/status", {"metadata": {"uid": self.uid}, "status": {
            "conditions": [{"type": kind, "status": status, "reason": reason}]}}, STRATEGIC)

    def delete(self, wait=True, timeout=60):
        self.cluster.api.delete(self.path)
        if wait:
            self.wait_gone(timeout)

    def wait_gone(self, timeout=60):
        def gone():
            now = self.cluster.api.find(self.path)
            return now is None or now["metadata"]["uid"] != self.uid

        wait_until(f"{self.name} to be gone", gone, timeout, 0.05)

    # -- its containers, on a node --------------------------------------------------------------------------------
    def exec(self, *argv, container=None, check=True, timeout=60):
        """What a command in a container prints."""
        return self.cluster.kubectl("-n", self.namespace.name, "exec", self.name,
                                    *(["-c", container] if container else []), "--", *argv, check=check,
                                    timeout=timeout)

    def logs(self, container=None, previous=False):
        return self.cluster.kubectl("-n", self.namespace.name, "logs", self.name,
                                    *(["-c", container] if container else []), *(["--previous"] if previous else []))

    @contextlib.contextmanager
    def port_forward(self, port):
        """kubectl port-forward; yields the local port, on 127.0.0.1 of the cluster's network."""
        program = self.cluster.kubectl_program("-n", self.namespace.name, "port-forward", f"pod/{self.name}",
                                               f":{port}")
        found = program.out.wait(lambda lines: re.search(r"127\.0\.0\.1:(\d+) ->", "\n".join(lines)), 30)
        assert found, program.report()
        try:
            yield int(found[1])
        finally:
            program.kill()

    # -- its network, and programs in its place (on a plane no container runs: the test starts the program itself) -----
    def descriptor(self):
        """Of its network namespace; the cluster's own when it shares that."""
        if self._network is None:
            self._network = os.open(self.cluster.pod_network(self), os.O_RDONLY | os.O_CLOEXEC)
        return self._network

    def network(self):
        """with pod.network(): this thread's sockets are in the pod: its 127.0.0.1, its address as source."""
        return in_network(self.descriptor())

    def filtered(self, match, action="drop"):
        """As Cluster.filtered(), in this pod alone."""
        return self.cluster.filtered(match, action, self.descriptor())

    @contextlib.contextmanager
    def cut_off(self):
        """All packets to and from this pod are lost; nobody is told."""
        address = self.address
        with self.cluster.filtered(f"ip saddr {address}"), self.cluster.filtered(f"ip daddr {address}"):
            yield

    def start(self, name, argv, **keywords):
        """A program in this pod's network, as programs.Program; its keywords apply."""
        return Program(name, argv, pod=self, **keywords)

    def sidecar(self, config, name=None, env=None, args=(), wait=True, **place):
        """fairlead-sidecar with its default addresses (data 127.0.0.1:8420, admin 127.0.0.1:8421, status [::]:8422)."""
        config = {**config, "listen": {"status": "[::]:8422", **config.get("listen", {})}}
        made = placed(ClusterSidecar, pod=self, **place)(
            self.cluster.binary("fairlead-sidecar"), config, self._folder(), DefaultPorts(8420, 8421, 8422), env=env,
            args=args, name=name or f"sidecar {self.name}")
        return made.wait_started(30) if wait else made

    def controller(self, config, name=None, env=None, wait=True, **place):
        """fairlead-controller with its default addresses (admin 127.0.0.1:8431, status [::]:8432, webhook [::]:8443).
        Give account=Account(…) for its identity; wait: until /_/ready is 200."""
        config = {**config, "listen": {"status": "[::]:8432", "webhook": "[::]:8443", **config.get("listen", {})}}
        made = placed(ClusterController, pod=self, **place)(
            self.cluster.binary("fairlead-controller"), config, self._folder(), DefaultPorts(8431, 8432, 8443), env=env,
            name=name or f"controller {self.name}")
        return made.wait_started(60) if wait else made

    def origin(self, port, rules=(), name=None, **keywords):
        """fairlead-origin on all addresses of this pod; bed's keywords (settings=, ledger=, extra=)."""
        return placed(ClusterOrigin, pod=self)(self.cluster.binary("fairlead-origin"), name or self.name,
                                               f"0.0.0.0:{port}", rules, **keywords)

    def _folder(self):
        folder = pathlib.Path(self.cluster.folder, "programs", self.uid)
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)


class Account:
    """A service account's folder as a pod has it (token, ca.crt, namespace), written the way the kubelet writes it: a
    new folder, then one rename. `folder` is given to programs.Program(account=…)."""

    def __init__(self, namespace, name="default", seconds=3600, pod=None):
        self.namespace, self.name, self.cluster = namespace, name, namespace.cluster
        self.folder = pathlib.Path(self.cluster.folder, "accounts", f"{namespace}-{name}-{id(self):x}")
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        self._count = 0
        self._files = {"namespace": str(namespace)}
        self.write(token=self.cluster.token(namespace, name, seconds, pod),
                   **{"ca.crt": (self.cluster.folder / "pki" / "ca.crt").read_text(encoding="utf-8")})

    def token(self):
        return self._files["token"]

    def refresh(self, seconds=3600, pod=None):
        """A new token, in place for the program as the kubelet does it."""
        self.write(token=self.cluster.token(self.namespace, self.name, seconds, pod))

    def write(self, **files):
        """account.write(token="garbage"), account.write(**{"ca.crt": ""}): files that change; the others stay."""
        self._files.update(files)
        self._count += 1
        new = self.folder / f"..{self._count}"
        new.mkdir()
        for name, text in self._files.items():
            (new / name).write_text(text, encoding="utf-8")
            (new / name).chmod(0o644)
        link = self.folder / "..data.new"
        link.symlink_to(new.name)
        os.replace(link, self.folder / "..data")
        for name in self._files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        shutil.rmtree(self.folder / f"..{self._count - 1}", ignore_errors=True)

    def mounts(self):
        return {ACCOUNT: str(self.folder)}
