"""An agent on a server where nothing happens costs next to nothing, and does not grow."""

import os
import time
from pathlib import Path

import pytest

from bench.trees import OSTS, JobTree
from demo.installation import Installation
from demo.processes import Program

JOBS = 1000
INTERVAL_SECONDS = 20
WARM_SECONDS = 60
SECONDS = 600
MOST_RSS_BYTES = 60 << 20
"""Python, protobuf and gRPC are 40 MB of it before anything is read."""
MOST_GROWTH_BYTES = 1 << 20
MOST_CPU = 0.01


def resident_bytes(program: Program) -> int:
    """Return how much memory it uses now."""
    return int(Path(f"/proc/{program.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(program: Program) -> float:
    """Return how much it computed since its start."""
    times = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.timeout(SECONDS + 300)
def test_an_idle_agent_costs_next_to_nothing_and_does_not_grow(tmp_path: Path) -> None:
    here = Installation(tmp_path, filesystems={"bench": ("bench", ["oss1"])}, interval_seconds=INTERVAL_SECONDS)
    tree = JobTree(here.trees / "oss1", JOBS)
    agent = here.agents["oss1"]
    here.start()
    try:
        time.sleep(WARM_SECONDS)
        assert len(here.jobs()) == JOBS
        began, computed, first = time.monotonic(), cpu_seconds(agent), resident_bytes(agent)
        print(f"\nidle: {OSTS} x {JOBS} records, {tree.size >> 20} MB, a sweep every {INTERVAL_SECONDS} s")
        print(f"idle: after {WARM_SECONDS:4} s: {first / 1e6:.1f} MB, {computed:.2f} s of CPU since the start")
        time.sleep(SECONDS)
        last = resident_bytes(agent)
        share = (cpu_seconds(agent) - computed) / (time.monotonic() - began)
        print(f"idle: {SECONDS:4} s later: {last / 1e6:.1f} MB, {share:.2%} of a core")
        here.check()

        assert share <= MOST_CPU
        assert last <= MOST_RSS_BYTES
        assert last - first <= MOST_GROWTH_BYTES
    finally:
        here.stop()
