"""A request to the Kubernetes API as bed/scripted_api.py understands it, and the connection it came on."""
import contextlib
import re
import socket
import ssl
import time
import urllib.parse

from bed.kube_store import RESOURCES, selects

PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))(?:/namespaces/(?P<ns>[^/]+))?"
                  r"/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?")


class Request:
    def __init__(self, method, target, headers, body):
        path, _, query = target.partition("?")
        self.method, self.path, self.headers, self.at = method, path, headers, time.monotonic()
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.raw_body, self.body, self.code = body, None, None
        self.resource = self.namespace = self.name = self.subresource = ""
        match = PATH.fullmatch(path)
        if match and match["resource"] in RESOURCES:
            self.resource, self.namespace, self.name = match["resource"], match["ns"] or "", match["name"] or ""
            self.subresource = match["sub"] or ""
        self.known = bool(self.resource) and RESOURCES[self.resource][:2] == (
            match["group"] or "", match["core"] or match["version"])
        self.verb = self._verb()

    def _verb(self):
        if self.method == "GET":
            if self.name:
                return "get"
            if self.query.get("watch") in ("1", "true"):
                return "stream" if self.query.get("sendInitialEvents") == "true" else "watch"
            return "list"
        return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(self.method, "other")

    def header(self, name):
        return self.headers.get(name.lower(), "")

    def chosen(self, o):
        meta = o["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        if not selects(self.query.get("labelSelector"), meta.get("labels") or {}):
            return False
        for part in filter(None, self.query.get("fieldSelector", "").split(",")):
            key, _, value = part.partition("=")
            at = o
            for step in key.split("."):
                at = at.get(step, "") if isinstance(at, dict) else ""
            if at != value.lstrip("="):
                return False
        return True

    def __repr__(self):
        return f"<{self.verb} {self.resource} {self.namespace}/{self.name} {self.query} -> {self.code}>"


class Gone(Exception):
    """The connection is no more, or is not to be answered."""


class Connection:
    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError as e:
            raise Gone from e

    def receive(self):
        try:
            data = self.sock.recv(65536)
        except OSError as e:
            raise Gone from e
        if not data:
            raise Gone
        self.buffer += data

    def request(self):
        while b"\r\n\r\n" not in self.buffer:
            self.receive()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ")
        headers = {n.lower(): v.strip() for n, _, v in (f.partition(":") for f in fields)}
        length = int(headers.get("content-length", 0))
        while len(self.buffer) < length:
            self.receive()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return Request(method, target, headers, body)

    def is_over(self):
        """Has the other side ended? Looks without waiting."""
        try:
            self.sock.settimeout(0)
            if isinstance(self.sock, ssl.SSLSocket):
                data = self.sock.recv(1)
                self.buffer += data
            else:
                data = self.sock.recv(1, socket.MSG_PEEK)
            return not data
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        finally:
            with contextlib.suppress(OSError):
                self.sock.settimeout(None)

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
