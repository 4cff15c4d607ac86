"""Whatever a head does not accept is refused, and both sides say why."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pytest
from structlog.testing import capture_logs

from harvest.v1.stream_pb2 import RelayResponse
from harvest_aggregator.clients import ClientTables
from harvest_aggregator.published import Published
from harvest_aggregator.refusals import RELAY_LABELS
from harvest_aggregator.relays.outgoing import head as relay_head
from harvest_aggregator.relays.pictures import NUMBERS, Picture
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Written
from harvest_aggregator.sinks.relay import Receiver, Relay, RelayPlan, connected, relay_plans
from harvest_pki.certificates import load_certificate
from harvest_pki.folders import Tls, read_tls
from harvest_site.clusters import Cluster
from harvest_site.loading import load
from relays.heads import FILESYSTEM, SENDER, Head, Tree
from support.processes import wait_for
from support.uplinks import ca
from unit.aggregator.publishing import WRITE, table

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
    assert set(told_labels(head)) == {"denied", "filesystem", "local", "nodes"}
    tree.play.live.stop()
    tree.play.settle()
    tree.wait_for_truth("vu")


class Strange:
    """A sender of ours whose calls are changed on their way: what it then says no aggregator would."""

    def __init__(self, head: Head, secrets: Path) -> None:
        site = load(
            f"filesystems: [{{name: {FILESYSTEM}, servers: [oss1]}}]\n"
            f"clusters: [{{name: vu, lnets: [o2ib], filesystems: [{FILESYSTEM}]}}]\n"
            f"relays: [{{cluster: vu, filesystems: [{FILESYSTEM}], endpoint: '127.0.0.1:{head.port}', "
            "tlsSecretRef: {name: relay}}]"
        )
        (plan,) = relay_plans(site, secrets, own_site=SENDER).values()
        assert isinstance(plan, RelayPlan)
        self.change: Callable[[Picture], Picture] = lambda picture: picture
        self._relay = Relay(plan, connect=self._connect)
        self._tick = int(time.time())
        self._receiver: Receiver | None = None

    @contextmanager
    def _connect(self, address: str, name: str, tls: Tls) -> Iterator[Receiver]:
        with connected(address, name, tls) as self._receiver:
            yield self

    def tell(self, picture: Picture) -> RelayResponse:
        assert self._receiver is not None
        return self._receiver.tell(self.change(picture))

    def told(self) -> tuple[Written, list[str]]:
        """Tell a sweep; return what came of it, which is in its `/readyz`, and what was logged."""
        self._tick += 1
        tables = ClientTables({"OST": table({b"10.1.0.1@o2ib": {WRITE: (1, 7)}})}, frozenset(), self._tick, frozenset())
        with capture_logs() as logs:
            written = self._relay.write(
                self._relay.needed(Published(client_tables={FILESYSTEM: tables})), lambda _: True
            )
        return written, [str(one["reason"]) for one in logs if one["event"] == "relay refused"]


def over_two_relays(picture: Picture) -> Picture:
    picture.head.hops = 2
    return picture


def twice(picture: Picture) -> Picture:
    totals, rates = (np.concatenate([rows, rows]) for rows in (picture.totals, picture.rates))
    return replace(picture, nids=picture.nids * 2, totals=totals, rates=rates)


STRANGE: dict[str, tuple[Callable[[Picture], Picture], str]] = {
    "hops": (over_two_relays, "came over 2 relays: only the site whose servers it has may send it"),
    "nodes twice": (twice, "a node is there twice, or has no NID that could be"),
    "less than nothing": (lambda picture: replace(picture, totals=picture.totals - 9), "one is below zero"),
}


def test_what_no_aggregator_of_ours_would_say_is_refused_on_both_sides(tmp_path: Path) -> None:
    """Such as a second hop: none sends on what it takes in, and a site that says so is refused."""
    head = Head(tmp_path / "vu", "vu")
    head.issue(tmp_path / "relay")
    sender = Strange(head, tmp_path)
    head.start()
    try:
        for what, (change, reason) in STRANGE.items():
            sender.change = change
            written, said = sender.told()
            assert written.outcome is Outcome.REJECTED
            assert reason in written.reason, what
            assert [reason in one for one in said] == [True], what
            assert reason in head.events("relay refused")[-1]["reason"], what
            assert not head.totals()
        sender.change = lambda picture: picture
        assert sender.told() == (ACCEPTED, [])
        assert head.totals() == {("10.1.0.1@o2ib", "write_bytes", "OST"): 7}
        assert set(told_labels(head)) == {"hops", "protocol"}
    finally:
        head.program.stop()


def test_who_has_no_good_certificate_is_denied_on_both_sides(tmp_path: Path) -> None:
    head = Head(tmp_path / "vu", "vu")
    head.ca.write_agent(tmp_path / "relay", "oss1", now=datetime.now(UTC))
    sender = Strange(head, tmp_path)
    head.start()

    def denied(reason: str) -> None:
        said: list[str] = []

        def is_so() -> bool:
            written, logged = sender.told()
            said.extend(logged)
            return written.outcome is Outcome.REJECTED and reason in written.reason

        wait_for(is_so, reason)
        assert any(reason in one for one in said)
        assert any(reason in one["reason"] for one in head.events("relay denied"))

    try:
        denied("is not listed in site vu")  # an agent's
        head.issue(tmp_path / "relay")
        assert sender.told() == (ACCEPTED, [])
        serial = load_certificate(read_tls(tmp_path / "relay").certificate).serial_number
        head.more = {"certificates": {"denySerials": [f"{serial:x}"]}}
        head.describe()
        denied("serial")
        head.issue(tmp_path / "relay")
        assert sender.told() == (ACCEPTED, [])
        assert set(told_labels(head)) == {"denied"}
    finally:
        head.program.stop()


def told_labels(head: Head) -> list[str]:
    """Return the reasons for which its metrics say that something was refused."""
    page = head.text("/metrics")
    return [one for one in RELAY_LABELS if f'harvest_relay_refusals_total{{reason="{one}"}} 0.0' not in page]


def test_a_relay_may_have_a_certificate_of_its_own_site_and_no_other_ca_speaks_for_it(tmp_path: Path) -> None:
    head = Head(tmp_path / "vu", "vu")
    senders = {name: tmp_path / name for name in ("own", "forged")}
    for name, data in senders.items():
        ca(data / "ca", name).write_relay(data / "out", SENDER, now=datetime.now(UTC))
    secret = head.folder / "sender-ca"
    secret.mkdir()
    head.accepts = [{**GOOD, "caSecretRef": {"name": "sender-ca"}}]
    head.describe()
    head.issue(tmp_path / "here")
    head.start()
    unknown = f"relay {SENDER}: its CA, secret/sender-ca (`caSecretRef`), is not known"
    assert head.get("/readyz")["warnings"][0].startswith(unknown), "only that relay is concerned"
    secret.joinpath("ca.crt").write_bytes((senders["own"] / "ca" / "ca.crt").read_bytes())
    wait_for(lambda: unknown not in str(head.get("/readyz")["warnings"]), "the relay's CA")
    said = relay_head(software="1", site="own", cluster=Cluster(name="vu"), filesystem=FILESYSTEM, period_seconds=60)
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
