"""Runs of one number: where a job was requeued, or its number used again, its totals are cut in two.

Lustre knows one id and counts on. What was done until the last sweep before the new start belongs to the earlier run,
all that came since to the new one.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from harvest_aggregator.amounts import Amounts, less, plus
from harvest_core.accounting.sweeps import ClosedSweep, ClosedTable
from harvest_core.jobs.identity import Identity, JobName

_PAST_SECONDS: Final = 600
"""So late may somebody say that a job has begun again."""
_PAST_BYTES: Final = 64 << 20
_DAY_SECONDS: Final = 86400


class Past:
    """The totals of the last sweeps."""

    def __init__(self) -> None:
        self._sweeps: deque[tuple[int, Mapping[tuple[str, str], ClosedTable], int]] = deque()

    def add(self, closed: ClosedSweep) -> None:
        """Remember a sweep, and forget what is too old or too much."""
        size = sum(table.samples.nbytes + table.sums.nbytes for table in closed.tables.values())
        self._sweeps.append((closed.tick_seconds, closed.tables, size))
        while len(self._sweeps) > 1 and (
            sum(size for *_, size in self._sweeps) > _PAST_BYTES
            or self._sweeps[0][0] < closed.tick_seconds - _PAST_SECONDS
        ):
            self._sweeps.popleft()

    def at(self, seconds: int) -> Mapping[tuple[str, str], ClosedTable]:
        """Return the totals of the last sweep until then; of the first that is remembered if all were later."""
        until = [tables for tick, tables, _ in self._sweeps if tick <= seconds]
        return until[-1] if until else self._sweeps[0][1] if self._sweeps else {}


class Cut(NamedTuple):
    """An earlier run of a job."""

    name: JobName
    start_seconds: int
    amounts: Amounts
    """What it did alone."""


class Runs:
    """When the present run of every job began, and what earlier ones did that is still in the tables, too."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self.starts: dict[JobName, int] = {}
        self.cuts: dict[JobName, Amounts] = {}
        self._ids: dict[JobName, set[tuple[str, bytes]]] = {}
        """On which file system a job has which id."""

    def meet(self, filesystem: str, job: bytes, identity: Identity) -> None:
        """Note under which id Lustre shows a job."""
        self._ids.setdefault(identity.name, set()).add((filesystem, job))

    def begun(self, name: JobName, start_seconds: int) -> Cut | None:
        """Take in when a job's present run began; return the earlier one if there was one before."""
        known = self.starts.setdefault(name, start_seconds)
        if start_seconds <= known:
            return None
        self.starts[name] = start_seconds
        before = self.cuts.get(name, {})
        own = less(self._amounts(name, self._past.at(start_seconds)), before)
        self.cuts[name] = plus(before, own)
        return Cut(name, known, own)

    def ids(self, name: JobName) -> frozenset[tuple[str, bytes]]:
        """Return on which file systems a job has which ids."""
        return frozenset(self._ids.get(name, ()))

    def forget(self, names: Iterable[JobName]) -> None:
        """Forget jobs that are over and no longer in any table."""
        for name in names:
            self._ids.pop(name, None)
            self.starts.pop(name, None)
            self.cuts.pop(name, None)

    def _amounts(self, name: JobName, tables: Mapping[tuple[str, str], ClosedTable]) -> Amounts:
        amounts: Amounts = {}
        for filesystem, job in self._ids.get(name, ()):
            for place, table in tables.items():
                if place[0] == filesystem and (done := table.job(job).counters):
                    amounts = plus(amounts, {place: dict(done)})
        return amounts


def day_of(seconds: int) -> int:
    """Return when a day began, in seconds since 1970: what is run outside jobs has no other end."""
    return seconds - seconds % _DAY_SECONDS
