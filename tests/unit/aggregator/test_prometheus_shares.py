"""Counters of clients: of a file system that is not heard of, and of nodes that have no name yet."""

from collections.abc import Mapping, Sequence

import pytest

from harvest_aggregator.clients import Clients, ClientTables
from harvest_aggregator.published import Published
from harvest_aggregator.sinks.prometheus_cells import Moment
from harvest_aggregator.sinks.prometheus_series import ALL, OTHER, TOP, Entry, Series, Subject
from harvest_aggregator.sinks.prometheus_shares import clients
from harvest_aggregator.sinks.scrapes import HOLD_SECONDS, Scrapes
from unit.aggregator.publishing import TICK, WRITE, table

PERIOD = 60
OUTAGE_PERIODS = 20
NODE1, NODE2 = "10.1.0.1@o2ib2", "10.1.0.2@o2ib2"


class Head:
    """What an aggregator knows of the nodes of one file system, and a sink's series of them."""

    def __init__(self, mode: str) -> None:
        self.clients = Clients()
        self.mode = mode
        self.series = Series(mode=mode, limit=10)
        self.scrapes = Scrapes()
        self.now = TICK
        self.rendering = 0
        self.written: dict[Subject, Entry] = {}
        self.shown: dict[Subject, int] = {}
        self.nameless: set[str] = set()

    def restart(self) -> None:
        """Let another process go on from what was written."""
        self.series = Series(mode=self.mode, limit=10)
        self.scrapes = Scrapes()
        here = {subject: entry for subject, entry in self.written.items() if not entry.left_seconds}
        self.series.load(here, Moment(self.rendering, self.now, self.now, 0, 0))

    def former(self, subjects: Sequence[Subject]) -> Mapping[Subject, Entry]:
        found = {subject: self.written[subject] for subject in subjects if subject in self.written}
        return {subject: entry for subject, entry in found.items() if entry.left_seconds}

    def keep(self, entries: Mapping[Subject, Entry]) -> None:
        self.written |= entries

    def take(self, told: Mapping[str, int], live: Sequence[str]) -> None:
        """Take in what is told of nodes."""
        nodes = {nid.encode(): {WRITE: (1, total, 1.0, 1.0)} for nid, total in told.items()}
        tables = ClientTables({"OST": table(nodes)}, set(), self.now, {nid.encode() for nid in live})
        self.clients.take_relayed("gdata", tables, PERIOD)

    def period(self, told: Mapping[str, int] | None, live: Sequence[str] = (NODE1, NODE2)) -> None:
        """Let a period pass in which these bytes in all were told of each node, or nothing was."""
        self.now += PERIOD
        if told is not None:
            self.take(told, live)
        self.clients.forget(self.now, {}, {"gdata"})
        self.render()

    def render(self) -> None:
        """Show what is known now."""
        published = Published(
            clients=self.clients.told(lambda _: None).clients,
            client_tables=self.clients.tables(),
            tick_seconds=self.now,
        )
        self.rendering += 1
        gap, seen = self.scrapes.gap_seconds(self.now), self.scrapes.seen_by_all(self.now)
        picture = clients(
            published,
            lambda client: None if client.nid in self.nameless else (client.nid,),
            everybody=self.mode == ALL,
        )
        shown = self.series.step(picture, self, Moment(self.rendering, self.now, self.now, gap, seen))
        self.shown = {
            self.series.subjects[subject]: value
            for subject, column, value in zip(*(numbers.tolist() for numbers in shown), strict=True)
            if self.series.columns[column][1].endswith("write_bytes")
        }
        self.scrapes.note("prometheus", self.rendering, self.now)


@pytest.mark.parametrize("mode", [ALL, TOP])
def test_what_nodes_did_while_nobody_heard_of_them_is_in_their_own_counters(mode: str) -> None:
    assert OUTAGE_PERIODS * PERIOD > HOLD_SECONDS
    head = Head(mode)
    head.period({NODE1: 1, NODE2: 1})
    for _ in range(5):
        head.period({NODE1: 100, NODE2: 200})
    before = dict(head.shown)
    for _ in range(OUTAGE_PERIODS):
        head.period(None)
    assert head.shown == {}, "nobody knows"
    head.period({NODE1: 5100, NODE2: 7200})
    grown = {subject: value - before.get(subject, 0) for subject, value in head.shown.items()}
    assert grown.pop(OTHER, 0) == 0
    assert grown == {NODE1: 5000, NODE2: 7000}
    if mode == ALL:
        assert (head.shown[NODE1], head.shown[NODE2]) == (5100, 7200)


def test_who_did_not_come_back_leaves_once_the_file_system_is_heard_of_again() -> None:
    head = Head(ALL)
    for _ in range(5):
        head.period({NODE1: 100, NODE2: 200})
    for _ in range(OUTAGE_PERIODS):
        head.period(None)
    for _ in range(5):
        head.period({NODE1: 150, NODE2: 210}, live=[NODE1])
    assert NODE2 not in head.series.subjects.values()
    assert head.shown[NODE1] == 150


@pytest.mark.parametrize("mode", [ALL, TOP])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_node_did_before_it_has_a_name_is_counted_once(mode: str, *, restarts: bool) -> None:
    head = Head(mode)
    for total in (10, 20, 20, 20):
        head.period({NODE1: total})
    before = sum(head.shown.values())
    head.nameless = {NODE2}
    for total in (100, 103, 104):
        head.period({NODE1: 20, NODE2: total})
    if restarts:
        head.restart()
    head.nameless = set()
    for total in (200, 207, 208):
        head.period({NODE1: 20, NODE2: total})
    assert sum(head.shown.values()) - before == 208
    assert head.shown[NODE2] == 8, "from when it was shown on; all of before is in `other`"


def test_what_nodes_without_names_had_when_they_were_first_looked_at_is_no_step() -> None:
    head = Head(ALL)
    head.nameless = {NODE1, NODE2}
    head.period({NODE1: 1_000_000, NODE2: 2_000_000})
    assert head.shown == {OTHER: 3_000_000}, "where its counter begins, for Prometheus"
    head.nameless = set()
    for more in range(5):
        head.period({NODE1: 1_000_000 + more, NODE2: 2_000_000})
    assert head.shown == {OTHER: 3_000_000, NODE1: 4, NODE2: 0}
