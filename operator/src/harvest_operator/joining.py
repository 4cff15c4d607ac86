"""Servers outside the cluster join sites here with tokens, and renew their certificates.

The HTTPS server has threads of its own; what it asks of Kubernetes goes through the operator's loop.
"""

import asyncio
import re
import ssl
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as TooLateError
from datetime import datetime
from typing import Any, Final, TypeVar

from cryptography import x509

from harvest_operator.agenda import SiteKey
from harvest_operator.cluster import ConflictError, RefusedError, UnavailableError
from harvest_operator.issued import Kubernetes, note
from harvest_operator.joinables import TOKEN, Joinable, entry_of
from harvest_operator.minting import Mint, content_of, replaced
from harvest_operator.names import SECRET, Object
from harvest_operator.plan import Verb, Write
from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, fingerprint
from harvest_pki.desks import Place, TokenStore
from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity
from harvest_pki.joining import Door
from harvest_pki.keys import PublicKey, key_pem
from harvest_pki.serving import server_context
from harvest_pki.tokens import Entry

_LABEL: Final = re.compile(r"([0-9a-f]{32})\.[a-z0-9-]{1,63}\.joining\.harvest")
_LIMIT_SECONDS: Final = 10.0
_Made = TypeVar("_Made")


class Joining:
    """All sites that can be joined; asked by the threads of the HTTPS server, told by the reconciler."""

    def __init__(self, cluster: Kubernetes, loop: asyncio.AbstractEventLoop, mint: Mint) -> None:
        self._cluster, self._loop, self._mint = cluster, loop, mint
        self._lock: Final = threading.Lock()
        self._places: dict[SiteKey, _Place] = {}
        self._sites: dict[str, SiteKey] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}

    def follow(self, key: SiteKey, site: Joinable, now: datetime) -> None:
        """Let servers join a site as it is now. Clients know it by the fingerprint of any CA that it has."""
        labels = {fingerprint(one.certificate)[:32]: one for one in site.authorities}
        new = {label: self._context(one, now) for label, one in labels.items() if label not in self._contexts}
        with self._lock:
            self._places[key] = _Place(self._cluster, self._loop, self._mint, site)
            self._contexts.update(new)
            self._sites.update(dict.fromkeys(labels, key))

    def close(self, key: SiteKey, why: str) -> None:
        """Have whoever comes told to come again, and the log why; clients know the site as before."""
        with self._lock:
            if key in self._places:
                self._places[key].why_closed = why

    def forget(self, key: SiteKey) -> None:
        """Let nobody join a site any more."""
        with self._lock:
            self._places.pop(key, None)
            for label in [label for label, site in self._sites.items() if site == key]:
                del self._sites[label], self._contexts[label]

    def context(self, name: str | None) -> ssl.SSLContext | None:
        """Return with which certificate a client is answered: one of the CA that it knows."""
        with self._lock:
            return self._contexts.get(_label(name))

    def place(self, name: str | None) -> Place | None:
        """Return the site that a client means: the one whose CA it knows."""
        with self._lock:
            key = self._sites.get(_label(name))
            return None if key is None else self._places.get(key)

    def _context(self, authority: Authority, now: datetime) -> ssl.SSLContext:
        key = self._mint.key()
        made = authority.issue_for_joining(key.public_key(), serial=self._mint.serial(), now=now)
        return server_context(bundle_pem([made]), key_pem(key))


def _label(name: str | None) -> str:
    found = _LABEL.fullmatch(name or "")
    return found[1] if found else ""


class _Place:
    """One site."""

    def __init__(self, cluster: Kubernetes, loop: asyncio.AbstractEventLoop, mint: Mint, site: Joinable) -> None:
        self._cluster, self._loop, self._site, self._mint = cluster, loop, site, mint
        self.why_closed: str | None = None
        self.name: Final = f"{site.namespace}/{site.door.site}"
        self.tokens: Final[TokenStore] = _Tokens(cluster, loop, site)

    def door(self) -> Door:
        if self.why_closed is not None:
            raise PkiError(self.why_closed)
        return self._site.door

    def issue(self, identity: Identity, key: PublicKey, door: Door, now: datetime) -> x509.Certificate:
        """Make a certificate; it is noted before anybody has it."""
        made = self._site.issuer.issue(identity, key, serial=self._mint.serial(), now=now, lifetime=door.lifetime)
        _done(self._loop, self._site, note(self._cluster, self._site.issued, made, now))
        return made


class _Tokens:
    """Tokens in Secrets, one each, called after the digest of the token's secret."""

    def __init__(self, cluster: Kubernetes, loop: asyncio.AbstractEventLoop, site: Joinable) -> None:
        self._cluster, self._loop, self._site = cluster, loop, site

    def find(self, digest: str) -> Entry | None:
        found = self._found(digest)
        entry = None if found is None else entry_of(found)
        return entry if entry is not None and entry.digest == digest else None

    def use(self, entry: Entry, by: str) -> bool:
        """Replace the Secret as it was seen: of two who come at once, one is refused."""
        found = self._found(entry.digest)
        now = None if found is None else entry_of(found)
        if found is None or now is None or now.used_by not in {"", by}:
            return False
        if not now.used_by:
            content = {**content_of(found), TOKEN: now.used(by).line().encode()}
            self._done(self._cluster.write(Write(Verb.REPLACE, replaced(found, content, dict(found["metadata"])))))
        return True

    def _found(self, digest: str) -> Object | None:
        return self._done(self._cluster.get(self._site.namespace, (SECRET, f"{self._site.secrets}{digest[:32]}")))

    def _done(self, act: Coroutine[Any, Any, _Made]) -> _Made:
        return _done(self._loop, self._site, act)


def _done(loop: asyncio.AbstractEventLoop, site: Joinable, act: Coroutine[Any, Any, _Made]) -> _Made:
    """Have the operator's loop do something; raises PkiError."""
    where = f"site {site.door.site} in namespace {site.namespace}"
    try:
        return asyncio.run_coroutine_threadsafe(act, loop).result(_LIMIT_SECONDS)
    except TooLateError as error:
        raise PkiError(f"{where}: Kubernetes does not answer") from error
    except (UnavailableError, RefusedError, ConflictError) as error:
        raise PkiError(f"{where}: {error}") from error
