"""Deliveries of small agents that write ever more, for tests of what becomes of them."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harvest.v1.stream_pb2 import TARGET_KIND_OST, Batch
from harvest_aggregator.deliveries import Delivery
from harvest_core.facts import Facts, Mount, Moved
from harvest_core.wire import write

SECOND = 1_000_000_000
START = 1_700_000_000
"""The first tick; every job began then."""
INTERVAL = 20
SITE = """
interval: 20s
filesystems:
  - {name: home, servers: [oss1, oss2]}
  - {name: data, servers: [oss1]}
"""


@dataclass(slots=True)
class Writer:
    """An agent on a server with some targets, whose jobs have written so many MiB, each in one call."""

    name: str = "oss1"
    targets: tuple[str, ...] = ("home-OST0000",)
    incarnation: bytes = b"incarnation-no-1"
    boot_id: str = "boot-1"
    start_seconds: int = START
    """When records that are new began; 0 where the server does not say."""
    version: tuple[int, ...] = (2, 15, 8)
    seq: int = 0
    named: set[tuple[str, bytes]] = field(default_factory=set)
    slots: dict[bytes, int] = field(default_factory=dict)
    slots_used: int = 0

    @property
    def tick(self) -> int:
        """The tick of the sweep that was sent last."""
        return START + INTERVAL * self.seq

    def sweep(self, written: Mapping[bytes, int], *, tick: int | None = None, gone: Iterable[bytes] = ()) -> Delivery:
        """Return the next sweep, in which all these jobs moved on every target, and others are gone from all."""
        self.seq += 1
        tick = self.tick if tick is None else tick
        left = array("q", [self.slots.pop(job) for job in gone])
        self.named = {(target, job) for target, job in self.named if job in self.slots}
        for job in written:
            if job not in self.slots:
                self.slots[job] = self.slots_used
                self.slots_used += 1
        messages = [self._read(target, written, tick, left) for target in self.targets]
        end = Batch(
            incarnation=self.incarnation, seq=self.seq, tick_seconds=tick, period_seconds=INTERVAL, last_of_sweep=True
        )
        for target in self.targets:
            mounted = end.end.targets.add()
            mounted.target.kind = TARGET_KIND_OST
            mounted.target.name = target
        end.end.health.clock_nanoseconds = tick * SECOND
        messages.append(end)
        return Delivery(
            agent=self.name,
            incarnation=self.incarnation,
            seq=self.seq,
            batches=tuple((message.SerializeToString(), message) for message in messages),
        )

    def _read(self, target: str, written: Mapping[bytes, int], tick: int, gone: "array[int]") -> Batch:
        slots = [self.slots[job] for job in written]
        fresh = [job for job in written if (target, job) not in self.named]
        facts = Facts(
            incarnation=self.incarnation,
            seq=self.seq,
            tick_seconds=tick,
            period_seconds=INTERVAL,
            kind="OST",
            target=target,
            mount=Mount(server=self.name, boot_id=self.boot_id, instance=1),
            complete=True,
            read_at=tick * SECOND,
            uptime=tick * SECOND,
            lustre_version=self.version,
            cleanup_interval_seconds=600,
            names=[(self.slots[job], job, self.start_seconds * SECOND, 0) for job in fresh],
            counters=[(0, "write_bytes", "bytes")] if fresh else [],
            order=array("q", [self.slots[job] for job in fresh]),
            gone=gone,
            moved=Moved(
                slot=array("q", slots),
                snapshot=array("q", [tick * SECOND] * len(slots)),
                rows=array("q", [1] * len(slots)),
                code=array("q", [0] * len(slots)),
                samples=array("q", written.values()),
                sum=array("q", [count << 20 for count in written.values()]),
            ),
        )
        self.named |= {(target, job) for job in fresh}
        message = Batch()
        write(message, facts)
        return message
