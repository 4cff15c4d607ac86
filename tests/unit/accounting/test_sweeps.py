"""Sweeps as others see them: when they close, what they hold, and that they stay as they are."""

import pytest

from harvest_core.accounting.mounts import NEVER
from harvest_core.accounting.sweeps import ClosedSweep, Place, Sweeps
from harvest_core.accounting.totals import RESTORED, job_totals
from unit.accounting.builder import Target
from unit.accounting.printed import job

DATA = ("write_bytes", "bytes")


def place(number: int = 0) -> Place:
    return Place("fs", "OST", f"fs-OST{number:04x}")


HERE, OTHER = place(0), place(1)
ONE, BOTH = frozenset({HERE}), frozenset({HERE, OTHER})


def closed(sweeps: Sweeps, now: float, expected: frozenset[Place] = ONE) -> list[ClosedSweep]:
    return sweeps.close(now, expected)


def rate(sweep: ClosedSweep, name: str = "a") -> tuple[float, float] | None:
    table = sweep.tables[HERE.table]
    row = table.row(name.encode())
    if row is None or DATA not in table.counters:
        return None
    column = table.counters.index(DATA)
    found = float(table.sample_rates[row, column]), float(table.sum_rates[row, column])
    return None if found == (0, 0) else found


def total(sweep: ClosedSweep, name: str = "a") -> tuple[int, int]:
    return sweep.tables[HERE.table].job(name.encode()).counters[DATA]


def test_a_sweep_closes_when_all_expected_have_reported() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    first, second = Target(), Target(name=OTHER.target)
    sweeps.report(HERE, first.read(20, job("a", 1, 1, 10)))
    assert closed(sweeps, 21, BOTH) == []

    sweeps.report(OTHER, second.read(20, job("a", 1, 1, 10)))

    [sweep] = closed(sweeps, 21, BOTH)
    assert (sweep.tick_seconds, sweep.missing) == (20, frozenset())


def test_a_sweep_closes_at_the_deadline_and_says_who_is_missing() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    sweeps.report(HERE, target.read(20, job("a", 1, 1, 10)))
    assert closed(sweeps, 24.9, BOTH) == []

    [sweep] = closed(sweeps, 25, BOTH)

    assert sweep.missing == {OTHER}


def test_sweeps_close_in_order_and_once() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    for tick in (20, 40, 60):
        sweeps.report(HERE, target.read(tick, job("a", tick, tick, tick - 5)))

    assert [sweep.tick_seconds for sweep in closed(sweeps, 61)] == [20, 40, 60]
    assert closed(sweeps, 999) == []


def test_a_sweep_of_which_nobody_reports_anything_closes_if_it_was_begun() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    sweeps.report(HERE, target.read(20, job("a", 1, 1, 15)))
    sweeps.begin(20)
    sweeps.begin(40)
    assert [(one.tick_seconds, rate(one), one.missing) for one in closed(sweeps, 45, BOTH)][1:] == [(40, None, BOTH)]
    sweeps.begin(40)
    assert closed(sweeps, 46) == []


def test_an_older_sweep_that_waits_holds_back_those_after_it() -> None:
    sweeps = Sweeps(deadline_seconds=30)
    target = Target()
    other = Target(name=OTHER.target)
    sweeps.report(HERE, target.read(20, job("a", 1, 1, 10)))
    sweeps.report(HERE, target.read(40, job("a", 2, 2, 30)))
    sweeps.report(OTHER, other.read(40, job("a", 1, 1, 10)))

    assert closed(sweeps, 41, BOTH) == []
    assert [sweep.tick_seconds for sweep in closed(sweeps, 50, BOTH)] == [20, 40]


def test_a_rate_is_work_by_the_time_since_the_targets_previous_tick() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.read(20, job("a", 10, 1000, 10))
    target.skip_read()
    sweeps.report(HERE, target.read(60, job("a", 30, 9000, 50)))

    [sweep] = closed(sweeps, 61)

    assert rate(sweep) == (20 / 40, 8000 / 40)


def test_a_first_sight_has_a_rate_only_where_start_time_proves_when_it_began() -> None:
    for version, expected in (("2.12.9", None), ("2.15.8", (10 / 20, 1000 / 20)), ("2.15.0", (10 / 20, 1000 / 20))):
        sweeps = Sweeps(deadline_seconds=5)
        target = Target(version)
        sweeps.report(HERE, target.read(20, job("a", 10, 1000, 15, start=7)))

        [sweep] = closed(sweeps, 21)

        assert rate(sweep) == expected


