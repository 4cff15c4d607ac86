"""``harvest-agent run``: sweeps at every tick, an uplink to every aggregator, until a signal ends it."""

import os
import select
import signal
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from types import FrameType
from typing import Final

from harvest_agent.clocks import ServerClocks
from harvest_agent.collecting import Collector, SweepReport
from harvest_agent.config import Config, ConfigError
from harvest_agent.credentials import TlsFiles
from harvest_agent.cursors import Wishes
from harvest_agent.logs import say
from harvest_agent.memory import share_one_heap
from harvest_agent.notify import Notifier
from harvest_agent.renewing import Renewal
from harvest_agent.shelf import Shelf
from harvest_agent.slurm.collector import SlurmCollector
from harvest_agent.spool import Spool
from harvest_agent.tables import size
from harvest_agent.timing import Duty, is_due, next_tick, skipped_seconds, tick_before
from harvest_agent.tree import Tree
from harvest_agent.uplinks import Uplink, key_of

INTERVAL_SECONDS: Final = 20
"""Until an aggregator has ever said another."""
_FAREWELL_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 2.0
_LONGEST_WAIT_SECONDS: Final = 600.0


def run(config: Config, *, followed: str | None = None) -> int:
    """Run until SIGTERM or SIGINT, or begin anew when the file ``followed`` has changed; return the exit code."""
    share_one_heap()
    files = [TlsFiles(uplink) for uplink in config.uplinks]
    name = agent_name(config, {each.current.name for each in files})
    tree = Tree(config.lustre.root)
    shelf = Shelf(config.spool.directory, [key_of(uplink) for uplink in config.uplinks])
    agent = Agent(config, name, files, tree, Spool(shelf, max_bytes=config.spool.max_bytes), followed)
    try:
        agent.run()
    finally:
        shelf.close()
    if agent.begins_anew:
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - ourselves: as after a restart, which loses nothing
    return 0


def agent_name(config: Config, certified: set[str]) -> str:
    """Return the name that all certificates have."""
    if len(certified) > 1:
        raise ConfigError(f"the certificates name different servers: {', '.join(sorted(certified))}")
    (name,) = certified
    if config.agent.name not in {"", name}:
        raise ConfigError(f"[agent] name is {config.agent.name}, and the certificate is that of {name}")
    return name


