"""Where servers ask for certificates: decides, keeps tokens single, has certificates made, and says what happened."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

from cryptography import x509

from harvest_pki import tokens
from harvest_pki.certificates import bundle_pem, serial_text
from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity
from harvest_pki.joining import (
    CA_PATH,
    JOIN_PATH,
    RENEW_PATH,
    Answer,
    Door,
    JoinRequest,
    RefusedError,
    RenewRequest,
    answer,
    asked_by,
    key_digest,
    renewed_by,
)
from harvest_pki.keys import PublicKey
from harvest_pki.rates import Failures, Renewals

_Made = TypeVar("_Made")
Say = Callable[..., None]
"""Writes one line of the log: an event, and facts by name."""
_LIMITED_MAX: Final = 4096


class TokenStore(Protocol):
    """Where tokens are kept. What it cannot do it says with a PkiError."""

    def find(self, digest: str) -> tokens.Entry | None:
        """Return what is kept of a token."""

    def use(self, entry: tokens.Entry, by: str) -> bool:
        """Note durably that a token was used; False if somebody else was faster."""


class Place(Protocol):
    """One site, as it is now. What it cannot do it says with a PkiError."""

    @property
    def name(self) -> str:
        """How it is called in the log: no other site is."""

    @property
    def tokens(self) -> TokenStore:
        """Its tokens."""

    def door(self) -> Door:
        """Return what is asked before somebody gets a certificate."""

    def issue(self, identity: Identity, key: PublicKey, door: Door, now: datetime) -> x509.Certificate:
        """Make a certificate."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer over HTTP."""

    status: HTTPStatus
    body: bytes
    kind: str = "application/json"
    retry_seconds: float = 0.0


