"""The agent's three ways to ask a real Slurm: all say the same of jobs of every kind."""

import grp
import pwd
from collections.abc import Iterable, Iterator
from dataclasses import astuple, replace

import pytest

from harvest_agent.config import SlurmSettings
from harvest_agent.slurm.collector import SOURCES
from harvest_agent.slurm.commands import Commands
from harvest_core.slurm.answers import JsonJobs
from harvest_core.slurm.jobs import SlurmJob
from support.pyslurm_cluster import PyslurmCluster
from support.slurm import SlurmCluster
from support.slurm_scenes import Jobs, every_kind

pytestmark = pytest.mark.timeout(400)


class _Names:
    """Who is who on this machine, at once."""

    def user(self, uid: int) -> str:
        return pwd.getpwuid(uid).pw_name

    def group(self, gid: int) -> str:
        return grp.getgrgid(gid).gr_name


@pytest.fixture
def jobs(slurm: SlurmCluster) -> Iterator[Jobs]:
    slurm.cancel_all()
    yield every_kind(slurm)
    slurm.cancel_all()


def told(pieces: Iterable[list[SlurmJob]], jobs: Jobs) -> dict[int, SlurmJob]:
    """Return what was said of these jobs, tasks and components of theirs included; flags come as JSON alone."""
    mine = set(astuple(jobs))
    everyone = [job for piece in pieces for job in piece]
    own = [job for job in everyone if mine & {job.id, job.array_id, job.het_leader}]
    return {job.id: replace(job, flags=()) for job in own}


def asked(source: str, jobs: Jobs, **settings: str) -> dict[int, SlurmJob]:
    return told(SOURCES[source](SlurmSettings(source=source, **settings), _Names()).jobs(), jobs)  # type: ignore[arg-type]


def test_squeue_in_all_its_forms_and_slurmrestd_say_the_same(slurm: SlurmCluster, jobs: Jobs) -> None:
    conf = f"{slurm.folder}/slurm.conf"
    by_json = asked("command", jobs, slurm_conf=conf)
    assert len(by_json) >= len(astuple(jobs)) + 3  # tasks, and a component
    assert by_json[jobs.failed].exit_code == "3:0"
    assert by_json[jobs.suspended].state == "SUSPENDED"
    assert by_json[jobs.requeued].restarts == 1
    texts = Commands(SlurmSettings(slurm_conf=conf), _Names())
    assert told(texts._printed("text"), jobs) == by_json  # noqa: SLF001 - otherwise asked for by large queues alone
    assert asked("slurmrestd", jobs, address=f"unix:{slurm.rest_socket}") == by_json


def test_pyslurm_says_what_squeue_of_its_slurm_says(pyslurm: PyslurmCluster) -> None:
    pyslurm.cancel_all()
    jobs = every_kind(pyslurm)
    reader = JsonJobs(_Names())
    printed = pyslurm.run("squeue", "--all", "--states=all", "--json").encode()
    by_json = told([reader.feed(printed), reader.end()], jobs)
    assert asked("pyslurm", jobs, interpreter=str(pyslurm.interpreter)) == by_json
    assert len(by_json) >= len(astuple(jobs)) + 3
    pyslurm.cancel_all()
