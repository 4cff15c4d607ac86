"""The Slurm of the tests is a real one: jobs of every kind run as their users, and its commands tell what happened."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.processes import wait_for
from support.slurm import SlurmCluster

LONG = "sleep 600"


@pytest.fixture(autouse=True)
def _no_jobs_left(slurm: SlurmCluster) -> Iterator[None]:
    yield
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


def test_jobs_run_as_their_users(slurm: SlurmCluster) -> None:
    job = slurm.submit("id -un; exit 0", "--job-name=plain", user="news", account="chemistry")
    slurm.wait_for(job, "COMPLETED")
    assert (slurm.folder / f"jobs/slurm-{job}.out").read_text() == "news\n"
    seen = told(slurm, job)
    assert (seen["user_name"], seen["account"], seen["partition"]) == ("news", "chemistry", "batch")
    assert (seen["name"], seen["job_state"], seen["cluster"]) == ("plain", "COMPLETED", "harvest")
    (record,) = accounted(slurm, job, "COMPLETED")
    assert (record["user"], record["account"]) == ("news", "chemistry")


def test_an_account_that_a_user_has_not_is_refused(slurm: SlurmCluster) -> None:
    with pytest.raises(AssertionError, match="Invalid account"):
        slurm.submit(LONG, user="games", account="climate")


def test_tasks_of_an_array_have_numbers_of_their_own(slurm: SlurmCluster) -> None:
    array = slurm.submit(LONG, array="1,5,7", user="www-data")
    slurm.wait_for(array, "RUNNING")
    tasks = {each["array_task_id"]: each["job_id"] for each in slurm.squeue() if each["array_job_id"] == array}
    assert sorted(tasks) == [1, 5, 7]
    assert len(set(tasks.values())) == 3
    assert array in tasks.values()  # one task's own number is the array's
    assert slurm.run("squeue", "-h", "-j", f"{tasks[5]}", "-o", "%i").split() == [f"{array}_5"]
    slurm.cancel(f"{array}_5")
    slurm.wait_for(f"{array}_5", "CANCELLED")
    assert slurm.state(f"{array}_7") == "RUNNING"


def test_a_task_that_fails_leaves_the_others(slurm: SlurmCluster) -> None:
    array = slurm.submit('test "$SLURM_ARRAY_TASK_ID" != 2', array="1-2")
    slurm.wait_for(f"{array}_2", "FAILED")
    slurm.wait_for(f"{array}_1", "COMPLETED")
    accounted(slurm, array, "COMPLETED", "FAILED")


def test_components_of_a_het_job_name_their_leader(slurm: SlurmCluster) -> None:
    leader = slurm.submit(LONG, user="backup", het=[["--partition=debug"]])
    slurm.wait_for(leader, "RUNNING")
    parts = {each["het_job_offset"]: each for each in slurm.squeue() if each["het_job_id"] == leader}
    assert [parts[0]["job_id"], parts[0]["partition"], parts[1]["partition"]] == [leader, "batch", "debug"]
    assert parts[1]["job_id"] != leader
    assert slurm.state(f"{leader}+1") == "RUNNING"


def test_a_suspended_job_goes_on(slurm: SlurmCluster) -> None:
    job = slurm.submit(LONG)
    slurm.wait_for(job, "RUNNING")
    slurm.suspend(job)
    slurm.wait_for(job, "SUSPENDED")
    slurm.resume(job)
    slurm.wait_for(job, "RUNNING")


def test_cancelled_while_running_and_while_waiting(slurm: SlurmCluster) -> None:
    job, waiting = slurm.submit(LONG), slurm.submit(LONG, "--hold")
    slurm.wait_for(job, "RUNNING")
    assert slurm.state(waiting) == "PENDING"
    slurm.cancel(job)
    slurm.cancel(waiting)
    slurm.wait_for(job, "CANCELLED")
    slurm.wait_for(waiting, "CANCELLED")
    accounted(slurm, job, "CANCELLED")


def test_a_held_job_waits_until_it_is_released(slurm: SlurmCluster) -> None:
    job = slurm.submit("exit 0", "--hold")
    assert slurm.state(job) == "PENDING"
    slurm.release(job)
    slurm.wait_for(job, "COMPLETED")


def test_a_requeued_job_keeps_its_number_and_has_two_records(slurm: SlurmCluster) -> None:
    job = slurm.submit(LONG)
    slurm.wait_for(job, "RUNNING")
    slurm.requeue(job)
    slurm.wait_for(job, "RUNNING")
    assert told(slurm, job)["restart_cnt"] == 1
    slurm.cancel(job)
    accounted(slurm, job, "REQUEUED", "CANCELLED")


def test_a_failure_has_its_exit_code(slurm: SlurmCluster) -> None:
    job = slurm.submit("exit 3")
    slurm.wait_for(job, "FAILED")
    accounted(slurm, job, "FAILED")
    assert slurm.run("sacct", "-n", "-X", "-P", "-j", str(job), "-o", "state,exitcode").strip() == "FAILED|3:0"


def test_a_job_of_less_than_a_second_is_remembered(slurm: SlurmCluster) -> None:
    job = slurm.submit(":")
    slurm.wait_for(job, "COMPLETED")
    assert told(slurm, job)["start_time"] > 0
    accounted(slurm, job, "COMPLETED")


def test_forgotten_jobs_are_in_the_database_only(slurm: SlurmCluster) -> None:
    job = slurm.submit(":")
    slurm.wait_for(job, "COMPLETED")
    remembered = slurm.min_job_age
    slurm.forget_finished_jobs_after(2)
    try:
        slurm.wait_for(job, None)
    finally:
        slurm.forget_finished_jobs_after(remembered)
    accounted(slurm, job, "COMPLETED")


def test_the_controller_hangs_and_comes_back(slurm: SlurmCluster) -> None:
    job = slurm.submit(LONG)
    slurm.wait_for(job, "RUNNING")
    with slurm.hung(), pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["squeue"], env=slurm.env, timeout=1, check=False, capture_output=True)
    assert slurm.state(job) == "RUNNING"


def test_the_controller_stops_and_remembers_its_jobs(slurm: SlurmCluster) -> None:
    job = slurm.submit(LONG)
    slurm.wait_for(job, "RUNNING")
    slurm.stop_controller()
    assert b"is DOWN" in subprocess.run(["scontrol", "ping"], env=slurm.env, check=False, capture_output=True).stdout
    slurm.start_controller()
    slurm.wait_for(job, "RUNNING")


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


def test_slurmrestd_answers_on_its_socket(slurm: SlurmCluster) -> None:
    job = slurm.submit(LONG, user="www-data")
    answer = slurm.rest("/slurm/v0.0.38/jobs")
    assert {each["job_id"]: each["user_name"] for each in answer["jobs"]}[job] == "www-data"
    answer = slurm.rest_as("news", slurm.token("news"), "/slurm/v0.0.38/jobs")
    assert job in {each["job_id"] for each in answer["jobs"]}
    with pytest.raises(AssertionError, match="slurm_load_jobs"):
        slurm.rest_as("news", "wrong", "/slurm/v0.0.38/jobs")


def test_every_socket_is_of_loopback(slurm: SlurmCluster) -> None:
    """Daemons of a test have nothing to say to others."""
    ports = set(slurm.ports.values())
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    heard = [tuple(row[1].split(":")) for row in rows if row[3] == "0A"]
    addresses = {int(port, 16): address for address, port in heard if int(port, 16) in ports}
    assert addresses == dict.fromkeys(ports, "0100007F")
