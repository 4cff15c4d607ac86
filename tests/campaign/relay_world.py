"""The world of a history of relays: a site with the product's own ledger, and heads behind links."""

from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from typing_extensions import override

from campaign.agents import Sweep
from campaign.client_agents import ClientLedger
from campaign.client_plan import ClientPlan
from campaign.client_world import ClientWorld
from campaign.plan import EPOCH, PERIOD, Step
from campaign.relay_plan import BACKUP, HEADS, SITE
from campaign.relay_tree import Head, Link, Sender, make_ledger, sender_site, senders, write_certificate
from harvest.v1.stream_pb2 import Batch
from harvest_aggregator import backups
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.clients import Clients
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.relays.earlier import Held
from harvest_sim.truth import Truth
from harvest_site.model import Site


class SiteLedger(ClientLedger):
    """The accounting of the site-wide file system with its ledger, both the product's own."""

    def __init__(self, truth: Truth, folder: Path, site: Site) -> None:
        super().__init__(truth)
        self._path = folder / SITE / "ledger.db"
        self._file = folder / f"{SITE}.backup"
        self._site = site
        self.now = float(EPOCH)
        make_ledger(self._path)
        make_ledger(self._file)
        self._begin()

    def _begin(self) -> None:
        self.durable = Ledger(self._path)
        self.durable.open()
        self.accounts = Accounts(self.durable, self._site)
        self.accounts.load(self.now)
        self.nodes = Clients()
        self.recoveries += 1

    def take(self, agent: str, sweeps: Iterable[Sweep]) -> None:
        """Take in what an agent delivers."""
        some = [_delivery(agent, *said, list(group)) for said, group in groupby(sweeps, _said)]
        self.accounts.accept(some, self.now)

    @override
    def fold(self) -> None:
        self.accounts.fold_some(busy=False)

    @override
    def restart(self) -> None:
        self.durable.close()
        self._begin()

    @override
    def keep_backup(self) -> None:
        self._shown_then = self._shown()
        backups.backup(self._path, self._file, overwrite=True)

    @override
    def restore(self) -> None:
        self.durable.close()
        backups.restore(self._file, self._path)
        self._begin()


def _said(sweep: Sweep) -> tuple[bytes, int]:
    return sweep.facts.incarnation, sweep.facts.seq


def _delivery(agent: str, incarnation: bytes, seq: int, sweeps: list[Sweep]) -> Delivery:
    end = Batch(
        incarnation=incarnation,
        seq=seq,
        tick_seconds=sweeps[0].facts.tick_seconds,
        period_seconds=PERIOD,
        last_of_sweep=True,
    )
    messages = [*(message for one in sweeps for message in one.messages), end.SerializeToString()]
    batches = tuple((message, Batch.FromString(message)) for message in messages)
    return Delivery(agent=agent, incarnation=incarnation, seq=seq, batches=batches)


class RelayWorld(ClientWorld):
    """Everything that a history of relays happens to."""

    ledger: SiteLedger

    def __init__(self, plan: ClientPlan, folder: Path) -> None:
        self._folder = folder
        self._described = sender_site(plan.interval_seconds)
        write_certificate(folder)
        self.heads = {name: Head(name, folder) for name in HEADS}
        self.links = {name: Link(head) for name, head in self.heads.items()}
        self.restored: dict[str, Held] = {}
        """What heads had that went back to it, and were not looked at since."""
        self.was_restored = False
        """Whether the site ever was."""
        self.down_until = 0
        """The site's aggregator, a tick."""
        self.lost = False
        """Whether there was ever something that only heads have any more."""
        super().__init__(plan)
        self.start_relays()

    @override
    def _new_ledger(self) -> SiteLedger:
        self.is_reordered = False
        return SiteLedger(self.site.truth, self._folder, self._described)

    def start_relays(self) -> None:
        """Begin to relay; what an earlier process had told is not known any more."""
        self.senders: list[Sender] = senders(self._described, self._folder, self.links)

    def close(self) -> None:
        """End all."""
        self.ledger.durable.close()
        for head in self.heads.values():
            head.stop()

    @override
    def _happenings(self) -> dict[str, Callable[[Step], bool]]:
        return {
            **super()._happenings(),
            "site down": self._site_down,
            BACKUP: self._head_backup,
            "head killed": self._kill_head,
            "head restored": self._restore_head,
            "link cut": self._cut,
            "call twice": lambda step: self.links[step.target].repeat(),
            **dict.fromkeys(("head killed in call", "call delayed", "answer lost"), self._plan_call),
        }

    @override
    def version(self, step: Step) -> str:
        """Return where something happens."""
        return step.target if step.target in HEADS else SITE

    @override
    def happen(self, step: Step, tick: int) -> None:
        for link in self.links.values():
            link.tick, link.now = tick - 1, EPOCH + (tick - 1) * PERIOD + step.after
        super().happen(step, tick)
        del self.events[BACKUP, self.version(step)]

    @override
    def end_troubles(self) -> None:
        super().end_troubles()
        self.down_until = 0
        for link in self.links.values():
            link.cut_until, link.head.down_until = 0, 0
            link.next.clear()

    @override
    def _aggregator_restart(self, step: Step) -> bool:
        super()._aggregator_restart(step)
        self.start_relays()
        return True

    @override
    def _aggregator_restored(self, step: Step) -> bool:
        super()._aggregator_restored(step)
        self.was_restored = True
        self.start_relays()
        return True

    @override
    def _segments_gone(self, step: Step) -> bool:
        super()._segments_gone(step)
        self.lost = self.was_restored = True
        self.start_relays()
        return True

    @override
    def _duplicate(self, step: Step) -> bool:
        again = self.agents[step.op].sent[-step.amount % 7 - 1 :]
        self.ledger.take(step.op, again)
        return bool(again)

    def _site_down(self, step: Step) -> bool:
        """Kill the site's aggregator, which comes back some ticks later."""
        self._aggregator_restart(step)
        self.down_until = step.tick + 1 + step.amount
        return True

    def _head_backup(self, step: Step) -> bool:
        self.heads[step.target].keep_backup()
        return True

    def _kill_head(self, step: Step) -> bool:
        head = self.heads[step.target]
        head.stop()
        head.start()
        head.down_until = step.tick + step.amount
        return True

    def _restore_head(self, step: Step) -> bool:
        if not self.heads[step.target].restore():
            return False
        self.links[step.target].taken_tick = 0
        self.restored[step.target] = self.heads[step.target].held()
        return True

    def _cut(self, step: Step) -> bool:
        self.links[step.target].cut_until = step.tick + 1 + step.amount
        return True

    def _plan_call(self, step: Step) -> bool:
        """Note what shall become of the next call; it is counted when that is so."""
        amount = step.times if step.what == "head killed in call" else step.amount
        self.links[step.target].next.append((step.what, amount))
        return False
