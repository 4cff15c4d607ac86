"""One site on its way through a history of relays: whatever it publishes is compared with the truth, for equality."""

from math import isclose
from pathlib import Path
from typing import cast

import numpy as np
from typing_extensions import override

from campaign import relay_truth
from campaign.agents import SimAgent
from campaign.client_history import ClientHistory
from campaign.client_plan import ClientPlan
from campaign.plan import EPOCH, PERIOD, Plan, Step
from campaign.relay_links import Link
from campaign.relay_plan import FILESYSTEMS, HEADS
from campaign.relay_rates import Rated
from campaign.relay_tree import Aggregator, totals_of
from campaign.relay_truth import Totals
from campaign.relay_world import SiteWorld
from harvest_aggregator.clients import ClientTables
from harvest_aggregator.nodes import Rates
from harvest_aggregator.published import Published
from harvest_aggregator.relays.pictures import KINDS, NUMBERS, Picture
from harvest_core.accounting.sweeps import ClosedTable

_IDLE = [0.0] * len(Rates._fields)


class SiteHistory(ClientHistory):
    """A site with file systems of its own: it relays them, or is a head."""

    world: SiteWorld

    def __init__(self, plan: ClientPlan, aggregator: Aggregator, folder: Path, links: dict[str, Link]) -> None:
        self._made_of = aggregator, folder, links
        self.wrong: list[str] = []
        self.truths: dict[tuple[str, int], Totals] = {}
        """What the nodes of a file system had done, as far as it was shown, when it was published last for a tick."""
        self._rates: dict[tuple[str, int], dict[str, list[float]]] = {}
        """Likewise, what was published of every node."""
        self.compared = 0
        """Rates that were compared for equality."""
        super().__init__(plan)

    @override
    def _new_world(self, plan: Plan) -> SiteWorld:
        return SiteWorld(cast("ClientPlan", plan), *self._made_of)

    @property
    def is_down(self) -> bool:
        """Whether its aggregator is away."""
        return self.world.aggregator.down_until > self._tick

    def period(self, tick: int, steps: list[Step]) -> None:
        """Play a period, and publish what is closed after it."""
        self._tick = tick
        self.world.aggregator.now = EPOCH + tick * PERIOD + 1.0
        self._period(tick, steps)

    @override
    def _in_order_of_delivery(self) -> list[SimAgent]:
        return [] if self.is_down else super()._in_order_of_delivery()

    @override
    def _deliver(self, agent: SimAgent) -> None:
        self.world.ledger.take(agent.server.name, agent.spool)
        for sweep in agent.spool:
            sweep.was_accepted = True
        agent.sent += agent.spool
        agent.spool = []

    @override
    def _close(self, tick: int) -> None:
        aggregator = self.world.aggregator
        aggregator.now = EPOCH + tick * PERIOD + 6.0
        if not self.is_down:
            self._publish()
            for sender in self.world.senders:
                sender.run(aggregator.now)
            self.world.ledger.fold()

    def _publish(self) -> None:
        aggregator, rates = self.world.aggregator, self.world.ledger.rates
        is_overdue = aggregator.now >= aggregator.closed_at + PERIOD + aggregator.site.spec.deadline_seconds
        closed = aggregator.close()
        for sweep in closed:
            for name in {filesystem for filesystem, _ in sweep.clients}:
                least, most = rates.close(sweep.tick_seconds, name, is_overdue=is_overdue)
                tables = aggregator.clients.tables().get(name)
                if tables is not None and tables.tick_seconds == sweep.tick_seconds:
                    self._compare(name, tables, least, most)
            rates.closed(sweep.tick_seconds)
        if closed:
            tables_of_all = aggregator.clients.tables()
            own = {name: tables_of_all[name] for name in FILESYSTEMS[self.world.name] if name in tables_of_all}
            published = Published(tick_seconds=closed[-1].tick_seconds, closed=closed[-1], client_tables=own)
            for sender in self.world.senders:
                sender.offer(published)

    def _compare(self, name: str, tables: ClientTables, least: Rated, most: Rated) -> None:
        """Compare what is published of a file system with what its nodes did: totals in all, and rates in time."""
        truth = relay_truth.shown(self.world.site.truth, name)
        self.truths[name, tables.tick_seconds] = truth
        if (totals := totals_in(tables)) != truth:
            self._say(f"{name} has {totals}, not {truth}")
        if tables.earlier:
            self._say(f"{name} is the site's own ever since, and {tables.earlier} is earlier")
        shown = self._rates[name, tables.tick_seconds] = {}
        for client in self.world.aggregator.clients.told(lambda _: None).clients:
            if name not in client.filesystems:
                continue
            rates = shown[client.nid] = [rate or 0.0 for rate in client.filesystems[name]]
            for rate, low, high in zip(rates, least.get(client.nid, _IDLE), most.get(client.nid, _IDLE), strict=True):
                self.compared += low == high != 0
                if not (low <= rate <= high or isclose(rate, low) or isclose(rate, high)):
                    self._say(f"{name} of {tables.tick_seconds}: {client.nid} at {rate}, not {low} to {high}: {rates}")

    def truth_of(self, head: str, picture: Picture) -> Totals:
        """Return what is true of the head's nodes that a picture tells of; it must say so, with the site's rates."""
        name, tick = picture.head.filesystem, picture.head.tick_seconds
        mine = {nid: totals for nid, totals in self.truths[name, tick].items() if _is_of(head, nid)}
        if (told := totals_of(picture)) != mine:
            self._say(f"{told} is told to {head} of {name}, not {mine}")
        must = {nid: rates for nid, rates in self._rates[name, tick].items() if _is_of(head, nid)}
        rates = rates_of(picture)
        if rates.keys() != must.keys() or not all(  # they were added up in another order
            isclose(one, other) for nid in must for one, other in zip(rates[nid], must[nid], strict=True)
        ):
            self._say(f"{rates} is told to {head} of {name}, not {must}")
        return mine

    def _say(self, what: str) -> None:
        self.wrong.append(f"{self.world.name}, tick {self._tick}: {what}")


