"""Puts tables on a terminal, or into a pipe."""

import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harvest_cli.sheets import Sheet, fitted

_ENDLESS: Final = 10_000
"""Wider than any line."""


class _Console(Console):
    """A console that tells its caller that nobody reads any more, where rich would end the program as failed."""

    def on_broken_pipe(self) -> None:  # type: ignore[explicit-override]  # typing has no such mark before 3.12
        raise BrokenPipeError


def console() -> Console:
    """Return where tables go: names are never taken for markup, and a pipe gets lines as long as they are."""
    made = _Console(highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = _ENDLESS
    return made


def complain(text: str) -> None:
    """Say something that is not what was asked for."""
    for line in text.splitlines():
        sys.stderr.write(f"harvest: {line}\n")


def show(place: Console, sheet: Sheet) -> None:
    """Print a table; on a terminal what does not fit is left out, in a pipe nothing is."""
    if not sheet.rows and not sheet.title and not sheet.notes:
        return
    if place.is_terminal:
        sheet = fitted(sheet, place.width)
    put(place, *rendered(sheet))


def put(place: Console, *lines: RenderableType) -> None:
    """Print lines, as long as they are."""
    with place.capture() as printed:
        for line in lines:
            place.print(line, width=_ENDLESS, crop=False, soft_wrap=True)
    place.file.write(printed.get())


def rendered(sheet: Sheet, *, most_rows: int | None = None) -> list[RenderableType]:
    """Return title, table and notes for rich."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=_has_head(sheet))
    for column in sheet.columns:
        table.add_column(column.head, justify="right" if column.right else "left", no_wrap=True)
    for row in sheet.rows[:most_rows]:
        table.add_row(*map(Text, row))
    return [
        *([Text(sheet.title, style="dim")] if sheet.title else []),
        *([table] if sheet.rows else []),
        *(Text(note, style="yellow") for note in sheet.notes),
    ]


def _has_head(sheet: Sheet) -> bool:
    return any(column.head for column in sheet.columns)


def screenful(sheet: Sheet, *, width: int, height: int, warnings: Sequence[str], foot: str) -> Group:
    """Return a table that fills a screen, with a line at its foot; rows that do not fit are left out."""
    chrome = 3 + len(sheet.notes) + len(warnings)  # title, head, foot
    most_rows = max(height - chrome, 1)
    lines = [*rendered(fitted(sheet, width), most_rows=most_rows), *(Text(text, style="red") for text in warnings)]
    for line in lines:
        if isinstance(line, Text):
            line.no_wrap, line.overflow = True, "ellipsis"
    used = chrome + min(len(sheet.rows), most_rows) - (0 if sheet.rows else 1)
    blank = [Text("")] * max(height - used, 0)
    return Group(*lines, *blank, Text(foot, style="reverse", no_wrap=True, overflow="ellipsis"))
