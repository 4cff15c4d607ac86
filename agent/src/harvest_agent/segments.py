"""The spool's files. A segment holds whole sweeps of one incarnation, each record with its length and checksum.

    segment   magic, incarnation (16 bytes), length of the boot id, boot id, checksum of all that
    record    length of the payload, checksum of all that follows, seq, flags, length of the name, name, payload

The last record of a sweep is flagged. What does not end in one was being written when the agent or the server died.
"""

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Self
from zlib import crc32

_MAGIC: Final = b"HVSPOOL1"
_START: Final = struct.Struct("<8s16sH")
_HEAD: Final = struct.Struct("<IIQBH")
_SUM: Final = struct.Struct("<I")
_SUMMED_FROM: Final = 8
_LAST: Final = 1
_RECORD_MOST: Final = 64 << 20
"""Longer than any record; a length that is damaged must not make us read for ever."""

Write = Callable[[int, bytes], int]
Sync = Callable[[int], None]


class DamagedError(Exception):
    """What is in a file is not what was written."""


class UnreadableError(OSError):
    """A file cannot be read now. Nothing says that what is in it is damaged: the next try may succeed."""


@dataclass(frozen=True, slots=True)
class Record:
    """A message for the aggregator, and the target that it is about: none for the end of a sweep."""

    target: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Span:
    """Where a sweep lies in a segment."""

    seq: int
    start: int
    end: int


@dataclass(slots=True, kw_only=True)
class Segment:
    """One file of the spool, and what is known of it without reading it."""

    path: str
    number: int
    incarnation: bytes
    boot_id: str
    changed_seconds: float
    size: int
    spans: list[Span] = field(default_factory=list)

    @property
    def first_seq(self) -> int:
        """The first sweep's."""
        return self.spans[0].seq if self.spans else 0

    @property
    def last_seq(self) -> int:
        """The last sweep's."""
        return self.spans[-1].seq if self.spans else 0

    @classmethod
    def scan(cls, path: str, number: int) -> Self:
        """Read a whole file and find its whole sweeps; whatever comes after the first damage is not among them."""
        with open(path, "rb") as file:
            incarnation, boot_id = _read_start(file.read(_START.size), file.read)
            status = os.fstat(file.fileno())
            segment = cls(
                path=path,
                number=number,
                incarnation=incarnation,
                boot_id=boot_id,
                changed_seconds=status.st_mtime,
                size=file.tell(),
            )
            begin = segment.size
            try:
                while head := file.read(_HEAD.size):
                    seq, is_last, _ = _read_record(head, file.read)
                    if is_last:
                        segment.spans.append(Span(seq, begin, file.tell()))
                        segment.size = begin = file.tell()
            except DamagedError:
                pass  # what is behind it was never shown to anybody, or is counted as lost by whoever misses it
        return segment

    def sweeps(self) -> list[tuple[int, list[Record]]]:
        """Return all of it: every seq with its records."""
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - what follows says by itself what it cannot read
        except OSError as error:
            raise UnreadableError(f"{self.path}: {error.strerror}") from error
        with file:
            return [(span.seq, list(self.records(span, file))) for span in self.spans]

    def records(self, span: Span, file: BinaryIO) -> Iterator[Record]:
        """Yield the records of one sweep from the open file."""
        try:
            file.seek(span.start)
            while file.tell() < span.end:
                seq, is_last, record = _read_record(file.read(_HEAD.size), file.read)
                if seq != span.seq or is_last != (file.tell() == span.end):
                    raise DamagedError("a record of another sweep")
                yield record
        except OSError as error:
            raise UnreadableError(f"{self.path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class SpooledSweep:
    """A sweep to be sent; its file is open until it was read whole, or closed."""

    segment: Segment
    span: Span
    file: BinaryIO

    @property
    def incarnation(self) -> bytes:
        """The one that it is of."""
        return self.segment.incarnation

    @property
    def seq(self) -> int:
        """Its place in the incarnation."""
        return self.span.seq

    @property
    def size(self) -> int:
        """How many bytes it takes up."""
        return self.span.end - self.span.start

    def records(self) -> Iterator[Record]:
        """Yield its records, once."""
        with self.file:
            yield from self.segment.records(self.span, self.file)

    def close(self) -> None:
        """Leave the rest of it unread."""
        self.file.close()


def start_of_segment(incarnation: bytes, boot_id: str) -> bytes:
    """Return what stands first in a file."""
    boot = boot_id.encode()
    start = _START.pack(_MAGIC, incarnation, len(boot)) + boot
    return start + _SUM.pack(crc32(start))


def packed_record(record: Record, seq: int, *, is_last: bool) -> bytes:
    """Return a record as it is written."""
    name = record.target.encode()
    head = _HEAD.pack(len(record.payload), 0, seq, _LAST if is_last else 0, len(name))
    checksum = crc32(record.payload, crc32(name, crc32(head[_SUMMED_FROM:])))
    return head[:4] + _SUM.pack(checksum) + head[_SUMMED_FROM:] + name + record.payload


def write_all(write: Write, handle: int, data: bytes) -> None:
    """Write all of it; the kernel may take less at a time."""
    view = memoryview(data)
    while view:
        view = view[write(handle, view) :]  # type: ignore[arg-type]  # os.write takes any buffer


def _read_start(start: bytes, read: Callable[[int], bytes]) -> tuple[bytes, str]:
    if len(start) < _START.size:
        raise DamagedError("too short")
    magic, incarnation, length = _START.unpack(start)
    boot = read(length)
    if magic != _MAGIC or read(_SUM.size) != _SUM.pack(crc32(start + boot)):
        raise DamagedError("not a segment of a spool, or of a newer agent")
    return incarnation, boot.decode()


def _read_record(head: bytes, read: Callable[[int], bytes]) -> tuple[int, bool, Record]:
    if len(head) < _HEAD.size:
        raise DamagedError("a record's head is torn")
    size, checksum, seq, flags, name_size = _HEAD.unpack(head)
    if size > _RECORD_MOST:
        raise DamagedError("a record's length makes no sense")
    name, payload = read(name_size), read(size)
    if crc32(payload, crc32(name, crc32(head[_SUMMED_FROM:]))) != checksum or len(payload) != size:
        raise DamagedError("a record is damaged")
    return seq, bool(flags & _LAST), Record(name.decode(), payload)
