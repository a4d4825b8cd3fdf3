"""The key that signs pushes is replaced while everybody runs: nobody is lost on the way, and the old key ends."""
import os
import signal

from bed import push
from bed.process import wait_until
from test_control_path import (ID, addresses, again, controller_config, served_by,  # noqa: F401
                               sidecar_config, wait_filled, wait_members)


def answer(sidecar, key):
    """How the sidecar answers a push of this key with a pair that is not new: 409 if it knows the key, else 401."""
    body = push.state(1, 1, {"pool": push.members("127.0.0.9:1")})
    return push.put(("127.0.0.1", sidecar.status_port), push.signed(key, ID, body), body).status


def replace_key(controller, config, key):
    listen = {"admin": f"127.0.0.1:{controller.admin_port}", "status": f"127.0.0.1:{controller.status_port}"}
    controller.write_config({**config, "listen": listen, "push": {**config["push"], "signing_key_file": key.private}})
    controller.signal(signal.SIGHUP)


def test_a_new_key_reaches_the_sidecars_and_the_old_one_ends(sidecar, controller, again, origins, key,  # noqa: F811
                                                             file, folder):
    a, b = origins(2)
    file.set(a)
    s = sidecar(sidecar_config(key, state_file=os.path.join(folder, "state")), wait=False)
    config = controller_config(key, file, s)
    c = controller(config)
    s.wait_started()
    wait_filled(s)
    failed = len(c.events("push failed"))  # before the sidecar listened
    fresh = push.Key(folder, "fresh")
    assert (answer(s, key), answer(s, fresh)) == (409, 401)

    replace_key(c, config, fresh)
    c.wait_event("the signing key was replaced, the one before is withdrawn", timeout=10, keyid=fresh.id)
    wait_until("the old key to end", lambda: (answer(s, key), answer(s, fresh)) == (401, 409), 10)
    file.set(b)
    wait_members(s, b, timeout=5)
    assert served_by(s) == {"b"}
    assert len(c.events("push failed")) == failed, "nobody was lost on the way"

    s.kill()
    s = again(s)  # its own file names the old key; what was pushed lies in the state file
    assert (answer(s, key), answer(s, fresh)) == (401, 409)
    file.set(a, b)
    wait_members(s, a, b, timeout=10)


def test_a_sidecar_that_was_away_is_taught_when_it_returns(sidecar, controller, origins, key, file, folder):
    a, b = origins(2)
    file.set(a)
    s, away = sidecar(sidecar_config(key), wait=False), sidecar(sidecar_config(key), wait=False)
    config = controller_config(key, file, s, away)
    config["push"]["timeout"] = "500ms"
    c = controller(config)
    for one in (s, away):
        one.wait_started()
        wait_filled(one)
    away.freeze()
    file.set(b)
    c.wait_event("push failed", timeout=10)
    fresh = push.Key(folder, "fresh")
    replace_key(c, config, fresh)
    c.wait_event("the signing key was replaced, the one before is withdrawn", timeout=10)
    wait_until("the old key to end", lambda: answer(s, key) == 401, 10)
    away.thaw()
    wait_members(away, b, timeout=40)  # the back-off is at its end by then
    wait_until("the old key to end there, too", lambda: (answer(away, key), answer(away, fresh)) == (401, 409), 10)


def test_a_sidecar_that_forgot_the_new_key_is_filled_again(sidecar, controller, again, origin, key,  # noqa: F811
                                                          file, folder):
    a = origin("a")
    file.set(a)
    s = sidecar(sidecar_config(key), wait=False)  # without a state file
    config = controller_config(key, file, s, interval="1s")
    c = controller(config)
    s.wait_started()
    wait_filled(s)
    fresh = push.Key(folder, "fresh")
    replace_key(c, config, fresh)
    wait_until("the old key to end", lambda: answer(s, key) == 401, 15)
    s.kill()
    s = again(s, wait=False)
    wait_filled(s, 20)
    assert addresses(s) == [a.address]
    wait_until("the new key", lambda: answer(s, fresh) == 409, 10)
