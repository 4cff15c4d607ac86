"""What servers that join a site are asked and told, and what is kept of tokens. Pure: the clock is an argument."""

import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from harvest_operator import issued
from harvest_operator.authorities import Trust
from harvest_operator.minting import content_of
from harvest_operator.names import SERVICE, Key, Object, Owner
from harvest_operator.status import ANY_NODE, endpoint_of
from harvest_pki.authorities import Authority
from harvest_pki.certificates import fingerprint
from harvest_pki.identities import Identity, Kind
from harvest_pki.joining import Door, Uplink
from harvest_pki.tokens import TOKEN_LIFETIME_MAX, Entry
from harvest_site.model import Site
from harvest_site.views import aggregators_for, servers_of

TOKEN: Final = "token"  # noqa: S105 - a key in a Secret
_CLOCKS_DIFFER: Final = timedelta(hours=1)
"""Between whoever made a token and Kubernetes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joinable:
    """A site that can be joined, as it was last looked at."""

    namespace: str
    secrets: str
    """Begin of the names of Secrets with what is kept of its tokens; digests follow."""
    issued: dict[str, Any]
    """Metadata of the Secret in which certificates are noted."""
    door: Door
    issuer: Authority
    authorities: tuple[Authority, ...]
    """All that can speak for it: of a rotation both."""


def joinable(site: Site, owner: Owner, trust: Trust, objects: Mapping[Key, Object]) -> Joinable:
    """Return what servers are asked that want to join a site, and what they are told."""
    return Joinable(
        namespace=owner.namespace,
        secrets=owner.join,
        issued=issued.place_of(owner, site),
        door=Door(
            site=owner.name,
            trusted=trust.bundle,
            servers=servers_of(site),
            denied_serials=site.spec.certificates.denied_serials,
            lifetime=timedelta(seconds=site.spec.certificates.agent_lifetime_seconds),
            uplinks={server: _uplinks(site, owner, server, objects) for server in servers_of(site)},
            unreachable=_unreachable(site, owner, objects),
        ),
        issuer=trust.for_agents,
        authorities=tuple({fingerprint(one.certificate): one for one in (trust.for_agents, trust.issuer)}.values()),
    )


def _uplinks(site: Site, owner: Owner, server: str, objects: Mapping[Key, Object]) -> tuple[Uplink, ...]:
    """Return how a server outside reaches its aggregators; at any node means at the one where it has joined."""
    found = []
    for one in aggregators_for(site, server):
        endpoint = endpoint_of(site, owner, one, objects.get((SERVICE, owner.base(one.name)))) or ""
        name = Identity(site=owner.name, kind=Kind.AGGREGATOR, name=one.name).text
        found.append(Uplink(server_name=name, address=endpoint.removeprefix(ANY_NODE)))
    return tuple(found)


def _unreachable(site: Site, owner: Owner, objects: Mapping[Key, Object]) -> dict[str, str]:
    """Return of each server an aggregator that has no address yet."""
    return {
        server: one.name
        for server in servers_of(site)
        for one in aggregators_for(site, server)
        if endpoint_of(site, owner, one, objects.get((SERVICE, owner.base(one.name)))) is None
    }


def entry_of(found: Object) -> Entry | None:
    """Return what a Secret keeps of a token; nothing if it keeps something else."""
    try:
        entry = Entry.parse(content_of(found).get(TOKEN, b"").decode())
    except (ValueError, binascii.Error):
        return None
    made = datetime.fromisoformat(found["metadata"]["creationTimestamp"])  # by Kubernetes, whatever its maker wrote
    is_own = found["metadata"]["name"].endswith(f"-{entry.digest[:32]}")
    return entry if is_own and entry.expires <= made + TOKEN_LIFETIME_MAX + _CLOCKS_DIFFER else None


def is_over(found: Object, now: datetime) -> bool:
    """Tell whether nobody needs a token's Secret any more."""
    entry = entry_of(found)
    return entry is None or entry.is_forgotten(now)
