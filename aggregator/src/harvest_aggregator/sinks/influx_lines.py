"""What InfluxDB is told of a sweep, in its line protocol. Pure."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from harvest_aggregator.answers import printed
from harvest_aggregator.catalogue import MEASURES
from harvest_aggregator.nodes import Nodes, Rates
from harvest_aggregator.people import array_name, person_of
from harvest_aggregator.sinks.changes import OLDEST_SECONDS, Changes, TargetRows, Total, totals
from harvest_aggregator.slurm import ClusterFacts
from harvest_core.facts import MDT, OST
from harvest_core.jobs.identity import Identity, JobName

_SERVERS: Final = {OST: "oss", MDT: "mds"}
"""As jobHarvest calls the two kinds."""
_HELD_MOST: Final = 100_000
_ESCAPES: Final = str.maketrans(
    {**{chr(code): f"\\x{code:02x}" for code in (*range(32), 0x5C, 0x7F)}, " ": "\\ ", ",": "\\,", "=": "\\="}
)
"""The first have no place in a line; a backslash would take the sign behind it with it."""


_SUFFIX: Final = {int: "i", float: ""}


class Measurement(NamedTuple):
    """One kind of points."""

    name: str
    detail: str | None
    """By which it is asked for; nothing: always."""
    tags: tuple[str, ...]
    fields: tuple[str, ...]


def _per_second(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{name}_per_second" for name in names)


JOBS: Final = Measurement("lustre", None, ("job", "fs", "server"), tuple(MEASURES))
OPERATIONS: Final = Measurement("lustre_op", "op", (*JOBS.tags, "op"), ("samples", "sum"))
TARGETS: Final = Measurement("lustre_target", "target", (*JOBS.tags, "target"), _per_second(MEASURES))
CLIENTS: Final = Measurement("lustre_client", "client", ("host", "cluster", "fs"), _per_second(Rates._fields))
MEASUREMENTS: Final = (JOBS, OPERATIONS, TARGETS, CLIENTS)

Clusters = Mapping[str, ClusterFacts]


class _Told(Enum):
    """Whether a job can be written."""

    YES = auto()
    NOT_YET = auto()
    """Slurm has not named it: a task of an array would be written under two names."""
    NEVER = auto()


class Lines:
    """Makes the points of one sweep after the other; those of jobs that have no name yet are held until they have."""

    def __init__(self, detail: Collection[str], *, clusters: bool) -> None:
        """Tell jobs of several clusters apart by a tag, or not."""
        self._detail = frozenset(detail)
        self._with_cluster = clusters
        self._held: dict[JobName, list[Total]] = {}
        self._count = 0

    def of(self, changes: Changes, clusters: Clusters) -> Iterator[str]:
        """Yield the points of a sweep, and those of earlier ones that are named now."""
        for total in self._named(changes, clusters):
            yield from self._total(total, clusters)
        for rows in changes.targets:
            yield from self._target(rows, changes.tick_seconds, clusters)
        if changes.nodes is not None:
            yield from _nodes(changes.nodes)

    def _named(self, changes: Changes, clusters: Clusters) -> Iterator[Total]:
        for name, some in list(self._held.items()):
            told = self._told(some[0].job, clusters)
            is_old = some[-1].seconds <= changes.tick_seconds - OLDEST_SECONDS
            if told is not _Told.NOT_YET or is_old:
                del self._held[name]
                self._count -= len(some)
                yield from some if told is _Told.YES else ()
        for total in totals(changes):
            told = self._told(total.job, clusters)
            if told is _Told.YES:
                yield total
            elif told is _Told.NOT_YET:
                self._hold(total)

    def _hold(self, total: Total) -> None:
        self._held.setdefault(total.job.name, []).append(total)
        self._count += 1
        if self._count > _HELD_MOST:
            self._count -= len(self._held.pop(next(iter(self._held))))

    def _told(self, job: Identity, clusters: Clusters) -> _Told:
        if job.process is not None:
            return _Told.YES if "process" in self._detail else _Told.NEVER
        facts = clusters.get(job.name.cluster)
        if facts is None or job.number is None or job.number in facts.jobs:
            return _Told.YES
        return _Told.NEVER if job.number in facts.unknown else _Told.NOT_YET

    def _tags(self, job: Identity, clusters: Clusters, filesystem: str, kind: str) -> dict[str, str]:
        facts = clusters.get(job.name.cluster)
        known = None if facts is None or job.number is None else facts.jobs.get(job.number)
        name = (array_name(known) if known is not None else None) or printed(job.name.job)
        tags = {"fs": _escaped(filesystem), "job": _escaped(name or "unknown"), "server": _SERVERS[kind]}
        if self._with_cluster:
            tags["cluster"] = _escaped(job.name.cluster)
        if "user" in self._detail:
            person = person_of(known, job, clusters)
            tags |= {key: _escaped(who) for key in ("user", "account") if (who := getattr(person, key))}
        return tags

    def _total(self, total: Total, clusters: Clusters) -> Iterator[str]:
        tags = self._tags(total.job, clusters, total.filesystem, total.kind)
        fields = dict(zip(JOBS.fields, total.measures, strict=True))
        if total.kind == MDT:  # which have no data, mostly
            fields = {name: value for name, value in fields.items() if value or name == "iops"}
        yield _line(JOBS, tags, fields, total.seconds)
        for name, did in total.operations.items():
            yield _line(
                OPERATIONS,
                {**tags, "op": _escaped(name)},
                dict(zip(OPERATIONS.fields, did, strict=True)),
                total.seconds,
            )

    def _target(self, rows: TargetRows, seconds: int, clusters: Clusters) -> Iterator[str]:
        for job, rates in zip(rows.jobs, rows.rates.tolist(), strict=True):
            if self._told(job, clusters) is _Told.YES and any(rates):
                tags = self._tags(job, clusters, rows.filesystem, rows.kind)
                fields = dict(zip(TARGETS.fields, rates, strict=True))
                yield _line(TARGETS, {**tags, "target": rows.target}, fields, seconds)


def _nodes(nodes: Nodes) -> Iterator[str]:
    for node in nodes.nodes:
        for filesystem, rates in node.filesystems.items() if node.is_live else ():
            fields = {
                name: rate
                for name, rate in zip(CLIENTS.fields, rates, strict=True)
                if rate is not None and math.isfinite(rate)
            }
            if fields:
                tags = {"host": _escaped(node.host), "fs": _escaped(filesystem)}
                if node.cluster:
                    tags["cluster"] = _escaped(node.cluster)
                yield _line(CLIENTS, tags, fields, nodes.tick_seconds)


def _line(measurement: Measurement, tags: Mapping[str, str], fields: Mapping[str, float], seconds: int) -> str:
    named = ",".join([f"{name}={tags[name]}" for name in sorted(tags)])
    counted = ",".join([f"{name}={fields[name]}{_SUFFIX[type(fields[name])]}" for name in sorted(fields)])
    return f"{measurement.name},{named} {counted} {seconds}"


def _escaped(text: str) -> str:
    return text if text.isalnum() else text.translate(_ESCAPES)  # mostly it is a number
