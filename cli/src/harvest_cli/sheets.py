"""Tables as values: what stands in them, and what is left of them where there is little room."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rich.cells import cell_len, set_cell_size

_GAP: Final = 2
_SHORTEST: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    head: str
    right: bool = False
    """Numbers are right aligned."""
    rank: int = 0
    """Where there is no room, columns go by their rank, the largest first; 0 stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table, with what stands above and below it."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = field(default=())

    @property
    def widths(self) -> list[int]:
        """Return how wide each column is."""
        lines = [[column.head for column in self.columns], *self.rows]
        return [max(cell_len(line[place]) for line in lines) for place in range(len(self.columns))]

    @property
    def width(self) -> int:
        """Return how wide all of it is."""
        return sum(self.widths) + _GAP * (len(self.columns) - 1)


def fitted(sheet: Sheet, width: int) -> Sheet:
    """Leave columns out until the rest fits; then shorten the first one. No number is ever cut."""
    while sheet.width > width and (rank := max(column.rank for column in sheet.columns)) > 0:
        last = max(place for place, column in enumerate(sheet.columns) if column.rank == rank)
        kept = [place for place in range(len(sheet.columns)) if place != last]
        sheet = replace(
            sheet,
            columns=[sheet.columns[place] for place in kept],
            rows=[[row[place] for place in kept] for row in sheet.rows],
        )
    if sheet.width <= width:
        return sheet
    room = max(sheet.widths[0] - (sheet.width - width), _SHORTEST)
    return replace(sheet, rows=[[_shortened(row[0], room), *row[1:]] for row in sheet.rows])


def _shortened(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"
