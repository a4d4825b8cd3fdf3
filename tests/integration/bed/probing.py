"""Sidecars with http and s3 probes in a few words, keys for them, and what they say of their backends."""
import os

import pytest

from .config import backend
from .process import wait_until
from .s3_store import S3Store

KEY, SECRET, MASKED = "AKIAPROBEEXAMPLE7", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLE", "AKIA****E7"


@pytest.fixture
def keys(folder):
    """keys(secret=…) writes the two files and gives the probe's keys of the configuration."""

    def write(key=KEY, secret=SECRET):
        names = {"access_key_file": os.path.join(folder, "id"), "secret_key_file": os.path.join(folder, "secret")}
        for name, text in zip(names.values(), (key, secret)):
            with open(name, "w", encoding="ascii") as f:
                f.write(text + "\n")
        return names

    return write


@pytest.fixture
def store(ports):
    """store(**settings) starts a verifying store that knows our key."""
    made = []

    def start(**settings):
        settings.setdefault("keys", {KEY: SECRET})
        made.append(S3Store(ports, **settings))
        return made[-1]

    yield start
    for one in made:
        one.close()


def s3(*peers, probe=None, route=None, **keys):
    """One s3 backend `minio` behind the bucket `releases`, probed at long intervals unless said otherwise."""
    return {"boot_probe": "warn",
            "backends": {"minio": backend(*peers, protocol="s3", **{
                "probe": {"type": "s3", "interval": "10s", "timeout": "2s", **(probe or {})}, **keys})},
            "routes": {"releases": {"backend": "minio", **(route or {})}}}


def http(*peers, probe=None, route=None, **keys):
    return {"boot_probe": "warn",
            "backends": {"pool": backend(*peers, **{
                "probe": {"type": "http", "path": "/health", "interval": "10s", "timeout": "2s", **(probe or {})},
                **keys})},
            "routes": {"*": {"backend": "pool", **(route or {})}}}


def judged(sidecar, name="minio", timeout=10):
    """The derived verdict, once there is one."""
    return wait_until(lambda: f"a verdict on {name}", lambda: next(
        (v for v in [sidecar.backend(name)["verdict"]] if v["status"] != "unknown"), None), timeout)


def verdict_becomes(sidecar, status, name="minio", timeout=10):
    wait_until(lambda: f"{name} to be {status}, is {sidecar.backend(name)['verdict']}",
               lambda: sidecar.backend(name)["verdict"]["status"] == status, timeout)
    return sidecar.backend(name)["verdict"]


def probe_now(sidecar, name="minio"):
    response = sidecar.ask("POST", f"/_/api/admin/backends/{name}/probe", b"", {"Content-Type": "application/json"})
    assert response.status == 200, repr(response)
    return sidecar.backend(name)["verdict"]
