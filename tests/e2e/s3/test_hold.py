"""queue.hold bridges the restart of a store that has one peer: requests wait, and no client sees an error."""
import time

import pytest

from ground.clients import Boto, Js
from ground.front import config, failed
from ground.storm import Storm

HOLD = {"queue": {"size": 256, "hold": "10s"}}
ROUTE = {"read_timeout": "5s", "deadline": "20s"}
RESTART_S = 1.5  # longer than all tries of any SDK's default


@pytest.mark.parametrize("kind", ["versitygw", "seaweedfs"])
def test_a_restart_within_the_hold(kind, fresh_store, sidecar, client, bodies):
    store = fresh_store(kind, peers=1)
    front = sidecar(config(store, route={**ROUTE, "replay_after_send": "reset"}, **HOLD))
    clients = [client(Boto, front, store), client(Js, front, store)]
    # objects so small that an answer leaves the store whole or not at all
    storm = Storm(clients, bodies, f"hold-{kind}/", ops=("put", "get", "head", "list"), sizes=(300, 2000))
    with storm:
        storm.run_for(1)
        store.kill(0)
        began = time.monotonic()
        storm.run_for(RESTART_S)
        store.start(0)
        away = time.monotonic() - began
        storm.run_for(0.5)
        before = storm.done
        storm.run_for(1)
    assert not storm.failures, f"{len(storm.failures)} of {storm.done} failed; away {away:.1f} s: {storm.failures[:5]}"
    assert not failed(front)
    assert storm.done > before + 20, "no traffic after the restart"
    slowest = max(line["request_time"] for line in front.access())
    assert slowest >= RESTART_S * 0.9, f"nothing waited (the slowest took {slowest} s): the restart met no traffic"
    storm.audit()
