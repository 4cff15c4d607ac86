"""Key, certificate and CAs in a folder that is replaced at once: key and certificate always belong together.

``tls`` is a link to one of its versions beside it. A crash leaves the old or the new one, and an agent that starts
then has an identity in any case.
"""

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from harvest_pki import files
from harvest_pki.errors import PkiError
from harvest_pki.keys import PrivateKey, key_pem, load_key, new_key
from harvest_pki.tokens import Token, digest

FOLDER: Final = "tls"
CA, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
_CA_THEN: Final = "ca-then.crt"
"""The CAs that were trusted when the certificate was asked for."""
_KEPT: Final = ".joining-"


class TlsLink:
    """The link, by its path."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._prefix: Final = f".{path.name}-"

    def check(self) -> None:
        """Refuse a folder that cannot be replaced at once."""
        if os.path.lexists(self.path) and not self.path.is_symlink():
            raise PkiError(
                f"{self.path} is not of `harvest-agent join`, and cannot be renewed: move it away, then join"
            )

    def draft(self, key: PrivateKey) -> Path:
        """Begin another version with its key: a disk that is full is noticed before anybody signs."""
        self.check()
        draft = self.path.parent / f"{self._prefix}{secrets.token_hex(8)}"
        files.make_folder(draft)
        files.write(draft / KEY, key_pem(key), mode=files.KEY_MODE)
        return draft

    def take(self, draft: Path, certificate: bytes, ca: bytes) -> None:
        """Finish a version, and use it from now on."""
        for name, content in ((CA, ca), (_CA_THEN, ca), (CERTIFICATE, certificate)):
            files.write(draft / name, content, mode=files.PUBLIC_MODE)
        link = self.path.parent / f"{draft.name}.link"
        try:
            os.symlink(draft.name, link)
            os.replace(link, self.path)
            files.sync_folder(self.path.parent)  # before the old version goes
        except OSError as error:
            raise PkiError(f"cannot write {self.path}: {error.strerror}") from error
        self.tidy()

    def write_ca(self, ca: bytes) -> None:
        """Trust other CAs."""
        files.write(self.path / CA, ca, mode=files.PUBLIC_MODE)

    def has_new_ca(self) -> bool:
        """Tell whether other CAs have come to be trusted since the certificate was made."""
        return files.read(self.path / CA) != files.read(self.path / _CA_THEN)

    def ca_since_seconds(self) -> float:
        """Return since when they are trusted."""
        return os.stat(self.path / CA).st_mtime

    def tidy(self) -> None:
        """Remove versions that nobody uses."""
        with suppress(OSError):
            used = os.readlink(self.path) if self.path.is_symlink() else ""
            for name in os.listdir(self.path.parent):
                if name.startswith(self._prefix) and name != used:
                    old = self.path.parent / name
                    if old.is_symlink():
                        old.unlink(missing_ok=True)
                    else:
                        shutil.rmtree(old, ignore_errors=True)


class KeptKey:
    """The key for which a token is used, until all is there: whatever broke off, the token is good for this key alone.

    It is not a draft: agents that run beside it, and cannot renew, tidy theirs.
    """

    def __init__(self, folder: Path, token: Token) -> None:
        self._path: Final = folder / f"{_KEPT}{digest(token.secret)[:32]}.key"

    def is_there(self) -> bool:
        """Tell whether somebody tried to join with the token before, and did not come to the end."""
        return self._path.exists()

    def is_unfinished(self, link: TlsLink) -> bool:
        """Tell whether what is there is of a join, with this token or another, that did not come to the end."""
        kept = [files.read_key(one) for one in self._path.parent.glob(f"{_KEPT}*.key")]
        return bool(kept) and files.read_key(link.path / KEY) in kept

    def key(self) -> PrivateKey:
        """Return the key, made if need be; those of other tokens are forgotten."""
        for other in self._path.parent.glob(f"*{_KEPT}*"):
            if other != self._path:
                _remove(other)
        if not self.is_there():
            files.write(self._path, key_pem(new_key()), mode=files.KEY_MODE)
        return load_key(files.read_key(self._path))

    def forget(self) -> None:
        """Remove it."""
        _remove(self._path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
