"""Room in the spool: what goes first when it is full.

First what every aggregator has; then time resolution (sweeps are merged, totals stay exact); then what only
aggregators lack that were silent for a day while another one answered: they must not stop it for ever.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from harvest_agent.logs import say
from harvest_agent.segments import (
    DamagedError,
    Segment,
    Span,
    UnreadableError,
    Write,
    packed_record,
    start_of_segment,
    write_all,
)
from harvest_agent.shelf import Shelf
from harvest_agent.thinning import thinned

DAY_SECONDS: Final = 24 * 3600
_MERGED_AT_ONCE_BYTES: Final = 16 << 20
_WORTH: Final = 0.95
"""Merging that leaves more than this is not done, and not tried again."""
_SEGMENTS_MOST: Final = 4096


class Room:
    """Keeps a shelf within its limit."""

    def __init__(self, shelf: Shelf, *, max_bytes: int, write: Write = os.write) -> None:
        self._shelf = shelf
        self.max_bytes = max_bytes
        self._write = write
        self._thin: set[tuple[tuple[int, int], ...]] = set()
        self.merged_sweeps = 0
        self.forfeited_sweeps = 0

    def keep_a_day(self, now_seconds: float) -> None:
        """Drop what everybody has for a day, or what is too much to name in a Hello."""
        for segment in list(self._shelf.segments[:-1]):
            is_old = segment.changed_seconds < now_seconds - DAY_SECONDS
            if not (is_old or len(self._shelf.segments) > _SEGMENTS_MOST) or self._shelf.lacking(segment):
                return
            self._shelf.remove(segment)

    def make(self, wanted_bytes: int, in_use: Segment | None) -> bool:
        """Make room for so much more; the segment that is being written stays."""
        while self._shelf.size() + wanted_bytes > self.max_bytes:
            sealed = [segment for segment in self._shelf.segments if segment is not in_use]
            if not (self.drop_acknowledged(in_use) or self._merge(sealed) or self._drop_forfeited(sealed)):
                return False
        return True

    def drop_acknowledged(self, in_use: Segment | None) -> bool:
        """Drop the oldest segment that every aggregator has."""
        for segment in self._shelf.segments:
            if segment is not in_use and not self._shelf.lacking(segment):
                self._shelf.remove(segment)
                return True
        return False

    def _drop_forfeited(self, sealed: list[Segment]) -> bool:
        silent = self._shelf.silent(DAY_SECONDS)
        if len(silent) == len(self._shelf.uplinks):
            return False
        for segment in sealed:
            if (lacking := self._shelf.lacking(segment)) <= silent:
                self.forfeited_sweeps += len(segment.spans)
                say("spool.forfeited", sweeps=len(segment.spans), uplinks=",".join(sorted(lacking)))
                self._shelf.remove(segment)
                return True
        return False

    def _merge(self, sealed: list[Segment]) -> bool:
        """Merge the oldest segments that become smaller by it; the sweeps keep their seqs."""
        for window in _windows(sealed):
            key = tuple((segment.number, segment.size) for segment in window)
            if key in self._thin:
                continue
            before = sum(segment.size for segment in window)
            new = None
            try:
                new = self._written(window)
                if new.size <= _WORTH * before:
                    self._shelf.replace(window, new)
                    self.merged_sweeps += len(new.spans)
                    say("spool.merged", sweeps=len(new.spans), bytes_before=before, bytes_after=new.size)
                    return True
            except UnreadableError as error:  # another time, perhaps
                say("spool.merge-failed", reason=error)
                continue
            except OSError as error:  # likewise, and no other window can be written now
                say("spool.merge-failed", reason=error)
                return False
            except DamagedError as error:
                say("spool.merge-failed", reason=error)
            finally:
                if new is not None:
                    with suppress(OSError):  # it is not there any more if it has replaced another
                        os.unlink(new.path)
            self._thin.add(key)
        return False

    def _written(self, window: list[Segment]) -> Segment:
        """Write a file with the same sweeps without the values that nobody needs."""
        first = window[0]
        sweeps = [sweep for segment in window for sweep in segment.sweeps()]
        start = start_of_segment(first.incarnation, first.boot_id)
        new = Segment(
            path=f"{first.path}.new",
            number=first.number,
            incarnation=first.incarnation,
            boot_id=first.boot_id,
            changed_seconds=max(segment.changed_seconds for segment in window),  # each sweep has its whole day
            size=len(start),
        )
        handle = os.open(new.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(self._write, handle, start)
            for seq, records in thinned(sweeps):
                last = len(records) - 1
                data = b"".join(packed_record(each, seq, is_last=at == last) for at, each in enumerate(records))
                write_all(self._write, handle, data)
                new.spans.append(Span(seq, new.size, new.size + len(data)))
                new.size += len(data)
            os.fsync(handle)
        except BaseException:
            with suppress(OSError):
                os.unlink(new.path)
            raise
        finally:
            os.close(handle)
        return new


def _windows(sealed: list[Segment]) -> Iterator[list[Segment]]:
    """Yield neighbours of one incarnation: two, or as many as can be merged at once."""
    window: list[Segment] = []
    for segment in sealed:
        size = sum(each.size for each in window) + segment.size
        fits = len(window) < 2 or size <= _MERGED_AT_ONCE_BYTES
        if window and not (fits and window[0].incarnation == segment.incarnation):
            yield window
            window = []
        window.append(segment)
    if window:
        yield window
