"""Totals by user and account, as the demo compares them."""

from typing import Any

from demo.owners import Whose, told_sums, true_sums, unequal
from harvest_sim.slurm import Owner

ANA, BEN = Owner("ana", "g", "physics"), Owner("ben", "g")
TRUTH = {
    ("fs", "ost", "1", "write_bytes"): (3, 300),
    ("fs", "ost", "1", "write"): (3, 77),
    ("fs", "mdt", "1", "rename"): (2, 5),
    ("fs", "mdt", "1", "samedir_rename"): (2, 5),
    ("fs", "mdt", "cp.7", "open"): (4, 9),
}
ROW = {"read_bytes": 0, "write_bytes": 300, "iops": 2}


def answers(**users: dict[str, int]) -> Any:  # noqa: ANN401 - JSON
    told = {f"/api/v1/users/{name}": {"totals": totals} for name, totals in users.items()}
    return {**told, "/api/v1/attribution?by=account&limit=0": {"rows": [{"name": "physics", **ROW}]}}.__getitem__


def test_the_truth_is_added_up_by_whoever_is_behind_it_and_compared() -> None:
    true = true_sums(TRUTH, lambda job: ANA if job == b"1" else BEN)
    assert +true == {
        **{Whose(by, name, measure): ROW[measure] for by, name in (("user", "ana"), ("account", "physics"))
           for measure in ("write_bytes", "iops")},
        Whose("user", "ben", "iops"): 4,
    }  # fmt: skip
    right = told_sums(answers(ana=ROW, ben=ROW | {"write_bytes": 0, "iops": 4}), ["ana", "ben"])
    assert unequal(true, right) == []
    wrong = told_sums(answers(ana=ROW, ben=ROW | {"write_bytes": 1, "iops": 3}), ["ana", "ben"])
    assert unequal(true, wrong) == [
        (Whose("user", "ben", "iops"), 4, 3),
        (Whose("user", "ben", "write_bytes"), 0, 1),
    ]
