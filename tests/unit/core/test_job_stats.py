from pathlib import Path

import pytest

from harvest_core.lustre.counters import Counter
from harvest_core.lustre.job_stats import JobRecord, JobStats, parse_job_stats, parse_record

CASES = Path(__file__).parents[2] / "data" / "lustre"
HEAD = b"- job_id:          73001\n  snapshot_time:   1700000000\n"


def record(*lines: bytes) -> JobRecord:
    """Read one record of a server with whole-second times."""
    (only,) = parse_job_stats(b"job_stats:\n" + HEAD + b"".join(line + b"\n" for line in lines)).records
    return only


def counter(line: bytes) -> Counter:
    """Read a line that must be a counter without anything wrong."""
    read = record(line)
    assert (read.unread, read.doubtful) == ((), ())
    (only,) = read.counters
    return only


def damaged(line: bytes) -> Counter:
    """Read a line that must be a counter of which something is left out, and reported."""
    read = record(line)
    assert (read.unread, read.doubtful) == ((), (line,))
    (only,) = read.counters
    return only


def lines_read(parsed: JobStats) -> int:
    """Count lines by what became of them."""
    outside = len(parsed.unread) + parsed.structure_lines
    return outside + sum(len(r.counters) + len(r.unread) + r.structure_lines for r in parsed.records)


def printed_id(text: bytes, time: bytes = b"1700000000") -> bytes:
    (only,) = parse_job_stats(b"- job_id:          " + text + b"\n  snapshot_time:   " + time + b"\n").records
    return only.job


# values


def test_a_counter_of_samples_only_has_no_other_values() -> None:
    assert counter(b"  punch:           { samples:           3, unit:  reqs }") == Counter("punch", "reqs", 3)


def test_all_values_of_a_counter_are_read() -> None:
    line = b"  write:           { samples:  2, unit: usecs, min:  3, max:  9, sum:  12, sumsq:  90 }"
    assert counter(line) == Counter("write", "usecs", 2, 3, 9, 12, 90)


def test_values_glued_to_their_names_are_read() -> None:
    line = b"  write_bytes:     { samples:          25, unit: bytes, min:10485760, max:16777216, sum:1234567890123456 }"
    assert counter(line) == Counter("write_bytes", "bytes", 25, 10485760, 16777216, 1234567890123456)


def test_a_long_name_may_push_the_columns() -> None:
    line = b"  parallel_rename_file: { samples:           1, unit: usecs, min: 7, max: 7, sum: 7, sumsq: 49 }"
    assert counter(line).name == "parallel_rename_file"


def test_an_unknown_op_with_an_unknown_unit_is_kept() -> None:
    assert counter(b"  teleport:        { samples:  2, unit: light-years }") == Counter("teleport", "light-years", 2)


@pytest.mark.parametrize(("printed", "unit"), [(b"usec", "usecs"), (b"sec", "secs"), (b"regs", "reqs")])
def test_units_have_one_name_on_all_versions(printed: bytes, unit: str) -> None:
    assert counter(b"  open:            { samples:  2, unit: " + printed + b" }").unit == unit


def test_a_sum_of_nineteen_digits_below_the_largest_number_is_kept() -> None:
    line = b"  read_bytes:      { samples: 2, unit: bytes, min: 1, max: 2, sum: 9223372036854775806 }"
    assert counter(line).sum == 2**63 - 2


def test_sumsq_may_wrap_or_saturate_without_being_reported() -> None:
    line = b"  read_bytes:      { samples: 2, unit: bytes, min: 1, max: 2, sum: 3, sumsq: 18446744073709551615 }"
    assert counter(line).sumsq == 2**64 - 1


# bad values


@pytest.mark.parametrize(
    "bad", [b"-5", b"9223372036854775807", b"18446744073709551611", b"", b"x", b"1.5", b"0x1f", b"7" * 41]
)
def test_a_bad_sum_loses_exactly_that_value_and_is_reported(bad: bytes) -> None:
    line = (
        b"  read_bytes:      { samples: 2, unit: bytes, min: 1, max: 2, sum: " + bad + b", sumsq: 5, hist: { 2: 2 } }"
    )
    assert damaged(line) == Counter("read_bytes", "bytes", 2, 1, 2, None, 5, ((1, 2),))


