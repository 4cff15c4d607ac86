"""What Harvest says every job did, and what the simulator knows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from harvest_sim.truth import Amount, TotalKey, Truth

OpKey = tuple[str, str, str, str]
"""(file system, kind of target, job, operation)."""

_OLD_DATA = {("read", "bytes"): "read_bytes", ("write", "bytes"): "write_bytes"}
"""Up to 2.5 bytes are counted under these names."""


class Difference(NamedTuple):
    """Two numbers that should be one."""

    where: OpKey
    truth: tuple[int, int]
    harvest: tuple[int, int]
    is_flagged: bool
    """Harvest says itself that it could not know for certain, and that this job's totals may be wrong by so much."""

    @property
    def samples(self) -> int:
        """How far apart they are, in samples."""
        return abs(self.truth[0] - self.harvest[0])

    @property
    def sum(self) -> int:
        """How far apart their sums are."""
        return abs(self.truth[1] - self.harvest[1])

    @property
    def bytes(self) -> int:
        """How far apart they are, in bytes; sums of times are something else."""
        return self.sum if self.where[3] in _OLD_DATA.values() else 0


def true_totals(truth: Truth) -> dict[OpKey, tuple[int, int]]:
    """Return the truth by operation; servers of different versions may count one in several units."""
    totals: dict[OpKey, tuple[int, int]] = {}
    for key, amount in truth.shown(readable=True).items():
        totals[_where(key)] = _plus(totals.get(_where(key), (0, 0)), amount)
    return totals


def also_true(truth: Truth) -> dict[OpKey, set[tuple[int, int]]]:
    """Return what else each total may be: an agent that was killed may have had its last sweep safe, or not."""
    totals = true_totals(truth)
    allowed: dict[OpKey, set[tuple[int, int]]] = {}
    for key, lives in truth.possible(readable=True).items():
        where = _where(key)
        for amounts in lives:
            known = allowed.setdefault(where, {totals.get(where, (0, 0))})
            known |= {_plus(total, amount) for total in set(known) for amount in amounts}
    return allowed


def _where(key: TotalKey) -> OpKey:
    op = _OLD_DATA.get((key.op, key.unit), key.op)
    return key.fs, key.kind.value, key.key.decode(errors="surrogateescape"), op


def _plus(total: tuple[int, int], amount: Amount) -> tuple[int, int]:
    return total[0] + amount.samples, total[1] + amount.total


def told_totals(jobs: Iterable[Mapping[str, Any]]) -> dict[OpKey, tuple[int, int]]:
    """Return what the API says, likewise."""
    return {
        (filesystem, kind, job["job"], op): (numbers["samples"], numbers["sum"])
        for job in jobs
        for filesystem, work in job["filesystems"].items()
        for kind in ("ost", "mdt")
        for op, numbers in work[kind]["ops"].items()
    }


def differences(truth: Truth, jobs: Iterable[Mapping[str, Any]]) -> list[Difference]:
    """Return every operation of every job whose totals are not equal, to the byte."""
    jobs = list(jobs)
    true, told, allowed = true_totals(truth), told_totals(jobs), also_true(truth)
    nothing = (0, 0)
    found = [
        Difference(where, _nearest(told.get(where, nothing), possible), told.get(where, nothing), is_flagged=False)
        for where in sorted(true.keys() | told.keys())
        if told.get(where, nothing) not in (possible := {true.get(where, nothing), *allowed.get(where, ())})
    ]
    return list(_flagged(found, jobs))


def _nearest(told: tuple[int, int], possible: Iterable[tuple[int, int]]) -> tuple[int, int]:
    return min(possible, key=lambda both: (abs(both[0] - told[0]), abs(both[1] - told[1])))


def _flagged(found: Iterable[Difference], jobs: Iterable[Mapping[str, Any]]) -> Iterator[Difference]:
    """Mark the differences of jobs that are flagged with at least so much, over all their operations.

    How much of a sum of times is in doubt nobody says, but whatever is counted twice or not at all has samples.
    """
    doubts = {job["job"]: (job["ambiguous_samples"], job["ambiguous_bytes"]) for job in jobs}
    by_job: dict[str, list[Difference]] = {}
    for difference in found:
        by_job.setdefault(difference.where[2], []).append(difference)
    for job, apart in by_job.items():
        samples, size = doubts.get(job, (0, 0))
        is_within = sum(one.samples for one in apart) <= samples and sum(one.bytes for one in apart) <= size
        for one in apart:
            yield one._replace(is_flagged=is_within and (one.samples > 0 or one.bytes > 0))
