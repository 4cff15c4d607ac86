"""Sites that run and where nothing happens, and what their operator costs meanwhile, as the kernel sees it."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.forked_operators import allowed
from support.kubernetes.api import Api
from support.kubernetes.control_plane import ControlPlane
from support.kubernetes.resources import sites_path
from support.operators import operating
from support.processes import wait_for
from support.scenes import Scene, two_aggregators

MOST_RSS_BYTES: Final = 200_000_000
_QUIET_SECONDS: Final = 3.0
_QUIET_CPU_SECONDS: Final = 0.06
"""Less than it takes to look at a few sites; more than a hundred cost that are left alone."""
_NOBODY: Final = "127.0.0.1:1"
"""Where aggregators are asked: nobody answers, for Pods do not run here."""


@dataclass(frozen=True)
class Cost:
    """What was used while nothing happened."""

    cpu_seconds: float
    rss_bytes: int


def idle(plane: ControlPlane, space: str, log: Path, *, sites: int, seconds: float, limit: float) -> Cost:
    """Let an operator bring sites of two aggregators into order, then leave it alone for a while."""
    api = Api(plane.admin)
    with operating(allowed(plane, space), log, "--namespace", space, "--aggregator-address", _NOBODY) as operator:
        for number in range(sites):
            Scene(api, space, f"idle{number}").put(aggregators=two_aggregators())

        wait_until_idle(api, space, seconds=limit)
        _wait_until_quiet(operator.process.pid, seconds=limit)
        computed = _cpu_seconds(operator.process.pid)
        time.sleep(seconds)
        return Cost(_cpu_seconds(operator.process.pid) - computed, _resident_bytes(operator.process.pid))


def wait_until_idle(api: Api, space: str, *, seconds: float) -> None:
    """Wait until nothing is left to do: every Pod is said to be ready, and every aggregator was asked once."""

    def settled() -> bool:
        _make_ready(api, space)
        return all(_is_settled(one.get("status") or {}) for one in api.get(sites_path(space))["items"])

    wait_for(settled, "sites that run", seconds=seconds)


def _wait_until_quiet(pid: int, *, seconds: float) -> None:
    """Wait for a time in which it does nothing: what it told last of its sites comes back to it, and is looked at."""

    def quiet() -> bool:
        before = _cpu_seconds(pid)
        time.sleep(_QUIET_SECONDS)
        return _cpu_seconds(pid) - before <= _QUIET_CPU_SECONDS

    wait_for(quiet, "an operator that does nothing", seconds=seconds)


def _make_ready(api: Api, space: str) -> None:
    """Say of every Pod what its node would say: it runs and is ready."""
    pods = f"/api/v1/namespaces/{space}/pods"
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    for pod in api.get(pods)["items"]:
        if pod["status"]["phase"] != "Running":
            api.patch(f"{pods}/{pod['metadata']['name']}/status", running)


def _is_settled(status: dict[str, Any]) -> bool:
    told = {one["type"]: one for one in status.get("conditions", ())}
    asked = told.get("AgentsConnected", {}).get("message", "not asked")
    return told.get("Ready", {}).get("status") == "True" and "not asked" not in asked


def _cpu_seconds(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
