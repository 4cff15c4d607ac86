"""What is known of one mount of one target: every record's last value, in numpy columns."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from harvest_core.accounting import slots as numbered
from harvest_core.facts import Name

Integers = NDArray[np.int64]

NEVER = -1
NSECS = 1_000_000_000
_FIRST_ROOM = 64
_NEVER_FIRST = ("stamp", "seen_tick", "value_tick", "work_tick", "least", "most")
_ZERO_FIRST = (
    *("start", "snapshot", "used", "absent", "least_interval", "value_seq"),
    *(
        "back_steps",
        "surely_absent",
        "in_doubt",
        "unplaced",
        "spoilt",
        "is_twin",
        "is_live",
        "is_server",
        "horizon",
        "opened",
    ),
    *("samples", "sums"),
)
"""What a new row's columns hold."""
BY_ROW = frozenset({*_NEVER_FIRST, *_ZERO_FIRST})
"""Columns with a place for every row, and room for more."""
_COLUMN_SHIFT, _ROW_SHIFT = 5, 21
_MOST_POWERS, _MOST_COLUMNS = (1 << 5) - 1, (1 << 16) - 1
"""Of a bucket's number; the wire has fewer than 2^5 powers, 2^16 columns and 2^24 rows."""


class UnnamedError(Exception):
    """Facts speak of records that nobody introduced: what named them is lost, and a full picture is needed."""


