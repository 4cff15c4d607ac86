"""What Harvest says every user and every account did, and what the simulator knows."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from demo.comparison import OpKey
from harvest_sim.slurm import Owner

MEASURES = ("read_bytes", "write_bytes", "iops")
_NO_OPERATIONS = {"read_bytes", "write_bytes", "read", "write", "samedir_rename", "crossdir_rename"}
_WHOSE = ("user", "account")


class Whose(NamedTuple):
    """A measure of a user or of an account."""

    by: str
    name: str
    measure: str


def true_sums(totals: Mapping[OpKey, tuple[int, int]], owner_of: Callable[[bytes], Owner]) -> "Counter[Whose]":
    """Add up what jobs did, each by its operations, by whoever is behind them."""
    sums: Counter[Whose] = Counter()
    for (_, _, job, op), (samples, total) in totals.items():
        owner = owner_of(job.encode(errors="surrogateescape"))
        for by in _WHOSE:
            if name := getattr(owner, by):
                if op in MEASURES:
                    sums[Whose(by, name, op)] += total
                elif op not in _NO_OPERATIONS:
                    sums[Whose(by, name, "iops")] += samples
    return sums


def told_sums(get: Callable[[str], Any], users: Iterable[str]) -> "Counter[Whose]":
    """Return what the API says of these users, and of all accounts."""
    rows = [("user", user, get(f"/api/v1/users/{quote(user)}")["totals"]) for user in users]
    rows += [("account", row["name"], row) for row in get("/api/v1/attribution?by=account&limit=0")["rows"]]
    sums: Counter[Whose] = Counter()
    for by, name, done in rows:
        for measure in MEASURES:
            sums[Whose(by, name, measure)] += done[measure]
    return sums


def unequal(true: "Counter[Whose]", told: "Counter[Whose]") -> list[tuple[Whose, int, int]]:
    """Return what is not the same in both: who, the truth, and what Harvest says."""
    return [(whose, true[whose], told[whose]) for whose in sorted({*true, *told}) if true[whose] != told[whose]]
