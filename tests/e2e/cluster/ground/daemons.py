"""What a cluster consists of: daemons that tests kill, stop, hold down and start again, with a log that stays."""
import os
import pathlib
import signal
import subprocess

from bed.process import wait_until


class Daemon:
    """A program of the cluster. Output goes to FOLDER/log/NAME.log; arguments may be changed between two starts.

    ready: called without arguments, true when the daemon does its work; it may raise OSError meanwhile.
    """

    def __init__(self, name, space, folder, argv, ready=None, env=None, setup=None):
        self.name, self.space, self.argv, self._ready = name, space, [str(word) for word in argv], ready
        self._env, self._setup, self._process = env, setup, None
        self._ended_by_us = True
        self.log_file = pathlib.Path(folder, "log", f"{name}.log")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)

    @property
    def pid(self):
        return self._process.pid

    @property
    def running(self):
        return self._process is not None and self._process.poll() is None

    @property
    def crashed(self):
        """It has ended, and no test has asked for it."""
        return not self.running and not self._ended_by_us

    def start(self, wait=True, timeout=90):
        assert not self.running, f"{self.name} is running already"
        if self.crashed:
            with open(self.log_file, "a", encoding="utf-8") as log:
                print(f"---- ended with {self._process.returncode}, started again", file=log)
        self._ended_by_us = False
        with open(self.log_file, "ab") as log:
            self._process = self.space.popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             env=dict(os.environ, **(self._env or {})), setup=self._setup)
        if wait:
            self.wait_ready(timeout)
        return self

    def wait_ready(self, timeout=90):
        def ready():
            assert self.running, f"{self.name} ended with {self._process.returncode}:\n{self.report()}"
            try:
                return self._ready is None or self._ready()
            except OSError:
                return False

        wait_until(lambda: f"{self.name} to be ready:\n{self.report()}", ready, timeout, 0.05)
        return self

    # -- faults -----------------------------------------------------------------------------------------------
    def kill(self):
        """As by `kill -9`: connections are reset. It stays down until start()."""
        self._end(signal.SIGKILL)

    def terminate(self):
        """As by `kill`, waiting for the end; an API server closes its watches properly."""
        self._end(signal.SIGTERM)

    def _end(self, number):
        self._ended_by_us = True
        if not self.running:
            return
        if number != signal.SIGKILL:
            self._process.send_signal(number)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                pass
        self._process.kill()
        self._process.wait()

    def restart(self, timeout=90):
        """kill() and start(), ready again when it returns."""
        self.kill()
        return self.start(timeout=timeout)

    def freeze(self):
        """SIGSTOP: connections are accepted by the kernel, nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(f"{self.name} to be stopped", lambda: self._state() == "T", pause=0.002)

    def thaw(self):
        if self.running:
            os.kill(self.pid, signal.SIGCONT)

    def _state(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0]

    # -- looking at it ------------------------------------------------------------------------------------------
    def log(self):
        try:
            return self.log_file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def report(self, last=25):
        state = "not started" if self._process is None else "running" if self.running else \
            f"exit {self._process.returncode}"
        return "\n".join([f"{self.name}: {state}, end of its log:"] +
                         ["  " + line[:300] for line in self.log().splitlines()[-last:]])