def test_a_first_sight_that_began_long_ago_has_a_rate_over_all_that_time() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.15.8")
    sweeps.report(HERE, target.read(100, job("a", 10, 1000, 95, start=33)))

    [sweep] = closed(sweeps, 101)

    assert rate(sweep) == (10 / 80, 1000 / 80)


def test_late_data_raises_totals_and_does_not_rewrite_what_was_published() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.read(20, job("a", 10, 1000, 10))
    sweeps.report(HERE, target.read(40, job("a", 20, 2000, 30)))
    [sweep] = closed(sweeps, 41)
    other = target.on("oss2")
    other.hold(20, job("a", 7, 700, 12))
    other.hold(40, job("a", 8, 800, 32))

    for work in other.deliver():
        sweeps.report(HERE, work)

    assert closed(sweeps, 99) == []
    assert (rate(sweep), total(sweep)) == ((0.5, 50.0), (10, 1000))
    sweeps.report(HERE, target.read(60, job("a", 20, 2000, 30)))
    [after] = closed(sweeps, 61)
    assert (rate(after), total(after)) == (None, (18, 1800))
    assert (rate(sweep), total(sweep)) == ((0.5, 50.0), (10, 1000))


def test_a_closed_sweep_is_immutable() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    sweeps.report(HERE, Target().read(20, job("a", 1, 1, 10)))
    [sweep] = closed(sweeps, 21)

    with pytest.raises(AttributeError):
        sweep.tick_seconds = 7  # type: ignore[misc]


def test_what_was_applied_before_reports_nothing() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.hold(20, job("a", 1, 1, 10))
    again = list(target.spool)
    target.deliver()
    sweeps.report(HERE, target.aggregator.take(again[0]))

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
    sweeps.report(HERE, target.read(720 if after.at > 100 else 40, after))

    for sweep in closed(sweeps, 999):
        samples, amount = rate(sweep) or (0.0, 0.0)
        assert 0 <= samples * 20 <= after.counters["data"].samples
        assert 0 <= amount * 20 <= after.counters["data"].total


def test_what_may_not_be_new_is_in_the_total_but_in_no_rate() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.read(20, job("a", 10, 1000, 10))
    target.restart_agent()
    sweeps.report(HERE, target.read(720, job("a", 17, 1700, 710)))

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
    sweeps.report(HERE, target.read(120, job("b", 1, 1, 90, start=80), job("a", 10, 1000, 59, start=95)))

    [sweep] = closed(sweeps, 121)

    assert rate(sweep) == (10 / 40, 1000 / 40)


# --- tables ---


def test_a_table_adds_up_all_records_of_a_job_on_all_targets_of_a_kind() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    first, second = Target("2.15.8"), Target("2.15.8", name=OTHER.target)
    sweeps.report(HERE, first.read(20, job("a", 1, 10, 10, start=5), job("a", 2, 20, 15, start=12)))
    sweeps.report(OTHER, second.read(20, job("b", 4, 40, 10, start=5), job("a", 8, 80, 10, start=5)))
    sweeps.report(Place("fs", "MDT", "fs-MDT0000"), Target(name="fs-MDT0000").read(20, job("a", at=10, open=3)))
    sweeps.report(Place("fs2", "OST", "fs2-OST0000"), Target(name="fs2-OST0000").read(20, job("a", 9, 90, 10)))

    [sweep] = closed(sweeps, 999)

    assert sweep.tables.keys() == {("fs", "OST"), ("fs", "MDT"), ("fs2", "OST")}
    assert (total(sweep, "a"), total(sweep, "b")) == ((11, 110), (4, 40))
    assert rate(sweep, "a") == (11 / 20, 110 / 20)
    assert sweep.tables["fs", "MDT"].job(b"a").iops == 3
    assert sweep.tables["fs2", "OST"].job(b"a").write_bytes == 90
    assert sweep.tables["fs2", "OST"].job(b"b").counters == {}


def test_work_of_a_sweep_that_is_still_open_is_in_no_total() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    sweeps.report(HERE, target.read(20, job("a", 1, 10, 10)))
    sweeps.report(HERE, target.read(40, job("a", 3, 30, 30), job("b", 1, 10, 30)))

    [early] = closed(sweeps, 20)
    [late] = closed(sweeps, 40)

    assert (total(early), total(late)) == ((1, 10), (3, 30))


