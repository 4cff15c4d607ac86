"""Sweeps: every target's job records read once, in one open and one pass each."""

import os
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harvest_agent.scan import BUFFER_BYTES, JobScanner, Trouble, best_engine
from harvest_agent.tree import TargetFiles, Tree, open_regular
from harvest_core.lustre.columns import Codes, JobColumns

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
    complete: bool
    """The file was read to its end, within one mount."""
    remounted: bool
    """The target was remounted meanwhile: what was read mixes two mounts, and must be dropped."""
    problem: str | None
    """Why it is not complete."""
    bytes_read: int
    user_seconds: float
    """What the read cost us."""
    kernel_seconds: float
    """What it cost the server: the kernel prints the text, on older versions under a lock."""

    @property
    def unread(self) -> Trouble:
        """Lines that were not understood, of the records that moved."""
        return self.scanner.unread


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
        self._tree.unreadable.clear()
        reads = [
            self._read(target, path, consume)
            for target in self._tree.targets(self._filesystems)
            if (path := target.file("job_stats")) is not None
        ]
        mounted = {(read.target.source, read.target.name) for read in reads}
        self._scanners = {key: value for key, value in self._scanners.items() if key in mounted}
        return reads

    def _read(self, target: TargetFiles, path: str, consume: Consume) -> TargetRead:
        instance = target.number("instance")
        scanner = self._scanner(target, instance)
        problem = None
        before = resource.getrusage(resource.RUSAGE_SELF)
        source = _Source(path)
        chunks = scanner.read(source.read_into)
        while problem is None:
            try:
                columns = next(chunks)
            except StopIteration:
                break
            except OSError as error:  # of the file; the consumer's own troubles are not the target's
                problem = error.strerror or type(error).__name__
            else:
                consume(target, scanner, columns)
        source.close()
        after = resource.getrusage(resource.RUSAGE_SELF)
        remounted = _other_mount(instance, target.number("instance"))
        if remounted:
            self._scanners.pop((target.source, target.name), None)
        return TargetRead(
            target=target,
            scanner=scanner,
            instance=instance,
            complete=problem is None and not remounted,
            remounted=remounted,
            problem="remounted while it was read" if remounted else problem,
            bytes_read=source.size,
            user_seconds=after.ru_utime - before.ru_utime,
            kernel_seconds=after.ru_stime - before.ru_stime,
        )

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

    def read_into(self, view: memoryview) -> int:
        if self._handle is None:
            self._handle = open_regular(self._path)
        got = os.readv(self._handle, [view])
        self.size += got
        return got

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


def _other_mount(before: int | None, after: int | None) -> bool:
    """Tell whether the target was remounted; a number that could not be read says nothing."""
    return before is not None and after is not None and before != after
