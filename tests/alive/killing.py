"""Agents and aggregator are killed at random moments, under load."""

import random
from pathlib import Path

from alive.scenes import closed, moments, opened, run, wrong
from demo.play import AGGREGATOR, settings

EVENTS = ("clear", "remount", "failover", "reboot", "evicted")


def check_kills(folder: Path, *, kills: int, seconds: float) -> None:
    """Let a scene go on for so many kills in so many seconds, and until all events were; compare totals with the truth.

    An event waits for readers, who are killed: how many there are in a time is a matter of luck.
    """
    play = opened(folder, seconds=4 * seconds, simulated=settings(event_seconds=4.0, fsnames=("home", "scratch")))
    rng = random.Random(7)
    try:
        victims = [*play.installation.servers, AGGREGATOR, AGGREGATOR]

        def kill() -> None:
            play.kill(rng.choice(victims), for_seconds=rng.uniform(0, 1))

        happened = play.live.site.truth.events
        run(
            play,
            *((at, kill) for at in moments(kills, start=3, end=seconds - 5, seed=5)),
            enough=lambda: all(happened[name] for name in EVENTS),
        )

        assert sum(play.events.values()) == kills
        assert wrong(play) == []
        assert [name for name in EVENTS if not happened[name]] == []
        print(f"\n{dict(play.events)} while {dict(happened)}: {len(play.installation.jobs())} jobs, all totals right")
    finally:
        closed(play)
