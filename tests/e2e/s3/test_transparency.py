"""What a store says about a request does not depend on whether the sidecar is between: signatures, odd keys, ranges,
conditions, aws-chunked bodies in all forms, presigned URLs, Expect. Every request is sent twice, to a peer and through
the sidecar, and both answers must be the same, and right."""
import socket

import pytest

from bed.wire import Wire
from ground import keys, sigv4
from ground.bodies import KIB
from ground.front import config, failed, retried

B = f"/{keys.BUCKET}"
DATA = bytes(range(256)) * 8
SAME_HEADERS = ("ETag", "Content-Range", "Accept-Ranges", "x-amz-meta-plain", "x-amz-meta-dotted.name", "Content-Type",
                "Content-Language")


class Pair:
    """The same request straight to a peer and through the sidecar, signed for the sidecar's address both times."""

    def __init__(self, store, front):
        self.store, self.direct, self.front = store, store.address(0), front.data
        self.host = f"127.0.0.1:{front.data_port}"

    def both(self, run):
        """run(address, folder) -> something to compare; each way has keys of its own."""
        return run(self.direct, "direct"), run(self.front, "front")

    def call(self, method, target, body=b"", **keywords):
        """`{}` in the target is the folder. Returns the common (status, code, headers, body)."""

        def run(address, folder):
            r = sigv4.call(address, method, target.format(folder), body, host=self.host, **keywords)
            headers = tuple(r.header(name) for name in SAME_HEADERS) if r.status < 300 else ()
            return r.status, sigv4.code(r), headers, r.body if r.status < 300 and method == "GET" else b""

        direct, front = self.both(run)
        assert front == direct, f"{method} {target}: through the sidecar {front}, direct {direct}"
        return front[0], front[1], front[3]


@pytest.fixture
def pair(store, sidecar):
    front = sidecar(config(store))
    pair = Pair(store, front)
    assert pair.call("PUT", f"{B}/{{}}/obj", DATA)[0] == 200
    yield pair
    assert not failed(front) and not retried(front)


SKEWED = (403, "RequestTimeTooSkewed")
# name: keywords of Pair.call and its answer, at versitygw and at SeaweedFS where that is more lenient
CREDENTIALS = {
    "good": ({}, (200, "")),
    "wrong secret": ({"signer": lambda: sigv4.Signer(secret="x" * 40)}, (403, "SignatureDoesNotMatch")),
    "unknown key": ({"signer": lambda: sigv4.Signer(access="AKIDNOBODY000000000A")}, (403, "InvalidAccessKeyId")),
    "anonymous": ({"anonymous": True}, (403, "AccessDenied")),
    "14 minutes late": ({"signer": lambda: sigv4.Signer(skew_minutes=-14)}, (200, "")),
    "16 minutes late": ({"signer": lambda: sigv4.Signer(skew_minutes=-16)}, SKEWED),
    "16 minutes early": ({"signer": lambda: sigv4.Signer(skew_minutes=16)}, SKEWED),
    "wrong region": ({"signer": lambda: sigv4.Signer(region="eu-west-1")}, (400, "AuthorizationHeaderMalformed"), (200, "")),
    "x-amz-* added after signing": ({"unsigned": [("x-amz-foo", "1")]}, (403, "AccessDenied"), (403, "SignatureDoesNotMatch")),
    "signed Accept-Encoding": ({"headers": [("Accept-Encoding", "identity")]}, (200, "")),
    "signed x-request-id": ({"headers": [("x-request-id", "mine-1")]}, (200, "")),
}


@pytest.mark.parametrize("name", CREDENTIALS)
def test_signatures(name, pair):
    keywords, *answers = CREDENTIALS[name]
    keywords = {k: v() if callable(v) else v for k, v in keywords.items()}
    want = answers[-1] if pair.store.kind == "seaweedfs" else answers[0]
    status, code, body = pair.call("GET", f"{B}/{{}}/obj", **keywords)
    assert (status, code) == want
    assert status != 200 or body == DATA


def test_payload_hash(pair):
    want = (200, "") if pair.store.kind == "seaweedfs" else (400, "XAmzContentSHA256Mismatch")
    assert pair.call("PUT", f"{B}/{{}}/hash", DATA, payload="0" * 64)[:2] == want


def test_ranges_and_absence(pair):
    assert pair.call("GET", f"{B}/{{}}/obj", headers=[("Range", "bytes=10-19")]) == (206, "", DATA[10:20])
    assert pair.call("GET", f"{B}/{{}}/obj", headers=[("Range", "bytes=-5")]) == (206, "", DATA[-5:])
    assert pair.call("GET", f"{B}/{{}}/obj", headers=[("Range", "bytes=5000-")])[:2] == (416, "InvalidRange")
    assert pair.call("HEAD", f"{B}/{{}}/obj")[0] == 200
    assert pair.call("HEAD", B)[0] == 200 and pair.call("HEAD", "/nosuchbucket")[0] == 404
    assert pair.call("GET", f"{B}/{{}}/absent")[:2] == (404, "NoSuchKey")
    assert pair.call("GET", "/", )[0] == 200


# as on the wire, as signed where that differs; whether SeaweedFS has such keys
ODD_KEYS = [("a//b", True), ("%C3%A9", True), ("a%2Bb", True), ("a%20b", True), ("x/./y", False), ("x/../y", False),
            ("%25", True), ("a%26b%3Dc", True), ("~-_.", True), ("a:b,c;d", None)]


