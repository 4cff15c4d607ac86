"""The sweeps that wait for one sink, and how it is doing. Pure: the clock is an argument."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic

from harvest_aggregator.sinks.contract import Outcome, Waiting, Written

_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 30.0
"""Between two tries: what was restarted after hours is to have everything back within a minute."""
_LONGEST_ASKED_SECONDS: Final = 300.0
"""Whoever asks for more gets this."""
_SLOW_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How one sink is doing, since it was started."""

    name: str
    accepted: int
    rejected: int
    dropped: int
    queued: int
    last_success_seconds: float | None
    """Since 1970."""
    trouble: str | None
    """What somebody should know, for a person."""


class Backlog(Generic[Waiting]):
    """Sweeps in order; while one that was kept waits to be tried again, so do those behind it."""

    def __init__(self, *, room_sweeps: int, jitter: Callable[[], float]) -> None:
        """``jitter`` gives numbers from 0 to 1."""
        self.room_sweeps = room_sweeps
        self._jitter = jitter
        self._waiting: deque[Waiting] = deque()
        self._failures = 0
        self._not_before = 0.0
        self._writing_since: float | None = None
        self._accepted = self._rejected = self._dropped = 0
        self._dropped_before = 0
        self._last_success_seconds: float | None = None
        self.problem: str | None = None
        """What was wrong with the last write, for a person."""

    @property
    def is_full(self) -> bool:
        """Tell whether another sweep would push one out: whatever is being written could not be kept."""
        return len(self._waiting) >= self.room_sweeps

    def offer(self, sweep: Waiting) -> None:
        """Take in a newer sweep."""
        self._waiting.append(sweep)
        self._bound()

    def refuse(self, reason: str) -> None:
        """Count a sweep that cannot be written at all."""
        self._rejected += 1
        self.problem = reason

    def take(self, now: float) -> Waiting | None:
        """Return what is to be written now, if anything is."""
        if not self._waiting or now < self._not_before:
            return None
        self._writing_since = now
        self._dropped_before = self._dropped
        return self._waiting.popleft()

    def wait_seconds(self, now: float) -> float | None:
        """Return when to ask again; nothing if only another sweep changes the answer."""
        return max(self._not_before - now, 0.0) if self._waiting else None

    def settle(self, sweep: Waiting, written: Written, *, now: float, wall_seconds: float, was_cut: bool) -> None:
        """Note what came of the write; one that was cut short for a newer sweep is no reason to wait."""
        self._writing_since = None
        self.problem = written.reason or None
        self._failures = 0 if written.outcome is not Outcome.KEPT or was_cut else self._failures + 1
        if written.outcome is Outcome.ACCEPTED:
            self._accepted += 1
            self._last_success_seconds = wall_seconds
            if late := self._dropped - self._dropped_before:
                self.problem = f"it is slow: {late} sweeps were dropped while one was written"
        elif written.outcome is Outcome.REJECTED:
            self._rejected += 1
        else:
            self._waiting.appendleft(sweep)
            self._bound()
        if self._failures:
            longest = min(_FIRST_SECONDS * 2 ** min(self._failures - 1, 10), _LONGEST_SECONDS)
            own_seconds = longest * (1 + self._jitter()) / 2
            self._not_before = now + max(own_seconds, min(written.wait_seconds, _LONGEST_ASKED_SECONDS))

    def health(self, name: str, now: float) -> Health:
        """Return how the sink is doing."""
        return Health(
            name=name,
            accepted=self._accepted,
            rejected=self._rejected,
            dropped=self._dropped,
            queued=len(self._waiting),
            last_success_seconds=self._last_success_seconds,
            trouble=self._trouble(now),
        )

    def _trouble(self, now: float) -> str | None:
        if self._writing_since is not None and now - self._writing_since >= _SLOW_SECONDS:
            return f"a write has taken {now - self._writing_since:.0f} s and is not done"
        return self.problem

    def _bound(self) -> None:
        while len(self._waiting) > self.room_sweeps:
            self._waiting.popleft()
            self._dropped += 1
