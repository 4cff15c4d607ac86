"""Harvest's real programs on a simulated site, and how a scene ends: every total equals the truth."""

import random
from collections.abc import Callable
from pathlib import Path

from demo.comparison import Difference, differences
from demo.play import Play, installed, settings
from harvest_sim.settings import Settings


def opened(folder: Path, *, seconds: float, simulated: Settings | None = None) -> Play:
    """Return a site and Harvest on it, running."""
    simulated = simulated or settings(event_seconds=3.0)
    play = Play(installed(folder, simulated), simulated, for_seconds=seconds)
    play.start()
    return play


def run(play: Play, *acts: tuple[float, Callable[[], None]], enough: Callable[[], object] = lambda: False) -> None:
    """Let a scene go on to its end, or until all acts were and enough has happened: on a slow machine that is later.

    Each act happens at its time, in seconds.
    """
    rest = sorted(acts, key=lambda act: act[0])
    while not play.live.is_over:
        play.step()
        while rest and play.live.elapsed_seconds >= rest[0][0]:
            rest.pop(0)[1]()
        if not rest and enough():
            play.live.stop()
    assert not rest, "the scene ended before everything had happened"


def moments(count: int, *, start: float, end: float, seed: int) -> list[float]:
    """Return random moments, in order."""
    rng = random.Random(seed)
    return sorted(rng.uniform(start, end) for _ in range(count))


def wrong(play: Play) -> list[Difference]:
    """Return, once all is accounted, the totals that are not as promised: exact, or flagged with at least so much."""
    play.settle()
    found = differences(play.live.site.truth, play.installation.jobs())
    return [difference for difference in found if not difference.is_flagged]


def closed(play: Play) -> None:
    """Stop everything."""
    play.installation.stop()
    play.live.face.close()
