"""fairlead-origin as an object: rules, settings, ledger. The words of a rule: tests/support/origin_rule.h."""
import base64
import hashlib
import json
import signal

from .process import Process, wait_until
from .wire import Wire, parse_address


class Entry:
    """One request as the origin got it."""

    def __init__(self, raw):
        self.__dict__.update(raw)  # seq conn ordinal at_us end_us body_bytes complete status sent_bytes end sha256 rule
        self.raw_head = base64.b64decode(raw["head"])
        self.trailers = base64.b64decode(raw["trailers"]).decode("latin-1")
        self.body_start = base64.b64decode(raw["body_start"])
        lines = self.raw_head.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.method, self.target, self.version = lines[0].split(" ", 2)
        self.headers = [(n, v.strip(" \t")) for n, _, v in (line.partition(":") for line in lines[1:])]
        self.at = self.at_us / 1e6  # comparable with time.monotonic()

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def header(self, name, default=None):
        return (self.all(name) or [default])[0]

    def __repr__(self):
        return (f"<#{self.seq} conn {self.conn}.{self.ordinal} {self.method} {self.target} body={self.body_bytes} "
                f"complete={self.complete} status={self.status} end={self.end}>")


class Origin(Process):
    def __init__(self, binary, name, listen, rules=(), settings=None, ledger=True, extra=()):
        argv = [binary, "--name", name, "--listen", listen, "--control", "127.0.0.1:0"]
        for key, value in (settings or {}).items():
            argv += ["--set", f"{key}={value}"]
        for rule in rules:
            argv += ["--behaviour", rule]
        if not ledger:
            argv.append("--no-ledger")
        super().__init__(f"origin {name}", argv + list(extra))
        self.label = name
        line = self.out.wait(lambda lines: lines and lines[0], 10)
        assert line, f"origin {name} did not start:\n{self.report()}"
        said = json.loads(line)
        self.address = said["listen"]
        self.host, self.port = parse_address(self.address)
        self._control_address, self._wire = said["control"], None

    # -- control ----------------------------------------------------------------------------------------------
    def control(self, method, path, body=""):
        for attempt in (1, 2):
            try:
                if self._wire is None:
                    self._wire = Wire(self._control_address, timeout=10)
                response = self._wire.request(method, path, (), body.encode("latin-1"), "control").response()
                break
            except OSError:
                self._wire = None
                if attempt == 2:
                    raise
        assert response.status == 200, f"{self.name}: {method} {path}: {response.text.strip()}"
        return json.loads(response.body)

    def rules(self, *lines):
        """Replaces the rules; without lines: back to the default."""
        self.control("PUT", "/rules", "\n".join(lines))

    def add(self, *lines):
        self.control("POST", "/rules", "\n".join(lines))

    def hits(self):
        """How often each rule matched, in order."""
        return [r["hits"] for r in self.control("GET", "/rules")]

    def set(self, **settings):
        self.control("POST", "/set", "\n".join(f"{k}={v}" for k, v in settings.items()))

    def refuse(self, drop="rst"):
        """The port is closed: connects are refused. Open connections are dropped too (drop: rst, fin or None)."""
        self.control("POST", "/refuse")
        if drop:
            self.control("POST", f"/drop?how={drop}")

    def listen(self):
        self.control("POST", "/listen")

    def release(self):
        self.control("POST", "/release")

    def drop(self, how="rst", idle=False):
        self.control("POST", f"/drop?how={how}" + ("&idle=1" if idle else ""))

    def forget(self):
        """Clears ledger and counters."""
        self.control("DELETE", "/ledger")

    # -- evidence ---------------------------------------------------------------------------------------------
    def stats(self):
        return self.control("GET", "/stats")

    @property
    def accepted(self):
        return self.stats()["accepted"]

    @property
    def requests(self):
        return self.stats()["requests"]

    def ledger(self, method=None, prefix=None):
        entries = [Entry(r) for r in self.control("GET", "/ledger")["requests"]]
        return [e for e in entries if (method is None or e.method == method)
                and (prefix is None or e.target.startswith(prefix))]

    def only(self, **want):
        entries = self.ledger(**want)
        assert len(entries) == 1, f"{self.name}: wanted one request, got {entries}"
        return entries[0]

    def connections(self):
        return self.control("GET", "/ledger")["connections"]

    def until(self, timeout=5, **at_least):
        """Waits until each named counter of /stats has reached its value."""
        return wait_until(lambda: f"{self.name}: {at_least}, has {self.stats()}",
                          lambda: all(s[k] >= v for s in [self.stats()] for k, v in at_least.items()), timeout)

    def graceful(self):
        self.signal(signal.SIGTERM)


def generated(size, at=0):
    """The bytes of a `size=N` answer."""
    alphabet = b"abcdefghijklmnopqrstuvwxyz"
    start = at % 26
    return (alphabet * (size // 26 + 2))[start:start + size]


def sha256(data):
    return hashlib.sha256(data).hexdigest()
