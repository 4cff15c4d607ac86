"""A file system that agents of the site itself read, then a relay tells, then agents read again: what counters show."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from harvest.v1.stream_pb2 import RelayHead, RelayRequest
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.keeping import Keeper
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.relays.outgoing import head
from harvest_aggregator.relays.pictures import NUMBERS, Picture
from harvest_core.accounting.totals import counts_written_bytes
from harvest_site.clusters import Cluster
from harvest_site.loading import load
from harvest_site.model import Site
from support.virtual_clients import EPOCH_SECONDS, PERIOD, VirtualClients

NID = "10.1.0.1@o2ib"
MIB = 1 << 20
EARLY, LATE = "sost0000", "sost0001"
"""Servers, each with one OST."""
HERE = load(f"filesystems: [{{name: fs, servers: [{EARLY}, {LATE}], clients: {{interval: {PERIOD}s}}}}]")
RELAY = load("accepts: [{name: alkindi, filesystems: [fs], lnets: [o2ib]}]")
LIMIT_SECONDS = 60


def done(future: "Future[Any]") -> Any:  # noqa: ANN401
    return future.result(LIMIT_SECONDS)


class Moving(VirtualClients):
    """One node that writes, agents that read what it wrote, and a keeper, by a clock of its own."""

    def __init__(self, folder: Path, site: Site = HERE) -> None:
        super().__init__(folder, HERE, {"fs-OST0000": "2.16.1", "fs-OST0001": "2.16.1"})
        self.ledger_path = folder / "kept.db"
        self.clock_seconds = float(EPOCH_SECONDS)
        self.ahead_seconds = 0
        """The clock of the later server."""
        self._site = site
        self.begin()
        self.site.connect("fs", NID)
        self._read_by([EARLY, LATE] if site is HERE else [])

    def begin(self) -> None:
        self.keeper = Keeper(Ledger(self.ledger_path), self._site, now=lambda: self.clock_seconds)
        self.keeper.start()

    def end(self) -> None:
        self.keeper.stop()

    def _read_by(self, servers: Sequence[str]) -> None:
        for server, (collector, *_) in self._agents.items():
            collector.want_clients({"fs": PERIOD} if server in servers else {})

    def move(self, site: Site, servers: Sequence[str] = ()) -> None:
        """Change the site, and whose agents read."""
        self._site = site
        done(self.keeper.change_site(site))
        self._read_by(servers)

    def write(self, mib: int) -> None:
        """Let the node write as much to each of both targets."""
        for target in ("fs-OST0000", "fs-OST0001"):
            self.site.mounted(target).bulk(b"4711", "write", MIB, count=mib, nid=NID)

    def tell(self, mib: int, *, ahead_seconds: int = 0) -> None:
        """Tell what a relay would, of all that the node has written."""
        about = head(
            software="1",
            site="alkindi",
            cluster=Cluster(name="vu", lnets=("o2ib",)),
            filesystem="fs",
            period_seconds=PERIOD,
        )
        about.tick_seconds = int(self.clock_seconds) + ahead_seconds
        totals = np.zeros((1, NUMBERS), np.int64)
        totals[0, 1] = mib * MIB
        nothing = np.zeros(totals.shape)
        picture = Picture(head=about, nids=(NID,), live=frozenset([NID]), totals=totals, rates=nothing)
        assert done(self.keeper.take_relayed("alkindi", picture)).nodes == 1
        self._look()

    def periods(self, count: int = 3) -> list[int]:
        """Let some pass, two of which agents need to begin; return what the node's counter showed, in MiB."""
        shown = [self.wait_until(self.read() + 6.0) for _ in range(count)]
        assert self.keeper.published.client_tables["fs"].tick_seconds == EPOCH_SECONDS + round(self._now)
        return shown

    def read(self) -> int:
        """Let agents read for a period and deliver it; return its tick, which is not closed yet."""
        self.face.publish()
        for _ in range(PERIOD):
            self._now += 1
            self.site.advance(1)
            for collector, *_ in self._agents.values():
                collector.read_clients()
        self.face.poll()
        self.face.publish()
        tick = EPOCH_SECONDS + round(self._now)
        self.clock_seconds = tick - 1.0  # no sweep is closed before its time
        kept = [self.keeper.accept(one) for server in self._agents for one in self._swept(server, tick)]
        self._look()  # else it waits for more
        for future in kept:
            done(future)
        return tick

    @override
    def _swept(self, server: str, tick: int) -> Iterator[Delivery]:
        return super()._swept(server, tick + (self.ahead_seconds if server == LATE else 0))

    def wait_until(self, clock_seconds: float) -> int:
        """Let time pass for the keeper alone."""
        self.clock_seconds = clock_seconds
        self._look()
        return self.counter()

    def wait(self, seconds: int) -> int:
        """Let time pass in which no agent reads."""
        self._now += seconds
        self.site.advance(seconds)
        return self.wait_until(self.clock_seconds + seconds)

    def let_some_restart(self, rng: Random) -> None:
        if rng.random() < 1 / 3:
            self.end()
            self.begin()

    def _look(self) -> None:
        """Let the keeper do what is due; it does so after whatever it is asked."""
        for _ in range(2):
            done(self.keeper.ask_showing(lambda _: None))

    def counter(self) -> int:
        """Return what the node's shows; nothing where it is not told of."""
        told = self.keeper.published.client_tables.get("fs")
        if told is None:
            return 0
        osts = told.tables["OST"]
        row = osts.row(NID.encode())
        assert row is not None
        columns = [at for at, counter in enumerate(osts.counters) if counts_written_bytes(counter)]
        written = int(osts.sums[row, columns].sum()) - told.earlier.get(NID.encode(), (0,) * NUMBERS)[1]
        return written // MIB

    @override
    def close(self) -> None:
        self.end()
        super().close()


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[Moving]:
    world = Moving(tmp_path)
    yield world
    world.close()


