"""An operator of a hundred sites where nothing happens costs next to nothing."""

from pathlib import Path

import pytest

from support.idle_operators import MOST_RSS_BYTES, idle
from support.kubernetes.api import Api
from support.kubernetes.control_plane import ControlPlane

SITES = 100
SECONDS = 300
SETTLE_SECONDS = 1200
"""Two hundred aggregators are asked one per second; the rest is Kubernetes' own work."""
MOST_CPU_SECONDS = 5.0


@pytest.mark.timeout(SETTLE_SECONDS + SECONDS + 300)
def test_an_operator_of_a_hundred_idle_sites_costs_next_to_nothing(control_plane: ControlPlane, tmp_path: Path) -> None:
    Api(control_plane.admin).post("/api/v1/namespaces", {"metadata": {"name": "idle"}})
    cost = idle(control_plane, "idle", tmp_path / "log", sites=SITES, seconds=SECONDS, limit=SETTLE_SECONDS)
    used = f"{cost.cpu_seconds:.2f} s of CPU, {cost.rss_bytes / 1e6:.1f} MB"
    print(f"\noperator: {SITES} sites x 2, {SECONDS} idle s: {used}")
    assert cost.cpu_seconds < MOST_CPU_SECONDS
    assert cost.rss_bytes < MOST_RSS_BYTES
