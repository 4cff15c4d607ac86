"""Reads of a target by hand, in a few words, through the agent's real side, the wire and the accounting.

Text is printed as the server's version does it, scanned, compared with the read before, written as messages, read
back and applied: slots, order and what is gone are those that an agent would send. Times are seconds; ``at`` is when
a record's last operation was counted.
"""

from collections.abc import Callable, Iterator
from typing import Self

from harvest_agent.scan import JobScanner, Pure
from harvest_core.accounting.apply import Work
from harvest_core.differences import Differences
from harvest_core.facts import MDT, OST, Facts, Mount
from harvest_core.lustre.columns import Codes
from harvest_core.merging import merged
from harvest_sim.ops import Kind, op_list
from harvest_sim.text import JOB_STATS_HEADER, record_text
from harvest_sim.versions import Version, traits
from unit.accounting.aggregator import Aggregator, Flag, Sweep, decoded, encoded
from unit.accounting.printed import DATA, Printed

NSECS = 1_000_000_000
EPOCH_SECONDS = 1_700_000_000
"""The wall clock at tick 0."""


class Target:
    """One target on one server, with the agent that reads it there."""

    def __init__(
        self,
        version: str = "2.12.9",
        *,
        interval: int | None = 600,
        header: bool = True,
        name: str = "fs-OST0000",
        server: str = "oss1",
        instance: int | None = 1,
        aggregator: Aggregator | None = None,
        period_seconds: int = 20,
    ) -> None:
        self.version = Version.parse(version)
        self.kind = Kind.OST if "OST" in name else Kind.MDT
        self.name, self.server, self.interval, self.header = name, server, interval, header
        self.instance = instance
        self.period_seconds = period_seconds
        self.aggregator = aggregator or Aggregator()
        self.host = server
        self.boots = 0
        self.booted_at = -1000.0
        self.clock_step_seconds = 0.0
        self.agents = 0
        self.spool: list[Sweep] = []
        self.restart_agent()

    # --- what happens to it ---

    def restart_agent(self) -> None:
        """Start the agent again: another incarnation, the spool as it was."""
        self.agents += 1
        self.incarnation = f"{self.server}-{self.boots}-{self.agents}".encode().ljust(16)
        self.seq = 0
        self.codes = Codes()
        self._follow()

    def rename_agent(self, name: str) -> None:
        """Start the agent again under another name, on the same server."""
        self.server = name
        self.restart_agent()

    def _follow(self) -> None:
        self.scanner = JobScanner(Pure(), bytearray(1 << 16), self.codes)
        self.differences = Differences(self.codes)

    def remount(self) -> None:
        """Unmount and mount again on the same server."""
        self.instance = None if self.instance is None else self.instance + 1
        self._follow()

    def reboot(self, tick: float) -> None:
        """Boot the server again."""
        self.boots += 1
        self.booted_at = tick
        self.remount()
        self.restart_agent()

    def on(self, server: str) -> Self:
        """Return the target as its partner server mounts it, with an agent there."""
        return type(self)(
            self.version.text,
            interval=self.interval,
            header=self.header,
            name=self.name,
            server=server,
            instance=None if self.instance is None else self.instance + 1,
            aggregator=self.aggregator,
        )

    # --- reading and sending ---

    def read(self, tick: int, *records: Printed, **how: bool) -> Work:
        """Read the file, which shows these records in this order, and send what is new; see ``hold``."""
        self.hold(tick, *records, **how)
        return self.deliver()[-1]

    def hold(
        self,
        tick: int,
        *records: Printed,
        cut: bool = False,
        in_one_piece: bool = False,
        directory_gone: bool = False,
    ) -> Facts:
        """Read the file into the spool; ``cut``: after these records reading failed."""
        self.seq += 1
        if directory_gone:
            self._follow()
        about = Facts(
            incarnation=self.incarnation,
            seq=self.seq,
            tick_seconds=tick,
            period_seconds=self.period_seconds,
            kind=OST if self.kind is Kind.OST else MDT,
            target=self.name,
            mount=Mount(server=self.server, boot_id=f"{self.host} boot {self.boots}", instance=self.instance),
            complete=True,
            read_at=round((EPOCH_SECONDS + tick + self.clock_step_seconds) * NSECS),
            uptime=round((tick - self.booted_at) * NSECS),
            lustre_version=self.version.numbers,
            cleanup_interval_seconds=self.interval,
            in_one_piece=in_one_piece,
            directory_gone=directory_gone,
        )
        chunks = self.scanner.read(_pieces([self._text(record) for record in records], cut=cut))
        parts = list(self.differences.facts(about, chunks, self.scanner))
        parts[-1].unread_lines = self.scanner.unread.count
        self.spool.append([encoded(part) for part in parts])
        return decoded(self.spool[-1])

    def _text(self, record: Printed) -> bytes:
        names = {op.name for op in op_list(self.version, self.kind)}
        data = "write_bytes" if "write_bytes" in names else "write"
        counters = {data if name == DATA else name: counter for name, counter in record.counters.items()}
        assert counters.keys() <= names, "this version does not count that"
        text = record_text(
            self.version,
            self.kind,
            record.job,
            counters,
            snapshot_ns=self._clock(record.at),
            start_ns=self._clock(record.start),
            stats_header=self.header,
        )
        return record.edited(text)

    def _clock(self, seconds: float) -> int:
        zero = -self.booted_at if traits(self.version).uses_boot_clock else EPOCH_SECONDS
        return round((zero + seconds) * NSECS) if seconds else 0

    def skip_read(self) -> None:
        """Let a sweep pass in which this target was not read."""
        self.seq += 1

    def merge_spool(self) -> None:
        """Merge what was not delivered, as a full spool is."""
        self.spool = [[encoded(facts)] for facts in merged([decoded(sweep) for sweep in self.spool])]

    def deliver(self) -> list[Work]:
        """Send the spool."""
        sent, self.spool = self.spool, []
        return [self.aggregator.take(sweep) for sweep in sent]

    # --- what came of it ---

    def total(self, name: str, counter: str = DATA) -> tuple[int, int]:
        """Return (samples, sum) of one counter of one job."""
        return self.aggregator.total(name, counter)

    @property
    def flags(self) -> list[Flag]:
        """All that could not be known so far."""
        return self.aggregator.flags


def _pieces(records: list[bytes], *, cut: bool) -> Callable[[memoryview], int]:
    """Hand out one record per read(), the header first."""

    def texts() -> Iterator[bytes]:
        yield JOB_STATS_HEADER
        yield from records
        if cut:
            raise OSError(5, "cut")

    rest = texts()
    left = b""

    def read_into(view: memoryview) -> int:
        nonlocal left
        piece = left or next(rest, b"")
        piece, left = piece[: len(view)], piece[len(view) :]
        view[: len(piece)] = piece
        return len(piece)

    return read_into
