"""Facts as messages and back, and messages that contradict themselves."""

from collections.abc import Callable

import pytest

from harvest.v1.stream_pb2 import Batch
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
    for name in ("order", "gone", "names", "counters"):
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
    write(message, some_facts(), last_of_target=False, last_of_sweep=False)

    assert (message.order.slot.data, message.gone.data) == (b"", b"")


def test_parts_are_put_together_as_if_they_were_one() -> None:
    """Places in a part's columns are shifted behind those of the parts before."""
    facts = some_facts()
    once, thrice = joined([facts]).moved, joined([facts, facts, facts]).moved
    records, rows = len(once.slot), len(once.code)

    for name in MOVED_COLUMNS:
        shift = records if name == "partial" else rows if name in {"extreme_row", "hist_row"} else 0
        numbers = [int(n) for n in getattr(once, name)]
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


@pytest.mark.parametrize(
    "change",
    [
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
    ],
)
def test_a_message_that_contradicts_itself_is_refused(change: Callable[[Batch], None]) -> None:
    message = Batch.FromString(encoded(some_facts()))
    read(message)
    change(message)

    with pytest.raises(WireError):
        read(message)
