"""Follows jobs from sweep to sweep: whose they are, when each of their runs began, and when they are over."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection

from harvest.v1.stream_pb2 import JobQuestion, JobTable, SlurmJob
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.amounts import Amounts, less, plus
from harvest_aggregator.finals import final_record
from harvest_aggregator.ledger import Ledger, ParkedKey, Run, forget_facts, forget_runs, write_let_go
from harvest_aggregator.owners import Owned, Owner, owner_of, with_more, write_owned
from harvest_aggregator.parking import Parked
from harvest_aggregator.people import person_of
from harvest_aggregator.published import InDoubt, JobKey
from harvest_aggregator.records import add
from harvest_aggregator.runs import Cut, Past, Runs, changed_tick, day_of
from harvest_aggregator.slurm import ClusterFacts, Clusters, is_alive
from harvest_core.accounting.mounts import NEVER
from harvest_core.accounting.sweeps import ClosedSweep
from harvest_core.facts import MDT, OST
from harvest_core.jobs.identity import Identities, Identity, JobName
from harvest_core.jobs.life import WAITING, Sign, is_settled
from harvest_site.model import Site
from harvest_site.views import job_ids_of, slurm_agents_of

Json = dict[str, Any]

_SETTLE_SECONDS: Final = 600
"""So often jobs that are over are let go, all together: each time their targets are folded."""


class Following:
    """The jobs of a site. Used by one thread."""

    def __init__(self, site: Site, ledger: Ledger) -> None:
        self._ledger = ledger
        self._clusters = Clusters(slurm_agents_of(site))
        self.identities = Identities(job_ids_of(site))
        self._unwritten: tuple[dict[JobKey, Run], list[Json]] = ({}, [])
        self._past = Past()
        self.over: frozenset[JobName] = frozenset()
        """Who was let go since the last sweep."""
        self.let_go: Amounts = {}
        """What all those did together that are in no table of the last sweep any more; replaced, never changed."""
        self._let_go: Amounts = {}
        """The same by now."""
        self.owned: Owned = {}
        """What runs did that are over: of which nothing is in the last sweep, or which were cut off until then."""
        self._owned: Owned = {}
        """The same by now."""
        self._written_owned: Owned = self._owned
        self._begin(())

    def _begin(self, kept: Collection[Run]) -> None:
        self.runs = Runs(self._past, kept)
        self.before: dict[JobName, list[Json]] = {}
        """Final records of jobs that showed again; replaced, never changed."""
        self._met: dict[JobName, Identity] = {}
        self._unread: dict[JobName, None] = {}
        """Of these, the ledger could not say yet whether they were there before."""
        self._numbers: dict[tuple[str, int], JobName] = {}
        self._replaced: dict[JobName, SlurmJob] = {}
        """What Slurm said of a run that is over, until it is cut off."""
        self._shown: dict[tuple[str, str], tuple[bytes, ...]] = {}
        self._day = 0
        self._told: tuple[dict[JobName, int], dict[JobKey, Amounts], dict[JobName, Owner]] | None = None
        self._settled_at = 0.0
        self.first_tick: int | None = None
        """Of the first sweep since then: all that was there before is new in it, whenever that was done."""

    def load(self) -> None:
        """Bring back what is durable, or still to be."""
        self.let_go = self._let_go = self._ledger.let_go()
        if self._owned is self._written_owned:
            self.owned = self._owned = self._written_owned = self._ledger.owned()
        self._clusters.restore(self._ledger.facts())
        self._begin([*self._ledger.runs(), *self._unwritten[0].values()])

    def change_site(self, site: Site) -> None:
        """Go on with other clusters: ids may be other jobs' from now on."""
        self._clusters.change(slurm_agents_of(site))
        self.identities = Identities(job_ids_of(site))
        self.load()

    @property
    def finished(self) -> Owned:
        """What runs did that are over by now."""
        return self._owned

    def facts(self) -> dict[str, ClusterFacts]:
        """Return what Slurm says of each cluster."""
        return self._clusters.facts()

    def told(self) -> tuple[dict[JobName, int], dict[JobKey, Amounts], dict[JobName, Owner]]:
        """Return when the present run of each job began, what earlier ones did, and whose it is.

        Nothing in it ever changes.
        """
        if self._told is None:
            self._told = dict(self.runs.starts), dict(self.runs.cuts), dict(self.runs.owners)
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
        self.first_tick = closed.tick_seconds if self.first_tick is None else self.first_tick
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
                before = self._replaced.get(name)
                if before is not None and name not in self.runs.starts and self._past.reaches(job.start_seconds):
                    self._began(name, before.start_seconds)  # of both runs was told between two sweeps
                self._began(name, job.start_seconds)
            if name not in self.runs.owners and (owner := owner_of(name.cluster, job)) is not None:
                self.runs.owners[name] = owner
                self._note(name)
        self._new_day(closed.tick_seconds, new)
        self.owned = self._owned
        self._write(now_seconds)

    def settle(self, closed: ClosedSweep, accounts: Accounts, now_seconds: float) -> int:
        """Write the final records of jobs that are over, and let them go; return how many these were."""
        if now_seconds < self._settled_at + _SETTLE_SECONDS:
            return 0
        self._settled_at = now_seconds
        self._write(now_seconds)  # later it would bring back the runs of jobs that are over
        facts = self._clusters.facts()
        over = {name for name in self._met if self._is_over(name, closed, facts, now_seconds)}
        busy = {filesystem: accounts.at_work(filesystem) for filesystem in {place[0] for place in closed.tables}}
        over = {name for name in over if not any(job in busy.get(on, ()) for on, job in self.runs.ids(name))}
        if not over:
            return 0

        keys = {key for name in over for key in self.runs.ids(name)}
        together: list[tuple[Amounts, Owned]] = []  # of one, when it is written

        def write_all(connection: Connection, taken: Mapping[ParkedKey, Parked]) -> None:
            let_go = self._let_go
            for key, mine in taken.items():
                let_go = plus(let_go, {(key.filesystem, key.kind): dict(mine.done.counters)})
            owned = self._owned
            for name in over:
                owned = with_more(owned, self._owner(name, facts), self._done(name, taken))
            together.append((let_go, owned))
            write_let_go(connection, let_go)
            write_owned(connection, owned, self._owned)
            records = [self._final(name, taken, facts) for name in sorted(over)]
            add(connection, [record for record in records if _says_something(record)], now_seconds)
            forget_runs(connection, keys)
            for name in over:
                if (number := self._met[name].number) is not None:
                    forget_facts(connection, name.cluster, number)

        accounts.forget(keys, write_all)
        self._forget(over)
        self.over, [(self._let_go, self._owned)] = frozenset(over), together
        self._written_owned = self._owned
        return len(over)

    def _is_over(
        self, name: JobName, closed: ClosedSweep, facts: Mapping[str, ClusterFacts], now_seconds: float
    ) -> bool:
        identity = self._met[name]
        job = _job(identity, facts)
        sign = Sign(
            state=None if job is None else job.state,
            ended_seconds=None if job is None else job.end_seconds or None,
            worked_seconds=changed_tick(self.runs.ids(name), closed.tables),
        )
        return is_settled(sign, now_seconds)

    def _final(self, name: JobName, taken: Mapping[ParkedKey, Parked], facts: Mapping[str, ClusterFacts]) -> Json:
        """Return the record of a job: all that it did, less its earlier runs."""
        doubt, complete, last_tick = InDoubt(), True, NEVER
        for filesystem, job_id in self.runs.ids(name):
            for kind in (OST, MDT):
                if (mine := taken.get(ParkedKey(filesystem, kind, job_id))) is not None:
                    doubt = doubt.plus(mine.doubt)
                    complete &= not mine.incomplete
                    last_tick = max(last_tick, mine.done.last_tick)
        job = _job(self._met[name], facts)
        record = final_record(
            name,
            self._done(name, taken),
            job=job,
            person=person_of(job, self._met[name], facts),
            doubt=doubt,
            complete=complete,
            last_tick_seconds=None if last_tick == NEVER else last_tick,
        )
        start = self.runs.starts.get(name)
        return {**record, "start": start, "start_seconds": start}

    def _done(self, name: JobName, taken: Mapping[ParkedKey, Parked]) -> Amounts:
        """Return what the present run of a job did."""
        amounts: Amounts = {}
        for key in self.runs.ids(name):
            filesystem, job_id = key
            own: Amounts = {}
            for kind in (OST, MDT):
                if (mine := taken.get(ParkedKey(filesystem, kind, job_id))) is not None:
                    own[filesystem, kind] = dict(mine.done.counters)
            amounts = plus(amounts, less(own, self.runs.cuts.get(key, {})))
        return amounts

    def _forget(self, names: set[JobName]) -> None:
        for name in names:
            number = self._met.pop(name).number
            self._replaced.pop(name, None)
            self._unread.pop(name, None)
            if number is not None:
                self._numbers.pop((name.cluster, number), None)
                self._clusters.forget_job(name.cluster, number)
        self.runs.forget(names)
        self.identities.keep(self._met)
        self._told = None
        self._shown = {}  # who comes back may be where it was
        self.before = {name: records for name, records in self.before.items() if name not in names}

    def _new(self, closed: ClosedSweep) -> list[JobName]:
        """Return the jobs that were not there before."""
        new = self._unread
        elsewhere: dict[JobName, None] = {}
        for place, table in closed.tables.items():
            before = self._shown.get(place, ())
            if table.jobs is not before:
                some = table.jobs[len(before) :] if table.jobs[: len(before)] == before else table.jobs
                self._shown[place] = table.jobs
                for job in some:
                    identity = self.identities.of(place[0], job)
                    if self.runs.meet((place[0], job), identity):
                        elsewhere[identity.name] = None
                    if identity.name not in self._met:
                        new[identity.name] = None
                        self._met[identity.name] = identity
                        self._clusters.meet(identity)
                        if identity.number is not None:
                            self._numbers[identity.name.cluster, identity.number] = identity.name
        for name in filter(self.runs.knows, elsewhere):
            self._note(name)  # on each file system, names may change
        if new:
            self._told = None  # of some, the ledger knew
        if new and (records := self._ledger.records_of(list(new))):
            self.before = {**self.before, **records}
        self._unread = {}
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
        if cut is not None:
            replaced = self._replaced.pop(name, None)
            if any(cut.amounts.values()):
                self._unwritten[1].append(self._record(cut, replaced))
            owner = cut.owner or self._owner(name, self._clusters.facts()) or owner_of(name.cluster, replaced)
            self._owned = with_more(self._owned, owner, cut.amounts)
        if cut is not None or known is None:
            self._note(name)

    def _note(self, name: JobName) -> None:
        """Take in that something else is known of a job's present run."""
        self._told = None
        self._unwritten[0].update((one.key, one) for one in self.runs.of(name))

    def _owner(self, name: JobName, facts: Mapping[str, ClusterFacts]) -> Owner | None:
        """Return whose the present run of a job is, or what is run outside jobs."""
        identity = self._met[name]
        if identity.process is None:
            return self.runs.owners.get(name)
        return Owner(name.cluster, "", person_of(None, identity, facts).user or "", outside=True)

    def _record(self, cut: Cut, job: SlurmJob | None) -> Json:
        if job is not None and is_alive(job):  # nobody need have said how that run ended, only that it is over
            job, running = SlurmJob(), job
            job.CopyFrom(running)
            job.state = "REQUEUED"
        record = final_record(
            cut.name,
            cut.amounts,
            job=job,
            person=person_of(job, self._met[cut.name], self._clusters.facts()),
            doubt=InDoubt(),
            complete=True,
            last_tick_seconds=cut.last_tick_seconds,
        )
        return {**record, "start": cut.start_seconds, "start_seconds": cut.start_seconds}

    def _write(self, now_seconds: float) -> None:
        """Make it durable; if that fails, it is tried again with the next sweep."""
        runs, records = self._unwritten
        facts = self._clusters.unsaved()
        if runs or records or facts:
            self._ledger.write_runs(runs.values(), records, now_seconds, facts, (self._owned, self._written_owned))
            self._unwritten, self._written_owned = ({}, []), self._owned
            self._clusters.saved(facts)


def _says_something(record: Json) -> bool:
    """Tell whether a run did anything, or something could not be known: who rests since it was cut off did not."""
    return bool(record["filesystems"] or record["ambiguous_resets"] or not record["complete"])


def _job(identity: Identity, facts: Mapping[str, ClusterFacts]) -> SlurmJob | None:
    """Return what Slurm says of a job."""
    cluster = facts.get(identity.name.cluster)
    return None if cluster is None or identity.number is None else cluster.jobs.get(identity.number)
