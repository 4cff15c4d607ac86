"""Durations and sizes as people write them: a whole number and one unit."""

import re
from typing import Final

_MILLISECONDS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_BYTES: Final = {
    **{f"{letter}i": 1 << (10 * power) for power, letter in reversed(list(enumerate("KMGTP", start=1)))},
    **{letter: 1000**power for power, letter in reversed(list(enumerate("kMGTP", start=1)))},
    "": 1,
}
DURATION_PATTERN: Final = "(0|[1-9][0-9]{0,8})(ms|s|m|h|d)"
SIZE_PATTERN: Final = "(0|[1-9][0-9]{0,14})([KMGTP]i|[kMGTP])?"


def parse_duration(text: str) -> int | None:
    """Return the milliseconds of ``500ms``, ``20s``, ``5m``, ``12h`` or ``365d``."""
    match = re.fullmatch(DURATION_PATTERN, text)
    return int(match[1]) * _MILLISECONDS[match[2]] if match else None


def duration_cel(text: str) -> str:
    """Return the same in CEL, -1 where the text is no duration. CEL's own durations know no days."""
    *larger, (last, _) = sorted(_MILLISECONDS.items(), key=lambda unit: -len(unit[0]))  # "ms" ends with "s", too
    factor = "".join(f"{text}.endsWith('{unit}') ? {size} : " for unit, size in larger) + str(_MILLISECONDS[last])
    return f"({text}.matches('^{DURATION_PATTERN}$') ? int({text}.find('^[0-9]+')) * ({factor}) : -1)"


def format_duration(milliseconds: int) -> str:
    """Write a duration in the largest unit that needs no fraction."""
    if milliseconds == 0:
        return "0s"
    unit, size = next(pair for pair in _MILLISECONDS.items() if milliseconds % pair[1] == 0)
    return f"{milliseconds // size}{unit}"


def parse_size(text: str) -> int | None:
    """Return the bytes of ``10Gi`` or ``500M``: the whole numbers among Kubernetes' quantities."""
    match = re.fullmatch(SIZE_PATTERN, text)
    return int(match[1]) * _BYTES[match[2] or ""] if match else None


def format_size(size_bytes: int) -> str:
    """Write a size in the largest unit that needs no fraction, powers of 1024 first."""
    if size_bytes == 0:
        return "0"
    unit, size = next(pair for pair in _BYTES.items() if size_bytes % pair[1] == 0)
    return f"{size_bytes // size}{unit}"
