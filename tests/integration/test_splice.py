"""Large answers of known length to a fast reader pass through the kernel by splice(2): whole, and with the same ends as
the ones that are copied. A connection to the peer is trusted with it after 480 KiB that nobody had to wait for."""
import re
import time

import pytest

from bed.config import http
from bed.origin import generated
from bed.process import wait_until
from bed.sidecar import descriptor_tables
from bed.tracing import traced
from bed.wire import Ended

MIB = 1 << 20
SIZE = 8 * MIB


def pipes(s):
    """Pipe ends of the data threads, those of the log among them."""
    return sum(target.startswith("pipe:") for target in descriptor_tables(s.pid)[0].values())


@pytest.fixture
def fast(sidecar, origin):
    """A sidecar, a client and a connection to the peer that has proved to be fast."""
    u1 = origin("u1", f"size={SIZE} path=/large", "size=1 path=/small", ledger=False)
    s = sidecar({"threads": 1, **http(u1)})
    s.u1, s.pipes_before = u1, pipes(s)
    s.client = s.wire(timeout=60)
    assert s.client.request("GET", "/large").response().body == generated(SIZE)
    assert pipes(s) > s.pipes_before, "a large answer passes by a pipe"
    return s


def test_one_answer_after_another_arrives_whole(fast):
    for _ in range(4):
        assert fast.client.request("GET", "/large").response().body == generated(SIZE)
        assert fast.client.request("GET", "/small").response().body == generated(1)


def test_the_bytes_do_not_pass_through_the_process(fast):
    trace = fast.config_file + ".strace"
    with traced(fast, "splice,recvfrom", trace):
        assert fast.client.request("GET", "/large").response().body == generated(SIZE)
    with open(trace, encoding="ascii", errors="replace") as f:
        lines = f.read().splitlines()

    def moved(call):
        return sum(int(m.group(1)) for m in (re.search(rf"{call}.* = (\d+)$", line) for line in lines) if m)

    assert moved("splice") >= SIZE, "into pipes and out of them: twice nearly all"
    assert moved("recvfrom") < SIZE // 2


def test_a_reader_that_stops_and_goes_on(fast):
    fast.client.request("GET", "/large")
    time.sleep(0.5)  # whatever is on its way gets stuck in the pipe and in both sockets
    assert fast.client.response().body == generated(SIZE)
    assert fast.client.request("GET", "/small").response().body == generated(1)


def test_a_client_that_leaves_in_the_middle_leaves_no_pipe(fast):
    for _ in range(5):
        with fast.wire() as wire:
            wire.request("GET", "/large")
            wire.more()
            wire.rst()
    assert fast.client.request("GET", "/small").response().body == generated(1)
    wait_until("pipes to be closed when nobody needs them", lambda: pipes(fast) == fast.pipes_before, 20)
    assert fast.client.request("GET", "/large").response().body == generated(SIZE)


def test_a_cut_answer_is_cut(fast):
    fast.u1.rules(f"size={SIZE} cut={SIZE // 2 + 7} path=/large", "size=1 path=/small")
    with pytest.raises(Ended) as ended:
        fast.client.request("GET", "/large").response()
    assert len(ended.value.partial) <= SIZE // 2 + 7
    line = fast.wait_access(1, error="truncated")[0]
    assert line["bytes_out"] > len(ended.value.partial) and line["upstream_status"] == "200", line


def test_a_head_request_and_a_small_one_between(fast):
    for _ in range(3):
        assert fast.client.request("HEAD", "/large").response("HEAD").header("content-length") == str(SIZE)
        assert fast.client.request("GET", "/large").response().body == generated(SIZE)
