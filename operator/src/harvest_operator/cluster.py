"""The only module that talks to Kubernetes: reads objects, applies, creates, replaces and deletes them."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import aiohttp
from kubernetes.aio import client, config

from harvest_operator.conditions import timestamp
from harvest_operator.names import (
    CHILDREN,
    JOIN,
    KINDS,
    MANAGED_BY,
    MANAGER,
    REQUEST,
    SECRET,
    SITE,
    Key,
    Object,
    Owner,
    key_of,
)
from harvest_operator.plan import Verb, Write
from harvest_operator.signing import Reply
from harvest_operator.status import Event
from harvest_site.model import API_VERSION, KIND

_LIMIT: Final = aiohttp.ClientTimeout(total=30)
_MESSAGE_MAX: Final = 500
_REFUSALS: Final = {HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY}
_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_STEPS: Final = "application/json-patch+json"
_REQUESTS: Final = f"/apis/{KINDS[REQUEST][0]}/{KINDS[REQUEST][1]}"


class UnavailableError(Exception):
    """Kubernetes did not answer, or not what was asked: try again later."""


class ForbiddenError(UnavailableError):
    """We may not see what we need to see; the message is Kubernetes' own, and names the right."""


class ConflictError(Exception):
    """Somebody else wrote first: look again."""


class RefusedError(Exception):
    """Kubernetes will not take this object; the message is its own."""


