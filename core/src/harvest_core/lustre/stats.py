"""``stats`` files: exports, md_stats, obdfilter, llite, osc, mdc and the services, all of one shape.

Only counters that are not zero are printed, one may occur twice (``statfs`` on old OSTs), and sums are
printed signed: what comes out here is what was printed.
"""

import re
from dataclasses import dataclass

from harvest_core.lustre.counters import Counter, integer, is_word, normal_unit, printable
from harvest_core.lustre.job_stats import lines_of

_TIME = re.compile(
    rb"(snapshot_time|start_time|elapsed_time):? +([0-9]{1,20})"
    rb"(?:\.([0-9]{1,9}))?(?: +\(?secs\.([nu])secs\)?)? *"
)


@dataclass(frozen=True, slots=True)
class Stats:
    """What one ``stats`` file said."""

    counters: tuple[Counter, ...]
    snapshot_time: str | None
    start_time: str | None
    unread: tuple[bytes, ...]
    structure_lines: int


def parse_stats(text: bytes) -> Stats:
    """Read every counter of a file; a strange line costs that line."""
    counters: list[Counter] = []
    unread: list[bytes] = []
    times: dict[bytes, str] = {}
    structure = 0
    for line in lines_of(text):
        counter = _counter(line.split())
        if counter is not None:
            counters.append(counter)
        elif (time := _TIME.fullmatch(line)) is not None:
            times.setdefault(time[1], _time(time))
            structure += 1
        elif line.strip():
            unread.append(line)
        else:
            structure += 1
    return Stats(
        counters=tuple(counters),
        snapshot_time=times.get(b"snapshot_time"),
        start_time=times.get(b"start_time"),
        unread=tuple(unread),
        structure_lines=structure,
    )


def _counter(words: list[bytes]) -> Counter | None:
    """Read ``<name> <count> samples [<unit>] [<min> <max> <sum> [<sumsq>]]``."""
    if len(words) not in {4, 7, 8} or words[2] != b"samples":
        return None
    unit = words[3]
    numbers = [integer(word) for word in (words[1], *words[4:])]
    if not (unit.startswith(b"[") and unit.endswith(b"]") and is_word(unit[1:-1])) or None in numbers:
        return None
    samples, low, high, total, squares = [*numbers, None, None, None, None][:5]
    return Counter(
        name=printable(words[0]),
        unit=normal_unit(unit[1:-1]),
        samples=samples,
        minimum=low,
        maximum=high,
        sum=total,
        sumsq=squares,
    )


def _time(match: re.Match[bytes]) -> str:
    """Return a decimal time; up to 2.9 microseconds are printed without their leading zeros."""
    _, seconds, fraction, unit = match.groups()
    if fraction is None:
        return seconds.decode()
    if unit == b"u":
        fraction = fraction.rjust(6, b"0")
    return (seconds + b"." + fraction).decode()
