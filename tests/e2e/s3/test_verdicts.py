"""Rows of the acceptance table against real stores: what the s3 probe says of good, wrong and scoped keys, a clock that is
late, stores that are killed, hung, or dead behind a gateway that lives; and what applications see of that."""
import os
import subprocess

import pytest

from bed.process import wait_until
from bed.sidecar import chain
from bed.wire import Wire
from ground import keys, sigv4
from ground.front import ROUTE, config

B = f"/{keys.BUCKET}"
KEY = (keys.ACCESS, keys.SECRET)


@pytest.fixture
def probed(sidecar, tmp_path):
    """probed(store, key, bucket=…, …) starts a sidecar that probes the store with this key."""

    def start(store, key=KEY, bucket=keys.BUCKET, probe=None, boot="warn", **keywords):
        settings = {"type": "s3", "interval": "1s", "timeout": "1s", "bucket": bucket}
        if key:
            for name, text in zip(("access_key_file", "secret_key_file"), key):
                (tmp_path / name).write_text(text + "\n")
                settings[name] = str(tmp_path / name)
        done = config(store, probe={**settings, **(probe or {})}, fail_timeout="1s")
        return sidecar({**done, "boot_probe": boot}, **keywords)

    return start


def verdict(front):
    return front.backend("store")["verdict"]


def becomes(front, status, timeout=15):
    wait_until(lambda: f"{status}, is {verdict(front)}", lambda: verdict(front)["status"] == status, timeout, 0.05)
    return verdict(front)


def get(front, target=f"{B}/obj"):
    return sigv4.call(front.data, "GET", target)


@pytest.fixture
def loaded(store):
    """The store, with an object in it."""
    assert sigv4.call(store.address(0), "PUT", f"{B}/obj", b"hello").status == 200
    return store


def test_good_keys(loaded, probed):
    front = probed(loaded)
    v = becomes(front, "healthy")
    assert (v["code"], v["cause"], v["note"]) == ("", "", "")
    assert get(front).body == b"hello" and front.admin("/_/ready")["status"] == "ready"


REJECTED = {"wrong secret": ((keys.ACCESS, "x" * 40), "SignatureDoesNotMatch"),
            "unknown key": (("AKIDNOBODY000000000A", keys.SECRET), "InvalidAccessKeyId")}


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_keys(name, loaded, probed):
    key, code = REJECTED[name]
    front = probed(loaded, key)
    v = becomes(front, "auth-rejected")
    assert "403" in v["cause"] and code in v["cause"], v
    assert keys.SECRET not in str(v) and key[0] not in v["cause"], "the key id is masked"
    answer = get(front)
    assert answer.status == 503 and answer.header("X-Fairlead-Error") == "backend_unavailable"
    assert v["cause"] in answer.text and chain(front.wait_access(1)[-1]) == []


def test_rejected_keys_refuse_the_boot(loaded, probed):
    front = probed(loaded, REJECTED["wrong secret"][0], boot="enforce", wait=False, expected_exit=1)
    assert front.wait(20) == 1 and "SignatureDoesNotMatch" in front.err.text()


def test_no_keys_prove_reachability_only(loaded, probed):
    front = probed(loaded, key=None)
    assert "credentials not checked" in becomes(front, "healthy")["note"]
    assert get(front).body == b"hello"


