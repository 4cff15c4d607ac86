"""pyslurm says of each job what Slurm's own commands say: whatever is not compared here is not to be relied upon."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from support.pyslurm_cluster import PyslurmCluster
from support.slurm_scenes import Jobs, every_kind, wait_until_accounted

SQUEUE = {
    "account": "account",
    "accrue_time": "accrue_time",
    "admin_comment": "admin_comment",
    "allocated_nodes": "nodes",
    "array_id": "array_job_id",
    "array_task_id": "array_task_id",
    "array_tasks_parallel": "array_max_tasks",
    "association_id": "association_id",
    "batch_host": "batch_host",
    "billable_tres": "billable_tres",
    "burst_buffer": "burst_buffer",
    "cluster": "cluster",
    "comment": "comment",
    "container": "container",
    "cpus": "cpus",
    "cpus_per_task": "cpus_per_task",
    "deadline": "deadline",
    "dependencies": "dependency",
    "derived_exit_code": "derived_exit_code.return_code",
    "derived_exit_code_signal": "derived_exit_code.signal.id",
    "eligible_time": "eligible_time",
    "end_time": "end_time",
    "excluded_nodes": "excluded_nodes",
    "exit_code": "exit_code.return_code",
    "exit_code_signal": "exit_code.signal.id",
    "failed_node": "failed_node",
    "federation_origin": "federation_origin",
    "group_id": "group_id",
    "group_name": "group_name",
    "heterogeneous_id": "het_job_id",
    "heterogeneous_offset": "het_job_offset",
    "id": "job_id",
    "is_batch_job": "batch_flag",
    "is_requeueable": "requeue",
    "mail_user": "mail_user",
    "max_nodes": "max_nodes",
    "mcs_label": "mcs_label",
    "memory_per_cpu": "memory_per_cpu",
    "min_cpus_per_node": "minimum_cpus_per_node",
    "name": "name",
    "network": "network",
    "nice": "nice",
    "ntasks": "tasks",
    "ntasks_per_core": "tasks_per_core",
    "ntasks_per_socket": "tasks_per_socket",
    "num_nodes": "node_count",
    "partition": "partition",
    "pre_suspension_time": "pre_sus_time",
    "preempt_time": "preempt_time",
    "priority": "priority",
    "qos": "qos",
    "requeue_count": "restart_cnt",
    "required_nodes": "required_nodes",
    "reservation": "resv_name",
    "resize_time": "resize_time",
    "scheduled_nodes": "scheduled_nodes",
    "standard_input": "stdin_expanded",
    "standard_output": "stdout_expanded",
    "start_time": "start_time",
    "state": "job_state",
    "submit_host": "allocating_node",
    "submit_line": "submit_line",
    "submit_time": "submit_time",
    "suspend_time": "suspend_time",
    "system_comment": "system_comment",
    "time_limit": "time_limit",
    "user_id": "user_id",
    "user_name": "user_name",
    "wckey": "wckey",
    "working_directory": "current_working_directory",
}
SACCT = {
    "account": "account",
    "array_id": "array.job_id",
    "array_task_id": "array.task_id",
    "association_id": "association.id",
    "cancelled_by": "kill_request_user",
    "cluster": "cluster",
    "cpus": "required.CPUs",
    "derived_exit_code": "derived_exit_code.return_code",
    "derived_exit_code_signal": "derived_exit_code.signal.id",
    "eligible_time": "time.eligible",
    "end_time": "time.end",
    "exit_code": "exit_code.return_code",
    "exit_code_signal": "exit_code.signal.id",
    "heterogeneous_id": "het.job_id",
    "heterogeneous_offset": "het.job_offset",
    "id": "job_id",
    "name": "name",
    "nodelist": "nodes",
    "num_nodes": "allocation_nodes",
    "partition": "partition",
    "priority": "priority",
    "qos": "qos",
    "requeue_count": "restart_cnt",
    "standard_input": "stdin_expanded",
    "standard_output": "stdout_expanded",
    "start_time": "time.start",
    "state": "state.current",
    "state_reason": "state.reason",
    "submit_command": "submit_line",
    "submit_time": "time.submission",
    "time_limit": "time.limit",
    "user_name": "user",
    "working_directory": "working_directory",
}
MOVING = {"run_time", "run_time_remaining", "elapsed_cpu_time", "last_sched_evaluation_time"}
MOVING |= {"elapsed_time", "suspended_time"}
"""Another second, another value."""
OBJECTS = {"allocated_tres", "requested_tres", "tres", "stats", "steps"}
NOT_IN_JSON = {"array_tasks_waiting", "memory", "resource_sharing", "slurm_protocol_version", "submit_session_id"}
NOT_IN_JSON |= {"state_reason", "db_index", "lineage", "scheduler", "start_rpc_received", "user_id"}


@dataclass(frozen=True)
class Told:
    jobs: Jobs
    controller: Mapping[int, Mapping[str, Any]]
    accounting: Mapping[int, Mapping[str, Any]]
    squeue: Mapping[int, Mapping[str, Any]]
    sacct: Mapping[int, Mapping[str, Any]]


@pytest.fixture(scope="module")
def told(pyslurm: PyslurmCluster) -> Told:
    jobs = every_kind(pyslurm)
    wait_until_accounted(pyslurm, jobs)
    said = pyslurm.told()
    records = json.loads(pyslurm.run("sacct", "--allusers", "--duplicates", "--json"))["jobs"]
    return Told(
        jobs,
        {job["id"]: job for job in said["controller"]},
        {job["id"]: job for job in said["accounting"]},
        {job["job_id"]: job for job in pyslurm.squeue()},
        {job["job_id"]: job for job in records},  # of a job that ran twice the second, as pyslurm has it
    )


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return a value as both would say it: nothing is nothing, and a list of one is that one."""
    if isinstance(value, dict) and value.keys() == {"set", "infinite", "number"}:
        value = "UNLIMITED" if value["infinite"] else value["number"] if value["set"] else None
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    return None if value in (0, "", [], {}, False, None, 0xFFFFFFFE) else value  # the last is Slurm's own "no value"


