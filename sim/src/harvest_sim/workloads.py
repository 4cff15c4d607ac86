"""What jobs do: seeded generators of timed operations, in units of the cleanup interval where that matters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from harvest_sim.clock import NSECS

_MIB = 1 << 20
_STORM = ("open", "close", "getattr", "setattr", "unlink", "mkdir", "rmdir", "rename", "mknod", "statfs")


class Operation(NamedTuple):
    """Some equal operations of one client; ``read`` and ``write`` are RPCs of ``size_bytes`` each."""

    at_ns: int
    target: str
    job_id: bytes
    op: str
    size_bytes: int
    usecs: int
    times: int
    nid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where workloads play."""

    rng: Random
    osts: Sequence[str]
    mdts: Sequence[str]
    nids: Sequence[str]
    cleanup_seconds: float = 600.0

    def io(
        self, at_seconds: float, target: str, job_id: bytes, op: str, *, size_bytes: int = 0, times: int = 1
    ) -> Operation:
        """Return one operation from the node of the job."""
        nid = self.nids[hash_of(job_id) % len(self.nids)]
        usecs = self.rng.randrange(20, 5000)
        return Operation(round(at_seconds * NSECS), target, job_id, op, size_bytes, usecs, times, nid)

    def metadata(self, at_seconds: float, job_id: bytes, op: str, *, times: int = 1) -> Operation:
        """Return metadata operations on some MDT."""
        return self.io(at_seconds, self.rng.choice(self.mdts), job_id, op, times=times)


def hash_of(job_id: bytes) -> int:
    """Return a number that does not change from run to run, unlike hash()."""
    return sum(job_id) + len(job_id)


def checkpointing(
    stage: Stage, job_id: bytes, *, start: float, end: float, period: float = 60.0
) -> Iterator[Operation]:
    """Write a checkpoint to all OSTs every period; the last pages are written back after the job's end."""
    rng = stage.rng
    at = start
    while at < end:
        yield stage.metadata(at, job_id, "open")
        for ost in stage.osts:
            at += rng.uniform(0.001, 0.01)
            yield stage.io(at, ost, job_id, "write", size_bytes=4 * _MIB, times=rng.randrange(1, 64))
        at += rng.uniform(0.001, 0.01)
        yield stage.metadata(at, job_id, "close")
        at += period * rng.uniform(0.8, 1.2)
    # §4: write-back after the job's end is still booked on the job
    at = max(at, end) + stage.cleanup_seconds * rng.uniform(0.01, 0.05)
    for ost in stage.osts:
        yield stage.io(at, ost, job_id, "write", size_bytes=rng.randrange(1, 4 * _MIB))


def metadata_storm(
    stage: Stage, job_id: bytes, *, start: float, end: float, period: float = 1.0
) -> Iterator[Operation]:
    """Beat up the MDTs."""
    rng = stage.rng
    at = start
    while at < end:
        yield stage.metadata(at, job_id, rng.choice(_STORM), times=rng.randrange(1, 2000))
        at += period * rng.uniform(0.01, 0.2)


def quiet_then_active(stage: Stage, job_id: bytes, *, start: float, end: float) -> Iterator[Operation]:
    """Be active, then quiet for 1 to 1.1 intervals (600-660 s): the edge of eviction (§2.1)."""
    rng = stage.rng
    at = start
    while at < end:
        for _ in range(rng.randrange(1, 5)):
            op = rng.choice(("read", "write"))
            yield stage.io(
                at, rng.choice(stage.osts), job_id, op, size_bytes=rng.randrange(1, _MIB), times=rng.randrange(1, 9)
            )
            at += stage.cleanup_seconds * rng.uniform(0.001, 0.01)
        yield stage.metadata(at, job_id, rng.choice(_STORM))
        at += stage.cleanup_seconds * rng.uniform(1.0, 1.1)


def equal_returns(stage: Stage, job_id: bytes, *, start: float, end: float) -> Iterator[Operation]:
    """Do the same tiny I/O again and again, idle long enough to be evicted: counters return with equal values."""
    at = start
    pause = stage.cleanup_seconds * stage.rng.uniform(2.05, 2.3)  # §2.1: gone after 1.5, on old servers after 2
    size_bytes = stage.rng.randrange(1, 4096)
    while at < end:
        for ost in stage.osts:
            yield stage.io(at, ost, job_id, "write", size_bytes=size_bytes, times=3)._replace(usecs=100)
        for mdt in stage.mdts:
            yield stage.io(at, mdt, job_id, "getattr")._replace(usecs=100)
        at += pause


def steady(stage: Stage, job_id: bytes, *, start: float, end: float, period: float = 1.0) -> Iterator[Operation]:
    """Write a little all the time, so that counters that began again are lower for a while."""
    at = start
    while at < end:
        for ost in stage.osts:
            yield stage.io(at, ost, job_id, "write", size_bytes=_MIB, times=stage.rng.randrange(2, 64))
        at += period * stage.rng.uniform(0.5, 1.0)


def ever_larger(stage: Stage, job_id: bytes, *, start: float, end: float, period: float = 3.0) -> Iterator[Operation]:
    """Do each time more than ever before: counters that began again are higher at once, by nothing to be told apart."""
    at = start
    times = 1
    while at < end:
        for ost in stage.osts:
            yield stage.io(at, ost, job_id, "write", size_bytes=1 << 10, times=times)
        for mdt in stage.mdts:
            yield stage.io(at, mdt, job_id, "getattr", times=times)
        at += period
        times = times * 2 % ((1 << 30) - 1)  # after that from 1 again


def login_processes(stage: Stage, *, start: float, end: float, period: float = 1.0) -> Iterator[Operation]:
    """Let users type commands: every command is a job id of its own (§4)."""
    rng = stage.rng
    at = start
    while at < end:
        name = rng.choice(("cp", "ls", "bash", "rsync", "vim", "(sd-pam)", "kworker/13:2", "my prog", "caf\u00e9"))
        job_id = f"{name}.{rng.randrange(1000, 1020)}".encode()
        yield stage.metadata(at, job_id, rng.choice(("open", "getattr", "statfs")), times=rng.randrange(1, 50))
        if name in {"cp", "rsync"}:
            op = rng.choice(("read", "write"))
            yield stage.io(
                at, rng.choice(stage.osts), job_id, op, size_bytes=rng.randrange(1, _MIB), times=rng.randrange(1, 9)
            )
        at += period * rng.uniform(0.2, 2.0)


def short_jobs(
    stage: Stage, *, start: float, end: float, first_id: int = 100_000, period: float = 1.0
) -> Iterator[Operation]:
    """Run many jobs of a few operations each."""
    rng = stage.rng
    at = start
    job = first_id
    while at < end:
        job_id = str(job).encode()
        yield stage.metadata(at, job_id, "open")
        at += period * rng.uniform(0.05, 0.2)
        ost = rng.choice(stage.osts)
        yield stage.io(at, ost, job_id, "read", size_bytes=rng.randrange(1, _MIB))
        at += period * rng.uniform(0.05, 0.2)
        yield stage.io(at, ost, job_id, "write", size_bytes=rng.randrange(1, _MIB))
        job += 1
        at += period * rng.uniform(0.1, 1.0)
