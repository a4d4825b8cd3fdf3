"""Lesson 5.3, replayed: retries, quarantine, backups. Ten seconds of the lesson are one second here."""
import re
import time

from bed.config import http, peer
from bed.origin import sha256
from bed.play import meet, paced, sleep_until
from bed.process import wait_until
from bed.sidecar import chain

FAIL_TIMEOUT = 1.0
DISABLED = "upstream server temporarily disabled"
SECONDS = re.compile(r"\d+\.\d{3}$")


def pool(dead, alive, route=None, **keys):
    """pool-fail of the lesson: one dead peer, one alive, max_fails=1."""
    return http(dead, alive, max_fails=1, fail_timeout="1s", route=route, **keys)


def test_first_request_after_a_death_pays_and_is_saved(sidecar, origin, dead):
    alive, gone = origin("b-node-1"), dead()
    s = sidecar(pool(gone, alive))

    response, line = meet(s, gone)
    assert (response.status, response.text) == (200, "b-node-1\n"), "the client must not notice the dead peer"
    assert line["status"] == 200
    assert line["upstream_addr"] == f"{gone}, {alive.address}"
    assert line["upstream_status"] == "502, 200"
    connect = chain(line, "upstream_connect_time")
    assert connect[0] == "-" and re.match(r"0\.0\d\d$", connect[1]), f"ct of the lesson is '-, 0.000', got {connect}"
    assert chain(line, "upstream_header_time")[0] == "-"
    assert all(SECONDS.match(t) for t in chain(line, "upstream_response_time")), line["upstream_response_time"]
    assert line["tries"] == 2 and line["retry_reason"], line

    event = s.wait_event(DISABLED)
    assert (event["peer"], event["backend"], event["fails"]) == (gone, "pool", 1), event
    assert "connecting to upstream" in event["while"] and event["until"] and event["level"] == "warn", event
    s.wait_event("connect() failed while connecting to upstream")

    for _ in range(8):
        response, line = s.traced("GET", "/fail/x")
        assert response.status == 200
        assert line["upstream_addr"] == alive.address, "quarantined: a single address, no attempt"
        assert line["tries"] == 1 and not line["retry_reason"]
    assert len(s.events(DISABLED)) == 1, "logged once per transition"


def test_quarantine_makes_no_connect_and_one_trial_follows(sidecar, origin):
    flaky, alive = origin("flaky", "at=accept rst"), origin("alive")  # refuses visibly: its accepts are counted
    s = sidecar(pool(flaky, alive))

    response, line = meet(s, flaky)
    quarantined = time.monotonic()
    assert response.status == 200 and chain(line) == [flaky.address, alive.address]
    assert flaky.accepted == 1

    while time.monotonic() < quarantined + FAIL_TIMEOUT - 0.15:
        assert s.get("/fail/x").origin == "alive"
        time.sleep(0.02)
    assert flaky.accepted == 1, "a quarantined peer sees no connect"

    sleep_until(quarantined + FAIL_TIMEOUT + 0.05)
    trial = time.monotonic()
    while time.monotonic() < trial + FAIL_TIMEOUT - 0.2:
        assert s.get("/fail/x").status == 200
        time.sleep(0.01)
    assert flaky.accepted == 2, "after fail_timeout exactly one trial, and then quarantine again"
    assert len(s.events(DISABLED)) == 2
    assert s.events("upstream readmitted") == []


def test_probation_chart(sidecar, origin, dead):
    """Every 3 seconds (0.3 s) for 30 (3 s): two addresses where the peer is on trial, one while it is out."""
    alive, gone = origin(), dead()
    s = sidecar(pool(gone, alive))
    meet(s, gone)
    start = time.monotonic()
    chart = [(0.0, 2)]
    for i in range(1, 11):
        sleep_until(start + 0.3 * i)
        response, line = s.traced("GET", "/fail/x")
        assert response.status == 200, f"at {0.3 * i:.1f} s: {response!r}"
        chart.append((0.3 * i, len(chain(line))))
    trials = [t for t, n in chart if n == 2]
    gaps = [round(b - a, 2) for a, b in zip(trials, trials[1:])]
    assert 3 <= len(trials) <= 4, f"chart {chart}"
    assert all(FAIL_TIMEOUT - 0.05 <= gap <= FAIL_TIMEOUT + 0.7 for gap in gaps), f"gaps {gaps}, chart {chart}"


