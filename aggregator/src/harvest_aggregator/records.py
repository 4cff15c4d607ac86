"""Final records of jobs that are over: how they are written into the ledger, and found there."""

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, create_engine, delete, func, select
from sqlalchemy.dialects.sqlite import insert  # PostgreSQL's has the same methods
from sqlalchemy.pool import NullPool

from harvest_aggregator import sqlite
from harvest_aggregator.answers import encoded, printed
from harvest_aggregator.catalogue import MEASURES
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.tables import job
from harvest_core.jobs.identity import JobName

Json = dict[str, Any]

_ORDER: Final[Mapping[str, ColumnElement[Any]]] = {
    **{measure: job.c[measure] for measure in MEASURES},
    "bytes": job.c.read_bytes + job.c.write_bytes,
}
_NAMES_AT_ONCE: Final = 400
"""SQLite takes no more than some thousand values in a query."""


def add(connection: Connection, records: Collection[Json], now_seconds: float) -> None:
    """Write records of what was done, each as the API tells a job; what was written of the same run before stays."""
    former = named(connection, [_name(record) for record in records])
    write(connection, [with_former(record, former.get(_name(record), ())) for record in records], now_seconds)


def _name(record: Json) -> JobName:
    return JobName(record["cluster"], record["job"].encode("utf-8", "surrogateescape"))


def write(connection: Connection, records: Iterable[Json], now_seconds: float) -> None:
    """Write records; one that is there already is replaced."""
    rows = [{**_row(record), "written_seconds": int(now_seconds)} for record in records]
    if rows:
        row = insert(job)
        changed = {one.name: row.excluded[one.name] for one in job.c if not one.primary_key}
        connection.execute(row.on_conflict_do_update(index_elements=job.primary_key, set_=changed), rows)


def expire(connection: Connection, before_seconds: float, most: int) -> int:
    """Take out some of the records that were written before then, the oldest first; return how many these were."""
    key = job.primary_key.columns
    oldest = select(*key).where(job.c.written_seconds < before_seconds).order_by(job.c.written_seconds).limit(most)
    keys = [dict(row) for row in connection.execute(oldest).mappings()]
    for one in keys:
        connection.execute(delete(job).filter_by(**one))
    return len(keys)


def _row(record: Json) -> Json:
    payload = zlib.compress(encoded(record))
    kinds = [kind for one in record["filesystems"].values() for kind in one.values()]
    return {
        **_name(record)._asdict(),
        "start_seconds": record["start_seconds"] or 0,
        "user": record["user"],
        "account": record["account"],
        "end_seconds": record["end_seconds"] or record["last_tick_seconds"] or 0,
        **{measure: sum(kind[measure] for kind in kinds) for measure in MEASURES},
        "checksum": zlib.crc32(payload),
        "payload": payload,
    }


def merged(before: Json, later: Json) -> Json:
    """Return a record to which late work was added; of what Slurm says, the later counts where there is any."""
    filesystems = {name: dict(kinds) for name, kinds in before["filesystems"].items()}
    for name, kinds in later["filesystems"].items():
        own = filesystems.setdefault(name, {})
        for kind, work in kinds.items():
            own[kind] = _added(own[kind], work) if kind in own else work
    told = {key: value if value is not None else before.get(key) for key, value in later.items()}
    return {
        **told,
        "complete": before["complete"] and later["complete"],
        **{mark: before[mark] + later[mark] for mark in ("ambiguous_resets", "ambiguous_bytes", "ambiguous_samples")},
        "late": True,
        "filesystems": filesystems,
    }


def with_former(job: Json, records: Iterable[Json]) -> Json:
    """Return a job with what it had done when its record was written, if that was in the same run."""
    former = former_of(job["start"], records)
    return job if former is None else merged(former, job)


def former_of(start: int | None, records: Iterable[Json]) -> Json | None:
    """Return the record of the run that began then; the newest where that is not known."""
    return next((one for one in records if start in {None, one["start"]}), None)


