"""The chart's agents: what their Pods may do, and what is refused."""

import re
import shlex
from typing import Any

import pytest

from support.chart import CHART, helm, of_kind, rendered
from support.kubernetes.api import Api, ApiError

ON = ("agents.enabled=true", "agents.site.namespace=storage", "agents.site.name=example")
AGENTS = "harvest-agents"
PAGE = CHART.parents[1] / "docs/how-to/agents-in-kubernetes.md"


def pod(*settings: str) -> dict[str, Any]:
    spec: dict[str, Any] = of_kind(rendered(*ON, *settings), "DaemonSet")["spec"]["template"]["spec"]
    return spec


def test_agents_are_there_only_if_asked_for() -> None:
    objects = rendered()
    assert "DaemonSet" not in {one["kind"] for one in objects}
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert not any(one.startswith("--agents") for one in container["args"])


def test_the_operator_is_told_whose_requests_are_those_of_agents() -> None:
    objects = rendered(*ON)
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    accounts = [one["metadata"] for one in objects if one["kind"] == "ServiceAccount"]
    (account,) = (f"{one['namespace']}:{one['name']}" for one in accounts if one["name"] == AGENTS)
    assert f"--agents={account}=storage/example" in container["args"]


@pytest.mark.parametrize("missing", ["namespace", "name"])
def test_agents_without_a_site_are_refused(missing: str) -> None:
    ran = helm("template", "harvest", str(CHART), "--set", ",".join([*ON, f"agents.site.{missing}="]))
    assert ran.returncode != 0
    assert f"agents.site.{missing}: String length must be greater than or equal to 1" in ran.stderr


def test_the_nodes_files_are_read_only_and_come_from_where_the_values_say() -> None:
    spec = pod("agents.lustreRoot=/srv/copy/")
    (agent,) = spec["containers"]
    paths = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    assert paths == {
        "proc": "/srv/copy/proc",
        "sys": "/srv/copy/sys",
        "spool": "/var/lib/harvest-agent/storage.example",
    }
    writable = {one["name"] for one in agent["volumeMounts"] if not one.get("readOnly")}
    assert writable == {"spool"}
    assert {one["hostPath"]["path"] for one in pod()["volumes"] if one["name"] in {"proc", "sys"}} == {"/proc", "/sys"}


def test_only_what_enrols_has_a_token_and_nobody_has_a_capability() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    (enrol,), (agent,) = spec["initContainers"], spec["containers"]
    assert "account" in {one["name"] for one in enrol["volumeMounts"]}
    assert "account" not in {one["name"] for one in agent["volumeMounts"]}
    for container in (enrol, agent):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert "hostPID" not in spec


def test_agents_may_ask_for_certificates_and_read_one_config_map() -> None:
    objects = rendered(*ON)
    own = {one["kind"]: one for one in objects if one["metadata"]["name"] == AGENTS and "rules" in one}
    assert own["ClusterRole"]["rules"] == [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get"]}
    ]
    assert own["Role"]["metadata"]["namespace"] == "storage"
    assert own["Role"]["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["harvest-example-agents"],
            "verbs": ["get"],
        }
    ]


def test_a_namespace_takes_their_pods_if_it_is_labelled_as_the_page_says(api: Api, namespace: str) -> None:
    one = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {**pod(), "nodeSelector": {"no": "where"}},
    }
    api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": AGENTS}})
    (level,) = set(re.findall(r"pod-security.kubernetes.io/enforce=(privileged)", PAGE.read_text()))
    api.enforce(namespace, "restricted")
    with pytest.raises(ApiError, match="violates PodSecurity"):
        api.post(f"/api/v1/namespaces/{namespace}/pods", one, dryRun="All")
    api.enforce(namespace, level)
    assert api.post(f"/api/v1/namespaces/{namespace}/pods", one, dryRun="All")["spec"]["hostNetwork"]


def test_the_pages_command_gives_agents() -> None:
    (command,) = re.findall(r"^helm upgrade .*$", PAGE.read_text(), re.MULTILINE)
    _, _, release, chart, *options = shlex.split(command)
    options.remove("--reset-then-reuse-values")
    shown = helm("template", release, str(CHART.parents[1] / chart), *options)
    assert shown.returncode == 0, shown.stderr
    assert "--site=harvest/example" in shown.stdout
    assert "--reset-then-reuse-values" in helm("upgrade", "--help").stdout
