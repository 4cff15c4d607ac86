"""Files of a simulated server, and what an open one gives piece by piece."""

import errno
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from harvest_sim.jobstats import JobStats
from harvest_sim.lives import Picture, Showing
from harvest_sim.walks import Walk, walk_through

_PAGE_BYTES = 4096
_READ_BYTES = 65536

Piece = tuple[bytes, list[tuple[int, Showing]]]
"""Text, and what is shown by how many bytes of it."""


class Source(Protocol):
    """Where a reader gets its text from."""

    def fill(self) -> Piece:
        """Return the next piece, empty at the end."""

    def close(self) -> None:
        """Do what closing the file does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a server."""

    picture: Callable[[], Picture]
    """Makes the text that one reader without interruption sees, and what it shows."""
    new_source: Callable[[], Source]
    is_gone: Callable[[], bool]
    after_read: Callable[[], None]
    """What closing the file does."""
    says_time_of_read: bool = False
    """Whether the text differs from one moment to the next even if nothing was counted (§1.5)."""

    def open(self, *, hold: bool = False) -> "Reader":
        """Open it; ``hold`` leaves it to the caller to commit what was shown."""
        if self.is_gone():
            raise FileNotFoundError(errno.ENOENT, "the file is gone")
        return Reader(self.new_source(), is_gone=self.is_gone, hold=hold)

    def read(self) -> bytes:
        """Open, read to the end and close."""
        return self.open().read_all()


def small_file(picture: Callable[[], Picture], *, is_gone: Callable[[], bool], says_time_of_read: bool = False) -> File:
    """Return a file whose text is made when it is first read."""
    return File(
        picture=picture,
        new_source=lambda: _TextSource(picture),
        is_gone=is_gone,
        after_read=lambda: None,
        says_time_of_read=says_time_of_read,
    )


def job_stats_file(table: JobStats) -> File:
    """Return a job_stats file."""
    return File(
        picture=table.picture,
        new_source=lambda: _JobStatsSource(table),
        is_gone=lambda: table.is_gone,
        after_read=table.reader_closed,
    )


class Reader:
    """An open file. What it delivers whole counts as shown, at once or, if held, when committed."""

    def __init__(self, source: Source, *, is_gone: Callable[[], bool], hold: bool = False) -> None:
        self.delivered: list[Showing] = []
        """What was received whole, is new, and is not counted as shown yet: empty unless held."""
        self._source = source
        self._is_gone = is_gone
        self._hold = hold
        self._rest = b""
        self._filled_bytes = 0
        self._read_bytes = 0
        self._pending: deque[tuple[int, Showing]] = deque()
        self._is_closed = False

    def read(self, size: int = _READ_BYTES) -> bytes:
        """Return the next piece, at most ``size`` bytes; nothing at the end."""
        if self._is_gone():
            raise OSError(errno.EIO, "the file went away while it was read")
        if not self._rest:
            self._rest, showings = self._source.fill()
            self._pending.extend((self._filled_bytes + end, showing) for end, showing in showings)
            self._filled_bytes += len(self._rest)
        piece, self._rest = self._rest[:size], self._rest[size:]
        self._read_bytes += len(piece)
        while self._pending and self._pending[0][0] <= self._read_bytes:
            self.delivered.append(self._pending.popleft()[1])
        if not self._hold:
            self.commit()
        return piece

    def read_all(self) -> bytes:
        """Read to the end and close."""
        pieces = list(iter(self.read, b""))
        self.close()
        return b"".join(pieces)

    def close(self) -> None:
        """Close the file, once."""
        if not self._is_closed:
            self._is_closed = True
            if not self._is_gone():
                self._source.close()

    def commit(self) -> None:
        """Count as shown what was delivered: whoever held this reader has it safe."""
        for life, shown in self.delivered:
            life.show(shown)
        self.delivered.clear()


class _TextSource:
    """A text that fits into one piece."""

    def __init__(self, picture: Callable[[], Picture]) -> None:
        self._picture: Callable[[], Picture] | None = picture

    def fill(self) -> Piece:
        if self._picture is None:
            return b"", []
        text, showings = self._picture()
        self._picture = None
        return text, [(len(text), showing) for showing in showings]

    def close(self) -> None:
        """Nothing happens."""


class _JobStatsSource:
    """Job records through a seq_file: whole records, about a page at a time (§1.6).

    The records may change between two pieces, not within one.
    """

    def __init__(self, table: JobStats) -> None:
        self._table = table
        self._walk: Walk = walk_through(table)
        self._capacity_bytes = _PAGE_BYTES

    def fill(self) -> Piece:
        return self._page(self._walk.upcoming())

    def close(self) -> None:
        self._table.reader_closed()  # §2.1 (b): the scan comes after the output

    def _page(self, upcoming: Iterator[tuple[bytes, Showing | None]]) -> Piece:
        texts: list[bytes] = []
        showings: list[tuple[int, Showing]] = []
        used = 0
        for text, showing in upcoming:
            if used + len(text) >= self._capacity_bytes:
                if texts:
                    break
                # seq_file doubles its buffer until the first record fits
                while len(text) >= self._capacity_bytes:
                    self._capacity_bytes *= 2
            self._walk.accept()
            texts.append(text)
            used += len(text)
            if showing is not None:
                showings.append((used, showing))
        return b"".join(texts), showings
