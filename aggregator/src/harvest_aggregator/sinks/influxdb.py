"""The influxdb sink: what every job did, in totals, as jobHarvest wrote it."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from typing_extensions import override

from harvest_aggregator.published import Published
from harvest_aggregator.sinks.changes import BEGINNING, OLDEST_SECONDS, ChangeLog, Changes
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Pause, Plan, Sink, Written
from harvest_aggregator.sinks.influx_answers import TOO_LARGE, Address, Answer, SecretError
from harvest_aggregator.sinks.influx_lines import Lines
from harvest_aggregator.slurm import ClusterFacts
from harvest_site import sinks as settings
from harvest_site.model import Site
from harvest_site.references import secret_path

BATCH_POINTS: Final = 5_000
ROOM_ROWS: Final = 4_000_000
"""So many rows of jobs wait at most, about: 200 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluxdbPlan(Plan):
    """What the site says of one influxdb sink."""

    address: Address
    detail: frozenset[str]
    interval_seconds: int
    several_clusters: bool

    @override
    def build(self) -> "Influxdb":
        return Influxdb(self)


def planned(sink: settings.Sink, site: Site, secrets: Path | None) -> InfluxdbPlan:
    """Return the plan of a sink that is of this kind."""
    assert sink.influxdb is not None  # noqa: S101 - the table asks no other
    return InfluxdbPlan(
        address=address(sink.influxdb, secrets),
        detail=frozenset(sink.influxdb.detail),
        interval_seconds=site.spec.interval_seconds,
        several_clusters=len(site.spec.clusters) > 1,
    )


def address(asked: settings.Influxdb, secrets: Path | None) -> Address:
    """Return where the server is, and its secrets."""
    ca = asked.ca_secret_ref
    return Address(
        url=asked.url.rstrip("/"),
        org=asked.org,
        bucket=asked.bucket,
        token_file=None if secrets is None else secret_path(secrets, asked.token_secret_ref),
        ca_file=None if secrets is None or ca is None else secret_path(secrets, ca),
    )


class Database(Protocol):
    """A connection, as far as it is needed."""

    def write(self, lines: bytes) -> Answer:
        """Write points with times in seconds; raises SecretError."""


def _connect(address: Address) -> Database:
    from harvest_aggregator.sinks.influx_server import Server  # noqa: PLC0415 - 50 MB, for who has such a sink

    return Server(address)


class Influxdb(Sink[Changes]):
    """Writes each sweep in batches. One that was kept is gone on with where it was left: nothing is sent twice."""

    def __init__(self, plan: InfluxdbPlan, *, connect: Callable[[Address], Database] = _connect) -> None:
        self._plan = plan
        self._connect = connect
        self._database: Database | None = None
        self._most_sweeps = max(OLDEST_SECONDS // plan.interval_seconds, 1)
        self.room_sweeps = self._most_sweeps
        self._log = ChangeLog(
            plan.interval_seconds,
            operations="op" in plan.detail,
            targets="target" in plan.detail,
            clients="client" in plan.detail,
        )
        self._lines = Lines(plan.detail, clusters=plan.several_clusters)
        self._clusters: Mapping[str, ClusterFacts] = {}
        """As the newest sweep knows them: names of jobs come late rather than early."""
        self._writing: _Writing | None = None
        self._covered_tick = BEGINNING
        """What changed until then is written, or was refused."""
        self._missing_since: int | None = None
        """A sweep after this tick was dropped: the next one that comes makes up for it."""

    @override
    def needed(self, published: Published) -> Changes:
        self._clusters = published.clusters
        changes = self._log.changes(published, self._missing_since)
        self.room_sweeps = min(max(ROOM_ROWS // max(changes.size, 1), 1), self._most_sweeps)
        return changes

    @override
    def write(self, sweep: Changes, _pause: Pause) -> Written:
        if self._writing is None or self._writing.sweep is not sweep:
            self._writing = _Writing(sweep, self._lines.of(sweep, self._clusters))
        self._database = self._database or self._connect(self._plan.address)
        written = self._write(self._database, self._writing)
        if written.outcome is not Outcome.KEPT:
            self._writing = None
            self._cover(sweep)
        return written

    def _cover(self, sweep: Changes) -> None:
        """Note that a sweep is done with."""
        if sweep.since_tick <= self._covered_tick:
            self._covered_tick, self._missing_since = sweep.tick_seconds, None
        else:
            self._missing_since = self._covered_tick

    def _write(self, database: Database, writing: "_Writing") -> Written:
        """Write what is left of a sweep; it does not give way to newer ones, which come to no harm by waiting."""
        while batch := writing.next_batch():
            try:
                answer = database.write("\n".join(batch).encode("utf-8", "backslashreplace"))
            except SecretError as error:
                return Written(Outcome.KEPT, str(error))
            said = answer.told(self._plan.address.url)
            if answer.outcome is Outcome.KEPT:
                return Written(Outcome.KEPT, said, answer.wait_seconds)
            if answer.status == TOO_LARGE and len(batch) > 1:
                writing.halve()
                continue
            writing.done(None if answer.outcome is Outcome.ACCEPTED else said)
        if writing.refused:
            some = f"{writing.refused} of {writing.points} points were in batches that were not taken whole"
            return Written(Outcome.REJECTED, f"{some}: {writing.said}")
        return ACCEPTED


class _Writing:
    """How far the writing of a sweep has come."""

    def __init__(self, sweep: Changes, lines: Iterator[str]) -> None:
        self.sweep: Final = sweep
        self._lines = lines
        self._batches: deque[list[str]] = deque()
        self.points = 0
        self.refused = 0
        self.said = ""

    def next_batch(self) -> list[str]:
        """Return what is to be written next: the same as before until it is done; nothing when all is."""
        if not self._batches:
            self._batches.append(list(islice(self._lines, BATCH_POINTS)))
        return self._batches[0]

    def halve(self) -> None:
        """Take the batch apart: it is too large."""
        batch = self._batches.popleft()
        middle = len(batch) // 2
        self._batches.extendleft((batch[middle:], batch[:middle]))

    def done(self, refused: str | None) -> None:
        """Go on with the next; why this one was refused, if it was, is told at the end."""
        points = len(self._batches.popleft())
        self.points += points
        if refused is not None:
            self.refused += points
            self.said = refused
