"""Part 049 on passive health checks: window, single-server trap, route policy, profiles, the four drills."""
import time

import pytest

from bed.config import backend, http, peer
from bed.play import meet, paced, parallel, sleep_until
from bed.sidecar import chain

DISABLED = "upstream server temporarily disabled"
SCALE = 0.2  # ten seconds of the text are two here
API = "/api"


def fail_at(s, broken, start, moments):
    """Lets one request fail at the broken peer at each moment (in seconds of the text)."""
    for moment in moments:
        sleep_until(start + moment * SCALE)
        response, _ = meet(s, broken, target="/x")
        assert response.status == 200


def test_failure_window_timeline(sidecar, origin, origins):
    """max_fails=3 fail_timeout=10s: failures at T+0, 3, 8 -> out from T+8 to T+18."""
    broken, (b, c) = origin("app-a", "rst_request=0"), origins(2)
    s = sidecar(http(broken, b, c, max_fails=3, fail_timeout="2s"))
    start = time.monotonic()
    fail_at(s, broken, start, [0, 3])
    assert s.events(DISABLED) == [], "two failures are not three"
    fail_at(s, broken, start, [8])
    out = time.monotonic()
    event = s.wait_event(DISABLED)
    assert (event["peer"], event["fails"]) == (broken.address, 3)
    seen = broken.requests
    while time.monotonic() < out + 10 * SCALE - 0.15:
        assert s.get("/x").status == 200
        time.sleep(0.03)
    assert broken.requests == seen, "avoided from T+8 to T+18"
    sleep_until(out + 10 * SCALE + 0.05)
    response, line = meet(s, broken, target="/x")
    assert response.status == 200 and len(chain(line)) == 2, "live traffic is the probe, and is saved"


def test_window_is_a_true_one(sidecar, origin, origins):
    """Failures at 0, 7.5, 12.5: never three within ten seconds. A fourth at 15 makes three (7.5, 12.5, 15)."""
    broken, (b, c) = origin("app-a", "rst_request=0"), origins(2)
    s = sidecar(http(broken, b, c, max_fails=3, fail_timeout="2s"))
    start = time.monotonic()
    fail_at(s, broken, start, [0, 7.5, 12.5])
    assert s.events(DISABLED) == [], "the failure at 0 has left the window"
    fail_at(s, broken, start, [15])
    assert s.wait_event(DISABLED)["fails"] == 3


@pytest.mark.parametrize("second", ["alone", "beside a peer that is down"])
def test_single_server_trap(sidecar, origin, dead, second):
    only = origin("only", "at=accept rst")
    peers = [only] + ([peer(dead(), down=True)] if second != "alone" else [])
    s = sidecar(http(*peers, max_fails=1, fail_timeout="10s"))
    for i in range(5):
        response, line = s.traced("GET", "/x")
        assert response.status == 502 and chain(line) == [only.address], f"request {i}: {response!r}"
    assert only.accepted == 5 and s.events(DISABLED) == []
    only.rules()
    assert s.get("/x").status == 200, "no blackout after recovery: there is nowhere else to go"


def api(a, b, **paths):
    return http(a, b, max_fails=1, fail_timeout="5s",
                route={"paths": {f"/api/{name}/": policy for name, policy in paths.items()}})


PAYMENTS = {"next_upstream": ["error", "timeout", "invalid_header"], "next_upstream_tries": 1}
CATALOG = {"next_upstream": ["error", "timeout", "invalid_header", "http_502", "http_503", "http_504"]}


def test_payments_never_evict_and_never_repeat(sidecar, origins):
    a, b = origins(2)
    for o in (a, b):
        o.rules("status=500 path=/api/payments/")
    s = sidecar(api(a, b, payments=PAYMENTS, catalog=CATALOG))
    for _ in range(10):
        response, line = s.traced("POST", "/api/payments/1", body=b"amount=1")
        assert response.status == 500 and response.header("X-Fairlead-Error") is None, "relayed as it is"
        assert line["upstream_status"] == "500" and len(chain(line)) == 1
    assert len(a.ledger("POST")) + len(b.ledger("POST")) == 10, "no duplicate write"
    assert {s.get("/api/catalog/1").origin for _ in range(6)} == {"a", "b"}, "the catalogue keeps both peers"
    assert s.events(DISABLED) == []


def test_payments_connect_failure_is_not_retried_with_tries_1(sidecar, origin, dead):
    alive, gone = origin(), dead()
    s = sidecar(api(gone, alive, payments=PAYMENTS))
    response, line = meet(s, gone, "POST", "/api/payments/1", body=b"amount=1")
    assert response.status == 502 and chain(line) == [gone]
    assert s.metrics().sum("fairlead_retry_refused_total", reason="tries") >= 1


