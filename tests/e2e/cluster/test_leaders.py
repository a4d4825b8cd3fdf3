"""One leader among replicas, on a real API server: who leads pushes, under epochs that only rise, and whoever led before
changes nothing any more."""
import json
import os
import threading
import time

import pytest

from bed.push import put, signed, state
from cluster.shop import Shop, eventually, peers
from cluster.traffic import Traffic

LONG = bool(os.environ.get("FAIRLEAD_E2E_LONG"))
LEASE_SECS, LOOK_SECS = 15, 4.4  # how long a Lease is held; how often a candidate looks, at most


@pytest.fixture
def shop(plane, tmp_path):
    for old in plane.api.get("/api/v1/pods?labelSelector=fairlead.dev%2Finjected%3Dtrue")["items"]:
        plane.api.delete(f"/api/v1/namespaces/{old['metadata']['namespace']}/pods/{old['metadata']['name']}")
    made = Shop(plane, tmp_path)
    made.ns.service("minio", {"s3": 9000})
    return made


def epoch_of(shop, app):
    """The epoch in force in a sidecar, as it tells who pushes with a lower one."""
    body = state(1, 1, {})
    with app.network():
        response = put("127.0.0.1:8422", signed(shop.key, app.pod.uid, body), body)
    assert response.status == 409, repr(response)
    return json.loads(response.body)["epoch"]


class Watcher:
    """Looks at the epoch of a sidecar all the time: it must never fall."""

    def __init__(self, shop, app):
        self.seen, self._shop, self._app = [], shop, app
        self._over, self._thread = threading.Event(), threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(30)

    def _run(self):
        while not self._over.wait(0.2):
            epoch = epoch_of(self._shop, self._app)
            if not self.seen or self.seen[-1] != epoch:
                self.seen.append(epoch)

    def check(self):
        assert self.seen == sorted(self.seen), f"an epoch fell: {self.seen}"


class Replicas:
    def __init__(self, shop, names=("one", "two"), **config):
        self.shop = shop
        self.stores = [shop.store("a"), shop.store("b")]
        self.at = sorted(f"{s.address}:9000" for s in self.stores)
        self.all = [self.start(name, **config) for name in names]
        self.app = shop.app(access_log="errors")
        eventually("members in the sidecar", lambda: peers(self.app) == self.at)

    def start(self, name, **config):
        return self.shop.controller(name, config=self.shop.config(**config), env={"POD_NAME": name})

    def leaders(self):
        return [c for c in self.all if c.running and c.metrics().sum("fairlead_controller_leader") == 1]

    def leader(self):
        leaders = self.leaders()
        assert len(leaders) == 1, [c.name for c in leaders]
        return leaders[0]

    def other(self, one):
        return next(c for c in self.all if c is not one)

    def lease(self):
        return self.shop.plane.api.get(self.shop.lease)["spec"]

    def follows(self):
        """A change that is made now reaches the sidecar."""
        new = self.shop.store(f"c{len(self.stores)}")
        self.stores.append(new)
        self.at = sorted(self.at + [f"{new.address}:9000"])
        eventually(f"{new.name} in the sidecar", lambda: peers(self.app) == self.at)


def ready(controller):
    assert controller.ask("GET", "/_/ready").status == 200
    return controller.admin("/_/ready")


def pushes(controller):
    return controller.metrics().sum("fairlead_controller_pushes_total")


@pytest.fixture
def replicas(shop):
    return Replicas(shop)


