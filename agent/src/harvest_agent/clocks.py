"""The server's two clocks, and which boot they count in."""

import re
import time
from collections.abc import Callable
from typing import Final

from harvest_agent.tree import read_small

_NSECS: Final = 1_000_000_000
_BOOT_ID: Final = "proc/sys/kernel/random/boot_id"
_JITTER_NS: Final = 50_000_000
"""Two clocks are never read at one moment: less is no step of the wall clock."""

Nanoseconds = Callable[[], int]


def _since_boot() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class ServerClocks:
    """The clocks of the server whose files are read: this machine's, or those that a copied tree tells."""

    def __init__(self, root: str, *, wall: Nanoseconds = time.time_ns, since_boot: Nanoseconds = _since_boot) -> None:
        self._root = root.rstrip("/")
        self._wall, self._since_boot = wall, since_boot
        self._booted = 0
        self._ahead: tuple[str, int] | None = None

    def boot_id(self) -> str:
        """Return the kernel's name of this boot; the machine's own where the tree has none."""
        text = read_small(f"{self._root}/{_BOOT_ID}") or read_small(f"/{_BOOT_ID}") or b""
        return text.decode("ascii", "replace").strip()[:64]

    def now(self, boot_id: str) -> tuple[int, int]:
        """Return wall clock and time since boot; both go on alike unless the wall clock is set."""
        told = self._told(boot_id) if self._root else None
        if told is not None:
            return told
        uptime = self._since_boot()
        booted = self._wall() - uptime
        if abs(booted - self._booted) > _JITTER_NS:
            self._booted = booted
        return self._booted + uptime, uptime

    def _told(self, boot_id: str) -> tuple[int, int] | None:
        """Return what a tree says that is not this machine's; its files may have been written a while ago."""
        uptime = re.match(rb"(\d{1,12})\.(\d\d)", read_small(f"{self._root}/proc/uptime") or b"")
        booted = re.search(rb"^btime (\d{1,12})$", read_small(f"{self._root}/proc/stat") or b"", re.MULTILINE)
        if uptime is None or booted is None:
            return None
        here = self._since_boot()
        ahead = int(uptime[1] + uptime[2]) * (_NSECS // 100) - here
        if self._ahead is not None and self._ahead[0] == boot_id:
            ahead = max(ahead, self._ahead[1])
        self._ahead = (boot_id, ahead)
        return int(booted[1]) * _NSECS + here + ahead, here + ahead
