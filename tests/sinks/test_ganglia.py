"""The ganglia sink against real gmond and gmetad."""

import random
import socket
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from demo.processes import free_port
from harvest_aggregator.nodes import Node, Rates
from harvest_aggregator.sinks.running import Sinks
from harvest_aggregator.sinks.table import plans
from harvest_aggregator.sinks.udp import set_multicast
from harvest_site.loading import load
from support.ganglia import Gmetad, Gmond
from support.gmetrics import Packet, decoded
from support.nodes import BUSY, TICK, node, sweep
from support.processes import wait_for

SITE = """
filesystems: [{{name: home, servers: [oss1]}}, {{name: scratch2, alias: scr, servers: [oss2]}}]
clusters: [{{name: vu, lnets: [o2ib]}}, {{name: xe, lnets: [o2ib2]}}]
sinks: [{sinks}]
"""
IP_RECVTTL = 12
"""Linux; Python has no name for it."""
METRICS = ("read_bytes", "write_bytes", "oss_ops", "mds_ops")
PACKETS_PER_SECOND = 10_000
"""Not more are sent."""


class Sending:
    """Sinks of a site, and a tick that goes on.

    But where it is said, a sweep has less packets than gmond's socket holds: none is lost even if gmond sleeps.
    """

    def __init__(self) -> None:
        self.sinks = Sinks()
        self.tick = TICK

    def tell(self, *sinks: str) -> None:
        self.sinks.change(plans(load(SITE.format(sinks=", ".join(sinks)))))

    def sweep(self, *nodes: Node) -> None:
        """Close a sweep and wait until all sinks are done with it."""
        before = sum(health.accepted for health in self.sinks.healths())
        self.tick += 20
        self.sinks.offer(sweep(*nodes, tick=self.tick))
        healths = len(self.sinks.healths())
        wait_for(
            lambda: sum(health.accepted for health in self.sinks.healths()) == before + healths,
            "every sink to take the sweep",
        )


@pytest.fixture
def sending() -> Iterator[Sending]:
    sending = Sending()
    yield sending
    sending.sinks.stop()


@pytest.fixture
def gmonds(tmp_path: Path) -> Iterator[tuple[Gmond, Gmond]]:
    both = Gmond(tmp_path / "vu", "vu"), Gmond(tmp_path / "xe", "xe")
    for gmond in both:
        gmond.start()
    yield both
    for gmond in both:
        gmond.stop()


def sink(gmond: Gmond, more: str = "") -> str:
    return f'{{name: {gmond.name}, ganglia: {{address: "{gmond.address}", clusters: [{gmond.name}]{more}}}}}'


def rates(number: int) -> Rates:
    return Rates(number * 1e9 + 0.25, number * 7.0, number / 3, 0.0)


def shown(*aliases: tuple[str, Rates]) -> dict[str, str]:
    """Return what gmond is to show of a node."""
    return {
        f"{alias}_{metric}": f"{rate:.2f}"
        for alias, rates in aliases
        for metric, rate in zip(METRICS, rates, strict=True)
        if rate is not None
    }


def test_each_cluster_has_its_own_nodes_and_numbers(
    sending: Sending, gmonds: tuple[Gmond, Gmond], tmp_path: Path
) -> None:
    vu, xe = gmonds
    sending.tell(sink(vu), sink(xe))
    mdt_only = Rates(None, None, None, 5.5)
    vus = [node(number, {"home": rates(number), "scratch2": mdt_only}) for number in range(1, 11)]
    xes = [node(number, {"scratch2": rates(number)}, cluster="xe", subnet=2) for number in range(1, 9)]
    others = [node(200, cluster=None), node(201, live=False), node(202, cluster="xe", live=False)]
    sending.sweep(*vus, *xes, *others)
    expected_vu = {f"vu{number}": shown(("home", rates(number)), ("scr", mdt_only)) for number in range(1, 11)}
    expected_xe = {f"xe{number}": shown(("scr", rates(number))) for number in range(1, 9)}
    wait_for(lambda: vu.values() == expected_vu, "what gmond shows of vu")
    wait_for(lambda: xe.values() == expected_xe, "what gmond shows of xe")
    assert vu.hosts() == sorted((f"vu{number}", f"10.1.0.{number}") for number in range(1, 11))
    assert xe.hosts() == sorted((f"xe{number}", f"10.2.0.{number}") for number in range(1, 9))
    described = vu.metrics()["vu7"]["home_read_bytes"]
    assert {key: described[key] for key in ("TYPE", "UNITS", "SLOPE", "TMAX", "DMAX")} == {
        "TYPE": "float",
        "UNITS": "bytes/sec",
        "SLOPE": "both",
        "TMAX": "60",
        "DMAX": "0",
    }
    gmetad = Gmetad(tmp_path / "gmetad", gmonds)
    gmetad.start()
    try:
        names = {gmond.name: {host: set(metrics) for host, metrics in gmond.metrics().items()} for gmond in gmonds}
        wait_for(lambda: gmetad.metrics() == names, "what gmetad shows of both")
    finally:
        gmetad.stop()
    assert len(list((tmp_path / "gmetad/rrds/vu/vu7").glob("home_*.rrd"))) == 4


