"""Nothing that a signature may cover is touched: what the backend gets is compared byte for byte with what the client
sent, and the answer with what the backend sent; only hop-by-hop fields, framing and a request id may differ. Directly, and
when the request has to be repeated at a second peer."""
import hashlib
import re

import pytest

from bed.config import FREE, http, s3
from bed.sidecar import chain, next_id
from stage import Script, staged

PROTOCOLS = {"http": http, "s3": s3}
HOSTS = {"hosts": ["s3.internal"]}
over_http = staged(http, HOSTS)
over_s3 = staged(s3, HOSTS)


@pytest.fixture(params=["http", "s3"])
def stage(request):
    made = request.getfixturevalue(f"over_{request.param}")
    made.protocol = request.param
    yield made
    made.curtain()


TARGETS = [
    "/b//k", "//b/k", "/b/k//", "/b///", "/b/./k", "/b/../b/k", "/b/%2e%2E/k", "/b/a%2Fb", "/b/a%2fb", "/b/%2F", "/b/a+b",
    "/b/a%2Bb", "/b/a%20b", "/b/caf%C3%A9", "/b/caf%c3%a9", "/b/e%CC%81", "/b/%E6%97%A5/%F0%9F%98%80", "/b/%FF%FE", "/b/~_-.",
    "/b/%7E", "/b/%41", "/b/;a=b,c", "/b/k;v=1/x", "/b/(a)'b'!*$&:@=", "/b/a|b{c}^`\"<>", "/b/k%3Fx=1", "/b/k%23x", "/b/k%25",
    "/b/k%0D%0AX:%20y", "/b", "/b/", "/", "/b?", "/b?&", "/b?=", "/b?&&a", "/b?a=&b", "/b?b=2&a=1&a=0", "/b?a", "/b?a=b=c",
    "/b?a=?&b=/&c=//", "/b?prefix=a+b&delimiter=%2F", "/b?prefix=%2f&marker=%20", "/b?list-type=2&start-after=caf%C3%A9",
    "/b/k?versionId=null", "/b/k?uploadId=a%2Bb&partNumber=1", "/b/k?partNumber=1&uploadId=a%2Bb", "/b/k?x-id=GetObject",
    "/b/k?response-content-disposition=attachment%3B%20filename%3D%22a%20b.txt%22", "/b/k?a=%zz", "/b/k?a=%", "/b/k?%00",
    "/b/k?" + "q=" + "x" * 9000, "/b/" + "%E2%82%AC" * 341, "/b/.well-known/x", "/_x/k", "/b/_/k", "/b/k?a[]=1&b{}=2",
]
S3_ONLY = ["/b/%zz", "/b/%", "/b/a%00b", "/../b", "/b/../../k"]  # http routes read paths as nginx does, which refuses these

