"""What a collector puts into the spool: facts, whole sweeps, and another incarnation when something is missing."""

import shutil
from pathlib import Path

import pytest

from harvest_agent.clocks import ServerClocks
from harvest_agent.scan import JobScanner
from support.records import job_stats, put, record
from unit.agent.collected import NSECS, OST0, START, Server


def test_a_sweep_is_every_targets_read_and_then_its_end(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.show_on("proc/fs/lustre/mdt/fs-MDT0000", c=1)
    report = server.sweep(a=1, b=2)

    assert [(batch.target.name, batch.last_of_target, batch.last_of_sweep) for batch in server.batches()] == [
        ("fs-MDT0000", True, False),
        ("fs-OST0000", True, False),
        ("", False, True),
    ]
    assert (report.targets, report.records, report.is_kept, report.problems) == (2, 3, True, ())
    _, ost = server.facts()
    assert (ost.kind, ost.seq, ost.tick_seconds, ost.period_seconds) == ("OST", 1, START + 20, 20)
    assert (ost.mount.server, ost.mount.boot_id, ost.mount.instance) == ("oss1", "boot-1", 7)
    assert (ost.complete, ost.lustre_version, ost.cleanup_interval_seconds) == (True, (2, 12, 9), 600)
    assert (ost.read_at, ost.uptime) == ((START + 20) * NSECS, 120 * NSECS)
    assert (ost.in_one_piece, ost.directory_gone, ost.cost.records) == (True, False, 2)
    assert ost.cost.bytes == len((server.root / OST0 / "job_stats").read_bytes())


def test_the_end_of_a_sweep_tells_targets_and_health(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.sweep(a=1)
    server.sweep(a=2)

    end = server.ends()[-1].end
    assert [(mounted.target.name, mounted.mount.instance) for mounted in end.targets] == [("fs-OST0000", 7)]
    assert (end.health.spool_sweeps, end.health.lost_sweeps, end.health.late_microseconds) == (1, 0, 0)
    assert end.health.spool_limit_bytes == server.max_bytes
    assert 0 < end.health.spool_bytes < server.max_bytes
    assert end.health.resident_bytes > 1 << 20
    assert end.health.clock_nanoseconds == server.tick * NSECS


def test_the_second_sweep_says_only_what_moved(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.sweep(a=1, b=1)
    server.sweep(a=1, b=2)

    _, second = server.facts()
    assert (second.seq, list(second.names), second.moved.slot.tolist()) == (2, [], [1])


def test_a_cut_read_is_sent_as_not_complete(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.sweep(a=1)
    (server.root / OST0 / "job_stats").unlink()
    (server.root / OST0 / "job_stats").mkdir()
    report = server.sweep()

    assert not server.facts()[-1].complete
    assert report.problems == ("fs-OST0000: not a regular file",)
    assert server.ends()[-1].end.health.problems == ["fs-OST0000: not a regular file"]


def test_a_read_that_mixes_two_mounts_is_dropped_and_the_next_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(tmp_path)
    server.sweep(a=1)
    server.show_on(OST0.replace("OST0000", "OST0001"), z=1)
    scan = JobScanner._moved  # noqa: SLF001 - the moment at which the file is being read

    def remount(*arguments: object) -> object:
        put(server.root, f"{OST0}/instance", "8\n")
        return scan(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(JobScanner, "_moved", remount)
    report = server.sweep(a=2)
    monkeypatch.undo()
    server.sweep(a=3)

    assert report.problems == ("fs-OST0000: remounted while it was read",)
    assert [(facts.seq, facts.target[-1], facts.mount.instance) for facts in server.facts()] == [
        *((1, "0", 7), (2, "1", None)),
        *((3, "0", 8), (3, "1", None)),
    ]
    ends = [[mounted.mount.instance for mounted in batch.end.targets] for batch in server.ends()]
    assert ends == [[7], [8, 0], [8, 0]]
    third = server.facts()[2]
    assert (third.order_is_full, [name for _, name, _, _ in third.names]) == (True, [b"a"])


def test_a_target_that_was_seen_gone_says_so_when_it_is_back(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.sweep(a=1)
    shutil.move(server.root / OST0, tmp_path / "away")
    server.sweep()
    shutil.move(tmp_path / "away", server.root / OST0)
    server.sweep()
    server.sweep()

    assert [(facts.seq, facts.directory_gone, facts.order_is_full) for facts in server.facts()] == [
        *((1, False, True), (3, True, True), (4, False, False)),
    ]


def test_a_server_that_was_booted_is_another_incarnation(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.sweep(a=5)
    put(server.root, "proc/sys/kernel/random/boot_id", "boot-2\n")
    server.sweep(a=1)

    first, second = server.facts()
    assert first.incarnation != second.incarnation
    assert (second.seq, second.mount.boot_id, second.order_is_full) == (1, "boot-2", True)
    assert server.restarts == ["restarted"]
    assert server.totals() == {b"a": 6}


def test_a_full_picture_is_another_incarnation_from_its_first_sweep(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.sweep(a=5, b=1)
    server.collector.restart("asked")
    server.sweep(a=5, b=1)

    first, second = server.facts()
    assert (second.incarnation != first.incarnation, second.seq, len(second.names)) == (True, 1, 2)
    assert server.totals() == {b"a": 5, b"b": 1}


def test_after_a_lost_sweep_another_incarnation_begins_and_totals_stay_exact(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.sweep(a=1, b=1)
    server.bench.disk.free_bytes = 10
    assert not server.sweep(a=1, b=2, c=1).is_kept
    assert not server.sweep(a=1, b=3, c=1).is_kept
    server.bench.disk.free_bytes = 1 << 40
    assert server.sweep(a=2, b=3, c=2).is_kept

    assert [facts.seq for facts in server.facts()] == [1, 1]
    assert server.totals() == {b"a": 2, b"b": 3, b"c": 2}
    assert server.ends()[-1].end.health.lost_sweeps == 2


def test_a_disk_that_stays_full_costs_one_incarnation_not_one_per_tick(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.sweep(a=1, b=1)
    server.bench.disk.free_bytes = 10
    incarnations = set()
    for count in range(2, 30):
        assert not server.sweep(a=count, b=1, c=1).is_kept
        incarnations.add(server.collector.incarnation)
    assert len(incarnations) == 2
    assert server.restarts == ["restarted"]
    assert [mounted.target.name for mounted in server.collector.targets] == ["fs-OST0000"]

    server.bench.disk.free_bytes = 1 << 40
    assert server.sweep(a=30, b=1, c=2).is_kept
    assert server.sweep(a=31, b=1, c=2).is_kept

    assert server.restarts == ["restarted"]
    assert [(facts.seq, facts.order_is_full) for facts in server.facts()] == [(1, True), (1, True), (2, False)]
    assert server.totals() == {b"a": 31, b"b": 1, b"c": 2}
    assert server.ends()[-1].end.health.lost_sweeps == 28


def test_a_sweep_that_is_refused_unread_leaves_the_incarnation_as_it_is(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.sweep(a=1, b=1)
    server.bench.spool.room.max_bytes = 1
    assert not server.sweep(a=2, b=1).is_kept
    server.bench.spool.room.max_bytes = server.max_bytes
    assert server.sweep(a=3, b=1).is_kept

    assert server.restarts == []
    assert [(facts.seq, facts.order_is_full) for facts in server.facts()] == [(1, True), (2, False)]
    assert server.totals() == {b"a": 3, b"b": 1}
    assert server.ends()[-1].end.health.lost_sweeps == 1


def test_names_that_are_no_targets_are_told_and_not_read(tmp_path: Path) -> None:
    server = Server(tmp_path)
    put(server.root, "proc/fs/lustre/obdfilter/oddity/job_stats", job_stats(record("1")))
    report = server.sweep(a=1)

    assert [batch.target.name for batch in server.batches()] == ["fs-OST0000", ""]
    assert report.problems == ("names that are no target's: oddity",)


def test_merging_makes_room_and_keeps_every_total(tmp_path: Path) -> None:
    """Jobs work on, and one is evicted and comes back: what is merged adds up to what happened."""
    server = Server(tmp_path, max_bytes=1 << 20)
    jobs = {f"job{number:04}": 1 for number in range(400)}
    returned = 0
    for sweep in range(1, 200):
        for number, job in enumerate(jobs):
            jobs[job] += number % 7 + 1
        shown = dict(jobs)
        if sweep == 100:
            del shown["job0003"]
            returned, jobs["job0003"] = jobs["job0003"], 0
        report = server.sweep(**shown)
        assert report.is_kept
    jobs["job0003"] += returned - 4  # what it did while it was not shown nobody saw

    assert server.bench.spool.room.merged_sweeps > 100
    assert server.bench.shelf.size() <= 1 << 20
    assert [batch.seq for batch in server.ends()] == list(range(1, 200))
    assert server.totals() == {job.encode(): written for job, written in jobs.items()}
    assert server.ends()[-1].end.health.merged_sweeps > 100


def test_clocks_of_this_machine_go_on_alike_though_they_are_read_one_after_the_other() -> None:
    wall = [1_000 * NSECS]
    uptime = [10 * NSECS]
    clocks = ServerClocks("/", wall=lambda: wall[0], since_boot=lambda: uptime[0])
    first = clocks.now("boot")
    wall[0] += 20 * NSECS - 900
    uptime[0] += 20 * NSECS
    second = clocks.now("boot")
    wall[0] -= 3600 * NSECS
    third = clocks.now("boot")

    assert second[0] - first[0] == second[1] - first[1] == 20 * NSECS
    assert third == (wall[0], uptime[0])


def test_clocks_that_a_tree_tells_are_its_own_and_go_on_between_writes(tmp_path: Path) -> None:
    here = [500 * NSECS]
    clocks = ServerClocks(str(tmp_path), wall=lambda: 9, since_boot=lambda: here[0])
    put(tmp_path, "proc/uptime", "100.50 0.00\n")
    put(tmp_path, "proc/stat", "cpu 1 2 3\nbtime 7000\n")
    assert clocks.now("one") == (7_100_500_000_000, 100_500_000_000)
    here[0] += NSECS
    assert clocks.now("one") == (7_101_500_000_000, 101_500_000_000)
    put(tmp_path, "proc/stat", "btime 3400\n")
    assert clocks.now("one") == (3_501_500_000_000, 101_500_000_000)
    put(tmp_path, "proc/uptime", "2.00 0.00\n")
    assert clocks.now("two") == (3_402_000_000_000, 2_000_000_000)
