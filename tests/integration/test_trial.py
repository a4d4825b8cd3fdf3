"""Probation without victims: one trial, nobody else touches the peer; all threads share one view."""
import time

import pytest

from bed.config import http, peer
from bed.play import meet, parallel
from bed.process import wait_until
from bed.sidecar import chain

FAIL_TIMEOUT = 1.0
THREADS = [1, 4]


def tripped(sidecar, suspect, others, threads, **keys):
    """A sidecar that has just quarantined `suspect`, right at the end of the window."""
    suspect.rules("rst_request=0 count=1")
    s = sidecar({"threads": threads, **http(suspect, *others, max_fails=1, fail_timeout="1s", **keys)})
    meet(s, suspect, target="/x", tries=12)
    s.wait_event("upstream server temporarily disabled")
    suspect.forget()
    time.sleep(FAIL_TIMEOUT + 0.1)
    return s


@pytest.mark.parametrize("threads", THREADS)
def test_one_trial_of_twenty_concurrent_requests(sidecar, origins, threads):
    suspect, b, c = origins(3)
    s = tripped(sidecar, suspect, [b, c], threads)
    suspect.rules("delay=600")
    results = parallel(20, lambda i: s.traced("GET", "/x"))
    assert {r.status for r, _ in results} == {200}
    assert suspect.requests == 1, f"one trial, not {suspect.requests}"
    assert suspect.accepted <= 1
    others = [line["request_time"] for r, line in results if r.origin != "a"]
    assert len(others) == 19 and max(others) < 0.5, "nobody waits for the trial"
    wait_until("the readmission", lambda: s.events("upstream readmitted"), 3)
    suspect.rules()
    share = [s.get("/x").origin for _ in range(12)].count("a")
    assert share == 4 if threads == 1 else 1 <= share <= 8, f"a full share again, not {share} of 12"


@pytest.mark.parametrize("threads", THREADS)
def test_failed_trial_costs_no_client_and_only_one_attempt(sidecar, origins, threads):
    suspect, b = origins(2)
    s = tripped(sidecar, suspect, [b], threads)
    suspect.rules("rst_request=0")
    results = parallel(20, lambda i: s.traced("GET", "/x"))
    assert {r.status for r, _ in results} == {200}
    assert suspect.requests == 1
    trial = [line for _, line in results if suspect.address in chain(line)]
    assert len(trial) == 1 and chain(trial[0]) == [suspect.address, b.address]
    time.sleep(0.3)
    assert len(s.events("upstream server temporarily disabled")) == 2
    for _ in range(10):
        assert s.get("/x").origin == "b", "quarantined again for a whole fail_timeout"
    assert suspect.requests == 1


def test_abandoned_trial_is_neutral(sidecar, origins):
    suspect, b = origins(2)
    s = tripped(sidecar, suspect, [b], 1)
    suspect.rules("hang count=1")
    wires = []
    for _ in range(4):  # one of these is the trial; its client leaves
        wires.append(s.wire().request("GET", "/x"))
    suspect.until(hung=1)
    for wire in wires:
        wire.close()
    suspect.until(peer_fin=1)
    wait_until("the next request to be the trial", lambda: s.get("/x").origin == "a", 1)
    s.wait_event("upstream readmitted")
    assert len(s.events("upstream server temporarily disabled")) == 1


def test_trial_prefers_a_request_that_can_be_repeated(sidecar, origins):
    suspect, b = origins(2)
    s = tripped(sidecar, suspect, [b], 1)
    for _ in range(6):
        assert s.call("POST", "/x", body=b"n").origin == "b", "a POST is not risked while others are there"
    assert suspect.requests == 0
    assert "a" in {s.get("/x").origin for _ in range(2)}, "a GET is"
    assert suspect.requests == 1


def test_trial_takes_any_request_after_one_further_window(sidecar, origins):
    suspect, b = origins(2)
    s = tripped(sidecar, suspect, [b], 1)
    start = time.monotonic()
    wait_until("a POST to become the trial", lambda: s.call("POST", "/x", body=b"n").origin == "a", 3, 0.05)
    assert time.monotonic() - start >= 0.7


def test_quarantine_doubles_only_when_asked(sidecar, origins):
    suspect, b = origins(2)
    s = sidecar(http(suspect, b, max_fails=1, fail_timeout="500ms", quarantine_max="4x"))
    suspect.rules("rst_request=0")
    start = time.monotonic()
    while time.monotonic() < start + 4.2:
        assert s.get("/x").status == 200
        time.sleep(0.01)
    times = [e.at for e in suspect.ledger()]
    gaps = [round(y - x, 2) for x, y in zip(times, times[1:])]
    assert len(gaps) >= 2, gaps
    for gap, want in zip(gaps, (0.5, 1.0, 2.0)):
        assert want - 0.03 <= gap <= want * 1.1 + 0.15, f"0.5, 1, 2 s with up to 10 % added, got {gaps}"


@pytest.mark.parametrize("threads", [4])
def test_threads_share_the_failure_count(sidecar, origins, threads):
    bad, b, c = origins(3)
    bad.rules("at=accept rst")
    s = sidecar({"threads": threads, **http(bad, b, c, max_fails=3, fail_timeout="10s")})
    for _ in range(60):  # each on a connection of its own, so that all threads take part
        assert s.get("/x").status == 200
    assert bad.accepted == 3, f"three failures in all, not three a thread: {bad.accepted}"
    assert s.wait_event("upstream server temporarily disabled")["fails"] == 3
    assert len(s.events("upstream server temporarily disabled")) == 1


def test_threads_share_max_conns(sidecar, origins):
    a, = origins(1)
    a.rules("delay=500")
    s = sidecar({"threads": 4, **http(peer(a, max_conns=4))})
    statuses = [r.status for r in parallel(16, lambda i: s.get("/x"))]
    assert a.stats()["in_flight_peak"] <= 4 + 3, "may overshoot by threads - 1"
    assert statuses.count(503) >= 16 - 7 and set(statuses) <= {200, 503}, statuses
