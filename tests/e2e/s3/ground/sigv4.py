"""AWS signature version 4 over the bed's raw connections: exact bytes, no SDK, aws-chunked bodies in all three forms."""
import base64
import datetime
import hashlib
import hmac
import re
import struct
import urllib.parse
import zlib

from bed.wire import Wire

from . import keys

EMPTY = hashlib.sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_CHUNKS_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_CHUNKS_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


def _mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Signer:
    def __init__(self, access=keys.ACCESS, secret=keys.SECRET, region=keys.REGION, skew_minutes=0):
        now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=skew_minutes)
        self.access, self.stamp = access, now.strftime("%Y%m%dT%H%M%SZ")
        self.scope = f"{self.stamp[:8]}/{region}/s3/aws4_request"
        key = ("AWS4" + secret).encode()
        for part in self.scope.split("/"):
            key = _mac(key, part)
        self.key = key

    def _signature(self, kind, *rest):
        return hmac.new(self.key, "\n".join([kind, self.stamp, self.scope, *rest]).encode(), hashlib.sha256).hexdigest()

    def _canonical(self, method, target, pairs, payload):
        path, _, query = target.partition("?")
        query = "&".join(sorted(p if "=" in p else p + "=" for p in query.split("&"))) if query else ""
        pairs = sorted((n.lower(), " ".join(v.split())) for n, v in pairs)
        names = ";".join(n for n, _ in pairs)
        text = "\n".join([method, path, query, *(f"{n}:{v}" for n, v in pairs), "", names, payload])
        return names, hashlib.sha256(text.encode()).hexdigest()

    def headers(self, method, target, pairs, payload):
        """`pairs` (Host among them) with date, payload hash and Authorization; all of them signed."""
        pairs = [*pairs, ("x-amz-date", self.stamp), ("x-amz-content-sha256", payload)]
        names, digest = self._canonical(method, target, pairs, payload)
        self.seed = self._signature("AWS4-HMAC-SHA256", digest)
        return [*pairs, ("Authorization", f"AWS4-HMAC-SHA256 Credential={self.access}/{self.scope}, "
                                          f"SignedHeaders={names}, Signature={self.seed}")]

    def presign(self, method, target, host, expires=300):
        query = urllib.parse.urlencode({
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{self.access}/{self.scope}",
            "X-Amz-Date": self.stamp, "X-Amz-Expires": expires, "X-Amz-SignedHeaders": "host"}, quote_via=urllib.parse.quote,
            safe="")
        target += ("&" if "?" in target else "?") + query
        _, digest = self._canonical(method, target, [("host", host)], UNSIGNED)
        return f"{target}&X-Amz-Signature={self._signature('AWS4-HMAC-SHA256', digest)}"

    def chunks(self, data, size=65536, trailer=None):
        """An aws-chunked body with signed chunks; call headers() first."""
        out, previous = [], self.seed
        for at in range(0, len(data) + size, size):
            chunk = data[at:at + size] if at < len(data) else b""
            previous = self._signature("AWS4-HMAC-SHA256-PAYLOAD", previous, EMPTY, hashlib.sha256(chunk).hexdigest())
            out.append(b"%x;chunk-signature=%s\r\n" % (len(chunk), previous.encode()))
            if not chunk:
                break
            out.append(chunk + b"\r\n")
        if trailer:
            line = f"{trailer[0]}:{trailer[1]}"
            last = self._signature("AWS4-HMAC-SHA256-TRAILER", previous, hashlib.sha256(f"{line}\n".encode()).hexdigest())
            out.append(f"{line}\r\nx-amz-trailer-signature:{last}\r\n".encode())
        return b"".join(out) + b"\r\n"


def unsigned_chunks(data, trailer, size=65536):
    parts = [b"%x\r\n%s\r\n" % (len(data[at:at + size]), data[at:at + size]) for at in range(0, len(data), size)]
    return b"".join(parts) + f"0\r\n{trailer[0]}:{trailer[1]}\r\n\r\n".encode()


def crc32(data):
    return base64.b64encode(struct.pack(">I", zlib.crc32(data))).decode()


def http_chunked(data, size=50000):
    parts = [b"%x\r\n%s\r\n" % (len(data[at:at + size]), data[at:at + size]) for at in range(0, len(data), size)]
    return b"".join(parts) + b"0\r\n\r\n"


def code(response):
    """The S3 error code of a response; '' when there is none."""
    match = re.search(rb"<Code>([^<]*)", response.body)
    return match[1].decode() if match else ""


def call(address, method, target, body=b"", headers=(), host=None, payload=None, signer=None, anonymous=False,
         unsigned=(), timeout=20):
    """One signed request on a connection of its own. `unsigned` are headers added after signing."""
    host = host or f"{address[0]}:{address[1]}"
    pairs = [("Host", host), *headers]
    if not anonymous:
        pairs = (signer or Signer()).headers(method, target, pairs, payload or hashlib.sha256(body).hexdigest())
    pairs += list(unsigned)
    if body or method in ("PUT", "POST"):
        pairs.append(("Content-Length", str(len(body))))
    with Wire(address, timeout=timeout) as wire:
        wire.send(raw_head(method, target, pairs) + body)
        return wire.response(method)


def call_chunked(address, method, target, data, form, over_http_chunked):
    """One PUT whose body is aws-chunked in `form`, inside HTTP's own chunked coding or with a Content-Length."""
    signer, trailer = Signer(), ("x-amz-checksum-crc32", crc32(data))
    pairs = [("Host", f"{address[0]}:{address[1]}"), ("Content-Encoding", "aws-chunked"),
             ("x-amz-decoded-content-length", str(len(data)))]
    if "TRAILER" in form:
        pairs.append(("x-amz-trailer", trailer[0]))
    pairs = signer.headers(method, target, pairs, form)
    if form == UNSIGNED_CHUNKS_TRAILER:
        body = unsigned_chunks(data, trailer)
    else:
        body = signer.chunks(data, trailer=trailer if "TRAILER" in form else None)
    if over_http_chunked:
        pairs.append(("Transfer-Encoding", "chunked"))
        body = http_chunked(body)
    else:
        pairs.append(("Content-Length", str(len(body))))
    with Wire(address, timeout=20) as wire:
        wire.send(raw_head(method, target, pairs) + body)
        return wire.response(method)


def raw_head(method, target, pairs):
    return (f"{method} {target} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in pairs) + "\r\n").encode("latin-1")
