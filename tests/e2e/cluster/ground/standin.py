"""Scheduler and kubelet for the API objects alone: no container runs, pods behave as if theirs did.

Run inside a space: `standin.py URL CA CRT KEY NODES`. It makes nodes n1, n2, … in the zones za, zb, zc in turn;
binds pods to them; gives each pod an address and a network namespace (named by its uid, in /run/netns) that is routed to
all others; reports it Running; and computes Ready = containers ready and every readiness gate True. A deleted pod goes at
once. Annotations steer one pod, at creation or at any time later:

  ground/address: 10.244.7.7     this address (below 10.244.100.0: those above are given out in turn)
  ground/network: shared         no network of its own: the address is put on the cluster's loopback
  ground/ready: "false"          its containers are not ready (a failing probe); "true" again later
  ground/exit: "0"               its containers have ended: the pod is Succeeded, with any other number Failed
  ground/hold: "true"            once deleted it stays Terminating (and serving) until this annotation goes
  ground/ignore: "true"          nobody does anything with it
"""
import http.client
import itertools
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.parse

GATEWAY = "10.244.0.1"
NEXT = "/run/ground-next-address"
STRATEGIC = "application/strategic-merge-patch+json"


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Api:
    """One kept connection for all calls, another for the watch."""

    def __init__(self, url, ca, crt, key):
        self._where = urllib.parse.urlsplit(url)
        self._tls = ssl.create_default_context(cafile=ca)
        self._tls.load_cert_chain(crt, key)
        self._kept = None

    def connect(self, timeout):
        return http.client.HTTPSConnection(self._where.hostname, self._where.port, context=self._tls, timeout=timeout)

    def call(self, method, path, body=None, kind="application/json"):
        for last in (False, True):
            connection, self._kept = self._kept or self.connect(10), None
            try:
                connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
                response = connection.getresponse()
                text = response.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                if last:
                    raise
                continue
            self._kept = connection
            if response.status >= 400 and response.status not in (404, 409):  # those: the object has moved on
                print(method, path, response.status, text[:300], flush=True)
            return response.status

    def events(self):
        connection = self.connect(60)
        try:
            watch = "/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=600"
            connection.request("GET", watch + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
            response = connection.getresponse()
            if response.status == 422:  # no streamed lists here: then all that there is comes without a mark at its end
                response.read()
                connection.request("GET", watch)
                response = connection.getresponse()
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()


class Networks:
    """Addresses of pods, by uid."""

    def __init__(self):
        self._given = {}

    @staticmethod
    def _fresh():
        """The next address that nobody had, also after we were started again."""
        i = int(os.readlink(NEXT)) if os.path.islink(NEXT) else 0
        os.symlink(str(i + 1), NEXT + ".new")
        os.rename(NEXT + ".new", NEXT)
        return f"10.244.{100 + i // 250}.{i % 250 + 1}"

    @staticmethod
    def _ip(*words, lines=()):
        done = subprocess.run(["ip", *words], input="".join(line + "\n" for line in lines), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            print("ip", *words, *lines, done.stdout, flush=True)

    def give(self, uid, wanted, shared):
        if uid in self._given:
            return self._given[uid][0]
        address = wanted or self._fresh()
        self._given[uid] = (address, shared)
        if os.path.exists(f"/run/netns/{uid}"):  # from before we were started again
            return address
        if shared:
            self._ip("addr", "add", f"{address}/32", "dev", "lo")
            return address
        self._ip("netns", "add", uid)
        here = self._link(uid)
        self._ip("-batch", "-", lines=[
            f"link add {here} type veth peer name eth0 netns {uid}", f"link set {here} up",
            f"route add {address}/32 dev {here} src {GATEWAY}"])
        self._ip("-n", uid, "-batch", "-", lines=[
            "link set lo up", f"addr add {address}/32 dev eth0", "link set eth0 up",
            f"route add {GATEWAY}/32 dev eth0 scope link", f"route add default via {GATEWAY} dev eth0 src {address}"])
        return address

    @staticmethod
    def _link(uid):
        return "p" + uid.replace("-", "")[:14]  # names of interfaces are short

    def release(self, uid):
        address, shared = self._given.pop(uid, (None, False))
        if address is None:
            return
        if not shared:
            self._ip("link", "del", self._link(uid))  # even if a program still holds the network: it is cut off
            self._ip("netns", "del", uid)
        elif not any(other == address for other, _ in self._given.values()):
            self._ip("addr", "del", f"{address}/32", "dev", "lo")

    def known(self):
        return set(self._given)


class Standin:
    def __init__(self, api, nodes):
        self.api, self.nodes, self.networks = api, [f"n{i + 1}" for i in range(nodes)], Networks()
        self._turn = itertools.cycle(self.nodes)

    def make_nodes(self):
        amount = {"cpu": "64", "memory": "256Gi", "pods": "500"}
        for i, name in enumerate(self.nodes):
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                      "topology.kubernetes.io/region": "z", "topology.kubernetes.io/zone": "z" + "abc"[i % 3]}
            self.api.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
            self.api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")
            self.api.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": {
                "conditions": [{"type": "Ready", "status": "True", "reason": "Standin"}], "capacity": amount,
                "allocatable": amount, "addresses": [{"type": "InternalIP", "address": GATEWAY}]}}, STRATEGIC)

    def tend(self, pod):
        meta, spec = pod["metadata"], pod["spec"]
        notes, going = meta.get("annotations") or {}, "deletionTimestamp" in meta
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if notes.get("ground/ignore") == "true":
            return
        if not spec.get("nodeName"):
            if not going:
                self.api.call("POST", path + "/binding", {
                    "apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"], "uid": meta["uid"]},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": next(self._turn)}})
            return
        if spec["nodeName"] not in self.nodes:
            return
        status = self.status(pod, notes)
        if status:
            self.api.call("PATCH", path + "/status", {"metadata": {"uid": meta["uid"]}, "status": status}, STRATEGIC)
        if going and notes.get("ground/hold") != "true":
            self.api.call("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}})

    def status(self, pod, notes):
        """What to write into the status; None when it says so already, which is what ends the echo of our own writes."""
        spec, old = pod["spec"], pod["status"]
        have = {condition["type"]: condition for condition in old.get("conditions", [])}
        exit_code = notes.get("ground/exit")
        up = exit_code is None and notes.get("ground/ready", "true") == "true"
        gates = all(have.get(gate["conditionType"], {}).get("status") == "True"
                    for gate in spec.get("readinessGates", []))
        why_not = "PodCompleted" if exit_code == "0" else "ContainersNotReady" if not up else "ReadinessGatesNotReady"
        changed = []
        for kind, holds in (("PodScheduled", True), ("PodReadyToStartContainers", exit_code is None),
                            ("Initialized", True), ("ContainersReady", up), ("Ready", up and gates)):
            status, reason = ("True", None) if holds else ("False", why_not)
            was = have.get(kind, {})
            if was.get("status") != status or was.get("reason") != reason:
                since = was.get("lastTransitionTime") if was.get("status") == status else None
                changed.append({"type": kind, "status": status, "reason": reason, "lastTransitionTime": since or now()})
        phase = "Running" if exit_code is None else "Succeeded" if exit_code == "0" else "Failed"
        if not changed and old.get("phase") == phase and old.get("podIP"):
            return None
        address = self.networks.give(pod["metadata"]["uid"], old.get("podIP") or notes.get("ground/address"),
                                     notes.get("ground/network") == "shared")
        start = old.get("startTime") or now()
        return {"phase": phase, "hostIP": GATEWAY, "podIP": address, "podIPs": [{"ip": address}], "startTime": start,
                "conditions": changed, "containerStatuses": self.containers(spec["containers"], up, exit_code, start),
                "initContainerStatuses": self.containers(spec.get("initContainers", []), up, exit_code, start)}

    @staticmethod
    def containers(specs, up, exit_code, start):
        state = {"running": {"startedAt": start}} if exit_code is None else \
            {"terminated": {"exitCode": int(exit_code), "startedAt": start, "finishedAt": now()}}
        return [{"name": one["name"], "image": one.get("image", ""), "imageID": "", "containerID": "ground://" +
                 one["name"], "restartCount": 0, "ready": up, "started": exit_code is None, "state": state}
                for one in specs]

    def follow(self):
        listed = set()
        for event in self.api.events():
            meta = event["object"].get("metadata", {})
            if event["type"] in ("ADDED", "MODIFIED"):
                if listed is not None:
                    listed.add(meta["uid"])
                self.tend(event["object"])
            elif event["type"] == "DELETED":
                self.networks.release(meta["uid"])
            elif event["type"] == "BOOKMARK" and listed is not None and \
                    (meta.get("annotations") or {}).get("k8s.io/initial-events-end") == "true":
                for uid in self.networks.known() - listed:  # they went while nobody was looking
                    self.networks.release(uid)
                listed = None
            elif event["type"] == "ERROR":
                return


def main():
    url, ca, crt, key, nodes = sys.argv[1:]
    standin = Standin(Api(url, ca, crt, key), int(nodes))
    while True:
        try:
            standin.make_nodes()
            standin.follow()
        except (OSError, http.client.HTTPException, ValueError) as error:  # the API server is away: again
            print(repr(error), flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
