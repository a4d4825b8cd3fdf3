"""A whole cluster whose containers run: one node, or several, in namespaces and cgroups of their own.

  10.89.0.N          node N (name nN, zone zN): kubelet, containerd; node 1 has the API server too, port 6443
  10.90.N.0/24       pods of node N
  10.96.0.0/16       service addresses, by kube-proxy (nftables); 10.96.0.10 is CoreDNS
  images             oci.TOOLS (busybox), oci.OURS[…]; imagePullPolicy must be Never or IfNotPresent
"""
import json
import os
import shutil
import socket

from bed.process import wait_until

from . import node_files, oci
from .api import CORE, DISCOVERY
from .cgroups import Groups
from .cluster import Cluster
from .spaces import MS_BIND, MS_REC, MS_SHARED, Space, mount

DNS = "10.96.0.10"
USERS = {"admin": "/O=system:masters/CN=ground-admin", "kcm": "/CN=system:kube-controller-manager",
         "scheduler": "/CN=system:kube-scheduler", "proxy": "/CN=system:kube-proxy",
         "dns": "/O=system:masters/CN=coredns", "apiserver-kubelet": "/O=system:masters/CN=kube-apiserver-kubelet"}
# The kubelet would set these for the whole machine; it finds what it wants to see instead.
KERNEL = {"/proc/sys/vm/overcommit_memory": "1", "/proc/sys/vm/panic_on_oom": "0", "/proc/sys/kernel/panic": "10",
          "/proc/sys/kernel/panic_on_oops": "1", "/proc/sys/kernel/keys/root_maxkeys": "1000000",
          "/proc/sys/kernel/keys/root_maxbytes": "25000000"}
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "nft", "iptables", "ip", "busybox")


