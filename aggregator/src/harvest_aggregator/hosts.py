"""From NIDs to hosts, by the site's rules."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple

from harvest_aggregator.resolver import Resolver
from harvest_core.lustre.names import Nid, parse_nid
from harvest_site.clusters import HostEntry, HostPattern, HostRule
from harvest_site.model import Site

_NIDS_MAX: Final = 1 << 17
"""Remembered; those in use come back at once when there are more."""


class Host(NamedTuple):
    """What a node is called, and where ganglia has it."""

    name: str
    address: str
    cluster: str | None


class _Plan(NamedTuple):
    """How a NID becomes a host."""

    dns_address: str | None
    """Whose name counts, where DNS knows one."""
    otherwise: Host | None
    """What the other rules say."""
    address: str
    cluster: str | None


_Rule = Callable[[str], tuple[str, str | None] | None]
"""From a NID to name and address, where it knows them."""


class Hosts:
    """The hosts of one site. Another site means another one of these, with the same resolver."""

    def __init__(self, site: Site, resolver: Resolver) -> None:
        self._resolver = resolver
        self._clusters = [(cluster, [_compiled(rule) for rule in cluster.hosts]) for cluster in site.spec.clusters]
        self._plan = lru_cache(_NIDS_MAX)(self._planned)

    def host(self, nid: str) -> Host | None:
        """Return the host of a NID; nothing where no rule knows it, or DNS has not said yet whether it does."""
        plan = self._plan(nid)
        if plan.dns_address is None:
            return plan.otherwise
        name = self._resolver.name(plan.dns_address)
        if name is None:
            return None
        return Host(name, plan.address, plan.cluster) if name else plan.otherwise

    def _planned(self, nid: str) -> _Plan:
        parsed = parse_nid(nid)
        address = nid if parsed is None else parsed.address
        cluster, rules = next(((one, rules) for one, rules in self._clusters if one.owns(nid)), (None, []))
        owner = None if cluster is None else cluster.name
        if not rules:
            return _Plan(None, Host(nid, address, owner), address, owner)
        dns_address = None
        for rule in rules:
            if rule is None:
                dns_address = _ip(address)
            elif (known := rule(nid)) is not None:
                return _Plan(dns_address, Host(known[0], known[1] or address, owner), address, owner)
        return _Plan(dns_address, None, address, owner)


def _compiled(rule: HostRule) -> _Rule | None:
    """Return a rule ready for use; nothing stands for DNS."""
    if rule.table is not None:
        return _table(rule.table)
    return None if rule.pattern is None else _pattern(rule.pattern)


def _table(entries: Iterable[HostEntry]) -> _Rule:
    by_nid: dict[Nid | None, tuple[str, str | None]] = {}
    for entry in entries:
        by_nid.setdefault(parse_nid(entry.nid), (entry.host, entry.address))
    return lambda nid: by_nid.get(parse_nid(nid))


def _pattern(pattern: HostPattern) -> _Rule:
    expression = re.compile(pattern.nid)

    def known(nid: str) -> tuple[str, str | None] | None:
        match = expression.fullmatch(nid)
        if match is None:
            return None
        name = _filled(pattern.host, match)
        return (name, _filled(pattern.address or "", match)) if name else None

    return known


def _filled(template: str, match: re.Match[str]) -> str:
    r"""Put groups in; not by ``expand``, for which the ``\10`` of a node's name would be a tenth group."""
    return re.sub(r"\\([1-9])", lambda group: match[int(group[1])] or "", template)


def _ip(address: str) -> str | None:
    """Return an IP address in its one form; the numbers of other networks are nothing that DNS knows."""
    try:
        return str(ip_address(address))
    except ValueError:
        return None
