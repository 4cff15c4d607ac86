"""What the clusters' Slurm said last of every job, who has which uid, and what is still to be asked."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from harvest.v1.stream_pb2 import JobQuestion, JobTable, SlurmHealth, SlurmJob, UserName
from harvest_aggregator.refusals import NonsenseError
from harvest_core.jobs.identity import Identity
from harvest_core.jobs.life import ACTIVE, WAITING

_ASKED_AT_ONCE: Final = 1000
_USERS_MOST: Final = 100_000
JOBS_MOST: Final = 1_000_000
"""Of one cluster; Slurm itself has ten thousand unless it is told otherwise."""
_NOBODYS: Final = SlurmJob()
_KEPT_SECONDS: Final = 3600
"""So long after its end a job is remembered that never did anything on Lustre: it may still show there."""


JOB_FACT: Final = "job"
_USER_FACT: Final = "user"
_UNSAVED_AT_ONCE: Final = 10_000


class Fact(NamedTuple):
    """What was said of a job, or of a user, as bytes: for the ledger."""

    cluster: str
    kind: str
    number: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What is known of one cluster; nothing in it ever changes."""

    agent: str
    jobs: Mapping[int, SlurmJob] = field(default_factory=dict)
    users: Mapping[int, UserName] = field(default_factory=dict)
    unknown: frozenset[int] = frozenset()
    """Jobs that did something on Lustre, and neither slurmctld nor its accounting database knows."""
    health: SlurmHealth | None = None
    """Nothing until its agent has said anything."""


