"""What docs/KUBERNETES.md says to apply is taken by a real API server, under the strictest Pod Security."""
import pathlib

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.mark.parametrize("path", ["deploy/manifests/controller-rbac.yaml", "deploy/manifests/controller.yaml",
                                  "examples/kubernetes/app.yaml"])
def test_manifests_are_accepted(plane, path):
    ns = plane.namespace("docs", RESTRICTED)
    documents = list(yaml.safe_load_all((ROOT / path).read_text(encoding="utf-8")))
    for d in documents:  # namespaces of the cluster's own
        if d["metadata"].get("namespace"):
            d["metadata"]["namespace"] = ns.name
    said = plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-n", ns.name, "-f", "-",
                         input="---\n".join(yaml.safe_dump(d) for d in documents))
    assert len(said.splitlines()) == len(documents), said
