"""A real operator in a process of its own, and what it made, as the API server has it."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harvest_operator.names import CHILDREN, KINDS, MANAGED_BY, MANAGER, SITE, Key, key_of
from support.kubernetes.api import Api
from support.kubernetes.resources import sites_path
from support.sites_in_kubernetes import ARGUMENTS

_STOP_SECONDS: Final = 60


class Operator:
    """The process, and its log."""

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str) -> None:
        self.log = log
        options = (*ARGUMENTS, "--health", "", "--kubeconfig", str(kubeconfig))
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "harvest_operator", *options, *arguments],
                stdin=subprocess.DEVNULL,
                stderr=file,
            )

    def logged(self) -> list[dict[str, Any]]:
        """Return what it said."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it as Kubernetes would; it must end well."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(_STOP_SECONDS) == 0, self.log.read_text()


@contextlib.contextmanager
def operating(kubeconfig: Path, log: Path, *arguments: str) -> Iterator[Operator]:
    """Run an operator meanwhile."""
    operator = Operator(kubeconfig, log, *arguments)
    try:
        yield operator
        assert operator.process.poll() is None, f"it ended by itself: {log.read_text()}"
        operator.stop()
    finally:
        if operator.process.poll() is None:
            operator.kill()


def path_of(namespace: str, key: Key) -> str:
    """Return where the API server has an object."""
    api_version, plural = KINDS[key[0]]
    root = "/apis/" if "/" in api_version else "/api/"
    return f"{root}{api_version}/namespaces/{namespace}/{plural}/{key[1]}"


def children(api: Api, namespace: str, site: str) -> dict[Key, dict[str, Any]]:
    """Return all that was made for a site."""
    selector = f"{MANAGED_BY}={MANAGER},{SITE}={site}"
    found = {}
    for kind in CHILDREN:
        for one in api.get(path_of(namespace, (kind, "")).rstrip("/"), labelSelector=selector)["items"]:
            whole = {"apiVersion": KINDS[kind][0], "kind": kind, **one}
            found[key_of(whole)] = whole
    return found


def status_of(api: Api, namespace: str, site: str) -> dict[str, Any]:
    """Return what is told about a site."""
    status: dict[str, Any] = api.get(f"{sites_path(namespace)}/{site}").get("status") or {}
    return status


def condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    """Return status and reason of a condition."""
    for one in status.get("conditions", ()):
        if one["type"] == kind:
            return one["status"], one["reason"]
    return "", ""


def applied(found: dict[str, Any]) -> dict[str, Any]:
    """Return of an object what the operator manages, and no more: defaults and others' fields are left out."""
    fields: dict[str, Any] = {}
    for entry in found["metadata"]["managedFields"]:
        if entry["manager"] == MANAGER and "subresource" not in entry:
            fields = _joined(fields, entry["fieldsV1"])
    chosen: dict[str, Any] = _chosen(found, fields)
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        **chosen,
        "metadata": {"name": found["metadata"]["name"], **chosen["metadata"]},
    }


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {name: _joined(one.get(name, {}), other.get(name, {})) for name in {**one, **other}}


def _chosen(value: Any, fields: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    inner = {name: part for name, part in fields.items() if name != "."}
    if not inner:
        return value
    if isinstance(value, dict):
        return {name: _chosen(part, inner[f"f:{name}"]) for name, part in value.items() if f"f:{name}" in inner}
    keyed = [(json.loads(name[2:]), part) for name, part in inner.items() if name.startswith("k:")]
    return [
        _chosen(item, part)
        for item in value
        for key, part in keyed
        if all(item.get(name) == wanted for name, wanted in key.items())
    ]
