"""Jobs of a real Slurm, their I/O simulated under their real ids: whose they are, how they live, and exact totals.

The aggregator knows nothing of Slurm: an agent on a host of its own tells it.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.slurm import SlurmCluster
from support.slurm_site import SlurmSite

LONG = "sleep 600"
pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def site(slurm: SlurmCluster, tmp_path: Path) -> Iterator[SlurmSite]:
    slurm.cancel_all()
    made = SlurmSite(tmp_path, slurm)
    made.start()
    try:
        yield made
    finally:
        made.stop()
        slurm.cancel_all()


def tasks_of(slurm: SlurmCluster, array: int) -> dict[int, int]:
    return {one["array_task_id"]: one["job_id"] for one in slurm.squeue() if one["array_job_id"] == array}


def test_jobs_of_every_kind_are_their_owners_and_their_totals_are_true(site: SlurmSite) -> None:
    slurm = site.slurm
    plain = slurm.submit(LONG, "--job-name=plain", user="games", account="physics")
    array = slurm.submit(LONG, array="1,5", user="www-data", account="climate")
    leader = slurm.submit(LONG, user="backup", account="chemistry", het=[["--partition=debug"]])
    quiet = slurm.submit(LONG, user="news", account="physics")
    failed = slurm.submit("exit 3", user="news", account="chemistry")
    short = slurm.submit("true", user="games")
    slurm.wait_for(failed, "FAILED")
    slurm.wait_for(short, "COMPLETED")
    for job in (plain, array, leader, quiet):
        slurm.wait_for(job, "RUNNING")
    tasks = tasks_of(slurm, array)
    jobs = [plain, *tasks.values(), leader, quiet, failed, short]
    for place, job in enumerate(jobs):
        site.work(job, 1000 + place)

    site.wait(lambda: all(site.is_in(job, "RUNNING", "running") for job in jobs[:5]), "running jobs")
    site.wait(lambda: site.is_in(failed, "FAILED", "ended") and site.is_in(short, "COMPLETED", "ended"), "ended jobs")
    names = {number: task["array"] for number, task in ((one, site.job(one)) for one in tasks.values()) if task}
    assert names == {number: f"{array}_{task}" for task, number in tasks.items()}
    assert {f"{array}_1", f"{array}_5", str(plain)} <= set(site.get("views/short"))
    told = site.job(plain)
    assert told is not None
    assert (told["name"], told["user"], told["account"], told["partition"]) == ("plain", "games", "physics", "batch")

    slurm.suspend(quiet)
    slurm.cancel(plain)
    site.work(plain, 7)  # nodes write back
    site.wait(lambda: site.is_in(quiet, "SUSPENDED") and site.is_in(plain, "CANCELLED", "ended"), "their ends")
    site.settle()
    assert site.differences() == []

    owners = {plain: "games", leader: "backup", quiet: "news", failed: "news", short: "games"}
    owners |= dict.fromkeys(tasks.values(), "www-data")
    accounts = {plain: "physics", leader: "chemistry", quiet: "physics", failed: "chemistry", short: "physics"}
    accounts |= dict.fromkeys(tasks.values(), "climate")
    written = {job: 4 * (1000 + place) for place, job in enumerate(jobs)}
    written[plain] += 4 * 7
    for by, whose in (("user", owners), ("account", accounts)):
        true: Counter[str] = Counter()
        for job in jobs:
            true[whose[job]] += written[job]
        rows = site.get(f"attribution?by={by}")["rows"]
        assert {row[by]: row["write_bytes"] for row in rows} == true
    assert {job["job"] for job in site.jobs("jobs?user=news")} == {str(quiet), str(failed)}
    assert site.get("users/news")["totals"]["write_bytes"] == written[quiet] + written[failed]
    on_mds = site.get("attribution?server=mds1&by=account,user")
    assert on_mds["by"] == "account,user"


def test_a_requeued_job_is_two_runs(site: SlurmSite) -> None:
    slurm = site.slurm
    job = slurm.submit(LONG, "--requeue", user="games")
    slurm.wait_for(job, "RUNNING")
    site.work(job, 100)
    site.wait(lambda: site.is_in(job, "RUNNING", "running"), "its first run")
    site.settle()
    first = site.job(job)
    assert first is not None
    slurm.requeue(job)
    slurm.wait_for(job, "RUNNING")
    (again,) = [one["start_time"] for one in slurm.squeue() if one["job_id"] == job]
    assert again > first["start"]
    site.settle()  # whatever is read from now on is of a tick after the second start
    site.work(job, 30)

    site.wait(lambda: (site.job(job) or {}).get("start") == again, "its second run")
    site.settle()
    former, present = site.job(job, first["start"]), site.job(job, again)
    assert former is not None
    assert present is not None
    assert former["filesystems"]["home"]["ost"]["write_bytes"] == 400
    assert former["filesystems"]["home"]["mdt"]["iops"] == 100
    assert present["filesystems"]["home"]["ost"]["write_bytes"] == 120
    assert present["filesystems"]["home"]["mdt"]["iops"] == 30
    assert (former["user"], former["state"]) == ("games", "final")


def test_slurm_away_hung_and_back_changes_no_total(site: SlurmSite) -> None:
    slurm = site.slurm
    job = slurm.submit(LONG, user="games")
    slurm.wait_for(job, "RUNNING")
    site.work(job, 10)
    site.wait(lambda: site.is_in(job, "RUNNING", "running"), "a running job")

    def trouble() -> list[str]:
        return [one for one in site.harvest.get("/readyz")["warnings"] if one.startswith("Slurm of cluster vu")]

    assert trouble() == []
    slurm.stop_controller()
    try:
        site.wait(trouble, "Slurm's absence to be told")
        site.work(job, 20)
        site.settle()
        assert site.differences() == []
        assert site.is_in(job, "RUNNING")  # the last known
    finally:
        slurm.start_controller()
    slurm.wait_for(job, "RUNNING")
    site.wait(lambda: not trouble(), "Slurm to be well again")
    with slurm.hung():
        site.wait(trouble, "a hung Slurm to be told")
        site.work(job, 30)
        site.settle()
        assert site.differences() == []
    site.wait(lambda: not trouble(), "Slurm to be well again")
    slurm.cancel(job)
    site.wait(lambda: site.is_in(job, "CANCELLED", "ended"), "its end")
    assert site.differences() == []
