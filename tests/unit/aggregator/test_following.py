"""Jobs from sweep to sweep: requeued ones, numbers that are used again, days of what is run outside jobs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harvest.v1.stream_pb2 import JobTable, SlurmHealth, SlurmJob
from harvest_aggregator.catalogue import Catalogues
from harvest_aggregator.following import Following
from harvest_aggregator.jobs import jobs
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.owners import Owner
from harvest_aggregator.published import Published
from harvest_core.accounting.sweeps import ClosedSweep
from harvest_core.jobs.identity import JobName
from harvest_site.loading import load
from unit.aggregator.publishing import OPEN, READ, TICK, WRITE, Did, published

NOON = 1_700_006_400 - 1_700_006_400 % 86400 + 43200
SITE = load("""
filesystems: [{name: home, servers: [oss1]}]
clusters: [{name: vu, filesystems: [home], slurm: {server: slurm1}}]
""")
NAME = JobName("vu", b"7")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path / "ledger.db")
    made.open()
    yield made
    made.close()


class Site:
    """Jobs followed, as somebody who asks the API sees them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.following = Following(SITE, ledger)
        self.following.load()
        self.closed: ClosedSweep | None = None

    def slurm(self, *told: SlurmJob) -> None:
        self.following.take_table("vu", JobTable(last=True, jobs=told, health=SlurmHealth(answered_seconds=1)))

    def sweep(self, tick: int, did: dict[bytes, Did], metadata: dict[bytes, Did] | None = None) -> None:
        tables = {("home", "OST"): did} | ({("home", "MDT"): metadata} if metadata else {})
        closed = published(tables).closed
        assert closed is not None
        self.closed = replace(closed, tick_seconds=tick)
        self.following.take_sweep(self.closed, tick)

    def shown(self, name: JobName = NAME) -> dict[str, Any]:
        assert self.closed is not None
        here = self.following
        source = Published(
            tick_seconds=self.closed.tick_seconds,
            closed=self.closed,
            identities=here.identities,
            clusters=here.facts(),
            earlier=here.told()[1],
            starts=here.told()[0],
            before=here.before,
        )
        catalogue = Catalogues().of(self.closed, here.identities, here.told()[1])
        (one,) = jobs(source, catalogue, catalogue.on(None)[[catalogue.number[name]]])
        return one

    def records(self, name: JobName = NAME) -> list[dict[str, Any]]:
        return self.ledger.records_of([name]).get(name, [])


def read(amount: int) -> Did:
    return {READ: (1, amount)}


def run(start: int, state: str = "RUNNING", **more: Any) -> SlurmJob:  # noqa: ANN401 - fields
    return SlurmJob(id=7, user="jane", state=state, start_seconds=start, submit_seconds=NOON - 900, **more)


def test_a_requeued_job_is_cut_at_the_last_sweep_before_its_new_start(ledger: Ledger) -> None:
    site = Site(ledger)
    site.slurm(run(NOON))
    site.sweep(NOON + 20, {b"7": read(100)}, {b"7": {OPEN: (3, 30)}})
    site.slurm(run(0, "PENDING", restarts=1))
    site.sweep(NOON + 40, {b"7": read(120)}, {b"7": {OPEN: (3, 30)}})  # written back after its end
    site.sweep(NOON + 60, {b"7": {READ: (2, 500), WRITE: (1, 9)}}, {b"7": {OPEN: (4, 40)}})  # of the new one
    site.slurm(run(NOON + 45, restarts=1))
    site.sweep(NOON + 80, {b"7": {READ: (3, 600), WRITE: (1, 9)}}, {b"7": {OPEN: (4, 40)}})

    now = site.shown()
    assert (now["start"], now["late"]) == (NOON + 45, False)
    assert now["filesystems"]["home"]["ost"]["read_bytes"] == 480
    assert now["filesystems"]["home"]["ost"]["ops"]["read_bytes"] == {"samples": 2, "sum": 480}
    assert now["filesystems"]["home"]["ost"]["write_bytes"] == 9
    assert now["filesystems"]["home"]["mdt"]["iops"] == 1
    (earlier,) = site.records()
    assert (earlier["start"], earlier["user"], earlier["state"]) == (NOON, "jane", "final")
    assert (earlier["slurm_state"], earlier["end_seconds"]) == ("REQUEUED", None)
    assert earlier["last_tick_seconds"] == TICK - 60
    assert earlier["filesystems"]["home"]["ost"]["read_bytes"] == 120
    assert earlier["filesystems"]["home"]["mdt"]["ops"] == {"open": {"samples": 3, "sum": 30}}


def test_of_an_earlier_run_accounting_knows_the_end(ledger: Ledger) -> None:
    site = Site(ledger)
    site.slurm(run(NOON))
    site.sweep(NOON + 20, {b"7": read(100)})
    waits = run(0, "PENDING", restarts=1)
    waits.submit_seconds = NOON + 25
    site.slurm(waits)
    site.slurm(run(NOON, "REQUEUED", end_seconds=NOON + 25, exit_code="0:9"))
    site.sweep(NOON + 40, {b"7": read(100)})
    again = run(NOON + 45, restarts=1)
    again.submit_seconds = NOON + 25
    site.slurm(again)
    site.sweep(NOON + 60, {b"7": read(150)})

    (earlier,) = site.records()
    assert (earlier["slurm_state"], earlier["end_seconds"], earlier["exit_code"]) == ("REQUEUED", NOON + 25, "0:9")
    assert earlier["filesystems"]["home"]["ost"]["read_bytes"] == 100


