"""Whoever changes a push on its way, or makes one up, gets the right refusal, and the set in force serves on: on the
status port that real pods open to the cluster, after a real controller has pushed."""
import base64
import json

import pytest

from bed.push import PATH, Key, members, put, signed, state
from bed.wire import Wire
from cluster.shop import Shop, eventually, peers
from cluster.traffic import Traffic


@pytest.fixture
def shop(plane, tmp_path):
    made = Shop(plane, tmp_path)
    made.ns.service("minio", {"s3": 9000})
    return made


def flipped(text, at=None):
    """One bit of one character is another; of base64, in the middle, so that it stays base64."""
    at = len(text) // 2 if at is None else at
    return text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1:]


def flipped_base64(text, prefix):
    raw = bytearray(base64.b64decode(text[len(prefix):-1]))
    raw[len(raw) // 2] ^= 1
    return prefix + base64.b64encode(bytes(raw)).decode() + ":"


def altered(fields, name, change):
    return [(n, change(v) if n == name else v) for n, v in fields]


def test_one_bit_of_a_push_is_another(shop, tmp_path):
    store = shop.store("a")
    controller = shop.controller()
    app = shop.app(access_log="errors")
    eventually("members", lambda: peers(app) == [f"{store.address}:9000"])
    stranger = Key(str(tmp_path), "stranger")
    routes = {"releases": {"backend": "minio"}}

    def send(fields, body, path=PATH):
        with app.network():
            return put("127.0.0.1:8422", fields, body, path)

    def pair():
        body = state(1, 1, {})
        response = send(signed(shop.key, app.pod.uid, body), body)
        assert response.status == 409, repr(response)
        told = json.loads(response.body)
        return told["epoch"], told["seq"]

    controller.freeze()  # the pair stays as it is
    epoch, seq = before = pair()
    body = state(epoch, seq + 1000, {"minio": members("10.244.99.99:9000")}, routes)
    good = signed(shop.key, app.pod.uid, body)
    old = state(epoch, seq, {"minio": members("10.244.99.99:9000")}, routes)
    other_path = PATH[:-1] + chr(ord(PATH[-1]) ^ 1)
    cases = {
        "a bit of the body": (good, body[:40] + bytes([body[40] ^ 1]) + body[41:], PATH, 401),
        "a bit of the seq": (good, body.replace(f'"seq": {seq + 1000}'.encode(), f'"seq": {seq + 1001}'.encode()),
                             PATH, 401),
        "the body is cut": (good, body[:-1], PATH, 401),
        "a bit of the path": (good, body, other_path, 404),
        "signed for another path": (signed(shop.key, app.pod.uid, body, path=other_path), body, PATH, 401),
        "a query": (good, body, PATH + "?x=1", 400),
        "a bit of the uid": (altered(good, "Fairlead-Sidecar", flipped), body, PATH, 401),
        "another pod's": (signed(shop.key, flipped(app.pod.uid), body), body, PATH, 409),
        "a bit of the key's name": (altered(good, "Signature-Input", lambda v: v.replace(
            shop.key.id, flipped(shop.key.id))), body, PATH, 401),
        "another key": (signed(stranger, app.pod.uid, body), body, PATH, 401),
        "another key under our name": (signed(stranger, app.pod.uid, body, keyid=shop.key.id), body, PATH, 401),
        "a bit of the digest": (altered(good, "Content-Digest", lambda v: flipped_base64(v, "sha-256=:")), body, PATH,
                                401),
        "a bit of the signature": (altered(good, "Signature", lambda v: flipped_base64(v, "sig1=:")), body, PATH, 401),
        "a bit of its time": (altered(good, "Signature-Input", lambda v: flipped(v, v.index("created=") + 17)), body,
                              PATH, 401),
        "two days old": (signed(shop.key, app.pod.uid, body, created=1_000_000_000), body, PATH, 401),
        "no signature": ([f for f in good if f[0] != "Signature"], body, PATH, 401),
        "again": (signed(shop.key, app.pod.uid, old), old, PATH, 409),
    }
    with Traffic(app) as traffic:
        for what, (fields, sent, path, status) in cases.items():
            response = send(fields, sent, path)
            assert response.status == status, f"{what}: {response!r}"
            assert pair() == before and peers(app) == [f"{store.address}:9000"], what
        # What stops in the middle of its body changes nothing either.
        with app.network(), Wire("127.0.0.1:8422", 10) as wire:
            wire.request("PUT", PATH, good + [("Content-Length", str(len(body)))])
            wire.send(body[:len(body) // 2]).fin()
        assert pair() == before
        controller.thaw()
        eventually("the controller pushes on", lambda: pair() > before)
        traffic.check(store)
    # The same that was altered above is taken as it is: it was right but for the bit.
    controller.kill()
    epoch, seq = pair()
    body = state(epoch, seq + 1000, {"minio": members("10.244.99.99:9000")}, routes)
    assert send(signed(shop.key, app.pod.uid, body), body).status == 200
    assert pair() == (epoch, seq + 1000) and peers(app) == ["10.244.99.99:9000"]
