"""Sweeps: every target is read once, what changed is put into the spool, and how it went is told at the end."""

import resource
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from harvest.v1.stream_pb2 import MountedTarget, StreamRequest
from harvest_agent.client_rounds import ClientRounds
from harvest_agent.clocks import ServerClocks
from harvest_agent.logs import say
from harvest_agent.reading import Reader, Reading, TargetRead
from harvest_agent.scan import JobScanner
from harvest_agent.segments import Record
from harvest_agent.spool import Draft, NoRoomError, Spool
from harvest_agent.tables import shown, some
from harvest_agent.thinning import batch_record
from harvest_agent.tree import TargetFiles, Tree, read_number
from harvest_core.differences import Differences
from harvest_core.facts import MDT, OST, Facts, Mount, ReadCost
from harvest_core.lustre.names import parse_target, parse_version
from harvest_core.wire import KINDS

_SLOTS_MOST: Final = 1 << 23
"""Then another incarnation begins: aggregators take no more than twice as many."""
_MICRO: Final = 1_000_000
_NAME_MOST: Final = 200
_PROBLEMS_MOST: Final = 20
_PROBLEM_LENGTH: Final = 300

TargetKey = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """How a sweep went."""

    targets: int
    records: int
    kernel_seconds: float
    is_kept: bool
    problems: tuple[str, ...]


@dataclass(slots=True)
class _Sweep:
    """What is known of the sweep under way."""

    tick_seconds: int
    period_seconds: int
    boot_id: str
    version: tuple[int, ...]
    reads: list[TargetRead] = field(default_factory=list)
    targets: list[MountedTarget] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    told_gone: set[TargetKey] = field(default_factory=set)


