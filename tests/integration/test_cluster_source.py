"""The controller with `source: kubernetes`: the real program against a scripted API server and scripted sidecars. What the
parts do is tested where they are; here is what they do together."""
import json
import random
import signal
import threading
import time

import pytest
import yaml

from bed.kube_store import endpoint_slice, service
from bed.kube_store import pod as pod_object
from bed.pod_sidecars import PodSidecars
from bed.process import wait_until
from bed.scripted_api import kube_api  # noqa: F401

ROUTE = "route.fairlead.dev/"
BACKENDS = {"minio": {"protocol": "http", "service": {"namespace": "storage", "name": "minio", "port": "s3"},
                      "probe": {"type": "none"}}}


class Ground:
    """An API server, the addresses of pods, and a controller that looks at both."""

    def __init__(self, api, sidecars, start, folder, key):
        self.api, self.sidecars, self.start_controller, self.folder, self.key = api, sidecars, start, folder, key
        self.ctl = None

    def config(self, **more):
        made = {"source": "kubernetes", "backends": BACKENDS,
                "probe_defaults": {"interval": "60s", "timeout": "1s"},
                "push": {"signing_key_file": self.key.private, "settle": "20ms", "timeout": "2s"},
                "leader_election": {"enabled": True, "namespace": "fairlead", "name": "fairlead-controller"}}
        made.update(more)
        return made

    def start(self, wait=True, lead=True, env=None, **more):
        self.ctl = self.start_controller(self.config(**more), wait=wait,
                                         env={"KUBECONFIG": self.api.kubeconfig(self.folder), **(env or {})})
        self.listen = self.ctl.config["listen"]
        if wait and lead:
            self.leads()
        return self.ctl

    def leads(self, timeout=20):
        wait_until("it leads", lambda: self.ctl.admin("/_/ready")["leader"], timeout, 0.05)

    def reload(self, **more):
        applied = len(self.ctl.events("config applied"))
        self.ctl.write_config({"listen": self.listen, **self.config(**more)})
        self.ctl.signal(signal.SIGHUP)
        self.ctl.wait_event("config applied", count=applied + 1)

    def store(self, *endpoints, namespace="storage", name="minio", slice_name=None):
        """A Service with one slice, or another content of that."""
        if self.api.get("services", namespace, name) is None:
            self.api.put("services", service(namespace, name, {"s3": 9000}))
        self.api.put("endpointslices", endpoint_slice(namespace, slice_name or f"{name}-a", name, {"s3": 9000},
                                                      list(endpoints)))

    def pod(self, name, namespace="shop", ip=None, annotations=None, phase="Running", started=True, labels=None,
            **meta):
        """A pod with our sidecar; its address."""
        ip = self.sidecars.add() if ip is None else ip
        made = pod_object(namespace, name, ip, {"fairlead.dev/injected": "true", **(labels or {})}, annotations, phase)
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if started else {"waiting": {}}
        made["status"]["initContainerStatuses"] = [{"name": "fairlead", "state": state}]
        made["metadata"].update(meta)
        self.api.put("pods", made)
        return ip

    def annotate(self, name, annotations, namespace="shop"):
        had = self.api.get("pods", namespace, name)["metadata"].get("annotations") or {}
        self.api.patch("pods", namespace, name, {"metadata": {"annotations": {**dict.fromkeys(had), **annotations}}})

    def view(self, name, namespace="shop"):
        return next(p for p in self.ctl.admin("/_/api/admin/pods")["pods"]
                    if p["name"] == name and p["namespace"] == namespace)

    def counts(self):
        return len(self.ctl.admin("/_/api/admin/pods")["pods"])

    def events(self, reason=None):
        return [e for e in self.api.all("events") if reason in (None, e["reason"])]


@pytest.fixture
def sidecars():
    made = PodSidecars()
    yield made
    made.close()


@pytest.fixture
def ground(kube_api, sidecars, controller, folder, key):  # noqa: F811
    return Ground(kube_api, sidecars, controller, folder, key)


def content(push):
    """What a push says of routes and members: not whose word it is, nor what probes found by then."""
    if not push:
        return None
    backends = {name: {k: v for k, v in b.items() if k != "verdicts"} for name, b in push.state["backends"].items()}
    return {"routes": push.state["routes"], "backends": backends}


