"""What a real Slurm said of jobs of every kind: read alike from all the forms in which it said it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from harvest_agent.slurm import pyslurm_child
from harvest_core.slurm.answers import JsonJobs, LineJobs
from harvest_core.slurm.jobs import SlurmJob
from harvest_core.slurm.texts import OLD_SQUEUE, SACCT, TextJobs

RECORDED = Path(__file__).parents[2] / "data/slurm"
VERSIONS = ["22.05", "26.05"]
USERS = {5: "games", 9: "news", 33: "www-data", 34: "backup"}
GROUPS = {60: "games", 9: "news", 33: "www-data", 34: "backup"}


class Groups:
    """As on the machine where this was recorded."""

    def user(self, uid: int) -> str:
        raise AssertionError(f"Slurm says itself who {uid} is")

    def group(self, gid: int) -> str:
        return GROUPS[gid]


class Everybody(Groups):
    """Likewise: the old pyslurm has only uids of slurmctld's jobs."""

    @override
    def user(self, uid: int) -> str:
        return USERS[uid]


def read(file: str) -> list[SlurmJob]:
    columns = {"squeue.txt": OLD_SQUEUE, "sacct.txt": SACCT}.get(file.partition("/")[2])
    reader = JsonJobs(Groups()) if columns is None else TextJobs(tuple(columns.values()), Groups())
    jobs = [*reader.feed((RECORDED / file).read_bytes()), *reader.end()]
    assert (reader.problem, reader.unread) == ("", 0)
    return sorted(jobs, key=lambda job: job.run)


def test_squeue_and_slurmrestd_say_the_same() -> None:
    assert read("22.05/squeue.json") == read("22.05/slurmrestd-jobs.json")


@pytest.mark.parametrize("version", VERSIONS)
def test_squeues_text_says_the_same_but_for_what_it_has_no_column_for(version: str) -> None:
    jobs = read(f"{version}/squeue.json")
    assert [replace(job, exit_code="", restarts=0) for job in jobs] == read(f"{version}/squeue.txt")
    assert len(jobs) == 15


UNTOLD: dict[str, dict[str, Any]] = {"25.11.2": {"group": ""}, "22.5.1": {"het_leader": 0, "het_offset": 0}}
"""Of what each pyslurm says nothing in accounting; neither knows of restarts."""
PYSLURMS: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "25.11.2": ("26.05", lambda said: SimpleNamespace(**said)),
    "22.5.1": ("22.05", dict),
}
"""The Slurm beside it, and how it hands over a job: the new API in an object, the old one in a dict."""


def told_by_pyslurm(version: str, whom: str) -> list[SlurmJob]:
    _, handed_over = PYSLURMS[version]
    reader = LineJobs(Groups() if version != "22.5.1" else Everybody())
    told = json.loads((RECORDED / f"pyslurm/{version}.json").read_text())[whom]
    lines = "".join(f"{json.dumps(pyslurm_child.job(handed_over(said)))}\n" for said in told)
    jobs = reader.feed(lines.encode())
    assert (reader.unread, len(jobs)) == (0, len(told))
    return sorted(jobs, key=lambda job: job.run)


@pytest.mark.parametrize("pyslurm", PYSLURMS)
def test_pyslurm_says_the_same_as_squeue(pyslurm: str) -> None:
    slurm, _ = PYSLURMS[pyslurm]
    assert told_by_pyslurm(pyslurm, "controller") == read(f"{slurm}/squeue.json")


@pytest.mark.parametrize("pyslurm", PYSLURMS)
def test_pyslurm_says_the_same_as_sacct_of_the_latest_runs(pyslurm: str) -> None:
    slurm, _ = PYSLURMS[pyslurm]
    runs = {job.run: job for job in read(f"{slurm}/sacct.txt")}
    compared = 0
    for job in told_by_pyslurm(pyslurm, "accounting"):
        known = runs.get(job.run)
        if known is not None:  # sacct leaves out what waits
            common = replace(known, **UNTOLD[pyslurm])
            assert replace(job, restarts=0, name=job.name.replace('"', "`")) == common
            compared += 1
    assert compared > 10


@pytest.mark.parametrize("file", ["22.05/sacct.json", "22.05/slurmrestd-accounting.json", "26.05/sacct.json"])
def test_accounting_says_the_same_in_json_but_for_uids_exit_codes_and_restarts(file: str) -> None:
    def common(job: SlurmJob) -> SlurmJob:
        return replace(job, uid=0, exit_code="", restarts=0, name=job.name.replace('"', "`"))

    said = {job.run: common(job) for job in read(file) if job.start_seconds}
    text = {job.run: common(job) for job in read(f"{file[:5]}/sacct.txt")}
    assert said == {run: text[run] for run in said}
    assert {job.state for run, job in text.items() if run not in said} <= {"REQUEUED"}, "only asked for by its number"


def shown(file: str) -> dict[int, SlurmJob]:
    return {job.id: job for job in read(file)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", ["squeue.json", "squeue.txt"])
def test_every_kind_of_job_is_what_it_was(version: str, file: str) -> None:
    jobs = shown(f"{version}/{file}")
    numbers = json.loads((RECORDED / version / "numbers.json").read_text())
    assert {name: jobs[number].state for name, number in numbers.items()} == {
        "running": "RUNNING",
        "wide": "RUNNING",
        "array": "RUNNING",
        "waiting_array": "PENDING",
        "het": "RUNNING",
        "suspended": "SUSPENDED",
        "held": "PENDING",
        "requeued": "RUNNING",
        "brief": "COMPLETED",
        "failed": "FAILED",
        "signalled": "FAILED",
        "cancelled": "CANCELLED",
    }
    assert [(jobs[number].array_id, jobs[number].array_task) for number in (14, 15, 3)] == [(3, 1), (3, 5), (3, 7)]
    assert (jobs[4].array_id, jobs[4].state, jobs[4].start_seconds) == (0, "PENDING", 0)
    assert [(jobs[number].het_leader, jobs[number].het_offset) for number in (5, 6, 1)] == [(5, 0), (5, 1), (0, 0)]
    assert jobs[2].name == 'a|b "c" \\d é'
    assert (jobs[2].user, jobs[2].uid, jobs[2].group, jobs[2].account) == ("news", 9, "news", "chemistry")
    assert (jobs[2].partition, jobs[2].nodes) == ("batch", 2)
    assert all(not jobs[number].end_seconds for number in (1, 7, 8, 4))
    assert all(jobs[number].end_seconds for number in (10, 11, 12, 13))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_requeued_job_is_two_runs(version: str) -> None:
    runs = read(f"{version}/sacct.txt")
    assert [(job.state, bool(job.end_seconds)) for job in runs if job.name == "again"] == [
        ("REQUEUED", True),
        ("RUNNING", False),
    ]
    assert shown(f"{version}/squeue.json")[9].restarts == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_exit_codes_are_those_of_sacct(version: str) -> None:
    jobs = shown(f"{version}/squeue.json")
    assert {number: job.exit_code for number, job in jobs.items() if job.is_ended} == {
        10: "0:0",
        11: "3:0",
        12: "0:9",
        13: "0:15",
    }
