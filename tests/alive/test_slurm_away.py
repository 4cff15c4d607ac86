"""An aggregator that is killed, and begins anew while nobody can be asked about jobs."""

from pathlib import Path
from typing import Any

from alive.scenes import closed, opened
from demo.play import SLURM_HOST, Play, settings

TOLD = ("user", "group", "account", "partition", "name", "array", "slurm_state", "start", "end_seconds", "exit_code")


def told(play: Play) -> dict[str, dict[str, Any]]:
    return {job["job"]: {name: job[name] for name in TOLD} for job in play.installation.jobs()}


def is_enough(play: Play) -> bool:
    """Tell whether there are jobs that run, jobs that have ended, tasks, and programs whose users have names."""
    jobs = told(play).values()
    return (
        {"RUNNING", "COMPLETED", "FAILED"} <= {job["slurm_state"] for job in jobs}
        and any(job["array"] for job in jobs)
        and any(job["slurm_state"] is None and job["user"] and job["user"].isalpha() for job in jobs)
    )


def tick(play: Play) -> int:
    found: int = play.installation.get("/api/v1/jobs?limit=1")["tick_seconds"] or 0
    return found


def test_jobs_keep_their_last_known_state_when_slurm_is_away(tmp_path: Path) -> None:
    play = opened(tmp_path, seconds=600, simulated=settings(event_seconds=0, slurm=SLURM_HOST))
    here = play.installation
    try:
        here.wait_for(lambda: is_enough(play), "jobs of all kinds", 120, play.step)
        here.agents[SLURM_HOST].kill()
        away = tick(play)
        here.wait_for(lambda: tick(play) >= away + 2, "sweeps without Slurm", 120, play.step)
        before = told(play)
        here.aggregator.kill()
        here.aggregator.start()
        here.wait_for(here.is_ready, "the aggregator to be back", 120, play.step)
        here.wait_for(lambda: tick(play) > away + 2, "a sweep", 120, play.step)
        after = told(play)
        warnings = here.get("/readyz")["warnings"]
    finally:
        closed(play)

    assert {name: after.get(name) for name in before} == before
    assert f"Slurm of cluster vu: its agent {SLURM_HOST} has not said anything yet" in warnings
