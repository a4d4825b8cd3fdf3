"""Each right that controller/kube/role.h asks for is needed: without it something named fails, the controller says what it
lacks, and when it is granted all works without a restart. The API server has no streamed lists, so that `list` counts."""
import json
import os
import re

from bed.push import Key
from cluster.ground.pods import Account
from cluster.shop import ACCOUNT, ROOT, eventually, role

LONG = bool(os.environ.get("FAIRLEAD_E2E_LONG"))
ROW = re.compile(r'X\("(\w+)",\s*"([\w.]*)",\s*"(\w+)",\s*(\w+),\s*"(\w+)"\)')


def rows():
    """(verb, group, resource, what it is needed for) of role.h."""
    text = (ROOT / "controller" / "kube" / "role.h").read_text(encoding="utf-8")
    return [(verb, group, resource, why) for verb, group, resource, _, why in ROW.findall(text)]


def without(documents, verb, group, resource):
    """The role less one right."""
    taken = 0
    for d in documents:
        for rule in d.get("rules", []):
            if rule["apiGroups"] == [group] and rule["resources"] == [resource] and verb in rule["verbs"]:
                rule["verbs"] = [v for v in rule["verbs"] if v != verb]
                taken += 1
        if "rules" in d:
            d["rules"] = [rule for rule in d["rules"] if rule["verbs"]]
    assert taken == 1, (verb, group, resource, taken)
    return documents


class Tenant:
    """A controller with a role of its own, in a namespace of its own: its Lease is nobody else's."""

    def __init__(self, plane, row):
        self.plane, self.row, self.home = plane, row, plane.namespace("role")
        self.lease = f"/apis/coordination.k8s.io/v1/namespaces/{self.home.name}/leases/fairlead-controller"

    def start(self, shop, key):
        verb, _, resource, _ = self.row
        name = f"{verb}-{resource}"
        pod = self.home.pod(name, serviceAccountName=ACCOUNT)
        config = {"source": "kubernetes", "push": {"signing_key_file": key.private},
                  "leader_election": {"namespace": self.home.name, "name": "fairlead-controller"},
                  "backends": {"minio": {"protocol": "http", "probe": {"type": "tcp", "interval": "1s"}, "service": {
                      "namespace": shop.name, "name": "minio", "port": "s3"}}}}
        self.program = pod.controller(config, account=Account(self.home, ACCOUNT, pod=pod), wait=False,
                                      env={"POD_NAME": name})

    def ready(self):
        response = self.program.ask("GET", "/_/ready")
        assert response.status in (200, 503)
        return response.status, json.loads(response.body)

    def pods(self):
        return [p["name"] for p in self.program.admin("/_/api/admin/pods")["pods"]]

    def events(self):
        """Those that this controller wrote."""
        return [e for e in self.plane.api.get("/apis/events.k8s.io/v1/events")["items"]
                if (e.get("reportingInstance") or "").startswith(self.program.name.split()[-1] + "_")]

    def whole(self):
        status, ready = self.ready()
        return status == 200 and ready["leader"] and ready["role"] == "" and ready["fault"] == "" and \
            ready["election"] == "" and self.pods() == ["app"]


def fails(tenant):
    """Is what the right is for missing, and is it said?"""
    verb, _, resource, why = tenant.row
    status, ready = tenant.ready()
    if why == "reports":
        said = tenant.program.events("an event cannot be written", verb=verb, status=403)
        return bool(said) and status == 200 and (verb == "patch" or not tenant.events())
    if why == "election":
        return not ready["leader"] and f"cannot {verb} Lease" in ready["election"] and \
            "deploy/manifests/controller-rbac.yaml" in ready["election"]
    blind = (status, ready["membership"]) == (503, "waiting") if verb == "list" and why == "membership" else \
        verb == "watch" or tenant.pods() == []
    return blind and f"may not {verb} {resource} (403)" in ready["fault"]


def test_each_right_has_an_effect_and_its_lack_is_said_and_healed(new_plane, tmp_path):
    plane, key = new_plane(apiserver_flags=["--feature-gates=WatchList=false"]), Key(str(tmp_path))
    table = rows()
    assert len(table) >= 11 and len(set(table)) == len(table)
    with plane.network():
        shop = plane.namespace("shop")
        shop.service("minio", {"s3": 9000})
        store = shop.pod("store", labels={"app": "minio"}).origin(9000)
        shop.pod("app", labels={"fairlead.dev/injected": "true"},  # nobody answers there: Events about it
                 containers=[{"name": "fairlead", "image": "none"}])
        tenants = [Tenant(plane, row) for row in table]
        plane.apply([d for t in tenants for d in without(role(t.home.name), *t.row[:3])])
        for t in tenants:
            t.start(shop, key)
        patcher = next(t for t in tenants if t.row[:3:2] == ("patch", "events"))
        for i in range(3 if LONG else 0):  # the same fact again: counted in its Event, once a minute
            store.refuse()
            eventually("it is seen", lambda: len(patcher.program.events("backend unhealthy")) > i, 60)
            store.listen()
            eventually("and its end", lambda: len(patcher.program.events("backend recovered")) > i, 60)
        for t in tenants:
            verb, _, resource, why = t.row
            line = t.program.wait_event("the role of this controller lacks something", 60)
            assert line["level"] == "error" and re.search(rf"\b{verb} {resource}\b.*\({why}\)", line["cause"]), line
            assert line["cause"].endswith("of deploy/manifests/controller-rbac.yaml"), line
            eventually("it can be asked", lambda: f"{verb} {resource}" in t.ready()[1]["role"])
            if (verb, resource) != ("patch", "events") or LONG:  # an Event is patched once a minute
                eventually(f"what {verb} {resource} is for fails", lambda: fails(t), 120 if LONG else 40)
        plane.apply([d for t in tenants for d in role(t.home.name)])
        for t in tenants:
            eventually(f"{t.row} is granted, and all is well", t.whole, 90)
            t.program.wait_event("the role of this controller allows all that it needs")
            assert len(t.program.events("the role of this controller lacks something")) <= 2
