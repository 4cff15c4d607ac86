"""What is sent to gmond, and when."""

import itertools
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from harvest_aggregator.nodes import Rates
from harvest_aggregator.published import Published
from harvest_aggregator.sinks import gmetric
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Written
from harvest_aggregator.sinks.ganglia import Datagrams, Ganglia, GangliaPlan, hosts, lines
from harvest_aggregator.sinks.pacing import Pace
from harvest_aggregator.sinks.table import KINDS, plans
from harvest_site.loading import load
from harvest_site.parts import IMPLEMENTED
from harvest_site.sinks import Sink
from support.gmetrics import Packet, decoded
from support.nodes import BUSY, IDLE, TICK, node, plan, sweep


class Network:
    """Takes packets, with the time at which each left; a clock that only pauses move."""

    def __init__(self, told: GangliaPlan | None = None) -> None:
        self.now = 50.0
        self.packets: list[tuple[float, bytes]] = []
        self.until = float("inf")
        """When pauses are cut short."""
        self.fails_after: int | None = None
        self.attempts: list[int] = []
        self.sink = Ganglia(told or plan(), connect=self.connect, clock=lambda: self.now)

    def connect(self, _: object, attempt: int) -> AbstractContextManager[Datagrams]:
        self.attempts.append(attempt)
        return nullcontext(self)

    def send(self, data: bytes, /) -> int:
        if self.fails_after is not None and len(self.packets) >= self.fails_after:
            raise ConnectionRefusedError(111, "Connection refused")
        self.packets.append((self.now, data))
        return len(data)

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        return self.now < self.until

    def write(self, published: Published) -> Written:
        return self.sink.write(self.sink.needed(published), self.pause)

    def taken(self) -> list[Packet]:
        """Return what came since this was asked last."""
        taken, self.packets = [decoded(data) for _, data in self.packets], []
        return taken


def values(packets: list[Packet]) -> dict[tuple[str, str], str]:
    return {(packet.host, packet.name): str(packet.rest[1]) for packet in packets if packet.is_value}


def metadata_hosts(packets: list[Packet]) -> list[str]:
    return list(dict.fromkeys(packet.host for packet in packets if packet.is_metadata))


def test_a_metric_is_described_as_the_seed_did() -> None:
    made = gmetric.metadata("10.1.0.7:vu7", "home_read_bytes", "bytes/sec", dmax_seconds=0)
    assert made == (
        b"\0\0\0\x80" b"\0\0\0\x0c10.1.0.7:vu7" b"\0\0\0\x0fhome_read_bytes\0" b"\0\0\0\1"
        b"\0\0\0\5float\0\0\0" b"\0\0\0\x0fhome_read_bytes\0" b"\0\0\0\x09bytes/sec\0\0\0"
        b"\0\0\0\3" b"\0\0\0\x3c" b"\0\0\0\0" b"\0\0\0\0"
    )  # fmt: skip


def test_a_value_is_text() -> None:
    assert gmetric.value("10.1.0.7:vu7", "home_mds_ops", "4.25") == (
        b"\0\0\0\x85" b"\0\0\0\x0c10.1.0.7:vu7" b"\0\0\0\x0chome_mds_ops" b"\0\0\0\1"
        b"\0\0\0\2%s\0\0" b"\0\0\0\0044.25"
    )  # fmt: skip


def test_an_address_of_ipv6_has_no_colons_which_gmond_would_take_for_the_end_of_it() -> None:
    assert gmetric.spoofed("fd00:1::7", "vu7") == "fd00-1--7:vu7"


def test_every_node_has_four_metrics_with_two_decimals_for_each_file_system() -> None:
    network = Network()
    two = node(7, {"home": BUSY, "scratch2": Rates(1e12, 0.006, 0.004, 0.0)})
    assert network.write(sweep(two)) == ACCEPTED
    packets = network.taken()
    assert values(packets) == {
        ("10.1.0.7:vu7", "home_read_bytes"): "1000.12",
        ("10.1.0.7:vu7", "home_write_bytes"): "2000.50",
        ("10.1.0.7:vu7", "home_oss_ops"): "30.00",
        ("10.1.0.7:vu7", "home_mds_ops"): "4.25",
        ("10.1.0.7:vu7", "scr_read_bytes"): "1000000000000.00",
        ("10.1.0.7:vu7", "scr_write_bytes"): "0.01",
        ("10.1.0.7:vu7", "scr_oss_ops"): "0.00",
        ("10.1.0.7:vu7", "scr_mds_ops"): "0.00",
    }
    assert {packet.name: packet.rest for packet in packets if packet.is_metadata} == {
        f"{alias}_{name}": ("float", f"{alias}_{name}", units, 3, 60, 0, 0)
        for alias in ("home", "scr")
        for name, units in (
            ("read_bytes", "bytes/sec"),
            ("write_bytes", "bytes/sec"),
            ("oss_ops", "ops/sec"),
            ("mds_ops", "ops/sec"),
        )
    }
    assert all(packet.spoofed == 1 for packet in packets)


