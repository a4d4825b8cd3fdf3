"""A control plane in some seconds: etcd, API server, controller manager and a stand-in for scheduler and kubelet.

No container runs. Pods are real objects with real addresses in networks of their own, and the test starts the programs
that stand in their place. Inside the space:

  127.0.0.1          etcd
  10.244.0.1:6443    API server; every pod's gateway too. Also at 10.96.0.1:443, as pods know it
  10.244.100.0 up    pods' addresses, in turn; below that for the test (annotation ground/address)
  anything else      "no route to host", at once: no packet leaves
"""
import os
import pathlib
import shutil
import ssl
import sys
import http.client

from . import pki
from .api import CORE
from .cluster import Cluster, kubeconfig
from .daemons import Daemon
from .spaces import Space

GATEWAY, PORT = "10.244.0.1", 6443
SERVICES, KUBERNETES = "10.96.0.0/16", "10.96.0.1"
SERVER_NAMES = ("DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
                f"DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:{GATEWAY},IP:{KUBERNETES}")
# All that act on what our tests make; those of nodes would evict pods from nodes that nobody keeps alive.
CONTROLLERS = """endpointslice-controller endpointslice-mirroring-controller endpoints-controller
    serviceaccount-controller serviceaccount-token-controller root-ca-certificate-publisher-controller
    deployment-controller replicaset-controller statefulset-controller daemonset-controller job-controller
    namespace-controller garbage-collector-controller pod-garbage-collector-controller
    clusterrole-aggregation-controller disruption-controller resourcequota-controller service-cidr-controller""".split()
# Each statement on a line of its own: what pods know as the API server's address is none that anybody has.
ADDRESS_OF_PODS = f"""table ip ground {{
chain out {{ type nat hook output priority -100; ip daddr {KUBERNETES} tcp dport 443 dnat to {GATEWAY}:{PORT}; }}
chain pre {{ type nat hook prerouting priority -100; ip daddr {KUBERNETES} tcp dport 443 dnat to {GATEWAY}:{PORT}; }}
}}
"""


