"""Where job tables come from. A new source is one file here and one line in SOURCES of the collector."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Final, Protocol

from harvest_core.slurm.jobs import SlurmJob

OUTPUT_MOST: Final = 1 << 30
"""Bytes of one answer: some 300,000 jobs as JSON."""


class SlurmError(Exception):
    """Slurm did not answer, or not with jobs; the message is for a person."""


class TooSlowError(SlurmError):
    """It took longer than it may."""


class Source(Protocol):
    """One way to ask Slurm; used by one thread, stopped by another."""

    unread: int
    """What was no job in the last answer."""
    asked_most: int
    """How many jobs accounting may be asked for at once."""

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


def read(pieces: Generator[bytes], reader: Reader) -> Iterator[list[SlurmJob]]:
    """Read an answer piece by piece; raise if it was none, and not before whoever gives it has ended."""
    with closing(pieces):
        for piece in pieces:
            yield reader.feed(piece)
            if reader.problem:
                break
    yield reader.end()
    if reader.problem:
        raise SlurmError(reader.problem)