def test_a_leader_that_ends_is_followed_at_once_and_one_that_is_killed_within_the_lease(shop, replicas):
    first = replicas.leader()
    second = replicas.other(first)
    with Traffic(replicas.app) as traffic, Watcher(shop, replicas.app) as watcher:
        # The one that stands by is ready, knows the same, and shows who leads.
        standby = ready(second)
        assert standby["leader"] is False and standby["status"] == "ready", standby
        assert standby["holder"] == replicas.lease()["holderIdentity"] and \
            standby["holder"].startswith(first.name.split()[-1] + "_")
        assert pushes(second) == 0
        epochs = [epoch_of(shop, replicas.app)]
        first.terminate()
        began = time.monotonic()
        eventually("the other leads", lambda: ready(second)["leader"], LEASE_SECS)
        assert time.monotonic() - began < LOOK_SECS + 4, "it was not given back"
        assert first.wait(10) == 0
        eventually("it has pushed", lambda: epoch_of(shop, replicas.app) > epochs[-1])
        epochs.append(epoch_of(shop, replicas.app))
        replicas.follows()
        replicas.all = [second, replicas.start("three")]
        second.kill()
        began = time.monotonic()
        third = replicas.all[1]
        eventually("the third leads", lambda: ready(third)["leader"], LEASE_SECS + LOOK_SECS + 10)
        print(f"taken over {time.monotonic() - began:.1f} s after a kill")
        eventually("it has pushed", lambda: epoch_of(shop, replicas.app) > epochs[-1])
        epochs.append(epoch_of(shop, replicas.app))
        replicas.follows()
        assert epochs == sorted(set(epochs)) and replicas.lease()["leaseTransitions"] == epochs[-1]
        traffic.check(*replicas.stores)
    watcher.check()


def test_a_leader_that_slept_does_not_push_when_it_wakes(shop, replicas):
    first = replicas.leader()
    second = replicas.other(first)
    with Traffic(replicas.app) as traffic, Watcher(shop, replicas.app) as watcher:
        old, began = pushes(first), time.monotonic()
        first.freeze()
        eventually("the other leads", lambda: ready(second)["leader"], LEASE_SECS + LOOK_SECS + 10)
        replicas.follows()
        new = epoch_of(shop, replicas.app)
        time.sleep(max(0, began + 20 - time.monotonic()))
        first.thaw()
        first.wait_event("leads no more", 10)
        time.sleep(3)  # its interval is 2 s
        assert not ready(first)["leader"] and ready(second)["leader"]
        # What had been in flight when it was stopped may have been answered.
        assert pushes(first) - old <= 1 and epoch_of(shop, replicas.app) == new
        assert ready(first)["holder"] == ready(second)["holder"]
        traffic.check(*replicas.stores)
    watcher.check()


def test_of_two_leaders_the_newer_one_wins(shop, replicas):
    """The Lease is deleted while its leader cannot reach the API server, and a candidate that has not seen it starts."""
    first = replicas.leader()
    replicas.other(first).kill()  # it would wait: it has seen who leads
    with Traffic(replicas.app) as traffic, Watcher(shop, replicas.app) as watcher:
        old = epoch_of(shop, replicas.app)
        with first.pod.filtered("tcp dport { 443, 6443 }"):
            shop.plane.api.delete(shop.lease)
            second = replicas.start("late")
            replicas.all = [first, second]
            eventually("two lead", lambda: ready(first)["leader"] and ready(second)["leader"], 8, 0.02)
            eventually("the newer one's state is in force", lambda: epoch_of(shop, replicas.app) > old)
            new = epoch_of(shop, replicas.app)
            first.wait_event("leads no more", 15)
            assert epoch_of(shop, replicas.app) == new
        replicas.follows()
        eventually("they know each other", lambda: ready(first)["holder"] == ready(second)["holder"])
        assert replicas.leader() is second
        traffic.check(*replicas.stores)
    watcher.check()


