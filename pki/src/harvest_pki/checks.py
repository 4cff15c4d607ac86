"""May this certificate be used, and until when? Pure: the clock is an argument."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from harvest_pki.authorities import BACKDATED
from harvest_pki.certificates import serial_text
from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity, Kind, identity_of

RENEWAL_GRACE: Final = timedelta(days=14)
"""How long after its end a certificate may still be renewed while its name is listed."""
_SPREAD: Final = 0.1  # of the lifetime: many servers set up in one hour do not renew in one hour
_WHERE_LISTED: Final = {
    Kind.SERVER: "add it to the `servers` of a file system, or as a cluster's `slurm.server`",
    Kind.RELAY: "add it to `accepts`",
    Kind.AGGREGATOR: "agents and relays need certificates of their own",
}


def why_refused(
    certificate: x509.Certificate,
    *,
    site: str,
    issuers: Iterable[x509.Certificate],
    listed: Mapping[Kind, Collection[str]],
    denied_serials: Collection[int],
    now: datetime,
    grace: timedelta = timedelta(0),
) -> str | None:
    """Return why the holder may not come in, as a text for it and for the log; nothing if it may.

    TLS has checked the chain, but perhaps against CAs of other sites too (accepted relays), or long ago for a stream
    that is open: ``issuers`` are the CAs that speak for ``site``. ``grace`` is for renewing after the end.
    """
    try:
        holder = identity_of(certificate)
    except PkiError as error:
        return str(error)
    return (
        _why_not_of_site(certificate, holder, site, issuers, now)
        or _why_not_now(certificate, holder, now, grace)
        or _why_not_wanted(certificate, holder, listed, denied_serials)
    )


def days_left(not_after: datetime, now: datetime) -> int:
    """Return the whole days until an end; negative once it is over."""
    return (not_after - now) // timedelta(days=1)


def issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Tell whether a CA made a certificate."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def renewal_due(certificate: x509.Certificate, *, jitter: float) -> datetime:
    """Return when to renew: after two thirds of the lifetime; ``jitter`` (0 to 1) adds up to a tenth of it."""
    issued = issued_at(certificate)
    return issued + (certificate.not_valid_after_utc - issued) * (2 / 3 + _SPREAD * jitter)


def issued_at(certificate: x509.Certificate) -> datetime:
    """Return when a certificate was made: some time after it began."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + BACKDATED if begin + BACKDATED < end else begin  # somebody else's CA may not backdate


def _why_not_of_site(
    certificate: x509.Certificate, holder: Identity, site: str, issuers: Iterable[x509.Certificate], now: datetime
) -> str | None:
    if holder.site != site:
        return f"{holder.kind} {holder.name} belongs to site {holder.site}; this is site {site}"
    if not any(issued_by(certificate, issuer) for issuer in issuers if now < issuer.not_valid_after_utc):
        return f"the certificate of {holder.kind} {holder.name} is not from a CA of site {site} that is in use"
    return None


def _why_not_now(certificate: x509.Certificate, holder: Identity, now: datetime, grace: timedelta) -> str | None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        return (
            f"the certificate of {holder.kind} {holder.name} is valid from {begin:%Y-%m-%d %H:%M} UTC on, "
            f"and here it is {now:%Y-%m-%d %H:%M} UTC: is a clock wrong?"
        )
    if now >= end + grace:
        return f"the certificate of {holder.kind} {holder.name} expired on {end:%Y-%m-%d %H:%M} UTC: issue a new one"
    return None


def _why_not_wanted(
    certificate: x509.Certificate,
    holder: Identity,
    listed: Mapping[Kind, Collection[str]],
    denied_serials: Collection[int],
) -> str | None:
    if certificate.serial_number in denied_serials:
        serial = serial_text(certificate.serial_number)
        return f"the certificate of {holder.kind} {holder.name} with serial {serial} is denied by `denySerials`"
    if holder.name not in listed.get(holder.kind, ()):
        return f"{holder.kind} {holder.name} is not listed in site {holder.site}: {_WHERE_LISTED[holder.kind]}"
    return None
