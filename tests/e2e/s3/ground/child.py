"""Child processes that never outlive the test run: the kernel kills them when it ends, however it ends."""
import ctypes
import signal

from bed.process import Process, wait_until

_libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """For preexec_fn. The parent is the thread that starts the child, so stores are started by the main thread."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Child(Process):
    def __init__(self, name, argv, env=None, cwd=None):
        super().__init__(name, argv, env=env, cwd=cwd, preexec=die_with_parent)

    def state(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0]

    def freeze(self):
        """SIGSTOP is asynchronous: without this wait a "hung" process answers once more."""
        super().freeze()
        wait_until(f"{self.name} to be stopped", lambda: self.state() == "T", pause=0.002)
