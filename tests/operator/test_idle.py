"""An operator that has nothing to do does nothing: it writes nothing, and costs next to nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.forked_operators import ForkedOperator, allowed, working
from support.idle_operators import MOST_RSS_BYTES, idle, wait_until_idle
from support.kubernetes.control_plane import ControlPlane
from support.operators import path_of
from support.processes import wait_for
from support.scenes import SECONDS, Scene, two_aggregators

READS = {"get", "list", "watch"}
SITES = 8
IDLE_SECONDS = 15
MOST_CPU_SECONDS = 0.1
"""The long form's budget, shared by time and sites, is two ticks of the kernel's clock: here it is ten."""


class Audited:
    """What the API server says of an operator."""

    def __init__(self, plane: ControlPlane, space: str) -> None:
        self._plane = plane
        self._user = f"system:serviceaccount:{space}:{space}"

    def writes(self) -> list[str]:
        """Return every write that was asked for, also one that was refused."""
        return [f"{one['verb']} {one['requestURI']}" for one in self._requests() if one["verb"] not in READS]

    def looks(self) -> int:
        """Return how often the site was looked at: it is read first, and not before the last look is over."""
        reads = (one for one in self._requests() if one["verb"] == "get")
        return sum(one.get("objectRef", {}).get("resource") == "harvestsites" for one in reads)

    @contextmanager
    def looking(self, what: str, *, times: int = 1) -> Iterator[None]:
        """Wait until the site was looked at so often since the beginning of the block."""
        before = self.looks()
        yield
        wait_for(lambda: self.looks() >= before + times, f"a look after {what}", seconds=SECONDS)

    def _requests(self) -> list[dict[str, Any]]:
        return [one for one in self._plane.audited(self._user) if one["user"]["username"] == self._user]


def test_a_look_that_finds_nothing_to_do_writes_nothing(
    control_plane: ControlPlane, scene: Scene, space: str, tmp_path: Path
) -> None:
    """By the API server's audit log: after what others wrote, after a new start, and when it is simply time again."""
    kubeconfig = allowed(control_plane, space)
    operator = ForkedOperator(kubeconfig, tmp_path / "operator.log", space)
    hasty = ForkedOperator(kubeconfig, tmp_path / "hasty.log", space, resync_seconds=0.2)
    audited = Audited(control_plane, space)
    note = {"metadata": {"annotations": {"team.example/note": "mine"}}}
    scene.put(aggregators=two_aggregators())
    with working(operator):
        scene.settle("the site")
        wait_until_idle(scene.api, space, seconds=SECONDS)
        for number in ("one", "two"):  # when the second look begins, nothing of before is under way
            with audited.looking("a note on the site"):
                scene.annotate(look=number)
        before = audited.writes()
        assert len(before) > len(scene.children()), "it is this operator that made the site"
        for key in scene.children():
            with audited.looking(f"a note on {key}"):
                scene.api.patch(path_of(space, key), note)
    with working(operator), audited.looking("a new start", times=2):
        pass
    with working(hasty), audited.looking("a while", times=5):
        pass
    assert audited.writes() == before


def test_sites_where_nothing_happens_cost_next_to_nothing(
    control_plane: ControlPlane, space: str, tmp_path: Path
) -> None:
    """The long form has a hundred sites, and five minutes."""
    cost = idle(control_plane, space, tmp_path / "log", sites=SITES, seconds=IDLE_SECONDS, limit=SECONDS)
    assert cost.cpu_seconds < MOST_CPU_SECONDS, cost
    assert cost.rss_bytes < MOST_RSS_BYTES, cost
