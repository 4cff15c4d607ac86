"""What is known of one mount of one target: every record's last value, in numpy columns."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

NEVER = -1
_FIRST_ROOM = 64
_NEVER_FIRST = ("stamp", "seen_tick")
_ZERO_FIRST = (
    *("start", "snapshot", "used", "absent", "least_interval", "most_interval", "value_seq", "value_tick"),
    *("back_steps", "surely_absent", "in_doubt", "is_twin", "horizon", "samples", "sums"),
)
"""What a new row's columns hold."""


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
        self.most_interval = np.zeros(_FIRST_ROOM, np.int64)
        """The largest one likewise."""
        self.value_seq = np.zeros(_FIRST_ROOM, np.int64)
        """The seq that gave its last value."""
        self.value_tick = np.zeros(_FIRST_ROOM, np.int64)
        self.back_steps = np.zeros(_FIRST_ROOM, np.int64)
        """How far the clock had been set back in all when it gave its last value, in nanoseconds."""
        self.surely_absent = np.zeros(_FIRST_ROOM, np.bool_)
        """It was absent from a read that is known to have skipped nothing."""
        self.in_doubt = np.zeros(_FIRST_ROOM, np.bool_)
        """A read that was cut short showed that others were cleared: this one, behind the cut, may have been, too."""
        self.clock_back = 0
        self._clock: tuple[int, int] | None = None
        self.order: Integers = np.zeros(0, np.int64)
        """Rows in file order, as of the last whole read."""
        self.next_stamp = 0
        self.last_seq: tuple[bytes, int] = (b"", 0)
        """The incarnation and seq of the last read."""
        self.last_tick = NEVER
        self.last_was_complete = False
        self.last_could_skip = True
        """The last whole read may have missed records that were there."""
        self.last_read_at = 0
        """The server's wall clock at the last whole read."""
        self.slots: dict[bytes, Integers] = {}
        """Per incarnation: the row of each slot."""
        self.codes: dict[bytes, Integers] = {}
        """Per incarnation: the column of each code."""
        self._newest_started: dict[bytes, int] = {}
        """The youngest row of each job whose start was told; made while a server stops telling."""
        self.twins: dict[bytes, list[int]] = {}
        """Rows of ids that were seen several times in one read without a start."""
        self.is_twin = np.zeros(_FIRST_ROOM, np.bool_)
        """Likewise: what their places tell about others is nothing, they may have changed places."""
        self.ended: set[int] = set()
        """Rows of such ids that were flagged as ended when they vanished."""
        self.extremes: dict[tuple[bytes, int], tuple[int, int]] = {}
        """(job, column) -> (minimum, maximum) over all lives."""
        self.histograms: dict[tuple[int, int, int], int] = {}
        """(row, column, power) -> count, in the present life."""
        self.closed_histograms: dict[tuple[bytes, int, int], int] = {}

    def learn(
        self,
        incarnation: bytes,
        names: Iterable[tuple[int, bytes, int, int]],
        counters: Iterable[tuple[int, str, str]],
    ) -> None:
        """Take in dictionary entries: what an incarnation's slots and codes stand for."""
        names = list(names)
        self._newest_started = {}
        if any(not start for _, _, start, _ in names) and self.start.any():
            self._newest_started = {job: row for row, job in enumerate(self.jobs) if self.start[row]}
        slots = self.slots.setdefault(incarnation, np.zeros(0, np.int64))
        for slot, job, start, rank in names:
            slots = _with_room(slots, slot)
            slots[slot] = self._row(job, start, rank)
        self.slots[incarnation] = slots
        codes = self.codes.setdefault(incarnation, np.zeros(0, np.int64))
        for code, name, unit in counters:
            codes = _with_room(codes, code)
            codes[code] = self._column(name, unit)
        self.codes[incarnation] = codes

    def rows_of(self, incarnation: bytes, slots: Integers) -> Integers:
        """Return the rows of slots; one that was never named is refused."""
        return _known(self.slots[incarnation], slots, "slot")

    def columns_of(self, incarnation: bytes, codes: Integers) -> Integers:
        """Return the columns of counters' codes, likewise."""
        return _known(self.codes[incarnation], codes, "code")

    def _row(self, job: bytes, start: int, rank: int) -> int:
        key = (job, start, rank)
        row = self._switched(job, start) if not rank else None
        if row is None:
            row = self.rows.get(key)
        self.rows[key] = row = self._new_row(job, start) if row is None else row
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
        if start and (self.start[row] or start > self.snapshot[row] + self.clock_back - self.back_steps[row]):
            return None
        return row

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
            for name_of in ("samples", "sums"):
                numbers = getattr(self, name_of)
                setattr(self, name_of, np.pad(numbers, ((0, 0), (0, 1))))
            for row, earlier in self.closed.items():
                self.closed[row] = np.vstack([earlier, np.zeros((1, 2), np.int64)])
        return self.counters[key]

    def _grow(self) -> None:
        room = len(self.start) // 2  # half as much again: a doubling would waste memory where there is much of it
        for name in _ZERO_FIRST:
            numbers = getattr(self, name)
            setattr(self, name, np.concatenate([numbers, np.zeros((room, *numbers.shape[1:]), numbers.dtype)]))
        for name in _NEVER_FIRST:
            setattr(self, name, np.concatenate([getattr(self, name), np.full(room, NEVER, np.int64)]))

    def watch_clock(self, wall: int, uptime: int) -> None:
        """Add up how far the server's wall clock was set back, by its uptime."""
        if self._clock is not None:
            stepped = (wall - self._clock[0]) - (uptime - self._clock[1])
            self.clock_back += max(-stepped, 0)
        self._clock = (wall, uptime)

    def end_life(self, row: int) -> None:
        """Add a row's present life to its earlier ones; what comes next starts from zero."""
        self.closed[row] = self.total(row)
        self.samples[row] = self.sums[row] = 0
        self.used[row] = 0
        for key in [key for key in self.histograms if key[0] == row] if self.histograms else ():
            _, column, power = key
            total = (self.jobs[row], column, power)
            self.closed_histograms[total] = self.closed_histograms.get(total, 0) + self.histograms.pop(key)

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


def _known(places: Integers, numbers: Integers, what: str) -> Integers:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(places):
        raise UnnamedError(f"a {what} is used that was never named")
    found = places[numbers]
    if len(found) and found.min() == NEVER:
        raise UnnamedError(f"a {what} is used that was never named")
    return found


def _with_room(numbers: Integers, index: int) -> Integers:
    if index < len(numbers):
        return numbers
    return np.concatenate([numbers, np.full(index + 1 + len(numbers) // 2 - len(numbers), NEVER, np.int64)])
