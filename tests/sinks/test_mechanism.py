"""One sink's trouble is nobody else's: real threads, sinks that hang, refuse, fail and take long."""

import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from typing_extensions import override

from harvest_aggregator.nodes import Node, Nodes
from harvest_aggregator.published import Published
from harvest_aggregator.sinks.backlog import Health
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Pause, Plan, Sink, Written
from harvest_aggregator.sinks.running import Sinks
from support.processes import LIMIT_SECONDS, wait_for

Write = Callable[[Published, Pause], Written]
HANGS_SECONDS = 30.0
"""Whoever waits for a sink that hangs waits longer than this."""


@dataclass
class Made(Plan, Sink):
    """A sink, and what it was given."""

    does: Write = lambda _published, _pause: ACCEPTED
    room_sweeps: int = 3
    ticks: list[int | None] = field(default_factory=list)

    @override
    def build(self) -> Sink:
        return self

    @override
    def needed(self, published: Published) -> Published:
        return published

    @override
    def write(self, published: Published, pause: Pause) -> Written:
        self.ticks.append(published.tick_seconds)
        return self.does(published, pause)


class Gate:
    """Lets writes end one by one."""

    def __init__(self) -> None:
        self._open = threading.Semaphore(0)

    def __call__(self, _published: Published, _pause: Pause) -> Written:
        assert self._open.acquire(timeout=4 * HANGS_SECONDS)
        return ACCEPTED

    def let(self, writes: int) -> None:
        self._open.release(writes)


@pytest.fixture
def sinks() -> Iterator[Sinks]:
    made = Sinks()
    yield made
    made.stop(1.0)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.let(10_000)


def of(sinks: Sinks, name: str) -> Health:
    (health,) = [health for health in sinks.healths() if health.name == name]
    return health


def test_every_sink_gets_every_sweep(sinks: Sinks) -> None:
    one, other = Made(room_sweeps=50), Made(room_sweeps=50)
    sinks.change({"one": one, "other": other})
    for tick in range(50):
        sinks.offer(Published(tick_seconds=tick))
    wait_for(lambda: of(sinks, "one").accepted + of(sinks, "other").accepted == 100, "all sweeps")
    assert one.ticks == other.ticks == list(range(50))


def test_one_that_hangs_refuses_or_fails_delays_nobody(sinks: Sinks, gate: Gate) -> None:
    def fail(_published: Published, _pause: Pause) -> Written:
        raise RuntimeError("a mistake")

    well, hung = Made(room_sweeps=1000), Made(gate)
    sinks.change(
        {
            "hangs": hung,
            "refuses": Made(lambda _published, _pause: Written(Outcome.KEPT, "come again"), room_sweeps=2),
            "rejects": Made(lambda _published, _pause: Written(Outcome.REJECTED, "no"), room_sweeps=1000),
            "fails": Made(fail, room_sweeps=1000),
            "well": well,
        }
    )
    sinks.offer(Published(tick_seconds=0))
    wait_for(lambda: hung.ticks, "the write that hangs")
    began = time.monotonic()
    for tick in range(1, 1000):
        sinks.offer(Published(tick_seconds=tick))
    assert time.monotonic() - began < HANGS_SECONDS
    wait_for(lambda: of(sinks, "well").accepted == 1000, "the sink that is well")
    assert well.ticks == list(range(1000))
    wait_for(lambda: of(sinks, "rejects").rejected == 1000, "rejections")
    wait_for(lambda: of(sinks, "fails").rejected == 1000, "failures")
    hangs, refuses = of(sinks, "hangs"), of(sinks, "refuses")
    assert (hangs.accepted, hangs.dropped + hangs.queued, hangs.queued) == (0, 999, 3)
    assert refuses.accepted == 0
    assert refuses.queued <= 2
    expected = {"sink refuses: come again", "sink rejects: no", "sink fails: a mistake"}
    wait_for(lambda: set(sinks.warnings()) == expected, "the warnings")


def test_one_that_fails_before_it_writes_is_its_own_trouble_alone(sinks: Sinks) -> None:
    class Breaks(Made):
        @override
        def needed(self, published: Published) -> Published:
            raise RuntimeError("a mistake")

    well, broken = Made(), Breaks()
    sinks.change({"broken": broken, "well": well})
    sinks.offer(Published(tick_seconds=1))
    wait_for(lambda: of(sinks, "well").accepted == 1, "the sink that is well")
    assert (of(sinks, "broken").rejected, of(sinks, "broken").trouble) == (1, "a mistake")
    assert broken.ticks == []


