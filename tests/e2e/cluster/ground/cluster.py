"""What tests do with a cluster, whichever kind it is: API, kubectl, namespaces, identities, faults of the network."""
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import ssl

from bed.process import wait_until

from . import pki
from .api import CORE, DISCOVERY, RBAC, Api
from .daemons import Daemon
from .pods import Namespace
from .programs import Program

_names = itertools.count(1)


class Cluster:
    """Base of Plane and Node. folder: where all its files are; bin: the programs of Kubernetes; binaries: ours."""

    gateway = "10.244.0.1"  # the address of the API server, and of the host in a pod's eyes
    services, kubernetes = "10.96.0.0/16", "10.96.0.1"
    port = 6443
    pod_environment = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    def __init__(self, folder, bin, binaries):
        self.folder, self.bin, self.binaries = pathlib.Path(folder), pathlib.Path(bin), binaries
        self.server, self.pki = (self.gateway, self.port), self.folder / "pki"
        self.daemons, self.programs, self.started = {}, [], []
        self.space = None  # set by who makes it

    # -- looking in -----------------------------------------------------------------------------------------------
    def network(self):
        """with cluster.network(): this thread's sockets are in the cluster's network."""
        return self.space.network()

    def run(self, *argv, **keywords):
        """A command inside: CompletedProcess; AssertionError when it fails, unless check=False; input=, timeout=, env=."""
        return self.space.run(*argv, **keywords)

    @property
    def environment(self):
        """For commands that work as administrator: kubectl and helm of the right versions first in PATH."""
        return {"KUBECONFIG": str(self.folder / "admin.kubeconfig"), "KUBECACHEDIR": str(self.folder / "kubectl"),
                "HELM_CACHE_HOME": str(self.folder / "helm"), "HELM_CONFIG_HOME": str(self.folder / "helm"),
                "HELM_DATA_HOME": str(self.folder / "helm"),
                "PATH": f"{self.bin}:{os.environ.get('FAIRLEAD_E2E_HELM', '')}:{os.environ['PATH']}"}

    def kubectl(self, *words, input=None, check=True, timeout=60):
        """What kubectl prints; AssertionError when it fails, unless check=False (then stdout and stderr together)."""
        done = self.run("kubectl", *words, input=input, check=check, timeout=timeout, env=self.environment)
        return done.stdout if check else done.stdout + done.stderr

    def kubectl_program(self, *words):
        """kubectl as a program that goes on (logs -f, get -w), ended with the test."""
        return Program("kubectl " + " ".join(words), [self.bin / "kubectl", *words], env=self.environment, cluster=self)

    def helm(self, *words, input=None, check=True, timeout=120):
        done = self.run("helm", *words, input=input, check=check, timeout=timeout, env=self.environment)
        return done.stdout if check else done.stdout + done.stderr

    def apply(self, manifest, namespace=None):
        """`kubectl apply` of YAML text, an object or a list of objects."""
        if not isinstance(manifest, str):
            items = manifest if isinstance(manifest, list) else [manifest]
            manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        return self.kubectl("apply", *(["-n", namespace] if namespace else []), "-f", "-", input=manifest)

    # -- who and where --------------------------------------------------------------------------------------------
    def client(self, ca=None, token=None, user="admin"):
        """The API as the administrator (default), as another certificate of the PKI (user), or with a token."""
        ca = ca or self.pki / "ca.crt"
        if token is not None:
            return Api(self.space, self.server, ca, token=token)
        return Api(self.space, self.server, ca, self.pki / f"{user}.crt", self.pki / f"{user}.key")

    @property
    def api(self):
        return self.client()

    def namespace(self, prefix="t", labels=None):
        """A new namespace with a name that no other has, usable when this returns (its service account is there)."""
        name = f"{prefix}-{next(_names)}-{os.getpid():x}"
        self.api.post(f"{CORE}/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            self.api.wait("a new namespace's first objects", f"{CORE}/namespaces/{name}/{path}", lambda _: True, 60,
                          0.05)
        return Namespace(self, name)

    def token(self, namespace, account="default", seconds=3600, pod=None, audiences=()):
        """A service account's token by TokenRequest; pod: a Pod to bind it to."""
        spec = {"expirationSeconds": seconds, "audiences": list(audiences)}
        if pod is not None:
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod.name, "uid": pod.uid}
        answer = self.api.post(f"{CORE}/namespaces/{namespace}/serviceaccounts/{account}/token", {"spec": spec})
        return answer["status"]["token"]

    def allow(self, namespace, account, rules, cluster_wide=True):
        """Gives a service account these RBAC rules: [{"apiGroups", "resources", "verbs", …}]. Returns the role's path."""
        name = f"r{next(_names)}-{os.getpid():x}"
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        kind, folder = ("ClusterRole", RBAC) if cluster_wide else ("Role", f"{RBAC}/namespaces/{namespace}")
        roles = f"{folder}/{kind.lower()}s"
        self.api.post(roles, {"metadata": {"name": name}, "rules": rules})
        self.api.post(f"{folder}/{kind.lower()}bindings", {
            "metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}})
        return f"{roles}/{name}"

    # -- services ---------------------------------------------------------------------------------------------------
    def endpoints(self, namespace, service):
        """{address: (ready, serving, terminating)} over all slices of a service."""
        path = f"{DISCOVERY}/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name%3D{service}"
        found = {}
        for piece in self.api.get(path)["items"]:
            for endpoint in piece.get("endpoints") or []:
                conditions = endpoint.get("conditions", {})
                for address in endpoint["addresses"]:
                    found[address] = tuple(conditions.get(name) for name in ("ready", "serving", "terminating"))
        return found

    def wait_endpoints(self, namespace, service, ready, timeout=30):
        """Waits until exactly these addresses are the ready ones."""
        def are():
            return {a for a, c in self.endpoints(namespace, service).items() if c[0]} == set(ready)

        wait_until(lambda: f"{service} to have {sorted(ready)} ready, has {self.endpoints(namespace, service)}", are,
                   timeout, 0.05)

    # -- faults of the network --------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def filtered(self, match, action="drop", network=None):
        """Packets of the cluster's network (or of a pod's: its descriptor) that match meet an nftables action.

        with cluster.filtered("tcp dport 6443"): …            lost, as by a broken network; action="reject": refused
        """
        table = f"ground{next(_names)}"
        rules = "".join(f"chain {hook} {{ type filter hook {hook} priority -50; {match} {action}; }}\n"
                        for hook in ("input", "output", "forward"))
        self.run("nft", "-f", "-", input=f"table inet {table} {{\n{rules}}}\n", network=network)
        try:
            yield
        finally:
            self.run("nft", "delete", "table", "inet", table, network=network)

    # -- what both kinds are made of ----------------------------------------------------------------------------------
    def binary(self, name):
        path = pathlib.Path(self.binaries, name)
        assert os.access(path, os.X_OK), f"{path} is missing: ./dev build, or set FAIRLEAD_BUILD"
        return str(path)

    def daemon(self, name, argv, ready=None, **keywords):
        self.daemons[name] = Daemon(name, self.space, self.folder, argv, ready, **keywords)
        return self.daemons[name]

    @property
    def server_names(self):
        return ("DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
                f"DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:{self.gateway},IP:{self.kubernetes}")

    def make_authority(self, users):
        """The PKI: an authority, the API server's certificate, a certificate and kubeconfig of each of users, the key
        of service-account tokens."""
        self.authority = pki.Authority(self.pki)
        self.authority.leaf("apiserver", "/CN=kube-apiserver", "serverAuth", self.server_names)
        for user, subject in users.items():
            self.authority.leaf(user, subject, "clientAuth")
            self.kubeconfig(user)
        pki.signing_key(self.pki)

    def kubeconfig(self, user):
        """FOLDER/USER.kubeconfig; JSON is YAML. The namespace is named, or kubectl would take it from a pod's files
        where these are mounted."""
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "ground",
            "clusters": [{"name": "ground", "cluster": {"server": f"https://{self.gateway}:{self.port}",
                                                        "certificate-authority": str(self.pki / "ca.crt")}}],
            "users": [{"name": user, "user": {"client-certificate": str(self.pki / f"{user}.crt"),
                                              "client-key": str(self.pki / f"{user}.key")}}],
            "contexts": [{"name": "ground",
                          "context": {"cluster": "ground", "user": user, "namespace": "default"}}]}), encoding="utf-8")
        path.chmod(0o600)
        return path

    def etcd_argv(self):
        clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        return [self.bin / "etcd", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={clients}",
                f"--advertise-client-urls={clients}", f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}", "--unsafe-no-fsync",
                "--log-level=warn"]

    def apiserver_argv(self):
        at = self.pki
        return [self.bin / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
                f"--bind-address={self.gateway}", f"--advertise-address={self.gateway}", f"--secure-port={self.port}",
                f"--tls-cert-file={at}/apiserver.crt", f"--tls-private-key-file={at}/apiserver.key",
                f"--client-ca-file={at}/ca.crt", f"--service-cluster-ip-range={self.services}",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                f"--service-account-signing-key-file={at}/sa.key", f"--service-account-key-file={at}/sa.pub",
                "--allow-privileged=true", "--profiling=false", "--v=1",
                # Else a SIGTERM waits a minute for open watches.
                "--shutdown-watch-termination-grace-period=1s"]

    def controllers_argv(self):
        return [self.bin / "kube-controller-manager", f"--kubeconfig={self.folder}/kcm.kubeconfig",
                "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=true",
                f"--root-ca-file={self.pki}/ca.crt", f"--service-account-private-key-file={self.pki}/sa.key",
                "--profiling=false", "--v=1", "--kube-api-qps=200", "--kube-api-burst=400"]

    def etcd_ready(self):
        with self.network():
            connection = http.client.HTTPConnection("127.0.0.1", 2379, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200

    def apiserver_ready(self):
        try:
            return self.api.call("GET", "/readyz", timeout=5)[0] == 200
        except (ssl.SSLError, http.client.HTTPException):
            return False

    def wait_first_objects(self):
        """Until pods can be made in the namespace default."""
        def there():
            self.revive()
            return all(self.api.find(f"{CORE}/namespaces/default/{path}")
                       for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"))

        wait_until("the controllers' first work", there, 120, 0.05)

    def down(self):
        """Ends all that is in it; what is left of it on disk is the janitor's."""
        self.space.close()
        for program in self.programs:
            program.wait(10)

    # -- life -----------------------------------------------------------------------------------------------------
    def up(self):
        """Starts it all; when that fails, the error has the logs."""
        try:
            self._up()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.report()}") from None
        return self

    def revive(self):
        """Starts daemons again that ended by themselves, as the machine's supervisor would."""
        for daemon in self.daemons.values():
            if daemon.crashed:
                daemon.start(wait=False)

    def heal(self):
        """All daemons run again, whatever a test did to them."""
        for daemon in self.daemons.values():
            daemon.thaw()
            if not daemon.running:
                daemon.start(wait=False)
        for daemon in self.daemons.values():
            daemon.wait_ready()

    def add(self, program):
        """Called by each program as it starts."""
        self.programs.append(program)
        self.started.append(program)

    def dismiss(self):
        """Ends the programs of a test; AssertionError about those that had crashed before."""
        programs, self.programs = self.programs, []
        faults = []
        for program in programs:
            crashed = not program.killed and (program.returncode or 0) < 0
            program.kill()
            program.wait(10)
            if crashed or program.complaint():
                faults.append(f"{program.name} crashed ({program.returncode}):\n{program.report()}")
        assert not faults, "\n\n".join(faults)

    def report(self):
        return "\n".join(daemon.report() for daemon in self.daemons.values())

