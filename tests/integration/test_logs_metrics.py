"""Access log, event log, metrics and the three health questions (contract, sections 6 and 7)."""
import json
import re
import time

from bed.config import http, peer, s3
from bed.play import parallel
from bed.process import json_lines, wait_until
from bed.sidecar import chain

STRINGS = {"ts", "remote_addr", "host", "method", "uri", "request_id", "route", "backend", "operation",
           "retry_reason", "error", "cause", "class", "upstream_addr", "upstream_status", "upstream_connect_time",
           "upstream_header_time", "upstream_response_time"}
NUMBERS = {"status", "request_time", "bytes_in", "bytes_out", "tries"}
TS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)$")


def test_access_log_fields_are_exactly_those(sidecar, origin):
    o = origin()
    s = sidecar({"hosts": ["s3.internal"], **s3(o)})
    response, line = s.traced("PUT", "/releases/a%20b", {"Host": "S3.Internal:8420"}, b"12345")
    assert response.status == 200
    assert set(line) == STRINGS | NUMBERS, f"missing {STRINGS | NUMBERS - set(line)}, extra {set(line) - STRINGS - NUMBERS}"
    assert all(isinstance(line[k], str) for k in STRINGS), line
    assert all(isinstance(line[k], (int, float)) and not isinstance(line[k], bool) for k in NUMBERS), line
    assert TS.match(line["ts"]), line["ts"]
    assert (line["remote_addr"], line["method"], line["uri"]) == ("127.0.0.1", "PUT", "/releases/a%20b")
    assert (line["host"], line["status"], line["backend"]) == ("S3.Internal:8420", 200, "store")
    assert line["operation"] == "PutObject" and line["route"] == "*"
    assert line["tries"] == 1 and line["error"] == "" and line["class"] == "" and line["retry_reason"] == ""
    assert 5 <= line["bytes_in"] <= 1000 and line["bytes_out"] > 0
    assert (line["upstream_addr"], line["upstream_status"]) == (o.address, "200")
    for field in ("upstream_connect_time", "upstream_header_time", "upstream_response_time"):
        assert re.fullmatch(r"\d+\.\d{3}", line[field]), f"{field}: {line[field]}"
    assert float(line["upstream_header_time"]) <= line["request_time"] + 0.002


def test_request_time_and_attempt_times(sidecar, origins):
    a, b = origins(2)
    a.rules("delay=300 status=503")
    b.rules("delay=100")
    s = sidecar(http(a, b, max_fails=0, route={"next_upstream": ["error", "http_503"], "read_timeout": "5s"}))
    for _ in range(3):
        response, line = s.traced("GET", "/x")
        if len(chain(line)) == 2:
            break
    assert line["upstream_status"] == "503, 200" and line["retry_reason"]
    first, second = (float(t) for t in chain(line, "upstream_header_time"))
    assert 0.29 <= first <= 0.6 and 0.09 <= second <= 0.4 and line["request_time"] >= 0.39
    assert round(line["request_time"], 3) == line["request_time"], "milliseconds"


def test_operations_are_named(sidecar, origin):
    s = sidecar(s3(origin()))
    for method, target, body, operation in (
            ("GET", "/b/k", None, "GetObject"), ("HEAD", "/b/k", None, "HeadObject"), ("PUT", "/b/k", b"x", "PutObject"),
            ("PUT", "/b/k?partNumber=1&uploadId=u", b"x", "UploadPart"), ("DELETE", "/b/k", None, "DeleteObject"),
            ("POST", "/b/k?uploads", b"", "CreateMultipartUpload"),
            ("POST", "/b/k?uploadId=u", b"<x/>", "CompleteMultipartUpload"),
            ("DELETE", "/b/k?uploadId=u", None, "AbortMultipartUpload"), ("POST", "/b?delete", b"<x/>", "DeleteObjects"),
            ("GET", "/b?list-type=2", None, "ListObjects"), ("GET", "/", None, "ListBuckets"),
            ("HEAD", "/b", None, "HeadBucket"), ("PUT", "/b", b"", "CreateBucket"),
            ("GET", "/b/k?x-id=GetObject", None, "GetObject")):
        _, line = s.traced(method, target, body=body)
        assert line["operation"].startswith(operation), f"{method} {target}: {line['operation']}"
    _, line = s.traced("PUT", "/b/k", {"x-amz-copy-source": "/b/other"}, b"")
    assert line["operation"] == "CopyObject"


