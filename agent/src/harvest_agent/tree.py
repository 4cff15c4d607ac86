"""Finding Lustre's files on any version: over the years they moved between /proc, /sys and debugfs."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harvest_core.lustre.names import of_filesystem, parse_nid, parse_number, parse_target

SOURCES: Final = ("obdfilter", "mdt")
"""The kinds of target that count work: OSTs and MDTs."""
_PLACES: Final = ("proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre")
_SMALL: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFiles:
    """The folders in which one mounted target shows itself."""

    source: str
    """``obdfilter`` or ``mdt``."""
    name: str
    folders: tuple[str, ...]

    def file(self, name: str) -> str | None:
        """Return where a file of this target is, on this version."""
        return next((path for folder in self.folders if os.path.lexists(path := f"{folder}/{name}")), None)

    def exports(self) -> Iterator[tuple[str, str]]:
        """Yield (NID, folder) of each client that was ever connected; one may vanish at any time."""
        seen = set()
        for folder in self.folders:
            for entry in _entries(f"{folder}/exports"):
                if parse_nid(entry.name) is not None and entry.name not in seen:
                    seen.add(entry.name)
                    yield entry.name, entry.path


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of one server, below a root that is ``/`` except in tests and offline work."""

    root: str

    def targets(self, filesystems: Sequence[str] = ()) -> list[TargetFiles]:
        """Return the mounted targets of the chosen file systems, or of all."""
        folders: dict[tuple[str, str], list[str]] = {}
        for place in self.places():
            for source in SOURCES:
                for entry in _entries(f"{place}/{source}"):
                    if _is_target(entry) and (
                        not filesystems or any(of_filesystem(entry.name, fs) for fs in filesystems)
                    ):
                        folders.setdefault((source, entry.name), []).append(entry.path)
        return [
            TargetFiles(source=source, name=name, folders=tuple(found))
            for (source, name), found in sorted(folders.items())
        ]

    def places(self) -> list[str]:
        """Return the folders under which Lustre's files may be."""
        return [os.path.join(self.root, place) for place in _PLACES]

    def setting(self, name: str) -> str | None:
        """Return a server-wide setting such as ``jobid_var``, ``version`` or ``enable_stats_header``."""
        for place in self.places():
            text = read_small(f"{place}/{name}")
            if text is not None:
                return text.decode("utf-8", "replace").strip()
        return None

    def mounts_as_client(self) -> bool:
        """Tell whether this node mounts Lustre as a client."""
        return any(True for place in self.places() for _ in _entries(f"{place}/llite"))

    def forbidden(self) -> list[str]:
        """Return the places that exist but may not be read by us."""
        return [place for place in self.places() if os.path.isdir(place) and not os.access(place, os.R_OK | os.X_OK)]

    def shown(self, path: str) -> str:
        """Return a path as it is on the server itself."""
        return "/" + os.path.relpath(path, self.root)


def _is_target(entry: "os.DirEntry[str]") -> bool:
    """Accept every folder that shows jobs or is named as a target; ``num_refs`` and the like are files."""
    return entry.is_dir() and (parse_target(entry.name) is not None or os.path.lexists(f"{entry.path}/job_stats"))


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    """Return what a folder holds; one that is absent, forbidden or just unmounted holds nothing."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def open_regular(path: str) -> int:
    """Open a file to read; anything else in its place (a FIFO, a device) might block or never end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
    except OSError:
        os.close(handle)
        raise
    return handle


def read_small(path: str) -> bytes | None:
    """Read a small file at once; nothing if it is not there any more or not for us."""
    try:
        handle = open_regular(path)
    except OSError:
        return None
    text = b""
    try:
        # a short read is not the end: these files hand out whole lines up to a page
        while len(text) < _SMALL and (more := os.read(handle, _SMALL)):
            text += more
    except OSError:
        return None
    else:
        return text
    finally:
        os.close(handle)


def read_number(path: str | None) -> int | None:
    """Read a file that holds one number, such as ``instance`` or ``job_cleanup_interval``."""
    text = read_small(path) if path else None
    return None if text is None else parse_number(text)
