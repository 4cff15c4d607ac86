"""The Slurm of the tests is a real one: jobs of every kind run as their users, and its commands tell what happened."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.processes import wait_for
from support.slurm import SlurmCluster
from support.slurm_scenes import LONG, Jobs, every_kind


@pytest.fixture(scope="module")
def jobs(slurm: SlurmCluster) -> Iterator[Jobs]:
    yield every_kind(slurm)
    slurm.cancel_all()


def told(slurm: SlurmCluster, job: int) -> dict[str, Any]:
    (found,) = [each for each in slurm.squeue() if each["job_id"] == job]
    return found


def accounted(slurm: SlurmCluster, job: int, *states: str) -> list[dict[str, Any]]:
    """Return a job's records when the database has these states of it, run by run or task by task.

    Of a job that was over at once it knows for some seconds only the end: no name, no group, no time of submission.
    """

    def whole() -> bool:
        found = slurm.sacct(job)
        return sorted(each["state"]["current"] for each in found) == sorted(states) and all(
            each["time"]["eligible"] for each in found
        )

    wait_for(whole, f"the records of {job}: {states}")
    return slurm.sacct(job)


def test_jobs_run_as_their_users(slurm: SlurmCluster, jobs: Jobs) -> None:
    assert (slurm.folder / f"jobs/slurm-{jobs.brief}.out").read_text() == "backup\n"
    seen = told(slurm, jobs.wide)
    assert (seen["user_name"], seen["group_name"], seen["account"]) == ("news", "news", "chemistry")
    assert (seen["name"], seen["node_count"], seen["partition"]) == ('a|b "c" \\d é', 2, "batch")
    (record,) = accounted(slurm, jobs.brief, "COMPLETED")
    assert (record["user"], record["group"], record["account"]) == ("backup", "backup", "chemistry")


def test_an_account_that_a_user_has_not_is_refused(slurm: SlurmCluster) -> None:
    with pytest.raises(AssertionError, match="Invalid account"):
        slurm.submit(LONG, user="games", account="climate")


def test_tasks_of_an_array_have_numbers_of_their_own(slurm: SlurmCluster, jobs: Jobs) -> None:
    tasks = {each["array_task_id"]: each["job_id"] for each in slurm.squeue() if each["array_job_id"] == jobs.array}
    assert sorted(tasks) == [1, 5, 7]
    assert len(set(tasks.values())) == 3
    assert jobs.array in tasks.values()  # one task's own number is the array's
    assert slurm.run("squeue", "-h", "-j", f"{tasks[5]}", "-o", "%i").split() == [f"{jobs.array}_5"]
    (waiting,) = [each for each in slurm.squeue() if each["array_job_id"] == jobs.waiting_array]
    assert (waiting["array_task_string"], waiting["job_state"]) == ("1-40:3%2", "PENDING")
    slurm.cancel(f"{jobs.array}_5")
    slurm.wait_for(f"{jobs.array}_5", "CANCELLED")
    assert slurm.state(f"{jobs.array}_7") == "RUNNING"


def test_components_of_a_het_job_name_their_leader(slurm: SlurmCluster, jobs: Jobs) -> None:
    parts = {each["het_job_offset"]: each for each in slurm.squeue() if each["het_job_id"] == jobs.het}
    assert [parts[0]["job_id"], parts[0]["partition"], parts[1]["partition"]] == [jobs.het, "batch", "debug"]
    assert parts[1]["job_id"] != jobs.het
    assert slurm.state(f"{jobs.het}+1") == "RUNNING"


def test_a_suspended_job_goes_on(slurm: SlurmCluster, jobs: Jobs) -> None:
    assert slurm.state(jobs.suspended) == "SUSPENDED"
    slurm.resume(jobs.suspended)
    slurm.wait_for(jobs.suspended, "RUNNING")


def test_a_held_job_waits_until_it_is_released(slurm: SlurmCluster, jobs: Jobs) -> None:
    assert slurm.state(jobs.held) == "PENDING"
    slurm.release(jobs.held)
    slurm.wait_for(jobs.held, "RUNNING")


def test_a_requeued_job_keeps_its_number_and_has_two_records(slurm: SlurmCluster, jobs: Jobs) -> None:
    assert told(slurm, jobs.requeued)["restart_cnt"] == 1
    accounted(slurm, jobs.requeued, "REQUEUED", "RUNNING")


def test_how_jobs_ended_is_in_the_accounting(slurm: SlurmCluster, jobs: Jobs) -> None:
    accounted(slurm, jobs.cancelled, "CANCELLED")
    ends = {}
    for job in (jobs.failed, jobs.signalled):
        accounted(slurm, job, "FAILED")
        ends[job] = slurm.run("sacct", "-n", "-X", "-P", "-j", str(job), "-o", "state,exitcode").strip()
    assert ends == {jobs.failed: "FAILED|3:0", jobs.signalled: "FAILED|0:9"}


def test_forgotten_jobs_are_in_the_database_only(slurm: SlurmCluster, jobs: Jobs) -> None:
    remembered = slurm.min_job_age
    slurm.forget_finished_jobs_after(2)
    try:
        slurm.wait_for(jobs.brief, None)
    finally:
        slurm.forget_finished_jobs_after(remembered)
    accounted(slurm, jobs.brief, "COMPLETED")


def test_the_controller_hangs_and_comes_back(slurm: SlurmCluster, jobs: Jobs) -> None:
    def is_answered() -> bool:
        try:
            return (
                subprocess.run(["squeue"], env=slurm.env, timeout=1, check=False, capture_output=True).returncode == 0
            )
        except subprocess.TimeoutExpired:
            return False

    with slurm.hung():
        assert not is_answered()
    assert slurm.state(jobs.running) == "RUNNING"


def test_the_controller_stops_and_remembers_its_jobs(slurm: SlurmCluster, jobs: Jobs) -> None:
    slurm.stop_controller()
    assert b"is DOWN" in subprocess.run(["scontrol", "ping"], env=slurm.env, check=False, capture_output=True).stdout
    slurm.start_controller()
    slurm.wait_for(jobs.running, "RUNNING")


def test_the_database_stops_and_learns_later(slurm: SlurmCluster) -> None:
    slurm.stop_database()
    job = slurm.submit(":")
    slurm.wait_for(job, "COMPLETED")
    slurm.start_database()
    accounted(slurm, job, "COMPLETED")


def test_the_controller_counts_who_asks_for_the_table(slurm: SlurmCluster) -> None:
    before = slurm.questions().get("REQUEST_JOB_INFO", 0)
    slurm.squeue()
    slurm.squeue()
    assert slurm.questions()["REQUEST_JOB_INFO"] == before + 2


def test_slurmrestd_answers_on_its_sockets(slurm: SlurmCluster, jobs: Jobs) -> None:
    answer = slurm.rest("/slurm/v0.0.38/jobs")
    assert {each["job_id"]: each["user_name"] for each in answer["jobs"]}[jobs.array] == "www-data"
    answer = slurm.rest_as("news", slurm.token("news"), "/slurm/v0.0.38/jobs")
    assert jobs.array in {each["job_id"] for each in answer["jobs"]}
    with pytest.raises(AssertionError, match="slurm_load_jobs"):
        slurm.rest_as("news", "wrong", "/slurm/v0.0.38/jobs")


def test_every_socket_is_of_loopback(slurm: SlurmCluster) -> None:
    """Daemons of a test have nothing to say to others."""
    ports = set(slurm.ports.values())
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    heard = [tuple(row[1].split(":")) for row in rows if row[3] == "0A"]
    addresses = {int(port, 16): address for address, port in heard if int(port, 16) in ports}
    assert addresses == dict.fromkeys(ports, "0100007F")


def test_a_daemon_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    closed = tmp_path / "closed"  # to the user that munged becomes
    closed.mkdir(mode=0o700)
    (closed / "cluster").mkdir()
    broken = SlurmCluster(closed / "cluster")
    with pytest.raises(AssertionError, match=r"munged ended with 1(?s:.)*execute permissions for all required"):
        broken.start()
    assert broken.daemons == {}


def test_nothing_is_left_where_the_tests_are_killed(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    script = """
import os, pathlib, subprocess, sys
from support.slurm_processes import Guard
conf = f"{sys.argv[1]}/slurm.conf"
guard = Guard(pathlib.Path(sys.argv[1]), conf)
print(subprocess.Popen(["sleep", "600"], env={**os.environ, "SLURM_CONF": conf}).pid, flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", script, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as tests:
        assert tests.stdout is not None
        daemon = Path("/proc") / tests.stdout.readline().decode().strip()
        wait_for(lambda: b"sleep" in (daemon / "cmdline").read_bytes(), "the daemon")
        tests.kill()
    wait_for(lambda: not folder.exists(), "the folder to be gone")
    assert not daemon.exists() or not (daemon / "cmdline").read_bytes()  # nobody may have asked yet how it ended
