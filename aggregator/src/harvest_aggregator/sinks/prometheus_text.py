"""What is shown as text, Prometheus' or OpenMetrics': made once, given to everybody who asks."""

import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from harvest_aggregator.sinks.prometheus_families import FAMILIES, Family

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_BY_NAME: Final = {family.name: family for family in FAMILIES}
_GZIP_LEVEL: Final = 2
"""A fourteenth of the size, and a third of the time that the usual level takes."""

Block = tuple[str, bytes]
"""The name of a family, and all lines of its series."""


def escaped(text: str) -> str:
    """Return a label's value as it is written. What is no UTF-8 is told apart from what only looks like it."""
    text = text.replace("\\", "\\\\").encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def labelled(names: Sequence[str], values: Sequence[str]) -> str:
    """Return labels as they are written; what is empty is left out, which is the same."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True) if value)


def lines(family: str, samples: Iterable[tuple[Sequence[str], float]]) -> Block:
    """Return a few series of a family."""
    names = _BY_NAME[family].labels
    texts = ((labelled(names, labels), value) for labels, value in samples)
    return family, "".join(
        f"{family}{{{text}}} {value}\n" if text else f"{family} {value}\n" for text, value in texts
    ).encode()


def _headed(family: Family, *, openmetrics: bool) -> bytes:
    name = family.name.removesuffix("_total") if openmetrics else family.name
    return f"# HELP {name} {family.meaning}\n# TYPE {name} {family.type}\n".encode()


@dataclass(eq=False)
class Rendering:
    """One closed sweep as text."""

    number: int
    made_at: float
    """By a clock that never goes back."""
    tick_seconds: int
    """When all that was done which counters say."""
    counters: Sequence[Block]
    gauges: Sequence[Block]
    """What is true while the sweep is the newest."""
    stale: Sequence[Block]
    """In place of all that once the sweep is old."""
    _made: dict[tuple[bool, bool, bool], bytes] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def body(self, *, openmetrics: bool, zipped: bool, is_stale: bool) -> bytes:
        """Return all of it; from any thread. Whoever asks for a form first has it made for all others."""
        key = (openmetrics, zipped, is_stale)
        with self._lock:
            if key not in self._made:
                plain = self._made.get((openmetrics, False, is_stale)) or self._joined(*key)
                self._made[key] = gzip.compress(plain, _GZIP_LEVEL, mtime=0) if zipped else plain
            return self._made[key]

    def _joined(self, openmetrics: bool, _: bool, is_stale: bool) -> bytes:  # noqa: FBT001 - a key
        parts: list[bytes] = []
        stamp = b" %d\n" % (self.tick_seconds if openmetrics else self.tick_seconds * 1000)
        for blocks, end in [(self.stale, b"\n")] if is_stale else [(self.counters, stamp), (self.gauges, b"\n")]:
            for name, text in blocks:
                if text:
                    parts += (_headed(_BY_NAME[name], openmetrics=openmetrics), text.replace(b"\n", end))
        return b"".join([*parts, b"# EOF\n"] if openmetrics else parts)
