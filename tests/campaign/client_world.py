"""The world of a history of clients."""

from collections.abc import Callable
from random import Random
from typing import cast

from typing_extensions import override

from campaign.agents import SimAgent
from campaign.client_agents import ClientAgent, ClientLedger
from campaign.client_plan import ClientPlan
from campaign.plan import SERVERS, Step
from campaign.world import World
from harvest_sim.target import MountedTarget

_OF_TARGETS = frozenset(
    {
        *("exports cleared", "zeroed", "forgotten", "client leaves", "client returns"),
        *("remount", "remount in pass", "failover", "failback", "bad line"),
    }
)


class ClientWorld(World):
    """Everything that a history of clients happens to."""

    ledger: ClientLedger

    @override
    def _new_agent(self, name: str, rng: Random) -> SimAgent:
        plan = cast("ClientPlan", self.plan)
        return ClientAgent(self.site, self.site.servers[name], rng, plan.part_records, plan.interval_seconds)

    @override
    def _new_ledger(self) -> ClientLedger:
        self.is_reordered = False
        return ClientLedger(self.site.truth)

    @override
    def _happenings(self) -> dict[str, Callable[[Step], bool]]:
        return {
            **super()._happenings(),
            "connect": self._connect,
            "exports cleared": self._clear_exports,
            "zeroed": self._zero,
            "forgotten": self._forget,
            "client leaves": self._leave,
            "client returns": self._connect,
            "remount in pass": self._remount_in_pass,
            "failback": self._fail_back,
            "reordered": self._reorder,
            "switched off": self._switch_off,
            "switched on": self._switch_on,
            "older segments gone": self._older_segments_gone,
        }

    @override
    def version(self, step: Step) -> str:
        mounted = self.site.targets[step.target].mounted if step.what in _OF_TARGETS else None
        name = mounted.scope.server if mounted else step.op
        return self.plan.versions[SERVERS.index(name)] if name in SERVERS else self.plan.versions[0]

    @override
    def happen(self, step: Step, tick: int) -> None:
        super().happen(step, tick)
        for what in ("connect", "switched on"):
            del self.events[what, self.version(step)]

    @override
    def io(self, step: Step) -> bool:
        target = self._ready(step.target)
        nid = step.job.decode()
        if target is None or nid not in target.exports.stats or not target.exports.uuids[nid]:
            return False
        if step.op in {"read", "write"}:
            target.bulk(b"job", step.op, step.amount, usecs=step.amount % 977 + 1, count=step.times, nid=nid)
        elif step.op == "ping":
            target.exports.stats[nid].count_generic("ping", step.times)
        elif target.counts(step.op):
            target.do(b"job", step.op, step.amount % 977 + 1, count=step.times, nid=nid)
            if step.op == "statfs":
                target.exports.stats[nid].count_generic("statfs", step.times)
        return True

    def _ready(self, target: str) -> MountedTarget | None:
        return self.site.mounted(target) if self.site.is_ready(target) else None

    def between_files(self, target: str) -> None:
        """Let something happen between the files of two clients."""
        if self.between[target]:
            step = self.between[target].pop(0)
            if self._remount(step):
                self.events["remount in pass", self.version(step)] += 1

    def _connect(self, step: Step) -> bool:
        nid = step.job.decode()
        if self.site.clients.get((_filesystem(step), nid)):
            return False
        self.site.connect(_filesystem(step), nid)
        return True

    def _leave(self, step: Step) -> bool:
        nid = step.job.decode()
        uuids = list(self.site.clients.get((_filesystem(step), nid), ()))
        for uuid in uuids:
            self.site.disconnect(_filesystem(step), nid, uuid)
        return bool(uuids)

    def _clear_exports(self, step: Step) -> bool:
        target = self._ready(step.target)
        if target is not None:
            target.exports.clear()
        return target is not None

    def _zero(self, step: Step) -> bool:
        target = self._ready(step.target)
        stats = None if target is None else target.exports.stats.get(step.job.decode())
        if stats is not None:
            stats.zero()
        return stats is not None

    def _forget(self, step: Step) -> bool:
        target = self._ready(step.target)
        if target is None or step.job.decode() not in target.exports.stats:
            return False
        self._leave(step)
        target.exports.forget(step.job.decode())
        return True

    def _remount_in_pass(self, step: Step) -> bool:
        self.between[step.target].append(step)
        return False  # not yet

    def _fail_back(self, step: Step) -> bool:
        disk = self.site.targets[step.target]
        home = disk.servers[0]
        if disk.mounted is None or disk.mounted.scope.server == home or not self.site.servers[home].is_up:
            return False
        self.site.fail_back(step.target)
        return True

    def _switch_off(self, step: Step) -> bool:
        cast("ClientAgent", self.agents[step.op]).want(is_wanted=False)
        return True

    def _switch_on(self, step: Step) -> bool:
        cast("ClientAgent", self.agents[step.op]).want(is_wanted=True)
        return True

    def _older_segments_gone(self, step: Step) -> bool:
        """Restore an aggregator whose agents have their latest segment only: it takes that, and a full picture."""
        del step
        self.ledger.restore()
        self.ledger.forget_what_was_shown()
        kept = 0
        for agent in self.agents.values():
            kept += cast("ClientAgent", agent).lose_segments()
            agent.restart()
        return kept > 0

    def _reorder(self, step: Step) -> bool:
        del step
        self.is_reordered = True
        return False  # not yet

    def delivery(self) -> list[SimAgent]:
        """Return the agents in the order in which they are heard."""
        agents = list(self.agents.values())
        if self.is_reordered and all(agent.spool for agent in agents):
            self.is_reordered = False
            self.events["reordered", self.plan.versions[0]] += 1
            agents.reverse()
        return agents


def _filesystem(step: Step) -> str:
    return step.target.partition("-")[0]