def test_jobs_and_counters_that_come_later_change_no_table_that_was_published() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    sweeps.report(HERE, target.read(20, job("a", 1, 10, 10)))
    [before] = closed(sweeps, 21)
    other = Target("2.15.8", name=OTHER.target)  # its counters have other units
    records = [job(f"j{n}", 1, 1, 30, start=25) for n in range(100)]
    sweeps.report(OTHER, other.read(40, *records, job("a", 1, 10, 30, start=25, punch=(5, 50))))
    [after] = closed(sweeps, 99)
    table, later = before.tables[HERE.table], after.tables[HERE.table]

    assert (table.jobs, table.row(b"a"), table.row(b"j7")) == ((b"a",), 0, None)
    assert table.job(b"a").counters == {DATA: (1, 10)}
    shapes = {numbers.shape for numbers in (table.samples, table.sums, table.sample_rates, table.sum_rates)}
    assert shapes == {(1, len(table.counters))}
    assert later.job(b"a").counters == {DATA: (2, 20), ("punch", "usecs"): (5, 50)}
    assert later.jobs == (b"a", *(b"j%d" % n for n in range(100)))
    assert later.counters[: len(table.counters)] == table.counters != later.counters


def test_no_number_of_a_closed_table_can_be_changed() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    sweeps.report(HERE, Target().read(20, job("a", 1, 1, 10)))
    [sweep] = closed(sweeps, 21)
    table = sweep.tables[HERE.table]

    for numbers in (table.samples, table.sums, table.sample_rates, table.sum_rates):
        with pytest.raises(ValueError, match="read-only"):
            numbers[0, 0] = 7
    for times in (table.last_tick, table.snapshot_seconds, table.first_tick, table.changed_tick):
        with pytest.raises(ValueError, match="read-only"):
            times[0] = 7


def test_a_sweep_without_work_has_the_totals_and_no_rates() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    sweeps.report(HERE, target.read(20, job("a", 1, 10, 10)))
    sweeps.report(HERE, target.read(40, job("a", 1, 10, 10)))

    sweep = closed(sweeps, 41)[-1]

    assert (total(sweep), rate(sweep)) == ((1, 10), None)


def test_totals_are_those_of_the_stays_whatever_was_late() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.14.0")
    partner = target.on("oss2")
    for tick in range(20, 400, 20):
        for one in (target, partner):
            records = [job(f"j{n}", tick % 90 + n, 7 * tick % 900 + n, tick - n, punch=(n + 1, tick)) for n in range(9)]
            one.hold(tick, *records[tick % 7 :])
        sweeps.report(HERE, target.deliver()[-1])
        closed(sweeps, tick + 6)
    for work in partner.deliver():
        sweeps.report(HERE, work)
    sweeps.report(HERE, target.read(400))
    [sweep] = closed(sweeps, 999)

    assert sweep.tables[HERE.table].jobs
    assert {name: sweep.tables[HERE.table].job(name) for name in sweep.tables[HERE.table].jobs} == job_totals(
        target.aggregator.stays()
    )


def test_restored_totals_go_on_where_they_were() -> None:
    target = Target()
    target.read(20, job("a", 10, 1000, 10))
    target.read(40, job("a", 4, 400, 30))
    sweeps = Sweeps(deadline_seconds=5)
    [stay] = target.aggregator.stays()
    sweeps.restore(HERE, stay, until_tick=60)
    sweeps.report(HERE, target.read(60, job("a", 6, 600, 50)))

    [sweep] = closed(sweeps, 61)

    assert (total(sweep), rate(sweep)) == ((16, 1600), (2 / 20, 200 / 20))


def test_what_was_published_before_a_restart_is_not_published_again() -> None:
    target = Target()
    sweeps = Sweeps(deadline_seconds=5, closed_tick_seconds=59)
    sweeps.report(HERE, target.read(40, job("a", 10, 1000, 30)))
    assert closed(sweeps, 59) == []
    sweeps.report(HERE, target.read(60, job("a", 11, 1100, 50)))

    [sweep] = closed(sweeps, 61)

    assert total(sweep) == (11, 1100)


def test_what_is_late_by_its_clock_raises_totals_only() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.15.8")
    sweeps.report(HERE, target.read(20, job("a", 10, 1000, 10, start=5)), late=True)
    assert closed(sweeps, 99) == []
    sweeps.report(HERE, target.read(100, job("b", 1, 100, 90, start=85)))

    [sweep] = closed(sweeps, 101)

    assert (total(sweep), rate(sweep), rates_at(sweep, HERE)) == ((10, 1000), None, {"b": (1 / 20, 100 / 20)})


