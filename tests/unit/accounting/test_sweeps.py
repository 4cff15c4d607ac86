"""Sweeps as others see them: when they close, what they hold, and that they stay as they are."""

import pytest

from harvest_core.accounting.sweeps import ClosedSweep, Sweeps
from unit.accounting.builder import Target
from unit.accounting.printed import job

NAME = "fs-OST0000"
DATA = ("write_bytes", "bytes")
ONE = frozenset({NAME})


def closed(sweeps: Sweeps, now: float, expected: frozenset[str] = ONE) -> list[ClosedSweep]:
    return sweeps.close(now, expected)


def rate(sweep: ClosedSweep, name: str = "a") -> tuple[float, float] | None:
    return sweep.rates.get((NAME, name.encode(), *DATA))


def test_a_sweep_closes_when_all_expected_have_reported() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    first, second = Target(), Target(name="fs-OST0001")
    both = frozenset({first.name, second.name})
    sweeps.report(first.name, first.read(20, job("a", 1, 1, 10)))
    assert closed(sweeps, 21, both) == []

    sweeps.report(second.name, second.read(20, job("a", 1, 1, 10)))

    [sweep] = closed(sweeps, 21, both)
    assert (sweep.tick_seconds, sweep.missing) == (20, frozenset())


def test_a_sweep_closes_at_the_deadline_and_says_who_is_missing() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    both = frozenset({target.name, "fs-OST0001"})
    sweeps.report(target.name, target.read(20, job("a", 1, 1, 10)))
    assert closed(sweeps, 24.9, both) == []

    [sweep] = closed(sweeps, 25, both)

    assert sweep.missing == {"fs-OST0001"}


def test_sweeps_close_in_order_and_once() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    for tick in (20, 40, 60):
        sweeps.report(target.name, target.read(tick, job("a", tick, tick, tick - 5)))

    assert [sweep.tick_seconds for sweep in closed(sweeps, 61)] == [20, 40, 60]
    assert closed(sweeps, 999) == []


def test_an_older_sweep_that_waits_holds_back_those_after_it() -> None:
    sweeps = Sweeps(deadline_seconds=30)
    target = Target()
    both = frozenset({target.name, "fs-OST0001"})
    other = Target(name="fs-OST0001")
    sweeps.report(target.name, target.read(20, job("a", 1, 1, 10)))
    sweeps.report(target.name, target.read(40, job("a", 2, 2, 30)))
    sweeps.report(other.name, other.read(40, job("a", 1, 1, 10)))

    assert closed(sweeps, 41, both) == []
    assert [sweep.tick_seconds for sweep in closed(sweeps, 50, both)] == [20, 40]


def test_a_rate_is_work_by_the_time_since_the_targets_previous_tick() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.read(20, job("a", 10, 1000, 10))
    target.skip_read()
    sweeps.report(NAME, target.read(60, job("a", 30, 9000, 50)))

    [sweep] = closed(sweeps, 61)

    assert rate(sweep) == (20 / 40, 8000 / 40)


def test_a_first_sight_has_a_rate_only_where_start_time_proves_when_it_began() -> None:
    for version, expected in (("2.12.9", None), ("2.15.8", (10 / 20, 1000 / 20)), ("2.15.0", (10 / 20, 1000 / 20))):
        sweeps = Sweeps(deadline_seconds=5)
        target = Target(version)
        sweeps.report(NAME, target.read(20, job("a", 10, 1000, 15, start=7)))

        [sweep] = closed(sweeps, 21)

        assert rate(sweep) == expected


def test_a_first_sight_that_began_long_ago_has_a_rate_over_all_that_time() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.15.8")
    sweeps.report(NAME, target.read(100, job("a", 10, 1000, 95, start=33)))

    [sweep] = closed(sweeps, 101)

    assert rate(sweep) == (10 / 80, 1000 / 80)


def test_late_data_raises_totals_and_does_not_rewrite_what_was_published() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.read(20, job("a", 10, 1000, 10))
    sweeps.report(NAME, target.read(40, job("a", 20, 2000, 30)))
    [sweep] = closed(sweeps, 41)
    before = dict(sweep.rates)
    other = target.on("oss2")
    other.hold(20, job("a", 7, 700, 12))
    other.hold(40, job("a", 8, 800, 32))

    for work in other.deliver():
        sweeps.report(NAME, work)

    assert closed(sweeps, 99) == []
    assert sweep.rates == before == {(NAME, b"a", *DATA): (0.5, 50.0)}
    assert target.total("a") == (28, 2800)


def test_a_closed_sweep_is_immutable() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    sweeps.report(NAME, Target().read(20, job("a", 1, 1, 10)))
    [sweep] = closed(sweeps, 21)

    with pytest.raises(AttributeError):
        sweep.tick_seconds = 7  # type: ignore[misc]


def test_what_was_applied_before_reports_nothing() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.hold(20, job("a", 1, 1, 10))
    again = list(target.spool)
    target.deliver()
    sweeps.report(NAME, target.aggregator.take(again[0]))

    assert closed(sweeps, 99) == []


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(job("a", 3, 300, 30), id="begun again, lower"),
        pytest.param(job("a", 12, 900, 30), id="begun again, fewer bytes"),
        pytest.param(job("a", 12, 1200, 700), id="flagged"),
    ],
)
def test_no_rate_is_negative_or_above_what_was_done_since(after: object) -> None:
    assert isinstance(after, type(job("a")))
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.read(20, job("a", 10, 1000, 10))
    target.restart_agent()
    sweeps.report(NAME, target.read(720 if after.at > 100 else 40, after))

    for sweep in closed(sweeps, 999):
        samples, amount = rate(sweep) or (0.0, 0.0)
        assert 0 <= samples * 20 <= after.counters["data"].samples
        assert 0 <= amount * 20 <= after.counters["data"].total


def test_what_may_not_be_new_is_in_the_total_but_in_no_rate() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.read(20, job("a", 10, 1000, 10))
    target.restart_agent()
    sweeps.report(NAME, target.read(720, job("a", 17, 1700, 710)))

    [sweep] = closed(sweeps, 721)

    assert target.total("a") == (27, 2700)
    assert rate(sweep) == (7 / 700, 700 / 700)


def test_no_work_is_negative_where_a_number_fell_within_a_life() -> None:
    named = Target("2.15.8")
    named.read(20, job("a", 10, 1000, 10, start=5, punch=(3, 300)))
    of_usecs = Target("2.14.0")
    of_usecs.read(20, job("a", 10, 1000, 10, punch=(3, 300)))

    works = [
        named.read(40, job("a", 9, 900, 30, start=5, punch=(4, 200))),
        of_usecs.read(40, job("a", 11, 1100, 30, punch=(4, 200))),
    ]

    assert [work.samples.tolist() for work in works] == [[1], [1, 1]]
    assert [work.sum.tolist() for work in works] == [[0], [100, 0]]


def test_a_clock_that_was_set_back_makes_no_record_younger() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.15.8")
    target.read(100, job("b", 1, 1, 90, start=80))
    target.clock_step_seconds = -60
    sweeps.report(NAME, target.read(120, job("b", 1, 1, 90, start=80), job("a", 10, 1000, 59, start=95)))

    [sweep] = closed(sweeps, 121)

    assert rate(sweep) == (10 / 40, 1000 / 40)
