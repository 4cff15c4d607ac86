"""Tokens with which a server joins a site: once, in its own name, within a short time. Pure: the clock is an argument.

A token says which site and server it is for, a secret, and the fingerprint of the CA, so that whoever uses it knows
to whom it may be told. Where the CA is, only a hash of the secret is kept.
"""

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from harvest_pki.errors import PkiError, shown
from harvest_pki.identities import Identity, Kind

TOKEN_LIFETIME: Final = timedelta(hours=1)
TOKEN_LIFETIME_MAX: Final = timedelta(days=7)
TOKENS_MAX: Final = 4096
"""More at a time are refused: whoever has so many servers joins them in parts."""
_VERSION: Final = "harvest1"
_TEXT: Final = re.compile(rf"{_VERSION}:([^:\s]{{1,63}}):([^:\s]{{1,253}}):([A-Za-z0-9_-]{{32}}):([0-9a-f]{{64}})")
_REMEMBERED: Final = timedelta(days=1)
"""How long it is known that a token has expired, for whoever still tries it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What a server is given to join with."""

    site: str
    server: str
    secret: str = field(repr=False)
    ca: str
    """Fingerprint of the CA that answers for the site."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a token; nothing of it may get into a message."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise PkiError(
                f"this is no token: it is one word that begins with {_VERSION}: and has five parts, as it was printed"
            )
        Identity(site=match[1], kind=Kind.SERVER, name=match[2])
        return cls(site=match[1], server=match[2], secret=match[3], ca=match[4])

    @property
    def text(self) -> str:
        """The token as it is handed over."""
        return f"{_VERSION}:{self.site}:{self.server}:{self.secret}:{self.ca}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is kept of a token."""

    digest: str
    """SHA-256 of its secret; whoever reads it cannot join with it."""
    server: str
    expires: datetime
    used_by: str = ""
    """SHA-256 of the public key that joined with it; nothing before that."""

    @classmethod
    def of(cls, token: Token, *, now: datetime, lifetime: timedelta) -> Self:
        """Return what is to be kept of a new token."""
        if not timedelta(seconds=1) <= lifetime <= TOKEN_LIFETIME_MAX:
            raise PkiError(f"a token lives from a second to {TOKEN_LIFETIME_MAX.days} days")
        return cls(digest=digest(token.secret), server=token.server, expires=now + lifetime)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what was kept; ValueError if it is something else."""
        try:
            raw = json.loads(text)
            read = cls(
                digest=str(raw["digest"]),
                server=str(raw["server"]),
                expires=datetime.fromisoformat(raw["expires"]),
                used_by=str(raw.get("used_by", "")),
            )
            read.is_forgotten(datetime.fromtimestamp(0, UTC))  # whether times can be compared at all
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError("no token's entry") from error
        return read

    def line(self) -> str:
        """Return the text that is kept."""
        used = {"used_by": self.used_by} if self.used_by else {}
        return json.dumps({"digest": self.digest, "server": self.server, "expires": self.expires.isoformat(), **used})

    def used(self, by: str) -> Self:
        """Return the entry after somebody joined with it."""
        return replace(self, used_by=by)

    def is_forgotten(self, now: datetime) -> bool:
        """Tell whether nobody needs it any more."""
        return now >= self.expires + _REMEMBERED


def digest(secret: str) -> str:
    """Return what is kept of a secret. It is random, and so long that nobody finds it by trying."""
    return hashlib.sha256(secret.encode()).hexdigest()


def why_refused(entry: Entry | None, *, server: str, by: str, now: datetime) -> str | None:
    """Return why nobody joins with a token; nothing if it is good for this server and public key.

    The same key may come again with it: the first answer may have been lost. Another one is a replay.
    """
    if entry is None:
        return "the token is not known here: it was mistyped, made for another site, or is long over"
    if entry.server != server:
        return f"the token is for server {shown(entry.server)}, not for {shown(server)}"
    if entry.used_by and entry.used_by != by:
        return f"the token of server {shown(server)} was used already: make another"
    if now >= entry.expires:
        return f"the token of server {shown(server)} expired at {entry.expires:%Y-%m-%d %H:%M} UTC: make another"
    return None
