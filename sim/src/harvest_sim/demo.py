"""A lively site built from settings: servers in pairs, all workloads, and admins who do what admins do."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random

from harvest_sim import workloads
from harvest_sim.clock import NSECS
from harvest_sim.disk import DiskFace, GatedEvent
from harvest_sim.player import MayWork, Player
from harvest_sim.settings import Settings
from harvest_sim.site import Site
from harvest_sim.slurm import Queue
from harvest_sim.versions import traits
from harvest_sim.workloads import Operation, Stage

_FIRST_LONE = 0x100
_LONE_INTERVALS = 15
"""So much longer do records of lone jobs live: that one was idle for a moment says nothing about its end."""
_REQUEUED = {"climate-run": 10.0}
"""Which jobs are requeued, and after how many seconds."""
_NIDS = tuple(f"10.1.0.{number}@o2ib" for number in range(1, 9))


def build_site(settings: Settings, rng: Random, *, epoch_seconds: int) -> Site:
    """Return the site, all targets mounted, all clients connected."""
    site = Site(rng, epoch_seconds=epoch_seconds)
    for name, version in {**settings.oss, **settings.mds}.items():
        site.add_server(name, version)
    for fs in settings.fsnames:
        _add_targets(site, settings.oss, f"{fs}-OST", settings.osts_per_oss, settings.cleanup_seconds)
        _add_targets(site, settings.mds, f"{fs}-MDT", 1, settings.cleanup_seconds)
    for name, home, _ in lone_targets(settings):
        pair = _pair(settings.oss, home)
        site.add_target(name, pair, cleanup_interval_seconds=_LONE_INTERVALS * settings.cleanup_seconds)
    for fs in settings.fsnames:
        for nid in _NIDS:
            site.connect(fs, nid)
    return site


def lone_targets(settings: Settings) -> list[tuple[str, str, bool]]:
    """Return OSTs that have one job each: (name, home server, whether the job does each time more than ever before)."""
    if not settings.provable:
        return []
    homes = [(home, grows) for home in list(settings.oss)[:2] for grows in (False, True)]
    return [
        (f"{fs}-OST{_FIRST_LONE + index:04x}", home, grows)
        for fs in settings.fsnames
        for index, (home, grows) in enumerate(homes)
    ]


def build_player(
    settings: Settings,
    site: Site,
    rng: Random,
    *,
    seconds: float,
    queue: Queue,
    is_end_known: MayWork = lambda _target, _job: True,
) -> Player:
    """Return all workloads on every file system; times scale with the cleanup interval. The queue gets their jobs.

    Where all must be provable and nothing says when a record began, a job whose record is gone comes back when readers
    know that it is gone: however slowly they read, they see that it began again.
    """

    def may_work(target: str, job_id: bytes) -> bool:
        is_told = not settings.provable or traits(site.mounted(target).scope.version).has_start_time
        return is_told or is_end_known(target, job_id)

    plays: list[Iterator[Operation]] = []
    first_id = itertools.count(1_000_000, 100_000)
    lone = {name: grows for name, _, grows in lone_targets(settings)}
    for fs in settings.fsnames:
        stage = Stage(
            rng=rng,
            osts=[name for name in site.targets if name.startswith(f"{fs}-OST") and name not in lone],
            mdts=[name for name in site.targets if name.startswith(f"{fs}-MDT")],
            nids=_NIDS,
            cleanup_seconds=settings.cleanup_seconds,
        )
        number = next(first_id)
        unit = settings.cleanup_seconds / 4
        jobs = {
            "climate-run": workloads.checkpointing(stage, b"%d" % number, start=0.1, end=seconds, period=unit),
            "lattice": workloads.checkpointing(
                stage, b"%d" % (number + 1), start=0.2, end=seconds / 2, period=2 * unit
            ),
            "unpack": workloads.metadata_storm(stage, b"%d" % (number + 2), start=0.3, end=seconds, period=unit),
            "monitor": workloads.equal_returns(stage, b"%d" % (number + 4), start=0.5, end=seconds),
            "collect": workloads.ever_larger(stage, b"%d" % (number + 5), start=0.55, end=seconds, period=3 * unit),
        }
        short = workloads.short_jobs(stage, start=0.7, end=seconds, first_id=number + 8, period=unit)
        plays += [
            *(queue.follow(name, play, requeued_seconds=_REQUEUED.get(name)) for name, play in jobs.items()),
            workloads.login_processes(stage, start=0.6, end=seconds, period=unit),
            queue.follow("scan", short, in_lots=True),
        ]
        at_the_edge = replace(stage, osts=[n for n in stage.osts if not settings.provable or _tells_start(site, n)])
        if at_the_edge.osts:
            play = workloads.quiet_then_active(at_the_edge, b"%d" % (number + 3), start=0.4, end=seconds)
            plays.append(queue.follow("think", play))
    for number, (target, grows) in enumerate(lone.items(), 500_000):
        stage = Stage(rng=rng, osts=[target], mdts=[], nids=_NIDS, cleanup_seconds=settings.cleanup_seconds)
        name, work = ("stripe", workloads.ever_larger) if grows else ("stream", workloads.steady)
        play = work(stage, b"%d" % number, start=0.1, end=seconds, period=settings.cleanup_seconds / 2)
        plays.append(queue.follow(name, play))
    return Player(site, *plays, may_work=may_work)


def _tells_start(site: Site, target: str) -> bool:
    """Tell whether all servers of a target say when a record began."""
    return all(traits(site.servers[name].version).has_start_time for name in site.targets[target].servers)


class Admins:
    """Cause one event after the other, each in step with what readers have seen."""

    def __init__(self, settings: Settings, site: Site, face: DiskFace, rng: Random) -> None:
        self._site = site
        self._face = face
        self._rng = rng
        self._is_provable = settings.provable
        self._steady = {name for name, _, grows in lone_targets(settings) if not grows}
        self._pause_ns = round(settings.event_seconds * NSECS)
        self._next_ns = self._pause_ns
        lone = [name for name, *_ in lone_targets(settings)]
        rest = [name for name in site.targets if name not in lone]
        # what a rule must know all by itself comes first: a remount on the oldest server of a job that is higher at
        # once, a clear there of one that is lower, and of one that is higher where start_time tells
        turns = {"remount": [*lone[1::2], *lone[::2], *rest], "clear": [*lone[::3], *lone[1:3], *rest]}
        self._turns = {event: itertools.cycle(turns.get(event, rest)) for event in (*turns, "clear of one job")}
        self._kinds = itertools.cycle(
            (self._clear, self._remount, self._fail_over, self._clear_one, self._reboot, self._fail_back, self._step)
        )

    def act(self) -> None:
        """Cause the next event if it is time and the one before has happened."""
        if self._pause_ns and self._site.now_ns >= self._next_ns and not self._face.waiting_events:
            self._next_ns = self._site.now_ns + self._pause_ns
            next(self._kinds)()

    def _clear(self) -> None:
        target = next(target for target in self._turns["clear"] if self._may_be_cleared(target))
        self._request((target,), lambda: self._clear_now(target))

    def _clear_now(self, target: str) -> None:
        """Clear; where only lower counters can tell, its job does little until readers have seen that."""
        jobs = sorted(self._site.mounted(target).jobs.records)
        self._site.clear(target)
        if self._is_provable and target in self._steady:
            for job in jobs:
                self._site.mounted(target).bulk(job, "write", 1)
            self._request((target,), lambda: None)

    def _may_be_cleared(self, target: str) -> bool:
        """Tell whether a clear can be known for certain: by start_time, or by counters that are lower afterwards."""
        version = self._site.mounted(target).scope.version
        return not self._is_provable or target in self._steady or traits(version).has_start_time

    def _clear_one(self) -> None:
        target = next(target for target in self._turns["clear of one job"] if self._may_be_cleared(target))
        jobs = sorted(self._site.mounted(target).jobs.records)
        if jobs:
            job = self._rng.choice(jobs)
            self._request((target,), lambda: self._site.clear(target, job))

    def _remount(self) -> None:
        target = next(self._turns["remount"])
        self._request((target,), lambda: self._site.remount(target))

    def _fail_over(self) -> None:
        movable = [name for name, target in self._site.targets.items() if len(target.servers) > 1]
        if movable:
            target = self._rng.choice(movable)
            here = self._site.mounted(target).scope.server
            there = next(name for name in self._site.targets[target].servers if name != here)
            self._request((target,), lambda: self._site.fail_over(target, there))

    def _fail_back(self) -> None:
        away = tuple(
            name
            for name, target in self._site.targets.items()
            if self._site.mounted(name).scope.server != target.servers[0]
        )
        if away:
            self._request(away[:1], lambda: self._site.fail_back(away[0]))

    def _reboot(self) -> None:
        server = self._rng.choice(list(self._site.servers))
        self._request(tuple(self._site.targets_on(server)), lambda: self._site.reboot(server))

    def _step(self) -> None:
        server = self._rng.choice(list(self._site.servers))
        seconds = self._rng.choice((-3600, 3600)) + self._rng.random()
        self._request(tuple(self._site.targets_on(server)), lambda: self._site.step_clock(server, seconds))

    def _request(self, targets: tuple[str, ...], perform: Callable[[], None]) -> None:
        self._face.request(GatedEvent(targets=targets, perform=perform))


def _pair(servers: Mapping[str, str], home: str) -> list[str]:
    """Return a server and the next one, its partner; a server that is alone has none."""
    names = list(servers)
    return list(dict.fromkeys((home, names[(names.index(home) + 1) % len(names)])))


def _add_targets(site: Site, servers: Mapping[str, str], prefix: str, per_server: int, cleanup_seconds: int) -> None:
    names = list(servers)
    for index in range(len(names) * per_server):
        pair = _pair(servers, names[index // per_server])
        site.add_target(f"{prefix}{index:04x}", pair, cleanup_interval_seconds=cleanup_seconds)
