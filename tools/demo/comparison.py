"""What Harvest says every job did, and what the simulator knows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from harvest_sim.truth import Amount, TotalKey, Truth

OpKey = tuple[str, str, str, str]
"""(file system, kind of target, job, operation)."""

_OLD_DATA = {("read", "bytes"): "read_bytes", ("write", "bytes"): "write_bytes"}
"""Up to 2.5 bytes are counted under these names."""
_NOTHING = (0, 0)


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
    """Return what the API says, likewise; of all runs of a job."""
    totals: dict[OpKey, tuple[int, int]] = {}
    for job in jobs:
        for filesystem, work in job["filesystems"].items():
            for kind in ("ost", "mdt"):
                for op, numbers in work[kind]["ops"].items():
                    where = (filesystem, kind, job["job"], op)
                    before = totals.get(where, _NOTHING)
                    totals[where] = (before[0] + numbers["samples"], before[1] + numbers["sum"])
    return totals


def accepted_totals(truth: Truth, told: Mapping[OpKey, tuple[int, int]]) -> dict[OpKey, tuple[int, int]]:
    """Return the truth; where it may be several, what is next to what Harvest says."""
    true, allowed = true_totals(truth), also_true(truth)
    return {
        where: _nearest(told.get(where, _NOTHING), {true.get(where, _NOTHING), *allowed.get(where, ())})
        for where in sorted(true.keys() | told.keys())
    }


def differences(truth: Truth, jobs: Iterable[Mapping[str, Any]]) -> list[Difference]:
    """Return every operation of every job whose totals are not equal, to the byte."""
    jobs = list(jobs)
    told = told_totals(jobs)
    found = [
        Difference(where, true, told.get(where, _NOTHING), is_flagged=False)
        for where, true in accepted_totals(truth, told).items()
        if told.get(where, _NOTHING) != true
    ]
    return list(_flagged(found, jobs))


def _nearest(told: tuple[int, int], possible: Iterable[tuple[int, int]]) -> tuple[int, int]:
    return min(possible, key=lambda both: (abs(both[0] - told[0]), abs(both[1] - told[1])))


def _flagged(found: Iterable[Difference], jobs: Iterable[Mapping[str, Any]]) -> Iterator[Difference]:
    """Mark the differences of jobs that are flagged with at least so much, over all their operations.

    How much of a sum of times is in doubt nobody says, but whatever is counted twice or not at all has samples.
    """
    doubts: dict[str, tuple[int, int]] = {}
    for told in jobs:
        before = doubts.get(told["job"], _NOTHING)
        doubts[told["job"]] = (before[0] + told["ambiguous_samples"], before[1] + told["ambiguous_bytes"])
    by_job: dict[str, list[Difference]] = {}
    for difference in found:
        by_job.setdefault(difference.where[2], []).append(difference)
    for job, apart in by_job.items():
        samples, size = doubts.get(job, (0, 0))
        is_within = sum(one.samples for one in apart) <= samples and sum(one.bytes for one in apart) <= size
        for one in apart:
            yield one._replace(is_flagged=is_within and (one.samples > 0 or one.bytes > 0))
