"""What must last: what agents sent, how far each of them came, and what it all added up to. Used by one thread."""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, Table, delete, select, update
from sqlalchemy.dialects.sqlite import Insert, insert  # PostgreSQL's has the same methods

from harvest_aggregator import sqlite
from harvest_aggregator.amounts import Amounts, dump, load
from harvest_aggregator.deliveries import Raw
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.locking import Lock, refuse_network
from harvest_aggregator.owners import Owned, Owner, read_owned, write_owned
from harvest_aggregator.parking import Parked
from harvest_aggregator.published import JobKey
from harvest_aggregator.records import add, expire, named
from harvest_aggregator.slurm import JOB_FACT, Fact
from harvest_aggregator.tables import batch, fact, let_go, meta, parked, relayed, run, snapshot, stream, tally, writer
from harvest_core.jobs.identity import JobName

_CHECKPOINT_BYTES: Final = 16 << 20
"""So much is written before it is copied from the WAL into the file: some 20 ms, and a bound on the WAL."""
_PROBE_BYTES: Final = 1 << 20
_JOBS_AT_ONCE: Final = 500
"""Asked for in one statement; SQLite takes some 30,000."""
_EXPIRED_AT_ONCE: Final = 100
"""Records: some milliseconds, for which a sweep may have to wait."""
_OWNER: Final = ("cluster", "account", "user")
"""Columns that say whose a run is."""


class Line(NamedTuple):
    """One batch as it is kept."""

    filesystem: str
    target: str
    agent: str
    incarnation: bytes
    seq: int
    part: int
    payload: Raw


class StoredStay(NamedTuple):
    """A snapshot of one of a target's stays."""

    target: str
    boot_id: str
    server: str
    position: int
    payload: bytes


class Run(NamedTuple):
    """The present run of a job, on one file system and under one of Lustre's ids."""

    key: JobKey
    start_seconds: int
    """0 where nobody knows."""
    earlier: Amounts
    """What former runs did."""
    owner: Owner | None = None
    """Whose it is, once Slurm has said so."""


