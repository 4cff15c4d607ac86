"""What others do to a site's children is repaired where it is the site's, and left alone where it is theirs."""

import base64
from typing import Any

import pytest

from harvest_operator.names import Key
from harvest_pki.certificates import load_bundle
from support.operators import path_of
from support.processes import wait_for
from support.scenes import SECONDS, Scene

JUNK = "anVuaw=="
CA, TOKEN, TLS = (("Secret", f"harvest-hard-{name}") for name in ("ca", "token", "main-tls"))
DEPLOYMENT, SERVICE, CONFIG = ((kind, "harvest-hard-main") for kind in ("Deployment", "Service", "ConfigMap"))
LEDGER = ("PersistentVolumeClaim", "harvest-hard-main-ledger")
VOLUME, PORT = "/spec/template/spec/volumes/5", "/spec/template/spec/containers/0/ports/0/containerPort"
CHANGES: list[tuple[Key, Any]] = [
    (DEPLOYMENT, {"spec": {"replicas": 3}}),
    (DEPLOYMENT, {"spec": {"template": {"spec": {"automountServiceAccountToken": True}}}}),
    (DEPLOYMENT, {"metadata": {"ownerReferences": None}}),
    (DEPLOYMENT, [{"op": "replace", "path": VOLUME, "value": {"name": "tmp", "hostPath": {"path": "/"}}}]),
    (DEPLOYMENT, [{"op": "replace", "path": PORT, "value": 9000}]),
    (SERVICE, {"spec": {"ports": [{"name": "grpc", "port": 1, "nodePort": None}]}}),
    (SERVICE, {"spec": {"type": "ClusterIP"}}),
    (SERVICE, {"spec": {"selector": {"app": "another"}}}),
    (SERVICE, {"metadata": {"labels": {"lustreharvest.dev/site": "another"}}}),
    (CONFIG, {"data": {"site.yaml": "nonsense"}}),
    (CONFIG, {"data": None}),
    (LEDGER, {"metadata": {"labels": None}}),
    (TLS, {"data": {"tls.crt": JUNK}}),
    (TLS, {"data": {"tls.key": None}}),
    (TOKEN, {"data": None}),
]


@pytest.mark.parametrize("place", range(len(CHANGES)), ids=lambda place: f"{CHANGES[place][0][0]}-{place}")
def test_a_child_that_somebody_changed_is_repaired(served: Scene, place: int) -> None:
    key, change = CHANGES[place]
    before = served.children()[key]
    served.api.patch(path_of(served.namespace, key), change)
    served.settle("the repaired child")
    after = served.api.get(path_of(served.namespace, key))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    if key[0] != "Secret":
        assert without_numbers(after) == without_numbers(before)


def without_numbers(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what counts its changes; what others own of it stays in."""
    metadata = {name: found["metadata"].get(name) for name in ("labels", "annotations", "ownerReferences")}
    metadata["annotations"].pop("deployment.kubernetes.io/revision", None)
    for port in found.get("spec", {}).get("ports", ()):
        port.pop("nodePort", None)
    return {**{name: found.get(name) for name in ("spec", "data")}, "metadata": metadata}


@pytest.mark.parametrize(
    "key", [DEPLOYMENT, SERVICE, CONFIG, LEDGER, TLS, TOKEN, CA], ids=lambda key: f"{key[0]}-{key[1]}"
)
def test_a_child_that_somebody_deleted_is_made_again(served: Scene, key: Key) -> None:
    before = served.children()[key]["metadata"]["uid"]
    served.api.delete(path_of(served.namespace, key))
    if key == LEDGER:  # Kubernetes keeps it while a Pod wants it
        served.api.delete(path_of(served.namespace, DEPLOYMENT))

    def again() -> bool:
        found = served.api.find(path_of(served.namespace, key))
        return found is not None and found["metadata"]["uid"] != before

    wait_for(again, "a new one", seconds=SECONDS)
    if key == CA:
        forget_the_lost_ca(served)
    served.settle("the child, and what depends on it")


def forget_the_lost_ca(served: Scene) -> None:
    """Rotate: until then, one that is lost stays trusted beside the new one."""

    def trusted() -> int:
        found = served.api.find(path_of(served.namespace, CA))
        return 0 if found is None else len(load_bundle(base64.b64decode(found["data"]["ca.crt"])))

    wait_for(lambda: trusted() == 2, "a new CA beside the one that is lost", seconds=SECONDS)
    served.annotate(rotate_ca="lost", finish_ca_rotation="lost")


def test_a_broken_ca_is_told_and_nothing_is_made_with_it(served: Scene) -> None:
    before = served.children()[TLS]["data"]
    served.api.patch(path_of(served.namespace, CA), {"data": {"tls.key": JUNK}})

    def told() -> bool:
        conditions = {one["type"]: (one["status"], one["reason"]) for one in served.status()["conditions"]}
        return conditions["CertificatesValid"] == ("False", "CaUnusable")

    wait_for(told, "a condition that says so", seconds=SECONDS)
    assert served.children()[TLS]["data"] == before, "agents go on with what they have"
    served.api.delete(path_of(served.namespace, CA))
    forget_the_lost_ca(served)
    served.settle("a new CA, and certificates of it")


def test_what_others_put_on_children_and_on_the_site_stays(served: Scene) -> None:
    mark = {"labels": {"team.example/of": "storage"}, "annotations": {"team.example/note": "mine"}}
    for key in served.children():
        served.api.apply_object(
            {"apiVersion": "apps/v1" if key == DEPLOYMENT else "v1", "kind": key[0]}
            | {"metadata": {"name": key[1], "namespace": served.namespace, **mark}},
            manager="team",
        )
    served.api.patch(served.path, {"metadata": mark})
    sidecar = [{"name": "theirs", "image": "images.example/theirs:1"}]
    pod = {"template": {"spec": {"containers": sidecar}}}
    served.api.apply_object(
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": pod}
        | {"metadata": {"name": DEPLOYMENT[1], "namespace": served.namespace, **mark}},
        manager="team",
    )
    served.edit(interval="30s", service={"type": "ClusterIP"})
    served.api.patch(path_of(served.namespace, DEPLOYMENT), {"spec": {"replicas": 2}})
    served.annotate(rotate_ca="one", finish_ca_rotation="one")
    served.settle("the edited site")
    for found in [*served.children().values(), served.api.get(served.path)]:
        metadata = found["metadata"]
        assert metadata["labels"]["team.example/of"] == "storage", found["kind"]
        assert metadata["annotations"]["team.example/note"] == "mine", found["kind"]
        assert not [name for name in metadata.get("finalizers", []) if "harvest" in name]
    containers = served.children()[DEPLOYMENT]["spec"]["template"]["spec"]["containers"]
    assert {one["name"] for one in containers} == {"aggregator", "theirs"}


def test_an_object_of_somebody_else_that_has_the_name_is_left_alone(served: Scene) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "harvest-hard-a"},
        "spec": {"ports": [{"port": 1}]},
    }
    path = path_of(served.namespace, ("Service", "harvest-hard-a"))
    before = served.api.apply(path, theirs, manager="team")
    served.edit(aggregators=[{"name": "a", "filesystems": ["home", "work"]}])
    wait_for(lambda: served.ready()["reason"] == "NameTaken", "a condition that says so", seconds=SECONDS)
    assert served.api.get(path)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    served.api.delete(path)
    served.settle("the aggregator", kept=[LEDGER])