class Collector:
    """Follows a server from sweep to sweep; all that it knows is of one incarnation."""

    def __init__(
        self,
        tree: Tree,
        filesystems: Sequence[str],
        *,
        name: str,
        spool: Spool,
        clocks: ServerClocks,
        trouble: Callable[[], Sequence[str]] = tuple,
        wall: Callable[[], int] = time.time_ns,
        elapsed: Callable[[], float] = time.monotonic,
        on_restart: Callable[[], None] = lambda: None,
    ) -> None:
        self._tree = tree
        self._filesystems = filesystems
        self._name = name
        self._spool = spool
        self._clocks = clocks
        self._trouble = trouble
        self._wall = wall
        self._elapsed = elapsed
        self._on_restart = on_restart
        self._seen: set[TargetKey] = set()
        self._seen_gone: set[TargetKey] = set()
        self._restart_reason: str | None = None
        self._clients_wanted: Mapping[str, int] = {}
        self.targets: tuple[MountedTarget, ...] = ()
        """As the last sweep that was kept found them."""
        self._begin(clocks.boot_id())

    def _begin(self, boot_id: str) -> None:
        self.boot_id = boot_id
        self.incarnation = secrets.token_bytes(16)
        self.seq = 0
        self._forget()

    def _forget(self) -> None:
        self._reader = Reader(self._tree, self._filesystems)
        self._followed: dict[TargetKey, tuple[JobScanner, Differences]] = {}
        self._clients = ClientRounds(self._elapsed)
        self._clients.want(self._clients_wanted)

    def want_clients(self, intervals: Mapping[str, int]) -> None:
        """Also follow the clients of these file systems, each with its period in seconds."""
        self._clients_wanted = intervals
        self._clients.want(intervals)

    def read_clients(self) -> None:
        """Read those clients that are due; between two sweeps, again and again."""
        self._clients.read()

    @property
    def clients_wait_seconds(self) -> float | None:
        """When to read clients again; None: not before the next sweep."""
        return self._clients.wait_seconds

    def restart(self, reason: str) -> None:
        """Forget everything before the next sweep: another incarnation begins with a full picture."""
        self._restart_reason = reason

    def sweep(self, tick_seconds: int, period_seconds: int) -> SweepReport:
        """Read every target and spool what changed; a sweep that cannot be kept is counted by the spool."""
        boot_id = self._clocks.boot_id()
        if boot_id != self.boot_id:
            self.restart("the server was booted")
        if self._restart_reason is not None:
            say("incarnation", reason=self._restart_reason)
            self._restart_reason = None
            self._begin(boot_id)
            self._on_restart()
        version = parse_version(self._tree.setting("version") or "") or ()
        sweep = _Sweep(tick_seconds, period_seconds, boot_id, version)
        before = resource.getrusage(resource.RUSAGE_SELF)
        is_begun = is_kept = False
        try:
            with self._spool.draft(self.incarnation, boot_id, self.seq + 1) as draft:
                is_begun = True
                self._read_all(sweep, draft)
                draft.commit(self._end(sweep, before))
        except NoRoomError as error:
            if is_begun:
                self._lost()
            sweep.problems.append(f"a sweep was lost: {error}")
        else:
            is_kept = True
            self.seq += 1
            self._seen_gone -= sweep.told_gone
            self.targets = tuple(sweep.targets)
        return SweepReport(
            targets=len(sweep.targets),
            records=sum(len(read.scanner.order) for read in sweep.reads),
            kernel_seconds=sum(read.kernel_seconds for read in sweep.reads),
            is_kept=is_kept,
            problems=tuple(sweep.problems),
        )

    def _lost(self) -> None:
        """Tell everything again: what was read is not in the spool, and all that follows would build on it."""
        if self.seq:
            self.restart("a sweep was lost")
        else:  # nobody has seen anything of this incarnation: it may begin again, however often
            self._forget()

    def _read_all(self, sweep: _Sweep, draft: Draft) -> None:
        if draft.begins_segment:
            for _, differences in self._followed.values():
                differences.begin_segment()
            self._clients.begin_segment()
        mounted: dict[TargetKey, tuple[TargetFiles, Mount]] = {}
        odd = []
        for reading in self._reader.readings():
            target = reading.target
            if not _is_sendable(target.name):
                odd.append(target.name)
                continue
            mounted[target.source, target.name] = (target, self._read(reading, sweep, draft))
        self._followed = {key: value for key, value in self._followed.items() if key in mounted}
        self._seen_gone |= self._seen - mounted.keys()
        self._seen |= mounted.keys()
        for facts in self._clients.sweep(self._about_clients(sweep), mounted):
            draft.append(batch_record(facts))
        if self._clients.slots_used > _SLOTS_MOST:
            self.restart(f"a target has shown {_SLOTS_MOST} clients")
        if odd:
            sweep.problems.append(f"names that are no target's: {some(odd, 3)}")
        sweep.problems += self._clients.problems()
        for path, why in self._tree.unreadable.items():
            sweep.problems.append(f"{shown(self._tree.shown(path))}: {why}")

    def _read(self, reading: Reading, sweep: _Sweep, draft: Draft) -> Mount:
        """Stream one target's read into the draft; one that mixes two mounts is taken back. Return which it is now."""
        target, scanner = reading.target, reading.scanner
        key = (target.source, target.name)
        known = self._followed.get(key)
        differences = known[1] if known is not None and known[0] is scanner else Differences(self._reader.codes)
        self._followed[key] = (scanner, differences)
        mark = draft.mark()
        about = self._about(reading, sweep)
        read: TargetRead | None = None
        for part in differences.facts(about, reading.chunks(), scanner):
            facts = part
            if part.is_last_part:
                read = self._reader.finish(reading)
                facts = self._completed(part, read)
            if read is None or not read.remounted:
                draft.append(batch_record(facts))
        if read is None:
            raise AssertionError("every read has a last part")
        mount = about.mount
        if read.remounted:
            draft.rewind(mark)
            del self._followed[key]
            mount = replace(mount, instance=read.instance_after)
        else:
            sweep.told_gone.add(key)
        if read.vanished:
            self._seen_gone.add(key)
            sweep.told_gone.discard(key)
        if scanner.slots_used > _SLOTS_MOST:
            self.restart(f"{target.name} has shown {_SLOTS_MOST} records")
        sweep.reads.append(read)
        sweep.targets.append(_mounted(about.kind, target, mount))
        if read.problem is not None:
            sweep.problems.append(f"{shown(target.name)}: {read.problem}")
        return mount

    def _about_clients(self, sweep: _Sweep) -> Facts:
        """Return what is the same for the clients of all targets."""
        wall, uptime = self._clocks.now(self.boot_id)
        return Facts(
            incarnation=self.incarnation,
            seq=self.seq + 1,
            tick_seconds=sweep.tick_seconds,
            period_seconds=sweep.period_seconds,
            kind=OST,
            target="",
            mount=Mount(server=self._name, boot_id=sweep.boot_id, instance=None),
            complete=True,
            read_at=max(wall, 0),
            uptime=max(uptime, 0),
            lustre_version=(),
            cleanup_interval_seconds=0,
            in_one_piece=True,
        )

    def _about(self, reading: Reading, sweep: _Sweep) -> Facts:
        """Return what is known before reading."""
        target = reading.target
        interval = target.number("job_cleanup_interval")
        if interval is None:
            interval = _server_wide(self._tree, "job_cleanup_interval")
        return Facts(
            incarnation=self.incarnation,
            seq=self.seq + 1,
            tick_seconds=sweep.tick_seconds,
            period_seconds=sweep.period_seconds,
            kind=OST if target.source == "obdfilter" else MDT,
            target=target.name,
            mount=Mount(server=self._name, boot_id=sweep.boot_id, instance=reading.instance),
            complete=True,
            read_at=0,
            uptime=0,
            lustre_version=sweep.version,
            cleanup_interval_seconds=interval,
            directory_gone=(target.source, target.name) in self._seen_gone,
        )

    def _completed(self, last: Facts, read: TargetRead) -> Facts:
        """Add to the last part what is known only now."""
        wall, uptime = self._clocks.now(self.boot_id)
        return replace(
            last,
            read_at=max(wall, 0),
            uptime=max(uptime, 0),
            in_one_piece=read.in_one_piece,
            unread_lines=read.unread.count,
            cost=ReadCost(
                user_microseconds=round(read.user_seconds * _MICRO),
                kernel_microseconds=round(read.kernel_seconds * _MICRO),
                bytes=read.bytes_read,
                records=len(read.scanner.order),
            ),
        )

    def _end(self, sweep: _Sweep, before: resource.struct_rusage) -> Record:
        """Return the last message of a sweep: which targets there are, and how the agent is doing."""
        request = StreamRequest()
        batch = request.batch
        batch.incarnation, batch.seq = self.incarnation, self.seq + 1
        batch.tick_seconds, batch.period_seconds = sweep.tick_seconds, sweep.period_seconds
        batch.last_of_sweep = True
        batch.end.targets.extend(sweep.targets)
        health = batch.end.health
        after = resource.getrusage(resource.RUSAGE_SELF)
        shelf, room = self._spool.shelf, self._spool.room
        now = self._wall()
        health.late_microseconds = max(now // 1000 - sweep.tick_seconds * _MICRO, 0)
        health.user_microseconds = round((after.ru_utime - before.ru_utime) * _MICRO)
        health.kernel_microseconds = round((after.ru_stime - before.ru_stime) * _MICRO)
        health.resident_bytes = _resident_bytes()
        health.spool_bytes, health.spool_limit_bytes = shelf.size(), room.max_bytes
        health.spool_sweeps = shelf.waiting(*shelf.uplinks)
        health.lost_sweeps, health.merged_sweeps = self._spool.lost_sweeps, room.merged_sweeps
        health.unread_lines = sum(read.unread.count for read in sweep.reads)
        health.clock_nanoseconds = now
        problems = [*sweep.problems, *self._trouble()]
        health.problems.extend(shown(problem)[:_PROBLEM_LENGTH] for problem in problems[:_PROBLEMS_MOST])
        return Record("", request.SerializeToString())


def _is_sendable(name: str) -> bool:
    return parse_target(name) is not None and name.isascii() and name.isprintable() and len(name) <= _NAME_MOST


def _mounted(kind: str, target: TargetFiles, mount: Mount) -> MountedTarget:
    message = MountedTarget()
    message.target.kind = KINDS[kind]  # type: ignore[assignment]  # core knows numbers
    message.target.name = target.name
    message.mount.server, message.mount.boot_id = mount.server, mount.boot_id
    if mount.instance is not None:
        message.mount.instance = mount.instance
    return message


def _server_wide(tree: Tree, name: str) -> int | None:
    return next((number for place in tree.places() if (number := read_number(f"{place}/{name}")) is not None), None)


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