def test_signatures_are_masked_everywhere(sidecar, origin):
    o = origin()
    s = sidecar(s3(o))
    secret = "5ecre7" * 8
    query = (f"X-Amz-Credential=AKIAEXAMPLE%2F20260101&X-Amz-Signature={secret}&x-amz-security-token={secret}"
             f"&Signature={secret}&other=kept")
    _, line = s.traced("GET", "/b/k?" + query, {"Authorization": f"AWS4-HMAC-SHA256 Signature={secret}"})
    assert o.only().target.count(secret) == 3, "the backend gets them"
    assert secret not in json.dumps(line) and "other=kept" in line["uri"] and "X-Amz-Signature=" in line["uri"]
    o.refuse()
    response = s.get("/b/k?" + query)
    assert response.status == 503 and secret not in response.text
    time.sleep(0.1)
    assert secret not in s.out.text() and secret not in s.err.text()


def test_log_lines_survive_hostile_input(sidecar, origin):
    s = sidecar(s3(origin()))
    s.call("GET", '/b/"\\%0a{}', {"User-Agent": "\u00ff\u00fe", "x-request-id": 'a"b\\c'})
    s.call("GET", "/b/k", {"x-request-id": "x" * 5000})
    lines = s.wait_access(2)
    assert len(lines) == 2
    assert all(line.startswith("{") and json.loads(line) for line in s.out.lines), s.out.lines
    assert all(json.loads(line) for line in s.err.lines), "the event log is JSON too"


def test_request_id_is_taken_or_made(sidecar, origin):
    o = origin()
    s = sidecar(s3(o))
    s.call("GET", "/b/k", {"x-request-id": "mine-1"})
    s.get("/b/k")
    first, second = o.ledger()
    assert first.header("x-request-id") == "mine-1" and s.line_of("mine-1")
    made = second.header("x-request-id")
    assert re.fullmatch(r"[0-9a-f]{32}", made) and s.line_of(made)
    o.refuse()
    answer = s.call("GET", "/b/k", {"x-request-id": "mine-2"})
    assert answer.header("x-amz-request-id") == "mine-2"


def test_access_log_can_be_errors_only_or_off(sidecar, origin):
    o = origin("a", "path=/b/bad status=500")
    for mode, want in (("errors", 1), ("off", 0)):
        s = sidecar({"access_log": mode, **s3(o)})
        assert s.get("/b/good").status == 200 and s.get("/b/bad").status == 500
        time.sleep(0.3)
        assert len(s.access()) == want, f"{mode}: {s.access()}"


def test_log_level_of_the_event_log(sidecar, dead):
    gone = dead()
    s = sidecar({"log_level": "error", **http(gone, dead())})
    s.get("/x")
    time.sleep(0.2)
    assert s.events("connect() failed") == [] and s.events("upstream server temporarily disabled") == []


def test_event_log_shape_and_rate(sidecar, dead):
    gone = dead()
    s = sidecar(http(gone, max_fails=0))
    parallel(30, lambda i: s.get("/x"))
    event = s.wait_event("connect() failed while connecting to upstream")
    assert TS.match(event["ts"]) and event["level"] == "warn" and event["peer"] == gone
    time.sleep(0.2)
    assert len(s.events("connect() failed")) <= 2, "once a second and peer, with a count"
    assert all({"ts", "level", "msg"} <= set(e) for e in json_lines(s.err.lines))


