"""Who fetched which rendering, and how regularly: a new series stays at 0 until all of them have seen that."""

from collections import deque
from threading import Lock
from typing import Final

HOLD_SECONDS: Final = 120.0
"""So long at most; who comes less often is not waited for."""
_LATELY_SECONDS: Final = 600.0
_SCRAPERS_MOST: Final = 1000


class Scrapes:
    """All that were answered; its methods may be called from any thread. The clock is an argument."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[str, tuple[int, float]] = {}
        """Which rendering each scraper had last, and when."""
        self._gaps: deque[tuple[float, float]] = deque(maxlen=_SCRAPERS_MOST)
        """When somebody came again, and after how long."""

    def note(self, who: str, rendering: int, now: float) -> None:
        """Note that somebody was given a rendering."""
        with self._lock:
            if who in self._last:
                self._gaps.append((now, now - self._last[who][1]))
            elif len(self._last) >= _SCRAPERS_MOST:
                self._last.clear()
            self._last[who] = (rendering, now)

    def gap_seconds(self, now: float) -> float:
        """Return the longest time between two scrapes lately; as long as can be while nobody came twice."""
        with self._lock:
            gaps = [gap for at, gap in self._gaps if now - at < _LATELY_SECONDS]
        return min(max(gaps, default=HOLD_SECONDS), HOLD_SECONDS)

    def seen_by_all(self, now: float) -> int:
        """Return the newest rendering that everybody has seen who came lately, or something after it; -1 if none."""
        with self._lock:
            return min((seen for seen, at in self._last.values() if now - at < HOLD_SECONDS), default=-1)
