"""When to look at which site: soon after something happened, and again after a while in any case."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

SiteKey = tuple[str, str]
"""(namespace, name)."""

_SOON_SECONDS: Final = 0.3
"""What happens together is looked at together."""


@dataclass
class Agenda:
    """Sites that are due; each is looked at by one worker at a time."""

    _due: dict[SiteKey, float] = field(default_factory=dict)
    _at_work: set[SiteKey] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def soon(self, key: SiteKey) -> None:
        """Look at a site because something happened."""
        self.within(key, _SOON_SECONDS)

    def within(self, key: SiteKey, seconds: float) -> None:
        """Look at a site after so long at the latest."""
        due = asyncio.get_running_loop().time() + seconds
        self._due[key] = min(due, self._due.get(key, due))
        self._changed.set()

    async def next(self) -> SiteKey:
        """Wait for a site that is due, and take it off the agenda."""
        while True:
            self._changed.clear()
            now = asyncio.get_running_loop().time()
            waiting = {key: due for key, due in self._due.items() if key not in self._at_work}
            key = min(waiting, key=waiting.__getitem__, default=None)
            if key is not None and waiting[key] <= now:
                del self._due[key]
                self._at_work.add(key)
                return key
            try:
                async with asyncio.timeout(None if key is None else waiting[key] - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: SiteKey) -> None:
        """Say that the work on a site is over; it may be due again."""
        self._at_work.discard(key)
        self._changed.set()
