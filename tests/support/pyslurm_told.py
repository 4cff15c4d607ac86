"""What pyslurm says of all jobs, field by field, as JSON.

It runs in the interpreter that has pyslurm, so it stands on nothing of ours. A field that pyslurm fails to give is told
under ``!`` and its name: pyslurm's own ``to_dict`` gives nothing at all then.
"""

import json
import sys

import pyslurm  # type: ignore[import-not-found]


def fields(job: object) -> dict[str, object]:
    told: dict[str, object] = {}
    for name in dir(type(job)):
        if not name.startswith("_") and not callable(getattr(type(job), name)):
            try:
                told[name] = getattr(job, name)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                told[f"!{name}"] = f"{type(error).__name__}: {error}"
    return told


def main() -> None:
    if hasattr(pyslurm, "Jobs"):
        controller = [fields(job) for job in pyslurm.Jobs.load().values()]
        accounting = [fields(job) for job in pyslurm.db.Jobs.load().values()]
    else:  # the API before 23.02: dicts
        controller = list(pyslurm.job().get().values())
        accounting = list(pyslurm.slurmdb_jobs().get().values())
    said = {"version": pyslurm.__version__, "controller": controller, "accounting": accounting}
    json.dump(said, sys.stdout, default=str)


if __name__ == "__main__":
    main()
