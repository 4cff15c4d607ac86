"""Whose clients are read when: every file system has its own period, and the files are spread over it."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

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


class ClientRounds:
    """The clients of all targets. What a pass through a target's clients showed is told in a sweep of the next period.

    A pass that takes longer is told when it is done.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._codes = Codes()
        self._followed: dict[TargetKey, TargetClients] = {}
        self._began: dict[TargetKey, float] = {}
        self._spread: dict[TargetKey, float] = {}
        """In how many seconds the pass under way is to be done."""
        self._over: list[TargetClients] = []
        """Mounts that ended, and were not told to their end."""
        self._unmounted: set[TargetKey] = set()
        """Targets that were seen unmounted: whoever follows them next must say so."""
        self._periods: dict[TargetKey, int] = {}
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
            follower.look()
            part = min((now - self._began[key]) / self._spread[key], 1.0)
            while not follower.is_done:
                if self._clock() >= until:
                    return
                left = follower.left(part)
                if left <= 0:
                    break
                follower.read_some(min(left, _AT_ONCE), lambda: self._clock() >= until)

    def sweep(self, about: Facts, mounted: Mapping[TargetKey, tuple[TargetFiles, Mount]]) -> Iterator[Facts]:
        """Yield what is to be told in this sweep; ``about`` has what is the same for all targets."""
        wanted = {key: found for key, found in mounted.items() if _fsname(key) in self._intervals}
        self._unmounted |= self._followed.keys() - mounted.keys()
        for key in list(self._followed):
            if key not in wanted or self._followed[key].is_remounted(wanted[key][0]):
                self._over.append(self._followed.pop(key))
        for follower in self._over:
            yield from follower.facts(self._said(about, follower), is_over=True)
        self._over = []
        for key, (target, mount) in wanted.items():
            follower_ = self._followed.get(key)
            if follower_ is None:
                self._followed[key] = TargetClients(target, mount, self._codes, was_gone=key in self._unmounted)
                self._unmounted.discard(key)
                self._begin(key, target, about.tick_seconds)
            elif follower_.is_done and about.tick_seconds // self._intervals[_fsname(key)] != self._periods[key]:
                yield from follower_.facts(self._said(about, follower_), is_over=False)
                self._begin(key, target, about.tick_seconds)

    def begin_segment(self) -> None:
        """Name again what is used from now on."""
        for follower in (*self._followed.values(), *self._over):
            follower.differences.begin_segment()

    def _begin(self, key: TargetKey, target: TargetFiles, tick_seconds: int) -> None:
        """Begin a pass that ends with the period, whenever it begins: all targets are then told in one sweep."""
        interval = self._intervals[_fsname(key)]
        self._periods[key], late_seconds = divmod(tick_seconds, interval)
        self._began[key] = self._clock()
        self._spread[key] = (interval - late_seconds) * _SPREAD
        self._followed[key].begin(target)

    def _said(self, about: Facts, follower: TargetClients) -> Facts:
        key = (follower.target.source, follower.target.name)
        return replace(
            about,
            kind=follower.kind,
            target=follower.target.name,
            mount=follower.mount,
            period_seconds=self._intervals.get(_fsname(key), about.period_seconds),
        )


def _fsname(key: TargetKey) -> str:
    parsed = parse_target(key[1])
    return "" if parsed is None else parsed.fsname
