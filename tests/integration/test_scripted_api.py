"""The stand-in for the Kubernetes API server behaves as the real one was seen to, and its faults are what they say."""
import contextlib
import http.client
import json
import socket
import time

import pytest

from bed.kube_store import endpoint_slice, pod, selects, service
from bed.scripted_api import kube_api  # noqa: F401

PODS = "/api/v1/pods"
STREAM = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion="


def ask(api, method, target, body=None, kind="application/json", token=None):
    conn = http.client.HTTPConnection("127.0.0.1", api.port, timeout=10)
    headers = {"Content-Type": kind} if body is not None else {}
    if token:
        headers["Authorization"] = "Bearer " + token
    conn.request(method, target, json.dumps(body) if body is not None else None, headers)
    answer = conn.getresponse()
    data = answer.read()
    conn.close()
    answer.json = json.loads(data) if data[:1] == b"{" else data.decode()
    return answer


class Lines:
    """A watch, read line by line; `how` it ended: 'end', 'cut' or None while it runs."""

    def __init__(self, api, target, timeout=10):
        self.conn = http.client.HTTPConnection("127.0.0.1", api.port, timeout=timeout)
        self.conn.request("GET", target)
        self.answer = self.conn.getresponse()
        self.buffer, self.how = b"", None

    def next(self):
        while b"\n" not in self.buffer:
            try:
                data = self.answer.read1(65536)
            except (http.client.IncompleteRead, ConnectionError):
                data, self.how = b"", "cut"
            if not data:
                self.how = self.how or "end"
                return None
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        event = json.loads(line)
        return event["type"], event["object"]

    def names(self, n):
        got = [self.next() for _ in range(n)]
        return [(kind, o["metadata"].get("name")) for kind, o in got]


def version_of(api):
    return ask(api, "GET", PODS).json["metadata"]["resourceVersion"]


def test_a_list_has_a_version_and_items_without_kind(kube_api):
    kube_api.put("pods", pod("shop", "a", labels={"app": "web"}))
    kube_api.put("pods", pod("yard", "b"))
    got = ask(kube_api, "GET", PODS).json
    assert got["kind"] == "PodList" and [o["metadata"]["name"] for o in got["items"]] == ["a", "b"]
    assert "kind" not in got["items"][0] and int(got["metadata"]["resourceVersion"]) > 1000
    assert [o["metadata"]["name"] for o in ask(kube_api, "GET", "/api/v1/namespaces/yard/pods").json["items"]] == ["b"]
    assert len(ask(kube_api, "GET", PODS + "?labelSelector=app%3Dweb").json["items"]) == 1
    assert len(ask(kube_api, "GET", PODS + "?fieldSelector=metadata.name%3Db").json["items"]) == 1
    assert ask(kube_api, "GET", "/api/v1/namespaces/shop/pods/a").json["kind"] == "Pod"
    assert ask(kube_api, "GET", "/api/v1/namespaces/shop/pods/c").status == 404
    assert ask(kube_api, "GET", "/apis/nothing.io/v1/pods").status == 404


@pytest.mark.parametrize("selector, labels, want", [
    ("a=b", {"a": "b"}, True), ("a==b,c", {"a": "b"}, False), ("!c,a!=x", {"a": "b"}, True),
    ("a in (x, b)", {"a": "b"}, True), ("a notin (x,b),d", {"a": "b", "d": ""}, False), ("", {}, True)])
def test_selectors(selector, labels, want):
    assert selects(selector, labels) is want


def test_a_streamed_list_ends_with_its_bookmark_and_goes_on(kube_api):
    for name in "abc":
        kube_api.put("pods", pod("shop", name))
    lines = Lines(kube_api, PODS + STREAM)
    assert sorted(lines.names(3)) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    kind, mark = lines.next()
    assert kind == "BOOKMARK" and mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    kube_api.patch("pods", "shop", "b", {"status": {"phase": "Failed"}})
    kube_api.remove("pods", "shop", "a")
    assert lines.names(2) == [("MODIFIED", "b"), ("DELETED", "a")]
    kube_api.bookmark("pods")
    kind, mark = lines.next()
    assert (kind, set(mark["metadata"])) == ("BOOKMARK", {"resourceVersion", "creationTimestamp"})
    kube_api.end("pods")
    assert lines.next() is None and lines.how == "end"
    assert [r.verb for r in kube_api.asked("pods")] == ["stream"]


