"""Every answer that the sidecar makes itself: status, headers, body, on http and on s3 routes (contract, section 5)."""
import json
import re
import time
import xml.etree.ElementTree as ET

import pytest

from bed.config import backend, http, peer, s3
from bed.process import wait_until
from bed.wire import Wire, head

PROTOCOLS = {"http": http, "s3": s3}
NAMES = {"http": "pool", "s3": "store"}


def code_of(token, status):
    return "SlowDown" if token in ("overload", "local_resource") else "ServiceUnavailable" if status == 503 else None


def check(response, protocol, status, token, backend_name=None, code=None, method="GET", target=None):
    """All that section 5 promises about one answer."""
    assert response.status == status, f"wanted {status} {token}: {response!r}"
    assert response.header("X-Fairlead-Error") == token, repr(response)
    assert re.match(r"fairlead|sidecar", response.header("Proxy-Status") or ""), "Proxy-Status names us (RFC 9209)"
    if status < 500 or status in (501, 505):
        pass  # error types of RFC 9209 fit only some client faults
    else:
        assert "error=" in response.header("Proxy-Status"), response.header("Proxy-Status")
    assert (response.header("Retry-After") == "1") == (status in (502, 503, 504)), "on 502, 503 and 504 only"
    if backend_name:
        assert response.header("X-Fairlead-Backend") == backend_name and response.header("X-Fairlead-Cause")
    else:
        assert response.header("X-Fairlead-Backend") is None and response.header("X-Fairlead-Cause") is None
    if method == "HEAD":
        assert response.body == b""
        return
    assert response.header("Content-Length") == str(len(response.body)) and response.body
    if protocol == "s3":
        check_xml(response, status, token, backend_name, code, target)
    else:
        check_problem(response, status, token, backend_name)


def check_xml(response, status, token, backend_name, code, target):
    assert response.header("Content-Type") == "application/xml"
    root = ET.fromstring(response.body)
    assert root.tag == "Error"
    code = code or code_of(token, status)
    assert root.findtext("Code") == code if code else root.findtext("Code"), response.text
    assert root.findtext("Message") and root.find("HostId") is not None and root.find("Resource") is not None
    if target:
        assert root.findtext("Resource").startswith(target.split("?")[0]), response.text
    assert root.findtext("RequestId") == response.header("x-amz-request-id")
    assert response.header("x-amz-id-2")
    if backend_name:
        assert root.findtext("Backend") == backend_name and backend_name in root.findtext("Message")
        assert root.findtext("Cause") == response.header("X-Fairlead-Cause")


def check_problem(response, status, token, backend_name):
    assert response.header("Content-Type") == "application/problem+json"
    problem = json.loads(response.body)
    assert problem["status"] == status and problem["token"] == token
    assert problem["type"] and problem["title"] and "detail" in problem
    if backend_name:
        assert problem["backend"] == backend_name and problem["cause"] == response.header("X-Fairlead-Cause")
        assert problem["route"]


@pytest.fixture(params=["http", "s3"])
def proto(request):
    return request.param


def both(proto, http_status, s3_status=503):
    return http_status if proto == "http" else s3_status


# -- rows about backends --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["refused", "reset", "closed", "bad head"])
def test_upstream_failed(sidecar, origin, proto, how):
    o = origin("a", *{"refused": [], "reset": ["rst_request=0"], "closed": ["fin_response=0 status=200"],
                      "bad head": ['raw="nonsense\\r\\n\\r\\n" close']}[how])
    if how == "refused":
        o.refuse()
    s = sidecar(PROTOCOLS[proto](o))
    for method in ("GET", "HEAD"):
        response, line = s.traced(method, "/b/key")
        check(response, proto, both(proto, 502), "upstream_failed", NAMES[proto], method=method, target="/b/key")
        assert line["class"] == {"refused": "connect_failure", "bad head": "invalid_header"}.get(how, "premature_close")
        assert line["error"] == "upstream_failed" and line["cause"] == response.header("X-Fairlead-Cause")


