"""Sweeps as others see them: closed once, then immutable; totals, and rates from the work of one tick."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harvest_core.accounting.apply import Stay, Work
from harvest_core.accounting.mounts import NEVER, Integers
from harvest_core.accounting.parking import JobSum
from harvest_core.accounting.totals import Counter, JobTable, JobWork, fitted, job_work, shown_seconds

Floats = NDArray[np.float64]


class Place(NamedTuple):
    """Whose work it is."""

    filesystem: str
    kind: str
    """OST or MDT."""
    target: str
    of_clients: bool = False
    """Of client nodes, and not of jobs: these have tables of their own, by NID."""

    @property
    def table(self) -> tuple[str, str]:
        """Return which table it adds to, of those of jobs or of those of clients."""
        return self.filesystem, self.kind


_Key = tuple[tuple[str, str], bool]
"""A table, and whether it is of clients."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClosedTable:
    """What every job had done on one kind of target of a file system, and did per second at this tick.

    Rows are jobs, columns are counters; no number in it ever changes.
    """

    jobs: tuple[bytes, ...]
    counters: tuple[Counter, ...]
    samples: Integers
    """All work that had come until the sweep closed, of this tick or an earlier one."""
    sums: Integers
    sample_rates: Floats
    sum_rates: Floats
    last_tick: Integers
    """When each job last did anything; NEVER where nobody can say."""
    snapshot_seconds: Integers
    """The newest time that a server gave any record of each job: of its last use, by the server's clock."""
    first_tick: Integers
    """Of the sweep that first showed each job; RESTORED where a process did that is no more."""
    changed_tick: Integers
    """Of the sweep that first showed the totals of each job as they are: what came late is not of the last tick."""
    _rows: Mapping[bytes, int]
    """Grows with later sweeps."""

    def row(self, job: bytes) -> int | None:
        """Return the row of a job, if it has one."""
        row = self._rows.get(job)
        return row if row is not None and row < len(self.jobs) else None

    def job(self, job: bytes) -> JobWork:
        """Return what a job did in all; a job that is not in the table did nothing."""
        row = self.row(job)
        if row is None:
            return JobWork(counters={})
        return job_work(self.counters, self.samples[row], self.sums[row])


