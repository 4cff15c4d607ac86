"""Facts as messages and back, and messages that contradict themselves."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from harvest.v1.stream_pb2 import Batch
from harvest_core import wire
from harvest_core.accounting.wire import WireError, joined, read
from harvest_core.facts import MOVED_COLUMNS, Facts
from harvest_core.wire import write
from harvest_sim.counters import Counter
from unit.accounting.aggregator import encoded
from unit.accounting.builder import Target
from unit.accounting.printed import job


def plain(facts: Facts) -> dict[str, object]:
    """Return facts as values that can be compared."""
    values: dict[str, object] = {name: getattr(facts, name) for name in facts.__dataclass_fields__}
    values["moved"] = {name: [int(n) for n in getattr(facts.moved, name)] for name in MOVED_COLUMNS}
    for name in ("order", "gone", "names", "again", "counters"):
        values[name] = list(getattr(facts, name))
    return values


def with_foreign_op(text: bytes) -> bytes:
    return text.replace(b"  sync:", b"  sync?") + b"  quantum_leap:    { samples:           3, unit:  reqs }\n"


def some_facts() -> Facts:
    """Return facts of which no field is empty."""
    target = Target("2.16.1", interval=1 << 30)
    spoilt = job("c", 3, 30, 10, start=7, edited=lambda text: text.replace(b"punch:", b"punch?"))
    target.hold(20, job("b", 1, 1, 10, start=6), job("d", 1, 1, 10, start=9), spoilt)
    return target.hold(
        40,
        job("b", 1, 1, 10, start=6),
        spoilt,
        job("a\xff\x01:", at=33, start=-5, write_bytes=Counter.of([1, 2, 1 << 40])),
        job("a", 2, 1 << 50, 34, start=8, edited=with_foreign_op),
    )


def test_facts_come_back_as_they_were() -> None:
    facts = some_facts()
    moved = facts.moved
    assert all(len(getattr(moved, name)) for name in MOVED_COLUMNS if name != "continuous")
    assert len(facts.order) * len(facts.gone) * len(facts.names) * len(facts.counters) > 0
    assert facts.unread_lines == 1

    again = joined([read(Batch.FromString(encoded(facts)))])

    assert plain(again) == plain(facts)


@pytest.mark.parametrize("instance", [None, 0, 7])
@pytest.mark.parametrize("interval", [None, 0, 600])
def test_what_was_not_read_is_not_zero(instance: int | None, interval: int | None) -> None:
    facts = Target(instance=instance, interval=interval).hold(20, job("a", 1, 1, 10))

    assert facts.mount.instance == instance
    assert facts.cleanup_interval_seconds == interval


def test_a_version_that_was_not_read_stays_unknown() -> None:
    message = Batch.FromString(encoded(some_facts()))
    message.lustre_version = ""

    assert read(message).lustre_version == ()


def test_order_and_gone_are_told_with_the_last_part_only() -> None:
    message = Batch()
    write(message, replace(some_facts(), is_last_part=False))

    assert (message.order.slot.data, message.gone.data) == (b"", b"")


def three_parts(facts: Facts) -> list[Facts]:
    """Return three parts that only differ in their slots."""
    parts = []
    for number in range(3):
        moved = replace(facts.moved, slot=facts.moved.slot + 100 * number)
        parts.append(replace(facts, part=number, is_last_part=number == 2, moved=moved))
    return parts


@pytest.mark.parametrize("places", [(1, 2), (0, 2), (0, 1), (1, 0, 2), (0, 0, 1, 2), (0, 1, 2, 2)])
def test_parts_that_are_missing_doubled_or_out_of_order_are_refused(places: tuple[int, ...]) -> None:
    parts = three_parts(some_facts())

    with pytest.raises(WireError, match="first to the last"):
        joined([parts[place] for place in places])


def test_parts_of_different_reads_are_refused() -> None:
    first, second, third = three_parts(some_facts())

    for other in (replace(second, seq=99), replace(second, target="x"), replace(second, incarnation=b"?" * 16)):
        with pytest.raises(WireError, match="mixed"):
            joined([first, other, third])


def test_a_record_in_two_parts_is_refused() -> None:
    first, second, third = three_parts(some_facts())

    with pytest.raises(WireError, match="twice"):
        joined([first, replace(second, moved=first.moved), third])


def test_both_readers_say_the_same() -> None:
    parts = [Batch.FromString(encoded(part)) for part in three_parts(some_facts())]

    fast = joined([read(part) for part in parts])
    slow = wire.joined([wire.read(part, wire.plain) for part in parts], wire.concatenated)

    assert plain(fast) == plain(slow)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_what_is_cut_into_parts_can_be_put_together(size: int) -> None:
    message = Batch.FromString(encoded(joined(three_parts(some_facts()))))
    facts = wire.read(message, wire.plain)
    facts.again = [(900, b"z", 0, 0), (901, b"y", 5, 1)]

    parts = wire.in_parts(facts, size)

    assert max(len(part.moved.slot) for part in parts) <= size
    assert max(len(part.names) + len(part.again) for part in parts) <= size
    assert plain(wire.joined(parts, wire.concatenated)) == plain(facts)


def test_parts_are_put_together_as_if_they_were_one() -> None:
    """Places in a part's columns are shifted behind those of the parts before."""
    facts = some_facts()
    facts.order = facts.gone = np.zeros(0, np.int64)
    once, thrice = facts.moved, joined(three_parts(facts)).moved
    records, rows = len(once.slot), len(once.code)

    for name in MOVED_COLUMNS:
        shift = records if name == "partial" else rows if name in {"extreme_row", "hist_row"} else 0
        numbers = [int(n) for n in getattr(once, name)]
        shift = 100 if name == "slot" else shift
        assert getattr(thrice, name).tolist() == [n + part * shift for part in range(3) for n in numbers]


