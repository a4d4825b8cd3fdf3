"""Configuration files of a node's daemons. Values that are not the default say why."""
import json

CONTAINERD = """version = 2
root = "{home}/containerd"
state = "/run/containerd-{n}"
# These look for filesystems and modules that need not be here.
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
                    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{home}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true # without CAP_SYS_RESOURCE nobody can go below the daemon's own
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{home}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


def network(n):
    """Routed, not bridged: traffic of two pods of one node passes the same hooks as any other."""
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [
        {"type": "ptp", "ipMasq": False, "ipam": {
            "type": "host-local", "dataDir": f"/run/cni-{n}", "ranges": [[{"subnet": f"10.90.{n}.0/24"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": True}}]})


def kubelet(n, home, socket, address, groups, pki, dns, empty):
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": address, "healthzPort": 10247 + n, "containerRuntimeEndpoint": f"unix://{socket}",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                           "x509": {"clientCAFile": f"{pki}/ca.crt"}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/kubelet-server-{n}.crt", "tlsPrivateKeyFile": f"{pki}/kubelet-server-{n}.key",
        "volumePluginDir": f"{home}/kubelet/plugins", "podLogsDir": f"/var/log/pods-{n}",
        "clusterDomain": "cluster.local", "clusterDNS": [dns], "resolvConf": str(empty),
        # Machines with cgroups of version 1 are refused by default, and containerd 1.6 cannot tell its driver.
        "failCgroupV1": False, "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{groups}/n{n}",
        "kubeletCgroups": f"/{groups}/daemons", "enforceNodeAllocatable": [], "oomScoreAdj": 0, "failSwapOn": False,
        # A full disk of the machine must not evict our pods: naming one signal sets the others to zero.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%",
                         "imagefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        # Quick to react, and no throttling of its own.
        "syncFrequency": "10s", "nodeStatusUpdateFrequency": "5s", "nodeStatusReportFrequency": "1m",
        "configMapAndSecretChangeDetectionStrategy": "Watch", "registryPullQPS": 0, "eventRecordQPS": 0,
        "kubeAPIQPS": 200, "kubeAPIBurst": 400}


def proxy(kubeconfig, name, address):
    return {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)}, "hostnameOverride": name, "bindAddress": address,
            "mode": "nftables", "clusterCIDR": "10.90.0.0/16", "nodePortAddresses": [f"{address}/32"],
            "healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
            # The size of the table of connections is the machine's affair.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
                          "udpTimeout": "0s", "udpStreamTimeout": "0s"},
            "nftables": {"minSyncPeriod": "100ms"}}


def scheduler(kubeconfig):
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 200, "burst": 400},
            "leaderElection": {"leaderElect": False}}


COREFILE = """.:53 {{
    bind {address}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 2
    }}
    cache 2
}}
"""
