"""The files that an aggregator is told by, and whether they were changed."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from cryptography.x509 import Certificate

from harvest_aggregator.identity import Admission, admission, served_by
from harvest_pki import files
from harvest_pki.certificates import bundle_pem, load_bundle, load_certificate
from harvest_pki.errors import PkiError
from harvest_pki.folders import Tls, read_tls
from harvest_pki.identities import site_of_ca
from harvest_site.loading import load
from harvest_site.model import Site
from harvest_site.references import KeyRef, secret_folder, secret_path

Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Orders:
    """What the files say: the whole site, this aggregator's part of it, its certificates, and who may come."""

    site: Site
    own: Site
    tls: Tls
    admission: Admission
    relay_ends: Mapping[str, datetime]
    """Until when the certificates are valid with which relays go to their clusters' heads, as far as they are there."""


@dataclass(frozen=True, slots=True)
class OrderFiles:
    """Where they are."""

    site: Path
    tls: Path
    aggregator: str
    secrets: Path | None = None

    def read(self) -> Orders:
        """Read all of them; raises SiteError or PkiError, with what to do, if they make no sense alone or together."""
        site = load(self.site)
        own = served_by(site, self.aggregator)
        tls = read_tls(self.tls)
        cas, unvouched = self._relay_cas(own)
        admitted = admission(own, tls, self.aggregator, cas, unvouched)
        trusted = [tls.ca, *(bundle_pem(bundle) for bundle in cas.values())]  # who speaks for whom is asked after TLS
        return Orders(site, own, replace(tls, ca=b"\n".join(trusted)), admitted, self._relay_ends(own))

    def stamp(self) -> Stamp:
        """Return what differs once one of them was changed or replaced."""
        secrets = () if self.secrets is None else self.secrets.glob("*/*")
        return tuple(
            stamps((self.site, *(self.tls / name for name in ("tls.crt", "tls.key", "ca.crt")), *sorted(secrets)))
        )

    def _relay_cas(self, site: Site) -> tuple[dict[str, tuple[Certificate, ...]], dict[str, str]]:
        """Return the CAs of relays that have certificates of their own sites, and why there is none of some.

        One that cannot be read is the trouble of its relay alone: agents and all others are served.
        """
        found, unvouched = {}, {}
        for one in site.spec.accepts:
            if one.ca_secret_ref is not None:
                try:
                    found[one.name] = self._relay_ca(one.ca_secret_ref)
                except PkiError as error:
                    unvouched[one.name] = (
                        f"its CA, secret/{one.ca_secret_ref.name} (`caSecretRef`), is not known: {error}"
                    )
        return found, unvouched

    def _relay_ca(self, ref: KeyRef) -> tuple[Certificate, ...]:
        if self.secrets is None:
            raise PkiError("give --secrets DIR")
        bundle = load_bundle(files.read(secret_path(self.secrets, ref)))
        site_of_ca(bundle[0])  # refuses one that does not say whose it is
        return bundle

    def _relay_ends(self, site: Site) -> dict[str, datetime]:
        """Return when certificates end; one that cannot be read is its relay's trouble, which says so when it sends."""
        found = {}
        for one in site.spec.relays:
            if self.secrets is not None:
                with suppress(PkiError):
                    own = files.read(secret_folder(self.secrets, one.tls_secret_ref) / "tls.crt")
                    found[one.cluster] = load_certificate(own).not_valid_after_utc
        return found


def stamps(paths: Iterable[Path]) -> Iterable[tuple[int, int, int] | None]:
    """Return of each file what differs once it was changed or replaced."""
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            yield None
        else:
            yield status.st_ino, status.st_size, status.st_mtime_ns
