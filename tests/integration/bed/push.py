"""The control path from outside: keys and signed pushes made by hand, a membership file, and a scripted status listener
that takes pushes as a sidecar would."""
import base64
import hashlib
import json
import os
import socket
import subprocess
import threading
import time

import yaml

from .process import wait_until
from .wire import Ended, Wire

PATH = "/_/api/push/v1/state"
COMPONENTS = '("@method" "@path" "content-digest" "content-type" "fairlead-sidecar")'


def openssl(*args, stdin=None):
    return subprocess.run(["openssl", *args], input=stdin, check=True, capture_output=True).stdout


class Key:
    """An ed25519 pair in two files."""

    def __init__(self, folder, name="push"):
        self.private, self.public = os.path.join(folder, f"{name}.key"), os.path.join(folder, f"{name}.pub")
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.private)
        openssl("pkey", "-in", self.private, "-pubout", "-out", self.public)
        der = openssl("pkey", "-in", self.private, "-pubout", "-outform", "DER")
        self.id = hashlib.sha256(der).hexdigest()[:16]
        self._base_file = os.path.join(folder, f"{name}.base")

    def sign(self, data):
        with open(self._base_file, "wb") as f:  # this openssl signs raw bytes from files only
            f.write(data)
        return openssl("pkeyutl", "-sign", "-inkey", self.private, "-rawin", "-in", self._base_file)


def digest_of(body):
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def signed(key, sidecar_id, body, path=PATH, created=None, keyid=None):
    """The header fields of a push, as a list of pairs."""
    digest = digest_of(body)
    params = f'{COMPONENTS};created={int(created or time.time())};keyid="{keyid or key.id}"'
    base = "\n".join([f'"@method": PUT', f'"@path": {path}', f'"content-digest": {digest}',
                      '"content-type": application/json', f'"fairlead-sidecar": {sidecar_id}',
                      f'"@signature-params": {params}'])
    signature = base64.b64encode(key.sign(base.encode())).decode()
    return [("Content-Type", "application/json"), ("Fairlead-Sidecar", sidecar_id), ("Content-Digest", digest),
            ("Signature-Input", f"sig1={params}"), ("Signature", f"sig1=:{signature}:")]


def state(epoch, seq, backends, routes=None):
    return json.dumps({"epoch": epoch, "seq": seq, "routes": routes or {}, "backends": backends}).encode()


def members(*peers):
    return {"peers": [{"address": p if isinstance(p, str) else p.address} for p in peers]}


class Membership:
    """The document behind `source: file:PATH`, always replaced as a whole."""

    def __init__(self, folder, name="services.yaml"):
        self.path = os.path.join(folder, name)

    def write(self, text):
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(self.path + ".new", self.path)
        return time.monotonic()

    def set(self, *endpoints, name="storage/minio"):
        """endpoints: origins, addresses, or mappings. The moment at which the file was in place."""
        listed = [e if isinstance(e, dict) else {"address": e if isinstance(e, str) else e.address}
                  for e in endpoints]
        return self.write(yaml.safe_dump({"services": {name: {"ports": {"s3": 9000}, "endpoints": listed}}}))


class Push:
    """One push that the scripted listener got."""

    def __init__(self, at, fields, body):
        self.at, self.fields, self.body = at, fields, body
        self.state = json.loads(body)
        self.epoch, self.seq = self.state["epoch"], self.state["seq"]

    def peers(self, backend):
        return [p["address"] for p in self.state["backends"][backend].get("peers", [])]


class FakeSidecar:
    """Takes pushes on a port of its own. `answer(push)` gives (status, document or None), or None: close without an
    answer, or a number: wait that many seconds and close. `open_most`: pushes that were unanswered at once."""

    def __init__(self, ports, answer=None):
        self.answer = answer or self.accept
        self.pushes, self.connects, self.open_now, self.open_most = [], [], 0, 0
        self.port = ports.take()
        self.address = f"127.0.0.1:{self.port}"
        self._lock = threading.Lock()
        self._closing = False
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    @staticmethod
    def accept(push, digest=""):
        return 200, {"epoch": push.epoch, "seq": push.seq, "hash": digest or "0" * 16, "observations": []}

    def _accept(self):
        while not self._closing:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self.connects.append(time.monotonic())
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        with conn:
            try:
                self._one(conn)
            except OSError:
                pass

    def _count(self, step):
        with self._lock:
            self.open_now += step
            self.open_most = max(self.open_most, self.open_now)

    def _one(self, conn):
        conn.settimeout(10)
        data = b""
        while b"\r\n\r\n" not in data:
            more = conn.recv(65536)
            if not more:
                return
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        assert lines[0] == f"PUT {PATH} HTTP/1.1", lines[0]
        fields = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
        while len(body) < int(fields["content-length"]):
            more = conn.recv(65536)
            if not more:
                return
            body += more
        push = Push(time.monotonic(), fields, body)
        self.pushes.append(push)
        self._count(+1)
        verdict = self.answer(push)
        if isinstance(verdict, (int, float)):
            time.sleep(verdict)
        self._count(-1)  # before the answer: the next push may come as soon as it is out
        if isinstance(verdict, tuple):
            text = json.dumps(verdict[1]).encode() if verdict[1] is not None else b""
            conn.sendall(f"HTTP/1.1 {verdict[0]} Whatever\r\nContent-Length: {len(text)}\r\n"
                         f"Content-Type: application/json\r\n\r\n".encode() + text)

    def wait(self, count, timeout=5):
        """The count-th push (from 1)."""
        wait_until(lambda: f"{count} pushes, there were {len(self.pushes)}", lambda: len(self.pushes) >= count, timeout)
        return self.pushes[count - 1]

    def close(self):
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def put(address, headers, body, path=PATH):
    """One push over a connection of its own; the response."""
    with Wire(address, 10) as wire:
        wire.request("PUT", path, headers, body)
        try:
            return wire.response("PUT")
        except Ended as e:
            raise AssertionError(f"no answer to a push: {e}") from None