FIELDS = {
    "order, case, blanks": [b"X-b: 2", b"x-A:   padded\t value  ", b"X-B:1", b"Host: MixedCase.Example:8080", b"Empty:",
                            b"Empty2:   ", b"x_under_score: 1", b"X-b: 1", b"Cookie: a=b; c=d", b"cookie: e=f"],
    "duplicates": [b"Host: s3.test"] + [b"x-amz-meta-a: %d" % i for i in range(20)] + [b"X-AMZ-META-A: 20"],
    "bytes above 127": [b"Host: s3.test", b"x-amz-meta-n: caf\xc3\xa9 \xff\xfe", b"x-amz-meta-m: \xe9"],
    "sigv4": [b"Host: b.s3.internal", b"Authorization: AWS4-HMAC-SHA256 Credential=AK/20260101/us-east-1/s3/aws4_request, "
              b"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" + b"a" * 64, b"x-amz-date: 20260101T000000Z",
              b"x-amz-content-sha256: UNSIGNED-PAYLOAD", b"X-Amz-Security-Token: " + b"t+/=" * 300, b"amz-sdk-request: "
              b"attempt=1; max=3", b"amz-sdk-invocation-id: 1-2-3", b"User-Agent: aws-sdk/1 (x; y) md/z#1",
              b"Accept-Encoding: identity", b"Accept: */*"],
    "sse-c": [b"Host: s3.test", b"x-amz-server-side-encryption-customer-algorithm: AES256",
              b"x-amz-server-side-encryption-customer-key: " + b"A" * 42 + b"+/=",
              b"x-amz-server-side-encryption-customer-key-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==",
              b"X-Amz-Copy-Source-Server-Side-Encryption-Customer-Key: +/==", b"x-amz-server-side-encryption-context: e30="],
    "conditions and ranges": [b"Host: s3.test", b'If-Match: "a", W/"b"', b"If-None-Match: *", b"Range: bytes=0-1,5-,-3",
                              b"If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT", b'If-Range: "x"', b"Date: yesterday"],
    "things that proxies like to add to": [b"Host: s3.test", b"X-Forwarded-For: 10.0.0.1", b"X-Forwarded-For: 10.0.0.2",
                                           b"Forwarded: for=1.1.1.1", b"Via: 1.1 other", b"X-Real-IP: 1.2.3.4",
                                           b"X-Forwarded-Proto: https", b"Max-Forwards: 3", b"Server: x", b"Age: 1"],
    "hop-by-hop among them": [b"Connection: x-drop, keep-alive", b"X-A: 1", b"x-drop: gone", b"X-B: 2", b"Keep-Alive: timeout=5",
                              b"Host: s3.test", b"TE: trailers", b"X-C: 3", b"X-Drop: gone too", b"Upgrade: h2c",
                              b"Proxy-Connection: keep-alive", b"X-D: 4", b"Connection: X-Gone", b"x-GONE: 1", b"X-E: 5"],
    "a request id of its own": [b"Host: s3.test", b"X-Request-ID: mine-\xc3\xa9", b"X-A: 1"],
    "content of all kinds": [b"Host: s3.test", b"Content-Type: text/plain; charset=utf-8", b"Content-Encoding: gzip,aws-chunked",
                             b"Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==", b"Content-Disposition: attachment; filename*=UTF-8''%e2",
                             b"Content-Language: de", b"Cache-Control: no-cache", b"Expires: 0", b"x-amz-acl: public-read",
                             b"x-amz-tagging: a=b&c=%20", b"x-amz-storage-class: GLACIER", b"x-amz-website-redirect-location: /"],
}
HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"transfer-encoding"}


def lines_of(target, fields, method="GET", version="HTTP/1.1"):
    return [f"{method} {target} {version}".encode("latin-1"), *fields]


def raw_of(lines):
    return b"\r\n".join(lines) + b"\r\n\r\n"


def what_must_arrive(lines):
    """The same lines without the hop-by-hop ones."""
    named = {o.strip().lower() for line in lines[1:] if line.lower().startswith(b"connection:")
             for o in line.split(b":", 1)[1].split(b",")}
    return [lines[0]] + [line for line in lines[1:] if line.split(b":", 1)[0].lower() not in HOP | named]


def check_head(got, sent):
    """got: the head as the backend had it, without the empty line."""
    got = got.split(b"\r\n")
    want = what_must_arrive(sent)
    if not any(line.lower().startswith(b"x-request-id:") for line in sent):
        made = [line for line in got if re.fullmatch(rb"x-request-id: [0-9a-f]{32}", line)]
        assert len(made) == 1, f"one made request id: {got}"
        got.remove(made[0])
    framing = [line for line in got if line == b"Transfer-Encoding: chunked"]
    assert len(framing) == sum(line.lower().startswith(b"transfer-encoding:") for line in sent)
    assert [line for line in got if line not in framing] == want


class Recorder(Script):
    """Remembers the raw bytes of each request."""

    def __init__(self):
        self.heads, self.bodies, self.trailers = [], [], []

    def on_request(self, conn, message):
        raw = conn.data[:conn.at]
        at = raw.rfind(message.line.encode("latin-1") + b"\r\n")
        self.heads.append(raw[at:raw.index(b"\r\n\r\n", at)])
        self.bodies.append(message.body)
        self.trailers.append(message.trailers)
        super().on_request(conn, message)


def through(stage, raw, method="GET"):
    stage.script = script = Recorder()
    client = stage.client()
    client.push(raw)
    stage.until(lambda: stage.responses(client, [method])[0] or client.ended)
    finals, _, rest = stage.responses(client, [method])
    assert [f.status for f in finals] == [200] and rest is None, client.data
    client.close()
    assert len(script.heads) == 1
    return script


