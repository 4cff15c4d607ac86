"""The windows of published rates: no rate may be negative, or above what was truly done in its own window."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from campaign.agents import Sweep
from harvest_core.accounting.apply import Work
from harvest_core.accounting.sweeps import ClosedSweep, Place
from harvest_sim.truth import Truth

RateKey = tuple[str, bytes, str, str]
"""(target, job, counter, unit)."""
_READING_NS = 400_000
"""What happens while a file is read has the time of the read and a little more."""


def place(target: str) -> Place:
    """Return the target as if it were a file system of its own, so that its rates can be told apart."""
    return Place(target, target[3:6], target)


def _rates(closed: ClosedSweep) -> dict[RateKey, tuple[float, float]]:
    return {
        (target, table.jobs[row], *table.counters[column]): (
            float(table.sample_rates[row, column]),
            float(table.sum_rates[row, column]),
        )
        for (target, _), table in closed.tables.items()
        for row, column in zip(*np.nonzero((table.sample_rates != 0) | (table.sum_rates != 0)), strict=True)
    }


class Windows:
    """Which time each published rate is about."""

    def __init__(self) -> None:
        self._spans: defaultdict[tuple[int, RateKey], list[tuple[int, int]]] = defaultdict(list)
        """(true end in nanoseconds, length in seconds) of all that a rate was made of."""

    def note(self, sweep: Sweep, work: Work) -> None:
        """Write down the windows of what a read adds to the rates of its tick."""
        if work.mount is None:
            return
        names = list(work.mount.counters)
        for row, column, window in zip(work.row, work.column, work.window_seconds, strict=True):
            if window > 0:
                key = (sweep.target, work.mount.jobs[row], *names[column])
                self._spans[work.tick_seconds, key].append((sweep.read_ns, int(window)))

    def wrong(self, published: Iterable[ClosedSweep], truth: Truth) -> list[str]:
        """Return the rates that cannot be; ids that print alike have one rate, of all of theirs together."""
        journals: defaultdict[RateKey, list[tuple[int, int, int]]] = defaultdict(list)
        for life in truth.select():
            for work in life.journal:
                op = life.ops[work.op_index]
                key = (life.scope.target, life.readable_key, op.name, op.unit)
                journals[key].append((work.at_ns, work.samples, work.total))
        found = []
        for sweep in published:
            for key, rate in _rates(sweep).items():
                bound = [0.0, 0.0]
                for end_ns, seconds in self._spans[sweep.tick_seconds, key]:
                    journal = sorted(journals[key])
                    first = bisect_right(journal, (end_ns - seconds * 10**9 - _READING_NS,))
                    last = bisect_right(journal, (end_ns + _READING_NS,))
                    for place in (0, 1):
                        bound[place] += sum(work[place + 1] for work in journal[first:last]) / seconds
                if min(rate) < 0 or any(r > b * (1 + 1e-9) for r, b in zip(rate, bound, strict=True)):
                    found.append(f"tick {sweep.tick_seconds}: {key} {rate} above {bound}")
        return found