def told_by_a_relay(moving: Moving) -> None:
    """Let agents read 20 MiB, and a relay tell of 1000 more which they do not read."""
    moving.write(10)
    assert moving.periods()[-1] == 20
    moving.move(RELAY)
    moving.tell(20)
    moving.write(500)
    moving.read()
    moving.tell(1020)
    assert moving.counter() == 1020


def goes_on(moving: Moving) -> None:
    """See that what is done from now on is counted, and nothing else."""
    assert set(moving.periods()) == {1020}
    moving.write(1)
    assert moving.periods()[-1] == 1022


@pytest.mark.parametrize("restarts", [False, True])
def test_agents_that_read_again_at_different_times_count_nothing_twice_that_a_relay_told(
    moving: Moving, *, restarts: bool
) -> None:
    told_by_a_relay(moving)
    moving.move(HERE, [EARLY])
    if restarts:
        moving.end()
        moving.begin()
    assert moving.periods()[-1] == 1020
    moving.move(HERE, [EARLY, LATE])
    goes_on(moving)


def test_what_was_read_before_a_relay_told_may_be_shown_before_any_agent_reads_again(moving: Moving) -> None:
    told_by_a_relay(moving)
    moving.move(HERE, [EARLY, LATE])
    assert moving.wait(40) == 1020
    goes_on(moving)


def test_a_relay_whose_clock_was_ahead_does_not_make_all_that_agents_read_earlier(moving: Moving) -> None:
    told_by_a_relay(moving)
    moving.tell(1020, ahead_seconds=86400)
    moving.move(HERE, [EARLY, LATE])
    goes_on(moving)


def test_what_was_read_when_a_relay_tells_again_and_no_sweep_has_shown_it_is_counted_once(moving: Moving) -> None:
    told_by_a_relay(moving)
    moving.move(HERE, [EARLY])
    assert moving.periods()[-1] == 1020
    moving.move(HERE, [EARLY, LATE])
    moving.periods(1)
    moving.read()
    moving.move(RELAY)
    moving.tell(1020)
    assert moving.counter() == 1020


def test_the_first_read_of_a_server_whose_clock_is_ahead_is_no_step(tmp_path: Path) -> None:
    moving = Moving(tmp_path, RELAY)
    try:
        moving.write(500)
        moving.tell(1020)
        moving.move(HERE, [EARLY])
        assert moving.periods()[-1] == 1020
        moving.ahead_seconds = 3600
        moving.move(HERE, [EARLY, LATE])
        goes_on(moving)
    finally:
        moving.close()


@pytest.mark.parametrize("moved_before", [True, False])
def test_a_row_of_an_older_version_says_not_that_agents_read_the_file_system_by_now(
    moving: Moving, *, moved_before: bool
) -> None:
    """Counters of that version were totals. If the file system moves with the update, they go on from the relay's."""
    moving.write(510)
    assert moving.periods()[-1] == 1020
    moving.end()
    told = RelayHead(tick_seconds=EPOCH_SECONDS if moved_before else int(moving.clock_seconds))
    row = RelayRequest(head=told, nid=[NID], total=[0, 300 * MIB, 0, 0, 0, 0])
    ledger = Ledger(moving.ledger_path)
    ledger.open()
    ledger.write_relayed("fs", row.SerializeToString())
    ledger.close()
    shown = 1020 if moved_before else 300
    for _ in range(2):
        moving.begin()
        assert moving.periods()[-1] == shown
        moving.end()
    moving.begin()
    moving.move(RELAY)
    moving.tell(5000)
    assert moving.counter() == shown


@pytest.mark.parametrize("seed", range(8))
def test_whatever_way_it_moves_counters_show_what_was_done_while_somebody_told_of_it(moving: Moving, seed: int) -> None:
    """Of random moves; all work is done while either a relay tells or both agents read."""
    rng = Random(seed)
    written = 0
    for step in range(6):
        if step % 2:
            moving.move(RELAY)
            moving.tell(written + 7)  # with which the sender began
        elif step:
            first = rng.choice([[EARLY], [LATE], [EARLY, LATE], []])
            moving.move(HERE, first)
            moving.let_some_restart(rng)
            if first:
                assert moving.periods()[-1] == written
            else:
                moving.wait(40)
            moving.let_some_restart(rng)
            moving.move(HERE, [EARLY, LATE])
            assert moving.periods()[-1] == written
        mib = rng.randrange(50)
        moving.write(mib)
        written += 2 * mib
        if step % 2:
            moving.read()
            moving.tell(written + 7)
            assert moving.counter() == written
        else:
            assert moving.periods()[-1] == written
        moving.let_some_restart(rng)
