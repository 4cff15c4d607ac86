"""What changed between two reads of a target: the agent's side of the accounting."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from harvest_core.facts import Facts, Moved, moved_records, order_change
from harvest_core.lustre.columns import Codes, JobColumns

PART_RECORDS = 8192
"""Of one part: as a message it stays below 4 MiB with the longest records there are."""


class Follower(Protocol):
    """Whoever goes through the file; order and gone are those of the last whole read."""

    names: dict[int, tuple[bytes, int, int]]
    order: "array[int]"
    gone: list[int]


class Differences:
    """Turns the reads of one mount of a target into facts, in which nothing is said twice."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._told_codes = 0
        self._told: set[int] = set()
        self._extremes: dict[int, int] = {}
        self._order: array[int] | None = None

    def facts(self, read: Facts, chunks: Iterable[JobColumns], follower: Follower) -> Iterator[tuple[Facts, bool]]:
        """Yield the parts of one read, the last one marked; ``read`` has what is known before reading.

        An error while reading ends in a last part that is not complete: nothing after the cut is absent.
        """
        columns = JobColumns()
        problem: OSError | None = None
        rest = iter(chunks)
        while True:
            try:
                columns.extend(next(rest))
            except StopIteration:
                break
            except OSError as error:
                problem = error
                break
            if len(columns.slot) >= PART_RECORDS:
                yield self._part(read, columns, follower.names), False
                columns = JobColumns()
        last = self._part(read, columns, follower.names)
        if problem is not None or not read.complete:
            yield replace(last, complete=False), True
            return
        last.gone = array("q", [slot for slot in follower.gone if slot in self._told])
        last.order_is_full = self._order is None
        last.order = follower.order if self._order is None else order_change(self._order, follower.order)
        self._order = follower.order
        for slot in follower.gone:
            self._told.discard(slot)
            self._extremes.pop(slot, None)
        yield last, True

    def _part(self, read: Facts, columns: JobColumns, names: Mapping[int, tuple[bytes, int, int]]) -> Facts:
        new = [(slot, *names[slot]) for slot in columns.slot if slot not in self._told]
        self._told.update(slot for slot, *_ in new)
        known = list(self._codes.known)
        counters = [(code, *known[code]) for code in range(self._told_codes, len(known))]
        self._told_codes = len(known)
        moved = moved_records(columns, self._extremes) if columns.slot else Moved()
        return replace(read, names=new, counters=counters, moved=moved)
