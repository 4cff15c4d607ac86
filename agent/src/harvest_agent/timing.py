"""When to sweep, how often, and when to try again. Pure: clocks and chance are arguments."""

import math
from dataclasses import dataclass
from typing import Final

_CHEAP_SWEEPS: Final = 3
_CHEAP_PART: Final = 0.8  # of the limit: a period that is left at once would be taken up again at once
_STRETCH_MOST: Final = 30


def next_tick(now_seconds: float, period_seconds: int, last_tick_seconds: int | None) -> int:
    """Return the next multiple of the period on the wall clock.

    A clock that was set back a little must not give the tick before again; one that was set back far must not stop
    the sweeps until it has caught up.
    """
    tick = (math.floor(now_seconds / period_seconds) + 1) * period_seconds
    if last_tick_seconds is not None and last_tick_seconds - period_seconds < tick <= last_tick_seconds:
        return (last_tick_seconds // period_seconds + 1) * period_seconds
    return tick


def is_due(now_seconds: float, tick_seconds: int, period_seconds: int) -> bool:
    """Tell whether a tick that was waited for can be swept now: not before it, and not when the next one is near."""
    return tick_seconds <= now_seconds < tick_seconds + period_seconds


def tick_before(now_seconds: float, period_seconds: int) -> int:
    """Return the last tick there was."""
    return math.floor(now_seconds / period_seconds) * period_seconds


def skipped_seconds(tick_seconds: int, last_tick_seconds: int | None, period_seconds: int) -> int:
    """Return for how long there were ticks and no sweeps: one took too long, or the process stood still."""
    return 0 if last_tick_seconds is None else max(tick_seconds - last_tick_seconds - period_seconds, 0)


class Duty:
    """How many intervals lie between two sweeps, so that reading costs the kernel no more than its limit."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._cheap = 0
        self.intervals = 1

    def spent(self, kernel_seconds: float, interval_seconds: int) -> None:
        """Take in what a sweep cost: stretch at once, come back after some that were cheap."""
        wanted = self._wanted(kernel_seconds, interval_seconds, self._limit)
        if wanted > self.intervals:
            self.intervals, self._cheap = wanted, 0
        elif self._wanted(kernel_seconds, interval_seconds, self._limit * _CHEAP_PART) < self.intervals:
            self._cheap += 1
            if self._cheap >= _CHEAP_SWEEPS:
                self.intervals, self._cheap = self.intervals - 1, 0
        else:
            self._cheap = 0

    @staticmethod
    def _wanted(kernel_seconds: float, interval_seconds: int, limit: float) -> int:
        return min(max(math.ceil(kernel_seconds / (limit * interval_seconds)), 1), _STRETCH_MOST)


@dataclass(slots=True)
class BackOff:
    """How long to wait before the next attempt: longer each time, and never in step with other agents."""

    failures: int = 0
    first_seconds: float = 1.0
    most_seconds: float = 30.0

    def seconds(self, chance: float, *, least: float = 0.0) -> float:
        """Return the next wait; ``chance`` is from 0 to 1, ``least`` what the other side asked for."""
        self.failures += 1
        most = min(self.first_seconds * (1 << min(self.failures - 1, 10)), self.most_seconds)
        return max(most * (0.5 + chance / 2), least * (1 + chance / 10))

    def succeeded(self) -> None:
        """Begin again with a short wait."""
        self.failures = 0
