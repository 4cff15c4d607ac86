"""Each right of the operator is needed: without it what its reason names breaks, and is mended once it is back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.chart import reasons
from support.forked_operators import ForkedOperator, allowed, working
from support.kubernetes.control_plane import ControlPlane
from support.processes import wait_for
from support.scenes import SECONDS, Scene, two_aggregators

RULES = {"/".join(rule["resources"]): rule for _, rule in reasons()}
Lacking = Callable[[str], Any]


@pytest.fixture
def lacking(control_plane: ControlPlane, space: str, tmp_path: Path) -> Lacking:
    """Give what runs an operator that lacks a rule."""

    @contextmanager
    def run(rule: str) -> Iterator[ForkedOperator]:
        kubeconfig = allowed(control_plane, space, without=RULES[rule])
        with working(ForkedOperator(kubeconfig, tmp_path / "operator.log", space)) as operator:
            yield operator

    return run


@pytest.mark.parametrize("rule", ["deployments", "services", "configmaps", "secrets", "persistentvolumeclaims"])
def test_a_site_that_cannot_be_seen_whole_is_left_alone_and_says_which_right_is_missing(
    control_plane: ControlPlane, scene: Scene, lacking: Lacking, rule: str
) -> None:
    scene.put()
    with lacking(rule):
        wait_for(lambda: scene.status().get("conditions"), "a word about it", seconds=SECONDS)
        ready = scene.ready()
        assert (ready["status"], ready["reason"]) == ("False", "Refused")
        assert f'cannot list resource "{rule}"' in ready["message"]
        assert scene.children() == {}, "of what is there nothing must be made a second time"
        allowed(control_plane, scene.namespace)
        scene.settle("the site, with the right back")


def test_without_the_right_to_tell_a_site_runs_untold(
    control_plane: ControlPlane, scene: Scene, lacking: Lacking
) -> None:
    scene.put()
    wanted = scene.wanted()
    with lacking("harvestsites/status") as operator:
        complaint = 'cannot patch resource \\"harvestsites/status\\"'
        wait_for(lambda: operator.log.exists() and complaint in operator.log.read_text(), "a word", seconds=SECONDS)
        assert scene.state() == wanted
        assert scene.status() == {}
        allowed(control_plane, scene.namespace)
        scene.settle("the site, told with the right back")


def test_without_the_right_to_post_events_a_site_runs_and_nobody_is_told_what_was_done(
    control_plane: ControlPlane, scene: Scene, lacking: Lacking
) -> None:
    def posted() -> set[str]:
        events = scene.api.get(f"/api/v1/namespaces/{scene.namespace}/events")["items"]
        return {one["reason"] for one in events if one["source"].get("component") == "harvest-operator"}

    scene.put()
    with lacking("events") as operator:
        scene.settle("the site")
        assert operator.logged("an event could not be posted")
        assert posted() == set()
        allowed(control_plane, scene.namespace)
        wait_for(lambda: may_post(scene), "the right", seconds=SECONDS)
        scene.edit(aggregators=two_aggregators())
        wait_for(lambda: "Pruned" in posted(), "an event, with the right back", seconds=SECONDS)


def may_post(scene: Scene) -> bool:
    """Tell whether the API server has taken up the right: an event is posted once."""
    asked = {"namespace": scene.namespace, "verb": "create", "resource": "events"}
    user = f"system:serviceaccount:{scene.namespace}:{scene.namespace}"
    review = {"spec": {"user": user, "resourceAttributes": asked}}
    found = scene.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(found["status"]["allowed"])
