"""Copies of a ledger, while it is in use, and back."""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import delete, insert, select, update

from harvest_aggregator import sqlite
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.locking import Lock, refuse_network
from harvest_aggregator.tables import meta, writer


def backup(ledger: Path, to: Path, *, overwrite: bool = False) -> int:
    """Copy a ledger, in use or not, as it is at one moment; return the copy's size. It appears whole or not at all.

    Not for the process that has the ledger open: POSIX drops its locks when any of its handles on the file is closed.
    """
    sqlite.check_header(ledger)
    if to.exists() and not overwrite:
        raise LedgerError(f"{to} is there already: choose another name, or say that it may be overwritten")
    with _new_copy(ledger, to) as new:
        sqlite.rename_durably(new, to)
    return to.stat().st_size


def restore(backup_file: Path, ledger: Path) -> Path | None:
    """Put a backup in the ledger's place; return where the replaced one is kept, if there was one.

    The next aggregator goes on from there, and tells agents what it does not have any more: they send it again.
    """
    sqlite.check_header(backup_file)
    try:
        ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"cannot make the folder {ledger.parent}: {error.strerror}") from error
    refuse_network(ledger)
    lock = Lock(ledger)
    try:
        with _new_copy(backup_file, ledger) as new:
            _fence(new, after=_epoch(ledger))
            kept = _swap(new, ledger)
    finally:
        lock.release()
    return kept


@contextmanager
def _new_copy(source: Path, target: Path) -> Iterator[Path]:
    """Give a checked copy of a ledger, beside where it shall be; what is left of it afterwards is removed."""
    new = target.with_name(f"{target.name}.{os.getpid()}.part")
    parts = (new, *(new.with_name(f"{new.name}{end}") for end in ("-wal", "-shm", "-journal")))
    try:
        _remove(parts)  # in a container a process that was killed had the same number
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise LedgerError(f"cannot write {new}: {error.strerror}") from error
    try:
        with (
            sqlite.translated(source),
            closing(sqlite3.connect(_readable(source), uri=True)) as old,
            closing(sqlite3.connect(new, isolation_level=None)) as copy,
        ):
            old.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file that can be carried around
            found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise LedgerError(sqlite.damaged(source, str(found)))
        yield new
    except OSError as error:
        raise LedgerError(f"cannot write {target}: {error.strerror}") from error
    finally:
        _remove(parts)


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _readable(ledger: Path) -> str:
    return f"{ledger.absolute().as_uri()}?mode=rw"  # one that was not closed well can only be read by mending its WAL


def _epoch(ledger: Path) -> int:
    """Return the epoch of the ledger that is replaced, where it can be told: whoever still writes there has lost."""
    try:
        with closing(sqlite3.connect(_readable(ledger), uri=True)) as old:
            return int(old.execute("SELECT epoch FROM writer").fetchone()[0])
    except (sqlite3.Error, TypeError, ValueError):
        return 0


def _fence(new: Path, *, after: int) -> None:
    with closing(sqlite3.connect(new, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
    connection = sqlite.connect(new)
    with sqlite.translated(new), connection.begin():
        epoch = max(connection.execute(select(writer.c.epoch)).scalar_one(), after)
        connection.execute(update(writer).values(epoch=epoch + 1))
        connection.execute(delete(meta).filter_by(name="restored_seconds"))
        connection.execute(insert(meta), {"name": "restored_seconds", "value": str(int(time.time()))})
    sqlite.disconnect(connection)


def _swap(new: Path, ledger: Path) -> Path | None:
    """Put a new ledger in the place of the old one, which is kept under a name that says when.

    Whenever this is cut short, there is one whole ledger, or the next start says that a restore must be done again.
    """
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    names = (ledger.with_name(f"{ledger.name}.replaced-{date}{end}") for end in ("", *(f"-{n}" for n in range(1, 100))))
    kept = next(name for name in names if not name.exists())
    had = ledger.exists()
    if had:
        os.link(ledger, kept)
    wal = ledger.with_name(f"{ledger.name}-wal")
    if wal.exists():  # one that SQLite cannot read; neither may the old file go on without it nor the new one with it
        os.link(wal, kept.with_name(f"{kept.name}-wal"))
        sqlite.sync(ledger.parent)
        ledger.unlink(missing_ok=True)
        sqlite.sync(ledger.parent)
        nothing = wal.with_name(f"{wal.name}.part")
        nothing.touch(0o600)
        nothing.rename(wal)
    sqlite.sync(ledger.parent)
    sqlite.rename_durably(new, ledger)
    return kept if had else None
