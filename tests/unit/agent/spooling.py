"""Spools in a test's folder, with clocks that stand still and sweeps made in a line."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harvest_agent.segments import DamagedError, Record
from harvest_agent.shelf import Shelf
from harvest_agent.spool import NoRoomError, Spool

A, B = b"A" * 16, b"B" * 16
HERE, THERE = "here:1/main.example.harvest", "there:1/main.example.harvest"
MAX_BYTES = 1 << 20


@dataclass
class Disk:
    """A disk that may be full."""

    free_bytes: int = 1 << 40
    syncs: int = 0
    keeps_names: bool = True
    """Whether what happens to names in a folder can be made durable."""

    def write(self, handle: int, data: bytes) -> int:
        taken = min(len(data), self.free_bytes)
        if not taken:
            raise OSError(28, "No space left on device")
        self.free_bytes -= taken
        return os.write(handle, data[:taken])

    def sync(self, _handle: int) -> None:
        self.syncs += 1

    def sync_folder(self, _handle: int) -> None:
        if not self.keeps_names:
            raise OSError(5, "Input/output error")


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Let a file be there and not to be opened, by root neither."""
    kept = path.rename(path.with_suffix(".kept"))
    path.symlink_to(path.name)
    try:
        yield
    finally:
        kept.replace(path)


def open_files(folder: Path) -> list[Path]:
    """Return the segments that this process has open."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one by which we look
            found.append(handle.readlink())
    return [path for path in found if path.parent == folder]


@dataclass
class Bench:
    """A spool and the world around it."""

    folder: Path
    uplinks: tuple[str, ...] = (HERE,)
    max_bytes: int = MAX_BYTES
    disk: Disk = field(default_factory=Disk)
    now_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.shelf = Shelf(
            str(self.folder), self.uplinks, elapsed_seconds=lambda: self.now_seconds, sync=self.disk.sync_folder
        )
        self.spool = Spool(
            self.shelf,
            max_bytes=self.max_bytes,
            now_seconds=lambda: self.now_seconds,
            write=self.disk.write,
            sync=self.disk.sync,
        )

    def reopen(self) -> None:
        """Start again as after a crash: nothing is closed properly but what the kernel closes."""
        os.close(self.shelf._handle)  # noqa: SLF001 - a dead process lets go of its lock
        self.open()

    def sweep(self, seq: int, *payloads: bytes, incarnation: bytes = A) -> None:
        with self.spool.draft(incarnation, "boot", seq) as draft:
            for payload in payloads:
                draft.append(Record("fs-OST0000", payload))
            draft.commit(Record("", b"end"))

    def is_lost(self, seq: int, *payloads: bytes, incarnation: bytes = A) -> bool:
        try:
            self.sweep(seq, *payloads, incarnation=incarnation)
        except NoRoomError:
            return True
        return False

    def seqs(self, incarnation: bytes = A) -> list[int]:
        """Return the sweeps that a reader gets, each read whole."""
        sent: dict[bytes, int] = {}
        found = []
        while (sweep := self.shelf.sweep_after(sent)) is not None:
            sent[sweep.incarnation] = sweep.seq
            try:
                records = list(sweep.records())
            except DamagedError as error:
                self.shelf.damaged(sweep.incarnation, sweep.seq, str(error))
                continue
            assert records[-1] == Record("", b"end")
            if sweep.incarnation == incarnation:
                found.append(sweep.seq)
        return found

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.spool"))