def test_a_host_is_there_once_however_often_it_is_sent(sending: Sending, gmonds: tuple[Gmond, Gmond]) -> None:
    vu, _ = gmonds
    sending.tell(sink(vu))
    for turn in range(5):
        sending.sweep(node(1, rates(turn)))
    wait_for(lambda: vu.values() == {"vu1": shown(("home", rates(4)))}, "the last values")
    assert vu.hosts() == [("vu1", "10.1.0.1")]


def test_a_restarted_gmond_has_everything_back_within_a_minute(sending: Sending, gmonds: tuple[Gmond, Gmond]) -> None:
    vu, _ = gmonds
    sending.tell(sink(vu))
    nodes = [node(number, rates(number)) for number in range(1, 11)]
    expected = {f"vu{number}": shown(("home", rates(number))) for number in range(1, 11)}
    for _ in range(3):
        sending.sweep(*nodes)
    wait_for(lambda: vu.values() == expected, "the values before")
    vu.stop()
    vu.start()
    assert vu.values() == {}
    sending.sweep(*nodes)  # nobody noticed: 20 s
    sending.sweep(*nodes)  # 40 s
    wait_for(lambda: vu.values() == expected, "the values afterwards")


def test_when_it_is_noticed_that_nobody_listens_it_is_said_and_mended_at_once(
    sending: Sending, gmonds: tuple[Gmond, Gmond]
) -> None:
    vu, xe = gmonds
    sending.tell(sink(vu), sink(xe))
    nodes = [node(number, rates(number)) for number in range(1, 11)]
    sending.sweep(*nodes, node(1, cluster="xe"))
    vu.stop()
    sending.sinks.offer(sweep(*nodes, node(1, cluster="xe"), tick=sending.tick + 20))
    wait_for(sending.sinks.warnings, "the warning")
    assert sending.sinks.warnings() == [f"sink vu: cannot send to {vu.address}: Connection refused"]
    wait_for(lambda: sending.sinks.healths()[1].accepted == 2, "the other sink's sweep")
    vu.start()
    expected = {f"vu{number}": shown(("home", rates(number))) for number in range(1, 11)}
    wait_for(lambda: vu.values() == expected, "the sweep that was kept")
    wait_for(lambda: not sending.sinks.warnings(), "the end of the warning")


def test_a_node_that_is_no_longer_live_goes_stale(sending: Sending, gmonds: tuple[Gmond, Gmond]) -> None:
    vu, _ = gmonds
    sending.tell(sink(vu))
    sending.sweep(node(1), node(2))

    def age(host: str) -> int:
        return int(vu.metrics()[host]["home_read_bytes"]["TN"])

    wait_for(lambda: has_all(vu, "vu2"), "the values")

    def is_stale() -> bool:
        sending.sweep(node(1), node(2, live=False))
        return age("vu2") >= 3

    wait_for(is_stale, "the dead one to look dead")

    def is_live() -> bool:
        sending.sweep(node(1), node(2, live=False))
        return age("vu1") <= 1

    wait_for(is_live, "the live one to look alive")


def has_all(gmond: Gmond, host: str) -> bool:
    return len(gmond.metrics().get(host, ())) == len(METRICS)


