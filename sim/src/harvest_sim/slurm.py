"""A simulated Slurm: whose the jobs of a site are, as ``squeue`` and ``sacct`` print it on a host of its own."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from harvest_sim.clock import NSECS
from harvest_sim.workloads import Operation

_FIRST_UID = 1000
_NAMES = (
    *("ana", "ben", "chloe", "dan", "emma", "finn", "gita", "hugo", "ida", "jan"),
    *("kai", "lea", "max", "nora", "olga", "paul", "rosa", "sami", "tove", "uwe"),
)
"""Who types commands on login nodes; the first six have jobs, too."""
_GROUPS = {"users": 100, "physics": 2000, "chemistry": 2001, "climate": 2002}
_ARRAY = 4
"""So many short jobs are one person's, and every other such lot is an array."""
_REMEMBERED_NS = 60 * NSECS
"""So long after its end squeue shows a job; sacct does for ever."""


class Owner(NamedTuple):
    """On whose behalf something is done."""

    user: str
    group: str
    account: str = ""
    """Empty of what is run outside jobs."""
    partition: str = ""


_OWNERS = (
    Owner("ana", "physics", "physics", "batch"),
    Owner("ben", "physics", "physics", "long"),
    Owner("chloe", "chemistry", "chemistry", "batch"),
    Owner("dan", "chemistry", "chemistry", "debug"),
    Owner("emma", "climate", "climate", "long"),
    Owner("finn", "climate", "climate", "batch"),
    Owner("emma", "climate", "physics", "batch"),
)
_GROUP_OF = {owner.user: owner.group for owner in _OWNERS}


