"""Lists of hosts in short: ``oss[01-04,07]`` is five names."""

import itertools
import re
from typing import Final

NAMES_MAX: Final = 1024
LIST_CHARACTERS_MAX: Final = 512
HOST_LIST_PATTERN: Final = r"([A-Za-z0-9._-]|\[[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*\])+"
HOST_LIST_INSTEAD: Final = "a host name or a list of them in short, such as oss[01-04]"
_NAME_CHARACTERS_MAX: Final = 253
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,62})([.][A-Za-z0-9]([A-Za-z0-9_-]{0,62})){0,7}")


def expand(text: str) -> tuple[str, ...]:
    """Return every name, in order; ValueError says what is wrong with the text."""
    if re.fullmatch(HOST_LIST_PATTERN, text) is None:
        raise ValueError(f"write {HOST_LIST_INSTEAD}")
    parts = [_choices(part) for part in re.findall(r"\[[^\]]*\]|[^\[]+", text)]
    count = 1
    for part in parts:
        count *= len(part)
        if count > NAMES_MAX:
            raise ValueError(f"that is more than {NAMES_MAX} names: write several shorter lists")
    names = tuple("".join(choice) for choice in itertools.product(*parts))
    if any(_NAME.fullmatch(name) is None or len(name) > _NAME_CHARACTERS_MAX for name in names):
        raise ValueError(f"{names[0]!r} is no host name: write letters and digits, with '-', '_' and '.' between")
    if len(set(names)) < len(names):
        raise ValueError("a name is in it more than once: write ranges that do not overlap")
    return names


def _choices(part: str) -> list[str]:
    if not part.startswith("["):
        return [part]
    chosen: list[str] = []
    for piece in part[1:-1].split(","):
        first, _, last = piece.partition("-")
        last = last or first
        if int(last) < int(first):
            raise ValueError(f"the range {piece} runs backwards: write {last}-{first}")
        if len(first) != len(last) and "0" in {first[0], last[0]}:
            raise ValueError(f"the ends of {piece} have different widths: write as many digits in both")
        if int(last) - int(first) >= NAMES_MAX:
            raise ValueError(f"that is more than {NAMES_MAX} names: write several shorter lists")
        chosen += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return chosen
