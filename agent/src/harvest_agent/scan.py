"""Reading one job_stats file again and again: what moved since the last time, at little cost.

A record that did not change is recognised by a hash of its bytes and is not parsed. The hash is 64 bits
wide with a random seed; counters are absolute, so even a collision would only delay a value (ADR 0002).
"""

import secrets
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from harvest_agent.native import Native
from harvest_core.differences import SlotName
from harvest_core.lustre.columns import Codes, JobColumns, nanoseconds
from harvest_core.lustre.job_ids import decoded
from harvest_core.lustre.job_stats import ID_COLUMN, parse_job_stats, parse_record, split_records

BUFFER_BYTES = 1 << 20
"""Also the largest record: a hundred times what Lustre prints for one."""
_EXAMPLES = 20
_SEED = secrets.randbits(64)


class Engine(Protocol):
    """How the bytes are gone through: compiled, or in Python with equal results."""

    def split(self, buffer: bytearray, size: int, *, final: bool) -> tuple[list[int], list[int]]:
        """Return where records start (and, one more, where the last ends) and the hash of each."""

    def parse(
        self, buffer: bytearray, starts: list[int], ends: list[int], codes: Codes, into: JobColumns
    ) -> list[tuple[int, int]]:
        """Read the regular ones of these records into columns; slots are left to the caller.

        Return (number of the record, end of its id line) for each that was read.
        """


class Pure:
    """The engine in plain Python: every record is irregular."""

    def split(self, buffer: bytearray, size: int, *, final: bool) -> tuple[list[int], list[int]]:
        """Cut and hash; the last two records may go on in the next buffer."""
        pieces = list(split_records(bytes(memoryview(buffer)[:size])))
        position = len(pieces.pop(0)) if pieces and not pieces[0].startswith(b"- job_id:") else 0
        starts = [position]
        for piece in pieces:
            position += len(piece)
            starts.append(position)
        if not final:
            del pieces[-2:]
        return starts[: len(pieces) + 1], [hash(piece) for piece in pieces]

    def parse(
        self, buffer: bytearray, starts: list[int], ends: list[int], codes: Codes, into: JobColumns
    ) -> list[tuple[int, int]]:
        """Leave every record to core."""
        del buffer, starts, ends, codes, into
        return []


def best_engine() -> Engine:
    """Return the compiled engine where its library is there, else the pure one."""
    return Native.load(seed=_SEED) or Pure()


def pieces(
    read_into: Callable[[memoryview], int], engine: Engine, buffer: bytearray
) -> Iterator[tuple[list[int], list[int]]]:
    """Read a file through the buffer; yield where its records lie in the buffer now, and their hashes.

    What stands before the first start belongs to no record. If reading fails, what was read whole comes first.
    """
    view = memoryview(buffer)
    size = 0
    at_end = False
    problem: OSError | None = None
    fits = True
    while size or not at_end:
        while size < len(buffer) and not at_end:
            try:
                got = read_into(view[size:])
            except OSError as error:
                problem = error
                got = 0
            else:
                fits = got < len(buffer) - size  # Lustre hands out whole records, if there is room for them
            at_end = got == 0
            size += got
        starts, hashes = engine.split(buffer, size, final=at_end)
        if not hashes and not at_end:
            # not Lustre's: drop what stands before the first record, else take the record that fills the buffer
            starts, hashes = engine.split(buffer, size, final=True)
            if starts[0] or not hashes:
                starts, hashes = [starts[0] if hashes else buffer.rfind(b"\n", 0, size) + 1 or size], []
            else:
                starts, hashes = starts[:2], hashes[:1]
        if problem is not None and not fits and hashes and starts[-1] == size:
            starts.pop()
            hashes.pop()
            size = starts[-1]
        yield starts, hashes
        size -= starts[-1]
        buffer[:size] = buffer[starts[-1] : starts[-1] + size]
    if problem is not None:
        raise problem


@dataclass(slots=True)
class Trouble:
    """Lines that were not understood, or only in part: all counted, some kept."""

    count: int = 0
    examples: list[bytes] = field(default_factory=list)

    def add(self, *lines: bytes) -> None:
        """Count lines and keep the first few."""
        self.count += len(lines)
        self.examples.extend(lines[: _EXAMPLES - len(self.examples)])