def test_two_runs_of_which_nobody_heard_before_the_second_are_cut_where_that_began(ledger: Ledger) -> None:
    site = Site(ledger)
    site.sweep(NOON + 20, {b"7": read(100)})
    site.slurm(run(NOON))
    site.slurm(run(NOON + 30, restarts=1))
    site.sweep(NOON + 40, {b"7": read(150)})

    assert (site.shown()["start"], site.shown()["filesystems"]["home"]["ost"]["read_bytes"]) == (NOON + 30, 50)
    (earlier,) = site.records()
    assert (earlier["start"], earlier["filesystems"]["home"]["ost"]["read_bytes"]) == (NOON, 100)


def test_an_earlier_run_before_all_that_was_ever_seen_has_no_part_in_it(ledger: Ledger) -> None:
    site = Site(ledger)
    site.slurm(run(NOON))
    site.slurm(run(NOON + 10, restarts=1))
    site.sweep(NOON + 20, {b"7": read(100)})
    site.sweep(NOON + 40, {b"7": read(150)})

    assert site.shown()["filesystems"]["home"]["ost"]["read_bytes"] == 150
    assert site.records() == []


def test_three_runs_are_three(ledger: Ledger) -> None:
    site = Site(ledger)
    for number in range(3):
        site.slurm(run(NOON + 100 * number, restarts=number))
        site.sweep(NOON + 100 * number + 20, {b"7": read(10 ** (number + 1) * (number + 1))})
    assert site.shown()["filesystems"]["home"]["ost"]["read_bytes"] == 3000 - 200
    assert [one["filesystems"]["home"]["ost"]["read_bytes"] for one in site.records()] == [200 - 10, 10]


def test_a_cut_survives_a_restart(ledger: Ledger) -> None:
    site = Site(ledger)
    site.slurm(run(NOON))
    site.sweep(NOON + 20, {b"7": read(100)})
    site.slurm(run(NOON + 30, restarts=1))
    site.sweep(NOON + 40, {b"7": read(150)})
    again = Site(ledger)
    again.sweep(NOON + 60, {b"7": read(170)})
    assert again.shown()["start"] == NOON + 30
    assert again.shown()["filesystems"]["home"]["ost"]["read_bytes"] == 70
    again.slurm(run(NOON + 30, restarts=1))
    again.sweep(NOON + 80, {b"7": read(175)})
    assert again.shown()["filesystems"]["home"]["ost"]["read_bytes"] == 75
    assert len(again.records()) == 1


def test_what_is_run_outside_jobs_begins_anew_each_day(ledger: Ledger) -> None:
    name = JobName("vu", b"cp.1000")
    site = Site(ledger)
    site.sweep(NOON, {b"cp.1000": read(100)})
    midnight = NOON + 43200
    site.sweep(midnight, {b"cp.1000": read(130)})
    site.sweep(midnight + 20, {b"cp.1000": read(131), b"mv.1000": read(1)})
    assert site.shown(name)["filesystems"]["home"]["ost"]["read_bytes"] == 1
    assert site.shown(name)["start"] == midnight
    (yesterday,) = site.records(name)
    assert (yesterday["start"], yesterday["process"]) == (NOON - 43200, "cp")
    assert yesterday["filesystems"]["home"]["ost"]["read_bytes"] == 130


def test_a_job_that_shows_again_after_its_record_is_shown_with_it(ledger: Ledger) -> None:
    first = Site(ledger)
    first.slurm(run(NOON))
    first.sweep(NOON + 20, {b"7": read(100)})
    ledger.write_runs((), [{**first.shown(), "state": "final"}], NOON)
    again = Site(ledger)
    again.slurm(run(NOON, "COMPLETED"))
    again.sweep(NOON + 5000, {b"7": read(11)})
    now = again.shown()
    assert (now["late"], now["filesystems"]["home"]["ost"]["read_bytes"]) == (True, 111)


def test_but_not_with_that_of_an_earlier_job_of_the_same_number(ledger: Ledger) -> None:
    first = Site(ledger)
    first.slurm(run(NOON))
    first.sweep(NOON + 20, {b"7": read(100)})
    ledger.write_runs((), [{**first.shown(), "state": "final"}], NOON)
    with ledger.transaction() as connection:  # as when a job is forgotten
        connection.exec_driver_sql("DELETE FROM run")
    again = Site(ledger)
    again.slurm(run(NOON + 86400))
    again.sweep(NOON + 86420, {b"7": read(11)})
    now = again.shown()
    assert (now["late"], now["filesystems"]["home"]["ost"]["read_bytes"]) == (False, 11)


def test_what_was_told_of_runs_stays_as_it_was(ledger: Ledger) -> None:
    site = Site(ledger)
    site.slurm(run(NOON))
    site.sweep(NOON + 20, {b"7": read(100)})
    starts, earlier, owners = site.following.told()
    site.slurm(run(NOON + 30, restarts=1))
    site.sweep(NOON + 40, {b"7": read(150)})
    assert (starts, earlier, owners) == ({NAME: NOON}, {}, {NAME: Owner("vu", "", "jane")})
    assert site.following.told()[0] == {NAME: NOON + 30}


def test_a_changed_site_does_not_move_the_place_of_a_cut(ledger: Ledger) -> None:
    site = Site(ledger)
    site.slurm(run(NOON))
    site.sweep(NOON + 20, {b"7": read(100)})
    site.sweep(NOON + 40, {b"7": read(150)})  # of the next run, of which nobody told yet
    site.following.change_site(SITE)
    site.slurm(run(NOON + 30, restarts=1))
    site.sweep(NOON + 60, {b"7": read(170)})
    assert site.shown()["filesystems"]["home"]["ost"]["read_bytes"] == 70
    assert [one["filesystems"]["home"]["ost"]["read_bytes"] for one in site.records()] == [100]
