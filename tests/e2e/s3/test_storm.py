"""Steady traffic of several clients while peers are killed, hung, continued and started again under it. No read fails,
no byte is wrong, nothing that was acknowledged is lost; a write fails only where repeating it could change what the
store keeps, and then the log says so."""
import pytest

from bed.sidecar import chain
from ground.bodies import KIB
from ground.clients import Boto, Js
from ground.front import config, failed
from ground.storm import SIZES, Storm

KEPT = (200, 3 * KIB, 40 * KIB)  # bodies that fit in replay_body
READS = {"GetObject", "HeadObject", "ListObjects"}
# a body that was already flowing when its peer died: the client sees a short one, never a wrong one
CUT = {"truncated"}
# why a write was not repeated; a kept connection that died is not listed as a failure of its own
REFUSED = {"class", "body_not_replayable", "not_listed"}
THREADS = 3


def account(front, storm, faults, honest):
    """Each failure that a client saw is in the log, is of a kind that the policy allows, and there are few of them."""
    lines = failed(front)
    for line in lines:
        if line["operation"] in READS:
            assert line["error"] in CUT, f"a read failed: {line}"
        else:
            assert line["error"] in honest and line["retry_reason"] in REFUSED, f"a write failed: {line}"
    assert len(lines) == len(storm.failures), f"clients saw {storm.failures}, the log has {lines}"
    workers = len(storm.threads)
    assert len(lines) <= workers * faults, f"{len(lines)} failures of {workers} workers in {faults} faults"
    assert storm.done > 100, f"only {storm.done} operations"


@pytest.mark.parametrize("policy", ["never", "reset"])
def test_peers_killed_and_started(policy, store, sidecar, client, bodies):
    """With replay_after_send: reset and bodies that are kept not one client sees an error, except for an answer whose
    body was cut in the middle."""
    front = sidecar(config(store, route={"replay_after_send": policy}, fail_timeout="1s"))
    clients = [client(Boto, front, store), client(Js, front, store)]
    with Storm(clients, bodies, f"kill-{policy}/", sizes=SIZES if policy == "never" else KEPT,
               threads=THREADS) as storm:
        for n in (0, 1, 2):
            storm.run_for(0.7)
            store.kill(n)
            storm.run_for(0.7)
            store.start(n)
        storm.run_for(0.7)
    account(front, storm, 3, {"upstream_failed", "stale_reuse"} if policy == "never" else set())
    storm.audit()
    assert front.metrics().sum("fairlead_rescued_requests_total") > 0


def test_peers_hung_and_continued(store, sidecar, client, bodies):
    """Writes that were fully sent to a peer when it hung are answered 503 at their deadline: it may still commit."""
    front = sidecar(config(store, route={"read_timeout": "1s", "deadline": "2s"}, fail_timeout="5s"))
    clients = [client(Boto, front, store), client(Js, front, store)]
    with Storm(clients, bodies, "hang/", threads=THREADS) as storm:
        for n in (0, 1):
            storm.run_for(0.7)
            store.hang(n)
            storm.run_for(3)
            store.cont(n)
        storm.run_for(1)
    account(front, storm, 2, {"deadline", "upstream_timeout"})
    late = [line for line in front.access() if line["operation"] in READS and len(chain(line)) > 1]
    assert late, "no read met the hung peer and was rescued"
    storm.audit()
