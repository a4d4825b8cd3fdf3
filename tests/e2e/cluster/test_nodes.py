"""Two nodes: what needs a second one."""
from bed.process import wait_until
from bed.wire import call
from cluster.ground.api import APPS, CORE
from cluster.ground.oci import TOOLS

NODES = 2

WEB = {"name": "web", "image": TOOLS, "command": ["sh", "-c", "trap exit TERM; touch /tmp/up; httpd -p 8080 -h /tmp; "
                                                  "while :; do sleep 0.1; done"],
       "readinessProbe": {"httpGet": {"path": "/up", "port": 8080}, "periodSeconds": 1}}


def test_a_drained_node_gives_its_pods_to_the_other(node):
    ns = node.namespace("drain")
    spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
               "labelSelector": {"matchLabels": {"app": "web"}}}]
    node.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [WEB], "terminationGracePeriodSeconds": 3,
                                                             "topologySpreadConstraints": spread}}}}, ns.name)
    address = ns.service("web", {"http": (80, 8080)})["spec"]["clusterIP"]

    def places():
        return sorted(pod["spec"].get("nodeName", "") for pod in node.api.get(f"{ns.path}/pods")["items"]
                      if pod["metadata"].get("deletionTimestamp") is None)

    def available():
        return node.api.get(f"{APPS}/namespaces/{ns}/deployments/web")["status"].get("availableReplicas")

    wait_until(lambda: f"one pod on each node, is {places()}",
               lambda: available() == 2 and places() == ["n1", "n2"], 60)
    ready = [pod.address for pod in ns.pods("app=web")]
    node.wait_endpoints(ns, "web", ready)
    for one in ready:  # across nodes too
        assert call((one, 8080), "GET", "/up", timeout=10).status == 200
    node.drain("n2")
    wait_until(lambda: f"both pods on n1, is {places()}",
               lambda: available() == 2 and places() == ["n1", "n1"], 60)
    node.wait_service(address, 80)
    assert node.api.get(f"{CORE}/nodes/n2")["spec"]["unschedulable"]