def test_a_watch_goes_on_from_a_version_and_selectors_move_objects_in_and_out(kube_api):
    kube_api.put("pods", pod("shop", "a"))
    lines = Lines(kube_api, f"{PODS}?watch=1&resourceVersion={version_of(kube_api)}&labelSelector=app")
    kube_api.patch("pods", "shop", "a", {"metadata": {"labels": {"app": "x"}}})
    kube_api.patch("pods", "shop", "a", {"metadata": {"labels": {"app": "y"}}})
    kube_api.patch("pods", "shop", "a", {"metadata": {"labels": {"app": None}}})
    assert lines.names(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_the_time_limit_ends_a_watch_with_a_bookmark_before_a_streamed_one(kube_api):
    began = time.monotonic()
    plain = Lines(kube_api, f"{PODS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion=" +
                  version_of(kube_api))
    stream = Lines(kube_api, PODS + STREAM + "&timeoutSeconds=3")
    assert [stream.next()[0], stream.next()[0], stream.next()] == ["BOOKMARK", "BOOKMARK", None]
    assert plain.next() is None and plain.how == stream.how == "end"
    assert time.monotonic() - began >= 2.9


def test_old_versions_are_gone_and_future_ones_silent_or_too_large(kube_api):
    kube_api.put("pods", pod("shop", "a"))
    old = version_of(kube_api)
    kube_api.expire()
    lines = Lines(kube_api, f"{PODS}?watch=1&resourceVersion={old}")
    kind, status = lines.next()
    assert lines.answer.status == 200 and kind == "ERROR" and status["code"] == 410
    assert "resourceVersion" not in status["metadata"] and lines.next() is None
    assert ask(kube_api, "GET", f"{PODS}?resourceVersion={old}").status == 200
    future = ask(kube_api, "GET", PODS + "?resourceVersion=99999999")
    assert future.status == 504
    assert future.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    silent = Lines(kube_api, f"{PODS}?watch=1&resourceVersion=99999999&timeoutSeconds=1")
    kube_api.put("pods", pod("shop", "b"))
    assert silent.next() is None and silent.how == "end"


def test_pages_and_their_tokens(kube_api):
    for n in range(5):
        kube_api.put("pods", pod("shop", f"p{n}"))
    first = ask(kube_api, "GET", PODS + "?limit=2").json
    assert len(first["items"]) == 2 and first["metadata"]["remainingItemCount"] == 3
    second = ask(kube_api, "GET", PODS + "?limit=3&continue=" + first["metadata"]["continue"]).json
    assert [o["metadata"]["name"] for o in second["items"]] == ["p2", "p3", "p4"]
    assert "continue" not in second["metadata"]
    kube_api.expire()
    assert ask(kube_api, "GET", PODS + "?limit=3&continue=" + first["metadata"]["continue"]).status == 410


def test_writing_knows_conflicts_uids_and_formats(kube_api):
    leases, events = "/apis/coordination.k8s.io/v1/namespaces/f/leases", "/apis/events.k8s.io/v1/namespaces/f/events"
    lease = {"metadata": {"name": "x"}, "spec": {"renewTime": "2026-11-30T01:02:03.000004Z"}}
    made = ask(kube_api, "POST", leases, lease)
    assert made.status == 201 and ask(kube_api, "POST", leases, lease).status == 409
    assert ask(kube_api, "PUT", leases + "/x", lease).status == 422
    assert ask(kube_api, "PUT", leases + "/x", made.json | {"spec": {"leaseTransitions": 1}}).status == 200
    assert ask(kube_api, "PUT", leases + "/x", made.json).status == 409
    bad = {"metadata": {"name": "y"}, "spec": {"renewTime": "2026-11-30T01:02:03Z"}}
    assert ask(kube_api, "POST", leases, bad).status == 400
    event = {"metadata": {"generateName": "e"}, "eventTime": "2026-11-30T01:02:03.000004Z", "action": "A", "reason": "R",
             "note": "n", "type": "Normal", "reportingController": "c", "reportingInstance": "i",
             "regarding": {"kind": "Pod", "namespace": "f", "name": "p"}}
    assert ask(kube_api, "POST", events, event).status == 201
    assert ask(kube_api, "POST", events, event | {"eventTime": None}).status == 422
    assert ask(kube_api, "POST", events, event | {"note": "x" * 1025}).status == 422
    made = kube_api.put("pods", pod("f", "p"))
    merge = "application/strategic-merge-patch+json"
    status = "/api/v1/namespaces/f/pods/p/status"
    patch = {"metadata": {"uid": made["metadata"]["uid"]}, "status": {"conditions": [{"type": "a", "status": "True"}]}}
    assert ask(kube_api, "PATCH", status, patch, merge).status == 200
    patch["status"]["conditions"][0] = {"type": "b", "status": "False"}
    got = ask(kube_api, "PATCH", status, patch, merge).json
    assert [c["type"] for c in got["status"]["conditions"]] == ["b", "a"] and got["status"]["phase"] == "Running"
    version = got["metadata"]["resourceVersion"]
    assert ask(kube_api, "PATCH", status, patch, merge).json["metadata"]["resourceVersion"] == version
    patch["metadata"]["uid"] = "other"
    refused = ask(kube_api, "PATCH", status, patch, merge)
    assert refused.status == 422 and "metadata.uid" in refused.json["message"]


def test_rights_and_tokens(kube_api):
    review = {"spec": {"resourceAttributes": {"verb": "patch", "resource": "pods", "subresource": "status"}}}
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert ask(kube_api, "POST", reviews, review).json["status"]["allowed"] is True
    kube_api.forbid("patch", "pods/status")
    kube_api.forbid("watch", "pods")
    assert ask(kube_api, "POST", reviews, review).json["status"]["allowed"] is False
    refused = ask(kube_api, "GET", PODS + STREAM)
    assert refused.status == 403 and 'cannot watch resource "pods"' in refused.json["message"]
    assert ask(kube_api, "GET", PODS).status == 200
    kube_api.allow("watch", "pods")
    kube_api.tokens = {"t"}
    assert ask(kube_api, "GET", PODS).status == 401
    assert ask(kube_api, "GET", PODS, token="t").status == 200


def test_faults_of_the_next_requests(kube_api):
    kube_api.put("pods", pod("shop", "a"))
    kube_api.fail("pods", "list", 429, "Too many requests", retry_after=2, plain=True)
    kube_api.fail("pods", "list", 500, "oops", reason="InternalError")
    got = ask(kube_api, "GET", PODS)
    assert (got.status, got.getheader("Retry-After"), got.json) == (429, "2", "Too many requests")
    assert ask(kube_api, "GET", PODS).json["message"] == "oops"
    assert ask(kube_api, "GET", PODS).status == 200
    kube_api.behind("pods")
    assert ask(kube_api, "GET", PODS).status == 200
    assert ask(kube_api, "GET", PODS + "?resourceVersion=5").status == 504
    kube_api.streaming = False
    assert ask(kube_api, "GET", PODS + STREAM).status == 422
    kube_api.warn("pods", "old")
    assert ask(kube_api, "GET", PODS).getheader("Warning") == '299 - "old"'
    kube_api.garble("pods", "list")
    assert "hotel" in ask(kube_api, "GET", PODS).json
    kube_api.drop("pods", "list")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask(kube_api, "GET", PODS)
    kube_api.cut_short("pods", "list")
    with pytest.raises(http.client.IncompleteRead):
        ask(kube_api, "GET", PODS)
    kube_api.short("pods")
    lines = Lines(kube_api, f"{PODS}?watch=1&resourceVersion={version_of(kube_api)}")
    assert lines.next() is None and lines.how == "end"
    kube_api.hang("pods", "watch")
    with pytest.raises(TimeoutError):
        Lines(kube_api, PODS + "?watch=1", timeout=0.5)


def test_faults_of_watches_under_way(kube_api):
    def watch(timeout=10):
        lines = Lines(kube_api, f"{PODS}?watch=1&resourceVersion={version_of(kube_api)}", timeout)
        while kube_api.watching("pods") < 1:
            time.sleep(0.01)
        return lines

    def gone():
        while kube_api.watching("pods"):
            time.sleep(0.01)

    lines = watch()
    kube_api.cut("pods")
    assert lines.next() is None and lines.how == "cut" and lines.buffer.startswith(b'{"type"')
    gone()
    lines = watch()
    kube_api.error("pods", 500, "etcdserver: leader changed", retry_after=1)
    kind, status = lines.next()
    assert (kind, status["code"], status["details"]["retryAfterSeconds"]) == ("ERROR", 500, 1)
    assert lines.next() is None
    gone()
    lines = watch()
    kube_api.split = 1
    kube_api.put("pods", pod("shop", "split"))
    assert lines.names(1) == [("ADDED", "split")]
    kube_api.split = 0
    with kube_api.held():
        kube_api.put("pods", pod("shop", "x"))
        kube_api.put("pods", pod("shop", "y"))
        time.sleep(0.2)
        lines.conn.sock.settimeout(0.2)
    assert lines.names(2) == [("ADDED", "x"), ("ADDED", "y")]
    kube_api.silence("pods")
    time.sleep(0.2)
    kube_api.put("pods", pod("shop", "z"))
    with pytest.raises(TimeoutError):
        lines.next()
    lines.conn.close()
    lines.answer.close()
    gone()


def test_it_stops_and_starts_at_its_place(kube_api):
    kube_api.put("services", service("shop", "db", {"s3": 9000}))
    kube_api.put("endpointslices", endpoint_slice("shop", "db-1", "db", {"s3": 9000}, ["10.0.0.1"]))
    lines = Lines(kube_api, PODS + STREAM)
    assert lines.next()[0] == "BOOKMARK"
    kube_api.stop()
    assert lines.next() is None and lines.how == "cut"
    with pytest.raises(ConnectionRefusedError):
        ask(kube_api, "GET", PODS)
    kube_api.start()
    assert len(ask(kube_api, "GET", "/apis/discovery.k8s.io/v1/endpointslices").json["items"]) == 1
    kube_api.freeze()
    with contextlib.closing(socket.create_connection(("127.0.0.1", kube_api.port), 2)) as s:
        s.settimeout(0.3)
        s.sendall(b"GET /version HTTP/1.1\r\n\r\n")
        with pytest.raises(TimeoutError):
            s.recv(1)
        kube_api.thaw()
        s.settimeout(5)
        assert s.recv(12) == b"HTTP/1.1 200"


def test_the_way_there_is_written_for_it(kube_api, tmp_path):
    path = kube_api.kubeconfig(str(tmp_path), token="t")
    with open(path, encoding="utf-8") as f:
        assert json.load(f)["clusters"][0]["cluster"]["server"] == kube_api.url
    assert kube_api.pod_env()["KUBERNETES_SERVICE_PORT"] == str(kube_api.port)
