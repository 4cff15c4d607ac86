import stat
from pathlib import Path

import pytest

from harvest_aggregator.backups import backup, restore
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Ledger, Line

STREAM = ("oss1", b"incarnation-no-1")


def line(seq: int) -> Line:
    return Line("home", "home-OST0000", *STREAM, seq, 0, b"sweep %d" % seq)


def fill(path: Path, *seqs: int) -> int:
    """Accept these sweeps, and return the epoch in which that was."""
    ledger = Ledger(path)
    ledger.open()
    for seq in seqs:
        ledger.accept([line(seq)], {STREAM: seq}, arrived_seconds=5.0)
    ledger.close()
    return ledger._epoch  # noqa: SLF001


def kept(path: Path) -> tuple[list[Line], int]:
    ledger = Ledger(path)
    ledger.open()
    found = list(ledger.lines("home")), ledger.acked(*STREAM)
    ledger.close()
    return found


def test_a_backup_comes_back_as_it_was(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "data" / "ledger.db", tmp_path / "copy.db"
    fill(ledger, 1, 2)
    assert backup(ledger, copy) == copy.stat().st_size
    last = fill(ledger, 3)

    replaced = restore(copy, ledger)

    assert kept(ledger) == ([line(1), line(2)], 2)
    assert replaced is not None
    assert kept(replaced) == ([line(1), line(2), line(3)], 3)
    assert fill(ledger) > last
    assert stat.S_IMODE(copy.stat().st_mode) == stat.S_IMODE(ledger.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["copy.db"]


def test_a_backup_is_restored_where_there_was_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "ledger.db", 1)
    backup(tmp_path / "ledger.db", tmp_path / "copy.db")

    assert restore(tmp_path / "copy.db", tmp_path / "new" / "ledger.db") is None
    assert kept(tmp_path / "new" / "ledger.db") == ([line(1)], 1)


def test_a_damaged_ledger_can_be_replaced_and_is_kept(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    fill(ledger, 1)
    backup(ledger, copy)
    ledger.write_bytes(b"nothing that anybody could read")

    replaced = restore(copy, ledger)

    assert replaced is not None
    assert replaced.name.startswith("ledger.db.replaced-")
    assert replaced.read_bytes() == b"nothing that anybody could read"
    assert kept(ledger) == ([line(1)], 1)


def test_a_backup_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    fill(ledger, 1)
    copy.write_bytes(b"the last good one")

    with pytest.raises(LedgerError, match="is there already: choose another name"):
        backup(ledger, copy)
    assert copy.read_bytes() == b"the last good one"
    backup(ledger, copy, overwrite=True)
    assert kept(copy) == ([line(1)], 1)


def test_a_damaged_ledger_makes_no_backup(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    fill(ledger, *range(1, 9))
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[: len(whole) // 2])

    with pytest.raises(LedgerError, match="is damaged"):
        backup(ledger, copy)
    assert [file.name for file in tmp_path.iterdir() if "copy" in file.name] == []


def test_what_is_no_backup_replaces_nothing(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    fill(ledger, 1)
    copy.write_bytes(b"x" * 1000)

    with pytest.raises(LedgerError, match="is not a ledger of Harvest"):
        restore(copy, ledger)
    assert kept(ledger) == ([line(1)], 1)


def test_nothing_is_restored_under_a_running_aggregator(tmp_path: Path) -> None:
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    fill(path, 1)
    backup(path, copy)
    ledger = Ledger(path)
    ledger.open()

    with pytest.raises(LedgerError, match=r"has the ledger .* open: stop that one first"):
        restore(copy, path)
    ledger.close()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    fill(tmp_path / "ledger.db", 1)

    with pytest.raises(LedgerError, match=r"cannot write .*: No such file or directory"):
        backup(tmp_path / "ledger.db", tmp_path / "nowhere" / "copy.db")
