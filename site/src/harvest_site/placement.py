"""Aggregators in Kubernetes: how many, where, and how agents outside reach them."""

from typing import Annotated, Literal

from pydantic import Field

from harvest_site.fields import Address, AggregatorName, Distinct, FilesystemNames, HostName, Model, Shape

_LabelKey = Annotated[
    str,
    Field(max_length=317),
    Shape("([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,62})", "the key of a label"),
]
_LabelValue = Annotated[str, Shape("([A-Za-z0-9]([A-Za-z0-9._-]{0,62}))?", "the value of a label, in quotes")]
_Quantity = Annotated[
    str,
    Shape("[0-9]{1,15}([.][0-9]{1,9})?(m|[KMGTPE]i|[kMGTPE])?", 'a quantity in quotes, such as "500m", "2" or 1Gi'),
]


class Service(Model):
    """How agents reach an aggregator."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "NodePort"
    """Type of the Service."""

    node_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port on every Kubernetes node. Absent: Kubernetes chooses one."""

    hostnames: Annotated[tuple[HostName, ...], Distinct(), Field(max_length=16)] = ()
    """Names by which agents and people reach it; in the certificate, and shown in status."""

    addresses: Annotated[tuple[Annotated[str, Address()], ...], Distinct(), Field(max_length=16)] = ()
    """IP addresses, likewise."""


class Resources(Model):
    """What the aggregator's container asks for, as in Kubernetes."""

    requests: dict[_LabelKey, _Quantity] = Field(default_factory=dict, max_length=8)
    """Reserved for it."""

    limits: dict[_LabelKey, _Quantity] = Field(default_factory=dict, max_length=8)
    """What it may use at most."""


class Toleration(Model):
    """A taint that does not matter, as in Kubernetes."""

    key: _LabelKey | None = None
    """Key of the taint. Absent: all."""

    operator: Literal["Exists", "Equal"] = "Equal"
    """How the value is compared."""

    value: _LabelValue | None = None
    """Value of the taint."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Absent: all."""

    toleration_seconds: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    """How long `NoExecute` is put up with. Absent: for ever."""


class Aggregator(Model):
    """One aggregator, and the file systems that it serves."""

    name: AggregatorName
    """Name of the aggregator, part of the name in its certificate."""

    filesystems: FilesystemNames = Field(min_length=1)
    """File systems that it serves: each of the site in exactly one aggregator."""

    service: Service | None = None
    """How agents reach it. Absent: as `service` of the site says."""

    resources: Resources = Field(default_factory=Resources)
    """What its container asks for."""

    node_selector: dict[_LabelKey, _LabelValue] = Field(default_factory=dict, max_length=16)
    """Labels of the nodes it may run on."""

    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints it puts up with."""
