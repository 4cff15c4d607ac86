from pathlib import Path

import pytest

from alive.killing import check_kills
from ledger.killed import check_killed


@pytest.mark.timeout(1800)
def test_three_hundred_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=300, seconds=600)


@pytest.mark.parametrize("seed", range(100, 130))
def test_totals_are_those_of_an_aggregator_that_lives(seed: int, tmp_path: Path) -> None:
    check_killed(tmp_path, seed=seed, kills=8)
