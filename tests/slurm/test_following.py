"""Jobs of a real Slurm, their I/O simulated under their real ids: whose they are, how they live, and exact totals.

The aggregator knows nothing of Slurm: an agent on a host of its own tells it.
"""

from collections import Counter
from collections.abc import Mapping

import pytest

from support.slurm import SlurmCluster
from support.slurm_site import SlurmSite

LONG = "exec sleep 600"
LIVE = ("running", "quiet")  # the machine may be slow, and a minute without I/O makes a job quiet
pytestmark = pytest.mark.timeout(400)


def test_jobs_of_every_kind_are_their_owners_and_their_totals_are_true(site: SlurmSite, slurm: SlurmCluster) -> None:
    plain = slurm.submit(LONG, "--job-name=plain", user="games", account="physics")
    array = slurm.submit(LONG, array="0,5", user="www-data", account="climate")
    leader = slurm.submit(LONG, user="backup", account="chemistry", het=[["--partition=debug"]])
    paused = slurm.submit(LONG, user="news", account="physics")
    failed = slurm.submit("exit 3", user="news", account="chemistry")
    short = slurm.submit("true", user="games")
    slurm.wait_for(failed, "FAILED")
    slurm.wait_for(short, "COMPLETED")
    for job in (plain, array, leader, paused):
        slurm.wait_for(job, "RUNNING")
    printed = slurm.run("squeue", "--noheader", f"--jobs={array}", "--format=%A %i").split()
    tasks = dict(zip(map(int, printed[::2]), printed[1::2], strict=True))
    assert sorted(tasks.values()) == [f"{array}_0", f"{array}_5"]
    jobs = [plain, *tasks, leader, paused, failed, short]
    for place, job in enumerate(jobs):
        site.work(job, 1000 + place)

    def are(states: Mapping[int, tuple[str, ...]]) -> None:
        site.wait(lambda: all(site.is_in(job, *state) for job, state in states.items()), f"{states}")

    alive, cancelled = ("RUNNING", *LIVE), ("CANCELLED", "ended")
    at_first = {failed: ("FAILED", "ended"), short: ("COMPLETED", "ended")}
    are(at_first | dict.fromkeys(jobs[:5], alive))
    assert {number: told["array"] for number in jobs if (told := site.job(number))} == {
        number: tasks.get(number) for number in jobs
    }
    assert {*tasks.values(), str(plain)} <= set(site.get("views/short"))
    told = site.job(plain)
    assert told is not None
    assert (told["name"], told["user"], told["account"], told["partition"]) == ("plain", "games", "physics", "batch")

    states: dict[int, tuple[str, ...]] = at_first | dict.fromkeys(jobs[:5], alive)
    task, other = tasks
    slurm.suspend(paused)
    slurm.cancel(tasks[task])
    are(states | {paused: ("SUSPENDED", *LIVE), task: cancelled})
    slurm.resume(paused)
    slurm.cancel(plain)
    site.work(plain, 7)  # nodes write back
    are(states | {paused: alive, task: cancelled, plain: cancelled})
    slurm.cancel(tasks[other])
    slurm.cancel(leader)
    slurm.cancel(paused)
    are(at_first | dict.fromkeys(jobs[:5], cancelled))
    site.settle()
    assert site.differences() == []

    owners = {plain: "games", leader: "backup", paused: "news", failed: "news", short: "games"}
    owners |= dict.fromkeys(tasks, "www-data")
    accounts = {plain: "physics", leader: "chemistry", paused: "physics", failed: "chemistry", short: "physics"}
    accounts |= dict.fromkeys(tasks, "climate")
    written = {job: 4 * (1000 + place) for place, job in enumerate(jobs)}
    written[plain] += 4 * 7
    for by, whose in (("user", owners), ("account", accounts)):
        true: Counter[str] = Counter()
        for job in jobs:
            true[whose[job]] += written[job]
        rows = site.get(f"attribution?by={by}")["rows"]
        assert {row[by]: row["write_bytes"] for row in rows} == true
    assert {job["job"] for job in site.jobs("jobs?user=news")} == {str(paused), str(failed)}
    assert site.get("users/news")["totals"]["write_bytes"] == written[paused] + written[failed]
    on_mds = site.get("attribution?server=mds1&by=account,user")
    assert on_mds["by"] == "account,user"


def test_a_requeued_job_is_two_runs(site: SlurmSite, slurm: SlurmCluster) -> None:
    job = slurm.submit(LONG, "--requeue", user="games")
    slurm.wait_for(job, "RUNNING")
    site.work(job, 100)
    site.wait(lambda: site.is_in(job, "RUNNING", "running"), "its first run")
    site.settle()
    first = site.job(job)
    assert first is not None
    slurm.requeue_held(job)
    site.wait(lambda: site.is_in(job, "PENDING", *LIVE), "that it waits again")
    slurm.release(job)
    slurm.start_soon(job)
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
    assert site.is_in(job, "RUNNING", *LIVE)
    assert former["filesystems"]["home"]["ost"]["write_bytes"] == 400
    assert former["filesystems"]["home"]["mdt"]["iops"] == 100
    assert present["filesystems"]["home"]["ost"]["write_bytes"] == 120
    assert present["filesystems"]["home"]["mdt"]["iops"] == 30
    assert (former["user"], former["state"], former["slurm_state"]) == ("games", "final", "REQUEUED")
    assert site.get("users/games")["totals"]["write_bytes"] == 520
