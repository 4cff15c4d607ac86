"""What one read of one target says, as the agent sends it: facts, not decisions.

The same values on both sides of the wire: plain arrays in the agent, numpy's in the aggregator.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harvest_core.lustre.columns import ABSENT, JobColumns, column

Numbers = Any
"""A column: array("q") in the agent, an int64 numpy array in the aggregator."""

_PAGE_BYTES: Final = 4096
OST: Final = "OST"
MDT: Final = "MDT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Which mount of a target: everything counted starts again with another one."""

    server: str
    boot_id: str
    instance: int | None
    """Lustre's count of mounts; unknown before 2.5.3."""


@dataclass(slots=True)
class Moved:
    """Records that moved, as columns; counters without samples are left out."""

    slot: Numbers = field(default_factory=column)
    snapshot: Numbers = field(default_factory=column)
    """Nanoseconds of the server's clock when the last operation was counted."""
    partial: Numbers = field(default_factory=column)
    """Positions of records of which lines were not understood."""
    continuous: Numbers = field(default_factory=column)
    """In merged sweeps, per record: the seq from which on it is certain that this is one life; empty or 0: not said."""
    rows: Numbers = field(default_factory=column)
    code: Numbers = field(default_factory=column)
    samples: Numbers = field(default_factory=column)
    sum: Numbers = field(default_factory=column)
    extreme_row: Numbers = field(default_factory=column)
    minimum: Numbers = field(default_factory=column)
    maximum: Numbers = field(default_factory=column)
    hist_row: Numbers = field(default_factory=column)
    hist_power: Numbers = field(default_factory=column)
    hist_count: Numbers = field(default_factory=column)


MOVED_COLUMNS: Final = tuple(Moved.__dataclass_fields__)


@dataclass(slots=True)
class ClientMarks:
    """What is known of clients beside their counters, as columns.

    Whether one is live or a server is told only where that is new or changed.
    """

    slot: Numbers = field(default_factory=column)
    live: Numbers = field(default_factory=column)
    """1 while a client is connected there."""
    server: Numbers = field(default_factory=column)
    """1 where it is another server's connection."""
    early_slot: Numbers = field(default_factory=column)
    """In a pass that took longer than its period: those whose files were read in an earlier one than the last."""
    early_seconds: Numbers = field(default_factory=column)
    """How long before this tick their own was, in whole periods; rates are made of these."""


MARK_COLUMNS: Final = tuple(ClientMarks.__dataclass_fields__)

Name = tuple[int, bytes, int, int]
"""(slot, job id or NID, start in nanoseconds or 0, rank among records that print alike)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCost:
    """What a read cost the server."""

    user_microseconds: int = 0
    kernel_microseconds: int = 0
    bytes: int = 0
    records: int = 0


@dataclass(slots=True, kw_only=True)
class Facts:
    """One read of one target's job records, or of its clients' counters, in one sweep; or a part of it.

    Clients' counters stay until somebody clears them, in files of their own: nothing evicts them (a cleanup interval
    of 0), nothing can be skipped (``in_one_piece``), and their order says nothing (no ``lustre_version``).
    """

    incarnation: bytes
    seq: int
    tick_seconds: int
    period_seconds: int
    """The time between two sweeps, now."""
    kind: str
    target: str
    mount: Mount
    complete: bool
    """The file was read to its end, within one mount."""
    read_at: int
    """The server's wall clock when the read ended, in nanoseconds."""
    uptime: int
    """Likewise, since its boot: tells when the wall clock was set."""
    lustre_version: tuple[int, ...]
    """Empty where it could not be read."""
    cleanup_interval_seconds: int | None
    in_one_piece: bool = False
    """The first read() gave all there was, so that nothing can have been skipped before a second."""
    directory_gone: bool = False
    """Since the read before, the target was seen unmounted."""
    part: int = 0
    is_last_part: bool = True
    """Order, gone, and how the read went are told by this one."""
    names: Sequence[Name] = ()
    """Of slots that are new."""
    again: Sequence[Name] = ()
    """Of slots that were named before, in another segment of the spool."""
    counters: Sequence[tuple[int, str, str]] = ()
    """(code, name, unit) likewise."""
    order_is_full: bool = False
    order: Numbers = field(default_factory=column)
    """Slots in file order: all, or the tail that differs from the order before."""
    gone: Numbers = field(default_factory=column)
    moved: Moved = field(default_factory=Moved)
    clients: ClientMarks | None = None
    """None: these are job records."""
    unread_lines: int = 0
    cost: ReadCost = ReadCost()