def peers(push, backend="minio"):
    return [p["address"] for p in push.state["backends"].get(backend, {}).get("peers", [])]


def routes(push):
    return push.state["routes"]


# ---- the way from an object to a push ----

def test_a_pod_gets_its_members_and_their_changes(ground):
    ground.store("127.10.0.1", "127.10.0.2")
    ip = ground.pod("web")
    ground.start()
    assert peers(ground.sidecars.wait(ip)) == ["127.10.0.1:9000", "127.10.0.2:9000"]
    ground.store("127.10.0.2")
    ground.sidecars.wait(ip, lambda p: peers(p) == ["127.10.0.2:9000"])


@pytest.mark.parametrize("late", ["endpointslices", "services"])
def test_br32_a_controller_that_starts_pushes_no_partial_world(ground, late):
    """One list comes seconds after the others, and one service has no endpoints."""
    ground.store("127.10.0.1", "127.10.0.2", "127.10.0.3")
    ground.api.put("services", service("storage", "empty", {"s3": 9000}))
    ip = ground.pod("web")
    ground.api.fail(late, "stream", 503, "not yet", times=3)
    backends = {**BACKENDS, "nobody": {"service": {"namespace": "storage", "name": "empty", "port": "s3"},
                                       "probe": {"type": "none"}}}
    ground.start(wait=False, lead=False, backends=backends)
    wait_until("the other lists are in", lambda: ground.api.watching("pods") == 1, 20)
    time.sleep(0.5)
    assert not ground.sidecars.pushes(ip)
    assert ground.ctl.ask("GET", "/_/ready").status == 503
    ground.sidecars.wait(ip, timeout=30)
    assert all(peers(p) == ["127.10.0.1:9000", "127.10.0.2:9000", "127.10.0.3:9000"] for p in ground.sidecars.pushes(ip))
    assert peers(ground.sidecars.last(ip), "nobody") == []


def test_pods_that_cannot_be_reached_are_no_targets(ground):
    ground.store("127.10.0.1")
    ground.pod("no-address", ip="")
    ground.pod("not-started", started=False)
    ground.pod("succeeded", phase="Succeeded")
    ground.pod("failed", phase="Failed")
    leaving = ground.pod("leaving", deletionTimestamp="2026-01-01T00:00:00Z")
    ground.start()
    ground.sidecars.wait(leaving)
    assert [p["name"] for p in ground.ctl.admin("/_/api/admin/pods")["pods"]] == ["leaving"]
    ground.api.remove("pods", "shop", "leaving")
    wait_until("no target is left", lambda: ground.counts() == 0)


def test_a_pod_that_takes_another_ones_place_starts_anew(ground):
    """Another uid, and another address, under the same name; and both in the same turn as a slice."""
    ground.store("127.10.0.1")
    first = ground.pod("db-0", annotations={ROUTE + "a": "minio"})
    ground.start()
    ground.sidecars.wait(first)
    uid = ground.api.get("pods", "shop", "db-0")["metadata"]["uid"]
    second = ground.sidecars.add()
    with ground.api.held():
        ground.api.remove("pods", "shop", "db-0")
        ground.store("127.10.0.9")
        ground.pod("db-0", ip=second, annotations={ROUTE + "b": "minio"})
    push = ground.sidecars.wait(second, lambda p: peers(p) == ["127.10.0.9:9000"])  # the watches are two connections
    assert set(routes(push)) == {"b"}
    fresh = ground.api.get("pods", "shop", "db-0")["metadata"]["uid"]
    assert fresh != uid and push.fields["fairlead-sidecar"] == fresh
    assert ground.counts() == 1
    third = ground.sidecars.add()
    with ground.api.held():
        ground.api.patch("pods", "shop", "db-0", {"status": {"podIP": third, "podIPs": [{"ip": third}]}})
        ground.store("127.10.0.8")
        ground.annotate("db-0", {ROUTE + "c": "minio"})
    push = ground.sidecars.wait(third, lambda p: peers(p) == ["127.10.0.8:9000"])
    assert set(routes(push)) == {"c"}
    assert ground.counts() == 1


# ---- annotations ----

BAD = {ROUTE + "a": "nowhere-known"}


