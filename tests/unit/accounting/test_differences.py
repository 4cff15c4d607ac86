"""What an agent says of a read: only what the reads before did not say."""

from array import array
from dataclasses import replace

import pytest

from harvest_core.differences import PART_RECORDS, Differences
from harvest_core.facts import Facts, in_one_piece, order_change, packed
from harvest_core.lustre.columns import Codes, JobColumns
from harvest_sim.counters import Counter
from unit.accounting.builder import Target
from unit.accounting.printed import job


def names(facts: Facts) -> list[bytes]:
    return [name for _, name, _, _ in facts.names]


def test_names_and_counters_are_said_once() -> None:
    target = Target()
    first = target.hold(20, job("a", 1, 1, 10), job("b", 1, 1, 11))
    second = target.hold(40, job("a", 2, 2, 30), job("b", 1, 1, 11), job("c", 1, 1, 31))

    assert names(first) == [b"a", b"b"]
    assert ("write_bytes", "bytes") in [counter[1:] for counter in first.counters]
    assert names(second) == [b"c"]
    assert second.counters == []


def test_names_are_said_again_by_another_incarnation() -> None:
    target = Target()
    target.hold(20, job("a", 1, 1, 10))
    target.restart_agent()

    assert names(target.hold(40, job("a", 1, 1, 10))) == [b"a"]


def test_a_segment_names_again_what_it_uses() -> None:
    target = Target()
    b, c = job("b", 1, 1, 11), job("c", 1, 1, 12)
    target.hold(20, job("a", 1, 1, 10), b, c)
    target.differences.begin_segment()

    second = target.hold(40, job("a", 2, 2, 30), c, job("d", 1, 1, 31))
    third = target.hold(60, job("a", 3, 3, 50), c, job("d", 1, 1, 31))

    assert [name for _, name, _, _ in second.again] == [b"a", b"b"], (
        "one moved, one is gone; the third is not spoken of"
    )
    assert names(second) == [b"d"]
    assert ("write_bytes", "bytes") in [counter[1:] for counter in second.counters]
    assert (third.again, third.names, third.counters) == ([], [], [])


def test_a_segment_can_be_understood_by_itself() -> None:
    """What told the names first is lost, and with it the order: no more is asked than the totals of what is shown."""
    target = Target()
    target.hold(20, job("a", 1, 1, 10), job("b", 1, 1, 11))
    target.differences.begin_segment()
    target.spool.clear()
    target.read(40, job("a", 2, 20, 30))

    assert target.total("a") == (2, 20)


def test_what_did_not_move_is_not_sent() -> None:
    target = Target()
    target.hold(20, job("a", 1, 1, 10), job("b", 1, 1, 11))
    facts = target.hold(40, job("a", 2, 2, 30), job("b", 1, 1, 11))

    assert facts.moved.slot.tolist() == [0]
    assert facts.moved.samples.tolist() == [2]
    assert facts.order.tolist() == facts.gone.tolist() == []


def test_counters_without_samples_are_not_sent() -> None:
    facts = Target().hold(20, job("a", 1, 7, 10, punch=3))

    assert facts.moved.rows.tolist() == [2]
    assert facts.moved.samples.tolist() == [1, 3]


def test_extremes_point_at_their_counter_among_those_that_are_sent() -> None:
    target = Target("2.14.0")
    facts = target.hold(20, job("b", 2, 6, 10), job("a", 1, 7, 10, punch=(2, 8), sync=(1, 9)))

    moved = facts.moved
    rows = zip(moved.extreme_row.tolist(), moved.minimum.tolist(), moved.maximum.tolist(), strict=True)
    assert list(rows) == [(0, 3, 3), (1, 7, 7), (2, 4, 4), (3, 9, 9)]


def test_extremes_are_sent_where_they_changed_only() -> None:
    target = Target("2.14.0")
    sent = []
    for tick, amounts in ((20, [5, 9]), (40, [5, 9, 7]), (60, [5, 9, 7, 3])):
        facts = target.hold(tick, job("a", at=tick - 1, write_bytes=Counter.of(amounts)))
        sent.append((facts.moved.minimum.tolist(), facts.moved.maximum.tolist()))

    assert sent == [([5], [9]), ([], []), ([3], [9])]


def test_order_is_full_at_first_and_then_the_tail_that_differs() -> None:
    target = Target()
    a, b, c = job("a", 1, 1, 1), job("b", 1, 1, 1), job("c", 1, 1, 1)
    said = [target.hold(20 * n, *shown) for n, shown in enumerate([(a, b), (a, b), (a, b, c), (b, c, a), (b, a)], 1)]

    assert [facts.order_is_full for facts in said] == [True, False, False, False, False]
    assert [facts.order.tolist() for facts in said] == [[0, 1], [], [2], [0], []]
    assert [facts.gone.tolist() for facts in said] == [[], [], [], [], [2]]


def test_one_that_is_gone_and_back_has_another_slot_and_its_name_is_said_again() -> None:
    target = Target()
    target.hold(20, job("a", 1, 1, 10))
    assert target.hold(40).gone.tolist() == [0]

    back = target.hold(60, job("a", 1, 1, 50))

    assert list(back.names) == [(1, b"a", 0, 0)]
    assert back.order.tolist() == [1]


