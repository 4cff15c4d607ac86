"""What watched jobs did on each target only grows: over records that leave, jobs that are let go, and restarts."""

from pathlib import Path

import pytest

from harvest_core.accounting.parking import SURE_READS
from harvest_core.accounting.sweeps import Place
from harvest_core.jobs.identity import Identities, JobName
from harvest_core.jobs.life import SETTLED_SECONDS
from harvest_site.views import job_ids_of
from support.deliveries import INTERVAL, START, Writer
from unit.aggregator.houses import MIB, SITE, House

SEVEN, EIGHT = JobName("vu", b"7"), JobName("vu", b"8")
OST = Place("home", "OST", "home-OST0000")
WRITTEN = ("write_bytes", "bytes")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def opened(path: Path, *watched: JobName, everybody: bool = False) -> House:
    house = House(path)
    house.accounts.watch.begin(Identities(job_ids_of(SITE)))
    house.accounts.watch.everybody = everybody
    house.accounts.watch.add("prom", watched)
    return house


def done(house: House) -> dict[JobName | None, int]:
    """Return how many MiB were written by each that is watched, and by all."""
    totals = house.accounts.by_target(house.accounts.watch.names)[OST]
    column = totals.counters.index(WRITTEN)
    jobs = dict(zip(totals.jobs, totals.job_sums[:, column].tolist(), strict=True))
    return {name: total // MIB for name, total in [*jobs.items(), (None, int(totals.sums[column]))]}


def restarted(house: House, path: Path, *watched: JobName, everybody: bool = False) -> House:
    house.ledger.close()
    return opened(path, *watched, everybody=everybody)


@pytest.mark.parametrize("everybody", [False, True])
def test_records_that_leave_are_kept_of_those_who_are_watched(path: Path, everybody: bool) -> None:  # noqa: FBT001
    house, agent = opened(path, SEVEN, everybody=everybody), Writer()
    house.sweep(agent, START + 20, j7=5, j8=2, j9=1)
    assert done(house)[SEVEN] == 5
    house.accounts.accept([agent.sweep({b"9": 2}, tick=START + 40, gone=[b"7", b"8"])], START + 41.0)
    for read in range(SURE_READS + 1):
        house.accounts.accept([agent.sweep({}, tick=START + 60 + read * INTERVAL)], START + 61.0 + read * INTERVAL)
    house.accounts.fold_all()
    mounts = [mount for stay in house.accounts._targets[OST].account.stays.values() for _, mount in stay.mounts]  # noqa: SLF001
    assert [mount.jobs for mount in mounts] == [[b"9"]], "the others have left"
    expected = {SEVEN: 5, None: 9} | ({EIGHT: 2, JobName("vu", b"9"): 2} if everybody else {})
    assert done(house) == expected
    house.accounts.accept([agent.sweep({b"7": 3}, tick=START + 2000)], START + 2001.0)
    assert (done(house)[SEVEN], done(house)[None]) == (8, 12)
    house = restarted(house, path, SEVEN, everybody=everybody)
    assert done(house) == expected | {SEVEN: 8, None: 12}
    house.ledger.close()


def test_who_is_let_go_stays_until_nobody_watches_it(path: Path) -> None:
    house, agent = opened(path, SEVEN), Writer()
    house.slurm(7, "COMPLETED", end=START)
    house.sweep(agent, START + 20, j7=5, j8=2)
    house.sweep(agent, START + SETTLED_SECONDS + 700, j8=3)
    house.sweep(agent, START + SETTLED_SECONDS + 720, j8=4)
    assert house.jobs() == {b"8"}
    assert done(house) == {SEVEN: 5, None: 9}
    house = restarted(house, path, SEVEN)
    assert done(house) == {SEVEN: 5, None: 9}
    house.accounts.unwatch("prom", [SEVEN])
    assert done(house) == {None: 9}
    house.ledger.close()


def test_where_everybody_is_watched_who_is_let_go_is_forgotten(path: Path) -> None:
    house, agent = opened(path, everybody=True), Writer()
    house.slurm(7, "COMPLETED", end=START)
    house.sweep(agent, START + 20, j7=5, j8=2)
    house.sweep(agent, START + SETTLED_SECONDS + 700, j8=3)
    house.sweep(agent, START + SETTLED_SECONDS + 720, j8=4)
    assert done(house)[None] == 9
    assert house.accounts._targets[OST].tally.left_by == {}  # noqa: SLF001
    house.ledger.close()


def test_a_fold_that_fails_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house, agent = opened(path, SEVEN), Writer()
    house.sweep(agent, START + 20, j7=5)
    house.accounts.accept([agent.sweep({}, tick=START + 40, gone=[b"7"])], START + 41.0)
    for read in range(SURE_READS + 1):
        house.accounts.accept([agent.sweep({}, tick=START + 60 + read * INTERVAL)], START + 61.0 + read * INTERVAL)
    with monkeypatch.context() as patched:
        patched.setattr(type(house.ledger), "fold", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            house.accounts.fold_all()
    assert done(house) == {SEVEN: 5, None: 5}
    house.accounts.fold_all()
    house = restarted(house, path, SEVEN)
    assert done(house) == {SEVEN: 5, None: 5}
    house.ledger.close()


def test_two_may_watch_the_same_job(path: Path) -> None:
    house, agent = opened(path, SEVEN), Writer()
    house.accounts.watch.add("second", [SEVEN])
    house.sweep(agent, START + 20, j7=5)
    house.accounts.unwatch("prom", [SEVEN])
    assert done(house) == {SEVEN: 5, None: 5}
    house.accounts.unwatch("second", [SEVEN])
    assert done(house) == {None: 5}
    house.ledger.close()
