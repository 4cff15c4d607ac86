"""What the order of a file tells about creation, on its own."""

import numpy as np
from numpy.typing import NDArray

from harvest_core.accounting.mounts import NEVER, Integers, MountState
from harvest_core.accounting.order import follow_order, open_order, restamp


def state_of(count: int) -> MountState:
    state = MountState()
    state.learn(b"one", [(slot, b"job %d" % slot, 0, 0) for slot in range(count)], ())
    return state


def rows(*numbers: int) -> Integers:
    return np.array(numbers, np.int64)


def none(count: int) -> NDArray[np.bool_]:
    return np.zeros(count, np.bool_)


def stamps(state: MountState, *numbers: int) -> list[int]:
    return [int(stamp) for stamp in state.stamp[rows(*numbers)]]


def said(state: MountState, order: Integers, *, sure: bool) -> tuple[list[bool], list[bool]]:
    """Return what is re-created and what was kept, by place, if all have moved."""
    found = follow_order(state, order, order, sure=np.full(len(order), sure), renewed=none(len(order)))
    return found.recreated.tolist(), found.kept.tolist()


def test_stamps_grow_along_the_first_order() -> None:
    state = state_of(3)
    restamp(state, rows(2, 0, 1))

    assert stamps(state, 2, 0, 1) == [0, 1, 2]


def test_stamps_stay_while_the_order_does_and_new_ones_are_younger() -> None:
    state = state_of(4)
    restamp(state, rows(0, 1, 2))
    restamp(state, rows(0, 2, 3))

    before = stamps(state, 0, 1, 2)
    assert before == [0, 1, 2]
    assert stamps(state, 3)[0] > max(before)


def test_stamps_of_new_ones_are_younger_than_all_that_were_ever_given() -> None:
    state = state_of(9)
    restamp(state, rows(0, 1, 2, 3, 4))
    restamp(state, rows(0, 1, 2, 3, 4, 5))
    restamp(state, rows(0, 6))

    given = stamps(state, *range(7))
    assert given == sorted(set(given))


def test_stamps_of_what_stands_behind_its_follower_are_new() -> None:
    state = state_of(3)
    restamp(state, rows(0, 1, 2))
    restamp(state, rows(1, 2, 0))

    assert stamps(state, 1, 2) == [1, 2]
    assert stamps(state, 0)[0] > 2


def test_stamps_behind_one_that_was_missed_are_new_and_those_of_the_absent_say_nothing_any_more() -> None:
    """How old 2 is compared with 3, which may come back, is not known: it stayed, or was created again."""
    state = state_of(4)
    restamp(state, rows(0, 2, 3))
    restamp(state, rows(0, 1, 2))

    assert stamps(state, 0) == [0]
    assert 2 < stamps(state, 1)[0] < stamps(state, 2)[0]
    assert stamps(state, 3) == [NEVER]
    assert said(state, rows(0, 2, 1), sure=True)[0] == [False, False, True]


def test_stamps_of_the_absent_stay_where_reads_cannot_miss_any() -> None:
    state = state_of(4)
    restamp(state, rows(0, 2, 3))
    state.last_could_skip = False
    restamp(state, rows(0, 1, 2))

    assert stamps(state, 3) == [2]


def test_behind_a_former_follower_is_recreated_and_before_a_sure_one_is_kept() -> None:
    state = state_of(3)
    restamp(state, rows(0, 1, 2))
    state.order = rows(0, 1, 2)

    assert said(state, rows(1, 2, 0), sure=True) == ([False, False, True], [True, False, False])
    assert said(state, rows(1, 0, 2), sure=True) == ([False, True, True], [False, False, False]), "2 came after 0"
    assert said(state, rows(0, 1, 2), sure=True) == ([False] * 3, [True, True, False])


def test_a_follower_that_is_not_sure_proves_nothing() -> None:
    state = state_of(3)
    restamp(state, rows(0, 1, 2))

    assert said(state, rows(0, 1, 2), sure=False) == ([False] * 3, [False] * 3)


def test_a_follower_that_did_not_move_is_sure() -> None:
    state = state_of(2)
    restamp(state, rows(0, 1))

    found = follow_order(state, rows(0, 1), rows(0), sure=np.array([False]), renewed=none(1))

    assert found.kept.tolist() == [True]


def test_records_that_are_not_shown_or_print_alike_tell_nothing() -> None:
    state = state_of(2)
    state.learn(b"one", [(2, b"x?", 0, 0), (3, b"x?", 0, 1)], ())
    restamp(state, rows(0, 2, 3))

    assert said(state, rows(3, 2, 0), sure=True) == ([False] * 3, [False] * 3)
    found = follow_order(state, rows(0), rows(1), sure=np.array([True]), renewed=none(1))
    assert (found.recreated.tolist(), found.kept.tolist()) == ([False], [False])


def test_an_empty_file_tells_nothing_and_keeps_the_stamps() -> None:
    state = state_of(2)
    restamp(state, rows(0, 1))
    restamp(state, rows())

    assert stamps(state, 0, 1) == [0, 1]
    assert follow_order(state, rows(), rows(), sure=none(0), renewed=none(0)).kept.tolist() == []
    assert open_order(2).kept.tolist() == open_order(2).recreated.tolist() == [False, False]
    assert NEVER < 0
