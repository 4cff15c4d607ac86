"""The only module that talks to Kubernetes. It is loaded for the commands that need it, and for no other."""

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from harvest_cli.config import ConfigError

Json = dict[str, Any]

_SECONDS: Final = 30


class AwayError(Exception):
    """Kubernetes did not answer, or not what was asked."""


class ForbiddenError(Exception):
    """A right is missing; the message is Kubernetes' own, and names it."""


class ConflictError(Exception):
    """Somebody else wrote first."""


class Kube:
    """One cluster, as the person whom a kubeconfig file names."""

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        file = None if kubeconfig is None else str(kubeconfig)
        try:
            contexts, current = config.list_kube_config_contexts(file)  # type: ignore[no-untyped-call]
            chosen = current if context is None else next(one for one in contexts if one["name"] == context)
            settings = client.Configuration()
            config.load_kube_config(file, context=context, client_configuration=settings)  # type: ignore[no-untyped-call]
        except StopIteration:
            names = ", ".join(one["name"] for one in contexts)
            raise ConfigError(f"the kubeconfig has no context {context!r}; it has {names}") from None
        except (config.ConfigException, OSError) as error:
            said = str(error).rstrip(".")
            raise ConfigError(
                f"no cluster is configured: {said}. Write --kubeconfig FILE, or set KUBECONFIG"
            ) from error
        except Exception as error:  # its reader stumbles over many things, each in its own way
            said = " ".join(str(error).split())
            raise ConfigError(f"the kubeconfig cannot be read ({said}): does `kubectl config view` take it?") from error
        self.namespace: str = chosen["context"].get("namespace") or "default"
        settings.retries = False
        self._server = settings.host
        self._api = client.ApiClient(settings)

    def get(self, path: str) -> Json | None:
        """Return an object or a list, if it is there."""
        return self._ask("GET", path)

    def create(self, path: str, body: Json) -> Json:
        """Create an object."""
        return self._ask("POST", path, body) or {}

    def replace(self, path: str, body: Json) -> Json:
        """Replace an object as it was seen."""
        return self._ask("PUT", path, body) or {}

    def _ask(self, method: str, path: str, body: Json | None = None) -> Json | None:
        try:
            prepared = self._api.param_serialize(
                method,
                path,
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = self._api.call_api(*prepared, _request_timeout=_SECONDS)
            text: bytes = response.read()  # type: ignore[no-untyped-call]
        except (client.ApiException, HTTPError, OSError) as error:
            raise AwayError(f"Kubernetes at {self._server} does not answer: {error}") from error
        if response.status == HTTPStatus.NOT_FOUND and method == "GET":
            return None
        if response.status < HTTPStatus.BAD_REQUEST:
            found: Json = json.loads(text)
            return found
        said = _message(text) or str(response.status)
        if response.status == HTTPStatus.CONFLICT:
            raise ConflictError(said)
        if response.status == HTTPStatus.FORBIDDEN:
            raise ForbiddenError(said)
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise ForbiddenError("Kubernetes does not know you: is the kubeconfig out of date?")
        raise AwayError(f"Kubernetes at {self._server} answers: {said}")


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return ""