def _added(one: Json, other: Json) -> Json:
    ops: dict[str, Json] = {name: dict(counted) for name, counted in one["ops"].items()}
    for name, counted in other["ops"].items():
        own = ops.setdefault(name, {"samples": 0, "sum": 0})
        ops[name] = {part: own[part] + counted[part] for part in own}
    return {**other, **{measure: one[measure] + other[measure] for measure in MEASURES}, "ops": ops}


def named(connection: Connection, names: Iterable[JobName]) -> dict[JobName, list[Json]]:
    """Return the records of some jobs, each job's newest first."""
    found: dict[JobName, list[Json]] = {}
    for cluster, some in groupby(sorted(names), itemgetter(0)):
        ids = [name.job for name in some]
        for begin in range(0, len(ids), _NAMES_AT_ONCE):
            query = select(job).filter_by(cluster=cluster).where(job.c.job.in_(ids[begin : begin + _NAMES_AT_ONCE]))
            for row in connection.execute(query.order_by(job.c.start_seconds.desc())).mappings():
                found.setdefault(JobName(cluster, row["job"]), []).append(_read(row))
    return found


def _read(row: RowMapping) -> Json:
    if zlib.crc32(row["payload"]) != row["checksum"]:
        raise LedgerError(f"the record of job {printed(row['job'])} is not what was written")
    record: Json = json.loads(zlib.decompress(row["payload"]))
    return record


def _conditions(whose: Mapping[str, str]) -> list[ColumnElement[bool]]:
    return [job.c[name] == value for name, value in whose.items()]


class Records:
    """Reads records beside whoever writes them; for any thread. Before a ledger is made there are none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = create_engine(
            f"sqlite:///file:{path.absolute()}?mode=ro&uri=true&check_same_thread=false", poolclass=NullPool
        )

    def of(self, name: JobName) -> list[Json]:
        """Return the records of a job, the newest first: its number may have been used again."""
        with self._connected() as connection:
            return [] if connection is None else named(connection, [name]).get(name, [])

    def matching(self, whose: Mapping[str, str]) -> int:
        """Return how many records match."""
        query = select(func.count()).select_from(job).where(*_conditions(whose))
        with self._connected() as connection:
            return 0 if connection is None else connection.execute(query).scalar_one()

    def each(self, whose: Mapping[str, str], *, sort: str, limit: int, offset: int) -> Iterator[Json]:
        """Return some of the records that match, one by one: those that ended last first, or by what they did."""
        order: list[ColumnElement[Any]] = (
            [_ORDER[sort].desc()] if sort in _ORDER else [job.c.job] if sort == "job" else []
        )
        order += [job.c.end_seconds.desc(), job.c.job]
        keys = select(*job.primary_key.columns).where(*_conditions(whose)).order_by(*order).limit(limit).offset(offset)
        chosen = keys.subquery()  # so that only what is shown is read and put in order with its payload
        same = and_(*(job.c[one.name] == chosen.c[one.name] for one in job.primary_key.columns))
        query: Select[Any] = select(job).join(chosen, same).order_by(*order)
        with self._connected() as connection:
            if connection is not None:
                yield from map(_read, connection.execute(query).mappings())

    def sums(self, user: str) -> Json:
        """Return what all jobs of a user did that are over, and how many they were."""
        sums = (func.coalesce(func.sum(job.c[measure]), 0).label(measure) for measure in MEASURES)
        query = select(func.count().label("jobs"), *sums).where(job.c.user == user)
        with self._connected() as connection:
            if connection is None:
                return {"jobs": 0, **dict.fromkeys(MEASURES, 0)}
            return dict(connection.execute(query).mappings().one())

    @contextmanager
    def _connected(self) -> Iterator[Connection | None]:
        if not self._path.exists():
            yield None
            return
        with sqlite.translated(self._path), self._engine.connect() as connection:
            yield connection
