"""What is to be done about a site, as values."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from harvest_operator.authorities import Trust
from harvest_operator.conditions import Condition, Reason
from harvest_operator.names import CONFIG_MAP, DEPLOYMENT, SECRET, SERVICE, VOLUME_CLAIM, Key, Object, Owner
from harvest_operator.references import all_references
from harvest_pki.authorities import Authority
from harvest_site.model import Site
from harvest_site.views import aggregators_of


class Verb(StrEnum):
    """How an object is written."""

    APPLY = "apply"
    """Server-side, by our field manager."""
    CREATE = "create"
    """Only if it is not there."""
    REPLACE = "replace"
    """Only if it is as it was seen."""
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Write:
    """One write, and what people are told about it."""

    verb: Verb
    manifest: Object
    said: tuple[str, str] | None = None
    """Reason and message of an event."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a site is not as it should be, and what to do."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How an aggregator is asked how it stands."""

    aggregator: str
    service: str
    server_name: str
    token: str = field(repr=False)
    ca: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to write, in order, what is wrong, and when to look again at the latest."""

    writes: tuple[Write, ...]
    problems: tuple[Problem, ...]
    certificates: Condition
    issuer: Authority | None
    """Who issues for agents: a CA as it is stored, for one that is about to be written may be refused."""
    trust: Trust | None
    """All CAs as they are stored now, whatever is about to be written; nothing if there is none that can be used."""
    targets: tuple[Target, ...]
    look_again: datetime | None


def expected(site: Site, owner: Owner) -> Iterator[Key]:
    """Return the children that a site should have, and what it refers to: all that must be known to decide."""
    yield SECRET, owner.ca
    yield SECRET, owner.token
    yield CONFIG_MAP, owner.agents
    for one in aggregators_of(site):
        yield SECRET, owner.tls(one.name)
        yield CONFIG_MAP, owner.base(one.name)
        yield VOLUME_CLAIM, owner.volume(one.name)
        yield SERVICE, owner.base(one.name)
        yield DEPLOYMENT, owner.base(one.name)
    yield from (reference.object for reference in all_references(site))
