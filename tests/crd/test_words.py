"""What the API server says of single fields: the words that a stand-alone aggregator uses."""

import re
from typing import Any

import pytest

from harvest_site.loading import SiteError, checked
from support.kubernetes.api import Api, ApiError
from support.kubernetes.clusters import Cluster
from support.kubernetes.resources import sites_path

INFLUX = {"org": "o", "bucket": "b", "tokenSecretRef": {"name": "t", "key": "k"}}
TABLE: dict[str, object] = {"clusters": [{"name": "vu", "hosts": [{"table": [{"nid": "nowhere", "host": "n1"}]}]}]}


def aggregator(**fields: object) -> dict[str, object]:
    return {"aggregators": [{"name": "main", "filesystems": ["home"], **fields}]}


CASES: list[tuple[dict[str, object], str, str]] = [
    ({"interval": "five"}, "interval", "write a whole number and its unit, such as 10m"),
    ({"ledger": {"retention": "1h"}}, "ledger.retention", "write a duration from 1d to 36500d"),
    ({"ledger": {"retention": "999999999d"}}, "ledger.retention", "write a duration from 1d to 36500d"),
    ({"interval": "1500ms"}, "interval", "write one, such as 1s"),
    ({"deadline": "99ms"}, "deadline", "write a duration from 100ms to 5m"),
    ({"ledger": {"retention": "36501d"}}, "ledger.retention", "write a duration from 1d to 36500d"),
    (
        {"ledger": {"storage": {"size": "10GB"}}},
        "ledger.storage.size",
        "write a whole number and its unit, such as 1Pi",
    ),
    ({"ledger": {"storage": {"size": "1023Mi"}}}, "ledger.storage.size", "write a size from 1Gi to 1Pi"),
    ({"service": {"addresses": ["10.0.0.256"]}}, "service.addresses[0]", "write one, such as 192.0.2.7 or 2001:db8::7"),
    ({"service": {"addresses": ["fe80::1%eth0"]}}, "service.addresses[0]", "write one, such as 192.0.2.7 or"),
    ({"service": {"addresses": ["::ffff:10.0.0.1"]}}, "service.addresses[0]", "write one, such as 192.0.2.7 or"),
    ({"service": {"hostnames": ["a b"]}}, "service.hostnames[0]", "write a host name, such as harvest.example"),
    (
        {"certificates": {"denySerials": ["xyz"]}},
        "certificates.denySerials[0]",
        "write the serial as hexadecimal digits",
    ),
    (
        {"sinks": [{"name": "i", "influxdb": INFLUX | {"url": "u:p@h"}}]},
        "sinks[0].influxdb.url",
        "write an address such as",
    ),
    (
        {"clusters": [{"name": "a", "lnets": ["tcp0"]}]},
        "clusters[0].lnets[0]",
        "write a Lustre network as servers print it",
    ),
    (
        {"clusters": [{"name": "a", "nids": ["10.1.0.0/16@o2ib"]}]},
        "clusters[0].nids[0]",
        "write a range such as 10.1.[0-3]",
    ),
    (
        {"filesystems": [{"name": "home", "servers": ["oss["]}]},
        "filesystems[0].servers[0]",
        "write a host name or a list",
    ),
    ({"filesystems": [{"name": "scratch-new", "servers": ["s"]}]}, "filesystems[0]", "write Lustre's own name of it"),
    (aggregator(name="Main"), "aggregators[0].name", "write 1 to 20 small letters"),
    (aggregator(nodeSelector={"a b": "c"}), "aggregators[0].nodeSelector", "write the key of a label"),
    (aggregator(nodeSelector={"a": "b c"}), "aggregators[0].nodeSelector[a]", "write the value of a label"),
    (
        aggregator(resources={"limits": {"cpu": "two"}}),
        "aggregators[0].resources.limits[cpu]",
        "write a quantity in quotes",
    ),
]


@pytest.fixture(scope="module")
def asked(cluster: Cluster) -> Api:
    return Api(cluster.kubeconfig)


def site(spec: dict[str, object], name: str = "example") -> dict[str, Any]:
    return {
        "apiVersion": "lustreharvest.dev/v1alpha1",
        "kind": "HarvestSite",
        "metadata": {"name": name},
        "spec": {"filesystems": [{"name": "home", "servers": ["oss1"]}], **spec},
    }


def refused(asked: Api, document: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ApiError) as caught:
        asked.post(sites_path("default"), document, dryRun="All", fieldValidation="Strict")
    return caught.value.causes


@pytest.mark.parametrize(("spec", "field", "words"), CASES, ids=range(len(CASES)))
def test_a_field_is_refused_with_the_same_words(spec: dict[str, object], field: str, words: str, asked: Api) -> None:
    causes = refused(asked, site(spec))
    assert [(one, said) for one, said in causes if one == f"spec.{field}" and words in said], causes
    assert len(causes) == 1, "and nothing else is said"
    with pytest.raises(SiteError, match=re.escape(words)):
        checked(site(spec))


def test_a_table_of_thousands_of_nodes_is_checked_in_kubernetes_words(asked: Api) -> None:
    """Rules of our own would cost the API server too much there."""
    ((field, said),) = refused(asked, site(TABLE))
    assert field == "spec.clusters[0].hosts[0].table[0].nid"
    assert "should match" in said


def test_a_site_has_a_name_that_fits_into_those_of_its_parts(asked: Api) -> None:
    ((_, said),) = refused(asked, site({}, name="a" * 31))
    assert "write 1 to 30 small letters, digits and '-', such as example" in said


def test_status_is_written_beside_the_site_only(asked: Api, namespace: str) -> None:
    path = sites_path(namespace)
    created = asked.post(path, site({}) | {"status": {"agents": "1/1"}})
    assert "status" not in created
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Waiting",
        "message": "no aggregator yet",
        "lastTransitionTime": "2026-11-18T00:00:00Z",
    }
    told = {"observedGeneration": 1, "conditions": [condition], "agents": "0/1", "aggregators": [{"name": "main"}]}
    answer = asked.patch(f"{path}/example/status", {"status": told, "spec": {"interval": "5s"}})
    assert answer["status"] == told
    assert answer["spec"]["interval"] == "20s"
    assert answer["metadata"]["generation"] == 1


def test_two_managers_share_the_lists_of_a_site(asked: Api, namespace: str) -> None:
    """Who applies a cluster of his own takes away nobody's."""
    path = f"{sites_path(namespace)}/example"
    asked.apply(path, site({"clusters": [{"name": "vu", "lnets": ["o2ib"]}]}), manager="storage")
    other = site({"clusters": [{"name": "xe", "lnets": ["tcp"]}]})
    del other["spec"]["filesystems"]
    asked.apply(path, other, manager="compute")
    assert [one["name"] for one in asked.get(path)["spec"]["clusters"]] == ["vu", "xe"]
