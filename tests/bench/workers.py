"""Programs under measurement, each in its own process, watched from outside."""

import json
import os
import re
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TESTS = Path(__file__).resolve().parents[1]
_PATIENCE_SECONDS = 300
_TICKS = os.sysconf("SC_CLK_TCK")


class WorkerError(Exception):
    """A measured program failed or did something else than it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program said about one piece of work, and what the work cost."""

    said: dict[str, int]
    cpu_seconds: float


class Worker:
    """A program that does its work once for each line on its input and answers with a line of JSON."""

    def __init__(self, *command: str | Path) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment())

    @classmethod
    def python(cls, module: str, *arguments: str | Path) -> Self:
        """Start a module of ours."""
        return cls(sys.executable, "-m", module, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def work(self, **expected: int) -> Answer:
        """Have the work done once, and check what was said about it."""
        before = cpu_seconds(self._process.pid)
        self.tell("")
        said = self.heard()
        after = cpu_seconds(self._process.pid)
        if wrong := {name: said.get(name) for name, value in expected.items() if said.get(name) != value}:
            raise WorkerError(f"expected {expected}, got {wrong}")
        return Answer(said=said, cpu_seconds=after - before)

    def peak_rss_mb(self) -> float:
        """Return the most memory the process ever held."""
        return peak_rss_mb(self._process.pid)

    def tell(self, line: str) -> None:
        """Have work done; several workers can be told before one is heard."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise WorkerError(f"{self._process.args!r} ended early: exit code {self._process.wait()}") from error

    def heard(self) -> dict[str, int]:
        """Return what is said about the work, once it is done."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], _PATIENCE_SECONDS)[0]:
            raise WorkerError(f"no answer within {_PATIENCE_SECONDS} s")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"{self._process.args!r} ended without an answer: exit code {self._process.wait()}")
        said: dict[str, int] = json.loads(line)
        return said


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process, and of children that it waited for.

    The own time is what /proc/PID/stat shows in hundredths of a second, here to the nanosecond.
    """
    process_clock = ~pid << 3 | 2  # what clock_getcpuclockid(3) returns; Python has it for threads only
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return time.clock_gettime(process_clock) + sum(map(int, fields[13:15])) / _TICKS


def peak_rss_mb(pid: int) -> float:
    """Return the most memory that a process ever held."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_TESTS)}
