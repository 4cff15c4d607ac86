"""Relays: what is sent of a sweep, what is taken of what was sent, and how totals are held."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from harvest.v1.stream_pb2 import RelayHead, RelayRefusal, RelayRefusalReason, RelayRequest, RelayResponse
from harvest_aggregator.clients import Clients, ClientTables
from harvest_aggregator.hosts import Host
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.limits import MESSAGE_BYTES_MAX, RELAY_BYTES_MAX
from harvest_aggregator.nodes import Rates
from harvest_aggregator.published import Published, RelayStatus
from harvest_aggregator.refusals import RELAY_LABELS
from harvest_aggregator.relays import incoming, outgoing
from harvest_aggregator.relays.earlier import Held
from harvest_aggregator.relays.pictures import NODES_MAX, NUMBERS, Picture, PictureError, parts, put_together
from harvest_aggregator.relays.taking import Relayed, relay_troubles
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Written
from harvest_aggregator.sinks.relay import Receiver, Relay, RelayPlan, relay_plans
from harvest_core.accounting.sweeps import ClosedSweep, Place
from harvest_pki.folders import Tls
from harvest_site.loading import load
from support.uplinks import ca
from unit.aggregator.publishing import CREATE, OPEN, READ, TICK, WRITE, Did, table

NODE1, NODE2, OTHERS, SERVER = b"10.1.0.1@o2ib2", b"10.1.0.2@o2ib2", b"10.3.0.1@o2ib", b"10.1.0.9@o2ib2"
OSTS: dict[bytes, Did] = {
    NODE1: {READ: (2, 200, 0.1, 10.0), CREATE: (5, 0, 0.5, 0.0)},
    NODE2: {WRITE: (1, 100)},
    OTHERS: {WRITE: (1, 7, 1.0, 7.0)},
    SERVER: {WRITE: (1, 100, 1.0, 100.0)},
}
MDTS: dict[bytes, Did] = {NODE1: {OPEN: (4, 40, 2.0, 20.0), READ: (1, 5, 0.0, 1.0)}}
SENDER = load("""
filesystems: [{name: gdata, servers: [oss1]}, {name: home, servers: [oss2]}]
clusters: [{name: xe, lnets: [o2ib2], filesystems: [gdata, home]}]
relays: [{cluster: xe, filesystems: [gdata], endpoint: "head:8023", tlsSecretRef: {name: relay-xe}}]
""")
HEAD = load("""
filesystems: [{name: local, servers: [oss7]}]
clusters: [{name: xe, lnets: [o2ib2], filesystems: [gdata, local]}]
accepts: [{name: site, filesystems: [gdata], lnets: [o2ib2]}, {name: else, filesystems: [archive], lnets: [o2ib2]}]
""")


NOTHING_KEPT = incoming.Kept({}, 0)
NEVER_OWN = ClientTables({}, frozenset(), 0, frozenset())


def told(*, tick: int = TICK, live: frozenset[bytes] = frozenset({NODE1})) -> ClientTables:
    return ClientTables({"OST": table(OSTS), "MDT": table(MDTS)}, {SERVER}, tick, live)


def sweep(tables: Mapping[str, ClientTables], *missing: Place) -> Published:
    closed = ClosedSweep(tick_seconds=TICK, missing=frozenset(missing), tables={}, work={})
    return Published(tick_seconds=TICK, closed=closed, client_tables=tables)


def head(filesystem: str = "gdata", **more: int) -> RelayHead:
    (cluster,) = SENDER.spec.clusters
    made = outgoing.head(software="1", site="site", cluster=cluster, filesystem=filesystem, period_seconds=60)
    made.MergeFrom(RelayHead(tick_seconds=TICK, complete=True))
    for name, value in more.items():
        setattr(made, name, value)
    return made


def picture(nodes: Mapping[str, int], **more: int) -> Picture:
    """Return nodes that have each total, and a tenth of it per second."""
    totals = np.array([[total] * NUMBERS for total in nodes.values()], np.int64).reshape(-1, NUMBERS)
    return Picture(
        head=head("gdata", **more),
        nids=tuple(nodes),
        live=frozenset(nodes),
        totals=totals,
        rates=np.maximum(totals, 0) / 10,
    )


def sent(published: Published, told: Mapping[str, int] | None = None) -> list[Picture]:
    (cluster,) = SENDER.spec.clusters
    needed = outgoing.needed(published, ["gdata"])
    return list(outgoing.pictures(needed, {"gdata": head()}, cluster.owns, told or {}))


# --- what is sent ---


def test_all_nodes_of_the_cluster_are_sent_and_nobody_else() -> None:
    (one,) = sent(sweep({"gdata": told(), "home": told()}))
    assert one.nids == ("10.1.0.1@o2ib2", "10.1.0.2@o2ib2")
    assert one.live == {"10.1.0.1@o2ib2"}
    assert one.totals.tolist() == [[200, -1, 5, 5, -1, 4], [-1, 100, 0, -1, -1, -1]]
    assert one.rates.tolist() == [[10.0, 0.0, 0.5, 1.0, 0.0, 2.0], [0.0] * NUMBERS]
    assert (one.head.tick_seconds, one.head.hops, one.head.complete) == (TICK, 1, True)


def test_what_was_told_is_not_told_again() -> None:
    assert not sent(sweep({"gdata": told()}), {"gdata": TICK})
    assert len(sent(sweep({"gdata": told()}), {"gdata": TICK - 20})) == 1


def test_a_sweep_that_lacks_a_target_is_not_complete() -> None:
    (one,) = sent(sweep({"gdata": told()}, Place("gdata", "OST", "gdata-OST0000")))
    assert not one.head.complete
    (one,) = sent(sweep({"gdata": told()}, Place("home", "OST", "home-OST0000")))
    assert one.head.complete


# --- the wire ---


def through_the_wire(one: Picture) -> Picture:
    return put_together([RelayRequest.FromString(part.SerializeToString()) for part in parts(one)])


def test_a_picture_comes_as_it_was_sent() -> None:
    (one,) = sent(sweep({"gdata": told()}))
    other = through_the_wire(one)
    assert (other.head, other.nids, other.live) == (one.head, one.nids, one.live)
    assert other.totals.tolist() == one.totals.tolist()
    assert other.rates.tolist() == one.rates.tolist()
    assert through_the_wire(picture({})).nids == ()


def test_parts_stay_within_what_is_taken_however_large_numbers_are() -> None:
    nodes = {
        f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}@o2ib999999": (1 << 63) - 1 for number in range(40_000)
    }
    messages = list(parts(picture(nodes)))
    sizes = [message.ByteSize() for message in messages]
    assert len(messages) == 3
    assert max(sizes) < MESSAGE_BYTES_MAX
    assert sum(sizes) / len(nodes) * NODES_MAX < RELAY_BYTES_MAX
    assert put_together(messages).nids == tuple(nodes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda one: one.ClearField("head"), "only that one, says what it is about"),
        (lambda one: setattr(one.head, "protocol", 2), "speaks protocol 2"),
        (lambda one: setattr(one.head, "tick_seconds", 0), "no tick"),
        (lambda one: setattr(one.head, "period_seconds", 0), "no period"),
        (lambda one: one.head.nids.append("10.1.[9-0].*@o2ib"), "ranges that cannot be read"),
        (lambda one: one.head.nids.extend(["1@gni"] * 101), "ranges that cannot be read"),
        (lambda one: one.head.lnets.extend(["gni"] * 101), "more networks than there are"),
        (lambda one: one.nid.append(one.nid[0]), "there twice"),
        (lambda one: one.nid.__setitem__(0, "nobody"), "no NID that could be"),
        (lambda one: one.total.pop(), "11 numbers are not 6 of each of 2"),
        (lambda one: one.total.__setitem__(0, -2), "below zero"),
        (lambda one: one.rate.__setitem__(0, float("nan")), "cannot be"),
        (lambda one: one.rate.__setitem__(0, float("inf")), "cannot be"),
        (lambda one: one.rate.__setitem__(0, -0.5), "below zero"),
        (lambda one: one.live.append(True), "too few"),
    ],
)
def test_nonsense_is_refused(change: Callable[[RelayRequest], object], reason: str) -> None:
    (message,) = parts(picture({"1@gni": 5, "2@gni": 6}))
    change(message)
    with pytest.raises(PictureError, match=reason):
        put_together([message])


def test_nothing_and_two_heads_are_nonsense() -> None:
    (message,) = parts(picture({"1@gni": 5}))
    for messages in ([], [message, message]):
        with pytest.raises(PictureError):
            put_together(messages)


# --- what is taken ---


def refused(one: Picture, sender: str = "site") -> tuple[incoming.Verdict, str, str]:
    verdict = incoming.judged(one, sender, HEAD)
    (refusal,) = verdict.refusals
    return verdict, RelayRefusalReason.Name(refusal.reason).rpartition("_")[2], refusal.message


def test_what_the_site_accepts_is_taken_whole() -> None:
    one = picture({"10.1.0.1@o2ib2": 5})
    assert incoming.judged(one, "site", HEAD) == (one, ())


@pytest.mark.parametrize(
    ("filesystem", "sender", "hops", "reason", "message"),
    [
        ("local", "site", 1, "LOCAL", "'local' is a file system of this site itself"),
        ("archive", "site", 1, "FILESYSTEM", "'archive' is not taken from relay site"),
        ("gdata", "else", 1, "FILESYSTEM", "'gdata' is not taken from relay else"),
        ("gdata", "site", 2, "HOPS", "'gdata' came over 2 relays"),
        ("gdata", "site", 0, "HOPS", "'gdata' came over 0 relays"),
    ],
)
def test_what_it_does_not_accept_is_refused_with_the_reason(
    filesystem: str, sender: str, hops: int, reason: str, message: str
) -> None:
    one = replace(picture({"10.1.0.1@o2ib2": 5}), head=head(filesystem, hops=hops))
    verdict, because, said = refused(one, sender)
    assert (verdict.taken, because) == (None, reason)
    assert message in said


def test_nodes_elsewhere_are_left_out_and_the_others_taken() -> None:
    verdict, reason, said = refused(picture({"10.1.0.1@o2ib2": 5, "10.1.0.1@o2ib": 7, "10.1.0.2@o2ib2": 6}))
    assert verdict.taken is not None
    assert verdict.taken.nids == ("10.1.0.1@o2ib2", "10.1.0.2@o2ib2")
    assert verdict.taken.live == set(verdict.taken.nids)
    assert verdict.taken.totals[:, 0].tolist() == [5, 6]
    assert reason == "NODES"
    assert "1 nodes of 'gdata' are on none of the networks o2ib2" in said
    assert "such as 10.1.0.1@o2ib:" in said
    assert refused(picture({"10.1.0.1@o2ib": 7}))[0].taken is None


# --- totals ---


def test_a_total_that_is_lower_is_held_until_it_is_passed() -> None:
    held: Held = {}
    seen = []
    for total in (5, 9, 3, 8, 9, 12):
        after = incoming.merged(held, picture({"1@gni": total}))
        held = after.held
        seen.append((after.totals[0, 0], after.lower))
    assert seen == [(5, 0), (9, 0), (9, 1), (9, 1), (9, 0), (12, 0)]


def test_who_is_not_told_of_any_more_is_not_forgotten() -> None:
    held = incoming.merged({}, picture({"1@gni": 9, "2@gni": 4})).held
    held = incoming.merged(held, picture({"2@gni": 5})).held
    assert incoming.merged(held, picture({"1@gni": 1})).totals[0, 0] == 9


def test_not_more_nodes_are_held_than_a_relay_may_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "NODES_MAX", 2)
    held = incoming.merged({}, picture({"1@gni": 1, "2@gni": 2})).held
    held = incoming.merged(held, picture({"1@gni": 3, "3@gni": 3})).held
    assert list(held) == ["1@gni", "3@gni"]


@given(st.lists(st.dictionaries(st.sampled_from(["1@gni", "2@gni", "3@gni"]), st.integers(-1, 9)), max_size=8))
def test_whatever_comes_twice_late_or_never_the_highest_counts(pictures: list[dict[str, int]]) -> None:
    held: Held = {}
    for nodes in pictures:
        held = incoming.load(incoming.dump(incoming.Kept(incoming.merged(held, picture(nodes)).held, TICK))).held
    highest = {nid: max(nodes[nid] for nodes in pictures if nid in nodes) for nodes in pictures for nid in nodes}
    assert {nid: totals[0] for nid, totals in held.items()} == highest


# --- as if local ---


def named(nid: str) -> Host | None:
    return Host(f"n{nid}", nid, "xe")


def test_a_head_shows_what_the_sender_shows() -> None:
    here, there = Clients(), Clients()
    closed = ClosedSweep(
        tick_seconds=TICK,
        missing=frozenset(),
        tables={},
        clients={("gdata", "OST"): table(OSTS), ("gdata", "MDT"): table(MDTS)},
        work={},
    )
    here.take(closed, lambda _: ({NODE1}, {SERVER}))
    (one,) = sent(Published(closed=closed, client_tables=here.tables()))
    one = through_the_wire(one)
    there.take_relayed("gdata", incoming.tables(one, incoming.merged({}, one).totals, NOTHING_KEPT), 60)
    mine = [client for client in here.told(named).clients if client.nid.encode() in {NODE1, NODE2}]
    assert list(there.told(named).clients) == mine
    assert mine[0].filesystems["gdata"] == Rates(11.0, None, 0.5, 2.0)
    assert there.tables()["gdata"].tables["OST"].job(NODE2).write_bytes == 100


def test_nodes_of_a_relay_that_is_silent_or_accepted_no_more_are_dropped() -> None:
    def kept(age: int, *accepted: str) -> bool:
        clients = Clients()
        one = picture({"1@gni": 5})
        clients.take_relayed("gdata", incoming.tables(one, one.totals, NOTHING_KEPT), 60)
        clients.forget(TICK + age, {}, accepted)
        return bool(clients.told(named).clients)

    assert kept(180, "gdata")
    assert not kept(181, "gdata")
    assert not kept(0)


def test_an_older_picture_changes_no_rates() -> None:
    clients = Clients()
    for total, tick in ((5, TICK), (4, TICK - 60)):
        one = picture({"1@gni": total}, tick_seconds=tick)
        clients.take_relayed("gdata", incoming.tables(one, one.totals, NOTHING_KEPT), 60)
    assert clients.told(named).clients[0].filesystems["gdata"].oss_ops == 0.5


# --- what the receiver keeps ---


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path / "ledger.db")
    made.open()
    yield made
    made.close()


def opened(ledger: Ledger) -> tuple[Relayed, Clients]:
    clients = Clients()
    relayed = Relayed(HEAD, ledger, clients, lambda _: NEVER_OWN)
    relayed.load()
    return relayed, clients


def test_what_was_told_outlives_the_receiver_and_rates_do_not(ledger: Ledger) -> None:
    relayed, clients = opened(ledger)
    assert relayed.take("site", picture({"10.1.0.1@o2ib2": 90}), TICK) == RelayResponse(nodes=1)
    assert clients.told(named).clients
    relayed, clients = opened(ledger)
    assert not clients.told(named).clients
    relayed.take("site", picture({"10.1.0.1@o2ib2": 7}, tick_seconds=TICK + 60), TICK + 61)
    assert clients.tables()["gdata"].tables["OST"].job(NODE1).read_bytes == 90
    (status,) = relayed.statuses()
    assert (status.relay, status.nodes, status.lower_nodes) == ("site", 1, 1)


def test_a_clock_that_is_wrong_gives_totals_and_no_rates(ledger: Ledger) -> None:
    for ahead in (181, -181):
        relayed, clients = opened(ledger)
        relayed.take("site", picture({"10.1.0.1@o2ib2": 5}), TICK + ahead)
        assert not clients.told(named).clients
    assert incoming.load(dict(ledger.relayed())["gdata"])[:2] == ({"10.1.0.1@o2ib2": (5,) * NUMBERS}, TICK)


def test_a_call_that_was_overtaken_is_no_reason_to_warn_and_one_of_a_restored_sender_is(ledger: Ledger) -> None:
    node = "10.1.0.1@o2ib2"
    relayed, clients = opened(ledger)

    def told(total: int, tick: int) -> tuple[int, int]:
        relayed.take("site", picture({node: total}, tick_seconds=tick), TICK + 61)
        (status,) = relayed.statuses()
        assert clients.tables()["gdata"].tables["OST"].job(NODE1).read_bytes == 9
        return status.tick_seconds, status.lower_nodes

    assert told(9, TICK + 60) == (TICK + 60, 0)
    assert told(7, TICK) == (TICK + 60, 0), "what is known of the later one stands"
    relayed, clients = opened(ledger)
    relayed.take("site", picture({node: 7}, tick_seconds=TICK), TICK + 61)
    assert relayed.statuses() == (), "a receiver that began anew knows that it came late, too"
    assert told(8, TICK + 120) == (TICK + 120, 1)
    assert told(9, TICK + 180) == (TICK + 180, 0)


def test_a_sender_whose_clock_was_ahead_is_heard_again_once_it_is_right(ledger: Ledger) -> None:
    relayed, _ = opened(ledger)
    relayed.take("site", picture({"10.1.0.1@o2ib2": 9}, tick_seconds=TICK + 9999), TICK)
    relayed.take("site", picture({"10.1.0.1@o2ib2": 8}, tick_seconds=TICK + 60), TICK + 61)
    (status,) = relayed.statuses()
    assert (status.tick_seconds, status.lower_nodes) == (TICK + 60, 1)


@pytest.mark.parametrize(("seconds", "is_told"), [(180, False), (181, True)])
def test_somebody_is_told_of_a_sender_whose_clock_is_ahead_until_it_is_right(
    ledger: Ledger, seconds: int, *, is_told: bool
) -> None:
    relayed, clients = opened(ledger)
    nodes = {"10.1.0.1@o2ib2": 9}

    def trouble(now_seconds: int) -> list[str]:
        return [why for relay, why in relay_troubles(HEAD, relayed.statuses(), now_seconds) if relay == "site"]

    relayed.take("site", picture(nodes, tick_seconds=TICK + seconds), TICK)
    assert bool(clients.told(named).clients) is not is_told
    said = (
        "what is told of gdata is of a time to come, so that no rates are shown: is the clock of its aggregator ahead, "
        "or this one's behind?"
    )
    assert trouble(TICK) == trouble(TICK + 59) == [said] * is_told
    relayed.take("site", picture(nodes, tick_seconds=TICK + 300), TICK + 301)
    assert trouble(TICK + 301) == []


def test_totals_of_before_ticks_were_written_down_are_read() -> None:
    row = RelayRequest(nid=["1@gni"], total=[5] * NUMBERS).SerializeToString()
    assert incoming.load(row) == incoming.Kept({"1@gni": (5,) * NUMBERS}, 0)


def test_what_is_refused_leaves_no_trace(ledger: Ledger) -> None:
    relayed, clients = opened(ledger)
    answer = relayed.take("else", picture({"10.1.0.1@o2ib2": 5}), TICK)
    assert (answer.nodes, len(answer.refusals)) == (0, 1)
    assert not clients.told(named).clients
    assert not dict(ledger.relayed())
    assert not relayed.statuses()


def test_somebody_is_told_of_relays_that_are_silent_or_were_restored() -> None:
    def status(**more: int) -> RelayStatus:
        return replace(
            RelayStatus(
                relay="site",
                filesystem="gdata",
                tick_seconds=TICK,
                period_seconds=60,
                complete=True,
                nodes=1,
                lower_nodes=0,
            ),
            **more,  # type: ignore[arg-type]
        )

    silent = "else", "nothing was told of archive yet"
    assert list(relay_troubles(HEAD, [], TICK)) == [("site", "nothing was told of gdata yet"), silent]
    assert list(relay_troubles(HEAD, [status()], TICK + 180)) == [silent]
    for seconds in (181, 9_000):
        assert ("site", "nothing was told of gdata since 2023-11-14 22:13:20 UTC") in list(
            relay_troubles(HEAD, [status()], TICK + seconds)
        )
    assert "3 nodes of gdata have lower totals" in next(relay_troubles(HEAD, [status(lower_nodes=3)], TICK))[1]


# --- the sender ---


class Failure(grpc.RpcError):
    """What gRPC raises when a call fails."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__()
        self._said = code, details

    @override
    def code(self) -> grpc.StatusCode:
        return self._said[0]

    @override
    def details(self) -> str:
        return self._said[1]