class _Cluster:
    """The same while it grows."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.health: SlurmHealth | None = None
        self._jobs: dict[int, SlurmJob] = {}
        self._users: dict[int, UserName] = {}
        self._arriving: dict[int, SlurmJob] | None = None
        """Of a whole table whose last part has not come yet."""
        self._met: set[int] = set()
        """Jobs that did something on Lustre."""
        self._lost: set[int] = set()
        """Those that Slurm had and has no more, without having said how they ended."""
        self._unknown: set[int] = set()
        self._met_users: set[int] = set()
        self._asked: set[int] = set()
        self._asked_users: set[int] = set()
        self._facts: ClusterFacts | None = None
        self.changed: set[int] = set()
        """Jobs of which something new was told since somebody looked."""
        self.replaced: dict[int, SlurmJob] = {}
        """Earlier runs that were replaced by later ones, likewise."""
        self.unsaved: set[tuple[str, int]] = set()
        """Of which jobs that did something on Lustre, and of which users, the ledger has not the last word."""
        self._restored: set[int] = set()
        """Jobs of which it has, though nobody has met them yet."""

    def begin(self) -> None:
        """Expect a whole table: one that another stream began never comes to its end."""
        self._arriving = None

    def take(self, table: JobTable) -> None:
        self._facts = None
        if len(table.jobs) + len(self._jobs if self._arriving is None else self._arriving) > JOBS_MOST:
            raise NonsenseError(f"a job table of more than {JOBS_MOST} jobs")
        self.changed.update(job.id for job in table.jobs)
        if table.full:
            if self._arriving is None:
                self._arriving = {}
            self._arriving.update((job.id, self._newer(self._arriving, job)) for job in table.jobs)
            if table.last:
                self._replace(self._arriving)
                self._arriving = None
        else:
            for job in table.jobs:
                self._know(self._newer(self._jobs, job))
                self._lost.discard(job.id)
        self._give_up(table.unknown_jobs)
        self._unknown.difference_update(job.id for job in table.jobs)
        for user in table.users:
            if len(self._users) < _USERS_MOST:
                self._users[user.uid] = user
                self.unsaved.add((_USER_FACT, user.uid))
        if table.last:
            self.health = table.health

    def _give_up(self, numbers: Iterable[int]) -> None:
        """Take in of which jobs nobody knows anything any more: those that ran do so no longer."""
        for number in numbers:
            self._lost.discard(number)
            if number in self._met:
                self._unknown.add(number)
            if is_alive(self._jobs.get(number, _NOBODYS)):
                over = SlurmJob()
                over.CopyFrom(self._jobs[number])
                over.state = ""
                self._know(over)
                self.changed.add(number)

    def _replace(self, whole: dict[int, SlurmJob]) -> None:
        """Take a whole table: who is not in it any more has ended, and how is to be asked."""
        gone = {number: job for number, job in self._jobs.items() if number not in whole}
        self._lost |= {number for number, job in gone.items() if is_alive(job)}
        for job in whole.values():
            self._know(self._newer(self._jobs, job))
        self._lost.difference_update(whole)
        self._asked.clear()  # the agent may be another one, which was never asked
        self._asked_users.clear()

    def _know(self, job: SlurmJob) -> None:
        if job != self._jobs.get(job.id):
            self._restored.discard(job.id)
            if job.id in self._met:
                self.unsaved.add((JOB_FACT, job.id))
        self._jobs[job.id] = job

    def _newer(self, known: Mapping[int, SlurmJob], told: SlurmJob) -> SlurmJob:
        """Return the later of two runs of one number: it may have been requeued, or used again."""
        before = known.get(told.id, told)
        newer, older = (before, told) if _is_earlier(told, before) else (told, before)
        if older.start_seconds and older.start_seconds != newer.start_seconds:
            self.replaced[told.id] = older
        return newer

    def meet(self, jobs: Iterable[int], uids: Iterable[int]) -> None:
        new = set(jobs) - self._met
        self._met |= new
        self.unsaved.update((JOB_FACT, number) for number in (new & self._jobs.keys()) - self._restored)
        self._met_users.update(uids)

    def question(self) -> JobQuestion | None:
        jobs = (self._met - self._jobs.keys() - self._unknown) | (self._lost & self._met)
        jobs -= self._asked
        users = self._met_users - self._users.keys() - self._asked_users
        if self.health is None or not self.health.answered_seconds or not (jobs or users):
            return None
        question = JobQuestion(jobs=sorted(jobs)[:_ASKED_AT_ONCE], uids=sorted(users)[:_ASKED_AT_ONCE])
        self._asked.update(question.jobs)
        self._asked_users.update(question.uids)
        return question

    def forget(self, now_seconds: float) -> None:
        """Forget jobs that ended long ago and never did anything."""
        over = [
            number
            for number, job in self._jobs.items()
            if number not in self._met
            and (number in self._lost or (not is_alive(job) and job.end_seconds < now_seconds - _KEPT_SECONDS))
        ]
        for number in over:
            del self._jobs[number]
        self._lost.difference_update(over)
        if over:
            self._facts = None

    def forget_job(self, number: int) -> None:
        for known in (self._met, self._lost, self._unknown, self._asked):
            known.discard(number)
        self.unsaved.discard((JOB_FACT, number))
        self._restored.discard(number)
        if not is_alive(self._jobs.get(number, _NOBODYS)) and self._jobs.pop(number, None) is not None:
            self._facts = None

    def payload(self, kind: str, number: int) -> bytes:
        """Return what the ledger should have."""
        known = self._jobs if kind == JOB_FACT else self._users
        return known[number].SerializeToString()

    def restore(self, fact: Fact) -> None:
        """Take back what was known; whatever was said since then is newer."""
        if fact.kind == JOB_FACT:
            if fact.number not in self._jobs:
                self._jobs[fact.number] = SlurmJob.FromString(fact.payload)
                self._restored.add(fact.number)
        else:
            self._users.setdefault(fact.number, UserName.FromString(fact.payload))
        self._facts = None

    def facts(self) -> ClusterFacts:
        if self._facts is None:
            self._facts = ClusterFacts(
                agent=self.agent,
                jobs=dict(self._jobs),
                users=dict(self._users),
                unknown=frozenset(self._unknown),
                health=self.health,
            )
        return self._facts


class Clusters:
    """All clusters whose job table an agent reports. Used by one thread."""

    def __init__(self, agents: Mapping[str, str]) -> None:
        self._clusters: dict[str, _Cluster] = {}
        self._forgotten_at = 0.0
        self.questions: dict[str, JobQuestion] = {}
        """What to ask each agent; whoever asks takes it out."""
        self.change(agents)

    def change(self, agents: Mapping[str, str]) -> None:
        """Follow these clusters, each with its agent; what is known of those that stay is kept."""
        before = self._clusters
        self._clusters = {
            cluster: before[cluster] if cluster in before and before[cluster].agent == agent else _Cluster(agent)
            for cluster, agent in agents.items()
        }

    def begin(self, agent: str) -> None:
        """Take in that an agent begins to tell all from its beginning."""
        for cluster in self._clusters.values():
            if cluster.agent == agent:
                cluster.begin()

    def take(self, cluster: str, table: JobTable) -> None:
        """Take in what an agent says of a cluster."""
        if cluster in self._clusters:
            self._clusters[cluster].take(table)
            self._ask()

    def meet(self, identity: Identity) -> None:
        """Note that a job, or what somebody ran outside jobs, showed up on Lustre."""
        named = self._clusters.get(identity.name.cluster)
        if identity.process is not None:  # whoever is asked: uids are mostly the same on all clusters of a site
            for cluster in (named,) if named is not None else self._clusters.values():
                cluster.meet((), (identity.process.uid,))
        elif named is not None and identity.number is not None:
            named.meet((identity.number,), ())

    def ask(self, now_seconds: float) -> None:
        """Find out what must be asked, and forget what nobody will ask for."""
        if now_seconds >= self._forgotten_at + _KEPT_SECONDS / 60:
            self._forgotten_at = now_seconds
            for cluster in self._clusters.values():
                cluster.forget(now_seconds)
        self._ask()

    def forget_job(self, cluster: str, number: int) -> None:
        """Forget a job whose final record is written."""
        if cluster in self._clusters:
            self._clusters[cluster].forget_job(number)

    def changed(self) -> list[tuple[str, int, SlurmJob | None]]:
        """Return the jobs that changed since this was last asked for, each with the run that another one replaced."""
        found: list[tuple[str, int, SlurmJob | None]] = []
        for name, cluster in self._clusters.items():
            found += [(name, number, cluster.replaced.get(number)) for number in cluster.changed]
            cluster.changed, cluster.replaced = set(), {}
        return found

    def unsaved(self) -> list[Fact]:
        """Return what the ledger does not have yet; of much only some."""
        pairs = ((name, cluster, *one) for name, cluster in self._clusters.items() for one in cluster.unsaved)
        return [
            Fact(name, kind, number, cluster.payload(kind, number))
            for name, cluster, kind, number in islice(pairs, _UNSAVED_AT_ONCE)
        ]

    def saved(self, facts: Iterable[Fact]) -> None:
        """Take in that the ledger has these."""
        for fact in facts:
            self._clusters[fact.cluster].unsaved.discard((fact.kind, fact.number))

    def restore(self, facts: Iterable[Fact]) -> None:
        """Take back what was known before: it holds until Slurm says something else."""
        for fact in facts:
            if fact.cluster in self._clusters:
                self._clusters[fact.cluster].restore(fact)

    def facts(self) -> dict[str, ClusterFacts]:
        """Return what is known of each cluster."""
        return {name: cluster.facts() for name, cluster in self._clusters.items()}

    def _ask(self) -> None:
        for cluster in self._clusters.values():
            if cluster.agent not in self.questions and (question := cluster.question()) is not None:
                self.questions[cluster.agent] = question


def slurm_warnings(clusters: Mapping[str, ClusterFacts], here: Container[str], now_seconds: float) -> list[str]:
    """Say what is wrong with clusters' Slurm, for a person. Accounting goes on without it."""
    warnings = []
    for name, trouble in slurm_troubles(clusters, here).items():
        facts = clusters[name]
        if facts.health is None:
            warnings.append(f"Slurm of cluster {name}: {trouble}")
        elif trouble:
            since = facts.health.answered_seconds
            ago = f"last answered {now_seconds - since:.0f} s ago" if since else "never answered"
            warnings.append(f"Slurm of cluster {name} ({facts.agent}, {ago}): {trouble}")
    return warnings


