"""Credentials of the stores, and where the installed clients are."""
import os

import pytest

ACCESS, SECRET = "AKIDFAIRLEADE2E0000A", "secret-of-the-fairlead-e2e-stores-000000"
SCOPED_ACCESS, SCOPED_SECRET = "AKIDFAIRLEADSCOPED0A", "secret-of-a-key-for-one-bucket-only-0000"
BUCKET, REGION = "releases", "us-east-1"

CLIENT_ENV = {
    "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_MAX_ATTEMPTS": "1",  # with retries of the SDK a failover that failed would stay hidden
}


def client_env(**more):
    """The environment of a client: nothing of the caller's about AWS or proxies."""
    kept = {k: v for k, v in os.environ.items()
            if not k.upper().startswith(("AWS_", "RCLONE_", "PYTHON")) and not k.upper().endswith("_PROXY")}
    return {**kept, **CLIENT_ENV, **more}


def installed(variable):
    """The folder that install.sh named; without it the tests that need it are skipped."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} is not set: run ./dev e2e s3 (--long for all clients)")
    return folder

_scratch = []


def scratch():
    """The folder of this run for files that clients read and write."""
    return _scratch[0]


def set_scratch(path):
    _scratch[:] = [path]
