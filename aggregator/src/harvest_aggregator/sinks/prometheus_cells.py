"""Series as columns: from which total on each counts, and what it said last."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

BITS: Final = 20
"""Of a series' number, for its column; the rest is its subject's."""
COLUMN: Final = (1 << BITS) - 1


class Moment(NamedTuple):
    """When a rendering is made."""

    rendering: int
    now: float
    """By a clock that never goes back."""
    wall_seconds: int
    gap_seconds: float
    """The longest time between two scrapes lately."""
    seen_by_all: int
    """The newest rendering that everybody has seen who comes regularly."""


@dataclass(slots=True)
class Cells:
    """Every series, in the order of its number."""

    cell: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    base: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    released: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    first: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """The rendering that was the first to show it, of this process; until then, which one it was added for."""
    since: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, np.float64))
    """When it first said what it says."""
    said: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """What it said last; below zero if nothing yet."""
    lost: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    """It has no total, since its subject is called otherwise there; the base is how far it came, below zero."""

    def add(self, cell: Integers, base: Integers, released: Flags, moment: Moment, lost: Flags | None = None) -> None:
        """Add series that are not there."""
        if not len(cell):
            return
        order = np.argsort(np.concatenate([self.cell, cell]), kind="stable")
        count = len(cell)
        for name, new in (
            ("cell", cell),
            ("base", base),
            ("released", released),
            ("first", np.full(count, moment.rendering, np.int64)),
            ("since", np.full(count, moment.now)),
            ("said", np.full(count, -1, np.int64) if lost is None else np.where(lost, -base, -1)),
            ("lost", np.zeros(count, np.bool_) if lost is None else lost),
        ):
            setattr(self, name, np.concatenate([getattr(self, name), new])[order])

    def drop(self, gone: Flags) -> None:
        """Let series go."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name)[~gone])

    def find(self, cell: Integers) -> tuple[Integers, Flags]:
        """Return where numbers are, or would be, and whether they are there."""
        place = np.searchsorted(self.cell, cell)
        return place, np.append(self.cell, -1)[place] == cell

    def of(self, subject: int) -> slice:
        """Return where the series of a subject are."""
        return slice(*np.searchsorted(self.cell, [subject << BITS, (subject + 1) << BITS]).tolist())
