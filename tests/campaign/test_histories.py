"""Histories made by hand: where the border runs between what cannot be seen and what must be flagged."""

from campaign.history import History
from campaign.plan import TARGETS, Plan, Step
from campaign.runner import problem
from harvest_sim.lives import EndReason

_OST = TARGETS[0]


def _played(*steps: Step) -> tuple[History, str]:
    """Play these steps on servers that tell no start and drop what was idle for 61 s; also say what is wrong."""
    plan = Plan(
        seed=0,
        versions=("2.14.0", "2.14.0"),
        cleanup_seconds=61,
        ticks=8,
        targets=TARGETS,
        part_records=8192,
        calm=False,
        steps=steps,
    )
    history = History(plan)
    return history, problem(plan, history.play())


def _write(tick: int, after: float, job: bytes, times: int) -> Step:
    return Step(tick, after, "io", _OST, job, "write", 1000, times)


def _first_ends(history: History) -> dict[bytes, EndReason | None]:
    """Return why each job's first life ended."""
    return {life.readable_key: life.end_reason for life in reversed(history.world.site.truth.lives)}


def test_who_was_evicted_and_is_back_before_one_that_was_cleared_without_a_trace_left_none_either() -> None:
    """The one behind was busy until the clear, so nobody doubts that it stayed, and with it all before it."""
    history, wrong = _played(
        _write(3, 3.4, b"1", 5),
        _write(5, 1.5, b"2", 5),
        Step(7, 2.0, "clear", _OST),
        _write(7, 3.0, b"1", 9),
        _write(7, 4.0, b"2", 9),
    )

    ends = _first_ends(history)
    assert (ends[b"1"], ends[b"2"]) == (EndReason.EVICTED, EndReason.CLEARED)
    assert wrong == ""
    assert len(history.world.ledger.book.invisible) == 2
    assert history.world.ledger.book.flags == []


def test_who_was_evicted_and_is_back_before_one_that_was_cleared_but_idle_must_be_flagged() -> None:
    """The one behind may have been evicted as well: it does not prove that anybody stayed."""
    history, wrong = _played(
        _write(3, 3.4, b"1", 5),
        _write(4, 1.5, b"2", 5),
        Step(7, 2.0, "clear", _OST),
        _write(7, 3.0, b"1", 9),
        _write(7, 4.0, b"2", 9),
    )

    ends = _first_ends(history)
    assert (ends[b"1"], ends[b"2"]) == (EndReason.EVICTED, EndReason.CLEARED)
    assert wrong == ""
    assert history.world.ledger.book.invisible == []
    assert len(history.world.ledger.book.flags) == 2
