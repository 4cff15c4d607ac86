"""How a job lives, from its first work to its final record."""

import pytest

from harvest_core.jobs.life import (
    BUSY_SECONDS,
    FORGOTTEN_SECONDS,
    SETTLED_SECONDS,
    WAITED_SECONDS,
    Life,
    Sign,
    is_settled,
    life,
)

NOW = 1_000_000


def test_times_are_those_that_people_were_told() -> None:
    assert (BUSY_SECONDS, SETTLED_SECONDS, FORGOTTEN_SECONDS, WAITED_SECONDS) == (60, 15 * 60, 30 * 60, 6 * 3600)


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "COMPLETING", "PENDING", "REQUEUED"])
@pytest.mark.parametrize(("idle", "expected"), [(0, Life.RUNNING), (BUSY_SECONDS, Life.QUIET), (10**6, Life.QUIET)])
def test_what_slurm_keeps_is_alive_however_quiet_it_is(state: str, idle: int, expected: Life) -> None:
    sign = Sign(state, None, NOW - idle)
    assert life(sign, NOW) is expected
    assert not is_settled(sign, NOW)


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "NEW"])
def test_what_slurm_ended_has_ended_also_while_it_still_writes_back(state: str) -> None:
    assert life(Sign(state, NOW, NOW), NOW) is Life.ENDED


def test_it_settles_when_nothing_came_for_a_while() -> None:
    ended = Sign("COMPLETED", NOW, NOW + 100)
    assert not is_settled(ended, NOW + 100 + SETTLED_SECONDS - 1)
    assert is_settled(ended, NOW + 100 + SETTLED_SECONDS)


def test_or_after_a_long_time_in_any_case() -> None:
    still_writes = Sign("COMPLETED", NOW, NOW + WAITED_SECONDS)
    assert not is_settled(still_writes, NOW + WAITED_SECONDS - 1)
    assert is_settled(still_writes, NOW + WAITED_SECONDS)


def test_whom_nobody_follows_is_forgotten_half_an_hour_after_the_last_work() -> None:
    sign = Sign(None, None, NOW)
    assert life(sign, NOW + BUSY_SECONDS) is Life.QUIET
    assert life(sign, NOW + FORGOTTEN_SECONDS - 1) is Life.QUIET
    assert not is_settled(sign, NOW + FORGOTTEN_SECONDS - 1)
    assert life(sign, NOW + FORGOTTEN_SECONDS) is Life.ENDED
    assert is_settled(sign, NOW + FORGOTTEN_SECONDS)


def test_a_job_that_never_worked_since_anybody_can_say_is_quiet_while_slurm_has_it() -> None:
    assert life(Sign("RUNNING", None, None), NOW) is Life.QUIET


def test_an_end_that_is_still_to_come_settles_nothing_and_hinders_nothing() -> None:
    clock_was_wrong = Sign("COMPLETED", NOW + 10**9, NOW)
    assert not is_settled(clock_was_wrong, NOW + FORGOTTEN_SECONDS - 1)
    assert is_settled(clock_was_wrong, NOW + FORGOTTEN_SECONDS)
