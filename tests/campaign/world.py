"""The world of a history: the simulated site, agents, aggregator, and all that may happen to them."""

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from random import Random

from campaign.agents import Ledger, SimAgent
from campaign.plan import EPOCH, PERIOD, SERVERS, SWITCHABLE, Plan, Step
from harvest_sim.ids import readable_id
from harvest_sim.site import Site


class World:
    """Everything that a history happens to."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.events: Tally[tuple[str, str]] = Tally()
        self.site = Site(Random(f"site {plan.seed}"))
        for name, version in zip(SERVERS, plan.versions, strict=True):
            plain, _, header = version.partition(" ")
            server = self.site.add_server(name, plain, stats_header=not header)
            server.clock.wall_offset_ns = EPOCH * 10**9
        for target in plan.targets:
            order = SERVERS if "OST" in target else SERVERS[::-1]
            self.site.add_target(target, order, cleanup_interval_seconds=plan.cleanup_seconds)
        rng = Random(f"agents {plan.seed}")
        self.agents = {name: self._new_agent(name, rng) for name in SERVERS}
        self.ledger = self._new_ledger()
        self.down: dict[str, int] = {}
        self.stopped: dict[str, int] = {}
        self.cut: dict[str, int] = {}
        self.cut_reads: set[str] = set()
        self.bad_lines: set[str] = set()
        self.between: defaultdict[str, list[Step]] = defaultdict(list)

    def _new_agent(self, name: str, rng: Random) -> SimAgent:
        return SimAgent(self.site, self.site.servers[name], rng, self.plan.part_records)

    def _new_ledger(self) -> Ledger:
        return Ledger(self.site.truth)

    def end_troubles(self) -> None:
        """Let everything work from now on."""
        self.down = dict.fromkeys(self.down, 0)
        self.stopped, self.cut = {}, {}

    def happen(self, step: Step, tick: int) -> None:
        version = self.version(step)
        happened = self._acts[step.what](step._replace(tick=tick))
        if happened and step.what not in {"io", "backup", "skip"}:
            self.events[step.what, version] += 1

    @cached_property
    def _acts(self) -> dict[str, Callable[[Step], bool]]:
        return self._happenings()

    def _happenings(self) -> dict[str, Callable[[Step], bool]]:
        return {
            "io": self.io,
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
            "bad line": self._bad_line,
            "header switched": self._switch_header,
            "skip": self._skip,
            "agent restart": self._agent_restart,
            "agent stop": self._agent_stop,
            "agent long stop": self._agent_long_stop,
            "state lost": self._state_lost,
            "network cut": self._network_cut,
            "duplicate": self._duplicate,
            "aggregator restart": self._aggregator_restart,
            "aggregator restored": self._aggregator_restored,
            "segments gone": self._segments_gone,
            "spool full": self._spool_full,
        }

    def io(self, step: Step) -> bool:
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
        self.down[step.op] = step.tick + 3
        return True

    def bring_back(self, tick: int) -> None:
        for name, until in list(self.down.items()):
            if until <= tick:
                del self.down[name]
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

    def _switch_header(self, step: Step) -> bool:
        server = self.site.servers[step.op]
        if self.plan.versions[SERVERS.index(step.op)] not in SWITCHABLE or not server.is_up:
            return False
        self.site.set_stats_header(step.op, enabled=not server.stats_header)
        return True

    def _cut_read(self, step: Step) -> bool:
        self.cut_reads.add(step.target)
        return True

    def _bad_line(self, step: Step) -> bool:
        self.bad_lines.add(step.target)
        return True

    def _skip(self, step: Step) -> bool:
        """Let a job start while the file is read: idle records are evicted under the reader's hands."""
        op = "write" if "OST" in step.target else "open"
        self.between[step.target] += [step._replace(op=op, job=b"new%d" % step.tick)] * 2
        return True

    def _backup(self, step: Step) -> bool:
        del step
        return self.keep_backup()

    def keep_backup(self) -> bool:
        """Make a backup, unless the ledger was restored and waits for what it had before."""
        waits = any(sweep.was_accepted for agent in self.agents.values() for sweep in agent.spool)
        if not waits:
            self.ledger.keep_backup()
        return not waits

    def version(self, step: Step) -> str:
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
            "bad line",
            "skip",
        }:
            mounted = self.site.targets[step.target].mounted
            name = mounted.scope.server if mounted else name
        return self.plan.versions[SERVERS.index(name)] if name in SERVERS else self.plan.versions[0]

    def _agent_restart(self, step: Step) -> bool:
        self.agents[step.op].restart()
        return True

    def _agent_stop(self, step: Step) -> bool:
        self.stopped[step.op] = step.tick + 2
        return True

    def _agent_long_stop(self, step: Step) -> bool:
        self.stopped[step.op] = step.tick + 2 * self.plan.cleanup_seconds // PERIOD
        self.agents[step.op].restart()
        return True

    def _state_lost(self, step: Step) -> bool:
        if not self.keep_backup():
            return False  # on top of a restored aggregator: then it is gone for good
        agent = self.agents[step.op]
        agent.spool, agent.sent = [], []
        agent.restart()
        return True

    def _network_cut(self, step: Step) -> bool:
        self.cut[step.op] = step.tick + 4
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

    def _segments_gone(self, step: Step) -> bool:
        """Restore an aggregator that no agent can help: it asks for a full picture, which is a new incarnation."""
        del step
        self.ledger.restore()
        self.ledger.forget_what_was_shown()
        for agent in self.agents.values():
            agent.spool, agent.sent = [], []
            agent.restart()
        return True

    def _spool_full(self, step: Step) -> bool:
        return self.agents[step.op].merge_spool() > 0
