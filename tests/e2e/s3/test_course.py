"""Every client passes its whole list through the sidecar, on every store, in calm and while peers die."""
import pytest

from bed.process import wait_until
from ground import keys, sigv4
from ground.clients import EVERY_RUN, LONG_RUN, is_long
from ground.course import Course
from ground.front import config, failed, peers_used, retried

CLIENTS = [*EVERY_RUN, *(LONG_RUN if is_long() else [])]


def name(kind):
    return kind.name


@pytest.mark.parametrize("kind", CLIENTS, ids=name)
def test_in_calm(kind, store, sidecar, client, bodies):
    front = sidecar(config(store))
    Course(client(kind, front, store), bodies, f"calm-{kind.name}/").run()
    assert not failed(front) and not retried(front)
    assert set(peers_used(front)) == set(store.addresses()), "traffic did not reach all three peers"


class Mishaps:
    """What happens to the peers in the middle of the list: killed, started again, hung, continued. Reads meet a hung peer
    first (a write that does may have to be answered 503: test_zombie.py) and are the trials of those that came back; not
    one of them may fail. The probe keeps a hung peer out for as long as it hangs: a client that needs seconds between two
    requests would else send it a write as the trial after its quarantine."""

    def __init__(self, store, front):
        self.store, self.front = store, front
        self.plan = {"large": [(store.kill, 0)], "read": [(self.start, 0), (self.hang, 1)],
                     "parts-middle": [(self.cont, 1), (store.kill, 2)], "copy": [(self.start, 2)],
                     "once": [(store.kill, 0)], "delete": [(self.start, 0)]}

    def __call__(self, place):
        for act, n in self.plan.get(place, ()):
            act(n)

    def read_until(self, n, usable):
        address = self.store.addresses()[n]

        def reached():
            answer = sigv4.call(self.front.data, "GET", f"/{keys.BUCKET}?list-type=2&max-keys=1")
            assert answer.status == 200, f"a read failed while a peer was in trouble: {answer!r}"
            peer = self.front.peer("store", address)
            return (peer["state"] == "live" and peer["verdict"]["status"] != "unreachable") == usable

        wait_until(lambda: f"usable = {usable}: {self.front.peer('store', address)}", reached, 20, 0.05)

    def hang(self, n):
        self.store.hang(n)
        self.read_until(n, usable=False)

    def cont(self, n):
        self.store.cont(n)
        self.read_until(n, usable=True)

    def start(self, n):
        self.store.start(n)
        self.read_until(n, usable=True)


@pytest.mark.parametrize("kind", CLIENTS, ids=name)
def test_while_peers_die(kind, store, sidecar, client, bodies):
    front = sidecar(config(store, fail_timeout="1s", probe={"type": "s3", "interval": "1s", "timeout": "1s"}))
    one = client(kind, front, store)
    course = Course(one, bodies, f"mishap-{kind.name}/")
    course.fault = Mishaps(store, front)
    course.run()
    assert not failed(front)
    assert retried(front), "nothing was retried: the faults missed the traffic"
