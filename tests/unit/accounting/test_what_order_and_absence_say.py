"""The first table of DESIGN §5 where nothing is lower and no start is told: order, and being absent."""

from unit.accounting.aggregator import NEW, SAME
from unit.accounting.builder import Target
from unit.accounting.printed import job

IN_ORDER = "2.12.9"
CANNOT_SKIP = "2.16.1"
WITHOUT_ORDER = "2.5.0"
"""Neither start nor creation order."""


# --- order ---


def test_order_says_recreated_where_it_stands_behind_one_that_used_to_follow_it() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    target.read(40, job("b", 1, 10, 15), job("a", 6, 600, 30))

    assert target.total("a") == (11, 1100)
    assert target.total("b") == (1, 10)
    assert target.flags == []


def test_order_says_recreated_also_across_a_restart_of_the_agent() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    target.restart_agent()
    target.read(40, job("b", 1, 10, 15), job("a", 6, 600, 30))

    assert target.total("a") == (11, 1100)
    assert target.flags == []


def test_order_of_the_state_is_that_of_the_file() -> None:
    target = Target(IN_ORDER)
    shown = ("abc", "abcd", "bcda", "cae", "eca")
    for number, names in enumerate(shown, 1):
        target.read(20 * number, *[job(name, 1, 1, 5) for name in names])

        state = target.aggregator.state()
        assert [state.jobs[row] for row in state.order] == [name.encode() for name in names]


def test_order_says_kept_where_it_still_stands_before_a_follower_that_was_there_all_the_time() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    target.read(320, job("a", 5, 500, 10), job("b", 2, 20, 310))
    target.read(620, job("a", 5, 500, 10), job("b", 3, 30, 610))

    target.read(720, job("a", 6, 600, 700), job("b", 4, 40, 710))

    assert target.total("a") == (6, 600)
    assert target.flags == []


def test_order_says_nothing_where_the_follower_may_have_been_evicted_too() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))

    target.read(720, job("a", 6, 600, 700), job("b", 4, 40, 710))

    assert target.total("a") == (6, 600)
    assert target.flags == [("a", (5, 500), SAME), ("b", (1, 10), SAME)]


def test_order_says_nothing_where_files_are_not_in_creation_order() -> None:
    target = Target(WITHOUT_ORDER)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    target.read(40, job("b", 2, 20, 35), job("a", 6, 600, 30))

    assert target.total("a") == (6, 600)
    assert target.flags == []


# --- absent ---


def test_absent_where_reads_cannot_skip_is_a_new_life() -> None:
    """It is the last one, of which order says nothing."""
    target = Target(CANNOT_SKIP, header=False)
    target.read(20, job("c", 1, 1, 10), job("b", 1, 10, 15), job("a", 5, 500, 16))
    target.read(40, job("c", 1, 1, 10), job("b", 1, 10, 15))
    target.read(60, job("b", 1, 10, 15), job("a", 6, 600, 55))

    assert target.total("a") == (11, 1100)
    assert target.flags == []


def test_absent_where_reads_can_skip_is_flagged_as_a_new_life() -> None:
    """As above, but c's removal may have made the read before skip a."""
    target = Target(IN_ORDER)
    target.read(20, job("c", 1, 1, 10), job("b", 1, 10, 15), job("a", 5, 500, 16))
    target.read(40, job("c", 1, 1, 10), job("b", 1, 10, 15))
    target.read(60, job("b", 1, 10, 15), job("a", 6, 600, 55))

    assert target.total("a") == (11, 1100)
    assert target.flags == [("a", (5, 500), NEW)]


def test_absent_is_proven_where_the_read_after_shows_that_nothing_was_removed() -> None:
    """A record is skipped only if one before it is removed meanwhile: here all are still there."""
    target = Target(IN_ORDER)
    target.read(20, job("b", 1, 10, 15), job("a", 5, 500, 16))
    target.read(40, job("b", 1, 10, 15))
    target.read(60, job("b", 1, 10, 15), job("a", 6, 600, 55))

    assert target.total("a") == (11, 1100)
    assert target.flags == []


def test_absent_is_not_proven_where_another_was_removed_and_is_back() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("b", 1, 10, 15), job("d", 1, 10, 15), job("a", 5, 500, 16))
    target.read(40, job("b", 1, 10, 15), job("d", 1, 10, 15))
    target.read(60, job("d", 1, 10, 15), job("b", 2, 20, 52), job("a", 6, 600, 55))

    assert target.total("a") == (11, 1100)
    assert target.total("b") == (3, 30)
    assert target.flags == [("a", (5, 500), NEW)]


def test_absent_once_proven_stays_proven() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("c", 1, 1, 10), job("b", 1, 10, 15), job("a", 5, 500, 16))
    target.read(40, job("c", 1, 1, 10), job("b", 1, 10, 15))
    target.read(60, job("c", 1, 1, 10), job("b", 2, 20, 55))
    target.read(80, job("b", 2, 20, 55), job("a", 6, 600, 75))

    assert target.total("a") == (11, 1100)
    assert target.flags == []


def test_absent_from_a_read_in_one_piece_is_a_new_life() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("c", 1, 1, 10), job("b", 1, 10, 15), job("a", 5, 500, 16))
    target.read(40, job("c", 1, 1, 10), job("b", 1, 10, 15), in_one_piece=True)
    target.read(60, job("b", 1, 10, 15), job("a", 6, 600, 55))

    assert target.total("a") == (11, 1100)
    assert target.flags == []


def test_directory_seen_gone_is_a_new_life_where_no_instance_tells() -> None:
    target = Target(IN_ORDER, instance=None)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))

    target.read(40, job("a", 6, 600, 30), job("b", 2, 20, 31), directory_gone=True)

    assert target.total("a") == (11, 1100)
    assert target.total("b") == (3, 30)
    assert target.flags == []
