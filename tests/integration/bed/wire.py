"""HTTP/1.1 by hand: a connection whose bytes the test decides, and a reader that notices every deviation."""
import socket
import struct


class Ended(Exception):
    """The connection ended (how: 'fin' or 'rst') before a response was complete; `partial` is what came."""

    def __init__(self, how, partial=b"", response=None):
        super().__init__(f"connection ended by {how} after {len(partial)} bytes: {partial[:200]!r}")
        self.how, self.partial, self.response = how, partial, response


class Response:
    def __init__(self, status, reason, version, headers):
        self.status, self.reason, self.version, self.headers = status, reason, version, headers
        self.body, self.trailers, self.interim, self.raw_head = b"", [], [], b""
        self.framing = "none"  # none, length, chunked, close

    def header(self, name, default=None):
        for n, v in self.headers:
            if n.lower() == name.lower():
                return v
        return default

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    @property
    def origin(self):
        return self.header("X-Origin")

    def __repr__(self):
        return f"<{self.status} {self.reason} {dict(self.headers)} {self.body[:300]!r}>"


def parse_address(address):
    """'127.0.0.1:80', '[::1]:80', 'unix:/path' or (host, port)."""
    if isinstance(address, tuple):
        return address
    if address.startswith("unix:"):
        return address
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class Wire:
    def __init__(self, address, timeout=15, rcvbuf=None, sndbuf=None):
        address = parse_address(address)
        if isinstance(address, str):
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            target = address[len("unix:"):]
        else:
            self.sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            target = address
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if sndbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
        self.sock.settimeout(timeout)
        self.sock.connect(target)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))
        return self

    def request(self, method, target, headers=(), body=None, host="s3.test", version="HTTP/1.1"):
        """Sends one request; `headers` is a dict or a list of pairs. A body gets a Content-Length unless framed."""
        self.send(head(method, target, headers, body, host, version) + (body or b""))
        return self

    def fin(self):
        self.sock.shutdown(socket.SHUT_WR)

    def rst(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()

    # -- reading ----------------------------------------------------------------------------------------------
    def more(self):
        """Reads what is there into the buffer; False at the end of the stream. Raises Ended on a RST."""
        try:
            data = self.sock.recv(1 << 18)
        except (ConnectionResetError, BrokenPipeError):
            raise Ended("rst", self.buffer) from None
        self.buffer += data
        return bool(data)

    def _need(self, ok, response=None):
        while not ok():
            if not self.more():
                raise Ended("fin", self.buffer, response)

    def _line(self, response=None):
        self._need(lambda: b"\r\n" in self.buffer, response)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _head(self):
        self._need(lambda: b"\r\n\r\n" in self.buffer)
        raw, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = raw.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ", 2)
        assert len(parts) >= 2 and parts[0].startswith("HTTP/1."), f"not a status line: {lines[0]!r}"
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            assert colon and name and name == name.strip(), f"bad header line: {line!r}"
            headers.append((name, value.strip(" \t")))
        response = Response(int(parts[1]), parts[2] if len(parts) > 2 else "", parts[0], headers)
        response.raw_head = raw + b"\r\n\r\n"
        return response

    def read_interim(self):
        """The next head, whatever its status, without a body."""
        return self._head()

    def response(self, method="GET"):
        """The next final response, whole. Raises Ended (with .response) when it breaks off."""
        interim = []
        response = self._head()
        while 100 <= response.status < 200:
            interim.append(response)
            response = self._head()
        response.interim = interim
        if method == "HEAD" or response.status in (204, 304):
            return response
        try:
            self._body(response)
        except Ended as e:
            e.response = response
            raise
        return response

    def _body(self, response):
        lengths = response.all("Content-Length")
        codings = response.all("Transfer-Encoding")
        assert not (lengths and codings), f"both framings: {response!r}"
        assert len(lengths) <= 1, f"two lengths: {response!r}"
        if codings:
            assert codings == ["chunked"], codings
            response.framing = "chunked"
            self._chunks(response)
        elif lengths:
            response.framing = "length"
            need = int(lengths[0])
            while len(self.buffer) < need:
                if not self.more():
                    raise Ended("fin", self.buffer, response)
            response.body, self.buffer = self.buffer[:need], self.buffer[need:]
        else:
            response.framing = "close"
            while self.more():
                pass
            response.body, self.buffer = self.buffer, b""

    def _chunks(self, response):
        body = bytearray()
        while size := int(self._line(response).split(b";")[0], 16):
            self._need(lambda: len(self.buffer) >= size + 2, response)
            body += self.buffer[:size]
            assert self.buffer[size:size + 2] == b"\r\n", "chunk data not followed by CRLF"
            self.buffer = self.buffer[size + 2:]
        response.body = bytes(body)
        while line := self._line(response):
            name, _, value = line.decode("latin-1").partition(":")
            response.trailers.append((name, value.strip()))

    def ended(self, timeout=5):
        """How the server ended the connection within `timeout`: 'fin', 'rst', or None when it stays open."""
        self.sock.settimeout(timeout)
        try:
            while self.more():
                pass
            return "fin"
        except Ended as e:
            return e.how
        except socket.timeout:
            return None

    def silent(self, seconds):
        """True when not a byte (and no end) comes within `seconds`."""
        self.sock.settimeout(seconds)
        try:
            return bool(self.buffer) is False and self.more() is None
        except socket.timeout:
            return True
        finally:
            self.sock.settimeout(15)


def head(method, target, headers=(), body=None, host="s3.test", version="HTTP/1.1"):
    """The bytes of a request head."""
    pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
    names = {n.lower() for n, _ in pairs}
    lines = [f"{method} {target} {version}"]
    if "host" not in names and host is not None:
        lines.append(f"Host: {host}")
    lines += [f"{n}: {v}" for n, v in pairs]
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunked(*parts, trailers=()):
    """The parts as HTTP chunks with the last one and trailers."""
    out = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts if p)
    return out + b"0\r\n" + b"".join(f"{n}: {v}\r\n".encode("latin-1") for n, v in trailers) + b"\r\n"


def call(address, method, target, headers=(), body=None, timeout=15, host="s3.test"):
    """One request on a connection of its own, closed after the response."""
    with Wire(address, timeout) as wire:
        return wire.request(method, target, headers, body, host).response(method)
