"""Prints the jobs that pyslurm knows as JSON lines: all of slurmctld's, or with ids as arguments accounting's.

It runs under another Python than the agent's, of any version from 3.6 on, and imports nothing of Harvest: pyslurm
belongs to one version of Slurm, and ends its interpreter where it finds no slurm.conf.
"""

import importlib
import json
import sys
from typing import Any

_PLACES = {
    "id": ("id", "job_id", "jobid"),
    "array_id": ("array_id", "array_job_id"),
    "array_task": ("array_task_id",),
    "het_leader": ("heterogeneous_id", "het_job_id", "pack_job_id"),
    "het_offset": ("heterogeneous_offset", "het_job_offset", "pack_job_offset"),
    "name": ("name", "jobname"),
    "user": ("user_name", "user"),
    "uid": ("user_id", "uid"),
    "group": ("group_name",),
    "gid": ("group_id", "gid"),
    "account": ("account",),
    "partition": ("partition",),
    "state": ("state_str", "job_state", "state"),
    "submit_seconds": ("submit_time", "submit"),
    "start_seconds": ("start_time", "start"),
    "end_seconds": ("end_time", "end"),
    "restarts": ("requeue_count", "restart_cnt"),
    "nodes": ("num_nodes", "alloc_nodes"),
    "exit_code": ("exit_code", "exitcode"),
}
"""The wire's names, and pyslurm's: attributes of the new API, keys of the old one."""


def main(arguments: Any) -> None:  # noqa: ANN401 - as old a Python as this must run under has few words for types
    """Print every job, and at last that this was all."""
    try:
        count = 0
        for record in records(importlib.import_module("pyslurm"), [int(each) for each in arguments]):
            _print(job(record))
            count += 1
        _print({"end": count})
    except Exception as error:  # noqa: BLE001 - whatever it is, the agent tells it
        _print({"error": f"{type(error).__name__}: {error}"})


def records(pyslurm: Any, numbers: Any) -> Any:  # noqa: ANN401
    """Load jobs by the API that there is: the new one has objects, the old one dicts."""
    if numbers and hasattr(pyslurm, "db") and hasattr(pyslurm.db, "Jobs"):
        kind = getattr(pyslurm.db, "JobFilter", None) or pyslurm.db.JobSearchFilter
        loaded = pyslurm.db.Jobs.load(kind(ids=numbers))
    elif numbers:
        loaded = pyslurm.slurmdb_jobs().get(jobids=numbers)
    elif hasattr(pyslurm, "Jobs"):
        loaded = pyslurm.Jobs.load()
    else:
        loaded = pyslurm.job().get()
    return loaded.values() if hasattr(loaded, "values") else loaded


def job(record: Any) -> Any:  # noqa: ANN401
    """Return what is said of a job under the wire's names."""
    found = {name: said(record, places) for name, places in _PLACES.items()}
    if not isinstance(record, dict):
        signal = said(record, ("exit_code_signal",))
        found["exit_code"] = f"{found['exit_code'] or 0}:{signal or 0}"
        # the new API has no 0: it says None for the number of the first task, and for tasks that have none yet
        if found["array_id"] and found["array_task"] is None and not said(record, ("array_tasks_waiting",)):
            found["array_task"] = 0
    return {name: value for name, value in found.items() if value is not None}


def said(record: Any, names: Any) -> Any:  # noqa: ANN401
    """Return the first of some values that is there; one that cannot be had costs that value only."""
    for name in names:
        try:
            value = record.get(name) if isinstance(record, dict) else getattr(record, name, None)
            if callable(value):  # a property that was not made one
                value = value()
        except Exception:  # noqa: BLE001, S112
            continue
        if value is not None:
            return value if isinstance(value, (int, float, str)) else str(value)
    return None


def _print(line: Any) -> None:  # noqa: ANN401
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
