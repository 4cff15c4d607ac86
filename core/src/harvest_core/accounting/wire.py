"""The wire's messages as facts with numpy columns; read by the aggregator."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harvest_core.accounting.mounts import Integers
from harvest_core.facts import MOVED_COLUMNS, Facts, Mount, Moved
from harvest_core.lustre.names import parse_version
from harvest_core.wire import KINDS

_KINDS = {number: kind for kind, number in KINDS.items()}
_TYPES = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}
_ROWS_OF = {"extreme_row", "hist_row"}


_SLOTS = 1 << 24
"""More records than any target has; a bound on what a message can make us hold."""


class WireError(Exception):
    """A message that no agent of ours would send: refuse it."""


def read(message: Any) -> Facts:  # noqa: ANN401 - core knows the message's shape, not its code
    """Turn a message (``harvest.v1.Batch``) into facts; one that contradicts itself is refused."""
    dictionary = message.dictionary
    slots, starts, ranks = (_unpack(part) for part in (dictionary.slot, dictionary.start, dictionary.rank))
    codes = _unpack(dictionary.code)
    if not len(dictionary.job) == len(slots) == len(starts) == len(ranks):
        raise WireError("the dictionary's columns differ in length")
    if not len(dictionary.counter) == len(dictionary.unit) == len(codes):
        raise WireError("the counters' columns differ in length")
    for name, numbers, bound in (("slot", slots, _SLOTS), ("rank", ranks, _SLOTS), ("code", codes, 1 << 16)):
        _check_bound(f"dictionary.{name}", numbers, bound)
    if message.target.kind not in _KINDS:
        raise WireError(f"no kind of target has the number {message.target.kind}")
    moved = Moved(**{name: _unpack(getattr(message.jobs, name)) for name in MOVED_COLUMNS})
    _check(moved)
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
        names=list(zip(slots.tolist(), dictionary.job, starts.tolist(), ranks.tolist(), strict=True)),
        counters=list(zip(codes.tolist(), dictionary.counter, dictionary.unit, strict=True)),
        order_is_full=message.order.full,
        order=_unpack(message.order.slot),
        gone=_unpack(message.gone),
        moved=moved,
        unread_lines=message.unread_lines,
    )


def _unpack(column: Any) -> Integers:  # noqa: ANN401
    if not column.data:
        return np.zeros(0, np.int64)
    kind = _TYPES.get(column.width)
    if kind is None or len(column.data) % column.width:
        raise WireError(f"a column of {len(column.data)} bytes has no numbers of {column.width}")
    return np.frombuffer(column.data, kind).astype(np.int64)


def _check(moved: Moved) -> None:
    records, rows = len(moved.slot), len(moved.code)
    if not (len(moved.snapshot) == len(moved.rows) == records and len(moved.continuous) in {0, records}):
        raise WireError("the records' columns differ in length")
    if not (len(moved.samples) == len(moved.sum) == rows == moved.rows.sum()) or (moved.rows < 0).any():
        raise WireError("the counters of the records do not add up")
    if not len(moved.extreme_row) == len(moved.minimum) == len(moved.maximum):
        raise WireError("the extremes' columns differ in length")
    if not len(moved.hist_row) == len(moved.hist_power) == len(moved.hist_count):
        raise WireError("the histograms' columns differ in length")
    for name, bound in (("partial", records), ("extreme_row", rows), ("hist_row", rows), ("hist_power", 32)):
        _check_bound(name, getattr(moved, name), bound)


def _check_bound(name: str, numbers: Integers, bound: int) -> None:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < bound:
        raise WireError(f"{name} points outside")


def joined(parts: Sequence[Facts]) -> Facts:
    """Put the parts of one target's read together again."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, list[Integers]] = {name: [] for name in MOVED_COLUMNS}
    records = rows = 0
    for part in parts:
        for name in MOVED_COLUMNS:
            shift = records if name == "partial" else rows if name in _ROWS_OF else 0
            columns[name].append(getattr(part.moved, name) + shift)
        records += len(part.moved.slot)
        rows += len(part.moved.code)
    return replace(
        parts[-1],
        moved=Moved(**{name: np.concatenate(numbers) for name, numbers in columns.items()}),
        names=[name for part in parts for name in part.names],
        counters=[counter for part in parts for counter in part.counters],
    )
