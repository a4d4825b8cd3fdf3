"""queue.hold for the only peer of a backend, which passive failures never block: requests whose tries broke wait too."""
import threading
import time

from bed.config import http, s3
from bed.sidecar import chain

HOLD = {"size": 4, "timeout": "250ms", "hold": "3s"}
AWAY_S = 0.8


def port_of(address):
    return int(address.rpartition(":")[2])


def in_background(run):
    box = []
    thread = threading.Thread(target=lambda: box.append(run()), daemon=True)
    thread.start()
    return lambda: thread.join(10) or box[0]


def test_the_only_peer_returns_within_the_hold(sidecar, origin, dead):
    """Any class, since nothing was sent; unhurried, and on no retry budget."""
    address = dead()
    s = sidecar(http(address, queue=HOLD, retry_budget={"ratio": "0%", "min_per_second": 0}))
    waits = [in_background(lambda m=method: s.traced(m, "/x", body=b"x" * 1000)) for method in ("GET", "POST", "PUT")]
    time.sleep(AWAY_S)
    origin("a", port=port_of(address))
    for wait in waits:
        response, line = wait()
        assert response.status in (200, 201, 204) and response.origin == "a", repr(response)
        assert AWAY_S * 0.9 <= line["request_time"] <= AWAY_S + 1
        assert 3 <= line["tries"] <= 12, line


def test_the_hold_has_an_end(sidecar, dead):
    s = sidecar(http(dead(), queue={**HOLD, "hold": "600ms"}))
    response, line = s.traced("GET", "/x")
    assert response.status == 502 and response.header("X-Fairlead-Error") == "upstream_failed"
    assert 0.5 <= line["request_time"] <= 1.5 and line["retry_reason"] in ("no_peer", "budget", "tries")


def test_a_full_queue_holds_no_more(sidecar, dead):
    s = sidecar(http(dead(), queue={**HOLD, "size": 1, "hold": "800ms"}))
    waiting = in_background(lambda: s.get("/x"))
    time.sleep(0.2)
    began = time.monotonic()
    assert s.get("/y").status == 502 and time.monotonic() - began < 0.3
    assert waiting().status == 502


def test_what_must_not_be_repeated_is_not_held(sidecar, origin):
    o = origin("a", "rst_request=0 method=POST count=1")
    s = sidecar(s3(o, queue=HOLD))
    response, line = s.traced("POST", "/b/k?uploads", body=b"")
    assert response.status == 503 and len(chain(line)) == 1 and line["retry_reason"] == "class"
    assert line["request_time"] < 0.5


def test_a_client_that_leaves_is_held_no_more(sidecar, dead):
    s = sidecar(http(dead(), queue=HOLD))
    with s.wire() as wire:
        wire.request("GET", "/x")
        time.sleep(0.3)
    line = s.wait_access(1)[0]
    assert line["status"] == 499 and line["request_time"] < 1
    time.sleep(0.3)
    assert len(s.access()) == 1
