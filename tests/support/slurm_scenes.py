"""Jobs of every kind, at once, in a real Slurm."""

from collections import Counter
from dataclasses import astuple, dataclass

from support.processes import wait_for
from support.slurm import SlurmCluster

LONG = "exec sleep 600"  # one process: a shell around it would end with a code of its own now and then


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Their numbers; in which state each is says the name."""

    running: int
    wide: int
    """On two nodes, under a name that is a trial for parsers."""
    array: int
    """Tasks 1, 5 and 7 run."""
    waiting_array: int
    het: int
    suspended: int
    held: int
    requeued: int
    """Runs, for the second time."""
    brief: int
    failed: int
    """With exit code 3."""
    signalled: int
    cancelled: int


def every_kind(slurm: SlurmCluster) -> Jobs:
    """Submit jobs of every kind and wait until each is in its state."""
    jobs = Jobs(
        running=slurm.submit(LONG, "--job-name=plain", user="games"),
        wide=slurm.submit(LONG, "--nodes=2", '--job-name=a|b "c" \\d é', user="news", account="chemistry"),
        array=slurm.submit(LONG, "--job-name=sweep", user="www-data", array="1,5,7"),
        waiting_array=slurm.submit(LONG, "--job-name=later", "--hold", user="www-data", array="1-40:3%2"),
        het=slurm.submit(LONG, "--job-name=coupled", user="backup", het=[["--partition=debug", "--nodes=1"]]),
        suspended=slurm.submit(LONG, "--job-name=paused", user="news"),
        held=slurm.submit(LONG, "--job-name=held", "--hold", user="games"),
        requeued=slurm.submit(LONG, "--job-name=again", user="games"),
        brief=slurm.submit("id -un", "--job-name=brief", user="backup"),
        failed=slurm.submit("exit 3", "--job-name=wrong", user="backup"),
        signalled=slurm.submit("kill -9 $$", "--job-name=shot", user="games"),
        cancelled=slurm.submit(LONG, "--job-name=unwanted", user="news"),
    )
    for job in (jobs.running, jobs.wide, jobs.array, jobs.het, jobs.suspended, jobs.requeued, jobs.cancelled):
        slurm.wait_for(job, "RUNNING")
    slurm.suspend(jobs.suspended)
    slurm.cancel(jobs.cancelled)
    slurm.requeue(jobs.requeued)
    slurm.wait_for(jobs.suspended, "SUSPENDED")
    slurm.wait_for(jobs.cancelled, "CANCELLED")
    slurm.wait_for(jobs.requeued, "RUNNING")
    slurm.wait_for(jobs.brief, "COMPLETED")
    slurm.wait_for(jobs.failed, "FAILED")
    slurm.wait_for(jobs.signalled, "FAILED")
    return jobs


_RECORDS = {"RUNNING": 8, "SUSPENDED": 1, "REQUEUED": 1, "COMPLETED": 1, "FAILED": 2, "CANCELLED": 1}


def wait_until_accounted(slurm: SlurmCluster, jobs: Jobs) -> None:
    """Wait until the accounting database knows all: of what was over at once it has only the end at first."""
    numbers = ",".join(map(str, astuple(jobs)))
    command = ("sacct", "--noheader", "--parsable2", "--duplicates", "--allocations", f"--jobs={numbers}")

    def are_there() -> bool:
        rows = [row.split("|") for row in slurm.run(*command, "--format=Partition,State").splitlines()]
        return Counter(state.split()[0] for partition, state in rows if partition and state != "PENDING") == _RECORDS

    wait_for(are_there, "records of all jobs")
