"""The files with which an uplink proves who it is: read, checked, and read again when they change."""

import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from harvest_agent.certificates import said_by_child
from harvest_agent.config import ConfigError, UplinkSettings
from harvest_pki import files
from harvest_pki.errors import PkiError

Stamp = tuple[tuple[int, int, int], ...]
_SOON: Final = timedelta(days=7)
_SOON_PART: Final = 6
"""Of a lifetime is soon, too: certificates for some hours are renewed when a third of it is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """One end of TLS, as PEM."""

    ca: bytes
    certificate: bytes
    key: bytes = field(repr=False)
    name: str
    """Whose certificate it is."""
    site: str
    issued: datetime
    not_after: datetime

    def left(self, now: datetime) -> str:
        """Say how long the certificate is valid."""
        days = (self.not_after - now).days
        return "has expired" if days < 0 else f"ends in {days} days"

    def problem(self, now: datetime) -> str | None:
        """Say that the certificate ends soon, or has ended."""
        if self.not_after - now >= min(_SOON, (self.not_after - self.issued) / _SOON_PART):
            return None
        return f"the certificate of {self.name} {self.left(now)}: issue a new one"


class TlsFiles:
    """The three files of an uplink, as they were when they were last good."""

    def __init__(self, settings: UplinkSettings) -> None:
        self._settings = settings
        self._stamp = _stamp(settings)
        self.current = read_credentials(settings)

    def refresh(self) -> bool:
        """Read them again if they have changed, and tell whether they have.

        Raises ConfigError, once, for new files that cannot be used; the old ones stay in use.
        """
        now = _stamp(self._settings)
        if now == self._stamp:
            return False
        self._stamp = now
        self.current = read_credentials(self._settings)
        return True


def _stamp(settings: UplinkSettings) -> Stamp:
    """Return what changes when one of the files does; a missing one counts too."""
    found = []
    for path in (settings.ca, settings.cert, settings.key):
        try:
            status = os.stat(path)
        except OSError:
            found.append((0, 0, 0))
        else:
            found.append((status.st_mtime_ns, status.st_ino, status.st_size))
    return tuple(found)


def read_credentials(settings: UplinkSettings) -> Credentials:
    """Read the three files and check that they belong together: they may just be changing."""
    try:
        ca, certificate = files.read(Path(settings.ca)), files.read(Path(settings.cert))
        key = files.read_key(Path(settings.key))
    except PkiError as error:
        raise ConfigError(str(error)) from error
    try:
        said = said_by_child(ca, certificate, key)
    except ConfigError as error:
        raise ConfigError(f"{settings.cert}: {error}") from error
    if settings.server_name.split(".")[1] != said["site"]:
        raise ConfigError(f"{settings.cert} is of site {said['site']}, and server_name is {settings.server_name}")
    return Credentials(
        ca=ca,
        certificate=certificate,
        key=key,
        name=said["name"],
        site=said["site"],
        issued=datetime.fromisoformat(said["issued"]),
        not_after=datetime.fromisoformat(said["not_after"]),
    )
