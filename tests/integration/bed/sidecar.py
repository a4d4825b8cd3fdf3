"""fairlead-sidecar and fairlead-controller as objects: started with a YAML configuration, questioned, stopped."""
import contextlib
import itertools
import json
import os
import time

import pytest
import yaml

from .metrics import Metrics
from .process import Process, json_lines, wait_until
from .wire import Wire, call

_ids = itertools.count(1)


def descriptor_tables(pid):
    """What the process has open, {descriptor: target}: the table of its data threads, and that of the others when they
    have one of their own, which has the signals."""
    def table(thread):
        found, at = {}, f"/proc/{pid}/task/{thread}/fd"
        for fd in os.listdir(at):
            with contextlib.suppress(OSError):  # closed meanwhile
                found[fd] = os.readlink(f"{at}/{fd}")
        return found

    def is_control(found):
        return "anon_inode:[signalfd]" in found.values()

    data = table(pid)
    others = () if is_control(data) else map(table, os.listdir(f"/proc/{pid}/task"))
    return [data, *itertools.islice(filter(is_control, others), 1)]


class Dumper(yaml.SafeDumper):
    """YAML as people write it: no anchors for parts that a test uses twice."""

    def ignore_aliases(self, data):
        return True


def next_id():
    """A request id that no other request of this test run has."""
    return f"t{os.getpid():x}-{next(_ids)}"


class Program(Process):
    """What both programs share: a YAML file, event log on stderr, an admin listener."""

    def __init__(self, name, binary, config, folder, env=None, args=(), preexec=None, prefix=()):
        self.config, self.folder = config, folder
        self.config_file = os.path.join(folder, name.replace(" ", "-") + ".yaml")
        self.write_config(config)
        super().__init__(name, [*prefix, binary, "--config", self.config_file, *args], env=env, preexec=preexec)

    def write_config(self, config):
        self.config = config
        with open(self.config_file, "w", encoding="utf-8") as f:
            f.write(config if isinstance(config, str) else yaml.dump(config, Dumper=Dumper, sort_keys=False))

    # -- admin ------------------------------------------------------------------------------------------------
    def ask(self, method, path, body=None, headers=(), port=None, timeout=15):
        address = ("127.0.0.1", port or self.admin_port)
        return call(address, method, path, headers, body, timeout, host=f"127.0.0.1:{address[1]}")

    def admin(self, path, port=None):
        response = self.ask("GET", path, port=port)
        assert response.status == 200, f"GET {path}: {response!r}"
        return json.loads(response.body)

    def metrics(self):
        time.sleep(0.05)  # an exchange is counted after its answer has been sent
        response = self.ask("GET", "/_/metrics", port=self.status_port)
        assert response.status == 200, repr(response)
        return Metrics(response.text)

    def wait_metric(self, name, value, timeout=5, **labels):
        wait_until(lambda: f"{name}{labels} >= {value}, is {self.metrics().sum(name, **labels)}",
                   lambda: self.metrics().sum(name, **labels) >= value, timeout, 0.05)

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    # -- event log --------------------------------------------------------------------------------------------
    def events(self, msg=None, **fields):
        """Event log lines whose message starts with `msg` and whose fields have these values."""
        return [e for e in json_lines(self.err.lines)
                if (msg is None or str(e.get("msg", "")).startswith(msg))
                and all(e.get(k) == v for k, v in fields.items())]

    def expected_to_fail_while_announced(self):
        """Ends the test as an expected failure while the program itself says, at its start, that it does not yet do
        what a key of this configuration asks for."""
        def announced(_):
            return [e["cause"] for e in self.events("configuration warning") if "not there yet" in e.get("cause", "")]

        found = self.err.wait(announced, 0.3)
        if found:
            pytest.xfail(found[0])

    def wait_event(self, msg, timeout=5, count=1, **fields):
        found = self.err.wait(lambda _: len(self.events(msg, **fields)) >= count, timeout)
        assert found, f"no event {msg!r} {fields or ''} (x{count}) in {timeout} s; events: " + \
            "; ".join(str(e.get("msg")) for e in self.events())
        return self.events(msg, **fields)[count - 1]


