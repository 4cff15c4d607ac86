"""What comes as JSON: squeue's and slurmrestd's of old and of new, accounting's, and the pyslurm child's lines."""

import json
from typing import Any

import pytest

from harvest_core.slurm.answers import JsonJobs, LineJobs
from harvest_core.slurm.jobs import SlurmJob
from unit.core.slurm_names import Nobody


def number(value: int, *, is_set: bool = True) -> dict[str, Any]:
    return {"set": is_set, "infinite": False, "number": value}


OLD = {
    "account": "physics",
    "array_job_id": 0,
    "array_task_id": None,
    "exit_code": 256,
    "end_time": 1700000200,
    "group_id": 100,
    "het_job_id": 0,
    "het_job_offset": 0,
    "job_id": 41,
    "job_state": "FAILED",
    "name": "sleep",
    "node_count": 2,
    "partition": "batch",
    "restart_cnt": 1,
    "start_time": 1700000100,
    "submit_time": 1700000000,
    "user_id": 1000,
    "user_name": "alice",
}
NEW = OLD | {
    "array_job_id": number(0),
    "array_task_id": number(0, is_set=False),
    "exit_code": {"status": ["ERROR"], "return_code": number(1), "signal": {"id": number(0, is_set=False), "name": ""}},
    "end_time": number(1700000200),
    "group_name": "g100",
    "het_job_id": number(0),
    "het_job_offset": number(0),
    "job_state": ["FAILED"],
    "node_count": number(2),
    "start_time": number(1700000100),
    "submit_time": number(1700000000),
}
ACCOUNTED = {
    "account": "physics",
    "allocation_nodes": 2,
    "array": {"job_id": 0, "task": None, "task_id": None},
    "association": {"user": "alice"},
    "exit_code": {"status": "ERROR", "return_code": 1},
    "group": "g100",
    "het": {"job_id": 0, "job_offset": None},
    "job_id": 41,
    "name": "sleep",
    "partition": "batch",
    "state": {"current": "FAILED", "reason": "NonZeroExitCode"},
    "steps": [{"step": {"id": "41.0"}}],
    "time": {"elapsed": 100, "end": 1700000200, "start": 1700000100, "submission": 1700000000},
    "user": "alice",
}
JOB = SlurmJob(
    id=41,
    name="sleep",
    user="alice",
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


def read(answer: object, size: int = 1 << 20) -> tuple[list[SlurmJob], JsonJobs]:
    data = answer if isinstance(answer, bytes) else json.dumps(answer, ensure_ascii=False).encode()
    reader = JsonJobs(Nobody())
    jobs = [job for at in range(0, len(data), size) for job in reader.feed(data[at : at + size])]
    return [*jobs, *reader.end()], reader


@pytest.mark.parametrize("said", [OLD, NEW])
def test_old_and_new_squeue_say_the_same(said: dict[str, Any]) -> None:
    jobs, reader = read({"meta": {"slurm": {}}, "errors": [], "jobs": [said], "warnings": []})
    assert jobs == [JOB]
    assert (reader.unread, reader.problem) == (0, "")


@pytest.mark.parametrize(
    "said",
    [
        ACCOUNTED,
        ACCOUNTED
        | {
            "state": {"current": ["FAILED"], "reason": ""},
            "array": {"job_id": 0, "task": "", "task_id": number(0, is_set=False)},
            "het": {"job_id": 0, "job_offset": number(0, is_set=False)},
            "exit_code": {"status": ["ERROR"], "return_code": number(1)},
            "time": {"end": number(1700000200), "start": number(1700000100), "submission": number(1700000000)},
        },
    ],
)
def test_accounting_says_it_in_other_places(said: dict[str, Any]) -> None:
    (job,), _ = read({"jobs": [said], "errors": []})
    assert (job.run, job.end_seconds, job.state, job.exit_code) == (JOB.run, JOB.end_seconds, "FAILED", "1:0")
    assert (job.user, job.group, job.account, job.nodes) == ("alice", "g100", "physics", 2)
    assert (job.array_id, job.het_leader) == (0, 0)


def test_tasks_and_components_have_their_places_too() -> None:
    tasks = [
        OLD | {"array_job_id": 40, "array_task_id": 0},
        NEW | {"array_job_id": number(40), "array_task_id": number(0)},
        ACCOUNTED | {"array": {"job_id": 40, "task_id": 0}},
    ]
    assert {(job.array_id, job.array_task) for job in read({"jobs": tasks})[0]} == {(40, 0)}
    waiting = OLD | {"job_state": "PENDING", "array_job_id": 41, "array_task_id": None, "array_task_string": "4-9%2"}
    assert [(job.id, job.array_id) for job in read({"jobs": [waiting]})[0]] == [(41, 0)]
    components = [
        OLD | {"het_job_id": 40, "het_job_offset": 1},
        NEW | {"het_job_id": number(40), "het_job_offset": number(1)},
        ACCOUNTED | {"het": {"job_id": 40, "job_offset": number(1)}},
    ]
    assert {(job.het_leader, job.het_offset) for job in read({"jobs": components})[0]} == {(40, 1)}


@pytest.mark.parametrize("size", [1, 3, 50, 1000])
@pytest.mark.parametrize("indent", [None, 2])
def test_it_does_not_matter_how_the_answer_was_cut(size: int, indent: int | None) -> None:
    answer = {"errors": [], "jobs": [OLD | {"name": "prép ] } 語 🚀"}, NEW], "meta": {}}
    text = json.dumps(answer, ensure_ascii=False, indent=indent).encode()
    assert read(text, size)[0] == read(text)[0]
    assert len(read(text, size)[0]) == 2


@pytest.mark.parametrize("answer", [b'{"jobs":[]}', b'{ "meta": {}, "jobs" : [ ] , "errors": [] }\n'])
def test_an_empty_queue_has_no_jobs_and_nothing_wrong(answer: bytes) -> None:
    jobs, reader = read(answer)
    assert (jobs, reader.unread, reader.problem) == ([], 0, "")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "ends too early, or is none: ''"),
        (b"squeue: error", "is none: 'squeue: error'"),
        (b"[]", "an answer without jobs"),
        (b"null", "an answer without jobs"),
        (b'{"meta": {}}', "an answer without jobs"),
        (b'{"jobs": null}', "an answer without jobs"),
        (b'{"jobs": [', "ends too early"),
        (b'{"jobs": [{"job_id": 4', "ends too early"),
        (b'{"jobs": [{"job_id": 4}]', "ends too early"),
        (b'{"jobs": [nonsense]}', "ends too early, or is none: 'nonsense]}'"),
        (b'{"jobs": [' + b"[" * 100000, "ends too early"),
        (bytes(range(256)) * 40, "ends too early"),
        (
            b'{"jobs": [], "errors": [{"error": "Unable to contact slurm controller", "error_number": 1}]}',
            "Unable to contact slurm controller",
        ),
        (
            b'{"errors": [{"source": "slurm_load_jobs", "error": "Unspecified error", "description": "Failed"}]}',
            "slurm_load_jobs: Unspecified error: Failed",
        ),
        (b'{"jobs": [], "errors": ["so"]}', "so"),
        (b'{"errors": [{"description": "no"}]}', "no"),
    ],
)
def test_what_is_no_answer_is_told_and_never_raised(answer: bytes, problem: str) -> None:
    for size in (1, 1 << 20) if len(answer) < 1000 else (1 << 20,):
        jobs, reader = read(answer, size)
        assert problem in reader.problem
        assert all(job.id == 4 for job in jobs)