def test_a_bad_edit_keeps_the_routes_through_reloads_relists_and_bad_edits(ground):
    good = {ROUTE + "a": "minio"}
    ground.store("127.10.0.1")
    kept = ground.pod("kept", annotations=good)
    ground.start()
    ground.sidecars.wait(kept)
    ground.annotate("kept", BAD)
    wait_until("the edit is known to be bad", lambda: not ground.view("kept")["config_ok"])
    fresh = ground.pod("fresh", annotations={**BAD, ROUTE + "b": "minio"})
    push = ground.sidecars.wait(fresh)
    assert "invalid" in routes(push)["a"], routes(push)

    def still_kept(endpoint):
        ground.store(endpoint)
        push = ground.sidecars.wait(kept, lambda p: peers(p) == [f"{endpoint}:9000"])
        assert routes(push)["a"].get("backend") == "minio", routes(push)
        push = ground.sidecars.wait(fresh, lambda p: peers(p) == [f"{endpoint}:9000"])
        assert "invalid" in routes(push)["a"], routes(push)

    still_kept("127.10.0.2")
    ground.reload(probe_defaults={"interval": "50s", "timeout": "1s"})
    still_kept("127.10.0.3")
    ground.api.expire()
    ground.api.error("pods", 410, "too old", reason="Expired")
    wait_until("pods are listed anew", lambda: ground.api.watching("pods") == 1, 20)
    still_kept("127.10.0.4")
    ground.annotate("kept", {ROUTE + "a": "nowhere-else"})
    still_kept("127.10.0.5")
    ground.annotate("kept", {ROUTE + "b": "minio"})
    push = ground.sidecars.wait(kept, lambda p: "b" in routes(p))
    assert set(routes(push)) == {"b"}
    assert ground.view("kept")["config_ok"] and ground.view("kept")["config_findings"] == []


def test_all_pods_of_a_configuration_go_and_come_back(ground):
    said = {ROUTE + "a": "minio"}
    ground.store("127.10.0.1")
    ground.start()
    for turn in range(4):
        ip = ground.pod("one", annotations=said)
        push = ground.sidecars.wait(ip)
        assert set(routes(push)) == {"a"} and peers(push) == [f"127.10.0.{turn + 1}:9000"]
        ground.api.remove("pods", "shop", "one")
        ground.store(f"127.10.0.{turn + 2}")
        wait_until("it is gone", lambda: ground.counts() == 0)


def test_the_same_annotations_in_two_namespaces_are_two_things(ground):
    said = {ROUTE + "a": "store:9000"}
    for namespace, endpoint in (("red", "127.10.1.1"), ("blue", "127.10.2.1")):
        ground.store(endpoint, namespace=namespace, name="store")
    red, blue = ground.pod("p", "red", annotations=said), ground.pod("p", "blue", annotations=said)
    ground.start()
    for ip, endpoint in ((red, "127.10.1.1"), (blue, "127.10.2.1")):
        push = ground.sidecars.wait(ip)
        used = routes(push)["a"]["backend"]
        assert peers(push, used) == [f"{endpoint}:9000"], push.state
    names = [b["name"] for b in ground.ctl.admin("/_/api/admin/backends")["backends"]]
    assert len(names) == len(set(names)) and any("red/" in n for n in names) and any("blue/" in n for n in names)


# ---- who leads, and who writes ----

def test_only_who_leads_writes_events_and_a_new_leader_says_what_is_wrong(ground, controller, folder):
    ground.store("127.10.0.1")
    ground.pod("bad", annotations=BAD)
    ground.start()
    wait_until("an Event", lambda: ground.events("InvalidAnnotation"), 10)
    config = ground.config()
    other = controller(config, env={"KUBECONFIG": ground.api.kubeconfig(folder, name="other")})
    ground.pod("bad2", annotations=BAD)
    wait_until("both know the second", lambda: all(
        len(c.admin("/_/api/admin/pods")["pods"]) == 2 for c in (ground.ctl, other)))
    wait_until("an Event about each", lambda: len(ground.events("InvalidAnnotation")) >= 2, 10)
    time.sleep(0.5)
    names = sorted(e["regarding"]["name"] for e in ground.events("InvalidAnnotation"))
    assert names == ["bad", "bad2"], ground.events()
    assert not other.admin("/_/ready")["leader"]
    ground.ctl.terminate()
    assert ground.ctl.wait(10) == 0
    wait_until("the other one leads", lambda: other.admin("/_/ready")["leader"], 20)
    ground.pod("bad3", annotations=BAD)
    wait_until("the new leader tells of all, one may be new to it", lambda: sorted(
        e["regarding"]["name"] for e in ground.events("InvalidAnnotation")) == ["bad", "bad", "bad2", "bad2", "bad3"], 10)