def test_one_that_takes_long_gets_the_newest_and_the_rest_is_counted(sinks: Sinks, gate: Gate) -> None:
    slow, quick = Made(gate, room_sweeps=1), Made()
    sinks.change({"slow": slow, "quick": quick})
    tick = 0
    for turn in range(5):
        for _ in range(3):
            tick += 1
            sinks.offer(Published(tick_seconds=tick))
            wait_for(lambda tick=tick: of(sinks, "quick").accepted == tick, "the quick one")  # type: ignore[misc]
            wait_for(lambda: slow.ticks, "the first write")
        gate.let(1)
        wait_for(lambda turn=turn: len(slow.ticks) == turn + 2, "the slow one's next write")  # type: ignore[misc]
    assert slow.ticks == [1, 3, 6, 9, 12, 15]
    health = of(sinks, "slow")
    assert (health.accepted, health.dropped, health.queued) == (5, 9, 0)
    assert health.trouble == "it is slow: 2 sweeps were dropped while one was written"
    assert quick.ticks == list(range(1, 16))


class _Marked(dict[str, None]):
    """Can be looked for after it was thrown away."""


def test_what_waits_is_bounded(sinks: Sinks, gate: Gate) -> None:
    hung = Made(gate, room_sweeps=3)
    sinks.change({"hung": hung})
    marks: list[weakref.ref[_Marked]] = []

    def marked(tick: int) -> Published:
        mark = _Marked()
        marks.append(weakref.ref(mark))
        one = Node(host="n", address="a", cluster=None, nids=(), is_live=True, filesystems=mark)  # type: ignore[arg-type]
        return Published(tick_seconds=tick, nodes=Nodes(tick_seconds=tick, nodes=(one,)))

    def alive() -> int:
        return sum(mark() is not None for mark in marks)

    sinks.offer(marked(0))
    wait_for(lambda: hung.ticks, "the write")
    for tick in range(1, 500):
        sinks.offer(marked(tick))
    assert alive() == 4  # in the queue, and in the write that hangs
    gate.let(4)
    wait_for(lambda: alive() == 0, "all to be let go of")


def test_a_write_can_tell_that_it_must_end(sinks: Sinks) -> None:
    cut = threading.Event()

    def slow(_published: Published, pause: Pause) -> Written:
        if pause(4 * HANGS_SECONDS):
            return ACCEPTED
        cut.set()
        return Written(Outcome.KEPT, "not done")

    made = Made(slow, room_sweeps=1)
    sinks.change({"slow": made})
    sinks.offer(Published(tick_seconds=1))
    wait_for(lambda: made.ticks, "the write")
    sinks.offer(Published(tick_seconds=2))
    assert cut.wait(LIMIT_SECONDS)
    wait_for(lambda: made.ticks == [1, 2], "the newer sweep, without a wait")
    assert of(sinks, "slow").dropped == 1
    cut.clear()
    began = time.monotonic()
    sinks.stop()
    assert cut.is_set()
    assert time.monotonic() - began < HANGS_SECONDS


def test_a_change_touches_only_what_it_changes(sinks: Sinks, gate: Gate) -> None:
    stays, goes, hangs = Made(), Made(), Made(gate)
    sinks.change({"stays": stays, "goes": goes, "hangs": hangs})
    sinks.offer(Published(tick_seconds=1))
    wait_for(lambda: of(sinks, "stays").accepted == of(sinks, "goes").accepted == len(hangs.ticks) == 1, "the writes")
    new, instead = Made(), Made()
    began = time.monotonic()
    sinks.change({"stays": stays, "hangs": instead, "new": new})
    assert time.monotonic() - began < HANGS_SECONDS
    sinks.offer(Published(tick_seconds=2))
    wait_for(lambda: (stays.ticks, instead.ticks, new.ticks) == ([1, 2], [2], [2]), "the writes after the change")
    assert [health.name for health in sinks.healths()] == ["stays", "hangs", "new"]
    wait_for(lambda: of(sinks, "stays").accepted == 2, "its count to go on")
    gate.let(1)
    assert goes.ticks == hangs.ticks == [1]


_HANGS = """
import threading, time
from harvest_aggregator.published import Published
from harvest_aggregator.sinks.running import Sinks

writing = threading.Semaphore(0)

class Hangs:
    room_sweeps = 1
    build = lambda self: self
    needed = lambda self, published: published
    def write(self, published, pause):
        writing.release()
        threading.Event().wait()

sinks = Sinks()
sinks.change({"one": Hangs(), "two": Hangs()})
sinks.offer(Published(tick_seconds=1))
for _ in range(2):
    writing.acquire()
print("both write", flush=True)
began = time.monotonic()
sinks.stop(4.0)
print(time.monotonic() - began, flush=True)
"""


def test_the_program_ends_although_sinks_hang() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _HANGS], capture_output=True, timeout=LIMIT_SECONDS, check=True, text=True
    )
    said = ran.stdout.splitlines()
    assert said[0] == "both write"
    assert 4.0 <= float(said[-1]) < 8.0  # not one after the other
    assert ran.stdout.count("a sink did not end in time and is left behind") == 2
