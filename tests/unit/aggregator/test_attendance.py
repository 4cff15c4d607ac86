"""Who is waited for."""

import pytest

from harvest_aggregator.attendance import Attendance
from harvest_core.accounting.sweeps import Place
from support.deliveries import INTERVAL, START, Writer

HERE = Place("home", "OST", "home-OST0000")


def expected(offset_seconds: int, *, period: int = INTERVAL, waited_seconds: float = INTERVAL) -> frozenset[Place]:
    """Return who is waited for some time after a sweep of an agent whose clock is ahead."""
    attendance = Attendance(lambda _, target: Place("home", "OST", target))
    end = Writer().sweep({}, tick=START + offset_seconds).batches[-1][1]
    end.period_seconds = period
    attendance.connected("oss1", end.end.targets)
    attendance.swept("oss1", end, START)
    (status,) = attendance.statuses(())
    assert status.clock_offset_seconds == offset_seconds
    return attendance.expected(START + waited_seconds)


@pytest.mark.parametrize(
    ("waited_seconds", "period", "is_expected"),
    [(1, INTERVAL, False), (INTERVAL, INTERVAL, True), (INTERVAL, 2 * INTERVAL, False), (40, 2 * INTERVAL, True)],
)
def test_an_agent_is_expected_once_in_its_own_period(waited_seconds: float, period: int, *, is_expected: bool) -> None:
    assert expected(0, period=period, waited_seconds=waited_seconds) == (frozenset({HERE}) if is_expected else set())


@pytest.mark.parametrize("offset_seconds", [-86_400, 86_400])
def test_an_agent_whose_clock_is_far_off_is_missing_in_every_sweep(offset_seconds: int) -> None:
    assert expected(offset_seconds) == {HERE}
