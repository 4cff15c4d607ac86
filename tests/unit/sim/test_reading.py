import pytest

from harvest_sim.reading import Reader
from harvest_sim.site import Site
from harvest_sim.target import MountedTarget
from unit.sim.building import OST, ids_in, lone_target, path_of, text_of


def with_jobs(version: str, jobs: int) -> tuple[Site, MountedTarget]:
    site, target = lone_target(version)
    for job in range(jobs):
        target.do(b"%d" % job, "punch", job)
    return site, target


def opened(site: Site, *, hold: bool = False) -> Reader:
    return site.files("oss1")[path_of(site, "oss1", "job_stats")].open(hold=hold)


@pytest.mark.parametrize("version", ["2.5.3", "2.12.9", "2.15.4", "2.16.1", "2.17.0"])
def test_1_6_a_file_comes_in_pieces_of_whole_records_of_about_a_page(version: str) -> None:
    site, target = with_jobs(version, 30)
    reader = opened(site)
    pieces = list(iter(reader.read, b""))
    assert b"".join(pieces) == target.jobs.picture()[0]
    assert len(pieces) > 3
    assert all(len(piece) < 4096 for piece in pieces)
    assert all(piece.startswith((b"job_stats:", b"- job_id:")) for piece in pieces)


def test_1_6_a_small_read_gives_a_small_piece() -> None:
    site, target = with_jobs("2.16.1", 5)
    reader = opened(site)
    assert b"".join(iter(lambda: reader.read(100), b"")) == target.jobs.picture()[0]


@pytest.mark.parametrize(
    ("version", "is_skipped"), [("2.12.9", True), ("2.15.8", True), ("2.16.1", False), ("2.17.0", False)]
)
def test_1_6_a_removal_between_two_reads_skips_a_record_up_to_2_15_55(version: str, *, is_skipped: bool) -> None:
    site, _ = with_jobs(version, 20)
    reader = opened(site)
    text = reader.read()
    seen = ids_in(text)
    site.clear(OST, seen[0])
    text += reader.read_all()
    missing = {b"%d" % job for job in range(20)} - set(ids_in(text))
    assert missing == ({b"%d" % len(seen)} if is_skipped else set())
    assert site.truth.events["skipped in a read"] == is_skipped
    assert len(ids_in(text)) == len(set(ids_in(text)))


@pytest.mark.parametrize("version", ["2.12.9", "2.15.8", "2.16.1"])
def test_2_4_records_stand_in_creation_order_up_to_2_16_50(version: str) -> None:
    site, target = with_jobs(version, 3)
    target.do(b"0", "punch")
    assert ids_in(text_of(site, "oss1", "job_stats")) == [b"0", b"1", b"2"]
    site.clear(OST, b"1")
    target.do(b"1", "punch")
    assert ids_in(text_of(site, "oss1", "job_stats")) == [b"0", b"2", b"1"]


def test_2_4_from_2_16_51_an_update_changes_the_order() -> None:
    site, target = with_jobs("2.17.0", 3)
    target.do(b"0", "punch")
    assert ids_in(text_of(site, "oss1", "job_stats")) == [b"1", b"2", b"0"]


def test_1_6_from_2_16_51_updates_during_a_read_neither_skip_nor_repeat() -> None:
    site, target = with_jobs("2.17.0", 20)
    reader = opened(site)
    text = b""
    while piece := reader.read():
        text += piece
        target.do(ids_in(text)[0], "punch")
        target.do(b"19", "punch")
        target.do(b"new", "punch")
    assert sorted(ids_in(text)) == sorted([*(b"%d" % job for job in range(20)), b"new"])


def test_1_6_from_2_16_51_a_second_reader_puts_a_header_between_records() -> None:
    site, _ = with_jobs("2.17.0", 8)
    first = opened(site)
    text = first.read()
    second = opened(site)
    text += first.read_all()
    assert text.count(b"job_stats:\n") == 2
    assert b"job_stats:" not in second.read_all()


def test_1_6_up_to_2_16_50_each_reader_has_its_own_header() -> None:
    site, _ = with_jobs("2.16.1", 8)
    first = opened(site)
    text = first.read()
    second = opened(site)
    text += first.read_all()
    assert text.count(b"job_stats:\n") == 1
    assert second.read_all().startswith(b"job_stats:\n")


def test_1_6_a_record_created_while_reading_appears_at_the_end() -> None:
    for version in ("2.12.9", "2.16.1", "2.17.0"):
        site, target = with_jobs(version, 20)
        reader = opened(site)
        text = reader.read()
        target.do(b"late", "punch")
        assert ids_in(text + reader.read_all())[-1] == b"late"


def test_2_4_reading_fails_when_the_target_is_unmounted_meanwhile() -> None:
    site, _ = with_jobs("2.15.4", 20)
    reader = opened(site)
    reader.read()
    site.remount(OST)
    with pytest.raises(OSError, match="went away"):
        reader.read()
    reader.close()


def test_only_records_received_whole_count_as_shown() -> None:
    site, _ = with_jobs("2.16.1", 3)
    reader = opened(site)
    reader.read(3000)  # the first record, and a part of the second
    reader.close()
    assert [len(life.shown) for life in site.truth.select()] == [1, 0, 0]


def test_a_held_reader_shows_nothing_until_committed() -> None:
    site, _ = with_jobs("2.16.1", 3)
    reader = opened(site, hold=True)
    reader.read_all()
    assert len(site.truth.unshown()) == 3
    reader.commit()
    assert site.truth.unshown() == []


def test_a_slow_reader_does_not_take_back_what_a_fast_one_was_shown() -> None:
    site, target = with_jobs("2.16.1", 1)
    slow = opened(site, hold=True)
    slow.read_all()
    target.do(b"0", "punch", 9)
    opened(site).read_all()
    slow.commit()
    assert site.truth.shown() == site.truth.done()


def test_2_4_files_of_a_mount_that_is_gone_cannot_be_opened() -> None:
    site, target = with_jobs("2.15.4", 1)
    site.connect("fs", "1@tcp")
    files = dict(site.files("oss1"))
    site.remount(OST)
    stale = [path for path in files if OST in path]
    assert len(stale) > 6
    for path in stale:
        with pytest.raises(FileNotFoundError):
            files[path].open()
    assert target.jobs.is_gone


def test_1_6_a_reader_may_see_a_sample_before_its_sum() -> None:
    site, target = lone_target("2.16.1")
    finish = target.jobs.begin(b"1", 0, 4096)
    assert (
        b"read_bytes:      { samples:           1, unit: bytes, min:     4096, max:     4096, sum:                0"
        in text_of(site, "oss1", "job_stats")
    )
    finish()
    assert b"samples:           1, unit: bytes, min:     4096, max:     4096, sum:             4096" in text_of(
        site, "oss1", "job_stats"
    )
    assert site.truth.shown() == site.truth.done()
