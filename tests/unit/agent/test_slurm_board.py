"""What each aggregator is told of Slurm's jobs: all of it once, then what changes, and answers to its questions."""

from collections.abc import Sequence

import pytest

from harvest.v1.stream_pb2 import JobTable, StreamRequest
from harvest_agent.slurm import board as module
from harvest_agent.slurm.board import Feed, JobBoard
from harvest_core.slurm.jobs import SlurmJob


def job(number: int, state: str = "RUNNING", start: int = 100, name: str = "") -> SlurmJob:
    return SlurmJob(id=number, state=state, start_seconds=start, name=name, partition="batch")


def tables(feed: Feed) -> list[JobTable]:
    found = []
    while (payload := feed.next()) is not None:
        found.append(StreamRequest.FromString(payload).job_table)
    return found


def told(feed: Feed) -> list[str]:
    return [f"{each.id} {each.state} {each.start_seconds}" for table in tables(feed) for each in table.jobs]


def shows(board: JobBoard, *jobs: SlurmJob, is_whole: bool = True) -> None:
    board.take(jobs)
    board.answered(is_whole=is_whole)
    board.told()


@pytest.fixture
def board() -> JobBoard:
    return JobBoard("command")


def test_before_slurm_has_answered_only_health_is_told(board: JobBoard) -> None:
    feed = board.feed()
    board.health.problem = "no answer"
    board.told()
    (table,) = tables(feed)
    assert (table.full, table.last, table.health.problem, table.health.source) == (False, True, "no answer", "command")
    assert tables(feed) == []


def test_a_stream_begins_with_all_jobs_whenever_it_begins(board: JobBoard) -> None:
    early = board.feed()
    shows(board, job(1), job(2))
    late = board.feed()
    for feed in (early, late):
        (table,) = tables(feed)
        assert (table.full, table.last) == (True, True)
        assert [each.id for each in table.jobs] == [1, 2]


def test_then_only_changes_are_told(board: JobBoard) -> None:
    feed = board.feed()
    shows(board, job(1), job(2))
    told(feed)
    shows(board, job(1), job(2))
    assert told(feed) == []
    shows(board, job(1, "COMPLETED"), job(2), job(3, "PENDING", 0))
    assert told(feed) == ["1 COMPLETED 100", "3 PENDING 0"]


def test_an_empty_table_is_told_too(board: JobBoard) -> None:
    feed = board.feed()
    shows(board)
    (table,) = tables(feed)
    assert (table.full, table.last, len(table.jobs)) == (True, True, 0)


def test_half_an_answer_is_no_table_but_later_what_changed(board: JobBoard) -> None:
    feed = board.feed()
    shows(board, job(1), is_whole=False)
    assert not any(table.full for table in tables(feed))
    shows(board, job(1), job(2))
    assert told(feed) == ["1 RUNNING 100", "2 RUNNING 100"]


def test_a_large_table_comes_in_parts_and_what_changes_meanwhile_after_it(board: JobBoard) -> None:
    feed = board.feed()
    shows(board, *(job(number, name="n" * 1000) for number in range(1, 3000)))
    first = feed.next()
    assert first is not None
    shows(board, *(job(number, name="n" * 1000) for number in range(1, 2999)), job(2999, "COMPLETED"))
    parts = [StreamRequest.FromString(first).job_table, *tables(feed)]

    assert [(part.full, part.last) for part in parts] == [(True, False), (True, False), (True, True), (False, True)]
    assert all(part.ByteSize() < 1100 << 10 for part in parts)
    assert [each.id for part in parts[:3] for each in part.jobs] == list(range(1, 3000))
    assert [f"{each.id} {each.state}" for each in parts[3].jobs] == ["2999 COMPLETED"]
    assert [part.HasField("health") for part in parts] == [False, False, True, True]


def test_of_several_changes_the_last_of_each_run_is_told_and_in_order(board: JobBoard) -> None:
    feed = board.feed()
    shows(board, job(1, "PENDING", 0))
    told(feed)
    shows(board, job(1, "RUNNING", 100))
    shows(board, job(1, "PENDING", 0))
    assert told(feed) == ["1 RUNNING 100", "1 PENDING 0"]


def test_runs_that_were_lost_are_asked_of_accounting_and_told(board: JobBoard) -> None:
    feed = board.feed()
    shows(board, job(1), job(2), job(3, "COMPLETED"))
    told(feed)
    shows(board)
    assert board.to_ask(1000) == [1, 2]
    assert board.to_ask(1) == [1]
    board.accounted([1, 2], [job(1, "FAILED")])
    parts = tables(feed)
    assert [f"{each.id} {each.state}" for part in parts for each in part.jobs] == ["1 FAILED"]
    assert [number for part in parts for number in part.unknown_jobs] == [2]
    assert board.to_ask(1000) == []


def test_streams_that_begin_later_hear_what_accounting_said(board: JobBoard) -> None:
    shows(board, job(1), job(2))
    shows(board, job(2))
    board.accounted([1], [job(1, "FAILED")])
    assert told(board.feed()) == ["1 FAILED 100", "2 RUNNING 100"]


def test_what_accounting_does_not_know_is_never_asked_again(board: JobBoard) -> None:
    feed = board.feed()
    shows(board)
    tables(feed)
    feed.ask([7], [])
    board.accounted(board.to_ask(1000), [])
    feed.ask([7], [])
    assert board.to_ask(1000) == []
    assert [number for part in tables(feed) for number in part.unknown_jobs] == [7]
    other = board.feed()
    other.ask([7], [])
    assert [number for part in tables(other) for number in part.unknown_jobs] == [7], "another one is told, too"


