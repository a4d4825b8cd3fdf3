"""Ways of sending many requests: in parallel, at a rate, until one meets a certain peer."""
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from .config import address_of
from .sidecar import chain
from .wire import Ended, Wire


def parallel(count, do):
    """do(i) for i in range(count), all at the same time (each behind a common barrier); results in order."""
    barrier = threading.Barrier(count)

    def one(i):
        barrier.wait()
        return do(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def paced(rate, seconds, do, workers=8):
    """Starts do(i) at a steady rate whatever the earlier ones do; results in order of start."""
    start = time.monotonic()
    futures = []
    with ThreadPoolExecutor(workers) as pool:
        for i in range(int(rate * seconds)):
            pause = start + i / rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            futures.append(pool.submit(do, i))
    return [f.result() for f in futures]


def meet(sidecar, where, method="GET", target="/fail/x", tries=6, **keys):
    """Sends requests until one has an attempt at the peer `where` (round robin starts at random); that one's
    (response, access log line)."""
    for _ in range(tries):
        response, line = sidecar.traced(method, target, **keys)
        if address_of(where) in chain(line):
            return response, line
    raise AssertionError(f"{tries} requests and none was tried at {address_of(where)}; the last: {line}")


def sleep_until(moment):
    """Sleeps until the monotonic time `moment`."""
    pause = moment - time.monotonic()
    if pause > 0:
        time.sleep(pause)


class Caller:
    """Keep-alive requests from one thread each, as an SDK makes them; a connection that the sidecar closed between
    requests is replaced, as every HTTP client does."""

    def __init__(self, address):
        self.address, self._local = address, threading.local()

    def call(self, method, target, headers=(), body=None):
        for attempt in (1, 2):
            wire = getattr(self._local, "wire", None)
            fresh = wire is None
            if fresh:
                wire = self._local.wire = Wire(self.address)
            try:
                response = wire.request(method, target, headers, body).response(method)
            except (Ended, OSError) as e:
                self._local.wire = None
                if fresh or attempt == 2 or getattr(e, "partial", b""):
                    raise
                continue
            if (response.header("Connection") or "").lower() == "close":
                wire.close()
                self._local.wire = None
            return response
