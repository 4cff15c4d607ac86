"""Records as a server shows them, made by hand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harvest_sim.counters import Counter

DATA = "data"
"""The counter of written bytes, whatever the version calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """One record as the server shows it."""

    job: bytes
    at: float
    start: float
    counters: Mapping[str, Counter]
    edited: Callable[[bytes], bytes]


def job(
    name: str,
    samples: int = 0,
    amount: int = 0,
    at: float = 0,
    *,
    start: float = 0,
    edited: Callable[[bytes], bytes] = bytes,
    **ops: int | tuple[int, int] | Counter,
) -> Printed:
    """Return a record that wrote so many times, so many bytes in all, and did ``ops``: samples, or (samples, sum)."""
    counters = {op: _counter(shown) for op, shown in ops.items()}
    if samples:
        counters[DATA] = _counter((samples, amount))
    return Printed(job=name.encode("latin-1"), at=at, start=start, counters=counters, edited=edited)


def _counter(shown: int | tuple[int, int] | Counter) -> Counter:
    if isinstance(shown, Counter):
        return shown
    counter = Counter()
    counter.samples, counter.total = (shown, 0) if isinstance(shown, int) else shown
    counter.minimum = counter.maximum = counter.total // max(counter.samples, 1)
    return counter
