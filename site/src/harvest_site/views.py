"""What aggregator and operator ask a site."""

import json

from harvest_core.jobs.identity import ClusterIds
from harvest_core.lustre.names import of_filesystem
from harvest_site.model import DEFAULT_AGGREGATOR, Filesystem, Site
from harvest_site.placement import Aggregator


def servers_of(site: Site) -> frozenset[str]:
    """Return the names that an agent may have: every Lustre server, and the agents that report job tables."""
    lustre = {name for filesystem in site.spec.filesystems for name in filesystem.server_names}
    slurm = {cluster.slurm.server for cluster in site.spec.clusters if cluster.slurm is not None}
    return frozenset(lustre | {name for name in slurm if name is not None})


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
    return next(
        (one.name for one in site.spec.clusters if one.slurm is not None and one.slurm.server == agent),
        None,
    )


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


def aggregators_of(site: Site) -> tuple[Aggregator, ...]:
    """Return the aggregators as they run: those listed, or the one that serves everything."""
    if site.spec.aggregators:
        return site.spec.aggregators
    names = [
        *(filesystem.name for filesystem in site.spec.filesystems),
        *(name for accept in site.spec.accepts for name in accept.filesystems),
    ]
    return (Aggregator.model_validate_json(json.dumps({"name": DEFAULT_AGGREGATOR, "filesystems": names})),)
