"""What a sink is to the rest: it is given closed sweeps, and says of each write what came of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Protocol

from typing_extensions import TypeVar

from harvest_aggregator.published import Published


class Outcome(Enum):
    """What came of a write."""

    ACCEPTED = auto()
    REJECTED = auto()
    """It would never be taken: counted, not tried again."""
    KEPT = auto()
    """It may be taken later: tried again, while there is room for it."""


@dataclass(frozen=True, slots=True)
class Written:
    """What came of a write, and for a person why."""

    outcome: Outcome
    reason: str = ""
    wait_seconds: float = 0.0
    """Of what is kept: not to be tried again before, because whoever is written to asked for it."""


ACCEPTED: Final = Written(Outcome.ACCEPTED)

Pause = Callable[[float], bool]
"""Waits so many seconds, less if there is a reason to end the write; tells whether to go on with it.

The reasons: the sink is being stopped, or newer sweeps have come and left no room for this one.
"""


Waiting = TypeVar("Waiting", default=Published)
"""What a sink needs of a sweep."""


class Sink(Protocol[Waiting]):
    """Lives in a thread of its own, so that it may take its time."""

    room_sweeps: int
    """So many wait at most; when another comes, the oldest is dropped. Asked for again with each sweep."""

    def needed(self, published: Published) -> Waiting:
        """Return a sweep without what is never written: it may have to wait, and a million jobs would wait with it.

        Called in the keeper's thread, which everybody waits for.
        """

    def write(self, sweep: Waiting, pause: Pause) -> Written:
        """Write one sweep; one that was kept comes again, before any other."""


class Plan(Protocol):
    """All that one sink is told by the site. Equal ones mean that nothing has changed for the sink."""

    def build(self) -> Sink[Any]:
        """Return the sink; nothing is sent or asked yet."""
