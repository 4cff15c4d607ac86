"""What somebody is told of relays: those that are refused here, and certificates of those that go elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from harvest.v1.stream_pb2 import RelayHead, RelayRefusal, RelayRefusalReason, RelayRequest, RelayResponse
from harvest_aggregator.files import OrderFiles
from harvest_aggregator.identity import admission
from harvest_aggregator.relays import receiving
from harvest_aggregator.relays.pictures import Picture
from harvest_aggregator.relays.receiving import Context, Relays
from harvest_aggregator.sinks.relay import certificate_warnings
from harvest_pki.certificates import bundle_pem, load_certificate
from harvest_pki.folders import Tls
from harvest_pki.identities import Kind
from harvest_site.loading import load
from support.uplinks import ca
from unit.aggregator.publishing import BUSY, TICK, metrics
from unit.pki.making import DAY, NOW, authority, certificate

CA = authority("xe")
SITE = load("accepts: [{name: site, filesystems: [gdata], lnets: [o2ib]}]")
NO = RelayRefusal(reason=RelayRefusalReason.RELAY_REFUSAL_REASON_NODES, message="4 nodes are elsewhere")


class AbortedError(Exception):
    """gRPC ends the call."""


@dataclass
class Call:
    """One call, as gRPC tells of it."""

    name: str

    def peer(self) -> str:
        return "ipv4:10.0.0.1:1"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_pem_cert": [bundle_pem([certificate(CA, self.name, kind=Kind.RELAY)])]}

    async def abort(self, *said: object) -> None:
        raise AbortedError(said)


@dataclass
class Head:
    """A receiver whose keeper answers as it is told, at a time that passes as it is told."""

    now: datetime = NOW
    answer: RelayResponse = field(default_factory=RelayResponse)

    def __post_init__(self) -> None:
        tls = Tls(
            certificate=bundle_pem([certificate(CA, "main", kind=Kind.AGGREGATOR)]),
            key=b"",
            ca=bundle_pem([CA.certificate]),
        )
        self.relays = Relays(self, admission(SITE, tls, "main"), metrics=metrics(BUSY), now=lambda: self.now)

    def take_relayed(self, relay: str, picture: Picture) -> Future[RelayResponse]:  # noqa: ARG002 - as the keeper has it
        done: Future[RelayResponse] = Future()
        done.set_result(self.answer)
        return done

    def told(
        self, name: str = "site", *, filesystem: str = "gdata", period_seconds: int = 60, protocol: int = 1
    ) -> None:
        """Take one call."""
        head = RelayHead(
            protocol=protocol, filesystem=filesystem, tick_seconds=TICK, period_seconds=period_seconds, hops=1
        )

        async def messages() -> AsyncIterator[bytes]:
            yield RelayRequest(head=head).SerializeToString()

        asyncio.run(self._relay(messages(), Call(name)))

    async def _relay(self, messages: AsyncIterator[bytes], call: Call) -> None:
        await self.relays._relay(messages, cast("Context", call))  # noqa: SLF001 - what gRPC calls


def test_what_is_refused_is_told_until_it_is_taken() -> None:
    head = Head()
    head.told()
    assert head.relays.troubles() == []
    head.answer = RelayResponse(nodes=1, refusals=[NO])
    head.told()
    head.told(filesystem="archive")
    assert head.relays.troubles() == [("site", "refused: 4 nodes are elsewhere")] * 2
    head.answer = RelayResponse(nodes=5)
    head.told()
    head.told(filesystem="archive")
    assert head.relays.troubles() == []


def test_who_may_not_come_is_told_until_it_may_and_what_makes_no_sense_too() -> None:
    head = Head()
    with pytest.raises(AbortedError):
        head.told("stranger")
    ((name, why),) = head.relays.troubles()
    assert (name, why) == ("stranger", "refused: relay stranger is not listed in site xe: add it to `accepts`")
    head.told(protocol=9)
    assert [name for name, _ in head.relays.troubles()] == ["stranger", "site"]
    assert "it speaks protocol 9" in head.relays.troubles()[1][1]


@pytest.mark.parametrize(("period_seconds", "told_seconds"), [(60, 600), (3600, 10_800)])
def test_what_is_refused_is_told_no_more_when_nobody_comes_with_it_any_more(
    period_seconds: int, told_seconds: int
) -> None:
    head = Head(answer=RelayResponse(refusals=[NO]))
    head.told(period_seconds=period_seconds)
    head.now = NOW + timedelta(seconds=told_seconds - 1)
    assert len(head.relays.troubles()) == 1
    head.now += timedelta(seconds=1)
    assert head.relays.troubles() == []


def test_what_was_refused_long_ago_is_logged_again() -> None:
    head = Head(answer=RelayResponse(refusals=[NO]))
    with capture_logs() as logs:
        head.told()
        head.told()
        assert [one["event"] for one in logs] == ["relay refused"]
        head.now = NOW + timedelta(seconds=600)
        head.told()
    assert [one["event"] for one in logs] == ["relay refused"] * 2


def test_what_was_refused_long_ago_takes_no_room_from_what_is_refused_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "_SAID_MAX", 3)
    head = Head(answer=RelayResponse(refusals=[NO]))
    for number in range(4):
        head.told(filesystem=f"fs{number}")
    assert len(head.relays.troubles()) == 3
    head.now = NOW + timedelta(seconds=600)
    head.told(filesystem="gdata")
    assert head.relays.troubles() == [("site", "refused: 4 nodes are elsewhere")]


def test_certificates_of_relays_are_warned_of_in_time() -> None:
    ends = {"vu": NOW + 20 * DAY, "xe": NOW + 14 * DAY - timedelta(seconds=1), "dcc": NOW}
    again = "its receiver makes another (`harvest relay-bundle`)"
    assert list(certificate_warnings(ends, NOW)) == [
        f"the certificate of relay dcc has expired: {again}",
        f"the certificate of relay xe ends in 13 days: {again}",
    ]


def test_the_ends_of_relays_certificates_are_read_with_the_rest_and_one_that_is_missing_matters_to_nobody_else(
    tmp_path: Path,
) -> None:
    own, head = ca(tmp_path / "ca", "demo"), ca(tmp_path / "head", "xe")
    now = own.load().certificate.not_valid_before_utc
    own.write_server(tmp_path / "tls", "main", now=now)
    head.write_relay(tmp_path / "secrets" / "relay-xe", "demo", now=now)
    relays: list[dict[str, Any]] = [
        {"cluster": name, "filesystems": ["home"], "endpoint": "a:1", "tlsSecretRef": {"name": f"relay-{name}"}}
        for name in ("xe", "vu")
    ]
    clusters: list[dict[str, Any]] = [
        {"name": name, "lnets": [lnet], "filesystems": ["home"], "jobIds": {"format": f"{name}.%j"}}
        for name, lnet in {"xe": "o2ib1", "vu": "o2ib2"}.items()
    ]
    site = {"filesystems": [{"name": "home", "servers": ["oss1"]}], "clusters": clusters, "relays": relays}
    (tmp_path / "site.yaml").write_text(str(site))
    files = OrderFiles(tmp_path / "site.yaml", tmp_path / "tls", "main", tmp_path / "secrets")
    before = files.stamp()
    assert files.read().relay_ends == {"xe": now + 90 * DAY}
    head.write_relay(tmp_path / "secrets" / "relay-xe", "demo", now=now + 5 * DAY)
    assert files.stamp() != before, "a new certificate is looked at"
    assert files.read().relay_ends == {"xe": now + 95 * DAY}


def test_a_relays_ca_that_cannot_be_read_is_the_trouble_of_that_relay_alone(tmp_path: Path) -> None:
    own, other = ca(tmp_path / "ca", "xe"), ca(tmp_path / "other", "other")
    now = own.load().certificate.not_valid_before_utc
    own.write_server(tmp_path / "tls", "main", now=now)
    accepts: list[dict[str, Any]] = [
        {"name": "site", "filesystems": ["gdata"], "lnets": ["o2ib"]},
        {"name": "other", "filesystems": ["archive"], "lnets": ["o2ib"], "caSecretRef": {"name": "other-ca"}},
    ]
    (tmp_path / "site.yaml").write_text(str({"accepts": accepts}))
    secret = tmp_path / "secrets" / "other-ca" / "ca.crt"
    files = OrderFiles(tmp_path / "site.yaml", tmp_path / "tls", "main", tmp_path / "secrets")

    def shown(signer: Any, name: str) -> Any:  # noqa: ANN401 - a CA, and a certificate
        folder = tmp_path / "shown"
        signer.write_relay(folder, name, now=now)
        return load_certificate((folder / "tls.crt").read_bytes())

    def troubles(files: OrderFiles) -> dict[str, str]:
        """Return what is told of relays; whatever it is, only the other one is concerned."""
        door = files.read().admission
        assert door.why_relay_refused(shown(own, "site"), now) is None
        for signer in (own, other):
            assert f"nobody is let in as relay other: {door.unvouched['other']}" == door.why_relay_refused(
                shown(signer, "other"), now
            )
        return dict(door.unvouched)

    its = "its CA, secret/other-ca (`caSecretRef`), is not known"
    assert troubles(replace(files, secrets=None)) == {"other": f"{its}: give --secrets DIR"}
    assert troubles(files) == {"other": f"{its}: cannot read {secret}: No such file or directory"}
    secret.parent.mkdir(parents=True)
    secret.write_text("nothing")
    assert troubles(files) == {"other": f"{its}: this is no certificate (neither PEM nor DER)"}
    before = files.stamp()
    secret.write_bytes((tmp_path / "other" / "ca.crt").read_bytes())
    assert files.stamp() != before, "it is looked at as soon as it is there"
    door = files.read().admission
    assert door.unvouched == {}
    assert door.why_relay_refused(shown(other, "other"), now) is None
    assert door.why_relay_refused(shown(own, "other"), now), "our own CA does not speak for it"
