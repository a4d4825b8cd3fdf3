"""GET /_/api/admin/tap: access-log lines, live, to whoever watches."""
import json
import time

import pytest

from bed.config import backend, http, s3
from bed.play import parallel
from bed.process import json_lines, wait_until
from bed.wire import Ended, Wire, head


class Watcher:
    """A reader of the tap. Lines come as chunks; pieces of lines are put together."""

    def __init__(self, s, query="", rcvbuf=None):
        self.wire = Wire(("127.0.0.1", s.admin_port), timeout=10, rcvbuf=rcvbuf)
        self.wire.send(head("GET", "/_/api/admin/tap" + query, host="127.0.0.1"))
        self.head = self.wire.read_interim()
        self.text, self.lines = b"", []

    def _chunk(self):
        size = int(self.wire._line(), 16)
        self.wire._need(lambda: len(self.wire.buffer) >= size + 2)
        self.text += self.wire.buffer[:size]
        self.wire.buffer = self.wire.buffer[size + 2:]
        return size

    def take(self, count, timeout=5):
        """Reads until there are `count` lines."""
        self.wire.sock.settimeout(timeout)
        while len(self.lines) < count:
            assert self._chunk(), f"ended after {len(self.lines)} lines"
            *whole, self.text = self.text.split(b"\n")
            self.lines += [json.loads(line) for line in whole]
        return self.lines

    def quiet(self, seconds=0.3):
        return not self.text and self.wire.silent(seconds)

    def close(self):
        self.wire.close()


@pytest.fixture
def watch():
    made = []

    def start(*args, **keys):
        made.append(Watcher(*args, **keys))
        assert made[-1].head.status == 200, made[-1].head
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_lines_come_as_they_are_written(sidecar, origin, watch):
    s = sidecar(http(origin("a")))
    w = watch(s)
    assert w.head.header("Content-Type") == "application/x-ndjson"
    assert w.head.header("Transfer-Encoding") == "chunked" and w.head.header("Cache-Control") == "no-store"
    for i in range(3):
        response, line = s.traced("GET", f"/x/{i}?X-Amz-Signature=secret")
        start = time.monotonic()
        assert w.take(i + 1)[i] == line, "the very line of stdout"
        assert time.monotonic() - start < 1
    assert "secret" not in json.dumps(w.lines)


def test_by_bucket(sidecar, origins, watch):
    a, b = origins(2)
    config = s3(a)
    config["hosts"] = ["s3.test"]
    config["backends"]["plain"] = backend(b)
    config["routes"] = {"*": {"backend": "store"}, "plain": {"backend": "plain"}}
    s = sidecar(config)
    w, other = watch(s, "?bucket=mine"), watch(s, "?bucket=plain")
    sent = [("/mine/a", "x.example"), ("/other/a", "x.example"), ("/mine?list-type=2", "x.example"),
            ("/key", "mine.s3.test"), ("/mine/b", "other.s3.test"), ("http://x.example/mine/c", "x.example"),
            ("/", "x.example"), ("/%6dine/d", "x.example"), ("/plain/x", "x.example"), ("/plain/./y", "x.example")]
    for target, host in sent:
        assert s.call("GET", target, host=host).status == 200, target
    got = [line["uri"] for line in w.take(5)]
    assert got == ["/mine/a", "/mine?list-type=2", "/key", "http://x.example/mine/c", "/%6dine/d"] and w.quiet()
    assert [line["uri"] for line in other.take(2)] == ["/plain/x", "/plain/./y"] and other.quiet()


def test_by_status(sidecar, origin, watch):
    s = sidecar(http(origin("a", "path=/x/404 status=404", "path=/x/503 status=503", "path=/x/500 status=500"),
                     route={"next_upstream": "off"}))
    one, many, both = watch(s, "?status=503"), watch(s, "?status=5xx"), watch(s, "?status=5XX&bucket=y")
    for name in ("200", "404", "503", "500"):
        assert s.get(f"/x/{name}").status == int(name)
    assert [line["status"] for line in one.take(1)] == [503] and one.quiet()
    assert [line["status"] for line in many.take(2)] == [503, 500] and many.quiet()
    assert both.quiet()


