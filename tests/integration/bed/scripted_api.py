"""A stand-in for the Kubernetes API server, for tests with the real controller: real semantics of list, watch, streamed
list, versions and writing, and faults that a real one does not show on demand.

    api = ScriptedApi(ports)                  or the fixture `kube_api`; cert=(certificate file, key file) for https
    api.kubeconfig(folder, token="t")         path of a kubeconfig that leads here (ca=FILE for https)
    api.account(folder, token="t")            a folder as mounted for a service account; environment: api.pod_env()

Objects (resources: see bed/kube_store.py)
    api.put("pods", pod("shop", "web-0"))     creates or replaces it; builders pod, service,
                                              endpoint_slice: bed/kube_store.py
    api.patch("pods", "shop", "web-0", {…})   as a merge patch
    api.remove("pods", "shop", "web-0")       deletes it
    api.get("leases", "fairlead", "x")        None when it is not there
    api.all("events")                         a list
    with api.held(): …                        all changes within reach each watch in one write

What was asked
    api.asked("pods", "watch")                list of Request: verb (list, watch, stream, get, create, update, patch,
                                              delete), resource, namespace, name, subresource, query, headers, body, code
    api.watching("pods")                      how many watches are under way
    api.connections                           how many were accepted
    api.compression_asked                     requests that would have taken gzip

Rules
    api.streaming = False                     streamed lists are off: 422 naming sendInitialEvents
    api.tokens = {"a", "b"}                   everybody else gets 401 (None: anybody may)
    api.forbid("watch", "pods")               403 as RBAC says it; SelfSubjectAccessReviews answer the same; api.allow(…)
    api.bookmark_s = 60                       how often a quiet watch gets a bookmark (and one 2 s before its end)
    api.warn("pods", "text")                  a Warning field on every answer about it
    api.page_most = 500                       a limit above it is cut to it

Faults of the next requests. verb: list, watch, stream, get, create, update, patch, delete, or "*" (any)
    api.fail("pods", "list", 500, "oops", reason="InternalError", retry_after=None, times=1)
    api.fail("pods", "watch", 429, "Too many requests", retry_after=2, plain=True)      a plain-text body
    api.fail("pods", "watch", 410, "too old", reason="Expired")
    api.behind("pods", times=1)               504 ResourceVersionTooLarge to a list or stream that names a version
    api.hang("pods", "watch", times=1)        accepts, and never answers
    api.drop("pods", "watch", times=1)        closes without an answer
    api.garble("pods", "list", times=1)       200 with HTML
    api.short("pods", times=3)                watches (no streams) that end at once, without an event
    api.cut_short("pods", "list", times=1)    list or stream that is cut in the middle of an object
    api.clear_faults()

Faults of watches that are under way (streams too)
    api.end("pods")                           a clean end
    api.cut("pods")                           the connection ends in the middle of a line
    api.silence("pods")                       half open: nothing is sent any more
    api.error("pods", 410, "too old", reason="Expired", retry_after=None)      an ERROR event; then it ends
    api.bookmark("pods")                      a bookmark, now
    api.say("pods", b"…")                     any bytes, as a chunk
    api.split = 1                             every line in pieces of so many bytes (0: whole)

The server itself
    api.expire()                              versions up to now are too old: 410 for watches and `continue`
    api.stop(); api.start()                   refuses connects, cuts everything; same port, same objects
    api.freeze(); api.thaw()                  accepts, and does nothing
"""
import base64
import contextlib
import json
import os
import random
import re
import socket
import ssl
import threading
import time

import pytest

from bed.kube_store import RESOURCES, Refused, Store, api_version
from bed.kube_wire import Connection, Gone, Request

TOO_LARGE_AFTER_S = 0.1  # the real one waits 3 s
REASONS = {200: "OK", 201: "Created", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 409: "Conflict",
           410: "Gone", 422: "Unprocessable Entity", 429: "Too Many Requests", 500: "Internal Server Error",
           503: "Service Unavailable", 504: "Gateway Timeout"}


