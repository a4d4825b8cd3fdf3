"""The node itself: containers really run, and nothing of them is left behind."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from bed import config
from bed.process import wait_until
from bed.wire import call
from cluster.ground.api import APPS
from cluster.ground.cgroups import hierarchies
from cluster.ground.janitor import start_time
from cluster.ground.oci import OURS, TOOLS

WEB = {"name": "web", "image": TOOLS, "command": ["sh", "-c", "trap exit TERM; touch /tmp/up; httpd -p 8080 -h /tmp; "
                                                  "while :; do sleep 0.1; done"],
       "readinessProbe": {"httpGet": {"path": "/up", "port": 8080}, "periodSeconds": 1}}


def test_the_kubelet_probes_and_the_service_follows(node):
    ns = node.namespace("probes")
    address = ns.service("web", {"http": (80, 8080)})["spec"]["clusterIP"]
    pod = ns.pod("web", containers=[WEB]).wait_condition("Ready")
    node.wait_endpoints(ns, "web", [pod.address])
    node.wait_service(address, 80)
    pod.exec("rm", "/tmp/up")
    node.wait_endpoints(ns, "web", [])
    pod.exec("touch", "/tmp/up")
    node.wait_endpoints(ns, "web", [pod.address])
    assert address in pod.exec("nslookup", f"web.{ns}.svc.cluster.local")


def uids(ns):
    """Of the pods that are to stay."""
    return {pod["metadata"]["uid"] for pod in ns.cluster.api.get(f"{ns.path}/pods")["items"]
            if "deletionTimestamp" not in pod["metadata"]}


def test_a_deployment_rolls_over_and_its_service_answers_all_the_time(node):
    ns = node.namespace("rolling")
    address = ns.service("web", {"http": (80, 8080)})["spec"]["clusterIP"]
    slow_end = {**WEB, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}  # slices travel meanwhile
    node.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxUnavailable": 0}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "containers": [slow_end], "terminationGracePeriodSeconds": 5}}}}, ns.name)
    node.kubectl("-n", ns.name, "rollout", "status", "deployment/web", "--timeout=60s")
    node.wait_service(address, 80)
    before = uids(ns)
    node.api.patch(f"{APPS}/namespaces/{ns}/deployments/web",
                   {"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}})

    def rolled():
        assert call((address, 80), "GET", "/up", timeout=10).status == 200
        deployment = node.api.get(f"{APPS}/namespaces/{ns}/deployments/web")
        status = deployment["status"]  # of an older generation for a moment after the patch
        return (status.get("observedGeneration") == deployment["metadata"]["generation"] and
                status.get("updatedReplicas") == status.get("replicas") == status.get("availableReplicas") == 2)

    wait_until("the rollout", rolled, 60, 0.05)
    assert not before & uids(ns)


def test_our_programs_run_as_images_and_the_sidecar_starts_before_and_ends_after_the_application(node):
    ns = node.namespace("ours")
    origin = ns.pod("origin", containers=[{"name": "origin", "image": OURS["fairlead-origin"], "args": [
        "--name", "a", "--listen", "0.0.0.0:9000", "--control", "127.0.0.1:9001"]}])
    settings = {**config.http(f"{origin.address}:9000"), "boot_probe": "off"}
    ns.config("sidecar", **{"fairlead.yaml": settings})
    sidecar = {"name": "fairlead", "image": OURS["fairlead-sidecar"], "restartPolicy": "Always",
               "args": ["--config", "/etc/fairlead/fairlead.yaml"], "startupProbe": {"httpGet": {"path": "/_/started", "port": 8422},
                                                           "periodSeconds": 1},
               "volumeMounts": [{"name": "config", "mountPath": "/etc/fairlead"}],
               "securityContext": {"runAsNonRoot": True, "readOnlyRootFilesystem": True,
                                   "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
                                   "seccompProfile": {"type": "RuntimeDefault"}}}
    ask = "wget -q -O /dev/null http://127.0.0.1:8420/x"  # fails when the sidecar is not there
    main = {"name": "main", "image": TOOLS, "command": [
        "sh", "-c", f"{ask} && echo early; trap '{ask} && echo late; exit' TERM; while :; do sleep 0.1; done"]}
    pod = ns.pod("app", initContainers=[sidecar], containers=[main], terminationGracePeriodSeconds=20,
                 volumes=[{"name": "config", "configMap": {"name": "sidecar"}}])
    wait_until("the first word", lambda: pod.logs("main") == "early\n", 30)

    with pod.port_forward(8421) as port:  # the admin listener is on the pod's own 127.0.0.1
        assert b'"backends"' in call(("127.0.0.1", port), "GET", "/_/api/admin/backends", timeout=10).body
    with pod.network():
        assert call(("127.0.0.1", 8422), "GET", "/_/ready", timeout=10).status == 200

    follow = node.kubectl_program("-n", ns.name, "logs", "-f", "app", "-c", "main")
    assert follow.out.wait(lambda lines: "early" in lines, 30), follow.report()
    pod.delete()
    assert follow.out.wait(lambda lines: "late" in lines, 30), follow.report()


def test_a_container_that_ends_is_started_again_and_a_dead_api_server_stops_nobody(node):
    ns = node.namespace("again")
    pod = ns.pod("web", containers=[WEB]).wait_condition("Ready")
    address = pod.address

    def restarts():
        return pod.object()["status"]["containerStatuses"][0]["restartCount"]

    node.apiserver.kill()
    assert call((address, 8080), "GET", "/up", timeout=10).status == 200
    node.apiserver.start()
    pod.exec("kill", "1")
    wait_until("a restart", lambda: restarts() == 1, 60)
    pod.wait_condition("Ready")


MURDERED = """
import pathlib, sys, time
sys.path[:0] = {path}
from cluster.ground.janitor import Janitor
from cluster.ground.node import Node
from cluster.ground.oci import TOOLS
folder = pathlib.Path(sys.argv[1])
janitor = Janitor()
janitor.remove(folder)
node = Node(folder, sys.argv[2], sys.argv[3], janitor).up()
node.namespace().pod("nap", containers=[{{"name": "nap", "image": TOOLS, "command": ["sleep", "1000"]}}])
print(node.groups.name, *node.groups.processes(), flush=True)
time.sleep(600)
"""


def test_nothing_is_left_when_the_test_run_is_killed(kubernetes):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fl-node-"))
    build = os.environ.get("FAIRLEAD_BUILD", "build/release")
    links, mounts = os.listdir("/sys/class/net"), open("/proc/self/mounts", encoding="ascii").read()
    with subprocess.Popen([sys.executable, "-c", MURDERED.format(path=repr(sys.path)), folder, kubernetes, build],
                          stdout=subprocess.PIPE, text=True) as run:
        group, *inside = run.stdout.readline().split()
        inside = {pid: start_time(pid) for pid in inside}
        assert len(inside) >= 10, inside  # daemons, a shim, a pause, a nap
        run.send_signal(signal.SIGKILL)
    groups = [place / group for place in (*hierarchies(), hierarchies()[0].parent / "unified")]

    def left():
        return [pid for pid, start in inside.items() if start_time(pid) == start] + \
            [path for path in [folder, *groups] if path.exists()]

    wait_until(lambda: f"all to be gone, there is {left()}", lambda: not left(), 60)
    assert os.listdir("/sys/class/net") == links
    assert open("/proc/self/mounts", encoding="ascii").read() == mounts
