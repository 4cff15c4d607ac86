"""A Slurm in trouble, through a real agent and a real aggregator: totals stay exact, and whoever looks is told."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from support.fake_slurm import FakeSlurm
from support.slurm_site import SLURM_HOST, SlurmSite

pytestmark = pytest.mark.timeout(400)
PERIOD = 1
RUNNING = {
    "job_id": 7,
    "user_name": "alice",
    "account": "physics",
    "job_state": ["RUNNING"],
    "start_time": {"set": True, "infinite": False, "number": 1700000100},
}
ACCOUNTED = "7|7|1000|alice|users|physics|batch|CANCELLED by 1000|1700000000|1700000100|1700000150|1|0:15|sleep"
PRINTED = "7|7|1000|alice|users|physics|batch|RUNNING|1700000000|1700000100|1700003700|1|0:0|0|sleep"
LINE = "{0}|{0}|{1}|user{1}|users|account{2}|batch|RUNNING|1700000000|1700000100|1700003700|4|0:0|0|job number {0}"
MANY = 100_000
LIVE = ("running", "quiet")
TROUBLES = {
    "garbage": "the JSON ends too early, or is none",
    "fail": "squeue failed with code 1: slurm_load_jobs error: Unable to contact slurm controller",
    "hang": "squeue did not answer in 5 s",
    "missing": "there is no command",
}


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path / "slurm")


@contextmanager
def following(slurm: FakeSlurm, period_seconds: int = PERIOD, limit_seconds: float = 5.0) -> Iterator[SlurmSite]:
    """Follow its jobs; it is asked at most once per period, from the first moment to the last."""
    commands = {name: str(slurm.folder / name) for name in ("squeue", "sacct")}
    site = SlurmSite(
        slurm.folder.parent / "site", **commands, period_seconds=period_seconds, limit_seconds=limit_seconds
    )
    began = time.monotonic()
    site.start()
    try:
        yield site
        asked, seconds = len(slurm.calls("squeue")), time.monotonic() - began
        assert asked <= seconds / period_seconds + 2  # what squeue can print is found out once
    finally:
        site.stop()


def written_by(site: SlurmSite, whose: str) -> dict[str, int]:
    return {row[whose]: row["write_bytes"] for row in site.get(f"attribution?by={whose}")["rows"]}


def test_whatever_squeue_does_totals_are_exact_and_the_trouble_is_named(slurm: FakeSlurm) -> None:
    slurm.shows(RUNNING)
    slurm.prints(PRINTED)  # what was too slow as JSON is asked for as text
    with following(slurm) as site:
        site.work(7, 100)
        site.wait(lambda: site.is_in(7, "RUNNING", "running") and site.is_well(), "a job that is known")
        written = 400
        for size, (mode, problem) in enumerate(TROUBLES.items(), 1):
            failed = site.metric("harvest_slurm_failed_queries_total")
            slurm.does(mode)
            site.wait(partial(site.is_named, problem), f"{mode} to be told as {problem}")
            assert site.metric("harvest_slurm_failed_queries_total") > failed
            site.work(7, size)
            site.work(b"cp.1000", size)
            site.settle()
            written += 4 * size
            assert site.differences() == []
            assert site.is_in(7, "RUNNING", *LIVE)  # the last known
            assert written_by(site, "account") == {"physics": written}
            assert site.harvest.is_ready()
            slurm.does("well")
            site.wait(site.is_well, f"Slurm to be well after {mode}")

        slurm.accounts(ACCOUNTED)
        slurm.shows()
        slurm.prints()
        site.wait(lambda: site.is_in(7, "CANCELLED", "ended"), "an empty queue")
        assert site.is_well()
        assert site.differences() == []
        assert written_by(site, "account") == {"physics": written}


def test_an_agent_that_is_gone_is_named_as_a_slurm_that_does_not_answer(slurm: FakeSlurm) -> None:
    slurm.shows(RUNNING)
    with following(slurm) as site:
        site.work(7, 100)
        site.wait(lambda: site.is_in(7, "RUNNING", "running") and site.is_well(), "a job that is known")
        site.agent.kill()
        del site.harvest.agents[SLURM_HOST]  # it is meant to be away
        site.wait(partial(site.is_named, "its agent slurm1 is not connected"), "its absence to be told")
        site.work(7, 5)
        site.settle()
        assert site.differences() == []
        assert site.is_in(7, "RUNNING", *LIVE)


def test_a_hundred_thousand_jobs_cost_no_sweep_and_no_total(slurm: FakeSlurm) -> None:
    lines = [LINE.format(number, number % 300, number % 20) for number in range(1, MANY + 1)]
    slurm.prints(*lines)
    busy = {1: 10, 50_000: 20, MANY: 30}
    with following(slurm, period_seconds=5, limit_seconds=60.0) as site:
        for job, size in busy.items():
            site.work(job, size)
        site.wait(lambda: site.metric("harvest_slurm_jobs") == MANY, "all of them")
        site.wait(lambda: all(site.is_in(job, "RUNNING", "running") for job in busy), "their states")
        assert written_by(site, "user") == {f"user{job % 300}": 4 * size for job, size in busy.items()}
        lines[0] = lines[0].replace("RUNNING", "COMPLETED")
        slurm.prints(*lines)
        site.wait(lambda: site.is_in(1, "COMPLETED", "ended"), "the end of one")
        slurm.does("garbage")
        site.wait(partial(site.is_named, "none is a job's"), "garbage to be told")
        site.work(MANY, 5)
        site.settle()
        assert site.differences() == []
        assert site.metric("harvest_slurm_jobs") == MANY
        missing = [server["name"] for server in site.get("servers")["servers"] if not server["connected"]]
        assert missing == []
