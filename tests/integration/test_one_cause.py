"""One fault has one sentence: byte for byte the same in the event log, in both forms of the 503, in its header, in the
access log, in the tap, in the admin API (backends, peers, explain, the answer of Test connection), among the events, in
an apply that the same definition would have, and in what a controller says and pushes. Readiness has its status,
metrics its code."""
import json
import pathlib
import signal
import xml.etree.ElementTree as ET

import pytest

from bed.config import backend
from bed.probing import MASKED, judged, keys, probe_now, store
from bed.process import wait_until
from bed.s3_store import Silent
from bed.tls import TlsServer, certs
from test_apply import JSON, put
from test_tap import Watcher

TLS = {"verify": False}
GUIDE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "diagnose.md").read_text(encoding="utf-8")
REFUSED, SILENT, STORE = "refused", "silent", "store"

# name: (what stands there, backend keys, status, code, cause)
BLOCKING = {
    "refused": (REFUSED, {}, "unreachable", "connect_refused", "connect to {a} failed (Connection refused)"),
    "connect timeout": (SILENT, {}, "unreachable", "connect_timeout", "connect to {a} timed out"),
    "hang": (["hang"], {}, "unreachable", "no_answer", "{a} accepts connections but does not answer"),
    "reset": (["rst_request=0"], {}, "unreachable", "premature_close",
              "{a} closed the connection without an answer (Connection reset by peer)"),
    "closed": (["fin_response=0"], {}, "unreachable", "premature_close", "{a} closed the connection without an answer"),
    "not HTTP": ([r'raw="SSH-2.0-x\r\n"'], {}, "unreachable", "invalid_header", "the answer of {a} is not valid HTTP"),
    "not TLS": ([], {"tls": TLS}, "unreachable", None, None),
    "no such name": ("name", {}, "unreachable", "dns_failure", None),
}
REJECTED = {
    "wrong secret": ({"secret": "wrong"}, f"credentials rejected (status=403 code=SignatureDoesNotMatch key={MASKED})"),
    "unknown key": ({"key": "AKIANOBODYKNOWS00"},
                    "credentials rejected (status=403 code=InvalidAccessKeyId key=AKIA****00)"),
}
OPEN = {  # erroring: shown, warned of, not blocking
    "5xx": (["status=500"], "http_500", "{a} answered with status 500"),
    "SlowDown": (["status=503 code=SlowDown"], "http_503", "{a} answered with status 503"),  # HEAD has no body to say it
    "429": (["status=429"], "http_429", "{a} answered with status 429"),
    "not S3": (['status=404 header="Content-Type: text/html"'], "not_s3", "{a} answers HTTP but not S3 (status=404)"),
}


def config(address, protocol="s3", **keys):
    probe = {"type": protocol, "timeout": "300ms", "interval": "60s", **keys.pop("probe", {})}
    if protocol == "http":
        probe["path"] = "/health"
    return {"boot_probe": "warn",
            "backends": {"minio": {**backend(address, protocol=protocol, probe=probe), **keys}},
            "routes": {"releases": {"backend": "minio", "connect_timeout": "300ms"}}}


def xml_of(response):
    assert response.header("Content-Type") == "application/xml"
    return {child.tag: child.text or "" for child in ET.fromstring(response.body)}


def asked_again(s):
    """The same definition under another name, applied: what the refusal says."""
    again = json.loads(json.dumps(s.config))
    again["backends"]["again"] = again["backends"]["minio"]
    again["routes"]["again"] = {"backend": "again"}
    return put(s, again, timeout=40), again