def _is_of(head: str, nid: str) -> bool:
    return nid.endswith(f"@{HEADS[head]}")


def rates_of(picture: Picture) -> dict[str, tuple[float, ...]]:
    """Return what a head shows of a picture's nodes: bytes read and written, operations on OSTs and on MDTs."""
    return {
        nid: (ost_read + mdt_read, ost_written + mdt_written, ost_operations, mdt_operations)
        for nid, (ost_read, ost_written, ost_operations, mdt_read, mdt_written, mdt_operations) in zip(
            picture.nids, picture.rates.tolist(), strict=True
        )
    }


def totals_in(tables: ClientTables) -> Totals:
    """Return what all clients did that are no servers, of those who did anything."""
    nids = {nid for table in tables.tables.values() for nid in table.jobs} - tables.servers
    found = {
        nid.decode(): tuple(n for kind in KINDS for n in _row(tables.tables.get(kind), nid)) for nid in sorted(nids)
    }
    return {nid: totals for nid, totals in found.items() if any(totals)}


def counters_in(tables: ClientTables) -> Totals:
    """Return what counters show of all who did anything, also of those who are in no table any more."""
    totals = totals_in(tables)
    nothing = (0,) * NUMBERS
    earlier = {nid.decode(): numbers for nid, numbers in tables.earlier.items()}
    found = {
        nid: tuple(np.subtract(totals.get(nid, nothing), earlier.get(nid, nothing)).tolist())
        for nid in totals.keys() | earlier.keys()
    }
    return {nid: counters for nid, counters in found.items() if any(counters)}


def _row(table: ClosedTable | None, nid: bytes) -> tuple[int, ...]:
    if table is None:
        return 0, 0, 0
    done = table.job(nid)
    return done.read_bytes, done.write_bytes, done.iops
