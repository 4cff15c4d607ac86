"""Runs of one number: where a job was requeued, or its number used again, its totals are cut in two.

Lustre knows one id and counts on. What was done until the last sweep before the new start belongs to the earlier run,
all that came since to the new one.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from harvest_aggregator.amounts import Amounts, less, plus
from harvest_aggregator.ledger import Run
from harvest_aggregator.owners import Owner
from harvest_aggregator.published import JobKey
from harvest_core.accounting.mounts import NEVER
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

    def reaches(self, seconds: int) -> bool:
        """Tell whether there are totals of a sweep until then."""
        return bool(self._sweeps) and self._sweeps[0][0] <= seconds


class Cut(NamedTuple):
    """An earlier run of a job."""

    name: JobName
    start_seconds: int
    amounts: Amounts
    """What it did alone."""
    last_tick_seconds: int | None
    """When it last did anything, as far as anybody knows."""
    owner: Owner | None


class Runs:
    """When the present run of every job began, whose it is, and what earlier ones did that is still in the tables, too.

    Kept by Lustre's ids, as the tables are: what a job is called may change with the site.
    """

    def __init__(self, past: Past, kept: Iterable[Run] = ()) -> None:
        self._past = past
        self._kept = {run.key: (run.start_seconds, run.owner) for run in kept}
        self.starts: dict[JobName, int] = {}
        self.owners: dict[JobName, Owner] = {}
        """Of those runs of which anybody knows; whatever Slurm says later, a run is nobody else's."""
        self.cuts: dict[JobKey, Amounts] = {run.key: run.earlier for run in kept if run.earlier}
        self._ids: dict[JobName, set[JobKey]] = {}

    def meet(self, key: JobKey, identity: Identity) -> bool:
        """Note under which id Lustre shows a job; tell whether nothing was ever known of it under this one."""
        ids = self._ids.setdefault(identity.name, set())
        is_new = key not in ids and key not in self._kept
        ids.add(key)
        start, owner = self._kept.get(key, (0, None))
        if start:
            self.starts[identity.name] = max(start, self.starts.get(identity.name, 0))
        if owner is not None:
            self.owners.setdefault(identity.name, owner)
        return is_new

    def knows(self, name: JobName) -> bool:
        """Tell whether something is known of a job's present run."""
        return name in self.starts or name in self.owners

    def begun(self, name: JobName, start_seconds: int) -> Cut | None:
        """Take in when a job's present run began; return the earlier one if there was one before."""
        known = self.starts.setdefault(name, start_seconds)
        if start_seconds <= known:
            return None
        self.starts[name] = start_seconds
        tables = self._past.at(start_seconds)
        done: Amounts = {}
        last_tick = NEVER
        for key in self._ids.get(name, ()):
            before = self.cuts.get(key, {})
            own = less(_amounts(key, tables), before)
            self.cuts[key] = plus(before, own)
            done = plus(done, own)
            last_tick = max([last_tick, *(int(table.last_tick[row]) for table, row in _rows(key, tables))])
        return Cut(name, known, done, None if last_tick == NEVER else last_tick, self.owners.pop(name, None))

    def ids(self, name: JobName) -> frozenset[JobKey]:
        """Return on which file systems a job has which ids."""
        return frozenset(self._ids.get(name, ()))

    def of(self, name: JobName) -> list[Run]:
        """Return what must last of a job's present run."""
        start, owner = self.starts.get(name, 0), self.owners.get(name)
        return [Run(key, start, self.cuts.get(key, {}), owner) for key in self.ids(name)]

    def forget(self, names: Iterable[JobName]) -> None:
        """Forget jobs that are over and no longer in any table."""
        for name in names:
            self.starts.pop(name, None)
            self.owners.pop(name, None)
            for key in self._ids.pop(name, ()):
                self._kept.pop(key, None)
                self.cuts.pop(key, None)


def _amounts(key: JobKey, tables: Mapping[tuple[str, str], ClosedTable]) -> Amounts:
    """Return what tables show of an id."""
    filesystem, job = key
    return {
        place: dict(done)
        for place, table in tables.items()
        if place[0] == filesystem and (done := table.job(job).counters)
    }


def _rows(key: JobKey, tables: Mapping[tuple[str, str], ClosedTable]) -> Iterator[tuple[ClosedTable, int]]:
    """Return where an id is in tables."""
    filesystem, job = key
    for place, table in tables.items():
        if place[0] == filesystem and (row := table.row(job)) is not None:
            yield table, row


def changed_tick(keys: Iterable[JobKey], tables: Mapping[tuple[str, str], ClosedTable]) -> int:
    """Return when totals of ids last changed, by the ticks of our own sweeps: servers' clocks may be wrong."""
    return max((int(table.changed_tick[row]) for key in keys for table, row in _rows(key, tables)), default=0)


def day_of(seconds: int) -> int:
    """Return when a day began, in seconds since 1970: what is run outside jobs has no other end."""
    return seconds - seconds % _DAY_SECONDS
