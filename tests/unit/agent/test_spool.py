"""The spool: whole sweeps or nothing, whatever happens to the disk, the limit, the agent or the aggregators."""

from pathlib import Path

import pytest

from harvest_agent.segments import Record
from harvest_agent.shelf import Shelf, SpoolError
from unit.agent.spooling import HERE, MAX_BYTES, THERE, A, B, Bench

DAY = 24 * 3600
LARGE = bytes(100_000)


def test_a_sweep_is_shown_when_it_is_whole_and_synced(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    with bench.spool.draft(A, "boot", 1) as draft:
        draft.append(Record("fs-OST0000", b"one"))
        assert bench.seqs() == []
        draft.commit(Record("", b"end"))

    assert bench.seqs() == [1]
    assert bench.disk.syncs == 1


def test_sweeps_are_read_in_order_and_from_where_a_reader_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for seq in (1, 2):
        bench.sweep(seq, b"%d" % seq)
    bench.sweep(1, b"x", incarnation=B)

    found = bench.shelf.sweep_after({A: 1})
    assert found is not None
    assert (found.incarnation, found.seq, [record.payload for record in found.records()]) == (A, 2, [b"2", b"end"])
    found = bench.shelf.sweep_after({A: 2})
    assert found is not None
    assert (found.incarnation, found.seq) == (B, 1)
    found.close()
    assert bench.shelf.sweep_after({A: 2, B: 1}) is None


def test_what_was_given_up_leaves_nothing_behind(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep(1, b"one")

    def give_up() -> None:
        with bench.spool.draft(A, "boot", 2) as draft:
            draft.append(Record("fs-OST0000", b"two"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        give_up()
    bench.sweep(1, b"new", incarnation=B)

    bench.reopen()
    assert (bench.seqs(A), bench.seqs(B)) == ([1], [1])


def test_a_read_can_be_taken_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    with bench.spool.draft(A, "boot", 1) as draft:
        draft.append(Record("fs-OST0000", b"stays"))
        mark = draft.mark()
        draft.append(Record("fs-OST0001", b"goes"))
        draft.rewind(mark)
        draft.commit(Record("", b"end"))

    found = bench.shelf.sweep_after({})
    assert found is not None
    assert [record.payload for record in found.records()] == [b"stays", b"end"]


def test_a_torn_tail_is_cut_at_the_last_whole_sweep_wherever_it_was_torn(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "spool")
    bench.sweep(1, b"one")
    whole = bench.files()[0].read_bytes()
    bench.sweep(2, b"two", b"three")
    written = bench.files()[0].read_bytes()

    for cut in range(len(whole), len(written)):
        bench.files()[0].write_bytes(written[:cut])
        bench.reopen()
        assert bench.seqs() == [1], cut
        assert bench.files()[0].read_bytes() == whole
        assert bench.shelf.damaged_segments == 0

    bench.files()[0].write_bytes(written)
    bench.reopen()
    assert bench.seqs() == [1, 2]


def test_a_segment_torn_before_its_first_sweep_is_removed_or_set_aside(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "spool")
    bench.sweep(1, b"one")
    written = bench.files()[0].read_bytes()

    for cut in range(len(written)):
        (bench.folder / "000000000001.spool").write_bytes(written[:cut])
        bench.reopen()
        assert bench.seqs() == []
        assert bench.files() == []


def test_each_flipped_byte_of_a_segment_costs_what_builds_on_it_and_no_more(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "spool")
    bench.sweep(1, b"one")
    whole = len(bench.files()[0].read_bytes())
    bench.sweep(2, b"two")
    bench.sweep(3, b"three")
    bench.sweep(1, b"other", incarnation=B)
    path = bench.files()[0]
    written = path.read_bytes()

    for at in range(whole, len(written)):
        path.write_bytes(written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :])
        bench.reopen()
        assert bench.seqs(A) in ([1], [1, 2]), at
        assert bench.seqs(B) == [1]
        assert bench.shelf.damaged_segments == 1
        path.write_bytes(written)


def test_what_rots_while_the_agent_runs_is_noticed_when_it_is_sent(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "spool")
    bench.sweep(1, b"one")
    bench.sweep(2, b"two")
    path = bench.files()[0]
    path.write_bytes(path.read_bytes().replace(b"two", b"tow"))

    assert bench.seqs() == [1]
    assert bench.shelf.damaged_segments == 1


def test_names_are_to_be_told_again_in_every_segment(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    begins = []
    for seq in range(1, 6):
        with bench.spool.draft(A, "boot", seq) as draft:
            begins.append(draft.begins_segment)
            draft.append(Record("fs-OST0000", bytes(40_000)))
            draft.commit(Record("", b"end"))

    assert begins == [True, False, True, False, True]


def test_acknowledged_sweeps_stay_a_day_and_can_be_replayed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep(1, LARGE)
    bench.shelf.acknowledge(HERE, A, 1)
    bench.now_seconds = DAY - 1
    bench.sweep(2, LARGE)
    assert bench.seqs() == [1, 2]

    bench.shelf.resume(HERE, {A: 0}, frozenset())
    assert bench.shelf.waiting(HERE) == 2

    bench.shelf.acknowledge(HERE, A, 2)
    bench.now_seconds = DAY + 1
    bench.sweep(3, LARGE)
    assert bench.seqs() == [2, 3]


def test_what_was_not_acknowledged_stays_longer(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for seq in (1, 2, 3):
        bench.sweep(seq, LARGE)
        bench.now_seconds += 10 * DAY

    assert bench.seqs() == [1, 2, 3]


def test_acknowledged_sweeps_go_first_when_room_is_needed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for seq in range(1, 31):
        bench.sweep(seq, LARGE)
        bench.shelf.acknowledge(HERE, A, seq - 1)

    assert bench.seqs() == list(range(21, 31))
    assert bench.shelf.size() <= MAX_BYTES
    assert bench.spool.lost_sweeps == 0


def test_a_sweep_that_does_not_fit_is_lost_and_counted_and_what_is_there_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    lost = [seq for seq in range(1, 14) if bench.is_lost(seq, LARGE)]

    assert lost == [11, 12, 13]
    assert bench.spool.lost_sweeps == 3
    assert bench.shelf.size() <= MAX_BYTES
    assert bench.seqs() == list(range(1, 11))

    bench.shelf.acknowledge(HERE, A, 10)
    assert not bench.is_lost(1, LARGE, incarnation=B)


def test_after_a_sweep_that_never_fits_smaller_ones_are_kept_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.is_lost(1, bytes(MAX_BYTES))

    lost = [seq for seq in range(2, 9) if bench.is_lost(seq, LARGE)]
    assert lost == [2], "refused unread, as it would not have fitted either"


def test_a_full_disk_loses_the_sweep_and_nothing_else(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep(1, LARGE)
    bench.disk.free_bytes = 50_000

    assert bench.is_lost(2, LARGE)
    assert bench.spool.lost_sweeps == 1

    bench.disk.free_bytes = 1 << 40
    bench.sweep(1, LARGE, incarnation=B)
    bench.reopen()
    assert (bench.seqs(A), bench.seqs(B)) == ([1], [1])


def test_on_a_full_disk_acknowledged_sweeps_make_room(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep(1, LARGE)
    bench.shelf.acknowledge(HERE, A, 1)

    def write(handle: int, data: bytes) -> int:
        bench.disk.free_bytes = 0 if len(bench.shelf.segments) > 1 else 1 << 40
        return bench.disk.write(handle, data)

    bench.spool._write = write  # noqa: SLF001 - the disk is full from now on
    with bench.spool.draft(A, "boot", 2) as draft:
        draft.append(Record("fs-OST0000", LARGE))
        draft.commit(Record("", b"end"))

    assert bench.seqs() == [2]


def test_a_disk_that_cannot_sync_loses_the_sweep(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def fail(_handle: int) -> None:
        raise OSError(5, "Input/output error")

    bench.spool._sync = fail  # noqa: SLF001
    assert bench.is_lost(1, b"one")
    assert bench.seqs() == []


def test_an_aggregator_that_was_never_reached_does_not_stop_another_for_ever(tmp_path: Path) -> None:
    bench = Bench(tmp_path, uplinks=(HERE, THERE))
    lost = []
    for seq in range(1, 15):
        if bench.is_lost(seq, LARGE):
            lost.append(seq)
        else:
            bench.shelf.acknowledge(HERE, A, seq)
    assert lost == [11, 12, 13, 14], "within a day it may still come"

    bench.now_seconds = DAY + 1
    bench.shelf.acknowledge(HERE, A, 10)
    assert [seq for seq in range(1, 5) if bench.is_lost(seq, LARGE, incarnation=B)] == []
    assert bench.spool.lost_sweeps == 4 + 4, "what it will never get is counted"


def test_one_aggregator_alone_is_waited_for_however_long_it_is_silent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for seq in range(1, 11):
        bench.sweep(seq, LARGE)
    bench.now_seconds = 10 * DAY

    assert bench.is_lost(11, LARGE)
    assert bench.seqs() == list(range(1, 11))


def test_two_agents_never_share_a_spool(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    with pytest.raises(SpoolError, match="another agent uses the spool folder"):
        Shelf(str(tmp_path), [HERE])

    bench.shelf.close()
    Shelf(str(tmp_path), [HERE]).close()


def test_what_was_acknowledged_is_remembered_over_a_restart(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for seq in (1, 2, 3):
        bench.sweep(seq, LARGE)
    bench.shelf.acknowledge(HERE, A, 2)
    bench.shelf.close()
    bench.open()

    assert bench.shelf.waiting(HERE) == 1


@pytest.mark.parametrize("kept", ["", "{}", '{"here:1/main.example.harvest": {"zz": 1}}', "[1]"])
def test_cursors_that_cannot_be_read_are_forgotten(tmp_path: Path, kept: str) -> None:
    (tmp_path / "cursors.json").write_text(kept)
    bench = Bench(tmp_path)
    bench.sweep(1, b"one")

    assert bench.shelf.waiting(HERE) == 1


def test_a_death_between_the_steps_of_merging_doubles_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "spool")
    bench.sweep(1, LARGE)
    bench.sweep(2, LARGE)
    first, second = bench.files()
    start = first.read_bytes()
    first.write_bytes(start + second.read_bytes()[bench.shelf.segments[1].spans[0].start :])
    (bench.folder / "000000000002.spool.new").write_bytes(b"half")

    bench.reopen()

    assert bench.seqs() == [1, 2]
    assert bench.files() == [first]
    assert not list(bench.folder.glob("*.new"))
