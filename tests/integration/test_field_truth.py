"""Field reports BR-20 to BR-24: backups, client hang-ups, and answers that say who is to blame."""
import re
import time
import xml.etree.ElementTree as ET

import pytest

from bed.config import http, peer, s3
from bed.play import parallel
from bed.process import wait_until
from bed.sidecar import chain

TCP = {"type": "tcp", "interval": "300ms", "timeout": "500ms"}


def test_br20_backups_engage_on_verdicts_and_share(sidecar, origins):
    u1, u2, u3, u4 = origins(4)
    u1.refuse()
    u2.refuse()
    s = sidecar(http(u1, u2, peer(u3, backup=True), peer(u4, backup=True), probe=TCP))
    wait_until("both verdicts", lambda: all("unreachable" in str(s.peer("pool", u.address)["verdict"])
                                            for u in (u1, u2)))
    names = [s.get("/x").origin for _ in range(100)]
    assert names.count("c") + names.count("d") == 100 and 40 <= names.count("c") <= 60, names
    assert s.metrics().sum("fairlead_on_backup", backend="pool") == 1
    assert s.ask("GET", "/_/ready").status == 200, "serving from backups is no outage"
    u3.refuse()
    assert {s.get("/x").origin for _ in range(10)} == {"d"}, "the other backup goes on"
    u1.listen()
    wait_until("traffic to revert", lambda: s.get("/x").origin == "a", 6)
    u4.forget()
    assert {s.get("/x").origin for _ in range(10)} == {"a"}
    assert [e for e in u4.ledger() if e.target == "/x"] == []


def test_br20_read_only_backup(sidecar, origins):
    u1, spare = origins(2)
    u1.refuse()
    spare.set(missing=404)
    s = sidecar(s3(u1, peer(spare, backup=True), max_fails=1, fail_timeout="10s"))
    assert s.get("/b/").status == 200, "reads go to the backup"
    write = s.call("PUT", "/b/k", body=b"x")
    assert (write.status, write.header("X-Fairlead-Error")) == (503, "backup_read_only"), repr(write)
    absent = s.get("/b/none")
    assert (absent.status, absent.header("X-Fairlead-Error")) == (503, "backup_not_authoritative"), repr(absent)
    assert spare.ledger("PUT") == []


def test_br20_same_store_backup_takes_writes(sidecar, origins):
    u1, spare = origins(2)
    u1.refuse()
    spare.set(missing=404)
    s = sidecar(s3(u1, peer(spare, backup=True), same_store=True))
    assert s.call("PUT", "/b/k", body=b"x").status == 200
    assert s.get("/b/none").status == 404


def test_br21_client_hang_up_is_499_and_stops_everything(sidecar, origins):
    u1, u2 = origins(2)
    for o in (u1, u2):
        o.rules("delay=1500")
    s = sidecar(http(u1, u2, max_fails=1, route={"read_timeout": "3s"}))
    count = 20
    cut = []

    def leave(i):
        with s.wire() as wire:
            wire.request("GET", f"/x/{i}")
            time.sleep(0.3)
        cut.append(time.monotonic())

    parallel(count, leave)
    lines = s.wait_access(count, status=499)
    assert all(line["class"] == "client_abort" and len(chain(line)) == 1 for line in lines)
    m = s.metrics()
    assert m.sum("fairlead_client_aborts_total") == count
    assert m.sum("fairlead_requests_total", status_class="5xx") == 0
    entries = [e for o in (u1, u2) for e in o.ledger()]
    assert len(entries) == count, "no retry for a client that has left"
    assert all(e.end.startswith("peer_") for e in entries), entries
    late = max(e.end_us / 1e6 for e in entries) - max(cut)
    assert late < 0.3, f"upstream sockets close with the client, the last {late:.2f} s later"
    assert s.events("upstream server temporarily disabled") == []


EMPTY = {"all down": lambda dead: {"boot_probe": "off", "backends": {"store": {
             "protocol": "s3", "probe": {"type": "none"}, "peers": [peer(dead(), down=True)]}},
             "routes": {"releases": {"backend": "store"}}},
         "no members": lambda dead: {"boot_probe": "off", "start_wait": "100ms", "backends": {"store": {
             "protocol": "s3", "probe": {"type": "none"},
             "service": {"namespace": "storage", "name": "minio", "port": "s3"}}},
             "routes": {"releases": {"backend": "store"}}}}


