"""Secrets and ConfigMaps that a site names: who uses them, which are missing, and whether they changed. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harvest_operator.comparing import digest
from harvest_operator.names import CONFIG_MAP, SECRET, Key, Object, shown
from harvest_site.clusters import Cluster
from harvest_site.model import Site
from harvest_site.placement import Aggregator
from harvest_site.references import KeyRef, ObjectRef
from harvest_site.views import aggregators_of

_TLS = ("tls.crt", "tls.key", "ca.crt")


@dataclass(frozen=True, slots=True)
class Reference:
    """Keys of one object; of all its keys if none is named."""

    kind: str
    name: str
    keys: tuple[str, ...]

    @classmethod
    def of(cls, kind: str, ref: ObjectRef) -> "Reference":
        """Return what the site refers to."""
        return cls(kind, ref.name, (ref.key,) if isinstance(ref, KeyRef) else _TLS)

    @property
    def object(self) -> Key:
        """The object that it is in."""
        return self.kind, self.name

    def missing(self, objects: Mapping[Key, Object]) -> str | None:
        """Say what is missing of it."""
        if self.object not in objects:
            return f"{shown(self.object)} is not there"
        lacking = [key for key in self.keys if key not in data_of(objects[self.object])]
        return f"{shown(self.object)} has no {' and no '.join(lacking)}" if lacking else None


def data_of(found: Object) -> dict[str, str]:
    """Return what a Secret or ConfigMap holds."""
    return {**(found.get("binaryData") or {}), **(found.get("data") or {})}


def used_by_aggregator(site: Site, aggregator: Aggregator) -> list[Reference]:
    """Return what an aggregator reads itself, each once, in order."""
    spec, served = site.spec, set(aggregator.filesystems)
    relays = [
        *(relay.tls_secret_ref for relay in spec.relays if served & set(relay.filesystems)),
        *(accept.ca_secret_ref for accept in spec.accepts if served & set(accept.filesystems)),
    ]
    return list(dict.fromkeys([*read_once(site), *(Reference.of(SECRET, ref) for ref in relays if ref is not None)]))


def read_once(site: Site) -> list[Reference]:
    """Return what an aggregator reads when it starts. Certificates of relays and for them it reads anew by itself."""
    refs = [
        ref
        for one in site.spec.sinks
        if one.influxdb
        for ref in (one.influxdb.token_secret_ref, one.influxdb.ca_secret_ref)
    ]
    return list(dict.fromkeys(Reference.of(SECRET, ref) for ref in refs if ref is not None))


def used_by_sidecar(cluster: Cluster) -> list[Reference]:
    """Return what the Slurm agent of a cluster needs beside the aggregator."""
    if cluster.slurm is None or cluster.slurm.sidecar is None:
        return []
    sidecar = cluster.slurm.sidecar
    return [Reference.of(SECRET, sidecar.munge_secret_ref), Reference.of(CONFIG_MAP, sidecar.config_ref)]


def all_references(site: Site) -> Iterator[Reference]:
    """Return everything that the site names, for those who fetch it."""
    for aggregator in aggregators_of(site):
        yield from used_by_aggregator(site, aggregator)
    for cluster in site.spec.clusters:
        yield from used_by_sidecar(cluster)
    if site.spec.certificates.ca_secret_ref is not None:
        yield Reference(SECRET, site.spec.certificates.ca_secret_ref.name, ("tls.crt", "tls.key"))


def fingerprint(references: Iterable[Reference], objects: Mapping[Key, Object]) -> str:
    """Return a text that differs once one of them was changed, came or went."""
    content: list[Any] = []
    for reference in references:
        data = data_of(objects[reference.object]) if reference.object in objects else None
        # A ConfigMap is mounted as a whole: what slurm.conf includes lies beside it.
        keys = reference.keys if reference.kind == SECRET or data is None else sorted(data)
        content.append([reference.kind, reference.name, [[key, (data or {}).get(key)] for key in keys]])
    return digest(content)


def mounted(references: Iterable[Reference]) -> list[dict[str, Any]]:
    """Return the sources of the volume that holds them as ``name/key``; a missing one keeps no Pod from starting."""
    return [
        {
            "secret": {
                "name": one.name,
                "items": [{"key": key, "path": f"{one.name}/{key}"} for key in one.keys],
                "optional": True,
            }
        }
        for one in references
    ]
