"""The answers of several aggregators as one: totals add, and names and states come from whoever knows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from harvest_cli.replies import Json

_STATES: Final = ("running", "quiet", "ended", "final")
"""As a job lives; of two answers the earlier one holds, as long as anybody sees it alive."""
_SUMMED: Final = ("ambiguous_resets", "ambiguous_bytes", "ambiguous_samples", "filesystems", "here")


def added(one: Any, other: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the sum of two numbers, or of all numbers in two structures; what only one knows is that one's."""
    if one is None or other is None:
        return one if other is None else other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {key: added(one.get(key), other.get(key)) for key in {**one, **other}}
    return one + other


def known(one: Json, other: Json) -> Json:
    """Return what either knows; where both do, the first is right."""
    return {key: other.get(key) if one.get(key) is None else one[key] for key in {**one, **other}}


def merged(
    lists: Iterable[Iterable[Json]], key: Callable[[Json], object], together: Callable[[Json, Json], Json]
) -> list[Json]:
    """Put together what has the same key, in the order in which it was first met."""
    found: dict[object, Json] = {}
    for one in (one for each in lists for one in each):
        same = key(one)
        found[same] = together(found[same], one) if same in found else one
    return list(found.values())


def job_key(job: Json) -> tuple[str, str]:
    """Return what names a job among several aggregators."""
    return job["cluster"], job["job"]


def merged_jobs(lists: Iterable[Iterable[Json]]) -> list[Json]:
    """Return jobs, each with what it did everywhere.

    A number that was used again is another job. Who does not know when it started means the last one.
    """
    jobs = [job for each in lists for job in each]
    starts: dict[tuple[str, str], object] = {}
    for job in jobs:
        if job.get("start") is not None:
            starts[job_key(job)] = max(job["start"], starts.get(job_key(job), job["start"]))
    return merged([jobs], lambda job: (*job_key(job), job.get("start") or starts.get(job_key(job))), merged_job)


def merged_job(one: Json, other: Json) -> Json:
    """Return one job with what two aggregators know of it."""
    states = [job["state"] for job in (one, other) if job.get("state") in _STATES]
    ticks = [job["last_tick_seconds"] for job in (one, other) if job.get("last_tick_seconds") is not None]
    return {
        **known(one, other),
        **{field: added(one.get(field), other.get(field)) for field in _SUMMED if field in {**one, **other}},
        "state": min(states, key=_STATES.index, default=one.get("state") or other.get("state")),
        "complete": one["complete"] and other["complete"],
        "last_tick_seconds": max(ticks, default=None),
        **({"late": bool(one.get("late") or other.get("late"))} if "late" in {**one, **other} else {}),
    }


def merged_clients(lists: Iterable[Iterable[Json]]) -> list[Json]:
    """Return nodes by NID."""
    return merged(lists, lambda client: client["nid"], _client)


def _client(one: Json, other: Json) -> Json:
    clusters = [client["cluster"] for client in (one, other) if client["cluster"] != "-"]
    return {
        **known(one, other),
        "cluster": clusters[0] if clusters else "-",
        "live": one["live"] or other["live"],
        "filesystems": added(one["filesystems"], other["filesystems"]),
    }


def merged_filesystems(lists: Iterable[Iterable[Json]]) -> list[Json]:
    """Return file systems by name."""
    return sorted(merged(lists, lambda one: one["name"], _filesystem), key=lambda one: str(one["name"]))


def _filesystem(one: Json, other: Json) -> Json:
    return {
        **known(one, other),
        "servers": sorted({*one["servers"], *other["servers"]}),
        "targets": one["targets"] + other["targets"],
        "jobs": max(one["jobs"], other["jobs"]),  # at least: some may be on both
        **{kind: added(one[kind], other[kind]) for kind in ("ost", "mdt")},
    }


def merged_users(answers: Sequence[Json]) -> Json:
    """Return one user's accounts, totals, rates and jobs."""
    accounts = {account for answer in answers for account in answer.get("accounts") or []}
    total: Json = {}
    for answer in answers:
        total = added(total, {key: answer.get(key) or {} for key in ("totals", "rates")})
    jobs = merged_jobs(answer.get("jobs") or [] for answer in answers)
    return {"user": answers[0]["user"], "accounts": sorted(accounts), **total, "jobs": jobs}


def merged_rows(lists: Iterable[Iterable[Json]], by: str, *, counted: Callable[[int, int], int] = max) -> list[Json]:
    """Return rows of attribution: by name, and processes also by whose they are.

    Of jobs there are at least as many as the one says who has most: some may be on both.
    """
    sums = ("read_bytes", "write_bytes", "iops", "rates")

    def together(one: Json, other: Json) -> Json:
        return {
            **known(one, other),
            "jobs": counted(one.get("jobs") or 0, other.get("jobs") or 0),
            **{key: added(one.get(key), other.get(key)) for key in sums},
        }

    owners = ("user", "group") if by == "process" else ()
    return merged(lists, lambda row: (row["name"], *(row.get(owner) for owner in owners)), together)


def tick(answers: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the tick of an answer put together: the oldest that is in it."""
    ticks = [answer["tick_seconds"] for answer in answers if answer.get("tick_seconds") is not None]
    return min(ticks, default=None)
