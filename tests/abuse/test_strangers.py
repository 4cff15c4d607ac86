"""What those hear who may not come in, and that the others do not notice; on real ports."""

import asyncio
import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from harvest.v1.stream_pb2 import Batch, RefusalReason
from harvest_aggregator import streams
from harvest_pki.certificates import bundle_pem
from harvest_pki.folders import CaFolder, Tls
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import key_pem, new_key
from support.processes import running
from support.uplinks import Agent, Aggregator, ca, hello, issued, served, sweep

TLS_REFUSED = grpc.StatusCode.UNAVAILABLE


def certified(made: CaFolder, kind: Kind, name: str) -> Tls:
    """Return files of somebody who is no agent."""
    key = new_key()
    holder = Identity(site=made.load().site, kind=kind, name=name)
    certificate = made.issue(holder, key.public_key(), now=datetime.now(UTC))
    return Tls(certificate=bundle_pem([certificate]), key=key_pem(key), ca=bundle_pem(made.bundle()))


async def outcome(here: Aggregator, tls: Tls | None, name: str = "oss1") -> tuple[grpc.StatusCode, str]:
    """Return how a stream with these files ends; the caller trusts the aggregator in any case."""
    trusted = bundle_pem(here.ca.bundle())
    agent = Agent(here.address, replace(tls, ca=trusted) if tls else trusted)
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        await agent.say(hello(name))
    ended = await agent.ended()
    await agent.close()
    return ended


@served
async def test_tls_refuses_strangers_and_what_has_expired(here: Aggregator) -> None:
    good = here.agent("oss4")
    await good.begin(hello("oss4", "home-OST0000"))
    folder = here.ca.path.parent
    long_ago = datetime.now(UTC) - timedelta(days=9)
    expired = issued(here.ca, "oss1", now=long_ago, lifetime=timedelta(days=8))
    assert (await outcome(here, expired))[0] is TLS_REFUSED
    assert (await outcome(here, issued(ca(folder / "wrong" / "ca"), "oss1")))[0] is TLS_REFUSED
    assert (await outcome(here, issued(ca(folder / "other" / "ca", "other"), "oss1")))[0] is TLS_REFUSED
    assert (await outcome(here, None))[0] is TLS_REFUSED
    assert here.keeper.present == ["oss4"]
    await good.say(*sweep(1))
    assert await good.acknowledged() == 1


@served
async def test_who_has_a_good_chain_but_may_not_come_hears_why(here: Aggregator) -> None:
    for tls, name, reason in (
        (issued(here.ca, "oss9"), "oss9", "oss9 is not listed in site demo"),
        (issued(here.ca, "oss1"), "oss2", "agent 'oss2' came with the certificate of oss1"),
        (certified(here.ca, Kind.RELAY, "oss1"), "oss1", "relay oss1 is not listed"),
        (certified(here.ca, Kind.AGGREGATOR, "oss1"), "oss1", "aggregator oss1 is not listed"),
    ):
        code, details = await outcome(here, tls, name)
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert reason in details
    assert not here.keeper.present


@served
async def test_an_oversized_message_ends_its_stream_alone(here: Aggregator) -> None:
    good, bad = here.agent("oss1"), here.agent("oss2")
    await good.begin(hello("oss1"))
    await bad.begin(hello("oss2"))
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the end may come before all was said
        await bad.say(Batch(incarnation=b"i" * 16, seq=1, lustre_version="2" * (5 << 20)))
    assert (await bad.ended())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    await good.say(*sweep(1))
    assert await good.acknowledged() == 1


@served
async def test_bytes_that_are_no_message_end_their_stream(here: Aggregator) -> None:
    for garbage in (b"", b"\xff" * 100, b"GET / HTTP/1.1\r\n\r\n"):
        agent = here.agent("oss1")
        await agent.call.write(garbage)
        assert (await agent.refused()).reason == RefusalReason.REFUSAL_REASON_PROTOCOL
        agent = here.agent("oss1")
        await agent.begin(hello("oss1"))
        await agent.call.write(garbage)
        assert (await agent.refused()).reason == RefusalReason.REFUSAL_REASON_PROTOCOL


def test_a_hello_that_never_comes_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HELLO_SECONDS", 0.2)

    @served
    async def scenario(here: Aggregator) -> None:
        agent = here.agent("oss1")
        await agent.call.wait_for_connection()
        assert "no Hello came" in (await agent.refused()).message

    scenario(tmp_path)


def cut_off(address: str, said: bytes) -> bool:
    """Send something and tell whether the other end then hangs up, or resets, within the limit."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        try:
            connection.sendall(said)
            while connection.recv(4096):
                pass
        except ConnectionResetError:
            return True
        return True


def test_plain_text_and_garbage_are_cut_off(tmp_path: Path) -> None:
    with running(tmp_path) as here:
        said = (
            b"GET / HTTP/1.1\r\nHost: harvest\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64),
            b"\x00" * 1000,
            b"\x16\x03\x01\x40\x00" + b"\xff" * 2000,
            b"\x16",  # the start of a handshake that does not go on: its time limit
        )
        with ThreadPoolExecutor() as pool:
            assert all(pool.map(cut_off, [here.address] * len(said), said))
        assert all(line.startswith("{") for line in here.log.read_text().splitlines())  # nothing that a stranger caused
        assert here.get("healthz")[0] == 200
        assert here.process.poll() is None
