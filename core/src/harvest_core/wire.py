"""Facts as the wire's messages and back; the agent does both, without numpy.

The message's type is the caller's (``harvest.v1.Batch``): core knows its shape, not its code.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, Final

from harvest_core.facts import (
    MARK_COLUMNS,
    MDT,
    MOVED_COLUMNS,
    OST,
    ClientMarks,
    Facts,
    Mount,
    Moved,
    Numbers,
    ReadCost,
    packed,
)
from harvest_core.lustre.columns import JobColumns, column
from harvest_core.lustre.names import parse_version

KINDS: Final = {OST: 1, MDT: 2}
_KINDS: Final = {number: kind for kind, number in KINDS.items()}
_TYPES: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
_COSTS: Final = tuple(ReadCost.__dataclass_fields__)
_PLACES_OF_ROWS: Final = ("extreme_row", "hist_row")

PART_BYTES: Final = (4 << 20) - (16 << 10)
"""Of one part: as a message it stays below the 4 MiB that an aggregator takes, with all that is said of the read."""
_NUMBER_BYTES: Final = 8
"""A column's widest."""
_NUMBERS_OF_RECORD: Final = 5
"""Slot, snapshot, continuous, rows, partial; of a counter, of its extremes and of a bucket there are 3 each."""
_NAME_BYTES: Final = 3 * _NUMBER_BYTES + 8
"""Slot, start and rank, and the lengths of texts."""


class WireError(Exception):
    """A message that no agent of ours would send: refuse it."""


def write(message: Any, facts: Facts) -> None:  # noqa: ANN401
    """Put a part into an empty message."""
    message.incarnation = facts.incarnation
    message.seq = facts.seq
    message.tick_seconds = facts.tick_seconds
    message.period_seconds = facts.period_seconds
    message.part = facts.part
    message.last_of_target = facts.is_last_part
    message.target.kind = KINDS[facts.kind]
    message.target.name = facts.target
    message.mount.server = facts.mount.server
    message.mount.boot_id = facts.mount.boot_id
    if facts.mount.instance is not None:
        message.mount.instance = facts.mount.instance
    message.complete = facts.complete
    message.read_at_nanoseconds = facts.read_at
    message.uptime_nanoseconds = facts.uptime
    message.lustre_version = ".".join(map(str, facts.lustre_version))
    if facts.cleanup_interval_seconds is not None:
        message.cleanup_interval_seconds = facts.cleanup_interval_seconds
    message.directory_gone = facts.directory_gone
    message.in_one_piece = facts.in_one_piece
    message.unread_lines = facts.unread_lines
    dictionary = message.dictionary
    names = [*facts.again, *facts.names]
    dictionary.again = len(facts.again)
    dictionary.job.extend(job for _, job, _, _ in names)
    _pack(dictionary.slot, array("q", [slot for slot, _, _, _ in names]))
    _pack(dictionary.start, array("q", [start for _, _, start, _ in names]))
    _pack(dictionary.rank, array("q", [rank for _, _, _, rank in names]))
    _pack(dictionary.code, array("q", [code for code, _, _ in facts.counters]))
    dictionary.counter.extend(name for _, name, _ in facts.counters)
    dictionary.unit.extend(unit for _, _, unit in facts.counters)
    if facts.is_last_part:
        for name in _COSTS:
            setattr(message.cost, name, getattr(facts.cost, name))
        message.order.full = facts.order_is_full
        _pack(message.order.slot, facts.order)
        _pack(message.gone, facts.gone)
    if facts.clients is not None:
        message.exports.SetInParent()
        for name in MARK_COLUMNS:
            _pack(getattr(message.exports, name), getattr(facts.clients, name))
    for name in MOVED_COLUMNS:
        _pack(getattr(message.jobs, name), getattr(facts.moved, name))


def _pack(into: Any, numbers: "array[int]") -> None:  # noqa: ANN401
    if len(numbers):
        into.data, into.width = packed(numbers)


