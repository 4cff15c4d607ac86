"""The Slurm agent beside an aggregator: its containers, its volumes and its configuration. Pure."""

import re
from dataclasses import dataclass
from typing import Any, Final

from harvest_operator.comparing import digest
from harvest_operator.configs import SPOOL, section, uplinks
from harvest_operator.names import Owner
from harvest_site.clusters import Cluster, SlurmSidecar
from harvest_site.model import Site
from harvest_site.placement import Aggregator
from harvest_site.views import aggregators_of, sidecar_agent

_CONFIG: Final = "/etc/harvest/agent"
_TLS: Final = "/etc/harvest/tls"
_SLURM: Final = "/etc/slurm"
_MUNGE_KEY: Final = "/etc/munge"
_MUNGE: Final = "/run/munge"
_SPOOL_BYTES: Final = 64 << 20
_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One cluster's Slurm agent in a Pod."""

    cluster: str
    settings: SlurmSidecar

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return sidecar_agent(self.cluster)

    @property
    def config_key(self) -> str:
        """Key of its configuration in the aggregator's ConfigMap."""
        return f"agent.{self.cluster}.toml"

    @property
    def certificate_keys(self) -> tuple[str, str]:
        """Keys of its certificate and key in the aggregator's Secret."""
        return f"agent.{self.cluster}.crt", f"agent.{self.cluster}.key"

    @property
    def slug(self) -> str:
        """The cluster's name as a part of names in Kubernetes."""
        plain = re.sub("[^a-z0-9]+", "-", self.cluster.lower()).strip("-")
        return plain if plain == self.cluster else f"{plain}-{digest(self.cluster)[:6]}"


def sidecars_of(site: Site, aggregator: Aggregator) -> list[Sidecar]:
    """Return those in an aggregator's Pod: a cluster's agent runs once, beside the first that serves the cluster."""
    return [
        Sidecar(cluster.name, cluster.slurm.sidecar)
        for cluster in site.spec.clusters
        if cluster.slurm is not None and cluster.slurm.sidecar is not None and _home(site, cluster) == aggregator.name
    ]


def _home(site: Site, cluster: Cluster) -> str:
    there = aggregators_of(site)
    serving = [one.name for one in there if set(one.filesystems) & set(cluster.filesystems)]
    return (serving or [there[0].name])[0]


def config_of(sidecar: Sidecar, site: Site, owner: Owner, aggregator: str) -> str:
    """Write the agent's configuration: an uplink to every aggregator of the site, and no Lustre to read."""
    return "\n".join(
        [
            *section("[agent]", {"name": sidecar.agent}),
            *section("[lustre]", {"root": SPOOL}),  # a Pod may run on a Lustre server, and must not read for it
            *uplinks(owner, aggregators_of(site), _TLS, beside=aggregator),
            *section("[spool]", {"directory": f"{SPOOL}/spool", "max_bytes": _SPOOL_BYTES}),
            *section("[slurm]", {"slurm_conf": f"{_SLURM}/{sidecar.settings.config_ref.key}"}),
        ]
    )


def containers(sidecar: Sidecar, pull_policy: str) -> list[dict[str, Any]]:
    """Return munged and the agent, both of the site's own image: Slurm and munge must fit the cluster's."""
    common = {
        "image": sidecar.settings.image,
        "imagePullPolicy": pull_policy,
        "securityContext": _SECURITY,
    }
    munge = {"name": f"{sidecar.slug}-munge", "mountPath": _MUNGE}
    return [
        {
            **common,
            "name": f"munge-{sidecar.slug}",
            "command": ["munged"],
            # The key is root's and the folder the group's, as Kubernetes mounts them: munged accepts that if forced.
            "args": [
                "--foreground",
                "--force",
                f"--key-file={_MUNGE_KEY}/munge.key",
                f"--socket={_MUNGE}/munge.socket.2",
                f"--pid-file={_MUNGE}/munged.pid",
                f"--seed-file={_MUNGE}/munged.seed",
            ],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            "volumeMounts": [
                munge,
                {"name": f"{sidecar.slug}-munge-key", "mountPath": _MUNGE_KEY, "readOnly": True},
            ],
        },
        {
            **common,
            "name": f"slurm-{sidecar.slug}",
            "command": ["harvest-agent"],
            "args": ["run", "--config", f"{_CONFIG}/agent.toml"],
            "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}},
            "volumeMounts": [
                munge,
                {"name": f"{sidecar.slug}-config", "mountPath": _CONFIG, "readOnly": True},
                {"name": f"{sidecar.slug}-tls", "mountPath": _TLS, "readOnly": True},
                {"name": f"{sidecar.slug}-slurm", "mountPath": _SLURM, "readOnly": True},
                {"name": f"{sidecar.slug}-spool", "mountPath": SPOOL},
            ],
        },
    ]


def volumes(sidecar: Sidecar, *, config_map: str, tls: str, mode: int) -> list[dict[str, Any]]:
    """Return what its containers mount: of the aggregator's own objects its own keys only."""
    certificate, key = sidecar.certificate_keys
    settings = sidecar.settings
    return [
        {
            "name": f"{sidecar.slug}-config",
            "configMap": {"name": config_map, "items": [{"key": sidecar.config_key, "path": "agent.toml"}]},
        },
        {
            "name": f"{sidecar.slug}-tls",
            "secret": {
                "secretName": tls,
                "defaultMode": mode,
                "items": [
                    {"key": certificate, "path": "tls.crt"},
                    {"key": key, "path": "tls.key"},
                    {"key": "ca.crt", "path": "ca.crt"},
                ],
            },
        },
        {
            "name": f"{sidecar.slug}-munge-key",
            "secret": {
                "secretName": settings.munge_secret_ref.name,
                "defaultMode": mode,
                "items": [{"key": settings.munge_secret_ref.key, "path": "munge.key"}],
            },
        },
        {"name": f"{sidecar.slug}-slurm", "configMap": {"name": settings.config_ref.name}},
        {"name": f"{sidecar.slug}-munge", "emptyDir": {}},
        {"name": f"{sidecar.slug}-spool", "emptyDir": {"sizeLimit": "128Mi"}},
    ]