class ParkedKey(NamedTuple):
    """Of what a sum is."""

    filesystem: str
    kind: str
    job: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What stands for all batches of a target from now on."""

    filesystem: str
    target: str
    stays: Sequence[StoredStay]
    """Those that changed since the last one."""
    tally: bytes
    parked: Mapping[ParkedKey, Parked] = field(default_factory=dict)
    """What left since the last one."""


Write = Callable[[Connection, Mapping[ParkedKey, Parked]], None]
"""Writes more in a transaction, about what was taken out in it."""


class Ledger:
    """The durable side of an aggregator."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: Lock | None = None
        self._open: Connection | None = None
        self._epoch = 0
        self._acked: dict[tuple[str, bytes], int] = {}
        self._written_bytes = 0

    def open(self) -> None:
        """Take the ledger, check it, and fence off whoever had it before; make it if there is none."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"cannot make the folder {self.path.parent}: {error.strerror}") from error
        refuse_network(self.path)
        self._lock = Lock(self.path)
        try:
            with sqlite.translated(self.path):
                self._take()
        except BaseException:
            self.close()
            raise

    def _take(self) -> None:
        if not self.path.exists():
            sqlite.make(self.path)
        sqlite.check_header(self.path)
        self._open = sqlite.connect(self.path)
        sqlite.check_whole(self._open, self.path)
        with self._open.begin():
            self._open.execute(update(writer).values(epoch=writer.c.epoch + 1))
            self._epoch = self._open.execute(select(writer.c.epoch)).scalar_one()
            self._acked = {(agent, incarnation): seq for agent, incarnation, seq in self._open.execute(select(stream))}

    def acked(self, agent: str, incarnation: bytes) -> int:
        """Return the last sweep up to which everything of an incarnation is durable; 0 if nothing is."""
        return self._acked.get((agent, incarnation), 0)

    def accept(self, lines: Sequence[Line], acked: Mapping[tuple[str, bytes], int], *, arrived_seconds: float) -> None:
        """Make batches of whole sweeps durable, and the last seqs of their incarnations known; all or nothing."""
        with self.transaction() as connection:
            if lines:
                connection.execute(
                    insert(batch).on_conflict_do_nothing(),
                    [
                        {
                            **line._asdict(),
                            "arrived_seconds": arrived_seconds,
                            "checksum": zlib.crc32(line.payload),
                        }
                        for line in lines
                    ],
                )
            if acked:
                connection.execute(
                    _upsert(stream, "acked_seq"),
                    [
                        {"agent": agent, "incarnation": incarnation, "acked_seq": seq}
                        for (agent, incarnation), seq in acked.items()
                    ],
                )
        self._acked.update(acked)
        self._written_bytes += sum(len(line.payload) for line in lines)

    def forget(self, agent: str, keep: Iterable[bytes]) -> None:
        """Forget the incarnations of an agent that it has nothing of any more."""
        kept = set(keep)
        gone = [key for key in self._acked if key[0] == agent and key[1] not in kept]
        if gone:
            with self.transaction() as connection:
                for name, incarnation in gone:
                    connection.execute(delete(stream).filter_by(agent=name, incarnation=incarnation))
            for key in gone:
                del self._acked[key]

    def fold(self, folds: Sequence[Fold]) -> None:
        """Replace all batches of these targets by snapshots, which hold what they came to; park what left these."""
        with self.transaction() as connection:
            self._fold(connection, folds)
        self._count(folds)

    def retire(self, jobs: Collection[tuple[str, bytes]], folds: Sequence[Fold], write: Write) -> None:
        """Take what is parked of jobs (file system, id) out, after folding, and let somebody write of it."""
        with self.transaction() as connection:
            self._fold(connection, folds)
            taken: dict[ParkedKey, Parked] = {}
            for filesystem, job in jobs:
                mine = {"filesystem": filesystem, "job": job}
                for kind, payload, checksum in connection.execute(
                    select(parked.c.kind, parked.c.payload, parked.c.checksum).filter_by(**mine)
                ):
                    key = ParkedKey(filesystem, kind, job)
                    taken[key] = self._parked(key, payload, checksum)
                connection.execute(delete(parked).filter_by(**mine))
            write(connection, taken)
        self._count(folds)

    def _fold(self, connection: Connection, folds: Sequence[Fold]) -> None:
        for fold in folds:
            where = {"filesystem": fold.filesystem, "target": fold.target}
            for stay in fold.stays:
                connection.execute(_upsert(snapshot, "server", "position", "payload"), {**where, **stay._asdict()})
            counted = {**where, "checksum": zlib.crc32(fold.tally), "payload": fold.tally}
            connection.execute(_upsert(tally, "checksum", "payload"), counted)
            connection.execute(delete(batch).filter_by(**where))
        self._park(connection, [pair for fold in folds for pair in fold.parked.items()])

    def _park(self, connection: Connection, sums: Sequence[tuple[ParkedKey, Parked]]) -> None:
        """Add to what is parked; a key may come several times."""
        totals = {key: Parked() for key, _ in sums}
        for (filesystem, kind), keys in groupby(sorted(totals), itemgetter(0, 1)):
            query = select(parked.c.job, parked.c.payload, parked.c.checksum).filter_by(
                filesystem=filesystem, kind=kind
            )
            jobs = [key.job for key in keys]
            for first in range(0, len(jobs), _JOBS_AT_ONCE):
                known = connection.execute(query.where(parked.c.job.in_(jobs[first : first + _JOBS_AT_ONCE])))
                for job, payload, checksum in known:
                    key = ParkedKey(filesystem, kind, job)
                    totals[key] = self._parked(key, payload, checksum)
        for key, more in sums:
            totals[key].add(more)
        rows = [(key, total.dump()) for key, total in totals.items()]
        if rows:
            connection.execute(
                _upsert(parked, "checksum", "payload"),
                [{**key._asdict(), "checksum": zlib.crc32(payload), "payload": payload} for key, payload in rows],
            )

    def _parked(self, key: ParkedKey, payload: bytes, checksum: int) -> Parked:
        self._check(payload, checksum, f"what is parked of {key.job!r}")
        return Parked.load(payload)

    def _count(self, folds: Sequence[Fold]) -> None:
        self._written_bytes += sum(len(stay.payload) for fold in folds for stay in fold.stays)

    def parked(self, filesystem: str) -> Iterator[tuple[ParkedKey, Parked]]:
        """Return what jobs did on a file system of which no snapshot has records any more."""
        query = select(parked.c.kind, parked.c.job, parked.c.payload, parked.c.checksum)
        for kind, job, payload, checksum in self._rows(query.where(parked.c.filesystem == filesystem)):
            key = ParkedKey(filesystem, kind, job)
            yield key, self._parked(key, payload, checksum)

    def stays(self, filesystem: str) -> Iterator[StoredStay]:
        """Return the snapshots of a file system's targets, each target's in their order."""
        query = (
            select(*(snapshot.c[name] for name in StoredStay._fields))
            .where(snapshot.c.filesystem == filesystem)
            .order_by(snapshot.c.target, snapshot.c.position)
        )
        for row in self._rows(query):
            yield StoredStay(*row)

    def tallies(self, filesystem: str) -> Iterator[tuple[str, bytes]]:
        """Return what was counted of each target beside its snapshots."""
        query = select(tally.c.target, tally.c.payload, tally.c.checksum).where(tally.c.filesystem == filesystem)
        for target, payload, checksum in self._rows(query):
            self._check(payload, checksum, f"the tally of {target}")
            yield target, payload

    def lines(self, filesystem: str) -> Iterator[Line]:
        """Return the batches that no snapshot holds, in order of arrival."""
        query = (
            select(*(batch.c[name] for name in Line._fields), batch.c.checksum)
            .where(batch.c.filesystem == filesystem)
            .order_by(batch.c.id)
        )
        for *fields, checksum in self._rows(query):
            line = Line(*fields)
            self._check(line.payload, checksum, f"what {line.agent} sent about {line.target}")
            yield line

    def write_runs(
        self,
        runs: Iterable[Run],
        records: Collection[dict[str, Any]],
        now_seconds: float,
        facts: Iterable[Fact] = (),
        owned: tuple[Owned, Owned] = ({}, {}),
    ) -> None:
        """Note when jobs began, whose they are, what became of their earlier runs, and what Slurm says; all or nothing.

        ``owned`` is what all runs did that are over, now and when it was written last.
        """
        rows = [
            {
                "filesystem": filesystem,
                "job": job,
                "start_seconds": start_seconds,
                "earlier": dump(earlier),
                **{name: getattr(owner, name, None) for name in _OWNER},
            }
            for (filesystem, job), start_seconds, earlier, owner in runs
        ]
        with self.transaction() as connection:
            add(connection, records, now_seconds)
            if rows:
                connection.execute(_upsert(run, "start_seconds", "earlier", *_OWNER), rows)
            told = [{**one._asdict(), "checksum": zlib.crc32(one.payload)} for one in facts]
            if told:
                connection.execute(_upsert(fact, "checksum", "payload"), told)
            write_owned(connection, *owned)

    def runs(self) -> Iterator[Run]:
        """Return what is known of jobs that are not over."""
        owners: dict[tuple[str, str, str], Owner] = {}
        for filesystem, job, start_seconds, earlier, cluster, account, user in self._rows(select(run)):
            try:
                amounts = load(earlier)
            except (ValueError, TypeError) as error:
                raise LedgerError(sqlite.damaged(self.path, f"the run of job {job!r}: {error}")) from error
            owner = None
            if cluster is not None:  # each is there once: they have many runs
                owner = owners.setdefault((cluster, account, user), Owner(cluster, account, user))
            yield Run((filesystem, job), start_seconds, amounts, owner)

    def owned(self) -> Owned:
        """Return what runs did that are over, by whose they were."""
        with self.transaction() as connection:
            try:
                return dict(read_owned(connection))
            except (ValueError, TypeError) as error:
                raise LedgerError(sqlite.damaged(self.path, f"what users did: {error}")) from error

    def facts(self) -> Iterator[Fact]:
        """Return what Slurm said last of jobs that are not over, and who has which uid."""
        query = select(*(fact.c[name] for name in Fact._fields), fact.c.checksum)
        for *fields, checksum in self._rows(query):
            known = Fact(*fields)
            self._check(known.payload, checksum, f"what Slurm said of {known.kind} {known.number}")
            yield known

    def let_go(self) -> Amounts:
        """Return what jobs did that are over, all together."""
        for (amounts,) in self._rows(select(let_go)):
            try:
                return load(amounts)
            except (ValueError, TypeError) as error:
                raise LedgerError(sqlite.damaged(self.path, f"what jobs did that are over: {error}")) from error
        return {}

    def relayed(self) -> Iterator[tuple[str, bytes]]:
        """Return what relays told in all, by file system."""
        for filesystem, checksum, payload in self._rows(select(relayed)):
            self._check(payload, checksum, f"what relays told of {filesystem}")
            yield filesystem, payload

    def write_relayed(self, filesystem: str, payload: bytes) -> None:
        """Replace what relays told in all of a file system."""
        row = {"filesystem": filesystem, "checksum": zlib.crc32(payload), "payload": payload}
        with self.transaction() as connection:
            connection.execute(_upsert(relayed, "checksum", "payload"), row)
        self._written_bytes += len(payload)

    def records_of(self, names: Sequence[JobName]) -> dict[JobName, list[dict[str, Any]]]:
        """Return the final records of some jobs, each job's newest first."""
        with sqlite.translated(self.path), self._connection.begin():
            return named(self._connection, names)

    def expire(self, before_seconds: float) -> bool:
        """Take out a few of the final records that were written before then; tell whether there were any."""
        with self.transaction() as connection:
            gone = expire(connection, before_seconds, _EXPIRED_AT_ONCE)
        self._written_bytes += gone * sqlite.PAGE_BYTES
        return bool(gone)

    def settle(self) -> None:
        """Keep the WAL small; between transactions, when nobody waits."""
        if self._written_bytes >= _CHECKPOINT_BYTES:
            sqlite.checkpoint(self._connection, self.path)
            self._written_bytes = 0

    def probe(self) -> None:
        """Fail if nothing of some size can be written now. First the WAL gives back the room that it can."""
        sqlite.checkpoint(self._connection, self.path)
        with self.transaction() as connection:
            connection.execute(_upsert(meta, "value"), {"name": "probe", "value": " " * _PROBE_BYTES})
        with self.transaction() as connection:
            connection.execute(delete(meta).filter_by(name="probe"))

    def close(self) -> None:
        """Leave one file, and let others in."""
        if self._open is not None:
            sqlite.disconnect(self._open)
            self._open = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def _connection(self) -> Connection:
        if self._open is None:
            raise LedgerError(f"the ledger {self.path} is closed")
        return self._open

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Read and write, all or nothing, unless somebody else has taken the ledger over."""
        connection = self._connection
        with sqlite.translated(self.path), connection.begin():
            epoch = connection.execute(select(writer.c.epoch)).scalar_one()
            if epoch != self._epoch:
                raise LedgerError(
                    f"another aggregator has taken the ledger {self.path} over (epoch {epoch}, ours is {self._epoch}):"
                    " stop one of the two"
                )
            yield connection

    def _rows(self, query: Select[Any]) -> Iterator[Sequence[Any]]:
        with sqlite.translated(self.path), self._connection.begin():
            yield from self._connection.execute(query)

    def _check(self, payload: Raw, checksum: int, what: str) -> None:
        if zlib.crc32(payload) != checksum:
            raise LedgerError(sqlite.damaged(self.path, f"{what} is not what was written"))


def write_let_go(connection: Connection, amounts: Amounts) -> None:
    """Write what jobs did that are over, all together."""
    connection.execute(delete(let_go))
    connection.execute(insert(let_go), {"amounts": dump(amounts)})


def forget_runs(connection: Connection, keys: Iterable[JobKey]) -> None:
    """Forget the runs of jobs that are over."""
    for filesystem, job in keys:
        connection.execute(delete(run).filter_by(filesystem=filesystem, job=job))


def forget_facts(connection: Connection, cluster: str, number: int) -> None:
    """Forget what Slurm said of a job that is over."""
    connection.execute(delete(fact).filter_by(cluster=cluster, kind=JOB_FACT, number=number))


def _upsert(table: Table, *changed: str) -> Insert:
    row = insert(table)
    return row.on_conflict_do_update(
        index_elements=table.primary_key, set_={name: row.excluded[name] for name in changed}
    )
