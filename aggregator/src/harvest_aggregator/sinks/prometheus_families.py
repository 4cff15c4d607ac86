"""Every metric family that a prometheus sink shows: what it is called, what it means, and which setting shows it."""

from dataclasses import dataclass
from typing import Final, Literal

Setting = Literal["always", "perJob", "perClient", "perUser", "perProcess"]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its series."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    setting: Setting

    @property
    def type(self) -> str:
        """Counters never fall, and are known by their names."""
        return "counter" if self.name.endswith("_total") else "gauge"


_FS: Final = ("fs", "component")
_TARGET: Final = ("fs", "component", "target")
_JOB: Final = ("fs", "component", "target", "cluster", "jobid")
_CLIENT: Final = ("fs", "cluster", "host", "nid")
_USER: Final = ("fs", "cluster", "account", "user")
_PROCESS: Final = ("proc_name", "group_name", "user_name")

FAMILIES: Final = (
    Family(
        "harvest_filesystem_read_bytes_total",
        _FS,
        "Bytes that all jobs and programs read from the file system.",
        "always",
    ),
    Family("harvest_filesystem_write_bytes_total", _FS, "Bytes that they wrote to it.", "always"),
    Family(
        "harvest_filesystem_operations_total",
        _FS,
        "Operations, without reads, writes and the parts of renames.",
        "always",
    ),
    Family(
        "harvest_filesystem_ops_total",
        (*_FS, "operation"),
        "How often each operation was done, reads and writes and the parts of renames included.",
        "always",
    ),
    Family(
        "harvest_filesystem_op_seconds_total",
        (*_FS, "operation"),
        "Time that each operation took, where servers tell: over harvest_filesystem_ops_total it is the mean latency.",
        "always",
    ),
    Family("harvest_target_read_bytes_total", _TARGET, "Bytes that were read from a target.", "always"),
    Family("harvest_target_write_bytes_total", _TARGET, "Bytes that were written to a target.", "always"),
    Family(
        "harvest_target_operations_total",
        _TARGET,
        "Operations on a target, without reads, writes and the parts of renames.",
        "always",
    ),
    Family("harvest_target_ops_total", (*_TARGET, "operation"), "How often each operation was done there.", "always"),
    Family(
        "harvest_target_op_seconds_total",
        (*_TARGET, "operation"),
        "Time that each operation took there: over harvest_target_ops_total it is the mean latency.",
        "always",
    ),
    Family(
        "harvest_target_info",
        (*_TARGET, "server"),
        "Always 1; says which server has the target now.",
        "always",
    ),
    Family(
        "lustre_job_read_bytes_total",
        _JOB,
        "Bytes that a job read from a target.",
        "perJob",
    ),
    Family("lustre_job_write_bytes_total", _JOB, "Bytes that a job wrote to a target.", "perJob"),
    Family(
        "lustre_job_stats_total",
        (*_JOB, "operation"),
        "How often a job did an operation on a target; reads, writes and the parts of renames are left out.",
        "perJob",
    ),
    Family(
        "harvest_job_info",
        ("cluster", "jobid", "user", "account"),
        "Always 1, for every job that is shown; says whose it is, as far as Slurm has told.",
        "perJob",
    ),
    Family("harvest_client_read_bytes_total", _CLIENT, "Bytes that a node read from a file system.", "perClient"),
    Family("harvest_client_write_bytes_total", _CLIENT, "Bytes that a node wrote to a file system.", "perClient"),
    Family(
        "harvest_client_operations_total",
        (*_CLIENT, "component"),
        "Operations of a node on a file system, without reads, writes, the parts of renames and pings.",
        "perClient",
    ),
    Family(
        "harvest_user_read_bytes_total",
        _USER,
        "Bytes that all jobs of an account's user read from a file system.",
        "perUser",
    ),
    Family("harvest_user_write_bytes_total", _USER, "Bytes that they wrote to it.", "perUser"),
    Family(
        "harvest_user_operations_total",
        (*_USER, "component"),
        "Operations of all jobs of an account's user, without reads, writes and the parts of renames.",
        "perUser",
    ),
    Family(
        "cluster_job_metadata_operations",
        ("account", "user", "target"),
        "Metadata operations per second of all jobs of an account's user on an MDT.",
        "perUser",
    ),
    Family(
        "cluster_job_read_throughput_bytes",
        ("account", "user"),
        "Bytes per second that all jobs of an account's user read.",
        "perUser",
    ),
    Family(
        "cluster_job_write_throughput_bytes",
        ("account", "user"),
        "Bytes per second that all jobs of an account's user write.",
        "perUser",
    ),
    Family(
        "cluster_proc_metadata_operations",
        (*_PROCESS, "target"),
        "Metadata operations per second of a program that a user runs outside jobs, on an MDT.",
        "perProcess",
    ),
    Family(
        "cluster_proc_read_throughput_bytes",
        _PROCESS,
        "Bytes per second that a program reads which a user runs outside jobs.",
        "perProcess",
    ),
    Family(
        "cluster_proc_write_throughput_bytes",
        _PROCESS,
        "Bytes per second that a program writes which a user runs outside jobs.",
        "perProcess",
    ),
    Family(
        "cluster_exporter_scrape_ok",
        (),
        "1 while the last sweep is fresh, no target is missing in it, and Slurm answers in every cluster.",
        "always",
    ),
    Family(
        "cluster_exporter_stage_execution_seconds",
        ("name",),
        "What each stage took, by the names that the cluster exporter gave them.",
        "always",
    ),
)
"""In the order in which they are shown."""

OTHER: Final = "other"
"""In place of whatever names a job, node or user: all together that have no series of their own."""
