"""Plays a plan: simulator, agents, network, aggregator; then compares with the truth."""

from collections import Counter as Tally
from collections import defaultdict
from dataclasses import dataclass

from campaign.agents import SimAgent, Sweep
from campaign.book import Totals
from campaign.plan import PERIOD, SERVERS, Plan
from campaign.world import World
from harvest_core.accounting.sweeps import Sweeps
from harvest_core.accounting.totals import job_totals
from harvest_sim.lives import EndReason
from harvest_sim.truth import TotalKey


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
    skipped_reads: bool


class History:
    """One history on its way."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan)
        self.sweeps = Sweeps(deadline_seconds=5)
        self.rates: list[tuple[int, dict[tuple[str, bytes, str, str], tuple[float, float]]]] = []

    # --- playing ---

    def play(self) -> Outcome:
        """Play it to its end and compare."""
        steps = list(self.plan.steps)
        for tick in range(1, self.plan.ticks + 1):
            for step in [step for step in steps if step.tick == tick]:
                self.world.site.time.advance_to(round(((tick - 1) * PERIOD + step.after) * 1e9))
                self.world.happen(step, tick)
            self.world.site.time.advance_to(tick * PERIOD * 10**9)
            self.world.bring_back(tick)
            self._sweep(tick)
        for tick in (self.plan.ticks + 1, self.plan.ticks + 2):
            self.world.down = dict.fromkeys(self.world.down, 0)
            self.world.stopped, self.world.cut = {}, {}
            self.world.site.time.advance_to(tick * PERIOD * 10**9)
            self.world.bring_back(tick)
            self._sweep(tick)
        return self._outcome()

    def _sweep(self, tick: int) -> None:
        for name, agent in self.world.agents.items():
            if self.world.site.servers[name].is_up and self.world.stopped.get(name, 0) < tick:
                agent.sweep(tick * PERIOD, self._happen_between, cut=self.world.cut_reads)
        for step in [step for waiting in self.world.between.values() for step in waiting]:
            self.world.io(step)
        self.world.between.clear()
        self.world.cut_reads = set()
        for name, agent in self.world.agents.items():
            if self.world.cut.get(name, 0) < tick and self.world.site.servers[name].is_up:
                self._deliver(agent)
        self.rates += [
            (closed.tick_seconds, closed.rates)
            for closed in self.sweeps.close(tick * PERIOD + 6, frozenset(self.world.site.targets))
        ]
        if tick % 7 == 0:
            self.world.ledger.fold()

    def _happen_between(self, target: str) -> None:
        if self.world.between[target]:
            self.world.io(self.world.between[target].pop(0))

    def _deliver(self, agent: SimAgent) -> None:
        for sweep in agent.spool:
            self._accept(sweep)
        agent.sent += agent.spool
        agent.spool = []

    def _accept(self, sweep: Sweep) -> None:
        for life, shown in sweep.shown:
            life.show(shown)
        sweep.shown = []
        sweep.was_accepted = True
        self.sweeps.report(sweep.target, self.world.ledger.accept(sweep).work)

    # --- comparing ---

    def _outcome(self) -> Outcome:
        book = self.world.ledger.book
        total: Totals = {}
        for kind in ("OST", "MDT"):
            stays = [stay for key, stay in self.world.ledger.stays.items() if kind in key[0]]
            for job, work in job_totals(stays).items():
                for (name, unit), amount in work.counters.items():
                    total[kind, job, name, unit] = amount
        truth: Totals = {
            (key.kind.name, key.key, key.op, key.unit): (amount.samples, amount.total)
            for key, amount in self.world.site.truth.shown(readable=True).items()
        }
        self._note_what_lustre_did()
        return Outcome(
            difference=_minus(truth, total),
            explained=book.explained(),
            flagged=len(book.flags),
            decisions=book.decisions,
            events=self.world.events,
            rates=self._wrong_rates(),
            skipped_reads=self.world.site.truth.events["skipped in a read"] > 0,
        )

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
        seen = {life.readable_key for life in self.world.site.truth.lives}
        if b"a?b" in seen:
            self.world.events["equal ids", self.plan.versions[0]] += 1

    def _version_of(self, server: str) -> str:
        return self.plan.versions[SERVERS.index(server)]

    def _wrong_rates(self) -> list[str]:
        """Return published rates that are negative, or above what was really done at any tick until then."""
        shift = 400_000  # what happens while a file is read has the time of the sweep and a little more
        ticks = [tick * PERIOD * 10**9 + shift for tick in range(self.plan.ticks + 3)]
        readable: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for life in self.world.site.truth.lives:
            readable[life.key].add(life.readable_key)
        most: dict[TotalKey, tuple[float, float]] = {}
        highest: list[dict[tuple[str, bytes, str, str], tuple[float, float]]] = [{}]
        for work in self.world.site.truth.work_per_tick(ticks):
            for key, amount in work.items():
                old = most.get(key, (0.0, 0.0))
                most[key] = (max(old[0], amount.samples / PERIOD), max(old[1], amount.total / PERIOD))
            bounds: defaultdict[tuple[str, bytes, str, str], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
            for key, rate in most.items():  # ids that print alike have one rate: at most all of theirs together
                for job in readable[key.key]:
                    name = (key.kind.name, job, key.op, key.unit)
                    bounds[name] = (bounds[name][0] + rate[0], bounds[name][1] + rate[1])
            highest.append(bounds)
        wrong = []
        for tick, rates in self.rates:
            for (target, job, counter, unit), rate in rates.items():
                bound = highest[tick // PERIOD].get((target[3:6], job, counter, unit), (0.0, 0.0))
                if min(rate) < 0 or any(r > b * (1 + 1e-9) for r, b in zip(rate, bound, strict=True)):
                    wrong.append(f"tick {tick // PERIOD}: {target} {job!r} {counter} {rate} above {bound}")
        return wrong


def _minus(left: Totals, right: Totals) -> Totals:
    difference = {}
    for key in left.keys() | right.keys():
        (samples, amount), (other_samples, other_amount) = left.get(key, (0, 0)), right.get(key, (0, 0))
        if (samples, amount) != (other_samples, other_amount):
            difference[key] = (samples - other_samples, amount - other_amount)
    return difference
