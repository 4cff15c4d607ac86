"""The cluster exporter's gauges: who does how much per second, by account and user, and by program outside jobs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harvest_aggregator.catalogue import Catalogue
from harvest_aggregator.people import People
from harvest_aggregator.published import Published
from harvest_aggregator.sinks.prometheus_families import OTHER
from harvest_aggregator.sinks.prometheus_totals import Crowd, busiest
from harvest_core.accounting.sweeps import Place
from harvest_core.facts import MDT

Floats = NDArray[np.float64]
Labels = tuple[str, ...]

STAGES: Final = (
    "retrieve_running_jobs",
    "retrieve_user_name_info",
    "retrieve_group_name_info",
    "build_metadata_metrics",
    "build_read_throughput_metrics",
    "build_write_throughput_metrics",
)


class Gauge(NamedTuple):
    """One family, and what each of its series says."""

    family: str
    values: dict[Labels, float]


class Group(NamedTuple):
    """One way to add up what jobs do."""

    prefix: str
    """Of the names of its families."""
    who: Callable[[People, Catalogue, int], Labels | None]
    most: int
    """So many have series of their own."""


def owner_of(people: People, _: Catalogue, number: int) -> Labels | None:
    """Return account and user of a job."""
    job = people.job(number)
    return None if job is None or not job.user else (job.account, job.user)


def program_of(people: People, catalogue: Catalogue, number: int) -> Labels | None:
    """Return the name of a program that is run outside jobs, and group and name of its user."""
    if catalogue.jobs[number].process is None:
        return None
    person = people.person(number)
    return person.process or "", person.group or "", person.user or ""


class Rates:
    """Adds up the rates of one sweep, and watches how long that takes."""

    def __init__(self, published: Published, crowd: Crowd, clock: Callable[[], float]) -> None:
        self._crowd = crowd
        self._clock = clock
        self._at = clock()
        asked = (facts.health.query_microseconds for facts in published.clusters.values() if facts.health is not None)
        self.stage_seconds = dict.fromkeys(STAGES, 0.0) | {STAGES[0]: max(asked, default=0) / 1e6}
        catalogue = crowd.catalogue
        self._rates = {name: np.zeros(catalogue.count) for name in ("read_bytes", "write_bytes", "iops")}
        for part in catalogue.parts:
            for name, rate in self._rates.items():
                rate[part.job] += part.measured(name, rates=True)
        places = sorted(place for place in catalogue.closed.work if place.kind == MDT)
        self._on_mdts = {place: self._metadata(place) for place in places}
        self._took("build_metadata_metrics")

    def _metadata(self, place: Place) -> Floats:
        rate = np.zeros(self._crowd.catalogue.count)
        for part in self._crowd.catalogue.at([place]).parts:
            rate[part.job] += part.measured("iops", rates=True)
        return rate

    def gauges(self, group: Group, stage: str) -> Iterator[Gauge]:
        """Return who does how much; whoever does nothing has no series."""
        people, catalogue = self._crowd.people, self._crowd.catalogue
        is_busy = np.logical_or.reduce([rate > 0 for rate in self._rates.values()])
        names: dict[Labels, int] = {}
        place = np.full(catalogue.count, -1, np.int64)
        for number in np.flatnonzero(is_busy).tolist():
            if (who := group.who(people, catalogue, number)) is not None:
                place[number] = names.setdefault(who, len(names))
        metadata = sum(self._on_mdts.values(), np.zeros(catalogue.count))
        bytes_ = self._rates["read_bytes"] + self._rates["write_bytes"]
        order = list(busiest(np.stack([_added(place, rate, len(names)) for rate in (bytes_, metadata)])))
        labels = list(names)
        shown = [OTHER_LABELS[: len(labels[0])]] * len(labels) if labels else []
        for at in order[: group.most]:
            shown[at] = labels[at]
        self._took(stage)
        on_targets: dict[Labels, float] = {}
        for target, rate in self._on_mdts.items():
            for who, value in _by_name(place, rate, shown).items():
                key = (*who, target.target)
                on_targets[key] = on_targets.get(key, 0.0) + value
        yield Gauge(f"{group.prefix}_metadata_operations", on_targets)
        self._took("build_metadata_metrics")
        for way in ("read", "write"):
            values = _by_name(place, self._rates[f"{way}_bytes"], shown)
            yield Gauge(f"{group.prefix}_{way}_throughput_bytes", values)
            self._took(f"build_{way}_throughput_metrics")

    def _took(self, stage: str) -> None:
        before, self._at = self._at, self._clock()
        self.stage_seconds[stage] += self._at - before


OTHER_LABELS: Final = (OTHER,) * 3


def _added(place: NDArray[np.int64], rate: Floats, count: int) -> Floats:
    mine = place >= 0
    added: Floats = np.bincount(place[mine], rate[mine], count).astype(np.float64)
    return added


def _by_name(place: NDArray[np.int64], rate: Floats, shown: Sequence[Labels]) -> dict[Labels, float]:
    values: dict[Labels, float] = {}
    for who, value in zip(shown, _added(place, rate, len(shown)).tolist(), strict=True):
        if value > 0:
            values[who] = values.get(who, 0.0) + value
    return values


def is_well(published: Published) -> bool:
    """Tell whether nothing is missing in a sweep, and Slurm answers in every cluster that has one."""
    if published.closed is None or published.closed.missing:
        return False
    return all(facts.health is not None and not facts.health.problem for facts in published.clusters.values())
