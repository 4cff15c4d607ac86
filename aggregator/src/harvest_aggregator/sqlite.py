"""The ledger's file: made whole, checked before use, and opened the same way by everyone."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, create_engine, event, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from harvest_aggregator.errors import LedgerError
from harvest_aggregator.tables import SCHEMA_VERSION, meta, schema, writer

APPLICATION_ID: Final = 0x48525653  # "HRVS": what this file is, for file(1) and for us
_MAGIC: Final = b"SQLite format 3\0"
PAGE_BYTES: Final = 16384  # batches are large: half the CPU of 4096
_WAL_KEPT_BYTES: Final = 64 << 20
_BUSY_SECONDS: Final = 5.0
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SETTINGS: Final = (
    "synchronous = FULL",  # with a WAL: what was committed survives a power cut
    "wal_autocheckpoint = 0",  # the keeper does it, between two transactions and not within one
    f"journal_size_limit = {_WAL_KEPT_BYTES}",
    "secure_delete = OFF",  # Debian's default overwrites what is dropped: it doubles what folding writes
    "cache_size = -16384",
    "trusted_schema = OFF",
)


def connect(path: Path) -> Connection:
    """Open a ledger that is there. Every transaction takes the write lock at once; failing late costs work."""

    def open_file() -> sqlite3.Connection:
        raw = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,  # opened by who starts the aggregator, used by its one thread
            timeout=_BUSY_SECONDS,
        )
        for setting in _SETTINGS:
            raw.execute(f"PRAGMA {setting}")
        return raw

    engine = create_engine("sqlite://", creator=open_file, poolclass=StaticPool)
    event.listen(engine, "begin", _begin_immediate)
    return engine.connect()


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def disconnect(connection: Connection) -> None:
    """Close a ledger for good: the last one out also folds the WAL into the file."""
    engine: Engine = connection.engine
    connection.close()
    engine.dispose()


def checkpoint(connection: Connection, path: Path, *, shrink: bool = False) -> None:
    """Copy what the WAL holds into the file, as far as readers allow: never waits for them."""
    raw = connection.connection.cursor()
    with translated(path):
        raw.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if shrink else 'PASSIVE'})").fetchall()


def make(path: Path) -> None:
    """Make an empty ledger. It appears whole or not at all: an empty file can only be a damaged one."""
    if path.with_name(f"{path.name}-wal").exists():
        raise LedgerError(
            f"{path} is missing, but {path.name}-wal, a part of it, is there: restore a backup (harvest-aggregator"
            f" restore; again, if that was cut short), or put the file back (a restore keeps it, with its -wal, as"
            f" {path.name}.replaced-DATE), or move {path.name}-wal away to start with an empty ledger"
        )
    new = path.with_name(f"{path.name}.new")
    for leftover in (new, *(new.with_name(f"{new.name}-{end}") for end in ("wal", "shm", "journal"))):
        leftover.unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(new, isolation_level=None)) as raw:
        for setting in (
            *(f"page_size = {PAGE_BYTES}", "journal_mode = WAL"),
            *(f"application_id = {APPLICATION_ID}", f"user_version = {SCHEMA_VERSION}"),
        ):
            raw.execute(f"PRAGMA {setting}")
    connection = connect(new)
    with connection.begin():
        schema.create_all(connection)
        connection.execute(insert(writer), {"epoch": 0})
        connection.execute(
            insert(meta),
            [
                {"name": "schema_version", "value": str(SCHEMA_VERSION)},
                {"name": "made_seconds", "value": str(int(time.time()))},
            ],
        )
    disconnect(connection)
    rename_durably(new, path)


def rename_durably(new: Path, path: Path) -> None:
    """Put a file in its place, so that a power cut leaves the one or the other."""
    sync(new)
    new.rename(path)
    sync(path.parent)


def sync(place: Path) -> None:
    """Wait until a file's content, or a folder's names, would survive a power cut."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_header(path: Path) -> None:
    """Refuse a file that is not a ledger, or one of another version, before SQLite touches it."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise LedgerError(f"cannot read the ledger {path}: {error.strerror}") from error
    if len(header) < 100:
        raise LedgerError(damaged(path, "it is shorter than any ledger"))
    if header[:16] != _MAGIC or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise LedgerError(f"{path} is not a ledger of Harvest: {_WHAT_TO_DO}")
    version = int.from_bytes(header[60:64], "big")
    if version != SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger {path} has version {version}, and this aggregator reads version {SCHEMA_VERSION}: run the"
            " aggregator that wrote it"
        )


def check_whole(connection: Connection, path: Path) -> None:
    """Refuse a ledger whose pages do not fit together; its payloads have checksums of their own."""
    with translated(path):
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        connection.rollback()
    if found != "ok":
        raise LedgerError(damaged(path, str(found)))


_WHAT_TO_DO: Final = (
    "restore a backup (harvest-aggregator restore), or move the file away to start with an empty ledger; agents then"
    " send again what they still have"
)


def damaged(path: Path, what: str) -> str:
    """Say that a ledger cannot be trusted. Nothing in it is changed: it may still be worth something to a person."""
    return f"the ledger {path} is damaged ({' '.join(what.split())}): {_WHAT_TO_DO}"


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Say what SQLite says so that a person can act on it."""
    try:
        yield
    except DBAPIError as error:
        raise LedgerError(_message(path, error.orig)) from error
    except sqlite3.Error as error:
        raise LedgerError(_message(path, error)) from error
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be used now: {error.strerror}") from error


def _message(path: Path, error: BaseException | None) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the details in the higher bytes
    if code in _DAMAGED:
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_FULL:
        return f"no room for the ledger {path}: make some; agents keep their sweeps until then"
    return f"the ledger {path} cannot be used now: {error}"
