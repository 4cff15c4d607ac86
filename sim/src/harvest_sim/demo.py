"""A lively site built from settings: servers in pairs, all workloads, and admins who do what admins do."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from random import Random

from harvest_sim import workloads
from harvest_sim.clock import NSECS
from harvest_sim.disk import DiskFace, GatedEvent
from harvest_sim.player import Player
from harvest_sim.settings import Settings
from harvest_sim.site import Site
from harvest_sim.workloads import Operation, Stage

_NIDS = tuple(f"10.1.0.{number}@o2ib" for number in range(1, 9))
_GRACE_NS = 1_500_000_000


def build_site(settings: Settings, rng: Random, *, epoch_seconds: int) -> Site:
    """Return the site, all targets mounted, all clients connected."""
    site = Site(rng, epoch_seconds=epoch_seconds)
    for name, version in {**settings.oss, **settings.mds}.items():
        site.add_server(name, version)
    for fs in settings.fsnames:
        _add_targets(site, settings.oss, f"{fs}-OST", settings.osts_per_oss, settings.cleanup_seconds)
        _add_targets(site, settings.mds, f"{fs}-MDT", 1, settings.cleanup_seconds)
        for nid in _NIDS:
            site.connect(fs, nid)
    return site


def build_player(settings: Settings, site: Site, rng: Random, *, seconds: float) -> Player:
    """Return all workloads on every file system; times scale with the cleanup interval."""
    plays: list[Iterator[Operation]] = []
    first_id = itertools.count(1_000_000, 100_000)
    for fs in settings.fsnames:
        stage = Stage(
            rng=rng,
            osts=[name for name in site.targets if name.startswith(f"{fs}-OST")],
            mdts=[name for name in site.targets if name.startswith(f"{fs}-MDT")],
            nids=_NIDS,
            cleanup_seconds=settings.cleanup_seconds,
        )
        number = next(first_id)
        unit = settings.cleanup_seconds / 4
        plays += [
            workloads.checkpointing(stage, b"%d" % number, start=0.1, end=seconds, period=unit),
            workloads.checkpointing(stage, b"%d" % (number + 1), start=0.2, end=seconds / 2, period=2 * unit),
            workloads.metadata_storm(stage, b"%d" % (number + 2), start=0.3, end=seconds, period=unit),
            workloads.quiet_then_active(stage, b"%d" % (number + 3), start=0.4, end=seconds),
            workloads.equal_returns(stage, b"%d" % (number + 4), start=0.5, end=seconds),
            workloads.login_processes(stage, start=0.6, end=seconds, period=unit),
            workloads.short_jobs(stage, start=0.7, end=seconds, first_id=number + 5, period=unit),
        ]
    return Player(site, *plays)


class Admins:
    """Cause one event after the other, each in step with what readers have seen."""

    def __init__(self, site: Site, face: DiskFace, rng: Random, *, event_seconds: float) -> None:
        self._site = site
        self._face = face
        self._rng = rng
        self._pause_ns = round(event_seconds * NSECS)
        self._next_ns = self._pause_ns
        self._kinds = itertools.cycle(
            (self._clear, self._remount, self._fail_over, self._clear_one, self._reboot, self._fail_back, self._step)
        )

    def act(self) -> None:
        """Cause the next event if it is time and the one before has happened."""
        if self._pause_ns and self._site.now_ns >= self._next_ns and not self._face.waiting_events:
            self._next_ns = self._site.now_ns + self._pause_ns
            next(self._kinds)()

    def _clear(self) -> None:
        target = self._some_target()
        self._request((target,), lambda: self._site.clear(target))

    def _clear_one(self) -> None:
        target = self._some_target()
        jobs = sorted(self._site.mounted(target).jobs.records)
        if jobs:
            job = self._rng.choice(jobs)
            self._request((target,), lambda: self._site.clear(target, job))

    def _remount(self) -> None:
        target = self._some_target()
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

    def _some_target(self) -> str:
        return self._rng.choice(list(self._site.targets))

    def _request(self, targets: tuple[str, ...], perform: Callable[[], None]) -> None:
        self._face.request(GatedEvent(targets=targets, perform=perform, may_happen=self._after_grace()))

    def _after_grace(self) -> Callable[[], bool]:
        """Return a gate that opens a little after it was first asked: readers need time to spool what they read."""
        asked_ns: list[int] = []

        def may_happen() -> bool:
            asked_ns.append(self._site.now_ns)
            return self._site.now_ns - asked_ns[0] >= _GRACE_NS

        return may_happen


def _add_targets(site: Site, servers: Mapping[str, str], prefix: str, per_server: int, cleanup_seconds: int) -> None:
    names = list(servers)
    for index in range(len(names) * per_server):
        home = index // per_server
        pair = dict.fromkeys((names[home], names[(home + 1) % len(names)]))
        site.add_target(f"{prefix}{index:04x}", list(pair), cleanup_interval_seconds=cleanup_seconds)
