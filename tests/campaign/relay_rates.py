"""What every rate of a site must be: the simulator knows what was read when, and what had been done by then.

Rate = work / (tick - the target's previous tick), ticks nominal. The work is that between two reads of a client's file.
The tick of a read is that of the first sweep after the period in which it was read, or of the one that told of it, if
that came earlier: however late a pass is told, each window is as long as the time between the two reads, by less than
a period.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from campaign.client_agents import ClientSweep
from campaign.plan import EPOCH
from campaign.relay_truth import numbers
from harvest.v1.stream_pb2 import Batch
from harvest_core.accounting.wire import joined, read
from harvest_core.facts import Facts, Mount
from harvest_sim.lives import Life

_NSECS = 10**9
_NEAR_SECONDS = 60
"""What is told later than this is in totals only."""
_FIELDS = {
    ("OST", "read_bytes"): 0,
    ("MDT", "read_bytes"): 0,
    ("OST", "write_bytes"): 1,
    ("MDT", "write_bytes"): 1,
    ("OST", "operations"): 2,
    ("MDT", "operations"): 3,
}
"""In the order of ``Rates``."""
Rated = dict[str, list[float]]
"""By NID."""


class _Record(NamedTuple):
    """What the aggregator knows of a client's file."""

    seen_tick: int
    value_tick: int
    value: dict[tuple[str, str], int]
    revision: float


_Name = tuple[bytes, int]
"""NID and start."""
_Place = tuple[str, str, int | None]
"""Target, boot and mount."""


@dataclass(slots=True)
class _Durable:
    """What goes back with a ledger that is restored."""

    records: dict[tuple[_Place, _Name], _Record] = field(default_factory=dict)
    present: dict[_Place, frozenset[_Name]] = field(default_factory=dict)
    applied: dict[bytes, int] = field(default_factory=dict)
    last_tick: int = -1

    def copy(self) -> "_Durable":
        return _Durable(dict(self.records), dict(self.present), dict(self.applied), self.last_tick)


@dataclass(slots=True)
class _Work:
    """What one target told at one tick."""

    rates: Rated = field(default_factory=dict)
    until_tick: int = 0
    """So long they hold, if it does not tell others."""
    is_sure: bool = True


