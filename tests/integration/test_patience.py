"""A large body that comes fast is waited for in pieces of 256 KiB (SO_RCVLOWAT, sidecar/policy/patience.h). On real sockets:
what trickles behind a fast beginning is not held back for that, an end is seen at once, and no byte is lost."""
import hashlib
import os
import random
import re
import socket
import ssl
import struct
import threading
import time
from contextlib import contextmanager

import pytest

from bed.config import http, peer
from bed.play import parallel
from bed.process import wait_until
from bed.tls import TlsServer, certs, pattern  # noqa: F401 (a fixture)
from bed.tracing import traced
from bed.wire import Ended, head

KIB, MIB = 1 << 10, 1 << 20
FAST = 2 * MIB  # proves source and reader fast
PIECE = 1000
LATE_S = 0.06  # of a piece: patience is 8 ms, two steps of a timer at most; the rest is for a busy machine
BUSY = 3       # so many may be late all the same
WAYS = ["clear", "TLSv1_2", "TLSv1_3"]
EDGES = [256 * KIB, 288 * KIB, 320 * KIB, 352 * KIB, 384 * KIB, 512 * KIB, FAST + 64 * KIB, FAST + 96 * KIB]


class Source(TlsServer):
    """An origin whose test writes the answers: play(source, sock, size) sends a body, and when it returns False the
    connection ends. GET /SIZE names the size. In clear or under TLS; the body of a request is left unread."""

    def __init__(self, way, ports, cert, play):
        secure = way.startswith("TLS")
        super().__init__(ports, cert, mode="tls" if secure else "plain",
                         max_version=ssl.TLSVersion[way] if secure else None)
        self.play, self.sent, self.secure = play, [], secure

    def _serve(self, sock, conn):
        while self._one(sock):
            pass

    def _one(self, sock):
        asked = b""
        while b"\r\n\r\n" not in asked:
            got = sock.recv(65536)
            if not got:
                return False
            asked += got
        size = int(asked.split(b" ", 2)[1][1:])
        sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        return self.play(self, sock, size) is not False

    def trickle(self, sock, body, pieces, pause_s):
        """Pieces of the body with pauses; self.sent: when, and how much had gone with it."""
        at = 0
        for _ in range(pieces):
            time.sleep(pause_s)
            sock.sendall(body[at:at + PIECE])
            at += PIECE
            self.sent.append((time.monotonic(), at))
        return at


@pytest.fixture(scope="module")
def cert(certs):  # noqa: F811
    return certs.issue("source", certs.ca("ca"))


@pytest.fixture
def source(ports, cert, sidecar):
    """source(way, play) starts one and a sidecar before it, which is returned."""
    made = []

    def start(way, play, read_timeout="10s", **root):
        one = Source(way, ports, cert, play)
        made.append(one)
        keys = {"tls": {"verify": False}} if one.secure else {}
        s = sidecar({"threads": 1, **root, **http(peer(one.address), route={"read_timeout": read_timeout}, **keys)})
        s.source = one
        return s

    yield start
    for one in made:
        one.close()


def read_head(wire):
    response = wire._head()
    assert response.status == 200, repr(response)


@contextmanager
def begun(s, size):
    """A connection on which the head of so large an answer has come."""
    with s.wire() as wire:
        wire.request("GET", f"/{size}")
        read_head(wire)
        yield wire


def read_until(wire, n):
    """Reads until so many bytes of the body are in the buffer."""
    while len(wire.buffer) < n:
        assert wire.more(), f"ended after {len(wire.buffer)} of {n}"


def late_pieces(wire, sent, pieces):
    """How long each trickled piece was under way, behind a beginning of FAST bytes."""
    late = []
    for i in range(pieces):
        read_until(wire, FAST + (i + 1) * PIECE)
        came = time.monotonic()
        wait_until("the source to note what it sent", lambda: len(sent) > i)  # noqa: B023
        late.append(came - sent[i][0])
    return late


def assert_prompt(late):
    assert sum(s > LATE_S for s in late) <= BUSY, [round(s * 1000) for s in late]


