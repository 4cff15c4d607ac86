"""Which agents are there, what they have mounted, and how they are doing."""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from harvest.v1.stream_pb2 import AgentHealth, Batch, MountedTarget
from harvest_aggregator.published import AgentStatus
from harvest_core.accounting.sweeps import Place

_NANOSECONDS: Final = 1_000_000_000


@dataclass(slots=True)
class _Agent:
    streams: int = 0
    """One, or for a moment two: a new stream comes before the old one is cut."""
    named: frozenset[str] = frozenset()
    targets: frozenset[Place] = frozenset()
    """Those of the named that are the site's."""
    last_tick: int | None = None
    period: int = 0
    health: AgentHealth | None = None
    clock_offset_seconds: float | None = None

    def is_due(self, now_seconds: float) -> bool:
        """Tell whether it should have swept again: it may sweep less often than others.

        One whose clock is ahead by more than that has no part in any sweep of ours, and is missing there.
        """
        return self.last_tick is None or abs(now_seconds - self.last_tick) >= self.period


class Attendance:
    """The agents of a site."""

    def __init__(self, place: Callable[[str, str], Place | None]) -> None:
        self._place = place
        self._agents: dict[str, _Agent] = {}

    def connected(self, name: str, targets: Sequence[MountedTarget]) -> None:
        """Note that an agent is here."""
        agent = self._agents.setdefault(name, _Agent())
        agent.streams += 1
        self._mounted(name, agent, targets)

    def disconnected(self, name: str) -> None:
        """Note that a stream of an agent has ended."""
        agent = self._agents.setdefault(name, _Agent())
        agent.streams = max(agent.streams - 1, 0)

    def swept(self, name: str, end: Batch, now_seconds: float) -> None:
        """Note how a sweep went."""
        agent = self._agents.setdefault(name, _Agent())
        self._mounted(name, agent, end.end.targets)
        agent.last_tick = end.tick_seconds
        agent.period = end.period_seconds
        agent.health = end.end.health
        if end.end.health.spool_sweeps <= 1:  # it comes at once; from a spool it would only tell how long it lay there
            agent.clock_offset_seconds = end.end.health.clock_nanoseconds / _NANOSECONDS - now_seconds

    def site_changed(self) -> None:
        """Find out again which targets are the site's, and forget who has none of them and is not here."""
        for name, agent in self._agents.items():
            agent.targets = self._places(name, agent.named)
        self._agents = {name: agent for name, agent in self._agents.items() if agent.streams or agent.targets}

    def expected(self, now_seconds: float) -> frozenset[Place]:
        """Return the targets that should have reported by now."""
        return frozenset().union(
            *(agent.targets for agent in self._agents.values() if agent.streams and agent.is_due(now_seconds))
        )

    def statuses(self, unnamed: Container[str]) -> tuple[AgentStatus, ...]:
        """Return how each agent is doing; some speak of records that they never named."""
        return tuple(
            AgentStatus(
                name=name,
                connected=agent.streams > 0,
                targets=agent.targets,
                last_tick=agent.last_tick,
                health=agent.health,
                clock_offset_seconds=agent.clock_offset_seconds,
                needs_full_picture=name in unnamed,
            )
            for name, agent in sorted(self._agents.items())
        )

    def _mounted(self, name: str, agent: _Agent, targets: Iterable[MountedTarget]) -> None:
        named = frozenset(mounted.target.name for mounted in targets)
        if named != agent.named:
            agent.named = named
            agent.targets = self._places(name, named)

    def _places(self, name: str, targets: Iterable[str]) -> frozenset[Place]:
        return frozenset(place for target in targets if (place := self._place(name, target)) is not None)
