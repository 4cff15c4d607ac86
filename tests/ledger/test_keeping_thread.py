"""The keeper's thread: what is asked for comes true, in order, whatever else happens."""

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.keeping import Keeper
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.published import Published
from harvest_core.accounting.sweeps import ClosedSweep, Place
from harvest_core.accounting.wire import WireError
from harvest_site.loading import load
from support.deliveries import INTERVAL, SITE, START, Writer

LIMIT_SECONDS = 60
MIB = 1 << 20


class Clock:
    def __init__(self) -> None:
        self.seconds = START + 1.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(tmp_path: Path, clock: Clock) -> Iterator[Keeper]:
    keeper = Keeper(Ledger(tmp_path / "ledger.db"), load(SITE), now=clock)
    keeper.start()
    yield keeper
    keeper.stop()


def done(future: "Future[Any]") -> Any:  # noqa: ANN401
    return future.result(LIMIT_SECONDS)


def take(keeper: Keeper, clock: Clock, delivery: Delivery) -> None:
    clock.seconds = max(clock.seconds, delivery.batches[-1][1].tick_seconds + 1.0)
    done(keeper.accept(delivery))


def shown(keeper: Keeper, is_so: Callable[[Published], bool]) -> Published:
    until = time.monotonic() + LIMIT_SECONDS
    while not is_so(keeper.published):
        assert time.monotonic() < until, keeper.published
        time.sleep(0.01)
    return keeper.published


def test_a_sweep_is_published_when_all_that_are_here_have_reported(keeper: Keeper, clock: Clock) -> None:
    one, other = Writer(), Writer(name="oss2", targets=("home-OST0001",))
    first = (one.sweep({b"7": 1}), other.sweep({b"7": 2}))
    keeper.connected("oss1", first[0].batches[-1][1].end.targets)
    keeper.connected("oss2", first[1].batches[-1][1].end.targets)
    clock.seconds = one.tick + 1.0
    take(keeper, clock, first[0])
    shown(keeper, lambda published: len(published.agents) == 2)
    assert keeper.published.closed is None

    take(keeper, clock, first[1])

    published = shown(keeper, lambda published: published.tick_seconds == one.tick)
    assert published.closed is not None
    assert published.closed.missing == frozenset()
    assert published.closed.tables["home", "OST"].job(b"7").write_bytes == 3 * MIB
    assert [(agent.name, agent.connected) for agent in published.agents] == [("oss1", True), ("oss2", True)]
    assert [agent.clock_offset_seconds for agent in published.agents] == [-1.0, -1.0]


def test_at_the_deadline_it_is_published_without_those_that_are_missing(keeper: Keeper, clock: Clock) -> None:
    one, other = Writer(), Writer(name="oss2", targets=("home-OST0001",))
    keeper.connected("oss2", other.sweep({b"7": 1}).batches[-1][1].end.targets)
    take(keeper, clock, one.sweep({b"7": 1}))
    clock.seconds = one.tick + 5.0

    published = shown(keeper, lambda published: published.tick_seconds == one.tick)

    assert published.closed is not None
    assert published.closed.missing == {Place("home", "OST", "home-OST0001")}
    keeper.disconnected("oss2")
    shown(keeper, lambda published: not published.agents[1].connected)


def test_sweeps_that_close_at_once_are_told_one_by_one_whatever_comes_of_it(tmp_path: Path, clock: Clock) -> None:
    told: list[int] = []

    def tell(sweep: ClosedSweep, _: float) -> None:
        told.append(sweep.tick_seconds)
        raise OSError("nobody listens")

    keeper = Keeper(Ledger(tmp_path / "ledger.db"), load(SITE), now=clock, on_close=tell)
    keeper.start()
    agent = Writer()
    sweeps = [agent.sweep({b"7": count}) for count in (1, 2)]
    clock.seconds = agent.tick + 1.0

    waiting = [keeper.accept(sweep) for sweep in sweeps]

    assert [done(future) for future in waiting] == [None, None]
    shown(keeper, lambda published: published.tick_seconds == agent.tick)
    assert told == [START + INTERVAL, START + 2 * INTERVAL]
    assert keeper.problem is None
    keeper.stop()


def test_what_is_published_is_told_once_for_closed_sweeps_whatever_comes_of_it(tmp_path: Path, clock: Clock) -> None:
    told: list[Published] = []

    def tell(published: Published) -> None:
        told.append(published)
        raise OSError("nobody listens")

    keeper = Keeper(Ledger(tmp_path / "ledger.db"), load(SITE), now=clock, on_publish=tell)
    keeper.start()
    agent = Writer()
    take(keeper, clock, agent.sweep({b"7": 1}))
    first = shown(keeper, lambda published: published.tick_seconds == agent.tick)
    keeper.connected("oss1", ())  # published anew, and the sweep is the old one
    shown(keeper, lambda published: any(one.connected for one in published.agents))
    take(keeper, clock, agent.sweep({b"7": 2}))
    shown(keeper, lambda published: published.tick_seconds == agent.tick)
    keeper.stop()
    assert told[0] is first
    assert [published.tick_seconds for published in told] == [START + INTERVAL, START + 2 * INTERVAL]
    assert keeper.problem is None