def places_of_a_verdict(s, cause, code, status):
    """Where people look: everywhere the same bytes."""
    tested = json.loads(s.ask("POST", "/_/api/admin/backends/minio/probe", b"", JSON).body)["verdict"]
    assert tested["cause"] == cause
    v = probe_now(s)
    assert (v["cause"], v["status"], v["code"]) == (cause, status, code)
    family = next((f"`{f}_" for f in ("tls", "http") if code.startswith(f + "_")), f"`{code}`")
    assert family in GUIDE, "the guide says what to do next"
    card = s.backend("minio")
    assert card["verdict"]["cause"] == cause
    if card["peers"][0]["state"] != "unresolved":
        assert card["peers"][0]["verdict"]["cause"] == cause
    event = next(e for e in s.admin("/_/api/admin/events")["events"] if e["kind"] == "backend_unhealthy")
    assert event["text"] == f"{status}: {cause}" and event["backend"] == "minio"
    ready = s.admin("/_/ready")
    blocks = status != "erroring"
    assert ready["backends"] == {"minio": status} and ready["status"] == "degraded"
    assert ready["backend"] == ("unavailable" if blocks else "ready") and card["blocked"] is blocks
    m = s.metrics()
    assert m.sum("fairlead_backend_cause", backend="minio", code=code) == m.sum("fairlead_backend_cause") == 1
    assert m.sum("fairlead_backend_state", backend="minio", state=status) == m.sum("fairlead_backend_state") == 1
    assert m.sum("fairlead_backend_up", backend="minio") == (0 if blocks else 1)
    shown = s.admin("/_/api/admin/explain?method=GET&target=/releases/k")
    assert (shown["answer"], shown["cause"]) == (("backend_unavailable", cause) if blocks else ("", ""))
    for p in shown["peers"]:
        assert (p["eligible"], p["why"], p["cause"]) == ((False, "verdict", cause) if blocks else (True, "", ""))


def places_of_a_block(s, cause, protocol):
    """What clients get, and who watches them."""
    tap = Watcher(s)
    gated = s.metrics().sum("fairlead_gated_requests_total", backend="minio")
    response, line = s.traced("GET", "/releases/k")
    assert tap.take(1) == [line]
    tap.close()
    assert response.status == 503 and response.header("X-Fairlead-Error") == "backend_unavailable"
    assert response.header("X-Fairlead-Cause") == cause and response.header("X-Fairlead-Backend") == "minio"
    assert line["cause"] == cause and line["error"] == "backend_unavailable" and line["class"] == "gated"
    if protocol == "s3":
        error = xml_of(response)
        assert (error["Code"], error["Cause"], error["Backend"]) == ("ServiceUnavailable", cause, "minio")
        assert cause in error["Message"] and "releases" in error["Message"] and "minio" in error["Message"]
    else:
        problem = json.loads(response.body)
        assert (problem["cause"], problem["backend"], problem["token"]) == (cause, "minio", "backend_unavailable")
        assert cause in problem["detail"]
    head, line = s.traced("HEAD", "/releases/k")
    assert line["cause"] == cause and s.metrics().sum("fairlead_gated_requests_total", backend="minio") == gated + 2
    assert head.status == 503 and head.header("X-Fairlead-Cause") == cause and not head.body


def places_of_an_apply(s, cause, status, code):
    response, again = asked_again(s)
    assert response.status == 400, repr(response)
    problem = json.loads(response.body)
    assert problem["cause"] == cause and problem["backend"] == "again"
    assert problem["refused"] == [{"backend": "again", "status": status, "code": code, "cause": cause,
                                   "detail": problem["detail"]}]
    assert problem["detail"].startswith(
        f"config refused: backend 'again' failed its connection probe — {cause}. ")
    assert problem["detail"].endswith(" and re-apply (nothing was changed)")
    line = s.wait_event("config refused", source="api")
    assert line["cause"] == cause and line["detail"] == problem["detail"] and line["level"] == "error"
    event = next(e for e in s.admin("/_/api/admin/events")["events"] if e["kind"] == "config_refused")
    assert event["text"] == problem["detail"]
    s.write_config({**again, "listen": s.config["listen"]})
    s.signal(signal.SIGHUP)
    line = s.wait_event("config refused", 40, source="file")
    assert line["cause"] == cause and line["detail"] == problem["detail"]


