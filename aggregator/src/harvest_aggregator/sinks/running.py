"""All sinks of the site: each is given every closed sweep, and is none of the others' business."""

import time
from collections.abc import Mapping
from typing import Final

import structlog

from harvest_aggregator.published import Published
from harvest_aggregator.sinks.backlog import Health
from harvest_aggregator.sinks.contract import Plan, Sink
from harvest_aggregator.sinks.worker import Worker

_STOP_SECONDS: Final = 3.0

_log = structlog.get_logger()


class Sinks:
    """Those that run now. One thread changes and stops them; any may offer and ask."""

    def __init__(self) -> None:
        self._workers: Mapping[str, Worker] = {}
        """Replaced as a whole."""

    def change(self, plans: Mapping[str, Plan]) -> None:
        """Start what is new, stop what is no more, both where it differs; the others notice nothing."""
        before = self._workers
        stay = {name: worker for name, worker in before.items() if plans.get(name) == worker.plan}
        self._workers = {name: stay.get(name) or Worker(name, plan) for name, plan in plans.items()}
        for name, worker in before.items():
            if name not in stay:
                worker.stop()

    def offer(self, published: Published) -> None:
        """Give every sink a closed sweep; returns at once."""
        for worker in self._workers.values():
            worker.offer(published)

    def find(self, name: str) -> Sink | None:
        """Return a sink by its name."""
        worker = self._workers.get(name)
        return None if worker is None else worker.sink

    def healths(self) -> list[Health]:
        """Return how each is doing."""
        return [worker.health() for worker in self._workers.values()]

    def warnings(self) -> list[str]:
        """Return what somebody should know, a sentence each."""
        return [f"sink {health.name}: {health.trouble}" for health in self.healths() if health.trouble]

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop all, and wait for them at most so long together; one that hangs is left behind."""
        workers, self._workers = self._workers, {}
        for worker in workers.values():
            worker.stop()
        deadline = time.monotonic() + seconds
        for worker in workers.values():
            if not worker.join(max(deadline - time.monotonic(), 0.0)):
                _log.warning("a sink did not end in time and is left behind", sink=worker.name)
