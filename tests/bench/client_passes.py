"""A program: the agent follows the clients of a tree in real time, one pass for each line on its input.

The first line only begins; each other goes on until the pass under way was told, and the next one has begun.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.trees import FSNAME
from harvest_agent.clocks import ServerClocks
from harvest_agent.collecting import Collector
from harvest_agent.memory import share_one_heap
from harvest_agent.running import INTERVAL_SECONDS
from harvest_agent.shelf import Shelf
from harvest_agent.spool import Spool
from harvest_agent.tree import Tree

_SPOOL_BYTES = 1 << 30
_BUSY_SECONDS = 0.0005
"""Shorter ones had nothing to read."""
_MICRO = 1_000_000


class Spent(NamedTuple):
    """When something was done, and its CPU time."""

    began: float
    ended: float
    cpu_seconds: float

    @classmethod
    def by(cls, work: Callable[[], object]) -> "Spent":
        """Do something."""
        began, cpu = time.monotonic(), time.thread_time()
        work()
        return cls(began, time.monotonic(), time.thread_time() - cpu)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began

    def part_within(self, begin: float, end: float) -> float:
        """Return which part of it was done between two moments, if it went on evenly."""
        return max(min(self.ended, end) - max(self.began, begin), 0.0) / self.seconds


class Agent:
    """Reads and sweeps when an agent would."""

    def __init__(self, root: str, spool: Spool, period_seconds: int) -> None:
        self._collector = Collector(Tree(root), (), name="oss1", spool=spool, clocks=ServerClocks(root))
        self._collector.want_clients({FSNAME: period_seconds})
        self._period = period_seconds
        self._interval = math.gcd(INTERVAL_SECONDS, period_seconds)
        self._tick = int(time.time()) // period_seconds * period_seconds
        self._origin = time.monotonic() - self._tick

    def one_pass(self) -> dict[str, float]:
        """Go on until a period ends; return what that cost."""
        begin = self._origin + self._tick - self._interval
        reads, sweeps = list[Spent](), list[Spent]()
        while not sweeps or (self._tick - self._interval) % self._period:
            while (left := self._origin + self._tick - time.monotonic()) > 0:
                reads.append(Spent.by(self._collector.read_clients))
                wait = self._collector.clients_wait_seconds
                time.sleep(left if wait is None else min(left, wait))
            if not self._tick % self._period and self._collector.clients_wait_seconds is not None:
                sys.exit("a pass was not over when its period was: is the machine busy?")
            sweeps.append(Spent.by(self._sweep))
            self._tick += self._interval
        busy = [read for read in reads if read.seconds > _BUSY_SECONDS]
        seconds, cpu_seconds = _most_in_a_second(reads)
        return {
            "read_cpu": sum(read.cpu_seconds for read in reads),
            "sweep_cpu": sum(sweep.cpu_seconds for sweep in sweeps),
            "sweep_most": max(sweep.seconds for sweep in sweeps),
            "done_after": busy[-1].ended - begin if busy else 0.0,
            "most": seconds,
            "most_cpu": cpu_seconds,
        }

    def _sweep(self) -> None:
        report = self._collector.sweep(self._tick, self._interval)
        if report.problems or not report.is_kept:
            sys.exit(f"a sweep went wrong: {report.problems}")


def _most_in_a_second(reads: Sequence[Spent]) -> tuple[float, float]:
    """Return the most time, and the most CPU time, that was spent in any second: one begins or ends with a read."""
    seconds = cpu_seconds = 0.0
    for moment in (moment for read in reads for moment in (read.began, read.ended - 1)):
        parts = [(read, read.part_within(moment, moment + 1)) for read in reads]
        seconds = max(seconds, sum(read.seconds * part for read, part in parts))
        cpu_seconds = max(cpu_seconds, sum(read.cpu_seconds * part for read, part in parts))
    return seconds, cpu_seconds


def main() -> None:
    """Tell of each pass, in microseconds."""
    root, folder, period = sys.argv[1:]
    share_one_heap()
    shelf = Shelf(folder, ["nobody"])
    spool = Spool(shelf, max_bytes=_SPOOL_BYTES)
    agent = Agent(root, spool, int(period))
    for _ in sys.stdin:
        print(json.dumps({name: round(value * _MICRO) for name, value in agent.one_pass().items()}), flush=True)
    spool.close()
    shelf.close()


if __name__ == "__main__":
    main()
