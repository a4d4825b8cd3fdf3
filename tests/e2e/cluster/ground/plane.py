"""A control plane in some seconds: etcd, API server, controller manager and a stand-in for scheduler and kubelet.

No container runs. Pods are real objects with real addresses in networks of their own, and the test starts the programs
that stand in their place. Inside the space:

  127.0.0.1          etcd
  10.244.0.1:6443    API server; every pod's gateway too. Also at 10.96.0.1:443, as pods know it
  10.244.100.0 up    pods' addresses, in turn; below that for the test (annotation ground/address)
  anything else      "no route to host", at once: no packet leaves
"""
import pathlib
import shutil
import sys

from . import pki
from .api import CORE
from .cluster import Cluster
from .spaces import Space

# All that act on what our tests make; those of nodes would evict pods from nodes that nobody keeps alive.
CONTROLLERS = """endpointslice-controller endpointslice-mirroring-controller endpoints-controller
    serviceaccount-controller serviceaccount-token-controller root-ca-certificate-publisher-controller
    deployment-controller replicaset-controller statefulset-controller daemonset-controller job-controller
    namespace-controller garbage-collector-controller pod-garbage-collector-controller
    clusterrole-aggregation-controller disruption-controller resourcequota-controller service-cidr-controller""".split()


class Plane(Cluster):
    """apiserver_flags, controller_flags: more flags, the last of a kind wins; nodes: how many the stand-in plays."""

    def __init__(self, folder, bin, binaries, janitor, apiserver_flags=(), controller_flags=(), nodes=3):
        super().__init__(folder, bin, binaries)
        self._flags, self._controller_flags, self._nodes = list(apiserver_flags), list(controller_flags), nodes
        self.space = Space()
        janitor.kill(self.space.pid)

    # -- life -----------------------------------------------------------------------------------------------------
    def _up(self):
        self._network()
        self.make_authority({"admin": "/O=system:masters/CN=ground-admin", "kcm": "/CN=system:kube-controller-manager"})
        self.etcd = self.daemon("etcd", self.etcd_argv(), self.etcd_ready)
        self.apiserver = self.daemon("kube-apiserver", [
            *self.apiserver_argv(), "--authorization-mode=RBAC",
            # Webhooks in service form are dialled at the pod's address from the slice: nobody routes service
            # addresses here.
            "--enable-aggregator-routing=true", *self._flags], self.apiserver_ready)
        self.controllers = self.daemon("kube-controller-manager", [
            *self.controllers_argv(), f"--service-cluster-ip-range={self.services}",
            f"--controllers={','.join(CONTROLLERS)}", *self._controller_flags])
        self.kubelet = self.daemon("standin", [
            sys.executable, pathlib.Path(__file__).with_name("standin.py"), f"https://{self.gateway}:{self.port}",
            self.pki / "ca.crt", self.pki / "admin.crt", self.pki / "admin.key", self._nodes])
        self.etcd.start(wait=False)
        self.apiserver.start(wait=False)  # tries until etcd answers, which saves a second
        self.etcd.wait_ready()
        self.apiserver.wait_ready()
        self.controllers.start()
        self.kubelet.start()
        self.wait_first_objects()
        self.api.wait("the nodes", f"{CORE}/nodes/n{self._nodes}", lambda _: True, 60, 0.05)

    def _network(self):
        self.run("ip", "-batch", "-", input="link set lo up\n"
                 f"addr add {self.gateway}/32 dev lo\nroute add {self.services} dev lo\n"
                 "route add unreachable default\n")
        self.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                 "net.ipv4.conf.default.rp_filter=0")
        # Where pods look for the API server nobody is.
        rule = f"ip daddr {self.kubernetes} tcp dport 443 dnat to {self.gateway}:{self.port}"
        chains = "".join(f"chain {hook} {{ type nat hook {hook} priority -100; {rule}; }}\n"
                         for hook in ("output", "prerouting"))
        self.run("nft", "-f", "-", input=f"table ip ground {{\n{chains}}}\n")

    def pod_network(self, pod):
        """The file that names a pod's network namespace."""
        if (pod.object()["metadata"].get("annotations") or {}).get("ground/network") == "shared":
            return f"/proc/{self.space.pid}/ns/net"
        pod.wait_running()
        return self.space.path(f"/run/netns/{pod.uid}")

    # -- certificates ---------------------------------------------------------------------------------------------
    def rotate_serving_certificate(self, authority=None, names=None, **keywords):
        """A new certificate for the API server, which takes it within a second and without a restart; kept connections
        live on. authority: another pki.Authority; its files must be in a folder of their own. keywords: days=, at=."""
        authority = authority or self.authority
        names = names or self.server_names
        crt, key = authority.leaf("apiserver", "/CN=kube-apiserver", "serverAuth", names, **keywords)
        for file in (crt, key):
            if file.parent != self.pki:
                shutil.copy(file, self.pki / file.name)

    def rotate_authority(self):
        """Another authority signs the API server's certificate from now on; clients that trust only the old one refuse
        it. What is ours trusts both and is restarted for that. Returns the new CA file; to hand it on:
        account.write(**{"ca.crt": …})."""
        new = pki.Authority(self.folder / f"pki{len(list(self.folder.glob('pki*')))}", subject="/CN=ground-ca-next")
        trusted = self.pki / "ca.crt"
        with open(trusted, "a", encoding="ascii") as bundle:  # client certificates of the old one stay good
            bundle.write(new.crt.read_text(encoding="ascii"))
        self.rotate_serving_certificate(new)
        self.controllers.restart()
        self.kubelet.restart()
        return new.crt

    def forget_tokens(self):
        """Another key signs service-account tokens from now on: after a restart of the API server (done here) every
        token issued so far gets 401. The controllers are given the new key too."""
        pki.signing_key(self.pki)
        self.apiserver.restart()
        self.controllers.restart()

    # -- data -----------------------------------------------------------------------------------------------------
    def save_data(self):
        """A copy of etcd's data as they are now, for restart_with(). The API server is down for some seconds."""
        copy = self.folder / f"saved{len(list(self.folder.glob('saved*')))}"
        self.apiserver.kill()
        self.etcd.terminate()
        shutil.copytree(self.folder / "etcd", copy)
        self.etcd.start()
        self.apiserver.start()
        return copy

    def restart_with(self, copy):
        """As after a restore of a backup: old objects, and resource versions that go back. Our own controllers and
        stand-in are restarted too: they would wait for versions of the future."""
        self.apiserver.kill()
        self.etcd.kill()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(copy, self.folder / "etcd")
        self.etcd.start()
        self.apiserver.start()
        self.controllers.restart()
        self.kubelet.restart()

    def expire_versions(self):
        """Every resource version handed out so far is too old for a watch (410): after one more write the API server
        starts anew, and its memory begins there."""
        self.api.post(f"{CORE}/namespaces/default/configmaps", {"metadata": {"generateName": "later-"}})
        self.apiserver.restart()
