"""Whether a clear left a trace that any reader could have seen: judged by what was shown, not by what was decided."""

from dataclasses import dataclass, field

import numpy as np

from harvest_core.accounting.evidence import interval_seconds
from harvest_core.accounting.mounts import NSECS, Integers, MountState
from harvest_core.facts import Facts


@dataclass(frozen=True, slots=True)
class Shown:
    """One record as a read showed it."""

    life: int
    """The true one."""
    value: Integers
    snapshot: int
    """By the server's clock, and what that was set back by until then."""


@dataclass(slots=True)
class Page:
    """What one read showed, by row, in file order."""

    records: dict[int, Shown]
    interval_seconds: int
    instance: int | None

    @classmethod
    def of(cls, lives: dict[int, int], state: MountState, facts: Facts) -> "Page":
        """Return what a read showed that the state has just taken in."""
        records = {
            row: Shown(life, state.value(row), int(state.snapshot[row] + state.back_steps[row]))
            for row, life in lives.items()
        }
        return cls(records, interval_seconds(facts), facts.mount.instance)


@dataclass(slots=True)
class Pages:
    """The last whole read of a mount, and those that were cut short since."""

    reads: list[Page] = field(default_factory=list)
    suspects: set[int] = field(default_factory=set)
    """Rows that were not shown again since a cut read betrayed a clear."""

    def add(self, page: Page, facts: Facts, *, ended: list[int]) -> None:
        """Turn to the next read, in which the lives of these rows were seen to have ended."""
        if facts.complete:
            self.reads = []
            self.suspects = set()
        elif facts.directory_gone or any(self._was_busy(row, page) for row in ended):
            self.suspects.update(*(before.records for before in self.reads))
        self.suspects -= page.records.keys()
        self.reads.append(page)

    def renumber(self, new_row: dict[int, int]) -> None:
        """Follow rows that have other numbers now."""
        for page in self.reads:
            page.records = {new_row[row]: shown for row, shown in page.records.items() if row in new_row}
        self.suspects = {new_row[row] for row in self.suspects if row in new_row}

    def _was_busy(self, row: int, page: Page) -> bool:
        """Tell whether a record cannot have been evicted: then its end betrays a clear."""
        return any(
            page.records[row].snapshot - before.records[row].snapshot
            < (min(before.interval_seconds, page.interval_seconds) - 1) * NSECS
            for before in self.reads
            if row in before.records and row in page.records
        )

    def untraced(self, now: Page, state: MountState, facts: Facts, *, is_ordered: bool) -> set[int]:
        """Return the rows of which nobody can see that they were cleared since: they look as if they had stayed.

        All that was shown since the last whole read must be possible without a clear: every record is back, in the
        old order and higher; only one that was idle long enough to be evicted may be gone, or have begun again,
        and then it stands behind those that stayed.
        """
        if not facts.complete or facts.directory_gone or not self.reads:
            return set()
        if any(before.instance != now.instance for before in self.reads):  # the mount tells
            return set()
        stayed = [_stayed(before, now, state, facts, is_ordered=is_ordered) for before in self.reads]
        return set() if None in stayed else set().union(*(rows for rows in stayed if rows)) - self.suspects

    def held_in_place(self, rows: set[int], now: Page) -> set[int]:
        """Return whoever the last whole read showed and that still stands before one of these which was not idle."""
        there = [row for row in now.records if row in self.reads[0].records]
        busy = [number for number, row in enumerate(there) if row in rows and self._was_busy(row, now)]
        return set(there[: max(busy)]) if busy else set()

    def lost(self, row: int, now: Page) -> Integers:
        """Return what is missing of a row whose clear left no trace: of sums of times, which may fall, the less."""
        last = next(page.records[row].value for page in reversed(self.reads) if row in page.records)
        return np.minimum(last, now.records[row].value[: len(last)])


def _stayed(before: Page, now: Page, state: MountState, facts: Facts, *, is_ordered: bool) -> set[int] | None:
    """Return the rows that may have stayed from one read to another; None if there must have been a clear."""
    interval = min(before.interval_seconds, now.interval_seconds) * NSECS
    stayed: set[int] = set()
    last = -1
    place = {row: number for number, row in enumerate(before.records)}
    is_tail = False
    for row, shown in now.records.items():
        old = before.records.get(row)
        if is_ordered:
            is_tail = is_tail or old is None or place[row] < last or _fell(old, shown, state)
        else:
            is_tail = old is None or _fell(old, shown, state)
        if not is_tail:
            stayed.add(row)
            last = place[row]
        elif old is not None and shown.snapshot - old.snapshot < interval - NSECS:
            return None
    clock = facts.read_at + state.clock_back
    if any(row not in now.records and clock - old.snapshot < interval for row, old in before.records.items()):
        return None
    return stayed


def _fell(before: Shown, after: Shown, state: MountState) -> bool:
    """Tell whether a number is lower that never is within a life."""
    old, new = before.value, after.value[: len(before.value)]
    return bool(((new[:, 0] < old[:, 0]) | (state.in_bytes[: len(old)] & (new[:, 1] < old[:, 1]))).any())
