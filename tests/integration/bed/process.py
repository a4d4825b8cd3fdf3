"""A child process with its output read line by line, ended by its own pid and never otherwise."""
import json
import os
import re
import signal
import subprocess
import threading
import time

SANITIZER = re.compile(r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|UndefinedBehaviorSanitizer|runtime error:"
                       r"|assertion failed:")
SLACK = float(os.environ.get("FAIRLEAD_TEST_SLACK", "1"))  # longer waits on a slow machine


def wait_until(what, condition, timeout=5.0, pause=0.01):
    """Polls until `condition()` is true and returns its value; AssertionError naming `what` otherwise."""
    end = time.monotonic() + timeout * SLACK
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"waited {timeout * SLACK:.1f} s in vain for: {what() if callable(what) else what}")
        time.sleep(pause)


class Stream:
    """The lines of one output stream so far."""

    def __init__(self, pipe):
        self.lines = []
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def _read(self, pipe):
        with pipe:
            for line in iter(pipe.readline, b""):
                with self._changed:
                    self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_end(self, timeout=5):
        self._thread.join(timeout)

    def wait(self, find, timeout):
        """Waits for `find(lines)` to be truthy, looking again at every new line; None after `timeout`."""
        end = time.monotonic() + timeout * SLACK
        with self._changed:
            while True:
                found = find(self.lines)
                left = end - time.monotonic()
                if found or left <= 0 or self._ended:
                    return found or None
                self._changed.wait(left)

    def text(self):
        return "\n".join(list(self.lines))


class Process:
    def __init__(self, name, argv, env=None, cwd=None, preexec=None):
        self.name, self.argv = name, [str(a) for a in argv]
        full = dict(os.environ, **(env or {}))
        full.setdefault("ASAN_OPTIONS", "exitcode=99:detect_leaks=1")
        full.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:exitcode=99")
        full.setdefault("TSAN_OPTIONS", "exitcode=99")
        self._popen = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env=full, cwd=cwd, preexec_fn=preexec)
        self.pid = self._popen.pid
        self.out, self.err = Stream(self._popen.stdout), Stream(self._popen.stderr)
        self.killed = False  # we killed it on purpose: its exit status says nothing

    @property
    def running(self):
        return self._popen.poll() is None

    @property
    def returncode(self):
        return self._popen.poll()

    def signal(self, number):
        if self.running:
            os.kill(self.pid, number)

    def kill(self):
        """As by `kill -9`; the kernel closes its sockets."""
        self.killed = True
        self.signal(signal.SIGKILL)
        self._popen.wait()

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def terminate(self):
        self.signal(signal.SIGTERM)

    def wait(self, timeout):
        """The exit status, or None when it still runs."""
        try:
            status = self._popen.wait(timeout * SLACK)
        except subprocess.TimeoutExpired:
            return None
        self.out.wait_end()
        self.err.wait_end()
        return status

    def report(self, last=60):
        """What to show when a test failed."""
        parts = [f"{self.name}: pid {self.pid}, " + ("running" if self.running else f"exit {self.returncode}"),
                 "  " + " ".join(self.argv)]
        for label, stream in (("stdout", self.out), ("stderr", self.err)):
            if stream.lines:
                parts += [f"  -- {label}, last {min(last, len(stream.lines))} lines"] + \
                         ["  " + line[:600] for line in stream.lines[-last:]]
        return "\n".join(parts)

    def complaint(self):
        """A sanitizer report or failed assertion in its output, with what follows; '' when there is none."""
        for stream in (self.err, self.out):
            for i, line in enumerate(stream.lines):
                if SANITIZER.search(line):
                    return "\n".join(stream.lines[i:i + 40])
        return ""


def json_lines(lines):
    """The lines that are JSON objects, in order."""
    objects = []
    for line in list(lines):
        if line.startswith("{"):
            try:
                objects.append(json.loads(line))
            except ValueError:
                pass
    return objects
