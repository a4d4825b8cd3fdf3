"""Steady traffic from many threads while a test does things to the peers, and an account of it afterwards: what was
acknowledged is there byte for byte, what failed is there whole or not at all."""
import concurrent.futures
import random
import threading
import time

from .bodies import KIB

SIZES = (200, 3 * KIB, 40 * KIB, 200 * KIB)


class Event:
    def __init__(self, op, key, answer, began):
        self.op, self.key, self.answer, self.began = op, key, answer, began

    def __repr__(self):
        return f"{self.op} {self.key} at {self.began:.2f} s: {self.answer!r}"


class Storm:
    def __init__(self, clients, bodies, prefix, ops=("put", "get", "head", "list", "stream"), sizes=SIZES, threads=3):
        self.prefix, self.ops = prefix, ops
        self.bodies = [bodies.new(size) for size in sizes for _ in range(3)]
        self.stop = threading.Event()
        self.lock, self.failures, self.wrong, self.done = threading.Lock(), [], [], 0
        self.stored, self.undecided = {}, {}  # key: Body
        self.clients, self.errors = list(clients), []
        self.threads = [threading.Thread(target=self._work, args=(client, f"{prefix}{i}-{n}/"))
                        for i, client in enumerate(self.clients) for n in range(threads)]

    def __enter__(self):
        for client in self.clients:  # a client that is still starting is no traffic
            answer = client.do("put", key=f"{self.prefix}warm/{client.name}", file=self.bodies[0].path)
            assert answer, repr(answer)
        self.began = time.monotonic()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert not self.errors, self.errors[0]

    def _work(self, client, prefix):
        dice, mine, number = random.Random(prefix), [], 0
        try:
            while not self.stop.is_set():
                op = dice.choice([o for o in self.ops if o in client.can]) if mine else "put"
                number += 1
                self._one(client, op, prefix, number, dice, mine)
        except BaseException as e:  # shown by the main thread
            self.errors.append(e)

    def _one(self, client, op, prefix, number, dice, mine):
        began = time.monotonic() - self.began
        if op in ("put", "stream"):
            key, body = f"{prefix}{number:05}", dice.choice(self.bodies)
            answer = client.do(op, key=key, file=body.path)
            with self.lock:
                (self.stored if answer else self.undecided)[key] = body
            if answer:
                mine.append(key)
        else:
            key = dice.choice(mine)
            body = self.stored[key]
            answer = client.do(op, prefix=key, page=10) if op == "list" else client.do(op, key=key)
            if answer and not self._right(op, key, body, answer):
                self.wrong.append(Event(op, key, answer, began))
        with self.lock:
            self.done += 1
            if not answer:
                self.failures.append(Event(op, key, answer, began))

    @staticmethod
    def _right(op, key, body, answer):
        if op == "get":
            return (answer["size"], answer["sha256"]) == (body.size, body.sha256)
        return answer["keys"] == [key] if op == "list" else answer["size"] == body.size

    def run_for(self, seconds):
        """Sleeps, ending early when a worker failed in the test's own code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.errors:
            time.sleep(0.02)

    # -- the account ------------------------------------------------------------------------------------------
    def audit(self):
        """Reads everything back. Returns how many undecided writes are in the store."""
        assert not self.wrong, f"WRONG BYTES: {self.wrong}"
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit(self._look, self.clients[i % len(self.clients)], key, body)
                    for i, (key, body) in enumerate([*self.stored.items(), *self.undecided.items()])]
            return sum(job.result() for job in jobs)

    def _look(self, client, key, body):
        answer = client.do("get", key=key)
        if key in self.undecided and answer.status == 404:
            return 0
        assert answer, f"{key} is lost: {answer!r}"
        assert self._right("get", key, body, answer), f"WRONG BYTES in {key}: {answer!r}"
        return int(key in self.undecided)
