"""From which version to which a promise holds, to the last number."""

import pytest

from harvest_core.accounting.versions import (
    Version,
    can_skip,
    counts_from_boot,
    in_creation_order,
    never_cleans,
)


@pytest.mark.parametrize(
    ("version", "holds"),
    [((), False), ((2, 5, 2), False), ((2, 5, 3), True), ((2, 16, 1), True), ((2, 16, 50), True), ((2, 16, 51), False)],
)
def test_files_are_in_creation_order_from_2_5_3_to_2_16_50(version: Version, holds: bool) -> None:  # noqa: FBT001
    assert in_creation_order(version) is holds


@pytest.mark.parametrize(
    ("version", "holds"), [((), True), ((2, 15, 8), True), ((2, 15, 55), True), ((2, 15, 56), False), ((2, 17), False)]
)
def test_reads_can_skip_up_to_2_15_55(version: Version, holds: bool) -> None:  # noqa: FBT001
    assert can_skip(version) is holds


@pytest.mark.parametrize(
    ("version", "interval", "holds"),
    [
        ((2, 12, 9), 0, True),
        ((), 0, True),
        ((), 1, False),
        ((2, 14, 55), 1, False),
        ((2, 14, 56), 1, True),
        ((2, 17, 0), 2, False),
    ],
)
def test_an_interval_of_0_and_from_2_14_56_of_1_is_never(
    version: Version,
    interval: int,
    holds: bool,  # noqa: FBT001
) -> None:
    assert never_cleans(version, interval) is holds


@pytest.mark.parametrize(
    ("version", "holds"),
    [
        ((), False),
        ((2, 14, 55), False),
        ((2, 14, 56), True),
        ((2, 15, 1), True),
        ((2, 15, 2), False),
        ((2, 15, 49), False),
        ((2, 15, 50), True),
        ((2, 15, 52), True),
        ((2, 15, 53), False),
    ],
)
def test_times_count_from_boot_up_to_2_15_1_and_on_master_up_to_2_15_52(
    version: Version,
    holds: bool,  # noqa: FBT001
) -> None:
    assert counts_from_boot(version) is holds