def test_metadata_comes_before_the_value() -> None:
    network = Network()
    network.write(sweep(node(7)))
    kinds = [(packet.name, packet.is_value) for packet in network.taken()]
    assert kinds[:4] == [
        ("home_read_bytes", False),
        ("home_read_bytes", True),
        ("home_write_bytes", False),
        ("home_write_bytes", True),
    ]


def test_what_was_never_counted_is_not_sent() -> None:
    network = Network()
    network.write(sweep(node(7, Rates(None, None, None, 2.0))))
    packets = network.taken()
    assert values(packets) == {("10.1.0.7:vu7", "home_mds_ops"): "2.00"}
    assert [packet.name for packet in packets if packet.is_metadata] == ["home_mds_ops"]


@pytest.mark.parametrize("number", [-1.0, -0.0001, float("nan"), float("inf"), float("-inf")])
def test_numbers_that_cannot_be_are_never_sent(number: float) -> None:
    network = Network()
    network.write(sweep(node(7, Rates(number, -0.0, 1.0, number))))
    assert values(network.taken()) == {
        ("10.1.0.7:vu7", "home_write_bytes"): "0.00",
        ("10.1.0.7:vu7", "home_oss_ops"): "1.00",
    }


def test_only_live_nodes_of_the_chosen_clusters_are_sent() -> None:
    nodes = (node(1), node(2, live=False), node(3, cluster="xe"), node(4, cluster=None))
    for more, sent in (
        (", clusters: [vu]", ["10.1.0.1:vu1"]),
        (", clusters: [xe]", ["10.1.0.3:xe3"]),
        (", clusters: [vu, xe]", ["10.1.0.1:vu1", "10.1.0.3:xe3"]),
        ("", ["10.1.0.1:vu1", "10.1.0.3:xe3", "10.1.0.4:n4"]),
    ):
        network = Network(plan(more=more))
        network.write(sweep(*nodes))
        assert metadata_hosts(network.taken()) == sent


def test_nothing_is_sent_where_there_are_no_nodes() -> None:
    network = Network()
    assert network.write(Published(tick_seconds=TICK)) == ACCEPTED
    assert network.write(sweep()) == ACCEPTED
    assert not network.packets


def test_values_are_sent_again_at_each_sweep_while_somebody_knows_them() -> None:
    network = Network()
    for age in range(0, 261, 20):
        network.write(sweep(node(1), tick=TICK + age, nodes_tick=TICK))
        assert len(values(network.taken())) == 4
    network.write(Published(tick_seconds=TICK + 280))
    assert not values(network.taken())


def test_how_long_a_metric_stays_can_be_set() -> None:
    network = Network(plan(more=", dmax: 10m"))
    network.write(sweep(node(1)))
    assert {packet.rest[5] for packet in network.taken() if packet.is_metadata} == {600}


def test_hearts_beat_only_on_request() -> None:
    for more, beats in (("", []), (", heartbeat: true", [("10.1.0.1:vu1", ("%u", TICK))] * 2)):
        network = Network(plan(more=more))
        network.write(sweep(node(1)))
        network.write(sweep(node(1), tick=TICK + 20))
        assert [(packet.host, packet.rest) for packet in network.taken() if packet.kind == 132] == beats


def test_a_dry_run_sends_nothing_and_logs_what_would_be_sent() -> None:
    network = Network(plan(more=", dryRun: true"))
    with capture_logs() as logs:
        network.write(sweep(node(1)))
    assert network.taken() == []
    assert [log["line"] for log in logs] == list(lines(sweep(node(1)), plan()))
    assert logs[0]["line"] == "10.1.0.1:vu1 home_read_bytes 1000.12 bytes/sec"


def test_metadata_is_sent_at_first_then_again_within_40_seconds_and_not_all_at_once() -> None:
    network = Network()
    nodes = [node(number) for number in range(1, 101)]
    every = {f"10.1.0.{number}:vu{number}" for number in range(1, 101)}
    described = []
    for turn in range(7):
        network.write(sweep(*nodes, tick=TICK + 20 * turn))
        described.append(set(metadata_hosts(network.taken())))
    assert described[0] == every
    for one, other in itertools.pairwise(described[1:]):
        assert one | other == every
        assert not one & other
        assert 25 < len(one) < 75


@pytest.mark.parametrize(("interval", "turns"), [("5s", 8), ("20s", 2), ("30s", 1), ("1m", 1)])
def test_metadata_comes_as_often_as_a_minute_needs(interval: str, turns: int) -> None:
    network = Network(plan(interval=interval))
    described = []
    for turn in range(4 * turns + 1):
        network.write(sweep(node(1), tick=TICK + turn))
        if metadata_hosts(network.taken()):
            described.append(turn)
    gaps = [later - earlier for earlier, later in itertools.pairwise(described)]
    assert 1 <= gaps[0] <= turns
    assert set(gaps[1:]) == {turns}


