"""Sweeps over a server's targets: nothing that one of them does stops the others."""

from pathlib import Path

import pytest

from harvest_agent.reading import Reader, TargetRead
from harvest_agent.scan import JobScanner
from harvest_agent.tree import TargetFiles, Tree
from harvest_core.lustre.columns import JobColumns
from support.records import job_stats, put, record

OST0 = "proc/fs/lustre/obdfilter/fs-OST0000"
OST1 = "proc/fs/lustre/obdfilter/fs-OST0001"


class Collected:
    """Keeps which jobs moved on which target."""

    def __init__(self) -> None:
        self.jobs: dict[str, list[bytes]] = {}

    def __call__(self, target: TargetFiles, scanner: JobScanner, columns: JobColumns) -> None:
        self.jobs.setdefault(target.name, []).extend(scanner.names[slot][0] for slot in columns.slot)


def sweep(reader: Reader) -> tuple[dict[str, list[bytes]], dict[str, TargetRead]]:
    collected = Collected()
    reads = reader.sweep(collected)
    return collected.jobs, {read.target.name: read for read in reads}


def test_a_sweep_reads_every_target_and_the_next_one_only_what_moved(tmp_path: Path) -> None:
    put(tmp_path, f"{OST0}/job_stats", job_stats(record("1"), record("2")))
    put(tmp_path, f"{OST1}/job_stats", job_stats(record("1")))
    reader = Reader(Tree(str(tmp_path)))

    first, reads = sweep(reader)
    put(tmp_path, f"{OST0}/job_stats", job_stats(record("1"), record("2", written=9)))
    second, _ = sweep(reader)

    assert first == {"fs-OST0000": [b"1", b"2"], "fs-OST0001": [b"1"]}
    assert second == {"fs-OST0000": [b"2"]}
    assert all(read.complete and read.bytes_read > 0 for read in reads.values())


def test_an_unreadable_target_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / OST0 / "job_stats").mkdir(parents=True)
    put(tmp_path, f"{OST1}/job_stats", job_stats(record("1")))

    jobs, reads = sweep(Reader(Tree(str(tmp_path))))

    assert jobs == {"fs-OST0001": [b"1"]}
    assert not reads["fs-OST0000"].complete
    assert reads["fs-OST0000"].problem == "not a regular file"


def test_a_remount_between_sweeps_shows_all_records_again(tmp_path: Path) -> None:
    put(tmp_path, f"{OST0}/job_stats", job_stats(record("1")))
    put(tmp_path, f"{OST0}/instance", "7\n")
    reader = Reader(Tree(str(tmp_path)))
    sweep(reader)

    put(tmp_path, f"{OST0}/instance", "8\n")
    jobs, reads = sweep(reader)

    assert jobs == {"fs-OST0000": [b"1"]}
    assert reads["fs-OST0000"].instance == 8


def test_a_remount_during_the_read_drops_it(tmp_path: Path) -> None:
    put(tmp_path, f"{OST0}/job_stats", job_stats(record("1")))
    put(tmp_path, f"{OST0}/instance", "7\n")
    reader = Reader(Tree(str(tmp_path)))

    def remount(*_: object) -> None:
        put(tmp_path, f"{OST0}/instance", "8\n")

    (read,) = reader.sweep(remount)

    assert read.remounted
    assert not read.complete
    assert read.problem == "remounted while it was read"
    assert sweep(reader)[0] == {"fs-OST0000": [b"1"]}


def test_an_instance_that_cannot_be_read_is_unknown_not_different(tmp_path: Path) -> None:
    put(tmp_path, f"{OST0}/job_stats", job_stats(record("1")))
    instance = put(tmp_path, f"{OST0}/instance", "7\n")
    reader = Reader(Tree(str(tmp_path)))
    sweep(reader)

    instance.unlink()
    jobs, reads = sweep(reader)

    assert jobs == {}
    assert reads["fs-OST0000"].complete


def test_a_remount_is_seen_also_where_the_instance_became_readable_later(tmp_path: Path) -> None:
    put(tmp_path, f"{OST0}/job_stats", job_stats(record("1")))
    reader = Reader(Tree(str(tmp_path)))
    sweep(reader)
    put(tmp_path, f"{OST0}/instance", "6\n")
    assert sweep(reader)[0] == {}

    put(tmp_path, f"{OST0}/instance", "7\n")

    assert sweep(reader)[0] == {"fs-OST0000": [b"1"]}


def test_trouble_of_the_consumer_is_not_the_target_s(tmp_path: Path) -> None:
    put(tmp_path, f"{OST0}/job_stats", job_stats(record("1")))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        Reader(Tree(str(tmp_path))).sweep(full)


def test_a_target_that_was_unmounted_is_forgotten(tmp_path: Path) -> None:
    file = put(tmp_path, f"{OST0}/job_stats", job_stats(record("1")))
    reader = Reader(Tree(str(tmp_path)))
    sweep(reader)

    file.unlink()
    file.parent.rmdir()
    assert sweep(reader) == ({}, {})
    put(tmp_path, f"{OST0}/job_stats", job_stats(record("1")))

    assert sweep(reader)[0] == {"fs-OST0000": [b"1"]}


def test_trouble_is_counted_per_target(tmp_path: Path) -> None:
    put(tmp_path, f"{OST0}/job_stats", job_stats(record("1") + b"  nonsense\n"))

    _, reads = sweep(Reader(Tree(str(tmp_path))))

    assert (reads["fs-OST0000"].unread.count, reads["fs-OST0000"].unread.examples) == (1, [b"  nonsense"])
