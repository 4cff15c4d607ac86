"""The children of a site as Kubernetes takes them. Pure: same site, same manifests."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from harvest_operator import configs, sidecars
from harvest_operator.comparing import quantity
from harvest_operator.names import (
    AGGREGATOR,
    CONFIG_MAP,
    DEPLOYMENT,
    GRPC_PORT,
    HTTP_PORT,
    KINDS,
    REFERENCES,
    SERVICE,
    SITE,
    VOLUME_CLAIM,
    Owner,
)
from harvest_operator.references import Reference, mounted
from harvest_operator.sidecars import Sidecar
from harvest_site.fields import Size
from harvest_site.model import Site
from harvest_site.placement import Aggregator, Service

Manifest = dict[str, Any]

_SITE: Final = "/etc/harvest/site"
_TLS: Final = "/etc/harvest/tls"
_TOKEN: Final = "/etc/harvest/token"  # noqa: S105 - a folder
_SECRETS: Final = "/etc/harvest/secrets"
_DATA: Final = "/var/lib/harvest"
_USER: Final = 65532
"""Any number but root's; volumes are given to its group."""
_KEY_MODE: Final = 0o440
"""Files of root that the Pod's group may read: what the aggregator accepts of keys."""
_STOP_SECONDS: Final = 60
_REQUESTS: Final = {"cpu": "100m", "memory": "256Mi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the person who runs the operator chose."""

    aggregator_image: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    """Names of Secrets in the sites' namespaces."""


def service_of(site: Site, aggregator: Aggregator) -> Service:
    """Return how an aggregator is reached."""
    return site.spec.service if aggregator.service is None else aggregator.service


def config_map(site: Site, owner: Owner, aggregator: Aggregator, beside: Sequence[Sidecar]) -> Manifest:
    """Return the site as the aggregator reads it, and what agents in its Pod read."""
    text = json.dumps(site.document(), indent=1, ensure_ascii=False)  # is YAML, too, and takes a tenth of the time
    agents = {one.config_key: sidecars.config_of(one, site, owner, aggregator.name) for one in beside}
    return _object(
        CONFIG_MAP, owner.metadata(owner.base(aggregator.name), aggregator.name), data={"site.yaml": text, **agents}
    )


def agents_config_map(site: Site, owner: Owner, ca: bytes) -> Manifest:
    """Return what agents in the cluster need to know: nothing of it is secret."""
    data = {"ca.crt": ca.decode(), **configs.configs_of_agents(site, owner)}
    return _object(CONFIG_MAP, owner.metadata(owner.agents), data=data)


def volume_claim(site: Site, owner: Owner, aggregator: Aggregator) -> Manifest:
    """Return the volume of the ledger; it is not the site's child unless the site says that it goes with it."""
    storage = site.spec.ledger.storage
    kept = site.spec.ledger.reclaim == "Retain"
    metadata = owner.metadata(owner.volume(aggregator.name), aggregator.name, kept=kept)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": quantity(Size.written(storage.size_bytes))}},
        **({"storageClassName": storage.class_name} if storage.class_name else {}),
    }
    return _object(VOLUME_CLAIM, metadata, spec=spec)


def service(site: Site, owner: Owner, aggregator: Aggregator) -> Manifest:
    """Return how agents and people reach an aggregator. One that is not ready is reached, too, and says why."""
    wanted = service_of(site, aggregator)
    agents = {"name": "grpc", "port": GRPC_PORT, "protocol": "TCP", "targetPort": "grpc"}
    people = {"name": "https", "port": HTTP_PORT, "protocol": "TCP", "targetPort": "https"}
    spec = {
        "type": wanted.type,
        "selector": _selector(owner, aggregator),
        "publishNotReadyAddresses": True,
        "ports": [agents | ({"nodePort": wanted.node_port} if wanted.node_port else {}), people],
    }
    return _object(SERVICE, owner.metadata(owner.base(aggregator.name), aggregator.name), spec=spec)


