"""One thread that plays both sides of a sidecar: clients that send raw bytes and an upstream that follows a script.
Because everything happens in one loop, it is known which bytes belong to which run, and when nothing is on its way."""
import errno
import fcntl
import os
import select
import socket
import struct
import tempfile
import time

import pytest

import conftest
import strict_http
from bed.process import SLACK
from bed.sidecar import Sidecar

UNSENT = 0x5411  # SIOCOUTQ; on unix sockets: what the other side has not read yet
BIG = 1 << 18


class End:
    """A connection: what came, how it ended, what still has to go out."""

    def __init__(self, sock):
        self.sock, self.data, self.ended, self.out, self.closed = sock, b"", None, b"", False
        self.paused = False  # a reader that does not read
        self.refused = False  # the other side did not take what we sent
        sock.setblocking(False)

    def fileno(self):
        return self.sock.fileno()

    def push(self, data):
        self.out += data
        self.flush()

    def flush(self):
        try:
            while self.out and not self.closed:
                n = self.sock.send(self.out)
                self.out = self.out[n:]
        except BlockingIOError:
            pass
        except OSError:
            self.out, self.refused = b"", True

    def read(self):
        try:
            data = self.sock.recv(BIG)
        except BlockingIOError:
            return
        except OSError as e:
            self.ended = "rst" if e.errno in (errno.ECONNRESET, errno.EPIPE) else str(e)
            return
        if data:
            self.data += data
        else:
            self.ended = "fin"

    def fin(self):
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self, reset=False):
        if not self.closed:
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.closed = True
            self.sock.close()


class Upstream(End):
    """A connection that the sidecar made. `requests`: the whole ones that came over it."""

    def __init__(self, stage, sock):
        super().__init__(sock)
        self.stage, self.requests, self.at, self.told_head = stage, [], 0, False
        self.bad = None     # why what came is not canonical HTTP
        self.playing = False

    @property
    def partial(self):
        """Bytes of a request that is not complete."""
        return self.data[self.at:]

    def read(self):
        super().read()
        while not self.bad and self.at < len(self.data) and not self.closed:
            try:
                message = strict_http.request(self.data, self.at)
            except strict_http.Bad as e:
                self.bad = e
                return
            if message is None:
                return
            if not self.told_head:
                self.told_head = True
                self.stage.script.on_head(self, message)
            if not message.whole or self.closed:
                return
            self.at, self.told_head = message.end, False
            self.requests.append(message)
            self.stage.seen.append(message)
            self.stage.script.on_request(self, message)

    def answer(self, raw, eof=False, piece=None):
        """Sends raw whole, or in pieces with a pause that lets the sidecar read each."""
        self.playing = True
        size = piece or len(raw) or 1
        for i in range(0, len(raw), size):
            self.push(raw[i:i + size])
            if piece:
                self.stage.pump(0.0003)
        if eof:
            self.flush()
            self.fin() if eof == "fin" or eof is True else self.close(reset=True)


