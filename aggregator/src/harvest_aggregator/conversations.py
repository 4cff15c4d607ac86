"""What an agent says and is told over one stream, message by message."""

import asyncio
from typing import Final

import grpc

from harvest.v1.stream_pb2 import StreamResponse

Context = grpc.aio.ServicerContext[bytes, bytes]


class Conversation:
    """A stream's two directions.

    gRPC takes a message only when the one before is out, and whoever waits for that may be cancelled meanwhile. So
    what was begun to be said goes on, and what is said next (a refusal, mostly) waits for it.
    """

    def __init__(self, context: Context) -> None:
        self.peer: Final = context.peer()
        self._context = context
        self._sending = asyncio.Lock()
        self._falling_silent = False

    async def hear(self) -> bytes | None:
        """Return the next message, nothing when the agent has ended the stream."""
        data: object = await self._context.read()  # EOF is no bytes
        return data if isinstance(data, bytes) else None

    async def say(self, response: StreamResponse) -> None:
        """Say something, unless it was decided meanwhile that the agent must go."""
        await self._shielded(response, last=False)

    def fall_silent(self) -> None:
        """Say nothing more that was not begun, but the last word."""
        self._falling_silent = True

    async def say_last(self, response: StreamResponse) -> None:
        """Say why the stream ends."""
        self._falling_silent = True
        await self._shielded(response, last=True)

    async def _shielded(self, response: StreamResponse, *, last: bool) -> None:
        saying = asyncio.ensure_future(self._say(response, last=last))
        saying.add_done_callback(_seen)
        await asyncio.shield(saying)

    async def _say(self, response: StreamResponse, *, last: bool) -> None:
        async with self._sending:
            if last or not self._falling_silent:
                await self._context.write(response.SerializeToString())


def _seen(said: asyncio.Future[None]) -> None:
    """Look at what went wrong even if nobody waits any more, else asyncio complains."""
    if not said.cancelled():
        said.exception()
