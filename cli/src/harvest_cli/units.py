"""Numbers, times and names for people: absent is ``-``, zero is ``0``, and nothing else ever looks like zero."""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

ABSENT: Final = "-"
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_COUNTS: Final = ("", "k", "M", "G", "T", "P")
_AGES: Final = ((1, "s"), (60, "min"), (3600, "h"), (86400, "d"))


def size(amount: float | None) -> str:
    """Return bytes, with a unit of 1024 of the one before."""
    return _scaled(amount, 1024, _SIZES, " ")


def count(amount: float | None) -> str:
    """Return how many, with a unit of 1000 of the one before."""
    return _scaled(amount, 1000, _COUNTS, "")


def per_second(text: str) -> str:
    """Say of an amount that it is a rate."""
    return text if text in {ABSENT, "0"} else f"{text}/s"


def _scaled(amount: float | None, step: int, units: Sequence[str], gap: str) -> str:
    if amount is None:
        return ABSENT
    if amount == 0:
        return "0"
    power = 0
    while round(amount, 1) >= step and power < len(units) - 1:  # 1023.96 KiB would be printed as 1024.0
        amount /= step
        power += 1
    whole = power == 0 and (amount >= 10 or amount == int(amount))
    number = f"{amount:.0f}" if whole else "<0.1" if amount < 0.05 else f"{amount:.1f}"
    return f"{number}{gap}{units[power]}" if units[power] else number


def age(seconds: float | None) -> str:
    """Return how long ago, in the largest unit of which there are at least two; seconds below that."""
    if seconds is None:
        return ABSENT
    length, unit = next((one for one in reversed(_AGES) if seconds >= 2 * one[0]), _AGES[0])
    return f"{max(seconds, 0) / length:.0f} {unit}"


def moment(seconds: float | None, zone: tzinfo | None = None) -> str:
    """Return a time as the reader's clock shows it."""
    if seconds is None:
        return ABSENT
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone(zone):%Y-%m-%d %H:%M:%S}"


def name(text: object) -> str:
    """Return a name as one line: names come from users, and may hold what a terminal obeys."""
    if text is None or text == "":
        return ABSENT
    return "".join(one if one.isprintable() else _escaped(one) for one in str(text))


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
