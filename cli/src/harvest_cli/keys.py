"""What somebody pressed, out of the bytes that a terminal sends."""

import re
from typing import Final

_ESCAPE: Final = "\x1b"
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])", re.DOTALL)
_BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?")


def pressed_keys(rest: str, more: str) -> tuple[list[str], str]:
    """Return the keys, and what may be the begin of one: arrows and the like are sequences that mean nothing here.

    An escape that stood alone at the end of the last bytes, and does not go on as a sequence, was the key itself.
    """
    if rest == _ESCAPE and not more.startswith(("[", "O")):
        rest = ""
    text = rest + more
    keys, place = [], 0
    while place < len(text):
        if text[place] != _ESCAPE:
            keys.append(text[place])
            place += 1
        elif match := _SEQUENCE.match(text, place):
            place = match.end()
        elif _BEGUN.fullmatch(text, place):
            return keys, text[place:]
        else:  # a sequence that is broken off by something else
            place += 1
    return keys, ""
