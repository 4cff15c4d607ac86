"""From a closed sweep to what is known of targets, and of jobs on each of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harvest_aggregator.catalogue import Catalogue, Integers
from harvest_aggregator.jobs import operations
from harvest_aggregator.people import People
from harvest_aggregator.published import Published, TargetTotals
from harvest_aggregator.showing import Column
from harvest_aggregator.sinks.prometheus_series import NO_TOTALS, Done, Picture, Series, Subject, Totals
from harvest_core.accounting.sweeps import Place
from harvest_core.accounting.totals import Counter, counts_operations, counts_read_bytes, counts_written_bytes
from harvest_core.jobs.identity import JobName
from harvest_core.jobs.life import Life

READ, WRITE, OPERATIONS, OPS, SECONDS = "read_bytes", "write_bytes", "operations", "ops", "op_seconds"
"""What is counted; of the last, millionths of it are."""
_SAMPLES, _SUMS = "samples", "sums"
_MICROSECONDS: Final = {"usecs": 1, "secs": 1_000_000}

Floats = NDArray[np.float64]


class _Metric(NamedTuple):
    """How a number is made of a target's counters."""

    name: str
    operation: str
    table: str
    factors: tuple[tuple[int, int], ...]
    """Which columns of it, each times what."""


@lru_cache(maxsize=256)
def _metrics(counters: tuple[Counter, ...]) -> tuple[_Metric, ...]:
    """Return all that is counted of a target."""

    def those(counts: Callable[[Counter], bool]) -> tuple[tuple[int, int], ...]:
        return tuple((at, 1) for at, counter in enumerate(counters) if counts(counter))

    by_name = operations(counters)
    times = {
        name: tuple((at, _MICROSECONDS[counters[at][1]]) for at in one.columns if counters[at][1] in _MICROSECONDS)
        for name, one in by_name.items()
    }
    return (
        _Metric(READ, "", _SUMS, those(counts_read_bytes)),
        _Metric(WRITE, "", _SUMS, those(counts_written_bytes)),
        _Metric(OPERATIONS, "", _SAMPLES, those(counts_operations)),
        *(_Metric(OPS, name, _SAMPLES, tuple((at, 1) for at in one.columns)) for name, one in by_name.items()),
        *(_Metric(SECONDS, name, _SUMS, factors) for name, factors in times.items() if factors),
    )


@lru_cache(maxsize=256)
def _job_metrics(counters: tuple[Counter, ...]) -> tuple[_Metric, ...]:
    """Return what is shown of a job: operations alone that are no part of anything else that is counted."""
    counted = {counter[0] for counter in counters if counts_operations(counter)}
    of_jobs = {READ, WRITE, OPS}
    return tuple(
        one for one in _metrics(counters) if one.name in of_jobs and (one.name != OPS or one.operation in counted)
    )


def _measured(metrics: Sequence[_Metric], samples: Integers, sums: Integers) -> Integers:
    """Return every metric of each row."""
    measured = np.zeros((len(samples), len(metrics)), np.int64)
    for at, metric in enumerate(metrics):
        for column, factor in metric.factors:
            measured[:, at] += (sums if metric.table == _SUMS else samples)[:, column] * factor
    return measured


def _where(place: Place) -> tuple[str, str, str]:
    return place.filesystem, place.kind.lower(), place.target


def _of_all(totals: TargetTotals, metrics: Sequence[_Metric]) -> list[int]:
    numbers: list[int] = _measured(metrics, totals.samples[np.newaxis], totals.sums[np.newaxis])[0].tolist()
    return numbers


def gathered(parts: Iterable[tuple[Integers, Sequence[int], Integers]]) -> Totals:
    """Return tables of totals, each with its subjects' and columns' numbers, as one; what is 0 is left out."""
    found = []
    for subjects, columns, table in parts:
        row, column = np.nonzero((table > 0) & (subjects >= 0)[:, np.newaxis])
        found.append((subjects[row], np.array(columns, np.int64)[column], table[row, column]))
    return Totals(*(np.concatenate(numbers) for numbers in zip(*found, strict=True))) if found else NO_TOTALS


def numbers_of(series: Series, subjects: Iterable[Subject]) -> Integers:
    """Return the numbers of subjects; -1 of those that are not shown."""
    return np.fromiter(map(series.number, subjects), np.int64)


# --- targets ---


