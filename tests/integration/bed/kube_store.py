"""What a Kubernetes API server keeps: objects of a few resources, one revision for all of them, every change since the
last compaction; and the rules of writing (conflicts, uid, Lease and Event formats). No sockets: bed/scripted_api.py."""
import copy
import re
import threading
import uuid

MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

# plural: (group, version, kind, namespaced)
RESOURCES = {
    "pods": ("", "v1", "Pod", True),
    "services": ("", "v1", "Service", True),
    "namespaces": ("", "v1", "Namespace", False),
    "secrets": ("", "v1", "Secret", True),
    "endpointslices": ("discovery.k8s.io", "v1", "EndpointSlice", True),
    "leases": ("coordination.k8s.io", "v1", "Lease", True),
    "events": ("events.k8s.io", "v1", "Event", True),
    "mutatingwebhookconfigurations": ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", False),
    "selfsubjectaccessreviews": ("authorization.k8s.io", "v1", "SelfSubjectAccessReview", False),
}
# Lists that a strategic merge patch merges by a key of their items.
MERGE_KEYS = {"conditions": "type", "containers": "name", "initContainers": "name", "podIPs": "ip", "volumes": "name",
              "containerStatuses": "name", "initContainerStatuses": "name", "webhooks": "name", "env": "name"}


class Refused(Exception):
    """An answer that is no 2xx."""

    def __init__(self, code, reason, message, details=None, retry_after=None):
        super().__init__(message)
        self.code, self.reason, self.message, self.retry_after = code, reason, message, retry_after
        self.details = dict(details or {})
        if retry_after is not None:
            self.details.setdefault("retryAfterSeconds", retry_after)

    def status(self):
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
                "reason": self.reason, "details": self.details, "code": self.code}


def api_version(resource):
    group, version, _, _ = RESOURCES[resource]
    return f"{group}/{version}" if group else version


def not_found(resource, name):
    group = RESOURCES[resource][0]
    full = f"{resource}.{group}" if group else resource
    return Refused(404, "NotFound", f'{full} "{name}" not found', {"name": name, "kind": resource})


def invalid(resource, name, field, why):
    kind = RESOURCES[resource][2]
    return Refused(422, "Invalid", f'{kind} "{name}" is invalid: {field}: {why}',
                   {"name": name, "kind": kind, "causes": [{"reason": "FieldValueInvalid", "field": field,
                                                            "message": why}]})


def selects(selector, labels):
    """A label selector as the API writes it: a=b, a==b, a!=b, a, !a, a in (b,c), a notin (b,c)."""
    for part in re.findall(r"(?:[^,(]|\([^)]*\))+", selector or ""):
        part = part.strip()
        sets = re.fullmatch(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)", part)
        if sets:
            inside = labels.get(sets[1]) in [v.strip() for v in sets[3].split(",")]
            ok = inside == (sets[2] == "in")
        elif "!=" in part:
            key, value = part.split("!=", 1)
            ok = labels.get(key.strip()) != value.strip()
        elif "=" in part:
            key, value = re.split("==?", part, maxsplit=1)
            ok = labels.get(key.strip()) == value.strip()
        elif part.startswith("!"):
            ok = part[1:].strip() not in labels
        else:
            ok = part in labels
        if not ok:
            return False
    return True


