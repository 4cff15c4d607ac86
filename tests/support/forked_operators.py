"""Operators by the dozen: each a process of its own that can be killed, with the rights that the chart gives it."""

import contextlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, Final

from harvest_operator import reconciling
from harvest_operator.__main__ import main
from support.agents_in_kubernetes import may
from support.chart import NAMESPACE, OPERATOR, rendered
from support.kubernetes.api import Api
from support.kubernetes.control_plane import ControlPlane
from support.processes import wait_for
from support.sites_in_kubernetes import ARGUMENTS

_SECONDS: Final = 60.0
_NOBODY: Final = "127.0.0.1:1"
"""Where aggregators are asked: nobody answers, for Pods do not run here."""


@cache
def _forks() -> ForkServerContext:
    """Read program and libraries once; every operator is a fork of that, so that starting one costs next to nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.forked_operators"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # where the server looks for what it reads beforehand
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
    return context


class ForkedOperator:
    """One operator, and what it says."""

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        *namespaces: str,
        resync_seconds: float = reconciling.RESYNC_SECONDS,
        agents: str | None = None,
        join: str | None = None,
    ) -> None:
        self.log = log
        self._resync_seconds = resync_seconds
        self._arguments = [f"--namespace={name}" for name in namespaces]
        self._arguments += ["--kubeconfig", str(kubeconfig), *ARGUMENTS]
        self._arguments += ["--aggregator-address", _NOBODY, "--health", ""]
        self._arguments += [] if agents is None else ["--agents", agents]
        self._arguments += [] if join is None else ["--join", join]
        self._process: ForkServerProcess | None = None

    def start(self) -> None:
        """Start it, also again after it was killed."""
        self._process = _forks().Process(
            target=_run, args=(self._arguments, str(self.log), self._resync_seconds), daemon=True
        )
        self._process.start()

    def is_alive(self) -> bool:
        """Tell whether it runs."""
        return self._process is not None and self._process.is_alive()

    def kill(self) -> None:
        """End it at once, in the middle of anything; anybody may do that."""
        assert self._process is not None
        assert self._process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until it is no more."""
        assert self._process is not None
        self._process.join(_SECONDS)
        assert self._process.exitcode is not None

    def logged(self, event: str) -> int:
        """Return how often it said something."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return sum(json.loads(line)["event"] == event for line in lines if line.startswith("{") and line.endswith("}"))


def _run(arguments: list[str], log: str, resync_seconds: float) -> None:
    reconciling.RESYNC_SECONDS = resync_seconds  # type: ignore[misc]
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.exit(main(arguments))


@contextlib.contextmanager
def working(operator: ForkedOperator) -> Iterator[ForkedOperator]:
    """Let an operator work meanwhile; it must still do so in the end."""
    operator.start()
    try:
        yield operator
        assert operator.is_alive(), f"it ended by itself: {operator.log.read_text()[-3000:]}"
    finally:
        operator.kill()
        operator.wait()


@cache
def _rights() -> str:
    agents = ("agents.enabled=true", f"agents.site.namespace={NAMESPACE}", "agents.site.name=any")
    objects = rendered(f"namespaces={{{NAMESPACE}}}", "crds.enabled=false", *agents)
    own = [one for one in objects if one["metadata"]["name"] != "harvest-agents"]
    return json.dumps([one for one in own if one["kind"] not in {"Deployment", "Service"}])


def rights(namespace: str) -> list[dict[str, Any]]:
    """Return account, roles and bindings of an operator, as the chart gives them to one of a single namespace.

    Their names are the namespace's own, for a role belongs to no namespace.
    """
    own = _rights().replace(NAMESPACE, namespace).replace(f'"name": "{OPERATOR}', f'"name": "{namespace}')
    objects: list[dict[str, Any]] = json.loads(own)
    return objects


def allowed(
    plane: ControlPlane, namespace: str, *, server: str | None = None, without: Mapping[str, Any] | None = None
) -> Path:
    """Give a namespace an operator's account and rights, all but one; return its kubeconfig, for the API or a proxy."""
    api = Api(plane.admin)
    objects = rights(namespace)
    roles = [one for one in objects if one["kind"] == "ClusterRole"]
    assert without is None or any(without in one["rules"] for one in roles)
    for one in roles:
        one["rules"] = [rule for rule in one["rules"] if rule != without]
    for one in objects:
        api.apply_object(one)
    _wait_until_taken_up(api, namespace, objects)
    return plane.account_kubeconfig(namespace, namespace, server=server)


def _wait_until_taken_up(api: Api, namespace: str, objects: Iterable[Mapping[str, Any]]) -> None:
    """Wait until the API server goes by all that was given: an operator that starts before would miss other rights."""
    given = {one["roleRef"]["name"] for one in objects if one["kind"].endswith("Binding")}
    rules = [rule for one in objects if one["metadata"]["name"] in given for rule in one.get("rules", ())]
    user = f"system:serviceaccount:{namespace}:{namespace}"
    for rule in rules:
        wait_for(partial(may, api, user, rule, namespace=namespace), f"the right {rule}", seconds=_SECONDS)