def test_one_bad_sum_in_one_job_leaves_every_other_counter_as_it_is() -> None:
    good = HEAD + b"  read:            { samples: 1, unit: bytes, min: 4, max: 4, sum: 4 }\n"
    bad = good.replace(b"sum: 4", b"sum: -5")
    first, second, third = parse_job_stats(b"job_stats:\n" + good + bad + good).records
    assert first == third
    assert first.counters == (Counter("read", "bytes", 1, 4, 4, 4),)
    assert second.counters == (Counter("read", "bytes", 1, 4, 4, None),)
    assert [len(r.doubtful) for r in (first, second, third)] == [0, 1, 0]


def test_bad_samples_lose_the_samples_only() -> None:
    line = b"  read_bytes:      { samples: -2, unit: bytes, min: 1, max: 2, sum: 3 }"
    assert damaged(line) == Counter("read_bytes", "bytes", None, 1, 2, 3)


def test_a_histogram_with_an_unknown_bucket_loses_the_histogram_only() -> None:
    line = b"  read_bytes:      { samples: 2, unit: bytes, min: 1, max: 2, sum: 3, hist: { 3K: 2 } }"
    assert damaged(line) == Counter("read_bytes", "bytes", 2, 1, 2, 3)


def test_an_unknown_value_is_reported_and_the_known_ones_are_kept() -> None:
    line = b"  read_bytes:      { samples: 2, unit: bytes, min: 1, max: 2, sum: 3, median: 2 }"
    assert damaged(line) == Counter("read_bytes", "bytes", 2, 1, 2, 3)


@pytest.mark.parametrize(
    "line",
    [
        b"  what is this",
        b"  open:            { samples: 2 }",  # without its unit a number means nothing
        b"  open:            { samples: -2, unit: reqs }",
        b"  open:            { samples: 2, unit: reqs",
        b"  open:            samples: 2, unit: reqs }",
        b"  two words:       { samples: 2, unit: reqs }",
        b"open",
    ],
)
def test_a_line_that_makes_no_sense_costs_that_line_only(line: bytes) -> None:
    good = b"  punch:           { samples: 3, unit: reqs }"
    read = record(good, line, good.replace(b"punch", b"close"))
    assert read.unread == (line,)
    assert read.counters == (Counter("punch", "reqs", 3), Counter("close", "reqs", 3))


# hist


@pytest.mark.parametrize(
    ("buckets", "pairs"),
    [
        (b"  ", ()),  # two blanks: what an empty one is printed as
        (b" ", ()),
        (b" 1: 7 ", ((0, 7),)),
        (b" 2: 1, 512: 2, 1K: 3 ", ((1, 1), (9, 2), (10, 3))),
        (b" 512K: 1, 1M: 2, 512M: 3, 1G: 4, 2G: 5 ", ((19, 1), (20, 2), (29, 3), (30, 4), (31, 5))),
    ],
)
def test_histogram_buckets_are_powers_of_two(buckets: bytes, pairs: tuple[tuple[int, int], ...]) -> None:
    line = b"  read_bytes: { samples: 2, unit: bytes, min: 1, max: 2, sum: 3, sumsq: 5, hist: {" + buckets + b"} }"
    assert counter(line).histogram == pairs


# times


def test_whole_second_times_are_kept_as_printed() -> None:
    assert (record().snapshot_time, record().start_time) == ("1700000000", None)


def test_times_with_nanoseconds_keep_every_digit() -> None:
    text = (
        b"- job_id:          7\n"
        b"  snapshot_time:   1700000000.000000005 secs.nsecs\n"
        b"  start_time:      1690000000.500000000 secs.nsecs\n"
        b"  elapsed_time:    9999999.500000005 secs.nsecs\n"
    )
    (read,) = parse_job_stats(text).records
    assert (read.snapshot_time, read.start_time) == ("1700000000.000000005", "1690000000.500000000")
    assert read.structure_lines == 4


def test_times_at_column_0_with_a_blank_before_the_colon_are_read() -> None:
    text = (
        b"- job_id:          7\n"
        b"snapshot_time   : 5400.000000250 secs.nsecs\n"
        b"start_time      : 61.000000007 secs.nsecs\n"
        b"elapsed_time    : 5339.000000243 secs.nsecs\n"
    )
    (read,) = parse_job_stats(text).records
    assert (read.job, read.snapshot_time, read.start_time) == (b"7", "5400.000000250", "61.000000007")


