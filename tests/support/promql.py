"""What a PromQL expression speaks of: its metrics and labels. Whether it is one at all, Prometheus itself says."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<range>\[[^\]]*\])
    | (?P<number>\d[\w.]*)
    | (?P<name>[a-zA-Z_:][\w:]*)
    | (?P<mark>=~|!~|!=|[^\s])
    """,
    re.VERBOSE,
)
_LISTS: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS: Final = _LISTS | {"and", "or", "unless", "bool", "offset", "inf", "nan"}
_REPLACED: Final = re.compile(r',\s*"(\w+)",\s*"[^"]*",\s*"(\w*)",\s*"[^"]*"\s*\)')
SCRAPED: Final = frozenset({"job", "instance"})
"""Labels that Prometheus adds to whatever it scrapes."""


@dataclass(slots=True)
class Spoken:
    """Of which metrics an expression speaks, and of which labels."""

    matched: dict[str, set[str]] = field(default_factory=dict)
    """Metrics, each with the labels by which it is selected."""
    grouped: set[str] = field(default_factory=set)
    """Labels by which things are put together."""
    made: set[str] = field(default_factory=set)
    """Labels that ``label_replace`` makes."""


def spoken(expression: str) -> Spoken:
    """Read an expression."""
    found = Spoken()
    for made, source in _REPLACED.findall(expression):
        found.made.add(made)
        found.grouped.add(source)
    tokens = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(expression)]
    metric, listing = "", False
    inside: list[str] = []
    for index, (kind, text) in enumerate(tokens):
        after = tokens[index + 1][1] if index + 1 < len(tokens) else ""
        if text in {"(", "{"}:
            listing = text == "(" and index > 0 and tokens[index - 1][1] in _LISTS
            inside.append(text)
        elif text in {")", "}"}:
            inside.pop()
            listing = False
        elif kind != "name":
            continue
        elif inside and inside[-1] == "{":
            found.matched.setdefault(metric, set()).add(text)
        elif listing:
            found.grouped.add(text)
        elif text.lower() not in _WORDS and after != "(" and not _is_function(tokens, index):
            metric = text
            found.matched.setdefault(metric, set())
    return found


def _is_function(tokens: list[tuple[str, str]], index: int) -> bool:
    """Tell whether a name is an aggregation whose labels come first: ``sum by (x) (…)``."""
    return index + 1 < len(tokens) and tokens[index + 1][1] in {"by", "without"}


def unknown(expression: str, known: Mapping[str, frozenset[str]], *, also: frozenset[str] = frozenset()) -> list[str]:
    """Return what an expression speaks of that does not exist: metrics, and labels that none of its metrics has."""
    return list(_unknown(spoken(expression), known, also))


def _unknown(found: Spoken, known: Mapping[str, frozenset[str]], also: frozenset[str]) -> Iterator[str]:
    for metric, labels in found.matched.items():
        if metric not in known:
            yield metric
        else:
            yield from (f"{metric}{{{label}}}" for label in sorted(labels - known[metric] - SCRAPED))
    yield from sorted((found.grouped | also) - labels_of(found, known))


def labels_of(found: Spoken, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return every label that the result of an expression may have."""
    return SCRAPED | found.made | frozenset().union(*(known.get(metric, frozenset()) for metric in found.matched))