# -- requests ---------------------------------------------------------------------------------------------------------
def test_targets(stage):
    for target in TARGETS + (S3_ONLY if stage.protocol == "s3" else []):
        for method in ("GET", "HEAD", "DELETE"):
            lines = lines_of(target, [b"Host: s3.test"], method)
            check_head(through(stage, raw_of(lines), method).heads[0], lines)


def test_targets_of_a_bucket_in_the_host(stage):
    for host in ("b.s3.internal", "My.Bucket.With.Dots.s3.internal:8420", "a.b.c.S3.INTERNAL", "xn--caf-dma.s3.internal"):
        for target in TARGETS:
            lines = lines_of(target, [b"X-A: 1", b"hOST:" + host.encode() + b" ", b"X-B: 2"])
            check_head(through(stage, raw_of(lines)).heads[0], lines)


@pytest.mark.parametrize("name", FIELDS)
def test_fields(stage, name):
    for method in ("GET", "POST", "PROPFIND"):
        lines = lines_of("/b/k", FIELDS[name], method)
        check_head(through(stage, raw_of(lines), method).heads[0], lines)


@pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 4, b"a" * 70000])
@pytest.mark.parametrize("name", ["sigv4", "sse-c", "content of all kinds", "hop-by-hop among them"])
def test_fields_with_a_body(stage, name, body):
    lines = lines_of("/b/k", FIELDS[name] + [b"content-LENGTH:  %d" % len(body), b"X-Last: 1"], "PUT")
    script = through(stage, raw_of(lines) + body)
    check_head(script.heads[0], lines)
    assert script.bodies == [body]


def test_chunked_body_keeps_its_trailers(stage):
    """aws-chunked inside chunked: only the outer frame is ours."""
    inner = b"5;chunk-signature=" + b"d" * 64 + b"\r\nhello\r\n0;chunk-signature=" + b"e" * 64 + b"\r\n\r\n"
    lines = lines_of("/b/k", [b"Host: s3.test", b"Transfer-Encoding: chunked", b"Content-Encoding: aws-chunked",
                              b"x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", b"Trailer: x-amz-checksum-crc32",
                              b"x-amz-decoded-content-length: 5", b"x-amz-trailer: x-amz-checksum-crc32"], "PUT")
    body = b"".join(b"%x;e=1\r\n%s\r\n" % (len(p), p) for p in (inner[:7], inner[7:])) + \
        b"0\r\nx-amz-checksum-crc32: NhCmhg==\r\nx-amz-trailer-signature:abc\r\nX-Own:  v \r\n\r\n"
    script = through(stage, raw_of(lines) + body)
    check_head(script.heads[0], lines)
    assert script.bodies == [inner]
    assert script.trailers == [[("x-amz-checksum-crc32", "NhCmhg=="), ("x-amz-trailer-signature", "abc"), ("X-Own", "v")]]


def presigned(method, extra=""):
    return ("/b/a%20b%2Bc?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2F20260101%2Fus-east-1%2Fs3%2Faws4_request"
            f"&X-Amz-Date=20260101T000000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host%3Bx-amz-acl{extra}"
            f"&X-Amz-Security-Token={'t%2B' * 700}&X-Amz-Signature={'0123456789abcdef' * 4}", method)


@pytest.mark.parametrize("target,method", [presigned("GET"), presigned("PUT"), presigned("HEAD", "&response-content-type=a%2Fb"),
                                           ("/b/k?AWSAccessKeyId=AK&Expires=1&Signature=a%2Bb%3D", "GET")])
def test_presigned(stage, target, method):
    lines = lines_of(target, [b"Host: s3.test:9000", b"x-amz-acl: private"] +
                     ([b"Content-Length: 5"] if method == "PUT" else []), method)
    script = through(stage, raw_of(lines) + (b"hello" if method == "PUT" else b""), method)
    check_head(script.heads[0], lines)


