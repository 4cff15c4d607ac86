"""How Slurm answers, for the doctor: every question once, as the collector would ask it."""

import time
from collections import Counter

from harvest_agent.config import SlurmSettings
from harvest_agent.doctor import Problem
from harvest_agent.slurm.collector import SOURCES
from harvest_agent.slurm.names import SystemNames
from harvest_agent.slurm.sources import SlurmError
from harvest_agent.tables import shown

_MEND = {
    "command": "run `squeue --all --states=all` as the agent's user; see slurm_conf, squeue and sacct in [slurm]",
    "pyslurm": "let the interpreter of [slurm] import pyslurm as the agent's user, with SLURM_CONF as slurm_conf says",
    "slurmrestd": "ask it with `curl --unix-socket PATH http://localhost/openapi/v3`; see address and token_file",
}


def examine_slurm(settings: SlurmSettings) -> tuple[str, list[Problem]]:
    """Ask once; return a line for the report and what is wrong."""
    source = SOURCES[settings.source](settings, SystemNames())
    began = time.monotonic()
    try:
        jobs = [job for piece in source.jobs() for job in piece]
    except SlurmError as error:
        return f"slurm     {settings.source}: no answer", [_problem(settings, "Slurm does not answer", error)]
    states = ", ".join(f"{count} {shown(state)}" for state, count in Counter(job.state for job in jobs).most_common(5))
    line = f"slurm     {settings.source}: {len(jobs)} jobs{f' ({states})' if states else ''} in {_since(began)}"
    problems = []
    if source.unread:
        problems.append(
            Problem(
                f"{source.unread} entries of Slurm's answer were not understood",
                "see `squeue --all --states=all`: newlines in job names are harmless; else tell us",
            )
        )
    began = time.monotonic()
    try:
        source.accounted([max((job.id for job in jobs), default=1)])
    except SlurmError as error:
        problems.append(
            _problem(settings, "accounting does not answer: jobs that slurmctld forgets stay unknown", error)
        )
        return line, problems
    return f"{line}; accounting answers in {_since(began)}", problems


def _problem(settings: SlurmSettings, what: str, error: SlurmError) -> Problem:
    return Problem(f"{what}: {shown(str(error))}", _MEND[settings.source])


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.2f} s"
