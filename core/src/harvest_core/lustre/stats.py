"""``stats`` files: exports, md_stats, obdfilter, llite, osc, mdc and the services, all of one shape.

Only counters that are not zero are printed, one may occur twice (``statfs`` on old OSTs), and sums are
printed signed: what comes out here is what was printed.
"""

import re
from dataclasses import dataclass

from harvest_core.lustre.counters import SATURATED, Counter, counter_name, integer, is_word, normal_unit
from harvest_core.lustre.job_stats import lines_of

_TIME = re.compile(
    rb"^(snapshot_time|start_time|elapsed_time):? +([0-9]{1,20})(?:\.([0-9]{1,9}))?(?: +\(?secs\.([nu])secs\)?)? *$",
    re.MULTILINE,
)
_REGULAR = re.compile(
    rb"^([\x21-\x7e]+) +([0-9]{1,18}) samples \[([\x21-\x5c\x5e-\x7e]+)\] ?"
    rb"(?: +(-?[0-9]{1,19}) +(-?[0-9]{1,19}) +(-?[0-9]{1,19})(?: +(-?[0-9]{1,40}))?)? *$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Stats:
    """What one ``stats`` file said."""

    counters: tuple[Counter, ...]
    snapshot_time: str | None
    start_time: str | None
    unread: tuple[bytes, ...]
    doubtful: tuple[bytes, ...]
    """Lines with a value that makes no sense: no number (left out), or a count that is negative or saturated (kept
    as printed: it is for the reader to disbelieve it)."""
    structure_lines: int


def parse_stats(text: bytes) -> Stats:
    """Read every counter of a file; a strange line costs that line, a strange value that value."""
    regular = _REGULAR.findall(text)
    times = _TIME.findall(text)
    if len(regular) + len(times) == text.count(b"\n") and text.endswith(b"\n"):  # almost every file there is
        counters = [_regular(found) for found in regular]
        if not any(_is_doubtful(counter) for counter in counters):
            return _stats(counters, times, [], [], len(times))
    return _parse_lines(lines_of(text))


def _is_doubtful(counter: Counter) -> bool:
    """Tell whether the counts are no numbers any more: negative, or saturated."""
    samples, total = counter.samples, counter.sum
    return (samples is not None and not 0 <= samples < SATURATED) or (total is not None and not 0 <= total < SATURATED)


def _parse_lines(lines: list[bytes]) -> Stats:
    """Read a file that holds anything unusual, line by line."""
    counters: list[Counter] = []
    unread: list[bytes] = []
    doubtful: list[bytes] = []
    times: list[tuple[bytes, ...]] = []
    structure = 0
    for line in lines:
        words = line.split()
        counter = _counter(words)
        if counter is not None:
            counters.append(counter)
            if None in (counter.samples, *counter[3 : len(words) - 1]) or _is_doubtful(counter):
                doubtful.append(line)
            continue
        time = _TIME.fullmatch(line)
        if time is not None:
            times.append(time.groups(b""))
        elif line.strip():
            unread.append(line)
            continue
        structure += 1
    return _stats(counters, times, unread, doubtful, structure)


def _stats(
    counters: list[Counter],
    times: list[tuple[bytes, ...]],
    unread: list[bytes],
    doubtful: list[bytes],
    structure_lines: int,
) -> Stats:
    first = {what: _time(*parts) for what, *parts in reversed(times)}
    return Stats(
        counters=tuple(counters),
        snapshot_time=first.get(b"snapshot_time"),
        start_time=first.get(b"start_time"),
        unread=tuple(unread),
        doubtful=tuple(doubtful),
        structure_lines=structure_lines,
    )


def _regular(found: tuple[bytes, ...]) -> Counter:
    name, samples, unit, low, high, total, squares = found
    if not low:
        return Counter(counter_name(name), normal_unit(unit), int(samples))
    return Counter(
        counter_name(name),
        normal_unit(unit),
        int(samples),
        int(low),
        int(high),
        int(total),
        int(squares) if squares else None,
    )


def _counter(words: list[bytes]) -> Counter | None:
    """Read ``<name> <count> samples [<unit>] [<min> <max> <sum> [<sumsq>]]``."""
    if len(words) not in {4, 7, 8} or words[2] != b"samples":
        return None
    unit = words[3]
    numbers = [integer(word) for word in (words[1], *words[4:])]
    if not (unit.startswith(b"[") and unit.endswith(b"]") and is_word(unit[1:-1])):
        return None
    if all(number is None for number in numbers):
        return None
    samples, low, high, total, squares = [*numbers, None, None, None, None][:5]
    return Counter(
        name=counter_name(words[0]),
        unit=normal_unit(unit[1:-1]),
        samples=samples,
        minimum=low,
        maximum=high,
        sum=total,
        sumsq=squares,
    )


def _time(seconds: bytes, fraction: bytes, unit: bytes) -> str:
    """Return a decimal time; up to 2.9 microseconds are printed without their leading zeros."""
    if not fraction:
        return seconds.decode()
    if unit == b"u":
        fraction = fraction.rjust(6, b"0")
    return (seconds + b"." + fraction).decode()
