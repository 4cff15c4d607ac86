"""What can go wrong here, in words for the person who must act."""

SHOWN_MAX = 120
"""Longest piece of somebody else's text that a message repeats."""


class PkiError(Exception):
    """What was asked for cannot be done; the message says why, and what to do where that is known."""


def shown(text: str) -> str:
    """Return foreign text as one short line of plain ASCII: it goes to terminals, logs and peers."""
    line = ascii(text)[1:-1]
    return line if len(line) <= SHOWN_MAX else f"{line[:SHOWN_MAX]}…"
