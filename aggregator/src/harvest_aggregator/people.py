"""Whose jobs they are, and how these live: what Slurm says, beside what Lustre shows."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np

from harvest.v1.stream_pb2 import SlurmJob
from harvest_aggregator.answers import printed
from harvest_aggregator.catalogue import Catalogue, Integers
from harvest_aggregator.published import Published
from harvest_aggregator.slurm import ClusterFacts
from harvest_core.accounting.mounts import NEVER
from harvest_core.jobs.identity import Identity
from harvest_core.jobs.life import BUSY_SECONDS, FORGOTTEN_SECONDS, Life, Sign, life

Json = dict[str, Any]


class Person(NamedTuple):
    """Who is behind a job, as far as anybody knows."""

    user: str | None = None
    group: str | None = None
    account: str | None = None
    partition: str | None = None
    process: str | None = None
    """The name of the program, of what was run outside any job."""


_IDLE: Final = (BUSY_SECONDS, FORGOTTEN_SECONDS)
"""Where idleness changes what a job is doing, as far as that is not Slurm's to say."""
_NO_JOBS: Final[Mapping[int, SlurmJob]] = {}
GROUPINGS: Final = {
    "user": ("user",),
    "account": ("account",),
    "partition": ("partition",),
    "group": ("group",),
    "process": ("process", "user", "group"),
    "account,user": ("account", "user"),
}
"""By what work can be added up, and which of a person's fields that is."""


class People:
    """The jobs of one catalogue, by number."""

    def __init__(self, published: Published, catalogue: Catalogue) -> None:
        self._clusters = published.clusters
        self._starts = published.starts
        self._jobs = catalogue.jobs
        idle = (published.tick_seconds or 0) - np.maximum(_worked(catalogue, published.first_tick), 0)
        self._idle = np.digitize(idle, _IDLE).tolist()
        self._lives: dict[tuple[str | None, int], Life] = {}
        """What was found out once: there are few words of Slurm, and few kinds of idleness."""

    def job(self, number: int) -> SlurmJob | None:
        """Return what Slurm says of a job."""
        identity = self._jobs[number]
        cluster = self._clusters.get(identity.name.cluster)
        return None if cluster is None or identity.number is None else cluster.jobs.get(identity.number)

    def person(self, number: int) -> Person:
        """Return whose job it is."""
        return person_of(self.job(number), self._jobs[number], self._clusters)

    def state(self, number: int) -> Life:
        """Return what a job is doing."""
        job = self.job(number)
        key = (None if job is None else job.state, self._idle[number])
        if key not in self._lives:
            idle_seconds = (0, *_IDLE)[key[1]]
            self._lives[key] = life(Sign(key[0], None, worked_seconds=0), now_seconds=idle_seconds)
        return self._lives[key]

    def shown(self, number: int) -> Json:
        """Return what is known of a job beside its work."""
        start = self._starts.get(self._jobs[number].name)
        told = told_by_slurm(self.job(number), self.person(number))
        return {**told, "start": start, "start_seconds": start, "state": self.state(number)}

    def matching(self, numbers: Integers, wanted: Mapping[str, str]) -> Integers:
        """Return those of some jobs that are somebody's, or in some state."""
        if not wanted:
            return numbers
        left: list[int] = numbers.tolist()
        for name, value in wanted.items():
            of = _WHOSE[name]
            left = [number for number in left if of(self, number) == value]
        return np.array(left, np.int64)

    def name(self, number: int) -> str:
        """Return what people call a job: a task by its array, all others by their id."""
        job = self.job(number)
        return (array_name(job) if job is not None else None) or printed(self._jobs[number].name.job)

    def names(self, numbers: Iterable[int]) -> Iterator[str]:
        """Return different names for different jobs: of two clusters' that are alike, all but the first say theirs."""
        seen: set[str] = set()
        for number in numbers:
            name = self.name(number)
            if name in seen:
                name = f"{self._jobs[number].name.cluster}/{name}"
            seen.add(name)
            yield name

    def grouped(self, numbers: Integers, by: str) -> tuple[list[Person], Integers]:
        """Return who is behind some jobs, each once, and for every job which of them it is; -1 where nobody knows."""
        fields = GROUPINGS[by]
        chosen = attrgetter(*fields)  # of one field no tuple: there may be very many jobs
        jobs = {cluster: facts.jobs for cluster, facts in self._clusters.items()}
        groups: dict[Any, int] = {}
        places: list[int] = []
        for number in numbers.tolist():
            identity = self._jobs[number]
            job = jobs.get(identity.name.cluster, _NO_JOBS).get(identity.number or 0)
            some: Any = None if job is not None and by == "process" else chosen(job or self.person(number))
            is_known = some and (len(fields) == 1 or some[0])
            places.append(groups.setdefault(some, len(groups)) if is_known else -1)
        found = [dict(zip(fields, (some,) if len(fields) == 1 else some, strict=True)) for some in groups]
        people = [Person(**{name: text or None for name, text in some.items()}) for some in found]
        return people, np.array(places, np.int64)


_WHOSE: Final[Mapping[str, Callable[[People, int], str | None]]] = {
    "cluster": lambda people, number: people._jobs[number].name.cluster,  # noqa: SLF001 - a part of the class
    "user": lambda people, number: people.person(number).user,
    "account": lambda people, number: people.person(number).account,
    "state": People.state,
}
"""By what jobs can be asked for."""


def told_by_slurm(job: SlurmJob | None, person: Person) -> Json:
    """Return what is said of a job's owner and of its time; its state is not known yet."""
    return {
        "start": None if job is None else job.start_seconds or None,
        "name": None if job is None else job.name,
        "state": None,
        "slurm_state": None if job is None else job.state or None,
        **person._asdict(),
        "array": None if job is None else array_name(job),
        "submit_seconds": None if job is None else job.submit_seconds or None,
        "start_seconds": None if job is None else job.start_seconds or None,
        "end_seconds": None if job is None else job.end_seconds or None,
        "nodes": None if job is None else job.nodes or None,
        "exit_code": None if job is None else job.exit_code or None,
    }


def array_name(job: SlurmJob) -> str | None:
    """Return what Slurm calls a task of an array."""
    return f"{job.array_id}_{job.array_task}" if job.array_id else None


_NOBODY: Final = Person()


def person_of(job: SlurmJob | None, identity: Identity, clusters: Mapping[str, ClusterFacts]) -> Person:
    """Return who is behind a job."""
    if job is not None:
        return Person(job.user or None, job.group or None, job.account or None, job.partition or None)
    if identity.process is None:
        return _NOBODY
    named = clusters.get(identity.name.cluster)
    for cluster in (named,) if named is not None else clusters.values():
        user = cluster.users.get(identity.process.uid)
        if user is not None and user.name:
            return Person(user=user.name, group=user.group or None, process=identity.process.name)
    return Person(user=str(identity.process.uid), process=identity.process.name)


def _worked(catalogue: Catalogue, first_tick: int | None) -> Integers:
    """Return when jobs last did anything: by our own sweeps, since servers' clocks may be wrong.

    Only of what was done before the first of these nobody else can say when it was.
    """
    changed, told = (np.full(catalogue.count, NEVER, np.int64) for _ in range(2))
    for part in catalogue.parts:
        changed[part.job] = np.maximum(changed[part.job], part.table.changed_tick)
        told[part.job] = np.maximum(told[part.job], part.table.last_tick)
    if first_tick is None:
        return changed
    before = np.where(told == NEVER, changed, np.minimum(told, changed))
    return np.where(changed > first_tick, changed, before)