def test_hearts_beat_only_on_request(sending: Sending, gmonds: tuple[Gmond, Gmond]) -> None:
    vu, xe = gmonds
    sending.tell(sink(vu, ", heartbeat: true, dmax: 1h"), sink(xe))
    sending.sweep(node(1), node(2, cluster="xe"))
    for gmond, host, started, dmax in ((vu, "vu1", str(TICK + 20), "3600"), (xe, "xe2", "0", "0")):
        wait_for(partial(has_all, gmond, host), "the values")
        assert gmond.metrics()[host]["home_oss_ops"]["DMAX"] == dmax
        assert gmond.started() == {host: started}


def test_gmond_can_be_reached_by_ipv6_and_nodes_can_have_such_addresses(sending: Sending, tmp_path: Path) -> None:
    gmond = Gmond(tmp_path / "six", "vu", bind="::1")
    gmond.start()
    try:
        sending.tell(sink(gmond))
        six = Node(host="vu6", address="fd00:1::6", cluster="vu", nids=(), is_live=True, filesystems={"home": BUSY})
        sending.sweep(six)
        wait_for(lambda: gmond.values() == {"vu6": shown(("home", BUSY))}, "the values")
        assert gmond.hosts() == [("vu6", "fd00-1--6")]
    finally:
        gmond.stop()


@pytest.mark.parametrize("interface", ["lo", "127.0.0.1"])
def test_a_group_is_reached_with_the_ttl_and_by_the_interface_that_are_asked_for(
    sending: Sending, interface: str
) -> None:
    port = free_port()
    with socket.socket(type=socket.SOCK_DGRAM) as listening:
        listening.bind(("239.2.11.71", port))
        group = socket.inet_aton("239.2.11.71") + socket.inet_aton("127.0.0.1")
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        listening.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        listening.settimeout(10)
        sending.tell(
            f'{{name: group, ganglia: {{address: "239.2.11.71:{port}", ttl: 7, interface: {interface}}}}}',
        )
        sending.sweep(node(1))
        data, more, _, _ = listening.recvmsg(2000, 100)
    assert decoded(data).host == "10.1.0.1:vu1"
    assert [struct.unpack("i", value)[0] for _, kind, value in more if kind == socket.IP_TTL] == [7]


def test_the_same_can_be_asked_for_with_ipv6() -> None:
    """Loopback has no groups of IPv6, so nothing is sent here."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as opened:
        set_multicast(opened, 3, "lo")
        assert opened.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS) == 3
        assert opened.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF) == socket.if_nametoindex("lo")


def test_nothing_negative_is_ever_sent(sending: Sending) -> None:
    rng = random.Random(6)
    strange = [None, -0.0, -1e-9, -5.0, float("nan"), float("-inf"), float("inf"), 0.0, 0.004, 3.5, 1e15]
    with socket.socket(type=socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        listening.settimeout(0)
        sending.tell(f'{{name: all, ganglia: {{address: "127.0.0.1:{listening.getsockname()[1]}"}}}}')
        packets: list[Packet] = []
        for _ in range(20):
            sending.sweep(*(node(number, Rates(*rng.choices(strange, k=4))) for number in range(1, 31)))
            packets += taken(listening)
    sent = [str(packet.rest[1]) for packet in packets if packet.is_value]
    assert len(sent) > 500
    assert set(sent) == {"0.00", "3.50", "1000000000000000.00"}


def taken(listening: socket.socket) -> list[Packet]:
    packets = []
    while True:
        try:
            packets.append(decoded(listening.recv(2000)))
        except BlockingIOError:
            return packets


def test_a_gmond_follows_the_pace_of_20000_nodes(sending: Sending, gmonds: tuple[Gmond, Gmond]) -> None:
    """All at once, three packets in ten are lost. At this pace none is, unless others keep gmond from the processor."""
    vu, _ = gmonds
    sending.tell(sink(vu))
    nodes = [node(number, rates(number)) for number in range(1, 20_001)]
    expected = {f"vu{number}": shown(("home", rates(number))) for number in range(1, 20_001)}
    before = vu.waited_seconds()
    sending.sweep(*nodes)
    lost, waited = vu.lost_packets(), vu.waited_seconds() - before
    print(f"20,000 nodes, 160,000 packets: {lost} lost while gmond waited {waited:.1f} s for a processor")
    assert lost < 1600 + PACKETS_PER_SECOND * waited
    vu.catch_up()
    while vu.values() != expected:
        assert vu.lost_packets(), "nothing was lost, and yet something is not as it was sent"
        sending.sweep(*nodes)
        vu.catch_up()