def test_slow_request_line(sidecar, origin):
    o = origin("a", "delay=400")
    s = sidecar({"slow_request": "200ms", **s3(o)})
    s.get("/b/key")
    event = s.wait_event("slow backend request")
    assert (event["backend"], event["peer"], event["operation"]) == ("store", o.address, "GetObject")
    assert (event["bucket"], event["key"]) == ("b", "key") and event["attempts"] == 1
    assert 0.39 <= event["total_secs"] <= 1.0 and 0 <= event["before_first_attempt_secs"] < 0.1
    assert event["statuses"] and event["times"]


LABELS = {
    "fairlead_requests_total": {"route", "status_class", "error"},
    "fairlead_attempts_total": {"backend", "outcome"},
    "fairlead_retries_total": {"route", "reason"},
    "fairlead_rescued_requests_total": {"route"},
    "fairlead_quarantines_total": {"backend"},
    "fairlead_peer_state": {"backend", "peer", "state"},
    "fairlead_peer_in_flight_peak": {"backend", "peer"},
    "fairlead_backend_up": {"backend"},
    "fairlead_on_backup": {"backend"},
    "fairlead_connections": {"kind"},
    "fairlead_panic": {"backend"},
}


def test_metrics_are_present_with_their_labels(sidecar, origin, dead):
    alive, gone = origin(), dead()
    s = sidecar(http(gone, alive, max_fails=1))
    for _ in range(4):
        assert s.get("/x").status == 200
    s.wait_metric("fairlead_requests_total", 4)
    m = s.metrics()
    for name, labels in LABELS.items():
        series = m.series(name)
        assert series, f"{name} is missing"
        for have, _ in series:
            assert set(have) == labels, f"{name} has labels {sorted(have)}, wanted {sorted(labels)}"
    for name in ("fairlead_build_info", "fairlead_log_dropped_total", "fairlead_membership_generation"):
        assert name in m.names(), f"{name} is missing"
    for name in ("fairlead_request_duration_seconds", "fairlead_backend_request_duration_seconds"):
        assert m.types.get(name) == "histogram", f"{name} is a histogram"
        buckets = {have["le"] for have, _ in m.series(name + "_bucket")}
        assert "+Inf" in buckets and max(float(b) for b in buckets - {"+Inf"}) >= 60
    assert {n for n in m.names() if not n.startswith("fairlead_")} <= {n for n in m.names() if n.startswith("process_")}
    assert m.sum("fairlead_requests_total", status_class="2xx") == 4
    assert m.sum("fairlead_rescued_requests_total") == 1 and m.sum("fairlead_retries_total") == 1
    assert m.sum("fairlead_quarantines_total", backend="pool") == 1
    assert m.sum("fairlead_attempts_total", backend="pool") == 5
    assert m.sum("fairlead_request_duration_seconds_count") == 4
    states = {have["state"]: v for have, v in m.series("fairlead_peer_state", peer=gone)}
    assert [k for k, v in states.items() if v == 1] and max(states.values()) == 1, "one state at a time"


def test_histogram_buckets_are_cumulative(sidecar, origin):
    s = sidecar(http(origin("a", "delay=30")))
    for _ in range(5):
        s.get("/x")
    s.wait_metric("fairlead_requests_total", 5)
    m = s.metrics()
    series = sorted(((float(have["le"].replace("+Inf", "inf")), v) for have, v in
                     m.series("fairlead_request_duration_seconds_bucket") if have.get("route") == "*"))
    values = [v for _, v in series]
    assert values == sorted(values) and values[-1] == 5
    assert all(v == 0 for le, v in series if le < 0.029), "30 ms are not below 29 ms"


def test_sacrificed_requests_are_counted(sidecar, dead):
    s = sidecar(http(dead(), dead(), max_fails=1, fail_timeout="10s"))
    assert s.get("/x").status == 502 and s.get("/x").status == 503
    s.wait_metric("fairlead_requests_total", 2)
    m = s.metrics()
    assert m.sum("fairlead_sacrificed_requests_total") == 1, "failed while discovering; the fast 503 is not one"
    assert m.sum("fairlead_requests_total", status_class="5xx") == 2
    assert m.sum("fairlead_retry_refused_total") >= 1