class Told:
    """A receiver that does as it is told."""

    def __init__(self) -> None:
        self.answer: RelayResponse | Failure = RelayResponse(nodes=2)
        self.ticks: list[int] = []
        self.names: list[str] = []

    @contextmanager
    def connect(self, address: str, name: str, _: Tls) -> Iterator[Receiver]:
        self.names.append(f"{address} {name}")
        yield self

    def tell(self, picture: Picture) -> RelayResponse:
        self.ticks.append(picture.head.tick_seconds)
        if isinstance(self.answer, Failure):
            raise self.answer
        return self.answer


def relay(folder: Path, receiver: Told) -> Relay:
    (plan,) = relay_plans(SENDER, folder, own_site="site").values()
    assert isinstance(plan, RelayPlan)
    return Relay(plan, connect=receiver.connect)


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    made = ca(tmp_path / "ca", "head")
    made.write_relay(tmp_path / "relay-xe", "site", now=made.load().certificate.not_valid_before_utc)
    return tmp_path


def write(relay: Relay, tick: int) -> Written:
    return relay.write(relay.needed(sweep({"gdata": told(tick=tick)})), lambda _: True)


def test_each_tick_is_told_once_to_whoever_proves_to_be_the_receiver(secrets: Path) -> None:
    receiver = Told()
    sender = relay(secrets, receiver)
    assert [write(sender, tick) for tick in (TICK, TICK, TICK + 60)] == [ACCEPTED] * 3
    assert receiver.ticks == [TICK, TICK + 60]
    assert set(receiver.names) == {"head:8023 main.head.harvest"}


