"""The only module that touches files: whole or not at all, durable, and keys for their owner alone."""

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from harvest_pki.errors import PkiError

KEY_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
_FOLDER_MODE: Final = 0o700
_BYTES_MAX: Final = 64 << 20  # an index of a large site is a hundredth of it


def read(path: Path) -> bytes:
    """Read a whole file that anybody may see."""
    return _read(path, secret=False)


def read_key(path: Path) -> bytes:
    """Read a key; one that others can read too is a secret no more, and refused."""
    return _read(path, secret=True)


def too_open(*, mode: int, owner: int, reader: int) -> bool:
    """Tell whether a key file can be read by others than its owner.

    Kubernetes gives a Pod its keys as files of root that the Pod's group may read; that much is allowed, as in
    PostgreSQL.
    """
    allowed = 0o740 if owner == 0 and reader != 0 else 0o700
    return bool(stat.S_IMODE(mode) & 0o777 & ~allowed)


def write(path: Path, content: bytes, *, mode: int, group: int | None = None) -> None:
    """Replace a file at once: after a crash it holds the old or the new content, and nobody ever sees a part of it."""
    try:
        handle, new = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                if group is not None:
                    os.fchown(file.fileno(), -1, group)
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            Path(new).replace(path)
        except BaseException:
            with suppress(FileNotFoundError):
                Path(new).unlink()
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise PkiError(f"cannot write {path}: {error.strerror}") from error


def make_folder(path: Path) -> None:
    """Make a folder for its owner alone, if it is not there; refuse one in which others could swap files."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=_FOLDER_MODE)
            sync_folder(path.parent)
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise PkiError(f"cannot make the folder {path}: {error.strerror}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PkiError(
            f"others can write in {path}: choose another folder, or, if it is only Harvest's: chmod 700 {path}"
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other commands out of a folder meanwhile; they hold it for moments only, and never after their death."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise PkiError(f"cannot open the folder {folder}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _read(path: Path, *, secret: bool) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if secret and too_open(mode=status.st_mode, owner=status.st_uid, reader=os.geteuid()):
                raise PkiError(f"others can read the key {path}: chmod 600 {path}")
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise PkiError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > _BYTES_MAX:
        raise PkiError(f"{path} has more than {_BYTES_MAX >> 20} MiB, and is not read")
    return content


def sync_folder(path: Path) -> None:
    """Make durable what was renamed in a folder."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
