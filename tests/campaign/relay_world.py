"""The world of one site with file systems, in a history of relays: its servers, agents, aggregator and relays."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import cast

from typing_extensions import override

from campaign.agents import Sweep
from campaign.client_agents import ClientAgent, ClientLedger, ClientSweep, show
from campaign.client_plan import ClientPlan
from campaign.client_world import ClientWorld
from campaign.plan import PERIOD, Step
from campaign.relay_links import Link, Sender, senders
from campaign.relay_plan import RELAYS, SITE, targets_of
from campaign.relay_rates import Rates
from campaign.relay_tree import Aggregator, write_certificate
from harvest.v1.stream_pb2 import Batch
from harvest_aggregator.deliveries import Delivery
from harvest_sim.lives import Shown
from harvest_sim.truth import Truth


class SiteLedger(ClientLedger):
    """The product's own aggregator and ledger; the simulator's side of it goes back with it."""

    def __init__(self, truth: Truth, aggregator: Aggregator, interval_seconds: int) -> None:
        super().__init__(truth)
        self.aggregator = aggregator
        self.rates = Rates(interval_seconds)
        aggregator.on_start = self.rates.begin
        self.ever: dict[int, Shown] = {}
        """By life: the most that was ever shown of it, also of what nobody has any more."""

    def take(self, agent: str, sweeps: Iterable[Sweep]) -> None:
        """Take in what an agent delivers."""
        some = [_delivery(agent, *said, list(group)) for said, group in groupby(sweeps, _said)]
        self.aggregator.accept(some)
        for sweep in sweeps:
            assert isinstance(sweep, ClientSweep)
            self.rates.take(sweep, self._truth.lives, self.aggregator.now)
            show(sweep, self._truth.lives)
            for seen in sweep.seen.values():
                life = self._truth.lives[seen.life]
                if life.shown and life.shown[-1].revision >= getattr(self.ever.get(life.number), "revision", -1):
                    self.ever[life.number] = life.shown[-1]

    @override
    def fold(self) -> None:
        self.aggregator.accounts.fold_some(busy=False)

    @override
    def restart(self) -> None:
        self.aggregator.stop()
        self.aggregator.start()

    @override
    def keep_backup(self) -> None:
        self._shown_then = self._shown()
        self.rates.keep_backup()
        self.aggregator.keep_backup()

    @override
    def restore(self) -> None:
        self.aggregator.restore()
        self.restored()

    def restored(self) -> None:
        """Take back what was shown since the backup: it counts again when it is delivered again."""
        self.rates.restore()
        self.forget_what_was_shown()


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


class SiteWorld(ClientWorld):
    """Everything that happens to a site."""

    ledger: SiteLedger

    def __init__(self, plan: ClientPlan, aggregator: Aggregator, folder: Path, links: dict[str, Link]) -> None:
        self.name = aggregator.name
        self.aggregator = aggregator
        self._folder, self._links = folder, links
        self.was_restored = False
        """Whether it ever was: then it may know less than heads do, for a while or for good."""
        if self.name in RELAYS:
            write_certificate(folder, self.name)
        number = sum(self.name.encode())
        targets = (*targets_of(self.name), *(plan.targets if self.name == "alkindi" else ()))
        super().__init__(replace(plan, seed=plan.seed * 1000 + number, targets=targets))
        self.start_relays()

    @override
    def _new_ledger(self) -> SiteLedger:
        self.is_reordered = False
        return SiteLedger(self.site.truth, self.aggregator, cast("ClientPlan", self.plan).interval_seconds)

    def start_relays(self) -> None:
        """Begin to relay; what an earlier process had told is not known any more."""
        self.senders: list[Sender] = senders(self.aggregator.site, self.name, self._folder, self._links)

    @override
    def _happenings(self) -> dict[str, Callable[[Step], bool]]:
        return {
            **super()._happenings(),
            "site down": self._site_down,
            "agent stopped": self._agent_stopped,
            "agent killed": self._agent_killed,
        }

    @override
    def version(self, step: Step) -> str:
        return SITE

    @override
    def end_troubles(self) -> None:
        super().end_troubles()
        self.aggregator.down_until = 0

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
        self.was_restored = True
        self.start_relays()
        return True

    def head_restored(self) -> None:
        """Send again all that there is, to a head that is this site's own aggregator and was restored."""
        self.ledger.restored()
        self.was_restored = True
        for agent in self.agents.values():
            agent.spool, agent.sent = agent.sent + agent.spool, []

    def _site_down(self, step: Step) -> bool:
        """Kill the site's aggregator, which comes back some ticks later."""
        self._aggregator_restart(step)
        self.aggregator.down_until = step.tick + 1 + step.amount
        return True

    def _agent_stopped(self, step: Step) -> bool:
        cast("ClientAgent", self.agents[step.op]).stand_still(step.amount)
        return True

    def _agent_killed(self, step: Step) -> bool:
        """Kill an agent, which begins anew some time later."""
        self.agents[step.op].restart()
        return self._agent_stopped(step)
