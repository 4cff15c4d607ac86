"""What one counter line says, whatever file it stands in."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

SATURATED: Final = 2**63 - 1
"""From here on a sum is not a number any more: newer servers print this where an addition overflowed."""

_SAME_UNITS: Final = {"usec": "usecs", "sec": "secs", "regs": "reqs"}
_CACHED_BYTES: Final = 64
"""Longer names are no counters: remembering them would be remembering garbage."""
_WORD = re.compile(rb"[\x21-\x7e\x80-\xff]+")
_DECIMAL = re.compile(rb"-?[0-9]{1,40}")  # more digits than any counter has: not worth converting
_BUCKETS: Final = {
    b"%d%s" % (1 << (power % 10), unit): power for power in range(32) for unit in [(b"", b"K", b"M", b"G")[power // 10]]
}


class Counter(NamedTuple):
    """One counter as it was printed; ``None`` is a value that was absent or made no sense.

    A named tuple, not a frozen dataclass: thousands are made per sweep, and these cost a fifth.
    """

    name: str
    unit: str
    samples: int | None
    minimum: int | None = None
    maximum: int | None = None
    sum: int | None = None
    sumsq: int | None = None
    histogram: tuple[tuple[int, int], ...] = ()
    """(power, count): how many amounts were above 2^(power-1) and up to 2^power."""


@lru_cache(maxsize=256)
def _normal_unit(text: bytes) -> str:
    unit = printable(text)
    return _SAME_UNITS.get(unit, unit)


def normal_unit(text: bytes) -> str:
    """Return the unit under one name for all versions: some print usec, sec or regs."""
    return _normal_unit(text) if len(text) < _CACHED_BYTES else printable(text)


def counter_name(text: bytes) -> str:
    """Return the name of a counter; there are few, so they are remembered."""
    return _counter_name(text) if len(text) < _CACHED_BYTES else printable(text)


@lru_cache(maxsize=1024)
def _counter_name(text: bytes) -> str:
    return printable(text)


def printable(text: bytes) -> str:
    """Return bytes as text; what is not UTF-8 survives as surrogate escapes."""
    return text.decode("utf-8", "surrogateescape")


def integer(text: bytes) -> int | None:
    """Read a whole number as printed, with its sign, or nothing."""
    return int(text) if _DECIMAL.fullmatch(text) else None


def counted(value: int | None) -> int | None:
    """Keep a number that a counter can hold; negative and saturated ones are Lustre's accidents."""
    return value if value is not None and 0 <= value < SATURATED else None


def is_word(text: bytes) -> bool:
    """Tell whether this can be the name of a counter or unit: printed, without blanks."""
    return _WORD.fullmatch(text) is not None


def histogram(text: bytes) -> tuple[tuple[int, int], ...] | None:
    """Read ``32K: 1, 1M: 13`` as (power, count) pairs; nothing if any part makes no sense."""
    pairs = []
    for part in text.split(b","):
        if not part.strip():
            continue
        label, colon, count = part.partition(b":")
        power = _BUCKETS.get(label.strip())
        number = counted(integer(count.strip()))
        if not colon or power is None or number is None:
            return None
        pairs.append((power, number))
    return tuple(pairs)