class TickWork(NamedTuple):
    """Work of the tick, as a target reported it, each column in as few bytes as its numbers need."""

    counters: int
    """How many there were in the table then."""
    place: NDArray[Any]
    """Row and column of the table, as one number: row * counters + column."""
    samples: NDArray[Any]
    """Only what is in rates."""
    sums: NDArray[Any]
    window_seconds: NDArray[Any]
    """One for all where they are equal; 0 where no rate can be made of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClosedSweep:
    """What was known of one tick, as far as it had been reported when the sweep closed."""

    tick_seconds: int
    missing: frozenset[Place]
    """Those that were expected and had not reported."""
    tables: Mapping[tuple[str, str], ClosedTable]
    """By file system and kind of target."""
    clients: Mapping[tuple[str, str], ClosedTable] = field(default_factory=dict)
    """Likewise of clients, whose ids are NIDs; of file systems whose clients were reported at this tick."""
    work: Mapping[Place, tuple[TickWork, ...]]
    """What was done on each target at this tick, if anything: one report, or several while it moves between servers."""

    def at(self, places: Iterable[Place]) -> dict[tuple[str, str], ClosedTable]:
        """Return the tables of those jobs that did anything on these targets at this tick.

        Rates are of these targets alone; totals, which nobody keeps by target, are of all that are in the table.
        """
        works: dict[tuple[str, str], list[TickWork]] = {}
        for place in places:
            works.setdefault(place.table, []).extend(self.work.get(place, ()))
        return {table: _part(self.tables[table], some) for table, some in works.items() if some}


def _part(table: ClosedTable, works: list[TickWork]) -> ClosedTable:
    """Return the rows of a table that are in some work, with its rates."""
    whole = [np.divmod(work.place.astype(np.int64), work.counters) for work in works]
    row, column = (np.concatenate(numbers) for numbers in zip(*whole, strict=True))
    new_row = np.full(len(table.jobs), -1)
    new_row[row] = 0
    rows = np.flatnonzero(new_row == 0)
    new_row[rows] = np.arange(len(rows))
    jobs = tuple(map(table.jobs.__getitem__, rows.tolist()))
    shape = (len(jobs), len(table.counters))
    place = new_row[row] * shape[1] + column
    windows = [_divisor(work.window_seconds) for work in works]
    sample_rates = [work.samples / window for work, window in zip(works, windows, strict=True)]
    sum_rates = [work.sums / window for work, window in zip(works, windows, strict=True)]
    return replace(
        table,
        jobs=jobs,
        samples=table.samples[rows],
        sums=table.sums[rows],
        sample_rates=_added(place, sample_rates, shape),
        sum_rates=_added(place, sum_rates, shape),
        last_tick=table.last_tick[rows],
        snapshot_seconds=table.snapshot_seconds[rows],
        first_tick=table.first_tick[rows],
        changed_tick=table.changed_tick[rows],
        _rows=dict(zip(jobs, range(len(jobs)), strict=True)),
    )


def _added(places: Integers, rates: list[Floats], shape: tuple[int, int]) -> Floats:
    added = np.zeros(shape)
    np.add.at(added.reshape(-1), places, np.concatenate(rates))
    return added


def _divisor(window_seconds: NDArray[Any]) -> NDArray[Any]:
    """Return by what work is divided to be a rate: where nobody can say when it was done, it is none."""
    return window_seconds if window_seconds.all() else np.where(window_seconds > 0, window_seconds, np.inf)


def _none() -> Floats:
    return np.zeros((0, 0), np.float64)


@dataclass(slots=True)
class _OpenTable:
    """What was reported for one tick and table: work that is in no total yet, and its rates."""

    samples: Integers = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    sums: Integers = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    sample_rates: Floats = field(default_factory=_none)
    sum_rates: Floats = field(default_factory=_none)
    snapshot_seconds: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def fit(self, shape: tuple[int, int]) -> None:
        self.samples, self.sums = fitted(self.samples, shape), fitted(self.sums, shape)
        self.sample_rates, self.sum_rates = fitted(self.sample_rates, shape), fitted(self.sum_rates, shape)
        more = np.full(shape[0] - len(self.snapshot_seconds), NEVER)
        self.snapshot_seconds = np.append(self.snapshot_seconds, more)

    def add(self, places: Integers, work: Work) -> TickWork:
        np.add.at(self.samples.reshape(-1), places, work.samples)
        np.add.at(self.sums.reshape(-1), places, work.sum)
        samples = work.samples if work.surplus_samples is None else work.samples - work.surplus_samples
        sums = work.sum if work.surplus_sum is None else work.sum - work.surplus_sum
        window = work.window_seconds
        if window.min() == window.max():
            window = window[:1]
        divisor = _divisor(window)
        rates = samples / divisor
        np.add.at(self.sample_rates.reshape(-1), places, rates)
        np.divide(sums, divisor, out=rates)  # in the same array: large new ones are what costs most here
        np.add.at(self.sum_rates.reshape(-1), places, rates)
        self._show(places, work)
        kept = (_compact(numbers) for numbers in (places, samples, sums, window))
        return TickWork(self.samples.shape[1], *kept)

    def _show(self, places: Integers, work: Work) -> None:
        first = _firsts(work.row)
        rows = places[first] // self.samples.shape[1]
        np.maximum.at(self.snapshot_seconds, rows, _shown(work, first))

    def hold(self, work: TickWork) -> None:
        """Add rates of an earlier tick."""
        row, column = np.divmod(work.place.astype(np.int64), work.counters)
        places, divisor = row * self.samples.shape[1] + column, _divisor(work.window_seconds)
        np.add.at(self.sample_rates.reshape(-1), places, work.samples / divisor)
        np.add.at(self.sum_rates.reshape(-1), places, work.sums / divisor)

    def keep(self, rows: Integers) -> None:
        self.samples, self.sums = self.samples[rows], self.sums[rows]
        self.sample_rates, self.sum_rates = self.sample_rates[rows], self.sum_rates[rows]
        self.snapshot_seconds = self.snapshot_seconds[rows]


def _firsts(rows: Integers) -> Integers:
    """Return where each record's counters begin."""
    is_first = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def _shown(work: Work, first: Integers) -> Integers:
    """Return when the records were last used whose counters begin there."""
    assert work.mount is not None  # noqa: S101 - whoever did nothing reports nothing
    return shown_seconds(work.mount, work.row[first], work.tick_seconds)