def test_counted_status_takes_the_peer_out_for_that_route_only(sidecar, origins):
    a, b = origins(2)
    a.rules("status=500 path=/api/orders/")
    orders = {"next_upstream": ["error", "timeout", "http_500"]}
    s = sidecar(api(a, b, orders=orders, catalog=CATALOG))
    response, line = meet(s, a, target="/api/orders/1")
    assert response.status == 200 and line["upstream_status"] == "500, 200"
    event = s.wait_event(DISABLED)
    assert event["peer"] == a.address and event.get("route"), f"names the route it is out for: {event}"
    assert {s.get("/api/orders/1").origin for _ in range(8)} == {"b"}, "out for the orders"
    assert {s.get("/api/catalog/1").origin for _ in range(8)} == {"a", "b"}, "in for everything else"


def test_communication_failure_takes_the_peer_out_for_all_routes(sidecar, origins):
    a, b = origins(2)
    a.rules("rst_request=0 path=/api/orders/")
    s = sidecar(api(a, b, orders=CATALOG, catalog=CATALOG))
    meet(s, a, target="/api/orders/1")
    s.wait_event(DISABLED)
    assert {s.get("/api/catalog/1").origin for _ in range(8)} == {"b"}


# -- profiles -------------------------------------------------------------------------------------------------------
UNITS = {"ms": 1, "s": 1000, "m": 60000, "h": 3600000}


def as_ms(value):
    """A duration of the admin API in milliseconds, whether it says '1s' or 1000."""
    if isinstance(value, str):
        unit = "ms" if value.endswith("ms") else value[-1]
        return int(value[:-len(unit)]) * UNITS[unit]
    return value


def find_policy(document, name):
    """The object that describes route `name`, wherever the list or map of routes keeps it."""
    if isinstance(document, dict):
        if "next_upstream_tries" in document and name in (document.get(k) for k in ("name", "route", "bucket")):
            return document
        if isinstance(document.get(name), dict):
            return document[name]
        document = list(document.values())
    if isinstance(document, list):
        for item in document:
            found = find_policy(item, name)
            if found:
                return found
    return None


def field(policy, name):
    if name in policy:
        return policy[name]
    for nested in policy.values():
        if isinstance(nested, dict) and name in nested:
            return nested[name]
    raise AssertionError(f"/_/api/admin/routes does not show {name!r}: {policy}")


def listed(value):
    return set(value.replace(",", " ").split()) if isinstance(value, str) else set(value)


COMMUNICATION = {"error", "timeout", "invalid_header"}
PROFILES = {  # route numbers of section 23
    "read": {"connect_timeout": 1000, "read_timeout": 10000, "next_upstream_tries": 2, "next_upstream_timeout": 2000,
             "next_upstream": COMMUNICATION | {"http_502", "http_503", "http_504"}},
    "write": {"connect_timeout": 1000, "read_timeout": 30000, "next_upstream_tries": 1, "next_upstream": COMMUNICATION},
    "report": {"connect_timeout": 2000, "read_timeout": 300000, "next_upstream_tries": 1,
               "next_upstream": COMMUNICATION},
}
BACKENDS = {"read": ("least_conn", 3, "10s"), "write": ("round_robin", 3, "10s"), "report": ("round_robin", 2, "30s")}


@pytest.fixture
def profiles(sidecar, origins):
    a, b = origins(2)
    return sidecar({
        "backends": {f"{name}_api": backend(a, b, profile=name) for name in PROFILES},
        "routes": {**{name: {"backend": f"{name}_api", "profile": name} for name in PROFILES},
                   "tuned": {"backend": "read_api", "profile": "read", "read_timeout": "5s"}}})


@pytest.mark.parametrize("name", PROFILES)
def test_profile_route_numbers(profiles, name):
    document = profiles.admin("/_/api/admin/routes")
    policy = find_policy(document, name)
    assert policy, f"no route {name} in {document}"
    for key, want in PROFILES[name].items():
        value = field(policy, key)
        got = listed(value) if isinstance(want, set) else as_ms(value)
        assert got == want, f"profile {name}: {key} is {value!r}"


def test_profile_keys_below_override(profiles):
    policy = find_policy(profiles.admin("/_/api/admin/routes"), "tuned")
    assert as_ms(field(policy, "read_timeout")) == 5000
    assert field(policy, "next_upstream_tries") == 2


