"""The plane itself: what the product's tests stand on is shown to be real, and to leave nothing behind."""
import base64
import errno
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time

import pytest
from bed.process import wait_until
from bed.push import Key, Membership
from bed.wire import call
from cluster.ground.api import APPS, CORE, ApiError
from cluster.ground.janitor import start_time
from cluster.ground.pki import Authority
from cluster.ground.pods import Account
from cluster.ground.programs import Program

GATE = "ground.test/backends"


def test_it_is_the_kubernetes_that_was_built_and_kubectl_and_both_helms_talk_to_it(plane):
    version = json.loads(plane.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"] == "v1.37.2"
    assert [node["metadata"]["name"] for node in plane.api.get(f"{CORE}/nodes")["items"]] == ["n1", "n2", "n3"]
    assert plane.helm("version", "--short").startswith("v4.")
    assert plane.run("helm3", "version", "--short", env=plane.environment).stdout.startswith("v3.")


def test_addresses_of_slices_answer_and_each_pod_has_a_loopback_of_its_own(plane):
    ns = plane.namespace("slices")
    ns.service("store", {"s3": (80, 9000)})
    pods = [ns.pod(name, labels={"app": "store"}) for name in ("a", "b")]
    addresses = [pod.address for pod in pods]
    plane.wait_endpoints(ns, "store", addresses)
    for pod in pods:
        pod.origin(9000)
    for pod in pods:
        for place in (plane.network(), pods[0].network(), pods[1].network()):
            with place, socket.create_connection((pod.address, 9000), 10) as wire:
                wire.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert wire.recv(100).startswith(b"HTTP/1.1 200")
    with pods[0].network(), socket.create_connection(("127.0.0.1", 9000), 10):
        pass
    pods[1].delete()
    plane.wait_endpoints(ns, "store", addresses[:1])

    def nobody_has_it():
        try:
            socket.create_connection((addresses[1], 9000), 10).close()
        except OSError as error:
            return error.errno == errno.EHOSTUNREACH
        return False

    wait_until("no route to the address of the pod that is gone", nobody_has_it, 20)


def test_a_readiness_gate_and_a_failing_probe_decide_whether_an_endpoint_is_ready(plane):
    ns = plane.namespace("gates")
    ns.service("web", {"http": 80})
    plane.kubelet.restart()  # which forgets nothing that matters
    pod = ns.pod("web", readinessGates=[{"conditionType": GATE}])
    address = pod.address
    wait_until("the endpoint", lambda: plane.endpoints(ns, "web") == {address: (False, False, False)}, 30)
    pod.set_condition(GATE, "True")
    plane.wait_endpoints(ns, "web", [address])
    pod.annotate(**{"ground/ready": "false"})
    plane.wait_endpoints(ns, "web", [])
    assert pod.condition(GATE) == "True" and pod.condition("Ready") == "False"
    pod.annotate(**{"ground/ready": None, "ground/hold": "true"})
    plane.wait_endpoints(ns, "web", [address])
    pod.delete(wait=False)
    wait_until("the terminating endpoint", lambda: plane.endpoints(ns, "web") == {address: (False, True, True)}, 30)
    pod.annotate(**{"ground/hold": None})
    pod.wait_gone()


def test_deployments_roll_over_as_they_do_on_nodes(plane):
    ns = plane.namespace("rolling")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "one"}]}}
    plane.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}}, ns.name)
    plane.kubectl("-n", ns.name, "rollout", "status", "deployment/web", "--timeout=60s")
    before = {pod.uid for pod in ns.pods("app=web")}
    plane.api.patch(f"{APPS}/namespaces/{ns}/deployments/web",
                    {"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}})
    plane.kubectl("-n", ns.name, "rollout", "status", "deployment/web", "--timeout=60s")
    assert len(before) == 3 and not before & {pod.uid for pod in ns.pods("app=web")}


def test_a_service_account_may_do_what_its_role_says_and_nothing_else(plane):
    ns, other = plane.namespace("rights"), plane.namespace("other")
    ns.account("reader")
    as_reader = plane.client(token=plane.token(ns, "reader", 600))
    with pytest.raises(ApiError) as refused:
        as_reader.get(f"{ns.path}/pods")
    assert refused.value.status == 403
    plane.allow(ns, "reader", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}], cluster_wide=False)
    wait_until("the role to count", lambda: as_reader.call("GET", f"{ns.path}/pods")[0] == 200, 20)
    assert as_reader.call("GET", f"{ns.path}/secrets")[0] == 403
    assert as_reader.call("GET", f"{other.path}/pods")[0] == 403
    assert plane.client(token="garbage").call("GET", f"{ns.path}/pods")[0] == 401
    with pytest.raises(ApiError, match="10 minutes"):
        plane.token(ns, "reader", 599)
    plane.forget_tokens()
    assert as_reader.call("GET", f"{ns.path}/pods")[0] == 401


