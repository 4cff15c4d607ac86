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


def test_order_says_recreated_of_all_behind_one_that_fell_though_that_was_idle_and_no_sign_of_a_clear() -> None:
    target = Target(IN_ORDER, interval=100)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    for tick in range(40, 140, 20):
        target.read(tick, job("a", 5, 500, 10), job("b", 1, 10 + tick, tick - 5))

    target.read(140, job("a", 2, 200, 131), job("b", 9, 900, 135))

    assert target.total("a") == (7, 700)
    assert target.total("b") == (10, 130 + 900)
    assert target.flags == []


def test_order_says_recreated_of_all_behind_one_that_was_away_where_reads_cannot_skip() -> None:
    target = Target(CANNOT_SKIP, header=False, interval=100)
    target.read(20, job("a", 5, 500, 10))
    target.read(140, job("b", 1, 10, 135))

    target.read(160, job("a", 6, 600, 151), job("b", 9, 900, 155))

    assert target.total("b") == (10, 910)
    assert target.flags == []


def test_order_says_maybe_of_all_behind_one_that_was_away_where_reads_can_skip() -> None:
    """And if b was re-created without having been idle, so may c have been, in front."""
    target = Target(IN_ORDER, interval=100)
    target.read(20, job("c", 1, 1, 10), job("a", 5, 500, 10))
    target.read(140, job("c", 2, 2, 100), job("b", 1, 10, 135))

    target.read(160, job("c", 3, 3, 141), job("a", 6, 600, 151), job("b", 9, 900, 155))

    assert target.total("a") == (11, 1100)
    assert {name for name, *_ in target.flags} == {"b", "c"}, "a was away for certain: c, before it, was not removed"


def test_order_proves_nothing_behind_one_that_the_last_read_may_have_skipped() -> None:
    """It was absent once, for certain, but that was before; when b was first shown, a may have stood there."""
    target = Target(IN_ORDER, interval=100)
    target.read(20, job("a", 5, 500, 10), job("c", 1, 1, 15))
    target.read(100, job("a", 5, 500, 10), job("c", 2, 2, 90))
    target.read(140, job("c", 3, 3, 135), in_one_piece=True)
    target.read(240, job("d", 1, 1, 151), job("b", 1, 10, 155))

    target.read(260, job("d", 1, 1, 151), job("a", 6, 600, 152), job("b", 2, 20, 245))

    assert target.total("a") == (11, 1100)
    assert target.total("b") == (2, 20)
    assert [name for name, *_ in target.flags] == ["b"]


def test_order_is_that_of_the_last_whole_read_also_after_a_life_began_in_a_read_that_was_cut_short() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("b", 1, 10, 15), job("a", 5, 500, 10))
    target.read(40, job("b", 1, 10, 15), job("a", 2, 200, 31), cut=True)
    target.read(60, job("b", 1, 10, 15), job("a", 2, 200, 31))

    target.read(80, job("a", 2, 200, 31), job("b", 2, 20, 75))

    assert target.total("b") == (3, 30)
    assert target.flags == []


def test_order_proves_nothing_of_one_that_a_cut_read_showed_meanwhile() -> None:
    """It may have been re-created before that read, which was flagged then."""
    target = Target(IN_ORDER)
    target.read(20, job("a", 40, 400, 10), job("b", 1, 10, 15))
    target.read(40, job("b", 1, 10, 15), job("a", 90, 900, 31), cut=True)

    target.read(60, job("b", 1, 10, 15), job("a", 91, 910, 50))

    assert target.total("a") == (91, 910)
    assert target.flags == [("a", (40, 400), SAME), ("a", (90, 900), SAME)]


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


def test_absent_is_proven_also_by_the_read_that_shows_it_again() -> None:
    """That it was idle itself says nothing about who else was removed."""
    target = Target(IN_ORDER, interval=100)
    target.read(20, job("b", 1, 10, 15), job("a", 5, 500, 16))
    target.read(140, job("b", 2, 20, 100))

    target.read(160, job("b", 3, 30, 155), job("a", 6, 600, 151))

    assert target.total("a") == (11, 1100)
    assert target.flags == []


def test_absent_is_not_proven_where_another_was_removed_and_is_back() -> None:
    target = Target(IN_ORDER)
    target.read(20, job("b", 1, 10, 15), job("d", 1, 10, 15), job("a", 5, 500, 16))
    target.read(40, job("b", 1, 10, 15), job("d", 1, 10, 15))
    target.read(60, job("d", 1, 10, 15), job("a", 6, 600, 55), job("b", 2, 20, 52))

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
