"""Servers of several file systems, and file systems of one fsname: every total is where it belongs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alive.scenes import closed, opened, run, wrong
from demo.comparison import Difference, differences, told_totals
from demo.installation import Installation
from demo.play import MDS, OSS, Play, settings

pytestmark = pytest.mark.timeout(300)
"""A scene takes as long as it takes; on a machine with much else to do, everything around it does, too."""


def test_servers_of_two_file_systems_are_accounted_by_file_system(tmp_path: Path) -> None:
    play = opened(tmp_path, seconds=12, simulated=settings(event_seconds=3.0, fsnames=("home", "scratch")))
    try:
        run(play)

        assert wrong(play) == []
        told = play.installation.get("/api/v1/targets")["targets"]
        where = {(target["server"], target["filesystem"], target["name"]) for target in told}
        site = play.live.site
        assert where == {
            (server, name.split("-")[0], name) for server in site.servers for name in site.targets_on(server)
        }
        totals = told_totals(play.installation.jobs())
        for kind in ("ost", "mdt"):
            assert _work(totals, "home", kind)
            assert _work(totals, "scratch", kind)
    finally:
        closed(play)


def test_two_file_systems_of_one_fsname_stay_apart(tmp_path: Path) -> None:
    """An old and a new scratch side by side, with the same job ids at the same time."""
    both = settings(event_seconds=3.0)
    simulated = {
        "old": replace(both, oss={name: OSS[name] for name in ("oss1", "oss2")}, mds={"mds1": MDS["mds1"]}),
        "new": replace(both, oss={"oss3": OSS["oss3"]}, mds={"mds2": MDS["mds2"]}, seed=2),
    }
    here = Installation(
        tmp_path, filesystems={name: ("scratch", [*site.oss, *site.mds]) for name, site in simulated.items()}
    )
    plays = {name: Play(here, site, for_seconds=12) for name, site in simulated.items()}
    plays["old"].start()
    try:
        while not all(play.live.is_over for play in plays.values()):
            for play in plays.values():
                play.step()
        for play in plays.values():
            play.settle()

        jobs = here.jobs()
        for name, play in plays.items():
            assert _wrong_on(name, play, jobs) == []
        totals = told_totals(jobs)
        shared = _work(totals, "old", "ost").keys() & _work(totals, "new", "ost").keys()
        assert len({job for job, _ in shared}) > 3
        assert {filesystem for filesystem, *_ in totals} == {"old", "new"}
    finally:
        here.stop()
        for play in plays.values():
            play.live.face.close()


def _work(
    totals: dict[tuple[str, str, str, str], tuple[int, int]], filesystem: str, kind: str
) -> dict[tuple[str, str], tuple[int, int]]:
    return {where[2:]: numbers for where, numbers in totals.items() if where[:2] == (filesystem, kind)}


def _wrong_on(name: str, play: Play, jobs: list[dict[str, Any]]) -> list[Difference]:
    """Compare one file system with its own simulated site, which calls it scratch."""
    own = [{**job, "filesystems": {"scratch": job["filesystems"][name]}} for job in jobs if name in job["filesystems"]]
    return [found for found in differences(play.live.site.truth, own) if not found.is_flagged]
