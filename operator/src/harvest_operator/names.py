"""Names that outsiders rely on: of objects, labels, annotations and ports. docs/reference/operator.md has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from harvest_site.model import API_VERSION, KIND

Object = Mapping[str, Any]
"""A Kubernetes object as JSON has it."""
Key = tuple[str, str]
"""(kind, name) of an object in the site's namespace."""

MANAGER: Final = "harvest-operator"
"""Our field manager, and the value of the label that says whose an object is."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
SITE: Final = "lustreharvest.dev/site"
AGGREGATOR: Final = "lustreharvest.dev/aggregator"

APPLIED: Final = "lustreharvest.dev/applied"
"""On children: a digest of what was applied, so that what is there already is not applied again."""
REFERENCES: Final = "lustreharvest.dev/references"
"""On Pods: a digest of the Secrets and ConfigMaps that they use, so that a change starts them anew."""
SITE_UID: Final = "lustreharvest.dev/site-uid"
"""On what outlives its site: whose it is."""
ROTATION: Final = "lustreharvest.dev/ca-rotation"
"""On the CA's Secret: the last rotation that was begun."""
JOIN: Final = "lustreharvest.dev/join"
"""On Secrets with what is kept of a token: the site that a server may join with it."""
ADOPT: Final = "lustreharvest.dev/adopt"
ROTATE_CA: Final = "lustreharvest.dev/rotate-ca"
FINISH_CA_ROTATION: Final = "lustreharvest.dev/finish-ca-rotation"

GRPC_PORT: Final = 8023
HTTP_PORT: Final = 8024
JOIN_PORT: Final = 8025

DEPLOYMENT: Final = "Deployment"
SERVICE: Final = "Service"
CONFIG_MAP: Final = "ConfigMap"
SECRET: Final = "Secret"  # noqa: S105 - a kind of object
VOLUME_CLAIM: Final = "PersistentVolumeClaim"
REQUEST: Final = "CertificateSigningRequest"

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    SECRET: ("v1", "secrets"),
    CONFIG_MAP: ("v1", "configmaps"),
    VOLUME_CLAIM: ("v1", "persistentvolumeclaims"),
    SERVICE: ("v1", "services"),
    DEPLOYMENT: ("apps/v1", "deployments"),
    KIND: (API_VERSION, "harvestsites"),
    REQUEST: ("certificates.k8s.io/v1", "certificatesigningrequests"),
}
"""API version and plural of every kind that is read or written."""
CHILDREN: Final = tuple(kind for kind in KINDS if kind not in {KIND, REQUEST})

SIGNER: Final = "harvestsites.lustreharvest.dev/"
"""Before NAMESPACE.SITE: the signer of that site's agents and relays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The site's object, as far as its children must know it."""

    namespace: str
    name: str
    uid: str
    generation: int
    annotations: Mapping[str, str]

    @classmethod
    def of(cls, body: Object) -> "Owner":
        """Read a HarvestSite's metadata."""
        metadata = body["metadata"]
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            generation=metadata.get("generation", 0),
            annotations=metadata.get("annotations") or {},
        )

    @property
    def reference(self) -> dict[str, Any]:
        """What makes a child go when the site goes."""
        return {"apiVersion": API_VERSION, "kind": KIND, "name": self.name, "uid": self.uid, "controller": True}

    @property
    def ca(self) -> str:
        """Name of the Secret with the site's CA."""
        return f"harvest-{self.name}-ca"

    @property
    def token(self) -> str:
        """Name of the Secret with the token of the aggregators' HTTP API."""
        return f"harvest-{self.name}-token"

    @property
    def join(self) -> str:
        """Begin of the names of Secrets with what is kept of tokens with which servers join."""
        return f"harvest-{self.name}-join-"

    @property
    def issued(self) -> str:
        """Name of the Secret with the serials of certificates that were given to agents and relays."""
        return f"harvest-{self.name}-issued"

    @property
    def agents(self) -> str:
        """Name of the ConfigMap with what agents in the cluster need to know."""
        return f"harvest-{self.name}-agents"

    def base(self, aggregator: str) -> str:
        """Name of an aggregator's Deployment, Service and ConfigMap."""
        return f"harvest-{self.name}-{aggregator}"

    def tls(self, aggregator: str) -> str:
        """Name of the Secret with an aggregator's certificate."""
        return f"{self.base(aggregator)}-tls"

    def volume(self, aggregator: str) -> str:
        """Name of the PersistentVolumeClaim with an aggregator's ledger."""
        return f"{self.base(aggregator)}-ledger"

    def labels(self, aggregator: str | None = None) -> dict[str, str]:
        """Labels of a child."""
        own = {"app.kubernetes.io/part-of": "harvest", MANAGED_BY: MANAGER, SITE: self.name}
        return own if aggregator is None else {**own, AGGREGATOR: aggregator}

    def metadata(self, name: str, aggregator: str | None = None, *, kept: bool = False) -> dict[str, Any]:
        """Metadata of a child; one that is kept stays when the site is deleted, and remembers whose it was."""
        own: dict[str, Any] = {"name": name, "namespace": self.namespace, "labels": self.labels(aggregator)}
        return {**own, "annotations": {SITE_UID: self.uid}} if kept else {**own, "ownerReferences": [self.reference]}

    def owns(self, found: Object) -> bool:
        """Tell whether an object goes with this very site."""
        return any(one.get("uid") == self.uid for one in found["metadata"].get("ownerReferences", ()))

    def claims(self, found: Object) -> bool:
        """Tell whether an object is a child of a site of this name, perhaps of an earlier one."""
        labels = found["metadata"].get("labels") or {}
        return self.owns(found) or (labels.get(MANAGED_BY) == MANAGER and labels.get(SITE) == self.name)

    def keeps(self, found: Object) -> bool:
        """Tell whether an object that outlives sites is this very site's."""
        return self.owns(found) or (found["metadata"].get("annotations") or {}).get(SITE_UID) == self.uid


def key_of(manifest: Object) -> Key:
    """Return by which name an object is known in its namespace."""
    return manifest["kind"], manifest["metadata"]["name"]


def shown(key: Key) -> str:
    """Return a key as ``kubectl`` takes it."""
    return f"{key[0].lower()}/{key[1]}"
