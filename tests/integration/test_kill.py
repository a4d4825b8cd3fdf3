"""A peer dies under load. What the client sees is decided by what can safely be repeated, never by luck."""
import collections
import threading
import time

import pytest

from bed.config import s3
from bed.origin import sha256
from bed.play import Caller, paced
from bed.sidecar import chain, next_id

RATE = 200
BODY = b"payload " * 128


class Load:
    """A steady mix of requests; `kinds` are (method, query, headers) by turns, each with a key of its own."""

    KINDS = {
        "get": ("GET", "", {}), "put": ("PUT", "", {}),
        "put-if-absent": ("PUT", "", {"If-None-Match": "*"}), "create-upload": ("POST", "?uploads", {}),
    }

    def __init__(self, s, kinds, rate=RATE):
        self.s, self.kinds, self.rate = s, kinds, rate
        self.results = []  # (kind, key, request id, status, error token)

    def run(self, seconds, event=None, at=None):
        """Runs the load; calls `event()` once `at` seconds have passed."""
        caller = Caller(self.s.data)
        timer = threading.Timer(at, event) if event else None
        if timer:
            timer.start()

        def one(i):
            kind = self.kinds[i % len(self.kinds)]
            method, query, headers = self.KINDS[kind]
            key, rid = f"/b/{kind}-{i}", next_id()
            body = BODY if method == "PUT" else b"" if method == "POST" else None
            response = caller.call(method, key + query, {**headers, "x-request-id": rid}, body)
            return kind, key, rid, response.status, response.header("X-Fairlead-Error")

        self.results = paced(self.rate, seconds, one, 16)
        if timer:
            timer.join()
        return self

    def failures(self, *kinds):
        return [r for r in self.results if r[3] >= 300 and (not kinds or r[0] in kinds)]

    def explained(self, failures):
        """Each failure with its access log line, for messages."""
        return [(r, self.s.line_of(r[2])) for r in failures]


@pytest.fixture
def three(origins):
    peers = origins(3)
    for o in peers:
        o.rules("delay=8")  # so that something is always in flight
    return peers


def test_kill_9_no_get_fails_and_puts_only_when_wholly_sent(sidecar, three):
    a, b, c = three
    s = sidecar(s3(*three))
    load = Load(s, ["get", "put"]).run(3, a.kill, 1)
    assert load.failures("get") == [], f"a read can always be repeated: {load.explained(load.failures('get'))}"
    for (kind, key, _, status, token), line in load.explained(load.failures()):
        assert status == 503, "s3 routes answer 503, which every SDK retries"
        assert token in ("upstream_failed", "stale_reuse"), (token, line)
        assert chain(line)[-1] == a.address, f"only what was sent to the dead peer may fail: {line}"
        assert chain(line, "upstream_connect_time")[-1] != "-", f"a connect failure is never a reason: {line}"
    assert len(load.failures("put")) <= 6, f"only those in flight at the moment: {load.failures('put')}"
    assert len(load.results) == RATE * 3
    statuses = collections.Counter(r[3] for r in load.results)
    assert statuses[200] >= RATE * 3 - 6, statuses


def test_kill_9_no_put_fails_with_replay_after_reset(sidecar, three):
    s = sidecar(s3(*three, route={"replay_after_send": "reset"}))
    load = Load(s, ["get", "put"]).run(3, three[0].kill, 1)
    assert load.failures() == [], load.explained(load.failures())
    puts = [e for o in three[1:] for e in o.ledger("PUT")]
    assert all(e.complete and e.sha256 == sha256(BODY) for e in puts), "a replayed body is the same body"


def test_abrupt_death_never_doubles_a_conditional_or_creating_request(sidecar, three):
    """The peer dies as by kill -9 (port closed, connections reset) but its ledger survives to testify."""
    a = three[0]
    s = sidecar(s3(*three, route={"replay_after_send": "reset"}))
    load = Load(s, ["put-if-absent", "create-upload", "get"]).run(3, a.refuse, 1)
    seen = collections.Counter(e.header("x-request-id") for o in three for e in o.ledger() if e.method != "GET")
    assert seen and max(seen.values()) == 1, f"seen twice: {[k for k, n in seen.items() if n > 1]}"
    assert load.failures("get") == []
    writes = [r for r in load.results if r[0] != "get"]
    missing = [r for r in writes if r[2] not in seen and r[3] < 300]
    assert missing == [], f"answered 2xx although no origin saw it: {missing}"
    for (_, _, rid, status, token), line in load.explained(load.failures()):
        assert status == 503 and token in ("upstream_failed", "stale_reuse"), line
        assert chain(line)[-1] == a.address, line


def test_hang_is_never_replayed_even_with_reset(sidecar, origins):
    """A hung backend may still commit: after a timeout no write is repeated."""
    a, b = origins(2)
    for o in (a, b):
        o.rules("hang method=PUT")
    s = sidecar(s3(a, b, route={"replay_after_send": "reset", "deadline": "500ms"}))
    response, line = s.traced("PUT", "/b/k", body=BODY)
    assert response.status == 503 and response.header("X-Fairlead-Error") == "deadline", repr(response)
    assert len(a.ledger()) + len(b.ledger()) == 1
    assert len(chain(line)) == 1


def test_graceful_stop_fails_nothing(sidecar, three):
    s = sidecar(s3(*three))
    load = Load(s, ["get", "put", "put-if-absent", "create-upload"]).run(3, three[0].graceful, 1)
    assert load.failures() == [], load.explained(load.failures())
    assert three[0].wait(5) == 0, "the origin could finish: idle connections were closed in time"


def test_restart_comes_back_into_rotation(sidecar, origin, three):
    a = three[0]
    s = sidecar(s3(*three, fail_timeout="500ms"))
    load = Load(s, ["get"]).run(2, a.kill, 0.3)
    assert load.failures() == []
    again = origin("a2", port=a.port)
    deadline = time.monotonic() + 3
    while again.requests == 0 and time.monotonic() < deadline:
        assert s.get("/b/x").status == 200
        time.sleep(0.02)
    assert again.requests > 0, "a returned peer gets its trial within fail_timeout"
    assert load.run(0.5).failures() == []
