from pathlib import Path

import pytest

from alive.killing import check_kills

pytestmark = pytest.mark.timeout(300)
"""A scene takes as long as it takes; on a machine with much else to do, everything around it does, too."""


def test_thirty_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=30, seconds=60)