def deployment(
    owner: Owner,
    aggregator: Aggregator,
    options: Options,
    *,
    references: Sequence[Reference],
    beside: Sequence[Sidecar],
    fingerprint: str,
) -> Manifest:
    """Return an aggregator's Deployment: never two Pods at a time, for a ledger has one writer."""
    name = owner.base(aggregator.name)
    selector = _selector(owner, aggregator)
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _STOP_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            _container(aggregator, options, references=references),
            *(container for one in beside for container in sidecars.containers(one, options.pull_policy)),
        ],
        "volumes": [
            *_volumes(owner, aggregator, references),
            *(
                volume
                for one in beside
                for volume in sidecars.volumes(one, config_map=name, tls=owner.tls(aggregator.name), mode=_KEY_MODE)
            ),
        ],
        **({"imagePullSecrets": [{"name": name} for name in options.pull_secrets]} if options.pull_secrets else {}),
        **({"nodeSelector": dict(aggregator.node_selector)} if aggregator.node_selector else {}),
        **({"tolerations": _tolerations(aggregator)} if aggregator.tolerations else {}),
    }
    metadata = {"labels": {**owner.labels(aggregator.name), **selector}, "annotations": {REFERENCES: fingerprint}}
    spec = {
        "replicas": 1,
        "revisionHistoryLimit": 2,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selector},
        "template": {"metadata": metadata, "spec": pod},
    }
    return _object(DEPLOYMENT, owner.metadata(name, aggregator.name), spec=spec)


def _object(kind: str, metadata: Manifest, **parts: object) -> Manifest:
    return {"apiVersion": KINDS[kind][0], "kind": kind, "metadata": metadata, **parts}


def _selector(owner: Owner, aggregator: Aggregator) -> dict[str, str]:
    return {"app.kubernetes.io/name": "harvest-aggregator", SITE: owner.name, AGGREGATOR: aggregator.name}


def _container(aggregator: Aggregator, options: Options, *, references: Sequence[Reference]) -> Manifest:
    secrets = ["--secrets", _SECRETS] if references else []
    arguments = [
        "run",
        *("--site", f"{_SITE}/site.yaml"),
        *("--aggregator", aggregator.name),
        *("--data", _DATA),
        *("--tls", _TLS),
        *("--http", f"[::]:{HTTP_PORT}"),
        *("--http-token-file", f"{_TOKEN}/token"),
        *secrets,
    ]
    limits = aggregator.resources.limits
    return {
        "name": "aggregator",
        "image": options.aggregator_image,
        "imagePullPolicy": options.pull_policy,
        "command": ["harvest-aggregator"],
        "args": arguments,
        "ports": [
            {"name": "grpc", "containerPort": GRPC_PORT, "protocol": "TCP"},
            {"name": "https", "containerPort": HTTP_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": _probe("/healthz", period=20, failures=6),
        "readinessProbe": _probe("/readyz", period=10, failures=3),
        "resources": {
            "requests": _quantities(aggregator.resources.requests or _REQUESTS),
            **({"limits": _quantities(limits)} if limits else {}),
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "ledger", "mountPath": _DATA},
            {"name": "site", "mountPath": _SITE, "readOnly": True},
            {"name": "tls", "mountPath": _TLS, "readOnly": True},
            {"name": "token", "mountPath": _TOKEN, "readOnly": True},
            *([{"name": "secrets", "mountPath": _SECRETS, "readOnly": True}] if references else []),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own
        ],
    }


def _probe(path: str, *, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": "https", "scheme": "HTTPS"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _quantities(wanted: dict[str, str]) -> dict[str, str]:
    return {name: quantity(amount) for name, amount in wanted.items()}


def _volumes(owner: Owner, aggregator: Aggregator, references: Sequence[Reference]) -> list[Manifest]:
    files = [{"key": name, "path": name} for name in ("tls.crt", "tls.key", "ca.crt")]
    return [
        {"name": "ledger", "persistentVolumeClaim": {"claimName": owner.volume(aggregator.name)}},
        {
            "name": "site",
            "configMap": {"name": owner.base(aggregator.name), "items": [{"key": "site.yaml", "path": "site.yaml"}]},
        },
        {
            "name": "tls",
            "secret": {"secretName": owner.tls(aggregator.name), "defaultMode": _KEY_MODE, "items": files},
        },
        {"name": "token", "secret": {"secretName": owner.token, "defaultMode": _KEY_MODE}},
        *(
            [{"name": "secrets", "projected": {"defaultMode": _KEY_MODE, "sources": mounted(references)}}]
            if references
            else []
        ),
        {"name": "tmp", "emptyDir": {}},
    ]


def _tolerations(aggregator: Aggregator) -> list[Manifest]:
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in aggregator.tolerations]