class Agent:
    """The parts of a running agent, and its one loop."""

    def __init__(
        self, config: Config, name: str, files: list[TlsFiles], tree: Tree, spool: Spool, followed: str | None
    ) -> None:
        self._config, self._followed = config, followed
        self._config_trouble: str | None = None
        self._is_outdated = False
        self._name = name
        self._spool = spool
        self._notifier = Notifier.of(os.environ, pid=os.getpid())
        self._waker = _Waker()
        self._signals: list[int] = []
        self._duty = Duty(config.agent.duty_limit)
        self._skipped_seconds = 0
        self._problems: tuple[str, ...] = ()
        self._collector = Collector(
            tree,
            config.lustre.filesystems,
            name=name,
            spool=spool,
            clocks=ServerClocks(config.lustre.root),
            trouble=self._trouble,
            on_restart=self._restarted,
        )
        self._slurm = SlurmCollector(config.slurm, self._tell_uplinks) if config.slurm is not None else None
        self._renewal = Renewal.of(config)
        self._uplinks = [
            Uplink(
                uplink,
                files=its_files,
                agent=name,
                software=f"harvest-agent {version('harvest-agent')}",
                shelf=spool.shelf,
                speaker=self._collector,
                on_welcome=self._waker.wake,
                new_feed=None if self._slurm is None else self._slurm.feed,
            )
            for uplink, its_files in zip(config.uplinks, files, strict=True)
        ]

    @property
    def begins_anew(self) -> bool:
        """Whether the end is for another configuration, and not because somebody said so."""
        return self._is_outdated and not self._signals

    def run(self) -> None:
        """Sweep at every tick until told to end; then sweep once more and hand over what is there."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._take_signal)
        signal.set_wakeup_fd(self._waker.writer, warn_on_full_buffer=False)
        say("agent.start", name=self._name, spool=self._spool.shelf.folder, waiting=self._waiting())
        for uplink in self._uplinks:
            uplink.start()
        if self._slurm is not None:
            self._slurm.start()
        if self._renewal is not None:
            self._renewal.start()
        self._notifier.ready()
        self._sweep_until_stopped()
        if not self.begins_anew:
            self._notifier.stopping()
        if self._renewal is not None:
            self._renewal.stop()
        if self._slurm is not None:
            self._slurm.stop(_STOP_SECONDS)
        period = self._period_seconds()
        self._sweep(tick_before(time.time(), period), period)
        self._say_farewell()
        self._spool.close()
        say("agent.end", waiting=self._waiting())

    def _sweep_until_stopped(self) -> None:
        tick: int | None = None
        last: int | None = None
        before = planned = 0
        while not self._is_stopping():
            period = self._period_seconds()
            now = time.time()
            if tick is None or planned != period or not tick - period <= now < tick + period:  # or the clock was set
                planned, tick = period, next_tick(now, period, last)
            if is_due(now, tick, period):
                self._skipped_seconds = skipped_seconds(tick, last, max(period, before))
                self._sweep(tick, period)
                self._check_config()
                last, before, tick = tick, period, None
            else:
                self._collector.read_clients()
                waits = (tick - time.time(), self._alive_seconds(), self._collector.clients_wait_seconds)
                self._waker.wait(min(wait for wait in waits if wait is not None))
            self._notifier.alive()

    def _sweep(self, tick: int, period: int) -> None:
        self._collector.want_clients(self._clients_wanted())
        report = self._collector.sweep(tick, period)
        self._duty.spent(report.kernel_seconds, self._interval_seconds())
        for uplink in self._uplinks:
            uplink.wake()
            uplink.check_files()
        self._tell(report)

    def _check_config(self) -> None:
        """Notice that the configuration is another one, and good."""
        if self._followed is None:
            return
        try:
            self._is_outdated = Config.load(self._followed) != self._config
            self._config_trouble = None
        except ConfigError as error:
            self._config_trouble = f"the new configuration cannot be used: {error}"
        if self._is_outdated:
            say("agent.anew", reason=f"{self._followed} has changed")

    def _tell(self, report: SweepReport) -> None:
        problems = (*report.problems, *self._trouble())
        for problem in problems:
            if problem not in self._problems:
                say("problem", text=problem)
        self._problems = problems
        connected = sum(uplink.is_connected for uplink in self._uplinks)
        self._notifier.status(
            f"{report.targets} targets, {report.records} jobs; {connected} of {len(self._uplinks)} aggregators; "
            f"{self._waiting()} sweeps wait, {size(self._spool.shelf.size())} in the spool; {len(problems)} problems"
        )

    def _trouble(self) -> list[str]:
        """Return what is wrong beside the sweep itself."""
        problems = [problem for uplink in self._uplinks for problem in uplink.problems()]
        if self._slurm is not None:
            problems += self._slurm.problems()
        if self._renewal is not None:
            problems += self._renewal.problems()
        if self._config_trouble is not None:
            problems.append(self._config_trouble)
        if self._duty.intervals > 1:
            problems.append(
                f"reading costs the kernel too much: a sweep only every {self._period_seconds()} s, "
                f"not every {self._interval_seconds()} s"
            )
        if self._skipped_seconds:
            problems.append(
                f"sweeps were skipped for {self._skipped_seconds} s: one took too long, or the clock was set"
            )
        if lost := self._spool.lost_sweeps:
            problems.append(f"{lost} sweeps were lost since the start: no room in the spool, or a disk that fails")
        if damaged := self._spool.shelf.damaged_segments:
            problems.append(f"{damaged} segments of the spool were damaged: sweeps are lost")
        return problems

    def _say_farewell(self) -> None:
        """Let those aggregators that answer have everything, within limits."""
        end = time.monotonic() + _FAREWELL_SECONDS
        while time.monotonic() < end and any(
            uplink.is_connected and self._spool.shelf.waiting(uplink.key) for uplink in self._uplinks
        ):
            time.sleep(0.05)
        for uplink in self._uplinks:
            uplink.stop(_STOP_SECONDS)

    def _tell_uplinks(self) -> None:
        for uplink in self._uplinks:
            uplink.wake()

    def _restarted(self) -> None:
        for uplink in self._uplinks:
            uplink.reconnect("another incarnation began")

    def _interval_seconds(self) -> int:
        return min((wishes.interval_seconds for wishes in self._wishes()), default=INTERVAL_SECONDS)

    def _clients_wanted(self) -> dict[str, int]:
        """Return the file systems whose clients anybody wants, and how often at most."""
        wanted = [wish for wishes in self._wishes() for wish in wishes.clients.items()]
        return {name: min(seconds for other, seconds in wanted if other == name) for name, _ in wanted}

    def _wishes(self) -> list[Wishes]:
        return [uplink.wishes for uplink in self._uplinks if uplink.wishes is not None]

    def _period_seconds(self) -> int:
        return self._interval_seconds() * self._duty.intervals

    def _alive_seconds(self) -> float:
        watchdog = self._notifier.watchdog_seconds
        return _LONGEST_WAIT_SECONDS if watchdog is None else watchdog / 3

    def _waiting(self) -> int:
        return self._spool.shelf.waiting(*self._spool.shelf.uplinks)

    def _take_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _is_stopping(self) -> bool:
        if signal.SIGHUP in self._signals:
            self._signals.remove(signal.SIGHUP)
            for uplink in self._uplinks:
                uplink.check_files()
        return bool(self._signals) or self._is_outdated


class _Waker:
    """A wait that signals and other threads can end."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # full: it will wake in any case
            os.write(self.writer, b"\0")

    def wait(self, seconds: float) -> None:
        ready, _, _ = select.select([self._reader], [], [], max(seconds, 0))
        if ready:
            os.read(self._reader, 4096)