class Cluster:
    """Kubernetes, as far as we need it."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api

    async def serves_sites(self) -> bool:
        """Tell whether the CRD is there."""
        found = await self._ask("GET", f"/apis/{API_VERSION}")
        return any(one["name"] == KINDS[KIND][1] for one in (found or {}).get("resources", ()))

    async def get(self, namespace: str, key: Key) -> Object | None:
        """Return one object, if it is there."""
        found: Object | None = await self._ask("GET", f"{_path(namespace, key[0])}/{key[1]}")
        return found

    async def observe(self, owner: Owner, names: Iterable[Key]) -> dict[Key, Object]:
        """Return a site's children, by their labels, and further objects by name."""
        selector = f"{MANAGED_BY}={MANAGER},{SITE}={owner.name}"
        lists = await asyncio.gather(*(self._list(owner.namespace, kind, selector) for kind in CHILDREN))
        found = {key_of(one): one for some in lists for one in some}
        lacking = [key for key in dict.fromkeys(names) if key not in found]
        there = await asyncio.gather(*(self.get(owner.namespace, key) for key in lacking))
        return found | {key: one for key, one in zip(lacking, there, strict=True) if one is not None}

    async def write(self, write: Write) -> None:
        """Write one object as the plan says."""
        namespace, key = write.manifest["metadata"]["namespace"], key_of(write.manifest)
        path = _path(namespace, key[0])
        match write.verb:
            case Verb.APPLY:
                await self._apply_or_take(f"{path}/{key[1]}", write.manifest)
            case Verb.CREATE:
                await self._ask("POST", path, {"fieldManager": MANAGER}, write.manifest)
            case Verb.REPLACE:
                await self._ask("PUT", f"{path}/{key[1]}", {"fieldManager": MANAGER}, write.manifest)
            case Verb.DELETE:
                seen = {name: write.manifest["metadata"][name] for name in ("uid", "resourceVersion")}
                options = {"preconditions": seen, "propagationPolicy": "Background"}
                await self._ask("DELETE", f"{path}/{key[1]}", {}, options)

    async def requests(self, signer: str) -> list[Object]:
        """Return what a signer is asked to sign, or was lately."""
        found = await self._ask("GET", _REQUESTS, {"fieldSelector": f"spec.signerName={signer}"})
        api_version, _ = KINDS[REQUEST]
        return [{"apiVersion": api_version, "kind": REQUEST, **one} for one in (found or {}).get("items", ())]

    async def tokens(self, owner: Owner) -> list[Object]:
        """Return what is kept of tokens with which servers join a site."""
        return await self._list(owner.namespace, SECRET, f"{JOIN}={owner.name}")

    async def answer(self, reply: Reply) -> Object:
        """Write a request as it was seen with what is said about it; return it as it is now."""
        path = f"{_REQUESTS}/{reply.request['metadata']['name']}/{reply.part}"
        answered: Object = await self._ask("PUT", path, {"fieldManager": MANAGER}, reply.request)
        return answered

    async def write_status(self, owner: Owner, status: Mapping[str, Any]) -> None:
        """Write a site's status, of this very site: one that was made anew meanwhile has another uid."""
        metadata = {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status}
        await self._apply(f"{_path(owner.namespace, KIND)}/{owner.name}/status", body)

    async def post(self, owner: Owner, event: Event, now: datetime) -> None:
        """Tell people about a site."""
        moment = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        about = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": owner.namespace,
            "name": owner.name,
            "uid": owner.uid,
        }
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{owner.name}.", "namespace": owner.namespace},
            "involvedObject": about,
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "message": event.message[:1000],
            "action": event.reason,
            "eventTime": moment,
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
            "source": {"component": MANAGER},
            "reportingComponent": MANAGER,
            "reportingInstance": os.uname().nodename[:128] or MANAGER,
        }
        await self._ask("POST", f"/api/v1/namespaces/{owner.namespace}/events", {}, body)

    async def _apply_or_take(self, path: str, manifest: Object) -> None:
        """Apply an object, also where somebody's change of it cannot stand beside what we say.

        Applying never takes away entries of a list that others wrote: whoever gives a port another number leaves two of
        one name, which Kubernetes refuses. Then the lists are written whole. That must not count as a second writer's
        word, or we could never again take back what we said.
        """
        try:
            await self._apply(path, manifest)
        except RefusedError:
            if await self._ask("GET", path) is None:
                raise
            await self._ask("PATCH", path, {"fieldManager": MANAGER}, manifest, content=_MERGE)
            await self._apply(path, manifest)
            await self._disown(path)

    async def _disown(self, path: str) -> None:
        metadata = (await self._ask("GET", path) or {}).get("metadata", {})
        written = metadata.get("managedFields", [])
        others = [one for one in written if one["manager"] != MANAGER or one["operation"] == "Apply"]
        if len(others) < len(written):
            seen = {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
            forget = {"op": "replace", "path": "/metadata/managedFields", "value": others}
            await self._ask("PATCH", path, {"fieldManager": MANAGER}, [seen, forget], content=_STEPS)

    async def _apply(self, path: str, manifest: Object) -> None:
        await self._ask("PATCH", path, {"fieldManager": MANAGER, "force": "true"}, manifest, content=_APPLY)

    async def _list(self, namespace: str, kind: str, selector: str) -> list[Object]:
        found = await self._ask("GET", _path(namespace, kind), {"labelSelector": selector})
        api_version, _ = KINDS[kind]  # entries of a list do not say what they are
        return [{"apiVersion": api_version, "kind": kind, **one} for one in (found or {}).get("items", ())]

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        *,
        content: str = _JSON,
    ) -> Any:  # noqa: ANN401 - JSON
        """Ask, and return the answer; nothing if the object is not there."""
        try:
            prepared = await self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Accept": _JSON, "Content-Type": content},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._api.call_api(*prepared, _request_timeout=_LIMIT)
            text: bytes = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnavailableError(f"{method} {path}: {str(error) or type(error).__name__}") from error
        if response.status == HTTPStatus.NOT_FOUND and method in {"GET", "DELETE"}:
            return None
        if response.status < HTTPStatus.BAD_REQUEST:
            return json.loads(text)
        said = _message(text) or response.reason or str(response.status)
        if response.status == HTTPStatus.CONFLICT:
            raise ConflictError(said)
        if response.status in _REFUSALS and method != "GET":
            raise RefusedError(said)
        if response.status == HTTPStatus.FORBIDDEN:
            raise ForbiddenError(said)
        raise UnavailableError(f"{method} {path}: {said}")


@asynccontextmanager
async def connected() -> AsyncIterator[Cluster]:
    """Connect by KUBECONFIG if that is set, else as the Pod's service account, else by ~/.kube/config."""
    settings = client.Configuration()
    file = os.environ.get("KUBECONFIG")  # the client looks at it once, when it is imported
    try:
        if file or "KUBERNETES_SERVICE_HOST" not in os.environ:
            await config.load_kube_config(file, client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise UnavailableError(f"no cluster is configured: {error}") from error
    async with client.ApiClient(settings) as api:
        api.user_agent = MANAGER
        yield Cluster(api)


def _path(namespace: str, kind: str) -> str:
    api_version, plural = KINDS[kind]
    root = "/apis/" if "/" in api_version else "/api/"
    return f"{root}{api_version}/namespaces/{namespace}/{plural}"


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])[:_MESSAGE_MAX]
    except (ValueError, KeyError, TypeError):
        return ""
