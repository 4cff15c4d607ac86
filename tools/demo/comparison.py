"""What Harvest says every job did, and what the simulator knows."""

from collections.abc import Iterable, Mapping
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
    """Harvest says itself that it could not know for certain."""


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
    flagged = {job["job"] for job in jobs if job["ambiguous_resets"]}
    nothing = (0, 0)
    return [
        Difference(where, true.get(where, nothing), told.get(where, nothing), where[2] in flagged)
        for where in sorted(true.keys() | told.keys())
        if told.get(where, nothing) not in {true.get(where, nothing), *allowed.get(where, ())}
    ]
