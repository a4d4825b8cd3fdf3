"""Takes away what the kernel does not: folders and cgroups, when the test run has ended, however it ended.

As a program it reads words and paths on stdin, one a line, and acts when stdin ends: `pid NUMBER START` (a process 1 to
kill if it is still the same), `cgroup FOLDER` (processes in it are killed, then it is removed), `folder FOLDER`.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time


def start_time(pid):
    """When a process started, in ticks since boot: with it a pid names one process for ever. None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


class Janitor:
    """Held by the test run. dismiss() has everything cleaned now and waits for it."""

    def __init__(self):
        self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, text=True,
                                         start_new_session=True, cwd="/")

    def _note(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def kill(self, pid):
        self._note(f"pid {pid} {start_time(pid)}")

    def remove(self, folder):
        self._note(f"folder {folder}")

    def remove_cgroup(self, folder):
        self._note(f"cgroup {folder}")

    def dismiss(self):
        self._process.stdin.close()
        self._process.wait(60)


def _wait_gone(pid, start):
    for _ in range(500):
        if start_time(pid) != start:
            return
        time.sleep(0.02)


def _empty_cgroup(folder):
    """Kills what is in it and removes it; a cgroup is busy for a moment after its last process has ended."""
    for _ in range(250):
        if not folder.is_dir():
            return
        for path, _, files in os.walk(folder, topdown=False):
            if "cgroup.procs" in files:
                try:
                    for pid in pathlib.Path(path, "cgroup.procs").read_text(encoding="ascii").split():
                        os.kill(int(pid), signal.SIGKILL)
                except OSError:
                    pass
            try:
                os.rmdir(path)
            except OSError:
                pass
        time.sleep(0.02)


def main():
    pids, cgroups, folders = [], [], []
    for line in sys.stdin:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "pid":
            pids.append(rest.split())
        else:
            (cgroups if word == "cgroup" else folders).append(pathlib.Path(rest))
    for pid, start in pids:
        if start_time(pid) == start:
            os.kill(int(pid), signal.SIGKILL)
        _wait_gone(pid, start)
    for folder in cgroups:
        _empty_cgroup(folder)
    for folder in folders:
        for _ in range(100):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(0.05)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of stdin is the only word that counts
    main()
