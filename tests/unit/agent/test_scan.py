"""Following one job_stats file from read to read, with both engines."""

import io
import random
from collections.abc import Callable

import pytest

from harvest_agent.native import Native
from harvest_agent.scan import BUFFER_BYTES, Engine, JobScanner, Pure
from harvest_core.lustre.columns import Codes, JobColumns
from support.mutator import mutated
from support.records import job_stats, record

PIECE = 4096
"""What Lustre hands out per read."""


def native() -> Native:
    engine = Native.load(seed=1)
    assert engine is not None, "the compiled scanner was not built: run make ready"
    return engine


ENGINES = [pytest.param(native, id="native"), pytest.param(Pure, id="pure")]
Seen = tuple[bytes, int, tuple[int, ...], tuple[tuple[str, str, int, int, int, int], ...], tuple[object, ...]]


def scanner(engine: Engine, size: int = BUFFER_BYTES) -> JobScanner:
    return JobScanner(engine, bytearray(size), Codes())


def chunks(text: bytes) -> Callable[[memoryview], int]:
    file = io.BytesIO(text)

    def read_into(view: memoryview) -> int:
        return file.readinto(view[:PIECE])

    return read_into


def moved(follow: JobScanner, text: bytes) -> list[Seen]:
    """Read a file and return what moved, as values that can be compared between engines."""
    names = list(follow._codes.known)  # noqa: SLF001 - the codes are the test's own
    seen: list[Seen] = []
    for columns in follow.read(chunks(text)):
        names = list(follow._codes.known)  # noqa: SLF001
        seen += rows_of(columns, follow, names)
    return seen


def rows_of(columns: JobColumns, follow: JobScanner, names: list[tuple[str, str]]) -> list[Seen]:
    out: list[Seen] = []
    row = 0
    buckets = list(zip(columns.hist_row, columns.hist_power, columns.hist_count, strict=True))
    for number, slot in enumerate(columns.slot):
        end = row + columns.rows[number]
        counters = tuple(
            (*names[columns.code[at]], columns.samples[at], columns.minimum[at], columns.maximum[at], columns.sum[at])
            for at in range(row, end)
        )
        hist = tuple((at - row, power, count) for at, power, count in buckets if row <= at < end)
        partial = number in columns.partial
        times = (columns.snapshot[number], columns.whole[number], columns.start[number], partial)
        job, start, rank = follow.names[slot]
        assert start == columns.start[number]
        out.append((job, rank, times, counters, hist))
        row = end
    assert row == len(columns.code)
    return out


def jobs(seen: list[Seen]) -> list[bytes]:
    return [job for job, *_ in seen]


