"""TLS to backends: certificates of every kind, bodies both ways, resumption, files that change, peers that misbehave."""
import hashlib
import os
import re
import shutil
import signal
import threading
import time

import pytest

from bed.config import FREE, http, peer
from bed.play import meet, parallel
from bed.process import wait_until
from bed.sidecar import chain
from bed.tls import certs, pattern, tls_server
from bed.tracing import traced
from bed.wire import Ended, chunked, head

NAME = "store.example"


@pytest.fixture(scope="module")
def pki(certs):
    """The certificates that the tests share."""
    ca, stranger = certs.ca("ca"), certs.ca("stranger")

    class Pki:
        folder = certs.folder
        ca_file, stranger_file = ca[0], stranger[0]
        good = certs.issue("good", ca)
        expired = certs.issue("expired", ca, days=0)
        other_name = certs.issue("other", ca, also="DNS:other.example")
        alone = certs.issue("alone", None)
        unknown = certs.issue("unknown", stranger)
        by_address = certs.issue("by_address", ca, also="IP:127.0.0.1")
        client = certs.issue("client", ca, also="DNS:client.example")

    time.sleep(1.1)  # so that `expired` is
    return Pki


def tls(pki, **keys):
    return {"ca_file": pki.ca_file, "server_name": NAME, **keys}


def check_answer(response, body):
    assert response.status == 200, repr(response)
    assert hashlib.sha256(response.body).digest() == hashlib.sha256(body).digest(), len(response.body)


# -- bodies ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["bytes", "chunked", "until_close"])
@pytest.mark.parametrize("size", [0, 1, 16384, 16385, 1 << 20])
def test_answers_arrive_whole(sidecar, tls_server, pki, kind, size):
    s = sidecar(http(tls_server(pki.good), tls=tls(pki)))
    response, line = s.traced("GET", f"/{kind}/{size}")
    check_answer(response, pattern(size))
    assert line["class"] == "" and float(line["upstream_connect_time"]) >= 0


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_mebibyte_each_way(sidecar, tls_server, pki, version):
    import ssl
    server = tls_server(pki.good, max_version=ssl.TLSVersion[version])
    s = sidecar(http(server, tls=tls(pki)))
    body = pattern(1 << 20)
    up = s.call("PUT", "/b/k", body=body)
    assert up.text == hashlib.sha256(body).hexdigest(), repr(up)
    check_answer(s.get("/bytes/1048576"), body)
    assert {e.version for e in server.seen} == {version.replace("_", ".")}
    assert set(server.names) == {NAME}, "SNI"


def test_64_mebibytes_each_way(sidecar, tls_server, pki):
    server = tls_server(pki.good)
    s = sidecar(http(server, tls=tls(pki), route={"read_timeout": "60s"}))
    size = 64 << 20
    body = pattern(size)
    with s.wire(timeout=120) as wire:
        up = wire.request("PUT", "/b/big", (), body).response("PUT")
        assert up.text == hashlib.sha256(body).hexdigest()
        check_answer(wire.request("GET", f"/bytes/{size}").response("GET"), body)
    assert s.rss_kib() < 400 * 1024, "bodies stream, they are not held"  # a sanitized build is large by itself


def test_bodies_both_ways_at_once(sidecar, tls_server, pki):
    s = sidecar(http(tls_server(pki.good), tls=tls(pki), max_conns=0))
    body = pattern(300_000)

    def one(i):
        if i % 2:
            return s.call("PUT", f"/b/{i}", body=body).text == hashlib.sha256(body).hexdigest()
        return s.get("/bytes/300000").body == body

    assert all(parallel(20, one))


def test_a_slow_client_and_a_slow_server(sidecar, tls_server, pki):
    """Back-pressure both ways: records stay in TLS, or half sent, until there is room."""
    server = tls_server(pki.good, sips_s=0.02, rcvbuf=8192)
    s = sidecar(http(server, tls=tls(pki)))
    body = pattern(6 << 20)
    up = s.call("PUT", "/b/k", body=body, timeout=60)
    assert up.text == hashlib.sha256(body).hexdigest(), repr(up)
    with s.wire(rcvbuf=8192, timeout=60) as wire:
        wire.request("GET", f"/bytes/{len(body)}")
        digest, got = hashlib.sha256(), -1
        while got < len(body):
            data = wire.sock.recv(70_000)
            assert data, f"ended after {got}"
            if got < 0:
                data = data.partition(b"\r\n\r\n")[2]
                got = 0
            digest.update(data)
            got += len(data)
            time.sleep(0.002)
    assert digest.digest() == hashlib.sha256(body).digest()


