"""Sidecar configurations in front of a store, and what its access log says about a run."""
import collections

from bed.config import s3
from bed.sidecar import chain

ROUTE = {"connect_timeout": "1s", "read_timeout": "2s", "deadline": "5s"}
# what the default policy may answer to a request whose peer died or hung under it (class: repeating it is forbidden)
HONEST = {"upstream_failed", "upstream_timeout", "deadline", "stale_reuse"}


def config(store, route=None, **keys):
    """The store's peers with default policy, timeouts that suit a test, and no probe: passive handling alone."""
    return s3(*store.addresses(), route={**ROUTE, **(route or {})}, **{"fail_timeout": "3s", **keys})


def failed(front):
    """Access log lines that are errors of the sidecar's own or broken answers."""
    return [line for line in front.access() if line["error"]]


def peers_used(front):
    used = collections.Counter()
    for line in front.access():
        used.update(set(chain(line)))
    return used


def retried(front):
    return [line for line in front.access() if len(chain(line)) > 1]
