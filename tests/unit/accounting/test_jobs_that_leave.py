"""Rows that leave a mount, and jobs that leave the tables: what others see of it is nothing, or one job less."""

from harvest_core.accounting.parking import JobSum
from harvest_core.accounting.sweeps import ClosedSweep, Place, Sweeps
from unit.accounting.builder import Target
from unit.accounting.printed import job

DATA = ("write_bytes", "bytes")
HERE, OTHER = Place("fs", "OST", "fs-OST0000"), Place("fs", "OST", "fs-OST0001")


def shown(sweep: ClosedSweep) -> dict[bytes, tuple[int, float]]:
    """Return what each job has written, and writes per second."""
    table = sweep.tables[HERE.table]
    assert [table.row(name) for name in table.jobs] == list(range(len(table.jobs)))
    column = table.counters.index(DATA)
    return {
        name: (int(table.sums[row, column]), float(table.sum_rates[row, column])) for row, name in enumerate(table.jobs)
    }


def test_rows_that_leave_a_mount_change_no_table() -> None:
    sweeps, target = Sweeps(deadline_seconds=5), Target("2.17.0")
    sweeps.report(HERE, target.read(20, *(job(name, 1, 100, 10, start=5) for name in "abc")))
    sweeps.report(HERE, target.read(40, job("c", 2, 200, 30, start=5)))
    _, before = sweeps.close(41, frozenset({HERE}))
    target.aggregator.park()
    sweeps.report(HERE, target.read(60, job("c", 3, 400, 50, start=5), job("d", 1, 40, 50, start=45)))
    [after] = sweeps.close(61, frozenset({HERE}))

    assert shown(before) == {b"a": (100, 0.0), b"b": (100, 0.0), b"c": (200, 5.0)}
    assert shown(after) == {b"a": (100, 0.0), b"b": (100, 0.0), b"c": (400, 10.0), b"d": (40, 2.0)}


def test_after_a_restart_what_has_left_is_in_the_tables_again() -> None:
    target = Target("2.17.0")
    target.read(20, job("a", 1, 100, 10, start=5), job("b", 1, 100, 10, start=5))
    target.read(40, job("b", 1, 100, 10, start=5))
    target.aggregator.park()
    sweeps = Sweeps(deadline_seconds=5)
    for stay in target.aggregator.stays():
        sweeps.restore(HERE, stay, until_tick=40)
    for name, done in target.aggregator.parked.items():
        sweeps.restore_sum(HERE.table, name, done, until_tick=40)
    sweeps.restore_sum(HERE.table, b"c", JobSum(counters={("punch", "reqs"): (3, 0)}, last_tick=60), until_tick=40)
    sweeps.report(HERE, target.read(60, job("b", 2, 200, 50, start=5)))

    [sweep] = sweeps.close(61, frozenset({HERE}))

    assert shown(sweep) == {b"a": (100, 0.0), b"b": (200, 5.0), b"c": (0, 0.0)}
    table = sweep.tables[HERE.table]
    assert table.job(b"c").iops == 3
    assert dict(zip(table.jobs, table.last_tick.tolist(), strict=True)) == {b"a": 20, b"b": 60, b"c": -1}


def test_jobs_leave_the_tables_and_sweeps_that_are_closed_keep_them() -> None:
    sweeps, target, second = Sweeps(deadline_seconds=5), Target("2.17.0"), Target("2.17.0", name=OTHER.target)
    sweeps.report(HERE, target.read(20, *(job(name, 1, 100, 10, start=5) for name in "abc")))
    [before] = sweeps.close(21, frozenset({HERE}))
    sweeps.report(HERE, target.read(40, job("a", 1, 100, 10, start=5), job("c", 2, 200, 30, start=5)))
    sweeps.report(OTHER, second.read(40, job("c", 1, 60, 30, start=25), job("d", 1, 20, 30, start=25)))
    assert sweeps.at_work("fs") == {b"c", b"d"}
    assert sweeps.at_work("other") == set()
    sweeps.remove("fs", {b"a", b"b", b"never there"})
    sweeps.report(OTHER, second.read(60, job("d", 2, 40, 50, start=25)))

    first, last = sweeps.close(66, frozenset({HERE}))

    assert shown(before) == {b"a": (100, 5.0), b"b": (100, 5.0), b"c": (100, 5.0)}
    assert shown(first) == {b"c": (260, 8.0), b"d": (20, 1.0)}
    parts = {place: shown_part(first, place) for place in (HERE, OTHER)}
    assert parts == {HERE: {b"c": 5.0}, OTHER: {b"c": 3.0, b"d": 1.0}}
    assert shown(last) == {b"c": (260, 0.0), b"d": (40, 1.0)}


def shown_part(sweep: ClosedSweep, place: Place) -> dict[bytes, float]:
    table = sweep.at([place])[place.table]
    return dict(zip(table.jobs, table.sum_rates[:, table.counters.index(DATA)].tolist(), strict=True))


def test_one_that_comes_back_begins_with_what_comes() -> None:
    sweeps, target = Sweeps(deadline_seconds=5), Target("2.17.0")
    sweeps.report(HERE, target.read(20, job("a", 1, 100, 10, start=5), job("b", 1, 100, 10, start=5)))
    sweeps.close(21, frozenset({HERE}))
    sweeps.remove("fs", {b"a"})
    sweeps.report(HERE, target.read(40, job("a", 3, 300, 30, start=5), job("b", 1, 100, 10, start=5)))

    [sweep] = sweeps.close(41, frozenset({HERE}))

    assert shown(sweep) == {b"b": (100, 0.0), b"a": (200, 10.0)}
