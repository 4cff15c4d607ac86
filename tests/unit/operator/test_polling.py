"""Who is asked when, in virtual time."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable

from harvest_operator.agenda import SiteKey
from harvest_operator.plan import Target
from harvest_operator.polling import Answer, Poller
from harvest_operator.reports import NoAnswer, Report
from support.sites_in_kubernetes import NOW
from unit.operator.test_agenda import run

SITE = "n", "a"


def target(name: str = "main", token: str = "t") -> Target:  # noqa: S107 - none
    return Target(aggregator=name, service=f"harvest-{name}", server_name=f"{name}.a.harvest", token=token, ca=b"")


class Scene:
    """A poller, whom it asked when, and the sites that it spoke of."""

    def __init__(self, answer: Callable[[], Answer]) -> None:
        self.asked: dict[str, list[float]] = defaultdict(list)
        self.told: list[SiteKey] = []
        self.hanging: set[str] = set()
        self.answer = answer
        self.poller = Poller(self.ask, self.told.append)

    async def ask(self, _: SiteKey, one: Target) -> Answer:
        self.asked[one.aggregator].append(asyncio.get_running_loop().time())
        if one.aggregator in self.hanging:
            await asyncio.sleep(10)
        return self.answer()

    async def last(self, seconds: float) -> None:
        task = asyncio.create_task(self.poller.run())
        await asyncio.sleep(seconds)
        task.cancel()


def well() -> Report:
    return Report(connected=1, expected=1, last_sweep=NOW)


def test_each_is_asked_at_once_and_then_once_a_minute() -> None:
    async def scene() -> None:
        here = Scene(well)
        here.poller.follow(SITE, (target("one"), target("two")))
        await here.last(200)
        for times in here.asked.values():
            assert times[0] < 3
            assert len(times) == 4
            assert all(later - earlier >= 60 for earlier, later in itertools.pairwise(times))
        assert here.told == [SITE, SITE]  # nothing new after the first answers

    run(scene())


def test_hundreds_are_asked_one_each_second_and_none_twice_before_all_others() -> None:
    async def scene() -> None:
        here = Scene(well)
        for number in range(200):
            here.poller.follow(("n", f"s{number}"), (target(f"a{number}"),))
        await here.last(401)
        times = sorted(time for times in here.asked.values() for time in times)
        assert all(later - earlier >= 0.99 for earlier, later in itertools.pairwise(times))
        assert {len(times) for times in here.asked.values()} <= {2, 3}

    run(scene())


def test_one_that_hangs_holds_up_no_other() -> None:
    async def scene() -> None:
        here = Scene(well)
        here.hanging = {"a", "b", "c"}
        here.poller.follow(SITE, tuple(target(name) for name in ("a", "b", "c", "d")))
        await here.last(5)
        assert here.asked["d"]
        assert set(here.poller.reports(SITE)) == {"d"}

    run(scene())


def test_only_what_matters_is_told() -> None:
    answers: list[Answer] = [
        well(),
        Report(connected=1, expected=1),
        Report(connected=0, expected=1),
        NoAnswer("no"),
        NoAnswer("no"),
    ]

    async def scene() -> None:
        here = Scene(lambda: answers[len(here.asked["main"]) - 1])
        here.poller.follow(SITE, (target(),))
        for number, told in enumerate([1, 2, 3, 4, 4], start=1):
            await here.last(1 if number == 1 else 62)
            assert (len(here.asked["main"]), len(here.told)) == (number, told)
            assert here.poller.reports(SITE)["main"] == answers[number - 1]

    run(scene())


def test_an_answer_that_comes_too_late_is_nobodys() -> None:
    async def scene() -> None:
        here = Scene(well)
        here.hanging = {"main"}
        here.poller.follow(SITE, (target(),))
        task = asyncio.create_task(here.poller.run())
        await asyncio.sleep(1)
        here.poller.follow(SITE, (target(token="another"),))  # noqa: S106 - none
        await asyncio.sleep(20)
        assert (here.poller.reports(SITE), here.told) == ({}, [])
        here.poller.forget(SITE)
        await asyncio.sleep(100)
        assert here.poller.reports(SITE) == {}
        task.cancel()

    run(scene())
