"""The folders of a site without Kubernetes: its CA with what it issued, and the files of one end of TLS."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Self

from cryptography import x509

from harvest_pki import files
from harvest_pki.authorities import Authority, rotated
from harvest_pki.certificates import (
    belongs,
    bundle_pem,
    fingerprint,
    load_bundle,
    load_certificate,
    parse_serial,
    serial_text,
)
from harvest_pki.errors import PkiError, shown
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import PublicKey, key_pem, load_key, new_key, new_serial

_REMEMBERED: Final = timedelta(days=30)
"""How long the index keeps a certificate that is over: longer than it can be renewed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """One line of the index: a certificate that was given out."""

    serial: int
    kind: Kind
    name: str
    not_after: datetime
    ca: str
    """Fingerprint of the CA that issued it."""

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a line of the index."""
        raw = json.loads(line)
        return cls(
            serial=parse_serial(raw["serial"]),
            kind=Kind(raw["kind"]),
            name=raw["name"],
            not_after=datetime.fromisoformat(raw["not_after"]),
            ca=raw["ca"],
        )

    def line(self) -> str:
        """Return the line of the index."""
        return json.dumps(
            {
                "serial": serial_text(self.serial),
                "kind": self.kind,
                "name": self.name,
                "not_after": self.not_after.isoformat(),
                "ca": self.ca,
            }
        )


def newest(issued: Iterable[Issued]) -> tuple[Issued, ...]:
    """Return the last certificate of every holder."""
    return tuple({(entry.kind, entry.name): entry for entry in issued}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The files of one end of TLS, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes


def read_tls(folder: Path) -> Tls:
    """Read one end's files and check that they belong together: they may just be changing."""
    tls = Tls(
        certificate=files.read(folder / "tls.crt"),
        key=files.read_key(folder / "tls.key"),
        ca=files.read(folder / "ca.crt"),
    )
    load_bundle(tls.ca)
    if not belongs(load_key(tls.key), load_certificate(tls.certificate)):
        raise PkiError(f"{folder}/tls.crt and tls.key do not belong together: issue both again")
    return tls


