"""What changed between two reads of a target: the agent's side of the accounting."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Protocol

from harvest_core.facts import ClientMarks, Facts, Moved, Name, moved_records, order_change
from harvest_core.lustre.columns import Codes, JobColumns
from harvest_core.wire import PART_BYTES, in_parts, moved_bytes

PART_RECORDS = 8192
"""Of one part, at most: fewer where they weigh more than a message may."""


SlotName = tuple[bytes, int, int]
"""A record's name: the job's id, when it began (0 = not said), and its rank among records that print alike."""


class Names(Protocol):
    """What each slot stands for."""

    def __getitem__(self, slot: int, /) -> SlotName:
        """Return the name of one, also of one that the last whole read found gone."""


class Follower(Protocol):
    """Whoever goes through the file; order and gone are those of the last whole read."""

    order: "array[int]"
    gone: list[int]

    @property
    def names(self) -> Names:
        """The names of all slots of the last read, and of those that it found gone."""


class Differences:
    """Turns the reads of one mount of a target into facts, in which nothing is said twice."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._told_codes = 0
        self._told: dict[int, int] = {}
        """By slot: the segment that named it last."""
        self._segment = 0
        self._extremes: dict[int, int] = {}
        self._order: array[int] | None = None

    def begin_segment(self) -> None:
        """Name again what is used from now on: a segment of the spool can be understood by itself."""
        self._segment += 1
        self._told_codes = 0

    def facts(self, read: Facts, chunks: Iterable[JobColumns], follower: Follower) -> Iterator[Facts]:
        """Yield the parts of one read; ``read`` has what is known before reading.

        An error while reading ends in a last part that is not complete: nothing after the cut is absent.
        """
        columns = JobColumns()
        problem: OSError | None = None
        rest = iter(chunks)
        parts = 0
        while True:
            try:
                columns.extend(next(rest))
            except StopIteration:
                break
            except OSError as error:
                problem = error
                break
            if len(columns.slot) >= PART_RECORDS or moved_bytes(columns) >= PART_BYTES:
                clients = None if read.clients is None else ClientMarks()  # the last part has them
                about = replace(read, part=parts, is_last_part=False, clients=clients)
                cut = in_parts(self._part(about, columns, columns.slot, follower.names), PART_RECORDS)
                yield from cut
                parts += len(cut)
                columns = JobColumns()
        read = replace(read, part=parts)
        marks = read.clients or ClientMarks()
        used = chain(columns.slot, marks.slot, marks.early_slot)
        if problem is not None or not read.complete:
            last = self._part(replace(read, complete=False), columns, used, follower.names)
            yield from in_parts(last, PART_RECORDS)
            return
        order = follower.order if self._order is None else order_change(self._order, follower.order)
        gone = array("q", [slot for slot in follower.gone if slot in self._told])
        last = self._part(read, columns, chain(used, order, gone), follower.names)
        last.order_is_full, last.order, last.gone = self._order is None, order, gone
        self._order = follower.order
        for slot in follower.gone:
            self._told.pop(slot, None)
            self._extremes.pop(slot, None)
        yield from in_parts(last, PART_RECORDS)

    def _part(self, read: Facts, columns: JobColumns, used: Iterable[int], names: Names) -> Facts:
        new: list[Name] = []
        again: list[Name] = []
        for slot in used:
            segment = self._told.get(slot)
            if segment != self._segment:
                self._told[slot] = self._segment
                (new if segment is None else again).append((slot, *names[slot]))
        known = list(self._codes.known)
        counters = [(code, *known[code]) for code in range(self._told_codes, len(known))]
        self._told_codes = len(known)
        moved = moved_records(columns, self._extremes) if columns.slot else Moved()
        return replace(read, names=new, again=again, counters=counters, moved=moved)