@pytest.mark.parametrize("key", [key for key, _ in ODD_KEYS])
def test_odd_keys(key, pair):
    lenient = dict(ODD_KEYS)[key]
    status = pair.call("PUT", f"{B}/{{}}/{key}", DATA)[0]
    if lenient is not None:
        assert status == (200 if lenient or pair.store.kind == "versitygw" else 400)
    if status == 200:
        assert pair.call("GET", f"{B}/{{}}/{key}")[2] == DATA
        assert pair.call("DELETE", f"{B}/{{}}/{key}")[0] == 204
        assert pair.call("GET", f"{B}/{{}}/{key}")[0] == 404


def test_metadata_and_queries(pair):
    headers = [("x-amz-meta-plain", "one  two"), ("Content-Type", "text/x-odd; a=b"), ("Content-Language", "de"),
               ("x-amz-meta-dotted.name", "yes")]
    assert pair.call("PUT", f"{B}/{{}}/meta", DATA, headers=headers)[0] == 200
    assert pair.call("GET", f"{B}/{{}}/meta")[2] == DATA
    tags = b"<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
    assert pair.call("PUT", f"{B}/{{}}/meta?tagging", tags)[0] in (200, 204)
    assert b"<Value>v</Value>" in pair.call("GET", f"{B}/{{}}/meta?tagging")[2]
    for query in ("list-type=2&prefix={}%2Fmeta&max-keys=1", "max-keys=1&prefix={}%2Fmeta&list-type=2"):
        target = f"{B}?{query}"
        direct, front = pair.both(lambda address, folder: sigv4.call(
            address, "GET", target.format(folder), host=pair.host).body.count(b"<Contents>"))
        assert direct == front == 1
    for method in ("PATCH", "OPTIONS"):
        assert pair.call(method, f"{B}/{{}}/meta")[0] in (200, 400, 405, 501)


def test_conditions(pair):
    once = [("If-None-Match", "*")]
    assert pair.call("PUT", f"{B}/{{}}/once", DATA, headers=once)[0] == 200
    assert pair.call("PUT", f"{B}/{{}}/once", DATA[:5], headers=once)[:2] == (412, "PreconditionFailed")
    assert pair.call("PUT", f"{B}/{{}}/once", DATA[:5], headers=[("If-Match", '"nope"')])[0] == 412
    assert pair.call("GET", f"{B}/{{}}/once", headers=[("If-None-Match", '"nope"')])[2] == DATA


FORMS = [sigv4.SIGNED_CHUNKS, sigv4.SIGNED_CHUNKS_TRAILER, sigv4.UNSIGNED_CHUNKS_TRAILER]


@pytest.mark.parametrize("te", [False, True], ids=["length", "te-chunked"])
@pytest.mark.parametrize("form", FORMS)
def test_aws_chunked(form, te, pair):
    """All peers verify each chunk's signature and the trailer's checksum: a byte moved or lost would be refused."""
    data = DATA * 100
    assert len(data) == 200 * KIB
    response = sigv4.call_chunked(pair.front, "PUT", f"{B}/front/chunked", data, form, te)
    assert response.status == 200, repr(response)
    assert sigv4.call(pair.direct, "GET", f"{B}/front/chunked").body == data


def test_presigned(pair):
    def put_and_get(address, folder):
        url = sigv4.Signer().presign("PUT", f"{B}/{folder}/presigned", pair.host)
        with Wire(address) as wire:
            wire.send(sigv4.raw_head("PUT", url, [("Host", pair.host), ("Content-Length", str(len(DATA)))]) + DATA)
            put = wire.response("PUT").status
            wire.send(sigv4.raw_head("GET", sigv4.Signer().presign("GET", f"{B}/{folder}/presigned", pair.host),
                                     [("Host", pair.host)]))
            got = wire.response()
            wire.send(sigv4.raw_head("GET", url, [("Host", pair.host)]))
            return put, got.status, got.body, sigv4.code(wire.response())

    direct, front = pair.both(put_and_get)
    assert front == direct == (200, 200, DATA, "SignatureDoesNotMatch")


@pytest.mark.parametrize("secret", [keys.SECRET, "x" * 40], ids=["good", "wrong secret"])
def test_expect(secret, pair):
    """Both stores answer 100 before they look at the signature; the sidecar waits for the store's word, not its own."""

    def run(address, folder):
        target = f"{B}/{folder}/expect"
        payload = sigv4.hashlib.sha256(DATA).hexdigest()
        pairs = sigv4.Signer(secret=secret).headers("PUT", target, [("Host", pair.host)], payload)
        with Wire(address) as wire:
            wire.send(sigv4.raw_head("PUT", target, [*pairs, ("Expect", "100-continue"), ("Content-Length", str(len(DATA)))]))
            interim = wire.read_interim().status
            if interim == 100:
                wire.send(DATA)
                final = wire.response("PUT")
                return interim, final.status, sigv4.code(final)
            return interim, None, None

    direct, front = pair.both(run)
    assert front == direct == ((100, 200, "") if secret == keys.SECRET else (100, 403, "SignatureDoesNotMatch"))


def test_a_body_that_breaks_off_is_never_stored(pair):
    """The client dies in the middle of its body: the store must not keep a short object, nor an old one of that name be
    harmed."""
    target = f"{B}/front/half"
    assert sigv4.call(pair.front, "PUT", target, DATA, host=pair.host).status == 200
    big = DATA * 500
    pairs = sigv4.Signer().headers("PUT", target, [("Host", pair.host)], sigv4.hashlib.sha256(big).hexdigest())
    with Wire(pair.front) as wire:
        wire.send(sigv4.raw_head("PUT", target, [*pairs, ("Content-Length", str(len(big)))]) + big[:len(big) // 2])
        wire.sock.shutdown(socket.SHUT_RDWR)
    assert sigv4.call(pair.direct, "GET", target).body == DATA
