"""What squeue and sacct print as text."""

from dataclasses import replace

import pytest

from harvest_core.slurm.jobs import SlurmJob
from harvest_core.slurm.texts import OLD_SQUEUE, SACCT, SQUEUE, TextJobs
from unit.core.slurm_names import Nobody

LINE = "41|41|1000|alice|users|physics|batch|RUNNING|1700000000|1700000100|1700003700|2|0:0|1|sleep"
OLD_LINE = LINE.replace("|0:0|1|", "|")
ACCOUNTED = "41|41|1000|alice|users|physics|batch|CANCELLED by 1000|1700000000|1700000100|1700000200|2|0:15|sleep"


def read(
    text: str | bytes, columns: dict[str, str] | None = None, size: int = 1 << 20
) -> tuple[list[SlurmJob], TextJobs]:
    reader = TextJobs(tuple((SQUEUE if columns is None else columns).values()), Nobody())
    data = text.encode() if isinstance(text, str) else text
    jobs = [job for at in range(0, len(data), size) for job in reader.feed(data[at : at + size])]
    return [*jobs, *reader.end()], reader


def test_a_line_of_squeue_is_a_job() -> None:
    assert read(LINE)[0] == [
        SlurmJob(
            id=41,
            name="sleep",
            user="alice",
            uid=1000,
            group="users",
            account="physics",
            partition="batch",
            state="RUNNING",
            submit_seconds=1700000000,
            start_seconds=1700000100,
            nodes=2,
            restarts=1,
        )
    ]
    assert read(OLD_LINE, OLD_SQUEUE)[0] == [replace(read(LINE)[0][0], restarts=0)]


@pytest.mark.parametrize("code", ["3:0", "768"])
def test_squeue_has_printed_exit_codes_in_two_ways(code: str) -> None:
    (job,), _ = read(LINE.replace("RUNNING", "FAILED").replace("0:0", code))
    assert job.exit_code == "3:0"


def test_a_line_of_sacct_is_a_run_with_its_end() -> None:
    (job,), _ = read(ACCOUNTED, SACCT)
    assert (job.state, job.end_seconds, job.exit_code, job.user) == ("CANCELLED", 1700000200, "0:15", "alice")


@pytest.mark.parametrize(
    ("raw", "printed", "told"),
    [
        ("41", "41", (41, 0, 0, 0, 0)),
        ("44", "41_3", (44, 41, 3, 0, 0)),
        ("41", "41_7", (41, 41, 7, 0, 0)),
        ("42", "41_0", (42, 41, 0, 0, 0)),
        ("41", "41_[4-9%2]", (41, 0, 0, 0, 0)),
        ("41", "41_[1,5-7,100...]", (41, 0, 0, 0, 0)),
        ("41", "41+0", (41, 0, 0, 41, 0)),
        ("42", "41+1", (42, 0, 0, 41, 1)),
    ],
)
def test_arrays_and_het_jobs_are_told_by_the_printed_id(raw: str, printed: str, told: tuple[int, ...]) -> None:
    (job,), _ = read(LINE.replace("41|41", f"{raw}|{printed}", 1))
    assert (job.id, job.array_id, job.array_task, job.het_leader, job.het_offset) == told


def test_steps_are_left_out() -> None:
    text = "\n".join(
        [ACCOUNTED, ACCOUNTED.replace("41|41", "41.batch|41.batch"), ACCOUNTED.replace("41|41", "41.0|41.0")]
    )
    jobs, reader = read(text, SACCT)
    assert (len(jobs), reader.unread) == (1, 0)


def test_every_run_of_a_requeued_job_is_a_run() -> None:
    again = ACCOUNTED.replace("|1700000100|1700000200|", "|1700000300|1700000400|")
    jobs, _ = read(f"{ACCOUNTED.replace('CANCELLED by 1000', 'REQUEUED')}\n{again}\n", SACCT)
    assert [(*job.run, job.end_seconds, job.state) for job in jobs] == [
        (41, 1700000100, 1700000200, "REQUEUED"),
        (41, 1700000300, 1700000400, "CANCELLED"),
    ]


@pytest.mark.parametrize("word", ["Unknown", "None", "N/A", "0", "", "4294967294", "INVALID", "2023-11-14T22:13:20"])
def test_times_that_are_not_known_are_0(word: str) -> None:
    (job,), _ = read(ACCOUNTED.replace("1700000100", word).replace("1700000200", word), SACCT)
    assert (job.start_seconds, job.end_seconds) == (0, 0)


def test_a_name_may_hold_the_separator() -> None:
    (job,), reader = read(f"{LINE}|and|so on ")
    assert (job.name, reader.unread) == ("sleep|and|so on ", 0)


def test_names_that_are_no_utf8_are_kept_readable() -> None:
    (job,), _ = read(LINE.encode() + b"\xe9\xff!")
    assert job.name == "sleep\ufffd\ufffd!"


@pytest.mark.parametrize("text", ["", "\n", "  \n\n"])
def test_an_empty_queue_has_no_jobs_and_nothing_wrong(text: str) -> None:
    jobs, reader = read(text)
    assert (jobs, reader.unread, reader.problem) == ([], 0, "")


@pytest.mark.parametrize("strange", ["41", "41|41|1000|alice", "x|y", "|" * 20, LINE.replace("41|", "abc|", 2)])
def test_a_short_or_strange_line_costs_that_line_only(strange: str) -> None:
    jobs, reader = read(f"{LINE}\n{strange}\n{LINE.replace('41', '43')}\n")
    assert [job.id for job in jobs] == [41, 43]
    assert (reader.unread, reader.problem) == (1, "")


def test_lines_of_which_none_is_a_job_are_no_answer() -> None:
    jobs, reader = read("slurm_load_jobs error: Unable to contact slurm controller\nWhat?\n")
    assert (jobs, reader.problem) == ([], "2 lines, and none is a job's: 'What?'")


@pytest.mark.parametrize("size", [1, 7, 100])
def test_it_does_not_matter_how_the_text_was_cut(size: int) -> None:
    text = f"{LINE}é\n{LINE.replace('41', '43')}"
    assert read(text, size=size)[0] == read(text)[0]


def test_a_line_without_end_takes_up_no_room_for_ever() -> None:
    reader = TextJobs(tuple(SQUEUE.values()), Nobody())
    for _ in range(100):
        assert reader.feed(b"x" * 10000) == []
    assert len(reader._rest) <= 1 << 16  # noqa: SLF001
    assert reader.end() == []
    assert reader.problem


def test_a_line_that_is_printed_again_is_not_read_again() -> None:
    (first, second), before = read(f"{LINE}\n{LINE.replace('41', '43')}\n")
    names = Nobody()
    reader = TextJobs(tuple(SQUEUE.values()), names, before.lines)
    again = reader.feed(f"{LINE}\n{LINE.replace('41', '43').replace('RUNNING', 'SUSPENDED')}\n".encode())
    assert again[0] is first
    assert (again[1].id, second.state, again[1].state) == (43, "RUNNING", "SUSPENDED")
    assert len(reader.lines) == 2, "what is not printed any more is forgotten"
