"""What could not be known, read or placed of one target, and what left it, since ever. Kept beside its snapshots."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from harvest_aggregator.published import InDoubt, Unknown
from harvest_core.accounting.apply import Work
from harvest_core.accounting.parking import Sums
from harvest_core.accounting.totals import Counter
from harvest_core.facts import Facts
from harvest_core.jobs.identity import JobName

Amount = dict[Counter, tuple[int, int]]
"""(samples, sum) of every counter."""


@dataclass(slots=True)
class Tally:
    """Grows with what is applied; the same numbers come out of recovery."""

    unread_lines: int = 0
    unseen_seconds: int = 0
    seen_after_all_seconds: int = 0
    """What the target's account would take off the next unseen seconds."""
    ambiguous_resets: int = 0
    ambiguous_bytes: int = 0
    unplaced_reads: int = 0
    flagged: dict[bytes, InDoubt] = field(default_factory=dict)
    incomplete: set[bytes] = field(default_factory=set)
    left: Amount = field(default_factory=dict)
    """What all records did that are in no snapshot any more."""
    left_by: dict[JobName, Amount] = field(default_factory=dict)
    """Likewise, of jobs whose work on each target somebody wants to know."""

    def add(self, facts: Facts, work: Work) -> bool:
        """Count what one read left open; tell whether jobs were marked."""
        self.unread_lines += facts.unread_lines
        self.unseen_seconds += work.unseen_seconds
        self.incomplete.update(work.incomplete_jobs)
        for doubt in work.ambiguities:
            job = doubt.mount.jobs[doubt.row]
            amount = int(doubt.amount[doubt.mount.in_bytes[: len(doubt.amount)], 1].sum())
            this = InDoubt(resets=1, bytes=amount, samples=int(doubt.amount[:, 0].sum()))
            self.flagged[job] = self.flagged.get(job, InDoubt()).plus(this)
            self.ambiguous_resets += 1
            self.ambiguous_bytes += amount
        return bool(work.ambiguities or work.incomplete_jobs)

    def leave(self, sums: Sums, watched: Callable[[bytes], JobName | None]) -> None:
        """Take in what records did that leave; whose they are counts where it is watched."""
        for job, done in sums.items():
            _plus(self.left, done.counters)
            if (name := watched(job)) is not None:
                _plus(self.left_by.setdefault(name, {}), done.counters)

    @property
    def unknown(self) -> Unknown:
        """Return what of it concerns clients."""
        return Unknown(self.unread_lines, self.ambiguous_resets, self.ambiguous_bytes, self.unplaced_reads)

    def dump(self) -> bytes:
        """Return it as bytes."""
        fields = asdict(self)
        fields["flagged"] = {job.decode("latin-1"): all_ for job, all_ in self.flagged.items()}
        fields["incomplete"] = sorted(job.decode("latin-1") for job in self.incomplete)
        fields["left"] = _listed(self.left)
        fields["left_by"] = [
            [name.cluster, name.job.decode("latin-1"), _listed(amount)] for name, amount in self.left_by.items()
        ]
        return json.dumps(fields).encode()

    @classmethod
    def load(cls, payload: bytes) -> "Tally":
        """Return what was dumped."""
        fields = json.loads(payload)
        fields["flagged"] = {job.encode("latin-1"): InDoubt(*all_) for job, all_ in fields["flagged"].items()}
        fields["incomplete"] = {job.encode("latin-1") for job in fields["incomplete"]}
        fields["left"] = _amount(fields["left"])
        fields["left_by"] = {
            JobName(cluster, job.encode("latin-1")): _amount(listed) for cluster, job, listed in fields["left_by"]
        }
        return cls(**fields)


def _plus(amount: Amount, more: Mapping[Counter, tuple[int, int]]) -> None:
    for counter, (samples, total) in more.items():
        before = amount.get(counter, (0, 0))
        amount[counter] = (before[0] + samples, before[1] + total)


def _listed(amount: Amount) -> list[list[Any]]:
    return [[*counter, *both] for counter, both in amount.items()]


def _amount(listed: Iterable[tuple[str, str, int, int]]) -> Amount:
    return {(name, unit): (samples, total) for name, unit, samples, total in listed}
