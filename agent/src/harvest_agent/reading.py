"""Sweeps: every target's job records read once, in one open and one pass each."""

import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from harvest_agent.scan import BUFFER_BYTES, JobScanner, Trouble, best_engine
from harvest_agent.tree import TargetFiles, Tree, open_regular
from harvest_core.facts import in_one_piece
from harvest_core.lustre.columns import Codes, JobColumns
from harvest_core.lustre.job_stats import RECORD_START, split_records

_PAGE_BYTES: Final = 4096
Consume = Callable[[TargetFiles, JobScanner, JobColumns], None]
"""Takes the records that moved, a buffer's worth at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRead:
    """How one target's read went."""

    target: TargetFiles
    scanner: JobScanner
    """What was seen: order, what is gone, the jobs behind the slots."""
    instance: int | None
    """Lustre's number of this mount; unknown on the oldest servers."""
    instance_after: int | None
    """Likewise, when the read had ended."""
    complete: bool
    """The file was read to its end, within one mount."""
    remounted: bool
    """The target was remounted meanwhile: what was read mixes two mounts, and must be dropped."""
    vanished: bool
    """The target was unmounted before its file was opened."""
    problem: str | None
    """Why it is not complete."""
    in_one_piece: bool
    """The first piece that the kernel gave was all there is."""
    bytes_read: int
    user_seconds: float
    """What the read cost us."""
    kernel_seconds: float
    """What it cost the server: the kernel prints the text, on older versions under a lock."""

    @property
    def unread(self) -> Trouble:
        """Lines that were not understood, of the records that moved."""
        return self.scanner.unread


class Reading:
    """One target's read: the records that moved, a buffer's worth at a time, and then how it went."""

    def __init__(self, target: TargetFiles, path: str, scanner: JobScanner, instance: int | None) -> None:
        self.target = target
        self.scanner = scanner
        self.instance = instance
        self._source = _Source(path)
        self._problem: OSError | None = None
        self._user_seconds = self._kernel_seconds = 0.0

    def chunks(self) -> Iterator[JobColumns]:
        """Yield what moved; trouble with the file passes through, after what was read whole."""
        chunks = self.scanner.read(self._source.read_into)
        while True:
            before = resource.getrusage(resource.RUSAGE_THREAD)
            try:
                columns = next(chunks, None)
            except OSError as error:
                self._problem = error
                raise
            finally:
                after = resource.getrusage(resource.RUSAGE_THREAD)
                self._user_seconds += after.ru_utime - before.ru_utime
                self._kernel_seconds += after.ru_stime - before.ru_stime
            if columns is None:
                return
            yield columns

    def finish(self) -> TargetRead:
        """Close the file, and say how the read went."""
        self._source.close()
        instance = self.target.number("instance")
        remounted = _other_mount(self.instance, instance)
        problem = None
        if self._problem is not None:
            problem = self._problem.strerror or type(self._problem).__name__
        return TargetRead(
            target=self.target,
            scanner=self.scanner,
            instance=self.instance,
            instance_after=instance,
            complete=problem is None and not remounted,
            remounted=remounted,
            vanished=isinstance(self._problem, FileNotFoundError),
            problem="remounted while it was read" if remounted else problem,
            in_one_piece=self._source.in_one_piece(),
            bytes_read=self._source.size,
            user_seconds=self._user_seconds,
            kernel_seconds=self._kernel_seconds,
        )


class Reader:
    """Follows all targets of a server from sweep to sweep."""

    def __init__(self, tree: Tree, filesystems: Sequence[str] = ()) -> None:
        self._tree = tree
        self._filesystems = filesystems
        self._engine = best_engine()
        self._buffer = bytearray(BUFFER_BYTES)
        self.codes = Codes()
        """The counters' numbers in the columns, for all targets alike."""
        self._scanners: dict[tuple[str, str], tuple[int | None, JobScanner]] = {}

    def sweep(self, consume: Consume) -> list[TargetRead]:
        """Read every mounted target once; trouble with one never stops the others."""
        reads = []
        for reading in self.readings():
            for columns in _until_trouble(reading.chunks()):
                consume(reading.target, reading.scanner, columns)
            reads.append(self.finish(reading))
        return reads

    def readings(self) -> Iterator[Reading]:
        """Yield a read of every mounted target, to be gone through and finished before the next."""
        self._tree.unreadable.clear()
        found = [
            (target, path)
            for target in self._tree.targets(self._filesystems)
            if (path := target.file("job_stats")) is not None
        ]
        mounted = {(target.source, target.name) for target, _ in found}
        self._scanners = {key: value for key, value in self._scanners.items() if key in mounted}
        for target, path in found:
            instance = target.number("instance")
            yield Reading(target, path, self._scanner(target, instance), instance)

    def finish(self, reading: Reading) -> TargetRead:
        """End a read; what mixes two mounts is followed no more."""
        read = reading.finish()
        if read.remounted or read.vanished:
            self._scanners.pop((read.target.source, read.target.name), None)
        return read

    def _scanner(self, target: TargetFiles, instance: int | None) -> JobScanner:
        """Return what follows this mount of the target; another mount is another story."""
        key = (target.source, target.name)
        known, scanner = self._scanners.get(key, (None, None))
        if scanner is None or _other_mount(known, instance):
            scanner = JobScanner(self._engine, self._buffer, self.codes)
        self._scanners[key] = (known if instance is None else instance, scanner)
        return scanner


class _Source:
    """A file, opened when it is first read, and how much of it was read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None
        self.size = 0
        self._piece_bytes: list[int] = []
        self._first = b""

    def read_into(self, view: memoryview) -> int:
        if self._handle is None:
            self._handle = open_regular(self._path)
        got = os.readv(self._handle, [view])
        if got and not self.size and got < _PAGE_BYTES:
            self._first = bytes(view[:got])
        if len(self._piece_bytes) < 2:
            self._piece_bytes.append(got)
        self.size += got
        return got

    def in_one_piece(self) -> bool:
        """Tell whether the first piece was all; only a short one can have been."""
        if self.size >= _PAGE_BYTES:
            return False
        records = [len(piece) for piece in split_records(self._first) if piece.startswith(RECORD_START)]
        return in_one_piece(self._piece_bytes, max(records, default=0))

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


def _until_trouble(chunks: Iterator[JobColumns]) -> Iterator[JobColumns]:
    """Yield what could be read; why it ended the read itself tells."""
    with suppress(OSError):
        yield from chunks


def _other_mount(before: int | None, after: int | None) -> bool:
    """Tell whether the target was remounted; a number that could not be read says nothing."""
    return before is not None and after is not None and before != after