def _compact(numbers: Integers) -> NDArray[Any]:
    """Return numbers that are not negative in as few bytes as the largest needs."""
    compact = numbers.astype(np.min_scalar_type(numbers.max()))
    compact.flags.writeable = False
    return compact


@dataclass(slots=True)
class _OpenSweep:
    reported: set[Place] = field(default_factory=set)
    tables: dict[_Key, _OpenTable] = field(default_factory=dict)
    work: dict[Place, tuple[TickWork, ...]] = field(default_factory=dict)
    holds_until: dict[Place, int] = field(default_factory=dict)
    """Of clients."""


class _Held(NamedTuple):
    """What a target told of its clients last: it is not asked at every tick, nor all of them at the same."""

    until_tick: int
    work: tuple[TickWork, ...]


class Sweeps:
    """Collects the work of each tick until all expected targets have reported, or the deadline has passed.

    Rates of clients hold until their target tells them again, but no longer than it took to tell these. Ticks until
    ``closed_tick_seconds`` were published before, by a process that is no more: what comes for them is late.
    """

    def __init__(self, *, deadline_seconds: float, closed_tick_seconds: float = -1) -> None:
        self._deadline_seconds = deadline_seconds
        self._open: dict[int, _OpenSweep] = {}
        self._closed_tick = closed_tick_seconds
        self._tables: dict[_Key, JobTable] = {}
        self._held: dict[Place, _Held] = {}

    def restore(self, place: Place, stay: Stay, *, until_tick: int) -> None:
        """Add all that a stay has counted so far to the totals; what is applied to it later is reported.

        A clock that was ahead may have given ticks after the last one that can be: they tell no job's last work.
        """
        self._tables.setdefault((place.table, place.of_clients), JobTable()).add_stay(stay, until_tick)

    def restore_sum(self, table: tuple[str, str], job: bytes, done: JobSum, *, until_tick: int) -> None:
        """Likewise what a job did of which there are no records any more."""
        self._tables.setdefault((table, False), JobTable()).add_sum(job, done, until_tick)

    def at_work(self, filesystem: str) -> set[bytes]:
        """Return the jobs of which a sweep that is still open has work."""
        found: set[bytes] = set()
        for sweep in self._open.values():
            for key, work in sweep.tables.items():
                if key[0][0] == filesystem and not key[1]:
                    jobs = tuple(self._tables[key].jobs)
                    found.update(jobs[row] for row in _workers(work))
        return found

    def remove(self, filesystem: str, jobs: Collection[bytes]) -> None:
        """Let jobs go that no open sweep has work of. Sweeps that are closed keep them."""
        for key, table in self._tables.items():
            if key[0][0] == filesystem and not key[1] and not table.jobs.keys().isdisjoint(jobs):
                shape, count = table.samples.shape, len(table.jobs)
                kept = table.remove(jobs)
                new_row = np.full(count, NEVER, np.int64)
                new_row[kept] = np.arange(len(kept))
                for sweep in self._open.values():
                    if key in sweep.tables:
                        sweep.tables[key].fit(shape)
                        sweep.tables[key].keep(kept)
                    for place, works in sweep.work.items():
                        if (place.table, place.of_clients) == key:
                            sweep.work[place] = tuple(_renumbered(work, new_row) for work in works)

    def report(self, place: Place, work: Work, *, late: bool = False) -> None:
        """Take in one target's work; what is late, or comes after its sweep was closed, raises totals only."""
        if work.mount is None:
            return
        table = self._tables.setdefault((place.table, place.of_clients), JobTable())
        places = table.places(work.mount, work.row, work.column)
        if late or work.tick_seconds <= self._closed_tick:
            table.add(places, work.samples, work.sum, work.tick_seconds)
            first = _firsts(work.row)
            rows = places[first] // max(len(table.counters), 1)
            table.shown(rows, _shown(work, first))
            table.is_late[rows] = True
            return
        sweep = self._open.setdefault(work.tick_seconds, _OpenSweep())
        sweep.reported.add(place)
        if place.of_clients:
            until_tick = work.tick_seconds + _holds_seconds(work)
            sweep.holds_until[place] = max(until_tick, sweep.holds_until.get(place, 0))
        open_table = sweep.tables.setdefault((place.table, place.of_clients), _OpenTable())
        open_table.fit(table.samples.shape)
        if len(places):
            sweep.work[place] = (*sweep.work.get(place, ()), open_table.add(places, work))

    def begin(self, tick_seconds: int) -> None:
        """Let there be a sweep even if nobody reports anything for its tick."""
        if tick_seconds > self._closed_tick:
            self._open.setdefault(tick_seconds, _OpenSweep())

    def close(self, now_seconds: float, expected: frozenset[Place]) -> list[ClosedSweep]:
        """Close, oldest first, every sweep that all expected have reported, or that is past its deadline."""
        closed = []
        for tick in sorted(self._open):
            sweep = self._open[tick]
            waited = now_seconds >= tick + self._deadline_seconds
            if not waited and (tick > now_seconds or not expected <= sweep.reported):  # a clock may be ahead
                break
            del self._open[tick]
            self._closed_tick = tick
            told = {place.filesystem for place in sweep.holds_until}
            tables = {
                key: _closed(table, sweep.tables.get(key, _OpenTable()), self._work_held(key, sweep, tick), tick)
                for key, table in self._tables.items()
                if not key[1] or key[0][0] in told
            }
            for place, until_tick in sweep.holds_until.items():
                self._held[place] = _Held(until_tick, sweep.work.get(place, ()))
            closed.append(
                ClosedSweep(
                    tick_seconds=tick,
                    missing=expected - sweep.reported,
                    tables={key: table for (key, of_clients), table in tables.items() if not of_clients},
                    clients={key: table for (key, of_clients), table in tables.items() if of_clients},
                    work={place: work for place, work in sweep.work.items() if not place.of_clients},
                )
            )
        return closed

    def _work_held(self, key: _Key, sweep: _OpenSweep, tick_seconds: int) -> list[TickWork]:
        """Return what adds to the rates of a table of clients though it was told before."""
        table, of_clients = key
        if not of_clients:
            return []
        self._held = {place: held for place, held in self._held.items() if tick_seconds < held.until_tick}
        others = (place for place in self._held.keys() - sweep.holds_until.keys() if place.table == table)
        return [work for place in sorted(others) for work in self._held[place].work]


