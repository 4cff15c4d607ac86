"""The first table of DESIGN §5, a row at a time: what is seen, and what it means for a record's life."""

import pytest

from unit.accounting.aggregator import NEW, SAME
from unit.accounting.builder import Target
from unit.accounting.printed import job

WITH_START = "2.15.8"
IN_ORDER = "2.12.9"
"""In creation order, reads may skip, no start."""
CANNOT_SKIP = "2.16.1"


def no_start(version: str = CANNOT_SKIP) -> Target:
    return Target(version, header=False)


# --- other mount ---


@pytest.mark.parametrize("version", [IN_ORDER, WITH_START, "2.7.0"])
def test_other_mount_starts_new_lives_and_late_data_of_the_old_mount_stays_there(version: str) -> None:
    old = Target(version)
    old.read(20, job("a", 5, 500, 10, start=5))
    old.hold(40, job("a", 8, 800, 30, start=5))
    new = old.on("oss2")
    new.read(60, job("a", 6, 600, 55, start=50))
    new.read(80, job("a", 9, 900, 70, start=50))

    old.deliver()

    assert new.total("a") == (8 + 9, 800 + 900)
    assert new.flags == []


def test_other_mount_on_the_same_server_is_known_by_its_instance() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10))

    target.remount()
    target.read(40, job("a", 6, 600, 30))

    assert target.total("a") == (11, 1100)
    assert target.flags == []


def test_other_mount_also_where_its_number_was_there_before() -> None:
    """Somebody deleted last_rcvd: the count of mounts starts again."""
    target = Target(IN_ORDER)
    for tick, instance in ((20, 1), (40, 2), (60, 1)):
        target.remount()
        target.instance = instance
        target.read(tick, job("a", tick, 10 * tick, tick - 5))

    assert target.total("a") == (120, 1200)


def test_other_mount_is_none_of_which_the_instance_could_not_be_read() -> None:
    target = Target(IN_ORDER)
    for tick, instance in ((20, 1), (40, None), (60, 1)):
        target.instance = instance
        target.read(tick, job("a", tick, 10 * tick, tick - 5))

    assert target.total("a") == (60, 600)
    assert target.flags == []


# --- one id several times in one read ---


def test_one_id_several_times_in_one_read_is_told_apart_by_start_time() -> None:
    target = Target("2.15.0")
    target.read(20, job("x\x01", 1, 100, 10, start=4), job("x\x02", 5, 500, 12, start=6))
    target.read(40, job("x\x02", 7, 700, 30, start=6), job("x\x01", 2, 200, 31, start=4))
    target.read(60, job("x\x02", 8, 800, 50, start=6))

    assert target.total("x?") == (2 + 8, 200 + 800)
    assert target.flags == []


def test_one_id_several_times_in_one_read_is_told_apart_by_rank_and_flagged() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("x\x01", 1, 100, 10), job("x\x02", 5, 500, 12))
    assert target.total("x?") == (6, 600)
    assert target.flags == []

    target.read(40, job("x\x01", 2, 200, 30), job("x\x02", 6, 600, 31))
    assert target.total("x?") == (8, 800)
    assert target.flags == [("x?", (1, 100), SAME), ("x?", (5, 500), SAME)]

    target.read(60, job("x\x01", 3, 300, 50), job("x\x02", 1, 90, 51))
    assert target.total("x?") == (3 + 6 + 1, 300 + 600 + 90)
    assert target.flags[2:] == [("x?", (2, 200), SAME), ("x?", (6, 600), NEW)]


def test_one_id_several_times_where_one_is_gone_is_flagged_for_both() -> None:
    """Which of the two is left nobody can say: each may be the one that goes on."""
    target = Target(IN_ORDER)
    target.read(20, job("x\x01", 1, 100, 10), job("x\x02", 5, 500, 12))

    target.read(40, job("x\x02", 6, 600, 30))

    assert target.total("x?") == (6 + 5, 600 + 500)
    assert target.flags == [("x?", (5, 500), NEW), ("x?", (1, 100), SAME)]


def test_one_id_several_times_of_which_only_one_moves_leaves_nothing_open() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("x\x01", 1, 100, 10), job("x\x02", 5, 500, 12))
    target.read(40, job("x\x01", 1, 100, 10), job("x\x02", 6, 600, 30))

    assert target.total("x?") == (7, 700)
    assert target.flags == []


