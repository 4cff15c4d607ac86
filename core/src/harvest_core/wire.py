"""Facts as the wire's messages; made by the agent, without numpy.

The message's type is the caller's (``harvest.v1.Batch``): core knows its shape, not its code.
"""

from array import array
from typing import Any, Final

from harvest_core.facts import MDT, MOVED_COLUMNS, OST, Facts, packed

KINDS: Final = {OST: 1, MDT: 2}


def write(message: Any, facts: Facts, *, last_of_target: bool, last_of_sweep: bool) -> None:  # noqa: ANN401
    """Put a part into an empty message."""
    message.incarnation = facts.incarnation
    message.seq = facts.seq
    message.tick_seconds = facts.tick_seconds
    message.period_seconds = facts.period_seconds
    message.last_of_sweep = last_of_sweep
    message.last_of_target = last_of_target
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
    dictionary.job.extend(job for _, job, _, _ in facts.names)
    _pack(dictionary.slot, array("q", [slot for slot, _, _, _ in facts.names]))
    _pack(dictionary.start, array("q", [start for _, _, start, _ in facts.names]))
    _pack(dictionary.rank, array("q", [rank for _, _, _, rank in facts.names]))
    _pack(dictionary.code, array("q", [code for code, _, _ in facts.counters]))
    dictionary.counter.extend(name for _, name, _ in facts.counters)
    dictionary.unit.extend(unit for _, _, unit in facts.counters)
    if last_of_target:
        message.order.full = facts.order_is_full
        _pack(message.order.slot, facts.order)
        _pack(message.gone, facts.gone)
    for name in MOVED_COLUMNS:
        _pack(getattr(message.jobs, name), getattr(facts.moved, name))


def _pack(into: Any, numbers: "array[int]") -> None:  # noqa: ANN401
    if len(numbers):
        into.data, into.width = packed(numbers)