def test_recovered_peer_is_readmitted(sidecar, origin):
    back, alive = origin("back", "rst_request=0 count=1"), origin("alive")
    s = sidecar(pool(back, alive))
    meet(s, back)
    time.sleep(FAIL_TIMEOUT + 0.05)
    wait_until("the peer to serve again", lambda: s.get("/fail/x").origin == "back", 3)
    event = s.wait_event("upstream readmitted")
    assert (event["peer"], event["backend"]) == (back.address, "pool")
    names = [s.get("/fail/x").origin for _ in range(10)]
    assert names.count("back") == 5, f"round robin over both again, got {names}"
    assert len(s.events(DISABLED)) == 1


def test_next_upstream_off_gives_502_with_the_dead_peer_alone(sidecar, origin, dead):
    alive, gone = origin(), dead()
    s = sidecar(pool(gone, alive, route={"next_upstream": "off"}))
    response, line = meet(s, gone)
    assert response.status == 502 and response.header("X-Fairlead-Error") == "upstream_failed", repr(response)
    assert line["upstream_addr"] == gone and line["upstream_status"] == "502" and line["status"] == 502
    assert line["error"] == "upstream_failed" and line["class"] == "connect_failure"
    assert alive.requests == s.metrics().sum("fairlead_requests_total", status_class="2xx")
    assert s.get("/fail/x").status == 200, "judged although not retried: the peer is quarantined now"


def test_all_quarantined_is_503_without_a_connect(sidecar, origins):
    a, b = origins(2)
    for o in (a, b):
        o.rules("at=accept rst")
    s = sidecar(pool(a, b))
    response, line = s.traced("GET", "/fail/x")
    assert response.status == 502 and response.header("X-Fairlead-Error") == "upstream_failed"
    assert sorted(chain(line)) == sorted([a.address, b.address])

    response, line = s.traced("GET", "/fail/x")
    assert response.status == 503, "nobody left to try"
    assert response.header("X-Fairlead-Error") == "no_live_upstream"
    assert response.header("X-Fairlead-Backend") == "pool" and response.header("Retry-After") == "1"
    assert line["upstream_addr"] == "-" and line["upstream_status"] == "-" and line["tries"] == 0
    assert (line["error"], line["class"]) == ("no_live_upstream", "no_live_upstreams")
    assert line["request_time"] <= 0.02, "fast: no connect, no wait"
    assert a.accepted + b.accepted == 2
    event = s.wait_event("no live upstreams")
    assert event["backend"] == "pool"


def test_silent_peers_give_504(sidecar, origins):
    a, b = origins(2)
    for o in (a, b):
        o.rules("hang")
    s = sidecar(pool(a, b, route={"read_timeout": "200ms"}))
    response, line = s.traced("GET", "/fail/x")
    assert response.status == 504 and response.header("X-Fairlead-Error") == "upstream_timeout", repr(response)
    assert line["upstream_status"] == "504, 504" and line["class"] == "read_timeout"
    assert all(re.match(r"0\.\d\d\d$", t) for t in chain(line, "upstream_connect_time"))
    assert 0.38 <= line["request_time"] < 1.0
    s.wait_event("upstream timed out while reading response header from upstream")
    response, line = s.traced("GET", "/fail/x")
    assert response.status == 503 and line["upstream_addr"] == "-", "both timed out: 503, told apart from 504"


