"""Joining a site without Kubernetes: tokens, and certificates for the place where servers join, beside the CA."""

import re
import ssl
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from harvest_pki import files
from harvest_pki.certificates import bundle_pem, fingerprint
from harvest_pki.desks import Place
from harvest_pki.errors import PkiError
from harvest_pki.folders import CaFolder
from harvest_pki.identities import Identity
from harvest_pki.joining import Door
from harvest_pki.keys import PublicKey, key_pem, new_key, new_serial
from harvest_pki.serving import server_context
from harvest_pki.token_folders import TokenFolder

ReadDoor = Callable[[str, tuple[x509.Certificate, ...]], Door]
"""Makes what is asked of a site, of its name and the CAs that are trusted."""
_LABEL: Final = re.compile(r"([0-9a-f]{32})\.[a-z0-9-]{1,63}\.joining\.harvest")


def tokens_of(ca: CaFolder) -> TokenFolder:
    """Return where a CA's tokens are kept."""
    return TokenFolder(ca.path / "tokens")


class FolderSite:
    """The one site that is joined here."""

    def __init__(self, ca: CaFolder, read_door: ReadDoor, *, clock: Callable[[], datetime]) -> None:
        self._ca, self._read_door, self._clock = ca, read_door, clock
        self._contexts: dict[Path, ssl.SSLContext] = {}
        self._lock: Final = threading.Lock()
        self.name: Final = str(ca.path)
        self.tokens: Final = tokens_of(ca)

    def door(self) -> Door:
        """Return what is asked before somebody gets a certificate."""
        authority = self._ca.load()
        others = (one for one in self._ca.bundle() if one != authority.certificate)
        return self._read_door(authority.site, (authority.certificate, *others))

    def issue(self, identity: Identity, key: PublicKey, door: Door, now: datetime) -> x509.Certificate:
        """Make a certificate; it is in the index before anybody has it."""
        return self._ca.issue(identity, key, now=now, lifetime=door.lifetime)

    def place(self, _name: str | None) -> Place:
        """Return the site that a client asks for: there is but one."""
        return self

    def context(self, name: str | None) -> ssl.SSLContext:
        """Return the certificate of the CA that a client knows, if it was this site's; else the current CA's."""
        with self._lock:
            return self._context(name)

    def _context(self, name: str | None) -> ssl.SSLContext:
        asked = _LABEL.fullmatch(name or "")
        folder = self._folder(asked[1]) if asked else None
        if folder is None or not (folder / "tls.crt").exists():
            folder = self.prepare()
        if folder not in self._contexts:
            certificate, key = files.read(folder / "tls.crt"), files.read_key(folder / "tls.key")
            try:
                self._contexts[folder] = server_context(certificate, key)
            except ssl.SSLError as error:
                raise PkiError(f"{folder} is broken: remove it") from error
        return self._contexts[folder]

    def prepare(self) -> Path:
        """Have a certificate of the CA that issues now: it must be there before that CA is replaced."""
        authority = self._ca.load()
        folder = self._folder(fingerprint(authority.certificate)[:32])
        if not (folder / "tls.crt").exists():
            key = new_key()
            made = authority.issue_for_joining(key.public_key(), serial=new_serial(), now=self._clock())
            files.make_folder(folder.parent)
            files.make_folder(folder)
            files.write(folder / "tls.key", key_pem(key), mode=files.KEY_MODE)
            files.write(folder / "tls.crt", bundle_pem([made]), mode=files.PUBLIC_MODE)
        return folder

    def _folder(self, label: str) -> Path:
        return self._ca.path / "joining" / label
