"""Steady traffic of an application through its sidecar, while a test makes trouble somewhere else: each request has a
target of its own, so that the ledgers of the stores tell what was done, and how often."""
import itertools
import threading
import time

from bed.wire import Ended, Wire

_runs = itertools.count(1)


class Traffic:
    """with Traffic(app) as traffic: …          GET and PUT in turn, `rate` a second, on one kept connection
       traffic.check(stores…)                   all answered by a store; no PUT was done twice, and none was lost"""

    def __init__(self, app, rate=50, bucket="releases"):
        self.app, self.rate = app, rate
        self.prefix = f"/{bucket}/steady{next(_runs)}-"
        self.sent, self.faults, self.slowest = 0, [], 0.0
        self._over = threading.Event()
        app.pod.descriptor()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._over.set()
        self._thread.join(60)

    def _run(self):
        with self.app.network():
            wire, due = None, time.monotonic()
            while not self._over.is_set():
                began = time.monotonic()
                wire = self._one(wire, "PUT" if self.sent % 2 else "GET")
                self.slowest = max(self.slowest, time.monotonic() - began)
                due = max(due + 1 / self.rate, time.monotonic() - 1)  # what was missed is not made up for
                time.sleep(max(0, due - time.monotonic()))
            if wire is not None:
                wire.close()

    def _one(self, wire, method):
        target, self.sent = f"{self.prefix}{self.sent}", self.sent + 1
        try:
            wire = wire or Wire(self.app.data, 20)
            response = wire.request(method, target, body=b"x" if method == "PUT" else None).response(method)
        except (OSError, Ended, AssertionError) as error:
            self.faults.append(f"{method} {target}: {error!r}")
            return None
        if response.status != 200 and not (method == "GET" and response.status == 404 and response.origin):
            self.faults.append(f"{method} {target}: {response!r}")
        return wire if (response.header("Connection") or "").lower() != "close" else None

    def check(self, *stores, least=50):
        """stores: pods whose origins are asked what they were asked; all that were there in the meantime."""
        end = time.monotonic() + 30
        while self.sent < least and not self.faults and time.monotonic() < end:
            time.sleep(0.05)
        self.stop()
        assert not self.faults, f"{len(self.faults)} of {self.sent} requests failed: {self.faults[:5]}"
        assert self.sent >= least, f"only {self.sent} requests were made"
        done = [e.target for store in stores for e in store.store.ledger("PUT", self.prefix)]
        twice = sorted({t for t in done if done.count(t) > 1}) if len(done) != len(set(done)) else []
        assert not twice, f"done twice: {twice[:5]}"
        missing = {f"{self.prefix}{i}" for i in range(1, self.sent, 2)} - set(done)
        assert not missing, f"{len(missing)} answered with 200, and no store has them: {sorted(missing)[:5]}"
