"""Whatever fails while a site is brought into order, it ends as if nothing had."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.forked_operators import ForkedOperator, allowed, working
from support.kubernetes.control_plane import ControlPlane
from support.processes import wait_for
from support.proxy import Proxy, before
from support.scenes import SECONDS, Scene, two_aggregators

LEDGERS = [("PersistentVolumeClaim", f"harvest-hard-{name}-ledger") for name in ("main", "a")]


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[Proxy]:
    with before(control_plane.server, control_plane.credentials.ca.certificate) as running:
        yield running


@pytest.fixture
def behind(control_plane: ControlPlane, proxy: Proxy, space: str, tmp_path: Path) -> ForkedOperator:
    """Give an operator that knows the API server through the proxy alone."""
    return ForkedOperator(allowed(control_plane, space, server=proxy.url), tmp_path / "operator.log", space)


def killed_after(writes: int, proxy: Proxy, operator: ForkedOperator, scene: Scene, kept: int) -> int:
    """Start operators one after another, each killed when so much was written, until all is done; return how many."""
    killed = 0

    def written() -> None:
        nonlocal killed
        if len(proxy.writes) == first + writes:
            killed += 1
            operator.kill()

    proxy.written = written
    reached = scene.goal(LEDGERS[:kept])
    while not reached():
        first, started = len(proxy.writes), killed
        operator.start()
        wait_for(lambda: not operator.is_alive() or reached(), "a write", seconds=SECONDS)
        assert operator.is_alive() or killed > started, operator.log.read_text()[-3000:]
        operator.kill()
        operator.wait()
    proxy.written = None
    return killed


@pytest.mark.parametrize("writes", [1, 2])
def test_killed_between_any_two_writes_the_next_one_goes_on(
    writes: int, proxy: Proxy, behind: ForkedOperator, scene: Scene
) -> None:
    """Each writes so much and no more; events count, and nobody learns that the last write was done."""
    scene.put()
    assert killed_after(writes, proxy, behind, scene, 0) >= 8 // writes
    scene.edit(aggregators=two_aggregators(), interval="30s")
    assert killed_after(writes, proxy, behind, scene, 1) >= 12 // writes
    scene.edit(aggregators=two_aggregators("c", "b"), sinks=[])
    assert killed_after(writes, proxy, behind, scene, 2) >= 8 // writes
    with working(behind):
        count = len(proxy.writes)
        scene.annotate(look="again")
        scene.settle("the site, looked at once more", kept=LEDGERS)
        changed = [path for _, path in proxy.writes[count:] if not path.endswith(("/status", "/events"))]
    assert changed == []


def test_two_operators_by_mistake_do_no_harm(
    control_plane: ControlPlane, operator: ForkedOperator, scene: Scene, space: str, tmp_path: Path
) -> None:
    other = ForkedOperator(allowed(control_plane, space), tmp_path / "other.log", space)
    with working(operator), working(other):
        scene.put()
        scene.settle("the site")
        scene.edit(aggregators=two_aggregators(), interval="30s")
        scene.settle("the edited site", kept=LEDGERS[:1])
        scene.annotate(rotate_ca="one", finish_ca_rotation="one")
        scene.edit(aggregators=two_aggregators("c", "b"))
        scene.settle("another CA, and another aggregator", kept=LEDGERS)


def test_an_api_server_that_was_away_is_taken_up_again(
    control_plane: ControlPlane, operator: ForkedOperator, scene: Scene
) -> None:
    scene.put()
    with working(operator):
        scene.settle("the site")
        control_plane.kill_one("kube-apiserver")
        control_plane.start_apiserver()
        scene.edit(interval="30s")
        scene.settle("the edited site")
        scene.api.delete(f"/apis/apps/v1/namespaces/{scene.namespace}/deployments/harvest-hard-main")
        scene.settle("the Deployment again")


def test_an_operator_that_starts_while_the_api_server_is_away_waits_for_it(
    control_plane: ControlPlane, operator: ForkedOperator, scene: Scene
) -> None:
    scene.put()
    control_plane.kill_one("kube-apiserver")
    try:
        with working(operator):
            wait_for(lambda: operator.logged("waiting for Kubernetes"), "a word about it", seconds=SECONDS)
            control_plane.start_apiserver()
            scene.settle("the site")
    finally:
        if "kube-apiserver" not in control_plane.processes:
            control_plane.start_apiserver()


def test_watches_that_are_cut_are_begun_again(proxy: Proxy, behind: ForkedOperator, scene: Scene) -> None:
    scene.put()
    with working(behind):
        scene.settle("the site")
        for interval in ("30s", "40s"):
            proxy.cut()
            scene.edit(interval=interval)
            scene.settle("the site that was edited while nobody watched")
        proxy.refusing = True
        proxy.cut()
        scene.edit(interval="50s")
        scene.api.delete(f"/api/v1/namespaces/{scene.namespace}/services/harvest-hard-main")
        wait_for(lambda: proxy.refused, "somebody who wanted to watch", seconds=SECONDS)
        proxy.refusing = False
        scene.settle("the site that was edited while nobody could watch")
