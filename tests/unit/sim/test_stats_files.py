import pytest

from harvest_sim.lives import Subject
from unit.sim.building import MDT, OST, lone_target, partners, text_of


def body(text: bytes) -> list[bytes]:
    """Return the counter lines of a stats text."""
    return [line for line in text.splitlines() if b" samples [" in line]


def test_3_microseconds_are_not_padded_up_to_2_9_54() -> None:
    site, target = lone_target("2.5.3", target=MDT)
    target.do(b"1", "open")
    site.servers["oss1"].clock.wall_offset_ns = 1_438_693_238_020_113_000 - site.now_ns
    assert text_of(site, "oss1", "/md_stats") == (
        b"snapshot_time             1438693238.20113 secs.usecs\nopen                      1 samples [reqs]\n"
    )


def test_3_an_export_of_2_16_has_three_times_and_sums_with_squares() -> None:
    site, target = lone_target("2.16.1")
    site.connect("fs", "10.0.0.9@tcp", "u-u-i-d")
    site.servers["oss1"].clock.wall_offset_ns = 1_700_000_000 * 10**9 - site.now_ns
    target.stats.zero()
    target.exports.stats["10.0.0.9@tcp"].zero()
    site.advance(2.5)
    target.bulk(b"1", "write", 4096, usecs=10, count=2, nid="10.0.0.9@tcp")
    text = text_of(site, "oss1", "10.0.0.9@tcp/stats")
    stamp = b"%d.%09d" % divmod(site.servers["oss1"].clock.wall_ns(), 10**9)
    assert text.splitlines() == [
        b"snapshot_time             %s secs.nsecs" % stamp,
        b"start_time                1700000000.000000000 secs.nsecs",
        b"elapsed_time              %s secs.nsecs" % stamp.replace(b"1700000002", b"2"),
        b"write_bytes               2 samples [bytes] 4096 4096 8192 33554432",
        b"write                     2 samples [usecs] 10 10 20 200",
    ]


def test_3_2_15_0_counts_from_boot_and_says_that_it_started_at_0() -> None:
    site, _ = lone_target("2.15.0", target=MDT)
    site.reboot("oss1")
    site.advance(12)
    lines = text_of(site, "oss1", "/md_stats").splitlines()
    assert lines[0] == b"snapshot_time             12.%09d secs.nsecs" % (site.now_ns % 10**9)
    assert lines[1] == b"start_time                0.000000000 secs.nsecs"


def test_3_only_counters_that_are_not_zero_are_printed() -> None:
    site, target = lone_target("2.12.9")
    assert body(text_of(site, "oss1", "OST0000/stats")) == []
    target.do(b"1", "punch")
    assert body(text_of(site, "oss1", "OST0000/stats")) == [b"punch                     1 samples [reqs]"]


def test_2_3_writing_to_a_stats_file_leaves_only_its_header() -> None:
    site, target = lone_target("2.15.4")
    target.do(b"1", "punch", 5)
    target.stats.zero()
    assert len(text_of(site, "oss1", "OST0000/stats").splitlines()) == 3


def test_3_an_old_ost_has_generic_counters_and_statfs_twice() -> None:
    site, target = lone_target("2.10.8")
    site.connect("fs", "1@tcp")
    target.do(b"1", "statfs", count=3)
    target.bulk(b"1", "read", 4096, nid="1@tcp")
    names = [line.split()[0] for line in body(text_of(site, "oss1", "OST0000/stats"))]
    assert names == [b"read_bytes", b"statfs", b"statfs", b"preprw", b"commitrw"]
    names = [line.split()[0] for line in body(text_of(site, "oss1", "1@tcp/stats"))]
    assert names == [b"read_bytes", b"connect", b"preprw", b"commitrw"]