def test_upstream_timeout(sidecar, origin, proto):
    o = origin("a", "hang")
    s = sidecar(PROTOCOLS[proto](o, route={"read_timeout": "150ms"}))
    for method in ("GET", "HEAD"):
        check(s.call(method, "/b/key"), proto, both(proto, 504), "upstream_timeout", NAMES[proto], method=method)


def test_connect_timeout_is_silence(sidecar, origin, proto):
    """A full listen queue drops SYNs: the connect neither succeeds nor fails."""
    import socket
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        where = "127.0.0.1:%d" % listener.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        time.sleep(0.1)
        s = sidecar(PROTOCOLS[proto](where, route={"connect_timeout": "200ms"}))
        response, line = s.traced("GET", "/b/key")
        check(response, proto, both(proto, 504), "upstream_timeout", NAMES[proto])
        assert line["class"] == "connect_timeout" and line["upstream_status"] == "504"
        assert line["upstream_connect_time"] == "-"
        s.wait_event("upstream timed out while connecting to upstream")
        for filler in fillers:
            filler.close()


def test_stale_reuse(sidecar, origin, proto):
    o = origin("a", "rst_request=0 method=POST")
    s = sidecar(PROTOCOLS[proto](o))
    assert s.get("/b/key").status == 200  # leaves a connection that is idle for less than a second
    response, line = s.traced("POST", "/b/key", body=b"x")
    if line["upstream_connect_time"] != "0.000":
        pytest.fail(f"a connection idle for less than 1 s is reused: {line}")
    check(response, proto, both(proto, 502), "stale_reuse", NAMES[proto])
    assert line["class"] == "stale_reuse"
    assert s.peer(NAMES[proto], o.address)["failures"] == 0, "nobody's fault"


def test_deadline(sidecar, origin, proto):
    o = origin("a", "hang")
    s = sidecar(PROTOCOLS[proto](o, route={"deadline": "200ms", "read_timeout": "10s"}))
    method, body = ("GET", None) if proto == "http" else ("PUT", b"")
    response, line = s.traced(method, "/b/key", body=body)
    check(response, proto, both(proto, 504), "deadline", NAMES[proto])
    assert line["class"] == "deadline" and 0.19 <= line["request_time"] < 0.8


def test_no_live_upstream(sidecar, dead, proto):
    s = sidecar(PROTOCOLS[proto](dead(), dead(), max_fails=1, fail_timeout="10s"))
    assert s.get("/b/key").header("X-Fairlead-Error") == "upstream_failed"
    for method in ("GET", "HEAD", "DELETE"):
        response = s.call(method, "/b/key")
        check(response, proto, 503, "no_live_upstream", NAMES[proto], method=method)
    assert re.search(r"\d", response.text), f"says when the first peer is released: {response.text}"


def test_no_membership(sidecar, proto):
    name = NAMES[proto]
    s = sidecar({"start_wait": "100ms", "boot_probe": "off",
                 "backends": {name: {"protocol": proto, "probe": {"type": "none"},
                                     "service": {"namespace": "x", "name": "y", "port": "s3"}}},
                 "routes": {"*": {"backend": name}}})
    check(s.get("/b/key"), proto, 503, "no_membership", name)


def test_backend_unavailable(sidecar, dead, proto):
    name = NAMES[proto]
    s = sidecar({"boot_probe": "warn",
                 **PROTOCOLS[proto](dead(), probe={"type": "tcp", "interval": "10s", "timeout": "500ms"})})
    wait_until("the verdict", lambda: s.backend(name)["verdict"]["status"] == "unreachable")
    for method in ("GET", "HEAD"):
        response, line = s.traced(method, "/b/key")
        check(response, proto, 503, "backend_unavailable", name, method=method)
        assert line["class"] == "gated" and line["upstream_addr"] == "-"
    assert s.backend(name)["verdict"]["cause"] == response.header("X-Fairlead-Cause"), "one cause everywhere"
    assert s.metrics().sum("fairlead_gated_requests_total", backend=name) == 2
    with s.wire() as wire:  # nothing of the body is asked for
        wire.send(head("PUT", "/b/key", {"Expect": "100-continue", "Content-Length": 1000000}))
        response = wire.response()
        assert response.status == 503 and response.interim == []