def test_an_agent_that_sweeps_less_often_is_not_waited_for(keeper: Keeper, clock: Clock) -> None:
    one, slow = Writer(), Writer(name="oss2", targets=("home-OST0001",))
    swept = slow.sweep({b"7": 1})
    swept.batches[-1][1].period_seconds = 3 * INTERVAL
    keeper.connected("oss2", swept.batches[-1][1].end.targets)
    take(keeper, clock, swept)
    take(keeper, clock, one.sweep({b"7": 1}))

    take(keeper, clock, one.sweep({b"7": 2}))

    published = shown(keeper, lambda published: published.tick_seconds == one.tick)
    assert published.closed is not None
    assert published.closed.missing == frozenset()


def test_an_agent_learns_from_where_to_go_on(keeper: Keeper, clock: Clock) -> None:
    agent = Writer()
    for count in range(1, 4):
        take(keeper, clock, agent.sweep({b"7": count}))

    assert done(keeper.resume("oss1", [b"older", agent.incarnation])) == {b"older": 0, agent.incarnation: 3}


def test_an_agent_that_cannot_be_understood_is_asked_for_a_full_picture(keeper: Keeper, clock: Clock) -> None:
    agent = Writer()
    agent.sweep({b"7": 1})
    take(keeper, clock, agent.sweep({b"7": 2}))
    assert keeper.needs_full_picture("oss1")
    assert not keeper.needs_full_picture("oss2")

    anew = Writer(incarnation=b"incarnation-no-2")
    take(keeper, clock, anew.sweep({b"7": 3}, tick=agent.tick + INTERVAL))
    assert not keeper.needs_full_picture("oss1")


def test_a_number_that_no_agent_counts_to_harms_nobody_else(keeper: Keeper, clock: Clock) -> None:
    agent = Writer()
    good, bad = agent.sweep({b"7": 1}), agent.sweep({b"7": 2})
    bad.batches[-1][1].seq = 1 << 63

    with pytest.raises(WireError):
        done(keeper.accept(bad))
    take(keeper, clock, good)


def test_who_does_not_wait_any_more_is_no_trouble(keeper: Keeper, clock: Clock) -> None:
    agent = Writer()
    clock.seconds = START + INTERVAL + 1.0
    keeper.accept(agent.sweep({b"7": 1})).cancel()

    assert done(keeper.resume("oss1", [agent.incarnation])) == {agent.incarnation: 1}


def test_a_site_that_changed_shows_other_file_systems(keeper: Keeper, clock: Clock) -> None:
    agent = Writer(targets=("home-OST0000", "data-OST0000"))
    take(keeper, clock, agent.sweep({b"7": 1}))
    done(keeper.change_site(load("filesystems: [{name: data, servers: [oss1]}]")))
    take(keeper, clock, agent.sweep({b"7": 2}))

    published = shown(keeper, lambda published: published.tick_seconds == agent.tick)

    assert published.closed is not None
    assert published.closed.tables.keys() == {("data", "OST")}
    assert [status.target for status in published.targets] == ["data-OST0000"]


def test_while_nothing_can_be_written_it_says_so(keeper: Keeper, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Writer()

    def full(*_: object, **__: object) -> None:
        raise LedgerError("no room for the ledger")

    with monkeypatch.context() as patched:
        for name in ("accept", "probe"):
            patched.setattr(keeper._ledger, name, full)  # noqa: SLF001
        with pytest.raises(LedgerError):
            take(keeper, clock, agent.sweep({b"7": 1}))
        assert keeper.problem == "no room for the ledger"
    take(keeper, clock, agent.sweep({b"7": 2}))
    assert keeper.problem is None


def test_what_is_asked_after_the_end_is_not_waited_for_in_vain(tmp_path: Path, clock: Clock) -> None:
    keeper = Keeper(Ledger(tmp_path / "other.db"), load(SITE), now=clock)
    keeper.start()
    agent = Writer()
    kept = keeper.accept(agent.sweep({b"7": 1}))
    keeper.stop()

    assert kept.done()
    assert keeper.accept(agent.sweep({b"7": 2})).cancelled()


def test_what_is_durable_is_held_no_longer(keeper: Keeper, clock: Clock) -> None:
    delivery = Writer().sweep({b"7": 1})
    ours = sys.getrefcount(delivery)
    take(keeper, clock, delivery)
    shown(keeper, lambda _: sys.getrefcount(delivery) <= ours)
