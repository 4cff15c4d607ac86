"""What the ``stats`` file of one client says that its accounting is made of."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from harvest_core.lustre.columns import ABSENT, Codes, JobColumns, nanoseconds
from harvest_core.lustre.counters import counted, counter_name, normal_unit
from harvest_core.lustre.stats import parse_stats

_TIMES = re.compile(rb"\A(?:(?:snapshot|elapsed)_time[^\n]*\n|(start_time[^\n]*\n))*")
_PING = re.compile(rb"^ping [^\n]*\n", re.MULTILINE)

_TIME = rb" +[0-9]{1,20}\.[0-9]{1,9} \(?secs\.nsecs\)?\n"
_USUAL_TIMES = re.compile(
    rb"\Asnapshot_time%b(?:start_time +([0-9]{1,20}\.[0-9]{1,9}) \(?secs\.nsecs\)?\nelapsed_time%b)?" % (_TIME, _TIME)
)
_USUAL = re.compile(
    rb"^([\x21-\x7e]{1,63}) +([0-9]{1,18}) samples \[([\x21-\x5c\x5e-\x7e]{1,63})\] ?"
    rb"(?: +-?[0-9]{1,19} +-?[0-9]{1,19} +([0-9]{1,18})(?: +-?[0-9]{1,40})?)? *$",
    re.MULTILINE,
)


class ClientCounters(NamedTuple):
    """A client's counters side by side; of each only what is summed."""

    start: int
    """When the first was counted, in nanoseconds of the server's clock; 0 = not said."""
    keys: tuple[tuple[str, str], ...]
    """Name and unit."""
    samples: Sequence[int]
    sums: Sequence[int]
    trouble: tuple[bytes, ...] = ()
    """Lines that were not understood, or only in part."""
    is_partial: bool = False
    """Whether lines were not understood at all."""

    def append_to(self, columns: JobColumns, slot: int, codes: Codes) -> None:
        """Add them to columns as those of one record."""
        if self.is_partial:
            columns.partial.append(len(columns.slot))
        columns.slot.append(slot)
        columns.snapshot.append(0)
        columns.whole.append(1)
        columns.start.append(self.start)
        columns.rows.append(len(self.keys))
        columns.code.extend(codes.of_all(self.keys))
        columns.samples.extend(self.samples)
        columns.sum.extend(self.sums)


def moving_part(text: bytes) -> bytes:
    """Return what changes only if something was counted or cleared: not the time of the read, and no pings."""
    head = _TIMES.match(text)
    start, rest = (head[1] or b"", text[head.end() :]) if head else (b"", text)
    return start + (_PING.sub(b"", rest) if b"ping" in rest else rest)


def client_counters(text: bytes) -> ClientCounters:
    """Return a client's counters.

    Pings are left out: they are counted for whoever is just there. Of a counter that stands there twice (``statfs`` on
    old OSTs) the two add up, as both only ever grow.
    """
    return _usual(text) or _careful(text)


def _usual(text: bytes) -> ClientCounters | None:
    """Read what almost every file is like, in a third of the time; nothing where anything is unusual."""
    head = _USUAL_TIMES.match(text)
    if head is None or not text.endswith(b"\n"):
        return None
    found = _USUAL.findall(text, head.end())
    if len(found) != text.count(b"\n", head.end()):
        return None
    if b"\nping " in text:
        found = [line for line in found if line[0] != b"ping"]
    names, samples, units, sums = zip(*found, strict=True) if found else ((), (), (), ())
    keys = _keys(names, units)
    if keys is None:
        return None
    return ClientCounters(
        start=nanoseconds(head[1].decode() if head[1] else None),
        keys=keys,
        samples=list(map(int, samples)),
        sums=[int(total) if total else ABSENT for total in sums],
    )


@lru_cache(maxsize=1024)
def _keys(names: tuple[bytes, ...], units: tuple[bytes, ...]) -> tuple[tuple[str, str], ...] | None:
    """Return what is counted, if each stands there once; most clients are alike, so it is remembered."""
    keys = tuple((counter_name(name), normal_unit(unit)) for name, unit in zip(names, units, strict=True))
    return keys if len(set(keys)) == len(keys) else None


def _careful(text: bytes) -> ClientCounters:
    stats = parse_stats(text)
    counters: dict[tuple[str, str], tuple[int | None, int | None]] = {}
    for counter in stats.counters:
        if counter.name == "ping":
            continue
        key = (counter.name, counter.unit)
        samples, total = counted(counter.samples), counted(counter.sum)
        if key in counters:
            samples, total = _both(counters[key][0], samples), _both(counters[key][1], total)
        counters[key] = (samples, total)
    return ClientCounters(
        start=nanoseconds(stats.start_time),
        keys=tuple(counters),
        samples=[_number(samples) for samples, _ in counters.values()],
        sums=[_number(total) for _, total in counters.values()],
        trouble=(*stats.unread, *stats.doubtful),
        is_partial=bool(stats.unread),
    )


def _both(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _number(value: int | None) -> int:
    return ABSENT if value is None else value