class Rates:
    """What one site's aggregator was told, and what it has to make of it."""

    def __init__(self, interval_seconds: int) -> None:
        self._interval = interval_seconds
        self._durable = _Durable()
        self._backup = _Durable()
        self._names: dict[tuple[bytes, str, int], _Name] = {}
        self.begin()

    def begin(self) -> None:
        """Begin with what is durable, as a process does."""
        self._open: defaultdict[int, dict[str, _Work]] = defaultdict(dict)
        self._held: dict[str, _Work] = {}
        self._closed_tick = self._durable.last_tick

    def keep_backup(self) -> None:
        """Follow a backup."""
        self._backup = self._durable.copy()

    def restore(self) -> None:
        """Follow a ledger that was restored."""
        self._durable = self._backup.copy()
        self.begin()

    def take(self, sweep: ClientSweep, lives: list[Life], now_seconds: float) -> None:
        """Take in a pass as the aggregator does."""
        facts = joined([read(Batch.FromString(message)) for message in sweep.messages])
        for slot, nid, start, _ in (*facts.names, *facts.again):
            self._names[facts.incarnation, facts.target, slot] = nid, start
        if facts.seq <= self._durable.applied.get(facts.incarnation + facts.target.encode(), 0):
            return
        self._durable.applied[facts.incarnation + facts.target.encode()] = facts.seq
        work = self._work(sweep, facts, lives)
        self._durable.last_tick = max(self._durable.last_tick, facts.tick_seconds)
        if facts.tick_seconds > self._closed_tick and abs(facts.tick_seconds - now_seconds) <= _NEAR_SECONDS:
            told = self._open[facts.tick_seconds].setdefault(facts.target, _Work())
            _add(told.rates, work.rates)
            told.until_tick = max(told.until_tick, work.until_tick)

    def _work(self, sweep: ClientSweep, facts: Facts, lives: list[Life]) -> _Work:
        """Return the rates of a pass; also of those who are servers, of whom nobody asks."""
        place = _place(facts.target, facts.mount)
        moved = [self._names[facts.incarnation, facts.target, int(slot)] for slot in facts.moved.slot]
        continuous = dict(zip(moved, facts.moved.continuous, strict=False))
        found, windows = _Work(), []
        present = {(nid, seen.start) for nid, seen in sweep.seen.items()}
        if facts.complete and not present:  # nobody's file was read, for the target had counted nothing
            self._look(place, self._tick(sweep.looked_ns, facts.tick_seconds))
            present = set(self._durable.present.get(place, ()))
        for nid, seen in sweep.seen.items():
            name, life = (nid, seen.start), lives[seen.life]
            tick = self._tick(seen.read_ns, facts.tick_seconds)
            before = self._durable.records.get((place, name))
            if name not in moved:  # or its value was merged into a later one
                if before is not None:
                    self._durable.records[place, name] = before._replace(seen_tick=tick)
                continue
            now = numbers(life, seen.shown[-1])
            if before is None:
                age_ns = max(tick * _NSECS - seen.start, 1)
                window = -(-age_ns // (self._interval * _NSECS)) * self._interval
            else:
                window = tick - (before.value_tick if continuous.get(name) else before.seen_tick)
            did = {key: amount - (before.value.get(key, 0) if before else 0) for key, amount in now.items()}
            revision = seen.shown[-1].revision
            if window > 0 and seen.shown[-1].values and (before is None or before.revision != revision):
                windows.append(window)
            rates = found.rates.setdefault(nid.decode(), [0.0] * 4)
            for key, amount in did.items():
                rates[_FIELDS[key]] += amount / window if window > 0 else 0
            self._durable.records[place, name] = _Record(tick, tick, dict(now), revision)
        if facts.complete:
            self._durable.present[place] = frozenset(present)
        found.until_tick = facts.tick_seconds + max(self._interval, min(windows, default=0))
        return found

    def _look(self, place: _Place, tick: int) -> None:
        """Nobody has moved until this tick."""
        for name in self._durable.present.get(place, ()):
            self._durable.records[place, name] = self._durable.records[place, name]._replace(seen_tick=tick)

    def _tick(self, read_ns: int, told_tick: int) -> int:
        """Return the nominal tick of a read: of the first sweep that could tell the whole pass."""
        wall_ns = EPOCH * _NSECS + read_ns
        return min(told_tick, (wall_ns // (self._interval * _NSECS) + 1) * self._interval)

    def close(self, tick: int, filesystem: str, *, is_overdue: bool) -> tuple[Rated, Rated]:
        """Return the least and the most that the rates of a file system may be at a tick that is closed now.

        They are the same, except of targets that told nothing at this tick, if nothing was closed for longer than an
        interval: then one that told something before is shown as if it had told that nobody did anything.
        """
        least: Rated = {}
        most: Rated = {}
        told = {target: work for target, work in self._open.get(tick, {}).items() if _is_of(filesystem, target)}
        held = {
            target: work
            for target, work in self._held.items()
            if _is_of(filesystem, target) and tick < work.until_tick and target not in told
        }
        for work in (*told.values(), *held.values()):
            _add(most, work.rates)
        for work in held.values():
            work.is_sure = work.is_sure and not is_overdue
        for work in (*told.values(), *held.values()):
            if work.is_sure:
                _add(least, work.rates)
        self._held |= told
        return least, most

    def closed(self, tick: int) -> None:
        """Go on to the next tick."""
        self._open.pop(tick, None)
        self._closed_tick = tick


def _place(target: str, mount: Mount) -> _Place:
    return target, mount.boot_id, mount.instance


def _is_of(filesystem: str, target: str) -> bool:
    return target.startswith(f"{filesystem}-")


def _add(rates: Rated, more: Rated) -> None:
    for nid, some in more.items():
        rates[nid] = [one + other for one, other in zip(rates.get(nid, [0.0] * 4), some, strict=True)]