class Plane(Cluster):
    """apiserver_flags, controller_flags: more flags, the last of a kind wins; nodes: how many the stand-in plays."""

    gateway = GATEWAY
    pod_environment = {"KUBERNETES_SERVICE_HOST": KUBERNETES, "KUBERNETES_SERVICE_PORT": "443"}

    def __init__(self, folder, bin, janitor, binaries=None, apiserver_flags=(), controller_flags=(), nodes=3):
        super().__init__()
        self.folder, self.bin, self.binaries = pathlib.Path(folder), pathlib.Path(bin), binaries
        self.server = (GATEWAY, PORT)
        self._flags, self._controller_flags, self._nodes = list(apiserver_flags), list(controller_flags), nodes
        self.space = Space()
        janitor.kill(self.space.pid)

    def binary(self, name):
        path = pathlib.Path(self.binaries, name)
        assert os.access(path, os.X_OK), f"{path} is missing: ./dev build, or set FAIRLEAD_BUILD"
        return str(path)

    # -- life -----------------------------------------------------------------------------------------------------
    def up(self):
        self._network()
        self._certificates()
        self.etcd = self._daemon("etcd", self._etcd_argv(), self._etcd_ready)
        self.apiserver = self._daemon("kube-apiserver", self._apiserver_argv(), self._apiserver_ready)
        self.controllers = self._daemon("kube-controller-manager", self._controllers_argv())
        self.kubelet = self._daemon("standin", [
            sys.executable, pathlib.Path(__file__).with_name("standin.py"), f"https://{GATEWAY}:{PORT}",
            self.pki / "ca.crt", self.pki / "admin.crt", self.pki / "admin.key", self._nodes])
        self.etcd.start(wait=False)
        self.apiserver.start(wait=False)  # tries until etcd answers, which saves a second
        self.etcd.wait_ready()
        self.apiserver.wait_ready()
        self.controllers.start()
        self.kubelet.start()
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):  # then pods can be made
            self.api.wait("the controllers' first work", f"{CORE}/namespaces/default/{path}", lambda _: True, 90, 0.05)
        self.api.wait("the nodes", f"{CORE}/nodes/n{self._nodes}", lambda _: True, 30, 0.05)
        return self

    def down(self):
        """Ends all that is in it; the folder stays for the janitor."""
        self.space.close()
        for program in self.programs:
            program.wait(10)

    def _daemon(self, name, argv, ready=None):
        daemon = Daemon(name, self.space, self.folder, argv, ready)
        self.daemons[name] = daemon
        return daemon

    def _network(self):
        self.run("ip", "-batch", "-", input="link set lo up\n"
                 f"addr add {GATEWAY}/32 dev lo\nroute add {SERVICES} dev lo\nroute add unreachable default\n")
        self.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                 "net.ipv4.conf.default.rp_filter=0")
        self.run("nft", "-f", "-", input=ADDRESS_OF_PODS)

    def pod_network(self, pod):
        """The file that names a pod's network namespace."""
        if (pod.object()["metadata"].get("annotations") or {}).get("ground/network") == "shared":
            return f"/proc/{self.space.pid}/ns/net"
        pod.wait_running()
        return self.space.path(f"/run/netns/{pod.uid}")

    # -- certificates ---------------------------------------------------------------------------------------------
    def _certificates(self):
        self.pki = self.folder / "pki"
        self.authority = pki.Authority(self.pki)
        self.rotate_serving_certificate()
        self.authority.leaf("admin", "/O=system:masters/CN=ground-admin", "clientAuth")
        self.authority.leaf("kcm", "/CN=system:kube-controller-manager", "clientAuth")
        pki.signing_key(self.pki)
        for user in ("admin", "kcm"):
            kubeconfig(self.folder / f"{user}.kubeconfig", self.server, self.pki, user)

    def rotate_serving_certificate(self, authority=None, names=SERVER_NAMES, **keywords):
        """A new certificate for the API server, which takes it within a second and without a restart; kept connections
        live on. authority: another pki.Authority; its files must be in a folder of their own. keywords: days=, at=."""
        authority = authority or self.authority
        crt, key = authority.leaf("apiserver", "/CN=kube-apiserver", "serverAuth", names, **keywords)
        for file in (crt, key):
            if file.parent != self.pki:
                shutil.copy(file, self.pki / file.name)

    def rotate_authority(self):
        """Another authority signs the API server's certificate from now on; clients that trust only the old one refuse
        it. Administrator and controllers trust both. Returns the new CA file; hand it on by account.write(ca.crt)."""
        new = pki.Authority(self.folder / f"pki{len(list(self.folder.glob('pki*')))}", subject="/CN=ground-ca-next")
        trusted = self.pki / "ca.crt"
        with open(trusted, "a", encoding="ascii") as bundle:  # client certificates of the old one stay good
            bundle.write(new.crt.read_text(encoding="ascii"))
        self.rotate_serving_certificate(new)
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
        """As after a restore of a backup: old objects, and resource versions that go back."""
        self.apiserver.kill()
        self.etcd.kill()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(copy, self.folder / "etcd")
        self.etcd.start()
        self.apiserver.start()

    def expire_versions(self):
        """Every resource version handed out so far is too old for a watch (410): after one more write the API server
        starts anew, and its memory begins there."""
        self.api.post(f"{CORE}/namespaces/default/configmaps", {"metadata": {"generateName": "later-"}})
        self.apiserver.restart()

    # -- daemons --------------------------------------------------------------------------------------------------
    def _etcd_argv(self):
        clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        return [self.bin / "etcd", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={clients}",
                f"--advertise-client-urls={clients}", f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}", "--unsafe-no-fsync",
                "--log-level=warn"]

    def _apiserver_argv(self):
        at = self.pki
        return [self.bin / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", f"--bind-address={GATEWAY}",
                f"--advertise-address={GATEWAY}", f"--secure-port={PORT}", f"--tls-cert-file={at}/apiserver.crt",
                f"--tls-private-key-file={at}/apiserver.key", f"--client-ca-file={at}/ca.crt",
                f"--service-cluster-ip-range={SERVICES}",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                f"--service-account-signing-key-file={at}/sa.key", f"--service-account-key-file={at}/sa.pub",
                "--authorization-mode=RBAC", "--allow-privileged=true", "--profiling=false", "--v=1",
                # Webhooks in service form are dialled at the pod's address from the slice: nobody routes service
                # addresses here.
                "--enable-aggregator-routing=true",
                # Else a SIGTERM waits a minute for open watches.
                "--shutdown-watch-termination-grace-period=1s", *self._flags]

    def _controllers_argv(self):
        return [self.bin / "kube-controller-manager", f"--kubeconfig={self.folder}/kcm.kubeconfig",
                "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=true",
                f"--root-ca-file={self.pki}/ca.crt", f"--service-account-private-key-file={self.pki}/sa.key",
                f"--service-cluster-ip-range={SERVICES}", f"--controllers={','.join(CONTROLLERS)}", "--profiling=false",
                "--v=1", "--kube-api-qps=200", "--kube-api-burst=400", *self._controller_flags]

    def _etcd_ready(self):
        with self.network():
            connection = http.client.HTTPConnection("127.0.0.1", 2379, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200

    def _apiserver_ready(self):
        try:
            return self.api.call("GET", "/readyz", timeout=5)[0] == 200
        except (ssl.SSLError, http.client.HTTPException):
            return False

