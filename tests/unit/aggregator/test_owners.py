"""What an account's user did: over runs that are cut off, jobs that are let go, and restarts, it only grows."""

from pathlib import Path

import pytest

from harvest_aggregator.catalogue import Catalogues
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.owners import Owner
from harvest_aggregator.published import Published
from harvest_aggregator.sinks.prometheus_series import Series
from harvest_aggregator.sinks.prometheus_shares import users
from harvest_core.accounting.sweeps import Place
from harvest_core.jobs.identity import JobName
from harvest_core.jobs.life import SETTLED_SECONDS
from harvest_site.loading import load
from support.deliveries import START, Writer
from unit.aggregator.houses import MIB, SITE, House

JANE, MOVED = ("dark", "jane"), ("light", "jane")
LATER = START + SETTLED_SECONDS + 700


def written(house: House, who: tuple[str, str] = JANE) -> int:
    """Return how many MiB all of Jane's jobs wrote, of one of her accounts."""
    assert house.closed is not None
    here = house.following
    _, earlier, owners = here.told()
    source = Published(
        tick_seconds=house.closed.tick_seconds,
        closed=house.closed,
        identities=here.identities,
        clusters=here.facts(),
        owners=owners,
        owned=here.owned,
    )
    catalogue = Catalogues().of(house.closed, here.identities, earlier)
    picture = users(source, catalogue, everybody=True)
    series = Series(mode="all", limit=10)
    done = picture.begin([who])[who]
    assert picture.totals(series).total.tolist() == [], "nobody is shown yet"
    assert set(picture.new) <= {JANE, MOVED}
    return done.get(("home", "vu", "write_bytes", ""), 0) // MIB


def test_all_jobs_count_those_that_are_over_too(tmp_path: Path) -> None:
    house, agent = House(tmp_path / "ledger.db"), Writer()
    house.slurm(7, "COMPLETED", end=START)
    house.slurm(8, "RUNNING")
    house.sweep(agent, START + 20, j7=5, j8=2, j9=1)
    assert written(house) == 7
    house.sweep(agent, LATER, j8=3)
    house.sweep(agent, LATER + 20, j8=4)
    assert house.jobs() == {b"8", b"9"}
    assert written(house) == 9
    house.ledger.close()

    house = House(tmp_path / "ledger.db")
    house.sweep(agent, LATER + 40, j8=5)
    assert written(house) == 10, "before Slurm has said anything again"
    house.ledger.close()


def test_a_run_that_is_cut_off_counts_once(tmp_path: Path) -> None:
    house, agent = House(tmp_path / "ledger.db"), Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    house.slurm(7, "RUNNING", start=START + 30)
    house.sweep(agent, START + 40, j7=9)
    assert written(house) == 9
    assert house.following.owned != {}
    house.ledger.close()

    house = House(tmp_path / "ledger.db")
    house.sweep(agent, START + 60, j7=11)
    assert written(house) == 11
    house.ledger.close()


def test_a_requeued_job_that_waits_is_still_its_owners(tmp_path: Path) -> None:
    house, agent = House(tmp_path / "ledger.db"), Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    house.slurm(7, "PENDING", start=0)
    house.sweep(agent, START + 40, j7=6)
    house.ledger.close()

    house = House(tmp_path / "ledger.db")
    house.sweep(agent, START + 60, j7=6)
    assert written(house) == 6
    house.ledger.close()


def test_a_run_that_ends_before_the_first_sweep_after_a_restart_stays_its_users(tmp_path: Path) -> None:
    house, agent = House(tmp_path / "ledger.db"), Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    assert written(house) == 5
    house.ledger.close()

    house = House(tmp_path / "ledger.db")
    house.slurm(7, "RUNNING", start=START + 30)
    house.sweep(agent, START + 40, j7=9)
    assert written(house) == 9
    house.ledger.close()


def test_a_job_that_is_moved_to_another_account_stays_whose_it_was_until_its_next_run(tmp_path: Path) -> None:
    house, agent = House(tmp_path / "ledger.db"), Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    house.slurm(7, "RUNNING", account="light")
    house.sweep(agent, START + 40, j7=6)
    assert (written(house), written(house, MOVED)) == (6, 0)
    house.ledger.close()

    house = House(tmp_path / "ledger.db")
    house.sweep(agent, START + 60, j7=8)
    assert (written(house), written(house, MOVED)) == (8, 0), "the last word of Slurm is in the ledger, too"
    house.change_site(SITE, START + 70)
    assert house.following.told() == ({}, {}, {}), "nobody has been met again"
    house.sweep(agent, START + 72, j7=8)
    assert written(house) == 8
    house.slurm(7, "RUNNING", start=START + 75, account="light")
    house.sweep(agent, START + 80, j7=12)
    assert (written(house), written(house, MOVED)) == (8, 4)
    house.slurm(7, "RUNNING", start=START + 75)
    house.sweep(agent, START + 100, j7=13)
    house.ledger.close()

    house = House(tmp_path / "ledger.db")
    house.sweep(agent, START + 120, j7=14)
    assert (written(house), written(house, MOVED)) == (8, 6)
    house.ledger.close()


