"""A line that makes no sense, in a text that was right: its value is not shown, everything else is."""

import re
from random import Random
from typing import cast

from harvest_sim.lives import Life, Showing, Shown

_COUNTED = re.compile(rb"^  (\w+): +\{ samples: +[1-9].*\n", re.MULTILINE)


def damaged(text: bytes, rng: Random) -> tuple[bytes, str] | None:
    """Spoil one counter of a record, as long as before; return the text, and which; nothing if it has counted none."""
    lines = list(_COUNTED.finditer(text))
    if not lines:
        return None
    line = rng.choice(lines)
    bad = re.sub(rb"(samples|sum):( *) \d", rb"\1:\2-9", line[0])  # negative, so no number that Lustre counts
    if rng.random() < 0.5 or len(bad) != len(line[0]):
        bad = b"  " + bytes(rng.choices(b"abc {}:,", k=len(line[0]) - 3)) + b"\n"
    return text[: line.start()] + bad + text[line.end() :], line[1].decode()


def without(showing: Showing, op: str, before: Shown | None) -> Showing:
    """Return what was shown if one operation could not be read: its value is as it was before, and will be shown."""
    life, shown = showing
    index = _index(life, op)
    values = [value for value in shown.values if value[0] != index]
    values += [value for value in (before.values if before else ()) if value[0] == index]
    between_two = cast("int", shown.revision - 0.5)
    return life, shown._replace(revision=between_two, values=tuple(values))


def _index(life: Life, op: str) -> int:
    return next(index for index, one in enumerate(life.ops) if one.name == op and index in life.counters)
