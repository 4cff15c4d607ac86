"""A folder as a layer of an image: a tar file whose bytes depend on the folder's content alone."""

import hashlib
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

USER = 65532
"""Whom the programs run as; a number without a name anywhere else, so that it collides with nobody on a node."""
_FOR_ALL = ("tmp", "var/tmp")


@dataclass(frozen=True)
class Layer:
    """A layer in its file."""

    path: Path
    digest: str
    size_bytes: int


def written(folder: Path, target: Path, *, of_the_user: Iterable[str] = ()) -> Layer:
    """Write what is in the folder; all belongs to root, but for the paths that the image's user writes to."""
    own = set(of_the_user)

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        owner = USER if entry.name in own else 0
        entry.uid = entry.gid = owner
        entry.uname = entry.gname = ""
        entry.mtime = 0
        if entry.name in _FOR_ALL:
            entry.mode = 0o1777
        elif not entry.issym():
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o111 else 0o644  # whatever the umask was
        return entry

    begun = target.with_name(f"{target.name}.begun")
    with tarfile.open(begun, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=plain)
    begun.rename(target)
    return found(target)


def found(target: Path) -> Layer:
    """Return the layer that is in a file already."""
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Layer(target, digest, target.stat().st_size)