class MountState:
    """The records of one mount. A row is one record: an id, its start where the server says so, its rank."""

    def __init__(self) -> None:
        self.rows: dict[tuple[bytes, int, int], int] = {}
        self.jobs: list[bytes] = []
        """The id of each row."""
        self.counters: dict[tuple[str, str], int] = {}
        """(name, unit) of each column of values."""
        self.has_sum: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Which columns have a sum, too."""
        self.in_bytes: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Which columns count bytes."""
        self.samples: Integers = np.zeros((_FIRST_ROOM, 0), np.int64)
        """The last number of samples in the present life, by row and column."""
        self.sums: Integers = np.zeros((_FIRST_ROOM, 0), np.int64)
        self.closed: dict[int, Integers] = {}
        """What earlier lives of a row added up to, where there are any: (samples, sum) by column."""
        self.start = np.zeros(_FIRST_ROOM, np.int64)
        self.snapshot = np.zeros(_FIRST_ROOM, np.int64)
        self.used = np.zeros(_FIRST_ROOM, np.int16)
        """How many columns are not 0."""
        self.stamp = np.full(_FIRST_ROOM, NEVER, np.int64)
        """Creation order as far as it was seen: smaller is older; equal is not known."""
        self.horizon = np.zeros(_FIRST_ROOM, np.int64)
        """The first stamp that was not given yet when it was last shown by a whole read."""
        self.absent = np.zeros(_FIRST_ROOM, np.int32)
        """Whole reads since that did not show it; 0 = present in the last one."""
        self.seen_tick = np.full(_FIRST_ROOM, NEVER, np.int64)
        self.least_interval = np.zeros(_FIRST_ROOM, np.int64)
        """The smallest cleanup interval since its last value, in seconds."""
        self.value_seq = np.zeros(_FIRST_ROOM, np.int64)
        """The seq that gave its last value."""
        self.value_tick = np.full(_FIRST_ROOM, NEVER, np.int64)
        self.work_tick = np.full(_FIRST_ROOM, NEVER, np.int64)
        """When it last added anything to totals; a value that is told again does not."""
        self.back_steps = np.zeros(_FIRST_ROOM, np.int64)
        """How far the clock had been set back in all when it gave its last value, in nanoseconds."""
        self.surely_absent = np.zeros(_FIRST_ROOM, np.bool_)
        """It was absent from a read that is known to have skipped nothing."""
        self.in_doubt = np.zeros(_FIRST_ROOM, np.bool_)
        """A read that was cut short showed that others were cleared: this one, behind the cut, may have been, too."""
        self.spoilt = np.zeros(_FIRST_ROOM, np.bool_)
        """Not all of its last value could be read: nobody can say in which time the next one was reached."""
        self.unplaced = np.zeros(_FIRST_ROOM, np.bool_)
        """A read that was cut short showed it since the last whole one: it may have been re-created before that."""
        self.clock_back = 0
        self.clock: tuple[int, int] | None = None
        """The server's wall clock and uptime at the last read, in nanoseconds."""
        self.order: Integers = np.zeros(0, np.int64)
        """Rows in file order, as of the last whole read."""
        self.next_stamp = 0
        self.last_seq: tuple[bytes, int] = (b"", 0)
        """The incarnation and seq of the last read."""
        self.first_tick = NEVER
        self.moved_seconds = 0
        """By how much ticks of the past were moved along with the clock."""
        self.last_tick = NEVER
        self.whole_tick = NEVER
        """The tick of the last whole read."""
        self.last_interval = 0
        """The cleanup interval then, in seconds."""
        self.last_was_complete = False
        self.last_could_skip = True
        """The last whole read may have missed records that were there."""
        self.slots: dict[bytes, Integers] = {}
        """Per incarnation: the slots in use, and the row of each."""
        self.codes: dict[bytes, Integers] = {}
        """Per incarnation: the column of each code."""
        self._newest_started: dict[bytes, int] = {}
        """The youngest row of each job whose start was told; made while a server stops telling."""
        self.twins: dict[bytes, list[int]] = {}
        """Rows of ids that were seen several times in one read without a start."""
        self.is_twin = np.zeros(_FIRST_ROOM, np.bool_)
        """Likewise: what their places tell about others is nothing, they may have changed places."""
        self.is_live = np.zeros(_FIRST_ROOM, np.bool_)
        """Of clients: somebody is connected there."""
        self.is_server = np.zeros(_FIRST_ROOM, np.bool_)
        """Likewise: it is a server, and no client."""
        self.ended: set[int] = set()
        """Rows of such ids that were flagged as ended when they vanished."""
        self.least: Integers = np.zeros((_FIRST_ROOM, 0), np.int64)
        """The smallest value that was counted in any life, by row and column; NEVER where none was told."""
        self.most: Integers = np.zeros((_FIRST_ROOM, 0), np.int64)
        self.bucket: Integers = np.zeros(0, np.int64)
        """Of histograms: row, column and power as one number, in order."""
        self.bucket_count: Integers = np.zeros(0, np.int64)
        """How many values a bucket counts in the present life."""
        self.closed_histograms: dict[tuple[bytes, int, int], int] = {}
        self.opened = np.zeros(_FIRST_ROOM, np.bool_)
        """The first whole read showed it when no other mount was known: nobody was told that its job may have done more
        before."""
        self.opening: set[bytes] = set()
        """The jobs of such rows that have left."""
        self.drops = 0
        """How often rows have left, so that those that are left got other numbers."""

    def learn(
        self,
        incarnation: bytes,
        names: Iterable[Name],
        counters: Iterable[tuple[int, str, str]],
        again: Iterable[Name] = (),
    ) -> None:
        """Take in dictionary entries: what an incarnation's slots and codes stand for.

        Those told again are mostly known; not so where what told them first is lost.
        """
        codes = self.codes.setdefault(incarnation, np.zeros(0, np.int64))
        for code, name, unit in counters:
            codes = _with_room(codes, code)
            codes[code] = self._column(name, unit)
        self.codes[incarnation] = codes
        known = self.slots.setdefault(incarnation, numbered.NOTHING)
        names = [*names, *_unknown(known, again)]
        self._newest_started = {}
        if any(not start for _, _, start, _ in names) and self.start.any():
            self._newest_started = {job: row for row, job in enumerate(self.jobs) if self.start[row]}
        if names:
            rows = self._rows_of_names(names)
            self.slots[incarnation] = numbered.with_names(known, [slot for slot, _, _, _ in names], rows)

    def rows_of(self, incarnation: bytes, slots: Integers) -> Integers:
        """Return the rows of slots; one that was never named is refused."""
        known = self.slots[incarnation]
        return _known(known[1], numbered.places(known, slots), "slot")

    def columns_of(self, incarnation: bytes, codes: Integers) -> Integers:
        """Return the columns of counters' codes, likewise."""
        return _known(self.codes[incarnation], codes, "code")

    def _rows_of_names(self, names: list[Name]) -> Sequence[int]:
        """Return the rows that names stand for; a mount's first ones are taken together if no two are of one job."""
        jobs = [job for _, job, _, _ in names]
        if self.jobs or len(set(jobs)) < len(jobs) or any(rank for _, _, _, rank in names):
            return [self._row(job, start, rank) for _, job, start, rank in names]
        self._grow(len(jobs))
        self.jobs = jobs
        self.rows = {name[1:]: row for row, name in enumerate(names)}
        self.start[: len(jobs)] = [start for _, _, start, _ in names]
        return range(len(jobs))

    def _row(self, job: bytes, start: int, rank: int) -> int:
        key = (job, start, rank)
        row = self._switched(job, start) if not rank else None
        if row is None:
            row = self.rows.get(key)
        self.rows[key] = row = self._new_row(job, start) if row is None else row
        if start and not self.start[row] and self._may_be_younger(row, start):
            self.in_doubt[row] = True  # so that its start names no life
        else:
            self.start[row] = start  # told no more, it names no life any more
        if rank and not start and not self.is_twin[row]:
            group = self.twins.setdefault(job, [self._row(job, 0, 0)])
            group.append(row)
            self.is_twin[group] = True
        return row

    def _switched(self, job: bytes, start: int) -> int | None:
        """Return the row of a record whose start is told for the first time, or no more.

        An admin may switch enable_stats_header while records live: that ends none of them.
        """
        row = self.rows.get((job, 0, 0)) if start else self._newest_started.get(job)
        if row is None or self.absent[row]:
            return None
        if start and (self.start[row] or start > self._counted_until(row) + self.clock_back):
            return None
        return row

    def _may_be_younger(self, row: int, start: int) -> bool:
        """Tell whether a start lies behind the last value: another life, or its clock was set back in its life."""
        return bool(start > self._counted_until(row) + self.clock_back - self.back_steps[row])

    def _counted_until(self, row: int) -> int:
        """Return when a row's last value was counted; of clients only the tick is known at which it was told."""
        return int(self.snapshot[row] or self.value_tick[row] * NSECS)

    def _new_row(self, job: bytes, start: int) -> int:
        row = len(self.jobs)
        self.jobs.append(job)
        if row == len(self.start):
            self._grow()
        self.start[row] = start
        return row

    def _column(self, name: str, unit: str) -> int:
        key = (name, unit)
        if key not in self.counters:
            self.counters[key] = len(self.counters)
            self.in_bytes = np.append(self.in_bytes, unit == "bytes")
            self.has_sum = np.append(self.has_sum, unit != "reqs")
            for name_of, blank in (("samples", 0), ("sums", 0), ("least", NEVER), ("most", NEVER)):
                numbers = getattr(self, name_of)
                setattr(self, name_of, np.pad(numbers, ((0, 0), (0, 1)), constant_values=blank))
            for row, earlier in self.closed.items():
                self.closed[row] = np.vstack([earlier, np.zeros((1, 2), np.int64)])
        return self.counters[key]

    def _grow(self, room: int = _FIRST_ROOM) -> None:
        # a quarter as much again: a doubling would waste memory where there is much of it
        room = max(len(self.start) // 4, room)
        for name in _ZERO_FIRST:
            numbers = getattr(self, name)
            setattr(self, name, np.concatenate([numbers, np.zeros((room, *numbers.shape[1:]), numbers.dtype)]))
        for name in _NEVER_FIRST:
            numbers = getattr(self, name)
            setattr(self, name, np.concatenate([numbers, np.full((room, *numbers.shape[1:]), NEVER, np.int64)]))

    def watch_clock(self, wall: int, uptime: int) -> None:
        """Add up how far the server's wall clock was set back, by its uptime.

        Ticks are the server's own: those of the past are moved along with a clock that was set, so that the time
        since then stays true, or a second too long.
        """
        if self.clock is not None:
            stepped = (wall - self.clock[0]) - (uptime - self.clock[1])
            self.clock_back += max(-stepped, 0)
            if abs(stepped) >= NSECS:
                for ticks in (self.seen_tick, self.value_tick):
                    ticks[ticks != NEVER] += stepped // NSECS
                self.first_tick += stepped // NSECS
                self.moved_seconds += stepped // NSECS
                self.last_tick += stepped // NSECS
                self.whole_tick += stepped // NSECS if self.whole_tick != NEVER else 0
        self.clock = (wall, uptime)

    def end_life(self, row: int) -> None:
        """Add a row's present life to its earlier ones; what comes next starts from zero."""
        self.closed[row] = self.total(row)
        self.samples[row] = self.sums[row] = 0
        self.used[row] = 0
        if len(self.bucket):
            for place, count in self.histogram(row).items():
                total = (self.jobs[row], *place)
                self.closed_histograms[total] = self.closed_histograms.get(total, 0) + count
            self.bucket_count[self._buckets_of(row)] = 0

    def carry(self, row: int, column: int, samples: int, total: int) -> None:
        """Add to what a row's earlier lives count for one column."""
        self.closed.setdefault(row, np.zeros((len(self.counters), 2), np.int64))[column] += (samples, total)

    def value(self, row: int) -> Integers:
        """Return a row's present life, (samples, sum) by column."""
        return np.stack([self.samples[row], self.sums[row]], axis=1)

    def total(self, row: int) -> Integers:
        """Return what a row's lives add up to, (samples, sum) by column."""
        earlier = self.closed.get(row)
        return self.value(row) if earlier is None else self.value(row) + earlier

    def count_values(self, row: Integers, column: Integers, power: Integers, count: Integers) -> None:
        """Take in buckets of histograms; within a life they only grow."""
        bucket = (row << _ROW_SHIFT) | (column << _COLUMN_SHIFT) | power
        places = np.searchsorted(self.bucket, bucket)
        new = np.unique(bucket[np.append(self.bucket, NEVER)[places] != bucket])
        if len(new):
            between = np.searchsorted(self.bucket, new)
            self.bucket = np.insert(self.bucket, between, new)
            self.bucket_count = np.insert(self.bucket_count, between, 0)
            places = np.searchsorted(self.bucket, bucket)
        np.maximum.at(self.bucket_count, places, count)

    def histogram(self, row: int) -> dict[tuple[int, int], int]:
        """Return how many values a row's present life counted, by column and power."""
        mine = self._buckets_of(row)
        return {
            ((bucket >> _COLUMN_SHIFT) & _MOST_COLUMNS, bucket & _MOST_POWERS): count
            for bucket, count in zip(self.bucket[mine].tolist(), self.bucket_count[mine].tolist(), strict=True)
            if count
        }

    def _buckets_of(self, row: int) -> slice:
        return slice(*np.searchsorted(self.bucket, [row << _ROW_SHIFT, (row + 1) << _ROW_SHIFT]).tolist())

    def extremes(self, job: bytes, column: int) -> tuple[int, int] | None:
        """Return the smallest and the largest value that a job counted in all its lives, if any was told."""
        rows = [row for row, name in enumerate(self.jobs) if name == job and self.most[row, column] != NEVER]
        return (int(self.least[rows, column].min()), int(self.most[rows, column].max())) if rows else None

    def drop(self, rows: Integers) -> None:
        """Let rows go, and whatever stands for them; what they added up to must have been taken before."""
        count = len(self.jobs)
        stays = np.ones(count, np.bool_)
        stays[rows] = False
        new_row = np.where(stays, np.cumsum(stays) - 1, NEVER)
        new = new_row.tolist()
        self.opening.update(self.jobs[row] for row in np.flatnonzero(self.opened[:count] & ~stays))
        for name in BY_ROW:
            setattr(self, name, getattr(self, name)[:count][stays])
        self.jobs = [job for job, row in zip(self.jobs, new, strict=True) if row != NEVER]
        self.rows = {key: new[row] for key, row in self.rows.items() if new[row] != NEVER}
        self.closed = {new[row]: earlier for row, earlier in self.closed.items() if new[row] != NEVER}
        self.twins = {
            job: kept for job, group in self.twins.items() if (kept := [new[row] for row in group if stays[row]])
        }
        self.ended = {new[row] for row in self.ended if stays[row]}
        self.order = new_row[self.order[stays[self.order]]]
        self.slots = {name: numbered.without(known, new_row, NEVER) for name, known in self.slots.items()}
        self._newest_started = {}
        mine = stays[self.bucket >> _ROW_SHIFT]
        bucket = self.bucket[mine]
        self.bucket = (new_row[bucket >> _ROW_SHIFT] << _ROW_SHIFT) | (bucket & ((1 << _ROW_SHIFT) - 1))
        self.bucket_count = self.bucket_count[mine]
        self.drops += 1

    def totals(self) -> tuple[Integers, Integers]:
        """Return what all rows' lives add up to: samples and sums, by row and column."""
        count = len(self.jobs)
        samples, sums = self.samples[:count].copy(), self.sums[:count].copy()
        if self.closed:
            rows = np.fromiter(self.closed, np.int64, len(self.closed))
            earlier = np.stack(list(self.closed.values()))
            samples[rows] += earlier[:, :, 0]
            sums[rows] += earlier[:, :, 1]
        return samples, sums


def _known(places: Integers, numbers: Integers, what: str) -> Integers:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(places):
        raise UnnamedError(f"a {what} is used that was never named")
    found = places[numbers]
    if len(found) and found.min() == NEVER:
        raise UnnamedError(f"a {what} is used that was never named")
    return found


def _unknown(known: Integers, names: Iterable[Name]) -> list[Name]:
    """Return those of which nobody told before what their slots stand for."""
    names = list(names)
    places = numbered.places(known, np.array([slot for slot, _, _, _ in names], np.int64))
    return [name for name, place in zip(names, places.tolist(), strict=True) if place == len(known[0])]


def _with_room(numbers: Integers, index: int) -> Integers:
    if index < len(numbers):
        return numbers
    return np.concatenate([numbers, np.full(index + 1 + len(numbers) // 2 - len(numbers), NEVER, np.int64)])