def test_a_lease_that_is_deleted_or_edited_by_hand(shop, replicas):
    first = replicas.leader()
    epochs = [epoch_of(shop, replicas.app)]
    with Traffic(replicas.app) as traffic, Watcher(shop, replicas.app) as watcher:
        shop.plane.api.delete(shop.lease)
        spec = eventually("it is made anew", lambda: (shop.plane.api.find(shop.lease) or {}).get("spec"))
        eventually("with the same leader", lambda: replicas.lease().get("holderIdentity") == ready(first)["holder"])
        assert replicas.lease()["leaseTransitions"] >= epochs[-1], spec
        replicas.follows()
        epochs.append(epoch_of(shop, replicas.app))
        shop.plane.api.patch(shop.lease, {"spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 2}})
        first.wait_event("leads no more", 15)
        eventually("one leads again", lambda: len(replicas.leaders()) == 1, 20)
        eventually("under a higher epoch", lambda: epoch_of(shop, replicas.app) > epochs[-1])
        replicas.follows()
        traffic.check(*replicas.stores)
    watcher.check()
    assert len(watcher.seen) <= 3, watcher.seen


def test_a_new_leader_unblocks_nothing_before_it_has_looked(shop):
    replicas = Replicas(shop)
    first = replicas.leader()
    second = replicas.other(first)

    def shown():
        return next(b for b in replicas.app.admin("/_/api/admin/backends")["backends"] if b["name"] == "minio")

    assert replicas.app.call("PUT", "/releases/x", body=b"1").status == 200
    for store in replicas.stores:
        store.store.refuse()
    eventually("blocked, here and there", lambda: shown()["blocked"] and "unreachable" in str(
        second.admin("/_/api/admin/backends") and first.admin("/_/api/admin/backends")), 40)
    seen, old = [], epoch_of(shop, replicas.app)
    first.terminate()
    end = time.monotonic() + 60
    while epoch_of(shop, replicas.app) == old and time.monotonic() < end:
        seen.append(shown())
    assert epoch_of(shop, replicas.app) > old
    end = time.monotonic() + 8  # three intervals and more: past what was pushed before, and the new leader's first looks
    while time.monotonic() < end:
        seen.append(shown())
        time.sleep(0.1)
    assert all(b["blocked"] and b["verdict"]["status"] == "unreachable" for b in seen), \
        [b for b in seen if not b["blocked"]][:1]
    assert len(replicas.app.events("backend unhealthy")) == 1 and not replicas.app.events("backend recovered")
    refused = replicas.app.call("PUT", "/releases/x", body=b"1")
    assert refused.status == 503 and b"minio" in refused.body
    for store in replicas.stores:
        store.store.listen()
    eventually("it is open again", lambda: not shown()["blocked"], 30)
    assert replicas.app.call("PUT", "/releases/x", body=b"1").status == 200
    # People hear of it once, from each leader what it has seen itself.
    events = eventually("Events", lambda: [e for e in shop.ns.events() if e["reason"] == "BackendRecovered"] and
                        shop.ns.events())
    about = {(e["reason"], e["regarding"]["kind"], e["regarding"]["name"]) for e in events}
    assert {("BackendUnreachable", "Service", "minio"), ("BackendRecovered", "Service", "minio")} <= about, about


def test_flapping_backends_are_series_of_events(shop):
    replicas = Replicas(shop, names=("one",))
    flaps = 20 if LONG else 3
    for i in range(flaps):
        for store in replicas.stores:
            store.store.refuse()
        eventually("it is seen", lambda: len(replicas.all[0].events("backend unhealthy")) > i, 40)
        for store in replicas.stores:
            store.store.listen()
        eventually("and its end", lambda: len(replicas.all[0].events("backend recovered")) > i, 40)
    found = [e for e in shop.ns.events() if e["reason"].startswith("Backend")]
    kinds = {e["reason"] for e in found}
    assert kinds == {"BackendUnreachable", "BackendRecovered"}, kinds
    # One cause names one of the two peers; a recovery says the same each time.
    assert len(found) <= 4, [(e["reason"], e["note"]) for e in found]
    if LONG:
        eventually("they are counted", lambda: sum((e.get("series") or {}).get("count", 1) for e in shop.ns.events()
                                                   if e["reason"] == "BackendRecovered") >= flaps - 1, 130)
    listed = shop.plane.kubectl("-n", shop.ns.name, "events", "--for", "service/minio")
    assert "BackendUnreachable" in listed and "BackendRecovered" in listed