class Node(Cluster):
    """nodes: how many; apiserver_flags, controller_flags, kubelet_flags: more flags; images: more OCI archives."""

    gateway = "10.89.0.1"

    def __init__(self, folder, bin, binaries, janitor, nodes=1, apiserver_flags=(), controller_flags=(),
                 kubelet_flags=(), images=()):
        super().__init__(folder, bin, binaries)
        assert len(str(folder)) <= 60, f"{folder} is too long for the sockets that are made below it: shorten $TMPDIR"
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        assert not missing and os.path.exists("/usr/lib/cni/ptp"), \
            f"missing: {missing or '/usr/lib/cni/ptp'}; the Debian packages are listed in tests/e2e/cluster/packages"
        self.nodes, self._images = nodes, list(images)
        self._flags = {"apiserver": apiserver_flags, "controllers": controller_flags, "kubelet": kubelet_flags}
        self.groups = Groups(nodes, janitor)
        for name in ("log", "var-log", "var-lib/upper", "var-lib/inner", "kernel"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for path, value in KERNEL.items():
            (self.folder / "kernel" / os.path.basename(path)).write_text(value + "\n", encoding="ascii")
        self.space = Space(self._mounts, "n1")
        janitor.kill(self.space.pid)

    def _mounts(self):
        """In process 1. Some paths are fixed in the programs: they are shown a layer of ours."""
        mount(str(self.folder / "var-log"), "/var/log", flags=MS_BIND)
        mount("overlay", "/var/lib", "overlay",
              options=f"lowerdir=/var/lib,upperdir={self.folder}/var-lib/upper,workdir={self.folder}/var-lib/inner")
        for path in KERNEL:
            mount(str(self.folder / "kernel" / os.path.basename(path)), path, flags=MS_BIND)
        mount("none", "/", flags=MS_REC | MS_SHARED)  # volumes that the kubelet mounts are seen by containerd

    # -- life -----------------------------------------------------------------------------------------------------
    def _up(self):
        self._network()
        self.make_authority(USERS)
        self._define()
        self.etcd.start(wait=False)
        self.apiserver.start(wait=False)
        for runtime in self.runtimes:
            runtime.start(wait=False)
        archive = self.folder / "images.tar"
        oci.standard(archive, self.binaries)
        for n, runtime in enumerate(self.runtimes, 1):
            runtime.wait_ready()
            for file in (archive, *self._images):
                self.load_image(file, n)
        self.etcd.wait_ready()
        self.apiserver.wait_ready()
        for daemon in (self.controllers, self.scheduler, *self.kubelets, self.proxy):
            daemon.start(wait=False)
        self._name_service()
        self.wait_first_objects()
        for n in range(self.nodes):
            self.wait_node(f"n{n + 1}")

    def wait_node(self, name, ready="True", timeout=120):
        """Until the node's Ready condition has this status."""
        def has():
            self.revive()
            node = self.api.find(f"{CORE}/nodes/{name}")
            return node and any(c["type"] == "Ready" and c["status"] == ready
                                for c in node["status"].get("conditions", []))

        wait_until(f"node {name} to be Ready={ready}", has, timeout, 0.1)

    def load_image(self, archive, n=1):
        """An OCI archive into the store of node n."""
        self.run("ctr", "-a", self._socket(n), "-n", "k8s.io", "images", "import", archive, timeout=120)

    def _network(self):
        addresses = "".join(f"addr add 10.89.0.{n + 1}/24 dev node0\n" for n in range(self.nodes))
        self.run("ip", "-batch", "-", input="link set lo up\nlink add node0 type veth peer name node0p\n"
                 f"link set node0p up\nlink set node0 up\n{addresses}"
                 f"route add {self.services} dev node0\n")  # without a route NAT is never asked
        self.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                 "net.ipv4.conf.default.rp_filter=0")

    def pod_network(self, pod):
        """The file that names a pod's network namespace: the one that has its address."""
        pod.wait_running()
        address = pod.address
        for name in os.listdir(self.space.path("/run/netns")):
            if f" {address}/" in self.run("ip", "-n", name, "-o", "-4", "addr", check=False).stdout:
                return self.space.path(f"/run/netns/{name}")
        raise AssertionError(f"no network has the address {address} of {pod.name}")

    # -- daemons --------------------------------------------------------------------------------------------------
    @staticmethod
    def _socket(n):
        """Of containerd."""
        return f"/run/containerd-{n}/containerd.sock"

    def _write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def _daemon(self, name, argv, ready=None):
        path = f"{self.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return self.daemon(name, argv, ready, env={"PATH": path}, setup=self.groups.enter)

    def _define(self):
        """All daemons, in the order in which they are healed."""
        at, folder = self.pki, self.folder
        self.etcd = self._daemon("etcd", self.etcd_argv(), self.etcd_ready)
        self.apiserver = self._daemon("kube-apiserver", [
            *self.apiserver_argv(), "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-certificate-authority={at}/ca.crt", "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={at}/apiserver-kubelet.crt",
            f"--kubelet-client-key={at}/apiserver-kubelet.key", *self._flags["apiserver"]], self.apiserver_ready)
        self.controllers = self._daemon("kube-controller-manager", [
            *self.controllers_argv(), f"--cluster-signing-cert-file={at}/ca.crt",
            f"--cluster-signing-key-file={at}/ca.key", "--allocate-node-cidrs=false",
            f"--flex-volume-plugin-dir={folder}/plugins", *self._flags["controllers"]])
        self.scheduler = self._daemon("kube-scheduler", [
            self.bin / "kube-scheduler", "--secure-port=0",
            f"--config={self._write('scheduler.json', node_files.scheduler(folder / 'scheduler.kubeconfig'))}"])
        self.runtimes = [self._runtime(n + 1) for n in range(self.nodes)]
        self.kubelets = [self._kubelet(n + 1) for n in range(self.nodes)]
        self.proxy = self._daemon("kube-proxy", [self.bin / "kube-proxy", "--config=" + str(self._write(
            "proxy.json", node_files.proxy(folder / "proxy.kubeconfig", "n1", self.gateway)))])
        self.dns = self._daemon("coredns", [self.bin / "coredns", "-conf", self._write(
            "Corefile", node_files.COREFILE.format(address=self.gateway, kubeconfig=folder / "dns.kubeconfig"))])

    def _runtime(self, n):
        home, at = self.folder / f"n{n}", self._socket(n)
        self._write(f"n{n}/cni/10-pods.conflist", node_files.network(n))
        file = self._write(f"n{n}/containerd.toml", node_files.CONTAINERD.format(
            home=home, n=n, socket=at, pause=oci.PAUSE))
        return self._daemon(f"containerd-{n}", ["containerd", "--config", file], lambda: self.run(
            "ctr", "-a", at, "version", check=False).returncode == 0)

    def _kubelet(self, n):
        home, address, name = self.folder / f"n{n}", f"10.89.0.{n}", f"n{n}"
        (self.folder / "var-log" / f"pods-{n}").mkdir()
        self.authority.leaf(f"kubelet-server-{n}", f"/CN={name}", "serverAuth", f"IP:{address},DNS:{name}")
        self.authority.leaf(f"kubelet-{n}", f"/O=system:nodes/CN=system:node:{name}", "clientAuth")
        file = self._write(f"{name}/kubelet.json", node_files.kubelet(
            n, home, self._socket(n), address, self.groups.name, self.pki, DNS, self._write("resolv.conf", "")))
        return self._daemon(f"kubelet-{n}", [
            self.bin / "kubelet", f"--config={file}", f"--kubeconfig={self.kubeconfig(f'kubelet-{n}')}",
            f"--hostname-override={name}", f"--node-ip={address}", f"--root-dir={home}/kubelet",
            f"--cert-dir={home}/kubelet/pki", f"--node-labels=topology.kubernetes.io/zone=z{n}", "--v=2",
            *self._flags["kubelet"]])

    def _name_service(self):
        """CoreDNS is a daemon of node 1 behind a service without a selector."""
        ports = [{"name": name, "port": 53, "protocol": kind} for name, kind in (("dns", "UDP"), ("dns-tcp", "TCP"))]
        self.dns.start(wait=False)
        self.api.wait("kube-system", f"{CORE}/namespaces/kube-system", lambda _: True)
        self.api.post(f"{CORE}/namespaces/kube-system/services", {
            "metadata": {"name": "kube-dns"}, "spec": {"clusterIP": DNS, "ports": ports}})
        self.api.post(f"{DISCOVERY}/namespaces/kube-system/endpointslices", {
            "metadata": {"name": "kube-dns-node", "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4", "endpoints": [{"addresses": [self.gateway]}], "ports": ports})

    # -- faults ---------------------------------------------------------------------------------------------------
    def heal(self):
        super().heal()
        for node in self.api.get(f"{CORE}/nodes")["items"]:
            if node["spec"].get("unschedulable"):
                self.kubectl("uncordon", node["metadata"]["name"])
            self.wait_node(node["metadata"]["name"])

    def drain(self, name, timeout=120):
        """kubectl drain, to its end; undone after the test."""
        return self.kubectl("drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
                            f"--timeout={timeout}s", timeout=timeout + 10)

    def wait_service(self, address, port, timeout=30):
        """Until a service address takes connections: an endpoint is ready a moment before kube-proxy knows it."""
        def answers():
            with self.network():
                try:
                    socket.create_connection((address, port), 5).close()
                    return True
                except OSError:
                    return False

        wait_until(f"{address}:{port} to answer", answers, timeout, 0.05)
