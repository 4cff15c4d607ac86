"""Plays a plan: simulator, agents, network, aggregator; then compares with the truth."""

from collections import Counter as Tally
from dataclasses import dataclass

from campaign.agents import SimAgent, Sweep
from campaign.book import Totals
from campaign.details import accounted, shown
from campaign.plan import EPOCH, PERIOD, SERVERS, Plan, Step
from campaign.windows import Windows, place
from campaign.world import World
from harvest_core.accounting.apply import Work
from harvest_core.accounting.parking import JobSum, Sums, merge
from harvest_core.accounting.sweeps import ClosedSweep, Place, Sweeps
from harvest_core.accounting.totals import job_totals
from harvest_sim.lives import EndReason


@dataclass(slots=True)
class Outcome:
    """What a history came to."""

    difference: Totals
    """Truth less total, where they differ."""
    explained: Totals
    """What flagged decisions that were wrong account for."""
    flagged: int
    decisions: int
    events: Tally[tuple[str, str]]
    """(event, version) -> how often."""
    rates: list[str]
    """Published rates that cannot be."""
    published: list[str]
    """Published totals that are not those of the state."""
    untold: list[str]
    """What was never shown, of which nothing was said."""
    details: list[str]
    """Minima, maxima and histograms that are not those that were shown."""


