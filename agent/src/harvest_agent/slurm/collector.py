"""A thread that asks Slurm once per period for all its jobs, and accounting for those that slurmctld has forgotten."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from harvest_agent.config import SlurmSettings
from harvest_agent.logs import say
from harvest_agent.slurm.board import Feed, JobBoard
from harvest_agent.slurm.commands import Commands
from harvest_agent.slurm.names import SystemNames
from harvest_agent.slurm.pyslurm_source import Pyslurm
from harvest_agent.slurm.rest import Slurmrestd
from harvest_agent.slurm.sources import SlurmError, Source
from harvest_agent.tables import shown
from harvest_core.slurm.jobs import Names

SOURCES: Final[Mapping[str, Callable[[SlurmSettings, Names], Source]]] = {
    "command": Commands,
    "pyslurm": Pyslurm,
    "slurmrestd": Slurmrestd,
}
_WAIT_MOST_SECONDS: Final = 600.0
_PROBLEM_MOST: Final = 300
_MICRO: Final = 1_000_000


class Patience:
    """How long to wait until somebody who fails is asked again: twice as long each time."""

    def __init__(self, period_seconds: float) -> None:
        self._period_seconds = period_seconds
        self.failures = 0

    def seconds(self) -> float:
        """Return the wait from the beginning of one question to that of the next."""
        return max(min(self._period_seconds * 2.0 ** min(self.failures, 16), _WAIT_MOST_SECONDS), self._period_seconds)

    def was(self, *, good: bool) -> None:
        """Take in how it went."""
        self.failures = 0 if good else self.failures + 1


class Asking:
    """One question after the other; no thread, no waiting."""

    def __init__(
        self,
        source: Source,
        board: JobBoard,
        period_seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._board = board
        self._clock = clock
        self._wall = wall
        self._patience = Patience(period_seconds)
        self._accounting_patience = Patience(period_seconds)
        self._accounting_not_before = 0.0
        self._accounting_problem = ""
        self._is_well = False

    def ask(self) -> float:
        """Ask once; return after how many seconds to ask again: Slurm rests for as long as an answer took, at least."""
        began = self._clock()
        problem = self._ask_slurmctld()
        self._patience.was(good=not problem)
        if not problem:
            problem = self._ask_accounting()
        self._blame(problem)
        self._board.told()
        took = self._clock() - began
        return max(self._patience.seconds() - took, took)

    def _ask_slurmctld(self) -> str:
        health = self._board.health
        began = self._clock()
        problem = self._tried(self._take_jobs)
        self._board.answered(is_whole=not problem)
        health.query_microseconds = round((self._clock() - began) * _MICRO)
        if not problem:
            health.answered_seconds = round(self._wall())
        return problem

    def _take_jobs(self) -> None:
        for jobs in self._source.jobs():
            self._board.take(jobs)

    def _ask_accounting(self) -> str:
        numbers = self._board.to_ask(self._source.asked_most)
        if not numbers:
            return ""
        began = self._clock()
        if began < self._accounting_not_before:
            return self._accounting_problem
        problem = self._tried(lambda: self._board.accounted(numbers, self._source.accounted(numbers)))
        self._accounting_patience.was(good=not problem)
        self._accounting_not_before = began + self._accounting_patience.seconds() if problem else 0.0
        self._accounting_problem = f"accounting does not answer: {problem}" if problem else ""
        return self._accounting_problem

    def _tried(self, question: Callable[[], None]) -> str:
        """Return what was wrong with the answer."""
        health = self._board.health
        health.queries += 1
        try:
            question()
        except SlurmError as error:
            problem = str(error) or "Slurm did not answer"
        except Exception as error:  # noqa: BLE001 - a bug: without its thread the collector were dead for ever
            problem = f"{type(error).__name__}: {error}"
        else:
            return ""
        health.failed_queries += 1
        return problem

    def _blame(self, problem: str) -> None:
        health = self._board.health
        text = shown(problem)[:_PROBLEM_MOST]
        if not text and not self._is_well:
            say("slurm.answers", source=health.source, jobs=len(self._board))
        self._is_well = not text
        health.problem = text


class SlurmCollector:
    """The thread, and all that belongs to it."""

    def __init__(self, settings: SlurmSettings, on_news: Callable[[], None]) -> None:
        self.board = JobBoard(settings.source)
        self.board.on_news = on_news
        self._names = SystemNames(self.board.named)
        self.board.on_uid = self._names.ask
        self._source = SOURCES[settings.source](settings, self._names)
        self._asking = Asking(self._source, self.board, settings.period_seconds)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slurm", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._names.start()
        self._thread.start()

    def stop(self, limit_seconds: float) -> None:
        """Ask nothing more, and leave no process behind."""
        self._stopped.set()
        self._source.stop()
        self._names.stop()
        self._thread.join(limit_seconds)

    def feed(self) -> Feed:
        """Begin to tell one more aggregator."""
        return self.board.feed()

    def problems(self) -> list[str]:
        """Return what is wrong, for a person."""
        problem = self.board.health.problem
        return [f"Slurm: {problem}"] if problem else []

    def _run(self) -> None:
        while not self._stopped.wait(self._asking.ask()):
            pass
