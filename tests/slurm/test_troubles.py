"""A real Slurm that is away or hangs: totals stay exact, the trouble is named, and nobody asks too often."""

import time
from dataclasses import dataclass, field
from functools import partial

import pytest

from support.slurm import SlurmCluster
from support.slurm_site import SlurmSite

pytestmark = pytest.mark.timeout(400)
PERIOD = 1  # of the site's agent


@dataclass
class Asked:
    """How often the controller was asked for all its jobs since then, as it counts itself."""

    slurm: SlurmCluster
    before: int
    began: float = field(default_factory=time.monotonic)

    def is_fair(self) -> bool:
        """Tell whether it was asked, and at most once per period."""
        asked = asked_for(self.slurm) - self.before
        return 3 <= asked <= (time.monotonic() - self.began) / PERIOD + 1


def asked_for(slurm: SlurmCluster) -> int:
    return slurm.questions().get("REQUEST_JOB_INFO", 0)


def answers(site: SlurmSite, count: int) -> None:
    """Wait for some more answers."""
    before = site.metric("harvest_slurm_answered_seconds")
    site.wait(lambda: site.metric("harvest_slurm_answered_seconds") >= before + count * PERIOD, "answers")


def test_slurm_away_hung_and_back_changes_no_total_and_is_asked_once_per_period(
    site: SlurmSite, slurm: SlurmCluster
) -> None:
    job = slurm.submit("exec sleep 600", user="games", account="physics")
    slurm.wait_for(job, "RUNNING")
    site.work(job, 10)
    site.wait(lambda: site.is_in(job, "RUNNING", "running") and site.is_well(), "a running job")
    well = Asked(slurm, asked_for(slurm))
    answers(site, 5)
    assert well.is_fair()

    def goes_on_with(problem: str) -> None:
        """See that the trouble is named, and that nothing else changes."""
        failed = site.metric("harvest_slurm_failed_queries_total")
        site.wait(partial(site.is_named, problem), f"that is told: {problem}")
        assert site.metric("harvest_slurm_failed_queries_total") > failed
        site.work(job, 20)
        site.settle()
        assert site.differences() == []
        assert site.is_in(job, "RUNNING", "running")  # the last known
        assert site.harvest.is_ready()

    slurm.stop_controller()
    try:
        goes_on_with("slurm_load_jobs: ")
    finally:
        again = Asked(slurm, 0)  # it counts from its start
        slurm.start_controller()
    slurm.wait_for(job, "RUNNING")
    site.wait(site.is_well, "Slurm to be well again")
    answers(site, 5)
    assert again.is_fair()

    hung = Asked(slurm, asked_for(slurm))
    with slurm.hung():
        goes_on_with("slurm_load_jobs: ")
    site.wait(site.is_well, "Slurm to be well again")
    answers(site, 5)
    assert hung.is_fair()

    slurm.cancel(job)
    site.wait(lambda: site.is_in(job, "CANCELLED", "ended"), "its end")
    assert site.differences() == []
    assert site.get("attribution?by=account")["rows"][0]["write_bytes"] == 4 * (10 + 20 + 20)
