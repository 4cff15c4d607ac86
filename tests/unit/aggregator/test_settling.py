"""Jobs that are over: one final record, nothing left in memory, and late work that is added and marked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harvest_aggregator.catalogue import Catalogues
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.inventory import filesystems
from harvest_aggregator.published import Published
from harvest_core.jobs.identity import JobName
from harvest_core.jobs.life import FORGOTTEN_SECONDS, SETTLED_SECONDS
from support.deliveries import INTERVAL, START, Writer
from unit.aggregator.houses import MIB, SITE, House, written

LATER = SETTLED_SECONDS + 700
"""Also the next time that anybody looks."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def house(path: Path) -> Iterator[House]:
    made = House(path)
    yield made
    made.ledger.close()


def test_a_job_that_ended_has_one_record_when_nothing_came_for_a_while(house: House) -> None:
    agent = Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5, j8=1)
    house.slurm(7, "COMPLETED", end=START + 30)
    house.sweep(agent, START + 40, j7=6)
    house.sweep(agent, START + SETTLED_SECONDS, j8=2)
    assert house.records(b"7") == []
    house.sweep(agent, START + LATER, j8=3)
    house.sweep(agent, START + LATER + INTERVAL, j8=4)

    (record,) = house.records(b"7")
    assert (written(record), record["user"], record["state"], record["late"]) == (6, "jane", "final", False)
    assert (record["start"], record["end_seconds"], record["slurm_state"]) == (START, START + 30, "COMPLETED")
    assert record["last_tick_seconds"] == START + 40
    assert house.jobs() == {b"8"}


def test_whoever_is_let_go_is_named_until_the_next_sweep(house: House) -> None:
    agent = Writer()
    house.slurm(7, "COMPLETED", end=START)
    house.sweep(agent, START + 20, j7=5, j8=1)
    house.sweep(agent, START + LATER, j8=2)
    assert house.following.over == {JobName("vu", b"7")}
    house.sweep(agent, START + LATER + 20, j8=3)
    assert house.following.over == frozenset()


def test_late_work_is_added_once_and_marked_also_over_a_restart(house: House, path: Path) -> None:
    agent = Writer()
    house.slurm(7, "COMPLETED", end=START)
    house.sweep(agent, START + 20, j7=5)
    house.sweep(agent, START + LATER)
    house.sweep(agent, START + LATER + INTERVAL, j7=9)  # Lustre still had its record, and counted on
    assert house.jobs() == {b"7"}
    house.ledger.close()

    again = House(path)
    again.slurm(7, "COMPLETED", end=START)
    again.sweep(agent, START + 2 * LATER, j8=1)
    again.sweep(agent, START + 3 * LATER + INTERVAL, j8=2)
    again.sweep(agent, START + 4 * LATER + INTERVAL, j8=3)
    (record,) = again.records(b"7")
    assert (written(record), record["late"]) == (9, True)
    again.ledger.close()


def test_a_requeued_job_settles_as_two_runs(house: House) -> None:
    agent = Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    house.slurm(7, "RUNNING", start=START + 30)
    house.sweep(agent, START + 40, j7=8)
    house.slurm(7, "FAILED", start=START + 30, end=START + 50)
    house.sweep(agent, START + LATER, j8=1)
    house.sweep(agent, START + 2 * LATER, j8=2)
    assert [(one["start"], written(one)) for one in house.records(b"7")] == [(START + 30, 3), (START, 5)]
    assert house.following.runs.cuts == {}
    assert list(house.ledger.runs()) == []


def test_what_nobody_follows_settles_half_an_hour_after_its_last_work(house: House) -> None:
    agent = Writer()
    house.sweep(agent, START + 20, jstrange=5)
    house.sweep(agent, START + FORGOTTEN_SECONDS)
    assert house.records(b"strange") == []
    house.sweep(agent, START + FORGOTTEN_SECONDS + 620)
    (record,) = house.records(b"strange")
    assert (written(record), record["user"], record["slurm_state"]) == (5, None, None)


def test_a_quiet_job_that_slurm_runs_is_never_let_go(house: House) -> None:
    agent = Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    for days in range(1, 9):
        house.sweep(agent, START + days * 86400)
    assert house.records(b"7") == []
    house.sweep(agent, START + 9 * 86400)
    assert house.jobs() == {b"7"}


def test_a_program_that_rests_and_goes_on_has_all_of_its_day_in_one_record(house: House) -> None:
    agent = Writer()
    midnight = START - START % 86400 + 86400
    program = {"jcp.1000": 5}
    house.sweep(agent, midnight - 9000, **program)
    house.sweep(agent, midnight - 6000)
    (record,) = house.records(b"cp.1000")
    assert written(record) == 5
    house.sweep(agent, midnight - 40, **{"jcp.1000": 7})
    house.sweep(agent, midnight + 20, **{"jcp.1000": 8})
    (record,) = house.records(b"cp.1000")
    assert (written(record), record["start"]) == (7, midnight - 86400)


def test_a_number_used_again_after_late_work_of_the_former_job_costs_that_nothing(house: House) -> None:
    agent = Writer()
    house.slurm(7, "COMPLETED", end=START)
    house.sweep(agent, START + 20, j7=5)
    house.sweep(agent, START + LATER)
    house.slurm(7, "COMPLETED", end=START)
    house.sweep(agent, START + LATER + 20, j7=9)
    house.slurm(7, "RUNNING", start=START + LATER + 30)
    house.sweep(agent, START + LATER + 40, j7=11)
    (record,) = house.records(b"7")
    assert (written(record), record["start"], record["late"]) == (9, START, True)


