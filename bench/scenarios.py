"""The scenarios, as data. The first three carry the bars."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Scenario:
    name: str
    says: str  # for the report
    path: str = "/b/1k"
    method: str = "GET"
    connections: int = 32
    requests: int = 40000
    quick: int = 8000  # requests with --quick
    warmup: int = 2000
    size: int = 0  # of a PUT
    body: int | None = KIB  # expected of the answer
    live: int = 1  # peers that answer
    dead: int = 0  # peers that refuse
    expect: str = "200"
    log: bool = False
    new_connections: bool = False
    kind: str = "cpu"  # cpu | idle | slow | gated
    tls: bool = False  # the peers speak TLS
    times: int = 1  # so many times the rounds that are asked for: minima of nine scatter by 3 %
    large: bool = False  # also try the variants that only matter for large bodies

    def load_arguments(self, quick: bool) -> list[str]:
        arguments = ["--path", self.path, "--method", self.method, "--connections", str(self.connections)]
        arguments += ["--requests", str(self.quick if quick else self.requests), "--expect", self.expect]
        arguments += ["--warmup", str(min(self.warmup, self.quick) if quick else self.warmup)]
        if self.body is not None:
            arguments += ["--expect-body", str(self.body)]
        if self.size:
            arguments += ["--size", str(self.size)]
        if self.new_connections:
            arguments += ["--new-connections"]
        return arguments

    def check_arguments(self) -> list[str]:
        """A few requests that look at every byte, before anything is measured."""
        arguments = ["--path", self.path, "--method", self.method, "--connections", "2", "--requests", "6"]
        arguments += ["--expect", self.expect]
        if self.body is not None:
            arguments += ["--expect-body", str(self.body), "--verify"]
        if self.size:
            arguments += ["--size", str(self.size)]
        return arguments


SCENARIOS = [
    Scenario("1k@32", "1 KiB GET, keep-alive, 32 connections", times=3),
    Scenario("1m@8", "1 MiB GET, 8 connections", path="/b/1m", connections=8, requests=2000, quick=300,
             warmup=100, body=MIB, large=True),
    Scenario("idle", "memory: 0 and 1,000 idle connections", connections=1000, kind="idle"),
    Scenario("idle-10k", "memory: 0 and 9,900 idle connections (two descriptors each: 20,000 is a usual limit)",
             connections=9900, kind="idle"),
    Scenario("1k@1", "1 KiB GET, keep-alive, 1 connection", connections=1, requests=15000, quick=4000, warmup=500),
    Scenario("1k@256", "1 KiB GET, keep-alive, 256 connections", connections=256, times=3),
    Scenario("16k@32", "16 KiB GET, 32 connections", path="/b/16k", requests=25000, quick=5000, body=16 * KIB),
    Scenario("64m@2", "64 MiB GET, 2 connections", path="/b/64m", connections=2, requests=24, quick=4, warmup=2,
             body=64 * MIB, large=True),
    Scenario("put-1m@8", "1 MiB PUT, 8 connections", path="/b/put", method="PUT", size=MIB, connections=8,
             requests=2000, quick=300, warmup=100, body=None, large=True),
    Scenario("put-64m@2", "64 MiB PUT, 2 connections", path="/b/put", method="PUT", size=64 * MIB, connections=2,
             requests=24, quick=4, warmup=2, body=None, large=True),
    Scenario("tls-1k@32", "1 KiB GET, keep-alive, 32 connections, TLS to the peer", tls=True, requests=25000,
             quick=5000),
    Scenario("tls-1m@8", "1 MiB GET, 8 connections, TLS to the peer", path="/b/1m", connections=8, requests=600,
             quick=60, warmup=20, body=MIB, tls=True, large=True),
    Scenario("new-connections", "1 KiB GET, a connection per request, 8 at a time", connections=8, requests=8000,
             quick=2000, warmup=500, new_connections=True),
    Scenario("log-1k@32", "1 KiB GET, 32 connections, JSON access log into a file", log=True),
    Scenario("one-dead", "1 KiB GET, 32 connections, one of four peers refuses", live=3, dead=1),
    Scenario("all-dead", "32 connections, all four peers refuse: the error answer", live=0, dead=4, body=None,
             expect="502,503", requests=20000),
    Scenario("slow", "memory: 50 readers of 64 MiB at 256 KiB/s each", path="/b/64m", connections=50, kind="slow",
             large=True),
    Scenario("gated", "a backend that a verdict blocks: its 503 at 10,000 requests/s, alone and beside another bucket",
             kind="gated"),
]

SLOW_ARGUMENTS = ["--path", "/b/64m", "--connections", "50", "--read-rate", "256k", "--seconds", "4"]
