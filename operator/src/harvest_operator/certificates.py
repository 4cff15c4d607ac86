"""Certificates of aggregators and of agents beside them, and the token of their HTTP API: what is made anew, and when.

Pure: the clock is an argument, and what is random, too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509

from harvest_operator.authorities import Trust
from harvest_operator.minting import Made, Mint, content_of, is_marked, replaced, secret
from harvest_operator.names import SECRET, Key, Object, shown
from harvest_pki.certificates import belongs, bundle_pem, load_certificate
from harvest_pki.checks import renewal_due
from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity, hosts_of, identity_of
from harvest_pki.keys import key_pem, load_key
from harvest_site.model import Site

_RELAY_ENDS: Final = timedelta(days=14)
"""So long before its end people are told: another site's people make the next."""
_TOKEN: Final = re.compile(r"[!-~]{16,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One certificate in an aggregator's Secret."""

    identity: Identity
    keys: tuple[str, str] = ("tls.crt", "tls.key")
    hosts: frozenset[str] = frozenset()
    lifetime: timedelta | None = None


def certificates(
    found: Object | None,
    holders: Iterable[Holder],
    trust: Trust,
    metadata: dict[str, Any],
    mint: Mint,
    now: datetime,
) -> Made | None:
    """Return an aggregator's Secret if it must be written: certificates that are due, or what is trusted changed."""
    before = {} if found is None else content_of(found)
    wanted: dict[str, bytes] = {"ca.crt": trust.pem}
    issued = []
    for holder in holders:
        pair = [before.get(key, b"") for key in holder.keys]
        if why_not(pair[0], pair[1], holder, trust, now) is not None:
            key = mint.key()
            certificate = trust.issuer.issue(
                holder.identity,
                key.public_key(),
                serial=mint.serial(),
                now=now,
                lifetime=holder.lifetime,
                hosts=sorted(holder.hosts),
            )
            pair = [bundle_pem([certificate]), key_pem(key)]
            issued.append(f"{holder.identity.text} until {certificate.not_valid_after_utc:%Y-%m-%d}")
        wanted.update(zip(holder.keys, pair, strict=True))
    if found is not None and wanted == before and is_marked(found, metadata):
        return None
    said = ("CertificateIssued", ", ".join(issued)) if issued else ("CertificateUpdated", "what is trusted changed")
    made = secret(metadata, wanted) if found is None else replaced(found, wanted, metadata)
    return Made(made, said)


def why_not(certificate: bytes, key: bytes, holder: Holder, trust: Trust, now: datetime) -> str | None:
    """Say why a certificate will not do any longer."""
    try:
        read = load_certificate(certificate)
        if not belongs(load_key(key), read):
            return "its key is another one"
        if identity_of(read) != holder.identity or hosts_of(read) != holder.hosts:
            return "it is of another name"
    except PkiError as error:
        return str(error)
    if not any(_issued(read, issuer) for issuer in trust.bundle):
        return "its CA is trusted no more"
    could_last = trust.issuer.certificate.not_valid_after_utc > read.not_valid_after_utc
    return "it is due" if could_last and now >= due(read) else None


def due(certificate: x509.Certificate) -> datetime:
    """Return when it is to be renewed; spread by its serial, so that two operators agree."""
    return renewal_due(certificate, jitter=(certificate.serial_number % 1000) / 1000)


def next_due(objects: Iterable[Object]) -> datetime | None:
    """Return when the first certificate in any of these Secrets is to be renewed."""
    ends = []
    for found in objects:
        for name, content in content_of(found).items():
            if name.endswith(".crt") and name != "ca.crt":
                try:
                    ends.append(due(load_certificate(content)))
                except PkiError:
                    continue
    return min(ends, default=None)


def token(found: Object | None, metadata: dict[str, Any], mint: Mint) -> tuple[Made | None, str]:
    """Return the HTTP API's token, and its Secret if it must be written; a good token that somebody put there stays."""
    there = "" if found is None else content_of(found).get("token", b"").decode(errors="replace").strip()
    used = there if _TOKEN.fullmatch(there) else mint.token()
    if found is not None and used == there and is_marked(found, metadata):
        return None, used
    said = "TokenCreated", f"the token of the HTTP API is in secret/{metadata['name']}"
    content = {"token": used.encode()}
    return Made(secret(metadata, content) if found is None else replaced(found, content, metadata), said), used


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # noqa: BLE001 - cryptography has many, and each means no
        return False
    return True


def ending_relays(site: Site, objects: Mapping[Key, Object], now: datetime) -> Iterator[str]:
    """Say which relays to other sites have a certificate that ends soon; of one that cannot be read its sink tells."""
    for one in site.spec.relays:
        key = SECRET, one.tls_secret_ref.name
        try:
            end = load_certificate(content_of(objects[key])["tls.crt"]).not_valid_after_utc
        except (KeyError, PkiError):
            continue
        if now >= end - _RELAY_ENDS:
            ends = "ended" if now >= end else "ends"
            yield (
                f"the certificate of relay {one.cluster} ({shown(key)}) {ends} on {end:%Y-%m-%d}: its receiver makes "
                "another (`harvest relay-bundle`)"
            )
