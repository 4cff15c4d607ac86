"""What all targets did, in memory: made durable first, then applied; the same way live and after a restart."""

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import structlog

from harvest.v1.stream_pb2 import Batch, ReadCost
from harvest_aggregator import sqlite
from harvest_aggregator.clients import ClientTables
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Fold, Ledger, Line, ParkedKey, StoredStay, Write
from harvest_aggregator.parking import Leaving, Parked, let_go, take_over
from harvest_aggregator.published import InDoubt, JobKey, TargetStatus, TargetTotals, Unknown
from harvest_aggregator.tallies import Tally
from harvest_aggregator.watching import Watch
from harvest_core.accounting import snapshots
from harvest_core.accounting.apply import OutOfOrderError, Work
from harvest_core.accounting.mounts import NEVER, MountState, UnnamedError
from harvest_core.accounting.sweeps import ClosedSweep, Place, Sweeps
from harvest_core.accounting.targets import StayKey, TargetAccount
from harvest_core.accounting.wire import WireError, joined, read
from harvest_core.jobs.identity import JobName
from harvest_core.lustre.names import parse_target
from harvest_site.model import Site
from harvest_site.views import filesystem_of

_FOLD_READS: Final = 20
"""A target is folded after so many reads: fewer would write more snapshots, more would keep more batches."""
_FOLDS_AT_ONCE: Final = 8
_CLIENTS: Final = " clients"
"""At the end of a target's name in the ledger: no target's name has a blank."""
_NEAR_SECONDS: Final = 60
"""What is further from our clock than this, or than three intervals, is in totals only: it would stay open for ever,
or is from a spool and open no more."""

_log = structlog.get_logger()


@dataclass(slots=True)
class KeptTarget:
    """One target in memory."""

    account: TargetAccount
    tally: Tally
    reads: int
    """Since its last snapshot; a new one starts with some, so that targets take turns."""
    changed: set[StayKey] = field(default_factory=set)
    """Stays of which the last snapshot is not all."""
    servers: dict[StayKey, str] = field(default_factory=dict)
    """What the server of each stay is called, as far as is known."""
    cost: ReadCost = field(default_factory=ReadCost)
    unwatched: int = 0
    """So often since its last snapshot was something dropped that left it, of jobs that nobody watches any more."""
    leaving: Leaving = field(default_factory=dict)
    """What is in it no more, and in the ledger when it is folded."""


class ClientRead(NamedTuple):
    """What a target's clients did until they were read."""

    place: Place
    work: Work
    shown_tick: int
    """Sweeps of this tick and of later ones have it; NEVER where the next one does, whatever its tick."""
    before_tick: int
    """When they had been read last; NEVER where this was the first time."""


