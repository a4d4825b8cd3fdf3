"""A write that a hung peer has in full may be carried out when it wakes (a "zombie"). With the default the sidecar never
repeats such a write: its client is told 503, so nothing that was acknowledged is ever overwritten by something older
that was acknowledged too. replay_after_send: always shows why that is the default.

What no proxy can do: a write answered 503 is undecided until its peer is dead or has woken. An application that goes on
to write something else before that may still lose it, through the write that it was told had failed."""
import pytest

from bed.config import peer, s3
from bed.process import wait_until
from bed.sidecar import chain
from ground import keys, sigv4
from ground.clients import Boto, Js
from ground.front import ROUTE

DEADLINE_S = 1.5


def front_of(store, sidecar, **route):
    """All traffic goes to the first peer while that is usable, so that each test knows who gets what."""
    first, *others = store.addresses()
    return sidecar(s3(peer(first), *[peer(o, backup=True) for o in others], same_store=True, fail_timeout="60s",
                      route={**ROUTE, "deadline": f"{DEADLINE_S * 1000:.0f}ms", "read_timeout": "1s", **route}))


def wake(store, key, was):
    """The first peer goes on, carries out what it has (if it does), and is seen to be idle again."""
    store.cont(0)
    wait_until("the woken peer to answer",
               lambda: sigv4.call(store.address(0), "HEAD", f"/{keys.BUCKET}/{key}", timeout=10).status in (200, 404), 20)
    try:
        wait_until("", lambda: direct(store, key) != was, 1)
    except AssertionError:
        pass  # nothing happened, which is an answer too


def direct(store, key):
    """What the store keeps, asked at a peer that was never in trouble."""
    return sigv4.call(store.address(1), "GET", f"/{keys.BUCKET}/{key}").body


def put_line(front, key):
    lines = [line for line in front.access() if line["method"] == "PUT" and f"/{key}" in line["uri"]]
    return lines[-1]


@pytest.mark.parametrize("kind", [Boto, Js], ids=lambda kind: kind.name)
def test_by_default_nothing_acknowledged_is_overwritten_by_older(kind, store, sidecar, client, bodies):
    front = front_of(store, sidecar)
    one = client(kind, front, store)
    first, undecided, last = (bodies.new(3000) for _ in range(3))
    key = f"zombie-default-{kind.name}"
    assert one.do("put", key=key, file=first.path)
    store.hang(0)
    answer = one.do("put", key=key, file=undecided.path)
    assert answer.status == 503, f"not acknowledged, since it may or may not happen: {answer!r}"
    line = front.wait_access(1, method="PUT", status=503)[0]
    assert len(chain(line)) == 1 and line["retry_reason"] == "class", f"it was repeated: {line}"
    assert DEADLINE_S * 0.9 <= line["request_time"] <= DEADLINE_S + 1.5, line
    assert one.do("get", key=key)["sha256"] == first.sha256, "the peers that are left serve what was acknowledged"
    wake(store, key, first.data())
    assert direct(store, key) in (first.data(), undecided.data())
    assert one.do("put", key=key, file=last.path)
    assert direct(store, key) == last.data()
    assert one.do("get", key=key)["sha256"] == last.sha256


def test_replay_always_loses_an_update(store, sidecar, client, bodies):
    """Two writes, one after the other, both acknowledged; the older one is what the store keeps. (With a deadline a write
    waits for its answer as long as that is, and then there is no time for another try: so it is off here.)"""
    front = front_of(store, sidecar, replay_after_send="always", deadline="off")
    one = client(Js, front, store)
    old, new = bodies.new(3000), bodies.new(3000)
    key = "zombie-always"
    store.hang(0)
    answer = one.do("put", key=key, file=old.path)
    line = front.wait_access(1, method="PUT")[0]
    assert answer and len(chain(line)) == 2, f"{answer!r} {line}"
    assert one.do("put", key=key, file=new.path)
    assert direct(store, key) == new.data()
    wake(store, key, new.data())
    assert direct(store, key) == old.data(), "the lost update did not happen: is the default still worth its price?"


def test_a_conditional_write_is_tried_once(store, sidecar, client, bodies):
    """A lock (If-None-Match: *) sent to a hung peer: one attempt and a 503 under the most daring policy, never a 412 of
    our making; and whoever was told 200 owns it."""
    front = front_of(store, sidecar, replay_after_send="always")
    one = client(Boto, front, store)
    key, mine, theirs = "zombie-lock", bodies.new(500), bodies.new(500)
    store.hang(0)
    answer = one.do("put", key=key, file=mine.path, once=True)
    line = front.wait_access(1, method="PUT")[0]
    assert answer.status == 503 and len(chain(line)) == 1, f"{answer!r} {line}"
    assert one.do("put", key=key, file=theirs.path, once=True), "the lock is free: nobody was told that he has it"
    wake(store, key, theirs.data())
    assert direct(store, key) == theirs.data(), "the store itself refuses the late one"
    assert one.do("put", key=key, file=mine.path, once=True).status == 412
