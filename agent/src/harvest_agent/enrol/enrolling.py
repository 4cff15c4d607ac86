"""Keeps an agent's files: asks for a certificate, waits for it, renews it, and follows what the site says."""

import json
import random
import signal
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from harvest_agent.config import Config, ConfigError
from harvest_agent.enrol import CONFIG
from harvest_agent.enrol.api import Api, ApiError, PodApi
from harvest_agent.enrol.renewal import renewal_time
from harvest_agent.enrol.requests import REQUESTS, Issued, Refused, Site, Waiting, answer, request
from harvest_agent.logs import say
from harvest_agent.timing import BackOff
from harvest_pki import files
from harvest_pki.certificates import belongs, load_bundle, load_certificate
from harvest_pki.errors import PkiError, shown
from harvest_pki.folders import read_tls
from harvest_pki.identities import Identity, Kind, identity_of
from harvest_pki.keys import PrivateKey, key_pem, new_key
from harvest_pki.requests import new_request

_CA, _CERTIFICATE, _KEY = "ca.crt", "tls.crt", "tls.key"
_LOOK_SECONDS: Final = 60.0
"""How often the site is looked at when all is well."""
_SECTIONS: Final = {"uplink", "spool"}
"""All that a site may say: an agent runs as root, and other sections name programs that it starts."""
_PATIENCE: Final = 3
"""So often an answer is looked for before it is said that there is none."""


class RefusedError(Exception):
    """There is no certificate for us until somebody does something."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.text)
        self.reason = refused.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request that is under way; its key is written only when there is a certificate for it."""

    name: str
    key: PrivateKey = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Public:
    """What the site says to all of its agents."""

    ca: bytes
    trusted: tuple[x509.Certificate, ...]
    config: bytes