def test_a_time_that_makes_no_sense_is_unread_and_the_record_goes_on() -> None:
    text = b"- job_id:          7\n  snapshot_time:   soon\n  open:            { samples: 2, unit: reqs }\n"
    (read,) = parse_job_stats(text).records
    assert (read.job, read.snapshot_time, read.unread) == (b"7", None, (b"  snapshot_time:   soon",))
    assert read.counters == (Counter("open", "reqs", 2),)


# headers and ends


def test_headers_may_stand_anywhere_or_nowhere() -> None:
    body = HEAD + b"  open:            { samples: 2, unit: reqs }\n"
    plain = parse_job_stats(body + body)
    crowded = parse_job_stats(b"job_stats:\njob_stats:\n" + body + b"job_stats:\n" + body + b"job_stats:\n")
    assert [r.counters for r in plain.records] == [r.counters for r in crowded.records]
    assert all(not r.unread and not r.doubtful for r in crowded.records)
    assert (plain.unread, crowded.unread) == ((), ())


@pytest.mark.parametrize("text", [b"", b"job_stats:\n", b"job_stats:", b"\n\n"])
def test_a_file_without_jobs_has_neither_records_nor_unread_lines(text: bytes) -> None:
    parsed = parse_job_stats(text)
    assert (parsed.records, parsed.unread) == ((), ())


def test_the_last_record_may_lack_its_newline() -> None:
    text = b"job_stats:\n" + HEAD + b"  open:            { samples: 2, unit: reqs }"
    assert parse_job_stats(text) == parse_job_stats(text + b"\n")


def test_lines_before_the_first_record_that_are_no_header_are_unread() -> None:
    parsed = parse_job_stats(b"not supported\n" + HEAD)
    assert parsed.unread == (b"not supported",)
    assert len(parsed.records) == 1


def test_a_record_cut_inside_a_line_keeps_the_lines_before_the_cut() -> None:
    read = record(b"  open:            { samples: 2, unit: reqs }", b"  close:           { samp")
    assert read.counters == (Counter("open", "reqs", 2),)
    assert read.unread == (b"  close:           { samp",)


def test_a_record_of_an_id_alone_is_a_job_without_counters() -> None:
    (read,) = parse_job_stats(b"job_stats:\n- job_id:          7").records
    assert (read.job, read.snapshot_time, read.counters) == (b"7", None, ())


def test_records_come_in_the_order_of_the_file_and_equal_ids_stay_apart() -> None:
    text = b"".join(HEAD.replace(b"73001", name) for name in (b"b?", b"a", b"b?"))
    assert [r.job for r in parse_job_stats(text).records] == [b"b?", b"a", b"b?"]


# wrapped lines


@pytest.mark.parametrize("broken_at", [b"{ ", b"samples: 2, ", b"min: 3, ", b"sum: 12, ", b"hist: { ", b"4: 1, "])
def test_a_counter_broken_over_lines_is_joined_until_its_braces_close(broken_at: bytes) -> None:
    whole = b"  read_bytes: { samples: 2, unit: bytes, min: 3, max: 9, sum: 12, hist: { 4: 1, 16: 1 } }"
    before, after = whole.split(broken_at, 1)
    read = record(before + broken_at.rstrip(), b"    " + after, b"  punch: { samples: 1, unit: reqs }")
    assert read.counters == (
        Counter("read_bytes", "bytes", 2, 3, 9, 12, None, ((2, 1), (4, 1))),
        Counter("punch", "reqs", 1),
    )
    assert (read.unread, read.doubtful) == ((), ())


def test_a_counter_that_never_closes_does_not_swallow_the_next_one() -> None:
    read = record(b"  open: { samples: 2, unit: reqs,", b"  punch: { samples: 1, unit: reqs }")
    assert read.counters == (Counter("punch", "reqs", 1),)
    assert read.unread == (b"  open: { samples: 2, unit: reqs,",)