def test_overload(sidecar, origin, proto):
    o = origin("a", "hang count=1")
    s = sidecar(PROTOCOLS[proto](peer(o, max_conns=1)))
    holder = s.wire().request("GET", "/b/first")
    o.until(hung=1)
    response, line = s.traced("GET", "/b/key")
    check(response, proto, 503, "overload", NAMES[proto])
    assert line["class"] == "overload" and line["request_time"] < 0.1
    o.release()
    assert holder.response().status == 200


def test_overload_after_the_queue_time(sidecar, origin, proto):
    o = origin("a", "hang count=1")
    s = sidecar(PROTOCOLS[proto](peer(o, max_conns=1), queue={"size": 2, "timeout": "200ms"}))
    holder = s.wire().request("GET", "/b/first")
    o.until(hung=1)
    response, line = s.traced("GET", "/b/key")
    check(response, proto, 503, "overload", NAMES[proto])
    assert 0.18 <= line["request_time"] <= 0.6, line["request_time"]
    o.release()
    assert holder.response().status == 200


def test_backup_rows(sidecar, origin, dead):
    spare = origin("spare", missing=404)
    s = sidecar(s3(dead(), peer(spare, backup=True), max_fails=1, fail_timeout="10s"))
    s.get("/b/")
    check(s.call("PUT", "/b/key", body=b"x"), "s3", 503, "backup_read_only", "store", target="/b/key")
    check(s.call("DELETE", "/b/key"), "s3", 503, "backup_read_only", "store")
    check(s.get("/b/key"), "s3", 503, "backup_not_authoritative", "store")
    check(s.call("HEAD", "/b/key"), "s3", 503, "backup_not_authoritative", "store", method="HEAD")


# -- rows about the request -----------------------------------------------------------------------------------------
def test_no_route(sidecar, origin, proto):
    s = sidecar({**PROTOCOLS[proto](origin()), "routes": {"known": {"backend": NAMES[proto]}}})
    for method in ("GET", "HEAD", "PUT"):
        response, line = s.traced(method, "/other/key", body=b"x" if method == "PUT" else None)
        check(response, proto, 421, "no_route", None, "NoSuchRoute", method)
        assert line["error"] == "no_route" and line["upstream_addr"] == "-"