def targets(by_target: Mapping[Place, TargetTotals]) -> Picture:
    """Return what was done on each target; a column is (metric, operation)."""

    def totals(series: Series) -> Totals:
        return gathered(
            (
                numbers_of(series, [_where(place)]),
                [series.column((metric.name, metric.operation)) for metric in _metrics(mine.counters)],
                np.array([_of_all(mine, _metrics(mine.counters))], np.int64),
            )
            for place, mine in by_target.items()
        )

    return Picture(
        totals=totals,
        everybody={},
        new=[_where(place) for place in by_target],
        is_over=lambda _: False,
        begin=lambda _: {},
        scopes=frozenset(),
        scope=lambda _: "",
    )


# --- jobs ---


ByTarget = Mapping[Place, TargetTotals]
Watch = Callable[[Sequence[JobName]], ByTarget]
"""Watches jobs from now on, and returns what they did until now."""


class Names(NamedTuple):
    """How jobs are called."""

    naming: str
    renamed: Callable[[], Sequence[ByTarget]]
    """Returns what those that are shown had done when it was changed: by the former names, and by the new ones."""


def jobs(by_target: ByTarget, crowd: "Crowd", watch: Watch, names: Names, *, everybody: bool) -> Picture:
    """Return what jobs did on each target; a column is (file system, component, target, metric, operation)."""

    def renamed(series: Series) -> tuple[Totals, Totals]:
        then, now = names.renamed()
        return _job_totals(then, series), _job_totals(now, series)

    return Picture(
        totals=lambda series: _job_totals(by_target, series),
        naming=names.naming,
        renamed=renamed,
        everybody={
            (*_where(place), metric.name, metric.operation): total
            for place, mine in by_target.items()
            for metric, total in zip(
                _job_metrics(mine.counters), _of_all(mine, _job_metrics(mine.counters)), strict=True
            )
        },
        new=dict.fromkeys(chain.from_iterable(mine.jobs for mine in by_target.values())) if everybody else crowd.jobs(),
        is_over=crowd.is_over,
        begin=lambda subjects: _done(watch([name for name in subjects if isinstance(name, JobName)])),
        scopes=frozenset(" ".join(_where(place)) for place in by_target),
        scope=lambda column: " ".join(column[:3]),
    )


def _job_totals(by_target: ByTarget, series: Series) -> Totals:
    return gathered(
        (numbers_of(series, mine.jobs), [series.column(column) for column in columns], table)
        for mine, columns, table in _job_tables(by_target)
    )


def _done(by_target: ByTarget) -> Done:
    """Return what every job did that is in there."""
    found: dict[Subject, dict[Column, int]] = {}
    for mine, columns, table in _job_tables(by_target):
        for name, totals in zip(mine.jobs, table.tolist(), strict=True):
            found.setdefault(name, {}).update((at, total) for at, total in zip(columns, totals, strict=True) if total)
    return found


def _job_tables(by_target: ByTarget) -> Iterator[tuple[TargetTotals, list[Column], Integers]]:
    for place, mine in by_target.items():
        metrics = _job_metrics(mine.counters)
        columns: list[Column] = [(*_where(place), metric.name, metric.operation) for metric in metrics]
        yield mine, columns, _measured(metrics, mine.job_samples, mine.job_sums)


class Crowd:
    """The jobs of a sweep: who of them is busy, and who is over."""

    def __init__(self, published: Published, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.people = People(published, catalogue)

    def jobs(self) -> Iterator[JobName]:
        """Return those who do something now and are not over, the busiest first."""
        rates = np.zeros((2, self.catalogue.count))
        for part in self.catalogue.parts:
            for measure, of in RATED.items():
                rates[of, part.job] += part.measured(measure, rates=True)
        for number in busiest(rates):
            name = self.catalogue.jobs[number].name
            if not self.is_over(name):
                yield name

    def is_over(self, subject: Subject) -> bool:
        """Tell whether a job has ended, or is not there any more."""
        assert isinstance(subject, JobName)  # noqa: S101 - there are no others here
        number = self.catalogue.number.get(subject)
        return number is None or self.people.state(number) is Life.ENDED


RATED: Final = {"read_bytes": 0, "write_bytes": 0, "iops": 1}


def busiest(rates: Floats) -> Iterator[int]:
    """Return who does anything, the busiest first: by the first of two rates and by the second in turn."""
    orders = [np.argsort(-rate, kind="stable")[: np.count_nonzero(rate > 0)].tolist() for rate in rates]
    found = chain.from_iterable(zip_longest(*orders))
    yield from dict.fromkeys(number for number in found if number is not None)