def test_three_health_questions(sidecar, origin):
    s = sidecar(http(origin()))
    for port in (s.status_port, s.admin_port):
        assert s.ask("GET", "/_/live", port=port).status == 200
        assert s.ask("GET", "/_/started", port=port).status == 200
        start = time.monotonic()
        ready = s.ask("GET", "/_/ready", port=port)
        assert ready.status == 200 and time.monotonic() - start < 0.3
        document = json.loads(ready.body)
        assert document["status"] in ("ready", "degraded") and document["backend"] == "ready"
        assert document["config"] == "ready" and document["membership"] in ("ready", "stale", "waiting")
        assert set(document["backends"]) == {"pool"} and document["backends"]["pool"] in ("healthy", "unknown")
    assert s.ask("POST", "/_/ready", b"").status == 405


def test_ready_head_has_no_body(sidecar, origin):
    s = sidecar(http(origin()))
    from bed.wire import Wire
    with Wire(("127.0.0.1", s.status_port)) as wire:
        assert wire.request("HEAD", "/_/ready", host="127.0.0.1").response("HEAD").status == 200
        assert wire.request("GET", "/_/live", host="127.0.0.1").response().status == 200


def test_ready_tells_verdicts(sidecar, origin, dead):
    tcp = {"type": "tcp", "interval": "10s", "timeout": "500ms"}
    o, gone = origin(), dead()
    s = sidecar({"boot_probe": "warn", "backends": {
        "good": {"protocol": "http", "peers": [peer(o)], "probe": tcp},
        "bad": {"protocol": "http", "peers": [peer(gone)], "probe": tcp}},
        "routes": {"good": {"backend": "good"}, "bad": {"backend": "bad"}}})

    def ready():
        answer = s.ask("GET", "/_/ready")
        document = json.loads(answer.body)
        document["http"] = answer.status
        return document

    wait_until("both verdicts", lambda: ready()["backends"] == {"good": "healthy", "bad": "unreachable"})
    document = ready()
    assert (document["http"], document["status"], document["backend"]) == (200, "degraded", "ready")
    m = s.metrics()
    assert m.sum("fairlead_backend_up", backend="good") == 1 and m.sum("fairlead_backend_up", backend="bad") == 0
    assert m.sum("fairlead_backend_state", backend="bad", state="unreachable") == 1
    event = s.wait_event("backend unhealthy")
    assert event["backend"] == "bad" and event["level"] == "error" and "refused" in event["cause"]


def test_boot_probe_enforce_and_exit_codes(sidecar, dead):
    tcp = {"type": "tcp", "interval": "10s", "timeout": "300ms"}
    enforced = sidecar(http(dead(), probe=tcp), wait=False, expected_exit=1)
    assert enforced.wait(10) == 1, f"every backend is down: refuses to start\n{enforced.report()}"
    bad = sidecar({**http(dead()), "thread": 2}, wait=False, expected_exit=2)
    assert bad.wait(10) == 2
    text = bad.err.text() + bad.out.text()
    assert "thread" in text and "threads" in text, f"did you mean: {text}"


def test_check_prints_findings(sidecar, dead):
    config = {**http(dead()), "routes": {"*": {"backend": "nowhere", "read_timeout": "5 parsecs"}}}
    checked = sidecar(config, wait=False, args=["--check"], expected_exit=2)
    assert checked.wait(10) == 2
    text = checked.out.text() + checked.err.text()
    assert re.search(r"sidecar\.yaml:\d+: error: .*nowhere", text), text
    assert re.search(r"sidecar\.yaml:\d+: error: .*(parsecs|read_timeout)", text), text
    good = sidecar(http(dead()), wait=False, args=["--check"])
    assert good.wait(10) == 0, good.report()
    shown = sidecar(http(dead()), wait=False, args=["--show-config"])
    assert shown.wait(10) == 0 and "next_upstream_tries" in shown.out.text()
