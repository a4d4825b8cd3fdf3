"""Namespaces of our own: a network, a mount and a pid namespace in which a whole cluster lives and with which it ends.

Process 1 of a space is `sleep infinity` that ignores SIGCHLD (so the kernel reaps what others left) and that the kernel
kills when the thread that made the space ends; with process 1 everything in the space ends, mounts and interfaces
included. pytest itself stays outside: it enters a network for a moment (`network()`), and what it starts in a space
(`popen()`) is its own child, with its real exit status and a pid that os.kill() understands.
"""
import contextlib
import ctypes
import os
import signal
import subprocess

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED = 0x1000, 0x4000, 1 << 18, 1 << 20
PR_SET_PDEATHSIG = 1
ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"  # a pod's view of its service account (/var/run is /run)


def _checked(what, result):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def setns(descriptor, kind):
    _checked("setns", _libc.setns(descriptor, kind))


def unshare(kinds):
    _checked("unshare", _libc.unshare(kinds))


def mount(source, target, kind=None, flags=0, options=None):
    words = [word.encode() if word is not None else None for word in (source, target, kind)]
    _checked(f"mount {target}", _libc.mount(*words, ctypes.c_ulong(flags), options.encode() if options else None))


def die_with_parent():
    """In a child: the kernel kills it when the thread that started it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@contextlib.contextmanager
def in_network(descriptor):
    """This thread, and what it starts, in another network namespace; sockets stay in the one they were made in."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(descriptor, CLONE_NEWNET)
        try:
            yield
        finally:
            setns(before, CLONE_NEWNET)
    finally:
        os.close(before)


class Space:
    """The namespaces, made at once and ended by close(). mounts() runs in process 1 before anything else does."""

    def __init__(self, mounts=None, hostname="cluster"):
        own = os.open("/proc/thread-self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._descriptors, self._children = {}, []
        try:
            unshare(CLONE_NEWPID)  # for the children of this thread only
            try:
                self._first = subprocess.Popen(["sleep", "infinity"], stdin=subprocess.DEVNULL,
                                               stdout=subprocess.DEVNULL, start_new_session=True,
                                               preexec_fn=lambda: self._birth(mounts, hostname))
            finally:
                setns(own, CLONE_NEWPID)
        finally:
            os.close(own)
        self.pid = self._first.pid
        for name in ("net", "mnt", "pid", "uts", "ipc"):
            self._descriptors[name] = os.open(f"/proc/{self.pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)

    @staticmethod
    def _birth(mounts, hostname):
        unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC)
        die_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        name = hostname.encode()
        _checked("sethostname", _libc.sethostname(name, len(name)))
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        mount("proc", "/proc", "proc")
        mount("tmpfs", "/run", "tmpfs", options="mode=755")  # names of networks, sockets, locks: ours, and gone with us
        for folder in ("/run/netns", "/run/lock", ACCOUNT):
            os.makedirs(folder)
        if mounts:
            mounts()

    # -- entering ---------------------------------------------------------------------------------------------
    def network(self):
        """with space.network(): sockets that this thread opens, and addresses that it sees, are those of the space."""
        return in_network(self._descriptors["net"])

    def path(self, inside):
        """Where a path of the space is seen from outside (its private /run, for example)."""
        return os.path.join("/proc", str(self.pid), "root") + inside

    def popen(self, argv, *, network=None, mounts=None, user=None, setup=None, cwd=None, **keywords):
        """subprocess.Popen in the space, ended by the kernel with the thread that calls.

        network: the descriptor of another network namespace of the space (a pod's); mounts: {target: source}, bound
        for this program alone, targets must exist; user: a uid to become; setup: called last before the program.
        """
        folder = cwd or os.getcwd()

        def enter():
            for name, kind in (("mnt", CLONE_NEWNS), ("uts", CLONE_NEWUTS), ("ipc", CLONE_NEWIPC)):
                setns(self._descriptors[name], kind)
            if mounts:
                unshare(CLONE_NEWNS)
                mount("none", "/", flags=MS_REC | MS_PRIVATE)
                for target, source in mounts.items():
                    mount(source, target, flags=MS_BIND)
            os.chdir(folder)
            if user is not None:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            die_with_parent()  # after all that, for a change of user forgets it
            if setup:
                setup()

        own = os.open("/proc/thread-self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            with in_network(network if network is not None else self._descriptors["net"]):
                setns(self._descriptors["pid"], CLONE_NEWPID)  # children only; a thread could not be started meanwhile
                try:
                    child = subprocess.Popen([str(word) for word in argv], preexec_fn=enter, **keywords)
                finally:
                    setns(own, CLONE_NEWPID)
        finally:
            os.close(own)
        self._children = [one for one in self._children if one.poll() is None] + [child]
        return child

    def run(self, *argv, input=None, check=True, timeout=60, env=None, **keywords):
        """A command in the space: CompletedProcess with text; AssertionError with its output when it fails."""
        process = self.popen(argv, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, **(env or {})), **keywords)
        try:
            out, err = process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"still running after {timeout} s: {' '.join(map(str, argv))}\n{out}{err}") from None
        done = subprocess.CompletedProcess(argv, process.returncode, out, err)
        if check and done.returncode != 0:
            raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, argv))}\n{out}{err}")
        return done

    def processes(self):
        """The pids, as seen from outside, of all that is in its pid namespace."""
        ours, found = os.fstat(self._descriptors["pid"]).st_ino, set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{name}/ns/pid").st_ino == ours:
                    found.add(int(name))
            except OSError:  # gone meanwhile
                pass
        return found

    def close(self):
        """Ends everything in the space."""
        if self._first.poll() is None:
            self._first.kill()
        for child in self._children:
            child.wait()  # process 1 is not gone before these have been waited for
        self._first.wait()
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors = {}
