"""The jobs of a closed sweep over all its tables: which there are, whose, and which of them come first."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from harvest_aggregator.amounts import Amounts
from harvest_aggregator.published import JobKey
from harvest_core.accounting.mounts import NEVER
from harvest_core.accounting.sweeps import ClosedSweep, ClosedTable, Place
from harvest_core.accounting.totals import Counter, counts_operations, counts_read_bytes, counts_written_bytes
from harvest_core.facts import MDT, OST
from harvest_core.jobs.identity import NOBODYS, Identities, Identity, JobName

Integers = NDArray[np.int64]
Numbers = NDArray[Any]
"""Totals (int64) or rates (float64)."""

_FEW: Final = 3
MEASURES: Final = {"read_bytes": counts_read_bytes, "write_bytes": counts_written_bytes, "iops": counts_operations}
"""What is shown of everything, and which counters make it up."""


@dataclass(frozen=True, slots=True)
class Part:
    """The table of one kind of target of a file system, and where its rows are in the catalogue."""

    filesystem: str
    kind: str
    table: ClosedTable
    job: Integers
    """Number in the catalogue, by row."""
    row: Integers
    """Row by number in the catalogue; -1 for jobs that never did anything here."""

    def measured(self, measure: str, *, rates: bool, rows: Integers | None = None) -> Numbers:
        """Return one measure of every row, or of those given."""
        values = self._values(measure, rates=rates)
        return added(values if rows is None else values[rows], _columns(self.table.counters, measure))

    def total(self, measure: str, *, rates: bool) -> Any:  # noqa: ANN401 - a Python int or float
        """Return one measure of all rows together."""
        values = self._values(measure, rates=rates)
        return np.einsum("ij->j", values)[list(_columns(self.table.counters, measure))].sum().item()

    def _values(self, measure: str, *, rates: bool) -> Numbers:
        if measure == "iops":
            return self.table.sample_rates if rates else self.table.samples
        return self.table.sum_rates if rates else self.table.sums


@lru_cache(maxsize=256)
def _columns(counters: tuple[Counter, ...], measure: str) -> tuple[int, ...]:
    counts = MEASURES[measure]
    return tuple(column for column, counter in enumerate(counters) if counts(counter))


def added(values: Numbers, columns: Sequence[int]) -> Numbers:
    """Return the sum of some columns, by row; each way is several times faster than numpy's sum over an axis."""
    if len(columns) <= _FEW:
        return sum((values[:, column] for column in columns), np.zeros(len(values), values.dtype))
    weights = np.zeros(values.shape[1], values.dtype)
    weights[list(columns)] = 1
    total: Numbers = np.einsum("ij,j->i", values, weights)
    return total


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All jobs of a closed sweep, numbered."""

    closed: ClosedSweep
    jobs: Sequence[Identity]
    """By number; later catalogues may append to it."""
    count: int
    number: Mapping[JobName, int]
    parts: tuple[Part, ...]
    identities: Identities
    over: tuple[int, ...] = ()
    """Jobs that have a final record since, and are to be looked for there."""

    def at(self, places: Iterable[Place]) -> "Catalogue":
        """Return the same catalogue of what was done at the tick on some targets, and of those who did it."""
        return replace(self, parts=tuple(self._part(*pair) for pair in self.closed.at(places).items()))

    def _part(self, place: tuple[str, str], table: ClosedTable) -> Part:
        names = (self.identities.of(place[0], job).name for job in table.jobs)
        job = np.fromiter(map(self.number.__getitem__, names), np.int64, len(table.jobs))
        return _part(place, table, job, self.count)

    def only(self, filesystem: str | None) -> tuple[Part, ...]:
        """Return the parts of one file system, or all."""
        return tuple(part for part in self.parts if filesystem in {None, part.filesystem})

    def on(self, filesystem: str | None) -> Integers:
        """Return the jobs that did anything on a file system, or on any."""
        there = np.zeros(self.count, np.bool_)
        for part in self.only(filesystem):
            there[part.job] = True
        there[list(self.over)] = False
        return np.flatnonzero(there)

    def first(self, numbers: Integers, limit: int, *, filesystem: str | None, sort: str) -> Integers:
        """Return the first of these jobs in some order, all if the limit is 0; equals as they became known."""
        if sort == "job":
            ordered = np.array(sorted(numbers.tolist(), key=lambda number: _id_first(self.jobs[number])), np.int64)
            return ordered[:limit] if limit else ordered
        weight = np.zeros(self.count, np.float64)
        kinds, measures, rates = SORTS[sort]
        for part in self.only(filesystem):
            if part.kind in kinds:
                for measure in measures:
                    weight[part.job] += part.measured(measure, rates=rates)
        return _largest(numbers, weight[numbers], limit)


def _id_first(identity: Identity) -> tuple[bytes, str]:
    return identity.name.job, identity.name.cluster


def _part(place: tuple[str, str], table: ClosedTable, job: Integers, count: int) -> Part:
    """Return a table whose rows are of these jobs; several rows of one job become one."""
    row = np.full(count, -1, np.int64)
    row[job] = np.arange(len(job))
    if np.array_equal(row[job], np.arange(len(job))):
        return Part(*place, table, job, row)
    own, group = np.unique(job, return_inverse=True)
    row[own] = np.arange(len(own))
    return Part(*place, _grouped(table, group, len(own)), own, row)


def _grouped(table: ClosedTable, group: Integers, count: int) -> ClosedTable:
    """Return a table in which the rows of each group are added up. Its rows have no ids: ask by number."""

    def added_up(numbers: Numbers) -> Numbers:
        sums = np.zeros((count, numbers.shape[1]), numbers.dtype)
        np.add.at(sums, group, numbers)
        return sums

    def newest(times: Integers) -> Integers:
        last = np.full(count, NEVER, np.int64)
        np.maximum.at(last, group, times)
        return last

    first_tick = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first_tick, group, table.first_tick)
    return replace(
        table,
        jobs=(b"",) * count,
        samples=added_up(table.samples),
        sums=added_up(table.sums),
        sample_rates=added_up(table.sample_rates),
        sum_rates=added_up(table.sum_rates),
        last_tick=newest(table.last_tick),
        snapshot_seconds=newest(table.snapshot_seconds),
        first_tick=first_tick,
        changed_tick=newest(table.changed_tick),
    )


def _without(place: tuple[str, str], table: ClosedTable, earlier: Mapping[JobKey, Amounts]) -> ClosedTable:
    """Return a table without what earlier runs of some jobs did there."""
    here = [
        (row, amounts[place])
        for (_, job), amounts in earlier.items()
        if place in amounts and (row := table.row(job)) is not None
    ]
    if not here:
        return table
    samples, sums = table.samples.copy(), table.sums.copy()
    column_of = {counter: column for column, counter in enumerate(table.counters)}
    for row, counters in here:
        for counter, (count, total) in counters.items():
            if counter in column_of:
                samples[row, column_of[counter]] -= count
                sums[row, column_of[counter]] -= total
    return replace(table, samples=samples, sums=sums)


def _largest(numbers: Integers, weight: Numbers, limit: int) -> Integers:
    """Return the numbers with the largest weights, in order; only those are sorted."""
    if 0 < limit < len(numbers):
        least = np.partition(weight, -limit)[-limit]
        above, equal = np.flatnonzero(weight > least), np.flatnonzero(weight == least)
        kept = np.sort(np.concatenate([above, equal[: limit - len(above)]]))
        numbers, weight = numbers[kept], weight[kept]
    return numbers[np.argsort(-weight, kind="stable")]


def _sorts() -> dict[str, tuple[tuple[str, ...], tuple[str, ...], bool]]:
    both = (OST, MDT)
    totals = {
        "read_bytes": (both, ("read_bytes",)),
        "write_bytes": (both, ("write_bytes",)),
        "bytes": (both, ("read_bytes", "write_bytes")),
        "iops": (both, ("iops",)),
        "mdt_iops": ((MDT,), ("iops",)),
    }
    return {prefix + name: (*how, bool(prefix)) for prefix in ("", "rates.") for name, how in totals.items()}


SORTS: Final = _sorts()
"""By which numbers jobs can be sorted, largest first: (kinds of target, measures, of rates)."""


_NOTHING_CLOSED: Final = ClosedSweep(tick_seconds=NEVER, missing=frozenset(), tables={}, work={})


@dataclass(frozen=True, slots=True)
class _Numbering:
    """The rows of one table."""

    jobs: tuple[bytes, ...]
    number: Integers
    """In the catalogue, by row."""


class Catalogues:
    """Makes the catalogue of a closed sweep; how its jobs are numbered is taken from the one before.

    Only numbers are kept, no table: nobody may be asking while sweep follows sweep.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._identities = NOBODYS
        self._forget()

    def of(
        self,
        closed: ClosedSweep | None,
        identities: Identities = NOBODYS,
        earlier: Mapping[JobKey, Amounts] = MappingProxyType({}),
        over: Collection[JobName] = (),
    ) -> Catalogue:
        """Return the catalogue of a closed sweep; an empty one before the first.

        What earlier runs of some jobs did is left out, and so are jobs that were let go since.
        """
        with self._lock:
            if identities is not self._identities:  # the site was changed
                self._identities = identities
                self._forget()
            made = self._made(_NOTHING_CLOSED if closed is None else closed, earlier)
        gone = tuple(made.number[name] for name in over if name in made.number)
        return replace(made, over=gone) if gone else made

    def _forget(self) -> None:
        self._jobs: list[Identity] = []
        self._number: dict[JobName, int] = {}
        self._known: dict[tuple[str, str], _Numbering] = {}

    def _made(self, closed: ClosedSweep, earlier: Mapping[JobKey, Amounts]) -> Catalogue:
        tables = closed.tables
        for place, known in self._known.items():
            jobs = tables[place].jobs if place in tables else ()
            if jobs is not known.jobs and jobs[: len(known.jobs)] != known.jobs:  # some are gone: numbered anew
                self._forget()
                break
        for place, table in tables.items():
            self._learn(place, table.jobs)
        count = len(self._jobs)
        parts = [
            _part(place, _without(place, table, earlier), self._known[place].number, count)
            for place, table in tables.items()
        ]
        return Catalogue(closed, self._jobs, count, self._number, tuple(parts), self._identities)

    def _learn(self, place: tuple[str, str], jobs: tuple[bytes, ...]) -> None:
        known = self._known.get(place, _Numbering((), np.zeros(0, np.int64)))
        if place in self._known and jobs is known.jobs:
            return
        new = [self._identities.of(place[0], job) for job in jobs[len(known.jobs) :]]
        for identity in new:
            if self._number.setdefault(identity.name, len(self._jobs)) == len(self._jobs):
                self._jobs.append(identity)
        added = np.fromiter((self._number[identity.name] for identity in new), np.int64, len(new))
        self._known[place] = _Numbering(jobs, np.concatenate([known.number, added]))
