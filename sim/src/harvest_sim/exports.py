"""Counters outside job_stats: a target's own stats file and the directories of its clients' NIDs."""

from harvest_sim.clock import ServerClock
from harvest_sim.counters import Counter
from harvest_sim.lives import EndReason, Life, Picture, Scope, Subject
from harvest_sim.ops import Kind, Op, op_list
from harvest_sim.text import stats_text
from harvest_sim.truth import Truth
from harvest_sim.versions import traits

# §3: up to 2.11.52 the generic counters of the OST's device are in the same file; `statfs` is there twice
_GENERIC = ("connect", "disconnect", "statfs", "preprw", "commitrw", "ping")


def generic_ops(scope: Scope) -> tuple[Op, ...]:
    """Return the counters that an old OST adds to its stats files."""
    if scope.kind is Kind.MDT or not traits(scope.version).stats_has_generic_counters:
        return ()
    return tuple(Op(name=name, unit="reqs", has_values=False) for name in _GENERIC)


class Stats:
    """One stats file: a life that starts anew when somebody writes to it."""

    def __init__(self, *, subject: Subject, key: bytes, scope: Scope, clock: ServerClock, truth: Truth) -> None:
        self.features = traits(scope.version)
        self._subject = subject
        self._key = key
        self._scope = scope
        self._time = clock.time
        self._truth = truth
        self._stamp = clock.boot_ns if self.features.uses_boot_clock else clock.wall_ns
        self._own_ops = op_list(scope.version, scope.kind)
        self._ops = self._own_ops + generic_ops(scope)
        self._generic = {op.name: len(self._own_ops) + index for index, op in enumerate(generic_ops(scope))}
        self._has_odd_close = (
            self.features.md_stats_close_has_values and subject is Subject.TARGET and scope.kind is Kind.MDT
        )
        self.life = self._new_life()
        self._started_ns = self._stamp()

    def count(self, index: int, amount: int, count: int) -> None:
        """Count operations of the target's own list."""
        self.life.count(index, amount, count, self._time.now_ns)

    def count_generic(self, name: str, count: int = 1) -> None:
        """Count an operation of the device, where the version shows such."""
        index = self._generic.get(name)
        if index is not None:
            self.life.count(index, 0, count, self._time.now_ns)

    def zero(self) -> None:
        """Do what writing anything to the file does (§2.3)."""
        self.life.end(EndReason.CLEARED, self._time.now_ns)
        self._truth.events["stats zeroed"] += 1
        self.life = self._new_life()
        self._started_ns = self._stamp()  # §2.3: start_time = now

    def end(self, reason: EndReason) -> None:
        """Free it."""
        self.life.end(reason, self._time.now_ns)

    def picture(self) -> Picture:
        """Return the text as it is now, and what it shows; its snapshot_time is that of the read (§1.5)."""
        showing = self.life.showing(self._time.now_ns)
        return self.text(), [showing] if showing is not None else []

    def text(self) -> bytes:
        """Return the text as it is now."""
        lines = [self._line(index) for index in sorted(self.life.counters)]
        return stats_text(self.features, lines, snapshot_ns=self._stamp(), start_ns=self._started_ns)

    def empty_text(self) -> bytes:
        """Return the text of such a file without a counter."""
        return stats_text(self.features, (), snapshot_ns=self._stamp(), start_ns=self._started_ns)

    def _line(self, index: int) -> tuple[Op, Counter]:
        op, counter = self._ops[index], self.life.counters[index]
        if self._has_odd_close and op.name in {"close", "mknod"}:
            # §3: md_stats 2.12 may carry `1 1 <n>` after [reqs]
            ones = Counter()
            ones.add(1, count=counter.samples, with_hist=False)
            return Op(name=op.name, unit=op.unit, has_values=True), ones
        return op, counter

    def _new_life(self) -> Life:
        return self._truth.born(
            subject=self._subject,
            scope=self._scope,
            key=self._key,
            ops=self._ops,
            created_ns=self._time.now_ns,
        )


class Exports:
    """The ``exports`` directory of one mounted target: per NID, not per client (§2.5)."""

    def __init__(self, *, scope: Scope, clock: ServerClock, truth: Truth) -> None:
        self.stats: dict[str, Stats] = {}
        self.uuids: dict[str, list[str]] = {}
        self.revision = 0
        """Changes whenever a directory comes or goes."""
        self._scope = scope
        self._clock = clock
        self._truth = truth

    def connect(self, nid: str, uuid: str) -> None:
        """Let a client in; a NID that was here before goes on counting in its old directory (§2.5)."""
        if nid not in self.stats:
            self.stats[nid] = Stats(
                subject=Subject.EXPORT,
                key=nid.encode(),
                scope=self._scope,
                clock=self._clock,
                truth=self._truth,
            )
            self.uuids[nid] = []
            self.revision += 1
        if uuid not in self.uuids[nid]:
            self.uuids[nid].append(uuid)
            self.stats[nid].count_generic("connect")

    def disconnect(self, nid: str, uuid: str) -> None:
        """Let a client go: the directory stays, its counters stay, ``uuid`` loses a line (§2.5)."""
        if uuid in self.uuids.get(nid, ()):
            self.uuids[nid].remove(uuid)
            self.stats[nid].count_generic("disconnect")

    def clear(self) -> None:
        """Do what writing to ``exports/clear`` does: dead NIDs go, live ones are zeroed (§2.3)."""
        self._truth.events["exports cleared"] += 1
        for nid in list(self.stats):
            if self.uuids[nid]:
                self.stats[nid].zero()
            else:
                self._remove(nid, EndReason.CLEARED)

    def forget(self, nid: str) -> None:
        """Let the idle limit of newer sources remove the directory of a NID without an export (§2.5)."""
        if self.uuids[nid]:
            raise ValueError(f"{nid} has a live export")
        self._remove(nid, EndReason.EVICTED)

    def end(self, reason: EndReason) -> None:
        """Free everything."""
        for nid in list(self.stats):
            self._remove(nid, reason)

    def _remove(self, nid: str, reason: EndReason) -> None:
        self.stats.pop(nid).end(reason)
        del self.uuids[nid]
        self.revision += 1
