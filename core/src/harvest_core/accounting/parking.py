"""Rows that leave a mount's state, because nothing of them can come back, and what they added up to (ADR 0011)."""

from dataclasses import dataclass, field

import numpy as np

from harvest_core.accounting.apply import Stay
from harvest_core.accounting.mounts import NEVER, Integers, MountState

_Counter = tuple[str, str]
"""(name, unit)."""

SURE_READS = 30
"""A record that is proven to be gone is kept for so many whole reads: one that is only idle for a while returns to
its row, and has a rate."""
UNSURE_READS = 90
"""One that may have been skipped: so often in a row none can be."""


@dataclass(slots=True)
class JobSum:
    """What a job did, of which there are no records any more."""

    counters: dict[_Counter, tuple[int, int]] = field(default_factory=dict)
    """(samples, sum)."""
    extremes: dict[_Counter, tuple[int, int]] = field(default_factory=dict)
    """The smallest and the largest value."""
    histograms: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """By counter and power."""
    last_tick: int = NEVER
    """When it last did anything."""

    def add(self, other: "JobSum") -> None:
        """Add what the same job did elsewhere, or in other lives."""
        for counter, (samples, total) in other.counters.items():
            before = self.counters.get(counter, (0, 0))
            self.counters[counter] = (before[0] + samples, before[1] + total)
        for counter, (least, most) in other.extremes.items():
            known = self.extremes.get(counter, (least, most))
            self.extremes[counter] = (min(known[0], least), max(known[1], most))
        for bucket, count in other.histograms.items():
            self.histograms[bucket] = self.histograms.get(bucket, 0) + count
        self.last_tick = max(self.last_tick, other.last_tick)


Sums = dict[bytes, JobSum]
"""By job."""


def park(stay: Stay, *, sure_reads: int = SURE_READS, unsure_reads: int = UNSURE_READS) -> Sums:
    """Let rows go whose lives are over; return what they added up to, which is in the stay no more.

    Nothing more comes of a mount that another one followed on the same boot: none of its rows is needed.
    """
    sums: Sums = {}
    for _, former in stay.mounts[:-1]:
        if former.jobs:
            _drop(former, np.arange(len(former.jobs)), sums)
    for _, state in stay.mounts[-1:]:
        rows = over(state, sure_reads=sure_reads, unsure_reads=unsure_reads)
        if len(rows):
            _drop(state, rows, sums)
    return sums


def over(state: MountState, *, sure_reads: int, unsure_reads: int) -> Integers:
    """Return the rows of records that are gone for good: what comes under the same name is another life.

    Records that print alike stay: which of them is gone is not known.
    """
    count = len(state.jobs)
    absent = state.absent[:count]
    is_over = (absent >= sure_reads) & state.surely_absent[:count]
    is_over |= absent >= unsure_reads
    return np.flatnonzero(is_over & ~state.is_twin[:count])


def hand_over(state: MountState, rows: Integers) -> Sums:
    """Return what rows added up to so far; they stay, and count from now on only what is more than that."""
    sums = _taken(state, rows)
    for row in rows.tolist():
        state.closed[row] = -state.value(row)
        for (column, power), count in state.histogram(row).items():
            bucket = (state.jobs[row], column, power)
            state.closed_histograms[bucket] = state.closed_histograms.get(bucket, 0) - count
    state.least[rows] = state.most[rows] = state.work_tick[rows] = NEVER
    return sums


def _drop(state: MountState, rows: Integers, sums: Sums) -> None:
    merge(sums, _taken(state, rows))
    state.drop(rows)


def merge(sums: Sums, more: Sums) -> None:
    """Add sums to others."""
    for job, done in more.items():
        sums.setdefault(job, JobSum()).add(done)


def _taken(state: MountState, rows: Integers) -> Sums:
    """Return what rows add up to; of lives that are over, histograms are by job and are taken out."""
    names = list(state.counters)
    samples, totals = (numbers[rows].tolist() for numbers in state.totals())
    least, most = state.least[rows].tolist(), state.most[rows].tolist()
    sums: Sums = {}
    for at, row in enumerate(rows.tolist()):
        values = zip(names, samples[at], totals[at], strict=True)
        ranges = zip(names, least[at], most[at], strict=True)
        done = JobSum(
            counters={name: (count, total) for name, count, total in values if count or total},
            extremes={name: (low, high) for name, low, high in ranges if high != NEVER},
            histograms={(*names[column], power): count for (column, power), count in state.histogram(row).items()},
            last_tick=int(state.work_tick[row]),
        )
        sums.setdefault(state.jobs[row], JobSum()).add(done)
    for bucket in [bucket for bucket in state.closed_histograms if bucket[0] in sums]:
        job, column, power = bucket
        count = state.closed_histograms.pop(bucket)
        sums[job].add(JobSum(histograms={(*names[column], power): count}))
    return sums
