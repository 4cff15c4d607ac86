"""What sinks show that counts: remembered in the ledger, so that no counter of theirs ever falls. Used by one thread.

Whatever is shown stands on totals that are durable; this is from which of them on it counts. It is written before it is
shown: who is killed in between has shown less than is written, never more.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import delete, select, tuple_
from sqlalchemy.dialects.sqlite import insert  # PostgreSQL's has the same methods

from harvest_aggregator import sqlite
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.naming import identities_of, naming_of
from harvest_aggregator.published import TargetTotals
from harvest_aggregator.tables import shown
from harvest_core.accounting.sweeps import Place
from harvest_core.jobs.identity import Identities, JobName
from harvest_site.model import Site

JOB: Final = "job"
Subject = tuple[str, ...]
"""Whose series they are: a job's cluster and id, a node's NID…"""
Column = tuple[str, ...]
"""Which of a subject's series: a file system, a target, an operation…"""
_LEFT_SECONDS: Final = 86400
"""So long after it left is remembered up to where a job's counters came; of others for ever, as their totals last."""
_CLEAN_SECONDS: Final = 3600
_SUBJECTS_AT_ONCE: Final = 500
ROWS_AT_ONCE: Final = 5000
"""Some 30 ms, for which a sweep may have to wait."""
_OTHER: Final = "[]"
"""The subject that stands for all who are not shown."""


class Since(NamedTuple):
    """From which total on a series counts."""

    base: int
    released: bool
    """It has shown more than its first 0, or may have."""
    lost: bool = False
    """Nobody knows its total by the names that are in use: the base is how far its counter came, below zero."""


class Row(NamedTuple):
    """What is remembered of one subject."""

    kind: str
    subject: Subject
    cells: Mapping[Column, Since]
    labels: tuple[str, ...] = ()
    """What it was called when it was first shown."""
    left_seconds: int = 0
    """When it left; 0 while it is shown. Then each base is how far its counter came, below zero."""


class Raw(NamedTuple):
    """A row as it is in the ledger."""

    kind: str
    subject: str
    payload: str
    left_seconds: int


_COLUMNS: Final = [shown.c[name] for name in Raw._fields]


