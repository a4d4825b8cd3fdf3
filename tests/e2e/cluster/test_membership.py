"""Members of a Service reach the sidecars: from real EndpointSlices, over the controller's watch and push."""
import pytest

from cluster.shop import Shop, eventually, peers


@pytest.fixture
def shop(plane, tmp_path):
    made = Shop(plane, tmp_path)
    made.ns.service("minio", {"s3": 9000})
    return made


def addresses(*pods):
    return sorted(f"{p.address}:9000" for p in pods)


def test_members_come_and_go_and_traffic_follows(shop):
    a, b = shop.store("a"), shop.store("b")
    c = shop.controller()
    app = shop.app()
    eventually("both peers in the sidecar", lambda: peers(app) == addresses(a, b))
    assert app.call("PUT", "/releases/x", body=b"1").status == 200
    b.delete()
    eventually("one peer", lambda: peers(app) == addresses(a))
    assert app.call("PUT", "/releases/x", body=b"1").status == 200
    ready = c.admin("/_/ready")
    assert ready["status"] == "ready" and ready["leader"] is True and ready["role"] == ""


def test_a_pod_that_is_not_ready_or_ends_is_the_last_resort(shop):
    a, b = shop.store("a"), shop.store("b")
    shop.controller()
    app = shop.app()
    eventually("both", lambda: peers(app) == addresses(a, b))

    def tiers():
        backend = next(x for x in app.admin("/_/api/admin/backends")["backends"] if x["name"] == "minio")
        return {p["address"]: p["tier"] for p in backend["peers"]}

    b.annotate(**{"ground/hold": "true"})
    b.delete(wait=False)  # Terminating, and it still serves
    eventually("b is the last resort", lambda: tiers() == {f"{a.address}:9000": "primary",
                                                           f"{b.address}:9000": "last_resort"})
    a.annotate(**{"ground/ready": "false"})
    eventually("a is out", lambda: tiers() == {f"{b.address}:9000": "last_resort"})
    assert app.call("PUT", "/releases/x", body=b"1").status == 200  # by the one that ends: better than none


def test_what_a_hand_written_slice_says_counts_and_its_end_empties_only_its_part(shop):
    a = shop.store("a")
    shop.controller()
    app = shop.app()
    shop.ns.slice("more", "minio", {"10.244.77.1": {"ready": True}, "10.244.77.2": {"ready": False, "serving": False}},
                  {"s3": 9001})
    eventually("the union, each slice with its own port",
               lambda: peers(app) == sorted([f"{a.address}:9000", "10.244.77.1:9001"]))
    shop.plane.api.delete(f"/apis/discovery.k8s.io/v1/namespaces/{shop.ns.name}/endpointslices/more")
    eventually("its own part", lambda: peers(app) == addresses(a))


def test_annotations_choose_backends_and_a_bad_one_costs_its_own_route(shop):
    a = shop.store("a")
    shop.ns.service("other", {"web": 9100})
    o = shop.store("o", service="other", port=9100)
    c = shop.controller()
    app = shop.app(annotations={"route.fairlead.dev/releases": "minio", "route.fairlead.dev/web": "other:web",
                                "route.fairlead.dev/typo": "mini0"})
    name = f"other.{shop.ns.name}:web"
    eventually("both backends", lambda: peers(app) == addresses(a) and peers(app, name) == [f"{o.address}:9100"])
    assert app.call("PUT", "/releases/x", body=b"1").status == 200
    bad = app.get("/typo/x")
    assert bad.status == 503 and b"minio" in bad.body  # the nearest name

    def shown():
        return next(p for p in c.admin("/_/api/admin/pods")["pods"] if p["id"] == app.pod.uid)

    pod = shown()
    assert pod["config_ok"] is False and "route.fairlead.dev/typo" in pod["config_findings"][0]
    assert c.metrics().sum("fairlead_controller_annotation_errors", namespace=shop.ns.name,
                           reason="unknown_backend") == 1
    eventually("an Event about it", lambda: any(
        e["reason"] == "InvalidAnnotation" and e["regarding"]["name"] == "app" and "route.fairlead.dev/typo" in e["note"]
        for e in shop.ns.events()))
    # A live edit that is bad keeps the good route; the good one comes back with the next good edit.
    app.pod.annotate(**{"route.fairlead.dev/releases": "mini0"})
    eventually("it is said", lambda: len(shown()["config_findings"]) >= 2)
    assert app.call("PUT", "/releases/x", body=b"1").status == 200
    app.pod.annotate(**{"route.fairlead.dev/releases": "minio", "route.fairlead.dev/typo": "minio"})
    eventually("all good", lambda: app.call("PUT", "/typo/x", body=b"1").status == 200)


def test_two_namespaces_with_one_name_for_different_backends_do_not_mix(shop):
    a = shop.store("a")
    there = shop.plane.namespace("there")
    there.service("minio", {"s3": 9000})
    b = there.pod("b", labels={"app": "minio"})
    b.origin(9000)
    c = shop.controller()
    first = shop.app(annotations={"route.fairlead.dev/x": "minio:s3"})
    shop.ns = there
    second = shop.app(name="app2", annotations={"route.fairlead.dev/x": "minio:s3"})
    eventually("each its own", lambda: peers(first, f"minio.{first.pod.namespace.name}:s3") == addresses(a)
               and peers(second, f"minio.{there.name}:s3") == addresses(b))
    shown = {x["name"] for x in c.admin("/_/api/admin/backends")["backends"]}
    assert {f"{first.pod.namespace.name}/minio:s3", f"{there.name}/minio:s3"} <= shown
