"""Accounts and those who follow jobs, without threads: sweeps come when a test says so."""

from pathlib import Path
from typing import Any

from harvest.v1.stream_pb2 import JobTable, SlurmHealth, SlurmJob
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.catalogue import Catalogues
from harvest_aggregator.following import Following
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.people import People
from harvest_aggregator.published import Published
from harvest_core.accounting.sweeps import ClosedSweep, Place
from harvest_core.jobs.identity import JobName
from harvest_site.loading import load
from harvest_site.model import Site
from support.deliveries import START, Writer

SITE = load("""
interval: 20s
filesystems: [{name: home, servers: [oss1, oss2]}]
clusters: [{name: vu, filesystems: [home], slurm: {server: slurm1}}]
""")
MIB = 1 << 20


class House:
    """Accounts and those who follow jobs, on one ledger."""

    def __init__(self, path: Path, site: Site = SITE) -> None:
        self.ledger = Ledger(path)
        self.ledger.open()
        self.accounts = Accounts(self.ledger, site)
        self.accounts.load(START)
        self.following = Following(site, self.ledger)
        self.following.load()
        self.closed: ClosedSweep | None = None

    def change_site(self, site: Site, now: float) -> None:
        self.accounts.change_site(site, now)
        self.following.change_site(site)

    def slurm(
        self,
        number: int,
        state: str,
        *,
        end: int = 0,
        start: int = START,
        cluster: str = "vu",
        account: str = "dark",
        user: str = "jane",
    ) -> None:
        told = SlurmJob(id=number, user=user, account=account, state=state, start_seconds=start, end_seconds=end)
        table = JobTable(last=True, jobs=[told], health=SlurmHealth(answered_seconds=START))
        self.following.take_table(cluster, table)

    def sweep(self, agent: Writer, tick: int, **written: int) -> None:
        moved = {name.removeprefix("j").encode(): amount for name, amount in written.items()}
        self.accounts.accept([agent.sweep(moved, tick=tick)], tick + 1.0)
        [self.closed] = self.accounts.close(tick + 1.0, frozenset({Place("home", "OST", "home-OST0000")}))
        self.following.take_sweep(self.closed, tick + 1.0)
        self.following.settle(self.closed, self.accounts, tick + 1.0)

    def jobs(self) -> set[bytes]:
        assert self.closed is not None
        return {job for table in self.closed.tables.values() for job in table.jobs}

    def state(self, job: bytes, cluster: str = "vu") -> str:
        """Return what somebody is told that a job is doing."""
        assert self.closed is not None
        here = self.following
        starts, earlier, _ = here.told()
        source = Published(
            tick_seconds=self.closed.tick_seconds,
            closed=self.closed,
            identities=here.identities,
            clusters=here.facts(),
            earlier=earlier,
            starts=starts,
            first_tick=here.first_tick,
        )
        catalogue = Catalogues().of(self.closed, here.identities, earlier)
        return People(source, catalogue).state(catalogue.number[JobName(cluster, job)])

    def records(self, job: bytes, cluster: str = "vu") -> list[dict[str, Any]]:
        name = JobName(cluster, job)
        return self.ledger.records_of([name]).get(name, [])


def written(record: dict[str, Any]) -> int:
    amount: int = record["filesystems"]["home"]["ost"]["write_bytes"]
    return amount // MIB
