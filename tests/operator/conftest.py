"""A namespace, an operator with the chart's rights in it, and a site."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.forked_operators import ForkedOperator, allowed, working
from support.kubernetes.api import Api
from support.kubernetes.control_plane import ControlPlane
from support.scenes import Scene


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Api:
    return Api(control_plane.admin)


@pytest.fixture
def space(admin: Api) -> Iterator[str]:
    """Give a namespace of the test's own."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    admin.post("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    admin.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def operator(control_plane: ControlPlane, space: str, tmp_path: Path) -> ForkedOperator:
    """Give an operator of the namespace that does not run yet."""
    return ForkedOperator(allowed(control_plane, space), tmp_path / "operator.log", space)


@pytest.fixture
def scene(admin: Api, space: str) -> Scene:
    """Give a site that is not there yet."""
    return Scene(admin, space, "hard")


@pytest.fixture
def served(scene: Scene, operator: ForkedOperator) -> Iterator[Scene]:
    """Give a site that an operator has brought into order, and keeps so."""
    scene.put()
    with working(operator):
        scene.settle("the site")
        yield scene