def test_timed_out_post_is_not_repeated(sidecar, origins):
    a, b = origins(2)
    for o in (a, b):
        o.rules("hang method=POST")
    s = sidecar(pool(a, b, route={"read_timeout": "200ms"}))
    response, line = s.traced("POST", "/fail/x", body=b"pay=1")
    assert response.status == 504 and len(chain(line)) == 1, "the work may be done although the answer is lost"
    assert len(a.ledger("POST")) + len(b.ledger("POST")) == 1
    assert s.metrics().sum("fairlead_retry_refused_total", reason="class") == 1


def test_post_to_a_refused_port_is_repeated(sidecar, origin, dead):
    alive, gone = origin(), dead()
    body = b"pay=1;" * 2000
    s = sidecar(pool(gone, alive))
    response, line = meet(s, gone, "POST", body=body)
    assert response.status == 200 and len(chain(line)) == 2, "nothing was sent to the dead peer"
    posts = alive.ledger("POST")
    assert len(posts) in (1, 2) and all(p.sha256 == sha256(body) and p.complete for p in posts), posts


def test_non_idempotent_repeats_a_post(sidecar, origins):
    a, b = origins(2)
    for o in (a, b):
        o.rules("hang method=POST")
    s = sidecar(pool(a, b, route={"read_timeout": "200ms", "next_upstream": ["error", "timeout", "non_idempotent"]}))
    response, line = s.traced("POST", "/fail/x", body=b"pay=1")
    assert response.status == 504 and len(chain(line)) == 2
    assert len(a.ledger("POST")) == len(b.ledger("POST")) == 1, "why the option exists, and why not to use it"


def test_backup_carries_everything_and_traffic_reverts(sidecar, origin):
    primary, page = origin("primary"), origin("page", "body=\"we'll be right back\\n\"")
    primary.refuse()
    s = sidecar(http(peer(primary, max_fails=1, fail_timeout="1s"), peer(page, backup=True)))

    response, line = s.traced("GET", "/backup/x")
    assert response.text == "we'll be right back\n" and chain(line) == [primary.address, page.address]
    for _ in range(10):
        response, line = s.traced("GET", "/backup/x")
        assert response.status == 200 and line["upstream_addr"] == page.address
    assert s.metrics().sum("fairlead_on_backup", backend="pool") == 1

    primary.listen()
    wait_until("traffic to revert", lambda: s.get("/backup/x").origin == "primary", 3)
    page.forget()
    assert {s.get("/backup/x").origin for _ in range(20)} == {"primary"}, "the backup is out of rotation again"
    assert page.requests == 0
    assert s.metrics().sum("fairlead_on_backup", backend="pool") == 0


def test_backup_is_never_chosen_while_a_primary_lives(sidecar, origins):
    a, b, spare = origins(3)
    s = sidecar(http(a, b, peer(spare, backup=True)))
    assert {s.get("/backup/x").origin for _ in range(12)} == {"a", "b"}
    assert spare.accepted == 0


def test_q2_three_fails_on_a_peer_that_dies_instantly(sidecar, origin):
    """max_fails=3 fail_timeout=30s, the first 90 seconds; 20 seconds of the question are one here."""
    gone, alive = origin("gone", "at=accept rst"), origin("alive")
    s = sidecar(http(gone, alive, max_fails=3, fail_timeout="1500ms"))
    start = time.monotonic()
    lines = paced(20, 4.2, lambda i: (time.monotonic() - start, *s.traced("GET", "/x")))
    assert all(response.status == 200 for _, response, _ in lines), "every request is saved by the live peer"
    met = [t for t, _, line in lines if gone.address in chain(line)]
    assert len(met) == gone.accepted
    assert len([t for t in met if t < 1.0]) == 3, f"three sacrificed attempts trip it: {met}"
    later = [t for t in met if t >= 1.0]
    assert 1 <= len(later) <= 2, f"then one trial per fail_timeout: {met}"
    gaps = [b - a for a, b in zip([met[2]] + later, later)]
    assert all(1.45 <= gap <= 1.9 for gap in gaps), f"gaps {gaps}"
    events = s.events(DISABLED)
    assert [e["fails"] for e in events[:1]] == [3], events
    assert len(events) == 1 + len(later), "one line per transition"