def gush_and_trickle(pieces, pause_s):
    def play(src, sock, size):
        body = pattern(min(size, 2 * FAST))
        sock.sendall(body[:FAST])
        at = FAST + src.trickle(sock, body[FAST:], pieces, pause_s)
        if size > len(body):
            time.sleep(30)  # the client leaves first
        sock.sendall(body[at:])
    return play


# -- nothing that trickles is held back -----------------------------------------------------------------------------
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pause_s", [0.004, 0.025])
def test_what_trickles_goes_on_piece_by_piece(source, way, pause_s):
    s = source(way, gush_and_trickle(40, pause_s))
    with begun(s, 4 * MIB) as wire:
        assert_prompt(late_pieces(wire, s.source.sent, 40))
        read_until(wire, 4 * MIB)
        assert hashlib.sha256(wire.buffer).digest() == hashlib.sha256(pattern(4 * MIB)).digest()


@pytest.mark.parametrize("way", ["clear", "TLSv1_3"])
def test_a_body_of_more_than_4_gib(source, way):
    s = source(way, gush_and_trickle(20, 0.02))
    with begun(s, (5 << 30) + 7) as wire:
        assert_prompt(late_pieces(wire, s.source.sent, 20))
        assert wire.buffer == pattern(FAST + 20 * PIECE)


@pytest.mark.parametrize("way", ["clear", "TLSv1_3"])
def test_while_an_upload_goes_on(source, way):
    """Each piece of the request is an event of the exchange, and none puts off what was waited for."""
    s = source(way, gush_and_trickle(40, 0.02))
    stop = threading.Event()

    def upload(wire):
        while not stop.wait(0.003):
            wire.send(b"u" * 100)

    with s.wire() as wire:
        wire.send(head("PUT", f"/{4 * MIB}", [("Content-Length", str(10 * MIB))]))
        uploader = threading.Thread(target=upload, args=(wire,))
        uploader.start()
        try:
            read_head(wire)
            assert_prompt(late_pieces(wire, s.source.sent, 40))
        finally:
            stop.set()
            uploader.join()


@pytest.mark.parametrize("way", ["clear", "TLSv1_3"])
def test_while_the_sidecar_drains(source, way):
    s = source(way, gush_and_trickle(20, 0.02))
    with begun(s, 4 * MIB) as wire:
        s.terminate()
        assert_prompt(late_pieces(wire, s.source.sent, 20))
        read_until(wire, 4 * MIB)
        assert wire.buffer == pattern(4 * MIB)


@pytest.mark.parametrize("way", ["clear", "TLSv1_3"])
def test_a_reader_that_stops_and_goes_on(source, way):
    """It stops while much is on its way, and once more where it trickles."""
    s = source(way, gush_and_trickle(60, 0.02))
    with begun(s, 4 * MIB) as wire:
        read_until(wire, MIB)
        time.sleep(0.3)
        read_until(wire, FAST + PIECE)
        time.sleep(0.2)
        goes_on = time.monotonic()
        late = late_pieces(wire, s.source.sent, 60)
        assert_prompt([late_s for late_s, (at, _) in zip(late, s.source.sent) if at > goes_on])
        read_until(wire, 4 * MIB)
        assert wire.buffer == pattern(4 * MIB)


# -- whole, whatever the pieces -------------------------------------------------------------------------------------
def in_random_pieces(seed):
    def play(src, sock, size):
        rng = random.Random(seed * 1000003 + size)
        body, at = pattern(size), 0
        while at < size:
            n = rng.choice([1, 7, 1000, 16384, 16385, 65536, 200_000, 600_000])
            n = rng.randint(1, n)
            sock.sendall(body[at:at + n])
            at += n
            if rng.random() < 0.02:
                time.sleep(rng.random() * 0.02)
    return play


