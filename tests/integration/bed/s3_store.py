"""A small S3 store that believes nobody: every request is verified by Signature Version 4, worked out here from the
bytes that came, independently of the product. Buckets and clock are the test's."""
import datetime
import hashlib
import hmac
import re
import socket
import threading

AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,]+)/(\d{8})/([^/,]*)/([^/,]+)/aws4_request, "
                           r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})")
SKEW_MAX = 900


def _mac(key, text):
    return hmac.new(key, text.encode("latin-1"), hashlib.sha256).digest()


class Asked:
    """One request as it came."""

    def __init__(self, connection, head):
        self.connection = connection
        line, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = line.split(" ")
        self.fields = [(n.lower(), v.strip()) for n, _, v in (text.partition(":") for text in lines)]

    def field(self, name):
        values = [v for n, v in self.fields if n == name]
        return ",".join(values) if values else None


class S3Store:
    def __init__(self, ports, keys, buckets=("releases",), region="us-east-1", ahead=0, lists=True):
        self.port = ports.take()
        self.address = f"127.0.0.1:{self.port}"
        self.keys, self.buckets, self.region, self.ahead, self.lists = dict(keys), set(buckets), region, ahead, lists
        self.asked, self.accepted = [], 0
        self._closing = False
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def now(self):
        return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.ahead)

    def _accept(self):
        while not self._closing:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(conn, self.accepted), daemon=True).start()

    def _serve(self, conn, number):
        buffer = b""
        with conn:
            while True:
                while b"\r\n\r\n" not in buffer:
                    try:
                        data = conn.recv(65536)
                    except OSError:
                        return
                    if not data:
                        return
                    buffer += data
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                request = Asked(number, head)
                self.asked.append(request)
                try:
                    conn.sendall(self._answer(request))
                except OSError:
                    return

    def _answer(self, request):
        status, code, more = self.verify(request) or self._serve_verified(request)
        if status < 300:
            body = b"" if request.method == "HEAD" else \
                b'<?xml version="1.0"?><ListAllMyBucketsResult></ListAllMyBucketsResult>'
        else:
            body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>no</Message>{more}</Error>'.encode()
        date = self.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        head = (f"HTTP/1.1 {status} X\r\nDate: {date}\r\nx-amz-request-id: {len(self.asked)}\r\n"
                f"Content-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n").encode()
        return head + (b"" if request.method == "HEAD" else body)

    def _serve_verified(self, request):
        bucket = request.target.strip("/").split("/")[0]
        if not bucket:
            return (200, "", "") if self.lists else (403, "AccessDenied", "")
        return (200, "", "") if bucket in self.buckets else (404, "NoSuchBucket", "")

    def verify(self, request):
        """None when the signature is good, else (status, code, more)."""
        authorization = request.field("authorization")
        if authorization is None:
            return 403, "AccessDenied", ""
        match = AUTHORIZATION.fullmatch(authorization)
        if not match:
            return 400, "AuthorizationHeaderMalformed", ""
        key, day, region, service, signed, signature = match.groups()
        if key not in self.keys:
            return 403, "InvalidAccessKeyId", ""
        if region != self.region or service != "s3":
            return 400, "AuthorizationHeaderMalformed", f"<Region>{self.region}</Region>"
        stamp = request.field("x-amz-date") or ""
        sent = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if abs((self.now() - sent).total_seconds()) > SKEW_MAX or not stamp.startswith(day):
            return 403, "RequestTimeTooSkewed", ""
        names = signed.split(";")
        unsigned = [n for n, _ in request.fields if n.startswith("x-amz-") and n not in names]
        if names != sorted(set(names)) or "host" not in names or unsigned:
            return 403, "AccessDenied", ""
        path, _, query = request.target.partition("?")
        pairs = "&".join(sorted(p if "=" in p else p + "=" for p in query.split("&"))) if query else ""
        payload = request.field("x-amz-content-sha256") or ""
        canonical = "\n".join([request.method, path, pairs] + [f"{n}:{request.field(n)}" for n in names] +
                              ["", signed, payload])
        scope = f"{day}/{region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode("latin-1")).hexdigest()])
        secret = ("AWS4" + self.keys[key]).encode()
        for part in (day, region, "s3", "aws4_request"):
            secret = _mac(secret, part)
        good = hmac.compare_digest(_mac(secret, text).hex(), signature)
        return None if good else (403, "SignatureDoesNotMatch", "")


class Silent:
    """A listener whose queue is full: connects to it are never answered."""

    def __init__(self, ports, port=None):
        """port: of a server that has just ended."""
        self.port = port or ports.take()
        self.address = f"127.0.0.1:{self.port}"
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))
        self._listener.listen(0)
        self._fill = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self._fill.append(filler)

    def close(self):
        for s in [self._listener, *self._fill]:
            s.close()