class Showing:
    """What all sinks of a site show."""

    def __init__(self, ledger: Ledger, accounts: Accounts, site: Site) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._site = site
        self._turns: dict[str, int] = {}
        self._cleaned_at = 0.0
        self.by_target: dict[Place, TargetTotals] | None = None
        """What was done on each target when somebody last looked; nothing where no sink shows it."""
        self._unwritten: dict[str, set[JobName]] = {}
        """Who is watched though nothing is written of it yet: a sink that begins anew knows nothing of these."""
        self._naming = ""
        self._renamed: dict[str, tuple[dict[Place, TargetTotals], dict[Place, TargetTotals]]] = {}

    def change_site(self, site: Site, identities: Identities) -> None:
        """Go on with other sinks, and other names of jobs."""
        self._site = site
        self.begin(identities)

    def begin(self, identities: Identities) -> None:
        """Forget what sinks show that are no more, and watch the jobs of the others."""
        asked = {sink.name: sink.prometheus for sink in self._site.spec.sinks if sink.prometheus is not None}
        watch = self._accounts.watch
        watch.begin(identities)
        self.by_target = {} if asked else None
        jobs = shown.c.kind == JOB, shown.c.left_seconds == 0
        with self._ledger.transaction() as connection:
            connection.execute(delete(shown).where(shown.c.sink.not_in(asked)))
            others = dict(
                connection.execute(select(shown.c.sink, shown.c.payload).where(*jobs, shown.c.subject == _OTHER)).all()
            )
            chosen = {
                sink: watch.of(sink).union(
                    self._names(
                        connection.execute(
                            select(shown.c.subject).where(*jobs, shown.c.sink == sink, shown.c.subject != _OTHER)
                        ).scalars()
                    )
                )
                for sink in asked
            }
        watch.only(chosen)
        watch.everybody = any(one.per_job == "all" for one in asked.values())
        unchosen = self._accounts.unchosen()
        self._accounts.drop_left(self._left(unchosen) if watch.everybody else unchosen)
        self._naming = naming_of(identities)
        namings = {sink: self._naming_in(payload) for sink, payload in others.items()}
        self._renamed = {
            sink: (self._called(identities_of(naming)), self._called(identities))
            for sink, naming in namings.items()
            if naming != self._naming
        }

    def _left(self, names: Iterable[JobName]) -> list[JobName]:
        """Return those of these jobs that have left somebody's series."""
        keys = [subject_text(job_subject(name)) for name in names]
        gone = shown.c.kind == JOB, shown.c.left_seconds > 0
        with self._ledger.transaction() as connection:
            return [
                name
                for first in range(0, len(keys), _SUBJECTS_AT_ONCE)
                for name in self._names(
                    connection.execute(
                        select(shown.c.subject).where(
                            *gone, shown.c.subject.in_(keys[first : first + _SUBJECTS_AT_ONCE])
                        )
                    ).scalars()
                )
            ]

    def _called(self, identities: Identities) -> dict[Place, TargetTotals]:
        """Return what those did until now who are watched, if these are the names of the site's jobs."""
        self._accounts.watch.begin(identities)
        return self._accounts.by_target(self._accounts.watch.names)

    def renamed(self, sink: str) -> tuple[dict[Place, TargetTotals], dict[Place, TargetTotals]]:
        """Return what the jobs that a sink shows had done when names were changed: by the former, and by the new names.

        The former ones are those that it has written last.
        """
        return self._renamed.get(sink, ({}, {}))

    def look(self) -> None:
        """Take down what was done on each target until now."""
        if self.by_target is not None:
            self.by_target = self._accounts.by_target(self._accounts.watch.names)

    def attach(self, sink: str, kinds: Sequence[str]) -> int:
        """Let a sink begin with what it has shown of some kinds, and forget the others.

        Return what it must say with all it writes: who began before it is heard no more.
        """
        with self._ledger.transaction() as connection:
            connection.execute(delete(shown).where(shown.c.sink == sink, shown.c.kind.not_in(kinds)))
        unwritten = self._unwritten.pop(sink, set())
        unshown = unwritten if JOB in kinds else self._accounts.watch.of(sink)
        if self._accounts.watch.everybody:  # what left of them is somebody's still
            self._accounts.watch.remove(sink, unshown)
        else:
            self._accounts.unwatch(sink, unshown)
        self._turns[sink] = turn = self._turns.get(sink, 0) + 1
        return turn

    def rows(self, sink: str, after: Raw | None) -> list[Raw]:
        """Return some of what a sink shows, those after another one; none if there are no more."""
        query = select(*_COLUMNS).where(shown.c.sink == sink, shown.c.left_seconds == 0)
        if after is not None:
            query = query.where(tuple_(shown.c.kind, shown.c.subject) > (after.kind, after.subject))
        with self._ledger.transaction() as connection:
            found = connection.execute(query.order_by(shown.c.kind, shown.c.subject).limit(ROWS_AT_ONCE))
            return [Raw(*row) for row in found]

    def watch(self, sink: str, names: Sequence[JobName]) -> dict[Place, TargetTotals]:
        """Watch jobs from now on; return what they have done until now."""
        self._unwritten.setdefault(sink, set()).update(frozenset(names) - self._accounts.watch.of(sink))
        self._accounts.watch.add(sink, names)
        return self._accounts.by_target(names)

    def former(self, sink: str, kind: str, subjects: Sequence[str]) -> list[Raw]:
        """Return what is remembered of those of these subjects that have left."""
        mine = shown.c.sink == sink, shown.c.kind == kind, shown.c.left_seconds > 0
        with self._ledger.transaction() as connection:
            return [
                Raw(*row)
                for first in range(0, len(subjects), _SUBJECTS_AT_ONCE)
                for row in connection.execute(
                    select(*_COLUMNS).where(*mine, shown.c.subject.in_(subjects[first : first + _SUBJECTS_AT_ONCE]))
                )
            ]

    def keep(self, sink: str, turn: int, note: "Note", now_seconds: float) -> None:
        """Remember rows in place of what was remembered of the same subjects; all or nothing."""
        if turn != self._turns.get(sink):
            raise LedgerError(f"the sink {sink} was begun anew")
        upsert = insert(shown)
        changed = {name: upsert.excluded[name] for name in ("payload", "left_seconds")}
        with self._ledger.transaction() as connection:
            if note.rows:
                connection.execute(
                    upsert.on_conflict_do_update(index_elements=shown.primary_key, set_=changed),
                    [{"sink": sink, **row} for row in note.rows],
                )
            if now_seconds >= self._cleaned_at + _CLEAN_SECONDS:
                self._cleaned_at = now_seconds
                old = now_seconds - _LEFT_SECONDS
                gone = shown.c.kind == JOB, shown.c.left_seconds.between(1, old)
                connection.execute(delete(shown).where(*gone))
        if note.naming == self._naming:
            self._renamed.pop(sink, None)
        self._unwritten.setdefault(sink, set()).difference_update(note.entered, note.left)
        self._accounts.watch.add(sink, note.entered)
        if note.left:
            self._accounts.unwatch(sink, note.left)

    def _naming_in(self, payload: str) -> str:
        """Return how jobs were called when this was written of `other`."""
        try:
            return str(json.loads(payload)["labels"][1])
        except (ValueError, TypeError, LookupError) as error:
            raise LedgerError(sqlite.damaged(self._ledger.path, f"how jobs were called: {error}")) from error

    def _names(self, subjects: Iterable[str]) -> list[JobName]:
        try:
            return [job_name(subject) for subject in json.loads(f"[{','.join(subjects)}]")]
        except (ValueError, TypeError) as error:
            raise LedgerError(sqlite.damaged(self._ledger.path, f"which jobs were shown: {error}")) from error