def test_annotations_that_another_configuration_makes_wrong_are_told(ground):
    ground.store("127.10.0.1")
    ip = ground.pod("web", annotations={ROUTE + "a": "minio"})
    ground.start()
    ground.sidecars.wait(ip, lambda p: peers(p) == ["127.10.0.1:9000"])
    ground.reload(backends={"other": BACKENDS["minio"]})
    push = ground.sidecars.wait(ip, lambda p: "invalid" in routes(p)["a"])
    wait_until("an Event", lambda: len(ground.events("InvalidAnnotation")) == 1, 10)
    ground.reload()
    ground.sidecars.wait(ip, lambda p: p.seq > push.seq and peers(p) == ["127.10.0.1:9000"])
    assert ground.view("web")["config_ok"]


def test_without_an_election_it_leads_at_once_and_ends_at_once(ground):
    ground.store("127.10.0.1")
    ip = ground.pod("web")
    ground.start(leader_election={"enabled": False})
    ground.sidecars.wait(ip)
    assert ground.api.all("leases") == [] and not ground.api.asked("leases")
    began = time.monotonic()
    ground.ctl.terminate()
    assert ground.ctl.wait(10) == 0 and time.monotonic() - began < 5


def test_a_higher_epoch_is_met_without_an_election(ground):
    ground.store("127.10.0.1")
    ip, high = ground.sidecars.add(), int(time.time()) + 500

    def answer(push):
        if push.epoch > high:
            return 200, ground.sidecars.taken(push)
        return 409, json.dumps({"epoch": high, "seq": 7, "code": "old_state", "cause": "x"}).encode()

    ground.sidecars.answer[ip] = answer
    ground.pod("web", ip=ip)
    ground.start(leader_election={"enabled": False})
    push = ground.sidecars.wait(ip, lambda p: p.epoch > high)
    ground.store("127.10.0.2")
    ground.sidecars.wait(ip, lambda p: p.epoch == push.epoch and peers(p) == ["127.10.0.2:9000"])


# ---- the end ----

def ends(ctl, within=3, slack=5):
    """SIGTERM: it is gone in time (on a machine that is slow now and then)."""
    began = time.monotonic()
    ctl.terminate()
    assert ctl.wait(within + slack) == 0, ctl.report()
    return time.monotonic() - began


@pytest.mark.parametrize("trouble", ["stop", "freeze", "hang"])
def test_it_ends_in_time_while_the_api_server_is_away(ground, trouble):
    ground.store("127.10.0.1")
    ip = ground.pod("web")
    ground.start()
    ground.sidecars.wait(ip)
    if trouble == "hang":
        ground.api.hang("leases", "*", times=100)
    else:
        getattr(ground.api, trouble)()
    took = ends(ground.ctl)
    ground.api.thaw()
    assert took < 6, took


def test_it_ends_in_time_when_the_api_server_was_never_there(ground):
    ground.api.freeze()
    ground.start(wait=False)
    ground.ctl.wait_event("controller started")
    took = ends(ground.ctl)
    ground.api.thaw()
    assert took < 6, took


def test_a_second_order_ends_a_release_and_a_reload_within_one_does_no_harm(ground):
    ground.store("127.10.0.1")
    ip = ground.pod("web", annotations={ROUTE + "a": "minio"})
    ground.start()
    ground.sidecars.wait(ip)
    ground.api.hang("leases", "*", times=100)
    ground.ctl.terminate()
    ground.ctl.wait_event("ending")
    ground.reload()
    ground.store("127.10.0.2")
    ground.ctl.terminate()
    began = time.monotonic()
    assert ground.ctl.wait(10) == 0 and time.monotonic() - began < 5