# --- both start_time known ---


def test_start_time_names_the_life_and_the_larger_value_counts() -> None:
    """Beside a record whose start was not read, so that the rows below are asked at all."""
    target = Target(WITH_START)
    target.read(20, job("a", 5, 500, 10, start=5), job("b", 1, 10, 10))
    target.read(40, job("a", 3, 300, 30, start=5), job("b", 2, 20, 30))
    assert target.total("a") == (5, 500)

    target.read(60, job("b", 3, 30, 50), job("a", 6, 600, 50, start=5))

    assert target.total("a") == (6, 600)
    assert target.total("b") == (3, 30)
    assert [flag for flag in target.flags if flag[0] == "a"] == []


def test_start_time_that_differs_is_that_other_life_be_it_new_or_earlier() -> None:
    target = Target(WITH_START)
    target.read(20, job("a", 5, 500, 10, start=5))
    target.read(40, job("a", 7, 700, 30, start=25))
    assert target.total("a") == (12, 1200)

    target.read(60, job("a", 6, 600, 50, start=5))

    assert target.total("a") == (6 + 7, 600 + 700)
    assert target.flags == []


def test_start_time_leaves_nothing_to_idle_time_absence_or_gaps_in_reading() -> None:
    target = Target(WITH_START)
    target.read(20, job("a", 5, 500, 10, start=5), job("b", 1, 10, 10))
    target.read(40, job("b", 2, 20, 30))
    target.read(60, job("b", 3, 30, 50))
    target.restart_agent()

    target.read(2000, job("b", 3, 30, 50), job("a", 6, 600, 1990, start=5))

    assert target.total("a") == (6, 600)
    assert [flag for flag in target.flags if flag[0] == "a"] == []


def test_start_time_of_zero_is_unknown_and_never_another_life() -> None:
    target = Target("2.16.1")
    target.read(20, job("a", 5, 500, 10, start=5))
    target.read(40, job("a", 6, 600, 30, start=0))
    target.read(60, job("a", 7, 700, 50, start=5))

    assert target.total("a") == (7, 700)


def test_start_time_that_was_not_read_once_names_the_life_again_when_it_is() -> None:
    target = Target(WITH_START)
    target.read(20, job("a", 5, 500, 10, start=5))
    target.read(40, job("a", 6, 600, 30, start=5, edited=lambda text: text.replace(b"start_time:", b"start_tame:")))
    target.read(60, job("a", 7, 700, 50, start=5))
    target.restart_agent()

    target.read(2000, job("a", 8, 800, 1990, start=5))

    assert target.total("a") == (8, 800)
    assert target.flags == []


# --- lower ---


def test_a_lower_number_of_samples_is_a_new_life() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10))
    target.read(40, job("a", 4, 900, 30))

    assert target.total("a") == (9, 1400)
    assert target.flags == []


def test_a_lower_sum_of_bytes_is_a_new_life() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10))
    target.read(40, job("a", 6, 499, 30))

    assert target.total("a") == (11, 999)
    assert target.flags == []


def test_a_counter_that_is_not_there_any_more_is_a_new_life() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10, punch=2))
    target.read(40, job("a", 6, 600, 30))

    assert target.total("a") == (11, 1100)
    assert target.total("a", "punch") == (2, 0)
    assert target.flags == []


def test_a_counter_that_came_later_and_is_not_there_any_more_is_a_new_life() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10))
    target.read(40, job("a", 6, 600, 30, punch=2))
    target.read(60, job("a", 7, 700, 50, sync=9))

    assert target.total("a") == (13, 1300)
    assert (target.total("a", "punch"), target.total("a", "sync")) == ((2, 0), (9, 0))
    assert target.flags == []


def test_a_lower_sum_of_usecs_is_no_new_life_and_goes_on_from_where_it_was() -> None:
    target = Target("2.14.0")
    target.read(20, job("a", 5, 500, 10, punch=(3, 100)))
    target.read(40, job("a", 6, 600, 30, punch=(4, 60)))
    assert target.total("a", "punch") == (4, 100)

    target.read(60, job("a", 7, 700, 50, punch=(5, 75)))

    assert target.total("a", "punch") == (5, 115)
    assert target.total("a") == (7, 700)
    assert target.flags == []
