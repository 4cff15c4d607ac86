"""inotify of Linux, as much of it as the disk face needs."""

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ACCESS = 0x00000001
CLOSE_NOWRITE = 0x00000010
IGNORED = 0x00008000
_OVERFLOW = 0x00004000
_HEAD = struct.Struct("iIII")
_BUFFER_BYTES = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


class Event(NamedTuple):
    """Something happened to a watched file."""

    watch: int
    mask: int


class LostEventsError(Exception):
    """The kernel's queue overflowed: what readers saw is no longer known."""


class Inotify:
    """Watches files by inode: a watch stays with a file that was replaced while somebody has it open."""

    def __init__(self) -> None:
        self._fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path: Path, mask: int) -> int:
        """Watch the file that is at ``path`` now, and return the watch's number."""
        return _checked(_libc.inotify_add_watch(self._fd, os.fsencode(path), ctypes.c_uint32(mask)))

    def events(self) -> Iterator[Event]:
        """Yield what has happened; never waits."""
        while True:
            try:
                data = os.read(self._fd, _BUFFER_BYTES)
            except BlockingIOError:
                return
            yield from _parsed(data)

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)


def _parsed(data: bytes) -> Iterator[Event]:
    at = 0
    while at < len(data):
        watch, mask, _, name_bytes = _HEAD.unpack_from(data, at)
        if mask & _OVERFLOW:
            raise LostEventsError("the inotify queue overflowed: poll more often")
        yield Event(watch, mask)
        at += _HEAD.size + name_bytes


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
