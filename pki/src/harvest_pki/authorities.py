"""A site's certificate authority, and the certificates that it gives out. Pure: clock and randomness are arguments."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from harvest_pki.certificates import belongs, fingerprint
from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity, Kind, ca_name, check_site, host_name, joining_name, site_of_ca
from harvest_pki.keys import PrivateKey, PublicKey, strong

CA_LIFETIME: Final = timedelta(days=3650)
LIFETIMES: Final = {
    Kind.SERVER: timedelta(days=90),
    Kind.RELAY: timedelta(days=90),
    Kind.AGGREGATOR: timedelta(days=365),
}
BACKDATED: Final = timedelta(days=1)
"""Certificates begin before they are made: clocks of other machines may be behind."""

_COMMON_NAME_MAX: Final = 64
_PURPOSES: Final = {
    Kind.SERVER: (ExtendedKeyUsageOID.CLIENT_AUTH,),
    Kind.RELAY: (ExtendedKeyUsageOID.CLIENT_AUTH,),
    Kind.AGGREGATOR: (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),  # client of relays' heads
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A CA that can issue: its certificate and key, and the site that it speaks for."""

    site: str
    certificate: x509.Certificate
    key: PrivateKey

    @classmethod
    def create(
        cls, site: str, *, key: PrivateKey, serial: int, now: datetime, lifetime: timedelta = CA_LIFETIME
    ) -> Self:
        """Make the CA of a site, signed by itself."""
        check_site(site)
        own = subject(f"Harvest CA {site}")
        usage = _usage(signs_certificates=True)
        certificate = (
            _builder(own, strong(key.public_key()), serial=serial, now=now, not_after=_end(now, lifetime))
            .issuer_name(own)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectAlternativeName([ca_name(site)]), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(site=site, certificate=certificate, key=key)

    @classmethod
    def of(cls, certificates: Iterable[x509.Certificate], key: PrivateKey) -> Self:
        """Return the authority whose key this is, from a bundle that may hold others of a rotation."""
        for certificate in certificates:
            if belongs(key, certificate):
                if not _is_ca(certificate):
                    raise PkiError("the certificate that belongs to the CA's key is no CA certificate")
                return cls(site=site_of_ca(certificate), certificate=certificate, key=key)
        raise PkiError("no CA certificate belongs to the CA's key")

    def issue(
        self,
        identity: Identity,
        public_key: PublicKey,
        *,
        serial: int,
        now: datetime,
        lifetime: timedelta | None = None,
        hosts: Iterable[str] = (),
    ) -> x509.Certificate:
        """Give an identity of this site a certificate; it ends with the CA at the latest.

        ``hosts`` are names and addresses that stand beside the identity, for browsers and other programs of people.
        """
        if identity.site != self.site:
            raise PkiError(f"the CA of site {self.site} cannot speak for site {identity.site}")
        builder = _builder(
            subject(identity.name),
            strong(public_key),
            serial=serial,
            now=now,
            not_after=self._end(now, LIFETIMES[identity.kind] if lifetime is None else lifetime),
        )
        return self._signed(builder, _PURPOSES[identity.kind], [identity.alternative_name, *map(host_name, hosts)])

    def issue_for_joining(self, public_key: PublicKey, *, serial: int, now: datetime) -> x509.Certificate:
        """Give the place where servers join a certificate in the CA's own name; it lives as long as the CA.

        It is kept beside the CA's key, and needed by whoever trusts this CA alone: after a rotation, too, when this
        CA issues no more.
        """
        end = self._end(now, self.certificate.not_valid_after_utc - now)
        begin = self.certificate.not_valid_before_utc + BACKDATED  # a server's clock may be far behind
        builder = _builder(subject(f"Harvest joining {self.site}"), public_key, serial=serial, now=begin, not_after=end)
        name = x509.DNSName(joining_name(self.site, fingerprint(self.certificate)))
        return self._signed(builder, (ExtendedKeyUsageOID.SERVER_AUTH,), [name])

    def _end(self, now: datetime, lifetime: timedelta) -> datetime:
        """Return when a certificate ends: with the CA at the latest."""
        ca_end = self.certificate.not_valid_after_utc
        if now >= ca_end:
            raise PkiError(f"the CA of site {self.site} expired on {ca_end:%Y-%m-%d}: make a new one with `ca rotate`")
        return min(_end(now, lifetime), ca_end)

    def _signed(
        self,
        builder: x509.CertificateBuilder,
        purposes: Iterable[x509.ObjectIdentifier],
        names: Iterable[x509.GeneralName],
    ) -> x509.Certificate:
        return (
            builder.issuer_name(self.certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(_issuer_key(self.certificate), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def rotated(bundle: Iterable[x509.Certificate], new: Authority, *, now: datetime) -> tuple[x509.Certificate, ...]:
    """Return what is trusted while a new CA takes over: the new one first, then the old ones that still live."""
    return (new.certificate, *(old for old in bundle if old != new.certificate and now < old.not_valid_after_utc))


def subject(text: str) -> x509.Name:
    """Return a subject for people to read; the alternative names are what counts."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_COMMON_NAME_MAX])])


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return False


def _end(now: datetime, lifetime: timedelta) -> datetime:
    if lifetime < timedelta(seconds=1):
        raise PkiError("a lifetime must be a second at least")
    return now + lifetime


def _builder(
    name: x509.Name, public_key: PublicKey, *, serial: int, now: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(public_key)
        .serial_number(serial)
        .not_valid_before(now - BACKDATED)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _issuer_key(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Point at the issuer's key as the issuer itself names it: an old and a new CA of one site have equal subjects."""
    try:
        named = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:  # only somebody else's CA
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(strong(issuer.public_key()))
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(named)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