def test_a_wrapped_counter_with_a_bad_value_is_reported_with_all_its_lines() -> None:
    read = record(b"  read: { samples: 2, unit: bytes,", b"min: 1, max: 2, sum: -5 }")
    assert read.counters == (Counter("read", "bytes", 2, 1, 2, None),)
    assert read.doubtful == (b"  read: { samples: 2, unit: bytes,\nmin: 1, max: 2, sum: -5 }",)


# ids; hostile ones are in test_hostile_ids.py


def test_an_id_starts_at_the_column_of_the_other_values() -> None:
    assert printed_id(b"  two in front") == b"  two in front"
    assert printed_id(b"one behind ") == b"one behind "
    assert printed_id(b"   ") == b"   "


def test_an_id_in_another_layout_has_no_blanks_around_it() -> None:
    (read,) = parse_job_stats(b"- job_id: 7\n  snapshot_time: 1700000000\n").records
    assert read.job == b"7"


@pytest.mark.parametrize("line", [b"- job_id:", b"- job_id: ", b"- job_id:          "])
def test_nothing_behind_job_id_is_an_empty_id(line: bytes) -> None:
    (read,) = parse_job_stats(line + b"\n  snapshot_time:   1700000000\n").records
    assert read.job == b""


def test_quotes_are_undone_where_times_have_nanoseconds() -> None:
    assert printed_id(b'"a\\x20b:1"', b"1700000000.000000001 secs.nsecs") == b"a b:1"


def test_quotes_are_the_ids_own_where_times_are_whole_seconds() -> None:
    assert printed_id(b'"a\\x20b:1"') == b'"a\\x20b:1"'


@pytest.mark.parametrize("text", [b'"a b"', b'"open', b'open"', b'"\\x2"', b'"\\xzz"', b'"a"b"', b"\\x20"])
def test_what_no_server_would_quote_like_that_is_the_id_itself(text: bytes) -> None:
    assert printed_id(text, b"1700000000.000000001 secs.nsecs") == text


def test_a_raw_newline_of_an_old_server_belongs_to_the_id() -> None:
    assert printed_id(b"line\nbreak") == b"line\nbreak"


def test_a_lone_id_line_belongs_to_the_id_of_the_record_that_follows() -> None:
    text = b"job_stats:\n- job_id:          a\n- job_id: 7\n  snapshot_time:   1700000000\n" + HEAD
    assert [r.job for r in parse_job_stats(text).records] == [b"a\n- job_id: 7", b"73001"]


def test_a_lone_id_line_too_long_for_one_id_is_a_record_of_its_own() -> None:
    text = b"- job_id:          " + b"a" * 25 + b"\n" + HEAD
    assert [r.job for r in parse_job_stats(text).records] == [b"a" * 25, b"73001"]


# every line once


def hand_made() -> bytes:
    counters = b"  open: { samples: 2, unit: reqs }\n  read: { samples: 1, unit: bytes,\nmin: 1, max: 2, sum: -5 }\n\n"
    strange = b"  what is this\n  close: { samples: 2, unit:\n"
    return b"junk\njob_stats:\n\n" + HEAD + counters + strange + b"job_stats:\n" + HEAD + counters + b"- job_id:"


@pytest.mark.parametrize("end", range(0, len(hand_made()), 7))
def test_every_line_is_counted_once_wherever_the_text_is_cut(end: int) -> None:
    text = hand_made()[:end]
    assert lines_read(parse_job_stats(text)) == len(text.removesuffix(b"\n").split(b"\n")) - (text == b"")


@pytest.mark.parametrize("path", sorted(CASES.glob("*/root/**/job_stats")), ids=lambda path: f"{path.parts[-8]}")
def test_every_line_of_a_case_is_counted_once(path: Path) -> None:
    text = path.read_bytes()
    assert lines_read(parse_job_stats(text)) == text.count(b"\n")


def test_of_a_counter_that_is_there_twice_the_first_is_kept() -> None:
    line = b"  write_bytes:     { samples: %d, unit: bytes, min: 1, max: 9, sum: %d }\n"
    text = b"- job_id:          a\n  snapshot_time:   1001\n" + line % (5, 50) + line % (6, 60)

    record = parse_record(text)

    assert [counter.sum for counter in record.counters] == [50]
    assert len(record.unread) == 1