# --- by target ---


def rates_at(sweep: ClosedSweep, *places: Place) -> dict[str, tuple[float, float]]:
    """Return the rates of one counter, of all jobs that did anything on some targets."""
    some = sweep.at(places).get(HERE.table)
    if some is None:
        return {}
    column = some.counters.index(DATA)
    assert [some.row(name) for name in some.jobs] == list(range(len(some.jobs)))
    return {
        name.decode(): (float(some.sample_rates[row, column]), float(some.sum_rates[row, column]))
        for row, name in enumerate(some.jobs)
    }


def test_a_sweep_tells_who_did_what_on_each_target() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    first, second = Target("2.15.8"), Target("2.15.8", name=OTHER.target)
    sweeps.report(HERE, first.read(20, job("a", 10, 100, 10, start=5), job("a", 20, 200, 15, start=12)))
    sweeps.report(OTHER, second.read(20, job("b", 40, 400, 10, start=5), job("a", 80, 80_000_000_000, 10, start=5)))

    [sweep] = closed(sweeps, 21, BOTH)

    assert rates_at(sweep, HERE) == {"a": (1.5, 15)}
    assert rates_at(sweep, OTHER) == {"a": (4, 4_000_000_000), "b": (2, 20)}
    assert rates_at(sweep, *BOTH) == {"a": rate(sweep, "a"), "b": rate(sweep, "b")}
    assert rates_at(sweep, place(7)) == {}
    assert sweep.at([HERE])[HERE.table].job(b"a").write_bytes == 80_000_000_300


def test_who_did_nothing_at_the_tick_is_not_there() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.15.8")
    sweeps.report(HERE, target.read(20, job("a", 1, 10, 10, start=5), job("b", 1, 10, 10, start=5)))
    sweeps.report(HERE, target.read(40, job("a", 1, 10, 10, start=5), job("b", 2, 20, 30, start=5)))
    sweeps.report(HERE, target.read(60, job("a", 1, 10, 10, start=5), job("b", 2, 20, 30, start=5)))

    early, later, last = closed(sweeps, 61)

    assert [list(rates_at(sweep, HERE)) for sweep in (early, later, last)] == [["a", "b"], ["b"], []]


def test_who_began_at_a_time_that_nobody_knows_is_there_without_a_rate() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.12.9")
    sweeps.report(HERE, target.read(20, job("a", 1, 10, 10)))
    sweeps.report(HERE, target.read(40, job("a", 2, 30, 30), job("b", 5, 50, 30)))

    sweep = closed(sweeps, 41)[-1]

    assert rates_at(sweep, HERE) == {"a": (1 / 20, 20 / 20), "b": (0, 0)}


def test_what_may_not_be_new_is_in_no_rate_of_a_target() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    target.read(20, job("a", 10, 1000, 10))
    target.restart_agent()
    sweeps.report(HERE, target.read(720, job("a", 17, 1700, 710)))

    [sweep] = closed(sweeps, 721)

    assert rates_at(sweep, HERE) == {"a": (7 / 700, 700 / 700)}


def test_a_target_that_moves_between_servers_is_one_target() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.15.8")
    partner = target.on("oss2")
    sweeps.report(HERE, target.read(20, job("a", 20, 200, 10, start=5)))
    sweeps.report(HERE, partner.read(20, job("a", 40, 400, 18, start=15), job("b", 10, 100, 18, start=15)))

    [sweep] = closed(sweeps, 21)

    assert rates_at(sweep, HERE) == {"a": (3, 30), "b": (0.5, 5)}


def test_counters_that_others_report_later_change_nothing_about_a_target() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    first, second = Target("2.15.8"), Target("2.15.8", name=OTHER.target)
    records = [job(f"j{n}", n + 1, 10, 10, start=5) for n in range(70)]
    sweeps.report(HERE, first.read(20, *records))
    sweeps.report(OTHER, second.read(20, job("a", 1, 10, 10, start=5, punch=(5, 50), sync=(7, 70))))

    [sweep] = closed(sweeps, 21, BOTH)

    assert rates_at(sweep, HERE) == {f"j{n}": ((n + 1) / 20, 10 / 20) for n in range(70)}


