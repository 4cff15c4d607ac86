"""The memory that data may take until it is durable, shared by all streams."""

import asyncio
from itertools import islice


class Room:
    """Bytes that are held. While there are too many, only the sweep that began first is read on.

    So it is bounded by the limit and one sweep; and never stuck: that one sweep comes to its end and leaves, or its
    stream stalls and is ended. Beside it every stream may have one message, as bytes: gRPC takes in what it was asked
    for, and who has nothing to say must be asked, too.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._begun: dict[object, None] = {}
        self._waiting: dict[object, asyncio.Future[None]] = {}

    @property
    def held_bytes(self) -> int:
        """How much is held now."""
        return self._held_bytes

    def is_open_to(self, stream: object) -> bool:
        """Tell whether a stream may be read on."""
        return self._held_bytes < self._limit_bytes or next(iter(self._begun), None) is stream

    async def turn(self, stream: object) -> None:
        """Wait until a stream may be read on."""
        while not self.is_open_to(stream):
            self._waiting[stream] = asyncio.get_running_loop().create_future()
            try:
                await self._waiting[stream]
            finally:
                del self._waiting[stream]

    def take(self, stream: object, size_bytes: int, *, whole: bool) -> None:
        """Hold what came on a stream; ``whole``: its sweep is."""
        self._held_bytes += size_bytes
        if whole:
            self._begun.pop(stream, None)
            self._wake()  # another sweep is the first now
        else:
            self._begun.setdefault(stream)

    def free(self, size_bytes: int) -> None:
        """Hold so much less: it is durable, or given up."""
        self._held_bytes -= size_bytes
        self._wake()

    def leave(self, stream: object, size_bytes: int) -> None:
        """Give up what a stream held when it ended."""
        self._begun.pop(stream, None)
        self.free(size_bytes)

    def _wake(self) -> None:
        """Wake those who may be read on, and nobody else: there may be hundreds."""
        if self._held_bytes < self._limit_bytes:
            woken = list(self._waiting.values())
        else:
            woken = [self._waiting[stream] for stream in islice(self._begun, 1) if stream in self._waiting]
        for waiting in woken:
            if not waiting.done():
                waiting.set_result(None)
