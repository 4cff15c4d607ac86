"""A simulated Slurm: its commands print what the collector reads, and it knows whose everything is."""

import subprocess
from math import ceil
from pathlib import Path
from random import Random

from harvest_core.slurm.answers import JsonJobs
from harvest_core.slurm.jobs import SlurmJob
from harvest_core.slurm.texts import SACCT, TextJobs
from harvest_sim import workloads
from harvest_sim.slurm import Owner, Queue, SlurmHost
from harvest_sim.workloads import Stage

STAGE = Stage(rng=Random(1), osts=["fs-OST0000"], mdts=["fs-MDT0000"], nids=["10.1.0.1@o2ib"])
EPOCH = 1_700_000_000.0


class Nobody:
    """No names of the machine."""

    def user(self, _: int) -> str:
        return ""

    def group(self, _: int) -> str:
        return ""


def printed(folder: Path, command: str) -> list[SlurmJob]:
    text = subprocess.run([folder / "bin" / command], capture_output=True, check=True).stdout
    reader = JsonJobs(Nobody()) if command == "squeue" else TextJobs(tuple(SACCT.values()), Nobody())
    jobs = [*reader.feed(text), *reader.end()]
    assert (reader.problem, reader.unread) == ("", 0)
    return jobs


def test_jobs_wait_run_and_end_as_the_simulator_knows(tmp_path: Path) -> None:
    queue = Queue()
    long = queue.follow("long", workloads.steady(STAGE, b"500", start=1, end=1e9))
    short = queue.follow("scan", workloads.short_jobs(STAGE, start=2, end=60, first_id=1000), in_lots=True)
    host = SlurmHost(tmp_path, queue)
    assert printed(tmp_path, "squeue") == []
    next(long)
    next(short)
    host.publish(0, EPOCH)
    assert {job.id: job.state for job in printed(tmp_path, "squeue")} == {500: "PENDING", 1000: "PENDING"}
    for operation in short:
        if operation.job_id == b"1012":
            break
    host.publish(operation.at_ns, EPOCH)

    shown = {job.id: job for job in printed(tmp_path, "squeue")}
    states = {number: job.state for number, job in shown.items() if job.state != "COMPLETED"}
    assert states == {500: "RUNNING", 1001: "CANCELLED", 1003: "FAILED", 1011: "FAILED", 1012: "RUNNING"}
    assert (shown[1003].exit_code, shown[1002].exit_code) == ("1:0", "0:0")
    assert [(job.array_id, job.array_task) for job in (shown[1003], shown[1004], shown[1007])] == [
        (0, 0),
        (1004, 0),
        (1004, 3),
    ]
    assert shown[1000].start_seconds == EPOCH + 2
    assert {(job.user, job.account) for number, job in shown.items() if 1004 <= number < 1008} == {("emma", "physics")}
    ended = {job.id: job for job in shown.values() if job.is_ended}
    assert {job.id: job for job in printed(tmp_path, "sacct")} == ended

    host.publish(operation.at_ns + 120 * 10**9, EPOCH)
    host.publish(operation.at_ns + 121 * 10**9, EPOCH)
    assert {job.id for job in printed(tmp_path, "squeue")} == {500, 1012}
    assert len(printed(tmp_path, "sacct")) == len(ended)


def test_everything_has_an_owner_also_what_is_run_outside_jobs() -> None:
    queue = Queue()
    for _ in zip(queue.follow("long", workloads.steady(STAGE, b"4", start=1, end=9)), range(3), strict=False):
        pass

    assert queue.owner_of(b"4") == Owner("emma", "climate", "climate", "long")
    assert queue.owner_of(b"kworker/13:2.1000") == Owner("ana", "physics")
    assert queue.owner_of(b"cp.1019") == Owner("uwe", "users")


def test_a_job_that_is_requeued_waits_and_begins_again_and_accounting_has_both_runs(tmp_path: Path) -> None:
    queue = Queue()
    play = queue.follow("long", workloads.steady(STAGE, b"500", start=1, end=60), requeued_seconds=20)
    host = SlurmHost(tmp_path, queue)
    last = next(play)
    for operation in play:
        if queue.requeued:
            break
        last = operation
    host.publish(last.at_ns, EPOCH)
    [waits] = printed(tmp_path, "squeue")
    assert (waits.state, waits.restarts) == ("PENDING", 1)
    [former] = printed(tmp_path, "sacct")
    assert (former.state, former.start_seconds) == ("REQUEUED", EPOCH + 1)
    assert former.end_seconds == ceil(EPOCH + last.at_ns / 10**9)
    host.publish(operation.at_ns, EPOCH)
    [again] = printed(tmp_path, "squeue")
    assert (again.state, again.start_seconds) == ("RUNNING", int(EPOCH + operation.at_ns / 10**9))
    host.publish(list(play)[-1].at_ns, EPOCH)
    assert [job.state for job in printed(tmp_path, "sacct")] == ["REQUEUED", "COMPLETED"]
