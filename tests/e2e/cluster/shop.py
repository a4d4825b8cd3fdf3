"""What most tests of the product on a plane need: a store with peers behind a Service, controllers with the role of
deploy/manifests, and pods with a sidecar that the controllers push to."""
import pathlib
import time

import yaml

from bed.push import Key
from cluster.ground.pods import Account

ROOT = pathlib.Path(__file__).resolve().parents[3]
RBAC = ROOT / "deploy" / "manifests" / "controller-rbac.yaml"
ACCOUNT = "fairlead-controller"


def role(home):
    """deploy/manifests/controller-rbac.yaml for the namespace `home`, with cluster-wide names of its own."""
    documents = list(yaml.safe_load_all(RBAC.read_text(encoding="utf-8")))
    for d in documents:
        if "namespace" in d["metadata"]:
            d["metadata"]["namespace"] = home
        else:
            d["metadata"]["name"] += "-" + home
        for subject in d.get("subjects", []):
            subject["namespace"] = home
        if d.get("roleRef", {}).get("kind") == "ClusterRole":
            d["roleRef"]["name"] += "-" + home
    return documents


def eventually(what, condition, seconds=20, pause=0.05):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(pause)


class Shop:
    """One per test: `plane` is the cluster, `ns` the namespace of stores and applications."""

    def __init__(self, plane, folder, rights=lambda documents: documents):
        """rights: what is applied, made from role()."""
        self.plane, self.key = plane, Key(str(folder))
        self.home, self.ns = plane.namespace("fairlead"), plane.namespace("shop")
        plane.apply(rights(role(self.home.name)))
        self.lease = f"/apis/coordination.k8s.io/v1/namespaces/{self.home.name}/leases/fairlead-controller"

    def store(self, name, service="minio", port=9000, rules=(), **keywords):
        """A pod behind the service with an origin in it."""
        pod = self.ns.pod(name, labels={"app": service}, **keywords)
        pod.store = pod.origin(port, rules)
        return pod

    def config(self, **keys):
        return {"source": "kubernetes", "push": {"signing_key_file": self.key.private},
                "probe_defaults": {"interval": "2s"},
                "leader_election": {"namespace": self.home.name, "name": "fairlead-controller"},
                "backends": {"minio": {"protocol": "http", "service": {"namespace": self.ns.name, "name": "minio",
                                                                       "port": "s3"}, "probe": {"type": "tcp"}}},
                **keys}

    def controller(self, name="controller", wait=True, **keywords):
        config = keywords.pop("config", None) or self.config()
        pod = self.home.pod(name, serviceAccountName=ACCOUNT)
        account = Account(self.home, ACCOUNT, pod=pod)
        c = pod.controller(config, account=account, wait=wait, **keywords)
        c.pod, c.account = pod, account
        return c

    def app(self, name="app", annotations=None, routes=None, wait=True, **config):
        """A pod that has our sidecar: a person wrote it by hand, label and all."""
        pod = self.ns.pod(name, labels={"fairlead.dev/injected": "true"},
                          containers=[{"name": "fairlead", "image": "none"}],
                          annotations=annotations if annotations is not None else
                          {"route.fairlead.dev/releases": "minio"})
        s = pod.sidecar({"id": pod.uid, "push": {"public_key_file": self.key.public}, "boot_probe": "off",
                         "start_wait": "1s", "backends": {}, "routes": routes or {}, **config}, wait=wait)
        s.pod = pod
        return s


def peers(sidecar, backend="minio"):
    """The addresses that a sidecar has for a backend, by its own admin API."""
    for b in sidecar.admin("/_/api/admin/backends")["backends"]:
        if b["name"] == backend:
            return sorted(p["address"] for p in b["peers"])
    return []