class CaFolder:
    """A CA kept as files: ``ca.crt`` (what is trusted), ``ca.key`` and ``issued.jsonl`` (the index)."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._bundle: Final = path / "ca.crt"
        self._key: Final = path / "ca.key"
        self._index: Final = path / "issued.jsonl"

    def create(self, authority: Authority, *, force: bool = False) -> None:
        """Keep a new CA; one that is there is only replaced by force, and its index begins anew."""
        files.make_folder(self.path)
        with files.locked(self.path):
            there = [file for file in (self._bundle, self._key, self._index) if file.exists()]
            if there and not force:
                raise PkiError(
                    f"there is a CA already ({there[0]}). `ca rotate` replaces it without interruption; "
                    "--force throws it away, and every certificate of it stops working"
                )
            files.write(self._bundle, bundle_pem([authority.certificate]), mode=files.PUBLIC_MODE)
            files.write(self._key, key_pem(authority.key), mode=files.KEY_MODE)
            files.write(self._index, b"", mode=files.PUBLIC_MODE)

    def load(self) -> Authority:
        """Return the CA that issues."""
        if not self._bundle.exists() and not self._key.exists():
            raise PkiError(f"there is no CA in {self.path}: make one with `ca init`")
        return Authority.of(self.bundle(), load_key(files.read_key(self._key)))

    def bundle(self) -> tuple[x509.Certificate, ...]:
        """Return every CA certificate that is trusted; several during a rotation, the newest first."""
        return load_bundle(files.read(self._bundle))

    def issued(self) -> tuple[Issued, ...]:
        """Return all certificates given out, in order; those that ended long ago are forgotten."""
        if not self._index.exists():  # the site brought its own CA
            return ()
        lines = files.read(self._index).decode(errors="replace").splitlines()
        entries = []
        for number, line in enumerate(lines, start=1):
            try:
                entries.append(Issued.parse(line))
            except (ValueError, KeyError, TypeError, AttributeError, PkiError) as error:
                raise PkiError(f"{self._index}, line {number} is broken, mend or remove it: {shown(line)}") from error
        return tuple(entries)

    def issue(
        self, identity: Identity, public_key: PublicKey, *, now: datetime, lifetime: timedelta | None = None
    ) -> x509.Certificate:
        """Issue a certificate for a key made here or elsewhere (CSR); it is in the index before anybody has it."""
        with files.locked(self.path):
            authority = self.load()
            certificate = authority.issue(identity, public_key, serial=new_serial(), now=now, lifetime=lifetime)
            entry = Issued(
                serial=certificate.serial_number,
                kind=identity.kind,
                name=identity.name,
                not_after=certificate.not_valid_after_utc,
                ca=fingerprint(authority.certificate),
            )
            kept = [old for old in self.issued() if now < old.not_after + _REMEMBERED]
            content = "".join(f"{line.line()}\n" for line in (*kept, entry))
            files.write(self._index, content.encode(), mode=files.PUBLIC_MODE)
        return certificate

    def write_server(
        self, folder: Path, name: str, *, now: datetime, lifetime: timedelta | None = None
    ) -> x509.Certificate:
        """Issue an aggregator's certificate and write its ``tls.crt``, ``tls.key`` and ``ca.crt``."""
        return self._write(folder, Kind.AGGREGATOR, name, now=now, lifetime=lifetime)

    def write_agent(
        self, folder: Path, name: str, *, now: datetime, lifetime: timedelta | None = None
    ) -> x509.Certificate:
        """Issue the certificate of the agent on a server and write the same three files."""
        return self._write(folder, Kind.SERVER, name, now=now, lifetime=lifetime)

    def write_relay(
        self, folder: Path, name: str, *, now: datetime, lifetime: timedelta | None = None
    ) -> x509.Certificate:
        """Issue the certificate with which another site's aggregator comes and write the same three files."""
        return self._write(folder, Kind.RELAY, name, now=now, lifetime=lifetime)

    def write_trusted(self, folder: Path) -> None:
        """Write ``ca.crt`` for one end of TLS: what it trusts."""
        files.write(folder / "ca.crt", bundle_pem(self.bundle()), mode=files.PUBLIC_MODE)

    def rotate(self, authority: Authority, *, now: datetime) -> None:
        """Let a new CA issue from now on, and trust the old one beside it.

        The key decides which certificate of the bundle issues, so a crash between the two writes changes nothing.
        """
        with files.locked(self.path):
            if (site := self.load().site) != authority.site:
                raise PkiError(f"this is the CA of site {site}; it cannot become that of site {authority.site}")
            trusted = rotated(self.bundle(), authority, now=now)
            files.write(self._bundle, bundle_pem(trusted), mode=files.PUBLIC_MODE)
            files.write(self._key, key_pem(authority.key), mode=files.KEY_MODE)

    def finish_rotation(self, *, now: datetime, force: bool = False) -> None:
        """Trust the new CA only; refused while somebody's last certificate is of an old one and still valid."""
        with files.locked(self.path):
            certificate = self.load().certificate
            waiting = [
                entry.name
                for entry in newest(self.issued())
                if entry.ca != fingerprint(certificate) and now < entry.not_after
            ]
            if waiting and not force:
                few = ", ".join(waiting[:5]) + (f" and {len(waiting) - 5} more" if len(waiting) > 5 else "")
                raise PkiError(
                    f"the old CA is still needed by {few}: issue new certificates for them first, "
                    "or cut them off with --force"
                )
            files.write(self._bundle, bundle_pem([certificate]), mode=files.PUBLIC_MODE)

    def _write(
        self, folder: Path, kind: Kind, name: str, *, now: datetime, lifetime: timedelta | None
    ) -> x509.Certificate:
        identity = Identity(site=self.load().site, kind=kind, name=name)
        files.make_folder(folder)
        key = new_key()
        certificate = self.issue(identity, key.public_key(), now=now, lifetime=lifetime)
        self.write_trusted(folder)
        files.write(folder / "tls.key", key_pem(key), mode=files.KEY_MODE)
        files.write(folder / "tls.crt", bundle_pem([certificate]), mode=files.PUBLIC_MODE)  # last: readers watch it
        return certificate
