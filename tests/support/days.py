"""Days of many jobs through accounts and ledger, in no time: what stays in memory, and whether every job is right."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
from sqlalchemy import Connection

from harvest_aggregator.accounts import Accounts
from harvest_aggregator.catalogue import Catalogues
from harvest_aggregator.ledger import Ledger, ParkedKey
from harvest_aggregator.parking import Parked
from harvest_core.accounting.snapshots import dump
from harvest_core.accounting.sweeps import Place
from harvest_site.loading import load
from support.deliveries import INTERVAL, SITE, START, Writer

JOBS_A_DAY = 30_000
TARGETS = tuple(f"home-OST{number:04x}" for number in range(2))
HOUR = 3600
_MOVES_EVERY = 5
"""Sweeps; each job in another one."""
_EVICTED_AFTER = 640
_OVER_AFTER = 3600
"""Seconds after a job's end, when everybody has forgotten it."""
_WRITTEN = ("write_bytes", "bytes")


@dataclass(slots=True)
class Kept:
    """How much there is in memory."""

    rows: int = 0
    slots: int = 0
    jobs: int = 0
    numbered: int = 0
    """By the catalogue of those who ask."""
    state_bytes: int = 0
    """Of all columns."""
    snapshot_bytes: int = 0

    def at_least(self, other: "Kept") -> None:
        """Keep the larger of each."""
        for name in self.__dataclass_fields__:
            setattr(self, name, max(getattr(self, name), getattr(other, name)))


@dataclass(slots=True)
class _Job:
    end: int
    gone_at: int = 0
    written: int = 0


@dataclass(slots=True)
class Day:
    """A site on which a job begins every three seconds, on all targets."""

    path: Path
    version: tuple[int, ...]
    wrong: list[str] = field(default_factory=list)
    """Jobs whose final totals are not what they did."""
    finished: int = 0
    _jobs: dict[bytes, _Job] = field(default_factory=dict)
    _rng: Random = field(default_factory=lambda: Random(1))

    def hours(self, count: int) -> Iterator[Kept]:
        """Play so many hours; yield the most that was kept in each."""
        ledger = Ledger(self.path)
        ledger.open()
        accounts, catalogues = Accounts(ledger, load(SITE)), Catalogues()
        accounts.load(START)
        agent = Writer(targets=TARGETS, version=self.version)
        most = Kept()
        for sweep in range(1, count * HOUR // INTERVAL + 1):
            tick = sweep * INTERVAL
            agent.start_seconds = START + tick - INTERVAL if self.version >= (2, 14, 56) else 0
            delivery = agent.sweep(self._moved(sweep), gone=self._gone(tick))
            accounts.accept([delivery], START + tick + 1.0)
            expected = frozenset(Place("home", "OST", target) for target in TARGETS)
            [closed] = accounts.close(START + tick + 1.0, expected)
            while accounts.fold_some(busy=False):
                pass
            if sweep % 9 == 0:
                over = [name for name, job in self._jobs.items() if job.end + _OVER_AFTER <= tick]
                accounts.forget([("home", name) for name in over], self._final)
                ledger.settle()
            if sweep % 30 == 0:
                most.at_least(_kept(accounts, catalogues.of(closed).count))
            if tick % HOUR == 0:
                yield most
                most = Kept()
        ledger.close()

    def _moved(self, sweep: int) -> dict[bytes, int]:
        """Return what the jobs that do something now have written."""
        begun = range((sweep - 1) * INTERVAL * JOBS_A_DAY // 86_400, sweep * INTERVAL * JOBS_A_DAY // 86_400)
        for number in begun:
            self._jobs[b"%d" % (4_000_000 + number)] = _Job(end=sweep * INTERVAL + self._rng.randrange(60, HOUR))
        moved = {}
        for number, (name, job) in enumerate(self._jobs.items()):
            if job.end > sweep * INTERVAL and ((sweep + number) % _MOVES_EVERY == 0 or not job.written):
                job.written += self._rng.randrange(1, 4)
                job.gone_at = sweep * INTERVAL + _EVICTED_AFTER
                moved[name] = job.written
        return moved

    def _gone(self, tick: int) -> list[bytes]:
        return [name for name, job in self._jobs.items() if tick - INTERVAL < job.gone_at <= tick]

    def _final(self, connection: Connection, taken: Mapping[ParkedKey, Parked]) -> None:
        del connection
        for key, parked in taken.items():
            self.finished += 1
            written, job = parked.done.counters[_WRITTEN][0], self._jobs.pop(key.job)
            if written != job.written * len(TARGETS) or parked.doubt.resets or parked.incomplete:
                self.wrong.append(f"{key.job!r} wrote {job.written * len(TARGETS)}, not {written}: {parked}")


def _kept(accounts: Accounts, numbered: int) -> Kept:
    targets = accounts._targets.values()  # noqa: SLF001 - what is in memory is what this is about
    stays = [stay for kept in targets for stay in kept.account.stays.values()]
    mounts = [mount for stay in stays for _, mount in stay.mounts]
    tables = accounts._sweeps._tables.values()  # noqa: SLF001
    held = [numbers for mount in mounts for numbers in vars(mount).values() if isinstance(numbers, np.ndarray)]
    held += [numbers for table in tables for numbers in vars(table).values() if isinstance(numbers, np.ndarray)]
    return Kept(
        rows=sum(len(mount.jobs) for mount in mounts),
        slots=sum(slots.shape[1] for mount in mounts for slots in mount.slots.values()),
        jobs=sum(len(table.jobs) for table in tables),
        numbered=numbered,
        state_bytes=sum(numbers.nbytes for numbers in held),
        snapshot_bytes=sum(len(dump(stay)) for stay in stays),
    )