@pytest.mark.parametrize("authority,path,arrives", [
    ("b.s3.internal", "/k//x/./y?a=%2F&b", "/k//x/./y?a=%2F&b"), ("My.Bucket.S3.Internal:80", "/%C3%A9", "/%C3%A9"),
    ("s3.internal", "?list-type=2", "/?list-type=2"), ("s3.internal", "", "/"), ("[::1]:9000", "/b/k", "/b/k")])
def test_absolute_form(stage, authority, path, arrives):
    """Goes on as origin form with the authority as Host, byte for byte; the client's own Host field goes."""
    fields = [b"X-A: 1", b"Host: other.example", b"x-b:2"]
    script = through(stage, raw_of(lines_of(f"http://{authority}{path}", fields)))
    got = script.heads[0].split(b"\r\n")
    assert got[:2] == [f"GET {arrives} HTTP/1.1".encode(), f"Host: {authority}".encode()]
    assert got[2:4] == [b"X-A: 1", b"x-b:2"] and re.fullmatch(rb"x-request-id: [0-9a-f]{32}", got[4]) and len(got) == 5


def test_bytes_that_no_uri_has_are_refused(stage):
    for bad in (b"/b/caf\xc3\xa9", b"/b/a b", b"/b/a\\b", b"/b/a#b", b"/b/\x7f", b"/b?q=\xe9"):
        client = stage.client()
        client.push(b"GET " + bad + b" HTTP/1.1\r\nHost: s3.test\r\n\r\n")
        stage.until(lambda: client.ended)
        finals, _, _ = stage.responses(client, ["GET"])
        assert [f.status for f in finals] == [400] and stage.seen == [], bad


def test_length_of_an_object_of_5_gib(stage):
    """The head of a large upload goes on before its body is there."""
    lines = lines_of("/b/k", [b"Host: s3.test", b"Content-Length: 5368709120", b"X-A: 1"], "PUT")
    client = stage.client()
    client.push(raw_of(lines) + b"x" * 1000)
    stage.until(lambda: any(u.partial.endswith(b"x" * 1000) for u in stage.upstreams))
    conn = next(u for u in stage.upstreams if u.partial)
    check_head(conn.partial[:conn.partial.index(b"\r\n\r\n")], lines)
    client.close()
    stage.until(lambda: conn.ended)


# -- by way of a second peer ------------------------------------------------------------------------------------------
@pytest.fixture(params=["http", "s3"])
def relayed(request, sidecar, origin, dead):
    """relayed(lines, body, how): sends until the request went to a failing peer first; the entry at the good one."""
    bad, good = origin("bad"), origin("good")
    route = {"replay_after_send": "always", "replay_body": "128KiB", "next_upstream_tries": 3}
    s = sidecar({**PROTOCOLS[request.param](bad, good, max_fails=0, route=route, **FREE), **HOSTS})

    def send(lines, body=b"", how="rst_request=0"):
        bad.rules(how)
        for _ in range(4):
            good.forget()
            rid = next_id()
            own = any(line.lower().startswith(b"x-request-id:") for line in lines)
            with s.wire() as wire:
                wire.send(raw_of(lines if own else lines + [b"x-request-id: " + rid.encode()]) + body)
                assert wire.response(lines[0].split(b" ")[0].decode()).status == 200
            line = s.access()[-1] if own else s.line_of(rid)
            if len(chain(line)) > 1:
                assert chain(line)[0] == bad.address
                return good.only(), rid
        raise AssertionError("the failing peer was never tried")
    return send


@pytest.mark.parametrize("how", ["rst_request=0", "close_silent raw=\"\""])
def test_the_second_peer_gets_the_same_bytes(relayed, how):
    for target in TARGETS[::4]:
        lines = lines_of(target, [b"Host: My.b.s3.internal:1", b"X-b:2", b"x-A:  1 ", b"X-b: 3", b"Authorization: AWS4 x"])
        entry, rid = relayed(lines, how=how)
        check_head(entry.raw_head[:-4], lines + [b"x-request-id: " + rid.encode()])


