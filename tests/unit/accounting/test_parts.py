"""Parts of a read by what they weigh: no message may be larger than an aggregator takes."""

from array import array
from dataclasses import replace

import pytest

from campaign.plan import VERSIONS
from harvest_core import wire
from harvest_core.differences import PART_RECORDS, Differences
from harvest_core.facts import MOVED_COLUMNS, Facts
from harvest_core.lustre.columns import Codes, JobColumns
from harvest_sim.ops import Kind, Op, op_list
from harvest_sim.versions import Version
from unit.accounting.aggregator import encoded
from unit.accounting.builder import Target

RECORDS = 9000
MESSAGE_BYTES_MAX = 4 << 20
LARGE = 1 << 60
POWERS = range(32)


class Follower:
    """Whoever went through a file of many records with the longest ids."""

    def __init__(self, records: int) -> None:
        self.names = {slot: (b"%0128d" % slot, LARGE + slot, 0) for slot in range(records)}
        self.order = array("q", self.names)
        self.gone: list[int] = []


def widest(ops: tuple[Op, ...], slots: range) -> JobColumns:
    """Return records in which every counter is used and every number is large, and every bucket is told."""
    in_bytes = [place for place, op in enumerate(ops) if op.unit == "bytes"]
    count = len(slots) * len(ops)
    buckets = [
        (record * len(ops) + place, power) for record in range(len(slots)) for place in in_bytes for power in POWERS
    ]
    return JobColumns(
        slot=array("q", slots),
        snapshot=array("q", [LARGE]) * len(slots),
        partial=array("q", range(len(slots))),
        rows=array("q", [len(ops)]) * len(slots),
        code=array("q", range(len(ops))) * len(slots),
        samples=array("q", [LARGE]) * count,
        minimum=array("q", [LARGE]) * count,
        maximum=array("q", [LARGE]) * count,
        sum=array("q", [LARGE]) * count,
        hist_row=array("q", [row for row, _ in buckets]),
        hist_power=array("q", [power for _, power in buckets]),
        hist_count=array("q", [LARGE]) * len(buckets),
    )


def parts_of(ops: tuple[Op, ...], chunks: list[range], records: int) -> list[Facts]:
    about = replace(Target().hold(20), order_is_full=False, order=array("q"), gone=array("q"))
    codes = Codes()
    for op in ops:
        codes.of(op.name, op.unit)
    return list(Differences(codes).facts(about, [widest(ops, chunk) for chunk in chunks], Follower(records)))


WIDEST = {
    op_list(Version.parse(version), kind): f"{version} {kind.name}"
    for version in VERSIONS
    for kind in (Kind.OST, Kind.MDT)
}
"""Versions that count the same need not be tried twice."""


@pytest.mark.parametrize("ops", WIDEST, ids=WIDEST.values())
def test_the_widest_records_fit_messages_also_out_of_one_chunk(ops: tuple[Op, ...]) -> None:
    chunks = [range(RECORDS - 1000), range(RECORDS - 1000, RECORDS)]
    parts = parts_of(ops, chunks, RECORDS)

    assert max(len(encoded(part)) for part in parts) <= MESSAGE_BYTES_MAX
    whole = wire.joined(parts, wire.concatenated)
    assert list(whole.moved.slot) == list(whole.order) == [name[0] for name in whole.names] == list(range(RECORDS))
    read = widest(ops, range(RECORDS))
    for name in ("snapshot", "partial", "rows", "code", "samples", "sum", "hist_row", "hist_power", "hist_count"):
        assert getattr(whole.moved, name) == getattr(read, name), name
    assert whole.moved.extreme_row == array("q", range(len(read.code)))

    again = wire.in_parts(whole, PART_RECORDS)  # as after merging

    assert max(len(encoded(part)) for part in again) <= MESSAGE_BYTES_MAX
    rejoined = wire.joined(again, wire.concatenated).moved
    assert all(getattr(rejoined, name) == getattr(whole.moved, name) for name in MOVED_COLUMNS)


def test_a_long_order_has_a_part_of_its_own_where_the_last_records_leave_no_room() -> None:
    ops = op_list(Version.parse("2.12.9"), Kind.OST)
    facts = parts_of(ops, [range(400)], 400)[-1]
    facts.gone = array("q", range(1000, 500_000))

    first, last = wire.in_parts(facts, PART_RECORDS)

    assert (len(first.moved.slot), len(first.order), len(first.gone), first.is_last_part) == (400, 0, 0, False)
    assert (len(last.moved.slot), len(last.order), len(last.gone), last.is_last_part) == (0, 400, 499_000, True)
    assert max(len(encoded(first)), len(encoded(last))) <= MESSAGE_BYTES_MAX