def test_chunked_and_expected_bodies(sidecar, tls_server, pki):
    s = sidecar(http(tls_server(pki.good), tls=tls(pki)))
    parts = [pattern(n) for n in (1, 16384, 70_000)]
    sha = hashlib.sha256(b"".join(parts)).hexdigest()
    with s.wire() as wire:
        wire.request("PUT", "/b/k", [("Transfer-Encoding", "chunked")], chunked(*parts))
        assert wire.response("PUT").text == sha
        wire.send(head("PUT", "/b/k", [("Expect", "100-continue"), ("Content-Length", "70000")]))
        assert wire.read_interim().status == 100
        wire.send(parts[2])
        assert wire.response("PUT").text == hashlib.sha256(parts[2]).hexdigest()


# -- connections ----------------------------------------------------------------------------------------------------
def test_connections_are_kept_and_sessions_resumed(sidecar, tls_server, pki):
    server = tls_server(pki.good)
    s = sidecar(http(server, tls=tls(pki)))
    for _ in range(10):
        assert s.get("/x").status == 200
    assert {e.conn for e in server.seen} == {1}, "one connection for one request after the other"
    busy = [s.wire() for _ in range(4)]
    for wire in busy:  # one after the other: a ticket serves once (RFC 8446 C.4), and the next comes with the answer
        wire.request("GET", "/bytes/20000000").more()
    assert [(e.conn, e.resumed) for e in server.seen[10:]] == [(1, False), (2, True), (3, True), (4, True)]
    for wire in busy:
        wire.close()
    lines = s.wait_access(14)
    assert lines[1]["upstream_connect_time"] == "0.000"


def test_a_kept_connection_that_the_server_closed_is_not_used(sidecar, tls_server, pki):
    server = tls_server(pki.good)
    s = sidecar(http(server, tls=tls(pki)))
    assert s.get("/until_close/100").status == 200
    assert s.get("/x").status == 200
    assert s.get("/x").status == 200
    assert [e.conn for e in server.seen] == [1, 2, 2]


def test_system_calls_per_request(sidecar, tls_server, pki, folder):
    """On a kept connection: one recv and one send on each side, as without TLS."""
    server = tls_server(pki.good)
    s = sidecar(http(server, tls=tls(pki)))
    count, output = 100, os.path.join(folder, "strace")
    with s.wire() as wire:
        for _ in range(5):
            assert wire.request("GET", "/bytes/1024").response("GET").status == 200
        with traced(s, "%network,read,write,readv,writev,epoll_ctl", output):
            for _ in range(count):
                assert wire.request("GET", "/bytes/1024").response("GET").status == 200
    calls = re.findall(r"^\d+ +(\w+)\(", open(output, encoding="ascii").read(), re.M)
    data = [c for c in calls if c in ("recvfrom", "sendto", "sendmsg", "recvmsg")]
    # the answer's head and body are two records, which may come in two pieces
    assert 4 * count <= len(data) <= 5.5 * count, {c: calls.count(c) for c in set(calls)}
    sends = [c for c in data if c.startswith("send")]
    assert 2 * count <= len(sends) <= 3.2 * count, {c: calls.count(c) for c in set(calls)}
    assert "epoll_ctl" not in calls


# -- certificates ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cert, cause", [
    ("expired", "certificate has expired"),
    ("other_name", "hostname mismatch"),
    ("alone", "self-signed certificate"),
    ("unknown", "unable to get local issuer certificate"),
])
def test_bad_certificates(sidecar, tls_server, pki, cert, cause):
    server = tls_server(getattr(pki, cert))
    s = sidecar(http(server, tls=tls(pki), max_fails=0))
    response, line = s.traced("GET", "/x")
    said = f"TLS handshake with {server.address} failed ({cause})"
    assert (response.status, response.header("X-Fairlead-Error")) == (502, "upstream_failed"), repr(response)
    assert response.header("X-Fairlead-Cause") == said
    assert (line["class"], line["cause"], line["upstream_status"]) == ("tls_failure", said, "502")
    assert server.seen == [], "no request reached it"
    assert s.metrics().sum("fairlead_attempts_total", outcome="tls_failure") == 1
    event = s.wait_event("SSL_do_handshake() failed while SSL handshaking to upstream")
    assert event["error"] == cause