@pytest.mark.parametrize("why", EMPTY)
def test_br22_empty_pool_is_a_fast_parsable_503(sidecar, dead, why):
    s = sidecar(EMPTY[why](dead))
    token = "no_live_upstream" if why == "all down" else "no_membership"
    for method, body in (("GET", None), ("HEAD", None), ("DELETE", None), ("PUT", b"x" * (10 << 20))):
        with s.wire() as wire:
            start = time.monotonic()
            try:
                wire.request(method, "/releases/a%26b", (), body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # answered before it had read the whole upload
            response = wire.response(method)
            assert response.status == 503, f"{method}: {response!r}"
            if method != "PUT":
                assert time.monotonic() - start < 0.2
            assert response.header("X-Fairlead-Error") == token and response.header("Retry-After") == "1"
            assert response.header("X-Fairlead-Cause")
            if method == "HEAD":
                assert response.body == b""
            else:
                root = ET.fromstring(response.body)
                assert root.tag == "Error" and root.findtext("Code") == "ServiceUnavailable"
                assert "store" in root.findtext("Message") and root.findtext("RequestId")
                assert root.findtext("Backend") == "store" and root.findtext("Cause")
            if method in ("GET", "HEAD", "DELETE"):
                assert wire.request("GET", "/releases/second").response().status == 503, "the connection goes on"
    unknown = s.get("/elsewhere/k")
    assert unknown.status == 421 and ET.fromstring(unknown.body).findtext("Code") == "NoSuchRoute"


def test_br23_who_said_503(sidecar, origins, dead):
    says, hangs = origins(2)
    says.rules('status=503 body="mine"')
    hangs.rules("hang")
    gone, r1, r2 = dead(), dead(), dead()
    pool = {"protocol": "http", "probe": {"type": "none"}, "max_fails": 1, "fail_timeout": "10s"}
    s = sidecar({"backends": {"says": {**pool, "peers": [peer(says)]}, "gone": {**pool, "peers": [peer(gone)]},
                              "out": {**pool, "peers": [peer(r1), peer(r2)]}, "hangs": {**pool, "peers": [peer(hangs)]}},
                 "routes": {"says": {"backend": "says"}, "gone": {"backend": "gone", "next_upstream_tries": 1},
                            "out": {"backend": "out"}, "hangs": {"backend": "hangs", "read_timeout": "200ms"}}})
    s.get("/out/x")  # both of its peers fail now
    want = {"/says/x": (503, None), "/gone/x": (502, "upstream_failed"), "/out/x": (503, "no_live_upstream"),
            "/hangs/x": (504, "upstream_timeout")}
    causes = set()
    for target, (status, token) in want.items():
        response, line = s.traced("GET", target)
        assert (response.status, response.header("X-Fairlead-Error")) == (status, token), f"{target}: {response!r}"
        assert line["error"] == (token or "") and line["status"] == status
        if token:
            assert response.header("Proxy-Status"), "RFC 9209"
            causes.add(response.header("X-Fairlead-Cause"))
            assert line["cause"] == response.header("X-Fairlead-Cause"), "one cause everywhere"
        else:
            assert response.body == b"mine" and not [n for n, _ in response.headers if "fairlead" in n.lower()]
            assert response.header("Proxy-Status") is None
    assert len(causes) == 3, f"each has its own cause: {causes}"
    m = s.metrics()
    count = {token: m.sum("fairlead_requests_total", error=token)
             for token in ("", "upstream_failed", "no_live_upstream", "upstream_timeout")}
    assert count == {"": 1, "upstream_failed": 2, "no_live_upstream": 1, "upstream_timeout": 1}
    assert m.sum("fairlead_requests_total") == 5, "the causes sum up to the total"


@pytest.mark.parametrize("kib, status", [(8, 200), (16, 200), (40, 200), (80, 502)])
def test_br24_oversized_response_head(sidecar, origins, kib, status):
    u1, u2 = origins(2)
    for o in (u1, u2):
        o.rules(f"head_size={kib * 1024}")
    s = sidecar(http(u1, u2))
    response, line = s.traced("GET", "/x")
    assert response.status == status
    if status == 200:
        assert len([1 for n, _ in response.headers if n == "x-amz-meta-pad"]) >= kib - 2, "relayed whole"
    else:
        assert response.header("X-Fairlead-Error") == "upstream_failed" and line["class"] == "invalid_header"
        assert re.search(r"head|header", response.header("X-Fairlead-Cause")), response.header("X-Fairlead-Cause")
        assert len(chain(line)) == 1, "invalid_header is not listed by default"
        s.wait_event("upstream sent invalid header")
