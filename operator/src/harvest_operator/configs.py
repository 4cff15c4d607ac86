"""The configuration of agents in the cluster, as TOML. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from harvest_operator.names import GRPC_PORT, Owner
from harvest_pki.identities import Identity, Kind
from harvest_site.model import Site
from harvest_site.placement import Aggregator
from harvest_site.views import aggregators_for, aggregators_of, servers_of

_TLS: Final = "/run/harvest/tls"
SPOOL: Final = "/var/lib/harvest-agent"
_NAME_MAX: Final = 240
"""A key of a ConfigMap has 253 characters at most."""


def configs_of_agents(site: Site, owner: Owner) -> dict[str, str]:
    """Write what agents in the cluster can use: uplinks to aggregators' Services, and where their files are.

    Whoever runs one puts its certificate there, and adds what is its own. A server that not all aggregators want to
    hear of has a file of its own: the others would never let it in, and its agent would keep all sweeps for them.
    """
    everybody = aggregators_of(site)
    some = {name: there for name in sorted(servers_of(site)) if (there := aggregators_for(site, name)) != everybody}
    return {
        "agent.toml": _config(owner, everybody),
        **{f"agent.{name}.toml": _config(owner, there) for name, there in some.items() if len(name) <= _NAME_MAX},
    }


def _config(owner: Owner, aggregators: Iterable[Aggregator]) -> str:
    lines = uplinks(owner, aggregators, _TLS)
    return "\n".join([*lines, *section("[spool]", {"directory": f"{SPOOL}/spool"})])


def uplinks(owner: Owner, aggregators: Iterable[Aggregator], tls: str, beside: str | None = None) -> list[str]:
    """Return the uplinks to aggregators of a site; the one in the same Pod is near."""
    lines = []
    for one in aggregators:
        host = "127.0.0.1" if one.name == beside else f"{owner.base(one.name)}.{owner.namespace}.svc"
        uplink = {
            "address": f"{host}:{GRPC_PORT}",
            "server_name": Identity(site=owner.name, kind=Kind.AGGREGATOR, name=one.name).text,
            "ca": f"{tls}/ca.crt",
            "cert": f"{tls}/tls.crt",
            "key": f"{tls}/tls.key",
        }
        lines += section("[[uplink]]", uplink)
    return lines


def section(title: str, values: Mapping[str, str | int]) -> list[str]:
    """Return the lines of a section."""
    return [title, *(f"{name} = {json.dumps(value)}" for name, value in values.items()), ""]
