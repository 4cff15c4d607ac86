"""On a machine with much else to do agents read seldom: what the demo promises must hold for them, too."""

from pathlib import Path

import pytest

from support.slow_reading import SlowReading


@pytest.mark.parametrize("period_seconds", [(2.0, 5.0), (5.0, 10.0)])
def test_every_total_is_right_however_slowly_agents_read(tmp_path: Path, period_seconds: tuple[float, float]) -> None:
    slow = SlowReading(tmp_path, seconds=40, period_seconds=period_seconds, seed=1)
    try:
        assert slow.run() == []
        assert slow.live.site.truth.events["evicted"] > 0
    finally:
        slow.close()
