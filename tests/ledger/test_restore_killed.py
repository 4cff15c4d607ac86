"""A restore that is killed, before any of the things that it does to files."""

import os
import shutil
import sys
from itertools import count
from pathlib import Path

import pytest

from harvest_aggregator.backups import backup, restore
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Ledger, Line

STREAM = ("oss1", b"incarnation-no-1")
KILLED = 9
SAYS_WHAT_TO_DO = "restore a backup (harvest-aggregator restore"
STEPS = frozenset({"open", "os.link", "os.remove", "os.rename", "os.truncate", "sqlite3.connect"})


def line(seq: int) -> Line:
    return Line("home", "home-OST0000", *STREAM, seq, 0, b"sweep %d" % seq)


def restored_until(step: int, copy: Path, path: Path) -> bool:
    """Restore in a process of its own that dies before a step; tell whether it came to its end."""
    child = os.fork()
    if not child:
        left = iter(range(step))

        def before(event: str, arguments: tuple[object, ...]) -> None:
            if event in STEPS and str(path.parent) in str(arguments[0]) and next(left, None) is None:
                os._exit(KILLED)

        sys.addaudithook(before)
        try:
            restore(copy, path)
        except BaseException:  # noqa: BLE001 - a child must not go on with the test
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, KILLED}
    return code == 0


def acked(path: Path) -> int:
    ledger = Ledger(path)
    ledger.open()
    found = ledger.acked(*STREAM)
    assert [one.seq for one in ledger.lines("home")] == list(range(1, found + 1))
    ledger.close()
    return found


def found_at_start(path: Path) -> int | str:
    try:
        return acked(path)
    except LedgerError as error:
        return SAYS_WHAT_TO_DO if SAYS_WHAT_TO_DO in str(error) else str(error)


def original(folder: Path) -> Path:
    """Make a ledger that was not closed, so that it has a WAL, and a backup that lacks its last sweep."""
    ledger = Ledger(folder / "ledger.db")
    ledger.open()
    ledger.accept([line(1)], {STREAM: 1}, arrived_seconds=5.0)
    backup_process = os.fork()  # POSIX drops the locks of a process that closes any of its handles on the file
    if not backup_process:
        backup(ledger.path, folder / "copy.db")
        os._exit(0)
    os.waitpid(backup_process, 0)
    ledger.accept([line(2)], {STREAM: 2}, arrived_seconds=6.0)
    (folder / "unclosed").mkdir()
    for end in ("", "-wal"):
        shutil.copy(folder / f"ledger.db{end}", folder / f"unclosed/ledger.db{end}")
    ledger.close()
    return folder / "unclosed"


@pytest.mark.parametrize("damaged", [False, True])
def test_a_restore_that_is_killed_leaves_a_whole_ledger_or_the_next_start_says_what_to_do(
    tmp_path: Path, *, damaged: bool
) -> None:
    unclosed = original(tmp_path)
    if damaged:
        (unclosed / "ledger.db").write_bytes(b"x" * 1000)
    found = []
    for step in count():
        path = Path(shutil.copytree(unclosed, tmp_path / f"{step}")) / "ledger.db"
        ended = restored_until(step, tmp_path / "copy.db", path)
        found.append(found_at_start(path))
        if ended:
            break
        if found[-1] != 1:
            restore(tmp_path / "copy.db", path)
            assert acked(path) == 1
    print(f"killed before each of {len(found) - 1} steps; what the next start found: {found}")
    assert found[0] == (SAYS_WHAT_TO_DO if damaged else 2)
    assert set(found) == {found[0], 1}
    assert found[-1] == 1
    assert len(found) > len(STEPS)
