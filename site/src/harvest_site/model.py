"""The site: DESIGN's section 11 as values. What holds across fields is in the rules."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from harvest_site.clusters import Cluster
from harvest_site.fields import (
    AggregatorName,
    Distinct,
    Duration,
    Endpoint,
    FilesystemNames,
    FsName,
    Lnets,
    Model,
    Name,
    Shape,
    Size,
    refused,
    shown,
)
from harvest_site.hostlists import HOST_LIST_INSTEAD, HOST_LIST_PATTERN, LIST_CHARACTERS_MAX, expand
from harvest_site.placement import Aggregator, Service
from harvest_site.references import CaSecretRef, TlsSecretRef
from harvest_site.sinks import Sink

API_VERSION: Final = "lustreharvest.dev/v1alpha1"
KIND: Final = "HarvestSite"
DEFAULT_AGGREGATOR: Final = "main"
"""Name of the one aggregator of a site that lists none."""
_DEADLINE_SECONDS: Final = 5.0
_DAY_SECONDS: Final = 86_400


def _host_list(text: str) -> str:
    try:
        expand(text)
    except ValueError as error:
        raise refused(f"{shown(text)} will not do: {error}") from None
    return text


class Clients(Model):
    """The counters of every client node."""

    enabled: bool = True
    """Read the counters of every client node."""

    interval_seconds: Annotated[int, Duration("1s", "1h")] = Field(default=60, alias="interval")
    """How often: one file per node and target is read in this time."""


class Filesystem(Model):
    """One file system and the servers it lives on."""

    name: Name
    """Key of the file system, here and in everything that is shown."""

    fsname: FsName = Field(default_factory=lambda data: data["name"], validate_default=True)
    """Lustre's name of it: its targets are `fsname-OST*` and `fsname-MDT*`. Absent: the name."""

    alias: Name = Field(default_factory=lambda data: data["name"])
    """Start of its ganglia metrics' names. Absent: the name."""

    servers: Annotated[
        tuple[
            Annotated[
                str,
                Field(max_length=LIST_CHARACTERS_MAX),
                Shape(HOST_LIST_PATTERN, HOST_LIST_INSTEAD),
                AfterValidator(_host_list),
            ],
            ...,
        ],
        Distinct(),
        Field(min_length=1, max_length=64),
    ]
    """OSS and MDS that may report it, as their certificates name them; `oss[01-04]` is four."""

    clients: Clients = Field(default_factory=Clients)
    """The counters of every client node."""

    @cached_property
    def server_names(self) -> frozenset[str]:
        """Every server by name."""
        return frozenset(name for text in self.servers for name in expand(text))


class Relay(Model):
    """One cluster's nodes, sent to that cluster's own aggregator."""

    cluster: Name
    """Whose nodes: a name under `clusters`."""

    filesystems: FilesystemNames = Field(min_length=1)
    """Of which file systems of this site."""

    endpoint: Endpoint
    """The other aggregator's `host:port`."""

    aggregator: AggregatorName = DEFAULT_AGGREGATOR
    """Its name, where its site lists several."""

    tls_secret_ref: TlsSecretRef
    """Secret with `tls.crt`, `tls.key` and `ca.crt`, made by the receiver (`harvest relay-bundle`)."""


class Accept(Model):
    """A relay that this site takes in."""

    name: Name
    """Name of the sender, as in its certificate."""

    filesystems: FilesystemNames = Field(min_length=1)
    """File systems that it may report; they are not under `filesystems`."""

    lnets: Annotated[Lnets, Field(min_length=1)]
    """Lustre networks whose nodes it may report."""

    ca_secret_ref: CaSecretRef | None = None
    """Secret with the certificate that signed the sender's. Absent: this site's own."""


class Storage(Model):
    """The volume of a ledger."""

    size_bytes: Annotated[int, Size("1Gi", "1Pi")] = Field(default=10 << 30, alias="size")
    """Size of each aggregator's volume."""

    class_name: Annotated[
        str, Field(max_length=253), Shape("([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?", "the name of a StorageClass")
    ] = ""
    """StorageClass of the volume. Empty: the cluster's default."""


class Ledger(Model):
    """What is kept, where, and for how long."""

    retention_seconds: Annotated[int, Duration("1d", "36500d")] = Field(default=365 * _DAY_SECONDS, alias="retention")
    """How long finished jobs are kept."""

    storage: Storage = Field(default_factory=Storage)
    """The volume of the ledger."""

    reclaim: Literal["Retain", "Delete"] = "Retain"
    """Whether ledger and CA stay when the site is deleted."""


class Certificates(Model):
    """Who may speak for the site."""

    agent_lifetime_seconds: Annotated[int, Duration("1m", "3650d")] = Field(
        default=90 * _DAY_SECONDS, alias="agentLifetime"
    )
    """How long an agent's certificate is valid; agents renew theirs in time."""

    ca_secret_ref: TlsSecretRef | None = None
    """Secret with the CA's `tls.crt` and `tls.key`. Absent: the operator makes and keeps one."""

    deny_serials: Annotated[
        tuple[
            Annotated[
                str,
                Shape(
                    "[0-9A-Fa-f]{1,40}", 'the serial as hexadecimal digits without colons, in quotes, such as "0a1b"'
                ),
            ],
            ...,
        ],
        Distinct(),
        Field(max_length=1000),
    ] = ()
    """Serials of certificates that are refused although they are valid, as hexadecimal digits."""

    @cached_property
    def denied_serials(self) -> frozenset[int]:
        """The serials as numbers."""
        return frozenset(int(serial, 16) for serial in self.deny_serials)


class Spec(Model):
    """All that a site says about itself."""

    interval_seconds: Annotated[int, Duration("1s", "10m")] = Field(default=20, alias="interval")
    """Time between two sweeps; they fall on wall-clock multiples of it."""

    deadline_seconds: Annotated[float, Duration("100ms", "5m")] = Field(
        default_factory=lambda data: min(_DEADLINE_SECONDS, data["interval_seconds"] / 2), alias="deadline"
    )
    """When a sweep closes although servers are missing. Absent: 5s, or half of a shorter interval than 10s."""

    filesystems: Annotated[tuple[Filesystem, ...], Field(max_length=32)] = ()
    """File systems whose servers report to this site."""

    clusters: Annotated[tuple[Cluster, ...], Field(max_length=32)] = ()
    """Clusters that mount them."""

    relays: Annotated[tuple[Relay, ...], Field(max_length=16)] = ()
    """Clusters whose nodes are reported to an aggregator of their own."""

    accepts: Annotated[tuple[Accept, ...], Field(max_length=16)] = ()
    """Relays that this site takes in."""

    sinks: Annotated[tuple[Sink, ...], Field(max_length=16)] = ()
    """Where results go."""

    ledger: Ledger = Field(default_factory=Ledger)
    """What is kept, where, and for how long."""

    certificates: Certificates = Field(default_factory=Certificates)
    """Who may speak for the site."""

    aggregators: Annotated[tuple[Aggregator, ...], Field(max_length=16)] = ()
    """Aggregators that share the file systems. Empty: one, `main`, for all."""

    service: Service = Field(default_factory=Service)
    """How agents reach the aggregators."""


@dataclass(frozen=True, slots=True)
class Site:
    """A site that keeps all rules."""

    name: str | None
    """From its metadata; nothing where the file is a spec alone."""
    spec: Spec

    def document(self) -> dict[str, Any]:
        """Return what ``load`` reads back as an equal site; defaults that nobody wrote stay unwritten."""
        spec = self.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if self.name is None:
            return spec
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": self.name}, "spec": spec}
