"""Sidecar configurations in a few words. Probes are off unless asked for, so that passive handling stands alone."""


FREE = {"retry_budget": {"ratio": "100%", "min_per_second": 1000}}  # for tests that retry more than one request in five


def address_of(peer):
    return peer if isinstance(peer, str) else peer.address


def peer(where, **keys):
    return {"address": address_of(where), **keys}


def backend(*peers, protocol="http", **keys):
    listed = [p if isinstance(p, dict) else peer(p) for p in peers]
    return {"protocol": protocol, "peers": listed, "probe": {"type": "none"}, **keys}


def http(*peers, route=None, **keys):
    """One http backend `pool` behind the route '*'."""
    return {"backends": {"pool": backend(*peers, **keys)}, "routes": {"*": {"backend": "pool", **(route or {})}}}


def s3(*peers, route=None, **keys):
    """One s3 backend `store` behind the route '*'."""
    return {"backends": {"store": backend(*peers, protocol="s3", **keys)},
            "routes": {"*": {"backend": "store", **(route or {})}}}