@pytest.mark.parametrize("framed", ["length", "chunked"])
@pytest.mark.parametrize("size", [0, 1, 5000, 65536, 100000])
def test_the_second_peer_gets_the_same_body(relayed, size, framed):
    body = bytes(i * 31 & 255 for i in range(size))
    framing = [b"Content-Length: %d" % size] if framed == "length" else [b"Transfer-Encoding: chunked"]
    lines = lines_of("/b/k%20x?x-id=PutObject", [b"Host: s3.test", *framing, b"X-A: 1", b"Connection: x-drop", b"X-Drop: 1"], "PUT")
    if framed == "length":
        sent = body
    else:
        sent = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:7], body[7:]) if p) + b"0\r\nX-Sum: 1\r\n\r\n"
    for how in ("rst_request=0", f"rst_request={size}"):
        entry, rid = relayed(lines, sent, how)
        check_head(entry.raw_head[:-4], lines + [b"x-request-id: " + rid.encode()])
        assert entry.complete and entry.body_bytes == size
        assert size == 0 or entry.sha256 == hashlib.sha256(body).hexdigest()
        assert framed == "length" or "X-Sum: 1" in entry.trailers


def test_the_second_peer_gets_the_same_request_id(sidecar, origin, dead):
    """A made id is made once."""
    o = origin("good")
    s = sidecar(http(dead(), o, max_fails=0, **FREE))
    for _ in range(4):
        with s.wire() as wire:
            assert wire.send(b"GET /b/k HTTP/1.1\r\nHost: x\r\n\r\n").response().status == 200
    ids = [e.header("x-request-id") for e in o.ledger()]
    assert len(set(ids)) == 4 and sorted(ids) == sorted(a["request_id"] for a in s.wait_access(4))
    assert any(len(chain(a)) == 2 for a in s.access())


def test_absolute_form_at_the_second_peer(relayed):
    lines = lines_of("http://b.s3.internal/k?x=1", [b"Host: other", b"X-A: 1"])
    entry, rid = relayed(lines)
    assert entry.raw_head[:-4].split(b"\r\n") == [b"GET /k?x=1 HTTP/1.1", b"Host: b.s3.internal", b"X-A: 1",
                                                  b"x-request-id: " + rid.encode()]


# -- answers ----------------------------------------------------------------------------------------------------------
class Verbatim(Script):
    def __init__(self, raw):
        self.raw = raw

    def on_request(self, conn, message):
        conn.push(self.raw)


def answered(stage, raw, method="GET", whole=None):
    stage.script = Verbatim(raw)
    client = stage.client()
    client.push(raw_of(lines_of("/b/k", [b"Host: s3.test"], method)))
    stage.until(lambda: len(client.data) >= (whole or len(raw)) or client.ended)
    stage.settle()
    assert client.ended is None
    client.close()
    return client.data


ANSWER_FIELDS = [
    [b"X-b: 2", b"x-A:  padded\t value ", b"X-b:1", b"Set-Cookie: a=1", b"Set-Cookie: b=2", b'ETag: "q"', b"Server: odd/1",
     b"Date: yesterday", b"x_under: 1", b"Empty:", b"x-amz-meta-n: caf\xc3\xa9 \xff", b"x-amz-request-id: theirs",
     b"x-amz-id-2: +/=", b"Via: 1.1 theirs", b"Location: //x/%2F", b"WWW-Authenticate: Basic", b"Retry-After: 120",
     b"Proxy-Status: theirs", b"X-Fairlead-Error: faked", b"Content-Encoding: gzip", b"Accept-Ranges: bytes", b"Age: 3",
     b"Last-Modified: Sat, 29 Oct 1994 19:43:31 GMT", b"x-amz-checksum-crc32: AAAA", b"Cache-Control: a, b", b"Allow: GET"],
]


@pytest.mark.parametrize("status", [b"200 OK", b"200 ", b"206 Partial Content", b"299 \xc3\xa9\tx  y", b"400 Bad", b"403 Forbidden",
                                    b"404 Not Found", b"409 C", b"412 P", b"416 R", b"429 Slow Down", b"500 I", b"501 N",
                                    b"503 Slow Down", b"599 ?", b"301 Moved Permanently", b"307 T", b"226 IM Used"])
def test_answers(stage, status):
    for body in (b"", b"hello", bytes(range(256)) * 500):
        raw = raw_of([b"HTTP/1.1 " + status, *ANSWER_FIELDS[0], b"content-LENGTH:%d" % len(body), b"X-Last: 1"]) + body
        assert answered(stage, raw) == raw


