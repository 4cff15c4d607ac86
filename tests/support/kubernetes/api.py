"""The Kubernetes API as tests speak it: paths and JSON, nothing hidden."""

import json
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import kubernetes.config
from typing_extensions import override
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

_SECONDS = 60.0
Object = dict[str, Any]


class ApiError(Exception):
    """The API server refused; ``status`` is what it said."""

    def __init__(self, code: int, status: Object) -> None:
        super().__init__(status.get("message"))
        self.code = code
        self.status = status

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Which fields are wrong, and what is said of each."""
        causes = self.status.get("details", {}).get("causes", [])
        return [(cause.get("field", ""), cause.get("message", "")) for cause in causes]

    @override
    def __str__(self) -> str:
        return f"{self.code}: {self.status.get('message')}"


class Api:
    """One user's way to a cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        client = kubernetes.config.new_client_from_config(config_file=str(kubeconfig))  # type: ignore[no-untyped-call]
        self._server = client.configuration.host
        token = client.configuration.auth_settings().get("BearerToken")
        self._headers = {"Authorization": token["value"]} if token else {}
        self.token: str = token["value"].removeprefix("Bearer ") if token else ""
        self._pool = client.rest_client.pool_manager

    def ready(self) -> bool:
        """Tell whether the API server says that it is ready."""
        try:
            return self._asked("GET", "/readyz").status == HTTPStatus.OK
        except HTTPError:
            return False

    def enforce(self, namespace: str, level: str) -> None:
        """Let a namespace take restricted or privileged Pods, and wait until the API server goes by it."""
        place = f"/api/v1/namespaces/{namespace}"
        self.patch(place, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}})
        self.post(f"{place}/serviceaccounts", {"metadata": {"name": (name := f"only-{level}")}})
        spec = {"hostNetwork": True, "serviceAccountName": name, "containers": [{"name": "a", "image": "a"}]}
        deadline = time.monotonic() + _SECONDS
        while self._takes(f"{place}/pods", {"metadata": {"name": "a"}, "spec": spec}) != (level == "privileged"):
            assert time.monotonic() < deadline, f"{namespace} is not {level}"
            time.sleep(0.05)

    def _takes(self, place: str, pod: Object) -> bool:
        try:
            self.post(place, pod, dryRun="All")
        except ApiError as error:
            if "violates PodSecurity" not in str(error):
                raise
            return False
        return True

    def get(self, path: str, **query: str) -> Object:
        """Return an object or a list."""
        return self._call("GET", path, query=query)

    def find(self, path: str) -> Object | None:
        """Return an object if it is there."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            raise

    def post(self, path: str, body: object, **query: str) -> Object:
        """Create an object."""
        return self._call("POST", path, body, "application/json", query)

    def put(self, path: str, body: object, **query: str) -> Object:
        """Replace an object."""
        return self._call("PUT", path, body, "application/json", query)

    def patch(self, path: str, body: object, **query: str) -> Object:
        """Change what the body names, and null takes away; or, where it is a list, do what its entries say."""
        kind = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
        return self._call("PATCH", path, body, kind, query)

    def apply(self, path: str, body: object, *, manager: str = "tests", force: bool = False) -> Object:
        """Apply an object server-side."""
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": json.dumps(force)}
        return self._call("PATCH", path, body, "application/apply-patch+yaml", query)

    def apply_object(self, body: Object, *, manager: str = "tests", dry_run: bool = False) -> Object:
        """Apply an object server-side where it says that it belongs."""
        path = self.path_of(body["apiVersion"], body["kind"], body["metadata"].get("namespace"))
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": "true"} | (
            {"dryRun": "All"} if dry_run else {}
        )
        return self._call("PATCH", f"{path}/{body['metadata']['name']}", body, "application/apply-patch+yaml", query)

    def path_of(self, api_version: str, kind: str, namespace: str | None) -> str:
        """Return the path of all objects of a kind, in a namespace or in the cluster."""
        root = f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
        (plural,) = (
            one["name"] for one in self.get(root)["resources"] if one["kind"] == kind and "/" not in one["name"]
        )
        return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"

    def delete(self, path: str, **query: str) -> None:
        """Delete an object; that it is gone already is as good."""
        try:
            self._call("DELETE", path, query=query)
        except ApiError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise

    def _call(
        self, method: str, path: str, body: object = None, kind: str = "", query: dict[str, str] | None = None
    ) -> Object:
        deadline = time.monotonic() + _SECONDS
        while (answer := self._asked(method, path, body, kind, query)).status == HTTPStatus.TOO_MANY_REQUESTS:
            assert time.monotonic() < deadline, answer.data
            time.sleep(0.2)  # "later, please": it also says so while it takes up a changed definition
        said: Object = json.loads(answer.data)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ApiError(answer.status, said)
        return said

    def _asked(
        self, method: str, path: str, body: object = None, kind: str = "", query: dict[str, str] | None = None
    ) -> BaseHTTPResponse:
        url = f"{self._server}{path}{'?' if query else ''}{urlencode(query or {})}"
        headers = self._headers | ({"Content-Type": kind} if kind else {})
        text = json.dumps(body) if body is not None else None
        answer: BaseHTTPResponse = self._pool.request(
            method, url, headers=headers, body=text, timeout=_SECONDS, retries=False
        )
        return answer
