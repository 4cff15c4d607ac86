"""HarvestSites in a cluster of tests."""

from pathlib import Path
from typing import Final

import yaml

from support.kubernetes.api import Api
from support.processes import wait_for

ROOT: Final = Path(__file__).parents[3]
CRD: Final = ROOT / "charts/harvest/files/harvestsites.yaml"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def sites_path(namespace: str) -> str:
    """Return the path of a namespace's sites."""
    return f"/apis/lustreharvest.dev/v1alpha1/namespaces/{namespace}/harvestsites"


def install(kubeconfig: Path) -> None:
    """Define HarvestSites as the chart does, and wait until the API server knows them."""
    api = Api(kubeconfig)
    definition = yaml.safe_load(CRD.read_text())
    path = f"{DEFINITIONS}/{definition['metadata']['name']}"
    api.apply(path, definition, force=True)
    wait_for(lambda: established(api, path), "the definition of HarvestSites")
    wait_for(lambda: api.find(sites_path("default")) is not None, "the API of HarvestSites")


def established(api: Api, path: str) -> bool:
    """Tell whether the API server has taken up a definition."""
    conditions = api.get(path).get("status", {}).get("conditions") or []
    return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)
