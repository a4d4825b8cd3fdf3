"""Row I4 of the acceptance table: the pod's egress is blocked and the controller's is not. The network is the test's own:
it runs itself again in a fresh namespace, where the sidecar has a namespace as a pod has one, joined by a veth pair; its
egress is the route to the store."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from bed.process import wait_until
from conftest import ROOT

ID, INSIDE = "pod-i4", "FAIRLEAD_TEST_OWN_NETWORK"
POD, NODE, STORE = "10.77.0.2", "10.77.0.1", "10.88.0.1"
JOIN = ('ip link set lo up && ip link add eth0 type veth peer name pod0 netns "$0" && '
        f'ip addr add {POD}/30 dev eth0 && ip link set eth0 up && exec "$@"')


def ip(*args, pod=None):
    subprocess.run([*(("nsenter", "-t", str(pod.pid), "-n") if pod else ()), "ip", *args], check=True)


def in_pod(pod, method, path):
    """The admin API as `kubectl port-forward` reaches it: from within the pod, on its loopback."""
    done = subprocess.run(["nsenter", "-t", str(pod.pid), "-n", "curl", "-s", "--max-time", "10", "-X", method, "-H",
                           "Content-Type: application/json", f"http://127.0.0.1:{pod.admin_port}{path}"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def verdict(pod):
    return in_pod(pod, "GET", "/_/api/admin/backends")["backends"][0]["verdict"]


@pytest.mark.skipif(INSIDE in os.environ, reason="inside")
def test_I4_probe_runs_in_the_pod():
    lone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && ip link add x type veth peer name y && exec "$@"', "-"]
    for tool in ("unshare", "nsenter", "ip", "curl"):
        assert shutil.which(tool), f"{tool} is missing: ./dev test installs it"
    if subprocess.run([*lone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the kernel refuses `unshare --net` to this user: the probe in a pod was NOT tested; run as root")
    inner = subprocess.run([*lone, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__], cwd=ROOT,
                           env={**os.environ, INSIDE: "1"}, capture_output=True, text=True, timeout=120, check=False)
    assert inner.returncode == 0 and "1 passed" in inner.stdout, inner.stdout[-6000:]


@pytest.mark.skipif(INSIDE not in os.environ, reason="run by the test above, in a network of its own")
def test_both_views_are_shown(sidecar, controller, origin, key, file):
    ip("addr", "add", f"{STORE}/32", "dev", "lo")
    store = origin("store", host=STORE)
    file.set(store)
    pod = sidecar({"id": ID, "push": {"public_key_file": key.public}, "start_wait": "500ms", "boot_probe": "warn",
                   "listen": {"status": f"{POD}:8422"},
                   "backends": {"pool": {"protocol": "http", "probe": {"type": "http", "path": "/health", "interval": "1s",
                                                                       "timeout": "1s"},
                                         "service": {"namespace": "storage", "name": "minio", "port": "s3"}}},
                   "routes": {"*": {"backend": "pool"}}}, wait=False, prefix=("unshare", "--net", "sh", "-c", JOIN,
                                                                              str(os.getpid())))
    wait_until("the pod's interface", lambda: os.path.exists("/sys/class/net/pod0") or
               subprocess.run(["ip", "link", "show", "pod0"], capture_output=True, check=False).returncode == 0)
    ip("addr", "add", f"{NODE}/30", "dev", "pod0")
    ip("link", "set", "pod0", "up")
    pod.wait_event("listening", 10)
    ip("route", "add", STORE, "via", NODE, pod=pod)
    c = controller({"source": f"file:{file.path}", "push": {"signing_key_file": key.private, "settle": "20ms"},
                    "probe_defaults": {"interval": "1s", "timeout": "1s"},
                    "backends": {"pool": {"service": {"namespace": "storage", "name": "minio", "port": "s3"},
                                          "probe": {"type": "http", "path": "/controller"}}},
                    "sidecars": [{"address": f"{POD}:8422", "id": ID}]})
    seen = lambda: c.admin("/_/api/admin/backends")["backends"][0]
    wait_until("both to see it well", lambda: seen()["verdict"]["status"] == verdict(pod)["status"] == "healthy", 15, 0.1)

    ip("route", "del", STORE, pod=pod)  # the pod's egress, and nobody else's
    tested = in_pod(pod, "POST", "/_/api/admin/backends/pool/probe")["verdict"]
    assert (tested["status"], tested["code"], tested["source"]) == ("unreachable", "network_unreachable", "own"), tested
    assert tested["cause"] == f"connect to {store.address} failed (Network is unreachable)"
    wait_until("the controller to have looked since", lambda: verdict(pod)["other_view"] ==
               "reachable from the controller, unreachable from this pod", 10)
    wait_until("the controller to hear of it", lambda: seen()["peers"][0]["sidecars"]["failing"] == 1, 10)
    peer = seen()["peers"][0]
    assert seen()["verdict"]["status"] == "healthy" and peer["sidecars"]["cause"] == tested["cause"]
    assert seen()["verdict"]["other_view"] == "reachable from the controller, failing from 1 of 1 pods", seen()

    ip("route", "add", STORE, "via", NODE, pod=pod)
    assert in_pod(pod, "POST", "/_/api/admin/backends/pool/probe")["verdict"]["status"] == "healthy"
    wait_until("agreement", lambda: seen()["verdict"]["other_view"] == verdict(pod)["other_view"] == "", 10)