@pytest.mark.parametrize("way", WAYS)
def test_every_byte_and_small_answers_in_between(source, way):
    """One connection: lengths at the edges of what is waited for, and behind each a small answer, which waits for nothing."""
    s = source(way, in_random_pieces(1))
    late = []
    with s.wire() as wire:
        for size in [FAST] + [edge + d for edge in EDGES for d in (-1, 0, 1)]:
            body = wire.request("GET", f"/{size}").response().body
            assert hashlib.sha256(body).digest() == hashlib.sha256(pattern(size)).digest(), size
            asked = time.monotonic()
            assert wire.request("GET", "/300").response().body == pattern(300)
            late.append(time.monotonic() - asked)
    assert_prompt(late)
    assert s.source.accepted == 1, "it is kept"


@pytest.mark.parametrize("way", ["clear", "TLSv1_3"])
@pytest.mark.parametrize("buffer_memory", ["256KiB", "64MiB"])
def test_two_threads_and_many_readers(source, way, buffer_memory):
    s = source(way, in_random_pieces(2), threads=2, buffer_memory=buffer_memory)

    def one(i):
        size = FAST + 77_777 * i
        rng = random.Random(i)
        with s.wire(timeout=60) as wire:
            wire.request("GET", f"/{size}")
            read_head(wire)
            while len(wire.buffer) < size and wire.more():
                if i % 3 == 0 and rng.random() < 0.05:
                    time.sleep(0.05)
            return hashlib.sha256(wire.buffer).digest() == hashlib.sha256(pattern(size)).digest()

    assert all(parallel(12, one))


# -- ends -----------------------------------------------------------------------------------------------------------
def cut(how):
    def play(src, sock, size):
        sock.sendall(pattern(FAST + PIECE))
        time.sleep(0.005)  # it is waited for
        if how == "rst":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if isinstance(sock, ssl.SSLSocket):
                socket.socket(fileno=sock.detach()).close()
        elif how == "close_notify":  # and no FIN
            sock.settimeout(3)
            sock.unwrap()
            time.sleep(3)
        elif how == "silence":
            time.sleep(10)
        src.sent.append((time.monotonic(), FAST + PIECE))
        return False
    return play


@pytest.mark.parametrize("way, how", [("clear", "fin"), ("clear", "rst"), ("TLSv1_3", "fin"),
                                      ("TLSv1_3", "rst"), ("TLSv1_2", "close_notify"), ("TLSv1_3", "close_notify")])
def test_a_cut_is_seen_at_once(source, way, how):
    s = source(way, cut(how))
    began = time.monotonic()
    with s.wire() as wire, pytest.raises(Ended) as ended:
        wire.request("GET", f"/{4 * MIB}").response()
    assert time.monotonic() - began < 1.5
    assert len(ended.value.partial) <= FAST + PIECE
    if how != "rst":
        assert ended.value.partial == pattern(FAST + PIECE)
    s.wait_access(1, error="truncated")


@pytest.mark.parametrize("way", ["clear", "TLSv1_3"])
def test_silence_is_read_timeout(source, way):
    """The last bytes go on, and then it runs as ever."""
    s = source(way, cut("silence"), read_timeout="1s")
    with begun(s, 4 * MIB) as wire:
        read_until(wire, FAST + PIECE)
        had_all = time.monotonic()
        assert wire.ended() is not None
        assert 0.9 < time.monotonic() - had_all < 3


# -- that there is such a wait at all -------------------------------------------------------------------------------
@pytest.mark.parametrize("way", ["clear", "TLSv1_3"])
def test_the_kernel_gathers_and_is_told_of_the_end_of_it(source, way, folder):
    s = source(way, gush_and_trickle(20, 0.02))
    output = os.path.join(folder, "strace")
    with traced(s, "setsockopt", output):
        for size in (2 * FAST, 2 * FAST, 300):
            s.source.play = gush_and_trickle(20, 0.02) if size > 300 else in_random_pieces(3)
            assert s.get(f"/{size}", timeout=30).body == pattern(size)
    with open(output, encoding="ascii", errors="replace") as f:
        marks = [int(n) for n in re.findall(r"SO_RCVLOWAT, \[(\d+)\]", f.read())]
    assert max(marks) == 256 * KIB and marks[-1] == 1, marks
    assert not any(a == b for a, b in zip(marks, marks[1:])), marks