def test_a_reload_that_names_another_source_changes_no_targets(ground):
    ground.store("127.10.0.1")
    ip = ground.pod("web", annotations={ROUTE + "a": "minio"})
    ground.start()
    ground.sidecars.wait(ip)
    wait_until("it has all", lambda: ground.view("web")["seq"] > 0)
    ground.annotate("web", BAD)
    wait_until("the edit is known to be bad", lambda: not ground.view("web")["config_ok"])
    ground.reload(source="file:/nonexistent/services.yaml", sidecars=[{"address": "127.0.0.1:1", "id": "x"}])
    ground.ctl.wait_event("taken at the start", key="source")
    ground.store("127.10.0.2")
    push = ground.sidecars.wait(ip, lambda p: peers(p) == ["127.10.0.2:9000"])
    assert routes(push)["a"].get("backend") == "minio"
    assert ground.counts() == 1


def test_a_reload_says_that_the_election_is_taken_at_the_start(ground):
    ground.store("127.10.0.1")
    ground.start()
    ground.reload(leader_election={"enabled": False}, listen={**ground.ctl.config["listen"], "admin": "127.0.0.1:1"})
    ground.ctl.wait_event("taken at the start", key="leader_election.enabled")
    ground.ctl.wait_event("taken at the start", key="listen.admin")
    ground.reload()
    time.sleep(0.2)
    assert len(ground.ctl.events("taken at the start")) == 2, "what is in force needs no restart"


# ---- much at once ----

HOSTILE = {
    ROUTE + "quote": '"}],"epoch":1e9,"x":["', ROUTE + "back\\slash": "minio", ROUTE + "new\nline": "minio",
    ROUTE + "nul": "a\u0000b", ROUTE + "wide": "\u2028\U0001f600\ufffd\u202e", ROUTE + "deep": "[" * 3000,
    ROUTE + "long": "x" * 20000, ROUTE + "service": "s" * 253 + "." + "n" * 253 + ":65535",
    ROUTE + "name": "a" * 63 + "." + "b" * 63 + ":" + "c" * 15, ROUTE + "label": 'x"y.z:1',
    "backend.fairlead.dev/" + "b" * 253: "{service: storage/minio:s3}",
    'backend.fairlead.dev/a"b': "{service: storage/minio:s3}",
    "backend.fairlead.dev/far": "{service: {namespace: %s, name: %s, port: %s}}" % ("n" * 253, "s" * 253, "p" * 253),
    "backend.fairlead.dev/" + "w" * 63: "{service: {namespace: %s, name: %s, port: %s}, probe: {type: http, path: /%s}}"
                                        % ("n" * 63, "s" * 63, "p" * 63, "x" * 900),
    "backend.fairlead.dev/host": "{peers: [{address: '%s:9000'}]}" % ".".join(["h" * 63] * 4)[:253],
    ROUTE + "far": "far", ROUTE + "far2": "w" * 63, ROUTE + "host": "host",
    "backend.fairlead.dev/anchors": "&a [*a, *a]", "fairlead.dev/routes": "routes: {'*': {backend: \"\\\"\\x00\"}}",
    "fairlead.dev/log-level": "\x1b[31m", "FAIRLEAD.dev/Log-Level": "info",
    "route.fairlead.dev/": "minio", "x.y.fairlead.dev/z": "1",
}


def test_hostile_annotations_stay_texts(ground):
    ground.store("127.10.0.1")
    ip = ground.pod("evil", annotations=HOSTILE)
    many = ground.pod("many", annotations={f"{ROUTE}b{i}": "minio" if i % 2 else f"no-{i}" for i in range(3000)})
    lone = [ground.pod(f"h{i}", annotations={k: v}) for i, (k, v) in enumerate(HOSTILE.items())]
    ground.start()
    for one in [ip, *lone]:
        ground.sidecars.wait(one)
    push = ground.sidecars.wait(many)
    assert len(routes(push)) == 1024 and sum("invalid" in r for r in routes(push).values()) == 512
    for page in ("backends", "pods", "services"):
        ground.ctl.admin(f"/_/api/admin/{page}")
    pods = {p["name"]: p for p in ground.ctl.admin("/_/api/admin/pods")["pods"]}
    assert not pods["evil"]["config_ok"] and len(pods["many"]["config_findings"]) == 100
    metrics = ground.ctl.metrics()
    assert metrics.sum("fairlead_controller_annotation_errors", namespace="shop") > 1500
    wait_until("Events", lambda: len(ground.events("InvalidAnnotation")) > 5, 10)
    assert all(len(e["note"]) <= 1024 and "\x1b" not in e["note"] for e in ground.events())
    assert not any("\x1b" in line for line in ground.ctl.err.lines)


