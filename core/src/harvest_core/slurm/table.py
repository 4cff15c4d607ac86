"""What slurmctld shows, from one answer to the next: what changed, and which runs it has forgotten before their end."""

from collections.abc import Iterable
from dataclasses import dataclass

from harvest_core.slurm.jobs import SlurmJob


@dataclass(frozen=True, slots=True)
class Changes:
    """What one whole answer changed."""

    changed: tuple[SlurmJob, ...]
    """New, or not as before."""
    lost: tuple[tuple[int, int], ...]
    """Runs that had not ended and are not shown any more: id and start."""


class SlurmTable:
    """The jobs of the latest answer. An answer is taken in as it comes: if it is cut short, nothing is lost by it."""

    def __init__(self) -> None:
        self._jobs: dict[int, SlurmJob] = {}
        self._changed: dict[int, SlurmJob] = {}
        self._seen: set[int] = set()
        self._lost: dict[tuple[int, int], None] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, number: int) -> SlurmJob | None:
        """Return a job by its number."""
        return self._jobs.get(number)

    def jobs(self) -> list[SlurmJob]:
        """Return all of them."""
        return list(self._jobs.values())

    def take(self, jobs: Iterable[SlurmJob]) -> None:
        """Take in a piece of an answer."""
        for job in jobs:
            self._seen.add(job.id)
            before = self._jobs.get(job.id)
            if before == job:
                continue
            if before is not None and _was_lost(before, job):
                self._lost[before.run] = None
            self._jobs[job.id] = self._changed[job.id] = job

    def end(self, *, is_whole: bool) -> Changes:
        """Say what the answer changed; only of a whole one is anything that it did not show forgotten."""
        if is_whole:
            for number in [number for number in self._jobs if number not in self._seen]:
                gone = self._jobs.pop(number)
                if not gone.is_ended:  # also one that waited: it may have run and ended since
                    self._lost[gone.run] = None
        changes = Changes(tuple(self._changed.values()), tuple(self._lost))
        self._changed, self._lost = {}, {}
        self._seen = set()
        return changes


def _was_lost(before: SlurmJob, now: SlurmJob) -> bool:
    """Tell whether another run has taken the place of one that had not ended: requeued, or the number came round."""
    return bool(before.start_seconds) and not before.is_ended and before.start_seconds != now.start_seconds