def read(message: Any, unpack: Callable[[Any], Numbers]) -> Facts:  # noqa: ANN401
    """Turn a message into facts, each column by ``unpack``; one whose dictionary contradicts itself is refused."""
    dictionary = message.dictionary
    slots, starts, ranks = (unpack(part).tolist() for part in (dictionary.slot, dictionary.start, dictionary.rank))
    codes = unpack(dictionary.code).tolist()
    if not len(dictionary.job) == len(slots) == len(starts) == len(ranks) >= dictionary.again:
        raise WireError("the dictionary's columns differ in length")
    if not len(dictionary.counter) == len(dictionary.unit) == len(codes):
        raise WireError("the counters' columns differ in length")
    if message.target.kind not in _KINDS:
        raise WireError(f"no kind of target has the number {message.target.kind}")
    names = list(zip(slots, dictionary.job, starts, ranks, strict=True))
    return Facts(
        incarnation=message.incarnation,
        seq=message.seq,
        tick_seconds=message.tick_seconds,
        period_seconds=message.period_seconds,
        kind=_KINDS[message.target.kind],
        target=message.target.name,
        mount=Mount(
            server=message.mount.server,
            boot_id=message.mount.boot_id,
            instance=message.mount.instance if message.mount.HasField("instance") else None,
        ),
        complete=message.complete,
        read_at=message.read_at_nanoseconds,
        uptime=message.uptime_nanoseconds,
        lustre_version=parse_version(message.lustre_version) or (),
        cleanup_interval_seconds=(
            message.cleanup_interval_seconds if message.HasField("cleanup_interval_seconds") else None
        ),
        directory_gone=message.directory_gone,
        in_one_piece=message.in_one_piece,
        part=message.part,
        is_last_part=message.last_of_target,
        names=names[dictionary.again :],
        again=names[: dictionary.again],
        counters=list(zip(codes, dictionary.counter, dictionary.unit, strict=True)),
        order_is_full=message.order.full,
        order=unpack(message.order.slot),
        gone=unpack(message.gone),
        moved=Moved(**{name: unpack(getattr(message.jobs, name)) for name in MOVED_COLUMNS}),
        clients=(
            ClientMarks(**{name: unpack(getattr(message.exports, name)) for name in MARK_COLUMNS})
            if message.HasField("exports")
            else None
        ),
        unread_lines=message.unread_lines,
        cost=ReadCost(**{name: getattr(message.cost, name) for name in _COSTS}),
    )


def plain(column: Any) -> "array[int]":  # noqa: ANN401
    """Unpack a column without numpy."""
    return array("q", array(_TYPES[column.width], column.data)) if column.data else array("q")


def joined(parts: Sequence[Facts], concatenated: Callable[[list[Numbers], list[int]], Numbers]) -> Facts:
    """Put the parts of one target's read together again; ``concatenated`` also adds a number to each column."""
    for number, part in enumerate(parts):
        if part.part != number or part.is_last_part != (number == len(parts) - 1):
            raise WireError("the parts of a read are not those from the first to the last")
        if _read_of(part) != _read_of(parts[0]):
            raise WireError("parts of different reads are mixed")
    if len(parts) == 1:
        return parts[0]
    records, rows = [0], [0]
    for part in parts:
        records.append(records[-1] + len(part.moved.slot))
        rows.append(rows[-1] + len(part.moved.code))
    nowhere = [0] * len(parts)
    moved = Moved()
    for name in MOVED_COLUMNS:
        shifts = records if name == "partial" else rows if name in _PLACES_OF_ROWS else nowhere
        setattr(moved, name, concatenated([getattr(part.moved, name) for part in parts], shifts))
    return replace(
        parts[-1],
        part=0,
        moved=moved,
        names=[name for part in parts for name in part.names],
        again=[name for part in parts for name in part.again],
        counters=[counter for part in parts for counter in part.counters],
    )


def _read_of(part: Facts) -> tuple[object, ...]:
    return part.incarnation, part.seq, part.target, part.mount, part.clients is None


