"""Virtual time: one true time for the site, and the clocks of its servers."""

from random import Random

NSECS = 1_000_000_000


class VirtualTime:
    """The true time of the site in nanoseconds; it moves only when told."""

    __slots__ = ("_rng", "now_ns")

    def __init__(self, rng: Random) -> None:
        self.now_ns = 0
        self._rng = rng

    def advance_to(self, now_ns: int) -> None:
        """Move to ``now_ns``; time never goes back."""
        self.now_ns = max(self.now_ns, now_ns)

    def pass_a_moment(self) -> None:
        """Let less than a microsecond pass, so that no two records are born at one instant."""
        self.now_ns += self._rng.randrange(1, 1000)


class ServerClock:
    """The two clocks of a server: the wall clock, which may step, and the time since its boot."""

    __slots__ = ("booted_ns", "time", "wall_offset_ns")

    def __init__(self, time: VirtualTime, *, wall_offset_ns: int) -> None:
        self.time = time
        self.wall_offset_ns = wall_offset_ns
        self.booted_ns = time.now_ns

    def go_on(self, ns: int) -> None:
        """Let both clocks go on although nothing happens at the site."""
        self.wall_offset_ns += ns
        self.booted_ns -= ns

    def wall_ns(self) -> int:
        """Return the wall clock."""
        return self.time.now_ns + self.wall_offset_ns

    def boot_ns(self) -> int:
        """Return the time since boot."""
        return self.time.now_ns - self.booted_ns