def test_a_failing_handshake_counts_and_is_retried(sidecar, tls_server, pki):
    """Nothing was sent: whatever the method, the next peer gets it."""
    bad, good = tls_server(pki.expired, name="bad"), tls_server(pki.good, name="good")
    s = sidecar(http(bad, good, tls=tls(pki), max_fails=1, fail_timeout="60s", **FREE))
    response, line = meet(s, bad.address, method="POST", target="/b/k", body=b"once")
    assert response.status == 200 and response.header("X-Origin") == "good"
    assert line["upstream_status"] == "502, 200" and line["retry_reason"] == "tls_failure"
    assert all(len(chain(s.traced("GET", "/x")[1])) == 1 for _ in range(6)), "it is quarantined"
    shown = s.peer("pool", bad.address)
    assert shown["state"] == "quarantined"
    assert "certificate has expired" in str(shown["last_cause"])
    assert len([e for e in good.seen if e.method == "POST"]) >= 1


def test_an_address_in_the_certificate(sidecar, tls_server, pki):
    s = sidecar(http(tls_server(pki.by_address), tls={"ca_file": pki.ca_file, "server_name": "127.0.0.1"}))
    assert s.get("/x").status == 200


def test_the_name_of_a_peer_is_verified(sidecar, tls_server, pki, certs):
    """Without server_name it is the name that the address was found by."""
    ca = (pki.ca_file, os.path.join(pki.folder, "ca.key"))
    server = tls_server(certs.issue("local", ca, also="DNS:localhost"))
    s = sidecar(http(peer(f"localhost:{server.port}"), tls={"ca_file": pki.ca_file}))
    wait_until("the name to be known", lambda: s.get("/x").status == 200)
    assert set(server.names) == {"localhost"}


def test_verification_can_be_turned_off(sidecar, tls_server, pki):
    s = sidecar(http(tls_server(pki.alone), tls={"verify": False}))
    assert s.get("/x").status == 200


# -- client certificates --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_client_certificates(sidecar, tls_server, pki, version):
    import ssl
    server = tls_server(pki.good, client_ca=pki.ca_file, max_version=ssl.TLSVersion[version])
    s = sidecar(http(server, tls=tls(pki, cert_file=pki.client[0], key_file=pki.client[1])))
    assert s.get("/x").status == 200


@pytest.mark.parametrize("version, cause", [("TLSv1_2", "handshake failure"), ("TLSv1_3", "certificate required")])
def test_a_missing_client_certificate(sidecar, tls_server, pki, version, cause):
    """With TLS 1.3 the refusal comes after the request was sent; nobody has read it, so it may go elsewhere."""
    import ssl
    strict = tls_server(pki.good, name="strict", client_ca=pki.ca_file, max_version=ssl.TLSVersion[version])
    lax = tls_server(pki.good, name="lax")
    s = sidecar(http(strict, lax, tls=tls(pki), max_fails=0, **FREE))
    response, line = meet(s, strict.address, method="POST", target="/b/k", body=b"once", tries=12)
    assert response.status == 200 and response.header("X-Origin") == "lax", (repr(response), line)
    assert line["retry_reason"] == "tls_failure"
    assert strict.seen == []
    event = s.wait_event("SSL_do_handshake() failed while SSL handshaking to upstream")
    assert event["error"] == f"alert received: {cause}"


# -- peers that do not speak TLS ------------------------------------------------------------------------------------
def test_a_plain_http_port(sidecar, tls_server, pki):
    server = tls_server(pki.good, mode="plain")
    s = sidecar(http(server, tls=tls(pki)))
    response, line = s.traced("GET", "/x")
    assert response.status == 502 and line["class"] == "tls_failure"
    assert "wrong version number" in response.header("X-Fairlead-Cause")
    assert server.seen == [], "never in clear"


def test_a_peer_that_closes_in_the_handshake(sidecar, tls_server, pki):
    s = sidecar(http(tls_server(pki.good, mode="drop"), tls=tls(pki)))
    response, line = s.traced("GET", "/x")
    assert response.status == 502 and line["class"] == "tls_failure"


def test_a_handshake_that_hangs(sidecar, tls_server, pki):
    """connect_timeout covers it; the class is tls_failure, the answer of a failure and not of a silence."""
    server = tls_server(pki.good, mode="hang")
    s = sidecar(http(server, tls=tls(pki), route={"connect_timeout": "300ms"}))
    began = time.monotonic()
    response, line = s.traced("GET", "/x")
    took = time.monotonic() - began
    assert 0.28 <= took < 2, took
    assert (response.status, line["class"]) == (502, "tls_failure"), repr(response)
    assert response.header("X-Fairlead-Cause") == f"TLS handshake with {server.address} failed (handshake timed out)"


