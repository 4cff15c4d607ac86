"""When Slurm is asked, and what is made of its answers: no threads, no processes, the clock is an argument."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from harvest_agent.slurm.board import JobBoard
from harvest_agent.slurm.collector import Asking, Patience
from harvest_agent.slurm.sources import SlurmError
from harvest_core.slurm.jobs import SlurmJob


@dataclass
class Source:
    """A Slurm that answers as it is told."""

    shown: list[SlurmJob] = field(default_factory=list)
    runs: list[SlurmJob] = field(default_factory=list)
    trouble: Exception | None = None
    accounting_trouble: Exception | None = None
    asked: list[tuple[int, ...]] = field(default_factory=list)
    unread: int = 0
    asked_most: int = 2

    def jobs(self) -> Iterator[list[SlurmJob]]:
        yield self.shown[:1]
        if self.trouble is not None:
            raise self.trouble
        yield self.shown[1:]

    def accounted(self, numbers: Sequence[int]) -> list[SlurmJob]:
        self.asked.append(tuple(numbers))
        if self.accounting_trouble is not None:
            raise self.accounting_trouble
        return self.runs

    def stop(self) -> None:
        pass


class Scene:
    def __init__(self) -> None:
        self.now = 1000.0
        self.source = Source()
        self.board = JobBoard("command")
        self.asking = Asking(self.source, self.board, 30, clock=lambda: self.now, wall=lambda: 1700000000.4)

    def ask(self) -> float:
        wait = self.asking.ask()
        self.now += wait
        return wait

    @property
    def problem(self) -> str:
        return self.board.health.problem


@pytest.fixture
def scene() -> Scene:
    return Scene()


def job(number: int, state: str = "RUNNING") -> SlurmJob:
    return SlurmJob(id=number, state=state, start_seconds=100, partition="batch")


def test_slurm_is_asked_once_per_period_from_beginning_to_beginning(scene: Scene) -> None:
    assert scene.ask() == 30
    assert slow(scene, 4.0) == 26


def test_a_slow_slurm_rests_as_long_as_it_took(scene: Scene) -> None:
    assert slow(scene, 25.0) == 25
    assert slow(scene, 40.0) == 40


def slow(scene: Scene, seconds: float) -> float:
    times = iter([1000.0, 1000.0, 1000.0 + seconds, 1000.0 + seconds])
    return Asking(scene.source, scene.board, 30, clock=lambda: next(times), wall=lambda: 0.0).ask()


def test_health_says_how_it_goes(scene: Scene) -> None:
    scene.ask()
    health = scene.board.health
    assert (health.answered_seconds, health.queries, health.failed_queries, health.problem) == (1700000000, 1, 0, "")
    scene.source.trouble = SlurmError("squeue failed\nwith code 1")
    scene.ask()
    assert (health.answered_seconds, health.queries, health.failed_queries) == (1700000000, 2, 1)
    assert health.problem == r"squeue failed\nwith code 1"


def test_who_fails_is_asked_less_and_less_often_and_at_once_as_before_when_it_is_well(scene: Scene) -> None:
    scene.source.trouble = SlurmError("no")
    assert [scene.ask() for _ in range(7)] == [60, 120, 240, 480, 600, 600, 600]
    scene.source.trouble = None
    assert [scene.ask(), scene.ask()] == [30, 30]


def test_a_period_longer_than_the_longest_wait_stays_as_it_is() -> None:
    patience = Patience(3600)
    for _ in range(100):
        patience.was(good=False)
    assert patience.seconds() == 3600


def test_a_bug_is_a_problem_like_others(scene: Scene) -> None:
    scene.source.trouble = ZeroDivisionError("by zero")
    assert scene.ask() == 60
    assert scene.problem == "ZeroDivisionError: by zero"


def test_an_answer_that_breaks_off_makes_nothing_vanish(scene: Scene) -> None:
    scene.source.shown = [job(1), job(2)]
    scene.ask()
    scene.source.trouble = SlurmError("cut")
    scene.source.shown = [job(1)]
    scene.ask()
    assert len(scene.board) == 2
    assert scene.source.asked == []


def test_what_vanished_is_asked_of_accounting_together_and_once(scene: Scene) -> None:
    scene.source.shown = [job(1), job(2), job(3)]
    scene.ask()
    scene.source.shown = []
    scene.source.runs = [job(1, "COMPLETED"), job(2, "COMPLETED")]
    for _ in range(4):
        scene.ask()
    assert scene.source.asked == [(1, 2), (3,)]


def test_accounting_that_fails_is_named_and_asked_less_and_less_often_slurmctld_as_before(scene: Scene) -> None:
    scene.source.shown = [job(1)]
    scene.ask()
    scene.source.shown = []
    scene.source.accounting_trouble = SlurmError("slurmdbd is away")
    waits = [scene.ask() for _ in range(8)]
    assert waits == [30] * 8
    assert scene.problem == "accounting does not answer: slurmdbd is away"
    assert len(scene.source.asked) == 3, "after 0, 60 and 180 seconds"
    scene.source.accounting_trouble = None
    scene.source.runs = [job(1, "COMPLETED")]
    for _ in range(20):
        scene.ask()
    assert scene.problem == ""
    assert len(scene.source.asked) == 4


def test_everybody_is_woken_after_each_question(scene: Scene) -> None:
    news: list[int] = []
    scene.board.on_news = lambda: news.append(1)
    scene.ask()
    scene.source.trouble = SlurmError("no")
    scene.ask()
    assert len(news) == 2
