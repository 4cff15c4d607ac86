from pathlib import Path

import pytest

from harvest_core.lustre.counters import Counter
from harvest_core.lustre.stats import parse_stats

CASES = Path(__file__).parents[2] / "data" / "lustre"


def one(line: bytes) -> Counter:
    """Read a line that must be one counter."""
    parsed = parse_stats(line + b"\n")
    assert parsed.unread == ()
    (counter,) = parsed.counters
    return counter


def test_a_counter_of_samples_only_has_no_other_values() -> None:
    assert one(b"punch                     3 samples [reqs]") == Counter("punch", "reqs", 3)


def test_a_counter_may_have_three_or_four_values() -> None:
    assert one(b"read_bytes  5 samples [bytes] 1 9 20") == Counter("read_bytes", "bytes", 5, 1, 9, 20)
    assert one(b"read_bytes  5 samples [bytes] 1 9 20 99") == Counter("read_bytes", "bytes", 5, 1, 9, 20, 99)


def test_a_name_longer_than_its_column_is_read() -> None:
    assert one(b"llog_origin_handle_next_block 40 samples [usecs] 1 2 60 100").name == "llog_origin_handle_next_block"


@pytest.mark.parametrize(
    ("printed", "unit"),
    [
        (b"reqs", "reqs"),
        (b"regs", "reqs"),
        (b"bytes", "bytes"),
        (b"usec", "usecs"),
        (b"usecs", "usecs"),
        (b"sec", "secs"),
        (b"secs", "secs"),
        (b"bufs", "bufs"),
        (b"pages", "pages"),
        (b"locks", "locks"),
        (b"locks/s", "locks/s"),
        (b"slv", "slv"),
        (b"fake", "fake"),
        (b"parsecs", "parsecs"),
    ],
)
def test_units_have_one_name_on_all_versions_and_unknown_ones_are_kept(printed: bytes, unit: str) -> None:
    assert one(b"x 1 samples [" + printed + b"]").unit == unit


def test_signed_and_saturated_sums_are_given_as_printed() -> None:
    assert one(b"write 9 samples [usecs] 3 8 -823 -1").sum == -823
    assert one(b"write 9 samples [usecs] 3 8 9223372036854775807 9223372036854775807").sum == 2**63 - 1


def test_a_counter_that_occurs_twice_is_given_twice_in_the_order_of_the_file() -> None:
    parsed = parse_stats(b"statfs 7 samples [reqs]\nping 1 samples [reqs]\nstatfs 2 samples [reqs]\n")
    assert [(counter.name, counter.samples) for counter in parsed.counters] == [
        ("statfs", 7),
        ("ping", 1),
        ("statfs", 2),
    ]


@pytest.mark.parametrize(
    ("printed", "time"),
    [
        (b"1438000001.20113 secs.usecs", "1438000001.020113"),
        (b"1438000001.7 secs.usecs", "1438000001.000007"),
        (b"1438000001.0 secs.usecs", "1438000001.000000"),
        (b"1438000001.120113 secs.usecs", "1438000001.120113"),
        (b"1700000000.000000113 secs.nsecs", "1700000000.000000113"),
        (b"0.000000000 secs.nsecs", "0.000000000"),
    ],
)
def test_microseconds_of_old_servers_get_their_leading_zeros_back(printed: bytes, time: str) -> None:
    assert parse_stats(b"snapshot_time             " + printed + b"\n").snapshot_time == time


def test_the_name_column_may_be_wider() -> None:
    text = b"%-35s 1700000000.000000113 secs.nsecs\n%-35s 3 samples [usecs] 1 1 3 3\n" % (b"snapshot_time", b"open")
    parsed = parse_stats(text)
    assert (parsed.snapshot_time, parsed.counters[0].sum) == ("1700000000.000000113", 3)


def test_start_time_is_known_only_where_it_is_printed() -> None:
    old = parse_stats(b"snapshot_time  1571000001.000000113 secs.nsecs\n")
    new = parse_stats(b"snapshot_time  17.5 secs.nsecs\nstart_time  16.5 secs.nsecs\nelapsed_time  1.0 secs.nsecs\n")
    assert (old.start_time, new.start_time) == (None, "16.5")
    assert (old.structure_lines, new.structure_lines) == (1, 3)


@pytest.mark.parametrize(
    "header",
    [
        b"snapshot_time:         1571000001.000000113 (secs.nsecs)",
        b"snapshot_time:            1571000001.000000113 secs.nsecs",
    ],
)
def test_the_header_of_brw_stats_gives_its_time(header: bytes) -> None:
    assert parse_stats(header + b"\n").snapshot_time == "1571000001.000000113"


@pytest.mark.parametrize(
    "line",
    [
        b"what is this",
        b"open 5 samples",
        b"open five samples [reqs]",
        b"open 5 examples [reqs]",
        b"open 5 samples reqs",
        b"open 5 samples []",
        b"open 5 samples [reqs] 1",
        b"open 5 samples [reqs] 1 2 3 4 5",
        b"lockless_read_bytes\t\t7",
        b"1:\t\t         1  50  50   |    0   0   0",
        b"snapshot_time             soon",
    ],
)
def test_a_line_that_makes_no_sense_costs_that_line_only(line: bytes) -> None:
    parsed = parse_stats(b"open 5 samples [reqs]\n" + line + b"\nclose 4 samples [reqs]\n")
    assert parsed.unread == (line,)
    assert [counter.name for counter in parsed.counters] == ["open", "close"]


def test_bytes_that_are_not_text_survive_in_a_name() -> None:
    assert one(b"op\xff 1 samples [reqs]").name == "op\udcff"


@pytest.mark.parametrize("text", [b"", b"\n\n"])
def test_an_empty_file_holds_nothing(text: bytes) -> None:
    parsed = parse_stats(text)
    assert (parsed.counters, parsed.snapshot_time, parsed.start_time, parsed.unread) == ((), None, None, ())


def test_the_last_line_may_lack_its_newline() -> None:
    assert parse_stats(b"open 5 samples [reqs]") == parse_stats(b"open 5 samples [reqs]\n")


@pytest.mark.parametrize("path", sorted(CASES.glob("*/stats")), ids=lambda path: f"{path.parent.name}")
def test_every_line_of_a_case_is_counted_once(path: Path) -> None:
    text = path.read_bytes()
    parsed = parse_stats(text)
    assert len(parsed.counters) + len(parsed.unread) + parsed.structure_lines == text.count(b"\n")
