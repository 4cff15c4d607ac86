from random import Random

from harvest_core.lustre.clients import ClientCounters, client_counters, moving_part
from harvest_core.lustre.columns import ABSENT, Codes, JobColumns, nanoseconds
from harvest_core.lustre.counters import counted
from harvest_core.lustre.stats import parse_stats

TIMES = (
    b"snapshot_time             1700418061.000007919 secs.nsecs\n"
    b"start_time                1700000000.000007919 secs.nsecs\n"
    b"elapsed_time              418061.000000000 secs.nsecs\n"
)
COUNTERS = (
    b"read_bytes                81664 samples [bytes] 4096 1048576 85630910464 89790517570699264\n"
    b"setattr                   7 samples [reqs]\n"
    b"ping                      55 samples [reqs]\n"
    b"statfs                    31 samples [usec] 3 9117 12865 -5\n"
)
START = 1_700_000_000_000_007_919


def carefully(text: bytes) -> ClientCounters:
    """Read a file line by line, as if nothing were usual."""
    stats = parse_stats(text)
    rows = {
        (each.name, each.unit): (counted(each.samples), counted(each.sum))
        for each in stats.counters
        if each.name != "ping"
    }
    return ClientCounters(
        start=nanoseconds(stats.start_time),
        keys=tuple(rows),
        samples=[ABSENT if samples is None else samples for samples, _ in rows.values()],
        sums=[ABSENT if total is None else total for _, total in rows.values()],
        trouble=(*stats.unread, *stats.doubtful),
        is_partial=bool(stats.unread),
    )


def test_only_what_is_summed_is_kept_and_pings_are_left_out() -> None:
    assert client_counters(TIMES + COUNTERS) == ClientCounters(
        start=START,
        keys=(("read_bytes", "bytes"), ("setattr", "reqs"), ("statfs", "usecs")),
        samples=[81664, 7, 31],
        sums=[85630910464, ABSENT, 12865],
    )


def test_servers_without_a_start_time_say_none() -> None:
    head = b"snapshot_time             1700418061.000007919 (secs.nsecs)\n"

    assert client_counters(head + COUNTERS) == client_counters(TIMES + COUNTERS)._replace(start=0)


def test_a_counter_that_stands_there_twice_is_added_up() -> None:
    twice = b"statfs 9 samples [reqs]\nstatfs 4 samples [reqs]\n"

    read = client_counters(TIMES + twice)

    assert (read.keys, read.samples, read.sums) == ((("statfs", "reqs"),), [13], [ABSENT])


def test_a_sum_that_is_none_any_more_is_left_out_and_told() -> None:
    line = b"write_bytes 5 samples [bytes] 1 2 9223372036854775807 3\n"

    read = client_counters(TIMES + line)

    assert (read.samples, read.sums, read.trouble) == ([5], [ABSENT], (line.rstrip(),))
    assert not read.is_partial


def test_a_line_that_is_not_understood_makes_the_rest_a_part() -> None:
    read = client_counters(TIMES + b"what is this\nread 3 samples [reqs]\n")

    assert (read.keys, read.samples, read.trouble, read.is_partial) == (
        (("read", "reqs"),),
        [3],
        (b"what is this",),
        True,
    )


def test_usual_files_are_read_as_carefully_as_any_other() -> None:
    random = Random(6)
    pieces = [
        b"",
        b" ",
        b"\n",
        b"-",
        b"0",
        b"9" * 18,
        b"_",
        b"samples",
        b"[",
        b"\t",
        b"\r",
        b"\xff",
        b"ping ",
        b"(",
        b".5",
    ]
    for _ in range(3_000):
        text = TIMES + COUNTERS
        for _ in range(random.randrange(3)):
            begin = random.randrange(len(text))
            text = text[:begin] + random.choice(pieces) + text[begin + random.randrange(3) :]
        if not random.randrange(9):
            text = text[: random.randrange(len(text))]
        assert client_counters(text) == carefully(text), text


def test_columns_have_the_rows_of_each_client() -> None:
    columns, codes = JobColumns(), Codes()

    client_counters(TIMES + COUNTERS).append_to(columns, 4, codes)
    client_counters(TIMES + b"oops\nsetattr 8 samples [reqs]\n").append_to(columns, 9, codes)

    assert (columns.slot.tolist(), columns.rows.tolist(), columns.partial.tolist()) == ([4, 9], [3, 1], [1])
    assert columns.code.tolist() == [0, 1, 2, 1]
    assert columns.samples.tolist() == [81664, 7, 31, 8]
    assert columns.start.tolist() == [START, START]


def test_the_time_of_the_read_and_pings_are_no_movement() -> None:
    later = TIMES.replace(b"1700418061", b"1700418099").replace(b" 418061", b" 418099")

    assert moving_part(later + COUNTERS.replace(b"55 samples", b"56 samples")) == moving_part(TIMES + COUNTERS)


def test_another_start_or_number_is_movement() -> None:
    before = moving_part(TIMES + COUNTERS)

    assert moving_part(TIMES.replace(b"1700000000", b"1700000001") + COUNTERS) != before
    assert moving_part(TIMES + COUNTERS.replace(b"7 samples", b"8 samples")) != before
