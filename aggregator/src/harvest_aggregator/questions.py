"""What may be asked about jobs, and how it is said in a query."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import unquote_to_bytes

from starlette.datastructures import QueryParams

from harvest_aggregator.answers import BadParameterError
from harvest_aggregator.catalogue import SORTS
from harvest_aggregator.published import TargetStatus
from harvest_core.accounting.sweeps import Place
from harvest_core.facts import MDT
from harvest_core.jobs.identity import AMBIGUOUS, UNKNOWN
from harvest_core.jobs.life import Life

LIMIT: Final = 200
"""So many jobs are shown unless somebody wants more."""
_SORTS: Final = ("job", *SORTS)
_NUMBER = re.compile(r"[0-9]{1,18}")
_WHOSE: Final = ("state", "user", "account", "cluster")
JOB_PARAMETERS: Final = (*_WHOSE, "fs", "server", "target", "sort", "limit", "offset")
VIEW_PARAMETERS: Final = ("fs", "server", "target", "sort", "limit")
GROUP_PARAMETERS: Final = ("by", *_WHOSE, "fs", "server", "target", "limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What can be asked for."""

    filesystems: Collection[str]
    servers: Collection[str]
    targets: Collection[TargetStatus]
    clusters: Collection[str]

    @property
    def cluster_names(self) -> tuple[str, ...]:
        """What may be said of a job's cluster."""
        return (*self.clusters, UNKNOWN, AMBIGUOUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which jobs, in which order, and how many."""

    filesystem: str | None = None
    places: frozenset[Place] | None = None
    """The targets on which they do something, if it matters."""
    whose: Mapping[str, str]
    """A user, account, state or cluster that was asked for."""
    sort: str = "rates.bytes"
    limit: int = LIMIT
    """0 = all."""
    offset: int = 0
    """So many of the first are left out."""

    @classmethod
    def parse(cls, query: QueryParams, known: Known, parameters: Iterable[str]) -> Self:
        """Read the parameters of a query; what cannot be answered is refused with what can."""
        given = checked(query, parameters)
        one_of(given, "fs", "a file system of the site", known.filesystems)
        one_of(given, "server", "a server of the site", known.servers)
        one_of(given, "target", "a target that was seen", {status.target for status in known.targets})
        one_of(given, "state", "what a job can be doing", tuple(Life))
        one_of(given, "cluster", f"a cluster of the site, `{UNKNOWN}` or `{AMBIGUOUS}`", known.cluster_names)
        places = _places(given, known.targets)
        only_metadata = bool(places) and all(place.kind == MDT for place in places or ())
        if given.get("sort", "job") not in _SORTS:
            raise BadParameterError("sort", f"`sort` must be one of {', '.join(_SORTS)}", allowed=_SORTS)
        return cls(
            filesystem=given.get("fs"),
            places=places,
            whose={name: given[name] for name in _WHOSE if name in given},
            sort=given.get("sort", "rates.iops" if only_metadata else "rates.bytes"),
            limit=number(given, "limit", default=LIMIT),
            offset=number(given, "offset", default=0),
        )


def one_of(given: Mapping[str, str], name: str, what: str, known: Iterable[str]) -> None:
    """Check that a parameter, if it is given, names something that is known."""
    names = sorted(known)
    if name in given and given[name] not in names:
        raise BadParameterError(name, f"`{name}` must be {what}: {', '.join(names)}", allowed=names)


def _places(given: Mapping[str, str], targets: Iterable[TargetStatus]) -> frozenset[Place] | None:
    """Return the targets that are meant; nothing if all are."""
    if not given.keys() & {"server", "target"}:
        return None
    return frozenset(
        Place(status.filesystem, status.kind, status.target)
        for status in targets
        if given.get("fs", status.filesystem) == status.filesystem
        and given.get("server", status.server) == status.server
        and given.get("target", status.target) == status.target
    )


def checked(query: QueryParams, parameters: Iterable[str]) -> dict[str, str]:
    """Return the parameters of a query; each must be one of those that there are, and be said once."""
    known = tuple(parameters)
    for name in query:
        if name not in known:
            allowed = f"there are {', '.join(f'`{one}`' for one in known)}" if known else "there are none here"
            raise BadParameterError(name, f"there is no parameter `{name}`: {allowed}", allowed=known)
        if len(query.getlist(name)) > 1:
            raise BadParameterError(name, f"`{name}` must be given once")
    return dict(query)


def number(given: dict[str, str], name: str, *, default: int) -> int:
    """Return a parameter that is a whole number."""
    text = given.get(name, str(default))
    if not _NUMBER.fullmatch(text):
        raise BadParameterError(name, f"`{name}` must be a whole number, 0 or more")
    return int(text)


def job_in_path(raw_path: bytes, prefix: str) -> tuple[str, bytes] | None:
    """Return cluster and id from a path as it was sent: each percent-encoded, so that an id may hold a ``/``."""
    cluster, slash, job = raw_path.removeprefix(prefix.encode()).partition(b"/")
    if not slash or b"/" in job:
        return None
    return unquote_to_bytes(cluster).decode("utf-8", "surrogateescape"), unquote_to_bytes(job)
