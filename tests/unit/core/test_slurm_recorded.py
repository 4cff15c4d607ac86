"""What a real Slurm said of jobs of every kind: read alike from all the forms in which it said it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harvest_core.slurm.answers import JsonJobs
from harvest_core.slurm.jobs import SlurmJob
from harvest_core.slurm.texts import SACCT, SQUEUE, TextJobs

RECORDED = Path(__file__).parents[2] / "data/slurm/22.05"
NUMBERS = json.loads((RECORDED / "numbers.json").read_text())
GROUPS = {60: "games", 9: "news", 33: "www-data", 34: "backup"}


class Groups:
    """As on the machine where this was recorded."""

    def user(self, uid: int) -> str:
        raise AssertionError(f"Slurm says itself who {uid} is")

    def group(self, gid: int) -> str:
        return GROUPS[gid]


def read(file: str) -> list[SlurmJob]:
    columns = {"squeue.txt": SQUEUE, "sacct.txt": SACCT}.get(file)
    reader = JsonJobs(Groups()) if columns is None else TextJobs(tuple(columns.values()), Groups())
    jobs = [*reader.feed((RECORDED / file).read_bytes()), *reader.end()]
    assert (reader.problem, reader.unread) == ("", 0)
    return sorted(jobs, key=lambda job: job.run)


def test_squeue_and_slurmrestd_say_the_same() -> None:
    assert read("squeue.json") == read("slurmrestd-jobs.json")
    assert len(read("squeue.json")) == 15


def test_squeues_text_says_the_same_but_for_what_it_has_no_column_for() -> None:
    assert [replace(job, exit_code="", restarts=0) for job in read("squeue.json")] == read("squeue.txt")


@pytest.mark.parametrize("file", ["sacct.json", "slurmrestd-accounting.json"])
def test_accounting_says_the_same_in_json_but_for_uids_and_exit_codes(file: str) -> None:
    def common(job: SlurmJob) -> SlurmJob:
        return replace(job, uid=0, exit_code="", name=job.name.replace('"', "`"))

    said = {job.run: common(job) for job in read(file) if job.start_seconds}
    text = {job.run: common(job) for job in read("sacct.txt")}
    assert said == {run: text[run] for run in said}
    assert {job.state for run, job in text.items() if run not in said} <= {"REQUEUED"}, "only asked for by its number"


def shown(file: str) -> dict[int, SlurmJob]:
    return {job.id: job for job in read(file)}


@pytest.mark.parametrize("file", ["squeue.json", "squeue.txt"])
def test_every_kind_of_job_is_what_it_was(file: str) -> None:
    jobs = shown(file)
    assert {name: jobs[number].state for name, number in NUMBERS.items()} == {
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


def test_a_requeued_job_is_two_runs() -> None:
    assert [(job.state, bool(job.end_seconds)) for job in read("sacct.txt") if job.name == "again"] == [
        ("REQUEUED", True),
        ("RUNNING", False),
    ]
    assert shown("squeue.json")[9].restarts == 1


def test_exit_codes_are_those_of_sacct() -> None:
    assert {number: job.exit_code for number, job in shown("squeue.json").items() if job.is_ended} == {
        10: "0:0",
        11: "3:0",
        12: "0:9",
        13: "0:15",
    }
