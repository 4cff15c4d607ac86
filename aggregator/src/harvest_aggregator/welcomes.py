"""What an agent is told first, and again when the site was changed. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from harvest.v1.stream_pb2 import Ack, Incarnation, MountedTarget, WantedFilesystem, Welcome
from harvest_aggregator.presence import StayKey
from harvest_site.model import Site
from harvest_site.views import filesystem_of, slurm_cluster_of


def welcome(site: Site, agent: str, *, durable: Mapping[bytes, int], full_picture: bool) -> Welcome:
    """Tell an agent from where on to send, how often, and what."""
    return Welcome(
        resume=[Ack(incarnation=incarnation, seq=seq) for incarnation, seq in durable.items()],
        interval_seconds=site.spec.interval_seconds,
        filesystems=[
            WantedFilesystem(
                fsname=one.fsname, clients=one.clients.enabled, client_interval_seconds=one.clients.interval_seconds
            )
            for one in site.spec.filesystems
            if agent in one.server_names
        ],
        full_picture=full_picture,
        job_table=slurm_cluster_of(site, agent) is not None,
    )


def has_gap(incarnations: Sequence[Incarnation], durable: Mapping[bytes, int]) -> bool:
    """Tell whether sweeps are neither durable here nor in the agent's spool: a ledger was lost, or restored.

    Those of the incarnation that speaks: after an earlier one a full picture has followed already.
    """
    speaking = incarnations[-1]
    return durable[speaking.id] < speaking.last_seq and durable[speaking.id] + 1 < speaking.first_seq


def stays(site: Site, agent: str, targets: Iterable[MountedTarget]) -> frozenset[StayKey]:
    """Return the stays of those among an agent's targets that belong to the site."""
    return frozenset(
        StayKey(filesystem.name, one.target.name, one.mount.boot_id)
        for one in targets
        if (filesystem := filesystem_of(site, agent, one.target.name)) is not None
    )