class Watch:
    """One that is under way: its orders come from the test, its changes from the store."""

    def __init__(self, api, conn, request):
        self.api, self.conn, self.request, self.store = api, conn, request, api.store
        self.orders, self.silent = [], False
        self.ends_at = time.monotonic() + int(request.query.get("timeoutSeconds") or 1800)
        self.marks = request.query.get("allowWatchBookmarks") == "true"
        self.marked_at, self.last_mark = time.monotonic(), False
        self.said, self.after = 0, 0

    def line(self, kind, o):
        return json.dumps({"type": kind, "object": o}, separators=(",", ":")).encode() + b"\n"

    def send(self, data):
        if self.silent or not data:
            return
        step = self.api.split or len(data)
        for at in range(0, len(data), step):
            piece = data[at:at + step]
            self.conn.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.said += 1

    def bookmark(self, revision, initial=False):
        kind = RESOURCES[self.request.resource][2]
        meta = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        self.marked_at = time.monotonic()
        return self.line("BOOKMARK", {"kind": kind, "apiVersion": api_version(self.request.resource),
                                      "metadata": meta})

    def begin(self):
        """The first bytes, and where in the log of changes it goes on."""
        version = self.request.query.get("resourceVersion", "")
        initial = self.request.verb == "stream"
        with self.store.changed:
            position = self.store.since(0)[1]
            if initial or version in ("", "0"):
                objects, revision = self.store.all(self.request.resource, self.request.chosen)
                random.Random(revision).shuffle(objects)  # never in the order of versions
                lines = [self.line("ADDED", o) for o in objects]
                if initial:
                    lines.append(self.bookmark(revision, True))
                return b"".join(lines), position
            if int(version) < self.store.compacted:
                self.orders.append(("error", Refused(410, "Expired", f"too old resource version: {version} "
                                                     f"({self.store.compacted})")))
            self.after = int(version)  # one of the future is silent until then
            return b"", self.store.position_of(self.after)

    def run(self):
        data, position = self.begin()
        if self.api.take_fault(self.request, ("cut_short",)):
            half = data[:len(data) // 2] or b'{"type":"ADD'
            self.send(half)
            raise Gone
        self.send(data)
        while self.obey():
            with self.store.changed:
                changes, after = self.store.since(position)
                if self.api.holding or (not changes and not self.orders):
                    self.store.changed.wait(0.05)
                    changes, after = ([], position) if self.api.holding else self.store.since(position)
            seen = [c.seen_by(self.request.chosen) for c in changes
                    if c.resource == self.request.resource and c.revision > self.after]
            self.send(b"".join(self.line(*s) for s in seen if s))
            position = after
            self.tick(changes)
            if self.conn.is_over():
                raise Gone
        self.conn.send(b"0\r\n\r\n")

    def tick(self, changes):
        now = time.monotonic()
        if not self.marks or changes:
            return
        due = now - self.marked_at >= self.api.bookmark_s
        last = not self.last_mark and self.request.verb == "stream" and now >= self.ends_at - 2
        if due or last:
            self.last_mark |= last
            self.send(self.bookmark(self.store.revision))

    def obey(self):
        """False: a clean end."""
        while self.orders:
            order, what = self.orders.pop(0)
            if order == "end":
                return False
            if order == "cut":
                self.send(b'{"type":"MODIFIED","object":{"metadata":{"name":"ha')
                raise Gone
            if order == "silence":
                self.silent = True
            if order == "error":
                self.send(self.line("ERROR", what.status()))
                return False
            if order == "bookmark":
                self.send(self.bookmark(self.store.revision))
            if order == "say":
                self.send(what)
        return self.silent or time.monotonic() < self.ends_at


class ScriptedApi:
    def __init__(self, ports, cert=None, host="127.0.0.1"):
        self.host, self.port = host, ports.take()
        self.address = f"{host}:{self.port}"
        self.url = f"{'https' if cert else 'http'}://{self.address}"
        self.store = Store()
        self.requests, self.connections = [], 0
        self.tokens, self.streaming, self.bookmark_s, self.page_most, self.split = None, True, 60, 500, 0
        self.holding = False
        self._frozen = threading.Event()
        self._denied, self._warnings, self._faults, self._watches, self._conns = set(), {}, [], [], []
        self._lock = threading.RLock()
        self._tls = None
        if cert:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*cert)
        self._listener = None
        self.start()

    # ---- the server ----

    def start(self):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((self.host, self.port))
        self._listener.listen(64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self):
        listener, self._listener = self._listener, None
        if listener:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            conns, self._conns = self._conns, []
        for conn in conns:
            conn.close()

    close = stop

    def freeze(self):
        self._frozen.set()

    def thaw(self):
        self._frozen.clear()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        conn = None
        try:
            self._wait_frozen()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn = Connection(self._tls.wrap_socket(sock, server_side=True) if self._tls else sock)
            with self._lock:
                self.connections += 1
                self._conns.append(conn)
            while True:
                self._answer(conn, conn.request())
        except (Gone, OSError):
            pass
        finally:
            with self._lock:
                if conn in self._conns:
                    self._conns.remove(conn)
            if conn:
                conn.close()
            else:
                sock.close()

    def _wait_frozen(self):
        while self._frozen.is_set():
            time.sleep(0.02)

    # ---- answering ----

    def _answer(self, conn, request):
        self._wait_frozen()
        with self._lock:
            self.requests.append(request)
        try:
            self._strike(conn, request)
            self._admit(request)
            if request.verb in ("watch", "stream"):
                self._watch(conn, request)
            else:
                code, body = self._short(request)
                if request.verb == "list" and self.take_fault(request, ("cut_short",)):
                    request.code = code
                    conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:len(body) * 2 // 3])
                    raise Gone
                self._reply(conn, request, code, body)
        except Refused as r:
            body = r.message.encode() if getattr(r, "plain", False) else json.dumps(r.status()).encode()
            fields = f"Retry-After: {r.retry_after}\r\n" if r.retry_after is not None else ""
            self._reply(conn, request, r.code, body, fields)

    def _reply(self, conn, request, code, body, fields="", kind="application/json"):
        request.code = code
        for text in self._warnings.get(request.resource, ()):
            fields += f'Warning: 299 - "{text}"\r\n'
        conn.send((f"HTTP/1.1 {code} {REASONS.get(code, 'X')}\r\nContent-Type: {kind}\r\n{fields}"
                   f"Content-Length: {len(body)}\r\n\r\n").encode() + body)

    def take_fault(self, request, kinds):
        """The next fault of these kinds that is meant for this request, or None."""
        with self._lock:
            for f in self._faults:
                if f["kind"] in kinds and f["resource"] == request.resource and f["verb"] in ("*", request.verb):
                    if f["kind"] == "behind" and not request.query.get("resourceVersion"):
                        continue
                    f["times"] -= 1
                    if f["times"] <= 0:
                        self._faults.remove(f)
                    return f
        return None

    def _strike(self, conn, request):
        f = self.take_fault(request, ("fail", "behind", "hang", "drop", "garble"))
        if f is None:
            return
        if f["kind"] == "fail":
            raise f["refused"]
        if f["kind"] == "behind":
            raise self._too_large(request)
        if f["kind"] == "drop":
            raise Gone
        if f["kind"] == "garble":
            self._reply(conn, request, 200, b"<html><body>welcome to the hotel</body></html>", kind="text/html")
            raise Gone
        while not conn.is_over():  # hang
            time.sleep(0.02)
        raise Gone

    @staticmethod
    def _too_large(request):
        time.sleep(TOO_LARGE_AFTER_S)
        version = request.query.get("resourceVersion")
        return Refused(504, "Timeout", f"Timeout: Too large resource version: {version}, current: 1",
                       {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}, 1)

    def _admit(self, request):
        token = request.header("authorization").removeprefix("Bearer ")
        if self.tokens is not None and token not in self.tokens:
            raise Refused(401, "Unauthorized", "Unauthorized")
        verb = {"stream": "watch"}.get(request.verb, request.verb)
        name = request.resource + ("/" + request.subresource if request.subresource else "")
        if request.known and (verb, name) in self._denied:
            group = RESOURCES[request.resource][0]
            where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
            raise Refused(403, "Forbidden", f'{name} is forbidden: User "system:serviceaccount:fairlead:controller" '
                          f'cannot {verb} resource "{name}" in API group "{group}" {where}')

    def _short(self, request):
        """(code, body) of a call that is no watch."""
        if request.path == "/version":
            return 200, json.dumps({"major": "1", "minor": "37", "gitVersion": "v1.37.2"}).encode()
        if request.path in ("/readyz", "/healthz", "/livez"):
            return 200, b"ok"
        if not request.known:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        if request.raw_body:
            try:
                request.body = json.loads(request.raw_body)
            except ValueError:
                raise Refused(400, "BadRequest", "the body is not JSON") from None
        r, ns, name = request.resource, request.namespace, request.name
        if request.verb == "list":
            return 200, self._list(request)
        if r == "selfsubjectaccessreviews":
            return 201, json.dumps(self._review(request.body)).encode()
        code, made = {
            "get": lambda: (200, self.store.get(r, ns, name)),
            "create": lambda: (201, self.store.create(r, ns, request.body)),
            "update": lambda: (200, self.store.update(r, ns, name, request.body)),
            "patch": lambda: (200, self.store.patch(r, ns, name, request.body, request.header("content-type"),
                                                    request.subresource)),
            "delete": lambda: (200, self.store.delete(r, ns, name)),
        }[request.verb]()
        return code, json.dumps(made).encode()

    def _review(self, body):
        spec = body["spec"]["resourceAttributes"]
        name = spec.get("resource", "") + ("/" + spec["subresource"] if spec.get("subresource") else "")
        allowed = (spec.get("verb"), name) not in self._denied
        return {**body, "status": {"allowed": allowed, **({} if allowed else {"reason": "no role grants it"})}}

    def _list(self, request):
        version = request.query.get("resourceVersion", "")
        objects, revision = self.store.all(request.resource, request.chosen)
        meta, start = {}, 0
        if "continue" in request.query:
            try:
                token = json.loads(base64.urlsafe_b64decode(request.query["continue"]))
            except ValueError:
                raise Refused(400, "BadRequest", "continue key is not valid") from None
            if token["revision"] < self.store.compacted:
                raise Refused(410, "Expired", "The provided continue parameter is too old to display a consistent list "
                              "result.")
            start, revision = token["start"], token["revision"]
        elif version not in ("", "0") and int(version) > self.store.revision:
            raise self._too_large(request)
        limit = min(int(request.query.get("limit") or len(objects) + 1), self.page_most)
        page = objects[start:start + limit] if "limit" in request.query else objects
        if "limit" in request.query and start + limit < len(objects):
            token = json.dumps({"start": start + limit, "revision": revision}).encode()
            meta = {"continue": base64.urlsafe_b64encode(token).decode(),
                    "remainingItemCount": len(objects) - start - limit}
        kind = RESOURCES[request.resource][2]
        for o in page:  # items of a list have neither
            o.pop("kind"), o.pop("apiVersion")
        body = json.dumps({"kind": kind + "List", "apiVersion": api_version(request.resource),
                           "metadata": {"resourceVersion": str(revision), **meta}, "items": page}).encode()
        return body

    def _watch(self, conn, request):
        if not request.known:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        if request.verb == "stream":
            self._check_stream(request)
        version = request.query.get("resourceVersion", "")
        if version and not version.isdigit():
            raise Refused(400, "BadRequest", f'Invalid value: "{version}": resourceVersion must be unsigned integer')
        if request.verb == "stream" and version and int(version) > self.store.revision:
            raise self._too_large(request)
        request.code = 200
        fields = "".join(f'Warning: 299 - "{t}"\r\n' for t in self._warnings.get(request.resource, ()))
        conn.send(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{fields}"
                  "Transfer-Encoding: chunked\r\n\r\n".encode())
        if request.verb == "watch" and self.take_fault(request, ("short",)):
            conn.send(b"0\r\n\r\n")
            return
        watch = Watch(self, conn, request)
        with self._lock:
            self._watches.append(watch)
        try:
            watch.run()
        finally:
            with self._lock:
                self._watches.remove(watch)

    def _check_stream(self, request):
        if not self.streaming:
            raise Refused(422, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: "
                          "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
        if request.query.get("resourceVersionMatch") != "NotOlderThan":
            raise Refused(422, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: "
                          "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")

    # ---- the test's verbs: objects ----

    def put(self, resource, o):
        meta = o["metadata"]
        namespace = meta.get("namespace", "default") if RESOURCES[resource][3] else ""
        with self.store.changed:
            if self.get(resource, namespace, meta["name"]) is None:
                return self.store.create(resource, namespace, o)
            body = {**o, "metadata": {k: v for k, v in meta.items() if k != "uid"}}
            body["metadata"]["resourceVersion"] = self.get(resource, namespace, meta["name"])["metadata"][
                "resourceVersion"]
            return self.store.update(resource, namespace, meta["name"],
                                     {"kind": RESOURCES[resource][2], "apiVersion": api_version(resource), **body})

    def patch(self, resource, namespace, name, patch):
        return self.store.patch(resource, namespace, name, patch, "application/merge-patch+json")

    def remove(self, resource, namespace, name):
        return self.store.delete(resource, namespace, name)

    def get(self, resource, namespace, name):
        try:
            return self.store.get(resource, namespace, name)
        except Refused:
            return None

    def all(self, resource):
        return self.store.all(resource)[0]

    @contextlib.contextmanager
    def held(self):
        self.holding = True
        try:
            yield
        finally:
            self.holding = False

    # ---- the test's verbs: what was asked ----

    def asked(self, resource=None, verb=None):
        with self._lock:
            return [r for r in self.requests if resource in (None, r.resource) and verb in (None, r.verb)]

    def watching(self, resource):
        return len(self._under_way(resource))

    @property
    def compression_asked(self):
        return [r for r in self.asked() if re.search(r"gzip|deflate|br|zstd|\*", r.header("accept-encoding"))]

    # ---- the test's verbs: rules and faults ----

    def forbid(self, verb, resource):
        self._denied.add((verb, resource))

    def allow(self, verb, resource):
        self._denied.discard((verb, resource))

    def warn(self, resource, text):
        self._warnings.setdefault(resource, []).append(text)

    def _fault(self, kind, resource, verb, times, **more):
        with self._lock:
            self._faults.append({"kind": kind, "resource": resource, "verb": verb, "times": times, **more})

    def fail(self, resource, verb, code, message="", reason="", retry_after=None, details=None, times=1, plain=False):
        refused = Refused(code, reason, message or REASONS.get(code, "failed"), details, retry_after)
        refused.plain = plain
        self._fault("fail", resource, verb, times, refused=refused)

    def behind(self, resource, times=1):
        self._fault("behind", resource, "list", times)
        self._fault("behind", resource, "stream", times)

    def hang(self, resource, verb, times=1):
        self._fault("hang", resource, verb, times)

    def drop(self, resource, verb, times=1):
        self._fault("drop", resource, verb, times)

    def garble(self, resource, verb, times=1):
        self._fault("garble", resource, verb, times)

    def short(self, resource, times=1):
        self._fault("short", resource, "watch", times)

    def cut_short(self, resource, verb, times=1):
        self._fault("cut_short", resource, verb, times)

    def clear_faults(self):
        with self._lock:
            self._faults = []

    # ---- the test's verbs: watches under way ----

    def _under_way(self, resource):
        with self._lock:
            return [w for w in self._watches if w.request.resource == resource]

    def _order(self, resource, order, what=None):
        with self.store.changed:
            for watch in self._under_way(resource):
                watch.orders.append((order, what))
            self.store.changed.notify_all()

    def end(self, resource):
        self._order(resource, "end")

    def cut(self, resource):
        self._order(resource, "cut")

    def silence(self, resource):
        self._order(resource, "silence")

    def error(self, resource, code, message="", reason="", retry_after=None):
        self._order(resource, "error", Refused(code, reason, message or REASONS.get(code, "failed"), None, retry_after))

    def bookmark(self, resource):
        self._order(resource, "bookmark")

    def say(self, resource, data):
        self._order(resource, "say", data)

    def expire(self):
        self.store.compact()

    # ---- the way here ----

    def kubeconfig(self, folder, token=None, ca=None, token_file=None, name="kubeconfig"):
        user = {"token": token} if token else {"tokenFile": token_file} if token_file else {}
        cluster = {"server": self.url, **({"certificate-authority": ca} if ca else {})}
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "test",
                       "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test",
                                                                  "namespace": "fairlead"}}],
                       "clusters": [{"name": "test", "cluster": cluster}],
                       "users": [{"name": "test", "user": user}]}, f)
        return path

    def account(self, folder, ca, token="t", namespace="fairlead"):
        for name, text in (("token", token), ("namespace", namespace)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text)
        with open(ca, encoding="utf-8") as source, open(os.path.join(folder, "ca.crt"), "w", encoding="utf-8") as f:
            f.write(source.read())
        return folder

    def pod_env(self):
        return {"KUBERNETES_SERVICE_HOST": self.host, "KUBERNETES_SERVICE_PORT": str(self.port)}


@pytest.fixture
def kube_api(ports):
    api = ScriptedApi(ports)
    yield api
    api.close()