class Script:
    """The default upstream: a 100 to who asks for it, then 200 with the number of the request and its target."""

    def on_head(self, conn, message):
        if message.all("expect") and not message.whole:
            conn.push(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_request(self, conn, message):
        conn.push(echo(message, len(conn.stage.seen)))


def echo(message, number):
    body = f"{number} {message.method} {message.target[:200]}".encode()
    head = f"HTTP/1.1 200 OK\r\nX-Number: {number}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return head if message.method == "HEAD" else head + body


class Stage:
    def __init__(self, port, data, unix_path):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.listener.setblocking(False)
        self.address = f"127.0.0.1:{port}"
        self.data, self.unix_path = data, unix_path
        self.script, self.upstreams, self.clients, self.seen, self.accepted = Script(), [], [], [], 0

    # -- the loop -----------------------------------------------------------------------------------------------
    def pump(self, timeout=0.0):
        """One look at everything; True when something happened."""
        ends = [e for e in self.upstreams + self.clients if not e.closed and e.ended is None]
        r, w = self._ready(ends, timeout)
        for e in w:
            e.flush()
        for e in r:
            if e is self.listener:
                self._accept()
            elif not e.closed:
                e.read()
        return bool(r or w)

    def _ready(self, ends, timeout):
        """Who can be read and who written. poll, not select: descriptors may be above 1023."""
        poll, by_fd = select.poll(), {self.listener.fileno(): self.listener}
        poll.register(self.listener, select.POLLIN)
        for e in ends:
            events = (0 if e.paused else select.POLLIN) | (select.POLLOUT if e.out else 0)
            if events:
                by_fd[e.fileno()] = e
                poll.register(e, events)
        found = poll.poll(timeout * 1000)
        gone = select.POLLHUP | select.POLLERR
        read = [by_fd[fd] for fd, got in found if got & (select.POLLIN | gone)]
        write = [by_fd[fd] for fd, got in found if got & select.POLLOUT]
        return [e for e in read if e is self.listener or not e.paused], write

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except BlockingIOError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            self.upstreams.append(Upstream(self, sock))

    def until(self, condition, timeout=3.0):
        end = time.monotonic() + timeout * SLACK
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.pump(min(left, 0.05))
        return True

    def settle(self, quiet=0.002):
        """Until nothing happens any more."""
        while self.pump(quiet):
            pass

    def wait(self, seconds):
        self.until(lambda: False, seconds / SLACK)

    # -- clients ------------------------------------------------------------------------------------------------
    def client(self, unix=False, rcvbuf=None):
        sock = socket.socket(socket.AF_UNIX if unix else socket.AF_INET, socket.SOCK_STREAM)
        if rcvbuf:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if not unix:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect(self.unix_path if unix else self.data)
        client = End(sock)
        self.clients.append(client)
        return client

    def send_whole(self, client, raw):
        client.push(raw)

    def send_pieces(self, client, pieces):
        """Each piece once the sidecar has read the one before (unix sockets know), or after a moment when it does not
        read now."""
        for piece in pieces:
            client.push(piece)
            end = time.monotonic() + 0.05
            self.pump(0)
            while client.ended is None and (client.out or self._unread(client)) and time.monotonic() < end:
                self.pump(0)
            if client.refused or client.ended:
                return

    @staticmethod
    def _unread(client):
        return struct.unpack("i", fcntl.ioctl(client.sock, UNSENT, b"\0\0\0\0"))[0] > 0

    # -- evidence -----------------------------------------------------------------------------------------------
    def responses(self, client, methods):
        """Final responses that are whole, interim ones, and the one that is not whole (or None). `methods`: of the
        requests in order; more responses than that are read as answers to GET."""
        final, interim, at = [], [], 0
        while at < len(client.data):
            method = methods[len(final)] if len(final) < len(methods) else "GET"
            message = strict_http.response(client.data, at, method, client.ended)
            if message is None or not message.whole:
                return final, interim, message if message else client.data[at:]
            (interim if message.status < 200 else final).append(message)
            at = message.end
        return final, interim, None

    def open_upstreams(self):
        return [u for u in self.upstreams if u.ended is None and not u.closed]

    def curtain(self):
        """The end of a run: clients leave; forget what happened. Upstream connections that the sidecar keeps stay."""
        for c in self.clients:
            c.close()
        self.clients = []
        self.settle()
        for u in self.upstreams:
            if u.ended is not None:
                u.close()
        self.upstreams = [u for u in self.upstreams if not u.closed]
        self.script, self.seen, self.accepted = Script(), [], 0

    def close(self):
        for e in self.clients + self.upstreams:
            e.close()
        self.listener.close()
        if os.path.exists(self.unix_path):
            os.unlink(self.unix_path)


def staged(make, config=None, **keys):
    """A fixture: a module-wide sidecar whose only peer is a Stage. make(address, **keys) is its configuration."""
    @pytest.fixture(scope="module")
    def made(yard, clean_exits, request):
        with tempfile.TemporaryDirectory(prefix="fl-") as folder:
            path, port, data = os.path.join(folder, "data.sock"), yard.ports.take(), yard.ports.take()
            whole = {**make(f"127.0.0.1:{port}", **keys), "threads": 1, "access_log": "off", **(config or {}),
                     "listen": {"data": [f"127.0.0.1:{data}", f"unix:{path}"]}}
            stage = Stage(port, ("127.0.0.1", data), path)
            sidecar = Sidecar(conftest.binary("fairlead-sidecar"), whole, folder, yard.ports)
            sidecar.test, sidecar.expected_exit = request.node.nodeid, 0
            stage.sidecar = sidecar.wait_started()
            yield stage
            stage.close()
            sidecar.terminate()
            yard.leaving.append(sidecar)
            sidecar.wait(10)
    return made