def test_hanging_handshakes_leave_room_for_others(sidecar, tls_server, pki):
    hangs, good = tls_server(pki.good, mode="hang"), tls_server(pki.good)
    config = http(good, tls=tls(pki))
    config["backends"]["stuck"] = {**config["backends"]["pool"], "peers": [peer(hangs)]}
    config["routes"]["stuck"] = {"backend": "stuck", "connect_timeout": "2s"}
    s = sidecar(config)
    waiting = [threading.Thread(target=lambda: s.get("/stuck/x"), daemon=True) for _ in range(30)]
    for one in waiting:
        one.start()
    wait_until("handshakes that hang", lambda: hangs.accepted >= 8)
    began = time.monotonic()
    assert s.get("/x").status == 200
    assert time.monotonic() - began < 1.5, "the places of the stuck ones are lent for a moment only"
    for one in waiting:
        one.join(10)


def test_many_handshakes_at_once(sidecar, tls_server, pki):
    server = tls_server(pki.good, slow_s=0.01)
    s = sidecar(http(server, tls=tls(pki), max_conns=0, keepalive={"idle": 200}, route={"connect_timeout": "10s"}))
    assert parallel(100, lambda i: s.get("/x").status) == [200] * 100
    assert server.shaking_peak <= 30, f"{server.shaking_peak} at once; places are 8, for 50 ms each"
    assert s.metrics().sum("fairlead_attempts_total", outcome="tls_failure") == 0


# -- ends -----------------------------------------------------------------------------------------------------------
def test_an_end_without_close_notify_truncates(sidecar, tls_server, pki):
    s = sidecar(http(tls_server(pki.good), tls=tls(pki), max_fails=0))
    with s.wire() as wire:
        with pytest.raises(Ended):
            wire.request("GET", "/cut/5000").response("GET")
    line = s.wait_access(1, uri="/cut/5000")[0]
    assert (line["error"], line["class"]) == ("truncated", "truncated")


def test_a_body_shorter_than_framed_truncates(sidecar, tls_server, pki):
    s = sidecar(http(tls_server(pki.good), tls=tls(pki), max_fails=0))
    with s.wire() as wire:
        with pytest.raises(Ended) as ended:
            wire.request("GET", "/short/50000").response("GET")
    assert ended.value.response is None or len(ended.value.response.body) <= 25000
    assert s.wait_access(1, uri="/short/50000")[0]["error"] == "truncated"


# -- files ----------------------------------------------------------------------------------------------------------
def test_authorities_are_read_again_when_they_change(sidecar, tls_server, pki, folder):
    mine = os.path.join(folder, "ca.pem")
    shutil.copy(pki.stranger_file, mine)
    server = tls_server(pki.good)
    s = sidecar(http(server, tls=tls(pki, ca_file=mine), max_fails=0))
    assert "local issuer" in s.get("/x").header("X-Fairlead-Cause")
    shutil.copy(pki.ca_file, mine)
    wait_until("the new authority", lambda: s.get("/x").status == 200, 12, 0.2)
    assert s.wait_event("changed TLS file taken over")["file"] == mine
    with open(mine, "w", encoding="ascii") as f:
        f.write("half a file")
    assert "holds no certificate" in s.wait_event("changed TLS file refused, the old one goes on", timeout=12)["cause"]
    assert s.get("/x").status == 200, "what was in force stays"
    shutil.copy(pki.stranger_file, mine)
    wait_until("kept connections to be given up, too", lambda: s.get("/x").status == 502, 12, 0.2)


def test_a_renewed_client_certificate(sidecar, tls_server, pki, certs, folder):
    ca = (pki.ca_file, os.path.join(pki.folder, "ca.key"))
    cert, key = os.path.join(folder, "c.pem"), os.path.join(folder, "c.key")
    old = certs.issue("client_old", (pki.stranger_file, os.path.join(pki.folder, "stranger.key")))
    shutil.copy(old[0], cert)
    shutil.copy(old[1], key)
    s = sidecar(http(tls_server(pki.good, client_ca=pki.ca_file),
                     tls=tls(pki, cert_file=cert, key_file=key), max_fails=0))
    assert s.get("/x").status == 502
    new = certs.issue("client_new", ca)
    shutil.copy(new[0], cert)
    time.sleep(6)  # a look between the two: the certificate without its key is not taken
    shutil.copy(new[1], key)
    wait_until("the new certificate", lambda: s.get("/x").status == 200, 12, 0.2)


