"""Plays a plan: simulator, agents, network, aggregator; then compares with the truth."""

from collections import Counter as Tally
from collections import defaultdict
from dataclasses import dataclass
from random import Random

from campaign.agents import Ledger, SimAgent, Sweep
from campaign.book import Totals
from campaign.plan import PERIOD, SERVERS, TARGETS, Plan, Step
from harvest_core.accounting.sweeps import Sweeps
from harvest_core.accounting.totals import job_totals
from harvest_sim.ids import readable_id
from harvest_sim.lives import EndReason
from harvest_sim.site import Site


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
        self.events: Tally[tuple[str, str]] = Tally()
        self.site = Site(Random(f"site {plan.seed}"))
        for name, version in zip(SERVERS, plan.versions, strict=True):
            plain, _, header = version.partition(" ")
            self.site.add_server(name, plain, stats_header=not header)
        for number, target in enumerate(TARGETS):
            order = SERVERS if number == 0 else SERVERS[::-1]
            self.site.add_target(target, order, cleanup_interval_seconds=plan.cleanup_seconds)
        rng = Random(f"agents {plan.seed}")
        self.agents = {name: SimAgent(self.site, self.site.servers[name], rng) for name in SERVERS}
        self.ledger = Ledger(self.site.truth)
        self.sweeps = Sweeps(deadline_seconds=5)
        self.rates: list[tuple[int, dict[tuple[str, bytes, str, str], tuple[float, float]]]] = []
        self._down: dict[str, int] = {}
        self._stopped: dict[str, int] = {}
        self._cut: dict[str, int] = {}
        self._cut_reads: set[str] = set()
        self._between: list[Step] = []

    # --- playing ---

    def play(self) -> Outcome:
        """Play it to its end and compare."""
        steps = list(self.plan.steps)
        for tick in range(1, self.plan.ticks + 1):
            for step in [step for step in steps if step.tick == tick]:
                self.site.time.advance_to(round(((tick - 1) * PERIOD + step.after) * 1e9))
                self._happen(step, tick)
            self.site.time.advance_to(tick * PERIOD * 10**9)
            self._bring_back(tick)
            self._sweep(tick)
        for tick in (self.plan.ticks + 1, self.plan.ticks + 2):
            self._down = dict.fromkeys(self._down, 0)
            self._stopped, self._cut = {}, {}
            self.site.time.advance_to(tick * PERIOD * 10**9)
            self._bring_back(tick)
            self._sweep(tick)
        return self._outcome()

    def _sweep(self, tick: int) -> None:
        for name, agent in self.agents.items():
            if self.site.servers[name].is_up and self._stopped.get(name, 0) < tick:
                agent.sweep(tick * PERIOD, self._happen_between, cut=self._cut_reads)
        for step in self._between:
            self._io(step)
        self._between = []
        self._cut_reads = set()
        for name, agent in self.agents.items():
            if self._cut.get(name, 0) < tick and self.site.servers[name].is_up:
                self._deliver(agent)
        self.rates += [
            (closed.tick_seconds, closed.rates)
            for closed in self.sweeps.close(tick * PERIOD + 6, frozenset(self.site.targets))
        ]
        if tick % 7 == 0:
            self.ledger.fold()

    def _happen_between(self) -> None:
        if self._between:
            self._io(self._between.pop(0))

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
        self.sweeps.report(sweep.target, self.ledger.accept(sweep).work)

    # --- what happens ---

    def _happen(self, step: Step, tick: int) -> None:
        version = self._version(step)
        happened = {
            "io": self._io,
            "backup": self._backup,
            "clear": self._clear,
            "clear one": self._clear_one,
            "remount": self._remount,
            "failover": self._fail_over,
            "reboot": self._reboot,
            "crash": self._crash,
            "clock forward": self._clock_forward,
            "clock back": self._clock_back,
            "interval": self._interval,
            "last_rcvd deleted": self._delete_last_rcvd,
            "cut read": self._cut_read,
            "skip": self._skip,
            "agent restart": self._agent_restart,
            "agent stop": self._agent_stop,
            "agent long stop": self._agent_long_stop,
            "state lost": self._state_lost,
            "network cut": self._network_cut,
            "duplicate": self._duplicate,
            "aggregator restart": self._aggregator_restart,
            "aggregator restored": self._aggregator_restored,
            "spool full": self._spool_full,
        }[step.what](step._replace(tick=tick))
        if happened and step.what not in {"io", "backup", "skip"}:
            self.events[step.what, version] += 1

    def _io(self, step: Step) -> bool:
        if not self.site.is_ready(step.target):
            return False
        target = self.site.mounted(step.target)
        if step.op in {"read", "write"}:
            target.bulk(step.job, step.op, step.amount, usecs=step.amount % 977 + 1, count=step.times)
        elif target.counts(step.op):
            target.do(step.job, step.op, step.amount % 977 + 1, count=step.times)
        return True

    def _clear(self, step: Step) -> bool:
        if not self.site.is_ready(step.target):
            return False
        self.site.clear(step.target)
        return True

    def _clear_one(self, step: Step) -> bool:
        if not self.site.is_ready(step.target):
            return False
        version = self.site.mounted(step.target).scope.version
        self.site.clear(step.target, readable_id(version, step.job))
        return True

    def _remount(self, step: Step) -> bool:
        if not self.site.is_ready(step.target):
            return False
        self.site.remount(step.target)
        return True

    def _fail_over(self, step: Step) -> bool:
        target = self.site.targets[step.target].mounted
        here = target.scope.server if target else ""
        to = next((name for name in SERVERS if name != here and self.site.servers[name].is_up), None)
        if to is None:
            return False
        self.site.fail_over(step.target, to)
        return True

    def _reboot(self, step: Step) -> bool:
        if not self.site.servers[step.op].is_up:
            return False
        self.site.reboot(step.op)
        self.agents[step.op].restart()
        return True

    def _crash(self, step: Step) -> bool:
        if not self.site.servers[step.op].is_up:
            return False
        self.site.crash(step.op)
        self._down[step.op] = step.tick + 3
        return True

    def _bring_back(self, tick: int) -> None:
        for name, until in list(self._down.items()):
            if until <= tick:
                del self._down[name]
                self.site.boot(name)
                self.agents[name].restart()
        for target, state in self.site.targets.items():
            up = [name for name in state.servers if self.site.servers[name].is_up]
            if state.mounted is None and up:
                self.site.mount(target, up[0])

    def _clock_forward(self, step: Step) -> bool:
        self.site.step_clock(step.op, step.amount)
        return True

    def _clock_back(self, step: Step) -> bool:
        self.site.step_clock(step.op, -step.amount)
        return True

    def _interval(self, step: Step) -> bool:
        self.site.set_cleanup_interval(step.target, step.amount)
        return True

    def _delete_last_rcvd(self, step: Step) -> bool:
        target = self.site.targets[step.target].mounted
        if target is None:
            return False
        self.site.unmount(step.target)
        self.site.delete_last_rcvd(step.target)
        self.site.mount(step.target, target.scope.server)
        return True

    def _cut_read(self, step: Step) -> bool:
        self._cut_reads.add(step.target)
        return True

    def _skip(self, step: Step) -> bool:
        """Let a job start while the file is read: idle records are evicted under the reader's hands."""
        self._between += [step._replace(op="write" if "OST" in step.target else "open", job=b"new%d" % step.tick)] * 2
        return True

    def _backup(self, step: Step) -> bool:
        del step
        self.ledger.keep_backup()
        return True

    def _version(self, step: Step) -> str:
        """Return the version of the server that an event is about."""
        name = step.op
        if step.what in {
            "clear",
            "clear one",
            "remount",
            "failover",
            "interval",
            "last_rcvd deleted",
            "cut read",
            "skip",
        }:
            mounted = self.site.targets[step.target].mounted
            name = mounted.scope.server if mounted else name
        return self.plan.versions[SERVERS.index(name)] if name in SERVERS else self.plan.versions[0]

    def _agent_restart(self, step: Step) -> bool:
        self.agents[step.op].restart()
        return True

    def _agent_stop(self, step: Step) -> bool:
        self._stopped[step.op] = step.tick + 2
        return True

    def _agent_long_stop(self, step: Step) -> bool:
        self._stopped[step.op] = step.tick + 2 * self.plan.cleanup_seconds // PERIOD
        self.agents[step.op].restart()
        return True

    def _state_lost(self, step: Step) -> bool:
        agent = self.agents[step.op]
        if any(sweep.was_accepted for sweep in agent.spool):
            return False  # on top of a restored aggregator: then it is gone for good
        agent.spool, agent.sent = [], []
        agent.restart()
        self.ledger.keep_backup()
        return True

    def _network_cut(self, step: Step) -> bool:
        self._cut[step.op] = step.tick + 4
        return True

    def _duplicate(self, step: Step) -> bool:
        again = self.agents[step.op].sent[-step.amount % 7 - 1 :]
        for sweep in again:
            self.ledger.accept(sweep)
        return bool(again)

    def _aggregator_restart(self, step: Step) -> bool:
        del step
        self.ledger.restart()
        return True

    def _aggregator_restored(self, step: Step) -> bool:
        del step
        self.ledger.restore()
        for agent in self.agents.values():
            agent.spool = agent.sent + agent.spool
            agent.sent = []
        return True

    def _spool_full(self, step: Step) -> bool:
        agent = self.agents[step.op]
        agent.merge_spool()
        return len(agent.spool) > 1

    # --- comparing ---

    def _outcome(self) -> Outcome:
        book = self.ledger.book
        total: Totals = {}
        for kind in ("OST", "MDT"):
            stays = [stay for key, stay in self.ledger.stays.items() if kind in key[0]]
            for job, work in job_totals(stays).items():
                for (name, unit), amount in work.counters.items():
                    total[kind, job, name, unit] = amount
        truth: Totals = {
            (key.kind.name, key.key, key.op, key.unit): (amount.samples, amount.total)
            for key, amount in self.site.truth.shown(readable=True).items()
        }
        self._note_what_lustre_did()
        return Outcome(
            difference=_minus(truth, total),
            explained=book.explained(),
            flagged=len(book.flags),
            decisions=book.decisions,
            events=self.events,
            rates=self._wrong_rates(),
            skipped_reads=self.site.truth.events["skipped in a read"] > 0,
        )

    def _note_what_lustre_did(self) -> None:
        """Count what happened by itself, by version."""
        for before, after in self.site.truth.successions():
            version = self._version_of(after.scope.server)
            if before.end_reason is EndReason.EVICTED and before.shown and after.shown:
                first, second = (sum(value[1] for value in life.shown[-1].values) for life in (before, after))
                how = "lower" if second < first else "equal" if second == first else "higher"
                self.events[f"evicted, back {how}", version] += 1
        skipped = self.site.truth.events["skipped in a read"]
        if skipped:
            self.events["skipped in a read", self.plan.versions[0]] += skipped
        if self.ledger.book.invisible:
            self.events["invisible clear", self.plan.versions[0]] += len(self.ledger.book.invisible)
        seen = {life.readable_key for life in self.site.truth.lives}
        if b"a?b" in seen:
            self.events["equal ids", self.plan.versions[0]] += 1

    def _version_of(self, server: str) -> str:
        return self.plan.versions[SERVERS.index(server)]

    def _wrong_rates(self) -> list[str]:
        """Return published rates that are negative, or above what was really done at any tick until then."""
        shift = 400_000  # what happens while a file is read has the time of the sweep and a little more
        ticks = [tick * PERIOD * 10**9 + shift for tick in range(self.plan.ticks + 3)]
        keys: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for life in self.site.truth.lives:
            keys[life.key].add(life.readable_key)
        most: dict[tuple[str, bytes, str, str], tuple[float, float]] = {}
        highest: list[dict[tuple[str, bytes, str, str], tuple[float, float]]] = [{}]
        for work in self.site.truth.work_per_tick(ticks):
            done: Totals = {}
            for key, amount in work.items():
                for job in keys[key.key]:
                    name = (key.kind.name, job, key.op, key.unit)
                    before = done.get(name, (0, 0))
                    done[name] = (before[0] + amount.samples, before[1] + amount.total)
            for name, (samples, total) in done.items():
                old = most.get(name, (0.0, 0.0))
                most[name] = (max(old[0], samples / PERIOD), max(old[1], total / PERIOD))
            highest.append(dict(most))
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