@pytest.mark.parametrize("length", [b"0", b"1", b"5368709120", b"9223372036854775807"])
def test_lengths_of_head_answers(stage, length):
    raw = raw_of([b"HTTP/1.1 200 OK", b"Content-Length: " + length, b"ETag: x", b"Last: 1"])
    assert answered(stage, raw, "HEAD") == raw


@pytest.mark.parametrize("fields", [[], [b"ETag: x"], [b"X-A: 1", b"Date: x"]])
@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified", b"204 ", b"304 \xc3\xa9"])
def test_answers_without_a_body(stage, status, fields):
    raw = raw_of([b"HTTP/1.1 " + status, *fields])
    for method in ("GET", "HEAD", "DELETE"):
        assert answered(stage, raw, method) == raw


def test_304_keeps_the_length_of_what_it_stands_for(stage):
    raw = raw_of([b"HTTP/1.1 304 Not Modified", b"Content-Length: 5368709120", b"ETag: x"])
    assert answered(stage, raw) == raw


def test_head_answer_without_any_length(stage):
    raw = raw_of([b"HTTP/1.1 200 OK", b"ETag: x"])
    assert answered(stage, raw, "HEAD") == raw


@pytest.mark.parametrize("status", [b"200 OK", b"403 Forbidden"])
def test_chunked_answers(stage, status):
    """The framing line moves to the end and the chunks are cut anew; all else is as sent."""
    fields = ANSWER_FIELDS[0]
    raw = raw_of([b"HTTP/1.1 " + status, *fields[:5], b"transfer-encoding:  Chunked", *fields[5:]]) + \
        b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum:  1 \r\n\r\n"
    want = raw_of([b"HTTP/1.1 " + status, *fields, b"Transfer-Encoding: chunked"]) + b"6\r\nhello!\r\n0\r\nX-Sum:  1 \r\n\r\n"
    assert answered(stage, raw, whole=len(want)) == want


def test_hop_by_hop_fields_of_an_answer(stage):
    raw = raw_of([b"HTTP/1.1 200 OK", b"X-A: 1", b"Connection: x-hop, keep-alive", b"X-Hop: 1", b"X-B: 2", b"Keep-Alive: timeout=5",
                  b"Proxy-Connection: x", b"Upgrade: h2c", b"TE: x", b"Content-Length: 2", b"x-HOP: 2", b"X-C: 3"]) + b"ok"
    want = raw_of([b"HTTP/1.1 200 OK", b"X-A: 1", b"X-B: 2", b"Content-Length: 2", b"X-C: 3"]) + b"ok"
    assert answered(stage, raw, whole=len(want)) == want


def test_interim_answers_pass_as_they_are(stage):
    interim = raw_of([b"HTTP/1.1 103 Early Hints", b"Link: </a>;  rel=preload", b"link:</b>", b"X-A: 1"])
    raw = interim + raw_of([b"HTTP/1.1 200 OK", b"Content-Length: 2"]) + b"ok"
    assert answered(stage, raw) == raw


# -- what is written down ---------------------------------------------------------------------------------------------
def test_the_log_masks_what_it_must_and_the_wire_does_not(sidecar, origin):
    o = origin()
    s = sidecar(s3(o))
    secret = "0123456789abcdef" * 4
    target = f"/b/k?X-Amz-Signature={secret}&X-Amz-Security-Token=t0k&Signature=s1g%3D&x=1"
    response, line = s.traced("GET", target)
    assert response.status == 200 and o.only().target == target
    assert secret not in line["uri"] and "t0k" not in line["uri"] and "s1g" not in line["uri"] and "x=1" in line["uri"]


def test_a_kept_connection_is_as_clean_as_a_new_one(stage):
    """Five requests in a row over one pair of connections, each exact."""
    stage.script = script = Recorder()
    client = stage.client()
    sent = []
    for i, name in enumerate(FIELDS):
        lines = lines_of(TARGETS[i], FIELDS[name])
        sent.append(lines)
        client.push(raw_of(lines))
        stage.until(lambda: len(script.heads) == i + 1)
    for got, lines in zip(script.heads, sent):
        check_head(got, lines)