def test_3_md_stats_of_2_12_carry_ones_behind_close() -> None:
    site, target = lone_target("2.12.9", target=MDT)
    target.do(b"1", "close", count=7)
    assert body(text_of(site, "oss1", "/md_stats")) == [b"close                     7 samples [reqs] 1 1 7"]


def test_2_7_stats_files_print_sums_signed() -> None:
    site, target = lone_target("2.15.4")
    target.do(b"1", "write", (1 << 63) + 5)
    assert body(text_of(site, "oss1", "OST0000/stats"))[0].split()[6] == b"-9223372036854775803"


def test_2_5_an_export_outlives_its_client_and_goes_on_counting() -> None:
    site, target = lone_target("2.15.4")
    client = site.connect("fs", "10.0.0.9@tcp")
    target.do(b"1", "punch", 5, nid="10.0.0.9@tcp")
    site.disconnect("fs", "10.0.0.9@tcp", client)
    assert text_of(site, "oss1", "10.0.0.9@tcp/uuid") == b""
    assert body(text_of(site, "oss1", "10.0.0.9@tcp/stats")) == [
        b"punch                     1 samples [usecs] 5 5 5 25"
    ]
    again = site.connect("fs", "10.0.0.9@tcp")
    target.do(b"1", "punch", 5, nid="10.0.0.9@tcp")
    assert text_of(site, "oss1", "10.0.0.9@tcp/uuid") == f"{again}\n".encode()
    assert body(text_of(site, "oss1", "10.0.0.9@tcp/stats"))[0].split()[1] == b"2"


def test_2_5_two_mounts_of_one_node_share_a_directory() -> None:
    site, _ = lone_target("2.15.4")
    site.connect("fs", "1@tcp", "first")
    site.connect("fs", "1@tcp", "second")
    assert text_of(site, "oss1", "1@tcp/uuid") == b"first\nsecond\n"


def test_2_3_exports_clear_removes_dead_nids_and_zeroes_live_ones() -> None:
    site, target = lone_target("2.15.4")
    site.connect("fs", "live@tcp")
    site.disconnect("fs", "dead@tcp", site.connect("fs", "dead@tcp"))
    target.do(b"1", "punch", 5, nid="live@tcp")
    target.exports.clear()
    assert not [path for path in site.files("oss1") if "dead@tcp" in path]
    assert body(text_of(site, "oss1", "live@tcp/stats")) == []


def test_2_5_servers_have_exports_too() -> None:
    site = partners("2.15.4")
    site.add_target(MDT, ["oss2"])
    assert text_of(site, "oss1", f"{OST}/exports/10.0.1.2@tcp/uuid") == b"fs-MDT0000-mdtlov_UUID\n"
    assert text_of(site, "oss2", f"{MDT}/exports/10.0.1.1@tcp/uuid") == b"fs-MDT0000-lwp-OST0000_UUID\n"
    assert text_of(site, "oss2", f"{MDT}/exports/0@lo/uuid") == b"fs-MDT0000-lwp-MDT0000_UUID\n"


def test_3_ldlm_stats_of_2_17_0_shows_the_counters_of_stats() -> None:
    for version, is_wrong in (("2.17.0", True), ("2.16.1", False)):
        site, target = lone_target(version)
        site.connect("fs", "1@tcp")
        target.do(b"1", "punch", 5, nid="1@tcp")
        assert (b"punch" in text_of(site, "oss1", "1@tcp/ldlm_stats")) is is_wrong


def test_2_5_a_directory_that_the_idle_limit_removed_comes_back_as_a_new_life() -> None:
    site, target = lone_target("2.17.0")
    client = site.connect("fs", "9@tcp")
    with pytest.raises(ValueError, match="live export"):
        target.exports.forget("9@tcp")
    site.disconnect("fs", "9@tcp", client)
    target.exports.forget("9@tcp")
    site.connect("fs", "9@tcp")
    assert [life.is_over for life in site.truth.select(Subject.EXPORT, key=b"9@tcp")] == [True, False]
