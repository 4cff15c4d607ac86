"""Deliveries become totals, live and after a restart, by the same path."""

from dataclasses import replace
from pathlib import Path

import pytest

from harvest.v1.stream_pb2 import Batch
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.published import InDoubt
from harvest_core.accounting.mounts import NEVER
from harvest_core.accounting.sweeps import ClosedSweep, Place
from harvest_site.loading import load
from support.deliveries import INTERVAL, SITE, START, Writer

MIB = 1 << 20
HOME = Place("home", "OST", "home-OST0000")
NOBODY: frozenset[Place] = frozenset()


class House:
    """Accounts with a ledger of their own, that can be left at any moment."""

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger(path)
        self.ledger.open()
        self.accounts = Accounts(self.ledger, load(SITE))
        self.accounts.load(START)

    def take(self, *deliveries: Delivery) -> ClosedSweep | None:
        """Accept deliveries a second after the last one's tick; return what closes."""
        now = deliveries[-1].batches[-1][1].tick_seconds + 1.0
        self.accounts.accept(deliveries, now)
        closed = self.accounts.close(now, NOBODY)
        return closed[-1] if closed else None

    def shown(self, now: float) -> ClosedSweep:
        """Return what is shown when nothing has come for long."""
        (closed,) = self.accounts.close(now, NOBODY)
        return closed

    def batches(self, filesystem: str = "home") -> list[tuple[str, int]]:
        return [(line.target, line.seq) for line in self.ledger.lines(filesystem)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def written(closed: ClosedSweep | None, job: bytes = b"7", filesystem: str = "home") -> int:
    assert closed is not None
    return closed.tables[filesystem, "OST"].job(job).write_bytes // MIB


def test_a_sweep_shows_what_was_delivered_and_how_fast_it_was(path: Path) -> None:
    house, agent = House(path), Writer()
    house.take(agent.sweep({b"7": 10}))
    closed = house.take(agent.sweep({b"7": 30}))

    assert written(closed) == 30
    assert closed is not None
    assert closed.tick_seconds == START + 2 * INTERVAL
    table = closed.tables["home", "OST"]
    assert table.sum_rates[table.row(b"7"), 0] == MIB
    house.ledger.close()


def test_nothing_is_lost_or_doubled_by_dying(path: Path) -> None:
    agent = Writer(targets=("home-OST0000", "home-OST0001"))
    deliveries = [agent.sweep({b"7": count, b"8": 1}) for count in range(1, 26)]
    for died_at, delivery in enumerate(deliveries):
        house = House(path)
        house.take(*deliveries[max(died_at - 3, 0) : died_at], delivery)
        house.accounts.fold_some(busy=False)
        house.ledger.close()  # without snapshots of the rest

    again = House(path)
    closed = again.shown(delivery.batches[-1][1].tick_seconds + 30)

    assert (written(closed), written(closed, b"8")) == (2 * 25, 2)
    assert again.ledger.acked("oss1", agent.incarnation) == 25
    again.ledger.close()


def test_targets_take_turns_to_be_folded_each_after_twenty_reads(path: Path) -> None:
    house = House(path)
    agent = Writer(targets=tuple(f"home-OST{number:04x}" for number in range(40)))
    most, turns = 0, []
    for count in range(1, 42):
        house.take(agent.sweep({b"7": count}))
        before = len(house.batches())
        folds = 0
        while house.accounts.fold_some(busy=False):
            folds += 1
        turns.append(folds)
        most = max(most, before)

    assert max(turns[20:]) <= 2
    assert most <= 40 * 20
    assert sum(turns) >= 40 * 2 // 8
    house.ledger.close()


def test_a_busy_aggregator_folds_only_what_waited_too_long(path: Path) -> None:
    house, agent = House(path), Writer()
    for count in range(1, 20):
        house.take(agent.sweep({b"7": count}))
    assert not house.accounts.fold_some(busy=True)
    for count in range(20, 42):
        house.take(agent.sweep({b"7": count}))
    assert house.accounts.fold_some(busy=True)
    assert house.batches() == []
    house.ledger.close()


def test_after_a_graceful_stop_there_is_nothing_to_apply(path: Path) -> None:
    house, agent = House(path), Writer()
    house.take(agent.sweep({b"7": 3}))
    house.accounts.fold_all()
    house.ledger.close()

    again = House(path)

    assert again.batches() == []
    assert written(again.take(agent.sweep({b"7": 5}))) == 5
    again.ledger.close()


def test_what_comes_again_is_not_even_written(path: Path) -> None:
    house, agent = House(path), Writer()
    first = agent.sweep({b"7": 3})
    house.take(first)
    house.accounts.fold_all()

    house.take(first, first)

    assert house.batches() == []
    house.ledger.close()


def test_targets_that_the_site_does_not_have_there_are_left_out(path: Path) -> None:
    house = House(path)
    agent = Writer(name="oss2", targets=("home-OST0000", "data-OST0000", "home2-OST0000", "nonsense"))
    house.take(agent.sweep({b"7": 3}))

    assert [status.target for status in house.accounts.statuses(START)] == ["home-OST0000"]
    assert house.ledger.acked("oss2", agent.incarnation) == 1
    house.ledger.close()


def test_reads_that_cannot_be_placed_are_counted_and_stop_nothing(path: Path) -> None:
    house, agent = House(path), Writer()
    agent.sweep({b"7": 1})  # which named the job, and is lost
    house.take(agent.sweep({b"7": 2}))
    garbled = agent.sweep({b"7": 3})
    broken = Batch.FromString(bytes(garbled.batches[0][0]))
    broken.jobs.rows.data = b"\x07"
    house.take(replace(garbled, batches=((broken.SerializeToString(), broken), garbled.batches[1])))

    assert house.accounts.unnamed == {"oss1": agent.incarnation}
    assert house.ledger.acked("oss1", agent.incarnation) == 3
    house.ledger.close()

    again = House(path)
    assert again.accounts.unnamed == {"oss1": agent.incarnation}
    anew = Writer(incarnation=b"incarnation-no-2")
    closed = again.take(anew.sweep({b"7": 4}, tick=agent.tick + INTERVAL))
    (status,) = again.accounts.statuses(START)
    assert (again.accounts.unnamed, written(closed), status.unplaced_reads) == ({}, 4, 2)
    again.ledger.close()


def test_reads_that_cannot_be_placed_do_not_pile_up(path: Path) -> None:
    house, agent = House(path), Writer()
    agent.sweep({b"7": 1})
    for count in range(2, 24):
        house.take(agent.sweep({b"7": count}))
    assert house.accounts.fold_some(busy=False)
    house.ledger.close()

    again = House(path)

    assert again.batches() == []
    (status,) = again.accounts.statuses(START)
    assert (status.server, status.unplaced_reads) == ("", 22)
    again.ledger.close()


def test_if_it_cannot_be_made_durable_nothing_happened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house, agent = House(path), Writer()
    house.take(agent.sweep({b"7": 1}))
    second = agent.sweep({b"7": 2})

    def full(*_: object, **__: object) -> None:
        raise LedgerError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(house.ledger, "accept", full)
        with pytest.raises(LedgerError):
            house.take(second)
    assert house.accounts.statuses(START)[0].last_tick == START + INTERVAL
    assert written(house.take(second)) == 2
    house.ledger.close()


def test_a_file_system_that_leaves_the_site_comes_back_with_all_it_did(path: Path) -> None:
    house = House(path)
    agent = Writer(targets=("home-OST0000", "data-OST0000"))
    house.take(agent.sweep({b"7": 3}))
    house.accounts.change_site(load("filesystems: [{name: home, servers: [oss1]}]"), agent.tick + 5)
    closed = house.take(agent.sweep({b"7": 4}))
    assert closed is not None
    assert closed.tables.keys() == {("home", "OST")}

    house.accounts.change_site(load(SITE), agent.tick + 5)
    closed = house.take(agent.sweep({b"7": 6}))

    assert (written(closed), written(closed, filesystem="data")) == (6, 6)
    house.ledger.close()


def test_a_clock_that_is_far_off_leaves_no_sweep_open_and_hides_no_total(path: Path) -> None:
    house, agent = House(path), Writer()
    now = START + 10.0
    for count in range(1, 6):
        house.accounts.accept([agent.sweep({b"7": count}, tick=START + 86_400 + count * INTERVAL)], now)
    assert house.accounts.close(now, NOBODY) == []

    (closed,) = house.accounts.close(now + INTERVAL + 10, NOBODY)

    assert written(closed) == 5
    assert closed.tick_seconds == START + 2 * INTERVAL
    house.ledger.close()


def last_tick(closed: ClosedSweep, job: bytes = b"7") -> int:
    table = closed.tables["home", "OST"]
    return int(table.last_tick[table.jobs.index(job)])


def test_what_lay_in_a_spool_says_when_it_was(path: Path) -> None:
    house, agent = House(path), Writer()
    for count in (1, 2):
        house.accounts.accept([agent.sweep({b"7": count})], START + 86_400)

    (closed,) = house.accounts.close(START + 86_400 + INTERVAL + 10, NOBODY)

    assert (written(closed), last_tick(closed)) == (2, START + 2 * INTERVAL)
    house.ledger.close()


def test_a_clock_that_is_far_ahead_says_nothing_about_when(path: Path) -> None:
    house, agent = House(path), Writer()
    house.accounts.accept([agent.sweep({b"7": 1}, tick=START + 86_400)], START + 10.0)
    assert last_tick(house.shown(START + INTERVAL + 20)) == NEVER
    house.ledger.close()

    again = House(path)
    assert last_tick(again.shown(START + INTERVAL + 20)) == NEVER
    again.ledger.close()


def test_a_target_is_not_left_to_a_server_whose_clock_is_far_ahead(path: Path) -> None:
    house, ahead = House(path), Writer()
    house.accounts.accept([ahead.sweep({b"7": 1}, tick=START + 86_400)], START + 10.0)
    (status,) = house.accounts.statuses(START + 10.0)
    assert (status.server, status.last_tick) == ("oss1", START + 86_400)

    partner = Writer(name="oss2", incarnation=b"incarnation-no-2", boot_id="boot-2")
    house.take(partner.sweep({b"7": 1}))

    (status,) = house.accounts.statuses(START + 30.0)
    assert (status.server, status.last_tick) == ("oss2", START + INTERVAL)
    house.ledger.close()


def test_a_server_that_comes_under_another_name_counts_nothing_twice_also_after_a_restart(path: Path) -> None:
    house, agent = House(path), Writer()
    assert written(house.take(agent.sweep({b"7": 5}))) == 5
    house.accounts.fold_all()
    renamed = Writer(name="oss2", incarnation=b"incarnation-no-2", seq=1)
    assert written(house.take(renamed.sweep({b"7": 6}))) == 6
    house.accounts.fold_all()
    house.ledger.close()

    again = House(path)

    (status,) = again.accounts.statuses(renamed.tick)
    assert (status.server, status.unseen_seconds, status.unplaced_reads) == ("oss2", 0, 0)
    assert written(again.take(renamed.sweep({b"7": 7}))) == 7
    again.ledger.close()


def test_a_spool_that_comes_again_under_another_name_counts_nothing_twice(path: Path) -> None:
    house, agent = House(path), Writer()
    sent = [agent.sweep({b"7": count}) for count in (5, 6)]
    house.take(*sent)

    house.take(*(replace(delivery, agent="oss2") for delivery in sent))

    assert written(house.take(agent.sweep({b"7": 7}))) == 7
    assert house.accounts.statuses(agent.tick)[0].unplaced_reads == 0
    house.ledger.close()


def test_what_was_published_before_a_restart_is_not_published_again(path: Path) -> None:
    house, agent, late = House(path), Writer(), Writer(name="oss2", targets=("home-OST0009",))
    house.take(agent.sweep({b"7": 1}))
    house.ledger.close()

    again = House(path)
    again.accounts.change_site(load(SITE), agent.tick + 2)

    assert again.take(late.sweep({b"7": 1})) is None
    assert written(again.take(agent.sweep({b"7": 2}), late.sweep({b"7": 2}))) == 4
    again.ledger.close()


def test_what_could_not_be_known_is_flagged_with_its_amount_and_survives(path: Path) -> None:
    house, agent = House(path), Writer(targets=("home-OST0000", "home-OST0001"), start_seconds=0)
    for written in (3, 5, 9):  # idle each time long enough to have been evicted
        house.take(agent.sweep({b"7": written}, tick=START + 1000 * written))
    flagged = {("home", b"7"): InDoubt(resets=4, bytes=2 * (3 + 5) * MIB, samples=2 * (3 + 5))}
    assert house.accounts.marks()[0] == flagged
    house.accounts.fold_all()
    house.ledger.close()

    again = House(path)
    assert again.accounts.marks()[0] == flagged
    again.ledger.close()


def test_marks_of_jobs_survive(path: Path) -> None:
    house, agent = House(path), Writer()
    house.take(agent.sweep({b"7\xff": 1}))
    moved = Writer(name="oss2", incarnation=b"incarnation-no-2", boot_id="boot-2", seq=9)
    house.take(moved.sweep({b"7\xff": 1}))
    flagged, incomplete = house.accounts.marks()
    (before,) = house.accounts.statuses(moved.tick)
    house.accounts.fold_all()
    house.ledger.close()

    again = House(path)

    assert again.accounts.marks() == (flagged, incomplete) == ({}, frozenset({("home", b"7\xff")}))
    assert again.accounts.statuses(START)[0].unseen_seconds == before.unseen_seconds == 9 * INTERVAL
    assert (before.server, before.instance) == ("oss2", 1)
    again.ledger.close()


def test_a_damaged_snapshot_is_refused(path: Path) -> None:
    house, agent = House(path), Writer()
    house.take(agent.sweep({b"7": 1, b"another job": 1}))
    house.accounts.fold_all()
    house.ledger.close()
    path.write_bytes(path.read_bytes().replace(b"another job", b"another mob"))

    with pytest.raises(LedgerError, match=r"the snapshot is damaged.*restore a backup"):
        House(path)
