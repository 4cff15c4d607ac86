"""A reader's place among the job records between two read() calls, by version (§1.6)."""

from collections.abc import Iterator
from typing import Protocol

from harvest_sim.jobstats import JobStats, Record
from harvest_sim.lives import Showing
from harvest_sim.text import JOB_STATS_HEADER
from harvest_sim.versions import ReadPosition

Upcoming = Iterator[tuple[bytes, Showing | None]]


class Walk(Protocol):
    """A place that moves on by what is accepted."""

    def upcoming(self) -> Upcoming:
        """Yield texts from the place on, each with what it shows that was not shown before."""

    def accept(self) -> None:
        """Step over what was yielded last."""


def walk_through(table: JobStats) -> Walk:
    """Return the start of a walk as the table's version does it."""
    match table.features.read_position:
        case ReadPosition.INDEX:
            return _IndexWalk(table)
        case ReadPosition.FOLLOWS:
            return _FollowingWalk(table)
        case ReadPosition.CREATION:
            return _CreationWalk(table)


class _IndexWalk:
    """Up to 2.15.55 the place is an index: a record removed before it makes another one be skipped (§1.6)."""

    def __init__(self, table: JobStats) -> None:
        self._table = table
        self._index = -1
        self._offered: Record | None = None

    def upcoming(self) -> Upcoming:
        records = list(self._table.records.values())
        if self._index < 0:
            yield JOB_STATS_HEADER, None
        elif self._offered is not None and self._offered in records[: self._index]:
            self._table.truth.events["skipped in a read"] += 1
        for record in records[max(self._index, 0) :]:
            self._offered = record
            yield self._table.record_text(record), record.life.showing(self._table.time.now_ns)

    def accept(self) -> None:
        self._index += 1
        self._offered = None


class _FollowingWalk:
    """2.15.56-2.16.50: the place follows the job; if that is gone, the next younger one (§1.6)."""

    def __init__(self, table: JobStats) -> None:
        self._table = table
        self._is_headed = False
        self._after = -1
        self._offered = -1

    def upcoming(self) -> Upcoming:
        if not self._is_headed:
            yield JOB_STATS_HEADER, None
        for record in list(self._table.records.values()):
            if record.place > self._after:
                self._offered = record.place
                yield self._table.record_text(record), record.life.showing(self._table.time.now_ns)

    def accept(self) -> None:
        self._is_headed = True
        self._after = self._offered


class _CreationWalk:
    """From 2.16.51 the place is a creation number in an LRU list, and the header's flag the target's (§1.6).

    Open in the text: in which order. Here: the LRU order at the first read(), then what was created since; so
    no record that stays is skipped or shown twice, and the order is not that of creation.
    """

    def __init__(self, table: JobStats) -> None:
        self._table = table
        self._queue: list[Record] = []
        self._newest = -1
        table.is_header_due = True

    def upcoming(self) -> Upcoming:
        table = self._table
        new = [record for record in table.records.values() if record.place > self._newest]
        self._newest = max((record.place for record in new), default=self._newest)
        self._queue = [record for record in self._queue + new if not record.life.is_over]
        for record in list(self._queue):
            header = JOB_STATS_HEADER if table.is_header_due else b""
            yield header + table.record_text(record), record.life.showing(table.time.now_ns)

    def accept(self) -> None:
        self._table.is_header_due = False
        del self._queue[0]