def test_a_new_metric_and_a_node_that_is_back_are_described_at_once() -> None:
    network = Network(plan(interval="1s"))
    network.write(sweep(node(1, Rates(1.0, None, None, None)), node(2)))
    network.taken()
    network.write(sweep(node(1, Rates(1.0, 2.0, None, None)), node(2, live=False)))
    assert metadata_hosts(network.taken()) == ["10.1.0.1:vu1"]
    network.write(sweep(node(1, Rates(1.0, 2.0, None, None)), node(2)))
    assert "10.1.0.2:vu2" in metadata_hosts(network.taken())


def test_when_nobody_listens_the_sweep_is_kept_and_all_is_described_anew() -> None:
    network = Network(plan(interval="1s"))
    nodes = [node(number) for number in range(1, 6)]
    network.write(sweep(*nodes))
    network.taken()
    network.fails_after = 6
    written = network.write(sweep(*nodes))
    assert written == Written(Outcome.KEPT, "cannot send to 127.0.0.1:8649: Connection refused")
    network.taken()
    network.fails_after = None
    assert network.write(sweep(*nodes)) == ACCEPTED
    assert len(metadata_hosts(network.taken())) == 5
    assert network.attempts == [0, 0, 1]


def test_a_few_nodes_are_sent_without_delay() -> None:
    network = Network()
    network.write(sweep(*(node(number) for number in range(1, 13))))
    assert network.now == 50.0


def test_many_nodes_are_spread_over_the_interval_in_small_bursts() -> None:
    network = Network(plan(interval="20s"))
    nodes = [node(number) for number in range(1, 20_001)]
    assert network.write(sweep(*nodes)) == ACCEPTED
    assert len(network.packets) == 160_000
    assert 15.0 < network.now - 50.0 < 16.1
    bursts: dict[float, int] = {}
    for at, _ in network.packets:
        bursts[at] = bursts.get(at, 0) + 1
    assert max(bursts.values()) <= 101


def test_where_there_is_not_time_enough_the_next_sweep_begins_with_those_who_were_left_out() -> None:
    network = Network(plan(interval="1s"))
    nodes = [node(number) for number in range(1, 5_001)]
    seen: list[set[str]] = []
    for turn in range(4):
        network.until = network.now + 1.0
        written = network.write(sweep(*nodes, tick=TICK + turn))
        assert written.outcome is Outcome.KEPT
        assert written.reason.endswith("of 5000 nodes were not sent before the next sweep came")
        seen.append({host for host, _ in values(network.taken())})
    assert len(set().union(*seen)) == 5_000
    assert not seen[0] & seen[1] - {max(seen[0] & seen[1])}


def test_a_pace_lets_a_burst_go_and_then_its_rate() -> None:
    pace = Pace(per_second=1000, burst=10, now=0.0)
    assert [pace.take(0.0) for _ in range(10)] == [0.0] * 10
    assert pace.take(0.0) == pytest.approx(0.006)
    assert [pace.take(0.006) for _ in range(5)] == [0.0] * 5
    assert pace.take(0.006) > 0


def test_a_pace_saves_no_more_than_a_burst() -> None:
    pace = Pace(per_second=1000, burst=10, now=0.0)
    waits = [pace.take(1000.0) for _ in range(11)]
    assert waits[:10] == [0.0] * 10
    assert waits[10] > 0


def test_what_would_be_sent_can_be_read() -> None:
    told = plan(more=", clusters: [vu]")
    published = sweep(node(1, Rates(1.5, None, 2.0, None)), node(2, IDLE, live=False))
    assert list(lines(published, told)) == [
        "10.1.0.1:vu1 home_read_bytes 1.50 bytes/sec",
        "10.1.0.1:vu1 home_oss_ops 2.00 ops/sec",
    ]
    assert [host for host, _ in hosts(published, told)] == ["10.1.0.1:vu1"]


def test_only_nodes_are_kept_of_a_sweep() -> None:
    whole = Published(tick_seconds=TICK, nodes=sweep(node(1)).nodes, incomplete=frozenset({("home", b"1")}))
    assert Ganglia(plan()).needed(whole) == Published(tick_seconds=TICK, nodes=whole.nodes)


def test_another_alias_or_interval_is_another_plan_and_other_sinks_are_not() -> None:
    assert plan() == plan()
    assert plan() != plan(interval="10s")
    assert plan() != plan(more=", dmax: 1h")


def test_every_kind_that_is_built_is_asked_for_in_the_site() -> None:
    assert set(KINDS) == set(Sink.model_fields) & IMPLEMENTED
    example = load(Path(__file__).parents[2] / "data/sites/good/example.yaml")
    assert set(plans(example)) == {"gmond", "influx", "prom"}