def slurm_troubles(clusters: Mapping[str, ClusterFacts], here: Container[str]) -> dict[str, str | None]:
    """Return what is wrong with each cluster's Slurm, given which agents are here; nothing where it answers."""
    return {name: _trouble(facts, here) for name, facts in clusters.items()}


def _trouble(facts: ClusterFacts, here: Container[str]) -> str | None:
    if facts.health is None:
        return f"its agent {facts.agent} has not said anything yet"
    if facts.agent not in here:
        return f"its agent {facts.agent} is not connected"
    return facts.health.problem or None


def _is_earlier(told: SlurmJob, known: SlurmJob) -> bool:
    """Tell whether a job that is told is an earlier run than the one that is known."""
    if told.start_seconds and told.start_seconds == known.start_seconds:
        return False  # the same one, of which accounting knows the end, but not how often it was requeued
    if told.submit_seconds and known.submit_seconds and told.submit_seconds != known.submit_seconds:
        return told.submit_seconds < known.submit_seconds
    if told.start_seconds and known.start_seconds:
        return told.start_seconds < known.start_seconds
    return told.restarts < known.restarts  # one of them waits


def is_alive(job: SlurmJob) -> bool:
    """Tell whether a job runs or may still run."""
    return job.state in ACTIVE or job.state in WAITING
