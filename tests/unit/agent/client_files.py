"""The clients of one OST, in memory, where reading takes as long as a test says; and whoever follows them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from harvest.v1.stream_pb2 import Batch
from harvest_agent.clients import TargetClients
from harvest_agent.tree import TargetFiles
from harvest_core.accounting.apply import Work
from harvest_core.accounting.mounts import MountState
from harvest_core.accounting.targets import TargetAccount
from harvest_core.accounting.totals import job_totals
from harvest_core.accounting.wire import joined, read
from harvest_core.facts import OST, Facts, Mount
from harvest_core.lustre.columns import Codes
from harvest_core.wire import write

NSECS = 1_000_000_000
EPOCH = 1_700_000_000
MOUNT = Mount(server="oss1", boot_id="boot-1", instance=None)


@dataclass
class Clock:
    """Moves when told, and while files are read."""

    now: float = 1000.0
    seconds_per_file: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Ost:
    """What ``TargetFiles`` is to whoever reads clients."""

    clock: Clock = field(default_factory=Clock)
    instance: int | None = 1
    source: str = "obdfilter"
    name: str = "fs-OST0000"
    unreadable: dict[str, str] = field(default_factory=dict)
    own: int = 0
    """What the target itself has counted: as long as it is the same nobody moved."""
    stats: dict[str, bytes] = field(default_factory=dict)
    uuid: dict[str, bytes] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)

    @property
    def files(self) -> TargetFiles:
        return cast("TargetFiles", self)

    def show(self, nid: str, *, start: int = 0, uuid: str = "c1", ping: int = 0, **written: int) -> None:
        """Let a client have written so many bytes, each in one call; the name of the counter is the caller's."""
        self.own += 1
        head = f"snapshot_time {EPOCH + self.own}.000000001 secs.nsecs\n"
        if start:
            head += f"start_time {EPOCH + start}.000000000 secs.nsecs\nelapsed_time 1.000000000 secs.nsecs\n"
        lines = [f"{name} {count} samples [bytes] 1 1 {count}\n" for name, count in written.items()]
        lines += [f"ping {ping} samples [reqs]\n"] if ping else []
        self.print(nid, head + "".join(lines), uuid=uuid)

    def print(self, nid: str, text: str, *, uuid: str = "c1") -> None:
        """Let a client's file say anything."""
        self.stats[nid] = text.encode()
        self.uuid[nid] = f"{uuid}\n".encode() if uuid else b""

    def vanish(self, nid: str) -> None:
        self.own += 1
        del self.stats[nid], self.uuid[nid]

    def exports(self, *, or_fail: bool) -> Iterator[tuple[str, str]]:
        assert or_fail
        if "exports" in self.unreadable:
            raise OSError(self.unreadable["exports"])
        self.clock.now += self.clock.seconds_per_file
        self.reads.append("exports")
        return iter([(nid, f"exports/{nid}") for nid in sorted(self.stats)])

    def is_gone(self, path: str) -> bool:
        return path.split("/")[1] not in self.stats

    def file(self, name: str) -> str:
        return name

    def number(self, name: str) -> int | None:
        assert name == "instance"
        return self.instance

    def read(self, path: str) -> bytes | None:
        if path == "stats":
            return b"write_bytes %d samples [bytes]\n" % self.own
        self.clock.now += self.clock.seconds_per_file
        self.reads.append(path)
        _, nid, file = path.split("/")
        return None if path in self.unreadable else (self.stats if file == "stats" else self.uuid).get(nid)


def about(seq: int, *, incarnation: bytes = b"incarnation-no-1", period_seconds: int = 60) -> Facts:
    """Return what a sweep says of all clients, as the collector does; a period after the one before."""
    tick = EPOCH + seq * period_seconds
    return Facts(
        incarnation=incarnation,
        seq=seq,
        tick_seconds=tick,
        period_seconds=period_seconds,
        kind=OST,
        target="fs-OST0000",
        mount=MOUNT,
        complete=True,
        read_at=tick * NSECS,
        uptime=tick * NSECS,
        lustre_version=(),
        cleanup_interval_seconds=0,
        in_one_piece=True,
    )


class Followed:
    """The clients of an OST, an agent that reads them in whole passes, and the accounting."""

    def __init__(self, ost: Ost | None = None) -> None:
        self.ost = ost or Ost()
        self.account = TargetAccount()
        self.seq = 0
        self.starts = 0
        self.restart()

    def restart(self, *, was_gone: bool = False) -> None:
        """Start the agent again, or follow another mount."""
        self.starts += 1
        mount = Mount(server="oss1", boot_id="boot-1", instance=self.ost.instance)
        self.clients = TargetClients(self.ost.files, mount, Codes(), was_gone=was_gone)

    def passed(self, *, is_over: bool = False) -> Facts:
        """Go through all clients once, and return what is told."""
        self.clients.begin(self.ost.files)
        self.clients.read_some(self.clients.left(1.0))
        return self.told(is_over=is_over)

    def told(self, *, is_over: bool = False) -> Facts:
        """Return what is told of the pass under way."""
        self.seq += 3  # of three sweeps, one tells of clients
        said = about(self.seq, incarnation=b"incarnation-no-%d" % self.starts, period_seconds=20)
        said.mount, said.period_seconds = self.clients.mount, 60
        return joined([sent(part) for part in self.clients.facts(said, is_over=is_over)])

    def account_for(self, facts: Facts | None = None) -> Work:
        """Pass, tell, and account for it."""
        return self.account.apply(self.passed() if facts is None else facts)

    @property
    def state(self) -> MountState:
        [stay] = self.account.stays.values()
        return stay.mounts[-1][1]

    def total(self, nid: str) -> int:
        """Return how many bytes a client wrote in all."""
        return job_totals(self.account.stays.values())[nid.encode()].write_bytes

    def marks(self, nid: str) -> tuple[bool, bool]:
        """Return whether a client is live, and whether it is a server, as the state has it."""
        row = self.state.jobs.index(nid.encode())
        return bool(self.state.is_live[row]), bool(self.state.is_server[row])


def sent(facts: Facts) -> Facts:
    """Return facts as they come out of the wire."""
    message = Batch()
    write(message, facts)
    return read(Batch.FromString(message.SerializeToString()))