def test_nothing_is_gone_after_a_cut_and_order_is_compared_with_the_last_whole_read() -> None:
    target = Target()
    target.hold(20, job("a", 1, 1, 1), job("b", 1, 1, 1), job("c", 1, 1, 1))
    cut = target.hold(40, job("b", 2, 2, 30), cut=True)
    after = target.hold(60, job("b", 2, 2, 30), job("c", 1, 1, 1))

    assert (cut.complete, cut.order.tolist(), cut.gone.tolist()) == (False, [], [])
    assert cut.moved.slot.tolist() == [1]
    assert (after.complete, after.order.tolist(), after.gone.tolist()) == (True, [], [0])


def test_a_read_that_is_not_whole_from_the_start_says_nothing_of_order() -> None:
    target = Target()
    whole = target.hold(20, job("a", 1, 1, 1))
    about = replace(whole, complete=False, order_is_full=False, order=array("q"))

    [facts] = Differences(Codes()).facts(about, [], target.scanner)

    assert (facts.is_last_part, facts.complete, facts.order_is_full, list(facts.order)) == (True, False, False, [])


class Follower:
    """Whoever went through a file of one record more than fits a part."""

    def __init__(self) -> None:
        self.names = {slot: (b"job %d" % slot, 0, 0) for slot in range(PART_RECORDS + 1)}
        self.order = array("q", self.names)
        self.gone: list[int] = []


def chunk_of(slots: range) -> JobColumns:
    chunk = JobColumns(slot=array("q", slots))
    for name in ("snapshot", "rows", "samples", "minimum", "maximum", "sum"):
        setattr(chunk, name, array("q", [1] * len(slots)))
    chunk.code = array("q", [0] * len(slots))
    return chunk


def test_a_large_read_comes_in_parts_of_which_the_last_has_the_order() -> None:
    about = replace(Target().hold(20), order_is_full=False, order=array("q"))
    codes = Codes()
    codes.of("write_bytes", "bytes")
    chunks = [chunk_of(range(PART_RECORDS - 1)), chunk_of(range(PART_RECORDS - 1, PART_RECORDS))]
    chunks.append(chunk_of(range(PART_RECORDS, PART_RECORDS + 1)))

    first, second = Differences(codes).facts(about, chunks, Follower())

    assert [(part.part, part.is_last_part) for part in (first, second)] == [(0, False), (1, True)]
    assert (list(first.moved.slot), list(second.moved.slot)) == (list(range(PART_RECORDS)), [PART_RECORDS])
    assert (len(first.names), names(second)) == (PART_RECORDS, [b"job %d" % PART_RECORDS])
    assert (len(first.counters), len(second.counters)) == (1, 0)
    assert (len(first.order), len(second.order), second.order_is_full) == (0, PART_RECORDS + 1, True)


@pytest.mark.parametrize(
    ("before", "after", "tail"),
    [
        ([], [1, 2], [1, 2]),
        ([1, 2], [1, 2], []),
        ([1, 2], [1, 2, 3], [3]),
        ([1, 2, 3], [1, 3], []),
        ([1, 2, 3], [2, 3, 1], [1]),
        ([1, 2, 3], [1, 4, 3], [4, 3]),
        ([1, 2, 3], [3, 2, 1], [2, 1]),
        ([1, 2, 3], [], []),
    ],
)
def test_the_old_order_what_is_gone_and_the_tail_give_the_new_order(
    before: list[int], after: list[int], tail: list[int]
) -> None:
    change = list(order_change(array("q", before), array("q", after)))

    assert change == tail
    assert [slot for slot in before if slot in after and slot not in change] + change == after


@pytest.mark.parametrize(
    ("numbers", "width"),
    [
        ([], 1),
        ([0], 1),
        ([-128, 127], 1),
        ([128], 2),
        ([-129], 2),
        ([-32768, 32767], 2),
        ([32768], 4),
        ([-(2**31), 2**31 - 1], 4),
        ([2**31], 8),
        ([-1, 2**63 - 1], 8),
    ],
)
def test_a_column_is_packed_in_the_least_width_that_holds_all_its_numbers(numbers: list[int], width: int) -> None:
    data, found = packed(array("q", numbers))

    assert found == width
    assert [
        int.from_bytes(data[at : at + width], "little", signed=True) for at in range(0, len(data), width)
    ] == numbers


@pytest.mark.parametrize(
    ("pieces", "largest", "whole"),
    [
        ([2000, 0], 900, True),
        ([2296, 0], 900, False),
        ([2295, 0], 900, True),
        ([2000, 500, 0], 900, False),
        ([11, 0], 0, True),
        ([0], 0, True),
        ([], 0, True),
        ([11, 11, 0], 0, False),
    ],
)
def test_a_read_was_in_one_piece_if_the_first_had_room_for_two_more(
    pieces: list[int],
    largest: int,
    whole: bool,  # noqa: FBT001
) -> None:
    assert in_one_piece(pieces, largest) is whole
