"""The only module that imports kopf: it tells which objects changed, and no more. No finalizers, nothing returned."""

import os
from collections.abc import Callable, Collection
from typing import Any, Final

import kopf

from harvest_operator.names import CHILDREN, KINDS, MANAGED_BY, MANAGER, SECRET, Object

_PREFIX: Final = "operator.lustreharvest.dev"
_RETRIES: Final = (1, 1, 2, 3, 5, 8, 13, *[20] * 10_000)
"""Kubernetes may be away for long: days, if need be. A request that is never answered must not end the operator."""
_FOREIGN: Final = {"Secret", "ConfigMap"}
"""Kinds that sites refer to: all of them are watched, of the others only our own."""


async def watch(seen: Callable[[str | None, Object], None], *, namespaces: Collection[str], health: str | None) -> None:
    """Call ``seen`` with the type of the event and the object, until a signal ends it."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_login)
    for kind, (api_version, plural) in KINDS.items():
        group, _, version = api_version.rpartition("/")
        kopf.on.event(group, version, plural, registry=registry)(_handler(kind, api_version, seen))
    await kopf.operator(
        registry=registry,
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        liveness_endpoint=None if health is None else f"http://{health}/healthz",
    )


def _handler(kind: str, api_version: str, seen: Callable[[str | None, Object], None]) -> Callable[..., Any]:
    async def changed(event: Any, **_: Any) -> None:  # noqa: ANN401 - kopf's own
        seen(event["type"], {"apiVersion": api_version, **event["object"], "kind": kind})

    return changed


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # nothing new can come: it was waited for the CRD
    settings.posting.enabled = False
    settings.networking.error_backoffs = _RETRIES
    settings.networking.connect_timeout = 10
    settings.watching.connect_timeout = 10
    settings.persistence.finalizer = f"{_PREFIX}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=_PREFIX)
    settings.watching.chunk_size = 100  # all Secrets of a cluster at once may be more than our memory
    settings.watching.field_selectors[KINDS[SECRET][1]] = "type!=helm.sh/release.v1"  # many, large, nobody's reference
    for kind in set(CHILDREN) - _FOREIGN:
        settings.watching.label_selectors[KINDS[kind][1]] = f"{MANAGED_BY}={MANAGER}"
    return settings


def _login(**arguments: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401 - kopf's own
    if os.environ.get("KUBECONFIG"):
        return kopf.login_with_kubeconfig(**arguments)
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
