"""Whatever a head does not accept is refused, and both sides say why."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pytest

from harvest.v1.stream_pb2 import RelayResponse
from harvest_aggregator.relays.outgoing import head as relay_head
from harvest_aggregator.relays.pictures import NUMBERS, Picture
from harvest_aggregator.sinks.relay import connected
from harvest_pki.folders import read_tls
from relays.heads import FILESYSTEM, SENDER, Head, Tree
from support.uplinks import ca

GOOD: dict[str, object] = {"name": SENDER, "filesystems": [FILESYSTEM], "lnets": ["o2ib"]}
LOCAL: dict[str, object] = {"filesystems": [{"name": FILESYSTEM, "servers": ["oss9"]}]}
CASES: dict[str, tuple[dict[str, object], dict[str, object], str, str]] = {
    "an unlisted sender": (
        {**GOOD, "name": "other"},
        {},
        "relay denied",
        "relay demo is not listed in site vu: add it to `accepts`",
    ),
    "a file system that is not accepted": (
        {**GOOD, "filesystems": ["archive"]},
        {},
        "relay refused",
        "'scratch' is not taken from relay demo: add it to the `filesystems` of its `accepts`",
    ),
    "a file system that is local": (
        {**GOOD, "filesystems": ["archive"]},
        LOCAL,
        "relay refused",
        "'scratch' is a file system of this site itself",
    ),
    "nodes elsewhere": (
        {**GOOD, "lnets": ["o2ib2"]},
        {},
        "relay refused",
        "4 nodes of 'scratch' are on none of the networks o2ib2 that relay demo may report",
    ),
}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    head = Head(tmp_path / "vu", "vu")
    tree = Tree(tmp_path, {"vu": head}, {"vu": head.port}, seconds=600.0)
    head.start()
    tree.play.start()
    yield tree
    tree.close()


def is_told(tree: Tree, reason: str) -> bool:
    return reason in " ".join(tree.warnings())


def test_every_refusal_is_told_on_both_sides_and_ends_with_its_reason(tree: Tree) -> None:
    head = tree.heads["vu"]
    tree.step_until(head.totals, "what is accepted")
    for what, (accept, more, event, reason) in CASES.items():
        head.accepts, head.more = [accept], more
        head.describe()
        tree.step_until(partial(is_told, tree, reason), f"{what} at the sender")
        assert any(reason in one["reason"] for one in head.events(event)), what
        assert all(one["relay"] == SENDER and one["peer"] for one in head.events(event))
        assert any(reason in one["reason"] for one in tree.events("relay refused")), what
    held = head.totals()
    head.accepts, head.more = [GOOD], {}
    head.describe()
    tree.step_until(lambda: not tree.warnings(), "a relay that is well again")
    assert head.events("relay is taken again")
    tree.step_until(lambda: head.totals() != held, "totals that go on")
    page = head.text("/metrics")
    for label in ("denied", "filesystem", "local", "nodes"):
        assert f'harvest_relay_refusals_total{{reason="{label}"}} 0.0' not in page
    tree.play.live.stop()
    tree.play.settle()
    tree.wait_for_truth("vu")


def test_a_second_hop_is_refused_on_both_sides(tmp_path: Path) -> None:
    """No aggregator sends on what it takes in: such a site is refused. Whoever does it all the same is, too."""
    head = Head(tmp_path / "vu", "vu")
    head.issue(tmp_path / "relay")
    said = relay_head(software="1", site="between", cluster="vu", filesystem=FILESYSTEM, period_seconds=60)
    said.tick_seconds = int(time.time())
    numbers = np.ones((1, NUMBERS), np.int64)
    one = Picture(head=said, nids=("10.1.0.1@o2ib",), live=frozenset(), totals=numbers, rates=numbers / 2)
    head.start()
    try:
        with connected(f"127.0.0.1:{head.port}", "main.vu.harvest", read_tls(tmp_path / "relay")) as receiver:
            said.hops = 2
            (refusal,) = receiver.tell(one).refusals
            assert not head.totals()
            said.hops = 1
            assert receiver.tell(one) == RelayResponse(nodes=1)
        assert "came over 2 relays: only the site whose servers it has may send it" in refusal.message
        (event,) = head.events("relay refused")
        assert event["reason"] == refusal.message
        assert set(head.totals().values()) == {1}
    finally:
        head.program.stop()


def test_a_relay_may_have_a_certificate_of_its_own_site_and_no_other_ca_speaks_for_it(tmp_path: Path) -> None:
    head = Head(tmp_path / "vu", "vu")
    senders = {name: tmp_path / name for name in ("own", "forged")}
    for name, data in senders.items():
        ca(data / "ca", name).write_relay(data / "out", SENDER, now=datetime.now(UTC))
    secret = head.folder / "sender-ca"
    secret.mkdir()
    secret.joinpath("ca.crt").write_bytes((senders["own"] / "ca" / "ca.crt").read_bytes())
    head.accepts = [{**GOOD, "caSecretRef": {"name": "sender-ca"}}]
    head.describe()
    head.issue(tmp_path / "here")
    head.start()
    said = relay_head(software="1", site="own", cluster="vu", filesystem=FILESYSTEM, period_seconds=60)
    said.tick_seconds = int(time.time())
    nothing = np.zeros((0, NUMBERS), np.int64)
    one = Picture(head=said, nids=(), live=frozenset(), totals=nothing, rates=nothing / 2)

    def told(folder: Path) -> RelayResponse:
        tls = replace(read_tls(folder), ca=read_tls(tmp_path / "here").ca)
        with connected(f"127.0.0.1:{head.port}", "main.vu.harvest", tls) as receiver:
            return receiver.tell(one)

    try:
        assert told(senders["own"] / "out") == RelayResponse()
        with pytest.raises(grpc.RpcError) as refused:
            told(senders["forged"] / "out")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE  # TLS trusts it not
        with pytest.raises(grpc.RpcError) as refused:
            told(tmp_path / "here")
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert refused.value.details() == "relay demo belongs to site vu; this is site own"
    finally:
        head.program.stop()
