"""What a sink that writes totals of jobs needs of a sweep: the jobs whose totals changed since the one before."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from harvest_aggregator.amounts import Amounts, plus
from harvest_aggregator.catalogue import MEASURES, Catalogue, Catalogues, Integers, Numbers, Part
from harvest_aggregator.jobs import operations
from harvest_aggregator.nodes import Nodes
from harvest_aggregator.published import Published
from harvest_aggregator.records import former_of
from harvest_core.accounting.mounts import NEVER
from harvest_core.accounting.sweeps import ClosedTable
from harvest_core.accounting.totals import RESTORED, Counter, JobWork
from harvest_core.jobs.identity import Identity, JobName

BEGINNING: Final = NEVER - 1
"""Before every tick: all jobs are new since then, also those of which no sweep of ours showed that they changed."""
OLDEST_SECONDS: Final = 3600
"""Nobody needs to be told what a job had done longer ago than this."""
Json = dict[str, Any]
Did = Mapping[str, tuple[int, int]]
"""(samples, sum) by operation."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Jobs that changed on one kind of target of a file system."""

    filesystem: str
    kind: str
    jobs: Sequence[Identity]
    seconds: Integers
    """When each was last at work."""
    measures: Integers
    """Totals, a column for each measure."""
    counters: tuple[Counter, ...]
    """None unless operations are asked for."""
    samples: Integers
    """Totals, a column for each counter."""
    sums: Integers


