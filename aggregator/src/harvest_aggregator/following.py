"""Follows jobs from sweep to sweep: whose they are, when each of their runs began, and when they are over."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection

from harvest.v1.stream_pb2 import JobQuestion, JobTable, SlurmJob
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.amounts import Amounts, less, plus
from harvest_aggregator.finals import final_record
from harvest_aggregator.ledger import Ledger, ParkedKey, Run, forget_runs, write_let_go
from harvest_aggregator.parking import Parked
from harvest_aggregator.people import person_of
from harvest_aggregator.published import InDoubt
from harvest_aggregator.records import add
from harvest_aggregator.runs import Activity, Cut, Past, Runs, day_of
from harvest_aggregator.slurm import ClusterFacts, Clusters, is_alive
from harvest_core.accounting.mounts import NEVER
from harvest_core.accounting.sweeps import ClosedSweep
from harvest_core.facts import MDT, OST
from harvest_core.jobs.identity import Identities, Identity, JobName
from harvest_core.jobs.life import WAITING, Sign, is_settled
from harvest_site.model import Site
from harvest_site.views import job_ids_of

Json = dict[str, Any]

_SETTLE_SECONDS: Final = 600
"""So often jobs that are over are let go, all together: each time their targets are folded."""


class Following:
    """The jobs of a site. Used by one thread."""

    def __init__(self, site: Site, ledger: Ledger) -> None:
        self._ledger = ledger
        self._clusters = Clusters(_slurm_agents(site))
        self.identities = Identities(job_ids_of(site))
        self._unwritten: tuple[dict[JobName, Run], list[Json]] = ({}, [])
        self._past = Past()
        self._activity = Activity()
        self.over: frozenset[JobName] = frozenset()
        """Who was let go since the last sweep."""
        self.let_go: Amounts = {}
        """What all those did together that are in no table of the last sweep any more; replaced, never changed."""
        self._let_go: Amounts = {}
        """The same by now."""
        self._begin()

    def _begin(self) -> None:
        self.runs = Runs(self._past)
        self.before: dict[JobName, list[Json]] = {}
        """Final records of jobs that showed again; replaced, never changed."""
        self._met: dict[JobName, Identity] = {}
        self._numbers: dict[tuple[str, int], JobName] = {}
        self._replaced: dict[JobName, SlurmJob] = {}
        """What Slurm said of a run that is over, until it is cut off."""
        self._shown: dict[tuple[str, str], tuple[bytes, ...]] = {}
        self._day = 0
        self._told: tuple[dict[JobName, int], dict[JobName, Amounts]] | None = None
        self._settled_at = 0.0

    def load(self) -> None:
        """Bring back what is durable, or still to be."""
        self.let_go = self._let_go = self._ledger.let_go()
        for one in (*self._ledger.runs(), *self._unwritten[0].values()):
            self.runs.starts[one.name] = one.start_seconds
            if one.earlier:
                self.runs.cuts[one.name] = one.earlier

    def change_site(self, site: Site) -> None:
        """Go on with other clusters: ids may be other jobs' from now on."""
        self._clusters.change(_slurm_agents(site))
        self.identities = Identities(job_ids_of(site))
        self._begin()
        self.load()

    def facts(self) -> dict[str, ClusterFacts]:
        """Return what Slurm says of each cluster."""
        return self._clusters.facts()

    def told(self) -> tuple[dict[JobName, int], dict[JobName, Amounts]]:
        """Return when the present run of each job began, and what earlier ones did; nothing in it ever changes."""
        if self._told is None:
            self._told = dict(self.runs.starts), dict(self.runs.cuts)
        return self._told

    def question(self, agent: str) -> JobQuestion | None:
        """Return what an agent's Slurm should be asked; from any thread, and whoever gets it asks."""
        return self._clusters.questions.pop(agent, None)

    def begin_table(self, agent: str) -> None:
        """Take in that an agent's stream begins, and with it a whole table if it tells one."""
        self._clusters.begin(agent)

    def take_table(self, cluster: str, table: JobTable) -> None:
        """Take in what a cluster's Slurm says."""
        self._clusters.take(cluster, table)

    def take_sweep(self, closed: ClosedSweep, now_seconds: float) -> None:
        """Take in who did something, and cut where another run began."""
        self.over, self.let_go = frozenset(), self._let_go
        self._past.add(closed)
        self._activity.take(closed, now_seconds)
        new = self._new(closed)
        self._clusters.ask(now_seconds)
        changed = dict.fromkeys(new)
        for cluster, number, replaced in self._clusters.changed():
            if (name := self._numbers.get((cluster, number))) is not None:
                changed[name] = None
                if replaced is not None:
                    self._replaced[name] = replaced
        facts = self._clusters.facts()
        for name in changed:
            job = _job(self._met[name], facts)
            if job is not None and job.start_seconds and job.state not in WAITING:
                self._began(name, job.start_seconds)
        self._new_day(closed.tick_seconds, new)
        self._write()

    def settle(self, closed: ClosedSweep, accounts: Accounts, now_seconds: float) -> int:
        """Write the final records of jobs that are over, and let them go; return how many these were."""
        if now_seconds < self._settled_at + _SETTLE_SECONDS:
            return 0
        self._settled_at = now_seconds
        self._write()  # later it would bring back the runs of jobs that are over
        facts = self._clusters.facts()
        over = {name for name in self._met if self._is_over(name, closed, facts, now_seconds)}
        busy = {filesystem: accounts.at_work(filesystem) for filesystem in {place[0] for place in closed.tables}}
        over = {name for name in over if not any(job in busy.get(on, ()) for on, job in self.runs.ids(name))}
        if not over:
            return 0

        together: list[Amounts] = []  # of one, when it is written

        def write_all(connection: Connection, taken: Mapping[ParkedKey, Parked]) -> None:
            let_go = self._let_go
            for key, mine in taken.items():
                let_go = plus(let_go, {(key.filesystem, key.kind): dict(mine.done.counters)})
            together.append(let_go)
            write_let_go(connection, let_go)
            add(connection, [self._final(name, taken, facts) for name in sorted(over)])
            forget_runs(connection, over)

        accounts.forget({key for name in over for key in self.runs.ids(name)}, write_all)
        self._forget(over)
        self.over, (self._let_go,) = frozenset(over), together
        return len(over)

    def _is_over(
        self, name: JobName, closed: ClosedSweep, facts: Mapping[str, ClusterFacts], now_seconds: float
    ) -> bool:
        identity = self._met[name]
        worked = max((self._activity.last(*key, closed) for key in self.runs.ids(name)), default=0.0)
        job = _job(identity, facts)
        sign = Sign(
            state=None if job is None else job.state,
            ended_seconds=None if job is None else job.end_seconds or None,
            worked_seconds=int(worked),
        )
        return is_settled(sign, now_seconds)

    def _final(self, name: JobName, taken: Mapping[ParkedKey, Parked], facts: Mapping[str, ClusterFacts]) -> Json:
        """Return the record of a job: all that it did, less its earlier runs."""
        amounts: Amounts = {}
        doubt, complete, last_tick = InDoubt(), True, NEVER
        for filesystem, job_id in self.runs.ids(name):
            for kind in (OST, MDT):
                if (mine := taken.get(ParkedKey(filesystem, kind, job_id))) is not None:
                    amounts = plus(amounts, {(filesystem, kind): dict(mine.done.counters)})
                    doubt = doubt.plus(mine.doubt)
                    complete &= not mine.incomplete
                    last_tick = max(last_tick, mine.done.last_tick)
        job = _job(self._met[name], facts)
        record = final_record(
            name,
            less(amounts, self.runs.cuts.get(name, {})),
            job=job,
            person=person_of(job, self._met[name], facts),
            doubt=doubt,
            complete=complete,
            last_tick_seconds=None if last_tick == NEVER else last_tick,
        )
        start = self.runs.starts.get(name)
        return {**record, "start": start, "start_seconds": start}

    def _forget(self, names: set[JobName]) -> None:
        for name in names:
            number = self._met.pop(name).number
            self._replaced.pop(name, None)
            if number is not None:
                self._numbers.pop((name.cluster, number), None)
                self._clusters.forget_job(name.cluster, number)
        self.runs.forget(names)
        self.identities.forget(names)
        self._told = None
        self._shown = {}  # who comes back may be where it was
        self.before = {name: records for name, records in self.before.items() if name not in names}

    def _new(self, closed: ClosedSweep) -> list[JobName]:
        """Return the jobs that were not there before."""
        new: dict[JobName, None] = {}
        for place, table in closed.tables.items():
            before = self._shown.get(place, ())
            if table.jobs is not before:
                some = table.jobs[len(before) :] if table.jobs[: len(before)] == before else table.jobs
                self._shown[place] = table.jobs
                for job in some:
                    identity = self.identities.of(place[0], job)
                    self.runs.meet(place[0], job, identity)
                    if identity.name not in self._met:
                        new[identity.name] = None
                        self._met[identity.name] = identity
                        self._clusters.meet(identity)
                        if identity.number is not None:
                            self._numbers[identity.name.cluster, identity.number] = identity.name
        if new and (records := self._ledger.records_of(list(new))):
            self.before = {**self.before, **records}
        return list(new)

    def _new_day(self, tick_seconds: int, new: Iterable[JobName]) -> None:
        """Begin anew what is run outside jobs, which has no other end."""
        day = day_of(tick_seconds)
        for name in tuple(self._met) if day > self._day else new:
            if self._met[name].process is not None:
                self._began(name, day)
        self._day = max(day, self._day)

    def _began(self, name: JobName, start_seconds: int) -> None:
        known = self.runs.starts.get(name)
        cut = self.runs.begun(name, start_seconds)
        runs, records = self._unwritten
        if cut is not None and any(cut.amounts.values()):
            records.append(self._record(cut, self._replaced.pop(name, None)))
        if cut is not None or known is None:
            self._told = None
            runs[name] = Run(name, start_seconds, self.runs.cuts.get(name, {}))

    def _record(self, cut: Cut, job: SlurmJob | None) -> Json:
        if job is not None and is_alive(job):  # nobody said how that run ended, only that it is over
            job, running = SlurmJob(), job
            job.CopyFrom(running)
            job.state, job.end_seconds = "REQUEUED", 0
        record = final_record(
            cut.name,
            cut.amounts,
            job=job,
            person=person_of(job, self._met[cut.name], self._clusters.facts()),
            doubt=InDoubt(),
            complete=True,
            last_tick_seconds=None,
        )
        return {**record, "start": cut.start_seconds, "start_seconds": cut.start_seconds}

    def _write(self) -> None:
        """Make it durable; if that fails, it is tried again with the next sweep."""
        runs, records = self._unwritten
        if runs or records:
            self._ledger.write_runs(runs.values(), records)
            self._unwritten = ({}, [])


def _job(identity: Identity, facts: Mapping[str, ClusterFacts]) -> SlurmJob | None:
    """Return what Slurm says of a job."""
    cluster = facts.get(identity.name.cluster)
    return None if cluster is None or identity.number is None else cluster.jobs.get(identity.number)


def _slurm_agents(site: Site) -> dict[str, str]:
    """Return the clusters whose job table an agent reports, and which one."""
    return {
        one.name: one.slurm.server
        for one in site.spec.clusters
        if one.slurm is not None and one.slurm.server is not None
    }
