"""Plays a plan of a tree of relays, looks at every head after every tick, and compares with the truth."""

import tempfile
from collections import defaultdict
from math import isclose
from pathlib import Path
from typing import cast

from structlog.testing import capture_logs
from typing_extensions import override

from campaign import relay_truth
from campaign.agents import SimAgent
from campaign.client_agents import ClientAgent, ClientSweep, show
from campaign.client_history import ClientHistory
from campaign.client_plan import ClientPlan
from campaign.history import Outcome
from campaign.plan import EPOCH, PERIOD, Plan, Step
from campaign.relay_plan import HEADS
from campaign.relay_tree import FILESYSTEM, Head, Link
from campaign.relay_truth import NUMBERS, Totals
from campaign.relay_world import RelayWorld
from harvest_aggregator.clients import Clients
from harvest_aggregator.nodes import Rates
from harvest_aggregator.published import Published
from harvest_aggregator.relays.earlier import Held
from harvest_aggregator.relays.pictures import KINDS
from harvest_core.accounting.sweeps import ClosedTable

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own in it: no ledger of a history need outlive the machine
_NOTHING = (0,) * len(NUMBERS)
_IDLE = (0.0,) * len(Rates._fields)
_SHOWN_PERIODS = 3


class RelayHistory(ClientHistory):
    """One history of relays on its way."""

    world: RelayWorld
    well_ticks = 5
    """Clients are told every third tick at the latest."""

    @override
    def _new_world(self, plan: Plan) -> RelayWorld:
        self._folder = tempfile.TemporaryDirectory(prefix="relays-", dir=_MEMORY if _MEMORY.is_dir() else None)
        self._wrong: list[str] = []
        self._totals: dict[str, Totals] = {name: {} for name in HEADS}
        """What every head had after the last tick."""
        self._shown: dict[str, Totals] = {name: {} for name in HEADS}
        """The most that every head showed of every node."""
        self._told: defaultdict[int, list[dict[str, Rates]]] = defaultdict(list)
        """What the site itself says of all nodes, by tick; one that was restored may close a tick once more."""
        self._latest: dict[str, tuple[Clients, int]] = {}
        """The tick of what every head showed last, and whether it began anew since."""
        self._shown_rates: list[tuple[str, int, str, Rates]] = []
        self._highest: Totals = {}
        """What was ever shown, also of what nobody has any more."""
        return RelayWorld(cast("ClientPlan", plan), Path(self._folder.name))

    @override
    def play(self) -> Outcome:
        try:
            with capture_logs():
                return super().play()
        finally:
            self.world.close()
            self._folder.cleanup()

    @override
    def _period(self, tick: int, steps: list[Step]) -> None:
        self._tick = tick
        super()._period(tick, steps)

    @override
    def _in_order_of_delivery(self) -> list[SimAgent]:
        return [] if self._is_down else super()._in_order_of_delivery()

    @property
    def _is_down(self) -> bool:
        return self.world.down_until > self._tick

    @override
    def _deliver(self, agent: SimAgent) -> None:
        self.world.ledger.take(agent.server.name, agent.spool)
        for sweep in agent.spool:
            assert isinstance(sweep, ClientSweep)
            show(sweep, self.world.site.truth.lives)
            sweep.was_accepted = True
        agent.sent += agent.spool
        agent.spool = []

    @override
    def _close(self, tick: int) -> None:
        now = self.world.ledger.now = EPOCH + tick * PERIOD + 6.0
        for link in self.world.links.values():
            link.tick, link.now = tick, now
        if not self._is_down:
            self._publish(now)
            for sender in self.world.senders:
                sender.run(now)
            self.world.ledger.fold()
        truth = relay_truth.shown(self.world.site.truth)
        self._highest = _highest(self._highest, truth)
        for name, link in self.world.links.items():
            link.bring_late()
            if not link.is_down:
                self._look(name, link, truth, now)

    def _publish(self, now: float) -> None:
        ledger = self.world.ledger
        closed = ledger.accounts.close(now, frozenset())
        for sweep in closed:
            ledger.nodes.take(sweep, ledger.accounts.connections)
        ledger.nodes.forget(now, {FILESYSTEM: cast("ClientPlan", self.plan).interval_seconds})
        if closed:
            told = ledger.nodes.told(lambda _: None).clients
            tables = ledger.nodes.tables()
            for table in tables.values():
                self._told[table.tick_seconds].append({one.nid: one.filesystems[FILESYSTEM] for one in told})
            published = Published(tick_seconds=closed[-1].tick_seconds, closed=closed[-1], client_tables=tables)
            for sender in self.world.senders:
                sender.offer(published)

    # --- looking at heads ---

    def _look(self, name: str, link: Link, truth: Totals, now: float) -> None:
        """Compare a head with what it must have and show after a tick."""
        held = _counted(link.head.held())
        before = self._totals[name]
        if name in self.world.restored:
            before = _counted(self.world.restored.pop(name))
            self._shown[name] = {}
        self._totals[name] = held
        if not _covers(held, before):
            self._say(name, f"totals fell: {before}, then {held}")
        if not _covers(self._highest, held):
            self._say(name, f"more than was ever counted: {held}, not {self._highest}")
        if link.taken_tick == EPOCH + self._tick * PERIOD and self._is_up_to_date():
            must = {nid: totals for nid, totals in truth.items() if _is_of(name, nid)}
            if held != must if not self.world.lost else not _covers(held, _highest(must, before)):
                self._say(name, f"{held} after a call, not {must}")
        self._look_at_rates(name, link.head, held, now)

    def _is_up_to_date(self) -> bool:
        """Tell whether the site has everything again that it had before it was restored."""
        return not any(sweep.was_accepted for agent in self.world.agents.values() for sweep in agent.spool)

    def _look_at_rates(self, name: str, head: Head, held: Totals, now: float) -> None:
        rates = head.rates(now)
        tables = head.clients.tables().get(FILESYSTEM)
        if tables is None:
            self.world.events["nothing shown", name] += bool(held)
            return
        if not any(self._is_said(name, rates, said) for said in self._told[tables.tick_seconds]):
            self._say(name, f"rates {rates}, and the site's are {self._told[tables.tick_seconds]}")
        began, latest = self._latest.get(name, (head.clients, 0))
        if began is head.clients and tables.tick_seconds < latest:
            self._say(name, f"rates of {tables.tick_seconds} after those of {latest}")
        self._latest[name] = head.clients, tables.tick_seconds
        if now - tables.tick_seconds > _SHOWN_PERIODS * cast("ClientPlan", self.plan).interval_seconds:
            self._say(name, f"rates of {tables.tick_seconds} at {now}")
        self._shown_rates += [(name, self._tick, nid, rate) for nid, rate in rates.items()]
        shown = {nid: tuple(n for kind in KINDS for n in _row(tables.tables[kind], nid.encode())) for nid in rates}
        if not _covers(held, shown):
            self._say(name, f"{shown} is shown, and {held} durable")
        before = self._shown[name]
        if not _covers(shown, {nid: totals for nid, totals in before.items() if nid in shown}):
            self._say(name, f"what is shown fell: {before}, then {shown}")
        if before.keys() - shown.keys() and not self.world.was_restored:
            self._say(name, f"{before.keys() - shown.keys()} are shown no more")
        self._shown[name] = _highest(before, shown)
        lower = sum(status.lower_nodes for status in head.relayed.statuses())
        self.world.events["lower totals held", name] += bool(lower)
        if lower and not self.world.was_restored:
            self._say(name, f"{lower} nodes are said to be lower, and no sender was restored")

    def _is_said(self, head: str, rates: dict[str, Rates], by_site: dict[str, Rates]) -> bool:
        """Compare a head's rates with those of the site, which were added up in another order."""
        said = {nid: rate for nid, rate in by_site.items() if _is_of(head, nid)}
        return rates.keys() == said.keys() and all(
            self._is_equal(one, other) for nid in rates for one, other in zip(rates[nid], said[nid], strict=True)
        )

    def _is_equal(self, at_head: float | None, at_site: float | None) -> bool:
        """Compare two; a restored site may have forgotten that a node ever did such a thing, and the head has not."""
        if at_head is None or at_site is None:
            return at_head is at_site or (at_head == 0 and self.world.was_restored)
        return isclose(at_head, at_site)

    def _say(self, head: str, what: str) -> None:
        self._wrong.append(f"head {head}, tick {self._tick}: {what}")

    @override
    def _outcome(self) -> Outcome:
        truth = relay_truth.shown(self.world.site.truth)
        for name, link in self.world.links.items():
            self.world.events.update({(what, name): count for what, count in link.events.items() if what})
            if link.taken_tick <= EPOCH + self.plan.ticks * PERIOD:
                self._say(name, "was not told anything at the end, when all was well")
            must = {nid: totals for nid, totals in truth.items() if _is_of(name, nid)}
            if not self.world.lost and self._totals[name] != must:
                self._say(name, f"{self._totals[name]} at the end, not {must}")
        return Outcome(
            difference={},
            explained={},
            flagged=0,
            decisions=0,
            events=self.world.events,
            rates=self._impossible_rates(),
            published=self._wrong,
            untold=[late for agent in self.world.agents.values() for late in cast("ClientAgent", agent).untold],
            details=[],
        )

    def _impossible_rates(self) -> list[str]:
        """Return the rates at heads that are negative, or above the highest that the node ever had."""
        highest = relay_truth.highest_rates(self.world.site.truth, cast("ClientPlan", self.plan).interval_seconds)
        return [
            f"head {name}, tick {tick}: {nid} {rates} above {highest.get(nid)}"
            for name, tick, nid, rates in self._shown_rates
            if any(
                rate is not None and not 0 <= rate <= most * (1 + 1e-9)
                for rate, most in zip(rates, highest.get(nid, _IDLE), strict=True)
            )
        ]


def _is_of(head: str, nid: str) -> bool:
    return nid.endswith(f"@{HEADS[head]}")


def _counted(held: Held) -> Totals:
    """Return the totals of all who ever did anything."""
    known = {nid: tuple(max(number, 0) for number in totals) for nid, totals in held.items()}
    return {nid: totals for nid, totals in known.items() if any(totals)}


def _covers(more: Totals, less: Totals) -> bool:
    """Tell whether no total is lower."""
    return all(
        number >= other
        for nid, totals in less.items()
        for number, other in zip(more.get(nid, _NOTHING), totals, strict=True)
    )


def _highest(one: Totals, other: Totals) -> Totals:
    return {nid: tuple(map(max, one.get(nid, _NOTHING), other.get(nid, _NOTHING))) for nid in one.keys() | other.keys()}


def _row(table: ClosedTable, nid: bytes) -> tuple[int, ...]:
    """Return what a head shows of a node on one kind of target: bytes read and written, operations."""
    done = table.job(nid)
    return done.read_bytes, done.write_bytes, done.iops
