"""Asks the site's CA: first who it is, then, once that is certain, for a certificate."""

import http.client
import json
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Self

from cryptography import x509

from harvest_pki.certificates import belongs, bundle_pem, fingerprint, load_bundle, load_certificate
from harvest_pki.checks import issued_by
from harvest_pki.errors import PkiError, shown
from harvest_pki.identities import Identity, Kind, identity_of, joining_name
from harvest_pki.joining import BODY_MAX, CA_PATH, JOIN_PATH, RENEW_PATH, Answer, JoinRequest, RenewRequest, trusted_of
from harvest_pki.keys import PrivateKey
from harvest_pki.requests import new_request
from harvest_pki.tokens import Token

PORT: Final = 8025
_LIMIT_SECONDS: Final = 20.0
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<literal>[0-9a-fA-F:.]+)\]|(?P<host>[A-Za-z0-9._-]{1,253}))(?::(?P<port>[0-9]{1,5}))?"
)


class JoinError(Exception):
    """There is no certificate; the message says why."""


class RefusedError(JoinError):
    """The CA says no: asking again brings nothing before something is changed."""


class AwayError(JoinError):
    """There was no answer: another attempt may have one."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a site is joined."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read HOST or HOST:PORT."""
        match = _ADDRESS.fullmatch(text)
        port = int(match["port"] or PORT) if match else 0
        if match is None or not 0 < port < 1 << 16:
            raise JoinError(f"'{shown(text)}' is no address: write HOST or HOST:PORT ({PORT} if there is none)")
        return cls(match["literal"] or match["host"], port)

    @property
    def text(self) -> str:
        """The address as it is written."""
        return self.at(self.port)

    def at(self, port: int) -> str:
        """Return the same host with another port."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


def join(address: Address, token: Token, key: PrivateKey) -> tuple[x509.Certificate, Answer]:
    """Return a certificate for a key made here.

    The secret is sent only to whoever has a certificate of the very CA that the token names: what is in between, if
    anything, learns nothing that it could use.
    """
    ca = _pinned(address, token)
    identity = Identity(site=token.site, kind=Kind.SERVER, name=token.server)
    body = JoinRequest(secret=token.secret, request=new_request(identity, key)).body()
    answer = _answer(_ask(address, token.site, ca, [ca], JOIN_PATH, body))
    if ca not in load_bundle(answer.ca):
        raise RefusedError("the CAs that are to be trusted from now on lack the one that the token names")
    return _taken(answer, identity, key), answer


def renew(
    address: Address, old: bytes, key: PrivateKey, new: PrivateKey, trusted: Sequence[x509.Certificate]
) -> tuple[x509.Certificate, Answer]:
    """Return another certificate for the same name and a new key, signed for with the old one."""
    identity = identity_of(load_certificate(old))
    body = RenewRequest.signed(old, key, new_request(identity, new)).body()
    answer = _answer(_by_any(address, identity.site, trusted, RENEW_PATH, body))
    return _taken(answer, identity, new), answer


def trusted_now(address: Address, site: str, trusted: Sequence[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Return the CAs of the site as they are now, from somebody whom one of those that are trusted vouches for."""
    try:
        return trusted_of(_by_any(address, site, trusted, CA_PATH, None))
    except PkiError as error:
        raise AwayError(f"{address.text} says no CAs: {error}") from error


def _pinned(address: Address, token: Token) -> x509.Certificate:
    """Return the CA that a token names, from whoever is there: the fingerprint proves it."""
    try:
        found = trusted_of(_ask(address, token.site, token.ca, None, CA_PATH, None))
    except PkiError as error:
        raise AwayError(f"{address.text} says no CAs: {error}") from error
    for one in found:
        if fingerprint(one) == token.ca:
            return one
    raise RefusedError(
        f"at {address.text} there is another CA than the one that the token names: it is another site's, it was "
        "replaced since the token was made, or somebody is in between. The token was not sent"
    )


def _by_any(address: Address, site: str, trusted: Sequence[x509.Certificate], path: str, body: bytes | None) -> bytes:
    """Ask by the name that the newest CA gives; an earlier one's, where the site does not have that CA yet, or more."""
    trouble: AwayError | None = None
    for one in trusted:
        try:
            return _ask(address, site, one, trusted, path, body)
        except AwayError as error:
            trouble = trouble or error
    raise trouble or AwayError("there is no CA that is trusted")


def _ask(
    address: Address,
    site: str,
    ca: x509.Certificate | str,
    trusted: Sequence[x509.Certificate] | None,
    path: str,
    body: bytes | None,
) -> bytes:
    name = joining_name(site, ca if isinstance(ca, str) else fingerprint(ca))
    connection = http.client.HTTPConnection(address.host, address.port, timeout=_LIMIT_SECONDS)
    try:
        plain = socket.create_connection((address.host, address.port), timeout=_LIMIT_SECONDS)
        connection.sock = _context(trusted).wrap_socket(plain, server_hostname=name)  # not by address: the CA's name
        connection.request("GET" if body is None else "POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        status, content = response.status, response.read(2 * BODY_MAX)
    except ssl.SSLCertVerificationError as error:
        text = f"{address.text} is not vouched for by the site's CA ({error.verify_message}); nothing was sent to it"
        raise AwayError(text) from error
    except (OSError, http.client.HTTPException) as error:
        raise AwayError(f"{address.text} does not answer: {error}") from error
    finally:
        connection.close()
    if status == HTTPStatus.OK:
        return content
    reason = _reason(content) or f"HTTP {status}"
    if status in {HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST}:
        raise RefusedError(f"{address.text} refuses: {reason}")
    raise AwayError(f"{address.text} says: {reason}")


def _context(trusted: Sequence[x509.Certificate] | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trusted is None:  # only to be told a certificate whose fingerprint is known
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=bundle_pem(trusted).decode())
    return context


def _answer(body: bytes) -> Answer:
    try:
        return Answer.parse(body)
    except PkiError as error:
        raise AwayError(f"the CA's answer cannot be used: {error}") from error


def _taken(answer: Answer, identity: Identity, key: PrivateKey) -> x509.Certificate:
    """Return the certificate, if it is what was asked for."""
    try:
        certificate = load_certificate(answer.certificate)
        is_ours = belongs(key, certificate) and identity_of(certificate) == identity
        is_trusted = any(issued_by(certificate, one) for one in load_bundle(answer.ca))
    except PkiError as error:
        raise RefusedError(f"the certificate cannot be used: {error}") from error
    if not is_ours or not is_trusted:
        raise RefusedError(f"the certificate is not for {identity.text} and the key that was made here")
    return certificate


def _reason(content: bytes) -> str:
    try:
        said = json.loads(content)
    except ValueError:
        return ""
    return shown(str(said.get("error", "")))[:500] if isinstance(said, dict) else ""
