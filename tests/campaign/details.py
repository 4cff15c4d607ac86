"""Minimum, maximum and histogram of every counter: the simulator's, as they were shown, beside the accounting's."""

from collections.abc import Iterable

from harvest_core.accounting.apply import Stay
from harvest_core.accounting.parking import Sums
from harvest_sim.lives import Life

Counter = tuple[str, bytes, str, str]
"""(kind, job, counter, unit)."""
Extremes = dict[Counter, tuple[int, int]]
Histograms = dict[tuple[Counter, int], int]
"""How many in each bucket."""
Details = tuple[Extremes, Histograms]


def details_of(life: Life) -> Details:
    """Return what a reader that is served now sees of a life."""
    extremes: Extremes = {}
    histograms: Histograms = {}
    for index, counter in life.counters.items():
        op = life.ops[index]
        key = (life.scope.kind.name, life.readable_key, op.name, op.unit)
        if op.has_values:
            extremes[key] = (counter.minimum, counter.maximum)
        histograms |= {(key, power): count for power, count in counter.hist.items()}
    return extremes, histograms


def shown(details: Iterable[Details]) -> Details:
    """Put together what was shown of all lives."""
    extremes: Extremes = {}
    histograms: Histograms = {}
    for some_extremes, some_histograms in details:
        for key, (low, high) in some_extremes.items():
            least, most = extremes.get(key, (low, high))
            extremes[key] = (min(least, low), max(most, high))
        for place, count in some_histograms.items():
            histograms[place] = histograms.get(place, 0) + count
    return extremes, histograms


def accounted(stays: dict[tuple[str, str], Stay], parked: dict[str, Sums]) -> Details:
    """Return what the accounting has."""
    parts: list[Details] = []
    for (target, _), stay in stays.items():
        kind = "OST" if "OST" in target else "MDT"
        for _, mount in stay.mounts:
            names = list(mount.counters)
            extremes = {
                (kind, job, *name): pair
                for job in set(mount.jobs)
                for at, name in enumerate(names)
                if (pair := mount.extremes(job, at)) is not None
            }
            closed = {((kind, job, *names[at]), power): n for (job, at, power), n in mount.closed_histograms.items()}
            parts += [(extremes, closed)]
            parts += [
                ({}, {((kind, mount.jobs[row], *names[at]), power): count})
                for row in range(len(mount.jobs))
                for (at, power), count in mount.histogram(row).items()
            ]
    for target, sums in parked.items():
        for job, done in sums.items():
            key = ("OST" if "OST" in target else "MDT", job)
            extremes = {(*key, *name): pair for name, pair in done.extremes.items()}
            parts.append((extremes, {((*key, name, unit), p): n for (name, unit, p), n in done.histograms.items()}))
    return shown(parts)
