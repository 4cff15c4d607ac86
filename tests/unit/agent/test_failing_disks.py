"""A disk under the spool that fails: what is whole stays, what is wrong is told, and it goes on by itself."""

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from harvest_agent.segments import UnreadableError
from harvest_agent.shelf import Shelf, SpoolError
from unit.agent.collected import Server
from unit.agent.spooling import HERE, MAX_BYTES, Bench, unreadable

DAY = 24 * 3600
NOBODY = 65534


def test_a_segment_that_cannot_be_opened_now_is_not_damaged(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep(1, b"one")
    with unreadable(bench.files()[0]):
        for _ in range(2):
            with pytest.raises(UnreadableError, match=r"000000000001\.spool: Too many levels"):
                bench.shelf.sweep_after({})
        assert bench.shelf.waiting(HERE) == 1

    assert bench.shelf.damaged_segments == 0
    assert bench.seqs() == [1]


def test_a_segment_that_cannot_be_read_to_its_end_now_is_not_damaged(tmp_path: Path) -> None:
    class Failing(io.BytesIO):
        @override
        def read(self, _size: int | None = None) -> bytes:
            raise OSError(5, "Input/output error")

    bench = Bench(tmp_path)
    bench.sweep(1, b"one")
    segment = bench.shelf.segments[0]
    with pytest.raises(UnreadableError, match=r"000000000001\.spool: Input/output error"):
        list(segment.records(segment.spans[0], Failing()))

    assert bench.seqs() == [1]


def test_a_segment_that_somebody_removed_does_not_stop_those_behind_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep(1, bytes(100_000))
    bench.sweep(2, b"two")
    bench.files()[0].unlink()

    assert bench.seqs() == [2]
    assert bench.shelf.damaged_segments == 1


def test_a_segment_that_cannot_be_read_at_the_start_is_named_with_what_to_do(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep(1, bytes(100_000))
    bench.sweep(2, b"two")
    bench.shelf.close()
    first = bench.files()[0]
    with unreadable(first), pytest.raises(SpoolError, match=rf"cannot use {first} .*: Too many .*; mend the disk .*"):
        bench.open()

    bench.open()
    assert bench.seqs() == [1, 2]


@pytest.fixture
def others() -> Iterator[Path]:
    """Make a folder that everybody may enter, and only root may write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    euid = os.geteuid()
    if euid == 0:
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(euid)
    shutil.rmtree(folder)


def test_a_folder_that_cannot_be_written_to_is_refused_at_the_start(others: Path) -> None:
    with pytest.raises(SpoolError, match=f"cannot write to the spool folder {others}: make it this user's"):
        Shelf(str(others), [HERE])


def half_full(folder: Path) -> Server:
    """Return an agent with a spool of sealed segments that can be merged."""
    server = Server(folder)
    for sweep in range(1, 31):
        server.bench.now_seconds = sweep * DAY / 60
        server.sweep(**{f"job{number:04}": 7 * sweep + number for number in range(400)})
    server.bench.spool.close()
    assert len(server.bench.files()) > 2
    return server


def is_whole(server: Server) -> bool:
    """Tell whether every sweep is there once, and adds up to what the jobs did."""
    assert [batch.seq for batch in server.ends()] == list(range(1, 31))
    assert server.bench.shelf.waiting(HERE) == 30
    return server.totals() == {b"job%04d" % number: 210 + number for number in range(400)}


def test_merging_where_names_cannot_be_made_durable_loses_and_doubles_nothing(tmp_path: Path) -> None:
    server = half_full(tmp_path)
    bench = server.bench
    before = {path: path.read_bytes() for path in bench.files()}
    bench.disk.keeps_names = False
    bench.spool.room.make(MAX_BYTES * 7 // 8, None)
    assert bench.spool.room.merged_sweeps > 0
    assert is_whole(server)
    assert bench.files() == list(before), "no file went before the one that has its sweeps is safe"
    assert bench.shelf.size() == sum(path.stat().st_size for path in bench.files())

    merged = {path: path.read_bytes() for path in bench.files()}
    for left in (merged, before):  # a crash, after which the new name is there, or the old
        for path, content in left.items():
            path.write_bytes(content)
        bench.reopen()
        assert is_whole(server)


def test_files_whose_sweeps_are_in_another_go_as_soon_as_names_are_durable(tmp_path: Path) -> None:
    server = half_full(tmp_path)
    bench = server.bench
    bench.disk.keeps_names = False
    bench.spool.room.make(MAX_BYTES * 7 // 8, None)
    files = {path: path.read_bytes() for path in bench.files()}
    assert not server.sweep().is_kept
    assert {path: path.read_bytes() for path in bench.files()} == files, "no name is used again meanwhile"
    bench.disk.keeps_names = True
    assert server.sweep().is_kept

    assert len(bench.files()) == len(bench.shelf.segments) < len(files)


def test_each_sweep_of_a_merged_segment_has_its_day(tmp_path: Path) -> None:
    server = half_full(tmp_path)
    assert server.bench.spool.room.make(MAX_BYTES * 7 // 8, None)
    server.bench.shelf.acknowledge(HERE, server.collector.incarnation, 30)
    server.bench.now_seconds = 1.25 * DAY
    server.sweep()
    server.sweep()

    assert 30 in [batch.seq for batch in server.ends()], "it is three quarters of a day old"


def test_what_could_not_be_merged_for_want_of_room_is_merged_later(tmp_path: Path) -> None:
    server = half_full(tmp_path)
    server.bench.disk.free_bytes = 10
    assert not server.bench.spool.room.make(MAX_BYTES * 7 // 8, None)
    assert not list(server.bench.folder.glob("*.new"))
    server.bench.disk.free_bytes = 1 << 40
    assert server.bench.spool.room.make(MAX_BYTES * 7 // 8, None)
    assert is_whole(server)
