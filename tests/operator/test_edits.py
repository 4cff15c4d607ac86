"""However a site came to be what it is, what belongs to it is as if it had been so from the start."""

from typing import Any

import pytest

from harvest_operator.names import Key
from support.processes import wait_for
from support.scenes import SECONDS, Scene, site, two_aggregators

SPEC = site("hard")["spec"]
GMOND = {"name": "gmond", "ganglia": {"address": "gmond:8649"}}
DEPLOYMENT = ("Deployment", "harvest-hard-main")
TLS = ("tls.crt", "tls.key", "ca.crt")
LEDGER = ("PersistentVolumeClaim", "harvest-hard-main-ledger")


def ledgers(*aggregators: str) -> list[Key]:
    return [("PersistentVolumeClaim", f"harvest-hard-{name}-ledger") for name in aggregators]


@pytest.mark.parametrize(
    "spec",
    [
        {"filesystems": [SPEC["filesystems"][0], {"name": "work", "servers": ["oss5", "oss6"]}]},
        {"filesystems": [{"name": "home", "servers": ["oss[1-3]"]}, SPEC["filesystems"][1]]},
        {"sinks": [*SPEC["sinks"], GMOND]},
        {"interval": "30s"},
        {"filesystems": [*SPEC["filesystems"], {"name": "more", "servers": ["oss9"]}]},
        {"filesystems": SPEC["filesystems"][:1], "clusters": []},
        {"service": {"type": "LoadBalancer", "hostnames": ["harvest.example"]}},
    ],
    ids=["server-more", "server-less", "sink-more", "interval", "filesystem-more", "filesystem-less", "service"],
)
def test_an_edit_of_what_aggregators_read_again_by_themselves_starts_nothing_anew(
    served: Scene, spec: dict[str, Any]
) -> None:
    before = served.generation(DEPLOYMENT)
    served.edit(**spec)
    served.settle("the edited site")
    served.edit(**{name: SPEC.get(name) for name in spec})
    served.settle("the site as it was")
    assert served.generation(DEPLOYMENT) == before


def test_a_sink_less_takes_its_secret_out_of_the_pod(served: Scene) -> None:
    served.edit(sinks=[])
    served.settle("the edited site")
    pod = served.children()[DEPLOYMENT]["spec"]["template"]["spec"]
    assert "secrets" not in {volume["name"] for volume in pod["volumes"]}


def test_aggregators_come_and_go_and_their_ledgers_stay(served: Scene) -> None:
    served.edit(aggregators=two_aggregators())
    served.settle("two aggregators", kept=ledgers("main"))
    before = served.generation(("Deployment", "harvest-hard-b"))
    served.edit(aggregators=two_aggregators("c", "b"))
    served.settle("another one in the place of the first", kept=ledgers("main", "a"))
    assert served.generation(("Deployment", "harvest-hard-b")) == before, "nothing was changed about the second"
    served.edit(aggregators=[])
    served.settle("one aggregator again", kept=ledgers("a", "b", "c"))


def test_a_changed_secret_starts_anew_who_reads_it_once_and_a_relays_certificate_nobody(served: Scene) -> None:
    """The first of two aggregators relays, and reads its certificate with every call; both feed the sink."""
    served.secret("one", name="relay", keys=TLS)
    relay = {"cluster": "vu", "filesystems": ["home"], "endpoint": "vu:8023", "tlsSecretRef": {"name": "relay"}}
    served.edit(aggregators=two_aggregators(), relays=[relay])
    served.settle("two aggregators, of which one relays", kept=ledgers("main"))
    assert {name: secrets(served, name) for name in ("a", "b")} == {"a": ["influx", "relay"], "b": ["influx"]}
    first = {name: pods(served, name) for name in ("a", "b")}

    served.secret("two", name="relay", keys=TLS)
    served.edit(interval="30s")
    served.settle("a later look", kept=ledgers("main"))
    assert {name: pods(served, name) for name in ("a", "b")} == first

    served.secret("second")
    wait_for(lambda: all(pods(served, name) != first[name] for name in first), "new Pods of both", seconds=SECONDS)


def secrets(scene: Scene, aggregator: str) -> list[str]:
    """Return the Secrets that the Pods of an aggregator mount because the site names them."""
    pod = scene.children()["Deployment", f"harvest-hard-{aggregator}"]["spec"]["template"]["spec"]
    (volume,) = (one for one in pod["volumes"] if one["name"] == "secrets")
    return [one["secret"]["name"] for one in volume["projected"]["sources"]]


def pods(scene: Scene, aggregator: str) -> tuple[dict[str, str], int]:
    """Return the annotations of an aggregator's Pods, and how often what they are made from was changed."""
    found = scene.children()["Deployment", f"harvest-hard-{aggregator}"]
    return found["spec"]["template"]["metadata"]["annotations"], found["metadata"]["generation"]


def test_a_secret_that_is_missing_is_told_and_mends_itself_when_it_appears(served: Scene) -> None:
    served.api.delete(f"/api/v1/namespaces/{served.namespace}/secrets/influx")
    wait_for(lambda: served.ready()["reason"] == "MissingReference", "a condition that says so", seconds=SECONDS)
    assert "influx" in served.ready()["message"]
    before = served.generation(DEPLOYMENT)
    served.secret("third")
    wait_for(lambda: served.ready()["reason"] == "NotReady", "only Pods to be waited for", seconds=SECONDS)
    assert served.generation(DEPLOYMENT) != before
    served.settle("the Secret in use")