def test_a_target_may_have_more_counters_than_its_numbers_have_room_for() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.15.8")
    work = target.read(20, job("a", 20, 200, 10, start=5))
    assert work.mount is not None
    work.mount.counters |= {(f"foreign{n}", "usecs"): n + len(work.mount.counters) for n in range(300)}
    sweeps.report(HERE, work)

    [sweep] = closed(sweeps, 21)

    assert rates_at(sweep, HERE) == {"a": (1, 10)}


def test_work_by_target_is_small_and_cannot_be_changed() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target("2.15.8")
    sweeps.report(HERE, target.read(20, *(job(f"j{n}", 1, 1 << 20, 10, start=5) for n in range(100))))
    [sweep] = closed(sweeps, 21)

    [work] = sweep.work[HERE]

    assert sum(numbers.nbytes for numbers in work[1:]) == 100 * (2 + 1 + 4) + 1
    for numbers in work[1:]:
        with pytest.raises(ValueError, match="read-only"):
            numbers[0] = 7


# --- when a job last did anything ---


def last_tick(sweep: ClosedSweep, name: str = "a") -> int:
    table = sweep.tables[HERE.table]
    return int(table.last_tick[table.jobs.index(name.encode())])


def test_a_table_says_when_each_job_last_did_anything() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    sweeps.report(HERE, target.read(20, job("a", 1, 10, 10), job("b", 1, 10, 10)))
    sweeps.report(HERE, target.read(40, job("a", 1, 10, 10), job("b", 2, 20, 30)))
    target.restart_agent()  # which tells everything again
    sweeps.report(HERE, target.read(60, job("a", 1, 10, 10), job("b", 2, 20, 30)))

    early, _, last = closed(sweeps, 61)

    assert (last_tick(last, "a"), last_tick(last, "b")) == (20, 40)
    assert (last_tick(early, "a"), last_tick(early, "b")) == (20, 20)
    assert sweeps_restored(target, until=60) == (20, 40)


def sweeps_restored(target: Target, until: int) -> tuple[int, int]:
    """Return what a new process would say of two jobs."""
    sweeps = Sweeps(deadline_seconds=5, closed_tick_seconds=60)
    for stay in target.aggregator.stays():
        sweeps.restore(HERE, stay, until_tick=until)
    sweeps.report(HERE, target.read(80))
    [sweep] = closed(sweeps, 81)
    return last_tick(sweep, "a"), last_tick(sweep, "b")


def test_a_tick_that_cannot_be_is_nobodys_last() -> None:
    target = Target()
    target.read(20, job("a", 1, 10, 10))
    target.read(60, job("a", 1, 10, 10), job("b", 2, 20, 30))

    assert sweeps_restored(target, until=59) == (20, NEVER)


def test_a_target_without_jobs_is_restored_too() -> None:
    target = Target()
    target.read(20)
    sweeps = Sweeps(deadline_seconds=5)
    [stay] = target.aggregator.stays()
    sweeps.restore(HERE, stay, until_tick=20)
    sweeps.report(HERE, target.read(40))

    [sweep] = closed(sweeps, 41)

    assert (sweep.tables[HERE.table].jobs, sweep.at([HERE])) == ((), {})


def test_late_work_is_the_last_only_if_nothing_came_after_it() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    partner = target.on("oss2")
    sweeps.report(HERE, target.read(40, job("a", 20, 2000, 30)))
    closed(sweeps, 41)
    sweeps.report(HERE, partner.read(20, job("a", 7, 700, 12), job("b", 7, 700, 12)))
    sweeps.report(HERE, target.read(60, job("a", 20, 2000, 30)))

    [sweep] = closed(sweeps, 61)

    assert (last_tick(sweep, "a"), last_tick(sweep, "b")) == (40, 20)


T = 1_700_000_000
"""A time by the wall clock; records are told theirs from here."""


def told(sweep: ClosedSweep, name: str = "a") -> tuple[int, int]:
    """Return when servers say that a job was last at work, and since which sweep its totals are as they are."""
    table = sweep.tables[HERE.table]
    row = table.jobs.index(name.encode())
    return int(table.snapshot_seconds[row]) - T, int(table.changed_tick[row]) - T


def first_tick(sweep: ClosedSweep, name: str = "a") -> int:
    table = sweep.tables[HERE.table]
    return int(table.first_tick[table.jobs.index(name.encode())])


