"""What an SDK makes of what the sidecar answers, and of answers that the sidecar must leave alone."""
import time

import pytest

from bed.config import s3
from bed.sidecar import chain
from ground import keys
from ground.clients import Boto, Js
from ground.front import ROUTE, config
from ground.scripted import Scripted

B = f"/{keys.BUCKET}"


def test_our_503_in_boto3(fresh_store, sidecar, client):
    """A blocked bucket: code, message and request id arrive, the SDK retries as it does for S3's own 503, and nothing
    reaches a peer."""
    store = fresh_store("versitygw", peers=2)
    for n in range(2):
        store.kill(n)
    blocked = config(store, probe={"type": "s3", "interval": "1h", "bucket": keys.BUCKET})
    front = sidecar({**blocked, "boot_probe": "warn"})
    front.wait_event("backend unhealthy")
    one = client(Boto, front, store, "standard", "3")
    answer = one.do("get", key="x")
    lines = front.wait_access(3)
    assert (answer.status, answer.code, answer["retries"]) == (503, "ServiceUnavailable", 2), answer
    assert answer["request_id"] == lines[-1]["request_id"], "the id in the error is the one in the log"
    assert answer["error"]["Backend"] == "store" and "refused" in answer["error"]["Cause"] in answer.message
    assert len(lines) == 3 and {line["error"] for line in lines} == {"backend_unavailable"}
    assert all(chain(line) == [] and line["request_time"] < 0.05 for line in lines)
    head = one.do("head", key="x")
    assert (head.status, head.code) == (503, "503"), "a HEAD has no body to say more"
    assert front.wait_access(6)[-1]["bytes_out"] < 1200


@pytest.fixture
def peer(ports):
    peers = []

    def start(answer):
        peers.append(Scripted(ports, answer))
        return peers[-1]

    yield start
    for one in peers:
        one.close()


ERROR_IN_200 = b'<Error><Code>InternalError</Code><Message>it broke late</Message></Error>'
XML = b'<?xml version="1.0" encoding="UTF-8"?>\n'
SPACES, PAUSE_S = 8, 0.25


def keeps_alive_then_fails(_head, _body, connection):
    """As S3 does while it assembles an upload: 200 and the start of a document at once, white space as long as it takes,
    then how it went."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nTransfer-Encoding: chunked\r\n\r\n"
                       b"%x\r\n%s\r\n" % (len(XML), XML))
    for _ in range(SPACES):
        connection.sendall(b"1\r\n \r\n")
        time.sleep(PAUSE_S)
    connection.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(ERROR_IN_200), ERROR_IN_200))


def test_an_error_in_a_200_passes_untouched(peer, sidecar):
    a, b = peer(keeps_alive_then_fails), peer(keeps_alive_then_fails)
    front = sidecar(s3(a.address, b.address, route={**ROUTE, "read_timeout": "1s", "long_deadline": "1s"}))
    with front.wire() as wire:
        began = time.monotonic()
        wire.request("POST", f"{B}/k?uploadId=u", body=b"<CompleteMultipartUpload/>")
        assert wire.read_interim().status == 200
        head_s = time.monotonic() - began
        while wire.buffer.count(b" ") <= XML.count(b" "):
            assert wire.more()
        space_s = time.monotonic() - began
        while not wire.buffer.endswith(b"0\r\n\r\n"):
            assert wire.more()
        whole_s = time.monotonic() - began
    assert head_s < 0.2 and space_s < 0.2, "nothing is held back to look into it"
    assert whole_s >= SPACES * PAUSE_S, "longer than every timeout: it moved"
    assert ERROR_IN_200 in wire.buffer and wire.buffer.count(b" ") >= XML.count(b" ") + SPACES
    assert len(a.requests) + len(b.requests) == 1
    line = front.wait_access(1)[0]
    assert line["status"] == 200 and line["error"] == "" and len(chain(line)) == 1


@pytest.mark.parametrize("kind", [Boto, Js], ids=lambda kind: kind.name)
def test_sdks_see_the_error_in_a_200(kind, peer, sidecar):
    a, b = peer(keeps_alive_then_fails), peer(keeps_alive_then_fails)
    front = sidecar(s3(a.address, b.address, route=ROUTE))
    one = kind(f"http://127.0.0.1:{front.data_port}")
    try:
        answer = one.do("complete", key="k", upload="u", etags=['"e"'])
        assert not answer and answer.code == "InternalError", repr(answer)
    finally:
        one.close()
    assert len(a.requests) + len(b.requests) == 1, "with its retries off the SDK asks once, and so does the sidecar"


def status_503(code):
    body = f"<Error><Code>{code}</Code><Message>busy</Message><RequestId>R1</RequestId></Error>".encode()

    def answer(_head, _body, connection):
        connection.sendall(b"HTTP/1.1 503 Busy\r\nx-amz-request-id: R1\r\nContent-Type: application/xml\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    return answer


@pytest.mark.parametrize("code, requests", [("SlowDown", 3), ("ServiceUnavailable", 6)])
def test_retries_of_sdk_and_sidecar_together(code, requests, peer, sidecar):
    """boto3's three attempts of a GET: SlowDown is the application's to see, one request each; a 503 that is none is tried
    at the second peer each time where the route lists it."""
    a, b = peer(status_503(code)), peer(status_503(code))
    front = sidecar(s3(a.address, b.address, max_fails=0, retry_budget={"ratio": "100%", "min_per_second": 100},
                       route={**ROUTE, "next_upstream": ["error", "timeout", "http_503"]}))
    one = Boto(f"http://127.0.0.1:{front.data_port}", "standard", "3")
    try:
        answer = one.do("get", key="k")
    finally:
        one.close()
    assert (answer.status, answer.code, answer["retries"], answer["request_id"]) == (503, code, 2, "R1")
    assert len(a.requests) + len(b.requests) == requests


def test_half_an_object_is_not_one(peer, sidecar):
    """A peer that dies in the middle of a body: the SDK fails, it does not return half an object, and nothing is asked
    again behind its back."""

    def half(_head, _body, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 100000\r\n\r\n" + b"x" * 50000)
        connection.close()

    a, b = peer(half), peer(half)
    front = sidecar(s3(a.address, b.address, route=ROUTE))
    for kind in (Boto, Js):
        one = kind(f"http://127.0.0.1:{front.data_port}")
        try:
            answer = one.do("get", key="k")
        finally:
            one.close()
        assert not answer and answer.status in (0, 200), repr(answer)
    assert len(a.requests) + len(b.requests) == 2
    assert [line["error"] for line in front.wait_access(2)] == ["truncated", "truncated"]
