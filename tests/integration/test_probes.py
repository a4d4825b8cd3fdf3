"""Active probing (http and s3): every answer and its verdict, two attempts, one connection, single flight, signatures. The
words are those of GET /_/api/admin/backends."""
import os
import re
import time

import pytest

from bed.config import backend
from bed.probing import KEY, MASKED, SECRET, http, judged, keys, probe_now, s3, store, verdict_becomes
from bed.process import wait_until
from bed.s3_store import Silent

UNCHECKED = "reachable, credentials not checked"
DENIED = "access denied; the probe cannot prove more"
BAD_CODES = ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidClientTokenId",
             "TokenRefreshRequired", "NotSignedUp"]



# -- answer -> verdict, with keys: rules of the origin; verdict; code; cause ({a} = address); note; requests ----------
LIST_403 = 'method=GET path=/ status=403 code={}'
HEAD_403 = "method=HEAD status=403"
ANSWERS = {
    "200": (["method=HEAD status=200"], "healthy", "", "", "", ["HEAD /releases"]),
    "204": (["method=HEAD status=204"], "healthy", "", "", "", ["HEAD /releases"]),
    "404": (["method=HEAD status=404"], "healthy", "", "", "bucket releases is absent", ["HEAD /releases"]),
    "403, AccessDenied": ([HEAD_403, LIST_403.format("AccessDenied")], "healthy", "", "", DENIED,
                          ["HEAD /releases", "GET /"]),
    "403, may list": ([HEAD_403, 'method=GET status=200 body="<ListAllMyBucketsResult/>"'], "healthy", "", "", "",
                      ["HEAD /releases", "GET /"]),
    "401, bare 403": (["method=HEAD status=401", "method=GET status=403"], "healthy", "", "", DENIED,
                      ["HEAD /releases", "GET /"]),
    "a code on HEAD": (['method=HEAD status=403 header="x-minio-error-code: AccessDenied"'], "healthy", "", "", DENIED,
                       ["HEAD /releases"]),
    "403, then silence": ([HEAD_403, "method=GET hang"], "healthy", "", "", DENIED,
                          ["HEAD /releases", "GET /", "GET /"]),
    "301": (['method=HEAD status=301 header="x-amz-bucket-region: eu-west-1"'], "erroring", "wrong_region",
            "wrong region or endpoint (status=301 expected=eu-west-1)", "", ["HEAD /releases"]),
    "307": (['method=HEAD status=307 header="Location: http://b.example/releases"'], "erroring", "wrong_region",
            "wrong region or endpoint (status=307 expected=http://b.example/releases)", "", ["HEAD /releases"]),
    "500": (["method=HEAD status=500"], "erroring", "http_500", "{a} answered with status 500", "", ["HEAD /releases"]),
    "503": (["method=HEAD status=503"], "erroring", "http_503", "{a} answered with status 503", "", ["HEAD /releases"]),
    "429": (["method=HEAD status=429"], "erroring", "http_429", "{a} answered with status 429", "", ["HEAD /releases"]),
    "400, InvalidRequest": (["method=HEAD status=400", 'method=GET status=400 code=InvalidRequest'], "erroring",
                            "http_400", "{a} answered with status 400 (InvalidRequest)", "", ["HEAD /releases", "GET /"]),
    "a page": (['method=HEAD status=404 header="Content-Type: text/html"'], "erroring", "not_s3",
               "{a} answers HTTP but not S3 (status=404)", "", ["HEAD /releases"]),
    "403, a page": ([HEAD_403, 'method=GET status=403 body="<html><h1>Go away</h1>"'], "erroring", "not_s3",
                    "{a} answers HTTP but not S3 (status=403 <html><h1>Go away</h1>)", "", ["HEAD /releases", "GET /"]),
    **{code: ([HEAD_403, LIST_403.format(code)], "auth-rejected", "credentials_rejected",
              f"credentials rejected (status=403 code={code} key={MASKED})", "", ["HEAD /releases", "GET /"])
       for code in BAD_CODES},
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_a_store(sidecar, origin, keys, name):
    rules, status, code, cause, note, requests = ANSWERS[name]
    o = origin("a", *rules)
    s = sidecar(s3(o, probe={"timeout": "300ms", **keys()}))
    v = judged(s)
    assert (v["status"], v["code"], v["cause"], v["note"]) == (status, code, cause.format(a=o.address), note)
    assert v["step"] == ("" if status == "healthy" else "status")
    assert v["source"] == "own" and v["probed_at"]
    assert [f"{e.method} {e.target}" for e in o.ledger()] == requests
    assert {e.header("Host") for e in o.ledger()} == {o.address}
    o.rules()
    assert s.get("/releases/x").status == (503 if status == "auth-rejected" else 200), "only a rejection blocks"
    assert s.admin("/_/ready")["backends"] == {"minio": status}
    assert s.metrics().sum("fairlead_probes_total", backend="minio") == 1


def broken(name, origin, dead, ports):
    """(address, something to close)"""
    if name == "refused":
        return dead(), None
    if name == "connect timeout":
        silent = Silent(ports)
        return silent.address, silent
    rules = {"hang": ["hang"], "no read": ["stop"], "fin": ["fin_response=0"], "rst": ["rst_request=0"],
             "at once": ["at=accept close"], "half a head": ["fin_response=12"], "banner": [r'raw="SSH-2.0-x\r\n"'],
             "garbage": [r'raw="HTTP/1.1 2x0 OK\r\n\r\n"']}
    return origin("a", *rules[name]).address, None


@pytest.mark.parametrize("name, code, step, cause", [
    ("refused", "connect_refused", "connect", "connect to {a} failed (Connection refused)"),
    ("connect timeout", "connect_timeout", "connect", "connect to {a} timed out"),
    ("hang", "no_answer", "head", "{a} accepts connections but does not answer"),
    ("no read", "no_answer", "head", "{a} accepts connections but does not answer"),
    ("fin", "premature_close", "head", "{a} closed the connection without an answer"),
    ("half a head", "premature_close", "head", "{a} closed the connection without an answer"),
    ("rst", "premature_close", "head", "{a} closed the connection without an answer (Connection reset by peer)"),
    ("banner", "invalid_header", "head", "the answer of {a} is not valid HTTP"),
    ("garbage", "invalid_header", "head", "the answer of {a} is not valid HTTP"),
])
@pytest.mark.parametrize("kind", ["s3", "http"])
def test_no_answer_is_unreachable(sidecar, origin, dead, ports, kind, name, code, step, cause):
    address, closing = broken(name, origin, dead, ports)
    config = s3(address, probe={"timeout": "300ms"}) if kind == "s3" else http(address, probe={"timeout": "300ms"})
    s = sidecar(config)
    backend_name = "minio" if kind == "s3" else "pool"
    v = judged(s, backend_name)
    cause = cause.format(a=address)
    assert (v["status"], v["code"], v["step"], v["cause"]) == ("unreachable", code, step, cause)
    line = s.wait_event("backend unhealthy")
    assert line["level"] == "error" and line["backend"] == backend_name and line["status"] == "unreachable"
    response = s.get("/releases/x")
    assert response.status == 503 and response.header("X-Fairlead-Error") == "backend_unavailable"
    assert line["cause"] == response.header("X-Fairlead-Cause") == cause and cause in response.text, "one cause everywhere"
    assert probe_now(s, backend_name)["cause"] == cause
    if closing:
        closing.close()


@pytest.mark.parametrize("rules, status, cause, note", [
    (["method=HEAD status=200"], "healthy", "", UNCHECKED),
    (["method=HEAD status=404"], "healthy", "", UNCHECKED),
    ([HEAD_403, LIST_403.format("InvalidAccessKeyId")], "healthy", "", UNCHECKED),
    (["method=HEAD status=301"], "healthy", "", UNCHECKED),
    (["method=HEAD status=503"], "erroring", "{a} answered with status 503", ""),
    (['method=HEAD status=200 header="Content-Type: text/html"'], "erroring",
     "{a} answers HTTP but not S3 (status=200)", ""),
])
def test_without_keys_an_answer_is_all_that_is_proved(sidecar, origin, rules, status, cause, note):
    o = origin("a", *rules)
    s = sidecar(s3(o))
    v = judged(s)
    assert (v["status"], v["cause"], v["note"]) == (status, cause.format(a=o.address), note)
    assert all(e.header("Authorization") is None for e in o.ledger())
    o.rules()
    assert s.get("/releases/x").status == 200, "auth-rejected cannot occur"


def test_list_buckets_where_no_bucket_is_known(sidecar, origin, keys):
    """… and its answer has a body, so that a throttle in text/plain is found in it."""
    o = origin("a", 'method=GET path=/ status=503 code=SlowDown header="Content-Type: text/plain"')
    config = s3(o, probe=keys())
    config["routes"] = {"*": {"backend": "minio"}}
    s = sidecar(config)
    v = judged(s)
    assert (v["status"], v["cause"]) == ("erroring", f"{o.address} answered with status 503 (SlowDown)")
    assert [f"{e.method} {e.target}" for e in o.ledger()] == ["GET /"]


def test_a_named_bucket_and_a_named_host(sidecar, origin, keys):
    o = origin("a")
    s = sidecar(s3(o, probe={"bucket": "canary", "host": "s3.example:9000", "region": "eu-west-1", **keys()}))
    assert judged(s)["status"] == "healthy"
    entry = o.only()
    assert (entry.method, entry.target, entry.header("Host")) == ("HEAD", "/canary", "s3.example:9000")
    assert re.search(rf"Credential={KEY}/\d{{8}}/eu-west-1/s3/aws4_request", entry.header("Authorization"))


def test_a_peer_that_was_found_by_a_name_is_called_by_it(sidecar, origin):
    o = origin("a")
    s = sidecar(s3(f"localhost:{o.port}"))
    assert judged(s)["status"] == "healthy"
    assert {e.header("Host") for e in o.ledger()} == {f"localhost:{o.port}"}


@pytest.mark.parametrize("answer, expect, status, cause", [
    ("status=200", "200-399", "healthy", ""),
    ("status=302", "200-399", "healthy", ""),
    ("status=404", "200-399", "erroring", "{a} answered with status 404"),
    ("status=503", "200-399", "erroring", "{a} answered with status 503"),
    ("status=404", "200,404", "healthy", ""),
    ("status=200", "204", "erroring", "{a} answered with status 200"),
    ("status=200 size=100000", "200", "healthy", ""),
    ("status=200 framing=chunked size=5000", "200", "healthy", ""),
    ("status=200 http10 framing=close body=x", "200", "healthy", ""),
    ("status=200 size=5000 cut=10 cut_end=fin", "200", "healthy", ""),
    (r'interim="HTTP/1.1 103 Early Hints\r\n\r\n" status=200', "200", "healthy", ""),
])
def test_http_probe(sidecar, origin, answer, expect, status, cause):
    o = origin("a", "path=/health " + answer)
    s = sidecar(http(o, probe={"expect": expect}))
    v = judged(s, "pool")
    assert (v["status"], v["cause"]) == (status, cause.format(a=o.address))
    assert [f"{e.method} {e.target}" for e in o.ledger()] == ["GET /health"]
    assert s.get("/x").status == 200, "an answer never blocks"


# -- two attempts, one connection -------------------------------------------------------------------------------------


def test_silent_once_is_not_hanging(sidecar, origin):
    o = origin("a", "hang count=1")
    s = sidecar(http(o, probe={"timeout": "400ms"}))
    assert judged(s, "pool")["status"] == "healthy"
    first, second = o.ledger()
    assert first.conn != second.conn and 0.3 <= second.at - first.at <= 3
    assert s.events("backend unhealthy") == []


def test_silent_twice_is_hanging(sidecar, origin):
    o = origin("a")
    s = sidecar(http(o, probe={"timeout": "400ms", "interval": "500ms"}))
    assert judged(s, "pool")["status"] == "healthy"
    o.freeze()
    frozen = time.monotonic()
    v = verdict_becomes(s, "unreachable", "pool")
    took = time.monotonic() - frozen
    assert v["cause"] == f"{o.address} accepts connections but does not answer"
    assert took >= 0.78, f"after two timeouts, not after {took:.2f} s"
    start = time.monotonic()
    assert s.get("/x").status == 503 and time.monotonic() - start < 0.3, "no more waiting"
    o.thaw()
    verdict_becomes(s, "healthy", "pool")
    assert s.get("/x").status == 200


def test_second_attempt_is_on_a_fresh_connection(sidecar, origin):
    """The peer takes the request on the kept connection and closes it without an answer: nobody hears of it."""
    o = origin("a")
    s = sidecar(http(o, probe={"interval": "200ms"}))
    wait_until("some probes", lambda: o.requests >= 3)
    assert o.accepted == 1
    o.rules("fin_response=0 count=1")
    wait_until("more probes", lambda: o.requests >= 7)
    assert o.accepted == 2
    assert s.backend("pool")["verdict"]["status"] == "healthy" and s.events("backend unhealthy") == []


def test_peer_that_closes_idle_connections(sidecar, origin):
    o = origin("a", idle_ms=100)
    s = sidecar(http(o, probe={"interval": "1s"}))  # so that a busy origin has closed by then, too
    wait_until("some probes", lambda: o.requests >= 5)
    assert o.accepted == o.requests, "each finds its connection closed, and opens another"
    assert s.events("backend unhealthy") == []
    assert all(e.end != "rst" for e in o.ledger())


def test_one_connection_per_definition_with_jitter(sidecar, origins):
    peers = origins(3)
    s = sidecar(s3(*peers, probe={"interval": "300ms"}))
    time.sleep(3)
    for o in peers:
        entries = o.ledger()
        assert len({e.conn for e in entries}) == 1 and o.accepted == 1
        assert 6 <= len(entries) <= 12, f"{len(entries)} in 3 s at 300 ms"
        gaps = [b.at - a.at for a, b in zip(entries[1:], entries[2:])]  # the first is a random part of one
        assert max(gaps) - min(gaps) > 0.004, f"no jitter: {gaps}"
        assert min(gaps) >= 0.2 and sorted(gaps)[len(gaps) // 2] <= 0.45, gaps
    config = dict(s.config)
    config["backends"]["minio"]["probe"]["region"] = "eu-west-1"
    s.write_config(config)
    s.signal(1)
    for o in peers:
        old = o.ledger()[0].conn
        wait_until("a new definition to have a new connection", lambda o=o: o.ledger()[-1].conn != old, 3)
        wait_until("the old one to be closed (and that of the apply's own look)", lambda o=o: o.stats()["open"] == 1, 3)
        wait_until("it to be kept", lambda o=o: o.ledger()[-1].conn == o.ledger()[-3].conn, 3)


def test_many_peers_are_probed_evenly(sidecar, origins):
    """200 backends of 4 peers, as a large configuration has, at a fifth of the interval: the start asks all of them at
    once, and already the next round is spread over the whole interval, each with a connection of its own."""
    interval, slots = 6.0, 4  # wide enough for a machine that stands still now and then
    four = origins(4, host="0.0.0.0")
    probe = {"type": "http", "path": "/health", "interval": f"{interval:.0f}s", "timeout": "2s"}
    backends = {f"b{i}": backend(*[f"127.0.{i + 1}.{k + 1}:{o.port}" for k, o in enumerate(four)], probe=probe)
                for i in range(200)}
    s = sidecar({"boot_probe": "warn", "backends": backends, "routes": {"*": {"backend": "b0"}}})
    wait_until("the probes of the start", lambda: sum(o.requests for o in four) >= 800, 15)
    time.sleep(interval * 2.35)
    moments = sorted(e.at for o in four for e in o.ledger())
    began = moments[799] + 0.3 * interval  # nobody is asked twice within a tenth
    counts = [sum(began + i * interval / slots <= at < began + (i + 1) * interval / slots for at in moments)
              for i in range(2 * slots)]
    assert all(0.5 * 200 <= n <= 1.6 * 200 for n in counts), counts
    assert 0.85 * 1600 <= sum(counts) <= 1.2 * 1600
    by_peer = {}
    for o in four:
        for e in o.ledger():
            by_peer.setdefault((o.label, e.conn), []).append(e.at)
    assert len(by_peer) == 800 and sum(o.accepted for o in four) == 800, "one connection each, from the start on"
    late = [b - a for times in by_peer.values() for a, b in zip(times, times[1:]) if b - a > 1.7 * interval]
    assert not late, late
    assert not s.events("backend unhealthy")


# -- a failing request starts one -------------------------------------------------------------------------------------


def test_single_flight(sidecar, origins):
    """500 requests fail at the same time: one probe per peer."""
    peers = origins(2)
    s = sidecar(s3(*peers, max_fails=0, probe={"interval": "1h", "timeout": "20s"}, route={"next_upstream_tries": 1}))
    assert judged(s)["status"] == "healthy"
    for o in peers:
        o.rules("method=HEAD path=/releases delay=8000", "rst_request=0")
        o.forget()
    wires = [s.wire(timeout=30) for _ in range(500)]
    for wire in wires:
        wire.request("GET", "/releases/x")
    statuses = [wire.response().status for wire in wires]
    assert set(statuses) == {503}
    for wire in wires:
        wire.close()
    for o in peers:
        probes, requests = o.hits()
        assert probes == 1 and requests >= 200, (probes, requests)


def test_failing_request_finds_the_dead_backend_at_once(sidecar, origin):
    o = origin("a")
    s = sidecar(s3(o, probe={"interval": "1h"}))
    assert judged(s)["status"] == "healthy"
    o.refuse()
    start = time.monotonic()
    assert s.get("/releases/x").status == 503
    verdict_becomes(s, "unreachable")
    assert time.monotonic() - start < 2, "long before the interval"


# -- signatures -------------------------------------------------------------------------------------------------------


def test_signed_probe_is_verified(sidecar, store, keys):
    st = store()
    s = sidecar(s3(st.address, probe={"interval": "200ms", "host": "minio.storage.svc:9000", **keys()}))
    v = judged(s)
    assert (v["status"], v["note"]) == ("healthy", "")
    wait_until("more probes", lambda: len(st.asked) >= 4)
    assert {(a.method, a.target, a.field("host"), a.connection) for a in st.asked} == \
        {("HEAD", "/releases", "minio.storage.svc:9000", 1)}, "one connection; ListBuckets is not needed"


def test_wrong_secret_blocks_until_it_is_put_right(sidecar, store, keys):
    st = store()
    s = sidecar(s3(st.address, probe={"interval": "400ms", **keys(secret="wrong" + SECRET)}))
    v = judged(s)
    cause = f"credentials rejected (status=403 code=SignatureDoesNotMatch key={MASKED})"
    assert (v["status"], v["cause"]) == ("auth-rejected", cause)
    response, line = s.traced("GET", "/releases/x")
    assert response.status == 503 and response.header("X-Fairlead-Cause") == cause and line["upstream_addr"] == "-"
    keys()
    verdict_becomes(s, "healthy", timeout=4)
    assert s.wait_event("backend recovered")["backend"] == "minio"
    for secret in (SECRET, "wrong" + SECRET):
        assert secret not in s.err.text() and secret not in str(s.admin("/_/api/admin/backends"))


def test_unknown_key(sidecar, store, keys):
    st = store(keys={"AKIAOTHER": SECRET})
    s = sidecar(s3(st.address, probe=keys()))
    v = judged(s)
    assert v["cause"] == f"credentials rejected (status=403 code=InvalidAccessKeyId key={MASKED})"
    assert KEY not in s.err.text(), "masked everywhere"


def test_scoped_key(sidecar, store, keys):
    st = store(buckets=(), lists=False)
    st.verify, verify = (lambda rq: verify(rq) or ((403, "AccessDenied", "") if rq.method == "HEAD" else None)), st.verify
    s = sidecar(s3(st.address, probe=keys()))
    v = judged(s)
    assert (v["status"], v["note"]) == ("healthy", DENIED)


def test_absent_bucket(sidecar, store, keys):
    s = sidecar(s3(store(buckets=()).address, probe=keys()))
    v = judged(s)
    assert (v["status"], v["note"]) == ("healthy", "bucket releases is absent")


@pytest.mark.parametrize("ahead, words", [(1200, "ahead of"), (-3600, "behind")])
def test_clock_skew(sidecar, store, keys, ahead, words):
    st = store(ahead=ahead)
    s = sidecar(s3(st.address, probe=keys()))
    v = judged(s)
    assert (v["status"], v["code"]) == ("erroring", "clock_skew")
    assert v["cause"] == "the clock differs by more than the store allows"
    seconds = re.fullmatch(rf"the store's clock is (\d+) s {words} ours", v["note"])
    assert seconds and abs(int(seconds[1]) - abs(ahead)) <= 2, v["note"]
    assert s.admin("/_/ready")["backends"] == {"minio": "erroring"}
    assert s.wait_event("backend unhealthy")["level"] == "warn"


def test_wrong_region(sidecar, store, keys):
    st = store(region="garage")
    s = sidecar(s3(st.address, probe=keys()))
    v = judged(s)
    assert (v["status"], v["cause"]) == ("erroring", "wrong region or endpoint (status=400 expected=garage)")
    s.write_config({**s.config, **s3(st.address, probe={"region": "garage", **keys()})})
    s.signal(1)
    verdict_becomes(s, "healthy")


def test_keys_that_cannot_be_read(sidecar, store, keys):
    """Shown, and nobody is kept out; signed as soon as they are there."""
    st = store()
    names = keys()
    os.unlink(names["secret_key_file"])
    s = sidecar(s3(st.address, probe={"interval": "300ms", **names}))
    v = judged(s)
    assert (v["status"], v["code"]) == ("erroring", "probe_keys")
    assert v["cause"] == "the keys of the probe cannot be used (secret_key_file: No such file or directory)"
    assert {a.field("authorization") for a in st.asked} == {None}
    keys()
    verdict_becomes(s, "healthy")
    assert st.asked[-1].field("authorization")
