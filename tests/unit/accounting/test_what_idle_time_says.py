"""The first table of DESIGN §5 where order is open too: idle time, absences, clears, and what is left."""

import pytest

from unit.accounting.aggregator import NEW, SAME
from unit.accounting.builder import Target
from unit.accounting.printed import job

IN_ORDER = "2.12.9"
CANNOT_SKIP = "2.16.1"
WITHOUT_ORDER = "2.5.0"
"""Neither start nor creation order."""


# --- order open ---


def idle_for(seconds: int, *, version: str = IN_ORDER, interval: int = 600, header: bool = True) -> Target:
    """Return a target whose only record was idle so long, and shown by every read meanwhile."""
    target = Target(version, interval=interval, header=header)
    target.read(20, job("a", 5, 500, 10))
    for tick in range(40, 10 + seconds, 20):
        target.read(tick, job("a", 5, 500, 10))
    target.read(seconds + 29, job("a", 6, 600, 10 + seconds))
    return target


def test_open_and_idle_as_long_as_the_interval_is_flagged_as_the_same_life_if_it_was_there_meanwhile() -> None:
    target = idle_for(599)

    assert target.total("a") == (6, 600)
    assert target.flags == [("a", (5, 500), SAME)]


def test_open_and_idle_as_long_as_the_interval_is_flagged_as_a_new_life_if_it_was_unread_meanwhile() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10))
    target.restart_agent()

    target.read(620, job("a", 6, 600, 609))

    assert target.total("a") == (11, 1100)
    assert target.flags == [("a", (5, 500), NEW)]


def test_open_and_idle_as_long_as_the_interval_is_flagged_as_a_new_life_after_a_sweep_without_a_read() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10))
    target.skip_read()

    target.read(620, job("a", 6, 600, 609))

    assert target.total("a") == (11, 1100)
    assert target.flags == [("a", (5, 500), NEW)]


def test_open_and_idle_for_less_than_the_interval_less_a_second_is_the_same_life() -> None:
    target = idle_for(598)

    assert target.total("a") == (6, 600)
    assert target.flags == []


@pytest.mark.parametrize(("version", "interval"), [(IN_ORDER, 0), (CANNOT_SKIP, 0), (CANNOT_SKIP, 1)])
def test_open_and_idle_means_nothing_where_the_interval_is_never(version: str, interval: int) -> None:
    target = idle_for(7200, version=version, interval=interval, header=False)

    assert target.total("a") == (6, 600)
    assert target.flags == []


def test_open_and_idle_where_an_interval_of_one_is_still_a_second() -> None:
    target = idle_for(20, interval=1)

    assert target.flags == [("a", (5, 500), SAME)]


def test_open_and_idle_as_long_as_the_smallest_interval_seen_since() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10))
    target.interval = 60
    target.read(40, job("a", 5, 500, 10))
    target.interval = 600
    target.read(60, job("a", 5, 500, 10))
    target.read(80, job("a", 6, 600, 70))
    assert target.flags == [("a", (5, 500), SAME)]

    target.read(160, job("a", 7, 700, 150))

    assert target.total("a") == (7, 700)
    assert len(target.flags) == 1, "what was smaller before the last value does not count"


def test_open_and_idle_for_the_usual_interval_where_it_could_not_be_read() -> None:
    target = Target(IN_ORDER, interval=None)
    target.read(20, job("a", 5, 500, 10))
    target.read(600, job("a", 6, 600, 590))
    assert target.flags == []

    target.read(1200, job("a", 7, 700, 1190))

    assert target.flags == [("a", (6, 600), SAME)]


