"""Clients' counters: a small file per client and target, read a few at a time over a period of their own."""

import math
import os
import resource
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from harvest_agent.scan import Trouble
from harvest_agent.tree import TargetFiles
from harvest_core.differences import Differences, SlotName
from harvest_core.facts import MARK_COLUMNS, MDT, OST, ClientMarks, Facts, Mount, ReadCost, packed
from harvest_core.lustre.clients import client_counters, moving_part
from harvest_core.lustre.columns import Codes, JobColumns
from harvest_core.lustre.names import is_server, parse_uuids
from harvest_core.wire import plain

_PASSES_SKIPPED_MOST: Final = 5
"""In a row, while the target itself counted nothing: a client that died must be noticed at some time."""
_MICRO: Final = 1_000_000
_PACKED_RECORDS: Final = 1024


@dataclass(slots=True)
class _Client:
    """There are hundreds of thousands on a large server: every field is many megabytes."""

    slot: int
    nid: bytes
    start: int
    digest: int = 0
    told: int | None = None
    """Whether it is live, and twice whether it is a server, as that was told last."""
    is_server: bool = False

    @property
    def name(self) -> SlotName:
        return self.nid, self.start, 0


class _Names:
    """What each slot stands for; put together when it is asked for."""

    def __init__(self) -> None:
        self.clients: dict[int, _Client] = {}

    def __getitem__(self, slot: int) -> SlotName:
        return self.clients[slot].name


class _Column(NamedTuple):
    data: bytes
    width: int


class _Pass:
    """What one pass through the files of a target's clients has shown so far."""

    def __init__(self) -> None:
        self.marks = ClientMarks()
        self.todo: list[str] | None = None
        """Folders of those that are still to be read, the next one last, once they were listed; named as its NID."""
        self.listed = 0
        self.present: array[int] = array("q")
        """Slots, in the order of the folder."""
        self.unreadable: list[str] = []
        """NIDs whose files are there and could not be read."""
        self.unread: list[int] = []
        """Slots of those among them that are known."""
        self.read_in: list[tuple[int, int]] = []
        """In which period, counted from that in which the pass began, how many of those present were read."""
        self._columns = JobColumns()
        self._packed: list[dict[str, _Column]] = []

    def list(self, folders: list[str]) -> None:
        """Take in which clients there are."""
        self.listed, self.todo = len(folders), folders[::-1]

    def add(self, columns: JobColumns) -> None:
        """Take in records; they are kept for up to a period, and so in as little room as on the wire."""
        self._columns.extend(columns)
        if len(self._columns.slot) >= _PACKED_RECORDS:
            fields = {name: getattr(self._columns, name) for name in JobColumns.__dataclass_fields__}
            self._packed.append({name: _Column(*packed(numbers)) for name, numbers in fields.items() if numbers})
            self._columns = JobColumns()

    def note(self, present: Sequence[int], period: int) -> None:
        """Take in who was there in this period."""
        self.present.extend(present)
        count = len(present)
        if self.read_in and self.read_in[-1][0] == period:
            count += self.read_in.pop()[1]
        self.read_in.append((period, count))

    def chunks(self) -> Iterator[JobColumns]:
        """Yield all records, in the order in which they came."""
        for columns in self._packed:
            yield JobColumns(**{name: plain(column) for name, column in columns.items()})
        yield self._columns


