"""The one path of a sweep: every one is written here, whole or not at all, before anybody is sent it."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from harvest_agent.room import Room
from harvest_agent.segments import Record, Segment, Span, Sync, Write, packed_record, start_of_segment, write_all
from harvest_agent.shelf import Shelf

_SEGMENT_BYTES: Final = 4 << 20
_SEGMENT_LEAST_BYTES: Final = 1 << 16
_SEGMENTS_OF_LIMIT: Final = 16
_SAVED_SECONDS: Final = 60
_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT}


class NoRoomError(Exception):
    """A sweep could not be kept; the message says why."""


class Spool:
    """Writes sweeps to a shelf, and counts those that could not be."""

    def __init__(
        self,
        shelf: Shelf,
        *,
        max_bytes: int,
        now_seconds: Callable[[], float] = time.time,
        write: Write = os.write,
        sync: Sync = os.fdatasync,
    ) -> None:
        self.shelf = shelf
        self.room = Room(shelf, max_bytes=max_bytes, write=write)
        self._now_seconds, self._write, self._sync = now_seconds, write, sync
        self._segment_bytes = max(min(_SEGMENT_BYTES, max_bytes // _SEGMENTS_OF_LIMIT), _SEGMENT_LEAST_BYTES)
        self._open: tuple[Segment, int] | None = None
        self._drafted = 0
        self._needed_bytes = 0
        self._saved_at = now_seconds()
        self._unkept_sweeps = 0

    @property
    def lost_sweeps(self) -> int:
        """Sweeps that were not kept, or dropped before everybody had them."""
        return self._unkept_sweeps + self.room.forfeited_sweeps

    @contextmanager
    def draft(self, incarnation: bytes, boot_id: str, seq: int) -> Iterator["Draft"]:
        """Write one sweep; it is there once it was committed.

        Raises NoRoomError where the limit or the disk does not let us, before anything is read if that is known then.
        """
        try:
            self._keep_house()
            self._check_room()
            segment, handle = self._segment_for(incarnation, boot_id)
            try:
                yield Draft(self, segment, handle, seq)
            except BaseException:
                self._give_up(segment, handle)
                raise
        except NoRoomError:
            self._unkept_sweeps += 1
            raise
        finally:
            self._drafted = 0

    def append(self, segment: Segment, handle: int, data: bytes) -> None:
        """Write at the end of a draft."""
        self._needed_bytes = max(self._needed_bytes, self._drafted + len(data))
        if not self.room.make(self._drafted + len(data), segment):
            raise NoRoomError(f"the spool is full ({self.room.max_bytes} bytes)")
        while True:
            try:
                write_all(self._write, handle, data)
                break
            except OSError as error:
                self.rewind(segment, handle, self._drafted)
                if error.errno not in _NO_ROOM or not self.room.drop_acknowledged(segment):
                    raise self._failed(error) from error
        self._drafted += len(data)

    def mark(self) -> int:
        """Return how much of the draft there is."""
        return self._drafted

    def rewind(self, segment: Segment, handle: int, mark: int) -> None:
        """Take back what was written after a mark."""
        try:
            os.ftruncate(handle, segment.size + mark)
        except OSError as error:
            raise self._failed(error) from error
        self._drafted = mark

    def finish(self, segment: Segment, handle: int, seq: int) -> None:
        """Make a draft durable and show it to the uplinks."""
        try:
            self._sync(handle)
        except OSError as error:
            raise self._failed(error) from error
        size = segment.size + self._drafted

        def show() -> None:
            segment.spans.append(Span(seq, segment.size, size))
            segment.size = size
            segment.changed_seconds = self._now_seconds()

        self.shelf.change(show)
        self._needed_bytes, self._drafted = self._drafted, 0
        if size >= self._segment_bytes:
            self._seal()

    def close(self) -> None:
        """Stop writing; what is there stays."""
        self._seal()

    def begins_segment(self, segment: Segment) -> bool:
        """Tell whether a draft is the first of its segment."""
        return not segment.spans

    def _segment_for(self, incarnation: bytes, boot_id: str) -> tuple[Segment, int]:
        if self._open is not None and self._open[0].incarnation == incarnation:
            return self._open
        self._seal()
        number = self.shelf.next_number()
        path = os.path.join(self.shelf.folder, f"{number:012}.spool")
        start = start_of_segment(incarnation, boot_id)
        segment = Segment(
            path=path,
            number=number,
            incarnation=incarnation,
            boot_id=boot_id,
            changed_seconds=self._now_seconds(),
            size=len(start),
        )
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._open = (segment, handle)
            write_all(self._write, handle, start)
            self.shelf.add(segment)
        except OSError as error:
            self._seal()
            raise self._failed(error) from error
        return self._open

    def _check_room(self) -> None:
        """Find out before the files are read whether there is room for as much as was needed last."""
        needed = self._needed_bytes
        self._needed_bytes //= 2  # less may do next time: what is refused unread for ever never shows how much it is
        in_use = None if self._open is None else self._open[0]
        if not self.room.make(needed, in_use):
            self._seal()  # it may be what can be merged
            if not self.room.make(needed, None):
                raise NoRoomError(f"the spool is full ({self.room.max_bytes} bytes)")
        while self._free_bytes() < needed:
            if not self.room.drop_acknowledged(in_use):
                raise NoRoomError(f"the disk of {self.shelf.folder} is full")
        self._needed_bytes = needed

    def _free_bytes(self) -> int:
        try:
            status = os.statvfs(self.shelf.folder)
        except OSError as error:
            raise self._failed(error) from error
        return status.f_bavail * status.f_frsize

    def _keep_house(self) -> None:
        now = self._now_seconds()
        self.room.keep_a_day(now)
        self.shelf.clear_away()
        if not 0 <= now - self._saved_at < _SAVED_SECONDS:
            self._saved_at = now
            self.shelf.save_cursors()

    def _give_up(self, segment: Segment, handle: int) -> None:
        with suppress(OSError):  # else it is cut off at the next start
            os.ftruncate(handle, segment.size)
        self._seal()

    def _seal(self) -> None:
        if self._open is not None:
            segment, handle = self._open
            self._open = None
            with suppress(OSError):  # what matters was synced
                os.close(handle)
            if not segment.spans:
                self.shelf.remove(segment)

    def _failed(self, error: OSError) -> NoRoomError:
        return NoRoomError(f"cannot write to {self.shelf.folder}: {error.strerror}")


class Draft:
    """A sweep that is being written."""

    def __init__(self, spool: Spool, segment: Segment, handle: int, seq: int) -> None:
        self._spool = spool
        self._segment = segment
        self._handle = handle
        self._seq = seq
        self.begins_segment = spool.begins_segment(segment)
        """Names must be told again: no earlier segment may be needed to understand this one."""

    def append(self, record: Record) -> None:
        """Add a record."""
        self._spool.append(self._segment, self._handle, packed_record(record, self._seq, is_last=False))

    def mark(self) -> int:
        """Return where the draft is now."""
        return self._spool.mark()

    def rewind(self, mark: int) -> None:
        """Take back what was added since."""
        self._spool.rewind(self._segment, self._handle, mark)

    def commit(self, record: Record) -> None:
        """Add the last record and keep the sweep."""
        self._spool.append(self._segment, self._handle, packed_record(record, self._seq, is_last=True))
        self._spool.finish(self._segment, self._handle, self._seq)
