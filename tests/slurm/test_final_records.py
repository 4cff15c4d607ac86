"""Jobs of a real Slurm to their end and beyond: one record each that says what sacct says, with all that they did.

Harvest's clock is not Slurm's here (``support.slurm_ahead``): a record is written a quarter of an hour after the end.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from demo.comparison import true_totals
from support.processes import wait_for
from support.slurm import SlurmCluster
from support.slurm_ahead import SlurmAhead, accounted

LONG = "exec sleep 600"
UNTIL_FINAL = 30 * 60
"""A quarter of an hour without I/O, and at most ten minutes until somebody looks."""
pytestmark = pytest.mark.timeout(400)
Record = dict[str, Any]


def did(record: Record) -> tuple[int, int]:
    """Return bytes written and files opened."""
    home = record["filesystems"]["home"]
    return home["ost"]["write_bytes"], home["mdt"]["iops"]


def truth(ahead: SlurmAhead, *jobs: int) -> tuple[int, int]:
    """Return the same as the simulator knows it."""
    totals = true_totals(ahead.lustre.truth)
    written = sum(totals["home", "ost", str(job), "write_bytes"][1] for job in jobs)
    return written, sum(totals["home", "mdt", str(job), "open"][0] for job in jobs)


def in_words_of_sacct(record: Record) -> dict[str, str]:
    return {
        "JobIDRaw": record["job"],
        "JobID": record["array"] or record["job"],
        "User": record["user"],
        "Account": record["account"],
        "Partition": record["partition"],
        "State": record["slurm_state"],
        "Submit": str(record["submit_seconds"]),
        "Start": str(record["start_seconds"]),
        "End": str(record["end_seconds"]),
        "NNodes": str(record["nodes"]),
        "ExitCode": record["exit_code"],
        "JobName": record["name"],
    }


def comparable(run: Mapping[str, str]) -> dict[str, str]:
    """Return what is said of a run, without who cancelled it and with which signal: slurmctld knows, sacct says 0:0."""
    state = run["State"].split()[0]
    return {**run, "JobID": run["JobID"].removesuffix("+0"), "State": state} | (
        {"ExitCode": ""} if state == "CANCELLED" else {}
    )


def hear(ahead: SlurmAhead, states: Mapping[int, str]) -> None:
    ahead.hear(lambda: all(ahead.states(job)[0] == state for job, state in states.items()), f"{states}")


def test_every_kind_of_job_has_one_record_that_says_what_sacct_says(ahead: SlurmAhead, slurm: SlurmCluster) -> None:
    plain = slurm.submit("while [ ! -e enough ]; do sleep 0.1; done", "--job-name=plain", user="games")
    array = slurm.submit(LONG, "--job-name=sweep", array="0,5", user="www-data", account="climate")
    leader = slurm.submit(LONG, "--nodes=2", user="backup", account="chemistry", het=[["--partition=debug"]])
    paused = slurm.submit(LONG, user="news", account="physics")
    again = slurm.submit(LONG, "--requeue", user="games")
    failed = slurm.submit("exit 3", user="news", account="chemistry")
    shot = slurm.submit("kill -9 $$", user="backup")
    short = slurm.submit("true", user="games")
    ended = {failed: "FAILED", shot: "FAILED", short: "COMPLETED"}
    for job, state in (ended | dict.fromkeys((plain, array, leader, paused, again), "RUNNING")).items():
        slurm.wait_for(job, state)
    tasks = [int(task) for task in slurm.run("squeue", "--noheader", f"--jobs={array}", "--format=%A").split()]
    jobs = [plain, *tasks, leader, paused, again, *ended]
    for place, job in enumerate(jobs):
        ahead.work(job, 1000 + place)
    ahead.pass_time(40)
    hear(ahead, ended | dict.fromkeys((plain, *tasks, leader, paused, again), "RUNNING"))

    slurm.suspend(paused)
    slurm.requeue_held(again)
    hear(ahead, {paused: "SUSPENDED", again: "PENDING"})
    (slurm.folder / "jobs" / "enough").touch()
    hear(ahead, {plain: "COMPLETED"})
    slurm.release(again)
    slurm.start_soon(again)
    hear(ahead, {again: "RUNNING"})
    ahead.catch_up()  # what is read from now on is of a tick after its second start
    ahead.work(again, 30)
    ahead.work(plain, 7)  # nodes write back
    ahead.pass_time(40)
    for job in (array, leader, paused, again):
        slurm.cancel(job)
    hear(ahead, dict.fromkeys((*tasks, leader, paused, again), "CANCELLED"))
    assert not any(ahead.finals(job) for job in jobs if job != again)
    ahead.pass_time(UNTIL_FINAL)

    assert ahead.get("jobs?limit=0")["jobs"] == []
    records = {job: ahead.finals(job) for job in jobs}
    assert {job: len(some) for job, some in records.items()} == dict.fromkeys(jobs, 1) | {again: 2}
    told = [comparable(in_words_of_sacct(record)) for some in records.values() for record in some]
    wait_for(lambda: len(accounted(slurm, *jobs)) == len(jobs) + 2, "all runs in sacct")  # and the het job's other part
    runs = [comparable(run) for run in accounted(slurm, *jobs) if "+1" not in run["JobID"]]
    assert sorted(told, key=str) == sorted(runs, key=str)
    assert [did(record) for record in records[again]] == [(120, 30), (4 * 1005, 1005)]
    true: Counter[tuple[str, str]] = Counter()
    for job, some in records.items():
        assert (sum(did(one)[0] for one in some), sum(did(one)[1] for one in some)) == truth(ahead, job)
        assert {(one["state"], one["late"], one["complete"]) for one in some} == {("final", False, True)}
        true["user", some[0]["user"]] += truth(ahead, job)[0]
        true["account", some[0]["account"]] += truth(ahead, job)[0]
    assert set(true) == {
        *(("user", user) for user in ("games", "www-data", "backup", "news")),
        *(("account", account) for account in ("physics", "climate", "chemistry")),
    }
    for (by, name), amount in true.items():
        found = ahead.get(f"jobs?state=final&{by}={name}&limit=0")["jobs"]
        assert sum(did(one)[0] for one in found) == amount
        if by == "user":
            assert ahead.get(f"users/{name}")["totals"]["write_bytes"] == amount

    ahead.work(failed, 5)
    ahead.pass_time(UNTIL_FINAL)
    (late,) = ahead.finals(failed)
    (before,) = records.pop(failed)
    assert (did(late), late["late"]) == (truth(ahead, failed), True)
    assert did(late)[0] == did(before)[0] + 20
    assert in_words_of_sacct(late) == in_words_of_sacct(before)
    assert {job: ahead.finals(job) for job in records} == records


def test_a_job_that_does_nothing_for_long_is_quiet_keeps_its_totals_and_goes_on(
    ahead: SlurmAhead, slurm: SlurmCluster
) -> None:
    quiet = slurm.submit(LONG, user="news", account="chemistry")
    paused = slurm.submit(LONG, user="games")
    for job in (quiet, paused):
        slurm.wait_for(job, "RUNNING")
        ahead.work(job, 10)
    ahead.pass_time(40)
    hear(ahead, dict.fromkeys((quiet, paused), "RUNNING"))
    assert [ahead.states(job)[1] for job in (quiet, paused)] == ["running"] * 2
    slurm.suspend(paused)
    hear(ahead, {paused: "SUSPENDED"})

    ahead.pass_time(45 * 60)  # Lustre forgets a record after ten minutes, and whom nobody follows is over after thirty
    assert ahead.records() == set()
    assert ahead.states(quiet) == ("RUNNING", "quiet")
    assert ahead.states(paused) == ("SUSPENDED", "quiet")
    for job in (quiet, paused):
        assert did(ahead.job(job)) == truth(ahead, job) == (40, 10)
        assert ahead.finals(job) == []

    slurm.resume(paused)
    for job in (quiet, paused):
        ahead.work(job, 3)
    ahead.pass_time(40)
    hear(ahead, {paused: "RUNNING"})
    for job in (quiet, paused):
        assert ahead.states(job) == ("RUNNING", "running")
        assert did(ahead.job(job)) == truth(ahead, job) == (52, 13)
    assert [row["write_bytes"] for row in ahead.get("attribution?by=account")["rows"]] == [52, 52]