class Sidecar(Program):
    def __init__(self, binary, config, folder, ports, env=None, args=(), preexec=None, name="sidecar", prefix=()):
        self.data_port, self.admin_port, self.status_port = ports.take(), ports.take(), ports.take()
        config = dict(config)
        config["listen"] = {"data": [f"127.0.0.1:{self.data_port}"], "admin": f"127.0.0.1:{self.admin_port}",
                            "status": f"127.0.0.1:{self.status_port}", **config.get("listen", {})}
        self.data = ("127.0.0.1", self.data_port)
        super().__init__(name, binary, config, folder, env, args, preexec, prefix)

    def wait_started(self, timeout=10):
        def started():
            if not self.running:
                self.wait(1)
                raise AssertionError(f"the sidecar ended while starting (exit {self.returncode}):\n{self.report()}")
            try:
                return self.ask("GET", "/_/started", port=self.status_port, timeout=2).status == 200
            except OSError:
                return False

        wait_until(lambda: "the sidecar's /_/started to be 200:\n" + self.report(), started, timeout, 0.02)
        return self

    # -- data -------------------------------------------------------------------------------------------------
    def wire(self, **keys):
        return Wire(self.data, **keys)

    def call(self, method, target, headers=(), body=None, **keys):
        return call(self.data, method, target, headers, body, **keys)

    def get(self, target, **keys):
        return self.call("GET", target, **keys)

    def traced(self, method, target, headers=(), body=None, **keys):
        """One request and its access log line."""
        rid = next_id()
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
        response = self.call(method, target, pairs + [("x-request-id", rid)], body, **keys)
        return response, self.line_of(rid)

    # -- access log -------------------------------------------------------------------------------------------
    def access(self, **fields):
        return [a for a in json_lines(self.out.lines) if "upstream_addr" in a
                and all(a.get(k) == v for k, v in fields.items())]

    def wait_access(self, count, timeout=5, **fields):
        found = self.out.wait(lambda _: len(self.access(**fields)) >= count, timeout)
        assert found, f"{len(self.access(**fields))} instead of {count} access log lines {fields or ''} in {timeout} s"
        return self.access(**fields)

    def line_of(self, request_id, timeout=5):
        """The access log line of this request; there must be exactly one. Many may wait at once: each looks at a line once,
        and parses its own alone."""
        mark, seen = f'"{request_id}"', 0

        def written(lines):
            nonlocal seen
            fresh, seen = lines[seen:], len(lines)
            return any(mark in line for line in fresh)

        found = self.out.wait(written, timeout)
        lines = [a for a in json_lines([line for line in list(self.out.lines) if mark in line])
                 if a.get("request_id") == request_id and "upstream_addr" in a]
        assert found and len(lines) == 1, f"{len(lines)} access log lines of request {request_id} in {timeout} s: {lines}"
        return lines[0]

    # -- admin ------------------------------------------------------------------------------------------------
    def backend(self, name):
        return next(b for b in self.admin("/_/api/admin/backends")["backends"] if b["name"] == name)

    def peer(self, backend, address):
        return next(p for p in self.backend(backend)["peers"] if p["address"] == address)

    def open_files(self):
        return sum(len(table) for table in descriptor_tables(self.pid))

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Controller(Program):
    def __init__(self, binary, config, folder, ports, env=None, args=(), name="controller"):
        self.admin_port, self.status_port = ports.take(), ports.take()
        config = dict(config)
        config["listen"] = {"admin": f"127.0.0.1:{self.admin_port}", "status": f"127.0.0.1:{self.status_port}",
                            "webhook": f"127.0.0.1:{ports.take()}", **config.get("listen", {})}
        super().__init__(name, binary, config, folder, env, args)

    def wait_started(self, timeout=10):
        def ready():
            assert self.running, f"the controller ended while starting:\n{self.report()}"
            try:
                return self.ask("GET", "/_/ready", timeout=2).status == 200
            except OSError:
                return False

        wait_until(lambda: "the controller's /_/ready to be 200:\n" + self.report(), ready, timeout, 0.02)
        return self


def chain(line, field="upstream_addr"):
    """A comma-joined access log field as a list; [] for '-' in the whole field."""
    value = line[field]
    return [] if value == "-" else value.split(", ")
