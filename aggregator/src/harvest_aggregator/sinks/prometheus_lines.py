"""Counters as lines of text: how the series of each kind of subject are called."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from harvest_aggregator.answers import printed
from harvest_aggregator.showing import Column
from harvest_aggregator.sinks.prometheus_families import OTHER as OTHERS
from harvest_aggregator.sinks.prometheus_series import OTHER, Series, Shown, Subject
from harvest_aggregator.sinks.prometheus_text import Block, labelled
from harvest_aggregator.sinks.prometheus_totals import OPERATIONS, OPS, READ, SECONDS, WRITE
from harvest_core.jobs.identity import JobName

_MICRO: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of subject is called."""

    families: Mapping[str, str]
    """By metric."""
    column: Callable[[Column], tuple[str, Mapping[str, str]]]
    """Returns the metric of a column, and its labels."""
    subject: Callable[[Subject, tuple[str, ...]], Mapping[str, str]]
    """Returns the labels of a subject, by itself and by what it is called."""


def _target_column(column: Column) -> tuple[str, Mapping[str, str]]:
    metric, operation = column
    return metric, {"operation": operation}


def _target(subject: Subject, _: tuple[str, ...]) -> Mapping[str, str]:
    assert isinstance(subject, tuple)  # noqa: S101 - this and the following: each kind has its own
    return dict(zip(("fs", "component", "target"), subject, strict=True))


def _job_column(column: Column) -> tuple[str, Mapping[str, str]]:
    filesystem, component, target, metric, operation = column
    return metric, {"fs": filesystem, "component": component, "target": target, "operation": operation}


def _job(subject: Subject, _: tuple[str, ...]) -> Mapping[str, str]:
    if subject == OTHER:
        return {"jobid": OTHERS}
    assert isinstance(subject, JobName)  # noqa: S101
    return {"cluster": subject.cluster, "jobid": printed(subject.job)}


def _client_column(column: Column) -> tuple[str, Mapping[str, str]]:
    filesystem, metric, component = column
    return metric, {"fs": filesystem, "component": component}


def _client(subject: Subject, labels: tuple[str, ...]) -> Mapping[str, str]:
    if subject == OTHER:
        return {"host": OTHERS}
    host, cluster = labels
    return {"host": host, "cluster": cluster, "nid": str(subject)}


def _user_column(column: Column) -> tuple[str, Mapping[str, str]]:
    filesystem, cluster, metric, component = column
    return metric, {"fs": filesystem, "cluster": cluster, "component": component}


def _user(subject: Subject, _: tuple[str, ...]) -> Mapping[str, str]:
    assert isinstance(subject, tuple)  # noqa: S101
    account, user = subject or (OTHERS, OTHERS)
    return {"account": account, "user": user}


TARGETS: Final = Kind(
    {metric: f"harvest_target_{metric}_total" for metric in (READ, WRITE, OPERATIONS, OPS, SECONDS)},
    _target_column,
    _target,
)
FILESYSTEMS: Final = {metric: f"harvest_filesystem_{metric}_total" for metric in TARGETS.families}
JOBS: Final = Kind(
    {
        READ: "lustre_job_read_bytes_total",
        WRITE: "lustre_job_write_bytes_total",
        OPS: "lustre_job_stats_total",
    },
    _job_column,
    _job,
)
CLIENTS: Final = Kind(
    {metric: f"harvest_client_{metric}_total" for metric in (READ, WRITE, OPERATIONS)}, _client_column, _client
)
USERS: Final = Kind(
    {metric: f"harvest_user_{metric}_total" for metric in (READ, WRITE, OPERATIONS)}, _user_column, _user
)


@dataclass(slots=True)
class Writer:
    """Writes the counters of one kind; what each is called is worked out once."""

    kind: Kind
    _heads: list[tuple[str, str]] = field(default_factory=list)
    """Of every column: its metric, and how a line of it begins."""
    _names: dict[int, str] = field(default_factory=dict)
    """Of every subject: how a line of it goes on."""

    def blocks(self, series: Series, shown: Shown) -> list[Block]:
        """Return all that is shown."""
        for column in series.columns[len(self._heads) :]:
            metric, labels = self.kind.column(column)
            before = labelled(tuple(labels), tuple(labels.values()))
            self._heads.append((metric, f"{self.kind.families[metric]}{{{before}{',' if before else ''}"))
        self._names = {number: self._name(series, number) for number in np.unique(shown.subject).tolist()}
        lines: dict[str, list[str]] = {metric: [] for metric in self.kind.families}
        for subject, column, value in zip(*(numbers.tolist() for numbers in shown), strict=True):
            metric, head = self._heads[column]
            lines[metric].append(f"{head}{self._names[subject]}}} {written(metric, value)}\n")
        return [(self.kind.families[metric], "".join(some).encode()) for metric, some in lines.items()]

    def _name(self, series: Series, number: int) -> str:
        if number in self._names:
            return self._names[number]
        labels = self.kind.subject(series.subjects[number], series.labels[number])
        return labelled(tuple(labels), tuple(labels.values()))


def written(metric: str, value: int) -> str:
    """Return what a counter says, to the last digit."""
    return str(value) if metric != SECONDS else f"{value // _MICRO}.{value % _MICRO:06d}"


def filesystems(series: Series, shown: Shown) -> Iterable[Block]:
    """Return the counters of file systems: what those of their targets say together."""
    sums: dict[str, dict[tuple[str, ...], int]] = {metric: {} for metric in FILESYSTEMS}
    for subject, column, value in zip(*(numbers.tolist() for numbers in shown), strict=True):
        metric, operation = series.columns[column]
        target = series.subjects[subject]
        assert isinstance(target, tuple)  # noqa: S101
        key = (target[0], target[1], operation)
        sums[metric][key] = sums[metric].get(key, 0) + value
    names = ("fs", "component", "operation")
    for metric, of in sums.items():
        family = FILESYSTEMS[metric]
        text = "".join(f"{family}{{{labelled(names, key)}}} {written(metric, value)}\n" for key, value in of.items())
        yield family, text.encode()
