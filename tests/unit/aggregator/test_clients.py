"""What clients do: rates by NID and by host, held until they are told again; the API, and `check --url`."""

from collections.abc import Mapping

import pytest

from harvest_aggregator.checking import report, shown
from harvest_aggregator.clients import Client, Clients
from harvest_aggregator.hosts import Host
from harvest_aggregator.nodes import Nodes, Rates
from harvest_aggregator.published import Published
from harvest_core.accounting.sweeps import ClosedSweep
from unit.aggregator.publishing import CREATE, OPEN, READ, TICK, WRITE, Did, client, table

RPCS = ("write", "usecs")
PERIODS = {"home": 60, "scratch": 60}
NODE1, NODE2, SERVER = b"10.1.0.1@o2ib", b"10.1.0.2@o2ib", b"10.1.0.9@o2ib"
OSTS: dict[bytes, Did] = {
    NODE1: {READ: (2, 200, 0.1, 10.0), CREATE: (5, 0, 0.5, 0.0), RPCS: (7, 7, 9.0, 9.0)},
    NODE2: {WRITE: (1, 100)},
    SERVER: {WRITE: (1, 100, 1.0, 100.0)},
}
MDTS: dict[bytes, Did] = {NODE1: {OPEN: (4, 40, 2.0, 20.0), READ: (1, 5, 0.0, 1.0)}}


def told(
    tables: Mapping[tuple[str, str], Mapping[bytes, Did]],
    *,
    tick: int = TICK,
    live: frozenset[bytes] = frozenset({NODE1}),
    clients: Clients | None = None,
) -> Clients:
    clients = clients or Clients()
    closed = {key: table(records) for key, records in tables.items()}
    sweep = ClosedSweep(tick_seconds=tick, missing=frozenset(), tables={}, clients=closed, work={})
    clients.take(sweep, lambda _: (live, {SERVER}))
    return clients


def named(nid: str) -> Host | None:
    return Host(f"node{nid[7]}", f"10.2.0.{nid[7]}", "vu")


def rates(clients: Clients, nid: bytes, filesystem: str = "home") -> Rates:
    (found,) = [one for one in clients.told(named).clients if one.nid == nid.decode()]
    return found.filesystems[filesystem]


def test_a_client_has_the_bytes_of_both_kinds_of_target_and_the_operations_of_each() -> None:
    clients = told({("home", "OST"): OSTS, ("home", "MDT"): MDTS})

    assert rates(clients, NODE1) == Rates(read_bytes=11.0, write_bytes=None, oss_ops=0.5, mds_ops=2.0)


def test_what_was_never_counted_is_absent_and_what_stands_still_is_zero() -> None:
    assert rates(told({("home", "OST"): OSTS}), NODE2) == Rates(None, 0.0, 0.0, None)


def test_a_file_system_without_osts_has_only_operations_on_mdts() -> None:
    assert rates(told({("home", "MDT"): {NODE1: {OPEN: (4, 40, 2.0, 20.0)}}}), NODE1) == Rates(None, None, None, 2.0)


def test_who_is_connected_and_never_did_anything_has_no_rates() -> None:
    assert rates(told({("home", "OST"): {NODE1: {}, NODE2: {WRITE: (1, 1)}}}), NODE1) == Rates(None, None, None, None)


def test_servers_are_no_clients() -> None:
    assert [one.nid for one in told({("home", "OST"): OSTS}).told(named).clients] == [NODE1.decode(), NODE2.decode()]


def test_who_is_connected_anywhere_is_live() -> None:
    clients = told({("home", "OST"): OSTS})
    told({("scratch", "OST"): {NODE2: {WRITE: (1, 1)}}}, live=frozenset(), clients=clients)

    assert [one.is_live for one in clients.told(named).clients] == [True, False]


def test_each_file_system_is_as_it_was_told_last() -> None:
    clients = told({("home", "OST"): OSTS})
    told({("scratch", "OST"): {NODE1: {WRITE: (1, 1, 1.0, 5.0)}}}, tick=TICK + 20, clients=clients)

    assert rates(clients, NODE1).read_bytes == 10.0
    assert rates(clients, NODE1, "scratch").write_bytes == 5.0
    nodes = clients.told(named).nodes
    assert nodes is not None
    assert nodes.tick_seconds == TICK + 20
    assert [node.host for node in nodes.nodes] == ["node1", "node2"]


