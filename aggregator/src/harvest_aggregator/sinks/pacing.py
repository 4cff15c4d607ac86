"""How fast packets may leave. Pure: the clock is an argument."""


class Pace:
    """Tokens come at a rate, and packets take one each; bursts are bounded by the tokens that can be saved."""

    def __init__(self, *, per_second: float, burst: int, now: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token for the next packet; return how long it must wait: mostly not at all, then for half a burst."""
        self._tokens = min(self._tokens + (now - self._at) * self._per_second, self._burst) - 1
        self._at = now
        return 0.0 if self._tokens >= 0 else (self._burst / 2 - self._tokens) / self._per_second
