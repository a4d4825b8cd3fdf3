"""Certificates made on the spot, and an HTTPS server whose every handshake is seen."""
import hashlib
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import pytest

PATTERN = bytes(range(251)) * 261  # 65511 bytes, no power of two


def pattern(n):
    return (PATTERN * (n // len(PATTERN) + 1))[:n]


class Certs:
    """A folder with authorities and certificates: certs.ca(), certs.issue(…) give (certificate file, key file)."""

    def __init__(self, folder):
        self.folder = folder
        self._count = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def _run(self, *args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=self.folder)

    def _key(self, name):
        key = self.path(name + ".key")
        self._run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        return key

    def ca(self, name="ca"):
        key, cert = self._key(name), self.path(name + ".pem")
        self._run("req", "-x509", "-new", "-key", key, "-subj", f"/CN={name}", "-days", "2", "-out", cert)
        return cert, key

    def issue(self, name, by, also="DNS:store.example", days=2):
        """days=0: it has expired when it is made. by=None: signed by itself."""
        key, cert, request = self._key(name), self.path(name + ".pem"), self.path(name + ".csr")
        if by is None:
            self._run("req", "-x509", "-new", "-key", key, "-subj", f"/CN={name}", "-days", str(days), "-addext",
                      f"subjectAltName={also}", "-addext", "basicConstraints=CA:FALSE", "-out", cert)
            return cert, key
        extensions = self.path(name + ".ext")
        with open(extensions, "w", encoding="ascii") as f:
            f.write(f"subjectAltName={also}\nbasicConstraints=CA:FALSE\n")
        self._count += 1
        self._run("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
        self._run("x509", "-req", "-in", request, "-CA", by[0], "-CAkey", by[1], "-set_serial",
                  str(1000 + self._count), "-days", str(days), "-extfile", extensions, "-out", cert)
        return cert, key


@pytest.fixture(scope="module")
def certs():
    folder = tempfile.mkdtemp(prefix="fl-certs-")
    yield Certs(folder)
    shutil.rmtree(folder, ignore_errors=True)


class Seen:
    """One request as the server got it."""

    def __init__(self, conn, ordinal, method, target, resumed, version, body_sha):
        self.conn, self.ordinal, self.method, self.target = conn, ordinal, method, target
        self.resumed, self.version, self.body_sha = resumed, version, body_sha

    def __repr__(self):
        return f"<conn {self.conn}.{self.ordinal} {self.method} {self.target} resumed={self.resumed}>"


class TlsServer:
    """GET /bytes/N, /chunked/N, /until_close/N, /cut/N (until close, without close_notify), /short/N (half of what its
    Content-Length says); anything else: 200 with the name. A body is answered with its SHA-256.

    slow_s: pause of a handshake; sips_s: between the 256 KiB of a body that it reads.
    mode: tls; hang (accepts and says nothing); plain (speaks HTTP in clear); drop (closes on the first bytes)."""

    def __init__(self, ports, cert, name="t", mode="tls", client_ca=None, max_version=None, slow_s=0.0,
                 sips_s=0.0, rcvbuf=None):
        self.name, self.mode, self.slow_s, self.sips_s = name, mode, slow_s, sips_s
        self.seen, self.names, self.accepted, self.handshakes_failed = [], [], 0, 0
        self.shaking = self.shaking_peak = 0
        self._lock = threading.Lock()
        self._open = set()
        self._ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ssl.load_cert_chain(*cert)
        self._ssl.sni_callback = self._on_hello
        if client_ca:
            self._ssl.load_verify_locations(client_ca)
            self._ssl.verify_mode = ssl.CERT_REQUIRED
        if max_version:
            self._ssl.maximum_version = max_version
        self.port = ports.take()
        self.address = f"127.0.0.1:{self.port}"
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
        if rcvbuf:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        with self._lock:
            for sock in self._open:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    # -- connections ------------------------------------------------------------------------------------------
    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.accepted += 1
                self._open.add(sock)
                conn = self.accepted
            threading.Thread(target=self._connection, args=(sock, conn), daemon=True).start()

    def _on_hello(self, _sock, name, _ssl):
        with self._lock:
            self.names.append(name)
            self.shaking += 1
            self.shaking_peak = max(self.shaking_peak, self.shaking)
        time.sleep(self.slow_s)

    def _connection(self, sock, conn):
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.mode == "hang":
                while sock.recv(65536):
                    pass
            elif self.mode == "drop":
                sock.recv(1)
            elif self.mode == "plain":
                self._serve(sock, conn)
            else:
                self._secure(sock, conn)
        except OSError:
            pass
        finally:
            with self._lock:
                self._open.discard(sock)
            sock.close()

    def _secure(self, sock, conn):
        shaking = self.shaking
        try:
            with_tls = self._ssl.wrap_socket(sock, server_side=True, suppress_ragged_eofs=False)
        except (ssl.SSLError, OSError):
            with self._lock:
                self.handshakes_failed += 1
                self.shaking = max(0, self.shaking - (self.shaking > shaking))
            raise
        with self._lock:
            self.shaking -= 1
            self._open.discard(sock)
            self._open.add(with_tls)
        try:
            self._serve(with_tls, conn)
        finally:
            with self._lock:
                self._open.discard(with_tls)
            with_tls.close()

    # -- requests ---------------------------------------------------------------------------------------------
    def _serve(self, sock, conn):
        stream = sock.makefile("rb")
        for ordinal in range(1, 1 << 30):
            line = stream.readline()
            if not line:
                return
            if not line.endswith(b" HTTP/1.1\r\n"):
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            method, target, _ = line.decode("latin-1").split(" ", 2)
            headers = {}
            for field in iter(stream.readline, b"\r\n"):
                key, _, value = field.decode("latin-1").partition(":")
                headers[key.lower()] = value.strip()
            sha = self._take_body(stream, headers, sock)
            resumed = getattr(sock, "session_reused", None)
            with self._lock:
                self.seen.append(Seen(conn, ordinal, method, target, resumed,
                                      sock.version() if resumed is not None else None, sha))
            if not self._answer(sock, method, target, sha):
                return

    def _take_body(self, stream, headers, sock):
        if headers.get("expect", "").lower() == "100-continue":
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        digest = hashlib.sha256()
        if "chunked" in headers.get("transfer-encoding", ""):
            while True:
                size = int(stream.readline().split(b";")[0], 16)
                if size == 0:
                    while stream.readline() != b"\r\n":
                        pass
                    return digest.hexdigest()
                digest.update(stream.read(size))
                stream.readline()
        left = int(headers.get("content-length", 0))
        if left == 0:
            return ""
        while left > 0:
            piece = stream.read(min(left, 1 << 18))
            if not piece:
                raise OSError("short body")
            digest.update(piece)
            left -= len(piece)
            time.sleep(self.sips_s)
        return digest.hexdigest()

    def _answer(self, sock, method, target, sha):
        kind, _, number = target.lstrip("/").partition("/")
        head = f"HTTP/1.1 200 OK\r\nX-Origin: {self.name}\r\n"
        if sha or not number.isdigit():
            body = (sha or self.name).encode()
            sock.sendall((head + f"Content-Length: {len(body)}\r\n\r\n").encode() + (b"" if method == "HEAD" else body))
            return True
        body = pattern(int(number))
        if kind == "bytes":
            sock.sendall((head + f"Content-Length: {len(body)}\r\n\r\n").encode())
            sock.sendall(body)
            return True
        if kind == "chunked":
            sock.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
            for at in range(0, len(body), 10007):
                piece = body[at:at + 10007]
                sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            sock.sendall(b"0\r\n\r\n")
            return True
        if kind == "short":
            sock.sendall((head + f"Content-Length: {len(body)}\r\n\r\n").encode() + body[:len(body) // 2])
            return False
        sock.sendall((head + "\r\n").encode() + body)
        if kind == "until_close":
            sock.unwrap()
        return False


@pytest.fixture
def tls_server(ports):
    """tls_server(cert, …) starts a TlsServer."""
    made = []

    def start(cert, **keys):
        made.append(TlsServer(ports, cert, **keys))
        return made[-1]

    yield start
    for one in made:
        one.close()
