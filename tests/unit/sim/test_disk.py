from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from harvest_sim.disk import DiskFace, GatedEvent
from harvest_sim.site import Site
from unit.sim.building import OST, ids_in, lone_target, partners

JOB_STATS = f"oss1/proc/fs/lustre/obdfilter/{OST}/job_stats"

Opened = Callable[[Site], DiskFace]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    faces: list[DiskFace] = []

    def open_face(site: Site) -> DiskFace:
        faces.append(DiskFace(site, tmp_path, Random(1)))
        faces[-1].publish()
        return faces[-1]

    yield open_face
    for face in faces:
        face.close()


def test_3_2_the_tree_holds_what_the_server_has(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.17.0")
    target.do(b"1", "punch", 5)
    opened(site)
    on_disk = {str(path.relative_to(tmp_path / "oss1")) for path in tmp_path.glob("oss1/**/*") if path.is_file()}
    assert on_disk == set(site.files("oss1"))
    assert (tmp_path / JOB_STATS).read_bytes() == target.jobs.picture()[0]


def test_modification_times_say_nothing(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.15.4")
    face = opened(site)
    times = []
    for _ in range(5):
        target.do(b"1", "punch", 5)
        face.publish()
        times.append((tmp_path / JOB_STATS).stat().st_mtime)
    assert times != sorted(times)


def test_what_has_not_changed_is_not_written_again(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.15.4")
    target.do(b"1", "punch", 5)
    face = opened(site)
    inode = (tmp_path / JOB_STATS).stat().st_ino
    face.publish()
    assert (tmp_path / JOB_STATS).stat().st_ino == inode


def test_a_readers_close_shows_what_the_file_held_and_2_1_evicts(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    face = opened(site)
    face.poll()
    assert len(site.truth.unshown()) == 1
    for _ in range(2):
        (tmp_path / JOB_STATS).read_bytes()
        face.poll()
    assert site.truth.unshown() == []
    site.advance(1000)
    (tmp_path / JOB_STATS).read_bytes()
    assert list(target.jobs.records) == [b"1"]
    face.poll()
    face.publish()
    assert ids_in((tmp_path / JOB_STATS).read_bytes()) == []


def test_a_reader_of_a_replaced_file_was_shown_the_old_text(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    face = opened(site)
    with (tmp_path / JOB_STATS).open("rb") as file:
        target.do(b"1", "punch")
        face.publish()
        file.read()
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    [life] = site.truth.select()
    assert [shown.values[0][1] for shown in life.shown] == [1]


def test_opening_without_reading_shows_nothing(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    face = opened(site)
    (tmp_path / JOB_STATS).open("rb").close()
    face.poll()
    assert len(site.truth.unshown()) == 1


def test_equal_text_of_another_life_is_published_anew(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    face = opened(site)
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    before = (tmp_path / JOB_STATS).read_bytes()
    site.clear(OST)
    target.do(b"1", "punch")
    face.publish()
    assert (tmp_path / JOB_STATS).read_bytes() == before
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    assert site.truth.unshown() == []


def test_2_4_a_failover_moves_the_files(opened: Opened, tmp_path: Path) -> None:
    site = partners("2.12.9")
    face = opened(site)
    site.fail_over(OST, "oss2")
    face.publish()
    assert not list(tmp_path.glob(f"oss1/**/{OST}"))
    assert (tmp_path / f"oss2/proc/fs/lustre/obdfilter/{OST}/instance").read_bytes() == b"2\n"


def test_2_4_a_remount_replaces_every_file(opened: Opened, tmp_path: Path) -> None:
    site, _ = lone_target("2.12.9")
    face = opened(site)
    files = [path for path in tmp_path.glob(f"oss1/**/{OST}/**/*") if path.is_file()]
    with (files[0]).open("rb"):
        before = {path: path.stat().st_mtime for path in files}
        site.remount(OST)
        face.publish()
        assert all(path.stat().st_mtime != before[path] for path in files)


def test_whoever_sees_the_id_of_a_boot_finds_its_clocks(opened: Opened, tmp_path: Path) -> None:
    site, _ = lone_target("2.15.8")
    face = opened(site)
    up, boot = tmp_path / "oss1/proc/uptime", tmp_path / "oss1/proc/sys/kernel/random/boot_id"
    before = boot.read_text()
    assert float(up.read_text().split()[0]) > 1
    site.reboot("oss1")
    face.publish()
    assert boot.read_text() != before
    assert float(up.read_text().split()[0]) < 1
    assert up.stat().st_ctime_ns <= boot.stat().st_ctime_ns


def test_an_event_waits_until_readers_have_everything_safe(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    face = opened(site)
    face.request(GatedEvent(targets=(OST,), perform=lambda: site.clear(OST)))
    assert not site.is_ready(OST)
    face.perform_due()
    assert face.waiting_events == 1, "nobody has read it yet"
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    face.perform_due()
    assert face.waiting_events == 1, "nobody has it safe yet"
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    face.perform_due()
    assert target.jobs.records == {}
    assert site.is_ready(OST)


def test_a_reader_that_died_had_nothing_of_its_last_sweep(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    face = opened(site)
    (tmp_path / JOB_STATS).read_bytes()
    face.reader_died("oss1")
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    assert len(site.truth.unshown()) == 1, "the first read after it is not known to be safe"
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    assert site.truth.unshown() == []


def test_what_a_reader_sees_that_can_keep_nothing_is_doubtful_however_often_it_reads(
    opened: Opened, tmp_path: Path
) -> None:
    site = partners("2.12.9")
    site.mounted(OST).do(b"1", "punch")
    face = opened(site)
    face.reader_keeps_nothing("oss1")
    for _ in range(3):
        (tmp_path / JOB_STATS).read_bytes()
    face.reader_keeps_again("oss1")
    assert len(site.truth.unshown()) == 1
    assert site.truth.doubtful
    for _ in range(2):
        (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    assert site.truth.unshown() == []


def test_a_reader_has_its_sweep_safe_when_it_begins_the_next_also_where_all_targets_are_gone(
    opened: Opened, tmp_path: Path
) -> None:
    site = partners("2.12.9")
    boot_id = tmp_path / "oss1/proc/sys/kernel/random/boot_id"
    site.mounted(OST).do(b"1", "punch")
    face = opened(site)
    boot_id.read_bytes()
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    site.fail_over(OST, "oss2")
    face.publish()
    assert len(site.truth.unshown()) == 1
    boot_id.read_bytes()
    face.poll()
    assert site.truth.unshown() == []


def test_the_end_of_a_record_is_known_once_readers_have_safe_that_it_is_gone(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    face = opened(site)
    for _ in range(2):
        (tmp_path / JOB_STATS).read_bytes()
        face.poll()
    assert face.is_end_known(OST, b"1"), "it has not ended"
    site.clear(OST)
    assert not face.is_end_known(OST, b"1"), "the file still shows it"
    site.advance(1)
    face.publish()
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    assert not face.is_end_known(OST, b"1"), "nobody has it safe yet"
    (tmp_path / JOB_STATS).read_bytes()
    face.poll()
    assert face.is_end_known(OST, b"1")


def test_the_end_of_a_record_that_no_file_ever_showed_gets_known_too(opened: Opened, tmp_path: Path) -> None:
    site, target = lone_target("2.12.9")
    face = opened(site)
    target.do(b"1", "punch")
    site.clear(OST)
    site.advance(1)
    face.publish()
    for _ in range(2):
        (tmp_path / JOB_STATS).read_bytes()
        face.poll()
    assert face.is_end_known(OST, b"1")


def test_a_reader_that_lost_all_had_nothing_since_then_and_what_is_there_is_shown_again(
    opened: Opened, tmp_path: Path
) -> None:
    site, target = lone_target("2.12.9")
    face = opened(site)
    target.do(b"1", "punch")
    target.do(b"2", "punch")
    face.publish()
    for _ in range(2):
        (tmp_path / JOB_STATS).read_bytes()
        face.poll()
    site.advance(1)
    since_ns = site.now_ns
    for job in (b"1", b"2"):
        target.do(job, "punch")
    face.publish()
    for _ in range(2):
        (tmp_path / JOB_STATS).read_bytes()
        face.poll()
    site.clear(OST, b"1")
    face.publish()
    assert site.truth.unshown() == []

    face.reader_lost_all("oss1", since_ns=since_ns)
    face.publish()
    for _ in range(2):
        (tmp_path / JOB_STATS).read_bytes()
        face.poll()

    assert [(life.key, life.shown[-1].values[0][1]) for life in site.truth.unshown()] == [(b"1", 1)]
    assert [{*amounts} for lives in site.truth.possible().values() for amounts in lives] == [{(1, 0)}]