@pytest.mark.parametrize("protocol", ["s3", "http"])
@pytest.mark.parametrize("name", BLOCKING)
def test_a_fault_that_blocks(sidecar, origin, dead, ports, name, protocol):
    where, keys, status, code, cause = BLOCKING[name]
    closing = Silent(ports) if where == SILENT else None
    address = dead() if where == REFUSED else closing.address if closing else \
        "no-such-host.invalid:9000" if where == "name" else origin("a", *where).address
    s = sidecar(config(address, protocol, **json.loads(json.dumps(keys))))
    v = judged(s, timeout=45)
    assert v["status"] == status
    if cause is None:  # the system's or the library's words: whatever they are, they are the same everywhere
        code, cause = v["code"], v["cause"]
        assert address in cause and code
    cause = cause.format(a=address)
    line = s.wait_event("backend unhealthy")
    assert (line["level"], line["cause"], line["code"], line["status"]) == ("error", cause, code, status)
    places_of_a_verdict(s, cause, code, status)
    places_of_a_block(s, cause, protocol)
    places_of_an_apply(s, cause, status, code)
    if closing:
        closing.close()


@pytest.mark.parametrize("protocol", ["s3", "http"])
def test_a_certificate_of_an_unknown_authority(sidecar, ports, certs, protocol):
    authority = certs.ca()
    server = TlsServer(ports, certs.issue("stranger", None))
    s = sidecar(config(server.address, protocol, tls={"ca_file": authority[0], "server_name": "store.example"}))
    v = judged(s)
    assert v["status"] == "unreachable" and v["step"] == "tls", v
    assert v["cause"].startswith(f"TLS handshake with {server.address} failed (")
    line = s.wait_event("backend unhealthy")
    assert (line["level"], line["cause"]) == ("error", v["cause"])
    places_of_a_verdict(s, v["cause"], v["code"], "unreachable")
    places_of_a_block(s, v["cause"], protocol)
    places_of_an_apply(s, v["cause"], "unreachable", v["code"])
    server.close()


@pytest.mark.parametrize("name", REJECTED)
def test_credentials_that_are_rejected(sidecar, store, keys, name):
    given, cause = REJECTED[name]
    st = store()
    s = sidecar(config(st.address, probe=keys(**given)))
    assert judged(s)["status"] == "auth-rejected"
    line = s.wait_event("backend unhealthy")
    assert (line["level"], line["cause"], line["code"]) == ("error", cause, "credentials_rejected")
    places_of_a_verdict(s, cause, "credentials_rejected", "auth-rejected")
    places_of_a_block(s, cause, "s3")
    places_of_an_apply(s, cause, "auth-rejected", "credentials_rejected")


def test_clock_skew_and_wrong_region(sidecar, store, keys):
    for settings, code, cause in (({"ahead": 3600}, "clock_skew", "the clock differs by more than the store allows"),
                                  ({"region": "eu-west-1"}, "wrong_region",
                                   "wrong region or endpoint (status=400 expected=eu-west-1)")):
        st = store(**settings)
        s = sidecar(config(st.address, probe=keys()))
        v = judged(s)
        assert (v["status"], v["code"], v["cause"]) == ("erroring", code, cause)
        open_places(s, cause, code)


def open_places(s, cause, code):
    line = s.wait_event("backend unhealthy")
    assert (line["level"], line["cause"], line["code"], line["status"]) == ("warn", cause, code, "erroring")
    places_of_a_verdict(s, cause, code, "erroring")
    response, _ = asked_again(s)
    assert response.status == 200, repr(response)
    assert any(w.endswith(f"backend 'again': {cause}") for w in json.loads(response.body)["warnings"]), response.text
    warned = s.wait_event("configuration warning", source="api")
    assert warned["cause"].endswith(f"backend 'again': {cause}")


