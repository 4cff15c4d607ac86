"""A collector over a small tree of a server, and what an aggregator would make of its spool."""

from dataclasses import dataclass, field
from pathlib import Path

from harvest.v1.stream_pb2 import Batch, StreamRequest
from harvest_agent.clocks import ServerClocks
from harvest_agent.collecting import Collector, SweepReport
from harvest_agent.tree import Tree
from harvest_core.accounting.apply import Stay, apply
from harvest_core.accounting.totals import job_totals
from harvest_core.accounting.wire import joined, read
from harvest_core.facts import Facts
from support.records import job_stats, put, record
from unit.agent.spooling import Bench

OST0 = "proc/fs/lustre/obdfilter/fs-OST0000"
NSECS = 1_000_000_000
START = 1_700_000_000


@dataclass
class Server:
    """One OSS with an agent; its clocks go on with its sweeps."""

    folder: Path
    max_bytes: int = 1 << 20
    tick: int = START
    restarts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.folder / "root"
        self.bench = Bench(self.folder / "spool", max_bytes=self.max_bytes)
        put(self.root, "proc/sys/kernel/random/boot_id", "boot-1\n")
        put(self.root, "proc/fs/lustre/version", "lustre: 2.12.9\n")
        put(self.root, f"{OST0}/job_cleanup_interval", "600\n")
        put(self.root, f"{OST0}/instance", "7\n")
        self.start()

    def start(self) -> None:
        """Start the agent, again."""
        self.collector = Collector(
            Tree(str(self.root)),
            (),
            name="oss1",
            spool=self.bench.spool,
            clocks=ServerClocks(
                str(self.root), wall=lambda: self.tick * NSECS, since_boot=lambda: (self.tick - START + 100) * NSECS
            ),
            wall=lambda: self.tick * NSECS,
            on_restart=lambda: self.restarts.append("restarted"),
        )

    def show(self, **written: int) -> None:
        """Let the first OST show how often each job has written."""
        self.show_on(OST0, **written)

    def show_on(self, target: str, **written: int) -> None:
        """Likewise, of any target."""
        records = [record(job, written=count, header=False) for job, count in written.items()]
        put(self.root, f"{target}/job_stats", job_stats(*records))

    def sweep(self, **written: int) -> SweepReport:
        if written:
            self.show(**written)
        self.tick += 20
        return self.collector.sweep(self.tick, 20)

    def batches(self) -> list[Batch]:
        """Return all that is in the spool."""
        sent: dict[bytes, int] = {}
        found = []
        while (sweep := self.bench.shelf.sweep_after(sent)) is not None:
            sent[sweep.incarnation] = sweep.seq
            found += [StreamRequest.FromString(each.payload).batch for each in sweep.records()]
        return found

    def facts(self) -> list[Facts]:
        """Return the reads in the spool."""
        reads: list[list[Facts]] = [[]]
        for batch in self.batches():
            if not batch.last_of_sweep:
                reads[-1].append(read(batch))
                if batch.last_of_target:
                    reads.append([])
        return [joined(parts) for parts in reads[:-1]]

    def ends(self) -> list[Batch]:
        return [batch for batch in self.batches() if batch.last_of_sweep]

    def totals(self) -> dict[bytes, int]:
        """Return the bytes that every job wrote, as the accounting adds them up."""
        stays: dict[tuple[str, str, str], Stay] = {}
        for facts in self.facts():
            apply(stays.setdefault((facts.target, facts.mount.server, facts.mount.boot_id), Stay()), facts)
        return {job: work.write_bytes >> 20 for job, work in job_totals(stays.values()).items()}
