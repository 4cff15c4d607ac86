"""Which agents are here, and who may come beside or instead of them, and with what. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harvest_aggregator.refusals import CLONE, TARGET_TAKEN, RefusedError

_SILENCE_SECONDS_MIN: Final = 30.0
_SILENT_PERIODS: Final = 2.5
_TAKEN_RETRY_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class StayKey:
    """A target on one boot of a server, through all its mounts there: what two agents tell of it has no order."""

    filesystem: str
    target: str
    boot_id: str


@dataclass(slots=True, eq=False, kw_only=True)
class Visit:
    """An agent with a stream."""

    agent: str
    boot_id: str
    heard_seconds: float
    """When it last said something, on a clock that only goes forward."""
    period_seconds: float
    """How often it says something, at least."""
    stays: frozenset[StayKey] = field(default=frozenset())

    def silent_at(self) -> float:
        """Return when it has been silent for so long that it need not be there any more."""
        return self.heard_seconds + max(_SILENCE_SECONDS_MIN, _SILENT_PERIODS * self.period_seconds)


class Presence:
    """All visits, one per agent, and who reports which target on which boot."""

    def __init__(self) -> None:
        self._visits: dict[str, Visit] = {}
        self._holders: dict[StayKey, Visit] = {}

    @property
    def visits(self) -> Mapping[str, Visit]:
        """Who is here, by name."""
        return self._visits

    def arrive(self, visit: Visit, stays: Iterable[StayKey], now_seconds: float) -> Visit | None:
        """Let an agent in and return its visit before, which ends by this."""
        before = self._visits.get(visit.agent)
        if before is not None and before.boot_id != visit.boot_id and now_seconds < before.silent_at():
            raise RefusedError(
                CLONE,
                f"agent {visit.agent} is here already, from a server with another boot id ({before.boot_id}): "
                "give every server a name and a certificate of its own",
                retry_after_seconds=math.ceil(before.silent_at() - now_seconds),
            )
        self._refuse_taken(visit, stays := frozenset(stays))
        if before is not None:
            self.leave(before)
        self._visits[visit.agent] = visit
        self.report(visit, stays)
        return before

    def report(self, visit: Visit, stays: Iterable[StayKey]) -> None:
        """Note which stays an agent reports now; those of others are refused, and a visit that is over has none."""
        if (stays := frozenset(stays)) == visit.stays or self._visits.get(visit.agent) is not visit:
            return
        self._refuse_taken(visit, stays)
        self._forget(visit)
        visit.stays = stays
        self._holders.update(dict.fromkeys(stays, visit))

    def bring(self, visit: Visit, stay: StayKey, server: str) -> None:
        """Note that an agent sends a read, made now or long ago and maybe under another name, of ``server``.

        What is of others who are here is refused; also before they have said what they report. Of its own boot it is
        the agent's from now on. Of an earlier one it is nobody's: spools of the same past may come from several.
        """
        if stay in visit.stays:
            return
        self._refuse_taken(visit, {stay})
        reader = self._visits.get(server, visit)
        if reader is not visit and reader.boot_id == stay.boot_id:
            raise _taken(stay, reader)
        if stay.boot_id == visit.boot_id:
            self.report(visit, visit.stays | {stay})

    def leave(self, visit: Visit) -> None:
        """End a visit, unless another has taken its place already."""
        if self._visits.get(visit.agent) is visit:
            self._forget(visit)
            del self._visits[visit.agent]

    def _forget(self, visit: Visit) -> None:
        for stay in visit.stays:
            del self._holders[stay]

    def _refuse_taken(self, visit: Visit, stays: Iterable[StayKey]) -> None:
        for stay in sorted(stays, key=lambda stay: stay.target):
            holder = self._holders.get(stay, visit)
            if holder.agent != visit.agent:
                raise _taken(stay, holder)


def _taken(stay: StayKey, holder: Visit) -> RefusedError:
    return RefusedError(
        TARGET_TAKEN,
        f"{stay.target} on boot {stay.boot_id} is reported by agent {holder.agent} already: run one agent on each "
        "server, with a spool of its own and not a copy of another's",
        retry_after_seconds=_TAKEN_RETRY_SECONDS,
    )
