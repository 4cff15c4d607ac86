"""Sequences that a reviewer constructed by hand: nothing of them may be lost without a flag."""

from unit.accounting.aggregator import NEW, SAME
from unit.accounting.builder import Target
from unit.accounting.printed import job


def test_a_clear_that_a_cut_read_showed_puts_those_behind_the_cut_in_doubt() -> None:
    target = Target("2.12.9")
    target.read(20, job("a", 10, 1000, 15), job("b", 5, 500, 16))
    target.read(40, job("a", 3, 300, 35), job("b", 6, 600, 36), cut=True)

    target.read(60, job("a", 3, 300, 35), job("b", 9, 900, 50))

    assert target.total("a") == (13, 1300)
    assert {name for name, *_ in target.flags} == {"b"}


def test_a_record_behind_one_that_is_new_was_re_created_where_reads_cannot_skip() -> None:
    target = Target("2.16.1", header=False)
    target.read(20, job("a", 5, 500, 10))

    target.read(40, job("b", 1, 100, 30), job("a", 9, 900, 35))

    assert target.total("a") == (14, 1400)
    assert target.flags == []


def test_anything_else_is_the_same_life_also_beside_one_that_was_evicted() -> None:
    target = Target("2.12.9", interval=100)
    target.read(20, job("b", 1, 100, 10), job("a", 5, 500, 15))
    for tick in range(40, 180, 20):
        target.read(tick, job("b", 1, 100, 10), job("a", 5 + tick, 500 + tick, tick - 5))

    target.read(180, job("a", 200, 2000, 175))

    assert target.total("a") == (200, 2000)
    assert target.flags == []


def test_one_that_prints_alike_and_was_shown_by_a_cut_read_only_is_flagged_where_it_moves_up() -> None:
    target = Target("2.12.9", interval=100)
    target.read(20, job("a?b", 2, 200, 15))
    target.read(40, job("a?b", 2, 200, 15), job("a?b", 1, 100, 35), cut=True)

    target.read(140, job("a?b", 1, 150, 130))

    assert len(target.flags) == 2, "the second may have gone on under the first one's rank"


def test_one_that_prints_alike_and_moved_up_in_a_new_agents_cut_read_is_flagged_when_it_is_gone() -> None:
    target = Target(interval=60)
    target.read(20, job("a?b", 3, 300, 15), job("a?b", 1, 100, 18))
    target.read(90, job("a?b", 1, 100, 18))
    target.restart_agent()
    target.read(110, job("a?b", 1, 100, 18), cut=True)
    target.read(130, job("a?b", 1, 100, 18))
    assert target.total("a?b") == (5, 500)
    assert ("a?b", (1, 100), NEW) in target.flags


def test_one_that_may_print_alike_is_flagged_where_an_agent_did_not_see_the_value_before() -> None:
    """Another id that prints the same may have taken its place; one that did not move is itself."""
    target = Target()
    target.read(20, job("a?b", 1, 100, 15), job("c?d", 1, 100, 16), job("e", 1, 100, 17))
    target.restart_agent()
    target.read(40, job("a?b", 1, 250, 35), job("c?d", 1, 100, 16), job("e", 3, 250, 36))
    assert target.flags == [("a?b", (1, 100), SAME)]


def test_one_that_a_cut_read_showed_is_in_doubt_behind_one_that_may_have_been_re_created_since() -> None:
    """If a was not there when b was shown, all behind a was created since; who was there in front nobody said."""
    target = Target(interval=100)
    target.read(20, job("c", 1, 10, 10), job("a", 5, 500, 10))
    target.read(200, job("b", 1, 10, 195), cut=True)

    target.read(220, job("a", 6, 600, 211), job("b", 9, 900, 215))

    assert ("b", (1, 10), SAME) in target.flags


def test_one_that_only_a_cut_read_showed_betrays_a_clear_where_it_is_gone_without_having_been_idle() -> None:
    target = Target("2.4.3")
    target.read(80, job("a", 1, 500, 75))
    target.read(100, job("a", 1, 500, 75), job("b", 2, 90, 81), cut=True)

    target.read(120, job("a", 1, 1000, 103))

    assert target.flags == [("a", (1, 500), NEW)]


def test_one_that_only_a_cut_read_showed_may_have_done_more_in_a_gap_of_whole_reads() -> None:
    target = Target(interval=100)
    target.read(20, job("a", 1, 500, 15))
    target.read(40, job("a", 1, 500, 15), job("b", 2, 90, 35), cut=True)

    target.read(200)

    assert target.aggregator.incomplete_jobs == {"a", "b"}


def test_a_start_that_is_told_for_the_first_time_and_lies_behind_the_last_value_is_in_doubt_after_a_clock_was_set() -> (
    None
):
    """The record began before the clock was set back, and its last value came afterwards."""
    target = Target("2.16.1", header=False)
    target.read(20)
    target.booted_at -= 4000
    target.read(40, job("a", 5, 500, 35, start=3000))
    target.header = True

    target.read(60, job("a", 5, 500, 35, start=3000))

    assert target.total("a") == (5, 500)
    assert [name for name, *_ in target.flags] == ["a"]
