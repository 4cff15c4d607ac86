"""What counters of nodes show at a head, and what they do not: what was done before anybody there could know when."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from typing_extensions import override

from harvest_aggregator.accounts import ClientRead
from harvest_aggregator.clients import Clients, ClientTables
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.relays import incoming
from harvest_aggregator.relays.earlier import of_read
from harvest_aggregator.relays.outgoing import head
from harvest_aggregator.relays.pictures import NONE_EVER, NUMBERS, Picture
from harvest_aggregator.relays.taking import Relayed
from harvest_aggregator.sinks.prometheus_series import ALL, OTHER, TOP
from harvest_core.accounting.apply import Work
from harvest_core.accounting.mounts import NEVER, MountState
from harvest_core.accounting.sweeps import ClosedSweep, Place
from harvest_site.clusters import Cluster
from harvest_site.loading import load
from harvest_site.model import Site
from unit.aggregator import test_prometheus_shares as shares
from unit.aggregator.publishing import CREATE, WRITE, Did, table

NODE1, NODE2, NODE3, NODE4 = (f"10.1.0.{number}@o2ib2" for number in (1, 2, 3, 4))
OST1 = Place("gdata", "OST", "gdata-OST0001", of_clients=True)
FAR = "10.9.0.1@o2ib9"
SERVER = "10.1.0.99@o2ib2"
HISTORY = 1_000_000_000
ALL_NODES = Cluster(name="xe", lnets=("o2ib2", "o2ib9"))
FIRST_TWO = Cluster(name="xe", nids=("10.1.0.[1-2]@o2ib2",))
FIRST_THREE = Cluster(name="xe", nids=("10.1.0.[1-3]@o2ib2",))


def relayed(*lnets: str) -> Site:
    return load(f"accepts: [{{name: site, filesystems: [gdata], lnets: [{', '.join(lnets)}]}}]")


LOCAL = load("filesystems: [{name: gdata, servers: [oss1]}]")
TWO_NETWORKS = relayed("o2ib2", "o2ib9")


class Head(shares.Head):
    """An aggregator that a relay tells of the nodes of one file system, or that has agents which do."""

    def __init__(self, mode: str, folder: Path, site: Site = TWO_NETWORKS, cluster: Cluster = ALL_NODES) -> None:
        super().__init__(mode)
        self.came: dict[object, int] = {}
        self.site = site
        self.cluster = cluster
        self.own = ClientTables({}, frozenset(), 0, frozenset())
        self.ledger = Ledger(folder / "ledger.db")
        self.ledger.open()
        self._begin()

    def _begin(self) -> None:
        self.clients = Clients()
        self.relayed = Relayed(self.site, self.ledger, self.clients, lambda _: self.own)
        self.relayed.load()

    @override
    def restart(self) -> None:
        super().restart()
        self._begin()

    def change_site(self, site: Site, *, restarts: bool = False) -> None:
        self.site = site
        if restarts:
            self.restart()
        else:
            self.relayed.change_site(site)

    @override
    def take(self, told: Mapping[str, int], live: Sequence[str]) -> None:
        self.tell(told) if self.site.spec.accepts else self.sweep(told)

    def tell(self, nodes: Mapping[str, int]) -> None:
        """Tell what a relay would, which has written so many bytes of each node, and nothing else."""
        totals = np.full((len(nodes), NUMBERS), NONE_EVER, np.int64)
        totals[:, 1] = list(nodes.values())
        about = head(software="1", site="site", cluster=self.cluster, filesystem="gdata", period_seconds=60)
        about.tick_seconds = int(self.now)
        picture = Picture(
            head=about, nids=tuple(nodes), live=frozenset(nodes), totals=totals, rates=np.zeros(totals.shape)
        )
        self.relayed.take("site", picture, self.now)

    def sweep(self, nodes: Mapping[str, int]) -> None:
        """Take in what agents of the site itself tell; the server is one of those who write."""
        did: dict[bytes, Did] = {nid.encode(): {WRITE: (1, total)} for nid, total in {**nodes, SERVER: HISTORY}.items()}
        closed = ClosedSweep(
            tick_seconds=int(self.now), missing=frozenset(), tables={}, clients={("gdata", "OST"): table(did)}, work={}
        )
        live = {nid.encode() for nid in nodes}
        self.clients.take(closed, lambda _: (live, {SERVER.encode()}), self.relayed.lessened)
        self.own = self.clients.tables()["gdata"]

    def periods(self, told: Mapping[str, int], count: int = 4) -> dict[object, int]:
        """Let some pass, as many as everybody needs to see a series; return how far each ever came."""
        for _ in range(count):
            self.period(told)
            assert all(value >= self.came.get(subject, 0) for subject, value in self.shown.items()), "a counter fell"
            self.came |= self.shown
        return {subject: value for subject, value in self.came.items() if value}

    @override
    def period(self, told: Mapping[str, int] | None, live: Sequence[str] = ()) -> None:
        self.now += shares.PERIOD
        if told is not None:
            self.take(told, live)
        own = {one.name: shares.PERIOD for one in self.site.spec.filesystems}
        self.clients.forget(self.now, own, self.relayed.accepted)
        self.render()


@pytest.fixture(params=[ALL, TOP])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- who is told of for the first time ---


def test_what_is_there_when_a_file_system_is_first_told_is_where_counters_begin(tmp_path: Path) -> None:
    head = Head(ALL, tmp_path)
    head.period({NODE1: HISTORY})
    assert head.shown == {NODE1: HISTORY}, "at once, and with no 0 before"


@pytest.mark.parametrize("outage", [0, 20])
def test_a_node_that_is_new_at_the_sender_counts_from_its_first_byte(mode: str, tmp_path: Path, outage: int) -> None:
    head = Head(mode, tmp_path)
    before = head.periods({NODE1: 10})
    for _ in range(outage):
        head.period(None)
    after = head.periods({NODE1: 10, NODE2: 5000})
    assert sum(after.values()) - sum(before.values()) == 5000
    if mode == ALL:
        assert after[NODE2] == 5000


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("whose", ["the head's networks", "the sender's ranges"])
def test_what_a_node_did_before_it_was_in_reach_is_no_step(
    mode: str, tmp_path: Path, whose: str, *, restarts: bool
) -> None:
    by_head = whose == "the head's networks"
    stranger = FAR if by_head else NODE3
    head = Head(mode, tmp_path, relayed("o2ib2") if by_head else TWO_NETWORKS, ALL_NODES if by_head else FIRST_TWO)
    seen = {NODE1: 10, NODE2: 20}
    before = head.periods({**seen, **({FAR: HISTORY} if by_head else {})})
    if restarts:
        head.restart()
    if by_head:
        head.change_site(TWO_NETWORKS, restarts=restarts)
    else:
        head.cluster = FIRST_THREE
    after = head.periods({**seen, stranger: HISTORY})
    assert sum(after.values()) == sum(before.values())
    if restarts:
        head.restart()
    after = head.periods({**seen, stranger: HISTORY + 7})
    assert sum(after.values()) - sum(before.values()) == 7
    if mode == ALL:
        assert after[stranger] == 7


def test_who_was_in_reach_is_new_also_in_the_call_with_which_others_come_into_reach(tmp_path: Path) -> None:
    head = Head(ALL, tmp_path, cluster=FIRST_TWO)
    head.periods({NODE1: 10})
    head.cluster = FIRST_THREE
    assert head.periods({NODE1: 10, NODE2: 5000, NODE3: HISTORY}) == {NODE1: 10, NODE2: 5000}


def test_an_older_sender_says_not_whose_nodes_it_tells_and_all_count_from_their_first_byte(tmp_path: Path) -> None:
    head = Head(ALL, tmp_path, cluster=Cluster(name="xe"))
    head.periods({NODE1: 10})
    assert head.periods({NODE1: 10, NODE2: 5000}) == {NODE1: 10, NODE2: 5000}


def test_what_nodes_do_that_have_series_no_more_is_in_other_though_some_are_not_told_of_any_more(
    tmp_path: Path,
) -> None:
    head = Head(TOP, tmp_path)
    before = head.periods({NODE1: 10, NODE2: 5000})
    head.periods({NODE1: 10})
    after = head.periods({NODE1: 10, NODE3: 9})
    assert sum(after.values()) - sum(before.values()) == 9


@pytest.mark.parametrize("restarts", [False, True])
def test_what_forgotten_nodes_did_stays_in_the_sum_of_all(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, restarts: bool
) -> None:
    monkeypatch.setattr(incoming, "NODES_MAX", 2)
    head = Head(mode, tmp_path)
    head.periods({NODE1: 10, NODE2: 5000})
    before = head.periods({NODE1: 10})
    after = head.periods({NODE1: 10, NODE3: 9})
    assert sum(after.values()) - sum(before.values()) == 9
    head.periods({NODE1: 10})
    if restarts:
        head.restart()
    after = head.periods({NODE1: 10, NODE4: 300})
    assert sum(after.values()) - sum(before.values()) == 309
    head.change_site(LOCAL)
    head.periods({NODE1: 7})
    after = head.periods({NODE1: 1007})
    assert sum(after.values()) - sum(before.values()) == 1309


# --- file systems that move ---


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("elsewhere", [3, HISTORY], ids=["less", "more"])
@pytest.mark.parametrize("first", [LOCAL, TWO_NETWORKS], ids=["to a relay", "to own agents"])
def test_counters_go_on_where_a_file_system_is_told_by_others(
    mode: str, tmp_path: Path, first: Site, elsewhere: int, *, restarts: bool
) -> None:
    """Those have counted less than what is shown, or more; and of some nodes nobody knew before, or knows after."""
    second = LOCAL if first is TWO_NETWORKS else TWO_NETWORKS
    head = Head(mode, tmp_path, first)
    head.periods({NODE1: 500, NODE2: 600, NODE3: 700})
    before = head.periods({NODE1: 510, NODE2: 620, NODE3: 730})
    head.change_site(second, restarts=restarts)
    there = {NODE1: elsewhere, NODE2: 2 * elsewhere, NODE4: elsewhere}
    after = head.periods(there)
    assert sum(after.values()) == sum(before.values())
    if restarts:
        head.restart()
    after = head.periods({NODE1: elsewhere + 1, NODE2: 2 * elsewhere + 20, NODE4: elsewhere + 300})
    assert sum(after.values()) - sum(before.values()) == 321
    if mode == ALL:
        assert {nid: after[nid] - before.get(nid, 0) for nid in (NODE1, NODE2, NODE4)} == {
            NODE1: 1,
            NODE2: 20,
            NODE4: 300,
        }
    head.change_site(first, restarts=restarts)  # and back: those went on counting
    then = head.periods({NODE1: 5100, NODE2: 6200, NODE3: 7300})
    assert sum(then.values()) == sum(after.values())
    then = head.periods({NODE1: 5101, NODE2: 6220, NODE3: 7600})
    assert sum(then.values()) - sum(after.values()) == 321


def test_servers_are_in_no_counter_of_a_file_system_that_moved(tmp_path: Path) -> None:
    head = Head(ALL, tmp_path, LOCAL)
    head.periods({NODE1: 500})
    head.change_site(TWO_NETWORKS)
    assert head.periods({NODE1: 7}) == {NODE1: 500}
    head.change_site(LOCAL)
    shown = head.periods({NODE1: 600})
    assert shown == {NODE1: 500}
    assert OTHER not in shown


def first_read(nodes: Mapping[str, int], tick_seconds: int) -> Work:
    """Return what an OST had counted, which is read for the first time; one of its clients is a server."""
    mount = MountState()
    mount.jobs = [nid.encode() for nid in [*nodes, SERVER]]
    mount.counters = {WRITE: 0, CREATE: 1}
    mount.is_server[len(nodes)] = True
    rows = np.arange(len(mount.jobs))
    written = np.array([*nodes.values(), HISTORY])
    nothing = np.zeros(len(rows), np.int64)
    return Work(
        mount=mount,
        tick_seconds=tick_seconds,
        row=np.concatenate([rows, rows]),
        column=np.concatenate([nothing, nothing + 1]),
        samples=np.concatenate([nothing + 1, nothing + 5]),
        sum=np.concatenate([written, nothing]),
    )


def test_of_a_target_it_is_known_what_each_node_had_done_when_it_was_first_read() -> None:
    assert of_read("OST", first_read({NODE1: 7}, 0)) == {NODE1: (0, 7, 5, 0, 0, 0)}
    assert of_read("MDT", first_read({NODE1: 7}, 0)) == {NODE1: (0, 0, 0, 0, 7, 5)}


@pytest.mark.parametrize("restarts", [False, True])
def test_servers_that_report_later_than_others_bring_no_step_to_a_file_system_that_moved(
    mode: str, tmp_path: Path, *, restarts: bool
) -> None:
    head = Head(mode, tmp_path)
    before = head.periods({NODE1: 500, NODE2: 600})
    head.change_site(LOCAL)
    head.periods({NODE1: 30, NODE2: 40}, 2)
    tick = int(head.now) + shares.PERIOD
    later = first_read({NODE1: HISTORY, NODE2: HISTORY, NODE3: HISTORY}, tick)
    head.relayed.note_read(ClientRead(OST1, later, tick, NEVER))
    there = {NODE1: HISTORY + 30, NODE2: HISTORY + 40, NODE3: HISTORY}
    head.periods(there, 2)
    if restarts:
        head.restart()
    assert sum(head.periods(there).values()) == sum(before.values())
    after = head.periods({NODE1: HISTORY + 31, NODE2: HISTORY + 60, NODE3: HISTORY + 300})
    assert sum(after.values()) - sum(before.values()) == 321
