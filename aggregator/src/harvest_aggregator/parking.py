"""What jobs did of which there are no records any more, and what could not be known of them; the ledger keeps it."""

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from harvest_aggregator.published import InDoubt
from harvest_aggregator.tallies import Tally
from harvest_core.accounting.parking import JobSum, Sums, hand_over, park
from harvest_core.accounting.targets import StayKey, TargetAccount
from harvest_core.jobs.identity import JobName


@dataclass(slots=True)
class Parked:
    """One job on one kind of target of a file system."""

    done: JobSum = field(default_factory=JobSum)
    doubt: InDoubt = field(default_factory=InDoubt)
    incomplete: bool = False
    """Something of it may never have been shown."""

    def add(self, other: "Parked") -> None:
        """Add what was parked of the same job at another time, or of another target."""
        self.done.add(other.done)
        self.doubt = self.doubt.plus(other.doubt)
        self.incomplete |= other.incomplete

    def dump(self) -> bytes:
        """Return it as bytes."""
        done = self.done
        fields = {
            "counters": [[*counter, *both] for counter, both in done.counters.items()],
            "extremes": [[*counter, *both] for counter, both in done.extremes.items()],
            "histograms": [[*bucket, count] for bucket, count in done.histograms.items() if count],
            "last_tick": done.last_tick,
            "doubt": self.doubt,
            "incomplete": self.incomplete,
        }
        return json.dumps(fields).encode()

    @classmethod
    def load(cls, payload: bytes) -> "Parked":
        """Return what was dumped."""
        fields = json.loads(payload)
        done = JobSum(
            counters={(name, unit): (samples, total) for name, unit, samples, total in fields["counters"]},
            extremes={(name, unit): (least, most) for name, unit, least, most in fields["extremes"]},
            histograms={(name, unit, power): count for name, unit, power, count in fields["histograms"]},
            last_tick=fields["last_tick"],
        )
        return cls(done, InDoubt(*fields["doubt"]), fields["incomplete"])


Leaving = dict[bytes, Parked]
"""What leaves a target, by job."""
Watched = Callable[[bytes], JobName | None]
"""Returns whose an id is, if somebody wants to know what that job does on each target."""


def let_go(
    leaving: Leaving, account: TargetAccount, changed: Iterable[StayKey], tally: Tally, watched: Watched
) -> None:
    """Take what is over out of a target: rows of which nothing can come back, and the marks of who has none left."""
    for key in changed:
        _add(leaving, park(account.stays[key]), tally, watched)
    marked = tally.flagged.keys() | tally.incomplete
    if marked:
        here = {job for stay in account.stays.values() for _, mount in stay.mounts for job in mount.jobs}
        _take_marks(leaving, tally, marked - here)


def take_over(
    leaving: Leaving, account: TargetAccount, jobs: Collection[bytes], tally: Tally, watched: Watched
) -> set[StayKey]:
    """Take all that jobs did so far out of a target, and their marks; return the stays that this changed."""
    changed: set[StayKey] = set()
    for key, stay in account.stays.items():
        for _, mount in stay.mounts:
            rows = [row for row, job in enumerate(mount.jobs) if job in jobs and mount.total(row).any()]
            if rows:
                _add(leaving, hand_over(mount, np.array(rows)), tally, watched)
                changed.add(key)
    _take_marks(leaving, tally, jobs)
    return changed


def _add(leaving: Leaving, sums: Sums, tally: Tally, watched: Watched) -> None:
    tally.leave(sums, watched)
    for job, done in sums.items():
        leaving.setdefault(job, Parked()).add(Parked(done))


def _take_marks(leaving: Leaving, tally: Tally, jobs: Iterable[bytes]) -> None:
    for job in jobs:
        doubt, incomplete = tally.flagged.pop(job, InDoubt()), job in tally.incomplete
        tally.incomplete.discard(job)
        if doubt.resets or incomplete:
            leaving.setdefault(job, Parked()).add(Parked(doubt=doubt, incomplete=incomplete))
