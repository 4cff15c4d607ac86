"""Clients' counters: a small file per client and target, read a few at a time over a period of their own."""

import math
import os
import resource
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from harvest_agent.scan import Trouble
from harvest_agent.tree import TargetFiles
from harvest_core.differences import Differences, SlotName
from harvest_core.facts import MARK_COLUMNS, MDT, OST, ClientMarks, Facts, Mount, ReadCost
from harvest_core.lustre.clients import client_counters, moving_part
from harvest_core.lustre.columns import Codes, JobColumns
from harvest_core.lustre.names import is_server, parse_uuids

_PASSES_SKIPPED_MOST: Final = 5
"""In a row, while the target itself counted nothing: a client that died must be noticed at some time."""
_MICRO: Final = 1_000_000


@dataclass(slots=True)
class _Client:
    slot: int
    digest: int
    marks: tuple[bool, bool] | None = None
    """(live, a server) as they were told last."""
    is_server: bool = False


class _Pass:
    """What one pass through the files of a target's clients has shown so far."""

    def __init__(self) -> None:
        self.columns = JobColumns()
        self.marks = ClientMarks()
        self.todo: list[str] | None = None
        """Folders of those to be read, once they were listed; each is named as its NID."""
        self.done = 0
        self.present: list[int] = []
        """Slots, in the order of the folder."""
        self.unreadable: list[str] = []
        """NIDs whose files are there and could not be read."""


class TargetClients:
    """Follows the clients of one mount of a target from pass to pass."""

    def __init__(self, target: TargetFiles, mount: Mount, codes: Codes, *, was_gone: bool = False) -> None:
        self.target = target
        self.kind = OST if target.source == "obdfilter" else MDT
        self.mount = mount
        self.differences = Differences(codes)
        self.names: dict[int, SlotName] = {}
        self.order: array[int] = array("q")
        self.gone: list[int] = []
        self.unread = Trouble()
        self.problem: str | None = None
        """What could not be read at all, for a person."""
        self._codes = codes
        self._was_gone = was_gone
        """The target was seen unmounted before: told with the first pass."""
        self._clients: dict[str, _Client] = {}
        self._next_slot = 0
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
        return self._open.todo is not None and self._open.done == len(self._open.todo)

    def left(self, part: float) -> int:
        """Return how many files are still to be read until so large a part of the pass is done.

        If they cannot be listed, none yet: that does not mean that they are gone.
        """
        if self._open.todo is None:
            try:
                self._open.todo = [folder for _, folder in self.target.exports(or_fail=True)]
            except OSError as error:
                self.problem = f"its clients cannot be listed: {error.strerror or error}"
                return 0
        return math.ceil(len(self._open.todo) * part) - self._open.done

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
            self._open.present = list(self.order)
            self._open.todo = []

    def look(self) -> None:
        """Begin after all with a pass that was skipped, if the target counts again."""
        if self.is_calm and self._counted() != self._own_digest:
            self.begin(self.target)

    def _counted(self) -> int | None:
        """Return what stands for all that the target itself has counted; None if it cannot be read."""
        own = self.target.file("stats" if self.target.source == "obdfilter" else "md_stats")
        text = None if own is None else self.target.read(own)
        return None if text is None else hash(moving_part(text))

    def read_some(self, most: int, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Read the next few clients. If the target was remounted meanwhile, none of them counts."""
        before = resource.getrusage(resource.RUSAGE_THREAD)
        shown = self._open
        columns, marks, present = JobColumns(), ClientMarks(), list[int]()
        for folder in (shown.todo or [])[shown.done : shown.done + most]:
            self._read(folder, columns, marks, present)
            shown.done += 1
            if is_enough():
                break
        after = resource.getrusage(resource.RUSAGE_THREAD)
        self._seconds[0] += after.ru_utime - before.ru_utime
        self._seconds[1] += after.ru_stime - before.ru_stime
        if self.is_remounted(self.target):
            return
        shown.columns.extend(columns)
        for name in MARK_COLUMNS:
            getattr(shown.marks, name).extend(getattr(marks, name))
        shown.present += present

    def is_remounted(self, target: TargetFiles) -> bool:
        """Tell whether this is another mount by now; a number that cannot be read says nothing."""
        instance = target.number("instance")
        if self.mount.instance is None:
            self.mount = replace(self.mount, instance=instance)
        return instance is not None and instance != self.mount.instance

    def facts(self, about: Facts, *, is_over: bool) -> Iterator[Facts]:
        """Yield what the pass has shown; of a mount that is over, as far as it came: of the rest nothing is known."""
        shown = self._open
        if not is_over:
            present = set(shown.present)
            self.gone = [slot for slot in self.order if slot not in present]
            self.order = array("q", shown.present)
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
        for part in self.differences.facts(about, [shown.columns], self):
            if part.is_last_part:
                part.unread_lines, part.cost = self.unread.count, cost
            yield part
        for slot in self.gone if not is_over else ():
            nid = os.fsdecode(self.names.pop(slot)[0])
            if self._clients.get(nid, _Client(-1, 0)).slot == slot:
                del self._clients[nid]

    def _read(self, folder: str, columns: JobColumns, marks: ClientMarks, present: list[int]) -> None:
        nid = folder.rpartition("/")[2]
        text = self.target.read(f"{folder}/stats")
        known = self._clients.get(nid)
        if text is None:
            if not self.target.is_gone(f"{folder}/stats"):  # there, and not to be read: no news, and no calm
                present += [] if known is None else [known.slot]
                self._open.unreadable.append(nid)
                self._own_digest = None
            return
        self._read_bytes += len(text)
        digest = hash(moving_part(text))
        has_moved = known is None or known.digest != digest
        client = self._moved(nid, text, digest, columns) if known is None or has_moved else known
        present.append(client.slot)
        is_live = has_moved
        if known is None or not has_moved:
            uuids = parse_uuids(self.target.read(f"{folder}/uuid") or b"")
            is_live = bool(uuids)
            client.is_server = is_server(nid, uuids) or (not uuids and client.is_server)
        if client.marks != (is_live, client.is_server):
            client.marks = (is_live, client.is_server)
            marks.slot.append(client.slot)
            marks.live.append(is_live)
            marks.server.append(client.is_server)

    def _moved(self, nid: str, text: bytes, digest: int, columns: JobColumns) -> _Client:
        stats = client_counters(text)
        self.unread.add(*stats.trouble)
        name = (os.fsencode(nid), stats.start, 0)  # a folder may be called anything
        client = self._clients.get(nid)
        if client is None or self.names[client.slot] != name:  # another start is another record
            was_server = client is not None and client.is_server
            client = self._clients[nid] = _Client(self._next_slot, digest, is_server=was_server)
            self.names[self._next_slot] = name
            self._next_slot += 1
        client.digest = digest
        stats.append_to(columns, client.slot, self._codes)
        return client
