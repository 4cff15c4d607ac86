"""What it costs to follow every client of a server: the agent in real time, and telegraf over the same files."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import report
from bench.peers import telegraf, telegraf_version
from bench.report import Budget, Measured, say, table
from bench.trees import OSTS, ClientTree
from bench.workers import Worker, WorkerError
from harvest.v1.stream_pb2 import StreamRequest
from harvest_agent.shelf import Shelf
from harvest_core.wire import plain

CLIENTS = 20_000
"""Of each OST."""
PERIOD_SECONDS = 60
_MEMORY = Path("/dev/shm")  # noqa: S108 (in it a folder of our own)
CLIENT_BYTES = 16_384
"""What the files of one client on one target take, at most."""
_TELEGRAF_ROUNDS = 2
_MICRO = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    files: int
    said: Mapping[str, int]
    """What the agent measured, in microseconds."""
    rss_mb: float

    @property
    def per_file_us(self) -> float:
        """CPU of finding, reading and understanding."""
        return self.said["read_cpu"] / self.files

    def seconds(self, what: str) -> float:
        return self.said[what] / _MICRO


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    clients: int
    period_seconds: int
    passes: Mapping[str, _Pass]
    spooled_bytes: Mapping[str, int]
    telegraf_seconds: float
    telegraf_rss_mb: float


def measure(folder: Path, clients: int = CLIENTS, period_seconds: int = PERIOD_SECONDS) -> Measured:
    """Measure one pass of each kind, and hold the result against the budgets."""
    say(f"exports: {OSTS} OSTs with {clients} clients each")
    with roomy(folder, OSTS * clients * CLIENT_BYTES) as root:
        tree = ClientTree(root, clients)
        cost, rss = _telegraf(root, tree)
        passes = _passes(root, tree, folder / "spool", period_seconds)
    found = _Found(
        clients=clients,
        period_seconds=period_seconds,
        passes=passes,
        spooled_bytes=dict(zip(passes, _spooled(folder / "spool", tree.clients), strict=True)),
        telegraf_seconds=cost,
        telegraf_rss_mb=rss,
    )
    return Measured(markdown=_markdown(found), budgets=_budgets(found))


@contextmanager
def roomy(folder: Path, needed_bytes: int) -> Iterator[Path]:
    """Give a folder in memory where there is room for so much: as in /proc, no disk takes part then."""
    in_memory = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 2 * needed_bytes
    with tempfile.TemporaryDirectory(prefix="harvest-bench-", dir=_MEMORY if in_memory else folder) as found:
        yield Path(found)


def _passes(root: Path, tree: ClientTree, spool: Path, period_seconds: int) -> dict[str, _Pass]:
    """Let every kind of pass go by; what a target counts is looked at when a pass begins, so it moves before."""
    kinds = {"all new": (tree.move_targets, 2), "all moved": (tree.move, 1), "none moved": (tree.move_targets, 2)}
    passes = {}
    with Worker.python("bench.client_passes", root, spool, str(period_seconds)) as worker:
        worker.work()
        for kind, (move, files) in kinds.items():
            move()
            say(f"  {kind}: {period_seconds} s")
            said = worker.work().said
            passes[kind] = _Pass(files=files * tree.clients, said=said, rss_mb=worker.peak_rss_mb())
    return passes


def _spooled(folder: Path, clients: int) -> list[int]:
    """Return the bytes that each pass put into the spool; all clients must be in there, as they moved."""
    shelf = Shelf(str(folder), ["nobody"])
    sent: dict[bytes, int] = {}
    found, moved = [], []
    while (sweep := shelf.sweep_after(sent)) is not None:
        sent[sweep.incarnation] = sweep.seq
        told = [(record, StreamRequest.FromString(record.payload).batch) for record in sweep.records()]
        told = [(record, batch) for record, batch in told if batch.HasField("exports")]
        if told:
            found.append(sum(len(record.payload) for record, _ in told))
            moved.append(sum(len(plain(batch.jobs.slot)) for _, batch in told))
    shelf.close()
    if moved != [clients, clients, 0]:
        raise WorkerError(f"{clients} clients were to move in the first two of three passes, and {moved} were told")
    return found


def _telegraf(root: Path, tree: ClientTree) -> tuple[float, float]:
    """Return telegraf's CPU time for all clients' files, and its memory."""
    with Worker(telegraf(), root) as worker:
        costs = [worker.work(metrics=tree.clients).cpu_seconds for _ in range(_TELEGRAF_ROUNDS)]
        return min(costs), worker.peak_rss_mb()


def _budgets(found: _Found) -> list[Budget]:
    passes = found.passes
    return [
        *(
            Budget(what=f"exports, {kind}: CPU per file read", limit=40, measured=one.per_file_us, unit=" µs")
            for kind, one in passes.items()
        ),
        *(
            Budget(
                what=f"exports: {what} in any second",
                limit=0.25,
                measured=max(one.seconds(most) for one in passes.values()),
                unit=" s",
            )
            for what, most in (("reading", "most"), ("CPU of reading", "most_cpu"))
        ),
        Budget(what="exports: peak RSS", limit=256, measured=max(one.rss_mb for one in passes.values()), unit=" MB"),
    ]


def _markdown(found: _Found) -> str:
    peer = (
        f"telegraf {telegraf_version()}, once over the same `stats` files: {found.telegraf_seconds:.2f} s of CPU, "
        f"{found.telegraf_seconds / (OSTS * found.clients) * _MICRO:.1f} µs per file, "
        f"peak RSS {found.telegraf_rss_mb:.0f} MB."
    )
    return "\n\n".join(
        (
            f"## Exports: {found.clients} clients on each of {OSTS} OSTs, every {found.period_seconds} s",
            table(
                (
                    *("pass", "files", "reading CPU s", "CPU µs/file", "telling CPU s", "peak RSS MB"),
                    *("most in a second s", "most CPU in a second s", "read after s", "longest sweep s", "spooled MB"),
                ),
                (
                    (
                        kind,
                        str(one.files),
                        f"{one.seconds('read_cpu'):.2f}",
                        f"{one.per_file_us:.1f}",
                        f"{one.seconds('sweep_cpu'):.2f}",
                        f"{one.rss_mb:.0f}",
                        f"{one.seconds('most'):.3f}",
                        f"{one.seconds('most_cpu'):.3f}",
                        f"{one.seconds('done_after'):.0f}",
                        f"{one.seconds('sweep_most'):.2f}",
                        f"{found.spooled_bytes[kind] / 1e6:.1f}",
                    )
                    for kind, one in found.passes.items()
                ),
            ),
            peer,
        )
    )


def main() -> int:
    """Measure a small form: ``python -m bench.exports CLIENTS PERIOD_SECONDS``."""
    clients, period = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="harvest-bench-") as folder:
        found = measure(Path(folder), clients, period)
    print(report.page(report.machine(), [found]))
    return 0 if all(budget.met for budget in found.budgets) else 1


if __name__ == "__main__":
    sys.exit(main())
