"""``harvest top`` without its terminal: what is asked, what a key does, and what stands on the screen."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from harvest_cli.aggregators import Aggregators
from harvest_cli.merging import added, job_key
from harvest_cli.replies import Json
from harvest_cli.rows import RATES, job_name, rate_cells
from harvest_cli.sheets import Column, Sheet
from harvest_cli.units import ABSENT, count, moment, name, per_second
from harvest_cli.work import process, rates

SORTS: Final[Mapping[str, str]] = {
    "read": "read_bytes",
    "write": "write_bytes",
    "ops": "iops",
    "metadata": "metadata_ops",
}
"""What can be sorted by, and the number that it means."""
BYS: Final = ("job", "user", "account", "node", "process")
_SORT_KEYS: Final = {sort[0]: sort for sort in SORTS}
_BY_KEYS: Final = {by[0]: by for by in BYS}
_API_SORTS: Final = {
    "read": "rates.read_bytes",
    "write": "rates.write_bytes",
    "ops": "rates.iops",
    "metadata": "rates.mdt_iops",
}
_HELP: Final = ("sort: Read Write Ops Metadata", "by: Job User Account Node Process", "Quit")
KEYS: Final = " · ".join(_HELP) + " (press the first letter)"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What somebody wants to see."""

    by: str = "job"
    sort: str = "read"
    fs: str | None = None
    server: str | None = None
    target: str | None = None
    limit: int = 20
    is_over: bool = False

    @property
    def filters(self) -> dict[str, str | None]:
        """Return where the work is done that matters."""
        return {"fs": self.fs, "server": self.server, "target": self.target}


class Row(NamedTuple):
    """Somebody, and what is done per second."""

    labels: tuple[str, ...]
    numbers: Mapping[str, float | None]
    more: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What was answered to a view."""

    view: View
    tick_seconds: float | None = None
    rows: Sequence[Row] = ()
    notes: Sequence[str] = ()
    troubles: Sequence[str] = ()
    """Who did not answer."""
    is_answered: bool = True


def pressed(view: View, key: str) -> View:
    """Return what is wanted after a key; keys that mean nothing change nothing."""
    key = key.lower()
    if key in _SORT_KEYS:
        return replace(view, sort=_SORT_KEYS[key])
    if key in _BY_KEYS:
        return replace(view, by=_BY_KEYS[key])
    return replace(view, is_over=view.is_over or key == "q")


def answer(view: View, aggregators: Aggregators) -> Json:
    """Ask for what a view shows, in the API's shape."""
    if view.by == "job":
        return _jobs(view, aggregators)
    if view.by == "node":
        if view.server or view.target:
            aggregators.notes.append("what nodes do is not known by server or target: this is of all of them")
        return aggregators.clients(fs=view.fs)
    return aggregators.attribution(view.by, view.filters)


def _jobs(view: View, aggregators: Aggregators) -> Json:
    """Ask for the jobs that do most.

    Those that do nothing of what is sorted by are behind those that do, by what they do else; so some of each order
    are needed, unless there are no others.
    """
    answers: list[Json] = []
    for sort in _orders(view.sort):
        answers.append(aggregators.jobs(sort=_API_SORTS[sort], limit=view.limit, filters=view.filters))
        if answers[-1]["shown"] == answers[-1]["matched"]:
            break
    found = {(*job_key(job), job.get("start")): job for told in answers for job in told["jobs"]}
    jobs = sorted(found.values(), key=lambda job: _rank(rates(job), view.sort))[: view.limit]
    return {**answers[0], "shown": len(jobs), "jobs": jobs}


def _orders(sort: str) -> list[str]:
    return [sort, *(other for other in SORTS if other != sort)]


def _rank(numbers: Mapping[str, float | None], sort: str) -> tuple[float, ...]:
    """Return what sorts the largest first; equals by the other numbers."""
    return tuple(-(numbers.get(SORTS[each]) or 0) for each in _orders(sort))


def shown(view: View, aggregators: Aggregators) -> Shown:
    """Ask for what a view shows, and return it as rows."""
    told = answer(view, aggregators)
    if view.by == "job":
        is_metadata = _is_metadata(view, aggregators) if view.server or view.target else None
        rows = [_job(job, is_metadata=is_metadata) for job in told["jobs"]]
    elif view.by == "node":
        rows = _nodes(told["clients"])
    else:
        rows = [_attributed(row, view.by) for row in told["rows"]]
    troubles = [f"without {url}: {trouble}" for url, trouble in aggregators.troubles.items()]
    busy = [row for row in rows if any(row.numbers.values())]
    return Shown(view=view, tick_seconds=told["tick_seconds"], rows=busy, notes=aggregators.notes, troubles=troubles)


