"""A real Slurm on this machine, and what people do with one."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from support.processes import LIMIT_SECONDS, wait_for
from support.slurm_daemons import SlurmDaemons


class SlurmCluster(SlurmDaemons):
    """A cluster whose jobs are submitted, moved from state to state, and asked for."""

    def submit(
        self,
        script: str,
        *options: str,
        user: str = "games",
        account: str | None = None,
        array: str | None = None,
        het: Sequence[Sequence[str]] = (),
    ) -> int:
        """Submit a shell script; return the job's number: the array's, or that of a het job's leader.

        ``het`` has the options of each further component.
        """
        own = [f"--account={account}"] if account else []
        own += [f"--array={array}"] if array else []
        further = [part for component in het for part in (":", *own, *component)]
        command = ("sbatch", "--parsable", "--chdir", f"{self.inside}/jobs", *own, *options, *further)
        return int(self.run(*command, user=user, text=f"#!/bin/sh\n{script}\n"))

    def cancel(self, job: int | str, *options: str) -> None:
        self.run("scancel", *options, str(job))

    def suspend(self, job: int | str) -> None:
        self.run("scontrol", "suspend", str(job))

    def resume(self, job: int | str) -> None:
        self.run("scontrol", "resume", str(job))

    def hold(self, job: int | str) -> None:
        self.run("scontrol", "hold", str(job))

    def release(self, job: int | str) -> None:
        self.run("scontrol", "release", str(job))

    def requeue(self, job: int | str) -> None:
        """Let a job begin again from its start, under its number: soon, not after Slurm's two minutes."""
        self.run("scontrol", "requeue", str(job))
        wait_for(lambda: self.state(job) == "PENDING", f"job {job} to wait again")
        self.start_soon(job)

    def requeue_held(self, job: int | str) -> None:
        """Let a job wait for its next run until it is released, and may ``start_soon``."""
        self.run("scontrol", "requeuehold", str(job))
        wait_for(lambda: self.state(job) == "PENDING", f"job {job} to wait again")

    def start_soon(self, job: int | str) -> None:
        """Let a job that waits begin.

        Not at once: nodes refuse a job's credential of the second in which they heard that its last run is over.
        """
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now+2")

    def state(self, job: int | str) -> str | None:
        """Return the controller's word for a job, a task (``7_1``) or a component (``7+1``); none: it knows no such."""
        ran = self._ran(["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T"])
        assert ran.returncode == 0 or "Invalid job id" in ran.stderr, ran.stderr
        return "+".join(dict.fromkeys(ran.stdout.split())) or None

    def wait_for(self, job: int | str, state: str | None) -> None:
        """Wait until a job is in a state; all tasks of an array are."""
        seen: list[str | None] = []

        def there() -> bool:
            seen[:] = [self.state(job)]
            return seen == [state]

        try:
            wait_for(there, f"job {job} to be {state}", seconds=60)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {seen[0]}") from None

    def squeue(self) -> list[dict[str, Any]]:
        """Return all jobs that the controller knows."""
        jobs: list[dict[str, Any]] = json.loads(self.run("squeue", "--all", "--states=all", "--json"))["jobs"]
        return jobs

    def sacct(self, job: int) -> list[dict[str, Any]]:
        """Return a job's records of the accounting database, every run of it."""
        jobs: list[dict[str, Any]] = json.loads(self.run("sacct", "-D", "-j", str(job), "--json"))["jobs"]
        return jobs

    def token(self, user: str) -> str:
        """Return a JWT that stands for a user."""
        return self.run("scontrol", "token", f"username={user}").strip().removeprefix("SLURM_JWT=")

    def rest(self, path: str) -> dict[str, Any]:
        """Ask slurmrestd as root."""
        return self._rest(self.rest_socket, path, {})

    def rest_as(self, user: str, token: str, path: str) -> dict[str, Any]:
        """Ask slurmrestd with a JWT."""
        return self._rest(self.rest_jwt_socket, path, {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token})

    def _rest(self, socket: Path, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        asked = _UnixConnection(socket)
        try:
            asked.request("GET", path, headers=headers)
            response = asked.getresponse()
            said = response.read()
        finally:
            asked.close()
        assert response.status == 200, said
        answer: dict[str, Any] = json.loads(said)
        return answer

    def questions(self) -> Mapping[str, int]:
        """Return how often the controller was asked for what; ``REQUEST_JOB_INFO`` is the whole table.

        Waiting and asking for a job's state (above) count as ``REQUEST_JOB_INFO_SINGLE``.
        """
        said = self.run("sdiag").partition("by message type")[2].partition("by user")[0]
        return {name: int(count) for name, count in re.findall(r"(\w+) +\( *\d+\) count:(\d+)", said)}


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=LIMIT_SECONDS)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@contextlib.contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """Run a cluster in a folder that its users can see, which those of tests are not."""
    folder = Path(tempfile.mkdtemp(prefix="harvest-slurm-"))
    cluster = SlurmCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        try:
            cluster.stop()
        finally:
            shutil.rmtree(folder)
