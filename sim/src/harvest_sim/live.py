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
from harvest_sim.slurm import Queue, SlurmHost

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


class Live:
    """A site on disk, idle at first; its time begins with the first step, and goes on while it is stepped."""

    def __init__(self, settings: Settings, *, root: Path, for_seconds: float, world: World) -> None:
        rng = Random(settings.seed)  # noqa: S311 a simulation must be repeatable
        self.site = build_site(settings, rng, epoch_seconds=world.epoch_seconds)
        self.face = DiskFace(self.site, root, rng)
        self.elapsed_seconds = 0.0
        self.is_held = False
        """Whether nobody does anything: time goes on, and files are read."""
        self.queue = Queue()
        self._slurm = SlurmHost(root / settings.slurm, self.queue) if settings.slurm else None
        self._player = build_player(
            settings, self.site, rng, seconds=for_seconds, queue=self.queue, is_end_known=self.face.is_end_known
        )
        self._admins = Admins(settings, self.site, self.face, rng)
        self._settings = settings
        self._world = world
        self._made = world.seconds()
        self._start: float | None = None
        self._publish_at = 0.0
        self._end_at = for_seconds
        self.face.publish()

    def stop(self) -> None:
        """Start nothing new; readers still get to see what was done."""
        self._end_at = min(self._end_at, self.elapsed_seconds)

    @property
    def is_over(self) -> bool:
        """Whether all was done and shown that still can be, or readers were waited for long enough."""
        is_shown = all(life.is_over for life in self.site.truth.unshown())
        is_settled = self._player.is_done and not self.face.waiting_events and is_shown
        waited = self.elapsed_seconds - self._end_at
        return waited >= 0 and (is_settled or waited >= self._settings.linger_seconds)

    def step(self) -> None:
        """Let happen what is due by now."""
        now = self._world.seconds()
        if self._start is None:
            self._start = now
            for server in self.site.servers.values():  # readers may have looked at its clocks while it was idle
                server.clock.go_on(round((now - self._made) * NSECS))
        self.elapsed_seconds = elapsed = now - self._start
        if elapsed >= self._end_at:
            self._player.stop()
        self.face.poll()
        if self.is_held:
            self._player.rest_until(round(elapsed * NSECS))
        else:
            self._play(elapsed)
        if elapsed >= self._publish_at:
            self.face.publish()
            if self._slurm is not None:
                began = self._world.epoch_seconds + self._start - self._made
                self._slurm.publish(self.site.now_ns, began)
            self._publish_at = elapsed + self._settings.publish_seconds

    def _play(self, elapsed: float) -> None:
        self._player.play_until(round(elapsed * NSECS))
        self.face.perform_due()
        if elapsed < self._end_at:
            self._admins.act()


def run(settings: Settings, *, root: Path, truth_path: Path, for_seconds: float, world: World) -> Site:
    """Simulate for a time, wait until readers have seen everything, write the truth."""
    live = Live(settings, root=root, for_seconds=for_seconds, world=world)
    report_at = 0.0
    while not live.is_over:
        if world.is_stopped():
            live.stop()
        live.step()
        if live.elapsed_seconds >= report_at or world.is_report_wanted():
            write_report(live.site, truth_path)
            world.say(_progress(live.site, live.face, live.elapsed_seconds))
            report_at = live.elapsed_seconds + _REPORT_SECONDS
        world.sleep(_TICK_SECONDS)
    live.face.close()
    write_report(live.site, truth_path)
    return live.site


def _progress(site: Site, face: DiskFace, elapsed: float) -> str:
    events = ", ".join(f"{count} {name}" for name, count in sorted(site.truth.events.items()))
    waiting = " [an event waits for readers]" if face.waiting_events else ""
    return (
        f"{elapsed:6.1f} s  {sum(1 for _ in site.truth.select())} lives of jobs; {events or 'no events yet'}{waiting}"
    )
