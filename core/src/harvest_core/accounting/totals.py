"""From records to jobs: sums over lives, mounts and targets."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from harvest_core.accounting.apply import Stay
from harvest_core.accounting.mounts import NEVER, NSECS, Integers, MountState
from harvest_core.accounting.parking import JobSum

Counter = tuple[str, str]
"""(name, unit)."""

_READ, _WRITE = "read_bytes", "write_bytes"
RESTORED = 0
"""In the place of the tick of a job's first sweep."""
_LEAST_SECONDS = 1_000_000_000
"""Servers whose times count from their boot give smaller ones, and so do those that give none: nobody's wall clock."""
_OLD_DATA = {("read", "bytes"): _READ, ("write", "bytes"): _WRITE}
"""Up to 2.5 the counters of bytes had the names that are latencies from 2.14 on."""
_NO_OPERATIONS = {
    *(_READ, _WRITE),
    *("read", "write"),  # RPCs of the bytes that are counted beside them
    *("preprw", "commitrw"),  # likewise, in the files of clients of old OSTs
    *("samedir_rename", "crossdir_rename", "parallel_rename_file", "parallel_rename_dir", "rename_trylocks"),
}


def counts_read_bytes(counter: Counter) -> bool:
    """Tell whether the sums of this counter are bytes that were read."""
    return counter[1] == "bytes" and _OLD_DATA.get(counter, counter[0]) == _READ


def counts_written_bytes(counter: Counter) -> bool:
    """Tell whether the sums of this counter are bytes that were written."""
    return counter[1] == "bytes" and _OLD_DATA.get(counter, counter[0]) == _WRITE


def counts_operations(counter: Counter) -> bool:
    """Tell whether the samples of this counter are operations: all but data, its RPCs, and the parts of renames."""
    name, unit = counter
    return unit != "bytes" and name not in _NO_OPERATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWork:
    """What one job did on one kind of target of a file system."""

    counters: Mapping[Counter, tuple[int, int]]
    """(samples, sum) of every counter that is not 0."""

    @property
    def read_bytes(self) -> int:
        """Bytes read."""
        return sum(total for counter, (_, total) in self.counters.items() if counts_read_bytes(counter))

    @property
    def write_bytes(self) -> int:
        """Bytes written."""
        return sum(total for counter, (_, total) in self.counters.items() if counts_written_bytes(counter))

    @property
    def iops(self) -> int:
        """Operations."""
        return sum(samples for counter, (samples, _) in self.counters.items() if counts_operations(counter))


def job_work(counters: Iterable[Counter], samples: Integers, sums: Integers) -> JobWork:
    """Return one job's row of a table."""
    values = zip(samples.tolist(), sums.tolist(), strict=True)
    return JobWork(counters={counter: both for counter, both in zip(counters, values, strict=False) if any(both)})


_Number = TypeVar("_Number", np.int64, np.float64)


def fitted(numbers: NDArray[_Number], shape: tuple[int, int]) -> NDArray[_Number]:
    """Return numbers by job and counter with room for this many of both."""
    if numbers.shape == shape:
        return numbers
    wide = np.zeros(shape, numbers.dtype)
    wide[: numbers.shape[0], : numbers.shape[1]] = numbers
    return wide


def shown_seconds(mount: MountState, rows: Integers, ticks: Integers | int) -> Integers:
    """Return when records of a mount were last used, as the server says; where it does not, the tick that showed it."""
    seconds = mount.snapshot[rows] // NSECS
    return np.where(seconds >= _LEAST_SECONDS, seconds, ticks)