def _holds_seconds(work: Work) -> int:
    """Return for how long rates of clients hold: a period, or as long as they took where that is longer."""
    windows = work.window_seconds[work.window_seconds > 0]
    return max(work.period_seconds, int(windows.min()) if len(windows) else 0)


def _workers(work: _OpenTable) -> Integers:
    """Return the rows of all who did anything."""
    return np.flatnonzero(work.samples.any(axis=1) | work.sums.any(axis=1))


def _renumbered(work: TickWork, new_row: Integers) -> TickWork:
    row, column = np.divmod(work.place.astype(np.int64), work.counters)
    return work._replace(place=_compact(new_row[row] * work.counters + column))


def _closed(table: JobTable, work: _OpenTable, held: Iterable[TickWork], tick_seconds: int) -> ClosedTable:
    """Add a tick's work to the totals, and return how they stand."""
    work.fit(table.samples.shape)
    for earlier in held:
        work.hold(earlier)
    table.samples += work.samples
    table.sums += work.sums
    np.maximum(table.snapshot_seconds, work.snapshot_seconds, out=table.snapshot_seconds)
    table.close(_workers(work), tick_seconds)
    jobs = len(table.jobs)
    shown = ClosedTable(
        jobs=tuple(table.jobs),
        counters=tuple(table.counters),
        samples=table.samples[:jobs].copy(),
        sums=table.sums[:jobs].copy(),
        sample_rates=work.sample_rates[:jobs],
        sum_rates=work.sum_rates[:jobs],
        last_tick=table.last_tick[:jobs].copy(),
        snapshot_seconds=table.snapshot_seconds[:jobs].copy(),
        first_tick=table.first_tick[:jobs].copy(),
        changed_tick=table.changed_tick[:jobs].copy(),
        _rows=table.jobs,
    )
    for numbers in (getattr(shown, one.name) for one in fields(shown)):
        if isinstance(numbers, np.ndarray):
            numbers.flags.writeable = False
    return shown
