"""Jobs of which somebody wants to know what they did on each target: nobody keeps that of all jobs for ever."""

from collections.abc import Collection, Iterable, Mapping
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from harvest_aggregator.published import TargetTotals
from harvest_aggregator.tallies import Tally
from harvest_core.accounting.mounts import Integers, MountState
from harvest_core.accounting.totals import Counter
from harvest_core.jobs.identity import NOBODYS, Identities, JobName

_NUMBERED_MOST = 1 << 20
"""Names that are remembered; those in use come back at once when there are more."""


class Watch:
    """Who is watched, by whom. What a watched job did on a target only grows: of records that leave it is kept."""

    def __init__(self) -> None:
        self.everybody = False
        self._names: dict[str, set[JobName]] = {}
        self.begin(NOBODYS)

    def begin(self, identities: Identities) -> None:
        """Go on with other names for the same ids."""
        self._identities = identities
        self._number: dict[JobName, int] = {}
        self._numbered: list[JobName] = []
        self._rows: WeakKeyDictionary[MountState, tuple[int, Integers]] = WeakKeyDictionary()
        """Per mount, as long as its rows are the same: the number of each one's job."""

    @property
    def names(self) -> set[JobName] | None:
        """All that are watched; nothing where that is everybody."""
        return None if self.everybody else self.chosen

    @property
    def chosen(self) -> set[JobName]:
        """All that somebody watches by name."""
        return set().union(*self._names.values())

    def watched(self, filesystem: str, job: bytes) -> JobName | None:
        """Return whose an id is, if that job is watched."""
        name = self._identities.of(filesystem, job).name
        return name if self.everybody or any(name in names for names in self._names.values()) else None

    def add(self, who: str, names: Iterable[JobName]) -> None:
        """Let somebody watch jobs."""
        self._names.setdefault(who, set()).update(names)

    def remove(self, who: str, names: Iterable[JobName]) -> set[JobName]:
        """Let somebody watch jobs no more; return those that nobody has chosen."""
        gone = set(names)
        self._names.setdefault(who, set()).difference_update(gone)
        return gone - self.chosen

    def unchosen(self, jobs: Iterable[tuple[str, bytes]]) -> set[JobName]:
        """Return whose these ids (file system, id) are, of those who are watched though nobody has chosen them."""
        return {self._identities.of(*job).name for job in jobs} - self.chosen if self.everybody else set()

    def of(self, who: str) -> frozenset[JobName]:
        """Return those that somebody watches."""
        return frozenset(self._names.get(who, ()))

    def only(self, chosen: Mapping[str, Iterable[JobName]]) -> None:
        """Let these watch these, and nobody else anybody."""
        self._names = {who: set(names) for who, names in chosen.items()}

    def totals(
        self, filesystem: str, mounts: Collection[MountState], tally: Tally, names: Collection[JobName] | None
    ) -> TargetTotals:
        """Return what was done on a target of a file system: by all together, and by each of these, or of everybody."""
        if len(self._number) > _NUMBERED_MOST:
            self.begin(self._identities)
        column = {counter: at for at, counter in enumerate(_counters(mounts, tally))}
        numbers = [self._numbers(filesystem, mount) for mount in mounts]
        left = [(self._numbered_as(name), amount) for name, amount in tally.left_by.items()]
        wanted = self._wanted(names)
        present = np.zeros(len(wanted), np.bool_)
        for some in numbers:
            present[some] = wanted[some]
        present[[number for number, _ in left if wanted[number]]] = True
        place = np.cumsum(present) - 1
        of_all = np.zeros((2, len(column)), np.int64)
        of_jobs = np.zeros((2, int(present.sum()), len(column)), np.int64)
        for mount, some in zip(mounts, numbers, strict=True):
            columns = [column[counter] for counter in mount.counters]
            of_all[:, columns] += _sums(mount)
            rows = np.flatnonzero(present[some])
            _add_rows(of_jobs, place[some[rows]], columns, _totals(mount, rows))
        _add(of_all, column, tally.left)
        for number, amount in left:
            if present[number]:
                _add(of_jobs[:, place[number]], column, amount)
        return TargetTotals(
            counters=tuple(column),
            samples=of_all[0],
            sums=of_all[1],
            jobs=tuple(self._numbered[number] for number in np.flatnonzero(present).tolist()),
            job_samples=of_jobs[0],
            job_sums=of_jobs[1],
        )

    def _wanted(self, names: Collection[JobName] | None) -> NDArray[np.bool_]:
        """Return, by number, who is asked for."""
        if names is None:
            return np.ones(len(self._number), np.bool_)
        wanted = np.zeros(len(self._number), np.bool_)
        wanted[[self._number[name] for name in names if name in self._number]] = True
        return wanted

    def _numbers(self, filesystem: str, mount: MountState) -> Integers:
        """Return the number of every row's job."""
        drops, known = self._rows.get(mount, (mount.drops, np.zeros(0, np.int64)))
        if drops != mount.drops:
            known = known[:0]
        if len(known) < len(mount.jobs):
            names = (self._identities.of(filesystem, job).name for job in mount.jobs[len(known) :])
            known = np.append(known, np.array([self._numbered_as(name) for name in names], np.int64))
            self._rows[mount] = mount.drops, known
        return known

    def _numbered_as(self, name: JobName) -> int:
        number = self._number.setdefault(name, len(self._numbered))
        if number == len(self._numbered):
            self._numbered.append(name)
        return number


def _counters(mounts: Iterable[MountState], tally: Tally) -> dict[Counter, None]:
    return dict.fromkeys([*(counter for mount in mounts for counter in mount.counters), *tally.left])


def _sums(mount: MountState) -> Integers:
    """Return what all rows' lives add up to: samples and sums, by column."""
    count = len(mount.jobs)
    sums = np.stack([mount.samples[:count].sum(axis=0), mount.sums[:count].sum(axis=0)])
    for earlier in mount.closed.values():
        sums += earlier.T
    return sums


def _totals(mount: MountState, rows: Integers) -> Integers:
    """Return what some rows' lives add up to: samples and sums, by row and column."""
    totals = np.stack([mount.samples[rows], mount.sums[rows]])
    if mount.closed:
        for at, row in enumerate(rows.tolist()):
            if (earlier := mount.closed.get(row)) is not None:
                totals[:, at] += earlier.T
    return totals


def _add_rows(of_jobs: Integers, jobs: Integers, columns: list[int], totals: Integers) -> None:
    """Add the totals of rows to those of their jobs; several may be one job's, which costs ten times as much."""
    if not len(jobs):
        return
    where = np.ix_(np.arange(2), jobs, np.array(columns, np.int64))
    if np.bincount(jobs).max() == 1:
        of_jobs[where] += totals
    else:
        np.add.at(of_jobs, where, totals)


def _add(totals: Integers, column: Mapping[Counter, int], amount: Mapping[Counter, tuple[int, int]]) -> None:
    for counter, both in amount.items():
        totals[:, column[counter]] += both
