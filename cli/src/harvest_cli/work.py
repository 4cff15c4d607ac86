"""How much of something was done, out of the API's answers."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from harvest_cli.replies import Json

_PROCESS: Final = re.compile(r"(?s)(.+)\.([0-9]+)")
"""An id that Lustre makes of a process' name and its user's number."""
_DATA: Final = ("read_bytes", "write_bytes")
_MEASURES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "read_bytes": (("ost", "mdt"), ("read_bytes",)),
    "write_bytes": (("ost", "mdt"), ("write_bytes",)),
    "bytes": (("ost", "mdt"), _DATA),
    "iops": (("ost", "mdt"), ("iops",)),
    "mdt_iops": (("mdt",), ("iops",)),
}
SORTS: Final = ("job", *_MEASURES, *(f"rates.{measure}" for measure in _MEASURES))
"""What the API sorts jobs by, largest first, but for the id."""


def amount(job: Json, measure: str, *, rates: bool = False) -> float:
    """Return how much a job did of something, on all file systems that the answer is about."""
    kinds, measures = _MEASURES[measure]
    work = [on[kind]["rates"] if rates else on[kind] for on in job["filesystems"].values() for kind in kinds]
    total: float = sum(one[each] for one in work for each in measures)
    return total


def weight(job: Json, sort: str) -> float:
    """Return the number by which the API sorts a job: with places asked for, rates are those there."""
    measure = sort.removeprefix("rates.")
    if sort != measure and "here" in job:
        there: float = sum(job["here"][each] for each in _MEASURES[measure][1])
        return there
    return amount(job, measure, rates=sort != measure)


def sorted_jobs(jobs: Iterable[Json], sort: str) -> list[Json]:
    """Return jobs in the API's order."""
    if sort == "job":
        return sorted(jobs, key=lambda job: job["job"].encode("utf-8", "surrogateescape"))
    return sorted(jobs, key=lambda job: -weight(job, sort))


def rates(job: Json) -> Json:
    """Return what a job does per second; on the places that were asked for, if some were.

    Of places nobody says which operations are metadata's, but for their names.
    """
    if (here := job.get("here")) is not None:
        return {**{measure: here[measure] for measure in (*_DATA, "iops")}, "metadata_ops": None}
    told = {measure: amount(job, measure, rates=True) for measure in (*_DATA, "iops")}
    return {**told, "metadata_ops": amount(job, "mdt_iops", rates=True)}


def attributed(job: Json, by: str) -> Json:
    """Return a job as a row of attribution."""
    names = {"user": job.get("user"), "account": job.get("account"), "process": process(job)}
    return {
        "name": names[by],
        "user": job.get("user"),
        "group": job.get("group"),
        "account": job.get("account"),
        "jobs": 1,
        **{measure: amount(job, measure) for measure in (*_DATA, "iops")},
        "rates": rates(job),
    }


def process(job: Json) -> str | None:
    """Return the name of the process that an id is of, if it is."""
    if job.get("process") is not None:
        return str(job["process"])
    match = _PROCESS.fullmatch(job["job"])
    return match[1] if match else None
