"""What servers ask when they join or renew, what they are answered, and whether they may. Pure.

The certificate is made of name and public key alone. Whoever renews signs the new request with the key of the old
certificate: so it works after that has expired, too, when TLS would not take it any more.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding

from harvest_pki.certificates import bundle_pem, load_bundle, load_certificate
from harvest_pki.checks import RENEWAL_GRACE, why_refused
from harvest_pki.errors import PkiError, shown
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import PrivateKey, PublicKey, strong
from harvest_pki.requests import requested

CA_PATH: Final = "/v1/ca"
JOIN_PATH: Final = "/v1/join"
RENEW_PATH: Final = "/v1/renew"
BODY_MAX: Final = 65536
"""More than any request or answer has; a longer one is not read."""
_LABEL: Final = b"harvest renewal 1\n"


class RefusedError(Exception):
    """No certificate is given; the message is for the sender and for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """An aggregator that wants to hear of a server."""

    server_name: str
    address: str = ""
    """Host and port; `:30023` at the host where it was joined, nothing there at the usual port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What is asked of a site before somebody gets a certificate."""

    site: str
    trusted: tuple[x509.Certificate, ...]
    """Its CAs: the one that issues first."""
    servers: frozenset[str]
    denied_serials: Collection[int]
    lifetime: timedelta
    uplinks: Mapping[str, Sequence[Uplink]]
    """By server; those of "" are for all others."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """By server, an aggregator of which nobody knows yet where it is; who joined now would never find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A server that has a token."""

    secret: str = field(repr=False)
    request: bytes

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read a body."""
        raw = _object(body)
        return cls(secret=_text(raw, "secret"), request=_text(raw, "request").encode())

    def body(self) -> bytes:
        """Return what is sent."""
        return json.dumps({"secret": self.secret, "request": self.request.decode()}).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewRequest:
    """A server that has a certificate."""

    certificate: bytes
    request: bytes
    signature: bytes

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read a body."""
        raw = _object(body)
        try:
            signature = base64.b64decode(_text(raw, "signature"), validate=True)
        except binascii.Error as error:
            raise PkiError("the signature is not base64") from error
        certificate, request = _text(raw, "certificate").encode(), _text(raw, "request").encode()
        return cls(certificate=certificate, request=request, signature=signature)

    @classmethod
    def signed(cls, certificate: bytes, key: PrivateKey, request: bytes) -> Self:
        """Sign a new request with the key of the certificate that is there."""
        data = _LABEL + request
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return cls(certificate=certificate, request=request, signature=key.sign(data, ec.ECDSA(hashes.SHA256())))
        signature = key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        return cls(certificate=certificate, request=request, signature=signature)

    def body(self) -> bytes:
        """Return what is sent."""
        signature = base64.b64encode(self.signature).decode()
        texts = {"certificate": self.certificate.decode(), "request": self.request.decode(), "signature": signature}
        return json.dumps(texts).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server gets."""

    certificate: bytes
    ca: bytes
    uplinks: tuple[Uplink, ...]

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read a body."""
        raw = _object(body)
        uplinks = raw.get("uplinks")
        if not isinstance(uplinks, list) or not all(isinstance(one, dict) for one in uplinks):
            raise PkiError("the answer's uplinks are no list")
        return cls(
            certificate=_text(raw, "certificate").encode(),
            ca=_text(raw, "ca").encode(),
            uplinks=tuple(
                Uplink(server_name=_text(one, "server_name"), address=_text(one, "address")) for one in uplinks
            ),
        )

    def body(self) -> bytes:
        """Return what is sent."""
        uplinks = [{"server_name": one.server_name, "address": one.address} for one in self.uplinks]
        texts = {"certificate": self.certificate.decode(), "ca": self.ca.decode(), "uplinks": uplinks}
        return json.dumps(texts).encode()


def asked_by(request: bytes, door: Door) -> tuple[Identity, PublicKey]:
    """Return who asks with a certificate request, if it asks for its name only and the site lists it."""
    identity, key = requested(request, door.site)
    if identity.kind is not Kind.SERVER:
        raise RefusedError(f"{shown(identity.text)} is no server: only servers join")
    if identity.name not in door.servers:
        where = "add it to the `servers` of a file system, or as a cluster's `slurm.server`"
        raise RefusedError(f"server {shown(identity.name)} is not listed in site {door.site}: {where}")
    return identity, key


def renewed_by(asked: RenewRequest, door: Door, *, now: datetime) -> tuple[Identity, PublicKey, x509.Certificate]:
    """Return who renews which certificate: it must be the site's, at most some days over, and its holder's own."""
    old = load_certificate(asked.certificate)
    reason = why_refused(
        old,
        site=door.site,
        issuers=door.trusted,
        listed={Kind.SERVER: door.servers},
        denied_serials=door.denied_serials,
        now=now,
        grace=RENEWAL_GRACE,
    )
    if reason is not None:
        raise RefusedError(reason)
    identity, key = asked_by(asked.request, door)
    if identity.alternative_name not in _names(old):
        raise RefusedError(f"the request is for {shown(identity.text)}, and the certificate is not")
    if not _signed(strong(old.public_key()), asked):
        raise RefusedError(f"the request for {shown(identity.text)} is not signed with the key of its certificate")
    return identity, key, old


def answer(certificate: x509.Certificate, server: str, door: Door) -> Answer:
    """Return what a server is given with its certificate."""
    uplinks = door.uplinks.get(server, door.uplinks.get("", ()))
    return Answer(certificate=bundle_pem([certificate]), ca=bundle_pem(door.trusted), uplinks=tuple(uplinks))


def key_digest(key: PublicKey) -> str:
    """Return by which a public key is known again."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def trusted_of(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Read the CAs that somebody sent; no more than a rotation needs."""
    if len(pem) > BODY_MAX:
        raise PkiError("the CA certificates are too many")
    return load_bundle(pem)


def _names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def _signed(key: PublicKey, asked: RenewRequest) -> bool:
    data = _LABEL + asked.request
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(asked.signature, data, ec.ECDSA(hashes.SHA256()))
        else:
            key.verify(asked.signature, data, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def _object(body: bytes) -> dict[str, Any]:
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise PkiError("this is no JSON") from error
    if not isinstance(raw, dict):
        raise PkiError("this is no JSON object")
    return raw


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str) or not value.isascii():
        raise PkiError(f"`{name}` is missing, or no plain text")
    return value