class JobTable:
    """What all jobs did on one kind of target of a file system: a row per job, a column per counter."""

    def __init__(self) -> None:
        self.jobs: dict[bytes, int] = {}
        """The row of each job."""
        self.counters: dict[Counter, int] = {}
        """The column of each counter."""
        self.samples: Integers = np.zeros((0, 0), np.int64)
        self.sums: Integers = np.zeros((0, 0), np.int64)
        self.last_tick: Integers = np.zeros(0, np.int64)
        """When each job last did anything, by row; NEVER where nobody can say."""
        self.snapshot_seconds: Integers = np.zeros(0, np.int64)
        """The newest time that a server gave any of its records; by the servers' clocks."""
        self.first_tick: Integers = np.zeros(0, np.int64)
        """Of the first closed sweep that showed a job; RESTORED where an earlier process did."""
        self.changed_tick: Integers = np.zeros(0, np.int64)
        """Of the first closed sweep that showed the totals of a job as they are; of restored ones, the first of all."""
        self.is_late: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Whether a job's totals changed since a sweep was closed, and not by the work of one that is open."""
        self._places: WeakKeyDictionary[MountState, tuple[int, Integers, Integers]] = WeakKeyDictionary()
        """Per mount, as long as its rows are the same: the row here of each that has done anything, and the column of
        each of its columns."""

    def places(self, mount: MountState, row: Integers, column: Integers) -> Integers:
        """Return where in the flat table a mount's rows and columns are; the table has room for them then."""
        rows, columns = self._known(mount)
        places = rows[row]
        if len(places) and places.min() == NEVER:
            self._number(mount, rows, row)
            places = rows[row]
        places *= len(self.counters)  # in place: more large arrays would cost several times as much
        places += columns[column]
        return places

    def add(self, places: Integers, samples: Integers, sums: Integers, tick_seconds: int) -> None:
        """Add work of a tick; several records of one job may be in it."""
        np.add.at(self.samples.reshape(-1), places, samples)
        np.add.at(self.sums.reshape(-1), places, sums)
        self.worked(places // len(self.counters) if len(places) else places, tick_seconds)

    def worked(self, rows: Integers, tick_seconds: Integers | int) -> None:
        """Note that jobs did something at a tick, or each at its own."""
        np.maximum.at(self.last_tick, rows, tick_seconds)

    def shown(self, rows: Integers, seconds: Integers) -> None:
        """Note when servers say that records of jobs were last used."""
        np.maximum.at(self.snapshot_seconds, rows, seconds)

    def close(self, rows: Integers, tick_seconds: int) -> None:
        """Note that all totals are shown now: of these rows by the work of this tick, of others by what came late."""
        self.worked(rows, tick_seconds)
        self.changed_tick[rows] = tick_seconds
        self.changed_tick[self.is_late] = tick_seconds
        self.is_late[:] = False
        self.first_tick[(self.first_tick == NEVER) & (self.changed_tick == tick_seconds)] = tick_seconds

    def add_stay(self, stay: Stay, until_tick: int) -> None:
        """Add all that was done in a stay. Ticks after the last one that can be tell nothing."""
        for _, mount in stay.mounts:
            samples, sums = mount.totals()
            row, column = np.nonzero((samples != 0) | (sums != 0))
            places = self.places(mount, row, column)
            self.add(places, samples[row, column], sums[row, column], NEVER)
            did = np.unique(row)
            ticks = mount.work_tick[did]
            rows = self._known(mount)[0][did]
            self.worked(rows, np.where(ticks <= until_tick, ticks, NEVER))
            self.shown(rows, shown_seconds(mount, did, ticks))
            self.first_tick[rows], self.is_late[rows] = RESTORED, True

    def add_sum(self, job: bytes, done: JobSum, until_tick: int) -> None:
        """Add what a job did of which there are no records any more."""
        [row] = _numbered(self.jobs, [job])
        columns = _numbered(self.counters, list(done.counters))
        self._make_room()
        for column, (samples, total) in zip(columns, done.counters.values(), strict=True):
            self.samples[row, column] += samples
            self.sums[row, column] += total
        if done.last_tick <= until_tick:
            self.last_tick[row] = max(self.last_tick[row], done.last_tick)
        self.snapshot_seconds[row] = max(self.snapshot_seconds[row], done.last_tick)
        self.first_tick[row], self.is_late[row] = RESTORED, True

    def remove(self, jobs: Collection[bytes]) -> Integers:
        """Let jobs go; return the former rows of those that stay, in order. Whoever has the old jobs keeps them."""
        kept = np.array([row for job, row in self.jobs.items() if job not in jobs], np.int64)
        self.jobs = {job: row for row, job in enumerate(job for job in self.jobs if job not in jobs)}
        self.samples, self.sums, self.last_tick = self.samples[kept], self.sums[kept], self.last_tick[kept]
        self.snapshot_seconds, self.changed_tick = self.snapshot_seconds[kept], self.changed_tick[kept]
        self.first_tick, self.is_late = self.first_tick[kept], self.is_late[kept]
        self._places.clear()
        return kept

    def _known(self, mount: MountState) -> tuple[Integers, Integers]:
        nothing = np.zeros(0, np.int64)
        drops, rows, columns = self._places.get(mount, (mount.drops, nothing, nothing))
        if drops != mount.drops:
            rows = nothing
        if rows is nothing or len(rows) < len(mount.jobs) or len(columns) < len(mount.counters):
            rows = np.append(rows, np.full(len(mount.jobs) - len(rows), NEVER))
            columns = np.append(columns, _numbered(self.counters, list(mount.counters)[len(columns) :]))
            self._places[mount] = mount.drops, rows, columns
            self._make_room()
        return rows, columns

    def _number(self, mount: MountState, rows: Integers, row: Integers) -> None:
        """Give those rows of a mount their place that did nothing so far."""
        did = np.zeros(len(rows), np.bool_)
        did[row] = True
        new = np.flatnonzero(did & (rows == NEVER))
        rows[new] = _numbered(self.jobs, [mount.jobs[row] for row in new.tolist()])
        self._make_room()

    def _make_room(self) -> None:
        room = len(self.samples)
        if room < len(self.jobs):
            room = len(self.jobs) + len(self.jobs) // 4
        self.samples = fitted(self.samples, (room, len(self.counters)))
        self.sums = fitted(self.sums, (room, len(self.counters)))
        more = room - len(self.last_tick)
        self.last_tick = np.append(self.last_tick, np.full(more, NEVER))
        self.snapshot_seconds = np.append(self.snapshot_seconds, np.full(more, NEVER))
        self.changed_tick = np.append(self.changed_tick, np.full(more, NEVER))
        self.first_tick = np.append(self.first_tick, np.full(more, NEVER))
        self.is_late = np.append(self.is_late, np.zeros(more, np.bool_))


_Name = TypeVar("_Name", bytes, Counter)


def _numbered(known: dict[_Name, int], names: list[_Name]) -> Integers:
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def job_totals(stays: Iterable[Stay]) -> dict[bytes, JobWork]:
    """Add up what every job did in the given stays: those of one kind of target of one file system."""
    table = JobTable()
    for stay in stays:
        table.add_stay(stay, NEVER)
    return {job: job_work(table.counters, table.samples[row], table.sums[row]) for job, row in table.jobs.items()}
