"""Whose clients are read when: every file system has its own period, and the files are spread over it."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from harvest_agent.clients import TargetClients
from harvest_agent.tree import TargetFiles
from harvest_core.facts import Facts, Mount
from harvest_core.lustre.columns import Codes
from harvest_core.lustre.names import parse_target

_SPREAD: Final = 0.8
"""Of a period: the rest is for whatever goes wrong."""
_DUTY: Final = 0.2
"""Of any second. With what was begun when that is over, a folder to list or a slow file, it must stay below 0.25."""
_AT_ONCE: Final = 32
"""Clients between two looks at whether the target was remounted."""
_WAIT_SECONDS: Final = 1.0

TargetKey = tuple[str, str]


class _Begun(NamedTuple):
    """When a pass began."""

    tick_seconds: int
    clock_seconds: float
    interval_seconds: int
    """How long a period is."""

    @property
    def late_seconds(self) -> int:
        """How much of the period was over."""
        return self.tick_seconds % self.interval_seconds

    @property
    def spread_seconds(self) -> float:
        """In how many seconds it is to be done."""
        return (self.interval_seconds - self.late_seconds) * _SPREAD

    def period(self, clock_seconds: float) -> int:
        """Return in which period something is read: the first one is 0."""
        return int((self.late_seconds + clock_seconds - self.clock_seconds) // self.interval_seconds)

    def early_seconds(self, period: int, tick_seconds: int, clock_seconds: float, sweep_seconds: int) -> int:
        """Return how long before this sweep the one was that should have told what was read in a period.

        As a rule it is this one. But a process may stand still in the midst of a pass, or have too little time for
        it. With this tick for all, the next pass would bring what was done in all that time as the work of one period.
        """
        elapsed: float = tick_seconds - self.tick_seconds
        if abs(measured := clock_seconds - self.clock_seconds - elapsed) > sweep_seconds:  # the wall clock was set
            elapsed += measured
        since_seconds = self.late_seconds + elapsed - (period + 1) * self.interval_seconds
        return max(int(since_seconds // sweep_seconds) * sweep_seconds, 0)


class ClientRounds:
    """The clients of all targets. What a pass through a target's clients showed is told in a sweep of the next period.

    A pass that takes longer is told when it is done.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._codes = Codes()
        self._followed: dict[TargetKey, TargetClients] = {}
        self._begun: dict[TargetKey, _Begun] = {}
        self._over: list[TargetClients] = []
        """Mounts that ended, and were not told to their end."""
        self._unmounted: set[TargetKey] = set()
        """Targets that were seen unmounted: whoever follows them next must say so."""
        self._intervals: Mapping[str, int] = {}
        self._last_read = clock()

    def want(self, intervals: Mapping[str, int]) -> None:
        """Follow the clients of these file systems, each with its period in seconds."""
        self._intervals = intervals

    @property
    def wait_seconds(self) -> float | None:
        """When to read some more; None: not before the next sweep."""
        waits = [_WAIT_SECONDS, *(interval * _SPREAD / 10 for interval in self._intervals.values())]
        is_any = any(follower.is_calm or not follower.is_done for follower in self._followed.values())
        return min(waits) if is_any else None

    @property
    def slots_used(self) -> int:
        """The most names that were given for one target."""
        return max((follower.slots_used for follower in self._followed.values()), default=0)

    def problems(self) -> list[str]:
        """Return what could not be read, a sentence for each target."""
        return [f"{key[1]}: {each.problem}" for key, each in self._followed.items() if each.problem is not None]

    def read(self) -> None:
        """Read as many files as are due by now, but not for longer than we may."""
        now = self._clock()
        until = now + _DUTY * min(now - self._last_read, 1.0)
        self._last_read = now
        for key, follower in self._followed.items():
            begun = self._begun[key]
            follower.look(begun.period(now))
            part = min((now - begun.clock_seconds) / begun.spread_seconds, 1.0)
            while not follower.is_done:
                if self._clock() >= until:
                    return
                left = follower.left(part)
                if left <= 0:
                    break
                follower.read_some(min(left, _AT_ONCE), lambda: self._clock() >= until, partial(self._period, begun))

    def _period(self, begun: _Begun) -> int:
        return begun.period(self._clock())

    def sweep(self, about: Facts, mounted: Mapping[TargetKey, tuple[TargetFiles, Mount]]) -> Iterator[Facts]:
        """Yield what is to be told in this sweep; ``about`` has what is the same for all targets."""
        wanted = {key: found for key, found in mounted.items() if _fsname(key) in self._intervals}
        self._unmounted |= self._followed.keys() - mounted.keys()
        for key in list(self._followed):
            if key not in wanted or self._followed[key].is_remounted(wanted[key][0]):
                self._over.append(self._followed.pop(key))
        for follower in self._over:
            yield from self._told(about, follower, is_over=True)
        self._over = []
        for key, (target, mount) in wanted.items():
            follower_ = self._followed.get(key)
            if follower_ is None:
                self._followed[key] = TargetClients(target, mount, self._codes, was_gone=key in self._unmounted)
                self._unmounted.discard(key)
                self._begin(key, target, about.tick_seconds)
            elif follower_.is_done and self._is_over(key, about.tick_seconds):
                yield from self._told(about, follower_, is_over=False)
                self._begin(key, target, about.tick_seconds)

    def begin_segment(self) -> None:
        """Name again what is used from now on."""
        for follower in (*self._followed.values(), *self._over):
            follower.differences.begin_segment()

    def _begin(self, key: TargetKey, target: TargetFiles, tick_seconds: int) -> None:
        """Begin a pass that ends with the period, whenever it begins: all targets are then told in one sweep."""
        self._begun[key] = _Begun(tick_seconds, self._clock(), self._intervals[_fsname(key)])
        self._followed[key].begin(target)

    def _is_over(self, key: TargetKey, tick_seconds: int) -> bool:
        """Tell whether the period is over in which the pass under way began."""
        interval = self._intervals[_fsname(key)]
        return tick_seconds // interval != self._begun[key].tick_seconds // interval

    def _told(self, about: Facts, follower: TargetClients, *, is_over: bool) -> Iterator[Facts]:
        key = (follower.target.source, follower.target.name)
        said = replace(
            about,
            kind=follower.kind,
            target=follower.target.name,
            mount=follower.mount,
            period_seconds=self._intervals.get(_fsname(key), about.period_seconds),
        )
        begun, now = self._begun[key], self._clock()
        sweep = (about.tick_seconds, now, about.period_seconds)
        return follower.facts(said, is_over=is_over, early_seconds=lambda period: begun.early_seconds(period, *sweep))


def _fsname(key: TargetKey) -> str:
    parsed = parse_target(key[1])
    return "" if parsed is None else parsed.fsname