@pytest.mark.parametrize("absences", [1, 2, 3])
def test_open_and_absent_from_complete_reads_is_flagged_as_a_new_life(absences: int) -> None:
    """One is enough where nothing else is known."""
    target = Target(WITHOUT_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    for number in range(absences):
        target.read(40 + 20 * number, job("b", 1, 10, 15))

    target.read(120, job("a", 6, 600, 110), job("b", 1, 10, 15))

    assert target.total("a") == (11, 1100)
    assert target.flags == [("a", (5, 500), NEW)]


def test_open_and_another_was_recreated_without_having_been_idle_is_flagged_as_a_clear() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 7, 70, 15))

    target.read(40, job("a", 6, 600, 30), job("b", 2, 20, 31))

    assert target.total("b") == (9, 90)
    assert target.total("a") == (6, 600)
    assert target.flags == [("a", (5, 500), SAME)]


def test_open_and_another_vanished_without_having_been_idle_is_flagged_as_a_clear() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 7, 70, 15))

    target.read(40, job("a", 6, 600, 30))

    assert target.total("a") == (6, 600)
    assert target.flags == [("a", (5, 500), SAME)]


def test_open_and_another_vanished_that_had_been_idle_is_no_clear() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("b", 7, 70, 15), job("a", 5, 500, 10))
    for tick in range(120, 720, 100):
        target.read(tick, job("b", 7, 70, 15), job("a", 5, 500 + tick, tick - 5))

    target.read(720, job("a", 6, 2000, 715))

    assert target.total("a") == (6, 2000)
    assert target.flags == []


def test_open_and_idle_for_two_intervals_is_flagged_also_where_any_operation_evicts() -> None:
    """Up to 2.7.56 whatever is counted looks for idle records first, unless the clock was set back before we came."""
    target = Target("2.7.0")
    target.read(20, job("a", 5, 500, 10))
    target.read(1220, job("a", 5, 500, 10))

    target.read(1240, job("a", 6, 600, 1230))

    assert target.total("a") == (6, 600)
    assert target.flags == [("a", (5, 500), SAME)]


# --- anything else; a read cut short ---


def test_anything_else_is_the_same_life() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    target.read(40, job("a", 6, 600, 30), job("b", 1, 10, 15))
    target.skip_read()
    target.read(80, job("a", 7, 700, 70), job("b", 2, 20, 75))
    target.restart_agent()
    target.read(200, job("a", 7, 700, 70), job("b", 2, 20, 75), job("c", 1, 1, 190))

    assert (target.total("a"), target.total("b"), target.total("c")) == ((7, 700), (2, 20), (1, 1))
    assert target.flags == []


def test_read_cut_short_nothing_after_the_cut_is_absent() -> None:
    target = Target(CANNOT_SKIP, header=False)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    target.read(40, job("a", 5, 500, 10), cut=True)
    target.read(60, job("a", 5, 500, 10), job("b", 2, 20, 55))
    target.restart_agent()
    target.read(80, cut=True)

    target.read(100, job("a", 5, 500, 10), job("b", 3, 30, 95))

    assert target.total("b") == (3, 30)
    assert target.total("a") == (5, 500)
    assert target.flags == []


def test_read_cut_short_of_a_new_agent_counts_what_did_not_move_once() -> None:
    target = Target(CANNOT_SKIP, header=False)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    target.restart_agent()

    target.read(40, job("a", 5, 500, 10), cut=True)

    assert target.total("a") == (5, 500)
    assert target.flags == []


def test_read_cut_short_flags_what_it_shows_for_a_clear_may_hide_behind_the_cut() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))

    target.read(40, job("a", 6, 600, 30), cut=True)

    assert target.total("a") == (6, 600)
    assert target.flags == [("a", (5, 500), SAME)]


def test_read_cut_short_in_which_a_life_began_leaves_its_place_open() -> None:
    """A whole read will tell where it stands: behind b, which is no sign of yet another life."""
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    target.read(40, job("b", 1, 10, 15), job("a", 3, 300, 30), cut=True)

    target.read(60, job("b", 1, 10, 15), job("a", 4, 400, 50))

    assert target.total("a") == (5 + 4, 500 + 400)
    assert target.flags == []