def owner(number: int, *, in_lots: bool) -> Owner:
    """Return whose job has a number."""
    return _OWNERS[(number // _ARRAY if in_lots else number) % len(_OWNERS)]


def person(uid: int) -> Owner:
    """Return who has a uid."""
    user = _NAMES[uid - _FIRST_UID]
    return Owner(user, _GROUP_OF.get(user, "users"))


@dataclass(slots=True)
class Job:
    """One that was submitted; it runs from its first operation to its last."""

    number: int
    name: str
    owner: Owner
    in_lots: bool
    start_ns: int
    last_ns: int
    is_over: bool = False
    restarts: int = 0
    is_requeued: bool = False
    """It is an earlier run of one that began again."""

    @property
    def array(self) -> int:
        """The number of the array that it is a task of; 0 if of none."""
        first = self.number - self.number % _ARRAY
        return first if self.in_lots and self.number // _ARRAY % 2 else 0

    @property
    def end(self) -> tuple[str, int]:
        """How it ends, now and then badly: the state, and what wait() says."""
        if self.is_requeued:
            return "REQUEUED", 15
        if self.in_lots and self.number % 8 == 3:
            return "FAILED", 1 << 8
        return ("CANCELLED", 15) if self.in_lots and self.number % 16 == 9 else ("COMPLETED", 0)


class Queue:
    """All jobs of a site: those that wait, run or have just ended."""

    def __init__(self) -> None:
        self.owners: dict[bytes, Owner] = {}
        """Of every job that there ever was."""
        self._jobs: dict[bytes, Job] = {}
        self.requeued: list[Job] = []
        """Earlier runs of those that began again."""

    def follow(
        self,
        name: str,
        operations: Iterator[Operation],
        *,
        in_lots: bool = False,
        requeued_seconds: float | None = None,
    ) -> Iterator[Operation]:
        """Pass on what a workload does; each of its ids is a job, and the last one is over when there is another.

        One that is requeued begins again with its first operation so long after its start.
        """
        job: Job | None = None
        for operation in operations:
            key, at_ns = operation.job_id, operation.at_ns
            if job is None or job.number != int(key):
                if job is not None:
                    job.is_over = True
                whose = self.owners[key] = owner(int(key), in_lots=in_lots)
                job = self._jobs[key] = Job(int(key), name, whose, in_lots, at_ns, at_ns)
            if requeued_seconds is not None and not job.restarts and at_ns >= job.start_ns + requeued_seconds * NSECS:
                self.requeued.append(replace(job, is_over=True, is_requeued=True))
                job.start_ns, job.restarts = at_ns, 1
            job.last_ns = at_ns
            yield operation
        if job is not None:
            job.is_over = True

    def owner_of(self, job_id: bytes) -> Owner:
        """Return whose a job is, or what was run outside jobs."""
        return self.owners.get(job_id) or person(int(job_id.rpartition(b".")[2]))

    def shown(self, now_ns: int, epoch_seconds: float) -> list[dict[str, Any]]:
        """Return what squeue shows, as JSON of version 22.05 has it."""
        for key, job in list(self._jobs.items()):
            if job.is_over and now_ns > job.last_ns + _REMEMBERED_NS:
                del self._jobs[key]
        return [_shown(job, now_ns, epoch_seconds) for job in self._jobs.values()]


def _shown(job: Job, now_ns: int, epoch_seconds: float) -> dict[str, Any]:
    is_over = job.is_over and now_ns >= job.last_ns
    state, status = job.end if is_over else ("RUNNING" if now_ns >= job.start_ns else "PENDING", 0)
    start = int(epoch_seconds + job.start_ns / NSECS)
    return {
        "job_id": job.number,
        "array_job_id": job.array,
        "array_task_id": job.number % _ARRAY if job.array else None,
        "name": job.name,
        "user_name": job.owner.user,
        "user_id": _FIRST_UID + _NAMES.index(job.owner.user),
        "group_name": job.owner.group,
        "group_id": _GROUPS[job.owner.group],
        "account": job.owner.account,
        "partition": job.owner.partition,
        "job_state": state,
        "submit_time": start - 1,
        "start_time": start,
        "end_time": ceil(epoch_seconds + job.last_ns / NSECS) if is_over else 0,
        "restart_cnt": job.restarts,
        "node_count": 1,
        "exit_code": status,
    }


class SlurmHost:
    """Where Slurm's commands are, below one folder: ``bin/squeue``, ``bin/sacct``; and in ``etc`` who its users are."""

    def __init__(self, folder: Path, queue: Queue) -> None:
        self._queue = queue
        self._answer, self._accounted = folder / "squeue.json", folder / "sacct.txt"
        self._told: set[int] = set()
        self._told_requeued = 0
        for path in (folder / "bin", folder / "etc"):
            path.mkdir(parents=True)
        self._accounted.touch()
        self.publish(0, 0.0)
        for name, printed in (("squeue", self._answer), ("sacct", self._accounted)):
            command = folder / "bin" / name
            command.write_text(f"#!/bin/sh\nexec {shutil.which('cat')} '{printed}'\n")
            command.chmod(0o755)
        users = ((uid, person(uid)) for uid in range(_FIRST_UID, _FIRST_UID + len(_NAMES)))
        (folder / "etc" / "passwd").write_text(
            "".join(f"{who.user}:x:{uid}:{_GROUPS[who.group]}::/home/{who.user}:/bin/bash\n" for uid, who in users)
        )
        (folder / "etc" / "group").write_text("".join(f"{name}:x:{gid}:\n" for name, gid in _GROUPS.items()))

    def publish(self, now_ns: int, epoch_seconds: float) -> None:
        """Let both commands print how things are now."""
        jobs = self._queue.shown(now_ns, epoch_seconds)
        ended = [job for job in jobs if job["end_time"] and job["job_id"] not in self._told]
        requeued = self._queue.requeued[self._told_requeued :]
        self._told_requeued += len(requeued)
        ended += [_shown(job, max(now_ns, job.last_ns), epoch_seconds) for job in requeued]
        with self._accounted.open("a") as lines:
            lines.writelines(_line(job) for job in ended)
        self._told = {job["job_id"] for job in jobs if job["end_time"]}
        draft = self._answer.with_suffix(".draft")
        draft.write_text(json.dumps({"meta": {}, "errors": [], "jobs": jobs}))
        draft.replace(self._answer)


def _line(job: dict[str, Any]) -> str:
    """Return what ``sacct --parsable2`` prints of a job that has ended."""
    printed = f"{job['array_job_id']}_{job['array_task_id']}" if job["array_job_id"] else job["job_id"]
    values = (
        *(job["job_id"], printed, job["user_id"], job["user_name"], job["group_name"], job["account"]),
        *(job["partition"], job["job_state"], job["submit_time"], job["start_time"], job["end_time"]),
        *(job["node_count"], f"{job['exit_code'] >> 8}:{job['exit_code'] & 0x7F}", job["name"]),
    )
    return "|".join(map(str, values)) + "\n"
