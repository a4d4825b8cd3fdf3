"""The control plane fails in every way that it can: traffic goes on without an error, what is known stays, its age and
the reason can be seen, and afterwards members follow again by themselves."""
import itertools
import os
import time

import pytest

from cluster.shop import Shop, eventually, peers
from cluster.traffic import Traffic

LONG = bool(os.environ.get("FAIRLEAD_E2E_LONG"))
_stores = itertools.count(1)


@pytest.fixture
def shop(plane, tmp_path):
    for old in plane.api.get("/api/v1/pods?labelSelector=fairlead.dev%2Finjected%3Dtrue")["items"]:
        plane.api.delete(old["metadata"]["selfLink"] if "selfLink" in old["metadata"] else
                         f"/api/v1/namespaces/{old['metadata']['namespace']}/pods/{old['metadata']['name']}")
    made = Shop(plane, tmp_path)
    made.ns.service("minio", {"s3": 9000})
    return made


def addresses(*pods):
    return sorted(f"{p.address}:9000" for p in pods)


class Scene:
    """A store of two, a controller that leads, an application; `follows` is the proof that all of it works."""

    def __init__(self, shop, **keywords):
        self.shop, self.plane = shop, shop.plane
        self.stores = [shop.store("a"), shop.store("b")]
        self.controller = shop.controller(**keywords)
        self.app = shop.app(access_log="errors")
        self.at = addresses(*self.stores)
        eventually("both peers in the sidecar", lambda: peers(self.app) == self.at)

    def kept(self):
        assert peers(self.app) == self.at

    def follows(self, seconds=90):
        """A store that comes and one that goes reach the sidecar."""
        began = time.monotonic()
        new = self.shop.store(f"c{next(_stores)}")
        self.stores.append(new)
        more = sorted(self.at + addresses(new))
        self.plane.wait_endpoints(self.shop.ns, "minio", [a.rpartition(":")[0] for a in more], 90)
        print(f"{new.name}: in a slice after {time.monotonic() - began:.1f} s", end="")
        eventually(f"{new.name} in the sidecar", lambda: peers(self.app) == more, seconds)
        print(f", in the sidecar after {time.monotonic() - began:.1f} s")
        new.annotate(**{"ground/ready": "false"})  # as a pod that goes politely; what it has begun it finishes
        eventually(f"{new.name} gone from the sidecar", lambda: peers(self.app) == self.at, seconds)

    def ready(self):
        response = self.controller.ask("GET", "/_/ready")
        assert response.status == 200, repr(response)  # who knows members works, whatever the API server does
        return self.controller.admin("/_/ready")

    def restarts(self, *reasons):
        m = self.controller.metrics()
        return sum(m.sum("fairlead_controller_watch_restarts_total", reason=r) for r in reasons)

    def oldest(self):
        return max(v for _, v in self.controller.metrics().series("fairlead_controller_watch_age_seconds"))


@pytest.fixture
def scene(shop):
    return Scene(shop)


def test_an_api_server_that_hangs(scene):
    seconds = 60 if LONG else 12
    with Traffic(scene.app) as traffic:
        scene.plane.apiserver.freeze()
        began = time.monotonic()
        eventually("who leads says why it cannot stay so",
                   lambda: "Lease" in scene.ready()["election"], 12)
        while time.monotonic() < began + seconds:
            scene.kept()
            time.sleep(0.5)
        assert scene.ready()["membership_age_secs"] >= seconds - 1 and scene.oldest() >= seconds - 1
        scene.plane.apiserver.thaw()
        scene.follows()
        eventually("all well", lambda: scene.ready()["status"] == "ready" and scene.ready()["election"] == "")
        traffic.check(*scene.stores, least=seconds * 10)


def test_an_api_server_that_is_away_and_returns(scene):
    with Traffic(scene.app) as traffic:
        scene.plane.apiserver.kill()
        eventually("it is said", lambda: "refused" in scene.ready()["fault"])
        ready = scene.ready()
        assert ready["membership"] == "stale" and ready["status"] == "degraded", ready
        time.sleep(3)
        scene.kept()
        assert scene.ready()["membership_age_secs"] >= 2 and scene.oldest() >= 2
        assert scene.restarts("cut", "unreachable") >= 3
        scene.plane.apiserver.start()
        scene.follows()
        eventually("all well", lambda: scene.ready()["status"] == "ready")
        traffic.check(*scene.stores)


def test_etcd_that_is_away_and_returns(scene):
    with Traffic(scene.app) as traffic:
        scene.plane.etcd.kill()
        eventually("who leads says why it cannot stay so", lambda: "Lease" in scene.ready()["election"])
        scene.kept()
        scene.plane.etcd.start()
        scene.follows()
        eventually("all well", lambda: scene.ready()["status"] == "ready" and scene.ready()["election"] == "")
        traffic.check(*scene.stores)


def test_an_api_server_with_old_data(scene):
    copy = scene.plane.save_data()
    scene.plane.controllers.restart()  # else they wait for half a minute
    scene.follows()
    for i in range(30):  # versions that the copy does not have
        scene.plane.api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "more-"}})
    with Traffic(scene.app) as traffic:
        scene.plane.restart_with(copy)
        scene.follows()
        eventually("all well", lambda: scene.ready()["status"] == "ready" and scene.ready()["election"] == "")
        traffic.check(*scene.stores)