@pytest.mark.parametrize("strange", [5, None, [], {}, {"job_id": "x"}, {"job_id": 0}, "text"])
def test_an_entry_that_is_no_job_costs_that_entry_only(strange: object) -> None:
    jobs, reader = read({"jobs": [OLD, strange, NEW]})
    assert (jobs, reader.unread, reader.problem) == ([JOB, JOB], 1, "")


def test_names_that_are_no_utf8_or_no_text_are_sent_all_the_same() -> None:
    text = (
        json.dumps({"jobs": [OLD | {"name": "NAME"}, OLD | {"name": "\ud83d"}]}).encode().replace(b"NAME", b"a\xe9\tb")
    )
    assert [job.name for job in read(text)[0]] == ["a\ufffd\tb", "?"]


def test_what_never_ends_is_not_waited_for() -> None:
    reader = JsonJobs(Nobody())
    assert reader.feed(b'{"jobs": [{"name": "') == []
    for _ in range(20):
        reader.feed(b"x" * (1 << 20))
    assert "no JSON as Slurm prints it" in reader.problem


def lines(*said: object) -> tuple[list[SlurmJob], LineJobs]:
    reader = LineJobs(Nobody())
    data = b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in said)
    return [*reader.feed(data), *reader.end()], reader


def test_the_childs_lines_have_the_wires_names() -> None:
    said = {name: getattr(JOB, name) for name in SlurmJob.__dataclass_fields__}
    jobs, reader = lines(said, {"end": 1})
    assert (jobs, reader.unread, reader.problem) == ([JOB], 0, "")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ((), "the child ended too early"),
        (({"id": 5},), "the child ended too early"),
        (({"error": "no pyslurm here"},), "no pyslurm here"),
        (({"error": None},), "does not say"),
        ((b'{"id": ',), "the child ended too early: b'{\"id\": '"),
    ],
)
def test_a_child_that_fails_is_told(said: tuple[object, ...], problem: str) -> None:
    assert problem in lines(*said)[1].problem


def test_a_line_of_the_child_that_is_no_job_costs_that_line_only() -> None:
    jobs, reader = lines({"id": 5}, b"warning: something\n", [], {"id": 0}, b"\xff\xfe\n", {"id": 6}, {"end": 1})
    assert ([job.id for job in jobs], reader.unread, reader.problem) == ([5, 6], 4, "")
