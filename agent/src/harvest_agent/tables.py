"""Numbers, names and tables for people."""

from collections.abc import Collection, Sequence

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def shown(name: str) -> str:
    """Return a name as one line of plain ASCII: names may hold anything, also what a terminal obeys."""
    return ascii(name)[1:-1]


def some(names: Sequence[str], most: int) -> str:
    """List the first few names and say how many more there are."""
    rest = len(names) - most
    return ", ".join(map(shown, names[:most])) + (f" … and {rest} more" if rest > 0 else "")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Lay out rows under a head; the columns named in ``right`` are numbers."""
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, *rows)
    )


def size(count: float) -> str:
    """Return a number of bytes with a unit that a person reads at a glance."""
    power = 0
    while count >= 1024 and power < len(_SIZES) - 1:
        count /= 1024
        power += 1
    return f"{count:.1f} {_SIZES[power]}" if power else f"{count:.0f} B"


def duration(seconds: float) -> str:
    """Return a short time in milliseconds."""
    return f"{1000 * seconds:.1f} ms"