class History:
    """One history on its way."""

    well_ticks = 2
    """So many at the end, at which everything works."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = self._new_world(plan)
        self.sweeps = Sweeps(deadline_seconds=5)
        self._recoveries = 0
        self.windows = Windows()
        self.published: list[ClosedSweep] = []
        self.closed_tick = 0

    def _new_world(self, plan: Plan) -> World:
        return World(plan)

    def _place(self, target: str) -> Place:
        return place(target)

    # --- playing ---

    def play(self) -> Outcome:
        """Play it to its end and compare; at the end everything works for a while, so that all is read and sent."""
        for tick in range(1, self.plan.ticks + self.well_ticks + 1):
            if tick > self.plan.ticks:
                self.world.end_troubles()
            self._period(tick, [step for step in self.plan.steps if step.tick == tick])
        return self._outcome()

    def _period(self, tick: int, steps: list[Step]) -> None:
        """Play what happens until the tick, and the reads whose time comes by the clocks of their servers."""
        for step in steps:
            at_ns = round(((tick - 1) * PERIOD + step.after) * 1e9)
            self._read_until(at_ns, tick)
            self.world.site.time.advance_to(at_ns)
            self.world.happen(step, tick)
        end_ns = tick * PERIOD * 10**9
        self._read_until(end_ns - 1, tick)
        self.world.site.time.advance_to(end_ns)
        self.world.bring_back(tick)
        self._read_until(end_ns, tick)
        for step in [step for waiting in self.world.between.values() for step in waiting]:
            self.world.io(step)
        self.world.between.clear()
        for agent in self._in_order_of_delivery():
            name = agent.server.name
            if self.world.cut.get(name, 0) < tick and self.world.site.servers[name].is_up:
                self._deliver(agent)
        self._close(tick)

    def _close(self, tick: int) -> None:
        """Publish what is closed after a tick, and write a snapshot now and then."""
        self._recover()
        for closed in self.sweeps.close(
            EPOCH + tick * PERIOD + 6, frozenset(map(self._place, self.world.site.targets))
        ):
            self.closed_tick = closed.tick_seconds
            self.published.append(closed)
        if self.plan.parked_every and tick % self.plan.parked_every == 0:
            self.world.events["parked", self.plan.versions[0]] += self.world.ledger.park()
        elif tick % 7 == 0:
            self.world.ledger.fold()

    def _in_order_of_delivery(self) -> list[SimAgent]:
        return list(self.world.agents.values())

    def _read_until(self, until_ns: int, tick: int) -> None:
        while True:
            agent = min(self.world.agents.values(), key=SimAgent.due_ns)
            if agent.due_ns() > until_ns:
                return
            self.world.site.time.advance_to(agent.due_ns())
            is_running = agent.server.is_up and self.world.stopped.get(agent.server.name, 0) < tick
            agent.sweep(self._happen_between, cut=self.world.cut_reads, bad=self.world.bad_lines, is_running=is_running)

    def _happen_between(self, target: str) -> None:
        if self.world.between[target]:
            self.world.io(self.world.between[target].pop(0))

    def _deliver(self, agent: SimAgent) -> None:
        for sweep in agent.spool:
            self._accept(sweep)
        agent.sent += agent.spool
        agent.spool = []

    def _recover(self) -> None:
        """Begin again with what the ledger has, as an aggregator does after it died."""
        ledger = self.world.ledger
        if self._recoveries != ledger.recoveries:
            self._recoveries = ledger.recoveries
            self.sweeps = Sweeps(deadline_seconds=5, closed_tick_seconds=self.closed_tick)
            for (target, *_), stay in ledger.stays.items():
                self.sweeps.restore(self._place(target), stay, until_tick=self.closed_tick)
            for target, sums in ledger.parked.items():
                for job, done in sums.items():
                    self.sweeps.restore_sum(self._place(target).table, job, done, until_tick=self.closed_tick)

    def _accept(self, sweep: Sweep) -> None:
        self._recover()
        for life, what in sweep.shown:
            life.show(what)
        sweep.shown = []
        work = self.world.ledger.accept(sweep).work
        self.sweeps.report(place(sweep.target), work)
        if not sweep.was_accepted and work.tick_seconds > self.closed_tick:  # else it was replayed, or late
            self.windows.note(sweep, work)
        sweep.was_accepted = True

    # --- comparing ---

    def _outcome(self) -> Outcome:
        book = self.world.ledger.book
        total = self._total()
        truth: Totals = {
            (key.kind.name, key.key, key.op, key.unit): (amount.samples, amount.total)
            for key, amount in self.world.site.truth.shown(readable=True).items()
        }
        self._note_what_lustre_did()
        difference = minus(truth, total)
        was_bad = any(event == "bad line" for event, _ in self.world.events)  # then not all details were shown
        return Outcome(
            difference=difference,
            explained=book.explained(),
            flagged=len(book.flags),
            decisions=book.decisions,
            events=self.world.events,
            rates=self.windows.wrong(self.published, self.world.site.truth),
            published=self._wrongly_published(),
            untold=book.unseen.untold(self.world.site.truth),
            details=self._wrong_details(with_histograms=not difference and not book.flags) if not was_bad else [],
        )

    def _total(self) -> Totals:
        """Return what the accounting has come to."""
        total: Totals = {}
        for target in self.world.ledger.targets:
            for job, done in self._done(target).items():
                for (name, unit), (samples, amount) in done.counters.items():
                    key = (self._place(target).kind, job, name, unit)
                    known = total.get(key, (0, 0))
                    total[key] = (known[0] + samples, known[1] + amount)
        return total

    def _done(self, target: str) -> Sums:
        """Return what every job did on a target: of the records that are there, and of those that have left."""
        ledger = self.world.ledger
        done = {
            job: JobSum(counters=dict(work.counters))
            for job, work in job_totals(ledger.targets[target].stays.values()).items()
        }
        merge(done, ledger.parked.get(target, {}))
        return done

    def _wrongly_published(self) -> list[str]:
        """Return the totals of the last closed sweep that are not what the lives add up to."""
        some_day = EPOCH * 2  # also of servers whose clocks are ahead, and what came late
        for (name, *_), stay in self.world.ledger.stays.items():
            self.sweeps.report(self._place(name), Work(mount=stay.mounts[-1][1], tick_seconds=some_day))
        closed = self.sweeps.close(some_day, frozenset())[-1]
        tables = {**closed.tables, **closed.clients}
        wrong = []
        for name in self.world.ledger.targets:
            table = tables[self._place(name).table]
            totals = self._done(name)
            for job in totals.keys() | set(table.jobs):
                known = totals[job].counters if job in totals else {}
                if {k: v for k, v in known.items() if any(v)} != table.job(job).counters:
                    wrong.append(f"{name} {job!r}: {table.job(job).counters}, not {known}")
        return wrong

    def _wrong_details(self, *, with_histograms: bool) -> list[str]:
        """Return minima and maxima that differ, and histograms where no life was in doubt."""
        extremes, histograms = shown(self.world.ledger.book.details.values())
        our_extremes, our_histograms = accounted(self.world.ledger.stays, self.world.ledger.parked)
        wrong = [
            f"{key} was {pair}, not {our_extremes.get(key)}"
            for key, pair in extremes.items()
            if our_extremes.get(key) != pair
        ]
        if with_histograms and histograms != our_histograms:
            wrong.append(f"histograms: {set(histograms.items()) ^ set(our_histograms.items())}")
        return wrong

    def _note_what_lustre_did(self) -> None:
        """Count what happened by itself, by version."""
        for before, after in self.world.site.truth.successions():
            version = self._version_of(after.scope.server)
            if before.end_reason is EndReason.EVICTED and before.shown and after.shown:
                first, second = (sum(value[1] for value in life.shown[-1].values) for life in (before, after))
                how = "lower" if second < first else "equal" if second == first else "higher"
                self.world.events[f"evicted, back {how}", version] += 1
        skipped = self.world.site.truth.events["skipped in a read"]
        if skipped:
            self.world.events["skipped in a read", self.plan.versions[0]] += skipped
        if self.world.ledger.book.invisible:
            self.world.events["invisible clear", self.plan.versions[0]] += len(self.world.ledger.book.invisible)
        for target, sums in self.world.ledger.parked.items():
            mounts = [mount for stay in self.world.ledger.targets[target].stays.values() for _, mount in stay.mounts]
            back = sums.keys() & {job for mount in mounts for job in mount.jobs}
            self.world.events["parked, and back", self.plan.versions[0]] += len(back)
        seen = {life.readable_key for life in self.world.site.truth.lives}
        if b"a?b" in seen:
            self.world.events["equal ids", self.plan.versions[0]] += 1

    def _version_of(self, server: str) -> str:
        return self.plan.versions[SERVERS.index(server)]


def minus(left: Totals, right: Totals) -> Totals:
    """Return by how much totals differ."""
    difference = {}
    for key in left.keys() | right.keys():
        (samples, amount), (other_samples, other_amount) = left.get(key, (0, 0)), right.get(key, (0, 0))
        if (samples, amount) != (other_samples, other_amount):
            difference[key] = (samples - other_samples, amount - other_amount)
    return difference