def merge(old, patch, strategic=False):
    """JSON merge patch (RFC 7386), or the part of a strategic one that the product needs."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif strategic and key in MERGE_KEYS and isinstance(value, list):
            merged[key] = merge_list(merged.get(key) or [], value, MERGE_KEYS[key])
        elif isinstance(value, dict):
            merged[key] = merge(merged.get(key), value, strategic)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def merge_list(old, patch, by):
    if any(item.get("$patch") == "replace" for item in patch):
        return [copy.deepcopy(i) for i in patch if "$patch" not in i]
    merged, fresh = [dict(i) for i in old], []
    for item in patch:
        at = next((n for n, have in enumerate(merged) if have.get(by) == item.get(by)), None)
        if item.get("$patch") == "delete":
            merged = [i for i in merged if i.get(by) != item.get(by)]
        elif at is None:
            fresh.append(copy.deepcopy(item))
        else:
            merged[at] = merge(merged[at], item, True)
    return fresh + merged  # the real one puts new ones first


# ---- builders ----

def pod(namespace, name, ip="", labels=None, annotations=None, phase="Running", **more):
    return {"metadata": {"namespace": namespace, "name": name, "labels": labels or {},
                         "annotations": annotations or {}},
            "spec": {"nodeName": "node-a", "containers": [{"name": "app", "image": "app"}]},
            "status": {"phase": phase, **({"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {})}, **more}


def service(namespace, name, ports, **spec):
    """ports: {"s3": 9000}"""
    return {"metadata": {"namespace": namespace, "name": name},
            "spec": {"ports": [{"name": n, "port": p, "protocol": "TCP"} for n, p in ports.items()], **spec}}


def endpoint_slice(namespace, name, of, ports, endpoints, family="IPv4"):
    """of: the service; endpoints: addresses, or dicts of the API."""
    items = [{"addresses": [e], "conditions": {"ready": True, "serving": True, "terminating": False}}
             if isinstance(e, str) else e for e in endpoints]
    return {"metadata": {"namespace": namespace, "name": name, "labels": {"kubernetes.io/service-name": of}},
            "addressType": family, "endpoints": items,
            "ports": [{"name": n, "port": p, "protocol": "TCP"} for n, p in ports.items()]}


# ---- keeping ----

class Change:
    def __init__(self, revision, kind, resource, new, old):
        self.revision, self.kind, self.resource, self.new, self.old = revision, kind, resource, new, old

    def seen_by(self, chosen):
        """(type, object) as a watch with this choice sees it, or None: what stops matching is DELETED for it."""
        new, old = chosen(self.new), self.old is not None and chosen(self.old)
        if self.kind == "DELETED":
            return ("DELETED", self.new) if old else None
        if new:
            return ("MODIFIED" if old else "ADDED"), self.new
        return ("DELETED", self.new) if old else None


class Store:
    """Every method takes the lock; `changed` wakes who waits for a change."""

    def __init__(self):
        self.changed = threading.Condition(threading.RLock())
        self.revision, self.compacted = 1000, 0
        self.objects, self.changes = {}, []

    # ---- reading ----

    def get(self, resource, namespace, name):
        with self.changed:
            found = self.objects.get((resource, namespace or "", name))
            if found is None:
                raise not_found(resource, name)
            return copy.deepcopy(found)

    def all(self, resource, chosen=lambda o: True):
        """(objects in the order of their keys, revision)"""
        with self.changed:
            return ([copy.deepcopy(o) for (r, _, _), o in sorted(self.objects.items()) if r == resource and chosen(o)],
                    self.revision)

    def since(self, position):
        """Changes from a position in the log on, and the position behind them."""
        with self.changed:
            return self.changes[position:], len(self.changes)

    def position_of(self, revision):
        with self.changed:
            return next((n for n, c in enumerate(self.changes) if c.revision > revision), len(self.changes))

    # ---- writing ----

    def _keep(self, kind, resource, new, old):
        self.revision += 1
        meta = new["metadata"]
        meta["resourceVersion"] = str(self.revision)
        key = (resource, meta.get("namespace", ""), meta["name"])
        if kind == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = new
        self.changes.append(Change(self.revision, kind, resource, copy.deepcopy(new), copy.deepcopy(old)))
        self.changed.notify_all()
        return copy.deepcopy(new)

    def create(self, resource, namespace, body):
        with self.changed:
            new = copy.deepcopy(body)
            meta = new.setdefault("metadata", {})
            if RESOURCES[resource][3]:
                meta.setdefault("namespace", namespace or "default")
            if "name" not in meta:
                meta["name"] = meta.get("generateName", "x-") + uuid.uuid4().hex[:5]
            key = (resource, meta.get("namespace", ""), meta["name"])
            if key in self.objects:
                raise Refused(409, "AlreadyExists", f'{resource} "{meta["name"]}" already exists',
                              {"name": meta["name"], "kind": resource})
            new.update(apiVersion=api_version(resource), kind=RESOURCES[resource][2])
            meta.setdefault("uid", str(uuid.uuid4()))
            meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            check(resource, new)
            return self._keep("ADDED", resource, new, None)

    def update(self, resource, namespace, name, body):
        with self.changed:
            old = self.get(resource, namespace, name)
            version = body.get("metadata", {}).get("resourceVersion")
            if resource == "leases" and not version:
                raise invalid(resource, name, "metadata.resourceVersion", "must be specified for an update")
            self._compare(resource, name, old, body)
            new = copy.deepcopy(body)
            new["metadata"] = {**old["metadata"], **new.get("metadata", {})}
            return self._replace(resource, new, old)

    def patch(self, resource, namespace, name, body, content_type, subresource=""):
        with self.changed:
            old = self.get(resource, namespace, name)
            if content_type == "application/json-patch+json":
                new = json_patch(old, body)
            else:
                self._compare(resource, name, old, body)
                if subresource == "status":
                    body = {k: v for k, v in body.items() if k in ("status", "metadata")}
                new = merge(old, body, content_type == "application/strategic-merge-patch+json")
            return self._replace(resource, new, old)

    @staticmethod
    def _compare(resource, name, old, body):
        meta = body.get("metadata", {})
        if meta.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise invalid(resource, name, "metadata.uid", "field is immutable")
        version = meta.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": the object has been '
                          "modified; please apply your changes to the latest version and try again")

    def _replace(self, resource, new, old):
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        check(resource, new)
        return copy.deepcopy(old) if new == old else self._keep("MODIFIED", resource, new, old)

    def delete(self, resource, namespace, name):
        with self.changed:
            old = self.get(resource, namespace, name)
            return self._keep("DELETED", resource, copy.deepcopy(old), old)

    def compact(self):
        """Every version up to now is too old for a watch, as after a restart of the API server."""
        with self.changed:
            self.revision += 1
            self.compacted = self.revision


def check(resource, o):
    name = o["metadata"]["name"]
    if resource == "leases":
        for field in ("renewTime", "acquireTime"):
            value = o.get("spec", {}).get(field)
            if value is not None and not MICRO_TIME.fullmatch(value):
                raise Refused(400, "BadRequest", f'Lease in version "v1" cannot be handled as a Lease: parsing time '
                              f'"{value}" as "2006-01-02T15:04:05.000000Z07:00"')
    if resource == "events":
        if not MICRO_TIME.fullmatch(o.get("eventTime") or ""):
            raise invalid(resource, name, "eventTime", "Required value")
        if len((o.get("note") or "").encode()) > 1024:
            raise invalid(resource, name, "note", "can have at most 1024 bytes")
        if o.get("regarding", {}).get("namespace", "") not in ("", o["metadata"]["namespace"]):
            raise invalid(resource, name, "involvedObject.namespace", "does not match event.namespace")
        for field in ("action", "reason", "reportingController", "reportingInstance", "type"):
            if not o.get(field):
                raise invalid(resource, name, field, "Required value")


def json_patch(old, steps):
    new = copy.deepcopy(old)
    for step in steps:
        *path, last = [p.replace("~1", "/").replace("~0", "~") for p in step["path"].split("/")[1:]]
        at = new
        for key in path:
            at = at[int(key)] if isinstance(at, list) else at[key]
        if step["op"] == "test":
            if (at[int(last)] if isinstance(at, list) else at.get(last)) != step["value"]:
                raise Refused(422, "Invalid", f"the server rejected our request: test of {step['path']} failed")
        elif isinstance(at, list):
            if step["op"] == "add":
                at.insert(len(at) if last == "-" else int(last), step["value"])
            elif step["op"] == "remove":
                del at[int(last)]
            else:
                at[int(last)] = step["value"]
        elif step["op"] == "remove":
            del at[last]
        else:
            at[last] = step["value"]
    return new
