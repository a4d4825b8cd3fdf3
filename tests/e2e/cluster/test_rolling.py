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
from cluster.fleet import Fleet
from cluster.shop import eventually

NODES = 2
ROUNDS = 10 if os.environ.get("FAIRLEAD_E2E_LONG") else 1
_rounds = itertools.count(1)


@pytest.fixture(scope="module")
def shared_fleet(shared_node, tmp_path_factory):
    from cluster.fleet import Store
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
              f"the slowest {load.slowest * 1000:.0f} ms; {load.faults[:3]}")


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
