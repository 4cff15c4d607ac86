"""Runs a site on disk in real time."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from harvest_sim.clock import NSECS
from harvest_sim.demo import Admins, build_player, build_site
from harvest_sim.disk import DiskFace
from harvest_sim.report import write_report
from harvest_sim.settings import Settings
from harvest_sim.site import Site

_TICK_SECONDS = 0.05
_REPORT_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the run needs of the real world."""

    seconds: Callable[[], float]
    """A clock that never goes back."""
    epoch_seconds: int
    """What the wall clock says at the start."""
    sleep: Callable[[float], None]
    say: Callable[[str], None]
    is_stopped: Callable[[], bool]
    """Whether somebody asked to end early."""
    is_report_wanted: Callable[[], bool]
    """Whether somebody asked for the truth right now; asking answers once."""


def run(settings: Settings, *, root: Path, truth_path: Path, for_seconds: float, world: World) -> Site:
    """Simulate for a time, wait until readers have seen everything, write the truth."""
    rng = Random(settings.seed)  # noqa: S311 a simulation must be repeatable
    site = build_site(settings, rng, epoch_seconds=world.epoch_seconds)
    player = build_player(settings, site, rng, seconds=for_seconds)
    face = DiskFace(site, root, rng)
    admins = Admins(site, face, rng, event_seconds=settings.event_seconds)
    start = world.seconds()
    publish_at = report_at = 0.0
    end_at = for_seconds
    while True:
        elapsed = world.seconds() - start
        if elapsed >= for_seconds or world.is_stopped():
            player.stop()
            end_at = min(end_at, elapsed)
        face.poll()
        player.play_until(round(elapsed * NSECS))
        face.perform_due()
        if elapsed < end_at:
            admins.act()
        if elapsed >= publish_at:
            face.publish()
            publish_at = elapsed + settings.publish_seconds
        if elapsed >= report_at or world.is_report_wanted():
            write_report(site, truth_path)
            world.say(_progress(site, face, elapsed))
            report_at = elapsed + _REPORT_SECONDS
        is_settled = player.is_done and not face.waiting_events and not site.truth.unshown()
        if elapsed >= end_at and (is_settled or elapsed >= end_at + settings.linger_seconds):
            break
        world.sleep(_TICK_SECONDS)
    face.close()
    write_report(site, truth_path)
    return site


def _progress(site: Site, face: DiskFace, elapsed: float) -> str:
    events = ", ".join(f"{count} {name}" for name, count in sorted(site.truth.events.items()))
    waiting = " [an event waits for readers]" if face.waiting_events else ""
    return (
        f"{elapsed:6.1f} s  {sum(1 for _ in site.truth.select())} lives of jobs; {events or 'no events yet'}{waiting}"
    )