class JobScanner:
    """Follows one job_stats file from read to read."""

    def __init__(self, engine: Engine, buffer: bytearray, codes: Codes) -> None:
        self._engine = engine
        self._buffer = buffer
        self._codes = codes
        self._known: dict[int, int] = {}
        self._slots: dict[SlotName, int] = {}
        self._next_slot = 0
        self._ranks: dict[tuple[bytes, int], int] = {}
        """Per name, the next rank to try in the read under way."""
        self.names: dict[int, SlotName] = {}
        """What each slot stands for; those that are gone are forgotten with the next read."""
        self.order: array[int] = array("q")
        """The slots of the last read, in file order."""
        self.gone: list[int] = []
        """The slots that the read before showed and the last one did not; they are not used again."""
        self.unread = Trouble()

    @property
    def slots_used(self) -> int:
        """How many slots were given out; none is given out twice."""
        return self._next_slot

    def read(self, read_into: Callable[[memoryview], int]) -> Iterator[JobColumns]:
        """Read the file to its end and yield the records that moved, a buffer's worth at a time.

        If reading fails midway the error passes through, and nothing is taken as gone.
        """
        self.unread = Trouble()
        for slot in self.gone:
            del self._slots[self.names.pop(slot)]
        self.gone = []
        self.order = array("q")
        known = self._known
        seen: dict[int, int] = {}
        used: set[int] = set()
        self._ranks = {}
        try:
            for starts, hashes in pieces(read_into, self._engine, self._buffer):
                self._junk(bytes(self._buffer[: starts[0]]))
                slots: list[int | None] = [known.pop(key, None) for key in hashes]
                if used:  # one before it that prints alike may have been given its slot: then it moved, too
                    slots = [None if slot in used else slot for slot in slots]
                moved = [number for number, slot in enumerate(slots) if slot is None]
                used.update(slot for slot in slots if slot is not None)
                if moved:
                    yield self._moved(starts, moved, slots, used)
                filled = [slot for slot in slots if slot is not None]
                seen.update(zip(hashes, filled, strict=True))
                self.order.extend(filled)
        except BaseException:
            self._known = known | seen
            raise
        self._known = seen
        self.gone = sorted(self.names.keys() - used)

    def _junk(self, text: bytes) -> None:
        if text:
            self.unread.add(*parse_job_stats(text).unread)

    def _moved(self, starts: list[int], moved: list[int], slots: list[int | None], used: set[int]) -> JobColumns:
        """Parse the moved records of the buffer and give each its slot."""
        columns = JobColumns()
        buffer = self._buffer
        begins = [starts[number] for number in moved]
        ends = [starts[number + 1] for number in moved]
        id_ends = dict(self._engine.parse(buffer, begins, ends, self._codes, columns))
        irregular = []
        for index, number in enumerate(moved):  # in file order, so that ranks among equal ids are
            start = begins[index]
            if index in id_ends:
                line_end = start + id_ends[index]
                job = bytes(buffer[start + ID_COLUMN : line_end])
                if job.startswith(b'"') and not columns.whole[len(columns.slot)]:
                    job = decoded(job, bare_colons=buffer[line_end + 1 : line_end + 2] == b" ")
                slots[number] = slot = self._slot(job, columns.start[len(columns.slot)], used)
                columns.slot.append(slot)
            else:
                record = parse_record(bytes(buffer[start : ends[index]]))
                slots[number] = slot = self._slot(record.job, nanoseconds(record.start_time), used)
                irregular.append((slot, record))
        for slot, record in irregular:
            columns.append(slot, record, self._codes)
            self.unread.add(*record.unread, *record.doubtful)
        return columns

    def _slot(self, job: bytes, start: int, used: set[int]) -> int:
        """Return the number of this record: the first of its name that this read has not met yet."""
        rank = self._ranks.get((job, start), 0)  # thousands may print alike: go on where the last one was found
        while (slot := self._slots.get((job, start, rank))) in used:
            rank += 1
        self._ranks[job, start] = rank + 1
        if slot is None:
            name = (job, start, rank)
            slot = self._next_slot
            self._next_slot += 1
            self._slots[name] = slot
            self.names[slot] = name
        used.add(slot)
        return slot