def test_a_table_has_the_newest_time_that_any_target_gave_a_job() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    first, second = Target(), Target(name=OTHER.target)
    sweeps.report(HERE, first.read(T + 20, job("a", 1, 10, 17)))
    sweeps.report(OTHER, second.read(T + 20, job("a", 1, 10, 4)))
    sweeps.report(HERE, first.read(T + 40, job("a", 1, 10, 17)))
    sweeps.report(OTHER, second.read(T + 40, job("a", 2, 20, 31)))
    first.read(T + 60, job("a", 1, 10, 17))

    one, two = closed(sweeps, T + 41, BOTH)

    assert (told(one), told(two)) == ((17, 20), (31, 40))
    restored = Sweeps(deadline_seconds=5)
    for target in (first, second):
        for stay in target.aggregator.stays():
            restored.restore(HERE, stay, until_tick=T + 60)
    restored.report(HERE, first.read(T + 80))
    [sweep] = closed(restored, T + 81)
    assert told(sweep) == (31, 80)


def test_a_table_says_since_when_a_job_is_in_it_and_which_were_restored() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    sweeps.report(HERE, target.read(T + 20, job("a", 1, 10, 17)))
    sweeps.report(HERE, target.read(T + 40, job("a", 2, 20, 37), job("b", 1, 10, 37)))
    *_, sweep = closed(sweeps, T + 41)
    assert (first_tick(sweep, "a"), first_tick(sweep, "b")) == (T + 20, T + 40)

    restored = Sweeps(deadline_seconds=5)
    [stay] = target.aggregator.stays()
    restored.restore(HERE, stay, until_tick=T + 40)
    restored.report(HERE, target.read(T + 60, job("a", 3, 30, 57), job("b", 1, 10, 37), job("c", 1, 10, 57)))
    [after] = closed(restored, T + 61)

    assert [first_tick(after, name) for name in "abc"] == [RESTORED, RESTORED, T + 60]
    assert [told(after, name)[1] for name in "abc"] == [60, 60, 60]


def test_times_that_are_of_no_wall_clock_are_ticks() -> None:
    for version, at in (("2.15.0", 17.5), ("2.12.9", 0)):
        sweeps = Sweeps(deadline_seconds=5)
        sweeps.report(HERE, Target(version).read(T + 20, job("a", 1, 10, at)))

        [sweep] = closed(sweeps, T + 21)

        assert told(sweep) == (20, 20)


def test_a_table_says_since_which_sweep_totals_are_as_they_are_late_work_included() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    target = Target()
    partner = target.on("oss2")
    sweeps.report(HERE, target.read(T + 40, job("a", 20, 2000, 30), job("b", 1, 10, 30)))
    [before] = closed(sweeps, T + 41)
    sweeps.report(HERE, partner.read(T + 20, job("a", 7, 700, 12)))
    sweeps.report(HERE, target.read(T + 60, job("a", 20, 2000, 30), job("b", 1, 10, 30)))

    [sweep] = closed(sweeps, T + 61)

    assert (told(sweep, "a"), told(sweep, "b")) == ((30, 60), (30, 40))
    sweeps.remove("fs", [b"a"])
    sweeps.report(HERE, target.read(T + 80, job("b", 2, 20, 71)))
    [last] = closed(sweeps, T + 81)
    assert (told(last, "b"), told(before, "b")) == ((71, 80), (30, 40))


def test_rates_of_clients_hold_until_their_target_tells_them_again_but_no_longer_than_they_took() -> None:
    sweeps = Sweeps(deadline_seconds=5)
    one, other = Target(), Target(name="fs-OST0001")
    here, there = place(0)._replace(of_clients=True), place(1)._replace(of_clients=True)
    one.read(20, job("a", 10, 1000, 10))
    other.read(40, job("a", 10, 1000, 10))

    def told(where: Place, tick: int, samples: int) -> float:
        target = one if where == here else other
        sweeps.report(where, target.read(tick, job("a", samples, 100 * samples, tick - 5)))
        [sweep] = closed(sweeps, tick + 5, frozenset())
        return float(sweep.clients["fs", "OST"].sum_rates.sum())

    assert told(here, 80, 70) == 6000 / 60
    assert told(there, 100, 130) == 6000 / 60 + 12000 / 60
    assert told(here, 140, 130) == 6000 / 60 + 12000 / 60
    assert told(there, 220, 130 + 60) == 6000 / 120  # nothing was heard of the one for more than a period