def test_a_program_in_a_pod_finds_the_api_server_as_in_any_cluster(plane):
    ns = plane.namespace("inside")
    pod = ns.pod("asker")
    account = Account(ns, pod=pod)
    plane.allow(ns, "default", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    script = ("D=/var/run/secrets/kubernetes.io/serviceaccount; id -u; exec curl -sS --cacert $D/ca.crt -o /dev/null "
              "-w '%{http_code}\n' -H \"Authorization: Bearer $(cat $D/token)\" "
              "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$(cat $D/namespace)/pods")

    def answer():
        program = pod.start("asker", ["sh", "-c", script], account=account, user=65532)
        assert program.wait(20) is not None, program.report()
        return program.out.text()

    wait_until(lambda: "the list of pods: " + answer(), lambda: answer() == "65532\n200", 20)
    account.write(token="garbage")
    assert answer() == "65532\n401"
    account.refresh(pod=pod)
    assert answer() == "65532\n200"


def test_after_a_restart_of_the_api_server_old_versions_are_gone(plane):
    ns = plane.namespace("gone")
    version = plane.api.get(f"{ns.path}/configmaps")["metadata"]["resourceVersion"]
    assert not [e for e in plane.api.watch(f"{ns.path}/configmaps", 1, resourceVersion=version) if e["type"] == "ERROR"]
    plane.expire_versions()
    first = next(plane.api.watch(f"{ns.path}/configmaps", 5, resourceVersion=version))
    assert first["type"] == "ERROR" and first["object"]["code"] == 410 and first["object"]["reason"] == "Expired"


def test_the_api_server_can_be_killed_frozen_and_cut_off(plane):
    plane.apiserver.kill()
    with pytest.raises(ConnectionRefusedError):
        plane.api.get("/version")
    plane.apiserver.start()
    plane.apiserver.freeze()
    with pytest.raises(TimeoutError):
        plane.api.call("GET", "/version", timeout=1)
    plane.apiserver.thaw()
    plane.api.get("/version")
    with plane.filtered("tcp dport 6443"):
        with pytest.raises(TimeoutError):
            plane.api.call("GET", "/version", timeout=1)
    with plane.filtered("tcp dport 6443", "reject with tcp reset"):
        with pytest.raises(ConnectionRefusedError):
            plane.api.get("/version")
    plane.api.get("/version")


def test_without_etcd_lists_wait_and_old_data_bring_old_versions(plane):
    ns = plane.namespace("data")
    saved = plane.save_data()
    plane.api.post(f"{ns.path}/configmaps", {"metadata": {"name": "later"}})
    for _ in range(40):  # more than what the API server itself writes when it starts
        plane.api.post(f"{ns.path}/configmaps", {"metadata": {"generateName": "more-"}})
    after = int(plane.api.get(f"{ns.path}/configmaps")["metadata"]["resourceVersion"])
    plane.etcd.kill()
    with pytest.raises(TimeoutError):
        plane.api.call("GET", f"{ns.path}/configmaps", timeout=1)
    plane.restart_with(saved)
    assert plane.api.find(f"{ns.path}/configmaps/later") is None
    assert int(plane.api.get(f"{ns.path}/configmaps")["metadata"]["resourceVersion"]) < after


def test_certificates_change_under_a_running_api_server(plane):
    ca, first = plane.pki / "first.crt", None
    ca.write_text(plane.authority.crt.read_text(encoding="ascii"), encoding="ascii")

    def serial():
        context = ssl.create_default_context(cafile=str(ca))
        with socket.create_connection(plane.server, 10) as raw, \
                context.wrap_socket(raw, server_hostname="kubernetes") as tls:
            return tls.getpeercert()["serialNumber"]

    first = serial()
    plane.rotate_serving_certificate()
    wait_until("another certificate", lambda: serial() != first, 30)
    new = plane.rotate_authority()

    def refused():
        try:
            plane.client(ca=ca).get("/version")
        except ssl.SSLCertVerificationError:
            return True
        return False

    wait_until("a certificate of another authority", refused, 30)
    wait_until("the new authority to be good", lambda: plane.client(ca=new).get("/version"), 30)
    plane.api.get("/version")


def test_the_clock_of_one_program_is_another(plane):
    program = Program("clock", ["sh", "-c", "while :; do date +%s; sleep 0.1; done"], cluster=plane, faketime="+3h")
    assert program.out.wait(lambda lines: any(int(t) > time.time() + 10000 for t in lines), 20), program.report()
    program.set_clock("-3h")
    assert program.out.wait(lambda lines: any(int(t) < time.time() - 10000 for t in lines), 20), program.report()


def test_our_programs_run_in_pods_with_their_default_addresses_and_as_another_user(plane):
    ns = plane.namespace("ours")
    folder = plane.folder / "ours"  # where uid 65532 can read
    folder.mkdir()
    key, members = Key(str(folder)), Membership(str(folder))
    os.chmod(key.private, 0o644)
    store, app, home = ns.pod("store"), ns.pod("app"), ns.pod("controller")
    origin = store.origin(9000, name="a")
    members.set(f"{store.address}:9000")
    service = {"pool": {"protocol": "http", "probe": {"type": "none"},
                        "service": {"namespace": "storage", "name": "minio", "port": "s3"}}}
    sidecar = app.sidecar({"id": "app", "push": {"public_key_file": key.public}, "boot_probe": "off",
                           "backends": service, "routes": {"*": "pool"}}, user=65532, wait=False)
    controller = home.controller({
        "source": f"file:{members.path}", "push": {"signing_key_file": key.private}, "backends": service,
        "sidecars": [{"address": f"{app.address}:8422", "id": "app"}]}, user=65532)
    sidecar.wait_started(30)
    wait_until(lambda: sidecar.report(), lambda: sidecar.get("/x").status == 200, 20)
    assert origin.requests >= 1
    with open(f"/proc/{sidecar.pid}/status", encoding="ascii") as f:
        assert "Uid:\t65532\t" in f.read()
    with home.network():
        assert call(("127.0.0.1", 8431), "GET", "/_/ready").status == 200
    controller.terminate()
    assert controller.wait(40) == 0, controller.report()


WEBHOOK = """
import base64, http.server, json, ssl, sys
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        patch = json.dumps([{"op": "add", "path": "/metadata/labels/seen", "value": "yes"}]).encode()
        answer = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
            "uid": asked["uid"], "allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode(),
            "warnings": ["seen by the hook"]}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
server = http.server.HTTPServer(("0.0.0.0", 9443), Hook)
tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
tls.load_cert_chain(*sys.argv[1:])
server.socket = tls.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def test_a_webhook_is_called_through_its_service(plane):
    ns = plane.namespace("hook")
    ns.service("hook", {"https": (443, 9443)})
    pod = ns.pod("hook")
    authority = Authority(plane.folder / f"pki-{ns}")
    pod.start("hook", [sys.executable, "-c", WEBHOOK,
                       *authority.leaf("hook", "/CN=hook", "serverAuth", f"DNS:hook.{ns}.svc")])
    hook = {"name": "hook.ground.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore", "timeoutSeconds": 2,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                       "resources": ["configmaps"]}],
            "clientConfig": {"service": {"namespace": ns.name, "name": "hook"},
                             "caBundle": base64.b64encode(authority.crt.read_bytes()).decode()}}
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    plane.api.post(path, {"metadata": {"name": ns.name}, "webhooks": [hook]})

    def labels():
        made = plane.api.post(f"{ns.path}/configmaps", {"metadata": {"generateName": "c-", "labels": {"a": "b"}}})
        return made["metadata"]["labels"]

    wait_until("the webhook to be called", lambda: labels() == {"a": "b", "seen": "yes"}, 30, 0.1)
    assert "seen by the hook" in plane.kubectl("-n", ns.name, "create", "configmap", "told", check=False)
    with pod.cut_off():
        assert labels() == {"a": "b"}
    plane.api.delete(f"{path}/{ns.name}")


MURDERED = """
import pathlib, sys, time
sys.path[:0] = {path}
from cluster.ground.janitor import Janitor
from cluster.ground.plane import Plane
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
janitor = Janitor()
janitor.remove(folder)
plane = Plane(folder, sys.argv[2], None, janitor).up()
plane.namespace().pod("web").start("nap", ["sleep", "1000"])
print(*plane.space.processes(), flush=True)
time.sleep(600)
"""


def test_nothing_is_left_when_the_test_run_is_killed(kubernetes, tmp_path):
    folder = tmp_path / "plane"
    networks = set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()
    script = MURDERED.format(path=repr(sys.path))
    with subprocess.Popen([sys.executable, "-c", script, folder, kubernetes], stdout=subprocess.PIPE, text=True) as run:
        inside = {int(pid): start_time(pid) for pid in run.stdout.readline().split()}
        assert len(inside) >= 5, inside  # process 1, etcd, API server, controllers, stand-in, the nap
        run.send_signal(signal.SIGKILL)

    def left():
        return [pid for pid, start in inside.items() if start_time(pid) == start] + [folder] * folder.exists()

    wait_until(lambda: f"all to be gone, there is {left()}", lambda: not left(), 30)
    assert (set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()) == networks
