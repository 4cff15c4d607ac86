"""A simulated site in virtual time before a real keeper with its ledger and sinks; what they must say is known."""

from collections import Counter as Sums
from collections.abc import Collection
from pathlib import Path
from random import Random

from campaign.agents import SimAgent, Sweep
from campaign.plan import EPOCH, PERIOD
from harvest.v1.stream_pb2 import Batch, JobTable, SlurmHealth, SlurmJob, TargetKind
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.keeping import Keeper
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.sinks.backlog import Health
from harvest_aggregator.sinks.running import Sinks
from harvest_aggregator.sinks.table import plans
from harvest_sim.ops import Kind
from harvest_sim.site import Site
from harvest_site.loading import load
from support.processes import wait_for

SERVERS = ("s0", "s1")
TARGETS = ("home-OST0000", "home-OST0001", "home-MDT0000", "data-OST0000")
CLEANUP_SECONDS = 100
_OPS = {Kind.OST: ("punch", "setattr"), Kind.MDT: ("open", "getattr", "mkdir")}
_KINDS = {Kind.OST: "oss", Kind.MDT: "mds"}

Series = tuple[str, str, str]
"""(job, file system, oss or mds)."""
Told = dict[Series, Sums[str]]
"""Every measure that is not 0."""


class VirtualSite:
    """Two servers that fail over to each other; resets of counters come right after a read, so that all was shown."""

    def __init__(self, folder: Path, text: str, secrets: Path, *, seed: int = 1, ticks_seconds: int = PERIOD) -> None:
        self._rng = Random(seed)
        self._folder = folder
        self._own = load(text)
        self._secrets = secrets
        self.period_seconds = ticks_seconds
        self.site = Site(Random(f"site {seed}"))
        for name in SERVERS:
            self.site.add_server(name, "2.15.8").clock.wall_offset_ns = EPOCH * 10**9
        for number, target in enumerate(TARGETS):
            order = SERVERS if number % 2 == 0 else SERVERS[::-1]
            self.site.add_target(target, order, cleanup_interval_seconds=CLEANUP_SECONDS)
        agents = Random(f"agents {seed}")
        self.agents = {name: SimAgent(self.site, self.site.servers[name], agents, 100) for name in SERVERS}
        self.cut: set[str] = set()
        """Agents that reach nobody: what they read is in their spools."""
        self.number = 0
        self.expected: dict[int, Told] = {}
        """By tick: what must be known then of every job."""
        self.offered = 0
        self._now = float(EPOCH)
        self._read: dict[tuple[str, bytes, int], Told] = {}
        """The truth of a target when it was read."""
        self._delivered: dict[str, Told] = {}

    # --- Harvest ---

    def begin(self) -> None:
        """Start the aggregator's keeper and sinks, also again after an end."""
        self.sinks = Sinks()
        self.sinks.change(plans(self._own, self._secrets))
        self.offered = 0
        self.keeper = Keeper(
            Ledger(self._folder / "ledger.db"), self._own, now=lambda: self._now, on_publish=self._publish
        )
        self.keeper.start()
        for name in SERVERS:
            self.keeper.connected(name, [])

    def end(self) -> None:
        """Stop them; what waits for a sink is gone."""
        self.keeper.stop()
        self.sinks.stop()

    def _publish(self, published: object) -> None:
        self.offered += 1
        self.sinks.offer(published)  # type: ignore[arg-type]

    def health(self) -> Health:
        [health] = self.sinks.healths()
        return health

    def settle(self) -> Health:
        """Wait until the sink has done with all that it was given; return how it is then."""
        wait_for(lambda: (now := self.health()).accepted + now.rejected + now.dropped == self.offered, "the sink")
        return self.health()

    def tell(self, *jobs: SlurmJob) -> None:
        """Let Slurm name jobs."""
        health = SlurmHealth(answered_seconds=int(self._now))
        self.keeper.learn_jobs("vu", JobTable(last=True, jobs=jobs, health=health)).result(60)

    # --- time ---

    @property
    def tick(self) -> int:
        return EPOCH + self.number * self.period_seconds

    def work(self, jobs: Collection[bytes]) -> None:
        """Let jobs do something at some moment until the next tick, each on some targets."""
        for job in jobs:
            self.site.advance(self._rng.uniform(0.1, 0.9) * self.period_seconds / len(jobs))
            for name in self._rng.sample(TARGETS, self._rng.randint(1, len(TARGETS))):
                target = self.site.mounted(name)
                kind = target.scope.kind
                if kind is Kind.OST:
                    target.bulk(job, self._rng.choice(("read", "write")), self._rng.randrange(1, 1 << 30))
                target.do(job, self._rng.choice(_OPS[kind]), 7, count=self._rng.randint(1, 5))

    def sweep(self) -> None:
        """Come to the next tick: agents read, deliver if they can, and the sweep is closed."""
        self.number += 1
        self.site.time.advance_to((self.tick - EPOCH) * 10**9)
        self._now = self.tick - 1.0  # no sweep is closed before its time
        for name, agent in self.agents.items():
            agent.sweep(lambda _: None, cut=set(), bad=set(), is_running=True)
            for one in agent.spool:
                key = (one.target, one.facts.incarnation, one.facts.seq)
                if key not in self._read:
                    self._read[key] = self._truth(one.target)
            if name not in self.cut:
                self._deliver(name, agent)
        self._now = self.tick + 6.0  # the deadline
        wait_for(lambda: self.keeper.published.tick_seconds == self.tick, "the sweep")
        told: Told = {}
        for truth in self._delivered.values():
            for series, numbers in truth.items():
                told.setdefault(series, Sums()).update(numbers)
        self.expected[self.tick] = told

    def _deliver(self, name: str, agent: SimAgent) -> None:
        by_seq: dict[int, list[Sweep]] = {}
        for one in agent.spool:
            by_seq.setdefault(one.facts.seq, []).append(one)
        for seq, sweeps in by_seq.items():
            self.keeper.accept(_delivery(name, seq, sweeps)).result(60)
            for one in sweeps:
                self._delivered[one.target] = self._read[one.target, one.facts.incarnation, seq]
        agent.spool.clear()

    def _truth(self, target: str) -> Told:
        """Return what every job has done on a target."""
        told: Told = {}
        for row in self.site.truth.rows():
            if row.life.scope.target == target:
                series = (row.life.readable_key.decode(), row.life.scope.fs, _KINDS[row.life.scope.kind])
                own = told.setdefault(series, Sums())
                if row.op.unit == "bytes":
                    own[row.op.name] += row.done_sum
                elif row.op.name not in {"read", "write"}:
                    own["iops"] += row.done_samples
        return told


def _delivery(agent: str, seq: int, sweeps: list[Sweep]) -> Delivery:
    messages = [Batch.FromString(data) for one in sweeps for data in one.messages]
    facts = sweeps[0].facts
    end = Batch(
        incarnation=facts.incarnation,
        seq=seq,
        tick_seconds=facts.tick_seconds,
        period_seconds=facts.period_seconds,
        last_of_sweep=True,
    )
    for one in sweeps:
        mounted = end.end.targets.add()
        mounted.target.kind = TargetKind.TARGET_KIND_OST if "OST" in one.target else TargetKind.TARGET_KIND_MDT
        mounted.target.name = one.target
    end.end.health.clock_nanoseconds = facts.tick_seconds * 10**9
    batches = tuple((message.SerializeToString(), message) for message in (*messages, end))
    return Delivery(agent=agent, incarnation=facts.incarnation, seq=seq, batches=batches)
