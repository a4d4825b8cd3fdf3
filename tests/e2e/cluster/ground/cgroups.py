"""A subtree of the machine's control groups, of a name that no other run has. Version 1, hybrid and version 2."""
import itertools
import os
import pathlib
import re

_count = itertools.count(1)
ROOT = pathlib.Path("/sys/fs/cgroup")


def hierarchies():
    """Where groups are made: the one hierarchy of version 2, or each of version 1 that is mounted."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    with open("/proc/self/mounts", encoding="ascii") as f:
        return [pathlib.Path(words[1]) for words in map(str.split, f) if words[2] == "cgroup"]


class Groups:
    """NAME/daemons for the daemons of a cluster, and NAME/n1, NAME/n2, … in which its kubelets make those of pods."""

    def __init__(self, nodes, janitor):
        self.name = f"fl-e2e-{os.getpid()}-{next(_count)}"
        self._places = hierarchies()
        assert self._places, f"no cgroups are mounted at {ROOT}: pods cannot run here"
        for place in [*self._places, ROOT / "unified"]:  # runc uses the second side of a hybrid too
            janitor.remove_cgroup(place / self.name)
        for place in self._places:
            for group in ("", "daemons", *(f"n{n + 1}" for n in range(nodes))):
                self._make(place / self.name / group)

    @staticmethod
    def _make(folder):
        above = folder.parent
        if (above / "cgroup.subtree_control").exists():  # version 2: what may be limited below is said above
            offered = re.findall(r"[a-z_]+", (above / "cgroup.controllers").read_text(encoding="ascii"))
            enabled = (above / "cgroup.subtree_control").read_text(encoding="ascii").split()
            for controller in offered:
                if controller not in enabled:
                    try:
                        (above / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
                    except OSError:  # the kubelet says which one it cannot do without
                        pass
        folder.mkdir(exist_ok=True)
        if (folder / "cpuset.mem_exclusive").exists():  # version 1: empty until somebody fills it
            for file in ("cpuset.cpus", "cpuset.mems"):
                (folder / file).write_text((above / file).read_text(encoding="ascii"), encoding="ascii")

    def enter(self):
        """In a child: into the group of the daemons."""
        for place in self._places:
            with open(place / self.name / "daemons" / "cgroup.procs", "w", encoding="ascii") as f:
                f.write("0")  # whoever writes

    def processes(self):
        """The pids of all that is in them, containers included."""
        return {int(pid) for path in (self._places[0] / self.name).rglob("cgroup.procs")
                for pid in path.read_text(encoding="ascii").split()}