def test_who_does_not_answer_is_told_again_and_who_refuses_with_the_next_tick(secrets: Path) -> None:
    receiver = Told()
    sender = relay(secrets, receiver)
    receiver.answer = Failure(grpc.StatusCode.UNAVAILABLE, "refused connection")
    assert write(sender, TICK) == Written(Outcome.KEPT, "head:8023 did not take it: refused connection")
    receiver.answer = Failure(grpc.StatusCode.PERMISSION_DENIED, "relay site is not listed")
    assert write(sender, TICK) == Written(Outcome.REJECTED, "head:8023 refused: relay site is not listed")
    receiver.answer = Failure(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    assert write(sender, TICK).reason.endswith("takes no relays: update it")
    receiver.answer = RelayResponse(refusals=[RelayRefusal(message="no")])
    assert write(sender, TICK) == Written(Outcome.REJECTED, "head:8023 refused: no")
    receiver.answer = RelayResponse(nodes=1, refusals=[RelayRefusal(message="one not")])
    assert write(sender, TICK + 60) == Written(Outcome.ACCEPTED, "head:8023 refused: one not")
    receiver.answer = RelayResponse(nodes=2)
    assert write(sender, TICK + 120) == ACCEPTED


def test_files_that_are_not_there_are_waited_for(tmp_path: Path) -> None:
    written = write(relay(tmp_path, Told()), TICK)
    assert written.outcome is Outcome.KEPT
    assert "relay-xe/tls.crt" in written.reason
    (plan,) = relay_plans(SENDER, None, own_site="site").values()
    assert isinstance(plan, RelayPlan)
    assert "give --secrets DIR" in write(Relay(plan), TICK).reason


def test_nodes_that_are_not_read_cannot_be_told(secrets: Path) -> None:
    site = load("""
filesystems: [{name: gdata, servers: [oss1], clients: {enabled: false}}]
clusters: [{name: xe, lnets: [o2ib2], filesystems: [gdata]}]
relays: [{cluster: xe, filesystems: [gdata], endpoint: "head:8023", tlsSecretRef: {name: relay-xe}}]
""")
    (plan,) = relay_plans(site, secrets, own_site="site").values()
    assert isinstance(plan, RelayPlan)
    written = write(Relay(plan, connect=Told().connect), TICK)
    assert written == Written(Outcome.REJECTED, "the nodes of gdata are not read: set `clients.enabled` there")


# --- the page ---


def test_the_page_has_good_sites_and_every_reason() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/relays.md").read_text()
    sender, receiver = (load(text).spec for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    assert sender.relays[0].filesystems == receiver.accepts[0].filesystems
    assert not receiver.filesystems
    table = page.partition("| reason |")[2]
    assert re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE) == list(RELAY_LABELS)
