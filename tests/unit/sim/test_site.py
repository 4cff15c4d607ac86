from random import Random

import pytest

from harvest_sim.lives import EndReason
from harvest_sim.site import Site
from unit.sim.building import MDT, OST, ids_in, lone_target, partners, text_of


def test_2_4_instance_differs_after_every_mount() -> None:
    site = partners("2.15.4")
    seen = [text_of(site, "oss1", "instance")]
    site.remount(OST)
    seen.append(text_of(site, "oss1", "instance"))
    site.fail_over(OST, "oss2")
    seen.append(text_of(site, "oss2", "instance"))
    site.fail_back(OST)
    seen.append(text_of(site, "oss1", "instance"))
    site.reboot("oss1")
    seen.append(text_of(site, "oss1", "instance"))
    assert seen == [b"1\n", b"2\n", b"3\n", b"4\n", b"5\n"]


def test_2_4_instance_repeats_when_last_rcvd_is_deleted_but_the_mount_number_does_not() -> None:
    site = partners("2.15.4")
    site.unmount(OST)
    site.delete_last_rcvd(OST)
    site.mount(OST)
    assert text_of(site, "oss1", "instance") == b"1\n"
    assert site.mounted(OST).scope.mount == 2


def test_2_4_there_is_no_instance_before_2_5_3() -> None:
    site, _ = lone_target("2.5.2")
    assert not [path for path in site.files("oss1") if path.endswith("instance")]


def test_2_4_a_failover_frees_everything_and_moves_the_files() -> None:
    site = partners("2.12.9", "2.15.4")
    site.mounted(OST).do(b"1", "punch")
    site.fail_over(OST, "oss2")
    assert not [path for path in site.files("oss1") if OST in path]
    assert ids_in(text_of(site, "oss2", "job_stats")) == []
    [life] = site.truth.select()
    assert life.end_reason is EndReason.UNMOUNTED


def test_2_4_clients_reconnect_after_a_mount() -> None:
    site = partners("2.15.4")
    client = site.connect("fs", "9@tcp")
    site.fail_over(OST, "oss2")
    assert text_of(site, "oss2", "9@tcp/uuid") == f"{client}\n".encode()


def test_a_crash_ends_lives_and_takes_the_server_away() -> None:
    site = partners("2.15.4")
    boot_id = text_of(site, "oss1", "boot_id")
    site.mounted(OST).do(b"1", "punch")
    site.crash("oss1")
    assert site.files("oss1") == {}
    with pytest.raises(ValueError, match="cannot mount"):
        site.mount(OST)
    site.fail_over(OST, "oss2")
    site.boot("oss1")
    assert text_of(site, "oss1", "boot_id") != boot_id
    assert [life.end_reason for life in site.truth.select()] == [EndReason.CRASHED]


def test_a_reboot_may_bring_another_version() -> None:
    site = partners("2.12.9")
    site.reboot("oss1", "2.15.4")
    assert text_of(site, "oss1", "lustre/version") == b"2.15.4\n"
    assert site.mounted(OST).scope.version.text == "2.15.4"


def test_1_5_times_of_2_15_0_count_from_the_servers_boot() -> None:
    site, _ = lone_target("2.15.0")
    site.reboot("oss1")
    site.advance(30)
    site.mounted(OST).do(b"1", "punch")
    lines = text_of(site, "oss1", "job_stats").splitlines()
    assert lines[2].startswith(b"snapshot_time   : 30.")
    assert lines[3].startswith(b"start_time      : 30.")


def test_1_5_snapshot_time_is_the_last_operation_not_the_read() -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    wall = site.servers["oss1"].clock.wall_ns() // 10**9
    site.advance(100)
    assert b"snapshot_time:   %d\n" % wall in text_of(site, "oss1", "job_stats")


def test_1_5_records_of_one_job_start_at_different_times_on_different_targets() -> None:
    site = partners("2.15.4")
    site.add_target("fs-OST0001", ["oss1"])
    site.mounted(OST).do(b"1", "punch")
    site.mounted("fs-OST0001").do(b"1", "punch")
    starts = {
        text.split(b"start_time:")[1].split()[0]
        for name in (OST, "fs-OST0001")
        if (text := text_of(site, "oss1", f"{name}/job_stats"))
    }
    assert len(starts) == 2


