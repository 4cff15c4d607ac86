"""The Kubernetes API as a Pod reaches it, with nothing but the standard library: the agent stays small."""

import http.client
import json
import os
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

_LIMIT_SECONDS: Final = 30.0
_ANSWER_MOST: Final = 4 << 20
_TEXT_MOST: Final = 500


class ApiError(Exception):
    """Kubernetes did not do what was asked; ``code`` is its answer's, 0 where there was none."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class Api(Protocol):
    """What is needed of Kubernetes."""

    def get(self, path: str) -> Mapping[str, Any]:
        """Return an object."""

    def post(self, path: str, body: object) -> Mapping[str, Any]:
        """Create an object, and return it as it became."""


class PodApi:
    """The API server, as the Pod's ServiceAccount; token and CA are read each time, for both are renewed."""

    def __init__(self, account: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._account = account
        try:
            self._host = environment["KUBERNETES_SERVICE_HOST"]
            self._port = int(environment["KUBERNETES_SERVICE_PORT"])
        except (KeyError, ValueError):
            raise ApiError("this is no Pod of Kubernetes: it does not say where its API server is") from None

    def get(self, path: str) -> Mapping[str, Any]:
        """Return an object."""
        return self._ask("GET", path)

    def post(self, path: str, body: object) -> Mapping[str, Any]:
        """Create an object, and return it as it became."""
        return self._ask("POST", path, json.dumps(body))

    def _ask(self, method: str, path: str, body: str | None = None) -> Mapping[str, Any]:
        try:
            token = (self._account / "token").read_text(encoding="ascii").strip()
            trusted = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        except (OSError, ValueError) as error:
            raise ApiError(f"the ServiceAccount's files in {self._account} cannot be used: {error}") from error
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=_LIMIT_SECONDS, context=trusted)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            code, content = response.status, response.read(_ANSWER_MOST)
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(f"Kubernetes at {self._host}:{self._port} does not answer: {error}") from error
        finally:
            connection.close()
        return _said(code, content)


def _said(code: int, content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if code >= HTTPStatus.BAD_REQUEST:
        text = found.get("message") if isinstance(found, dict) else None
        raise ApiError(f"Kubernetes says {code}: {text or 'no more'}"[:_TEXT_MOST], code)
    if not isinstance(found, dict):
        raise ApiError(f"Kubernetes says {code}, and no JSON object")
    return found
