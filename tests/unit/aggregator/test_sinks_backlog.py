"""What waits for a sink, and what is counted."""

import pytest

from harvest_aggregator.published import Published
from harvest_aggregator.sinks.backlog import Backlog
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Written

KEPT = Written(Outcome.KEPT, "nobody there")
REJECTED = Written(Outcome.REJECTED, "makes no sense")


def sweep(tick: int) -> Published:
    return Published(tick_seconds=tick)


class Play:
    """A backlog, and its clock."""

    def __init__(self, room: int = 3, jitter: float = 1.0) -> None:
        self.backlog = Backlog(room_sweeps=room, jitter=lambda: jitter)
        self.now = 100.0

    def offer(self, *ticks: int) -> None:
        for tick in ticks:
            self.backlog.offer(sweep(tick))

    def write(self, written: Written, *, was_cut: bool = False) -> int | None:
        """Write what is due; return its tick."""
        taken = self.backlog.take(self.now)
        if taken is None:
            return None
        self.backlog.settle(taken, written, now=self.now, wall_seconds=1e9 + self.now, was_cut=was_cut)
        return taken.tick_seconds

    def numbers(self) -> tuple[int, int, int, int]:
        health = self.backlog.health("x", self.now)
        return health.accepted, health.rejected, health.dropped, health.queued


def test_sweeps_are_written_in_order() -> None:
    play = Play()
    play.offer(1, 2, 3)
    assert [play.write(ACCEPTED) for _ in range(4)] == [1, 2, 3, None]
    assert play.numbers() == (3, 0, 0, 0)
    assert play.backlog.wait_seconds(play.now) is None


def test_what_is_rejected_is_counted_and_never_tried_again() -> None:
    play = Play()
    play.offer(1, 2)
    assert [play.write(REJECTED), play.write(ACCEPTED), play.write(ACCEPTED)] == [1, 2, None]
    assert play.numbers() == (1, 1, 0, 0)


def test_what_is_kept_is_tried_again_later_and_later() -> None:
    play = Play()
    play.offer(1)
    waits = []
    for _ in range(7):
        assert play.write(KEPT) == 1
        assert play.write(KEPT) is None
        wait = play.backlog.wait_seconds(play.now)
        assert wait is not None
        waits.append(wait)
        play.now += wait
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert play.write(ACCEPTED) == 1
    play.offer(2)
    assert play.write(KEPT) == 2
    assert play.backlog.wait_seconds(play.now) == 1


@pytest.mark.parametrize(("asked", "waits"), [(0.5, 1), (7, 7), (300, 300), (1e9, 300)])
def test_who_asks_for_time_gets_it_within_bounds(asked: float, waits: float) -> None:
    play = Play()
    play.offer(1)
    play.write(Written(Outcome.KEPT, "busy", asked))
    assert play.backlog.wait_seconds(play.now) == waits
    play.now += waits
    play.write(KEPT)
    assert play.backlog.wait_seconds(play.now) == 2


def test_room_may_become_less_and_more() -> None:
    play = Play(room=3)
    play.offer(1, 2, 3)
    play.backlog.room_sweeps = 2
    play.offer(4)
    assert play.numbers() == (0, 0, 2, 2)
    play.backlog.room_sweeps = 3
    play.offer(5)
    assert [play.write(ACCEPTED) for _ in range(3)] == [3, 4, 5]


def test_those_who_wait_do_not_all_come_again_at_once() -> None:
    waits = set()
    for jitter in (0.0, 0.5, 1.0):
        play = Play(jitter=jitter)
        play.offer(1)
        play.write(KEPT)
        waits.add(play.backlog.wait_seconds(play.now))
    assert waits == {0.5, 0.75, 1.0}


def test_the_order_stays_when_the_oldest_is_kept() -> None:
    play = Play()
    play.offer(1, 2)
    play.write(KEPT)
    play.now += 1
    assert [play.write(ACCEPTED), play.write(ACCEPTED)] == [1, 2]


def test_when_there_is_no_room_the_oldest_is_dropped_and_counted() -> None:
    play = Play(room=3)
    play.offer(1, 2, 3, 4, 5)
    assert play.numbers() == (0, 0, 2, 3)
    assert play.write(ACCEPTED) == 3


def test_what_is_kept_finds_no_room_when_newer_ones_filled_it() -> None:
    play = Play(room=2)
    play.offer(1)
    taken = play.backlog.take(play.now)
    assert taken is not None
    play.offer(2)
    assert not play.backlog.is_full
    play.offer(3)
    assert play.backlog.is_full
    play.backlog.settle(taken, KEPT, now=play.now, wall_seconds=0.0, was_cut=False)
    assert play.numbers() == (0, 0, 1, 2)
    play.now += 1
    assert play.write(ACCEPTED) == 2


def test_a_write_that_made_way_for_a_newer_sweep_is_no_reason_to_wait() -> None:
    play = Play(room=1)
    play.offer(1)
    taken = play.backlog.take(play.now)
    assert taken is not None
    play.offer(2)
    play.backlog.settle(taken, KEPT, now=play.now, wall_seconds=0.0, was_cut=True)
    assert play.write(ACCEPTED) == 2
    assert play.numbers() == (1, 0, 1, 0)


def test_health_says_what_is_wrong_and_when_it_last_went_well() -> None:
    play = Play()
    assert play.backlog.health("x", play.now).last_success_seconds is None
    play.offer(1, 2, 3)
    play.write(ACCEPTED)
    assert play.backlog.health("x", play.now).trouble is None
    play.write(KEPT)
    play.now += 5
    health = play.backlog.health("x", play.now)
    assert (health.trouble, health.last_success_seconds) == ("nobody there", 1e9 + 100)
    play.write(ACCEPTED)
    health = play.backlog.health("x", play.now)
    assert (health.trouble, health.last_success_seconds) == (None, 1e9 + 105)


def test_a_write_without_end_shows() -> None:
    play = Play(room=1)
    play.offer(1)
    play.backlog.take(play.now)
    play.now += 59
    assert play.backlog.health("x", play.now).trouble is None
    play.now += 1
    assert play.backlog.health("x", play.now).trouble == "a write has taken 60 s and is not done"


def test_writes_that_take_so_long_that_sweeps_are_dropped_show() -> None:
    play = Play(room=1)
    play.offer(1)
    taken = play.backlog.take(play.now)
    assert taken is not None
    play.offer(2, 3)
    play.backlog.settle(taken, ACCEPTED, now=play.now + 45, wall_seconds=0.0, was_cut=False)
    assert play.backlog.health("x", play.now).trouble == "it is slow: 1 sweeps were dropped while one was written"
    play.write(ACCEPTED)
    assert play.backlog.health("x", play.now).trouble is None
