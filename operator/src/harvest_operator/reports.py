"""What an aggregator said when it was last asked how it stands. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

_COUNT_MAX: Final = 10**9
_TIME_MAX: Final = 253_402_300_799
"""The last second that Kubernetes can write."""
_ENTRIES_MAX: Final = 100
_TEXT_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One answer."""

    connected: int
    expected: int
    missing: tuple[str, ...] = ()
    """Agents that are not there; the first few."""
    last_sweep: datetime | None = None
    sinks: tuple[tuple[str, str], ...] = ()
    """Those in trouble, and which; relays that go elsewhere are among them."""
    relays: tuple[tuple[str, str], ...] = ()
    """Those that come here and are in trouble, and which."""
    slurm: tuple[tuple[str, str], ...] = ()
    """Clusters whose Slurm is in trouble, and which."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Nobody answered, or nothing that makes sense."""

    why: str


def parsed(content: object) -> Report | NoAnswer:
    """Read what ``/api/v1/status`` answers."""
    if not isinstance(content, Mapping):
        content = {}
    try:
        agents, tick = content["agents"], content["tick_seconds"]
        return Report(
            connected=_number(agents["connected"], _COUNT_MAX),
            expected=_number(agents["expected"], _COUNT_MAX),
            missing=tuple(_text(name) for name in agents["missing"][:_ENTRIES_MAX]),
            last_sweep=None if tick is None else datetime.fromtimestamp(_number(tick, _TIME_MAX), UTC),
            sinks=_troubles(content["sinks"], "name"),
            relays=_troubles(content.get("relays", []), "name"),  # an older aggregator does not tell
            slurm=_troubles(content["slurm"], "cluster"),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return NoAnswer("the answer makes no sense: is it an aggregator of another version?")


def _troubles(entries: Any, name: str) -> tuple[tuple[str, str], ...]:  # noqa: ANN401 - whatever somebody sent
    troubled = [entry for entry in entries[:_ENTRIES_MAX] if entry["trouble"] is not None]
    return tuple((_text(entry[name]), _text(entry["trouble"])) for entry in troubled)


def _number(value: Any, most: int) -> int:  # noqa: ANN401 - as above
    number = int(value)
    if not 0 <= number <= most:
        raise ValueError(f"{number} is out of bounds")
    return number


def _text(value: object) -> str:
    """Return a text that may stand in a status: one line, not too long, nothing that cannot be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(value)[:_TEXT_MAX])
