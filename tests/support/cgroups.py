"""The limits of a unit that need the kernel's control groups: memory, processor time and tasks (cgroup v1)."""

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.rpm_root import Unit

_CONTROLLERS = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS = 100_000
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_GONE_SECONDS = 30
_ENTER = 'until [ "$1" = -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'


def size_bytes(text: str) -> int:
    """Return what systemd means by a size."""
    return int(text[:-1]) * _UNITS[text[-1]]


@dataclass(frozen=True)
class Limits:
    """Control groups with the limits of a unit, one of each controller."""

    name: str

    def command(self, *command: str) -> list[str]:
        """Return what runs a command, and all that it starts, within the limits."""
        return [
            "/bin/sh",
            "-euc",
            _ENTER,
            "-",
            *(str(self._folder(each)) for each in ("memory", "cpu", "pids")),
            "--",
            *command,
        ]

    @property
    def most_bytes(self) -> int:
        """The most that was charged: memory of processes, of the kernel for them, and of files first used by them."""
        return int(self._read("memory.max_usage_in_bytes"))

    @property
    def killed(self) -> int:
        """How many processes the kernel ended because there was not enough."""
        return int(re.findall(r"^oom_kill (\d+)$", self._read("memory.oom_control"), re.MULTILINE)[0])

    def charged_bytes(self) -> dict[str, int]:
        """Return what is charged now: to processes, to files, and to the kernel."""
        told = dict(line.split() for line in self._read("memory.stat").splitlines())
        return {
            "processes": int(told["rss"]),
            "files": int(told["cache"]),
            "kernel": int(self._read("memory.kmem.usage_in_bytes")),
        }

    def _read(self, file: str) -> str:
        return (self._folder(file.partition(".")[0]) / file).read_text()

    def _folder(self, controller: str) -> Path:
        return _CONTROLLERS / controller / self.name


@contextmanager
def limited(unit: Unit) -> Iterator[Limits]:
    """Give control groups with the unit's limits; whatever is in them at the end must have ended."""
    limits = Limits(f"harvest-{uuid.uuid4().hex[:8]}")
    quota = int(unit.get("CPUQuota").removesuffix("%")) * _PERIOD_MICROSECONDS // 100
    wanted = {
        "memory/memory.limit_in_bytes": size_bytes(unit.get("MemoryMax")),
        "cpu/cpu.cfs_period_us": _PERIOD_MICROSECONDS,
        "cpu/cpu.cfs_quota_us": quota,
        "pids/pids.max": int(unit.get("TasksMax")),
    }
    folders = sorted({_CONTROLLERS / path.partition("/")[0] / limits.name for path in wanted})
    try:
        for folder in folders:
            folder.mkdir()
        for path, value in wanted.items():
            controller, _, file = path.partition("/")
            (_CONTROLLERS / controller / limits.name / file).write_text(str(value))
        yield limits
    finally:
        for folder in folders:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a group; the kernel takes a moment to see that its last process is gone."""
    end = time.monotonic() + _GONE_SECONDS
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
