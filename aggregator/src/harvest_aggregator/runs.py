"""Runs of one number: where a job was requeued, or its number used again, its totals are cut in two.

Lustre knows one id and counts on. What was done until the last sweep before the new start belongs to the earlier run,
all that came since to the new one.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harvest_aggregator.amounts import Amounts, less, plus
from harvest_core.accounting.sweeps import ClosedSweep, ClosedTable
from harvest_core.jobs.identity import Identity, JobName

_PAST_SECONDS: Final = 600
"""So late may somebody say that a job has begun again."""
_PAST_BYTES: Final = 64 << 20
_DAY_SECONDS: Final = 86400


class Past:
    """The totals of the last sweeps."""

    def __init__(self) -> None:
        self._sweeps: deque[tuple[int, Mapping[tuple[str, str], ClosedTable], int]] = deque()

    def add(self, closed: ClosedSweep) -> None:
        """Remember a sweep, and forget what is too old or too much."""
        size = sum(table.samples.nbytes + table.sums.nbytes for table in closed.tables.values())
        self._sweeps.append((closed.tick_seconds, closed.tables, size))
        while len(self._sweeps) > 1 and (
            sum(size for *_, size in self._sweeps) > _PAST_BYTES
            or self._sweeps[0][0] < closed.tick_seconds - _PAST_SECONDS
        ):
            self._sweeps.popleft()

    def at(self, seconds: int) -> Mapping[tuple[str, str], ClosedTable]:
        """Return the totals of the last sweep until then; of the first that is remembered if all were later."""
        until = [tables for tick, tables, _ in self._sweeps if tick <= seconds]
        return until[-1] if until else self._sweeps[0][1] if self._sweeps else {}


class Cut(NamedTuple):
    """An earlier run of a job."""

    name: JobName
    start_seconds: int
    amounts: Amounts
    """What it did alone."""


class Runs:
    """When the present run of every job began, and what earlier ones did that is still in the tables, too."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self.starts: dict[JobName, int] = {}
        self.cuts: dict[JobName, Amounts] = {}
        self._ids: dict[JobName, set[tuple[str, bytes]]] = {}
        """On which file system a job has which id."""

    def meet(self, filesystem: str, job: bytes, identity: Identity) -> None:
        """Note under which id Lustre shows a job."""
        self._ids.setdefault(identity.name, set()).add((filesystem, job))

    def begun(self, name: JobName, start_seconds: int) -> Cut | None:
        """Take in when a job's present run began; return the earlier one if there was one before."""
        known = self.starts.setdefault(name, start_seconds)
        if start_seconds <= known:
            return None
        self.starts[name] = start_seconds
        before = self.cuts.get(name, {})
        own = less(self._amounts(name, self._past.at(start_seconds)), before)
        self.cuts[name] = plus(before, own)
        return Cut(name, known, own)

    def ids(self, name: JobName) -> frozenset[tuple[str, bytes]]:
        """Return on which file systems a job has which ids."""
        return frozenset(self._ids.get(name, ()))

    def forget(self, names: Iterable[JobName]) -> None:
        """Forget jobs that are over and no longer in any table."""
        for name in names:
            self._ids.pop(name, None)
            self.starts.pop(name, None)
            self.cuts.pop(name, None)

    def _amounts(self, name: JobName, tables: Mapping[tuple[str, str], ClosedTable]) -> Amounts:
        amounts: Amounts = {}
        for filesystem, job in self._ids.get(name, ()):
            for place, table in tables.items():
                if place[0] == filesystem and (done := table.job(job).counters):
                    amounts = plus(amounts, {place: dict(done)})
        return amounts


def day_of(seconds: int) -> int:
    """Return when a day began, in seconds since 1970: what is run outside jobs has no other end."""
    return seconds - seconds % _DAY_SECONDS


class _Seen(NamedTuple):
    jobs: tuple[bytes, ...]
    totals: NDArray[np.int64]
    """Of all counters together: whoever did anything has another one."""
    changed_seconds: NDArray[np.float64]


class Activity:
    """When jobs last did anything, by our own clock: those of servers may be wrong, and what comes late counts, too."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], _Seen] = {}

    def take(self, closed: ClosedSweep, now_seconds: float) -> None:
        """Take in a sweep: whose totals are others than before has done something."""
        for place, table in closed.tables.items():
            totals = table.samples.sum(axis=1) + table.sums.sum(axis=1)
            changed = np.full(len(table.jobs), float(now_seconds))
            if (known := self._tables.get(place)) is not None:
                rows, former = _both(known.jobs, table.jobs)
                still = totals[rows] == known.totals[former]
                changed[rows[still]] = known.changed_seconds[former[still]]
            self._tables[place] = _Seen(table.jobs, totals, changed)

    def last(self, filesystem: str, job: bytes, closed: ClosedSweep) -> float:
        """Return when a job last did anything on a file system; the sweep is the last one that was taken in."""
        return max(
            (
                float(seen.changed_seconds[row])
                for place, seen in self._tables.items()
                if place[0] == filesystem
                and place in closed.tables
                and (row := closed.tables[place].row(job)) is not None
            ),
            default=0.0,
        )


def _both(before: tuple[bytes, ...], after: tuple[bytes, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of jobs that are in both, in the second one and in the first."""
    if after[: len(before)] == before:
        same = np.arange(len(before))
        return same, same
    row_of = {job: row for row, job in enumerate(before)}
    pairs = [(row, row_of[job]) for row, job in enumerate(after) if job in row_of]
    rows, former = np.array(pairs, np.int64).reshape(-1, 2).T
    return rows, former
