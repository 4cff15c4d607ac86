"""A simulated site and Harvest side by side, and what befalls both."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from demo.installation import Installation
from demo.processes import ProcessError, Program
from harvest_sim.clock import NSECS
from harvest_sim.live import Live, World
from harvest_sim.settings import Settings

TICK_SECONDS = 0.05
OSS = {"oss1": "2.12.9", "oss2": "2.16.1", "oss3": "2.17.0"}
"""One without start_time, and newer ones; each server's partner is the next."""
MDS = {"mds1": "2.15.4", "mds2": "2.15.8"}
CLEANUP_SECONDS = 4
_AWAY_SECONDS = 1.0
AGGREGATOR = "aggregator"
SLURM_HOST = "slurm1"
PROMETHEUS = {"perJob": "top", "perClient": "top"}


def settings(
    *, event_seconds: float = 1.0, seed: int = 1, fsnames: tuple[str, ...] = ("scratch",), slurm: str = ""
) -> Settings:
    """Return the demo's Lustre site; its Slurm is on a host of its own, if there is one."""
    return Settings(
        oss=OSS,
        mds=MDS,
        fsnames=fsnames,
        osts_per_oss=1,
        provable=True,
        cleanup_seconds=CLEANUP_SECONDS,
        event_seconds=event_seconds,
        linger_seconds=180,
        slurm=slurm,
        seed=seed,
    )


def installed(
    folder: Path, simulated: Settings, *, prometheus: Mapping[str, object] | None = PROMETHEUS
) -> Installation:
    """Return Harvest for a simulated site, not started yet."""
    servers = [*simulated.oss, *simulated.mds]
    filesystems = {name: (name, servers) for name in simulated.fsnames}
    return Installation(folder, filesystems=filesystems, slurm_host=simulated.slurm, prometheus=prometheus)


class Play:
    """Both worlds in step: servers that boot get their agents started again, whoever is killed comes back."""

    def __init__(self, installation: Installation, simulated: Settings, *, for_seconds: float) -> None:
        self.installation = installation
        self.live = Live(
            simulated,
            root=self.installation.trees,
            for_seconds=for_seconds,
            world=World(
                seconds=time.monotonic,
                epoch_seconds=int(time.time()),
                sleep=time.sleep,
                say=lambda _: None,
                is_stopped=lambda: False,
                is_report_wanted=lambda: False,
            ),
        )
        self.events: Counter[str] = Counter()
        """What befell Harvest; what befell Lustre is the simulator's to tell."""
        self._boots = {name: server.boot_id for name, server in self.live.site.servers.items()}
        self._back_at: dict[str, float] = {}
        self._longest_step_seconds = 0.0

    def start(self) -> None:
        """Start Harvest on the idle site, and wait until every server was read."""
        self.installation.start()
        self._wait_for_sweep(int(time.time()), meanwhile=self.live.face.poll)

    def step(self) -> None:
        """Let a moment pass."""
        began = time.monotonic()
        self.live.step()
        self._longest_step_seconds = max(time.monotonic() - began, self._longest_step_seconds)
        for name, server in self.live.site.servers.items():
            if server.boot_id != self._boots[name]:
                self._boots[name] = server.boot_id
                self._lose_agent(name, for_seconds=0)
        for name, at in list(self._back_at.items()):
            if time.monotonic() >= at:
                del self._back_at[name]
                self._program(name).start()
        time.sleep(TICK_SECONDS)

    def kill(self, name: str, *, for_seconds: float = _AWAY_SECONDS) -> None:
        """End a server's agent, or the aggregator, without a warning; it comes back after a while."""
        if name != AGGREGATOR:
            self.events["agent killed"] += 1
            self._lose_agent(name, for_seconds=for_seconds)
            return
        self.events["aggregator killed"] += 1
        self.installation.aggregator.kill()
        self._back_at[AGGREGATOR] = time.monotonic() + for_seconds

    def lose_state(self, name: str, *, acknowledged_tick: int) -> None:
        """End a server's agent and take away all that it kept: what was read since that tick may be lost."""
        self.kill(name, for_seconds=0)
        shutil.rmtree(self.installation.spool(name))
        since_seconds = self.live.elapsed_seconds - (time.time() - acknowledged_tick)
        since_seconds -= self._longest_step_seconds  # so much later than it says may a file have been written
        self.live.face.reader_lost_all(name, since_ns=round(since_seconds * NSECS))

    def _lose_agent(self, name: str, *, for_seconds: float) -> None:
        self.installation.agents[name].kill()
        self.live.face.reader_died(name)
        self._back_at[name] = time.monotonic() + for_seconds

    def _program(self, name: str) -> Program:
        return self.installation.aggregator if name == AGGREGATOR else self.installation.agents[name]

    def settle(self, seconds: float = 180) -> None:
        """Wait until Harvest has closed sweeps that began after the last work was done, and then another one.

        Only a reader that begins the next sweep is known to have kept the one before.
        """
        for ahead_seconds in (2, 1):
            self._wait_for_sweep(int(time.time()) + ahead_seconds, seconds, meanwhile=self.step)
        if self.installation.slurm_host:
            try:
                self.installation.wait_for(lambda: not self._unknown(), "all users to be known", seconds, self.step)
            except ProcessError as error:
                raise ProcessError(f"nobody said whose these are: {', '.join(self._unknown())}\n{error}") from error
        self.live.face.poll()

    def _unknown(self) -> list[str]:
        """Return jobs and programs that are somebody's whom Harvest cannot name yet."""
        return [job["job"] for job in self.installation.jobs() if not job["user"] or job["user"].isdecimal()]

    def _wait_for_sweep(self, tick: int, seconds: float = 180, meanwhile: Callable[[], None] = lambda: None) -> None:
        def has_all() -> bool:
            try:
                answer = self.installation.get("/api/v1/servers")
            except OSError:  # the aggregator is away
                return False
            ticks = [answer["tick_seconds"], *(server["last_tick_seconds"] for server in answer["servers"])]
            return all(known is not None and known >= tick for known in ticks)

        self.installation.wait_for(has_all, "a sweep of all servers", seconds, meanwhile)
