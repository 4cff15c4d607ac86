"""Which agents are here, and who may come beside or instead of them. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harvest_aggregator.refusals import CLONE, TARGET_TAKEN, RefusedError

_SILENCE_SECONDS_MIN: Final = 30.0
_SILENT_PERIODS: Final = 2.5
_TAKEN_RETRY_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class MountKey:
    """One mount of one target: two agents that report it would count everything twice."""

    filesystem: str
    target: str
    boot_id: str
    instance: int | None


@dataclass(slots=True, eq=False, kw_only=True)
class Visit:
    """An agent with a stream."""

    agent: str
    boot_id: str
    heard_seconds: float
    """When it last said something, on a clock that only goes forward."""
    period_seconds: float
    """How often it says something, at least."""
    mounts: frozenset[MountKey] = field(default=frozenset())

    def silent_at(self) -> float:
        """Return when it has been silent for so long that it need not be there any more."""
        return self.heard_seconds + max(_SILENCE_SECONDS_MIN, _SILENT_PERIODS * self.period_seconds)


class Presence:
    """All visits, one per agent, and who reports which mount."""

    def __init__(self) -> None:
        self._visits: dict[str, Visit] = {}
        self._holders: dict[MountKey, Visit] = {}

    @property
    def visits(self) -> Mapping[str, Visit]:
        """Who is here, by name."""
        return self._visits

    def arrive(self, visit: Visit, mounts: Iterable[MountKey], now_seconds: float) -> Visit | None:
        """Let an agent in and return its visit before, which ends by this."""
        before = self._visits.get(visit.agent)
        if before is not None and before.boot_id != visit.boot_id and now_seconds < before.silent_at():
            raise RefusedError(
                CLONE,
                f"agent {visit.agent} is here already, from a server with another boot id ({before.boot_id}): "
                "give every server a name and a certificate of its own",
                retry_after_seconds=math.ceil(before.silent_at() - now_seconds),
            )
        taken = self._taken(visit, mounts := frozenset(mounts))
        if taken is not None:
            raise taken
        if before is not None:
            self.leave(before)
        self._visits[visit.agent] = visit
        self.report(visit, mounts)
        return before

    def report(self, visit: Visit, mounts: Iterable[MountKey]) -> None:
        """Note which mounts an agent reports now; those of others are refused, and a visit that is over has none."""
        if (mounts := frozenset(mounts)) == visit.mounts or self._visits.get(visit.agent) is not visit:
            return
        if (taken := self._taken(visit, mounts)) is not None:
            raise taken
        self._forget(visit)
        visit.mounts = mounts
        self._holders.update(dict.fromkeys(mounts, visit))

    def leave(self, visit: Visit) -> None:
        """End a visit, unless another has taken its place already."""
        if self._visits.get(visit.agent) is visit:
            self._forget(visit)
            del self._visits[visit.agent]

    def _forget(self, visit: Visit) -> None:
        for mount in visit.mounts:
            del self._holders[mount]

    def _taken(self, visit: Visit, mounts: frozenset[MountKey]) -> RefusedError | None:
        for mount in sorted(mounts, key=lambda mount: mount.target):
            holder = self._holders.get(mount)
            if holder is not None and holder.agent != visit.agent:
                return RefusedError(
                    TARGET_TAKEN,
                    f"{mount.target} is reported by agent {holder.agent} already: run one agent on each server",
                    retry_after_seconds=_TAKEN_RETRY_SECONDS,
                )
        return None