def at(job: Mapping[str, Any], place: str) -> Any:  # noqa: ANN401 - as above
    value: Any = job
    for name in place.split("."):
        value = value[name]
    return plain(value)


@pytest.mark.parametrize("field", SQUEUE)
def test_a_field_is_what_squeue_says(told: Told, field: str) -> None:
    pyslurm = {number: plain(job[field]) for number, job in told.controller.items()}
    assert pyslurm == {number: at(job, SQUEUE[field]) for number, job in told.squeue.items()}


@pytest.mark.parametrize("field", SACCT)
def test_a_field_is_what_sacct_says(told: Told, field: str) -> None:
    pyslurm = {number: plain(job[field]) for number, job in told.accounting.items()}
    assert pyslurm == {number: at(job, SACCT[field]) for number, job in told.sacct.items()}


@pytest.mark.parametrize(("kind", "compared"), [("controller", SQUEUE), ("accounting", SACCT)])
def test_no_field_that_says_something_is_left_out(told: Told, kind: str, compared: Mapping[str, str]) -> None:
    jobs = getattr(told, kind).values()
    saying = {name.lstrip("!") for job in jobs for name, value in job.items() if plain(value) is not None}
    assert saying - set(compared) - MOVING - OBJECTS - NOT_IN_JSON == set()


def test_users_and_reasons_are_what_the_texts_say(pyslurm: PyslurmCluster, told: Told) -> None:
    reasons = pyslurm.run("squeue", "--all", "--states=all", "--noheader", "--format=%A|%r").splitlines()
    assert {f"{number}|{job['state_reason']}" for number, job in told.controller.items()} == set(reasons)
    users = pyslurm.run("sacct", "-a", "-X", "--noheader", "--parsable2", "--format=JobIDRaw,UID").splitlines()
    assert {f"{number}|{job['user_id']}" for number, job in told.accounting.items()} == set(users)


def test_no_field_fails_but_how_long_a_suspended_job_ran(told: Told) -> None:
    """Where it was suspended in its first second; pyslurm's own ``to_dict`` gives nothing at all then."""
    jobs = [*told.controller.items(), *told.accounting.items()]
    failing = {(number, name) for number, job in jobs for name in job if name.startswith("!")}
    assert failing <= {(told.jobs.suspended, "!elapsed_cpu_time"), (told.jobs.suspended, "!run_time_remaining")}


def test_of_a_job_that_ran_twice_pyslurm_knows_the_second_run(told: Told) -> None:
    assert told.accounting[told.jobs.requeued]["state"] == "RUNNING"
    assert told.accounting[told.jobs.requeued]["submit_time"] == told.controller[told.jobs.requeued]["submit_time"]


def test_pyslurm_takes_128_off_an_exit_code(pyslurm: PyslurmCluster, told: Told) -> None:
    """Slurm's commands say 143: whoever relies on exit codes must not rely on pyslurm."""
    job = pyslurm.submit("exit 143")
    assert job not in told.controller
    pyslurm.wait_for(job, "FAILED")
    (seen,) = [each for each in pyslurm.told()["controller"] if each["id"] == job]
    assert (seen["exit_code"], seen["exit_code_signal"]) == (15, 0)
    assert pyslurm.run("scontrol", "show", "job", str(job)).partition("ExitCode=")[2].split()[0] == "143:0"