@dataclass(frozen=True, slots=True, eq=False)
class TargetRows:
    """Jobs that were at work on one target."""

    filesystem: str
    kind: str
    target: str
    jobs: Sequence[Identity]
    rates: Numbers
    """Per second, a column for each measure."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changes:
    """One sweep, as far as it is new."""

    tick_seconds: int
    since_tick: int = BEGINNING
    """All that changed after this one is in it."""
    rows: tuple[Rows, ...] = ()
    targets: tuple[TargetRows, ...] = ()
    nodes: Nodes | None = None
    earlier: Mapping[JobName, Amounts] = field(default_factory=dict)
    """What earlier runs did of jobs that changed: it is in the rows, too."""
    former: Mapping[JobName, Json] = field(default_factory=dict)
    """Records of the present runs of such jobs: what they hold is in no row."""

    @property
    def size(self) -> int:
        """How many jobs and nodes wait in it."""
        jobs = sum(len(rows.jobs) for rows in self.rows) + sum(len(rows.jobs) for rows in self.targets)
        return jobs + (0 if self.nodes is None else len(self.nodes.nodes))


class Total(NamedTuple):
    """What a job had done in its present run on one kind of target of a file system, as the API shows it."""

    filesystem: str
    kind: str
    job: Identity
    seconds: int
    measures: tuple[int, ...]
    operations: Did


class ChangeLog:
    """Finds what is new in sweep after sweep. Used by one thread."""

    def __init__(self, interval_seconds: int, *, operations: bool, targets: bool, clients: bool) -> None:
        self._interval_seconds = interval_seconds
        self._wants_operations = operations
        self._wants_targets = targets
        self._wants_clients = clients
        self._catalogues = Catalogues()
        self._tick_seconds = BEGINNING
        self._first_tick: int | None = None
        """In which all that was restored is new."""
        self._nodes_tick_seconds = 0

    def changes(self, published: Published, since_tick: int | None = None) -> Changes:
        """Return what is new since this was last asked for, or since an earlier tick."""
        before, tick = self._tick_seconds, published.tick_seconds or 0
        since = before if since_tick is None else since_tick
        self._tick_seconds = tick
        self._first_tick = published.first_tick
        catalogue = self._catalogues.of(published.closed, published.identities)
        rows = tuple(self._rows(catalogue, part, since, before, tick) for part in catalogue.parts)
        is_here = _who(catalogue, since)
        return Changes(
            tick_seconds=tick,
            since_tick=since,
            rows=rows,
            targets=tuple(_target_rows(catalogue)) if self._wants_targets else (),
            nodes=self._nodes(published) if self._wants_clients else None,
            earlier=_earlier(published, is_here),
            former={
                name: former
                for name, records in published.before.items()
                if is_here(name) and (former := former_of(published.starts.get(name), records)) is not None
            },
        )

    def _rows(self, catalogue: Catalogue, part: Part, since: int, before: int, tick: int) -> Rows:
        table, wanted = part.table, slice(None if self._wants_operations else 0)
        rows = np.flatnonzero(table.changed_tick > since)
        as_of, seconds = self._times(table, rows, before)
        if before == BEGINNING:  # nobody knows what was written
            as_of = np.full(len(rows), tick)
        young = seconds > as_of - OLDEST_SECONDS
        rows, seconds = rows[young], seconds[young]
        seconds[seconds <= tick - OLDEST_SECONDS] = tick  # sweeps were dropped for so long
        return Rows(
            part.filesystem,
            part.kind,
            [catalogue.jobs[number] for number in part.job[rows].tolist()],
            seconds,
            np.stack([part.measured(measure, rates=False, rows=rows) for measure in MEASURES], axis=1),
            table.counters[wanted],
            table.samples[:, wanted][rows],
            table.sums[:, wanted][rows],
        )

    def _times(self, table: ClosedTable, rows: Integers, before: int) -> tuple[Integers, Integers]:
        """Return by which sweep it was known what some jobs had done, and when each of them was last at work.

        That is the newest time that any server gave for it, if it can be: not after that sweep, and after the one
        before, unless nobody had seen the job then. Clocks may be wrong, and what comes late was done long ago: then it
        is the tick of the sweep. So the times of a job's totals grow with them, and whoever begins anew, and does not
        know what was written, writes the same again.
        """
        told, changed, first = table.snapshot_seconds[rows], table.changed_tick[rows], table.first_tick[rows]
        is_restored = (first == RESTORED) & (changed == self._first_tick)
        as_of = np.where(is_restored, table.last_tick[rows], changed)
        after = np.where(
            ~is_restored & (changed > before) & (before > BEGINNING), before, as_of - self._interval_seconds
        )
        after[first == changed] = NEVER
        return as_of, np.where((told > after) & (told <= as_of), told, as_of)

    def _nodes(self, published: Published) -> Nodes | None:
        """Return the nodes if they were read anew."""
        nodes = published.nodes
        if nodes is None or nodes.tick_seconds <= self._nodes_tick_seconds:
            return None
        self._nodes_tick_seconds = nodes.tick_seconds
        return nodes


def _who(catalogue: Catalogue, since: int) -> Callable[[JobName], bool]:
    """Return what tells whether a job changed."""
    changed = np.zeros(catalogue.count, np.bool_)
    for part in catalogue.parts:
        changed[part.job] |= part.table.changed_tick > since
    return lambda name: (number := catalogue.number.get(name)) is not None and bool(changed[number])


def _earlier(published: Published, is_here: Callable[[JobName], bool]) -> dict[JobName, Amounts]:
    """Return what earlier runs of some jobs did; one may have several ids."""
    found: dict[JobName, Amounts] = {}
    for key, amounts in published.earlier.items():
        name = published.identities.of(*key).name
        if is_here(name):
            found[name] = plus(found[name], amounts) if name in found else amounts
    return found


def _target_rows(catalogue: Catalogue) -> Iterator[TargetRows]:
    for place in catalogue.closed.work:
        for part in catalogue.at([place]).parts:
            jobs = [catalogue.jobs[number] for number in part.job.tolist()]
            rates = [part.measured(measure, rates=True) for measure in MEASURES]
            yield TargetRows(place.filesystem, place.kind, place.target, jobs, np.stack(rates, axis=1))


def totals(changes: Changes) -> Iterator[Total]:
    """Yield what jobs had done, one by one: without their earlier runs, with what is in their records."""
    for rows in changes.rows:
        place = (rows.filesystem, rows.kind)
        numbers = (rows.seconds.tolist(), rows.measures.tolist(), rows.samples.tolist(), rows.sums.tolist())
        for job, seconds, measures, samples, sums in zip(rows.jobs, *numbers, strict=True):
            if job.name in changes.earlier and (earlier := changes.earlier[job.name].get(place)) is not None:
                _take_away(earlier, rows.counters, measures, samples, sums)
            did = _by_operation(rows.counters, samples, sums) if samples else {}
            total = Total(rows.filesystem, rows.kind, job, seconds, tuple(measures), did)
            yield _with_former(total, changes.former[job.name]) if job.name in changes.former else total


def _take_away(
    earlier: Mapping[Counter, tuple[int, int]],
    counters: tuple[Counter, ...],
    measures: list[int],
    samples: list[int],
    sums: list[int],
) -> None:
    """Take what earlier runs of a job did from its totals."""
    did = JobWork(counters=earlier)
    for place, measure in enumerate(MEASURES):
        measures[place] -= getattr(did, measure)
    for column, counter in enumerate(counters):
        count, amount = earlier.get(counter, (0, 0))
        samples[column] -= count
        sums[column] -= amount


def _by_operation(counters: tuple[Counter, ...], samples: list[int], sums: list[int]) -> Did:
    return {
        name: did
        for name, one in operations(counters).items()
        if any(did := (sum(samples[column] for column in one.columns), sum(sums[column] for column in one.summed)))
    }


def _with_former(total: Total, record: Json) -> Total:
    """Return a total with what the job had done when its record was written."""
    work = record["filesystems"].get(total.filesystem, {}).get(total.kind.lower())
    if work is None:
        return total
    measures = tuple(own + work[name] for name, own in zip(MEASURES, total.measures, strict=True))
    did = {name: (one["samples"], one["sum"]) for name, one in work["ops"].items()} if total.operations else {}
    for name, (samples, amount) in total.operations.items():
        before = did.get(name, (0, 0))
        did[name] = (before[0] + samples, before[1] + amount)
    return total._replace(measures=measures, operations=did)