class Enrolment:
    """One node's agent, its folder, and how far it has come."""

    def __init__(self, api: Api, *, site: Site, node: str, folder: Path, root: str = "/") -> None:
        self._api, self._site, self._folder = api, site, folder
        self._own_config = "" if root == "/" else f"\n[lustre]\nroot = {json.dumps(root)}\n"
        self._identity = Identity(site=site.name, kind=Kind.SERVER, name=node)
        self._asked: _Asked | None = None
        self._trusted_since: tuple[bytes, datetime | None] | None = None
        self._told: str | None = None
        self._troubles = BackOff()
        self._refusals = BackOff(first_seconds=10.0, most_seconds=600.0)
        files.make_folder(folder)

    def step(self, now: datetime, chance: float) -> float:
        """Do what is due, and return for how many seconds there is nothing to do."""
        try:
            waiting = self._advance(now)
        except RefusedError as error:
            seconds = self._refusals.seconds(chance)
            say(
                "enrol.refused", node=self._identity.name, reason=error.reason, text=error, again_seconds=round(seconds)
            )
            self._told = None
            self._troubles.succeeded()  # there was an answer: the next request is another matter
            return seconds
        except (ApiError, PkiError) as error:
            self._tell("enrol.trouble", str(error))
            return self._troubles.seconds(chance)
        if waiting is not None:
            if self._troubles.failures >= _PATIENCE:
                self._tell("enrol.waits", waiting.text)
            return self._troubles.seconds(chance)
        self._told = None
        self._troubles.succeeded()
        self._refusals.succeeded()
        return _LOOK_SECONDS * (0.5 + chance / 2)

    def _advance(self, now: datetime) -> Waiting | None:
        """Go as far as is possible now; return what is waited for."""
        public = self._read_public()
        if self._trusted_since is None or self._trusted_since[0] != public.ca:
            self._trusted_since = (public.ca, now)
        self._write(_CA, public.ca)
        own = self._own_certificate()
        if own is not None:
            self._write(CONFIG, public.config)
            if now < renewal_time(own, public.trusted, trusted_since=self._trusted_since[1]):
                self._asked = None
                return None
        if self._asked is None:
            self._asked = self._ask()
        said = self._answered(self._asked)
        if isinstance(said, Waiting):
            return said
        asked, self._asked = self._asked, None
        if isinstance(said, Refused):
            raise RefusedError(said)
        self._take(asked, said)
        self._trusted_since = (public.ca, None)
        self._write(CONFIG, public.config)  # the last, for whoever waits for it finds all
        return None

    def _read_public(self) -> _Public:
        try:
            data = self._api.get(self._site.public).get("data") or {}
        except ApiError as error:
            if error.code not in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
                raise
            site = f"{self._site.namespace}/{self._site.name}"
            raise ApiError(f"{error}. Is there a HarvestSite {site}, and does its operator run?") from error
        if not data.get(_CA) or not data.get(CONFIG):
            raise ApiError(f"{self._site.public} has no {_CA} and {CONFIG}: is the operator older than this agent?")
        given = data.get(f"agent.{self._identity.name}.toml") or data[CONFIG]  # its own, if not all uplinks are for it
        ca, config = str(data[_CA]).encode(), str(given) + self._own_config
        try:
            _check(str(given), config)
        except (tomllib.TOMLDecodeError, ConfigError) as error:
            raise ApiError(f"{CONFIG} of the site is not for this version of the agent: {error}") from error
        return _Public(ca=ca, trusted=load_bundle(ca), config=config.encode())

    def _own_certificate(self) -> x509.Certificate | None:
        """Return the certificate that is in the folder already, if it is of use."""
        try:
            own = load_certificate(read_tls(self._folder).certificate)
            return own if identity_of(own) == self._identity else None
        except PkiError:
            return None

    def _ask(self) -> _Asked:
        key = new_key()
        made = self._api.post(REQUESTS, request(self._site, new_request(self._identity, key)))
        name = str(made["metadata"]["name"])
        say("enrol.asked", node=self._identity.name, request=name)
        return _Asked(name=name, key=key)

    def _answered(self, asked: _Asked) -> Waiting | Issued | Refused:
        try:
            return answer(self._api.get(f"{REQUESTS}/{asked.name}"))
        except ApiError as error:
            if error.code == HTTPStatus.NOT_FOUND:  # Kubernetes throws old ones away
                self._asked = None
            raise

    def _take(self, asked: _Asked, issued: Issued) -> None:
        """Write key and certificate, if they are what was asked for."""
        try:
            certificate = load_certificate(issued.certificate)
            is_ours = belongs(asked.key, certificate) and identity_of(certificate) == self._identity
        except PkiError as error:
            raise RefusedError(Refused("Unusable", f"the certificate cannot be used: {error}")) from error
        if not is_ours:
            wanted = f"{self._identity.text} and the key that was made here"
            raise RefusedError(Refused("Unusable", f"the certificate is not for {wanted}"))
        self._write(_KEY, key_pem(asked.key), mode=files.KEY_MODE)
        self._write(_CERTIFICATE, issued.certificate)
        say("enrol.issued", node=self._identity.name, until=certificate.not_valid_after_utc.isoformat())

    def _write(self, name: str, content: bytes, *, mode: int = files.PUBLIC_MODE) -> None:
        """Replace a file, if it is not so already: whoever follows it would begin anew."""
        path = self._folder / name
        if not path.exists() or files.read(path) != content:
            files.write(path, content, mode=mode)

    def _tell(self, event: str, text: str) -> None:
        """Say what goes on, once."""
        if text != self._told:
            asked: Mapping[str, Any] = {} if self._asked is None else {"request": self._asked.name}
            say(event, node=self._identity.name, **asked, text=text)
        self._told = text


def _check(given: str, config: str) -> None:
    """Refuse what a site says if it is more than where to send, or what is made of it if the agent cannot use it."""
    if more := tomllib.loads(given).keys() - _SECTIONS:
        raise ConfigError(f"it has {', '.join(map(shown, sorted(more)))}")
    Config.parse(tomllib.loads(config))


def enrol(*, site: Site, node: str, folder: Path, root: str, account: Path) -> None:
    """Go on until a signal ends it."""
    enrolment = Enrolment(PodApi(account), site=site, node=node, folder=folder, root=root)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # every file is whole at any moment
    while True:
        time.sleep(enrolment.step(datetime.now(UTC), random.random()))  # noqa: S311 - only spreads agents
