"""Plays a plan of a tree of relays, looks at every head after every tick, and compares with the truth."""

import tempfile
from pathlib import Path
from typing import cast

from structlog.testing import capture_logs
from typing_extensions import override

from campaign import relay_truth
from campaign.client_agents import ClientAgent
from campaign.client_plan import ClientPlan
from campaign.history import History, Outcome
from campaign.plan import EPOCH, PERIOD, Plan, Step
from campaign.relay_events import Tree
from campaign.relay_plan import ACCEPTS, FILESYSTEMS, HEADS, RELAYS, SITE
from campaign.relay_site import counters_in, rates_of, totals_in
from campaign.relay_tree import SHOWN_PERIODS, Head, Told, totals_of
from campaign.relay_truth import Totals, covers
from harvest_aggregator.nodes import Rates

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own in it: no ledger of a history need outlive the machine


class RelayHistory(History):
    """One history of relays on its way."""

    well_ticks = 5
    """Clients are told every third tick at the latest."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._interval_seconds = cast("ClientPlan", plan).interval_seconds
        self._wrong: list[str] = []

    @override
    def play(self) -> Outcome:
        folder = _MEMORY if _MEMORY.is_dir() else None
        with capture_logs(), tempfile.TemporaryDirectory(prefix="relays-", dir=folder) as path:
            self.tree = Tree(cast("ClientPlan", self.plan), Path(path))
            try:
                for tick in range(1, self.plan.ticks + self.well_ticks + 1):
                    if tick > self.plan.ticks:
                        self.tree.end_troubles()
                    self._period(tick, [step for step in self.plan.steps if step.tick == tick])
                return self._outcome()
            finally:
                self.tree.close()

    @override
    def _period(self, tick: int, steps: list[Step]) -> None:
        self._tick = tick
        now = EPOCH + tick * PERIOD + 6.0
        for step in steps:
            if not step.site:
                self.tree.happen(step)
        for link in self.tree.links.values():
            link.tick, link.now = tick, now
        # heads first: whatever is told to them is shown with their next sweep
        for name in sorted(self.tree.sites, key=lambda name: name in RELAYS):
            self.tree.sites[name].period(tick, [step for step in steps if step.site == name])
        for link in self.tree.links.values():
            link.bring_late()
        for head in self.tree.heads.values():
            head.now = now
            if head.down_until <= tick:
                self._look(head)

    # --- looking at heads ---

    def _look(self, head: Head) -> None:
        """Compare a head with what it must have and show after a tick."""
        if head.name not in FILESYSTEMS:  # else it has closed its sweep
            head.close()
        held = {name: totals for name, totals in head.held().items() if totals}
        must = {name: totals for name, totals in head.must_hold.items() if totals}
        if held != must:
            self._say(head, f"{held}, not {must}")
        tables = head.clients.tables()
        shown = {name: told for name, told in head.must_show.items() if self._is_fresh(told, head.now)}
        self.tree.events["nothing shown", head.name] += len(must.keys() - shown.keys())
        if tables.keys() - FILESYSTEMS.get(head.name, ()) != shown.keys():
            self._say(head, f"{tables.keys()} are shown, not {shown.keys()}")
            return
        clients = head.clients.told(lambda _: None).clients
        for name, told in shown.items():
            rates = {one.nid: one.filesystems[name] for one in clients if name in one.filesystems}
            self._look_at_rates(head, told, rates)
            if (totals := totals_in(tables[name])) != told.truth:
                self._say(head, f"{totals} is shown of {name}, not {told.truth}")
            if (counters := counters_in(tables[name])) != head.must_count[name]:
                self._say(head, f"counters of {name} show {counters}, not {head.must_count[name]}: nothing is earlier")
        if head.name in FILESYSTEMS:
            self._look_at_own(head)
        for status in head.relayed.statuses():
            self.tree.events["lower totals held", head.name] += bool(status.lower_nodes)
            if status.lower_nodes and not self.tree.sites[status.relay].world.was_restored:
                self._say(head, f"{status} is said to be lower, and no sender was restored")

    def _is_fresh(self, told: Told, now: float) -> bool:
        return now - told.picture.head.tick_seconds <= SHOWN_PERIODS * self._interval_seconds

    def _look_at_rates(self, head: Head, told: Told, rates: dict[str, Rates]) -> None:
        """Compare a head's rates with those in the last picture: they are the very same numbers."""
        must = rates_of(told.picture)
        if {nid: tuple(rate or 0.0 for rate in some) for nid, some in rates.items()} != must:
            self._say(head, f"{told.filesystem} at {rates}, not {must}")
        if not self.tree.sites[told.sender].world.was_restored:
            known = totals_of(told.picture)
            for nid, some in rates.items():
                if any(some) and nid not in known:
                    self._say(head, f"{nid} has rates {some}, and never did anything")

    def _look_at_own(self, head: Head) -> None:
        """Compare the head's own file systems with the truth: what relays tell does not touch them."""
        site = self.tree.sites[head.name]
        for name in FILESYSTEMS[head.name]:
            tables = head.clients.tables().get(name)
            if tables is not None and totals_in(tables) != site.truths[name, tables.tick_seconds]:
                self._say(head, f"{name} has {totals_in(tables)}, not {site.truths[name, tables.tick_seconds]}")

    def _say(self, head: Head, what: str) -> None:
        self._wrong.append(f"head {head.name}, tick {self._tick}: {what}")

    # --- at the end ---

    @override
    def _outcome(self) -> Outcome:
        tree = self.tree
        for head in tree.heads.values():
            for sender, names in ACCEPTS[head.name].items():
                for name in names:
                    self._compare(head, sender, name)
        for (_, name), link in tree.links.items():
            tree.events.update({(what, name): count for what, count in link.events.items() if what})
        for site in tree.sites.values():
            tree.events.update(site.world.events)
            tree.events["rates compared", SITE] += site.compared
        agents = [agent for site in tree.sites.values() for agent in site.world.agents.values()]
        return Outcome(
            difference={},
            explained={},
            flagged=0,
            decisions=0,
            events=tree.events,
            rates=[],
            published=[*(wrong for site in tree.sites.values() for wrong in site.wrong), *self._wrong],
            untold=[late for agent in agents for late in cast("ClientAgent", agent).untold],
            details=[],
        )

    def _compare(self, head: Head, sender: str, name: str) -> None:
        """Compare what a head has at the end, when all was well, with what its nodes ever did, as far as it was shown.

        Of what only an older ledger had, and no agent any more, heads may have all or nothing: whether they were told
        of it before, the model says (``must_hold``). Of nodes that lost nothing both borders are the same.
        """
        ledger = self.tree.sites[sender].world.ledger
        truth = self.tree.sites[sender].world.site.truth
        least = _of(head.name, relay_truth.shown(truth, name))
        most = _of(head.name, relay_truth.shown(truth, name, ledger.ever))
        held = head.held().get(name, {})
        if least != most and not self.tree.sites[sender].world.events["segments gone", SITE]:
            self._say(head, f"{sender} has {least} of {name} at the end, and once had {most}")
        if self.tree.links[sender, head.name].taken_tick.get(name, 0) <= EPOCH + self.plan.ticks * PERIOD:
            self._say(head, f"was not told anything of {name} at the end, when all was well")
        if not covers(held, least) or not covers(most, held):
            self._say(head, f"{held} of {name} at the end, not {least} to {most}")


def _of(head: str, totals: Totals) -> Totals:
    return {nid: some for nid, some in totals.items() if nid.endswith(f"@{HEADS[head]}")}
