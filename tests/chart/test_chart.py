"""The chart: what it installs, and what it refuses to."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harvest_site.crd import definition
from support.chart import CHART, FORMS, NAMESPACE, OPERATOR, helm, of_kind, rendered, template
from support.kubernetes.api import Api, ApiError
from support.kubernetes.clusters import Cluster
from support.kubernetes.programs import prometheus_rules
from support.kubernetes.resources import DEFINITIONS, established, sites_path
from support.processes import wait_for

ELSEWHERE = ("namespaces={a,b}", "images.prefix=registry.example/hpc/", "images.tag=v1", "images.pullSecrets={pull}")


every_form = pytest.mark.parametrize("form", FORMS, ids=[form.stem.removesuffix("-values") for form in FORMS])


@every_form
def test_helm_has_nothing_to_complain_about(form: Path) -> None:
    linted = helm("lint", "--strict", "--values", str(form), str(CHART))
    assert linted.returncode == 0, linted.stdout


@every_form
def test_the_same_values_give_the_same_bytes(form: Path) -> None:
    assert template(form=form) == template(form=form)


def test_what_is_rendered_does_not_depend_on_what_the_cluster_knows() -> None:
    """Neither here nor in a cluster that has other APIs, or lacks them."""
    for source in (CHART / "templates").iterdir():
        text = source.read_text()
        assert ".Capabilities" not in text, source
        assert "lookup" not in text, source


def objects_of(values: dict[str, Any], path: str = "") -> Iterator[str]:
    """Return every place of the values at which an unknown key may stand, but those that take any label."""
    yield path
    for key, value in values.items():
        if isinstance(value, dict) and key not in {"nodeSelector", "labels", "requests", "limits"}:
            yield from objects_of(value, f"{path}{key}.")


@pytest.mark.parametrize("place", list(objects_of(yaml.safe_load((CHART / "values.yaml").read_text()))))
def test_an_unknown_value_is_refused_wherever_it_stands(place: str) -> None:
    ran = helm("template", "harvest", str(CHART), "--set", f"{place}unheard=1")
    assert ran.returncode != 0
    assert "unheard is not allowed" in ran.stderr


@pytest.mark.parametrize(
    "setting",
    [
        "operator.replicas=2",
        "images.pullPolicy=Sometimes",
        "images.prefix=registry.example",
        "rules.enabled=maybe",
        "join.service.externalTrafficPolicy=Here",
    ],
)
def test_nonsense_and_more_than_one_operator_are_refused(setting: str) -> None:
    ran = helm("template", "harvest", str(CHART), "--set", setting)
    assert ran.returncode != 0
    assert "values don't meet the specifications of the schema" in ran.stderr


def test_the_definition_is_the_one_of_the_model_and_stays_by_default() -> None:
    crd = of_kind(rendered(), "CustomResourceDefinition")
    assert crd["spec"] == definition()["spec"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in of_kind(rendered("crds.keep=false"), "CustomResourceDefinition")["metadata"]
    assert "CustomResourceDefinition" not in {one["kind"] for one in rendered("crds.enabled=false")}


def test_the_operator_is_one_restricted_pod() -> None:
    spec = of_kind(rendered(), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod = spec["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}


def test_an_operator_of_some_namespaces_has_rights_in_these_alone() -> None:
    objects = rendered(*ELSEWHERE)
    bindings = [one for one in objects if one["kind"].endswith("Binding")]
    assert [(one["kind"], one["metadata"].get("namespace"), one["roleRef"]["name"]) for one in bindings] == [
        ("ClusterRoleBinding", None, f"{OPERATOR}-signing"),
        ("RoleBinding", "a", OPERATOR),
        ("RoleBinding", "b", OPERATOR),
    ]
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/hpc/harvest-operator:v1"
    assert container["args"] == [
        "--aggregator-image=registry.example/hpc/harvest-aggregator:v1",
        "--image-pull-policy=IfNotPresent",
        "--image-pull-secret=pull",
        "--namespace=a",
        "--namespace=b",
        "--health=0.0.0.0:8026",
        "--join=0.0.0.0:8025",
    ]


def test_servers_join_at_a_service_of_the_operator() -> None:
    service = of_kind(rendered("join.service.nodePort=30025"), "Service")
    assert service["metadata"]["name"] == "harvest-join"
    port = {"name": "join", "port": 8025, "targetPort": "join", "protocol": "TCP", "nodePort": 30025}
    assert (service["spec"]["type"], service["spec"]["ports"]) == ("NodePort", [port])
    pod = of_kind(rendered(), "Deployment")["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert {"name": "join", "containerPort": 8025, "protocol": "TCP"} in pod["spec"]["containers"][0]["ports"]
    assert service["spec"]["externalTrafficPolicy"] == "Cluster"
    without = rendered("join.enabled=false")
    assert "Service" not in {one["kind"] for one in without}
    (container,) = of_kind(without, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert not any("join" in json.dumps(one) for one in (container["args"], container["ports"]))


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_servers_may_be_told_apart_by_their_addresses(kind: str) -> None:
    local = ("join.service.externalTrafficPolicy=Local", f"join.service.type={kind}")
    assert of_kind(rendered(*local), "Service")["spec"]["externalTrafficPolicy"] == "Local"


def test_a_service_that_nobody_outside_reaches_says_nothing_of_where_he_comes_from() -> None:
    """Kubernetes refuses it."""
    inner = of_kind(rendered("join.service.type=ClusterIP"), "Service")["spec"]
    assert (inner["type"], "externalTrafficPolicy" in inner) == ("ClusterIP", False)


def test_images_are_pulled_with_the_same_secrets_by_the_operator_and_its_aggregators() -> None:
    pod = of_kind(rendered("images.pullSecrets={pull,other}"), "Deployment")["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "pull"}, {"name": "other"}]
    told = [one for one in pod["containers"][0]["args"] if one.startswith("--image-pull-secret")]
    assert told == ["--image-pull-secret=pull", "--image-pull-secret=other"]


def test_dashboards_are_the_files_and_have_the_label_that_grafana_looks_for() -> None:
    found = [one for one in rendered("dashboards.enabled=true") if one["kind"] == "ConfigMap"]
    wanted = {f"harvest-{path.name}": path.read_text() for path in (CHART / "files/dashboards").iterdir()}
    assert {name: text for one in found for name, text in one["data"].items()} == wanted
    assert {one["metadata"]["labels"]["grafana_dashboard"] for one in found} == {"1"}
    assert len({one["metadata"]["name"] for one in found}) == len(wanted)


def test_prometheus_rules_are_the_files() -> None:
    found = [one for one in rendered("rules.enabled=true", "rules.labels.release=a") if one["kind"] == "PrometheusRule"]
    files = sorted((CHART / "files/rules").iterdir())
    assert [one["spec"] for one in found] == [yaml.safe_load(path.read_text()) for path in files]
    assert {one["metadata"]["labels"]["release"] for one in found} == {"a"}


def test_neither_is_there_unless_asked_for() -> None:
    assert not {one["kind"] for one in rendered()} & {"ConfigMap", "PrometheusRule"}


@pytest.fixture(scope="module")
def with_prometheus(cluster: Cluster) -> Iterator[Api]:
    """Give a cluster that knows PrometheusRules, as where the Prometheus operator is installed."""
    api = Api(cluster.kubeconfig)
    definition = yaml.safe_load(prometheus_rules().read_text())
    path = f"{DEFINITIONS}/{definition['metadata']['name']}"
    theirs = api.find(path) is not None
    if not theirs:
        api.post(DEFINITIONS, definition)
    wait_for(lambda: established(api, path), "the definition of PrometheusRules")
    yield api
    if not theirs:
        api.delete(path)


@every_form
def test_a_real_api_server_takes_all_of_it(form: Path, with_prometheus: Api, namespace: str) -> None:
    """Also in a namespace that takes restricted Pods only."""
    api = with_prometheus
    api.enforce(namespace, "restricted")
    objects = json.loads(json.dumps(rendered(form=form)).replace(NAMESPACE, namespace))
    for one in objects:
        if "namespace" in one["metadata"]:
            one["metadata"]["namespace"] = namespace
        taken = api.apply_object(one, dry_run=True)
        assert taken["metadata"]["uid"], one
    template_of_pod = of_kind(objects, "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": template_of_pod["spec"]}
    account = {"metadata": {"name": OPERATOR}}
    api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    api.post(f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")


def test_a_prometheus_rule_that_is_none_is_refused_there(with_prometheus: Api, namespace: str) -> None:
    """Else the definition would prove nothing."""
    (one, *_) = (one for one in rendered("rules.enabled=true") if one["kind"] == "PrometheusRule")
    one["metadata"]["namespace"] = namespace
    one["spec"]["groups"][0]["rules"][0]["for"] = "a while"
    with pytest.raises(ApiError, match=r"rules\[0\].for"):
        with_prometheus.apply_object(one, dry_run=True)


NOTES = {
    "": {"kubectl apply -f site.yaml", "sites of all namespaces", "kubectl delete crd"},
    "crds.enabled=false": {"WARNING: HarvestSites were not installed"},
    "crds.keep=false": {"WARNING: uninstalling this chart deletes HarvestSites"},
    "images.pullSecrets={a,b}": {"WARNING: aggregators pull their image", "the Secrets a, b must be there"},
    "rules.enabled=true": {"WARNING: most Prometheus select"},
    "namespaces={a,b}": {"sites of a, b."},
    "agents.enabled=true,agents.site.namespace=default,agents.site.name=example,namespaces={a}": {
        "WARNING: the operator does not serve namespace default",
        "sites of a.",
    },
    "agents.enabled=true,agents.site.namespace=default,agents.site.name=example": {
        "Agents of the site default/example run on all nodes",
        "kubectl logs daemonset/harvest-agents --container enrol --namespace default",
    },
}


@pytest.mark.usefixtures("with_prometheus")
@pytest.mark.parametrize("setting", list(NOTES))
def test_the_notes_warn_of_what_may_surprise(setting: str, cluster: Cluster) -> None:
    settings = ("--kubeconfig", str(cluster.kubeconfig), *(("--set", setting) if setting else ()))
    told = helm("install", "harvest", str(CHART), "--dry-run=client", "--take-ownership", *settings)
    assert told.returncode == 0, told.stderr
    notes = " ".join(told.stdout.partition("NOTES:")[2].split())
    assert {part for part in NOTES[setting] if part not in notes} == set()
    assert notes.count("WARNING") == sum(part.startswith("WARNING") for part in NOTES[setting])
    assert notes.index("kubectl delete hs --all") < notes.index("helm uninstall harvest")


def test_installed_and_uninstalled_it_leaves_nothing_but_the_sites(cluster: Cluster, api: Api, namespace: str) -> None:
    site = {"metadata": {"name": "stays"}, "spec": {"filesystems": [{"name": "home", "servers": ["oss1"]}]}}
    head = {"apiVersion": "lustreharvest.dev/v1alpha1", "kind": "HarvestSite"}
    api.post(sites_path(namespace), head | site)
    here = ("harvest", "--namespace", namespace, "--kubeconfig", str(cluster.kubeconfig))
    installed = helm("install", *here, str(CHART), "--take-ownership")  # tests have the definition already
    assert installed.returncode == 0, installed.stderr
    assert "kubectl apply -f site.yaml" in installed.stdout
    assert f"helm uninstall harvest --namespace {namespace}" in installed.stdout
    role = api.path_of("rbac.authorization.k8s.io/v1", "ClusterRole", None) + f"/{OPERATOR}"
    deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/{OPERATOR}"
    assert api.find(role)
    assert api.find(deployment)
    uninstalled = helm("uninstall", *here)
    assert uninstalled.returncode == 0, uninstalled.stderr
    assert api.find(role) is None
    assert api.find(deployment) is None
    assert api.get(f"{sites_path(namespace)}/stays")["spec"]["filesystems"]
