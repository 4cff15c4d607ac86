"""Where job tables come from. A new source is one file here and one line in SOURCES of the collector."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from harvest_core.slurm.jobs import SlurmJob


class SlurmError(Exception):
    """Slurm did not answer, or not with jobs; the message is for a person."""


class Source(Protocol):
    """One way to ask Slurm; used by one thread, stopped by another."""

    unread: int
    """What was no job in the last answer."""

    def jobs(self) -> Iterator[list[SlurmJob]]:
        """Yield all that slurmctld has, ended ones too, piece by piece; raise if the answer was not whole."""

    def accounted(self, numbers: Sequence[int]) -> list[SlurmJob]:
        """Return every run of these jobs that the accounting database has."""

    def stop(self) -> None:
        """End what is under way."""


class Reader(Protocol):
    """A parser of core."""

    unread: int
    problem: str

    def feed(self, piece: bytes) -> list[SlurmJob]:
        """Return the jobs that end in this piece."""

    def end(self) -> list[SlurmJob]:
        """Return what is left."""


def read(pieces: Iterable[bytes], reader: Reader, said: Callable[[int], None]) -> Iterator[list[SlurmJob]]:
    """Read an answer piece by piece; raise if it was none, and say how much of it made no sense."""
    for piece in pieces:
        yield reader.feed(piece)
        if reader.problem:
            break
    yield reader.end()
    said(reader.unread)
    if reader.problem:
        raise SlurmError(reader.problem)