class TargetClients:
    """Follows the clients of one mount of a target from pass to pass."""

    def __init__(self, target: TargetFiles, mount: Mount, codes: Codes, *, was_gone: bool = False) -> None:
        self.target = target
        self.kind = OST if target.source == "obdfilter" else MDT
        self.mount = mount
        self.differences = Differences(codes)
        self.names = _Names()
        self.order: array[int] = array("q")
        self.gone: list[int] = []
        self.unread = Trouble()
        self.problem: str | None = None
        """What could not be read at all, for a person."""
        self._codes = codes
        self._was_gone = was_gone
        """The target was seen unmounted before: told with the first pass."""
        self._clients: dict[bytes, _Client] = {}
        self._next_slot = 0
        self._told_tick = 0
        self._read_by: dict[int, int] = {}
        """Slots that were told with an earlier tick than that of the last pass: it is that of their last read."""
        self._own_digest: int | None = None
        self.is_calm = False
        """The pass under way is skipped: since the last one the target has counted nothing."""
        self._skipped = 0
        self._seconds = [0.0, 0.0]
        self._read_bytes = 0
        self._open = _Pass()

    @property
    def is_done(self) -> bool:
        """Whether the pass under way has shown every client."""
        return self._open.todo is not None and not self._open.todo

    def left(self, part: float) -> int:
        """Return how many files are still to be read until so large a part of the pass is done.

        If they cannot be listed, none yet: that does not mean that they are gone.
        """
        shown = self._open
        if shown.todo is None:
            try:
                shown.list([folder for _, folder in self.target.exports(or_fail=True)])
            except OSError as error:
                self.problem = f"its clients cannot be listed: {error.strerror or error}"
                return 0
        return math.ceil(shown.listed * part) - (shown.listed - len(shown.todo or ()))

    @property
    def slots_used(self) -> int:
        """How many names were given."""
        return self._next_slot

    def begin(self, target: TargetFiles) -> None:
        """Begin a pass; if the target itself has counted nothing since the last one, nobody can have moved."""
        self.target = target
        self._open = _Pass()
        self.unread = Trouble()
        digest = self._counted()
        self.is_calm = digest is not None and digest == self._own_digest and self._skipped < _PASSES_SKIPPED_MOST
        self._skipped = self._skipped + 1 if self.is_calm else 0
        self._own_digest = digest
        if self.is_calm:
            self._open.note(self.order, 0)
            self._open.list([])

    def look(self, period: int = 0) -> None:
        """Begin after all with a pass that was skipped, if the target counts again; else nobody has moved until now."""
        if self.is_calm and self._counted() != self._own_digest:
            self.begin(self.target)
        elif self.is_calm:
            self._open.read_in = [(period, len(self.order))]

    def _counted(self) -> int | None:
        """Return what stands for all that the target itself has counted; None if it cannot be read."""
        own = self.target.file("stats" if self.target.source == "obdfilter" else "md_stats")
        text = None if own is None else self.target.read(own)
        return None if text is None else hash(moving_part(text))

    def read_some(
        self, most: int, is_enough: Callable[[], bool] = lambda: False, period: Callable[[], int] = lambda: 0
    ) -> None:
        """Read the next few clients. If the target was remounted meanwhile, none of them counts."""
        before = resource.getrusage(resource.RUSAGE_THREAD)
        shown = self._open
        columns, marks, present = JobColumns(), ClientMarks(), dict[int, list[int]]()
        todo = shown.todo or []
        for _ in range(min(most, len(todo))):
            slots = self._read(todo.pop(), columns, marks)
            present.setdefault(period(), []).extend(slots)
            if is_enough():
                break
        after = resource.getrusage(resource.RUSAGE_THREAD)
        self._seconds[0] += after.ru_utime - before.ru_utime
        self._seconds[1] += after.ru_stime - before.ru_stime
        if self.is_remounted(self.target):
            return
        shown.add(columns)
        for name in MARK_COLUMNS:
            getattr(shown.marks, name).extend(getattr(marks, name))
        for at, slots in present.items():
            shown.note(slots, at)

    def is_remounted(self, target: TargetFiles) -> bool:
        """Tell whether this is another mount by now; a number that cannot be read says nothing."""
        instance = target.number("instance")
        if self.mount.instance is None:
            self.mount = replace(self.mount, instance=instance)
        return instance is not None and instance != self.mount.instance

    def facts(
        self, about: Facts, *, is_over: bool, early_seconds: Callable[[int], int] = lambda _: 0
    ) -> Iterator[Facts]:
        """Yield what the pass has shown; of a mount that is over, as far as it came: of the rest nothing is known.

        Whoever was read in a period that is long over has that one's tick, so many seconds before this one; and whoever
        could not be read, the tick of its last read.
        """
        shown = self._open
        self._date(shown, about.tick_seconds, early_seconds)
        if not is_over:
            present = set(shown.present)
            self.gone = [slot for slot in self.order if slot not in present]
            self.order = shown.present
            some = ", ".join(shown.unreadable[:3])
            self.problem = f"{len(shown.unreadable)} clients cannot be read: {some}" if some else None
        cost = ReadCost(
            user_microseconds=round(self._seconds[0] * _MICRO),
            kernel_microseconds=round(self._seconds[1] * _MICRO),
            bytes=self._read_bytes,
            records=len(shown.present),
        )
        self._seconds, self._read_bytes = [0.0, 0.0], 0
        about = replace(about, complete=not is_over, clients=shown.marks, directory_gone=self._was_gone)
        self._was_gone = False
        for part in self.differences.facts(about, shown.chunks(), self):
            if part.is_last_part:
                part.unread_lines, part.cost = self.unread.count, cost
            yield part
        for slot in self.gone if not is_over else ():
            client = self.names.clients.pop(slot)
            if self._clients.get(client.nid) is client:
                del self._clients[client.nid]

    def _date(self, shown: _Pass, tick_seconds: int, early_seconds: Callable[[int], int]) -> None:
        """Note who was read by an earlier tick than the one with which the pass is told."""
        read_by: dict[int, int] = {}
        first = 0
        for period, count in shown.read_in:
            if early := early_seconds(period):
                read_by |= dict.fromkeys(shown.present[first : first + count], tick_seconds - early)
            first += count
        read_by |= {slot: self._read_by.get(slot, self._told_tick) for slot in shown.unread}
        for slot, tick in read_by.items():
            if tick < tick_seconds:  # else the clock was set back
                shown.marks.early_slot.append(slot)
                shown.marks.early_seconds.append(tick_seconds - tick)
        self._read_by, self._told_tick = read_by, tick_seconds

    def _read(self, folder: str, columns: JobColumns, marks: ClientMarks) -> list[int]:
        """Read one client; return its slot, unless it is not there any more."""
        nid = folder.rpartition("/")[2]
        text = self.target.read(f"{folder}/stats")
        known = self._clients.get(os.fsencode(nid))  # a folder may be called anything
        if text is None:
            if not self.target.is_gone(f"{folder}/stats"):  # there, and not to be read: no news, and no calm
                self._open.unreadable.append(nid)
                self._own_digest = None
                slots = [] if known is None else [known.slot]
                self._open.unread += slots
                return slots
            return []
        self._read_bytes += len(text)
        digest = hash(moving_part(text))
        has_moved = known is None or known.digest != digest
        client = self._moved(nid, text, digest, columns) if known is None or has_moved else known
        is_live = has_moved
        if known is None or not has_moved:
            uuids = parse_uuids(self.target.read(f"{folder}/uuid") or b"")
            is_live = bool(uuids)
            client.is_server = is_server(nid, uuids) or (not uuids and client.is_server)
        telling = is_live + 2 * client.is_server
        if client.told != telling:
            client.told = telling
            marks.slot.append(client.slot)
            marks.live.append(is_live)
            marks.server.append(client.is_server)
        return [client.slot]

    def _moved(self, nid: str, text: bytes, digest: int, columns: JobColumns) -> _Client:
        stats = client_counters(text)
        self.unread.add(*stats.trouble)
        client = self._clients.get(os.fsencode(nid))
        if client is None or client.start != stats.start:  # another start is another record
            name = os.fsencode(nid) if client is None else client.nid
            was_server = client is not None and client.is_server
            client = _Client(self._next_slot, name, stats.start, is_server=was_server)
            self._clients[name] = self.names.clients[self._next_slot] = client
            self._next_slot += 1
        client.digest = digest
        stats.append_to(columns, client.slot, self._codes)
        return client
