"""Stores come and go as they do in a cluster: by rollouts, drains, probes that flap, ends with and without grace. The
application asks 50 times a second; none of its requests fails, and none of its writes is done twice.

Two kinds of stores, each with traffic of its own, on s3 routes:
  careful   a Deployment whose pods sleep before they end (preStop), as it is recommended
  plain     a StatefulSet whose pods end at once
What no proxy can promise on an s3 route is counted by itself: a write that was sent to a store which died before it
answered. It may have been done, so it is not done again: the application gets the error."""
import itertools
import os
import time

import pytest

from bed.wire import Wire
from cluster.fleet import Fleet, Store
from cluster.shop import eventually

NODES = 2
ROUNDS = 10 if os.environ.get("FAIRLEAD_E2E_LONG") else 1
_rounds = itertools.count(1)
DEAD = 2  # writes that a store which dies may take with it: each connection of the traffic can have one there


@pytest.fixture(scope="module")
def shared_fleet(shared_node, tmp_path_factory):
    with shared_node.network():
        made = Fleet(shared_node, tmp_path_factory.mktemp("fleet"))
        made.careful = Store(made, "careful", "Deployment", pre_stop=2)
        made.plain = Store(made, "plain", "StatefulSet")
        made.controllers({"careful": ("s3", "careful"), "plain": ("s3", "plain"), "replayed": ("http", "careful")})
        made.application({"careful": "careful", "plain": "plain", "replayed": "replayed"})
        made.careful.wait_settled()
        made.plain.wait_settled()
        yield made


@pytest.fixture
def fleet(node, shared_fleet):
    """Whole again after each test."""
    yield shared_fleet
    shared_fleet.careful.wait_settled()
    shared_fleet.plain.wait_settled()


@pytest.fixture(params=range(1, ROUNDS + 1))
def round(request):
    return request.param


def figures(name, loads):
    for bucket, load in loads.items():
        print(f"{name}: {bucket}: {load.sent} requests, {len(load.faults)} failed, {len(load.doubled())} doubled, "
              f"the slowest {load.slowest * 1000:.0f} ms", *(fault[:60] for fault in load.faults[:3]), sep="; ")


def test_rolling_updates(fleet, round):
    before = {p.uid for s in (fleet.careful, fleet.plain) for p in s.pods()}
    with fleet.traffic("careful", "plain") as loads:
        for store in (fleet.careful, fleet.plain):
            store.roll(f"r{next(_rounds)}")
        fleet.careful.wait_settled()
        fleet.plain.wait_settled()
        time.sleep(1)
    figures("rolling update", loads)
    assert not before & {p.uid for s in (fleet.careful, fleet.plain) for p in s.pods()}
    loads["careful"].check()
    loads["plain"].check()


def test_controllers_that_are_replaced_while_stores_are(fleet, round):
    controllers = f"/apis/apps/v1/namespaces/{fleet.home}/deployments/controller"
    before = {p.uid for p in fleet.home.pods("app=controller")}
    with fleet.traffic("careful", "plain") as loads:
        fleet.node.api.patch(controllers, {"spec": {"template": {"metadata": {"annotations": {
            "round": f"r{next(_rounds)}"}}}}})
        fleet.careful.roll(f"r{next(_rounds)}")
        eventually("all controllers to be new",
                   lambda: not before & {p.uid for p in fleet.home.pods("app=controller")}, 90, 0.2)
        fleet.careful.wait_settled()
    figures("controllers too", loads)
    eventually("one leads", fleet.leader, 30)
    loads["careful"].check()
    loads["plain"].check()


def test_readiness_that_flaps(fleet, round):
    with fleet.traffic("careful", "plain") as loads:
        for i in range(3):
            pods = fleet.careful.pods()
            flapping = pods[:1 + i % 2]
            for pod in flapping:
                fleet.careful.rules(pod, "path=/ready status=503")
            left = sorted(p.peer for p in pods if p not in flapping)
            eventually("the sidecar knows", lambda: fleet.primaries("careful") == left, 30)
            for pod in flapping:
                fleet.careful.rules(pod)
            if i == 1:  # and back before anybody else knows of it
                for pod in flapping:
                    fleet.careful.rules(pod, "path=/ready status=503 count=1")
            fleet.careful.wait_settled()
    figures("readiness", loads)
    loads["careful"].check()
    loads["plain"].check()


def test_pods_that_are_ended_with_grace_answer_what_they_have_begun(fleet, round):
    stores = (fleet.careful, fleet.plain)
    victims = [store.pods()[0] for store in stores]
    longs = f"long{next(_rounds)}-"
    with fleet.traffic("careful", "plain") as loads:
        for store in stores:
            for pod in store.pods():
                store.rules(pod, f"path=/{store.name}/long delay=1500")
        with fleet.app.network():
            wires = [(method, store.name, Wire(fleet.app.data, 20)) for store in stores
                     for method in ("GET", "PUT") * 4]
        for i, (method, bucket, wire) in enumerate(wires):  # more than there are stores: each has some of them
            wire.request(method, f"/{bucket}/{longs}{i}", body=b"x" if method == "PUT" else None)
        time.sleep(0.5)
        for victim in victims:
            victim.delete(wait=False)
        for method, _, wire in wires:
            with wire:
                assert wire.response(method).status == 200
        for victim in victims:
            victim.wait_gone()
        for store in stores:
            store.wait_settled()
            for pod in store.pods():
                store.rules(pod)
    figures("ends with grace", loads)
    for store, victim in zip(stores, victims):
        loads[store.name].check()
        assert set(fleet.done(f"/{store.name}/{longs}").values()) == {1}
        assert longs in fleet.journal(victim), f"{victim.name} had none of them: nothing was shown"


def test_a_node_that_is_drained(fleet, round):
    def on(node):
        return {p["metadata"]["uid"] for p in fleet.node.api.get(f"{fleet.ns.path}/pods")["items"]
                if p["spec"].get("nodeName") == node}

    try:
        with fleet.traffic("careful", "plain") as loads:
            there = on("n2")
            assert there
            fleet.node.drain("n2")
            assert not there & {p.uid for p in fleet.ns.pods()}
            fleet.careful.wait_settled()
            fleet.plain.wait_settled()
    finally:
        fleet.node.kubectl("uncordon", "n2")
    figures("drain", loads)
    loads["careful"].check()
    loads["plain"].check()
    for store in (fleet.careful, fleet.plain):  # spread again, for who comes next
        store.roll(f"r{next(_rounds)}")


def test_stores_that_die_without_grace(fleet, round):
    """What is promised: reads never fail; no write is done twice on an s3 route; a write fails only when it was sent
    to the store that died, which are at most as many as there are connections to it. On an http route, where a write
    may be repeated after it was sent, none fails, and one that the dead store had done is done again."""
    kills = 2
    with fleet.traffic("careful", "plain", "replayed") as loads:
        for i in range(kills):
            store = (fleet.careful, fleet.plain)[i % 2]
            victim = store.pods()[0]
            store.rules(victim, "method=PUT path=/ delay=150")  # so that a write is surely under way
            time.sleep(0.5)
            store.kill(victim)
            eventually("it runs again", lambda: victim.object()["status"]["containerStatuses"][0]["restartCount"] >= 1,
                       60, 0.1)
            store.wait_settled()
    figures("ends without grace", loads)
    loads["careful"].check(faults=DEAD)
    loads["plain"].check(faults=DEAD)
    loads["replayed"].check(doubled=DEAD)
    for store in (fleet.careful, fleet.plain):  # new pods: kubelet waits longer each time that one ends, up to 5 min
        store.roll(f"r{next(_rounds)}")
