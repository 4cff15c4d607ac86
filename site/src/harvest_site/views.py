"""What aggregator and operator ask a site."""

import json

from harvest_core.jobs.identity import ClusterIds
from harvest_core.lustre.names import of_filesystem
from harvest_site.model import DEFAULT_AGGREGATOR, Filesystem, Site
from harvest_site.placement import Aggregator


def servers_of(site: Site) -> frozenset[str]:
    """Return the names that an agent may have: every Lustre server, and the agents that report job tables."""
    lustre = {name for filesystem in site.spec.filesystems for name in filesystem.server_names}
    return frozenset(lustre | set(slurm_agents_of(site).values()))


def filesystem_of(site: Site, server: str, target: str) -> Filesystem | None:
    """Return the file system of a target that a server reports; nothing if it is not the site's, or not there."""
    return next(
        (
            filesystem
            for filesystem in site.spec.filesystems
            if of_filesystem(target, filesystem.fsname) and server in filesystem.server_names
        ),
        None,
    )


def slurm_cluster_of(site: Site, agent: str) -> str | None:
    """Return the cluster whose job table an agent reports, if it is to report one."""
    return next((cluster for cluster, name in slurm_agents_of(site).items() if name == agent), None)


def slurm_agents_of(site: Site) -> dict[str, str]:
    """Return the clusters whose job table an agent reports, and the agent's name."""
    return {
        one.name: sidecar_agent(one.name) if one.slurm.server is None else one.slurm.server
        for one in site.spec.clusters
        if one.slurm is not None
    }


def sidecar_agent(cluster: str) -> str:
    """Return the name of the agent that runs beside the aggregator: a host name, and no two clusters have the same."""
    return f"slurm-sidecar.{cluster.replace('_', '__').replace('.', '_-')}"


def job_ids_of(site: Site) -> tuple[ClusterIds, ...]:
    """Return how the job ids of each cluster look."""
    return tuple(
        ClusterIds(
            cluster=cluster.name,
            filesystems=frozenset(cluster.filesystems),
            format=None if cluster.job_ids is None else cluster.job_ids.compiled,
            range=None if cluster.job_ids is None else cluster.job_ids.range,
        )
        for cluster in site.spec.clusters
    )


def vouched_relays_of(site: Site) -> frozenset[str]:
    """Return the relays that are taken in with certificates of the site's own CA."""
    return frozenset(one.name for one in site.spec.accepts if one.ca_secret_ref is None)


def aggregators_of(site: Site) -> tuple[Aggregator, ...]:
    """Return the aggregators as they run: those listed, or the one that serves everything."""
    if site.spec.aggregators:
        return site.spec.aggregators
    names = [
        *(filesystem.name for filesystem in site.spec.filesystems),
        *(name for accept in site.spec.accepts for name in accept.filesystems),
    ]
    return (Aggregator.model_validate_json(json.dumps({"name": DEFAULT_AGGREGATOR, "filesystems": names})),)


def aggregators_for(site: Site, server: str) -> tuple[Aggregator, ...]:
    """Return the aggregators that want to hear of a server; the others would not let it in.

    The agent beside Slurm reports to all: each shows whose jobs they are.
    """
    if server in slurm_agents_of(site).values():
        return aggregators_of(site)
    wanted = {one.name for one in site.spec.filesystems if server in one.server_names}
    return tuple(one for one in aggregators_of(site) if wanted & set(one.filesystems))
