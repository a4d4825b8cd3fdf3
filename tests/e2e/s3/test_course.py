"""Every client passes its whole list through the sidecar, on every store, in calm and while peers die."""
import pytest

from bed.process import wait_until
from ground.clients import EVERY_RUN
from ground.course import Course
from ground.front import config, failed, peers_used, retried

CLIENTS = list(EVERY_RUN.values())


def name(kind):
    return kind.name


@pytest.mark.parametrize("kind", CLIENTS, ids=name)
def test_in_calm(kind, store, sidecar, client, bodies):
    front = sidecar(config(store))
    Course(client(kind, front, store), bodies, f"calm-{kind.name}/").run()
    assert not failed(front) and not retried(front)
    assert set(peers_used(front)) == set(store.addresses()), "traffic did not reach all three peers"


class Mishaps:
    """What happens to the peers in the middle of the list: killed, started again, hung, continued. Reads of the client
    meet a hung peer first (a write that does may have to be answered 503: test_zombie.py) and are the trials of those
    that came back; not one of them may fail."""

    def __init__(self, store, front, read):
        self.store, self.front, self.read = store, front, read
        self.plan = {"large": [(store.kill, 0)], "read": [(self.start, 0), (self.hang, 1)],
                     "parts-middle": [(self.cont, 1), (store.kill, 2)], "copy": [(self.start, 2)],
                     "once": [(store.kill, 0)], "delete": [(self.start, 0)]}

    def __call__(self, place):
        for act, n in self.plan.get(place, ()):
            act(n)

    def read_until(self, n, usable):
        address = self.store.addresses()[n]

        def reached():
            answer = self.read()
            assert answer, f"a read failed while a peer was in trouble: {answer!r}"
            return (self.front.peer("store", address)["state"] == "live") == usable

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
    front = sidecar(config(store, fail_timeout="2s"))
    one = client(kind, front, store)
    course = Course(one, bodies, f"mishap-{kind.name}/")
    course.fault = Mishaps(store, front, lambda: one.do("head", key=f"mishap-{kind.name}/a.bin"))
    course.run()
    assert not failed(front)
    assert retried(front), "nothing was retried: the faults missed the traffic"
