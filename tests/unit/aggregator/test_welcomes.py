"""When an agent is asked for a full picture."""

import pytest

from harvest.v1.stream_pb2 import Incarnation
from harvest_aggregator.welcomes import has_gap

OLD, NEW = b"o" * 16, b"n" * 16


@pytest.mark.parametrize(
    ("first", "last", "durable", "gap"),
    [(1, 9, 0, False), (5, 9, 4, False), (5, 9, 3, True), (5, 9, 0, True), (5, 9, 9, False), (1, 0, 0, False)],
)
def test_a_gap_is_what_neither_the_ledger_nor_the_spool_has(first: int, last: int, durable: int, gap: bool) -> None:  # noqa: FBT001
    speaking = Incarnation(id=NEW, first_seq=first, last_seq=last)

    assert has_gap([speaking], {NEW: durable}) is gap


def test_a_gap_of_an_earlier_incarnation_needs_no_other_picture() -> None:
    earlier = Incarnation(id=OLD, first_seq=5, last_seq=9)
    speaking = Incarnation(id=NEW, first_seq=1, last_seq=3)

    assert not has_gap([earlier, speaking], {OLD: 0, NEW: 0})
