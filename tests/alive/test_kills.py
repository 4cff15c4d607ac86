from pathlib import Path

from alive.killing import check_kills


def test_thirty_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=30, seconds=60)
