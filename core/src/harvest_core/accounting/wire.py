"""The wire's messages as facts with numpy columns; read by the aggregator, which believes nothing unseen."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from harvest_core import wire
from harvest_core.accounting.mounts import Integers
from harvest_core.facts import ClientMarks, Facts, Moved
from harvest_core.wire import WireError

__all__ = ["WireError", "joined", "read"]

_TYPES: Final = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}
_NOTHING: Final = np.zeros(0, np.int64)
_SLOTS: Final = 1 << 24
"""More records than any target has; a bound on what a message can make us hold."""
_CODES: Final = 1 << 16
_INCARNATION_BYTES: Final = 16
_NAME_BYTES: Final = 1024
"""Far longer than any name that Lustre prints."""
_SECONDS: Final = 1 << 40
_NANOSECONDS: Final = 1 << 62


def read(message: Any) -> Facts:  # noqa: ANN401 - core knows the message's shape, not its code
    """Turn a message (``harvest.v1.Batch``) into facts; one that contradicts itself is refused."""
    facts = wire.read(message, _unpack)
    _check_read(facts)
    _check_names(facts)
    _check_moved(facts.moved)
    marked = ClientMarks() if facts.clients is None else facts.clients
    if not len(marked.slot) == len(marked.live) == len(marked.server):
        raise WireError("the clients' columns differ in length")
    if len(marked.early_slot) != len(marked.early_seconds):
        raise WireError("the early clients' columns differ in length")
    _check_bound("early_seconds", marked.early_seconds, facts.tick_seconds + 1)
    for name, slots in (
        *(("order", facts.order), ("gone", facts.gone)),
        *(("slot", facts.moved.slot), ("client", marked.slot), ("early client", marked.early_slot)),
    ):
        _check_bound(name, slots, _SLOTS)
        _check_distinct(name, slots)
    return facts


def joined(parts: Sequence[Facts]) -> Facts:
    """Put the parts of one target's read together again."""
    facts = wire.joined(parts, lambda columns, shifts: np.concatenate(list(map(np.add, columns, shifts))))
    if len(parts) > 1:
        _check_distinct("slot", facts.moved.slot)
    return facts


def _unpack(column: Any) -> Integers:  # noqa: ANN401
    data, width = column.data, column.width  # the message makes a copy each time that it is asked
    if not data:
        return _NOTHING
    kind = _TYPES.get(width)
    if kind is None or len(data) % width:
        raise WireError(f"a column of {len(data)} bytes has no numbers of {width}")
    return np.frombuffer(data, kind).astype(np.int64, copy=False)


def _check_read(facts: Facts) -> None:
    if len(facts.incarnation) != _INCARNATION_BYTES:
        raise WireError(f"an incarnation has {_INCARNATION_BYTES} bytes, not {len(facts.incarnation)}")
    for name, number, low, high in (
        ("seq", facts.seq, 1, _NANOSECONDS),
        ("tick", facts.tick_seconds, 0, _SECONDS),
        ("period", facts.period_seconds, 1, _SECONDS),
        ("read_at", facts.read_at, 0, _NANOSECONDS),
        ("uptime", facts.uptime, 0, _NANOSECONDS),
    ):
        if not low <= number < high:
            raise WireError(f"a {name} of {number} makes no sense")
    if facts.mount.instance is not None and facts.mount.instance >= _NANOSECONDS:
        raise WireError(f"an instance of {facts.mount.instance} makes no sense")
    for name in (facts.target, facts.mount.server, facts.mount.boot_id):
        if not 0 < len(name) <= _NAME_BYTES:
            raise WireError("a target, server or boot id has no name, or one too long")


def _check_names(facts: Facts) -> None:
    names = [*facts.names, *facts.again]
    for slot, job, start, rank in names:
        if not (0 <= slot < _SLOTS and 0 <= start < _NANOSECONDS and 0 <= rank < _SLOTS and len(job) <= _NAME_BYTES):
            raise WireError("a name in the dictionary makes no sense")
    if any(not 0 <= code < _CODES or len(name) + len(unit) > _NAME_BYTES for code, name, unit in facts.counters):
        raise WireError("a counter in the dictionary makes no sense")


def _check_moved(moved: Moved) -> None:
    records, rows = len(moved.slot), len(moved.code)
    if not (len(moved.snapshot) == len(moved.rows) == records and len(moved.continuous) in {0, records}):
        raise WireError("the records' columns differ in length")
    if not (len(moved.samples) == len(moved.sum) == rows == moved.rows.sum()) or (moved.rows < 0).any():
        raise WireError("the counters of the records do not add up")
    _check_counters_once(moved)
    if not len(moved.extreme_row) == len(moved.minimum) == len(moved.maximum):
        raise WireError("the extremes' columns differ in length")
    if not len(moved.hist_row) == len(moved.hist_power) == len(moved.hist_count):
        raise WireError("the histograms' columns differ in length")
    for name, bound in (("partial", records), ("extreme_row", rows), ("hist_row", rows), ("hist_power", 32)):
        _check_bound(name, getattr(moved, name), bound)


def _check_counters_once(moved: Moved) -> None:
    """Refuse a counter twice in one record; mostly they come in the order of their codes."""
    rises = moved.code[1:] > moved.code[:-1]
    ends = np.cumsum(moved.rows)
    rises[ends[(ends > 0) & (ends < len(moved.code))] - 1] = True  # from one record to the next they may fall
    if not rises.all():
        of_record = np.repeat(np.arange(len(moved.rows)), moved.rows) * _CODES + moved.code
        if len(np.unique(of_record)) != len(of_record):
            raise WireError("a record has a counter twice")


def _check_bound(name: str, numbers: Integers, bound: int) -> None:
    if len(numbers) and numbers.view(np.uint64).max() >= bound:  # one that is negative is larger than any bound
        raise WireError(f"{name} points outside")


def _check_distinct(name: str, slots: Integers) -> None:
    if not len(slots):
        return
    there = np.zeros(int(slots.max()) + 1, np.bool_)
    there[slots] = True
    if np.count_nonzero(there) != len(slots):
        raise WireError(f"{name} names a record twice")
