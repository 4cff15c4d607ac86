from pathlib import Path

import pytest

from support.days import JOBS_A_DAY, Day


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", [(2, 17, 0), (2, 12, 9)], ids=["surely absent", "may be skipped"])
def test_from_the_third_hour_of_a_day_on_nothing_grows(version: tuple[int, ...], tmp_path: Path) -> None:
    day = Day(tmp_path / "ledger.db", version)

    _, second, *later = day.hours(24)

    print(second, *later[::4], later[-1], sep="\n")
    assert [kept.grown_since(second) for kept in later] == [{}] * len(later)
    assert day.wrong == []
    assert day.finished > JOBS_A_DAY * 0.9
