"""Sites on a real API server: they become exactly the expected objects; what should go goes, what should stay stays."""

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from harvest_operator.names import ADOPT, key_of
from support.kubernetes.api import Api, ApiError
from support.kubernetes.clusters import Cluster
from support.kubernetes.resources import sites_path
from support.operators import applied, children, condition, operating, path_of, status_of
from support.processes import wait_for
from support.sites_in_kubernetes import CASES, DATA, expected, file_name, given, masked, masked_status

SECONDS = 120.0


def document(case: str, namespace: str, **spec: object) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((DATA / case / "site.yaml").read_text())
    body["metadata"]["namespace"] = namespace
    body["spec"] |= spec
    return body


def put(api: Api, namespace: str, case: str, **spec: object) -> str:
    """Make a case's site and what it refers to; return the site's name."""
    for one in given(case, now=datetime.now(UTC)):
        one["metadata"]["namespace"] = namespace
        api.apply(path_of(namespace, key_of(one)), one)
    body = document(case, namespace, **spec)
    name: str = body["metadata"]["name"]
    api.apply(f"{sites_path(namespace)}/{name}", body)
    return name


@pytest.fixture
def space(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[str]:
    """Give a namespace with an operator."""
    with operating(cluster.kubeconfig, tmp_path / "log", "--namespace", namespace):
        yield namespace


def test_sites_become_exactly_the_expected_objects_and_nothing_is_left_of_them(api: Api, space: str) -> None:
    sites = {case: put(api, space, case) for case in CASES}
    for case, site in sites.items():
        wanted = expected(case)
        status = wanted.pop("status")

        def settled(site: str = site, wanted: dict[str, Any] = wanted, status: dict[str, Any] = status) -> bool:
            told = status_of(api, space, site)
            there = children(api, space, site)
            return len(there) == len(wanted) and all(
                condition(told, one["type"]) == (one["status"], one["reason"]) for one in status["conditions"]
            )

        wait_for(settled, f"the objects and the status of {case}", seconds=SECONDS)
        there = {file_name(key): masked(applied(one)) for key, one in children(api, space, site).items()}
        assert sorted(there) == sorted(wanted)
        for name, content in wanted.items():
            assert there[name] == _here(content, space), name
        told = masked_status(status_of(api, space, site))
        assert [(one["name"], one["agents"]) for one in told["aggregators"]] == [
            (one["name"], one["agents"]) for one in status["aggregators"]
        ]
        assert told["agents"] == status["agents"]

    for site in sites.values():
        api.delete(f"{sites_path(space)}/{site}")
    stays = {
        ("Secret", "harvest-example-ca"),
        ("PersistentVolumeClaim", "harvest-example-main-ledger"),
    }
    wait_for(lambda: set(children(api, space, "example")) == stays, "the end of example", seconds=SECONDS)
    wait_for(lambda: not children(api, space, "split"), "the end of split, ledgers and all", seconds=SECONDS)
    assert api.find(path_of(space, ("Secret", "own-ca"))) is not None


def _here(content: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return what is expected, in this namespace."""
    one = copy.deepcopy(content)
    if one["kind"] == "ConfigMap":
        one["data"] = {
            key: text.replace(".harvest.svc", f".{namespace}.svc") if isinstance(text, str) else text
            for key, text in one["data"].items()
        }
    return one


def test_a_site_made_again_goes_on_with_a_kept_ledger_when_that_is_said(api: Api, space: str) -> None:
    path = f"{sites_path(space)}/{put(api, space, 'minimal')}"
    wait_for(lambda: len(children(api, space, "1")) == 8, "the site", seconds=SECONDS)
    before = children(api, space, "1")
    api.delete(path)
    wait_for(lambda: len(children(api, space, "1")) == 2, "the end of the site", seconds=SECONDS)
    put(api, space, "minimal")
    wait_for(
        lambda: condition(status_of(api, space, "1"), "Ready") == ("False", "NotAdopted"), "a refusal", seconds=SECONDS
    )
    assert ("Deployment", "harvest-1-main") not in children(api, space, "1")
    api.patch(path, {"metadata": {"annotations": {ADOPT: "true"}}})
    wait_for(lambda: len(children(api, space, "1")) == 8, "the site again", seconds=SECONDS)
    after = children(api, space, "1")
    for key in (("Secret", "harvest-1-ca"), ("PersistentVolumeClaim", "harvest-1-main-ledger")):
        assert after[key]["metadata"]["uid"] == before[key]["metadata"]["uid"]
    assert after["Secret", "harvest-1-ca"]["data"] == before["Secret", "harvest-1-ca"]["data"]


def test_a_site_that_only_we_can_refuse_is_refused_and_left_alone(api: Api, space: str) -> None:
    path = f"{sites_path(space)}/{put(api, space, 'minimal')}"
    wait_for(lambda: len(children(api, space, "1")) == 8, "the site", seconds=SECONDS)
    before = children(api, space, "1")
    servers = [{"name": "home", "servers": ["oss[1-2]"]}, {"name": "old", "fsname": "home", "servers": ["oss[2-3]"]}]
    api.patch(path, {"spec": {"filesystems": servers}})
    wait_for(
        lambda: condition(status_of(api, space, "1"), "Ready") == ("False", "InvalidSite"), "a refusal", seconds=SECONDS
    )
    (ready,) = (one for one in status_of(api, space, "1")["conditions"] if one["type"] == "Ready")
    assert "spec.filesystems[1].servers: 'home' has targets home-* on oss2, too" in ready["message"]
    assert [
        one["metadata"]["resourceVersion"] for key, one in children(api, space, "1").items() if key[0] != "Deployment"
    ] == [one["metadata"]["resourceVersion"] for key, one in before.items() if key[0] != "Deployment"]


@pytest.mark.parametrize("case", CASES)
def test_pods_keep_the_strictest_rules_that_kubernetes_has(api: Api, namespace: str, case: str) -> None:
    api.enforce(namespace, "restricted")
    templates = [one["spec"]["template"] for one in expected(case).values() if one.get("kind") == "Deployment"]
    pods = [{"apiVersion": "v1", "kind": "Pod", **one, "metadata": {"name": "tried"}} for one in templates]
    for pod in pods:
        api.post(f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
    del pods[0]["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(ApiError, match="violates PodSecurity"):
        api.post(f"/api/v1/namespaces/{namespace}/pods", pods[0], dryRun="All")
