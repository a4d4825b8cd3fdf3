"""The operations of S3 by replay class against real stores: what a dead peer, a hung one and a cut answer do to each, and
how often the store saw it."""
import pytest

from bed.config import FREE, peer, s3
from bed.sidecar import chain
from ground import keys, sigv4
from ground.clients import Boto, Js
from ground.front import ROUTE
from ground.stores import KINDS

B = f"/{keys.BUCKET}"


def front_of(store, sidecar, **route):
    """The first peer gets every request first: it is never quarantined."""
    first, *others = store.addresses()
    return sidecar(s3(peer(first), *[peer(o, backup=True) for o in others], same_store=True, max_fails=0, **FREE,
                      route={**ROUTE, **route}))


class Operations:
    """Each operation once, by hand; name: (call, class)."""

    def __init__(self, store, folder):
        self.store, self.base = store, f"{B}/{folder}"
        for name in ("obj", "gone", "many"):
            assert self.direct("PUT", f"{self.base}/{name}", b"old").status == 200
        self.upload = self._new_upload()
        self.etag = self.direct("PUT", f"{self.base}/mp?partNumber=1&uploadId={self.upload}", b"part").header("ETag")

    def direct(self, *args, **keywords):
        return sigv4.call(self.store.address(1), *args, **keywords)

    def _new_upload(self):
        body = self.direct("POST", f"{self.base}/mp?uploads=").body
        return body.split(b"<UploadId>")[1].split(b"<")[0].decode()

    def table(self):
        base = self.base
        complete = (f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{self.etag}</ETag></Part>"
                    "</CompleteMultipartUpload>").encode()
        many = f"<Delete><Object><Key>{base[len(B) + 1:]}/many</Key></Object></Delete>".encode()
        md5 = [("Content-MD5", sigv4.base64.b64encode(sigv4.hashlib.md5(many).digest()).decode())]
        return {
            "GetObject": ("S", ("GET", f"{base}/obj")),
            "HeadObject": ("S", ("HEAD", f"{base}/obj")),
            "ListObjects": ("S", ("GET", f"{B}?list-type=2&max-keys=1")),
            "PutObject": ("I", ("PUT", f"{base}/obj", b"new")),
            "UploadPart": ("I", ("PUT", f"{base}/mp?partNumber=1&uploadId={self.upload}", b"part")),
            "CopyObject": ("I", ("PUT", f"{base}/copy", b"", [("x-amz-copy-source", f"{base}/obj")])),
            "DeleteObject": ("I", ("DELETE", f"{base}/gone")),
            "PutObject once": ("C", ("PUT", f"{base}/once", b"x", [("If-None-Match", "*")])),
            "CompleteMultipartUpload": ("C", ("POST", f"{base}/mp?uploadId={self.upload}", complete)),
            "DeleteObjects": ("C", ("POST", f"{B}?delete=", many, md5)),
            "CreateMultipartUpload": ("N", ("POST", f"{base}/mp2?uploads=")),
        }


OPERATIONS = ["GetObject", "HeadObject", "ListObjects", "PutObject", "UploadPart", "CopyObject", "DeleteObject",
              "PutObject once", "CompleteMultipartUpload", "DeleteObjects", "CreateMultipartUpload"]


def send(front, call):
    method, target, body, headers = (*call, *(b"", ())[len(call) - 2:])
    return sigv4.call(front.data, method, target, body, headers=headers)


def test_a_dead_peer_is_nobodys_problem(store, sidecar):
    """Refused, so nothing was sent: every operation of every class goes to the next peer."""
    operations = Operations(store, "dead")
    front = front_of(store, sidecar)
    store.kill(0)
    for count, (name, (_, call)) in enumerate(operations.table().items(), 1):
        response = send(front, call)
        line = front.wait_access(count)[-1]
        assert response.status in (200, 204), f"{name}: {response!r}"
        assert len(chain(line)) == 2 and line["upstream_status"].startswith("502, 20"), f"{name}: {line}"


@pytest.mark.parametrize("policy", ["never", "always"])
def test_a_hung_peer_by_class(policy, store, sidecar):
    """Fully sent and not a word: only reads go on to the next peer; the rest is 503 after one attempt, whatever the
    opt-in for class I says about it within a deadline."""
    operations = Operations(store, f"hung-{policy}")
    front = front_of(store, sidecar, read_timeout="250ms", deadline="400ms", long_deadline="400ms",
                     replay_after_send=policy)
    store.hang(0)
    for count, (name, (kind, call)) in enumerate(operations.table().items(), 1):
        response = send(front, call)
        line = front.wait_access(count)[-1]
        if kind == "S":
            assert response.status == 200 and len(chain(line)) == 2, f"{name}: {response!r} {line}"
        else:
            assert response.status == 503 and len(chain(line)) == 1, f"{name}: {response!r} {line}"
            assert line["retry_reason"] == ("class" if kind != "I" or policy == "never" else "deadline"), f"{name}: {line}"


@pytest.mark.parametrize("store", [kind for kind in KINDS if "js-v3" not in KINDS[kind].broken], indirect=True)
def test_streams_fail_over_before_they_are_sent(store, sidecar, client, bodies):
    """The JavaScript SDK cannot repeat a stream: the failover of the sidecar is the only one that it has."""
    front = front_of(store, sidecar)
    one = client(Js, front, store)
    store.kill(0)
    for i, size in enumerate((100, 60000, 3000000)):
        body = bodies.new(size)
        answer = one.do("stream", key=f"failover/{i}", file=body.path)
        assert answer, repr(answer)
        line = front.wait_access(2 * i + 1)[-1]
        assert len(chain(line)) == 2 and line["method"] == "PUT", line
        assert one.do("get", key=f"failover/{i}")["sha256"] == body.sha256


def test_a_peer_that_dies_within_a_body_cuts_it_visibly(fresh_store, sidecar, client, bodies):
    """Half an object never passes for a whole one."""
    store = fresh_store("versitygw")
    front = front_of(store, sidecar)
    one = client(Boto, front, store)
    body = bodies.new(24 << 20)
    assert one.do("upload", key="big", file=body.path)
    for _ in range(3):
        wire = front.wire(rcvbuf=4096)
        pairs = sigv4.Signer().headers("GET", f"{B}/big", [("Host", f"127.0.0.1:{front.data_port}")], sigv4.EMPTY)
        wire.send(sigv4.raw_head("GET", f"{B}/big", pairs))
        assert wire.read_interim().status == 200
        store.kill(0)
        got = len(wire.buffer)
        try:
            while data := wire.sock.recv(1 << 20):
                got += len(data)
        except ConnectionResetError:
            pass
        wire.close()
        assert got < body.size
        store.start(0)
    cut = [line for line in front.access() if line["error"] == "truncated"]
    assert len(cut) == 3 and all(len(chain(line)) == 1 for line in cut)