def test_what_slurmctld_shows_later_is_asked_of_accounting_when_it_has_forgotten_it(board: JobBoard) -> None:
    feed = board.feed()
    shows(board, job(1))
    feed.ask([7], [])
    board.accounted([7], [])
    assert [list(table.unknown_jobs) for table in tables(feed)] == [[7]]
    shows(board, job(1), job(7, "COMPLETED"))
    shows(board, job(1))
    feed.close()
    again = board.feed()
    tables(again)
    again.ask([7], [])
    assert board.to_ask(9) == [7]
    board.accounted([7], [job(7, "COMPLETED")])
    assert told(again) == ["7 COMPLETED 100"]


def test_numbers_that_no_job_can_have_are_asked_of_nobody(board: JobBoard) -> None:
    feed = board.feed()
    shows(board)
    tables(feed)
    feed.ask([0, 4294967294, 1 << 60], [])
    assert board.to_ask(1000) == []
    board.told()
    assert [number for part in tables(feed) for number in part.unknown_jobs] == [0, 4294967294, 1 << 60]


def test_an_earlier_run_of_a_job_that_was_requeued_is_told_beside_the_present_one(board: JobBoard) -> None:
    feed = board.feed()
    shows(board, job(1, "RUNNING", 100))
    shows(board, job(1, "RUNNING", 300))
    told(feed)
    board.accounted(board.to_ask(1000), [job(1, "REQUEUED", 100), job(1, "RUNNING", 300)])
    assert told(feed) == ["1 REQUEUED 100"], "slurmctld itself tells of the present one"
    assert board.to_ask(1000) == []
    shows(board, job(1, "COMPLETED", 300))
    assert told(board.feed()) == ["1 REQUEUED 100", "1 COMPLETED 300"]


def test_accounting_that_is_late_is_asked_again_but_not_for_ever(board: JobBoard) -> None:
    shows(board, job(1))
    shows(board)
    for _ in range(3):
        assert board.to_ask(1000) == [1]
        board.accounted([1], [job(1, "RUNNING")])
    assert board.to_ask(1000) == []


def test_half_a_record_of_accounting_is_not_told_while_the_rest_may_come(board: JobBoard) -> None:
    """For some seconds it knows of a brief job only that it has ended."""
    feed = board.feed()
    shows(board)
    tables(feed)
    feed.ask([1, 2], [])
    half = [SlurmJob(id=number, state="COMPLETED", start_seconds=90, name="allocation") for number in (1, 2)]
    board.accounted([1, 2], half)
    assert tables(feed) == []
    board.accounted([1, 2], [job(1, "COMPLETED"), half[1]])
    assert told(feed) == ["1 COMPLETED 100"]
    assert board.to_ask(1000) == [2]
    board.accounted([2], [half[1]])
    assert told(feed) == ["2 COMPLETED 90"], "better than nothing"


def test_questions_about_jobs_that_are_known_are_answered_from_memory(board: JobBoard) -> None:
    feed = board.feed()
    shows(board, job(1), job(2))
    shows(board, job(2))
    board.accounted([1], [job(1, "FAILED")])
    told(feed)
    feed.ask([1, 2], [])
    assert told(feed) == ["1 FAILED 100", "2 RUNNING 100"]
    assert board.to_ask(1000) == []


def test_an_answer_is_only_about_what_was_asked_for(board: JobBoard) -> None:
    feed = board.feed()
    shows(board)
    tables(feed)
    feed.ask([10], [])
    board.accounted([10], [job(10, "COMPLETED"), job(11, "COMPLETED")])
    assert told(feed) == ["10 COMPLETED 100"]


def test_users_are_told_to_everybody(board: JobBoard) -> None:
    asked: list[int] = []
    board.on_uid = asked.append
    feeds = [board.feed(), board.feed()]
    feeds[0].ask([], [1000, 5])
    assert asked == [1000, 5]
    board.named(1000, ("alice", 100, "users"))
    for feed in feeds:
        (table,) = tables(feed)
        assert [(user.uid, user.name, user.gid, user.group) for user in table.users] == [(1000, "alice", 100, "users")]


def test_a_feed_that_is_closed_takes_up_no_room(board: JobBoard) -> None:
    feed = board.feed()
    shows(board, job(1))
    tables(feed)
    feed.close()
    feed.close()
    shows(board, job(1, "COMPLETED"))
    assert feed.pending == {}


def limited(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(module, name, value)


def test_an_aggregator_that_does_not_listen_is_told_everything_again_later(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, _PENDING_MOST=10)
    feed = board.feed()
    shows(board)
    tables(feed)
    for start in range(20):
        shows(board, job(1, "COMPLETED", start + 1))
    assert len(feed.pending) <= 10
    (table,) = tables(feed)
    assert table.full
    assert [each.start_seconds for each in table.jobs] == [20]


def test_what_is_remembered_is_bounded(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, _WANTED_MOST=3, _SETTLED_MOST=2, _UNKNOWN_MOST=2)
    feed = board.feed()
    shows(board)
    feed.ask(range(1, 10), [])
    assert board.to_ask(1000) == [1, 2, 3]
    board.accounted([1, 2, 3], [job(number, "COMPLETED") for number in (1, 2, 3)])
    assert told(board.feed()) == ["2 COMPLETED 100", "3 COMPLETED 100"]
    feed.ask([4, 5, 6], [])
    board.accounted([4, 5, 6], [])
    feed.ask([4, 5, 6], [])
    assert board.to_ask(1000) == [4], "the oldest of the unknown was forgotten"


def test_many_users_come_in_several_messages(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, _USERS_MOST=2)
    feed = board.feed()
    for uid in range(5):
        board.named(uid, (f"u{uid}", 0, ""))
    counts: Sequence[int] = [len(table.users) for table in tables(feed)]
    assert counts == [2, 2, 1]