@pytest.mark.parametrize("name", OPEN)
def test_a_fault_that_only_shows(sidecar, origin, keys, name):
    rules, code, cause = OPEN[name]
    o = origin("a", *rules)
    s = sidecar(config(o.address, probe=keys()))
    v = judged(s)
    cause = cause.format(a=o.address)
    assert (v["status"], v["code"], v["cause"]) == ("erroring", code, cause)
    open_places(s, cause, code)
    o.rules()
    assert s.get("/releases/k").status == 200, "it is asked all the same"


def test_an_absent_bucket_is_a_note(sidecar, store, keys):
    st = store(buckets=())
    s = sidecar(config(st.address, probe=keys()))
    v = judged(s)
    assert (v["status"], v["cause"], v["note"]) == ("healthy", "", "bucket releases is absent")
    assert not s.events("backend unhealthy")
    assert s.backend("minio")["peers"][0]["verdict"]["note"] == "bucket releases is absent"
    response, _ = asked_again(s)
    assert response.status == 200


@pytest.mark.parametrize("protocol", ["s3", "http"])
def test_a_request_that_finds_the_fault_says_the_same(sidecar, origin, protocol):
    """Before any verdict the attempt itself has the sentence; the probe that follows has the same one."""
    o = origin("a")
    s = sidecar(config(o.address, protocol))
    assert judged(s)["status"] == "healthy"
    o.refuse()
    cause = f"connect to {o.address} failed (Connection refused)"
    response, line = s.traced("GET", "/releases/k")
    assert response.status == (503 if protocol == "s3" else 502)
    assert response.header("X-Fairlead-Cause") == line["cause"] == cause
    assert s.wait_event("backend unhealthy")["cause"] == cause
    places_of_a_block(s, cause, protocol)


# ---- the controller ---------------------------------------------------------------------------------------------
def managed(address, key, file, s, protocol="s3", **keys):
    """A controller that defines, probes and pushes the backend `minio` of config()."""
    whole = config(address, protocol, **keys)
    backend_of = {**whole["backends"]["minio"], "peers": [{"address": address}]}
    return {"source": f"file:{file.path}", "push": {"signing_key_file": key.private, "settle": "20ms"},
            "backends": {"minio": backend_of}, "routes": whole["routes"],
            "sidecars": [{"address": s.address, "id": "pod"}]}


CONTROLLED = {**{name: (row[0], row[1], row[2]) for name, row in BLOCKING.items()},
              **{name: (OPEN[name][0], {}, "erroring") for name in ("5xx", "SlowDown", "not S3")}}


@pytest.mark.parametrize("name", CONTROLLED)
def test_a_controller_says_the_same(sidecar, controller, origin, dead, ports, key, file, fake, name):
    """Its line, its API and its pushes have the sentence that a sidecar of its own has, and so has a pod that takes the
    push."""
    where, keys, status = CONTROLLED[name]
    closing = Silent(ports) if where == SILENT else None
    address = dead() if where == REFUSED else closing.address if closing else \
        "no-such-host.invalid:9000" if where == "name" else origin("a", *where).address
    s = sidecar(config(address, **json.loads(json.dumps(keys))))
    mine = judged(s, timeout=45)
    assert mine["status"] == status
    taker = fake()
    file.set("127.0.0.1:1")
    c = controller(managed(address, key, file, taker, **json.loads(json.dumps(keys))))
    line = c.wait_event("backend unhealthy", 45)
    assert (line["cause"], line["code"], line["status"]) == (mine["cause"], mine["code"], status)
    assert line["level"] == ("warn" if status == "erroring" else "error")
    shown = next(b for b in c.admin("/_/api/admin/backends")["backends"] if b["name"] == "minio")
    assert shown["verdict"]["cause"] == shown["peers"][0]["verdict"]["cause"] == mine["cause"]
    pushed = wait_until("the verdict in a push", lambda: next(
        (v for p in taker.pushes for v in p.state["backends"]["minio"].get("verdicts", {}).values()
         if v["status"] == status), None))
    assert (pushed["cause"], pushed["code"]) == (mine["cause"], mine["code"])
    if closing:
        closing.close()
