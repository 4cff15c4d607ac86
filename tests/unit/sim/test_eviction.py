import pytest

from harvest_sim.lives import EndReason
from harvest_sim.target import MountedTarget
from unit.sim.building import ids_in, lone_target, text_of

MODERN = ["2.7.57", "2.12.9", "2.15.0", "2.15.4", "2.16.1", "2.17.0"]


def present(target: MountedTarget) -> list[bytes]:
    return sorted(target.jobs.records)


@pytest.mark.parametrize("version", MODERN)
def test_2_1_a_readers_close_drops_idle_jobs_after_the_output(version: str) -> None:
    site, target = lone_target(version)
    target.do(b"idle", "punch")
    site.advance(601)
    target.do(b"idle2", "punch")  # scans, but `idle` goes: it is the first op of an unknown id
    assert present(target) == [b"idle2"]
    site.advance(601)
    assert ids_in(text_of(site, "oss1", "job_stats")) == [b"idle2"]
    assert present(target) == []


@pytest.mark.parametrize("version", MODERN)
def test_2_1_the_last_update_counts_not_the_last_read(version: str) -> None:
    site, target = lone_target(version)
    target.do(b"1", "punch")
    for _ in range(10):
        site.advance(60)
        assert ids_in(text_of(site, "oss1", "job_stats")) == [b"1"]
    site.advance(301)  # the last scan was up to half an interval ago
    assert ids_in(text_of(site, "oss1", "job_stats")) == [b"1"]
    assert ids_in(text_of(site, "oss1", "job_stats")) == []


def test_2_1_the_scan_runs_at_most_every_half_interval() -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    site.advance(590)
    text_of(site, "oss1", "job_stats")  # scans: 1 is not idle long enough
    site.advance(200)  # 790 s idle, but the last scan is 200 s ago
    text_of(site, "oss1", "job_stats")
    assert present(target) == [b"1"]
    site.advance(100)
    text_of(site, "oss1", "job_stats")
    assert present(target) == []


def test_2_1_an_operation_of_a_known_id_does_not_scan() -> None:
    site, target = lone_target("2.12.9")
    target.do(b"idle", "punch")
    target.do(b"busy", "punch")
    for _ in range(20):
        site.advance(300)
        target.do(b"busy", "punch")
    assert present(target) == [b"busy", b"idle"]
    target.do(b"new", "punch")
    assert present(target) == [b"busy", b"new"]


def test_2_1_writing_the_interval_scans() -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    site.advance(20)
    site.set_cleanup_interval("fs-OST0000", 10)
    assert present(target) == []


@pytest.mark.parametrize("version", ["2.5.3", "2.7.56"])
def test_2_1_old_servers_never_drop_on_read(version: str) -> None:
    site, target = lone_target(version)
    target.do(b"1", "punch")
    site.advance(10_000)
    text_of(site, "oss1", "job_stats")
    assert present(target) == [b"1"]


def test_2_1_old_servers_scan_on_any_operation_at_most_once_per_interval() -> None:
    site, target = lone_target("2.5.3")
    target.do(b"idle", "punch")
    target.do(b"busy", "punch")
    site.advance(599)
    target.do(b"busy", "punch")
    site.advance(2)
    target.do(b"busy", "punch")  # scans, and `idle` goes: it is idle for 601 s
    assert present(target) == [b"busy"]
    target.do(b"other", "punch")
    for _ in range(2):
        site.advance(550)
        target.do(b"busy", "punch")  # the second one scans, 1100 s after the last scan
    assert present(target) == [b"busy"]


def test_2_1_a_job_of_an_old_server_lives_up_to_two_intervals() -> None:
    site, target = lone_target("2.5.3")
    target.do(b"busy", "punch")
    site.advance(600)
    target.do(b"busy", "punch")  # scans
    target.do(b"idle", "punch")
    site.advance(599)
    target.do(b"busy", "punch")
    site.advance(1)
    target.do(b"busy", "punch")  # scans: `idle` is idle for just the interval, not longer
    site.advance(599)
    target.do(b"busy", "punch")
    assert present(target) == [b"busy", b"idle"]
    site.advance(1)
    target.do(b"busy", "punch")
    assert present(target) == [b"busy"]


@pytest.mark.parametrize(("version", "seconds"), [("2.12.9", 0), ("2.5.3", 0), ("2.15.4", 0), ("2.15.4", 1)])
def test_2_1_0_is_never_and_so_is_1_from_2_14_56(version: str, seconds: int) -> None:
    site, target = lone_target(version, cleanup_seconds=seconds)
    target.do(b"1", "punch")
    site.advance(100_000)
    text_of(site, "oss1", "job_stats")
    target.do(b"2", "punch")
    assert present(target) == [b"1", b"2"]


def test_2_1_odd_intervals_lose_a_second_from_2_14_56() -> None:
    site, _ = lone_target("2.14.0", cleanup_seconds=7)
    assert text_of(site, "oss1", "job_cleanup_interval") == b"7\n"
    site, _ = lone_target("2.15.4", cleanup_seconds=7)
    assert text_of(site, "oss1", "job_cleanup_interval") == b"6\n"


@pytest.mark.parametrize(("version", "is_dropped"), [("2.12.9", True), ("2.15.0", False), ("2.15.4", True)])
def test_2_1_a_step_of_the_wall_clock_evicts_where_the_wall_clock_is_used(version: str, *, is_dropped: bool) -> None:
    site, target = lone_target(version)
    target.do(b"1", "punch")
    site.step_clock("oss1", 700)
    text_of(site, "oss1", "job_stats")
    assert (present(target) == []) is is_dropped


def test_2_1_a_step_back_keeps_jobs() -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    site.step_clock("oss1", -5000)
    site.advance(5000)
    text_of(site, "oss1", "job_stats")
    assert present(target) == [b"1"]


def test_2_2_a_job_that_comes_back_starts_from_zero_with_a_new_start_time() -> None:
    site, target = lone_target("2.15.4")
    target.do(b"1", "punch", 5)
    first = text_of(site, "oss1", "job_stats")
    site.advance(1000)
    text_of(site, "oss1", "job_stats")
    target.do(b"1", "punch", 5)
    second = text_of(site, "oss1", "job_stats")
    assert first.splitlines()[-9:] == second.splitlines()[-9:]
    assert first.splitlines()[3] != second.splitlines()[3]
    old, new = site.truth.select(key=b"1")
    assert old.end_reason is EndReason.EVICTED
    assert not new.is_over


def test_2_7_57_a_reader_with_a_period_below_the_interval_sees_the_final_value() -> None:
    site, target = lone_target("2.12.9", cleanup_seconds=4)
    for _ in range(50):
        target.do(b"%d" % (site.now_ns % 7), "punch")
        for _ in range(4):
            site.advance(1)
            text_of(site, "oss1", "job_stats")
    assert site.truth.unshown() == []
    assert site.truth.events["evicted"] > 10