def concatenated(columns: list["array[int]"], shifts: list[int]) -> "array[int]":
    """Put columns together without numpy."""
    return array("q", [number + shift for numbers, shift in zip(columns, shifts, strict=False) for number in numbers])


def in_parts(facts: Facts, size: int) -> list[Facts]:
    """Cut a read, or a part of it, into parts of at most so many records and names each, and of ``PART_BYTES``."""
    names = [*facts.again, *facts.names]
    moved = facts.moved
    count = max(len(moved.slot), len(names))
    marks = facts.clients or ClientMarks()
    marked = sum(len(getattr(marks, name)) for name in MARK_COLUMNS)
    tail = _NUMBER_BYTES * (len(facts.order) + len(facts.gone) + marked)
    head = sum(_NAME_BYTES + len(name.encode()) + len(unit.encode()) for _, name, unit in facts.counters)
    named = [_NAME_BYTES + len(job) for _, job, _, _ in names]
    if count <= size and head + sum(named) + moved_bytes(moved) + tail <= PART_BYTES:
        return [facts]
    ends = array("q", [0, *accumulate(moved.rows)])
    extremes, buckets = (
        array("q", [bisect_left(places, end) for end in ends]) for places in (moved.extreme_row, moved.hist_row)
    )
    cuts, weight = [0], head
    for at in range(count):
        mine = named[at] if at < len(named) else 0
        if at < len(moved.slot):
            numbers = sum(starts[at + 1] - starts[at] for starts in (ends, extremes, buckets))
            mine += _NUMBER_BYTES * (_NUMBERS_OF_RECORD + 3 * numbers)
        if at - cuts[-1] == size or (weight + mine > PART_BYTES and at > cuts[-1]):
            cuts.append(at)
            weight = 0
        weight += mine
    cuts += [count, count] if weight + tail > PART_BYTES and weight else [count]
    again = len(facts.again)
    parts = []
    for number, (first, end) in enumerate(pairwise(cuts)):
        is_end = number == len(cuts) - 2
        parts.append(
            replace(
                facts,
                part=facts.part + number,
                is_last_part=facts.is_last_part and is_end,
                again=facts.again[first:end],
                names=facts.names[max(first - again, 0) : max(end - again, 0)],
                counters=() if number else facts.counters,
                order_is_full=facts.order_is_full and is_end,
                order=facts.order if is_end else column(),
                gone=facts.gone if is_end else column(),
                clients=facts.clients if is_end or facts.clients is None else ClientMarks(),
                moved=_cut(moved, range(len(moved.slot))[first:end], ends),
            )
        )
    return parts


def moved_bytes(moved: Moved | JobColumns) -> int:
    """Return how much records weigh as a message, at most."""
    extremes = moved.extreme_row if isinstance(moved, Moved) else moved.code
    numbers = len(moved.code) + len(extremes) + len(moved.hist_row)
    return _NUMBER_BYTES * (_NUMBERS_OF_RECORD * len(moved.slot) + 3 * numbers)


_OF_RECORDS: Final = ("slot", "snapshot", "continuous", "rows")
_OF_ROWS: Final = ("code", "samples", "sum")


def _cut(moved: Moved, records: range, ends: "array[int]") -> Moved:
    """Return some of the records; what points at records or rows is moved to where they are now."""
    cut = Moved()
    rows = range(ends[records.start], ends[records.stop])
    for names, span in ((_OF_RECORDS, records), (_OF_ROWS, rows)):
        for name in names:
            setattr(cut, name, getattr(moved, name)[span.start : span.stop])
    cut.partial = array("q", [place - records.start for place in moved.partial if place in records])
    for places, *values in (("extreme_row", "minimum", "maximum"), ("hist_row", "hist_power", "hist_count")):
        all_places = getattr(moved, places)
        kept = slice(bisect_left(all_places, rows.start), bisect_left(all_places, rows.stop))
        setattr(cut, places, array("q", [place - rows.start for place in all_places[kept]]))
        for name in values:
            setattr(cut, name, getattr(moved, name)[kept])
    return cut
