"""Who may open a ledger: one process at a time, and only on a disk of this machine."""

import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harvest_aggregator.errors import LedgerError

_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = frozenset(
    (
        *("9p", "afs", "auristorfs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "gfs", "gfs2", "glusterfs", "gpfs"),
        *("lustre", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs"),
        *("wekafs", "yfs"),
    )
)
_NETWORK_FUSE: Final = re.compile(
    r"fuse\.(?:afs|beegfs|ceph|cvmfs|davfs|gcs|gluster|goofys|gvfs|juicefs|lizardfs|mfs|moosefs|nfs|orangefs|rclone"
    r"|s3|seaweedfs|smb|ssh|weed).*"
)


class Lock:
    """Held while a process has the ledger open; the kernel lets go of it when the process dies, however it dies."""

    def __init__(self, ledger: Path) -> None:
        path = ledger.with_name(f"{ledger.name}.lock")
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LedgerError(f"cannot open {path}: {error.strerror}") from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._handle, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._handle)
            raise LedgerError(
                f"process {holder} has the ledger {ledger} open: stop that one first, or give this one a --data folder"
                " of its own"
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """Let others in. The file stays: removing it would let two in at once."""
        os.close(self._handle)


def filesystem_type(folder: Path, mounts: str | None = None) -> str:
    """Return the type of the file system that a folder is on, as the kernel names it; empty where that is unknown."""
    place = os.path.realpath(folder)
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    found, longest = "", 0
    for line in mounts.splitlines():
        mounted, _, kind = line.partition(" - ")
        fields = mounted.split(" ")
        if len(fields) < 5 or not kind:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        within = place == point or place.startswith(point.rstrip("/") + "/")
        if within and len(point) >= longest:  # of two at one place the later one is seen
            found, longest = kind.split(" ")[0], len(point)
    return found


def refuse_network(ledger: Path, kind_of: Callable[[Path], str] = filesystem_type) -> None:
    """Refuse file systems on which two machines could write at once: locks and shared memory do not reach across."""
    kind = kind_of(ledger.parent)
    if kind in _NETWORK or _NETWORK_FUSE.fullmatch(kind):
        raise LedgerError(
            f"{ledger.parent} is on a network file system ({kind}), where a ledger can be damaged: put it on a local"
            " disk (--data), and copy it elsewhere with harvest-aggregator backup"
        )