def test_after_any_history_pods_have_what_a_new_controller_gives_them(ground):
    """And memory stays what it is."""
    random.seed(20261130)
    said = [{}, {ROUTE + "a": "minio"}, {ROUTE + "a": "minio", ROUTE + "b": "store:9000"},
            {ROUTE + "a": "store.blue:9000"}, {ROUTE + "a": "minio", ROUTE + "c": "nowhere"},
            {"fairlead.dev/routes": "routes: {'*': {backend: minio}, x: {backend: nowhere}}"}]
    names = [(namespace, f"p{i}") for namespace in ("red", "blue") for i in range(6)]
    spaces = {("storage", "minio"), ("red", "store"), ("blue", "store"), ("blue", "idle")}
    there, spare = {}, [ground.sidecars.add() for _ in range(16)]

    def annotations(pod):
        return random.choice(said[:4]) if pod in there else random.choice(said)  # an edit that is bad keeps routes

    def change():
        what, pod = random.randrange(14), random.choice(names)
        if what < 3 and pod not in there:
            there[pod] = ground.pod(pod[1], pod[0], ip=spare.pop(0), annotations=annotations(pod))
        elif what < 3:
            ground.annotate(pod[1], annotations(pod), pod[0])
        elif what == 3 and pod in there:
            ground.api.remove("pods", *pod)
            spare.append(there.pop(pod))
        elif what == 4 and pod in there:
            spare.append(there[pod])
            there[pod] = spare.pop(0)
            ground.api.patch("pods", *pod, {"status": {"podIP": there[pod], "podIPs": [{"ip": there[pod]}]}})
        elif what < 10:
            namespace, name = random.choice(sorted(spaces))
            ground.store(*(f"127.10.{random.randrange(3)}.{random.randrange(1, 9)}" for _ in range(random.randrange(4))),
                         namespace=namespace, name=name, slice_name=f"{name}-{random.choice('ab')}")
        elif what == 10:
            namespace, name = random.choice(sorted(spaces))
            if ground.api.get("services", namespace, name):
                ground.api.remove("services", namespace, name)
        elif what == 11:
            resource = random.choice(("pods", "services", "endpointslices"))
            random.choice((ground.api.end, ground.api.cut, lambda r: ground.api.error(r, 410, "old", reason="Expired")))(
                resource)
        elif what == 12 and random.random() < 0.3:
            ground.reload(probe_defaults={"interval": f"{random.randrange(40, 60)}s", "timeout": "1s"})

    ground.start(env={"ASAN_OPTIONS": "exitcode=99:detect_leaks=1:quarantine_size_mb=1"})
    sizes = []
    for step in range(500):
        change()
        if step % 10 == 0:
            time.sleep(0.02)
        if step in (200, 499):
            sizes.append(ground.ctl.rss_kib())
    for namespace, name in sorted(spaces):
        ground.store("127.10.9.9", namespace=namespace, name=name, slice_name=f"{name}-end")
    for resource in ("pods", "services", "endpointslices"):
        wait_until(f"{resource} are watched", lambda: ground.api.watching(resource) == 1, 30)  # noqa: B023
    ground.reload()
    had = {}

    def settled():
        """Everybody has the end, whatever of it is in his state, and it stays so."""
        before, had_before = dict(had), bool(had)
        had.update({pod: content(ground.sidecars.last(ip)) for pod, ip in there.items()})
        return had_before and before == had and ground.counts() == len(there)

    wait_until("all is quiet", settled, 30, 0.5)
    ground.ctl.terminate()
    assert ground.ctl.wait(10) == 0
    counts = {pod: len(ground.sidecars.pushes(ip)) for pod, ip in there.items()}
    ground.start()
    for pod, ip in there.items():
        ground.sidecars.wait(ip, after=counts[pod])
    wait_until("all is known", lambda: ground.counts() == len(there))
    for pod, ip in there.items():
        wait_until(lambda: f"{pod} had {had[pod]}, gets {content(ground.sidecars.last(ip))}",  # noqa: B023
                   lambda: content(ground.sidecars.last(ip)) == had[pod])  # noqa: B023
    assert sizes[1] - sizes[0] < 6 * 1024, sizes
