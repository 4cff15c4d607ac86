"""Tokens of a site without Kubernetes: one small file each, beside the CA."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from harvest_pki import files
from harvest_pki.errors import PkiError
from harvest_pki.tokens import TOKENS_MAX, Entry


class TokenFolder:
    """A folder whose files are called after the digests of secrets."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path

    def add(self, entries: Iterable[Entry], *, now: datetime) -> None:
        """Keep what is known of new tokens; forget those that are long over."""
        files.make_folder(self._path)
        new = tuple(entries)
        with files.locked(self._path):
            there = 0
            for entry in self._entries():
                if entry.is_forgotten(now):
                    self._file(entry.digest).unlink(missing_ok=True)
                else:
                    there += 1
            if there + len(new) > TOKENS_MAX:
                raise PkiError(f"there are {there} tokens, and may be {TOKENS_MAX}: wait until some have expired")
            for entry in new:
                self._write(entry)

    def find(self, digest: str) -> Entry | None:
        """Return what is kept of a token."""
        path = self._file(digest)
        if not path.exists():
            return None
        return _read(path)

    def use(self, entry: Entry, by: str) -> bool:
        """Note durably that a token was used; False if somebody else was faster."""
        with files.locked(self._path):
            now = self.find(entry.digest)
            if now is None or now.used_by not in {"", by}:
                return False
            if not now.used_by:
                self._write(now.used(by))
        return True

    def _entries(self) -> Iterator[Entry]:
        yield from (_read(path) for path in sorted(self._path.iterdir()) if not path.name.startswith("."))

    def _write(self, entry: Entry) -> None:
        files.write(self._file(entry.digest), f"{entry.line()}\n".encode(), mode=files.KEY_MODE)

    def _file(self, digest: str) -> Path:
        return self._path / digest


def _read(path: Path) -> Entry:
    try:
        return Entry.parse(files.read(path).decode())
    except ValueError as error:
        raise PkiError(f"{path} is broken: remove it") from error
