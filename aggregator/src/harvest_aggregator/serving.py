"""Where HTTP is served: plain on loopback; beyond it only by TLS and with a token."""

import asyncio
import contextlib
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from harvest_pki.folders import read_tls

_ADDRESS = re.compile(r"(?:\[(?P<literal>[^\[\]]+)\]|(?P<host>[^\[\]:]+)):(?P<port>[0-9]{1,5})")
_BACKLOG: Final = 128
_CONNECTIONS_MAX: Final = 512
"""More at once are told to come again: HTTP must not take the files that agents' streams need."""
_IDLE_SECONDS: Final = 15
_STOP_SECONDS: Final = 3
TOKEN_CHARACTERS_MIN: Final = 16


class ServingError(Exception):
    """HTTP cannot be served like this; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``127.0.0.1:8024``, ``localhost:8024`` or ``[::1]:8024``."""
        match = _ADDRESS.fullmatch(text)
        port = int(match["port"]) if match else -1
        if match is None or not 0 <= port < 1 << 16:
            raise ServingError(f"{text!r} is no address to listen on: write HOST:PORT, or [ADDRESS]:PORT for IPv6")
        return cls(match["literal"] or match["host"], port)

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine can reach it; names other than localhost may mean anything."""
        return is_loopback(self.host)

    @override
    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Tell whether an address, as a number or ``localhost``, is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def checked_token(text: str) -> str:
    """Return the token in a file's text; it must be one that nobody guesses and every client can send."""
    token = text.strip()
    if len(token) < TOKEN_CHARACTERS_MIN or not re.fullmatch(r"[!-~]+", token):
        raise ServingError(
            f"the HTTP token must be one line of at least {TOKEN_CHARACTERS_MIN} printable ASCII characters, "
            "without blanks: make one with `openssl rand -hex 32`"
        )
    return token


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, address: Address, *, tls: Path | None, token: str | None) -> AsyncIterator["Serving"]:
    """Serve until the block ends; what is being answered then has a few seconds to finish.

    In a thread and a loop of its own: hundreds of agents whose sweeps come at once would make it wait.
    ``tls`` is the folder with tls.crt and tls.key: used beyond loopback alone. Signals stay the caller's.
    """
    server = Serving(app, address, tls=tls, token=token)
    serve = server.serve(sockets=[server.listener])
    task = asyncio.create_task(asyncio.to_thread(asyncio.run, serve), name="http")
    try:  # who comes before it has started waits in the listener's queue
        yield server
    finally:
        server.should_exit = True
        await task


class _Connection(H11Protocol):
    """A connection whose next request must come, whole, in time; uvicorn's own limit ends with its first byte."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(_IDLE_SECONDS, self.timeout_keep_alive_handler)

    @override
    def data_received(self, data: bytes) -> None:
        limit, self.timeout_keep_alive_task = self.timeout_keep_alive_task, None
        super().data_received(data)
        waiting = self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr] # None at first
        if limit is not None and waiting:
            self.timeout_keep_alive_task = limit
        elif limit is not None:
            limit.cancel()


class Serving(uvicorn.Server):
    """uvicorn, told what to do by others."""

    def __init__(self, app: ASGIApp, address: Address, *, tls: Path | None, token: str | None) -> None:
        if not address.is_loopback and token is None:
            raise ServingError(
                f"HTTP on {address} can be reached from other machines, so it needs a token: give --http-token-file "
                "with a file that holds one (`openssl rand -hex 32`), or listen on 127.0.0.1"
            )
        if not address.is_loopback and tls is None:
            raise ServingError(f"HTTP on {address} can be reached from other machines, so it needs a certificate")
        self.listener: Final = listener(address, "HTTP")
        self._tls = None if address.is_loopback else tls
        super().__init__(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                log_level="error",  # what strangers send is theirs to know
                lifespan="off",
                ws="none",
                http=_Connection,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                limit_concurrency=_CONNECTIONS_MAX,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=_STOP_SECONDS,
            )
        )
        self.config.load()
        self.reload()

    @property
    def address(self) -> Address:
        """Where it listens: the port that was given, or found if that was 0."""
        host, port = self.listener.getsockname()[:2]
        return Address(host, port)

    @property
    def url(self) -> str:
        """What a person writes into a browser on this machine."""
        return f"{'https' if self._tls else 'http'}://{self.address}/"

    def reload(self) -> None:
        """Read the certificate again, for connections that come from now on; a bad one leaves the old in use."""
        if self._tls is not None:
            read_tls(self._tls)  # refuses keys that others can read, and pairs that do not belong together
            context = self.config.ssl or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._tls / "tls.crt", self._tls / "tls.key")
            self.config.ssl = context

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(host: str, *, dual_stack: bool) -> str:
    """Return the number to bind to; all addresses are those of IPv4 where the kernel has no IPv6."""
    if host == "::" and not dual_stack:
        return "0.0.0.0"  # noqa: S104 - the same, in the other family
    return "127.0.0.1" if host == "localhost" else host


def listener(address: Address, what: str) -> socket.socket:
    """Listen for something at an address; all addresses are those of both families."""
    dual_stack = socket.has_dualstack_ipv6()
    host = bound(address.host, dual_stack=dual_stack)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server(
            (host, address.port),
            family=family,
            backlog=_BACKLOG,
            dualstack_ipv6=host == "::" and dual_stack,
        )
    except OSError as error:
        raise ServingError(f"cannot listen on {address} for {what}: {error.strerror or error}") from error
