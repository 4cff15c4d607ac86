"""HTTP on real sockets: plain on loopback, TLS and a token beyond it."""

import asyncio
import json
import socket
import ssl
import urllib.request
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harvest_aggregator.serving import Address, Serving, ServingError, serving
from harvest_pki.authorities import Authority
from harvest_pki.folders import CaFolder
from harvest_pki.keys import new_key, new_serial
from unit.aggregator.publishing import client

TOKEN = "0123456789abcdef-secret"  # noqa: S105 - of a test
LOOPBACK = Address("127.0.0.1", 0)
EVERYWHERE = Address("0.0.0.0", 0)  # noqa: S104 - what is tested


@pytest.fixture
def ca(tmp_path: Path) -> CaFolder:
    folder = CaFolder(tmp_path / "ca")
    now = datetime.now(UTC)
    folder.create(Authority.create("example", key=new_key(), serial=new_serial(), now=now))
    folder.write_server(tmp_path / "tls", "main", now=now)
    return folder


def during(address: Address, talk: Callable[[Serving], Awaitable[None]], *, tls: Path | None = None) -> None:
    """Serve while somebody talks to it."""
    token = None if address.is_loopback else TOKEN

    async def run() -> None:
        app = client(token=token).app
        async with asyncio.timeout(60), serving(app, address, tls=tls, token=token) as server:
            await talk(server)

    asyncio.run(run())


async def asked(
    server: Serving, path: str, *, token: str | None = None, trust: ssl.SSLContext | None = None
) -> tuple[int, dict[str, object]]:
    host = "::1" if ":" in server.address.host else "127.0.0.1"
    reader, writer = await asyncio.open_connection(
        host, server.address.port, ssl=trust, server_hostname="main.example.harvest" if trust else None
    )
    lines = [f"GET {path} HTTP/1.1", "Host: harvest", "Connection: close"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return int(head.split()[1]), json.loads(body)


def trusting(ca: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca / "ca.crt"))


def test_it_is_answered_while_the_loop_of_the_streams_is_busy() -> None:
    async def talk(server: Serving) -> None:
        await asyncio.sleep(0)  # it is let start; from here on nothing else runs in this loop
        with urllib.request.urlopen(f"{server.url}healthz", timeout=10) as answer:  # noqa: ASYNC210, S310 - that is it
            assert answer.status == 200

    during(LOOPBACK, talk)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_on_loopback_plain_http_is_answered(host: str) -> None:
    async def talk(server: Serving) -> None:
        assert server.url == f"http://{server.address}/"
        status, answer = await asked(server, "/api/v1/jobs/-/11")
        assert (status, answer["job"]) == (200, "11")
        assert (await asked(server, "/api/v1/jobs/-/%FF%2F"))[0] == 404

    during(Address(host, 0), talk)


def test_beyond_loopback_only_tls_is_answered_and_only_with_the_token(ca: CaFolder, tmp_path: Path) -> None:
    async def talk(server: Serving) -> None:
        trust = trusting(ca.path)
        assert (await asked(server, "/healthz", trust=trust))[0] == 200
        assert (await asked(server, "/api/v1/jobs", trust=trust))[0] == 401
        assert (await asked(server, "/api/v1/jobs", token="guessed", trust=trust))[0] == 401  # noqa: S106
        assert (await asked(server, "/api/v1/jobs", token=TOKEN, trust=trust))[0] == 200
        with pytest.raises((ConnectionError, IndexError)):  # plain text gets no answer
            await asked(server, "/healthz")

    during(EVERYWHERE, talk, tls=tmp_path / "tls")


def test_a_new_certificate_is_used_for_those_who_come_next(ca: CaFolder, tmp_path: Path) -> None:
    async def talk(server: Serving) -> None:
        before = await shown(server)
        ca.write_server(tmp_path / "tls", "main", now=datetime.now(UTC))
        assert await shown(server) == before
        server.reload()
        assert await shown(server) != before

    async def shown(server: Serving) -> bytes:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", server.address.port, ssl=trusting(ca.path), server_hostname="main.example.harvest"
        )
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return certificate

    during(EVERYWHERE, talk, tls=tmp_path / "tls")


def test_who_sends_no_whole_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harvest_aggregator.serving._IDLE_SECONDS", 0.3)

    async def talk(server: Serving) -> None:
        mute, silence = await asyncio.open_connection("127.0.0.1", server.address.port)
        slow, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: har")
        assert await asyncio.wait_for(mute.read(), 30) == b""
        assert await asyncio.wait_for(slow.read(), 30) == b""
        silence.close()
        writer.close()
        monkeypatch.undo()  # whoever asks in good order may take its time
        assert (await asked(server, "/healthz"))[0] == 200

    during(LOOPBACK, talk)


def test_a_port_that_is_taken_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ServingError, match=f"cannot listen on {address} for HTTP: Address already in use"):
            Serving(client().app, address, tls=None, token=None)
