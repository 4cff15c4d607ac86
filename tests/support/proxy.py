"""Stands between the operator and the API server: counts what is written, and cuts what a test wants cut."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

_READS = {"GET", "HEAD", "OPTIONS"}
_HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "content-encoding"}


@dataclass
class Proxy:
    """Plain HTTP on one side, the API server's TLS on the other."""

    server: str
    ca: Path
    written: Callable[[], None] | None = None
    """Called when a write was done, and who asked for it does not know yet."""
    refusing: bool = False
    refused: int = 0
    """How many requests were refused."""
    """Whether whoever comes is turned away."""
    writes: list[tuple[str, str]] = field(default_factory=list)
    _streams: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Cut every open watch."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._streams])

    async def serve(self, started: threading.Event, end: asyncio.Event) -> None:
        """Serve until the end."""
        self._loop = asyncio.get_running_loop()
        trusting = ssl.create_default_context(cafile=str(self.ca))
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trusting, limit=0),
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
        ) as self._session:
            app = web.Application(client_max_size=1 << 24)
            app.router.add_route("*", "/{path:.*}", self._passed_on)
            runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self._port = int(runner.addresses[0][1])
            started.set()
            await end.wait()
            for task in self._streams:
                task.cancel()
            await runner.cleanup()
        await asyncio.sleep(0.3)  # what was closed needs the loop once more to be gone

    async def _passed_on(self, request: web.Request) -> web.StreamResponse:
        if self.refusing:
            self.refused += 1
            return _cut(request)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        body = await request.read() or None  # nothing is not an empty text
        try:
            answer = await self._session.request(
                request.method, f"{self.server}{request.raw_path}", headers=headers, data=body, allow_redirects=False
            )
        except aiohttp.ClientError:
            return _cut(request)
        with contextlib.closing(answer):
            said = b""
            if request.method not in _READS:
                said = await answer.read()
                self.writes.append((request.method, request.path))
                if self.written is not None:
                    self.written()
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            if said:
                await response.write(said)
            copying = asyncio.ensure_future(_copied(answer, response))
            self._streams.add(copying)
            copying.add_done_callback(self._streams.discard)
            try:
                await copying
            except (asyncio.CancelledError, aiohttp.ClientError, ConnectionError):
                return _cut(request, response)
            return response


async def _copied(answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    async for piece in answer.content.iter_any():
        await response.write(piece)


def _cut(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """End a connection in the middle of whatever it was about."""
    if request.transport is not None:
        request.transport.abort()
    return response or web.Response(status=502)


@contextlib.contextmanager
def before(server: str, ca: Path) -> Iterator[Proxy]:
    """Run a proxy before an API server."""
    proxy = Proxy(server, ca)
    started, ended = threading.Event(), asyncio.Event()
    thread = threading.Thread(target=lambda: asyncio.run(proxy.serve(started, ended)), daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield proxy
    finally:
        proxy._loop.call_soon_threadsafe(ended.set)  # noqa: SLF001
        thread.join(30)
