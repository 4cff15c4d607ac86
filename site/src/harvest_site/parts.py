"""Which parts of a site are accepted but not acted upon yet."""

from collections.abc import Callable, Mapping
from typing import Final

from harvest_site.model import Site, Spec

_USED: Final[Mapping[str, Callable[[Spec], bool]]] = {
    "clients": lambda spec: any(filesystem.clients.enabled for filesystem in spec.filesystems),
    "lnets": lambda spec: any(cluster.lnets or cluster.nids for cluster in spec.clusters),
    "jobIds": lambda spec: any(cluster.job_ids for cluster in spec.clusters),
    "slurm": lambda spec: any(cluster.slurm for cluster in spec.clusters),
    "slurm.sidecar": lambda spec: any(cluster.slurm and cluster.slurm.sidecar for cluster in spec.clusters),
    "hosts": lambda spec: any(cluster.hosts for cluster in spec.clusters),
    "relays": lambda spec: bool(spec.relays),
    "accepts": lambda spec: bool(spec.accepts),
    "ganglia": lambda spec: any(sink.ganglia for sink in spec.sinks),
    "influxdb": lambda spec: any(sink.influxdb for sink in spec.sinks),
    "prometheus": lambda spec: any(sink.prometheus for sink in spec.sinks),
    "ledger.retention": lambda spec: "retention_seconds" in spec.ledger.model_fields_set,
    "certificates.agentLifetime": lambda spec: "agent_lifetime_seconds" in spec.certificates.model_fields_set,
    "certificates.caSecretRef": lambda spec: spec.certificates.ca_secret_ref is not None,
    "certificates.denySerials": lambda spec: bool(spec.certificates.deny_serials),
    "aggregators": lambda spec: bool(spec.aggregators),
    "service": lambda spec: "service" in spec.model_fields_set,
}
"""Every part that may lack an implementation, and whether a site asks for it."""

IMPLEMENTED: Final[frozenset[str]] = frozenset(
    {
        "accepts",
        "aggregators",
        "certificates.caSecretRef",
        "certificates.denySerials",
        "clients",
        "ganglia",
        "hosts",
        "influxdb",
        "jobIds",
        "ledger.retention",
        "lnets",
        "prometheus",
        "relays",
        "service",
        "slurm",
        "slurm.sidecar",
    }
)
"""Who builds a part adds its name. Some are the operator's work: see the table of fields in docs/reference/site.md."""


def unimplemented(site: Site) -> list[str]:
    """Return the parts that this site asks for in vain, for a warning."""
    return [name for name, used in _USED.items() if name not in IMPLEMENTED and used(site.spec)]
