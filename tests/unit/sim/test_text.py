from harvest_sim.counters import Counter, bucket
from harvest_sim.ops import Kind
from harvest_sim.text import job_stats_text, lctl_text, record_text, uuid_text
from harvest_sim.versions import Version

S = 1_000_000_000


def lines_of(version: str, kind: Kind = Kind.OST, *, stats_header: bool = True, **amounts: list[int]) -> list[bytes]:
    text = record_text(
        Version.parse(version),
        kind,
        b"42",
        {name: Counter.of(values) for name, values in amounts.items()},
        snapshot_ns=1_700_000_010 * S + 5,
        start_ns=1_700_000_000 * S,
        stats_header=stats_header,
    )
    return text.splitlines()


def test_1_1_a_record_of_2_3() -> None:
    assert lines_of("2.3.0", read=[4096, 8192], setattr=[0]) == [
        b"- job_id:          42",
        b"  snapshot_time:   1700000010",
        b"  read:            { samples:           2, unit: bytes, min:    4096, max:    8192, sum:           12288 }",
        b"  write:           { samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }",
        b"  setattr:         { samples:           1, unit:  reqs }",
        b"  punch:           { samples:           0, unit:  reqs }",
        b"  sync:            { samples:           0, unit:  reqs }",
    ]


def test_1_1_eight_digits_glue_up_to_2_14_50() -> None:
    line = b"  write_bytes:     { samples:           1, unit: bytes, min:16777216, max:16777216, sum:        16777216 }"
    assert lines_of("2.12.9", write_bytes=[16777216])[3] == line


def test_1_1_sumsq_without_blanks_in_2_14_0() -> None:
    assert lines_of("2.14.0", Kind.MDT, open=[315])[2] == (
        b"  open:            { samples:           1, unit: usecs, min:     315, max:     315, "
        b"sum:             315, sumsq:              99225 }"
    )


def test_1_1_blanks_from_2_14_51() -> None:
    assert lines_of("2.14.0_ddn100", write_bytes=[16777216])[3] == (
        b"  write_bytes:     { samples:           1, unit: bytes, min: 16777216, max: 16777216, "
        b"sum:         16777216, sumsq:    281474976710656 }"
    )


def test_1_1_times_of_2_15_0_stand_at_column_0() -> None:
    assert lines_of("2.15.0")[:4] == [
        b"- job_id:          42",
        b"snapshot_time   : 1700000010.000000005 secs.nsecs",
        b"start_time      : 1700000000.000000000 secs.nsecs",
        b"elapsed_time    : 10.000000005 secs.nsecs",
    ]


def test_1_1_times_from_2_15_2() -> None:
    assert lines_of("2.15.2")[1:4] == [
        b"  snapshot_time:   1700000010.000000005 secs.nsecs",
        b"  start_time:      1700000000.000000000 secs.nsecs",
        b"  elapsed_time:    10.000000005 secs.nsecs",
    ]


def test_1_1_enable_stats_header_0_leaves_out_start_and_elapsed_from_2_15_58() -> None:
    assert lines_of("2.16.1", stats_header=False)[1:3] == [
        b"  snapshot_time:   1700000010.000000005 secs.nsecs",
        lines_of("2.16.1")[4],
    ]
    assert lines_of("2.15.8", stats_header=False) == lines_of("2.15.8")


def test_1_4_hist_has_only_buckets_with_something_in_them() -> None:
    lines = lines_of("2.16.1", write_bytes=[0, 1, 2, 4096, 4097, 1 << 20, (1 << 20) + 1, 1 << 40])
    assert lines[4].endswith(b"sumsq:                  0, hist: {  } }")
    assert lines[5].endswith(b"hist: { 1: 2, 2: 1, 4K: 1, 8K: 1, 1M: 1, 2M: 1, 2G: 1 } }")


def test_1_4_bucket_j_ends_at_2_to_the_j() -> None:
    assert [bucket(amount) for amount in (0, 1, 2, 3, 4, 5)] == [0, 0, 1, 2, 2, 3]
    assert bucket(1 << 31) == bucket(1 << 50) == 31


def test_1_1_long_names_push_the_columns() -> None:
    lines = lines_of("2.16.1", Kind.MDT)
    assert b"  parallel_rename_file: { samples:           0, unit: usecs, min:        0, max:        0, " in lines[19]


def test_1_1_a_file_without_a_job_has_no_header_from_2_16_51() -> None:
    assert job_stats_text(Version.parse("2.16.50"), []) == b"job_stats:\n"
    assert job_stats_text(Version.parse("2.16.51"), []) == b""
    assert job_stats_text(Version.parse("2.16.51"), [b"- job_id:\n"]) == b"job_stats:\n- job_id:\n"


def test_2_7_job_stats_wrap_unsigned_and_saturate_from_2_16_54() -> None:
    huge = (1 << 63) + 7
    assert b"sum: %d, sumsq:" % huge in lines_of("2.16.1", read=[huge])[6]
    assert b"sum: %d, sumsq: %d " % ((1 << 63) - 1, (1 << 63) - 1) in lines_of("2.17.0", read=[huge])[6]
    assert b"sumsq:                  1, hist" in lines_of("2.16.1", read_bytes=[(1 << 64) + 1])[4]


def test_2_5_uuid_has_one_line_per_export() -> None:
    assert uuid_text([]) == b""
    assert uuid_text(["a", "b"]) == b"a\nb\n"


def test_3_1_lctl_puts_one_line_behind_the_name_and_more_below_it() -> None:
    version = Version.parse("2.16.1")
    parameters = [
        ("mdt.a.instance", b"3\n"),
        ("mdt.a.job_stats", b"job_stats:\n- x\n"),
        ("mdt.b.job_stats", b"job_stats:\n"),
    ]
    assert lctl_text(version, parameters) == (
        b"mdt.a.instance=3\nmdt.a.job_stats=\njob_stats:\n- x\nmdt.b.job_stats=job_stats:\n"
    )


def test_3_1_lctl_says_nothing_of_an_empty_file_before_2_17() -> None:
    assert lctl_text(Version.parse("2.16.1"), [("a.b", b"")]) == b""
    assert lctl_text(Version.parse("2.17.0"), [("a.b", b"")]) == b"a.b=\n"


def test_3_1_up_to_2_15_long_values_go_below_the_name() -> None:
    long = ("name", b"v" * 76 + b"\n")
    assert lctl_text(Version.parse("2.15.8"), [long]).startswith(b"name=\nv")
    assert lctl_text(Version.parse("2.16.0"), [long]).startswith(b"name=v")