@pytest.mark.parametrize("key, words", [("ca_file", "cannot read"), ("cert_file", "cannot read"),
                                        ("key_file", "is not the key of the certificate")])
def test_files_that_cannot_be_used_are_a_configuration_error(sidecar, tls_server, pki, key, words):
    keys = {"cert_file": pki.client[0], "key_file": pki.client[1]}
    keys[key] = pki.good[1] if key == "key_file" else "/nowhere/x.pem"
    s = sidecar(http("127.0.0.1:1", tls=tls(pki, **keys)), wait=False, expected_exit=2)
    assert s.wait(10) == 2
    text = s.err.text()
    assert f"backends.pool.tls.{key}: " in text and words in text and keys[key] in text, text


def test_an_apply_with_bad_files_changes_nothing(sidecar, tls_server, pki):
    server = tls_server(pki.good)
    config = http(server, tls=tls(pki), max_fails=0)
    s = sidecar(config)
    assert s.get("/x").status == 200
    config["listen"] = s.config["listen"]
    config["backends"]["pool"]["tls"]["ca_file"] = "/nowhere/ca.pem"
    s.write_config(config)
    s.signal(signal.SIGHUP)
    event = s.wait_event("config refused")
    assert "backends.pool.tls.ca_file: cannot read /nowhere/ca.pem" in event["cause"], event
    assert s.get("/x").status == 200


def test_another_definition_another_connection(sidecar, tls_server, pki):
    """What a kept connection has proved counts for the definition that it was made under."""
    server = tls_server(pki.good)
    config = http(server, tls={"verify": False}, max_fails=0)
    s = sidecar(config)
    for name, status in (("other.example", 502), (NAME, 200)):
        assert s.get("/x").status == 200 or name == NAME
        config["listen"] = s.config["listen"]
        config["backends"]["pool"]["tls"] = {"ca_file": pki.ca_file, "server_name": name}
        s.write_config(config)
        before = len(s.events("config applied"))
        s.signal(signal.SIGHUP)
        s.wait_event("config applied", count=before + 1)
        wait_until(f"{name} to be asked for", lambda: s.get("/x").status == status)
    assert set(server.names) >= {"other.example", NAME}


def test_plain_connections_are_not_used_for_tls(sidecar, tls_server, pki):
    """A backend that is told to speak TLS does so at once, whatever it has kept in clear."""
    server = tls_server(pki.good, mode="plain")
    config = http(server, max_fails=0)
    s = sidecar(config)
    assert s.get("/x").status == 200 and len(server.seen) == 1
    config["listen"] = s.config["listen"]
    config["backends"]["pool"]["tls"] = tls(pki)
    s.write_config(config)
    s.signal(signal.SIGHUP)
    s.wait_event("config applied")
    response = s.get("/x")
    assert response.status == 502 and "wrong version number" in response.header("X-Fairlead-Cause")
    assert len(server.seen) == 1


def test_two_threads_share_terms(sidecar, tls_server, pki):
    server = tls_server(pki.good)
    s = sidecar({"threads": 2, **http(server, tls=tls(pki), max_conns=0)})
    body = pattern(40_000)

    def one(i):
        with s.wire() as wire:
            return all(wire.request("GET", "/bytes/40000").response("GET").body == body for _ in range(5))

    assert all(parallel(24, one))


# -- probes ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_probes_speak_tls(sidecar, tls_server, pki, kind):
    good, bad = tls_server(pki.good), tls_server(pki.expired)
    s = sidecar(http(good, bad, tls=tls(pki), probe={"type": kind, "interval": "500ms", "timeout": "1s"}))
    wait_until("both verdicts", lambda: s.peer("pool", good.address)["verdict"]["status"] == "healthy" and
               s.peer("pool", bad.address)["verdict"]["status"] == "unreachable")
    verdict = s.peer("pool", bad.address)["verdict"]
    assert verdict["cause"] == f"TLS handshake with {bad.address} failed (certificate has expired)"
    assert (verdict["code"], verdict["step"]) == ("tls_expired", "tls")
    if kind == "http":
        assert len({e.conn for e in good.seen if e.method == "GET"}) == 1, "on one connection"