def test_versions_that_have_all_expired(scene):
    """The controller is stopped meanwhile: it meets a server that is there, and does not know of the pause."""
    with Traffic(scene.app) as traffic:
        scene.controller.freeze()
        scene.plane.expire_versions()
        scene.controller.thaw()
        eventually("it has met it", lambda: scene.restarts("expired") >= 1, 60)
        scene.kept()
        scene.follows()
        eventually("all well", lambda: scene.ready()["status"] == "ready")
        traffic.check(*scene.stores)


def test_a_token_that_is_refused_and_its_successor(scene):
    with Traffic(scene.app) as traffic:
        scene.plane.forget_tokens()
        eventually("it is said", lambda: "401" in scene.ready()["fault"] and
                   "Unauthorized" in scene.ready()["election"])
        assert scene.restarts("unauthorized") >= 1
        scene.kept()
        scene.controller.account.refresh(pod=scene.controller.pod)
        scene.follows()
        eventually("all well", lambda: scene.ready()["status"] == "ready" and scene.ready()["election"] == "", 60)
        traffic.check(*scene.stores)


def test_an_authority_that_is_replaced(new_plane, tmp_path):
    plane = new_plane()
    with plane.network():
        shop = Shop(plane, tmp_path)
        shop.ns.service("minio", {"s3": 9000})
        scene = Scene(shop)
        with Traffic(scene.app) as traffic:
            new = plane.rotate_authority().read_text(encoding="ascii")
            plane.apiserver.restart()  # else the kept connections live on
            eventually("it is said", lambda: "certificate" in scene.ready()["fault"])
            scene.kept()
            scene.controller.account.write(**{"ca.crt": new})
            scene.follows(150)
            eventually("all well", lambda: scene.ready()["status"] == "ready" and scene.ready()["election"] == "", 60)
            traffic.check(*scene.stores)


def test_all_controllers_are_killed_and_started_again(shop):
    scene = Scene(shop)
    other = shop.controller("other")
    with Traffic(scene.app) as traffic:
        scene.controller.kill()
        other.kill()
        time.sleep(3)
        scene.kept()
        gone = scene.stores[1]
        gone.store.kill()  # without a controller the sidecar itself finds out
        time.sleep(2)
        scene.controller = shop.controller("third")
        eventually("it leads", lambda: scene.ready()["leader"], 40)
        gone.store = gone.origin(9000)
        scene.stores.remove(gone)
        scene.follows()
        traffic.stop()
        assert not traffic.faults, traffic.faults[:3]


def test_a_pod_whose_status_port_is_shut_by_a_policy(shop):
    config = shop.config()
    config["push"]["timeout"] = "1s"
    scene = Scene(shop, config=config)
    other = shop.app("other", access_log="errors")
    eventually("both are reached", lambda: peers(other) == scene.at)

    def state():
        return {p["name"]: p["state"] for p in scene.controller.admin("/_/api/admin/pods")["pods"]}

    with Traffic(scene.app) as traffic:
        with scene.app.pod.filtered("tcp dport 8422"):
            new = shop.store("new")
            more = sorted(scene.at + addresses(new))
            eventually("the other one has the change", lambda: peers(other) == more)
            eventually("it is unreachable, and it alone",
                       lambda: state() == {"app": "unreachable", "other": "current"}, 60)
            shown = next(p for p in scene.controller.admin("/_/api/admin/pods")["pods"] if p["name"] == "app")
            assert shown["last_error"]["code"] == "connect_timeout" and "NetworkPolicy" in shown["last_error"]["hint"]
            assert scene.ready()["status"] == "degraded" and scene.ready()["sidecars"]["unreachable"] == 1
            event = eventually("an Event", lambda: next(
                (e for e in shop.ns.events() if e["reason"] == "SidecarUnreachable"), None))
            assert event["regarding"]["name"] == "app" and event["regarding"]["uid"] == scene.app.pod.uid
            assert "timed out" in event["note"] and "NetworkPolicy" in event["note"], event["note"]
            assert "SidecarUnreachable" in shop.plane.kubectl("-n", shop.ns.name, "events", "--for", "pod/app")
            assert peers(scene.app) == scene.at
        eventually("it has the change by itself", lambda: peers(scene.app) == more, 90)
        eventually("and is shown so", lambda: state()["app"] == "current")
        assert [e["regarding"]["name"] for e in shop.ns.events() if e["reason"] == "SidecarUnreachable"] == ["app"]
        scene.stores.append(new)
        traffic.check(*scene.stores)


def test_a_controller_whose_clock_is_off_by_ten_minutes(shop):
    scene = Scene(shop, faketime="+10m")
    with Traffic(scene.app) as traffic:
        for offset in (600, -600):
            scene.controller.set_clock(f"{offset:+d}s")
            if offset > 0 or LONG:  # it warns once a minute
                warning = scene.app.wait_event("push accepted in spite of its clock", 90, 1 if offset > 0 else 2)
                assert abs(warning["skew_secs"] - offset) < 30
            scene.follows()
        assert scene.ready()["status"] == "ready" and scene.ready()["leader"] is True
        traffic.check(*scene.stores)
    assert scene.controller.metrics().sum("fairlead_controller_pushes_total", result="refused") == 0
