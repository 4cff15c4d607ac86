"""The things of a site as the API shows them: file systems, servers, targets."""

from typing import Any

from harvest_aggregator.catalogue import MEASURES, Catalogue
from harvest_aggregator.published import AgentStatus, Published, TargetStatus
from harvest_core.accounting.sweeps import Place
from harvest_core.accounting.totals import JobWork
from harvest_core.facts import MDT, OST
from harvest_core.jobs.identity import UNKNOWN
from harvest_site.model import Filesystem, Site
from harvest_site.views import servers_of

Json = dict[str, Any]


def names(site: Site, catalogue: Catalogue) -> set[str]:
    """Return the file systems that can be asked for: of the site, or of data that is left of an earlier one."""
    return {filesystem.name for filesystem in site.spec.filesystems} | {part.filesystem for part in catalogue.parts}


def filesystems(site: Site, published: Published, catalogue: Catalogue) -> list[Json]:
    """Return the file systems, each with what all jobs did on it."""
    described = {filesystem.name: filesystem for filesystem in site.spec.filesystems}
    return [
        {
            "name": name,
            **_described(described.get(name)),
            "targets": sum(target.filesystem == name for target in published.targets),
            "jobs": len(catalogue.on(name)),
            "ost": _done(published, catalogue, name, OST),
            "mdt": _done(published, catalogue, name, MDT),
        }
        for name in sorted(names(site, catalogue))
    ]


def _described(filesystem: Filesystem | None) -> Json:
    if filesystem is None:
        return {"fsname": None, "alias": None, "servers": []}
    return {
        "fsname": filesystem.fsname,
        "alias": filesystem.alias,
        "servers": sorted(filesystem.server_names),
    }


def _done(published: Published, catalogue: Catalogue, name: str, kind: str) -> Json:
    """Return what all jobs did, those too that are over: no total falls when one is let go."""
    parts = [part for part in catalogue.only(name) if part.kind == kind]
    over = JobWork(counters=published.let_go.get((name, kind), {}))
    return {
        **{
            measure: sum(part.total(measure, rates=False) for part in parts) + getattr(over, measure)
            for measure in MEASURES
        },
        "rates": {measure: sum(part.total(measure, rates=True) for part in parts) for measure in MEASURES},
    }


def server_names(site: Site, published: Published) -> frozenset[str]:
    """Return the servers that the site lists, and those that were heard of before."""
    return servers_of(site) | {agent.name for agent in published.agents}


def servers(site: Site, published: Published) -> list[Json]:
    """Return the servers, each with its targets and how its agent is doing."""
    agents = {agent.name: agent for agent in published.agents}
    return [
        {
            "name": name,
            "listed": name in servers_of(site),
            "filesystems": [filesystem.name for filesystem in site.spec.filesystems if name in filesystem.server_names],
            "targets": sorted(target.target for target in published.targets if target.server == name),
            **_agent(agents.get(name)),
        }
        for name in sorted(server_names(site, published))
    ]


def _agent(agent: AgentStatus | None) -> Json:
    health = None if agent is None else agent.health
    return {
        "connected": agent is not None and agent.connected,
        "last_tick_seconds": None if agent is None else agent.last_tick,
        "clock_offset_seconds": None if agent is None else agent.clock_offset_seconds,
        "late_seconds": None if health is None else health.late_microseconds / 1e6,
        "cpu_seconds": None if health is None else (health.user_microseconds + health.kernel_microseconds) / 1e6,
        "resident_bytes": None if health is None else health.resident_bytes,
        "spool_bytes": None if health is None else health.spool_bytes,
        "spool_limit_bytes": None if health is None else health.spool_limit_bytes,
        "spool_sweeps": None if health is None else health.spool_sweeps,
        "lost_sweeps": None if health is None else health.lost_sweeps,
        "merged_sweeps": None if health is None else health.merged_sweeps,
        "needs_full_picture": agent is not None and agent.needs_full_picture,
        "problems": [] if health is None else list(health.problems),
    }


def targets(published: Published) -> list[Json]:
    """Return the targets that were ever read."""
    missing = frozenset() if published.closed is None else published.closed.missing
    return [
        _target(target, missing=Place(target.filesystem, target.kind, target.target) in missing)
        for target in sorted(published.targets, key=lambda target: (target.filesystem, target.target))
    ]


def _target(target: TargetStatus, *, missing: bool) -> Json:
    return {
        "name": target.target,
        "filesystem": target.filesystem,
        "kind": target.kind.lower(),
        "server": target.server,
        "mount": target.instance,
        "last_tick_seconds": target.last_tick,
        "missing": missing,
        "unread_lines": target.unread_lines,
        "unplaced_reads": target.unplaced_reads,
        "unseen_seconds": target.unseen_seconds,
        "ambiguous_resets": target.ambiguous_resets,
        "ambiguous_bytes": target.ambiguous_bytes,
        "clients": target.clients._asdict(),
        "cpu_seconds": (target.cost.user_microseconds + target.cost.kernel_microseconds) / 1e6,
        "records": target.cost.records,
        "bytes": target.cost.bytes,
    }


def clients(published: Published, *, filesystem: str | None, cluster: str | None) -> list[Json]:
    """Return the client nodes, of one file system or of one cluster if asked."""
    return [
        {
            "nid": client.nid,
            "host": client.host,
            "cluster": client.cluster or UNKNOWN,
            "live": client.is_live,
            "filesystems": {
                name: rates._asdict() for name, rates in client.filesystems.items() if filesystem in {None, name}
            },
        }
        for client in published.clients
        if (filesystem is None or filesystem in client.filesystems) and cluster in {None, client.cluster or UNKNOWN}
    ]