def _is_metadata(view: View, aggregators: Aggregators) -> bool | None:
    """Tell whether operations on the places that are looked at are metadata's: only where all are of one kind."""
    targets = [view.target] if view.target else []
    for server in [] if view.target else aggregators.listed("servers")["servers"]:
        targets += server["targets"] if server["name"] == view.server else []
    kinds = {"-MDT" in target for target in targets}
    return kinds.pop() if len(kinds) == 1 else None


def _job(job: Json, *, is_metadata: bool | None) -> Row:
    numbers = rates(job)
    if is_metadata is not None:
        numbers["metadata_ops"] = numbers["iops"] if is_metadata else 0
    labels = (
        job_name(job),
        name(job.get("user")),
        name(job.get("account")),
        name(job.get("state")),
        name(job["cluster"]),
        name(job.get("name") or process(job)),
    )
    return Row(labels, numbers, _busiest(job.get("here")))


def _busiest(here: Mapping[str, Any] | None) -> str:
    """Return the operation that is done most often on a place."""
    ops = {op: often for op, often in (here or {}).get("ops", {}).items() if not op.endswith("_bytes")}
    if not ops:
        return ABSENT
    op = max(ops, key=lambda each: (ops[each], each))
    return f"{name(op)} {per_second(count(ops[op]))}"


def _attributed(row: Json, by: str) -> Row:
    owner = ("user", "group") if by == "process" else ()
    labels = (name(row["name"]), *(name(row.get(key)) for key in owner), count(row.get("jobs")))
    return Row(labels, row["rates"])


def _nodes(clients: Iterable[Json]) -> list[Row]:
    """Return nodes: the NIDs of one host are one."""
    found: dict[tuple[str, str], list[Json]] = {}
    for client in clients:
        found.setdefault((client["host"] or client["nid"], client["cluster"]), []).append(client)
    return [Row((name(host), name(cluster)), _node_rates(mine)) for (host, cluster), mine in found.items()]


def _node_rates(clients: Iterable[Json]) -> dict[str, float | None]:
    total: dict[str, float | None] = dict.fromkeys(("read_bytes", "write_bytes", "oss_ops", "mds_ops"))
    for client in clients:
        for numbers in client["filesystems"].values():
            total = added(total, numbers)
    return {
        "read_bytes": total["read_bytes"],
        "write_bytes": total["write_bytes"],
        "iops": added(total["oss_ops"], total["mds_ops"]),
        "metadata_ops": total["mds_ops"],
    }


_LABELS: Final[Mapping[str, tuple[Column, ...]]] = {
    "job": (
        Column("JOB"),
        Column("USER"),
        Column("ACCOUNT", rank=2),
        Column("STATE", rank=1),
        Column("CLUSTER", rank=3),
        Column("NAME", rank=4),
    ),
    "user": (Column("USER"), Column("JOBS", right=True)),
    "account": (Column("ACCOUNT"), Column("JOBS", right=True)),
    "node": (Column("NODE"), Column("CLUSTER", rank=1)),
    "process": (Column("PROCESS"), Column("USER"), Column("GROUP", rank=1), Column("JOBS", right=True)),
}


def sheet(view: View, last: Shown | None, *, zoned: Callable[[float | None], str] = moment) -> Sheet:
    """Return what stands on the screen: what was answered last, in the order that is wanted now."""
    is_same = last is not None and (last.view.by, last.view.filters) == (view.by, view.filters)
    rows = sorted(last.rows if last and is_same else (), key=lambda row: _rank(row.numbers, view.sort))
    where = "".join(f" · {key} {name(value)}" for key, value in view.filters.items() if value)
    when = (
        "asking …" if not last or not is_same else f"at {zoned(last.tick_seconds)}" if last.is_answered else "no answer"
    )
    is_placed = any(row.more for row in rows) and view.by == "job" and bool(view.server or view.target)
    quiet = ["nobody does anything there now"] if last and is_same and last.is_answered and not rows else []
    return Sheet(
        title=f"harvest top · by {view.by}, most {view.sort} first{where} · {when}",
        columns=(*_LABELS[view.by], *RATES, *([Column("MOST OFTEN")] if is_placed else [])),
        rows=[
            (*row.labels, *rate_cells(row.numbers), *([row.more] if is_placed else [])) for row in rows[: view.limit]
        ],
        notes=[*quiet, *(last.notes if last else ())],
    )
