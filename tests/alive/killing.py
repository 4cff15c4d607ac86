"""Agents and aggregator are killed at random moments, under load."""

import random
from pathlib import Path

from alive.scenes import closed, moments, opened, run, wrong
from demo.play import AGGREGATOR, settings


def check_kills(folder: Path, *, kills: int, seconds: float) -> None:
    """Let a scene go on with so many kills, and compare every total with the truth."""
    play = opened(folder, seconds=seconds, simulated=settings(event_seconds=4.0, fsnames=("home", "scratch")))
    rng = random.Random(7)
    try:
        victims = [*play.installation.servers, AGGREGATOR, AGGREGATOR]

        def kill() -> None:
            play.kill(rng.choice(victims), for_seconds=rng.uniform(0, 1))

        run(play, *((at, kill) for at in moments(kills, start=3, end=seconds - 5, seed=5)))

        assert sum(play.events.values()) == kills
        assert wrong(play) == []
        happened = play.live.site.truth.events
        assert min(happened[name] for name in ("clear", "remount", "failover", "reboot", "evicted"))
        print(f"\n{dict(play.events)} while {dict(happened)}: {len(play.installation.jobs())} jobs, all totals right")
    finally:
        closed(play)
