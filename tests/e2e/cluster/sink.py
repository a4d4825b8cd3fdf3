"""Many sidecars for little: pods that are only objects, whose addresses all lead to one program which takes their
pushes and writes them down (tests/support/push_sink.c); and objects by the thousand."""
import concurrent.futures
import contextlib
import http.client
import json
import ssl
import threading
import time

from bed.process import wait_until
from cluster.ground.api import CORE, DISCOVERY
from cluster.ground.programs import Program


class Push:
    def __init__(self, at, address, state):
        self.at, self.address, self.state = at, address, state  # at: as time.monotonic()

    def peers(self, backend):
        """The addresses of a backend, or None when the state does not have it."""
        found = self.state["backends"].get(backend)
        return None if found is None else [p["address"] for p in found.get("peers", [])]


class Sink:
    """Takes pushes at all addresses of 10.200.0.0/14, which lead here for the whole cluster while it lives."""

    def __init__(self, plane, folder):
        self.folder = folder
        plane.run("ip", "route", "replace", "local", "10.200.0.0/14", "dev", "lo")
        self.program = Program("push sink", [plane.binary("fairlead-push-sink"), 8422, folder], cluster=plane)
        assert self.program.out.wait(lambda lines: "ready" in lines, 10), self.program.report()
        self._bodies, self._pushes, self._at = [], [], {}

    @staticmethod
    def address(i):
        """Of the i-th pod."""
        return f"10.{200 + i // 60000}.{i // 240 % 250}.{i % 240 + 1}"

    def pushes(self):
        """All so far, in the order in which they came."""
        time.sleep(0.05)  # it writes out every 20 ms
        new = self._lines("pushes")  # before the bodies, which are written before them
        self._bodies += [json.loads(line) for line in self._lines("bodies")]
        for line in new:
            at, address, body = line.split()
            self._pushes.append(Push(int(at) / 1e9, address, self._bodies[int(body)]))
        return self._pushes

    def _lines(self, name):
        """Whole lines that are new."""
        at = self._at.get(name, 0)
        with open(f"{self.folder}/{name}", "rb") as f:
            f.seek(at)
            text = f.read()
        text = text[:text.rfind(b"\n") + 1]
        self._at[name] = at + len(text)
        return text.decode().splitlines()

    def first(self, addresses, fits, since=0):
        """{address: when its first push that fits came}, of those that came after `since`."""
        found, wanted = {}, set(addresses)
        for push in self.pushes():
            if push.at >= since and push.address in wanted and push.address not in found and fits(push):
                found[push.address] = push.at
        return found

    def wait(self, what, addresses, fits, since=0, timeout=60):
        """Until all of them have such a push."""
        wait_until(lambda: f"{what}: {len(self.first(addresses, fits, since))} of {len(addresses)} have it",
                   lambda: len(self.first(addresses, fits, since)) == len(addresses), timeout, 0.2)
        return self.first(addresses, fits, since)


class Bulk:
    """Calls by the thousand: kept connections, in some threads."""

    def __init__(self, plane, threads=6):
        self.plane, self.threads = plane, threads
        self._local, self._all = threading.local(), []

    def _connection(self):
        if getattr(self._local, "kept", None) is None:
            context = ssl.create_default_context(cafile=str(self.plane.pki / "ca.crt"))
            context.load_cert_chain(self.plane.pki / "admin.crt", self.plane.pki / "admin.key")
            self._local.kept = http.client.HTTPSConnection(*self.plane.server, context=context, timeout=60)
            with self.plane.network():
                self._local.kept.connect()
            self._all.append(self._local.kept)
        return self._local.kept

    def _one(self, call):
        method, path, body = call
        connection = self._connection()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        connection.request(method, path, json.dumps(body), {"Content-Type": kind})
        response = connection.getresponse()
        text = response.read()
        assert response.status < 300, f"{method} {path}: {response.status} {text[:300]}"

    def do(self, calls):
        """calls: (method, path, body) each, in no particular order."""
        with concurrent.futures.ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(self._one, calls):
                pass
        for connection in self._all:
            connection.close()
        self._all, self._local = [], threading.local()

    def pods(self, ns, wanted):
        """wanted: {name: (address, annotations)}: pods with our sidecar that nobody tends, and that say they run."""
        self.do(("POST", f"{ns.path}/pods", pod(name, notes)) for name, (_, notes) in wanted.items())
        self.do(("PATCH", f"{ns.path}/pods/{name}/status", {"status": running(address)})
                for name, (address, _) in wanted.items())

    def slices(self, ns, wanted, method="POST"):
        """wanted: {name: (service, [address …])}, all of port s3 9000."""
        folder = f"{DISCOVERY}/namespaces/{ns}/endpointslices"
        self.do((method, folder if method == "POST" else f"{folder}/{name}", piece(name, service, addresses))
                for name, (service, addresses) in wanted.items())


def pod(name, notes):
    return {"metadata": {"name": name, "labels": {"fairlead.dev/injected": "true", "app": "many"},
                         "annotations": {**notes, "ground/ignore": "true"}},
            "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "fairlead", "image": "none"}]}}


def running(address):
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")],
            "containerStatuses": [{"name": "fairlead", "image": "none", "imageID": "", "restartCount": 0,
                                   "ready": True, "started": True, "state": state}]}


def piece(name, service, addresses, conditions=None):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
            "endpoints": [{"addresses": [a], "conditions": {"ready": True} if conditions is None else conditions[a],
                           "zone": "za", "nodeName": "n1"} for a in addresses],
            "ports": [{"name": "s3", "port": 9000, "protocol": "TCP"}]}


class Watch:
    """The slices of a namespace as another client sees them: a thread that notes when each event came."""

    def __init__(self, plane, ns):
        self.plane, self.ns, self.events = plane, ns, []  # (when, type, name, resourceVersion, object)
        path = f"{DISCOVERY}/namespaces/{ns}/endpointslices"
        self._version = plane.api.get(path)["metadata"]["resourceVersion"]
        self._path = f"{path}?watch=1&resourceVersion={self._version}&timeoutSeconds=600"
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        context = ssl.create_default_context(cafile=str(self.plane.pki / "ca.crt"))
        context.load_cert_chain(self.plane.pki / "admin.crt", self.plane.pki / "admin.key")
        self._connection = http.client.HTTPSConnection(*self.plane.server, context=context, timeout=700)
        with self.plane.network():
            self._connection.connect()
        self._connection.request("GET", self._path)
        self._response = self._connection.getresponse()
        self._thread.start()
        return self

    def _run(self):
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while line := self._response.readline():
                at, event = time.monotonic(), json.loads(line)
                meta = event["object"]["metadata"]
                self.events.append((at, event["type"], meta["name"], meta["resourceVersion"], event["object"]))

    def when(self, version, timeout=10):
        """When the event of this resource version came."""
        def found():
            return next((e[0] for e in reversed(self.events) if e[3] == version), None)

        return wait_until(f"the event of {version}", found, timeout, 0.002)

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._connection.sock.shutdown(2)
        self._thread.join(5)
        self._connection.close()


def part(values, share):
    """The value that so great a share of them does not exceed."""
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]
