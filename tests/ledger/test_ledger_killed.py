"""Killed at any moment, the aggregator loses nothing that it acknowledged, and counts nothing twice."""

from pathlib import Path

import pytest

from ledger.killed import check_killed


@pytest.mark.parametrize("seed", [3, 14, 25, 36])
def test_totals_are_those_of_an_aggregator_that_lives(seed: int, tmp_path: Path) -> None:
    check_killed(tmp_path, seed=seed, kills=4)
