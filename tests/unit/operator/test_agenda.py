import asyncio

from harvest_operator.agenda import Agenda
from unit.operator.test_reconciling import SteppedLoop

A, B = ("n", "a"), ("n", "b")


def run(coroutine: object) -> None:
    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        runner.run(coroutine)  # type: ignore[arg-type]


def test_what_happens_together_is_looked_at_once_and_the_first_that_is_due_first() -> None:
    async def scene() -> None:
        agenda = Agenda()
        agenda.within(B, 10)
        agenda.soon(A)
        agenda.soon(A)
        assert await agenda.next() == A
        assert asyncio.get_running_loop().time() < 1
        agenda.done(A)
        assert await agenda.next() == B
        assert asyncio.get_running_loop().time() >= 10

    run(scene())


def test_a_site_is_looked_at_by_one_at_a_time_and_again_if_something_happened_meanwhile() -> None:
    async def scene() -> None:
        agenda = Agenda()
        agenda.soon(A)
        assert await agenda.next() == A
        agenda.soon(A)
        agenda.within(B, 5)
        assert await agenda.next() == B  # not A, which is at work
        agenda.done(A)
        assert await agenda.next() == A

    run(scene())


def test_sooner_wins_and_later_does_not_delay() -> None:
    async def scene() -> None:
        agenda = Agenda()
        agenda.within(A, 300)
        waiting = asyncio.create_task(agenda.next())
        await asyncio.sleep(1)
        agenda.soon(A)
        agenda.within(A, 300)
        assert await waiting == A
        assert asyncio.get_running_loop().time() < 2

    run(scene())