def _shorter(path: str) -> Callable[[Batch], None]:
    def change(message: Batch) -> None:
        part = message
        for name in path.split("."):
            part = getattr(part, name)
        del_last = part.data[: -part.width]  # type: ignore[attr-defined]
        part.data = del_last  # type: ignore[attr-defined]

    return change


def _put(path: str, numbers: bytes) -> Callable[[Batch], None]:
    def change(message: Batch) -> None:
        part = getattr(message.jobs, path)
        part.data, part.width = numbers, 1

    return change


def _odd_width(message: Batch) -> None:
    message.jobs.slot.width = 3


def _odd_size(message: Batch) -> None:
    message.jobs.snapshot.data += b"\0"


def _no_unit(message: Batch) -> None:
    del message.dictionary.unit[-1]


def _no_job(message: Batch) -> None:
    del message.dictionary.job[-1]


def _set(**fields: object) -> Callable[[Batch], None]:
    def change(message: Batch) -> None:
        for name, value in fields.items():
            setattr(message, name, value)

    return change


def _same_code_twice(message: Batch) -> None:
    column = message.jobs.code
    assert (column.width, message.jobs.rows.width) == (1, 1)
    place = sum(message.jobs.rows.data[: message.jobs.rows.data.index(max(message.jobs.rows.data))])
    column.data = column.data[:place] + column.data[place : place + 1] * 2 + column.data[place + 2 :]


def _huge_instance(message: Batch) -> None:
    message.mount.instance = 1 << 63


def _nameless(message: Batch) -> None:
    message.target.name = ""


def _too_many_again(message: Batch) -> None:
    message.dictionary.again = 1 << 30


def _order_twice(message: Batch) -> None:
    message.order.slot.data *= 2


def _gone_twice(message: Batch) -> None:
    message.gone.data *= 2


def _moved_twice(message: Batch) -> None:
    message.jobs.slot.data = message.jobs.slot.data[: message.jobs.slot.width] * 2


def _early(slots: bytes, seconds: bytes) -> Callable[[Batch], None]:
    def change(message: Batch) -> None:
        for column, numbers in ((message.exports.early_slot, slots), (message.exports.early_seconds, seconds)):
            column.data, column.width = numbers, 1

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_set(incarnation=b"short"), id="an incarnation of other than sixteen bytes"),
        pytest.param(_set(seq=0), id="a sweep before the first"),
        pytest.param(_set(seq=1 << 63), id="a sweep after the last"),
        pytest.param(_set(tick_seconds=-1), id="a tick before the epoch"),
        pytest.param(_set(tick_seconds=1 << 50), id="a tick after the end of times"),
        pytest.param(_set(period_seconds=0), id="no time between sweeps"),
        pytest.param(_set(read_at_nanoseconds=-1), id="a read before the epoch"),
        pytest.param(_set(uptime_nanoseconds=-1), id="a read before the boot"),
        pytest.param(_nameless, id="a target without name"),
        pytest.param(_too_many_again, id="more names again than names"),
        pytest.param(_order_twice, id="a record at two places"),
        pytest.param(_gone_twice, id="a record gone twice"),
        pytest.param(_moved_twice, id="a record that moved twice"),
        pytest.param(_no_job, id="a name without its id"),
        pytest.param(_no_unit, id="a counter without its unit"),
        pytest.param(_shorter("dictionary.start"), id="a name without its start"),
        pytest.param(_shorter("dictionary.code"), id="a counter without its code"),
        pytest.param(_odd_width, id="numbers of three bytes"),
        pytest.param(_odd_size, id="half a number"),
        pytest.param(_shorter("jobs.snapshot"), id="a record without its time"),
        pytest.param(_shorter("jobs.rows"), id="a record without its number of counters"),
        pytest.param(_put("continuous", b"\1"), id="continuity of some records"),
        pytest.param(_shorter("jobs.code"), id="a value without its counter"),
        pytest.param(_shorter("jobs.samples"), id="a counter without samples"),
        pytest.param(_shorter("jobs.sum"), id="a counter without sum"),
        pytest.param(_put("rows", b"\x04\xff"), id="less than no counters"),
        pytest.param(_put("partial", b"\2"), id="a third of two records"),
        pytest.param(_put("partial", b"\xff"), id="a record before the first"),
        pytest.param(_put("extreme_row", b"\x7f"), id="extremes of no counter"),
        pytest.param(_put("hist_row", b"\x7f"), id="a histogram of no counter"),
        pytest.param(_same_code_twice, id="a counter twice in a record"),
        pytest.param(_huge_instance, id="an instance that no file system reaches"),
        pytest.param(_early(b"\1\2", b"\x14"), id="a client that was read early, and not by how much"),
        pytest.param(_early(b"\1", b"\xff"), id="a client that was read after it was told"),
        pytest.param(_early(b"\1\1", b"\x14\x14"), id="a client that was read early twice"),
    ],
)
def test_a_message_that_contradicts_itself_is_refused(change: Callable[[Batch], None]) -> None:
    message = Batch.FromString(encoded(some_facts()))
    read(message)
    change(message)

    with pytest.raises(WireError):
        read(message)