@pytest.mark.parametrize("query", ["status=", "status=6xx", "status=99", "status=600", "status=5x", "status=abc",
                                   "bucket="])
def test_queries_that_mean_nothing_are_400(sidecar, origin, query):
    s = sidecar(http(origin("a")))
    response = s.ask("GET", "/_/api/admin/tap?" + query)
    assert response.status == 400 and json.loads(response.body)["token"] == "bad_request"


@pytest.mark.parametrize("mode", ["off", "errors"])
def test_with_the_access_log_off_lines_are_made_for_watchers_only(sidecar, origin, watch, mode):
    s = sidecar({**http(origin("a", "path=/x/500 status=500"), route={"next_upstream": "off"}), "access_log": mode})
    s.get("/x/before")
    time.sleep(0.1)
    w = watch(s)
    for i in range(20):
        assert s.get(f"/x/{i}").status == 200
    s.get("/x/500")
    assert [line["uri"] for line in w.take(21)] == [f"/x/{i}" for i in range(20)] + ["/x/500"]
    assert w.lines[0]["upstream_status"] == "200"
    time.sleep(0.1)
    assert [line["status"] for line in s.access()] == ([500] if mode == "errors" else [])
    assert s.metrics().sum("fairlead_log_dropped_total") == 0


def test_at_most_four_watch_and_who_leaves_makes_room(sidecar, origin, watch):
    s = sidecar(http(origin("a")))
    four = [watch(s) for _ in range(4)]
    fifth = s.ask("GET", "/_/api/admin/tap")
    assert fifth.status == 503 and fifth.header("X-Fairlead-Error") == "overload"
    s.get("/x")
    assert all(len(w.take(1)) == 1 for w in four)
    four[2].close()

    def room():
        try:
            return watch(s)
        except AssertionError:
            return None

    w = wait_until("a place", room, 3, 0.1)
    s.get("/y")
    assert w.take(1)[0]["uri"] == "/y"
    assert s.ask("HEAD", "/_/api/admin/tap").status == 503, "taken"


def test_a_slow_watcher_loses_lines_and_holds_up_nobody(sidecar, origin, watch):
    s = sidecar(http(origin("a")))
    slow, fast = watch(s, rcvbuf=4096), watch(s)
    long = "/x/" + "k" * 7000
    sent = 0
    for _ in range(50):
        with s.wire() as wire:
            for _ in range(6):  # what one ring of the log holds
                assert wire.request("GET", long).response().status == 200
        sent += 6
        fast.take(sent)  # nobody waits for the slow one
    assert [line["uri"] for line in fast.lines] == [long] * sent, "the other watcher loses no line"
    slow.take(60)
    s.get("/last")
    while slow.lines[-1].get("uri") != "/last":
        slow.take(len(slow.lines) + 1)
    dropped = sum(line.get("dropped", 0) for line in slow.lines)
    seen = len([line for line in slow.lines if line.get("uri") == long])
    assert dropped > 0 and seen + dropped == sent, (seen, dropped, sent)


def test_many_watchers_come_and_go_under_load(sidecar, origin):
    s = sidecar({**http(origin("a")), "access_log": "off"})
    stop = time.monotonic() + 2

    def work(i):
        n = 0
        while time.monotonic() < stop:
            if i < 3:
                with s.wire() as wire:
                    for _ in range(20):
                        assert wire.request("GET", "/x").response().status == 200
            else:
                try:
                    w = Watcher(s)
                    if w.head.status == 200:
                        w.take(2 + i)
                    w.close()
                except (OSError, Ended):
                    pass
            n += 1
        return n

    assert all(n > 0 for n in parallel(9, work))
    assert s.get("/x").status == 200
    assert not json_lines(s.out.lines)


def test_a_watcher_does_not_keep_the_process(sidecar, origin, watch):
    s = sidecar(http(origin("a")))
    w = watch(s)
    s.get("/x")
    w.take(1)
    s.terminate()
    assert s.wait(5) == 0
    with pytest.raises((Ended, ValueError, AssertionError)):
        w.take(2)
