"""What the child makes of pyslurm, of the API with objects and of the one before it, with dicts."""

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from harvest_agent.slurm import pyslurm_child
from harvest_core.slurm.answers import LineJobs
from harvest_core.slurm.jobs import SlurmJob
from unit.core.slurm_names import Nobody

WANTED = SlurmJob(
    id=44,
    array_id=41,
    array_task=3,
    name="sleep",
    user="u1000",
    uid=1000,
    group="g100",
    account="physics",
    partition="batch",
    state="FAILED",
    submit_seconds=1700000000,
    start_seconds=1700000100,
    end_seconds=1700000200,
    restarts=1,
    nodes=2,
    exit_code="1:0",
)
TIMES = {"submit_time": 1700000000, "start_time": 1700000100, "end_time": 1700000200}
COMMON: dict[str, Any] = {"account": "physics", "partition": "batch", "name": "sleep", "user_id": 1000, "group_id": 100}
NEW = COMMON | TIMES | {"id": 44, "array_id": 41, "array_task_id": 3, "array_tasks_waiting": None, "state": "FAILED"}
NEW |= {"num_nodes": 2, "exit_code": 1, "exit_code_signal": None, "requeue_count": 1}
NEW |= {"user_name": "u1000", "group_name": "g100", "heterogeneous_id": None, "heterogeneous_offset": None}
OLD = COMMON | TIMES | {"job_id": 44, "array_job_id": 41, "array_task_id": 3, "job_state": "FAILED", "num_nodes": 2}
OLD |= {"exit_code": "1:0", "restart_cnt": 1, "het_job_id": None, "het_job_offset": None, "nodes": "n[1-2]"}
OLD_ACCOUNTED = {
    "account": "physics",
    "alloc_nodes": 2,
    "array_job_id": 41,
    "array_task_id": 3,
    "end": 1700000200,
    "exitcode": 256,
    "gid": 100,
    "jobid": 44,
    "jobname": "sleep",
    "partition": "batch",
    "start": 1700000100,
    "state": 5,
    "state_str": "FAILED",
    "submit": 1700000000,
    "uid": 1000,
    "user": "u1000",
}


class Pyslurm(ModuleType):
    """Stands where the child looks for pyslurm."""

    asked: list[Any]


def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pyslurm: ModuleType | None, *arguments: str
) -> tuple[list[SlurmJob], LineJobs]:
    monkeypatch.setitem(sys.modules, "pyslurm", pyslurm)  # None: it cannot be imported
    pyslurm_child.main(list(arguments))
    reader = LineJobs(Nobody())
    jobs = reader.feed(capsys.readouterr().out.encode())
    return [*jobs, *reader.end()], reader


def old() -> Pyslurm:
    pyslurm = Pyslurm("pyslurm")
    pyslurm.asked = []

    def accounted(jobids: list[int]) -> dict[int, Any]:
        pyslurm.asked.append(jobids)
        return {44: OLD_ACCOUNTED}

    vars(pyslurm)["job"] = lambda: SimpleNamespace(get=lambda: {44: OLD})
    vars(pyslurm)["slurmdb_jobs"] = lambda: SimpleNamespace(get=accounted)
    return pyslurm


def new(jobs: Any, accounted: Any = ()) -> Pyslurm:  # noqa: ANN401
    pyslurm = Pyslurm("pyslurm")
    pyslurm.asked = []

    def load(db_filter: object) -> Any:  # noqa: ANN401
        pyslurm.asked.append(db_filter)
        return accounted

    vars(pyslurm)["Jobs"] = SimpleNamespace(load=lambda: jobs)
    vars(pyslurm)["db"] = SimpleNamespace(Jobs=SimpleNamespace(load=load), JobFilter=lambda ids: ("filter", ids))
    return pyslurm


def test_the_new_api_has_objects(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    jobs, reader = printed(monkeypatch, capsys, new({44: SimpleNamespace(**NEW)}))
    assert (jobs, reader.problem, reader.unread) == ([WANTED], "", 0)


def test_the_old_api_has_dicts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    jobs, reader = printed(monkeypatch, capsys, old())
    assert (jobs, reader.problem, reader.unread) == ([WANTED], "", 0)


def test_accounting_is_asked_by_both(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    forgotten = SimpleNamespace(**NEW | {"group_id": lambda: 100, "group_name": lambda: "g100"})  # as it is in 25.11
    modern, ancient = new({}, [forgotten]), old()
    assert printed(monkeypatch, capsys, modern, "44", "45")[0] == [WANTED]
    assert modern.asked == [("filter", [44, 45])]
    (job,), _ = printed(monkeypatch, capsys, ancient, "44")
    assert ancient.asked == [[44]]
    assert (job.run, job.end_seconds, job.state, job.exit_code) == (WANTED.run, WANTED.end_seconds, "FAILED", "1:0")


def test_the_first_task_of_an_array_is_told_from_those_that_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new API says None for a task's number in both cases."""
    first = SimpleNamespace(**NEW | {"id": 42, "array_task_id": None})
    waiting = SimpleNamespace(
        **NEW | {"id": 41, "array_task_id": None, "array_tasks_waiting": "4-9%2", "state": "PENDING"}
    )
    jobs, _ = printed(monkeypatch, capsys, new([first, waiting]))
    assert [(job.id, job.array_id, job.array_task) for job in jobs] == [(42, 41, 0), (41, 0, 0)]


def test_components_of_het_jobs_have_their_leader(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    component = NEW | {"array_id": None, "array_task_id": None, "heterogeneous_id": 43, "heterogeneous_offset": 1}
    (job,), _ = printed(monkeypatch, capsys, new([SimpleNamespace(**component)]))
    assert (job.het_leader, job.het_offset, job.array_id) == (43, 1, 0)


def test_without_pyslurm_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    jobs, reader = printed(monkeypatch, capsys, None)
    assert jobs == []
    assert "pyslurm" in reader.problem


def test_an_error_of_pyslurm_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pyslurm = old()

    def fail() -> None:
        raise ValueError("Unable to contact slurm controller", 1)

    vars(pyslurm)["job"] = fail
    assert "Unable to contact slurm controller" in printed(monkeypatch, capsys, pyslurm)[1].problem


def test_a_value_that_cannot_be_had_costs_that_value_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError

    (job,), _ = printed(monkeypatch, capsys, new([SimpleNamespace(**NEW | {"user_name": fail, "name": object()})]))
    assert (job.id, job.user) == (44, "u1000")
    assert json.dumps(job.name)
