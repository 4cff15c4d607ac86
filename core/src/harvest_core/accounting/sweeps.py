"""Sweeps as others see them: closed once, then immutable; rates from the work of one tick."""

from dataclasses import dataclass, field

from harvest_core.accounting.apply import Work

RateKey = tuple[str, bytes, str, str]
"""(target, job, counter, unit)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedSweep:
    """What was done per second at one tick, as far as it had been reported when the sweep closed."""

    tick_seconds: int
    rates: dict[RateKey, tuple[float, float]]
    """(samples per second, sum per second)."""
    missing: frozenset[str]
    """Targets that were expected and had not reported."""


@dataclass(slots=True)
class _OpenSweep:
    reported: set[str] = field(default_factory=set)
    rates: dict[RateKey, tuple[float, float]] = field(default_factory=dict)


class Sweeps:
    """Collects the work of each tick until all expected targets have reported, or the deadline has passed."""

    def __init__(self, *, deadline_seconds: float) -> None:
        self._deadline_seconds = deadline_seconds
        self._open: dict[int, _OpenSweep] = {}
        self._closed_tick = -1

    def report(self, target: str, work: Work) -> None:
        """Take in one target's work; what comes after its sweep was closed raises totals only."""
        if work.mount is None or work.tick_seconds <= self._closed_tick:
            return
        sweep = self._open.setdefault(work.tick_seconds, _OpenSweep())
        sweep.reported.add(target)
        names = list(work.mount.counters)
        samples = work.samples if work.surplus_samples is None else work.samples - work.surplus_samples
        sums = work.sum if work.surplus_sum is None else work.sum - work.surplus_sum
        columns = (work.row, work.column, samples, sums)
        for row, column, count, total, window in zip(
            *(numbers.tolist() for numbers in (*columns, work.window_seconds)), strict=True
        ):
            if window > 0:
                key = (target, work.mount.jobs[row], *names[column])
                before = sweep.rates.get(key, (0.0, 0.0))
                sweep.rates[key] = (before[0] + count / window, before[1] + total / window)

    def close(self, now_seconds: float, expected: frozenset[str]) -> list[ClosedSweep]:
        """Close, oldest first, every sweep that all expected have reported, or that is past its deadline."""
        closed = []
        for tick in sorted(self._open):
            sweep = self._open[tick]
            waited = now_seconds >= tick + self._deadline_seconds
            if not waited and (tick > now_seconds or not expected <= sweep.reported):  # a clock may be ahead
                break
            del self._open[tick]
            self._closed_tick = tick
            closed.append(ClosedSweep(tick_seconds=tick, rates=sweep.rates, missing=expected - sweep.reported))
        return closed