def test_what_could_not_be_written_of_a_run_is_not_written_after_its_job_is_over(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    house.slurm(7, "FAILED", start=START + 30, end=START + 40)
    monkeypatch.setattr(house.ledger, "write_runs", full_disk)
    with pytest.raises(LedgerError):
        house.sweep(agent, START + 40, j7=8)
    assert house.closed is not None
    with pytest.raises(LedgerError):
        house.following.settle(house.closed, house.accounts, START + LATER)
    monkeypatch.undo()
    house.sweep(agent, START + 2 * LATER, j8=1)
    house.sweep(agent, START + 2 * LATER + 20, j8=2)
    assert [(one["start"], written(one)) for one in house.records(b"7")] == [(START + 30, 3), (START, 5)]
    assert list(house.ledger.runs()) == []


def test_another_site_does_not_cost_what_could_not_be_written_yet(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    house.slurm(7, "RUNNING", start=START + 30)
    monkeypatch.setattr(house.ledger, "write_runs", full_disk)
    with pytest.raises(LedgerError):
        house.sweep(agent, START + 40, j7=8)
    house.following.change_site(SITE)
    monkeypatch.undo()
    house.sweep(agent, START + 60, j7=9)
    assert [(one["start"], written(one)) for one in house.records(b"7")] == [(START, 5)]
    assert house.following.runs.cuts["home", b"7"] == {("home", "OST"): {("write_bytes", "bytes"): (5, 5 * MIB)}}


def full_disk(*_: object) -> None:
    raise LedgerError("the disk is full")


def test_the_last_of_a_table_that_is_let_go_and_comes_again_is_followed_again(house: House) -> None:
    agent = Writer()
    house.slurm(7, "COMPLETED", end=START)
    house.sweep(agent, START + 20, j7=5)
    house.sweep(agent, START + LATER)
    house.sweep(agent, START + LATER + 20, j7=9)
    assert [written(one) for one in house.following.before[JobName("vu", b"7")]] == [5]


def test_a_server_whose_clock_is_behind_ends_no_job(house: House) -> None:
    """What it says is of ticks long ago, and is done now."""
    agent, behind = Writer(), Writer(name="oss2", boot_id="boot-2", targets=("home-OST0001",))
    now = START
    for step in range(1, 8):
        now = START + step * 600
        house.accounts.accept([behind.sweep({b"slow": step}, tick=now - 7200)], now + 0.5)
        house.sweep(agent, now, j8=step)
    assert house.records(b"slow") == []
    assert b"slow" in house.jobs()
    assert house.state(b"slow") == "running"
    house.sweep(agent, now + 20, j8=9)
    assert house.state(b"slow") == "running"
    house.sweep(agent, now + 600, j8=10)
    assert house.state(b"slow") == "quiet"


def test_who_did_nothing_for_long_is_not_at_work_because_the_aggregator_began_anew(house: House, path: Path) -> None:
    agent = Writer()
    house.sweep(agent, START + 20, jstrange=5, j8=1)
    house.sweep(agent, START + 1000, j8=2)
    assert house.state(b"strange") == "quiet"
    house.ledger.close()
    again = House(path)
    again.sweep(agent, START + 1020, j8=3)
    assert (again.state(b"strange"), again.state(b"8")) == ("quiet", "running")
    again.sweep(agent, START + 1040, j8=4, jstrange=6)
    assert again.state(b"strange") == "running"
    again.ledger.close()


def test_a_program_that_rests_since_before_midnight_has_no_record_of_the_new_day(house: House) -> None:
    agent = Writer()
    midnight = START - START % 86400 + 86400
    house.sweep(agent, midnight - 40, **{"jcp.1000": 5})
    for tick in range(midnight + 20, midnight + 5000, 600):
        house.sweep(agent, tick)
    (record,) = house.records(b"cp.1000")
    assert (record["start"], written(record), record["late"]) == (midnight - 86400, 5, False)
    assert house.jobs() == set()


def test_what_a_file_system_did_does_not_fall_when_jobs_are_let_go(house: House, path: Path) -> None:
    agent = Writer()

    def whole(one: House) -> int:
        source = Published(closed=one.closed, let_go=one.following.let_go, identities=one.following.identities)
        (home,) = filesystems(SITE, source, Catalogues().of(one.closed, one.following.identities))
        amount: int = home["ost"]["write_bytes"]
        return amount // MIB

    house.slurm(7, "COMPLETED", end=START)
    told = []
    for step, (tick, done) in enumerate([(20, {"j7": 5}), (LATER, {"j8": 1}), (2 * LATER, {"j8": 2}), (3 * LATER, {})]):
        house.sweep(agent, START + tick, **done)
        told.append((step, whole(house)))
    assert told == [(0, 5), (1, 6), (2, 7), (3, 7)]
    assert house.records(b"7") != []
    house.ledger.close()
    again = House(path)
    again.sweep(agent, START + 4 * LATER, j8=3)
    assert whole(again) == 8
    again.ledger.close()


def test_what_slurm_said_of_jobs_outlives_the_aggregator_and_leaves_with_them(house: House, path: Path) -> None:
    agent = Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    house.ledger.close()
    again = House(path)  # and Slurm is away
    for tick in range(START + 40, START + 8000, 600):
        again.sweep(agent, tick, j8=tick)
    assert again.records(b"7") == []
    assert again.state(b"7") == "quiet"
    assert again.following.facts()["vu"].jobs[7].account == "dark"
    again.slurm(7, "COMPLETED", end=START + 50)
    again.sweep(agent, START + 9000, j8=9000)
    (record,) = again.records(b"7")
    assert (record["user"], record["account"], record["slurm_state"]) == ("jane", "dark", "COMPLETED")
    assert list(again.ledger.facts()) == []
    again.ledger.close()