class Accounts:
    """All targets of the site's file systems. Used by one thread."""

    def __init__(self, ledger: Ledger, site: Site) -> None:
        self._ledger = ledger
        self._site = site
        self._targets: dict[Place, KeptTarget] = {}
        self._sweeps = Sweeps(deadline_seconds=site.spec.deadline_seconds)
        self._unshown: tuple[Place, MountState] | None = None
        self._shown_at = 0.0
        self._marks: tuple[dict[JobKey, InDoubt], frozenset[JobKey]] | None = None
        self._marked: dict[JobKey, Parked] = {}
        """The marks of jobs that have left a target."""
        self.unnamed: dict[str, bytes] = {}
        """Agents that spoke of records which they never named to us, and in which incarnation."""
        self.watch = Watch()

    def load(self, now_seconds: float) -> None:
        """Bring back all that is durable: the snapshots, then the batches after them."""
        self.change_site(self._site, now_seconds)

    def change_site(self, site: Site, now_seconds: float) -> None:
        """Go on with other file systems. What is left out stays in the ledger, and comes back from there."""
        names = [filesystem.name for filesystem in site.spec.filesystems]
        here = {place.filesystem for place in self._targets}
        targets = {place: kept for place, kept in self._targets.items() if place.filesystem in names}
        for name in names:
            if name not in here:
                targets |= self._loaded(name)
        parked = [pair for name in names for pair in self._parked(name)]
        self._site = site
        self._targets = targets
        self._marks, self._marked = None, {}
        ticks = (mount.last_tick for kept in targets.values() for mount in _mounts(kept.account))
        seen = max((tick for tick in ticks if tick <= now_seconds), default=-1)
        self._sweeps = Sweeps(deadline_seconds=site.spec.deadline_seconds, closed_tick_seconds=seen)
        until = int(now_seconds) + self._near_seconds
        for place, kept in targets.items():
            for job, more in kept.leaving.items():
                self._sweeps.restore_sum(place.table, job, more.done, until_tick=until)
            for stay in kept.account.stays.values():
                self._sweeps.restore(place, stay, until_tick=until)
                self._unshown = (place, stay.mounts[-1][1])
        for key, more in parked:
            self._take_back(key, more, until)
        self._shown_at = now_seconds

    def _take_back(self, key: ParkedKey, more: Parked, until_tick: int) -> None:
        """Add what is parked to what is shown."""
        self._sweeps.restore_sum((key.filesystem, key.kind), key.job, more.done, until_tick=until_tick)
        self._mark((key.filesystem, key.job), more)

    def _mark(self, key: JobKey, more: Parked) -> None:
        if more.doubt.resets or more.incomplete:
            self._marked.setdefault(key, Parked()).add(Parked(doubt=more.doubt, incomplete=more.incomplete))
        self._marks = None

    @property
    def _near_seconds(self) -> int:
        return max(_NEAR_SECONDS, 3 * self._site.spec.interval_seconds)

    def place(self, agent: str, target: str) -> Place | None:
        """Return where a target that an agent reports belongs; nothing if the site does not have it there."""
        filesystem = filesystem_of(self._site, agent, target)
        parsed = parse_target(target)
        return None if filesystem is None or parsed is None else Place(filesystem.name, parsed.kind, target)

    def _place_of(self, agent: str, message: Batch) -> Place | None:
        """Return where a message belongs; nothing if the site does not want it."""
        place = self.place(agent, message.target.name)
        if place is None or not message.HasField("exports"):
            return place
        wanted = next(one for one in self._site.spec.filesystems if one.name == place.filesystem).clients
        return place._replace(of_clients=True) if wanted.enabled else None

    def accept(self, deliveries: Sequence[Delivery], now_seconds: float) -> list[ClientRead]:
        """Make deliveries durable, then apply them; if the first fails, nothing happened. Return what clients did."""
        lines, acked = self._new_lines(deliveries)
        if acked or lines:
            self._ledger.accept([line for line, _ in lines], acked, arrived_seconds=now_seconds)
        for agent, incarnation in acked:
            if self.unnamed.get(agent, incarnation) != incarnation:
                del self.unnamed[agent]  # it began anew
        reads: list[ClientRead] = []
        for (place, said), parts in groupby(lines, lambda pair: _read_of(pair[0])):
            kept = self._targets.setdefault(place, _new(place.target))
            before_tick = _last_tick([kept.account])
            work = self._applied(kept, said, [message for _, message in parts])
            if work.mount is not None:
                shown_tick = self._report(place, work, work.mount, now_seconds)
                if place.of_clients:
                    reads.append(ClientRead(place, work, shown_tick, before_tick))
        return reads

    def _new_lines(
        self, deliveries: Sequence[Delivery]
    ) -> tuple[list[tuple[Line, Batch]], dict[tuple[str, bytes], int]]:
        """Return what was not durable before, and up to where it goes."""
        lines: list[tuple[Line, Batch]] = []
        acked: dict[tuple[str, bytes], int] = {}
        for delivery in deliveries:
            stream = (delivery.agent, delivery.incarnation)
            done = acked.get(stream) or self._ledger.acked(*stream)
            for payload, message in delivery.batches:
                if message.seq <= done:
                    continue
                if message.last_of_sweep:
                    acked[stream] = message.seq
                elif place := self._place_of(delivery.agent, message):
                    line = Line(place.filesystem, _stored(place), *stream, message.seq, message.part, payload)
                    lines.append((line, message))
        return lines, acked

    def close(self, now_seconds: float, expected: frozenset[Place]) -> list[ClosedSweep]:
        """Close what is due. Totals are shown once an interval even if nothing of the present is reported."""
        interval = self._site.spec.interval_seconds
        if self._site.spec.accepts:  # what relays tell is published with sweeps, also where there is no other
            self._sweeps.begin(int((now_seconds - self._site.spec.deadline_seconds) // interval) * interval)
        if self._unshown and now_seconds >= self._shown_at + interval + self._site.spec.deadline_seconds:
            place, mount = self._unshown
            self._sweeps.report(place, Work(mount=mount, tick_seconds=int(now_seconds // interval) * interval))
        closed = self._sweeps.close(now_seconds, expected)
        if closed:
            self._unshown = None
            self._shown_at = now_seconds
        return closed

    def fold_some(self, *, busy: bool) -> bool:
        """Write snapshots of a few targets that are due; while busy, only of those that waited too long."""
        least = 2 * _FOLD_READS if busy else _FOLD_READS
        due = [place for place, kept in self._targets.items() if kept.reads + kept.unwatched >= least][:_FOLDS_AT_ONCE]
        self._fold(due)
        return bool(due)

    def fold_all(self) -> None:
        """Write snapshots of all targets that changed, so that the next start has nothing to apply."""
        changed = [place for place, kept in self._targets.items() if kept.changed or kept.unwatched]
        for first in range(0, len(changed), _FOLDS_AT_ONCE):
            self._fold(changed[first : first + _FOLDS_AT_ONCE])

    def at_work(self, filesystem: str) -> set[bytes]:
        """Return the jobs of which a sweep that is still open has work."""
        return self._sweeps.at_work(filesystem)

    def forget(self, jobs: Iterable[JobKey], write: Write) -> set[JobKey]:
        """Let jobs go that are over, with all they did and all marks; return which.

        What they did is taken out in one transaction with what ``write`` writes of it. Those that an open sweep has
        work of are left for another time. It looks at every record that is there: better for many jobs than for one.
        """
        wanted: dict[str, set[bytes]] = {}
        for filesystem, job in jobs:
            wanted.setdefault(filesystem, set()).add(job)
        touched: dict[Place, KeptTarget] = {}
        for filesystem in wanted:
            wanted[filesystem] -= self._sweeps.at_work(filesystem)
        for place, kept in self._of_jobs():
            names = wanted.get(place.filesystem, set())
            before = kept.tally.flagged.keys() | kept.tally.incomplete
            watched = partial(self.watch.watched, place.filesystem)
            changed = take_over(kept.leaving, kept.account, names, kept.tally, watched) if names else set()
            kept.changed |= changed
            if changed or not names.isdisjoint(before | kept.leaving.keys()):
                touched[place] = kept
        gone = {(filesystem, job) for filesystem, names in wanted.items() for job in names}
        if not gone:
            return gone
        self.drop_left(self.watch.unchosen(gone))
        self._ledger.retire(gone, [_fold(place, kept) for place, kept in touched.items()], write)
        self._folded(touched)
        for filesystem, names in wanted.items():
            self._sweeps.remove(filesystem, names)
        for key in gone:
            self._marked.pop(key, None)
        self._marks = None
        return gone

    def marks(self) -> tuple[dict[JobKey, InDoubt], frozenset[JobKey]]:
        """Return the jobs whose totals are in doubt, and those of which something may never have been shown."""
        if self._marks is None:
            flagged: dict[JobKey, InDoubt] = {}
            incomplete: set[JobKey] = set()
            for place, kept in self._of_jobs():
                incomplete.update((place.filesystem, job) for job in kept.tally.incomplete)
                for job, doubt in kept.tally.flagged.items():
                    key = (place.filesystem, job)
                    flagged[key] = flagged.get(key, InDoubt()).plus(doubt)
            leaving = [
                ((place.filesystem, job), more) for place, kept in self._of_jobs() for job, more in kept.leaving.items()
            ]
            for key, marked in [*self._marked.items(), *leaving]:
                if marked.doubt.resets:
                    flagged[key] = flagged.get(key, InDoubt()).plus(marked.doubt)
                if marked.incomplete:
                    incomplete.add(key)
            self._marks = (flagged, frozenset(incomplete))
        return self._marks

    def statuses(self, now_seconds: float) -> tuple[TargetStatus, ...]:
        """Return how each target stands."""
        until = now_seconds + self._near_seconds
        return tuple(
            _status(place, kept, self._targets.get(place._replace(of_clients=True)), until)
            for place, kept in sorted(self._of_jobs(), key=lambda both: both[0])
        )

    def _of_jobs(self) -> Iterator[tuple[Place, KeptTarget]]:
        return ((place, kept) for place, kept in self._targets.items() if not place.of_clients)

    def by_target(self, names: Collection[JobName] | None) -> dict[Place, TargetTotals]:
        """Return what was done on each target by all that is durable, also by each of these jobs, or of all jobs."""
        return {
            place: self.watch.totals(place.filesystem, list(_mounts(kept.account)), kept.tally, names)
            for place, kept in self._of_jobs()
        }

    def unwatch(self, who: str, names: Iterable[JobName]) -> None:
        """Let somebody watch jobs no more."""
        self.drop_left(self.watch.remove(who, names))

    def unchosen(self) -> set[JobName]:
        """Return the jobs of which is kept what left, though nobody has chosen them."""
        return {name for _, kept in self._of_jobs() for name in kept.tally.left_by} - self.watch.chosen

    def drop_left(self, names: Collection[JobName]) -> None:
        """Forget what left of jobs."""
        for _, kept in self._of_jobs():
            gone = [name for name in names if kept.tally.left_by.pop(name, None) is not None]
            kept.unwatched += bool(gone)

    def connections(self, filesystem: str) -> tuple[set[bytes], set[bytes]]:
        """Return the NIDs of all that are connected to a file system now, and of all servers among them."""
        return _connections(
            kept.account for place, kept in self._targets.items() if place.of_clients and place.filesystem == filesystem
        )

    def clients_then(self, filesystem: str) -> ClientTables:
        """Return what clients had done on a file system when it was the site's own last: it is in the ledger."""
        targets = {place: kept for place, kept in self._loaded(filesystem).items() if place.of_clients}
        sweeps = Sweeps(deadline_seconds=0)
        for place, kept in targets.items():
            for stay in kept.account.stays.values():
                sweeps.restore(place, stay, until_tick=0)
                sweeps.report(place, Work(mount=stay.mounts[-1][1]))
        accounts = [kept.account for kept in targets.values()]
        live, servers = _connections(accounts)
        tables = {kind: table for sweep in sweeps.close(0, frozenset()) for (_, kind), table in sweep.clients.items()}
        return ClientTables(tables, servers, _last_tick(accounts), live)

    def _loaded(self, filesystem: str) -> dict[Place, KeptTarget]:
        targets: dict[Place, KeptTarget] = {}
        try:
            for stored in self._ledger.stays(filesystem):
                kept = targets.setdefault(_place(filesystem, stored.target), _new(stored.target))
                kept.account.stays[stored.boot_id] = snapshots.load(stored.payload)
                kept.servers[stored.boot_id] = stored.server
            for target, payload in self._ledger.tallies(filesystem):
                targets.setdefault(_place(filesystem, target), _new(target)).tally = Tally.load(payload)
        except (snapshots.SnapshotError, ValueError, TypeError, KeyError) as error:
            raise LedgerError(sqlite.damaged(self._ledger.path, str(error))) from error
        for kept in targets.values():  # a target's account is made of its stays
            seen = kept.tally.seen_after_all_seconds
            kept.account = TargetAccount(kept.account.stays, seen_after_all_seconds=seen)
            kept.reads = 0
        for (place, said), parts in groupby(self._ledger.lines(filesystem), _read_of):
            kept = targets.setdefault(place, _new(place.target))
            self._applied(kept, said, [Batch.FromString(bytes(part.payload)) for part in parts])
        return targets

    def _parked(self, filesystem: str) -> list[tuple[ParkedKey, Parked]]:
        try:
            return list(self._ledger.parked(filesystem))
        except (ValueError, TypeError, KeyError) as error:
            raise LedgerError(sqlite.damaged(self._ledger.path, str(error))) from error

    def _applied(self, kept: KeptTarget, said: tuple[str, bytes, int], parts: list[Batch]) -> Work:
        """Apply one read. One that cannot be placed is counted and left out: nothing else would become of it later."""
        kept.reads += 1
        try:
            facts = joined([read(part) for part in parts])
            work = kept.account.apply(facts)
        except (UnnamedError, OutOfOrderError, WireError) as error:
            return self._left_out(kept, said, parts[0].target.name, error)
        except Exception as error:  # noqa: BLE001 - a bug, in one read; all the others are still to be applied
            _log.exception("a read that breaks the accounting", target=parts[0].target.name)
            return self._left_out(kept, said, parts[0].target.name, error)
        if work.mount is not None:
            kept.changed.add(facts.mount.boot_id)
            kept.servers[facts.mount.boot_id] = facts.mount.server
            kept.cost = ReadCost()
            kept.cost.CopyFrom(parts[-1].cost)  # that one itself would keep all of its batch in memory
            kept.tally.seen_after_all_seconds = kept.account.seen_after_all_seconds
            if kept.tally.add(facts, work):
                self._marks = None
        return work

    def _left_out(self, kept: KeptTarget, said: tuple[str, bytes, int], target: str, error: Exception) -> Work:
        agent, incarnation, seq = said
        kept.tally.unplaced_reads += 1
        if isinstance(error, (UnnamedError, OutOfOrderError)):
            self.unnamed[agent] = incarnation
        _log.warning("read left out", agent=agent, target=target, seq=seq, reason=str(error))
        return Work()

    def _report(self, place: Place, work: Work, mount: MountState, now_seconds: float) -> int:
        """Let sweeps have it; return from which tick on they do."""
        ahead_seconds = work.tick_seconds - now_seconds
        if ahead_seconds > self._near_seconds:  # its clock is wrong: nobody can say when it was
            work = replace(work, tick_seconds=NEVER)
        is_late = abs(ahead_seconds) > self._near_seconds
        self._sweeps.report(place, work, late=is_late)
        self._unshown = (place, mount)
        return NEVER if is_late else work.tick_seconds

    def _fold(self, places: Iterable[Place]) -> None:
        chosen = {place: self._targets[place] for place in places}
        if not chosen:
            return
        for place, kept in chosen.items():
            if not place.of_clients:
                watched = partial(self.watch.watched, place.filesystem)
                let_go(kept.leaving, kept.account, kept.changed, kept.tally, watched)
        self._ledger.fold([_fold(place, kept) for place, kept in chosen.items()])
        self._folded(chosen)

    def _folded(self, chosen: Mapping[Place, KeptTarget]) -> None:
        for place, kept in chosen.items():
            for job, more in kept.leaving.items():
                self._mark((place.filesystem, job), more)
            kept.leaving.clear()
            kept.reads = kept.unwatched = 0
            kept.changed.clear()


def _fold(place: Place, kept: KeptTarget) -> Fold:
    stays = [
        StoredStay(_stored(place), boot_id, kept.servers[boot_id], position, snapshots.dump(stay))
        for position, (boot_id, stay) in enumerate(kept.account.stays.items())
        if boot_id in kept.changed
    ]
    return Fold(
        filesystem=place.filesystem,
        target=_stored(place),
        stays=stays,
        tally=kept.tally.dump(),
        parked={ParkedKey(*place.table, job): more for job, more in kept.leaving.items()},
    )


def _new(target: str) -> KeptTarget:
    return KeptTarget(account=TargetAccount(), tally=Tally(), reads=zlib.crc32(target.encode()) % _FOLD_READS)


def _stored(place: Place) -> str:
    """Return under which name the ledger keeps a place."""
    return place.target + _CLIENTS if place.of_clients else place.target


def _place(filesystem: str, stored: str) -> Place:
    target = stored.removesuffix(_CLIENTS)
    parsed = parse_target(target)
    if parsed is None:
        raise ValueError(f"{target} is not the name of a target")
    return Place(filesystem, parsed.kind, target, of_clients=stored != target)


def _read_of(line: Line) -> tuple[Place, tuple[str, bytes, int]]:
    return _place(line.filesystem, line.target), (line.agent, line.incarnation, line.seq)


def _mounts(account: TargetAccount) -> Iterable[MountState]:
    return (mount for stay in account.stays.values() for _, mount in stay.mounts)


def _last_tick(accounts: Iterable[TargetAccount]) -> int:
    return max((mount.last_tick for account in accounts for mount in _mounts(account)), default=NEVER)


def _present(account: TargetAccount) -> MountState:
    """Return the mount that was read last."""
    return max(_mounts(account), key=lambda mount: mount.last_tick)


def _connections(accounts: Iterable[TargetAccount]) -> tuple[set[bytes], set[bytes]]:
    """Return the NIDs of all that are connected to targets now, and of all servers among them."""
    live: set[bytes] = set()
    servers: set[bytes] = set()
    for account in accounts:
        for mount in _mounts(account):
            rows = np.arange(len(mount.jobs))
            servers.update(mount.jobs[row] for row in rows[mount.is_server[rows]])
            if mount is _present(account):
                live.update(mount.jobs[row] for row in rows[mount.is_live[rows] & (mount.absent[rows] == 0)])
    return live, servers


def _status(place: Place, kept: KeptTarget, clients: KeptTarget | None, until_tick: float) -> TargetStatus:
    """Return how a target stands; a server whose clock is far ahead has it only if no other does."""
    server, boot_id, instance, last_tick = "", "", None, 0  # until a read of it could be placed
    if kept.account.stays:
        last = {key: stay.mounts[-1] for key, stay in kept.account.stays.items()}
        boot_id = max(last, key=lambda key: (last[key][1].last_tick <= until_tick, last[key][1].last_tick))
        server, instance, last_tick = kept.servers[boot_id], last[boot_id][0], last[boot_id][1].last_tick
    return TargetStatus(
        filesystem=place.filesystem,
        target=place.target,
        kind=place.kind,
        server=server,
        boot_id=boot_id,
        instance=instance,
        last_tick=last_tick,
        unread_lines=kept.tally.unread_lines,
        unseen_seconds=kept.tally.unseen_seconds,
        ambiguous_resets=kept.tally.ambiguous_resets,
        ambiguous_bytes=kept.tally.ambiguous_bytes,
        unplaced_reads=kept.tally.unplaced_reads,
        clients=Unknown() if clients is None else clients.tally.unknown,
        cost=kept.cost,
    )
