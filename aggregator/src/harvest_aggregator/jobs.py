"""Jobs as the API shows them."""

from collections import Counter as Sums
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from harvest_aggregator.answers import printed
from harvest_aggregator.catalogue import MEASURES, Catalogue, Integers, Numbers, Part, added
from harvest_aggregator.people import People
from harvest_aggregator.published import InDoubt, Published
from harvest_aggregator.records import with_former
from harvest_core.accounting.mounts import NEVER
from harvest_core.accounting.totals import Counter, counts_read_bytes, counts_written_bytes
from harvest_core.jobs.identity import JobName

Json = dict[str, Any]

_COUNTED: Final = "reqs"
"""A unit whose sum says nothing that its samples do not."""
NOTHING: Final[Json] = {**dict.fromkeys(MEASURES, 0), "rates": dict.fromkeys(MEASURES, 0.0), "ops": {}}


class Operation(NamedTuple):
    """Where in a table an operation is counted: servers of different versions count it under several units."""

    columns: tuple[int, ...]
    summed: tuple[int, ...]
    """Those whose sums can be added."""


@lru_cache(maxsize=256)
def operations(counters: tuple[Counter, ...]) -> Mapping[str, Operation]:
    """Return the operations of a table by name; data has one name for all versions."""
    groups: dict[str, list[int]] = {}
    for column, counter in enumerate(counters):
        groups.setdefault(_name(counter), []).append(column)
    return {
        name: Operation(tuple(columns), tuple(c for c in columns if counters[c][1] != _COUNTED) or tuple(columns))
        for name, columns in groups.items()
    }


def _name(counter: Counter) -> str:
    if counts_read_bytes(counter):
        return "read_bytes"
    return "write_bytes" if counts_written_bytes(counter) else counter[0]


def jobs(
    published: Published,
    catalogue: Catalogue,
    chosen: Integers,
    filesystem: str | None = None,
    here: Catalogue | None = None,
) -> list[Json]:
    """Return jobs with all that is known of them, on all file systems or on one; also what they do on some targets."""
    parts = catalogue.only(filesystem)
    people = People(published, catalogue)
    marks = _Marks(published, catalogue, {part.filesystem for part in parts})
    shown = [_job(number, catalogue.jobs[number].name, people, marks) for number in chosen.tolist()]
    for part in parts:
        rows = part.row[chosen]
        there = np.flatnonzero(rows >= 0)
        for place, work in zip(there.tolist(), _work(part, rows[there]), strict=True):
            on = shown[place]["filesystems"].setdefault(part.filesystem, {"ost": NOTHING, "mdt": NOTHING})
            on[part.kind.lower()] = work
    for job, tick in zip(shown, _last_ticks(parts, chosen), strict=True):
        job["last_tick_seconds"] = tick
    if here is not None:
        for job, rates in zip(shown, _here(here, chosen), strict=True):
            job["here"] = rates
    if published.before:
        names = [catalogue.jobs[number].name for number in chosen.tolist()]
        shown = [with_former(job, published.before.get(name, ())) for name, job in zip(names, shown, strict=True)]
    return shown


def _last_ticks(parts: Iterable[Part], chosen: Integers) -> list[int | None]:
    """Return when jobs last did anything on any of these kinds of target."""
    ticks = np.full(len(chosen), NEVER, np.int64)
    for part in parts:
        rows = part.row[chosen]
        there = np.flatnonzero(rows >= 0)
        ticks[there] = np.maximum(ticks[there], part.table.last_tick[rows[there]])
    return [None if tick == NEVER else tick for tick in ticks.tolist()]


def _here(catalogue: Catalogue, chosen: Integers) -> list[Json]:
    """Return what jobs did per second on the targets that the catalogue is of, and how often every operation."""
    shown: list[Json] = [{**dict.fromkeys(MEASURES, 0.0), "ops": Sums()} for _ in range(len(chosen))]
    for part in catalogue.parts:
        rows = part.row[chosen]
        there = np.flatnonzero(rows >= 0)
        measured = [part.measured(measure, rates=True, rows=rows[there]).tolist() for measure in MEASURES]
        by_name = operations(part.table.counters)
        counts = _grouped(part.table.sample_rates[rows[there]], [one.columns for one in by_name.values()])
        for place, rates, ops in zip(there.tolist(), zip(*measured, strict=True), counts, strict=True):
            for measure, rate in zip(MEASURES, rates, strict=True):
                shown[place][measure] += rate
            shown[place]["ops"].update({name: count for name, count in zip(by_name, ops, strict=True) if count})
    return shown


class _Marks:
    """What could not be known of jobs on some file systems."""

    def __init__(self, published: Published, catalogue: Catalogue, filesystems: Collection[str]) -> None:
        self.flagged: dict[JobName, InDoubt] = {}
        self.incomplete: set[JobName] = set()
        for (filesystem, job), doubt in published.flagged.items():
            if filesystem in filesystems:
                name = catalogue.identities.of(filesystem, job).name
                self.flagged[name] = self.flagged.get(name, InDoubt()).plus(doubt)
        for filesystem, job in published.incomplete:
            if filesystem in filesystems:
                self.incomplete.add(catalogue.identities.of(filesystem, job).name)


def _job(number: int, name: JobName, people: People, marks: _Marks) -> Json:
    doubt = marks.flagged.get(name, InDoubt())
    return {
        "job": printed(name.job),
        "cluster": name.cluster,
        **people.shown(number),
        "complete": name not in marks.incomplete,
        "late": False,
        "ambiguous_resets": doubt.resets,
        "ambiguous_bytes": doubt.bytes,
        "ambiguous_samples": doubt.samples,
        "last_tick_seconds": None,
        "filesystems": {},
    }


def _work(part: Part, rows: Integers) -> list[Json]:
    """Return what jobs did on one kind of target."""
    totals = [part.measured(measure, rates=False, rows=rows).tolist() for measure in MEASURES]
    rates = [part.measured(measure, rates=True, rows=rows).tolist() for measure in MEASURES]
    by_name = operations(part.table.counters)
    samples = _grouped(part.table.samples[rows], [operation.columns for operation in by_name.values()])
    sums = _grouped(part.table.sums[rows], [operation.summed for operation in by_name.values()])
    return [
        {
            **dict(zip(MEASURES, total, strict=True)),
            "rates": dict(zip(MEASURES, rate, strict=True)),
            "ops": {
                name: {"samples": count, "sum": amount}
                for name, count, amount in zip(by_name, counts, amounts, strict=True)
                if count or amount
            },
        }
        for total, rate, counts, amounts in zip(
            zip(*totals, strict=True), zip(*rates, strict=True), samples, sums, strict=True
        )
    ]


def _grouped(values: Numbers, groups: Iterable[tuple[int, ...]]) -> Iterable[tuple[int, ...]]:
    """Return, by row, the sum of each group of columns."""
    sums = [added(values, columns).tolist() for columns in groups]
    return zip(*sums, strict=True) if sums else [()] * len(values)