@pytest.mark.parametrize("name", ["read", "report"])
def test_profile_backend_numbers(sidecar, origin, name):
    _, max_fails, _ = BACKENDS[name]
    broken, good = origin("broken", "rst_request=0"), origin("good")
    s = sidecar(http(broken, good, profile=name))
    for i in range(1, max_fails + 1):
        meet(s, broken, target="/x", tries=12)
        if i < max_fails:
            time.sleep(0.1)
            assert s.events(DISABLED) == [], f"after {i} failures of {max_fails}"
    assert s.wait_event(DISABLED)["fails"] == max_fails


# -- drills (section 24) --------------------------------------------------------------------------------------------
def test_drill_1_process_down(sidecar, origins):
    a, b, c = origins(3)
    s = sidecar(http(a, b, c, max_fails=3, fail_timeout="10s"))
    for _ in range(6):
        assert s.get("/api/read/").status == 200
    a.kill()
    lines = [s.traced("GET", "/api/read/") for _ in range(100)]
    assert {r.status for r, _ in lines} == {200}, "early failures are retried"
    tried = [line for _, line in lines if a.address in chain(line)]
    assert 3 <= len(tried) <= 4, f"marked failed after the threshold: {len(tried)} attempts"
    assert all(len(chain(line)) == 2 for line in tried), "the attempt chain is in the log"
    assert s.wait_event(DISABLED)["peer"] == a.address
    assert {r.origin for r, _ in lines} == {"b", "c"}
    assert s.metrics().sum("fairlead_rescued_requests_total") == len(tried)


def test_drill_2_accepts_but_hangs(sidecar, origins):
    a, b = origins(2)
    a.rules("hang")
    s = sidecar(http(a, b, max_fails=1, fail_timeout="5s",
                     route={"read_timeout": "300ms", "next_upstream_timeout": "3s"}))
    results = parallel(30, lambda i: s.traced("GET", "/api/read/"))
    assert {r.status for r, _ in results} == {200}, "bounded retry"
    hung = [line for _, line in results if a.address in chain(line)]
    assert hung and all(chain(line)[0] == a.address and len(chain(line)) == 2 for line in hung)
    for line in hung:
        assert float(chain(line, "upstream_connect_time")[0]) < 0.1, "connect_time low"
        assert chain(line, "upstream_header_time")[0] == "-"
        assert 0.28 <= float(chain(line, "upstream_response_time")[0]) < 1.0, "the read timeout"
    assert a.stats()["in_flight_peak"] <= 30
    times = [s.traced("GET", "/api/read/")[1]["request_time"] for _ in range(10)]
    assert max(times) < 0.2, f"no pile-up once it is known: {times}"


def test_drill_3_one_route_answers_500(sidecar, origins):
    a, b = origins(2)
    for o in (a, b):
        o.rules("status=500 path=/api/report/")
    s = sidecar(http(a, b, route={"next_upstream": CATALOG["next_upstream"]}))
    for i in range(10):
        method = "GET" if i % 2 else "POST"
        response, line = s.traced(method, "/api/report/1", body=b"x" if method == "POST" else None)
        assert response.status == 500 and line["status"] == 500 and line["upstream_status"] == "500"
    assert len(a.ledger()) + len(b.ledger()) == 10
    assert {s.get("/api/read/").origin for _ in range(6)} == {"a", "b"}, "no global eviction"
    assert s.events(DISABLED) == []
    assert s.metrics().sum("fairlead_requests_total", status_class="5xx", error="") == 10


def test_drill_4_all_overloaded_answers_fast(sidecar, origins):
    peers = origins(3)
    for o in peers:
        o.rules("status=503")
    s = sidecar(http(*peers, max_fails=1, fail_timeout="5s", route={"next_upstream": CATALOG["next_upstream"]}))
    lines = paced(100, 1.5, lambda i: s.traced("GET", "/api/read/")[1], 16)
    assert {line["status"] for line in lines} == {503}
    attempts = sum(o.requests for o in peers)
    assert attempts <= 3 + 6, f"{attempts} attempts: each peer is out after its first counted answer"
    s.wait_event("no live upstreams")


def test_drill_4_no_amplification_when_nothing_is_quarantined(sidecar, origins):
    peers = origins(3)
    for o in peers:
        o.rules("at=accept rst")
    s = sidecar(http(*peers, max_fails=0, route={"next_upstream_tries": 3}))
    total = 400
    paced(150, total / 150, lambda i: s.get("/api/read/").status, 16)
    attempts = sum(o.accepted for o in peers)
    assert attempts >= total
    assert attempts <= total * 1.25, f"{attempts} attempts for {total} requests"
    assert s.metrics().sum("fairlead_retry_refused_total", reason="budget") > 0
