"""Days of many jobs through accounts and ledger, in no time: what stays in memory, and whether every job is right."""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from harvest.v1.stream_pb2 import JobTable, SlurmHealth, SlurmJob
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.catalogue import Catalogues
from harvest_aggregator.following import Following
from harvest_aggregator.ledger import Ledger
from harvest_core.accounting.snapshots import dump
from harvest_core.accounting.sweeps import Place
from harvest_core.jobs.identity import JobName
from harvest_site.loading import load
from support.deliveries import INTERVAL, SITE, START, Writer

JOBS_A_DAY = 30_000
TARGETS = tuple(f"home-OST{number:04x}" for number in range(2))
HOUR = 3600
_MOVES_EVERY = 5
"""Sweeps; each job in another one."""
_EVICTED_AFTER = 640
_USERS = 200
_ACCOUNTS = 30
_CACHE_BYTES = 18 << 20
"""SQLite keeps pages that it has read, 16 MiB at most, and has them only after most of a day."""
_LEAVING = JOBS_A_DAY // 48
"""Jobs that are asked for once more when their last rows leave, and forgotten when others are over."""
_CLUSTER = "clusters: [{name: vu, filesystems: [home], slurm: {server: slurm1}}]"


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
    followed: int = 0
    told: int = 0
    """By Slurm."""
    remembered: int = 0
    """Ids whose jobs were told once."""
    resident_bytes: int = 0
    """Of the whole process, these tests included."""

    def at_least(self, other: "Kept") -> None:
        """Keep the larger of each."""
        for name in self.__dataclass_fields__:
            setattr(self, name, max(getattr(self, name), getattr(other, name)))

    def grown_since(self, other: "Kept") -> dict[str, tuple[int, int]]:
        """Return what is more than it was: by a tenth, which is what chance makes."""
        now_and_then = {name: (getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__}
        room = {"resident_bytes": _CACHE_BYTES, "remembered": _LEAVING}
        return {name: two for name, two in now_and_then.items() if two[0] > 1.1 * two[1] + room.get(name, 0)}


@dataclass(slots=True)
class _Job:
    begun: int
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
        site, catalogues = load(SITE + _CLUSTER), Catalogues()
        accounts, following = Accounts(ledger, site), Following(site, ledger)
        accounts.load(START)
        accounts.watch.begin(following.identities)
        agent = Writer(targets=TARGETS, version=self.version)
        most = Kept()
        for sweep in range(1, count * HOUR // INTERVAL + 1):
            tick = sweep * INTERVAL
            agent.start_seconds = START + tick - INTERVAL if self.version >= (2, 14, 56) else 0
            delivery = agent.sweep(self._moved(sweep), gone=self._gone(tick))
            accounts.accept([delivery], START + tick + 1.0)
            expected = frozenset(Place("home", "OST", target) for target in TARGETS)
            [closed] = accounts.close(START + tick + 1.0, expected)
            following.take_table("vu", self._table(sweep))
            following.take_sweep(closed, START + tick + 1.0)
            while accounts.fold_some(busy=False):
                pass
            if following.settle(closed, accounts, START + tick + 1.0):
                self._check(ledger, accounts)
            ledger.settle()
            if sweep % 30 == 0:
                most.at_least(_kept(accounts, following, catalogues.of(closed, following.identities).count))
            if tick % HOUR == 0:
                yield most
                most = Kept()
        ledger.close()

    def _moved(self, sweep: int) -> dict[bytes, int]:
        """Return what the jobs that do something now have written."""
        begun = range((sweep - 1) * INTERVAL * JOBS_A_DAY // 86_400, sweep * INTERVAL * JOBS_A_DAY // 86_400)
        for number in begun:
            end = sweep * INTERVAL + self._rng.randrange(60, HOUR)
            self._jobs[b"%d" % (4_000_000 + number)] = _Job(begun=sweep * INTERVAL, end=end)
        moved = {}
        for number, (name, job) in enumerate(self._jobs.items()):
            if job.end > sweep * INTERVAL and ((sweep + number) % _MOVES_EVERY == 0 or not job.written):
                job.written += self._rng.randrange(1, 4)
                job.gone_at = sweep * INTERVAL + _EVICTED_AFTER
                moved[name] = job.written
        return moved

    def _gone(self, tick: int) -> list[bytes]:
        return [name for name, job in self._jobs.items() if tick - INTERVAL < job.gone_at <= tick]

    def _table(self, sweep: int) -> JobTable:
        """Return what Slurm says of jobs that began or ended since the last sweep."""
        tick = sweep * INTERVAL
        told = [
            SlurmJob(
                id=int(name),
                name=f"step {int(name) % 1000}",
                user=f"user{int(name) % _USERS}",
                group="users",
                account=f"account{int(name) % _ACCOUNTS}",
                partition="batch",
                state="RUNNING" if job.end > tick else "COMPLETED",
                submit_seconds=START + job.begun - INTERVAL,
                nodes=1 + int(name) % 16,
            )
            for name, job in self._jobs.items()
            if job.begun == tick or tick - INTERVAL < job.end <= tick
        ]
        for one in told:
            job = self._jobs[b"%d" % one.id]
            one.start_seconds, one.end_seconds = START + job.begun, START + job.end if one.state == "COMPLETED" else 0
        return JobTable(last=True, jobs=told, health=SlurmHealth(answered_seconds=START + tick))

    def _check(self, ledger: Ledger, accounts: Accounts) -> None:
        """Compare the records of jobs that were let go with what these did."""
        here = {job for table in accounts._sweeps._tables.values() for job in table.jobs}  # noqa: SLF001
        over = {JobName("vu", name): job for name, job in self._jobs.items() if job.written and name not in here}
        for name, records in ledger.records_of(list(over)).items():
            self.finished += 1
            del self._jobs[name.job]
            [record] = records
            done = record["filesystems"]["home"]["ost"]["ops"]["write_bytes"]["samples"]
            mine, number = over[name], int(name.job)
            facts = {
                "user": f"user{number % _USERS}",
                "account": f"account{number % _ACCOUNTS}",
                "slurm_state": "COMPLETED",
                "start": START + mine.begun,
                "end_seconds": START + mine.end,
                "late": False,
                "ambiguous_resets": 0,
            }
            if done != mine.written * len(TARGETS) or any(record[fact] != true for fact, true in facts.items()):
                self.wrong.append(f"{name} wrote {mine.written * len(TARGETS)}, {facts}: {record}")


def _kept(accounts: Accounts, following: Following, numbered: int) -> Kept:
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
        followed=len(following._met),  # noqa: SLF001
        told=len(following.facts()["vu"].jobs),
        remembered=len(following.identities._told),  # noqa: SLF001
        resident_bytes=int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE,
    )