def test_a_sweep_without_clients_changes_nothing() -> None:
    clients = told({("home", "OST"): OSTS})
    before = clients.told(named)

    assert told({}, tick=TICK + 20, clients=clients).told(named) is before


def test_what_was_not_told_for_three_periods_or_is_not_wanted_any_more_is_forgotten() -> None:
    clients = told({("home", "OST"): OSTS, ("scratch", "OST"): OSTS})
    clients.forget(TICK + 180, {"home": 60})
    assert {name for one in clients.told(named).clients for name in one.filesystems} == {"home"}

    clients.forget(TICK + 181, PERIODS)
    assert clients.told(named).clients == ()
    assert clients.told(named).nodes is None


def test_names_are_looked_up_again_where_the_site_was_changed() -> None:
    clients = told({("home", "OST"): OSTS})
    assert clients.told(lambda _: None).clients[0].host is None

    clients.renamed()

    assert clients.told(named).clients[0] == Client(
        nid=NODE1.decode(),
        host="node1",
        cluster="vu",
        is_live=True,
        filesystems={"home": Rates(10.0, None, 0.5, None)},
    )


CLIENTS = Published(
    tick_seconds=TICK + 40,
    clients=(
        Client(
            nid="10.1.0.1@o2ib",
            host="node1",
            cluster=None,
            is_live=True,
            filesystems={"home": Rates(3.0 * 1024, None, 1.0, 2.0), "scratch": Rates(None, None, None, 7.0)},
        ),
        Client(
            nid="10.1.0.2@o2ib", host=None, cluster=None, is_live=False, filesystems={"home": Rates(0.0, *[None] * 3)}
        ),
    ),
    nodes=Nodes(tick_seconds=TICK, nodes=()),
)


def test_the_api_shows_clients_at_their_own_tick() -> None:
    answer = client(CLIENTS).get("/api/v1/clients?fs=home&cluster=-").json()

    assert answer["tick_seconds"] == TICK
    assert answer["clients"][0] == {
        "nid": "10.1.0.1@o2ib",
        "host": "node1",
        "cluster": "-",
        "live": True,
        "filesystems": {"home": {"read_bytes": 3072.0, "write_bytes": None, "oss_ops": 1.0, "mds_ops": 2.0}},
    }
    assert [one["nid"] for one in answer["clients"]] == ["10.1.0.1@o2ib", "10.1.0.2@o2ib"]
    assert len(client(CLIENTS).get("/api/v1/clients?fs=scratch").json()["clients"]) == 1


@pytest.mark.parametrize("query", ["fs=nowhere", "cluster=vu", "limit=3"])
def test_the_api_refuses_what_cannot_be_answered(query: str) -> None:
    assert client(CLIENTS).get(f"/api/v1/clients?{query}").status_code == 400


def test_there_are_no_clients_before_any_were_told() -> None:
    assert client(Published()).get("/api/v1/clients").json() == {"tick_seconds": None, "clients": []}


def test_a_check_says_totals_and_who_does_most() -> None:
    many = [
        {
            "nid": f"{n}@tcp",
            "host": f"n{n % 12}",
            "live": True,
            "filesystems": {"home": {"read_bytes": n, "mds_ops": None}},
        }
        for n in range(24)
    ]
    dead = {"nid": "dead@tcp", "host": "dead", "live": False, "filesystems": {"home": {"read_bytes": 1e9}}}

    lines = list(report({"tick_seconds": TICK, "clients": [*many, dead]}))

    assert lines[:4] == [
        f"24 live of 25 clients, at {TICK}",
        "home read_bytes: 276.0 B/s on 12 nodes",
        f"  {'34.0 B/s':>16}  n11",
        f"  {'32.0 B/s':>16}  n10",
    ]
    assert len([line for line in lines if line.startswith("  ")]) == 10
    assert lines[-1] == "home mds_ops: 0.0 ops/s on 0 nodes"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.0 B/s"), (1023, "1023.0 B/s"), (1536, "1.5 KiB/s"), (3 << 30, "3.0 GiB/s")]
)
def test_bytes_have_units(value: float, text: str) -> None:
    assert shown("read_bytes", value) == text
