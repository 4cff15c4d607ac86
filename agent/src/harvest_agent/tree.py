"""Finding Lustre's files on any version: over the years they moved between /proc, /sys and debugfs."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from harvest_core.lustre.names import of_filesystem, parse_nid, parse_number, parse_target

SOURCES: Final = ("obdfilter", "mdt")
"""The kinds of target that count work: OSTs and MDTs."""
SMALL_BYTES: Final = 4 * 1024 * 1024
"""Of a file that is read at once: a thousand times what Lustre prints into one."""
_CHUNK_BYTES: Final = 64 * 1024
_PLACES: Final = ("proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre")

_GONE: Final = (FileNotFoundError, NotADirectoryError)

Unreadable = dict[str, str]
"""What is there and could not be read, and why. What is not there, or not any more, is no trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFiles:
    """The folders in which one mounted target shows itself."""

    source: str
    """``obdfilter`` or ``mdt``."""
    name: str
    folders: tuple[str, ...]
    unreadable: Unreadable = field(default_factory=dict, compare=False, repr=False)
    """The tree's own."""

    def file(self, name: str) -> str | None:
        """Return where a file of this target is, on this version."""
        for folder in self.folders:
            path = f"{folder}/{name}"
            if _mode(path, self.unreadable, follow_symlinks=False):
                return path
        return None

    def number(self, name: str) -> int | None:
        """Return what a file of this target says that holds one number, such as ``instance``."""
        return read_number(self.file(name), self.unreadable)

    def read(self, path: str) -> bytes | None:
        """Read a small file of this target at once, as ``read_small``, and remember trouble."""
        return read_small(path, self.unreadable)

    def is_gone(self, path: str) -> bool:
        """Tell whether a file that could not be read is not there any more; nobody knows it behind a closed door."""
        try:
            os.stat(path)
        except OSError as error:
            return isinstance(error, _GONE)
        return False

    def exports(self, *, or_fail: bool = False) -> Iterator[tuple[str, str]]:
        """Yield (NID, folder) of each client that was ever connected; one may vanish at any time.

        A folder that is there and cannot be listed shows none, or raises OSError.
        """
        seen = set()
        for folder in self.folders:
            for name in _names(f"{folder}/exports", self.unreadable, or_fail=or_fail):
                if parse_nid(name) is not None and name not in seen:
                    seen.add(name)
                    yield name, f"{folder}/exports/{name}"


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of one server, below a root that is ``/`` except in tests and offline work."""

    root: str
    unreadable: Unreadable = field(default_factory=dict, compare=False)
    """Filled while targets, exports, settings and small files are listed and read; clear it to start anew."""

    def targets(self, filesystems: Sequence[str] = ()) -> list[TargetFiles]:
        """Return the mounted targets of the chosen file systems, or of all."""
        folders: dict[tuple[str, str], list[str]] = {}
        for place in self.places():
            for source in SOURCES:
                for entry in _entries(f"{place}/{source}", self.unreadable):
                    if self._is_target(entry) and (
                        not filesystems or any(of_filesystem(entry.name, fs) for fs in filesystems)
                    ):
                        folders.setdefault((source, entry.name), []).append(entry.path)
        return [
            TargetFiles(source=source, name=name, folders=tuple(found), unreadable=self.unreadable)
            for (source, name), found in sorted(folders.items())
        ]

    def _is_target(self, entry: "os.DirEntry[str]") -> bool:
        """Accept every folder that shows jobs or is named as a target; ``num_refs`` and the like are files."""
        return stat.S_ISDIR(_mode(entry.path, self.unreadable)) and (
            parse_target(entry.name) is not None
            or bool(_mode(f"{entry.path}/job_stats", self.unreadable, follow_symlinks=False))
        )

    def places(self) -> list[str]:
        """Return the folders under which Lustre's files may be."""
        return [os.path.join(self.root, place) for place in _PLACES]

    def read(self, path: str) -> bytes | None:
        """Read a small file at once, as ``read_small``, and remember trouble."""
        return read_small(path, self.unreadable)

    def setting(self, name: str) -> str | None:
        """Return a server-wide setting such as ``jobid_var``, ``version`` or ``enable_stats_header``."""
        for place in self.places():
            text = self.read(f"{place}/{name}")
            if text is not None:
                return text.decode("utf-8", "replace").strip()
        return None

    def mounts_as_client(self) -> bool:
        """Tell whether this node mounts Lustre as a client."""
        return any(True for place in self.places() for _ in _entries(f"{place}/llite", self.unreadable))

    def shown(self, path: str) -> str:
        """Return a path as it is on the server itself."""
        return "/" + os.path.relpath(path, self.root)


def _blame(error: OSError, path: str, unreadable: Unreadable) -> None:
    """Remember why a path could not be read, unless it just is not there (any more)."""
    if isinstance(error, PermissionError):
        while path and not os.path.lexists(path):  # behind a closed door: name the door
            path = os.path.dirname(path)
    elif error.errno != errno.EINVAL:
        return
    unreadable[path] = error.strerror or str(error)


def _mode(path: str, unreadable: Unreadable, *, follow_symlinks: bool = True) -> int:
    """Return type and permissions of what is at this path; 0 if nothing can be seen there."""
    try:
        return os.stat(path, follow_symlinks=follow_symlinks).st_mode
    except OSError as error:
        _blame(error, path, unreadable)
        return 0


def _entries(folder: str, unreadable: Unreadable) -> "list[os.DirEntry[str]]":
    """Return what a folder holds; one that is absent, forbidden or just unmounted holds nothing."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        _blame(error, folder, unreadable)
        return []


def _names(folder: str, unreadable: Unreadable, *, or_fail: bool) -> list[str]:
    """Return likewise what a folder's entries are called: of tens of thousands, at a third of the cost."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        _blame(error, folder, unreadable)
        if or_fail and not isinstance(error, _GONE):
            raise
        return []


def open_regular(path: str) -> int:
    """Open a file to read; anything else in its place (a FIFO, a device) might block or never end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "not a regular file", path)


def read_small(path: str, unreadable: Unreadable | None = None) -> bytes | None:
    """Read a small file at once; nothing if it is not there any more or not for us.

    A longer one is read up to ``SMALL_BYTES``, in whole lines, and told as trouble.
    """
    try:
        handle = open_regular(path)
        try:
            text = os.read(handle, _CHUNK_BYTES)
            # a short read is not the end: these files hand out whole lines up to a page
            while len(text) < SMALL_BYTES and (more := os.read(handle, _CHUNK_BYTES)):
                text += more
        finally:
            os.close(handle)
    except OSError as error:
        if unreadable is not None:
            _blame(error, path, unreadable)
        return None
    if len(text) < SMALL_BYTES:
        return text
    if unreadable is not None:
        unreadable[path] = f"only its first {SMALL_BYTES} bytes were read"
    return text[: text.rfind(b"\n", 0, SMALL_BYTES) + 1]  # half a line may end in half a number


def read_number(path: str | None, unreadable: Unreadable | None = None) -> int | None:
    """Read a file that holds one number, such as ``instance`` or ``job_cleanup_interval``."""
    text = read_small(path, unreadable) if path else None
    return None if text is None else parse_number(text)
