"""What several folders of tests share: one Kubernetes per run, which only tests that ask for it pay for."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from support.kubernetes.api import Api
    from support.kubernetes.clusters import Cluster
    from support.kubernetes.control_plane import ControlPlane
    from support.kubernetes.node import Node

settings.register_profile("busy", deadline=None)  # how long an example takes is the machine's matter
settings.load_profile("busy")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """Give the cluster of this run, with HarvestSites installed: the one that is named, kind's, or our own."""
    from support.kubernetes import clusters, resources  # noqa: PLC0415

    with clusters.running(tmp_path_factory.mktemp("cluster"), name=f"harvest-{uuid.uuid4().hex[:8]}") as given:
        resources.install(given.kubeconfig)
        yield given


@pytest.fixture(scope="session")
def control_plane(cluster: "Cluster", tmp_path_factory: pytest.TempPathFactory) -> "Iterator[ControlPlane]":
    """Give a control plane of our own, whose programs may be restarted and whose audit log can be read."""
    from support.kubernetes import clusters, resources  # noqa: PLC0415

    if cluster.control_plane is not None:
        yield cluster.control_plane
        return
    with clusters.control_plane(tmp_path_factory.mktemp("control-plane")) as own:
        resources.install(own.admin)
        yield own


@pytest.fixture
def api(cluster: "Cluster") -> "Api":
    """Give the API of the cluster, with all rights."""
    from support.kubernetes.api import Api  # noqa: PLC0415

    return Api(cluster.kubeconfig)


@pytest.fixture
def namespace(api: "Api") -> Iterator[str]:
    """Give a namespace of the test's own."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def image_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the archive of `make images`, of this tree."""
    from packing.programs import pack  # noqa: PLC0415

    path = tmp_path_factory.mktemp("images") / "images.tar"
    for image in pack(path):
        print(f"{image.name}: {image.size_bytes / 1e6:.1f} MB")
    return path


@pytest.fixture(scope="session")
def node(image_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Node]":
    """Give a cluster with a real node that has our images, and HarvestSites installed."""
    from support.kubernetes import node, resources  # noqa: PLC0415

    with node.running(tmp_path_factory.mktemp("node")) as own:
        own.load(image_archive)
        resources.install(own.control_plane.admin)
        yield own
