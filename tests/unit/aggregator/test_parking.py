"""Rows leave with a fold, jobs when they are over: killed anywhere, nothing is lost or doubled."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert, text

from harvest_aggregator import parking
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Ledger, ParkedKey
from harvest_aggregator.parking import Parked
from harvest_aggregator.published import InDoubt
from harvest_aggregator.tables import meta
from harvest_core.accounting.mounts import MountState
from harvest_core.accounting.parking import JobSum, park
from harvest_core.accounting.totals import JobTable
from harvest_site.loading import load
from support.deliveries import INTERVAL, SITE, START, Writer
from unit.aggregator.test_keeping_accounts import MIB, NOBODY, House

Told = dict[bytes, tuple[int, int]]
"""Per job: MiB written, and when it last did anything."""
SURE = (2, 17, 0)
WRITTEN = ("write_bytes", "bytes")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows leave after one read in which they are surely absent."""
    monkeypatch.setattr(parking, "park", partial(park, sure_reads=1, unsure_reads=3))


def told(accounts: Accounts) -> Told:
    """Return all that jobs did, as the next sweep would show it if nothing more came."""
    table = accounts._sweeps._tables.get((("home", "OST"), False), JobTable())  # noqa: SLF001
    column = table.counters.get(WRITTEN, 0)
    return {
        job: (int(table.sums[row, column]) // MIB, int(table.last_tick[row]) - START) for job, row in table.jobs.items()
    }


def after_a_restart(path: Path) -> Told:
    """Return what a process would tell that begins with the ledger as it is now."""
    copy = path.with_suffix(".copy")
    for suffix in ("", "-wal"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            copy.with_name(copy.name + suffix).write_bytes(part.read_bytes())
    ledger = Ledger(copy)
    ledger.open()
    accounts = Accounts(ledger, load(SITE))
    accounts.load(NOW)
    ledger.close()
    for left in copy.parent.glob(copy.name + "*"):
        left.unlink()
    return told(accounts)


def mounts(house: House) -> list[MountState]:
    targets = house.accounts._targets.values()  # noqa: SLF001 - what is in memory
    return [mount for kept in targets for stay in kept.account.stays.values() for _, mount in stay.mounts]


def nothing(connection: Connection, taken: Mapping[ParkedKey, Parked]) -> None:
    del connection, taken


def played(path: Path) -> tuple[House, Writer]:
    """Return a house in which job 7 is over and 8 goes on, each on two targets; nothing is folded yet."""
    house, agent = House(path), Writer(targets=("home-OST0000", "home-OST0001"), version=SURE)
    house.take(agent.sweep({b"7": 3, b"8": 1}))
    house.take(agent.sweep({b"8": 2}, gone=[b"7"]))
    return house, agent


NOW = START + 600.0
BOTH = {b"7": (6, 20), b"8": (4, 40)}


def test_what_has_left_is_in_the_ledger_and_in_every_total(path: Path) -> None:
    house, agent = played(path)
    assert [mount.jobs for mount in mounts(house)] == [[b"7", b"8"]] * 2
    assert after_a_restart(path) == BOTH
    house.accounts.fold_all()

    assert [mount.jobs for mount in mounts(house)] == [[b"8"]] * 2
    assert after_a_restart(path) == BOTH
    house.take(agent.sweep({b"8": 3}))
    agent.start_seconds = START + 70
    house.take(agent.sweep({b"7": 5, b"8": 3}))
    house.accounts.fold_all()
    expected = {b"7": (16, 80), b"8": (6, 60)}
    assert after_a_restart(path) == expected
    assert told(house.accounts) == expected
    house.ledger.close()


def test_clients_do_not_leave(path: Path) -> None:
    house, _ = played(path)
    for place in list(house.accounts._targets):  # noqa: SLF001
        kept = house.accounts._targets.pop(place)  # noqa: SLF001
        house.accounts._targets[place._replace(of_clients=True)] = kept  # noqa: SLF001
    house.accounts.fold_all()

    assert [mount.jobs for mount in mounts(house)] == [[b"7", b"8"]] * 2
    house.ledger.close()


class _Died(BaseException):
    """The process ends here."""


def died(do: Callable[[], object], statements: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Do something that ends after so many statements; tell whether it did not come to its end."""
    left = count(statements, -1)
    execute: Any = Connection.execute

    def mortal(connection: Connection, *what: object) -> object:
        if next(left) == 0:
            raise _Died
        return execute(connection, *what)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "execute", mortal)
        try:
            do()
        except _Died:
            return True
    return False


def test_killed_between_any_two_statements_of_a_fold_nothing_is_lost_or_doubled(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for statements in count():
        path.unlink(missing_ok=True)
        house, agent = played(path)
        is_dead = died(house.accounts.fold_all, statements, monkeypatch)
        assert after_a_restart(path) == BOTH
        house.accounts.fold_all()  # had it only failed: what left memory is still to be parked
        assert after_a_restart(path) == BOTH
        house.take(agent.sweep({b"8": 2}))
        assert told(house.accounts) == BOTH
        house.ledger.close()
        if not is_dead:
            break
    assert statements > 8


def test_killed_between_any_two_statements_of_forgetting_a_job_is_there_or_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def final(connection: Connection, taken: Mapping[ParkedKey, Parked]) -> None:
        for key, parked in taken.items():
            samples, _ = parked.done.counters[WRITTEN]
            connection.execute(insert(meta).values(name=f"final {key.job.decode()}", value=str(samples)))

    for statements in count():
        path.unlink(missing_ok=True)
        house, _ = played(path)
        gone = [("home", b"7"), ("home", b"8")]
        is_dead = died(partial(house.accounts.forget, gone, final), statements, monkeypatch)
        assert after_a_restart(path) == told(house.accounts) == (BOTH if is_dead else {})
        house.accounts.forget(gone if is_dead else [], final)
        with house.ledger.transaction() as connection:
            written = connection.execute(text("select name, value from meta where name like 'final%'")).all()
        assert {tuple(row) for row in written} == {("final 7", "6"), ("final 8", "4")}
        assert after_a_restart(path) == told(house.accounts) == {}
        house.ledger.close()
        if not is_dead:
            break
    assert statements > 12


def test_a_job_that_is_over_leaves_everything_and_counts_only_what_comes_later(path: Path) -> None:
    house, agent = played(path)
    taken: dict[ParkedKey, Parked] = {}
    house.accounts.fold_all()
    assert house.accounts.forget([("home", b"7"), ("data", b"7")], lambda _, found: taken.update(found)) == {
        ("home", b"7"),
        ("data", b"7"),
    }
    assert taken == {ParkedKey("home", "OST", b"7"): Parked(JobSum({WRITTEN: (6, 6 * MIB)}, last_tick=START + 20))}
    assert after_a_restart(path) == {b"8": (4, 40)}

    agent.start_seconds = START + 50
    house.take(agent.sweep({b"7": 1, b"8": 2}))
    expected = {b"7": (2, 60), b"8": (4, 40)}
    assert after_a_restart(path) == expected
    assert told(house.accounts) == expected
    house.ledger.close()


def test_of_a_job_that_has_records_only_what_comes_later_is_counted(path: Path) -> None:
    house, agent = played(path)
    taken: dict[ParkedKey, Parked] = {}
    house.accounts.forget([("home", b"7"), ("home", b"8")], lambda _, found: taken.update(found))

    assert {key.job: parked.done.counters[WRITTEN][0] for key, parked in taken.items()} == {b"7": 6, b"8": 4}
    assert told(house.accounts) == after_a_restart(path) == {}
    house.take(agent.sweep({b"8": 7}, tick=START + 400))
    expected = {b"8": (10, 400)}
    assert after_a_restart(path) == expected
    assert told(house.accounts) == expected
    house.ledger.close()


def test_a_job_that_an_open_sweep_has_work_of_stays(path: Path) -> None:
    house, agent = played(path)
    house.accounts.accept([agent.sweep({b"8": 5})], agent.tick + 1.0)

    assert house.accounts.forget([("home", b"8"), ("home", b"7")], nothing) == {("home", b"7")}
    [closed] = house.accounts.close(agent.tick + 1.0, NOBODY)
    assert told(house.accounts) == {b"8": (10, 60)}
    table = closed.tables["home", "OST"]
    assert (table.jobs, table.sum_rates.tolist()) == ((b"8",), [[2 * 3 * MIB / INTERVAL]])
    house.ledger.close()


def test_a_job_is_forgotten_with_what_is_written_of_it_or_not_at_all(path: Path) -> None:
    house, agent = played(path)

    def failing(connection: Connection, taken: Mapping[ParkedKey, Parked]) -> None:
        assert {key.job for key in taken} == {b"7", b"8"}
        connection.execute(insert(meta).values(name="final", value="yes"))
        raise LedgerError("no room")

    for _ in range(2):
        with pytest.raises(LedgerError, match="no room"):
            house.accounts.forget([("home", b"7"), ("home", b"8")], failing)
        assert after_a_restart(path) == BOTH
    house.accounts.change_site(load(SITE), NOW)
    assert told(house.accounts) == BOTH
    house.take(agent.sweep({b"8": 3}, tick=START + 500))
    house.accounts.fold_all()
    assert after_a_restart(path) == {b"7": (6, 20), b"8": (6, 500)}
    house.ledger.close()


def test_marks_leave_with_the_last_record_and_with_the_job(path: Path) -> None:
    house, agent = House(path), Writer(targets=("home-OST0000",), start_seconds=0, version=SURE)
    house.take(agent.sweep({b"7": 3, b"8": 1}))
    house.take(agent.sweep({b"7": 5, b"8": 1}, tick=START + 1000))  # idle long enough to have been evicted
    moved = Writer(name="oss2", incarnation=b"incarnation-no-2", boot_id="boot-2", version=SURE)
    house.take(moved.sweep({b"9": 1}, tick=START + 1020))
    marks = house.accounts.marks()
    assert marks[0][("home", b"7")] == InDoubt(resets=1, bytes=3 * MIB, samples=3)
    assert marks[1] == {("home", b"7"), ("home", b"8"), ("home", b"9")}
    house.take(moved.sweep({}, tick=START + 1040, gone=[b"9"]))
    house.accounts.fold_all()

    [kept] = house.accounts._targets.values()  # noqa: SLF001
    assert kept.tally.incomplete == {b"7", b"8"}
    assert house.accounts.marks() == marks
    house.accounts.change_site(load(SITE), START + 1050)
    assert house.accounts.marks() == marks
    taken: dict[ParkedKey, Parked] = {}
    house.accounts.forget([("home", b"7"), ("home", b"9")], lambda _, found: taken.update(found))
    assert {key.job: (parked.doubt.resets, parked.incomplete) for key, parked in taken.items()} == {
        b"7": (1, True),
        b"9": (0, True),
    }
    assert [job for _, job in (*house.accounts.marks()[0], *house.accounts.marks()[1])] == [b"8", b"8"]
    house.ledger.close()

    again = House(path)
    assert again.accounts.marks() == house.accounts.marks()
    again.ledger.close()


def test_a_file_system_that_leaves_the_site_and_comes_back_has_what_was_parked(path: Path) -> None:
    house, agent = played(path)
    house.accounts.fold_all()
    house.accounts.change_site(load("filesystems: [{name: data, servers: [oss1]}]"), agent.tick + 5)
    house.accounts.change_site(load(SITE), agent.tick + 5)

    assert told(house.accounts) == BOTH
    house.ledger.close()


def test_what_is_parked_is_read_as_it_was_written() -> None:
    parked = Parked(
        JobSum(
            counters={("read", "usecs"): (1 << 62, (1 << 63) - 1)},
            extremes={("read", "usecs"): (0, 1 << 40)},
            histograms={("read", "usecs", 7): 3},
            last_tick=START,
        ),
        InDoubt(1, 2, 3),
        incomplete=True,
    )
    assert Parked.load(parked.dump()) == parked


def test_a_damaged_sum_is_refused(path: Path) -> None:
    house, _ = played(path)
    house.accounts.fold_all()
    house.ledger.close()
    ledger = Ledger(path)
    ledger.open()
    with ledger.transaction() as connection:
        connection.execute(text("update parked set payload = cast('{}' as blob)"))
    ledger.close()

    with pytest.raises(LedgerError, match=r"what is parked of b'7'.*restore a backup"):
        House(path)
