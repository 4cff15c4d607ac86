"""The end of a site: nothing is left that should not be, and nothing is lost that should stay."""

from dataclasses import replace

import pytest

from harvest_operator.names import Key
from support.forked_operators import ForkedOperator, working
from support.kubernetes.api import Api
from support.processes import wait_for
from support.scenes import SECONDS, Scene, two_aggregators

CA = ("Secret", "harvest-hard-ca")
OTHERS = {"events", "serviceaccounts", "rolebindings", "leases"}
"""Kinds of which the namespace has objects of its own."""


def everything(api: Api, namespace: str) -> set[Key]:
    """Return all that is in a namespace, of whatever kind, but what Kubernetes and the test put there."""
    found: set[Key] = set()
    groups = ["/api/v1", *(f"/apis/{one['preferredVersion']['groupVersion']}" for one in api.get("/apis")["groups"])]
    for group in groups:
        for kind in api.get(group)["resources"]:
            name = kind["name"]
            if kind["namespaced"] and "list" in kind["verbs"] and "/" not in name and name not in OTHERS:
                items = api.get(f"{group}/namespaces/{namespace}/{name}").get("items") or []
                found |= {(kind["kind"], one["metadata"]["name"]) for one in items}
    return found - {("ConfigMap", "kube-root-ca.crt"), ("Secret", "influx")}


@pytest.mark.parametrize("watched", [True, False], ids=["operator-there", "operator-gone"])
@pytest.mark.parametrize("reclaim", ["Retain", "Delete"])
def test_a_deleted_site_leaves_what_it_says_and_no_more(
    scene: Scene, operator: ForkedOperator, *, watched: bool, reclaim: str
) -> None:
    stays = {CA, *(("PersistentVolumeClaim", f"harvest-hard-{name}-ledger") for name in ("a", "b"))}
    scene.put(aggregators=two_aggregators(), ledger={"reclaim": reclaim})
    with working(operator):
        scene.settle("the site")
        if watched:
            scene.api.delete(scene.path)
            left(scene, stays if reclaim == "Retain" else set())
    if not watched:
        scene.api.delete(scene.path)
        left(scene, stays if reclaim == "Retain" else set())
        with working(operator):
            another = replace(scene, name="another")  # whose children show that it has looked around
            another.put()
            another.settle("another site")
            left(scene, stays if reclaim == "Retain" else set(), beside="another")


def left(scene: Scene, wanted: set[Key], beside: str = "nothing") -> None:
    def there() -> set[Key]:
        return {key for key in everything(scene.api, scene.namespace) if beside not in key[1]}

    wait_for(lambda: there() == wanted, f"{wanted} and nothing else: there is {there()}", seconds=SECONDS)


def test_a_site_that_changes_its_mind_about_its_ledger(served: Scene) -> None:
    served.edit(ledger={"reclaim": "Delete"})
    served.settle("a ledger that goes with the site")
    served.edit(ledger={"reclaim": "Retain"})
    served.settle("a ledger that stays")
    served.api.delete(served.path)
    left(served, {CA, ("PersistentVolumeClaim", "harvest-hard-main-ledger")})


def test_a_site_made_again_goes_on_with_a_kept_ledger_when_that_is_said(served: Scene) -> None:
    kept = {key: one for key, one in served.children().items() if key == CA or key[0] == "PersistentVolumeClaim"}
    served.api.delete(served.path)
    left(served, set(kept))
    served.put()
    wait_for(lambda: served.status().get("conditions"), "a word about it", seconds=SECONDS)
    assert served.ready()["reason"] == "NotAdopted"
    assert {key: one["metadata"]["resourceVersion"] for key, one in served.children().items() if key in kept} == {
        key: one["metadata"]["resourceVersion"] for key, one in kept.items()
    }
    served.annotate(adopt="true")
    served.settle("the site, with its ledger")
    for key, one in kept.items():
        after = served.children()[key]
        assert after["metadata"]["uid"] == one["metadata"]["uid"]
        assert after.get("data") == one.get("data"), "agents go on with the certificates that they have"
