"""A tree of sites, heads and links, and all that may happen to heads and links."""

from collections import Counter as Tally
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from campaign.client_plan import ClientPlan
from campaign.plan import EPOCH, PERIOD, Step
from campaign.relay_links import Link
from campaign.relay_plan import BACKUP, FILESYSTEMS, HEADS, RELAYS
from campaign.relay_site import SiteHistory
from campaign.relay_tree import Aggregator, Head
from campaign.relay_truth import Totals
from harvest_aggregator.relays.pictures import Picture


class Tree:
    """All sites, heads and links."""

    def __init__(self, plan: ClientPlan, folder: Path) -> None:
        self.heads = {name: Head(name, folder, plan.interval_seconds) for name in HEADS}
        self.links = {(sender, head): self._link(sender, head) for sender, heads in RELAYS.items() for head in heads}
        self.sites = {name: self._site(name, plan, folder) for name in FILESYSTEMS}
        self.events: Tally[tuple[str, str]] = Tally()

    def _link(self, sender: str, head: str) -> Link:
        def truth_of(head: str, picture: Picture) -> Totals:
            return self.sites[sender].truth_of(head, picture)

        return Link(sender, self.heads[head], truth_of)

    def _site(self, name: str, plan: ClientPlan, folder: Path) -> SiteHistory:
        aggregator = self.heads[name] if name in HEADS else Aggregator(name, folder, plan.interval_seconds)
        links = {head: link for (sender, head), link in self.links.items() if sender == name}
        return SiteHistory(plan, aggregator, folder, links)

    def close(self) -> None:
        """End all."""
        for aggregator in (*self.heads.values(), *(self.sites[name].world.aggregator for name in RELAYS)):
            aggregator.stop()

    def end_troubles(self) -> None:
        """Let everything work from now on."""
        for site in self.sites.values():
            site.world.end_troubles()
        for link in self.links.values():
            link.cut_until, link.head.down_until = 0, 0
            link.next.clear()

    def happen(self, step: Step) -> None:
        """Let something happen to a head, or to the links to it."""
        head = self.heads[step.target]
        head.now = EPOCH + (step.tick - 1) * PERIOD + step.after
        for link in self._links(head):
            link.tick, link.now = step.tick - 1, head.now
        self.events[step.what, step.target] += self._acts.get(step.what, self._plan_call)(head, step)

    def _links(self, head: Head) -> list[Link]:
        return [link for link in self.links.values() if link.head is head]

    @cached_property
    def _acts(self) -> dict[str, Callable[[Head, Step], bool]]:
        return {
            BACKUP: self._keep_backup,
            "head killed": self._kill,
            "head restored": self._restore,
            "link cut": self._cut,
            "call twice": self._repeat,
        }

    def _keep_backup(self, head: Head, step: Step) -> bool:
        del step
        if head.name in self.sites:
            self.sites[head.name].world.keep_backup()
        else:
            head.keep_backup()
        return False  # what comes of it is counted

    def _kill(self, head: Head, step: Step) -> bool:
        head.stop()
        head.start()
        head.down_until = step.tick + step.amount
        return True

    def _restore(self, head: Head, step: Step) -> bool:
        del step
        head.restore()
        for link in self._links(head):
            link.taken_tick.clear()
        if head.name in self.sites:
            self.sites[head.name].world.head_restored()
        return True

    def _cut(self, head: Head, step: Step) -> bool:
        for link in self._links(head):
            link.cut_until = step.tick + 1 + step.amount
        return True

    def _repeat(self, head: Head, step: Step) -> bool:
        del step
        repeated = [link.repeat() for link in self._links(head)]
        return any(repeated)

    def _plan_call(self, head: Head, step: Step) -> bool:
        """Note what shall become of the next call; it is counted when that is so."""
        amount = step.times if step.what == "head killed in call" else step.amount
        for link in self._links(head):
            link.next.append((step.what, amount))
        return False
