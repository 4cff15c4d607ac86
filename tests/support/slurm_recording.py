"""Writes tests/data/slurm anew: what a real Slurm says of jobs of every kind (see the README there)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.pyslurm_cluster import pyslurm_cluster
from support.slurm import SlurmCluster, slurm_cluster
from support.slurm_scenes import every_kind, wait_until_accounted

DATA = Path(__file__).parents[1] / "data" / "slurm"
_SQUEUE = "%A|%i|%U|%u|%g|%a|%P|%T|%V|%S|%e|%D|%j"
_SACCT = "JobIDRaw,JobID,UID,User,Group,Account,Partition,State,Submit,Start,End,NNodes,ExitCode,JobName"
_ALL = ("--allusers", "--duplicates")


def record(slurm: SlurmCluster, folder: Path) -> None:
    """Save answers about jobs of every kind; of JSON one job a line, without anything of this machine."""
    jobs = every_kind(slurm)
    wait_until_accounted(slurm, jobs)
    folder.mkdir(parents=True, exist_ok=True)

    def save(name: str, said: str) -> None:
        if name.endswith(".json"):
            head = json.loads(said)
            lines = ",\n".join(json.dumps(job, ensure_ascii=False) for job in head["jobs"])
            said = json.dumps(head | {"jobs": []}).replace('"jobs": []', f'"jobs": [\n{lines}\n]') + "\n"
        (folder / name).write_text(said.replace(str(slurm.inside), "/cluster"))

    times = ("env", "SLURM_TIME_FORMAT=%s")
    (folder / "numbers.json").write_text(json.dumps(vars(jobs), indent=1) + "\n")
    save("squeue.json", slurm.run("squeue", "--all", "--states=all", "--json"))
    save("squeue.txt", slurm.run(*times, "squeue", "--all", "--states=all", "--noheader", f"--format={_SQUEUE}"))
    save("sacct.json", slurm.run("sacct", *_ALL, "--json"))
    save(
        "sacct.txt",
        slurm.run(*times, "sacct", *_ALL, "--allocations", "--noheader", "--parsable2", f"--format={_SACCT}"),
    )
    if slurm.rest_socket.exists():
        save("slurmrestd-jobs.json", json.dumps(slurm.rest("/slurm/v0.0.38/jobs")))
        save("slurmrestd-accounting.json", json.dumps(slurm.rest("/slurmdb/v0.0.38/jobs")))


def record_pyslurm(slurm: SlurmCluster, said: dict[str, Any]) -> None:
    """Save what a pyslurm said."""
    told = json.dumps(said, indent=1, ensure_ascii=False)
    (DATA / "pyslurm" / f"{said['version']}.json").write_text(told.replace(str(slurm.inside), "/cluster") + "\n")


def told_by(interpreter: str, slurm: SlurmCluster) -> dict[str, Any]:
    """Return what the pyslurm of another Python says."""
    command = [interpreter, str(Path(__file__).with_name("pyslurm_told.py"))]
    said: dict[str, Any] = json.loads(subprocess.run(command, env=slurm.env, check=True, capture_output=True).stdout)
    return said


if __name__ == "__main__":
    (old,) = sys.argv[1:] or ("",)  # a Python that can import pyslurm 22.5.1, the last without objects
    with slurm_cluster() as cluster:
        record(cluster, DATA / "22.05")
        if old:
            record_pyslurm(cluster, told_by(old, cluster))
    with pyslurm_cluster() as newer:
        record(newer, DATA / "26.05")
        record_pyslurm(newer, newer.told())