@pytest.mark.parametrize("engine", ENGINES)
def test_everything_moves_in_the_first_read(engine: Callable[[], Engine]) -> None:
    follow = scanner(engine())

    seen = moved(follow, job_stats(record("7", written=3), record("8")))

    assert jobs(seen) == [b"7", b"8"]
    assert seen[0][2] == (1699990003_000000005, 0, 1699990000_000000007, False)
    assert ("write_bytes", "bytes", 3, 1 << 20, 1 << 20, 3 << 20) in seen[0][3]
    assert [follow.names[slot][0] for slot in follow.order] == [b"7", b"8"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_record_that_did_not_change_is_not_reported_again(engine: Callable[[], Engine]) -> None:
    follow = scanner(engine())
    moved(follow, job_stats(record("7"), record("8")))

    seen = moved(follow, job_stats(record("7"), record("8", written=2)))

    assert jobs(seen) == [b"8"]
    assert [follow.names[slot][0] for slot in follow.order] == [b"7", b"8"]
    assert follow.gone == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_change_that_leaves_snapshot_time_alone_is_seen(engine: Callable[[], Engine]) -> None:
    """Whole seconds lose work: the bytes decide."""
    follow = scanner(engine())
    text = record("7").replace(b".000000005 secs.nsecs", b"")
    moved(follow, text)

    seen = moved(follow, text.replace(b"samples:           1", b"samples:           2"))

    assert jobs(seen) == [b"7"]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_vanished_from_a_whole_read_is_gone_and_comes_back_as_new(engine: Callable[[], Engine]) -> None:
    follow = scanner(engine())
    moved(follow, job_stats(record("7"), record("8")))

    seven = follow.order[0]
    moved(follow, job_stats(record("8")))
    gone = follow.gone
    back = moved(follow, job_stats(record("8"), record("7")))

    assert gone == [seven]
    assert jobs(back) == [b"7"]
    assert [follow.names[slot][0] for slot in follow.order] == [b"8", b"7"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_read_that_fails_midway_takes_nothing_as_gone(engine: Callable[[], Engine]) -> None:
    follow = scanner(engine())
    whole = job_stats(*(record(str(job)) for job in range(4000)))
    moved(follow, whole)
    read_into = chunks(whole)
    calls = 0

    def failing(view: memoryview) -> int:
        nonlocal calls
        calls += 1
        if calls > 300:
            raise OSError(5, "target was unmounted")
        return read_into(view)

    with pytest.raises(OSError, match="unmounted"):
        list(follow.read(failing))

    assert follow.gone == []
    assert moved(follow, whole) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_record_that_began_again_is_another_record(engine: Callable[[], Engine]) -> None:
    follow = scanner(engine())
    moved(follow, job_stats(record("7", start=1000)))
    first = follow.order[0]

    moved(follow, job_stats(record("7", start=2000)))

    assert follow.gone == [first]
    assert follow.order[0] != first


@pytest.mark.parametrize("engine", ENGINES)
def test_equal_ids_are_records_of_their_own(engine: Callable[[], Engine]) -> None:
    """Servers up to 2.14 print different ids alike."""
    follow = scanner(engine())
    first = moved(follow, job_stats(record("a?b", written=1), record("a?b", written=5)))
    assert [(job, rank) for job, rank, *_ in first] == [(b"a?b", 0), (b"a?b", 1)]

    second = moved(follow, job_stats(record("a?b", written=1), record("a?b", written=6)))

    assert [(job, rank) for job, rank, *_ in second] == [(b"a?b", 1)]
    assert follow.gone == []


@pytest.mark.parametrize("engine", ENGINES)
def test_two_records_of_the_same_bytes_stay_two(engine: Callable[[], Engine]) -> None:
    follow = scanner(engine())
    twice = job_stats(record("a?b"), record("a?b"))
    moved(follow, twice)

    moved(follow, twice)
    assert len(set(follow.order)) == 2
    assert follow.gone == []

    moved(follow, job_stats(record("a?b")))
    assert len(follow.gone) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_larger_than_the_buffer_is_read_whole(engine: Callable[[], Engine]) -> None:
    follow = scanner(engine(), size=8192)
    text = job_stats(*(record(str(job), written=job + 1) for job in range(500)))

    assert jobs(moved(follow, text)) == [b"%d" % job for job in range(500)]
    assert moved(follow, text) == []
    assert follow.unread.count == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("before", [True, False])
def test_a_line_larger_than_the_buffer_costs_that_line_only(engine: Callable[[], Engine], *, before: bool) -> None:
    made = engine()
    good = [record(f"1234567{number}") for number in range(3)]
    for pad in range(0, 4000, 37):
        follow = scanner(made, size=8192)
        junk = b"x" * (12_000 + pad) + b"\n"

        seen = moved(follow, job_stats(*([junk, *good] if before else [good[0], junk, *good[1:]])))

        assert jobs(seen) == [b"12345670", b"12345671", b"12345672"]
        assert all(len(counters) == 3 for *_, counters, _ in seen)
        assert follow.unread.count > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_thousands_of_equal_ids_take_no_longer_each(engine: Callable[[], Engine]) -> None:
    """One user can make them on a server that prints what it cannot print as question marks."""
    follow = scanner(engine())

    seen = moved(follow, job_stats(*(record("????", written=number + 1) for number in range(6000))))

    assert [rank for _, rank, *_ in seen] == list(range(6000))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_file_is_a_whole_read_of_no_jobs(engine: Callable[[], Engine]) -> None:
    follow = scanner(engine())
    moved(follow, job_stats(record("7")))
    seven = follow.order[0]

    assert moved(follow, b"") == []
    assert follow.gone == [seven]


def test_both_engines_read_mutated_text_alike() -> None:
    rng = random.Random(3)
    base = job_stats(
        record("7", written=3),
        record('"a\\x20b"', written=2),
        record("c d", header=False),
        record("h").replace(b" }\n", b", hist: { 1M: 1, 512K: 2 } }\n"),
        record("z").replace(b" }\n", b", hist: { 032K: 1 } }\n"),
        record("9").replace(b".000000005 secs.nsecs", b"").replace(b"min:  ", b"min:"),
    )
    compiled = native()
    for number in range(400):
        texts = [base if number % 3 else base * 20, mutated(base, rng), mutated(base, rng)]
        two = [scanner(compiled, size=8192), scanner(Pure(), size=8192)]
        for text in texts:
            left, right = (sorted(moved(follow, text)) for follow in two)
            assert left == right, f"input {number}"
            assert two[0].unread == two[1].unread
            assert two[0].gone == two[1].gone
            assert [two[0].names[s] for s in two[0].order] == [two[1].names[s] for s in two[1].order]


@pytest.mark.parametrize("make_engine", ENGINES)
def test_no_slot_is_given_twice_where_one_that_prints_alike_follows_in_another_buffer(
    make_engine: Callable[[], Engine],
) -> None:
    """The younger of two has the rank of one that is gone; the older moved, and comes first."""
    follow = scanner(make_engine(), size=8192)
    between = [record(f"other{number}") for number in range(40)]
    moved(follow, job_stats(record("a", written=1), record("a", written=2), *between))
    moved(follow, job_stats(record("a", written=2), *between, record("a", written=3)))

    moved(follow, job_stats(record("a", written=9), *between, record("a", written=3)))

    assert len(set(follow.order)) == len(follow.order) == 42


@pytest.mark.parametrize("make_engine", ENGINES)
def test_a_counter_that_is_there_twice_is_sent_once(make_engine: Callable[[], Engine]) -> None:
    once = record("7", written=3)
    line = next(line for line in once.splitlines(keepends=True) if b"write_bytes" in line)
    follow = scanner(make_engine())

    [seen] = moved(follow, job_stats(once + line.replace(b"3", b"4")))

    names = [counter[:2] for counter in seen[-2]]
    assert len(names) == len(set(names))
    assert follow.unread.count == 1
