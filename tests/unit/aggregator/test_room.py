import asyncio

from typing_extensions import override

from harvest_aggregator.room import Room


def test_above_the_limit_only_the_sweep_that_began_first_is_read_on() -> None:
    room = Room(10)
    room.take("a", 6, whole=False)
    assert room.is_open_to("b")
    room.take("b", 6, whole=False)
    assert room.is_open_to("a")
    assert not room.is_open_to("b")
    assert not room.is_open_to("c")
    room.take("a", 6, whole=True)
    assert room.is_open_to("b")
    assert not room.is_open_to("a")
    room.leave("b", 6)
    assert not room.is_open_to("c")
    room.free(12)
    assert room.is_open_to("c")
    assert room.held_bytes == 0


def test_who_waits_goes_on_when_there_is_room() -> None:
    async def scenario() -> None:
        room = Room(10)
        room.take("a", 12, whole=True)
        waiting = asyncio.ensure_future(room.turn("b"))
        await asyncio.sleep(0)
        assert not waiting.done()
        room.free(12)
        await asyncio.wait_for(waiting, 5)

    asyncio.run(scenario())


class WatchedRoom(Room):
    """Notes who looks whether there is room."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.looked: list[object] = []

    @override
    def is_open_to(self, stream: object) -> bool:
        self.looked.append(stream)
        return super().is_open_to(stream)


def test_above_the_limit_only_who_may_be_read_on_is_woken() -> None:
    async def scenario() -> None:
        room = WatchedRoom(10)
        for stream in "abc":
            room.take(stream, 6, whole=False)
        turns = {stream: asyncio.ensure_future(room.turn(stream)) for stream in "bc"}
        await asyncio.sleep(0)
        assert room.looked == ["b", "c"]
        room.take("a", 6, whole=True)
        await asyncio.wait_for(turns["b"], 5)
        assert room.looked == ["b", "c", "b"]
        room.leave("b", 6)
        await asyncio.wait_for(turns["c"], 5)

    asyncio.run(scenario())