def moved_records(columns: JobColumns, extremes: dict[int, int]) -> Moved:
    """Turn what was read into what is sent.

    Zero counters are dropped. Minimum and maximum are sent where they changed; ``extremes`` remembers a hash of
    those last sent, by slot.
    """
    moved = Moved(slot=columns.slot, snapshot=columns.snapshot, partial=columns.partial)
    if not columns.minimum and 0 not in columns.samples:  # of clients, almost always
        moved.rows, moved.code, moved.samples, moved.sum = columns.rows, columns.code, columns.samples, columns.sum
        return moved
    keep = [samples != 0 for samples in columns.samples]
    places = column()  # of kept rows among those sent
    sent = 0
    for kept in keep:
        places.append(sent)
        sent += kept
    for name in ("code", "samples", "sum"):
        values = getattr(columns, name)
        setattr(
            moved,
            name,
            values if sent == len(keep) else array("q", [v for v, k in zip(values, keep, strict=True) if k]),
        )
    row = 0
    for slot, rows in zip(columns.slot, columns.rows, strict=True):
        end = row + rows
        moved.rows.append(sum(keep[row:end]))
        low, high = columns.minimum[row:end], columns.maximum[row:end]
        key = hash((low.tobytes(), high.tobytes(), columns.code[row:end].tobytes()))
        if low and extremes.get(slot) != key:
            extremes[slot] = key
            for at in range(row, end):
                if keep[at] and columns.minimum[at] != ABSENT:
                    moved.extreme_row.append(places[at])
                    moved.minimum.append(columns.minimum[at])
                    moved.maximum.append(columns.maximum[at])
        row = end
    moved.hist_row = array("q", [places[at] for at in columns.hist_row])
    moved.hist_power = columns.hist_power
    moved.hist_count = columns.hist_count
    return moved


def order_change(before: "array[int]", after: "array[int]") -> "array[int]":
    """Return the tail of the new file order that the old order and what is gone do not give by themselves.

    What is new or was re-created stands there, and whatever stands behind it.
    """
    if after[: len(before)] == before:
        return after[len(before) :]
    position = {slot: place for place, slot in enumerate(before)}
    last = -1
    for place, slot in enumerate(after):
        was = position.get(slot, -1)
        if was <= last:
            return after[place:]
        last = was
    return column()


def in_one_piece(piece_bytes: Sequence[int], largest_record_bytes: int) -> bool:
    """Tell whether the kernel put all records there are into the first piece, of which it fills a page.

    Then nothing can have been skipped. It stops when the next record does not fit: there must have been room for one
    twice as large as any that was shown.
    """
    filled = [size for size in piece_bytes if size]
    if not largest_record_bytes:
        return len(filled) <= 1
    return len(filled) == 1 and filled[0] + 2 * largest_record_bytes < _PAGE_BYTES


def packed(numbers: "array[int]") -> tuple[bytes, int]:
    """Return a column as little-endian bytes of the least width that holds every number, and that width."""
    if not len(numbers):
        return b"", 1
    low, high = min(numbers), max(numbers)
    for code, width in (("b", 1), ("h", 2), ("i", 4)):
        if -(1 << (8 * width - 1)) <= low and high < 1 << (8 * width - 1):
            return array(code, numbers).tobytes(), width
    return numbers.tobytes(), 8
