"""Closed sweeps, made in a line, and a client that asks the aggregator's HTTP side about them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from starlette.testclient import TestClient

from harvest.v1.stream_pb2 import ReadCost
from harvest_aggregator.http import app
from harvest_aggregator.metrics import Metrics
from harvest_aggregator.published import Published, TargetStatus
from harvest_aggregator.records import Records
from harvest_aggregator.sinks.backlog import Health
from harvest_core.accounting.sweeps import ClosedSweep, ClosedTable, Place, TickWork
from harvest_core.accounting.totals import Counter
from harvest_site.loading import load
from harvest_site.model import Site

TICK = 1_700_000_000
SITE = load("""
filesystems:
  - {name: home, servers: [oss1, oss2, mds1]}
  - {name: scratch, fsname: scr, servers: ["sc[1-2]"]}
""")

Did = Mapping[Counter, tuple[int, int] | tuple[int, int, float, float]]
"""(samples, sum), and what of it per second at the last tick."""


def table(jobs: Mapping[bytes, Did], last_work: int = TICK - 60) -> ClosedTable:
    """Return a table; jobs without a rate did nothing since the last work."""
    counters = tuple(dict.fromkeys(counter for did in jobs.values() for counter in did))
    numbers = np.zeros((4, len(jobs), len(counters)))
    for row, did in enumerate(jobs.values()):
        for counter, values in did.items():
            numbers[: len(values), row, counters.index(counter)] = values
    last_tick = np.where(numbers[2:].any(axis=(0, 2)), TICK, last_work)
    return ClosedTable(
        jobs=tuple(jobs),
        counters=counters,
        samples=numbers[0].astype(np.int64),
        sums=numbers[1].astype(np.int64),
        sample_rates=numbers[2],
        sum_rates=numbers[3],
        last_tick=last_tick,
        snapshot_seconds=last_tick - 1,
        first_tick=last_tick,
        changed_tick=last_tick,
        _rows={job: row for row, job in enumerate(jobs)},
    )


def published(
    tables: Mapping[tuple[str, str], Mapping[bytes, Did]],
    work: Mapping[Place, Mapping[bytes, Mapping[Counter, tuple[int, int]]]] | None = None,
    *,
    last_work: int = TICK - 60,
    **more: object,
) -> Published:
    """Return a sweep; the work is by target, of the last 20 seconds."""
    made = {place: table(jobs, last_work) for place, jobs in tables.items()}
    works = {place: (_tick_work(made[place.table], jobs),) for place, jobs in (work or {}).items()}
    closed = ClosedSweep(tick_seconds=TICK, missing=frozenset(), tables=made, work=works)
    return Published(tick_seconds=TICK, closed=closed, **more)  # type: ignore[arg-type]


def _tick_work(table: ClosedTable, jobs: Mapping[bytes, Mapping[Counter, tuple[int, int]]]) -> TickWork:
    found = [
        (table.jobs.index(job) * len(table.counters) + table.counters.index(counter), *both)
        for job, did in jobs.items()
        for counter, both in did.items()
    ]
    place, samples, sums = np.array(found, np.uint32).reshape(-1, 3).T
    return TickWork(len(table.counters), place, samples, sums, np.array([20], np.uint8))


def target(filesystem: str, kind: str, name: str, *, server: str) -> TargetStatus:
    """Return a target that is all right."""
    return TargetStatus(
        filesystem=filesystem,
        target=name,
        kind=kind,
        server=server,
        instance=1,
        last_tick=TICK,
        unread_lines=0,
        unseen_seconds=0,
        ambiguous_resets=0,
        ambiguous_bytes=0,
        cost=ReadCost(),
    )


READ, WRITE = ("read_bytes", "bytes"), ("write_bytes", "bytes")
OPEN, CREATE = ("open", "usecs"), ("create", "reqs")

TABLES: dict[tuple[str, str], dict[bytes, Did]] = {
    ("home", "OST"): {
        b"11": {READ: (2, 2_000, 0.1, 100.0), WRITE: (1, 500), CREATE: (7, 0, 0.5, 0.0)},
        b"22": {READ: (1, 9_000)},
    },
    ("home", "MDT"): {b"11": {OPEN: (40, 800, 2.0, 40.0), READ: (3, 30, 0.0, 1.0)}},
    ("scratch", "OST"): {
        b"33": {WRITE: (5, 5_000, 1.0, 1_000.0)},
        b"11": {WRITE: (6, 600, 0.5, 50.0), CREATE: (1, 0, 0.25, 0.0)},
    },
}
BUSY = published(TABLES)
"""Three jobs on two file systems."""

PLACED = published(
    {**TABLES, ("home", "MDT"): {**TABLES["home", "MDT"], b"22": {OPEN: (80, 80, 4.0, 4.0)}}},
    {
        Place("home", "OST", "home-OST0000"): {b"11": {READ: (2, 2_000), CREATE: (10, 0)}},
        Place("home", "MDT", "home-MDT0000"): {b"22": {OPEN: (80, 80)}, b"11": {OPEN: (40, 800), READ: (0, 20)}},
        Place("scratch", "OST", "scr-OST0000"): {b"33": {WRITE: (15, 15_000)}},
        Place("scratch", "OST", "scr-OST0001"): {
            b"11": {WRITE: (10, 1_000), CREATE: (5, 0)},
            b"33": {WRITE: (5, 5_000)},
        },
    },
    targets=(
        target("home", "OST", "home-OST0000", server="oss1"),
        target("home", "MDT", "home-MDT0000", server="oss1"),
        target("scratch", "OST", "scr-OST0000", server="sc1"),
        target("scratch", "OST", "scr-OST0001", server="sc1"),
    ),
)
"""The same, and one more thing that was done, by target."""


NO_RECORDS = Records(Path("/nowhere/ledger.db"))
HEALTH = Health(
    name="gmond", accepted=9, rejected=1, dropped=2, queued=1, last_success_seconds=TICK + 1.5, trouble="it sleeps"
)


def metrics(source: Published, *, sinks: tuple[Health, ...] = (HEALTH,)) -> Metrics:
    return Metrics(
        lambda: source,
        version="1.2.3",
        site=lambda: SITE,
        ledger_bytes=lambda: 4096,
        queued_sweeps=lambda: 3,
        is_ready=lambda: False,
        certificate_end=lambda: TICK + 86_400,
        agents_until=lambda: {"oss1": TICK + 3_600},
        relays_until=lambda: {"xe": TICK + 7_200},
        sinks=lambda: sinks,
    )


def client(
    source: Published = BUSY,
    *,
    site: Site = SITE,
    reasons: tuple[str, ...] = (),
    token: str | None = None,
    records: Records = NO_RECORDS,
) -> TestClient:
    asked = app(
        lambda: source,
        site=lambda: site,
        readiness=lambda: list(reasons),
        metrics=metrics(source),
        records=records,
        token=token,
        sinks=lambda: (HEALTH,),
    )
    return TestClient(asked, raise_server_exceptions=False)
