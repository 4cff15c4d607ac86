"""What is said over a stream, where whoever says it may be cancelled."""

import asyncio
from typing import cast

import pytest

from harvest.v1.stream_pb2 import Ack, Refusal, StreamResponse
from harvest_aggregator.conversations import Context, Conversation

FIRST, SECOND = (StreamResponse(ack=Ack(seq=seq)) for seq in (1, 2))
LAST = StreamResponse(refusal=Refusal(message="no"))


class Line:
    """gRPC's side: takes one message at a time, and each only when it is let through."""

    def __init__(self) -> None:
        self.taken: list[StreamResponse] = []
        self.let_through = asyncio.Event()
        self._busy = False

    def peer(self) -> str:
        return "a peer"

    async def write(self, data: bytes) -> None:
        assert not self._busy, "gRPC takes no message before the one before is out"
        self._busy = True
        await self.let_through.wait()
        self._busy = False
        self.taken.append(StreamResponse.FromString(data))


async def _soon() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_last_word_waits_for_what_is_on_its_way_although_nobody_waits_for_that_any_more() -> None:
    async def scenario() -> None:
        line = Line()
        conversation = Conversation(cast("Context", line))
        saying = asyncio.ensure_future(conversation.say(FIRST))
        await _soon()
        saying.cancel()
        last = asyncio.ensure_future(conversation.say_last(LAST))
        await _soon()
        assert saying.cancelled()
        line.let_through.set()
        await last
        assert line.taken == [FIRST, LAST]

    asyncio.run(scenario())


@pytest.mark.parametrize("cancelled", [False, True])
def test_who_must_go_hears_nothing_that_was_not_begun(*, cancelled: bool) -> None:
    async def scenario() -> None:
        line = Line()
        conversation = Conversation(cast("Context", line))
        begun, waiting = (asyncio.ensure_future(conversation.say(one)) for one in (FIRST, SECOND))
        await _soon()
        conversation.fall_silent()
        if cancelled:
            waiting.cancel()
        last = asyncio.ensure_future(conversation.say_last(LAST))
        line.let_through.set()
        await last
        await begun
        assert line.taken == [FIRST, LAST]

    asyncio.run(scenario())
