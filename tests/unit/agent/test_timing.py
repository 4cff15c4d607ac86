"""When sweeps happen, how often, and when an agent tries again."""

import pytest

from harvest_agent.timing import BackOff, Duty, is_due, next_tick, skipped_seconds, tick_before


@pytest.mark.parametrize(
    ("now", "period", "last", "tick"),
    [
        (0.0, 20, None, 20),
        (19.9, 20, None, 20),
        (20.0, 20, None, 40),
        (45.0, 20, 40, 60),
        (85.0, 20, 40, 100),  # a sweep took two ticks: they are skipped
        (39.0, 20, 40, 60),  # the clock went back a little: 40 was swept
        (21.0, 20, 40, 60),
        (19.0, 20, 40, 20),  # it went back more than a period: from there on
        (-5.0, 20, 1_000_000, 0),
        (1_000_000.0, 20, 40, 1_000_020),
        (45.0, 60, 40, 60),  # the period was stretched
        (59.5, 1, 59, 60),
    ],
)
def test_the_next_tick_is_a_multiple_of_the_period_on_the_wall_clock(
    now: float, period: int, last: int | None, tick: int
) -> None:
    assert next_tick(now, period, last) == tick


def test_a_tick_is_due_from_its_time_on_until_the_next() -> None:
    assert [is_due(now, 40, 20) for now in (39.9, 40.0, 59.9, 60.0)] == [False, True, True, False]


def test_the_last_sweep_is_for_the_last_tick_there_was() -> None:
    assert [tick_before(now, 20) for now in (40.0, 59.9)] == [40, 40]


@pytest.mark.parametrize(
    ("tick", "last", "period", "skipped"),
    [(40, None, 20, 0), (60, 40, 20, 0), (100, 40, 20, 40), (41, 40, 20, 0), (20, 3600, 20, 0)],
)
def test_ticks_without_a_sweep_are_told_and_a_clock_that_went_back_is_none(
    tick: int, last: int | None, period: int, skipped: int
) -> None:
    assert skipped_seconds(tick, last, period) == skipped


def periods(costs: list[float], limit: float = 0.1) -> list[int]:
    duty = Duty(limit)
    found = []
    for cost in costs:
        duty.spent(cost, 20)
        found.append(duty.intervals)
    return found


def test_a_cheap_agent_keeps_the_interval() -> None:
    assert periods([0.0, 1.9, 2.0]) == [1, 1, 1]


def test_an_expensive_sweep_stretches_the_period_at_once_to_whole_intervals() -> None:
    assert periods([2.1]) == [2]
    assert periods([7.0]) == [4]
    assert periods([1e9]) == [30]


def test_it_comes_back_step_by_step_when_sweeps_are_cheap_again() -> None:
    assert periods([5.0, *[0.1] * 7]) == [3, 3, 3, 2, 2, 2, 1, 1]


def test_costs_near_the_limit_do_not_make_it_swing() -> None:
    assert periods([2.1, *[1.9] * 6]) == [2] * 7
    assert periods([2.1, 0.1, 0.1, 1.9, 0.1, 0.1, 0.1]) == [2, 2, 2, 2, 2, 2, 1]


def test_waits_double_up_to_a_bound_and_begin_again_after_success() -> None:
    back_off = BackOff()
    assert [back_off.seconds(1.0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    back_off.succeeded()
    assert back_off.seconds(1.0) == 1


def test_waits_are_spread() -> None:
    assert (BackOff(failures=9).seconds(0.0), BackOff(failures=9).seconds(1.0)) == (15, 30)


def test_what_an_aggregator_asks_for_is_the_least() -> None:
    assert BackOff().seconds(0.0, least=60) == 60
    assert BackOff().seconds(1.0, least=60) == pytest.approx(66)
