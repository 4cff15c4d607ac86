"""Servers, targets as they are on disk, and the connections of servers among each other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harvest_sim.clock import ServerClock
from harvest_sim.ops import Kind
from harvest_sim.target import MountedTarget
from harvest_sim.versions import Version


@dataclass(slots=True, kw_only=True)
class Server:
    """A Lustre server; targets come and go on it."""

    name: str
    version: Version
    nid: str
    boot_id: str
    clock: ServerClock
    stats_header: bool = True
    is_up: bool = True


@dataclass(slots=True, kw_only=True)
class Target:
    """A target as it is on disk, wherever it is mounted."""

    fs: str
    name: str
    kind: Kind
    servers: tuple[str, ...]
    """The primary server, then its failover partners."""
    cleanup_interval_seconds: int
    instance: int = 0
    """The mount count that the target keeps on disk in last_rcvd (§2.4)."""
    mounts: int = 0
    """The simulator's own number of the last mount: nothing resets it."""
    mounted: MountedTarget | None = None
    is_frozen: bool = False
    """Clients are made to wait: an event is about to happen in step with a reader."""


def is_server_uuid(uuid: str) -> bool:
    """Return whether an export belongs to a server (§2.5)."""
    return uuid.endswith("-mdtlov_UUID") or "-lwp-" in uuid or "-osp-" in uuid


def server_clients(host: MountedTarget, others: Iterable[MountedTarget]) -> Iterator[tuple[str, str]]:
    """Yield (server, uuid) of the connections that the other targets of a file system make to ``host``."""
    scope = host.scope
    this = scope.target.rsplit("-", 1)[1]
    for other in others:
        that = other.scope.target.rsplit("-", 1)[1]
        if scope.kind is Kind.OST and other.scope.kind is Kind.MDT:
            yield other.scope.server, f"{scope.fs}-{that}-mdtlov_UUID"
        elif scope.kind is Kind.MDT and this == "MDT0000":
            yield other.scope.server, f"{scope.fs}-{this}-lwp-{that}_UUID"
        elif scope.kind is Kind.MDT and other.scope.kind is Kind.MDT and this != that:
            yield other.scope.server, f"{scope.fs}-{that}-osp-{this}_UUID"