def test_1_3_mdt_data_is_not_counted_before_2_13_55() -> None:
    site, target = lone_target("2.12.9", target=MDT)
    target.bulk(b"1", "read", 4096)
    assert target.jobs.records == {}
    assert b"read_bytes" not in text_of(site, "oss1", "md_stats")


def test_an_unknown_operation_is_refused() -> None:
    _, target = lone_target("2.12.9")
    assert not target.counts("prealloc")
    with pytest.raises(ValueError, match=r"2\.12\.9 does not count 'prealloc'"):
        target.do(b"1", "prealloc")


def test_4_an_id_longer_than_31_bytes_shares_the_record_of_its_first_31() -> None:
    _, target = lone_target("2.12.9")
    target.do(b"x" * 31 + b"1", "punch")
    target.do(b"x" * 31 + b"2", "punch")
    assert list(target.jobs.records) == [b"x" * 31]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "2.7.0",
            {
                "proc/fs/lustre/version",
                "proc/fs/lustre/jobid_var",
                "proc/fs/lustre/jobid_name",
                "proc/fs/lustre/obdfilter/fs-OST0000/job_stats",
                "proc/fs/lustre/obdfilter/fs-OST0000/stats",
                "proc/fs/lustre/obdfilter/fs-OST0000/job_cleanup_interval",
                "proc/fs/lustre/obdfilter/fs-OST0000/instance",
                "proc/fs/lustre/obdfilter/fs-OST0000/exports/clear",
            },
        ),
        (
            "2.12.9",
            {
                "sys/fs/lustre/version",
                "sys/fs/lustre/jobid_var",
                "sys/fs/lustre/jobid_name",
                "proc/fs/lustre/obdfilter/fs-OST0000/job_stats",
                "proc/fs/lustre/obdfilter/fs-OST0000/stats",
                "proc/fs/lustre/obdfilter/fs-OST0000/job_cleanup_interval",
                "proc/fs/lustre/obdfilter/fs-OST0000/instance",
                "proc/fs/lustre/obdfilter/fs-OST0000/exports/clear",
            },
        ),
        (
            "2.17.0",
            {
                "sys/fs/lustre/version",
                "sys/fs/lustre/jobid_var",
                "sys/fs/lustre/jobid_name",
                "proc/fs/lustre/obdfilter/fs-OST0000/job_stats",
                "sys/kernel/debug/lustre/obdfilter/fs-OST0000/stats",
                "sys/fs/lustre/obdfilter/fs-OST0000/job_cleanup_interval",
                "sys/fs/lustre/obdfilter/fs-OST0000/instance",
                "sys/kernel/debug/lustre/obdfilter/fs-OST0000/exports/clear",
            },
        ),
    ],
)
def test_3_2_files_are_where_the_version_has_them(version: str, expected: set[str]) -> None:
    site, _ = lone_target(version)
    assert set(site.files("oss1")) == expected | {"proc/sys/kernel/random/boot_id", "proc/uptime", "proc/stat"}


def test_3_2_md_stats_stay_in_proc() -> None:
    site, _ = lone_target("2.17.0", target=MDT)
    assert "proc/fs/lustre/mdt/fs-MDT0000/md_stats" in site.files("oss1")


def test_equal_seeds_give_equal_sites() -> None:
    def text() -> bytes:
        site = Site(Random(7))
        site.add_server("a", "2.15.4")
        target = site.mounted(site.add_target(OST, ["a"]).name)
        target.do(b"1", "punch")
        return text_of(site, "a", "job_stats") + text_of(site, "a", "boot_id")

    assert text() == text()


def test_linux_tells_the_clocks_of_a_server_and_when_one_was_set() -> None:
    site, _ = lone_target("2.12.9")

    def told() -> tuple[float, int]:
        uptime, stat = (text_of(site, "oss1", path) for path in ("proc/uptime", "proc/stat"))
        return float(uptime.split()[0]), int(stat.split()[1])

    uptime, booted = told()
    site.advance(10)
    assert told()[0] == pytest.approx(uptime + 10, abs=0.02)
    assert told()[1] == booted
    site.step_clock("oss1", -3600)
    assert told()[1] in {booted - 3600, booted - 3601}