def job_subject(name: JobName) -> Subject:
    """Return a job as a subject."""
    return name.cluster, name.job.decode("utf-8", "surrogateescape")


def job_name(subject: Sequence[str]) -> JobName:
    """Return which job a subject is."""
    cluster, job = subject
    return JobName(cluster, job.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True, slots=True)
class Note:
    """Rows as they are written: made by the sink, for whoever keeps the ledger has no time."""

    rows: Sequence[Mapping[str, Any]]
    entered: Sequence[JobName]
    """Jobs that are shown."""
    left: Sequence[JobName]
    """Jobs that are not any more."""
    naming: str | None
    """How jobs are called, if that is among what is written."""


def noted(rows: Sequence[Row]) -> Note:
    """Return what is to be written of rows."""
    jobs = [row for row in rows if row.kind == JOB]
    named = [(job_name(row.subject), row.left_seconds) for row in jobs if row.subject]
    return Note(
        [_dumped(row)._asdict() for row in rows],
        [name for name, left_seconds in named if not left_seconds],
        [name for name, left_seconds in named if left_seconds],
        next((row.labels[1] for row in jobs if not row.subject), None),
    )


def subject_text(subject: Subject) -> str:
    """Return a subject as it is written."""
    return json.dumps(subject)


def _dumped(row: Row) -> Raw:
    cells = [[*column, *since[:2]] for column, since in row.cells.items() if not since.lost]
    lost = [[*column, *since[:2]] for column, since in row.cells.items() if since.lost]
    payload = json.dumps({"cells": cells, "lost": lost, "labels": row.labels})
    return Raw(row.kind, subject_text(row.subject), payload, row.left_seconds)


def loaded(raw: Raw) -> Row:
    """Return what was written."""
    try:
        fields = json.loads(raw.payload)
        cells = {
            tuple(column): Since(base, released, lost=lost)
            for lost, some in ((False, fields["cells"]), (True, fields["lost"]))
            for *column, base, released in some
        }
        return Row(raw.kind, tuple(json.loads(raw.subject)), cells, tuple(fields["labels"]), raw.left_seconds)
    except (ValueError, TypeError, KeyError) as error:
        raise LedgerError(f"what was shown of {raw.subject} is damaged in the ledger: {error}") from error
