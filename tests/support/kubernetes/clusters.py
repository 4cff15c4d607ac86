"""Which cluster tests and people get: the one they name, else kind's where Docker works, else our own control plane."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from support.kubernetes.control_plane import ControlPlane

VARIABLE: Final = "HARVEST_TEST_KUBECONFIG"
_KIND_SECONDS: Final = 600
Choice = Literal["given", "kind", "local"]


@dataclass(frozen=True)
class Cluster:
    """A cluster that answers."""

    choice: Choice
    kubeconfig: Path
    """Of somebody who may do everything."""
    control_plane: ControlPlane | None = None
    """Where it is our own: its processes and its audit log."""


def chosen(environment: Mapping[str, str], works: Callable[..., bool]) -> Choice:
    """Return which cluster is to be used; ``works`` runs a command and tells whether it could."""
    if environment.get(VARIABLE):
        return "given"
    return "kind" if works("kind", "version") and works("docker", "info") else "local"


@contextlib.contextmanager
def running(folder: Path, *, name: str, kind_config: Path | None = None) -> Iterator[Cluster]:
    """Give a cluster; what was started for it is gone afterwards. ``name`` is kind's."""
    choice = chosen(os.environ, _works)
    if choice == "given":
        yield Cluster(choice, Path(os.environ[VARIABLE]))
    elif choice == "kind":
        with _kind(folder, name, kind_config) as kubeconfig:
            yield Cluster(choice, kubeconfig)
    else:
        with control_plane(folder) as local:
            yield Cluster(choice, local.admin, local)


@contextlib.contextmanager
def control_plane(folder: Path) -> Iterator[ControlPlane]:
    """Run a control plane of our own; it is gone afterwards."""
    local = ControlPlane(folder)
    try:
        local.start()
        yield local
    finally:
        local.stop()


@contextlib.contextmanager
def _kind(folder: Path, name: str, config: Path | None) -> Iterator[Path]:
    kubeconfig = folder / "kubeconfig"
    create = ("kind", "create", "cluster", "--name", name, "--wait", "5m")
    configured = ("--config", str(config)) if config else ()
    try:
        subprocess.run([*create, *configured, "--kubeconfig", str(kubeconfig)], check=True, timeout=_KIND_SECONDS)
        yield kubeconfig
    finally:
        subprocess.run(["kind", "delete", "cluster", "--name", name], check=True, timeout=_KIND_SECONDS)


def _works(*command: str) -> bool:
    return shutil.which(command[0]) is not None and (
        subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    )


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """Give a folder for a cluster's files, which are secrets."""
    with tempfile.TemporaryDirectory(prefix="harvest-cluster-") as folder:
        yield Path(folder)
