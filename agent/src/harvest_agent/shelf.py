"""The spool's segments as they stand on the disk: found again after a crash, read by every uplink at its own pace.

One thread adds and removes segments; uplinks only read and acknowledge. What a reader has opened stays readable.
"""

import errno
import fcntl
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from harvest_agent.cursors import Cursors, Wishes
from harvest_agent.logs import say
from harvest_agent.segments import DamagedError, Segment, SpooledSweep, Sync, UnreadableError

_NAME: Final = re.compile(r"([0-9]{12})\.spool")
_FOLDER_MODE: Final = 0o700


class SpoolError(Exception):
    """The spool cannot be used; the message says why."""


class Shelf:
    """A folder of segments, and what each aggregator has of them."""

    def __init__(
        self,
        folder: str,
        uplinks: Sequence[str],
        *,
        elapsed_seconds: Callable[[], float] = time.monotonic,
        sync: Sync = os.fsync,
    ) -> None:
        self.folder = folder
        self._sync = sync
        self.uplinks = tuple(uplinks)
        self._elapsed_seconds = elapsed_seconds
        self._handle = _locked(folder)
        self._guard = threading.Lock()
        self._cursors = Cursors(os.path.join(folder, "cursors.json"), uplinks)
        self._contact_seconds = dict.fromkeys(uplinks, elapsed_seconds())
        self.segments: list[Segment] = []
        """Oldest first; the writer's own, others ask the methods."""
        self._merged: list[Segment] = []
        """What is in another one by now; its files stay until that is certain to outlive a crash."""
        self.damaged_segments = 0
        try:
            self._recover()
        except SpoolError:
            os.close(self._handle)
            raise

    def size(self) -> int:
        """Return how many bytes the segments take up."""
        with self._guard:
            return sum(segment.size for segment in (*self.segments, *self._merged))

    def incarnations(self) -> list[tuple[bytes, int, int]]:
        """Return every incarnation with its first and last sweep here, oldest first."""
        found: dict[bytes, tuple[int, int]] = {}
        with self._guard:
            for segment in self.segments:
                if segment.spans:
                    first, _ = found.get(segment.incarnation, (segment.first_seq, 0))
                    found[segment.incarnation] = (first, segment.last_seq)
        return [(incarnation, first, last) for incarnation, (first, last) in found.items()]

    def waiting(self, *uplinks: str) -> int:
        """Return how many sweeps one of these aggregators has not acknowledged."""
        with self._guard:
            return sum(
                sum(span.seq > acknowledged for span in segment.spans) if segment.last_seq > acknowledged else 0
                for segment in self.segments
                for acknowledged in [min(self._cursors.acknowledged(each, segment.incarnation) for each in uplinks)]
            )

    def sweep_after(self, sent: Mapping[bytes, int]) -> SpooledSweep | None:
        """Return the first sweep that comes after those sent, incarnation by incarnation.

        Raises UnreadableError where it cannot be opened now: none behind it may overtake it.
        """
        with self._guard:
            for segment in self.segments:
                after = sent.get(segment.incarnation, 0)
                if segment.last_seq <= after:
                    continue
                span = next(span for span in segment.spans if span.seq > after)
                try:
                    file = open(segment.path, "rb", opener=self._opener)  # noqa: SIM115 - whoever reads it closes it
                except FileNotFoundError:  # looked for in the folder that is locked: somebody has removed it
                    self._damaged(segment, segment.first_seq, "it was removed")
                    continue
                except OSError as error:
                    raise UnreadableError(f"{segment.path}: {error.strerror}") from error
                return SpooledSweep(segment, span, file)
        return None

    def _opener(self, path: str, flags: int) -> int:
        return os.open(os.path.basename(path), flags, dir_fd=self._handle)

    def damaged(self, incarnation: bytes, seq: int, reason: str) -> None:
        """Forget a sweep that cannot be read any more, and those behind it in its segment: they build on it."""
        with self._guard:
            for segment in self.segments:
                if segment.incarnation == incarnation and segment.first_seq <= seq <= segment.last_seq:
                    self._damaged(segment, seq, reason)

    def _damaged(self, segment: Segment, seq: int, reason: str) -> None:
        self.damaged_segments += 1
        say("spool.damaged", file=segment.path, sweeps=segment.last_seq - seq + 1, reason=reason)
        segment.spans = [span for span in segment.spans if span.seq < seq]

    # ---- what aggregators say

    def resume(self, uplink: str, durable: Mapping[bytes, int], wanted: frozenset[str]) -> dict[bytes, frozenset[str]]:
        """As ``Cursors.resume``."""
        with self._guard:
            self._contact_seconds[uplink] = self._elapsed_seconds()
            return self._cursors.resume(uplink, durable, wanted)

    def narrow(self, uplink: str, wanted: frozenset[str]) -> dict[bytes, frozenset[str]]:
        """As ``Cursors.narrow``."""
        with self._guard:
            return self._cursors.narrow(uplink, wanted)

    def wishes(self, uplink: str) -> Wishes | None:
        """As ``Cursors.wishes``."""
        with self._guard:
            return self._cursors.wishes(uplink)

    def wish(self, uplink: str, wishes: Wishes) -> None:
        """As ``Cursors.wish``."""
        with self._guard:
            self._cursors.wish(uplink, wishes)

    def acknowledge(self, uplink: str, incarnation: bytes, seq: int) -> None:
        """Take in that an aggregator has all sweeps up to this one."""
        with self._guard:
            self._contact_seconds[uplink] = self._elapsed_seconds()
            self._cursors.acknowledge(uplink, incarnation, seq)

    def lacking(self, segment: Segment) -> frozenset[str]:
        """Return the aggregators that do not have all of a segment."""
        with self._guard:
            return frozenset(
                uplink
                for uplink in self.uplinks
                if self._cursors.acknowledged(uplink, segment.incarnation) < segment.last_seq
            )

    def silent(self, seconds: float) -> frozenset[str]:
        """Return the aggregators that have not answered for so long."""
        now = self._elapsed_seconds()
        return frozenset(uplink for uplink, at in self._contact_seconds.items() if now - at > seconds)

    def save_cursors(self) -> None:
        """Keep for the next start what was acknowledged."""
        with self._guard:
            self._cursors.forget([segment.incarnation for segment in self.segments])
            self._cursors.save()

    # ---- the writer's

    def next_number(self) -> int:
        """Return a number for a segment that comes after all others."""
        return max((segment.number for segment in (*self.segments, *self._merged)), default=0) + 1

    def add(self, segment: Segment) -> None:
        """Take in a new segment; its file is there, and stays after a crash."""
        self._sync(self._handle)
        with self._guard:
            self.segments.append(segment)

    def change(self, change: Callable[[], None]) -> None:
        """Change a segment while nobody looks."""
        with self._guard:
            change()

    def replace(self, segments: Sequence[Segment], new: Segment) -> None:
        """Put one file in the place of neighbours; theirs are removed once it is certain to outlive a crash."""
        first, *rest = segments
        with self._guard:
            os.replace(new.path, first.path)  # the last step that may fail: from here on the new one is what is read
            first.spans, first.size, first.changed_seconds = new.spans, new.size, new.changed_seconds
            self.segments = [segment for segment in self.segments if segment not in rest]
            self._merged += rest
        self.clear_away()

    def clear_away(self) -> None:
        """Remove files whose sweeps are in another one, if the disk says by now that this one is there to stay."""
        if self._merged:
            try:
                self._sync(self._handle)
            except OSError as error:
                say("spool.not-synced", folder=self.folder, reason=error.strerror)
                return
            for segment in self._merged:
                self.remove(segment)
            self._merged = []

    def remove(self, segment: Segment) -> None:
        """Remove a segment."""
        with self._guard:
            if segment in self.segments:
                self.segments.remove(segment)
        with suppress(OSError):
            os.unlink(segment.path)

    def close(self) -> None:
        """Let another agent have the folder."""
        self.save_cursors()
        os.close(self._handle)

    # ---- starting

    def _recover(self) -> None:
        """Find what an earlier start left here, and cut off what was being written when it ended."""
        try:
            names = sorted(os.listdir(self.folder))
        except OSError as error:
            raise SpoolError(f"cannot read the spool folder {self.folder}: {error.strerror}") from error
        matches = [match for name in names if (match := _NAME.fullmatch(name))]
        for match in matches:
            path = os.path.join(self.folder, match[0])
            try:
                self._take_back(path, int(match[1]), is_last=match is matches[-1])
            except OSError as error:
                raise SpoolError(
                    f"cannot use {path} in the spool: {error.strerror}; mend the disk or the permissions, or move the "
                    "file to another folder: what is in it is lost then, and all the rest is sent"
                ) from error
        for name in names:
            if name.endswith(".new"):
                with suppress(OSError):  # it takes up room, and nothing else
                    os.unlink(os.path.join(self.folder, name))

    def _take_back(self, path: str, number: int, *, is_last: bool) -> None:
        try:
            segment = Segment.scan(path, number)
        except DamagedError as error:
            self.damaged_segments += not is_last
            say("spool.unreadable", file=path, reason=error)
            os.replace(path, f"{path}.damaged")
            return
        if cut := os.path.getsize(path) - segment.size:
            self.damaged_segments += not is_last
            say("spool.cut", file=path, bytes=cut, sweeps_kept=len(segment.spans))
            os.truncate(path, segment.size)
        before = self.segments[-1] if self.segments else None
        if before is not None and before.incarnation == segment.incarnation:  # it died between two steps of merging
            segment.spans = [span for span in segment.spans if span.seq > before.last_seq]
        if segment.spans:
            self.segments.append(segment)
        else:
            os.unlink(path)


def _locked(folder: str) -> int:
    """Make the folder if it is not there, and keep other agents out of it."""
    try:
        os.makedirs(folder, mode=_FOLDER_MODE, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SpoolError(f"cannot use the spool folder {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        os.close(handle)
        raise SpoolError(f"cannot write to the spool folder {folder}: make it this user's, on a disk that is writable")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            raise SpoolError(f"another agent uses the spool folder {folder}: give each its own") from error
        raise SpoolError(f"cannot lock the spool folder {folder}: {error.strerror}") from error
    return handle
