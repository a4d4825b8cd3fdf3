"""Sidecars of pods, scripted: pods have addresses of their own and one port, 8422. Each is an address of the loopback
network here, and one thread takes the pushes of all.

    all = PodSidecars()
    ip = all.add()                     an address that takes pushes as a sidecar would
    all.pushes(ip)                     a list of Push (bed/push.py)
    all.wait(ip, lambda push: …)       the first push for which it is true, of those that came and those to come
    all.answer[ip] = (503, b"")        instead of taking it; a callable gets the push
    all.remove(ip)                     nobody listens there any more
"""
import contextlib
import json
import random
import selectors
import socket
import threading
import time

from .process import wait_until
from .push import PATH, Push

PORT = 8422


class Wire:
    def __init__(self, ip):
        self.ip, self.data = ip, b""


class PodSidecars:
    def __init__(self):
        self.answer, self._pushes, self._listeners, self._closing = {}, {}, {}, False
        self._next, self._net = 0, random.randrange(16, 250)
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self):
        while True:
            self._next += 1
            ip = f"127.{self._net}.{self._next // 250}.{self._next % 250 + 1}"
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((ip, PORT))
            except OSError:  # another run has this one
                listener.close()
                self._net = random.randrange(16, 250)
                continue
            return self._open(ip, listener)

    def again(self, ip):
        """After remove: it listens anew, what it was pushed stays in the list."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ip, PORT))
        return self._open(ip, listener)

    def _open(self, ip, listener):
        listener.listen(16)
        listener.setblocking(False)
        self._pushes.setdefault(ip, [])
        with self._lock:
            self._listeners[ip] = listener
            self._selector.register(listener, selectors.EVENT_READ, ip)
        return ip

    def remove(self, ip):
        with self._lock:
            listener = self._listeners.pop(ip)
            self._selector.unregister(listener)
            listener.close()
            for key in list(self._selector.get_map().values()):
                if isinstance(key.data, Wire) and key.data.ip == ip:
                    self._drop(key.fileobj)

    def _drop(self, conn):
        self._selector.unregister(conn)
        conn.close()

    def _run(self):
        while not self._closing:
            for key, _ in self._selector.select(0.05):
                with self._lock, contextlib.suppress(KeyError, ValueError):  # removed meanwhile
                    self._event(key)

    def _event(self, key):
        if isinstance(key.data, str):
            with contextlib.suppress(BlockingIOError):
                conn, _ = key.fileobj.accept()
                conn.setblocking(True)
                self._selector.register(conn, selectors.EVENT_READ, Wire(key.data))
            return
        conn, wire = key.fileobj, key.data
        try:
            more = conn.recv(262144)
            wire.data += more
            while more and self._take(conn, wire):
                pass
        except OSError:
            more = b""
        if not more:
            self._drop(conn)

    def _take(self, conn, wire):
        head, end, rest = wire.data.partition(b"\r\n\r\n")
        if not end:
            return False
        lines = head.decode("latin-1").split("\r\n")
        fields = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
        size = int(fields["content-length"])
        if len(rest) < size:
            return False
        assert lines[0] == f"PUT {PATH} HTTP/1.1", lines[0]
        wire.data = rest[size:]
        push = Push(time.monotonic(), fields, rest[:size])
        self._pushes[wire.ip].append(push)
        answer = self.answer.get(wire.ip)
        status, body = answer(push) if callable(answer) else answer or (200, self.taken(push))
        conn.sendall(b"HTTP/1.1 %d Whatever\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n%s" %
                     (status, len(body), body))
        return True

    @staticmethod
    def taken(push, observations=()):
        return json.dumps({"epoch": push.epoch, "seq": push.seq, "hash": "0" * 16,
                           "observations": list(observations)}).encode()

    def pushes(self, ip):
        return list(self._pushes[ip])

    def last(self, ip):
        return self._pushes[ip][-1] if self._pushes[ip] else None

    def wait(self, ip, good=lambda push: True, timeout=10, after=0):
        """after: pushes that do not count, from the first one on."""
        return wait_until(lambda: f"a push to {ip}; the last one of {len(self._pushes[ip])} was "
                          f"{self.last(ip).body[:2000] if self.last(ip) else None}",
                          lambda: next((p for p in self._pushes[ip][after:] if good(p)), None), timeout)

    def close(self):
        self._closing = True
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()
