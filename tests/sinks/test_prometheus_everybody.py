"""A hundred thousand jobs with series of their own, and for how long whoever keeps the ledger is held up by that."""

import gc
import re
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from typing_extensions import override

from harvest_aggregator.showing import Showing
from harvest_aggregator.sinks.contract import Outcome
from harvest_aggregator.sinks.scrapes import HOLD_SECONDS
from unit.aggregator.houses import MIB
from unit.aggregator.scenes import Scene

JOBS = 100_000
HELD_CPU_SECONDS = 0.25
"""By one question, or by one note."""
BEGIN_CPU_SECONDS = 3.0
"""At a start, before anybody is served."""
LOADED_CPU_SECONDS = 20.0
"""What the first text after a start may cost, beside the sweeps."""


class Measured(Scene):
    """Notes what CPU time is spent where the ledger is kept, of all that a sink wants there."""

    def __init__(self, path: Path) -> None:
        self.held: list[float] = []
        super().__init__(path, "perJob: all, perUser: none, perProcess: none")

    @override
    def ask(self, run: Callable[[Showing], Any]) -> "Future[Any]":
        gc.disable()  # it comes when it likes, to whom it likes
        began = time.thread_time()
        done = super().ask(run)
        self.held.append(time.thread_time() - began)
        gc.enable()
        return done

    def sweeps(self, count: int, **written: int) -> None:
        for _ in range(count):
            assert self.sweep(**written) is Outcome.ACCEPTED


def written(scene: Scene) -> dict[int, int]:
    """Return what every job wrote."""
    lines = re.finditer(r'^lustre_job_write_bytes_total\{.*jobid="(\w+)"\} (\d+) ', scene.text(), re.MULTILINE)
    return {int(line[1]): int(line[2]) for line in lines}


def test_whoever_keeps_the_ledger_is_not_held_up_by_everybodys_series(tmp_path: Path) -> None:
    scene = Measured(tmp_path / "ledger.db")
    scene.sweeps(2, j0=1)
    scene.sweeps(1, **{f"j{number}": number for number in range(1, JOBS)})
    scene.sweeps(int(HOLD_SECONDS // 20) + 1, j1=2)
    before = written(scene)
    assert before == {number: max(number, 1) * MIB for number in range(JOBS)} | {1: 2 * MIB}
    first, scene.held = scene.held, []
    scene.restart()
    began = time.thread_time()
    scene.showing.begin(scene.house.following.identities)
    begun = time.thread_time() - began
    began = time.thread_time()
    scene.sweeps(1, j1=3)
    loaded = time.thread_time() - began
    assert written(scene) == before | {1: 3 * MIB}
    print(
        f"\n{JOBS} jobs: at most {max(first) * 1000:.0f} ms of CPU at once when first shown, {begun:.2f} s and "
        f"{max(scene.held) * 1000:.0f} ms at a start; the first text after it {loaded:.1f} s"
    )
    assert max(first) < HELD_CPU_SECONDS
    assert max(scene.held) < HELD_CPU_SECONDS
    assert begun < BEGIN_CPU_SECONDS
    assert loaded < LOADED_CPU_SECONDS