def test_a_late_clock_is_not_bad_keys(loaded, probed, tmp_path):
    library = tmp_path / "late_clock.so"
    source = os.path.join(os.path.dirname(sigv4.__file__), "late_clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), source], check=True)
    front = probed(loaded, env={"LD_PRELOAD": str(library), "LATE_CLOCK_S": str(20 * 60)})
    v = becomes(front, "erroring")
    assert v["code"] == "clock_skew" and "clock" in v["cause"] and "credential" not in v["cause"], v
    seconds = [int(word) for word in v["note"].replace("=", " ").split() if word.lstrip("-").isdigit()]
    assert any(1190 <= abs(s) <= 1230 for s in seconds), f"by how much: {v}"
    assert get(front).body == b"hello", "applications with a good clock are not blocked"


def test_an_absent_bucket(loaded, probed):
    front = probed(loaded, bucket="nosuchbucket")
    assert "nosuchbucket" in becomes(front, "healthy")["note"]
    answer = get(front, "/nosuchbucket/x")
    assert (answer.status, sigv4.code(answer)) == (404, "NoSuchBucket") and answer.header("X-Fairlead-Error") is None


def test_a_key_for_one_bucket(fresh_store, probed):
    """SeaweedFS: the key may list one bucket and nothing else."""
    store = fresh_store("seaweedfs", peers=1)
    store.make_bucket("other")
    scoped = (keys.SCOPED_ACCESS, keys.SCOPED_SECRET)
    assert becomes(probed(store, scoped), "healthy")["note"] == ""
    denied = becomes(probed(store, scoped, bucket="other"), "healthy")
    assert denied["code"] == "", "a scoped key is no reason to block"


def test_a_key_that_may_not_ask_for_the_bucket(fresh_store, probed):
    """versitygw: s3:GetObject is all that the key may do; HeadBucket is refused, objects are served."""
    store = fresh_store("versitygw", peers=1)
    user = ("AKIDNARROW0000000000", "secret-of-a-narrow-key-00000000000000000")
    assert sigv4.call(store.address(0), "PUT", f"{B}/obj", b"hello").status == 200
    store.add_user(*user)
    policy = ('{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["%s"]},'
              '"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::%s/*"]}]}' % (user[0], keys.BUCKET)).encode()
    assert sigv4.call(store.address(0), "PUT", f"{B}?policy", policy).status in (200, 204)
    assert sigv4.call(store.address(0), "HEAD", B, signer=sigv4.Signer(*user)).status == 403
    front = probed(store, user)
    becomes(front, "healthy")
    assert sigv4.call(front.data, "GET", f"{B}/obj", signer=sigv4.Signer(*user)).body == b"hello"


def test_killed_and_started(loaded, probed):
    front = probed(loaded)
    becomes(front, "healthy")
    for n in range(3):
        loaded.kill(n)
    v = becomes(front, "unreachable")
    assert "refused" in v["cause"] and v["peers_down"] == "3/3"
    answer = get(front)
    assert answer.status == 503 and v["cause"] in answer.text and answer.header("X-Fairlead-Error") == "backend_unavailable"
    loaded.start(1)
    becomes(front, "healthy", timeout=10)
    assert get(front).body == b"hello"
    front.wait_event("backend recovered")


def test_one_hung_peer_gets_no_writes(loaded, probed):
    """The probe finds it with no request at all; from then on not even a write meets it."""
    front = probed(loaded)
    becomes(front, "healthy")
    loaded.hang(2)
    address = loaded.addresses()[2]
    wait_until("the hung peer to be unreachable",
               lambda: front.peer("store", address)["verdict"]["status"] == "unreachable", 15, 0.05)
    v = verdict(front)
    assert v["status"] == "healthy" and v["peers_down"] == "1/3", v
    assert "does not answer" in front.peer("store", address)["verdict"]["cause"]
    for i in range(12):
        assert sigv4.call(front.data, "PUT", f"{B}/while-hung-{i}", b"x").status == 200
    assert address not in {a for line in front.access() for a in chain(line)}
    loaded.cont(2)
    wait_until("it to be healthy again", lambda: front.peer("store", address)["verdict"]["status"] == "healthy", 15, 0.05)


def test_all_hung(loaded, probed):
    front = probed(loaded)
    becomes(front, "healthy")
    for n in range(3):
        loaded.hang(n)
    v = becomes(front, "unreachable", timeout=20)
    assert "accepts connections but does not answer" in v["cause"], v
    answer = get(front)
    line = front.wait_access(1)[-1]
    assert answer.status == 503 and v["cause"] in answer.text and line["request_time"] < 0.1 and chain(line) == []
    for n in range(3):
        loaded.cont(n)
    becomes(front, "healthy")
    assert get(front).body == b"hello"


def test_a_store_that_is_dead_behind_living_gateways(fresh_store, probed):
    """The gateways answer 500 and say that they are well: erroring, and nothing is blocked or taken for bad keys."""
    store = fresh_store("seaweedfs", peers=2)
    assert sigv4.call(store.address(0), "PUT", f"{B}/obj", b"hello").status == 200
    front = probed(store)
    becomes(front, "healthy")
    store.server.kill()
    v = becomes(front, "erroring", timeout=30)
    assert "500" in v["cause"], v
    answer = get(front)
    line = front.wait_access(1)[-1]
    assert answer.status >= 500 and answer.header("X-Fairlead-Error") is None, "the gateway's own words are relayed"
    assert len(chain(line)) == 1, "a 500 is not retried by default"


def test_a_store_that_hangs_behind_living_gateways(fresh_store, probed):
    """A wrong key is still refused at once and the ports are open; only a probe that asks the store itself sees it."""
    store = fresh_store("seaweedfs", peers=2)
    front = probed(store)
    becomes(front, "healthy")
    store.server.freeze()
    assert sigv4.call(store.address(0), "GET", f"{B}/x", signer=sigv4.Signer(secret="x" * 40)).status == 403
    with Wire(store.address(0)) as wire:
        assert wire.request("GET", "/healthz").response().status == 200, "green, and wrong"
    assert "does not answer" in becomes(front, "unreachable", timeout=30)["cause"]
    store.server.thaw()
    becomes(front, "healthy", timeout=30)


def test_real_throttling_is_relayed_and_blames_nobody(fresh_store, sidecar):
    """versitygw's SlowDown is text/plain without Retry-After: it reaches the client as it is, after one attempt."""
    store = fresh_store("versitygw", peers=1)
    busy = store.add_throttled()
    one = config(store)
    one["backends"]["store"]["peers"] = one["backends"]["store"]["peers"][-1:] + [
        {**one["backends"]["store"]["peers"][0], "backup": True}]
    one["routes"]["*"].update({**ROUTE, "next_upstream": ["error", "timeout", "http_503"]})
    front = sidecar(one)
    half = [Wire(store.address(busy)) for _ in range(3)]
    for i, wire in enumerate(half):
        pairs = sigv4.Signer().headers("PUT", f"{B}/half{i}", [("Host", "h")], sigv4.UNSIGNED)
        wire.send(sigv4.raw_head("PUT", f"{B}/half{i}", [*pairs, ("Content-Length", "1000000")]) + b"x" * 100000)

    def throttled():
        answer = get(front)
        return answer if answer.status == 503 else None

    answer = wait_until("SlowDown", throttled, 10, 0.02)
    line = front.wait_access(1, status=503)[0]
    assert sigv4.code(answer) == "SlowDown" and answer.header("X-Fairlead-Error") is None and line["tries"] == 1
    assert front.backend("store")["peers"][0]["state"] == "live", "it throttles: no reason to leave it"
    for wire in half:
        wire.close()