class Desk:
    """Answers who joins, and who renews: of each one question at a time, of any site."""

    def __init__(self, *, clock: Callable[[], datetime], monotonic: Callable[[], float], say: Say) -> None:
        self._clock, self._monotonic, self._say = clock, monotonic, say
        # joining waits for where tokens are kept, which may take long; whoever renews does not wait for that
        self._locks: Final = {JOIN_PATH: threading.Lock(), RENEW_PATH: threading.Lock()}
        self._failures: Final = {JOIN_PATH: Failures(), RENEW_PATH: Failures()}
        self._renewals: Final = Renewals()
        self._limited: set[tuple[str, str]] = set()
        self._troubles: dict[tuple[str, str], str] = {}

    def get(self, place: Place, path: str) -> Reply:
        """Answer what needs no proof: the CAs, which are no secret."""
        if path != CA_PATH:
            return _said(HTTPStatus.NOT_FOUND, f"ask {CA_PATH}, {JOIN_PATH} or {RENEW_PATH}")
        try:
            trusted = bundle_pem(place.door().trusted)
        except PkiError as error:
            return self._troubled(place, path, error)
        self._troubles.pop((place.name, path), None)
        return Reply(HTTPStatus.OK, trusted, "application/x-pem-file")

    def post(self, place: Place, path: str, body: bytes, peer: str) -> Reply:
        """Answer who joins or renews."""
        failures = self._failures.get(path)
        if failures is None:
            return _said(HTTPStatus.NOT_FOUND, f"ask {CA_PATH}, {JOIN_PATH} or {RENEW_PATH}")
        with self._locks[path]:
            if wait := failures.wait_seconds(peer, self._monotonic()):
                return self._waits(path, peer, wait)
            self._limited.discard((path, peer))
            try:
                given = self._join(place, body, peer) if path == JOIN_PATH else self._renew(place, body, peer)
            except _ImpossibleError as error:
                return self._troubled(place, path, error)
            except _TooOftenError as error:
                self._say("renewing is limited", peer=peer, reason=str(error))
                return Reply(HTTPStatus.TOO_MANY_REQUESTS, _error(str(error)), retry_seconds=error.seconds)
            except (RefusedError, PkiError) as error:
                failures.failed(peer, self._monotonic())
                self._say(
                    "joining was refused" if path == JOIN_PATH else "renewing was refused", peer=peer, reason=str(error)
                )
                status = HTTPStatus.FORBIDDEN if isinstance(error, RefusedError) else HTTPStatus.BAD_REQUEST
                return _said(status, str(error))
            self._troubles.pop((place.name, path), None)
        return Reply(HTTPStatus.OK, given.body())

    def _join(self, place: Place, body: bytes, peer: str) -> Answer:
        asked = JoinRequest.parse(body)
        now = self._clock()
        door = _possible(place.door)
        entry = _possible(lambda: place.tokens.find(tokens.digest(asked.secret)))
        if entry is None:  # before any work: of whoever only guesses nothing is read
            raise RefusedError(str(tokens.why_refused(None, server="", by="", now=now)))
        identity, key = asked_by(asked.request, door)
        if (missing := door.unreachable.get(identity.name)) is not None:
            raise _ImpossibleError(f"aggregator {missing} has no address yet that server {identity.name} could be told")
        by = key_digest(key)
        reason = tokens.why_refused(entry, server=identity.name, by=by, now=now)
        if reason is not None:
            raise RefusedError(reason)
        if not _possible(lambda: place.tokens.use(entry, by)):
            raise RefusedError(f"the token of server {identity.name} was used already: make another")
        certificate = _possible(lambda: place.issue(identity, key, door, now))
        self._say("a server joined", peer=peer, site=door.site, server=identity.name, **_facts(certificate))
        return answer(certificate, identity.name, door)

    def _renew(self, place: Place, body: bytes, peer: str) -> Answer:
        asked = RenewRequest.parse(body)
        now = self._clock()
        door = _possible(place.door)
        identity, key, old = renewed_by(asked, door, now=now)
        server, seconds = f"{door.site} {identity.name}", self._monotonic()
        if wait := self._renewals.wait_seconds(server, seconds, lifetime_seconds=door.lifetime.total_seconds()):
            raise _TooOftenError(identity.name, wait)
        certificate = _possible(lambda: place.issue(identity, key, door, now))
        self._renewals.renewed(server, seconds)
        was = serial_text(old.serial_number)
        self._say(
            "a certificate was renewed", peer=peer, site=door.site, server=identity.name, was=was, **_facts(certificate)
        )
        return answer(certificate, identity.name, door)

    def _waits(self, path: str, peer: str, wait: float) -> Reply:
        """Say in the log once that a peer is not listened to, not each time that it comes."""
        if (path, peer) not in self._limited:
            if len(self._limited) >= _LIMITED_MAX:
                self._limited.clear()
            self._limited.add((path, peer))
            self._say(
                "joining is limited" if path == JOIN_PATH else "renewing is limited", peer=peer, seconds=round(wait, 1)
            )
        text = f"too many attempts failed: try again in {wait:.0f} s"
        return Reply(HTTPStatus.TOO_MANY_REQUESTS, _error(text), retry_seconds=wait)

    def _troubled(self, place: Place, path: str, error: PkiError) -> Reply:
        """Say in the log what is wrong here, once until it is mended or something else is: anybody may ask often."""
        if self._troubles.get((place.name, path)) != str(error):
            self._troubles[place.name, path] = str(error)
            self._say("joining is in trouble", site=place.name, path=path, reason=str(error))
        return _said(HTTPStatus.SERVICE_UNAVAILABLE, "the CA cannot answer now; its log says why")


class _TooOftenError(Exception):
    """It has certificates enough."""

    def __init__(self, server: str, seconds: float) -> None:
        super().__init__(f"server {server} has renewed too often: again in {seconds:.0f} s; is its clock right?")
        self.seconds = seconds


class _ImpossibleError(PkiError):
    """Here something is wrong, not with whoever asks."""


def _possible(act: Callable[[], _Made]) -> _Made:
    try:
        return act()
    except PkiError as error:
        raise _ImpossibleError(str(error)) from error


def _facts(certificate: x509.Certificate) -> dict[str, str]:
    until = certificate.not_valid_after_utc.isoformat()
    return {"serial": serial_text(certificate.serial_number), "until": until}


def _said(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, _error(text))


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()