def test_a_job_without_a_start_stays_whose_it_was_too(tmp_path: Path) -> None:
    house, agent = House(tmp_path / "ledger.db"), Writer()
    house.slurm(7, "PENDING", start=0)
    house.sweep(agent, START + 20, j7=5)
    house.slurm(7, "PENDING", start=0, account="light")
    house.sweep(agent, START + 40, j7=6)
    house.ledger.close()

    house = House(tmp_path / "ledger.db")
    house.sweep(agent, START + 60, j7=8)
    assert (written(house), written(house, MOVED)) == (8, 0)
    assert house.following.told()[0] == {}, "nobody knows when it began"
    house.ledger.close()


def test_whose_a_run_is_lasts_though_of_many_facts_only_some_are_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harvest_aggregator.slurm._UNSAVED_AT_ONCE", 2)
    house, agent = House(tmp_path / "ledger.db"), Writer()
    house.sweep(agent, START + 20, j0=1)
    for number in range(1, 6):
        house.slurm(number, "RUNNING")
    house.sweep(agent, START + 40, j1=1, j2=1, j3=1, j4=1, j5=1)
    assert written(house) == 5
    assert len(list(house.ledger.facts())) == 2
    house.ledger.close()

    house = House(tmp_path / "ledger.db")
    house.sweep(agent, START + 60, j1=2)
    assert written(house) == 6
    house.ledger.close()


def test_two_runs_that_are_told_between_two_sweeps_are_both_their_users(tmp_path: Path) -> None:
    house, agent = House(tmp_path / "ledger.db"), Writer()
    house.sweep(agent, START + 20, j7=5)
    house.slurm(7, "RUNNING", start=START)
    house.slurm(7, "RUNNING", start=START + 30)
    house.sweep(agent, START + 40, j7=9)
    assert written(house) == 9


def test_what_is_run_outside_jobs_counts_for_its_user_day_after_day_and_for_no_job(tmp_path: Path) -> None:
    house, agent = House(tmp_path / "ledger.db"), Writer()
    midnight = START - START % 86400 + 86400
    outside = Owner("vu", "", "1000", outside=True)

    def over(here: House) -> int:
        done = here.following.finished.get(outside, {}).get(("home", "OST"), {})
        return done.get(("write_bytes", "bytes"), (0, 0))[1] // MIB

    house.slurm(8, "RUNNING")
    house.sweep(agent, midnight - 40, j8=1, **{"jcp.1000": 5})
    assert over(house) == 0
    house.sweep(agent, midnight + 20, j8=2, **{"jcp.1000": 7})
    assert over(house) == 5
    house.ledger.close()
    house = House(tmp_path / "ledger.db")
    for tick in range(midnight + 40, midnight + 5000, 600):
        house.sweep(agent, tick, j8=3)
    assert b"cp.1000" not in house.jobs()
    assert (over(house), written(house)) == (7, 3)
    assert list(house.ledger.owned()) == [outside]
    house.ledger.close()


def test_a_job_that_shows_on_another_file_system_later_is_its_owners_there_whatever_is_renamed(tmp_path: Path) -> None:
    both = "interval: 20s\nfilesystems: [{name: home, servers: [oss1]}, {name: data, servers: [oss1]}]\nclusters: "
    one = load(f"{both} [{{name: vu, filesystems: [home, data], slurm: {{server: slurm1}}}}]")
    two = load(
        f"{both} [{{name: vu, filesystems: [home], slurm: {{server: slurm1}}}},"
        " {name: vv, filesystems: [data], slurm: {server: slurm2}}]"
    )
    house = House(tmp_path / "ledger.db", one)
    agents = Writer(), Writer(targets=("data-OST0000",), incarnation=b"incarnation-no-2")
    places = frozenset({Place("home", "OST", "home-OST0000"), Place("data", "OST", "data-OST0000")})

    def sweep(tick: int, *moved: dict[bytes, int]) -> None:
        house.accounts.accept(
            [agent.sweep(some, tick=tick) for agent, some in zip(agents, moved, strict=True)], tick + 1.0
        )
        [closed] = house.accounts.close(tick + 1.0, places)
        house.following.take_sweep(closed, tick + 1.0)

    house.slurm(7, "RUNNING")
    sweep(START + 20, {b"7": 5}, {b"8": 1})
    sweep(START + 40, {b"7": 6}, {b"7": 3})
    house.change_site(two, START + 42.0)
    sweep(START + 60, {b"7": 7}, {b"7": 4})
    jane = Owner("vu", "dark", "jane")
    assert house.following.told()[2] == {JobName("vu", b"7"): jane, JobName("vv", b"7"): jane}
    house.ledger.close()


def test_a_read_that_fails_once_makes_nobodys_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house, agent = House(tmp_path / "ledger.db"), Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j8=1)

    def fails(*_: object) -> None:
        raise LedgerError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(house.ledger, "records_of", fails)
        with pytest.raises(LedgerError, match="disk"):
            house.sweep(agent, START + 40, j7=5)
    house.sweep(agent, START + 60, j7=6)
    assert written(house) == 6
    house.ledger.close()
