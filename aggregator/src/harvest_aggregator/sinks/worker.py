"""One sink in its own thread: whatever it does there, nobody waits for it."""

import random
import threading
import time
from typing import Any, Final

import structlog

from harvest_aggregator.published import Published
from harvest_aggregator.sinks.backlog import Backlog, Health
from harvest_aggregator.sinks.contract import Outcome, Plan, Sink, Written

_log = structlog.get_logger()


class Worker:
    """Its methods may be called from any thread, and return at once; only ``join`` waits."""

    def __init__(self, name: str, plan: Plan) -> None:
        self.name: Final = name
        self.plan: Final = plan
        self.sink: Sink[Any] = plan.build()
        self._backlog = Backlog[Any](room_sweeps=self.sink.room_sweeps, jitter=random.random)
        self._change = threading.Condition()
        """Never held while the sink writes."""
        self._is_stopping = False
        self._was_cut = False
        self._thread = threading.Thread(target=self._run, name=f"sink {name}", daemon=True)
        self._thread.start()

    def offer(self, published: Published) -> None:
        """Give it a closed sweep."""
        with self._change:
            try:
                needed = self.sink.needed(published)
            except Exception as error:  # noqa: BLE001 - a mistake in a sink is that sink's trouble alone
                _log.exception("a sink failed", sink=self.name, tick=published.tick_seconds)
                self._backlog.refuse(str(error) or type(error).__name__)
                return
            self._backlog.room_sweeps = self.sink.room_sweeps
            self._backlog.offer(needed)
            self._change.notify_all()

    def health(self) -> Health:
        """Return how it is doing."""
        with self._change:
            return self._backlog.health(self.name, time.monotonic())

    def stop(self) -> None:
        """Let it end as soon as it can; what waits is dropped."""
        with self._change:
            self._is_stopping = True
            self._change.notify_all()

    def join(self, seconds: float) -> bool:
        """Wait for its end; tell whether it has come."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # --- the thread ---

    def _run(self) -> None:
        while (sweep := self._next()) is not None:
            written = self._written(sweep)
            with self._change:
                before = self._backlog.problem
                self._backlog.settle(
                    sweep,
                    written,
                    now=time.monotonic(),
                    wall_seconds=time.time(),
                    was_cut=self._was_cut,
                )
                after = self._backlog.problem
            self._tell(before, after)
            del sweep  # while it waits for the next, the last one need not stay

    def _next(self) -> Any:  # noqa: ANN401 - what the sink needs of a sweep
        """Wait for what is to be written next; nothing once it is to stop."""
        with self._change:
            while not self._is_stopping:
                now = time.monotonic()
                if (sweep := self._backlog.take(now)) is not None:
                    return sweep
                self._change.wait(self._backlog.wait_seconds(now))
        return None

    def _written(self, sweep: Any) -> Written:  # noqa: ANN401
        self._was_cut = False
        try:
            return self.sink.write(sweep, self._pause)
        except Exception as error:  # noqa: BLE001 - a mistake in a sink is that sink's trouble alone
            if self._backlog.problem is None:  # once is enough
                _log.exception("a sink failed", sink=self.name)
            return Written(Outcome.REJECTED, str(error) or type(error).__name__)

    def _pause(self, seconds: float) -> bool:
        with self._change:
            self._was_cut = self._change.wait_for(lambda: self._is_stopping or self._backlog.is_full, seconds)
            return not self._was_cut

    def _tell(self, before: str | None, after: str | None) -> None:
        if self._is_stopping:
            return
        if before is None and after is not None:
            _log.warning("a sink is in trouble", sink=self.name, reason=after)
        elif before is not None and after is None:
            _log.info("a sink is well again", sink=self.name)
