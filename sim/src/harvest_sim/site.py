"""The simulated site: servers, targets that move between them, clients, and the truth about all of it."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from harvest_sim.clock import NSECS, ServerClock, VirtualTime
from harvest_sim.files import server_files, target_files
from harvest_sim.lives import EndReason, Scope
from harvest_sim.machines import Server, Target, is_server_uuid, server_clients
from harvest_sim.ops import Kind
from harvest_sim.reading import File
from harvest_sim.target import MountedTarget
from harvest_sim.truth import Truth
from harvest_sim.versions import Version

_EPOCH_SECONDS = 1_760_000_000


@dataclass(slots=True, kw_only=True)
class _Listing:
    key: tuple[object, ...] = ()
    files: dict[str, File] = field(default_factory=dict)


class Site:
    """A Lustre site in virtual time; it moves only when told, and by the given randomness only."""

    def __init__(self, rng: Random, *, epoch_seconds: int = _EPOCH_SECONDS) -> None:
        self.truth = Truth()
        self.time = VirtualTime(rng)
        self.servers: dict[str, Server] = {}
        self.targets: dict[str, Target] = {}
        self.clients: dict[tuple[str, str], list[str]] = {}
        """The uuids of the connected clients, by file system and NID."""
        self.jobid_var = "SLURM_JOB_ID"
        self.jobid_name = "%e.%u"
        self._rng = rng
        self._epoch_ns = epoch_seconds * NSECS
        self._listings: dict[str, _Listing] = {}

    @property
    def now_ns(self) -> int:
        """The true time."""
        return self.time.now_ns

    def add_server(self, name: str, version: str, *, nid: str | None = None, stats_header: bool = True) -> Server:
        """Install a server; ``stats_header=False`` is enable_stats_header=0 (§1.1)."""
        clock = ServerClock(self.time, wall_offset_ns=self._epoch_ns + self._rng.randrange(NSECS))
        clock.booted_ns -= self._rng.randrange(NSECS, 1_000_000 * NSECS)  # it has been up for a while
        server = Server(
            name=name,
            version=Version.parse(version),
            nid=nid or f"10.0.1.{len(self.servers) + 1}@tcp",
            boot_id=self._new_uuid(),
            clock=clock,
            stats_header=stats_header,
        )
        self.servers[name] = server
        return server

    def add_target(self, name: str, servers: Sequence[str], *, cleanup_interval_seconds: int = 600) -> Target:
        """Format a target such as ``fs-OST0000`` and mount it on the first of ``servers``."""
        fs, index = name.rsplit("-", 1)
        target = Target(
            fs=fs,
            name=name,
            kind=Kind.OST if index.startswith("OST") else Kind.MDT,
            servers=tuple(servers),
            cleanup_interval_seconds=cleanup_interval_seconds,
        )
        self.targets[name] = target
        self.mount(name)
        return target

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.time.advance_to(self.now_ns + round(seconds * NSECS))

    def mounted(self, target: str) -> MountedTarget:
        """Return a target that must be mounted."""
        mounted = self.targets[target].mounted
        if mounted is None:
            raise ValueError(f"{target} is not mounted")
        return mounted

    def is_ready(self, target: str) -> bool:
        """Return whether clients get through; if not, their operations wait."""
        return self.targets[target].mounted is not None and not self.targets[target].is_frozen

    # --- targets come and go (§2.4) ---

    def mount(self, target: str, server: str | None = None) -> MountedTarget:
        """Mount a target: ``instance`` grows, all counters start at 0, clients reconnect."""
        disk = self.targets[target]
        host = self.servers[server or disk.servers[0]]
        if disk.mounted is not None or not host.is_up:
            raise ValueError(f"cannot mount {target} on {host.name}: it is mounted, or the server is down")
        disk.instance += 1
        disk.mounts += 1
        scope = Scope(
            fs=disk.fs,
            target=target,
            kind=disk.kind,
            mount=disk.mounts,
            instance=disk.instance,
            server=host.name,
            version=host.version,
        )
        mounted = MountedTarget(
            scope=scope,
            clock=host.clock,
            truth=self.truth,
            cleanup_interval_seconds=disk.cleanup_interval_seconds,
            stats_header=host.stats_header,
        )
        disk.mounted = mounted
        for (fs, nid), uuids in self.clients.items():
            for client in uuids if fs == disk.fs else ():
                mounted.exports.connect(nid, client)
        self._connect_servers(disk.fs)
        return mounted

    def unmount(self, target: str, reason: EndReason = EndReason.UNMOUNTED) -> None:
        """Unmount a target: everything it counted is freed."""
        self.mounted(target).end(reason)
        self.targets[target].mounted = None
        self._connect_servers(self.targets[target].fs)

    def remount(self, target: str) -> None:
        """Unmount and mount again on the same server."""
        server = self.mounted(target).scope.server
        self.truth.events["remount"] += 1
        self.unmount(target)
        self.mount(target, server)

    def fail_over(self, target: str, to: str) -> None:
        """Move a target to another server; does nothing to the old server itself."""
        self.truth.events["failover"] += 1
        if self.targets[target].mounted is not None:
            self.unmount(target)
        self.mount(target, to)

    def fail_back(self, target: str) -> None:
        """Move a target to its primary server."""
        self.truth.events["failback"] += 1
        if self.targets[target].mounted is not None:
            self.unmount(target)
        self.mount(target)

    def delete_last_rcvd(self, target: str) -> None:
        """Let an admin delete last_rcvd while the target is unmounted: ``instance`` starts again (§2.4)."""
        if self.targets[target].mounted is not None:
            raise ValueError(f"{target} is mounted")
        self.truth.events["last_rcvd deleted"] += 1
        self.targets[target].instance = 0

    # --- servers come and go ---

    def targets_on(self, server: str) -> list[str]:
        """Return the targets mounted on a server."""
        return [
            name
            for name, target in self.targets.items()
            if target.mounted is not None and target.mounted.scope.server == server
        ]

    def crash(self, server: str) -> None:
        """Let a server die: the last moments of its targets are never shown to anybody."""
        self.truth.events["crash"] += 1
        self._stop(server, EndReason.CRASHED)

    def boot(self, server: str, version: str | None = None) -> None:
        """Start a server that is down, with another version if given: new boot id, time since boot 0."""
        host = self.servers[server]
        host.is_up = True
        host.boot_id = self._new_uuid()
        host.clock.booted_ns = self.now_ns
        if version is not None:
            host.version = Version.parse(version)

    def reboot(self, server: str, version: str | None = None) -> None:
        """Shut a server down in good order, boot it, and mount its targets again."""
        self.truth.events["reboot"] += 1
        targets = self.targets_on(server)
        self._stop(server, EndReason.UNMOUNTED)
        self.boot(server, version)
        for target in targets:
            self.mount(target, server)

    def step_clock(self, server: str, seconds: float) -> None:
        """Step a server's wall clock; a real step is never a round number of nanoseconds."""
        self.truth.events["clock step"] += 1
        noise_ns = self._rng.randrange(-1_000_000, 1_000_000)
        self.servers[server].clock.wall_offset_ns += round(seconds * NSECS) + noise_ns

    # --- clients and admins ---

    def connect(self, fs: str, nid: str, client: str | None = None) -> str:
        """Mount the file system on a client: an export on every target; returns its uuid."""
        client = client or self._new_uuid()
        self.clients.setdefault((fs, nid), []).append(client)
        for mount in self._mounts(fs):
            mount.exports.connect(nid, client)
        return client

    def disconnect(self, fs: str, nid: str, client: str) -> None:
        """Let a client go, by unmount, eviction or reboot: its directories stay (§2.5)."""
        self.clients[fs, nid].remove(client)
        for mount in self._mounts(fs):
            mount.exports.disconnect(nid, client)

    def clear(self, target: str, command: bytes = b"clear") -> None:
        """Write to job_stats: ``clear``, or the id of one job (§2.3)."""
        self.mounted(target).jobs.write(command)

    def set_cleanup_interval(self, target: str, seconds: int) -> None:
        """Set job_cleanup_interval for good: the next mount has it too."""
        disk = self.targets[target]
        disk.cleanup_interval_seconds = seconds
        if disk.mounted is not None:
            disk.mounted.jobs.set_cleanup_interval(seconds)

    def set_stats_header(self, server: str, *, enabled: bool) -> None:
        """Set enable_stats_header on a server (§1.1: a parameter since 2.15.58)."""
        self.servers[server].stats_header = enabled
        for target in self.targets_on(server):
            self.mounted(target).jobs.set_stats_header(enabled=enabled)

    # --- reading ---

    def files(self, server: str) -> Mapping[str, File]:
        """Return every file below the server's root, nothing if the server is down."""
        host = self.servers[server]
        if not host.is_up:
            return {}
        mounts = [self.mounted(name) for name in self.targets_on(server)]
        key = (
            *(host.boot_id, self.jobid_var, self.jobid_name),
            *((mount.scope.target, mount.scope.mount, mount.exports.revision) for mount in mounts),
        )
        listing = self._listings.setdefault(server, _Listing())
        if listing.key != key:
            own = server_files(
                host.version, host.boot_id, host.clock, jobid_var=self.jobid_var, jobid_name=self.jobid_name
            )
            listing.files = dict(own)
            for mount in mounts:
                listing.files.update(target_files(mount))
            listing.key = key
        return listing.files

    def _mounts(self, fs: str) -> list[MountedTarget]:
        return [target.mounted for target in self.targets.values() if target.mounted and target.fs == fs]

    def _connect_servers(self, fs: str) -> None:
        # §2.5: servers have exports too; a target that moves leaves its old NID's directory behind
        mounts = self._mounts(fs)
        for mount in mounts:
            wanted = {
                ("0@lo" if server == mount.scope.server else self.servers[server].nid, client)
                for server, client in server_clients(mount, mounts)
            }
            present = {
                (nid, client)
                for nid, uuids in mount.exports.uuids.items()
                for client in uuids
                if is_server_uuid(client)
            }
            for nid, client in sorted(present - wanted):
                mount.exports.disconnect(nid, client)
            for nid, client in sorted(wanted - present):
                mount.exports.connect(nid, client)

    def _stop(self, server: str, reason: EndReason) -> None:
        for target in self.targets_on(server):
            self.unmount(target, reason)
        self.servers[server].is_up = False

    def _new_uuid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