FAULTS = {
    "garbage": (b"hello\r\n\r\n", 400, "bad_request"),
    "no host": (b"GET /b/k HTTP/1.1\r\n\r\n", 400, "bad_request"),
    "admin path": (b"GET /_/api/x HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not_found"),
    "long target": (b"GET /" + b"x" * 60000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "uri_too_long"),
    "odd expectation": (b"PUT /b/k HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 0\r\n\r\n", 417,
                        "expectation_failed"),
    "large head": (b"GET /b/k HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"v" * 1000)
                                                                 for i in range(70)) + b"\r\n", 431, "header_too_large"),
    "connect": (b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 501, "not_implemented"),
    "transfer coding": (b"PUT /b/k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501,
                        "not_implemented"),
    "version": (b"GET /b/k HTTP/2.0\r\nHost: x\r\n\r\n", 505, "version_not_supported"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_client_faults(sidecar, origin, proto, fault):
    raw, status, token = FAULTS[fault]
    o = origin()
    s = sidecar(PROTOCOLS[proto](o))
    with s.wire() as wire:
        try:
            wire.send(raw)
        except OSError:
            pass
        check(wire.response(), proto, status, token)
    assert o.requests == 0
    line = s.wait_access(1)[0]
    assert (line["status"], line["error"]) == (status, token)


def test_slow_head_is_a_request_timeout(sidecar, origin, proto):
    s = sidecar({"client": {"head_timeout": "300ms"}, **PROTOCOLS[proto](origin())})
    with s.wire() as wire:
        start = time.monotonic()
        wire.send(b"GET /b/k HTTP/1.1\r\nHo")
        response = wire.response()
        assert 0.25 <= time.monotonic() - start <= 1.5
        check(response, proto, both(proto, 408, 400), "request_timeout", None, "RequestTimeout")
        assert wire.ended(3)


def test_slow_body_is_a_request_timeout(sidecar, origin, proto):
    o = origin()
    s = sidecar({"client": {"body_timeout": "300ms"}, **PROTOCOLS[proto](o)})
    with s.wire() as wire:
        wire.send(head("PUT", "/b/k", {"Content-Length": 1000}) + b"half")
        response = wire.response()
        assert response.status == both(proto, 408, 400) and response.header("X-Fairlead-Error") == "request_timeout"
        if proto == "s3":
            assert ET.fromstring(response.body).findtext("Code") == "RequestTimeout"
        assert wire.ended(3)
    line = s.wait_access(1)[0]
    assert line["class"] == "client_timeout"
    assert s.peer(NAMES[proto], o.address)["failures"] == 0, "a slow client is not the peer's fault"


def test_silent_client_is_closed_without_a_word(sidecar, origin):
    s = sidecar({"client": {"idle_timeout": "300ms"}, **http(origin())})
    with s.wire() as wire:
        assert wire.request("GET", "/x").response().status == 200
        start = time.monotonic()
        assert wire.ended(3) == "fin" and wire.buffer == b""
        assert 0.2 <= time.monotonic() - start <= 1.5


def test_method_not_allowed_and_payload_too_large_on_admin(sidecar, origin):
    s = sidecar(http(origin()))
    response = s.ask("GET", "/_/api/admin/backends/pool/probe")
    assert response.status == 405 and response.header("Allow") == "POST"
    assert response.header("X-Fairlead-Error") in (None, "method_not_allowed")
    with Wire(("127.0.0.1", s.status_port)) as wire:
        try:
            wire.request("PUT", "/_/api/push/v1/state", {"Content-Type": "application/json"}, b"{" * (3 << 20))
        except OSError:
            pass
        try:
            assert wire.response().status in (401, 413), "refused before it is read"
        except Exception as e:  # the RST of a body that nobody reads
            assert "rst" in str(e)


def test_copy_across_backends(sidecar, origins):
    a, b = origins(2)
    s = sidecar({"backends": {"one": backend(a, protocol="s3"), "two": backend(b, protocol="s3")},
                 "routes": {"here": {"backend": "one"}, "there": {"backend": "two"}}})
    for source in ("there/k", "/there/k", "/there%2Fk", "/there/k?versionId=1"):
        response = s.call("PUT", "/here/k", {"x-amz-copy-source": source}, b"")
        assert response.status == 400 and response.header("X-Fairlead-Error") == "copy_across_backends", repr(response)
        root = ET.fromstring(response.body)
        assert root.findtext("Code") == "InvalidRequest"
        assert "one" in root.findtext("Message") and "two" in root.findtext("Message"), "names both"
    assert a.requests + b.requests == 0
    assert s.call("PUT", "/here/k", {"x-amz-copy-source": "/here/x"}, b"").status == 200


def test_relayed_errors_carry_no_mark_of_ours(sidecar, origin, proto):
    o = origin()
    s = sidecar(PROTOCOLS[proto](o))
    for status in (400, 403, 404, 409, 412, 500, 502, 503, 504):
        o.rules(f"status={status} body=theirs")
        response, line = s.traced("GET", "/b/key")
        assert (response.status, response.body) == (status, b"theirs")
        assert not [n for n, _ in response.headers if n.lower().startswith(("x-fairlead", "proxy-status"))]
        assert line["error"] == "" and line["upstream_status"] == str(status)


def test_xml_is_escaped(sidecar, dead):
    s = sidecar(s3(dead()))
    response = s.get("/b/%3Cx%3E&'\"k")
    assert ET.fromstring(response.body).findtext("Resource")
    assert b"<x>" not in response.body


def test_answer_is_not_lost_in_a_reset(sidecar, dead):
    """A 503 while 20 MiB are still coming: the client reads it whole."""
    s = sidecar(s3(dead(), dead(), max_fails=1, fail_timeout="10s"))
    s.get("/b/k")
    for _ in range(5):
        with s.wire() as wire:
            wire.send(head("PUT", "/b/k", {"Content-Length": 20 << 20}))
            try:
                for _ in range(20):
                    wire.send(b"x" * 100000)
            except OSError:
                pass
            response = wire.response()
            assert response.status == 503 and response.header("X-Fairlead-Error") == "no_live_upstream"
