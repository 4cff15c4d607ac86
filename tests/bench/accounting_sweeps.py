"""A program: a million moved records a sweep through decode and apply, once for each line on its input."""

import gc
import json
import sys
from array import array
from pathlib import Path
from time import process_time_ns

from harvest.v1.stream_pb2 import Batch
from harvest_core.accounting.apply import Stay, apply
from harvest_core.accounting.wire import read
from harvest_core.facts import Facts, Mount, Moved
from harvest_core.wire import write

TARGETS = 200
JOBS = 5000
OPS = (
    *(("read_bytes", "bytes"), ("write_bytes", "bytes"), ("read", "usecs")),
    *(("write", "usecs"), ("getattr", "usecs"), ("punch", "usecs")),
)
_SECOND = 1_000_000_000
_EPOCH = 1_700_000_000 * _SECOND


def message(target: int, seq: int, *, starts: bool) -> bytes:
    """Return the batch of one target, in which every record moved."""
    rows = range(len(OPS) * JOBS)
    samples = array("q", [1000 * seq + row % 97 for row in rows])
    facts = Facts(
        incarnation=b"0123456789abcdef",
        seq=seq,
        tick_seconds=20 * seq,
        period_seconds=20,
        kind="OST",
        target=f"bench-OST{target:04x}",
        mount=Mount(server="oss1", boot_id="b", instance=3),
        complete=True,
        read_at=_EPOCH + 20 * seq * _SECOND,
        uptime=20 * seq * _SECOND,
        lustre_version=(2, 15, 8) if starts else (2, 12, 9),
        cleanup_interval_seconds=600,
        moved=Moved(
            slot=array("q", range(JOBS)),
            snapshot=array("q", [_EPOCH + 20 * seq * _SECOND + job for job in range(JOBS)]),
            rows=array("q", [len(OPS)] * JOBS),
            code=array("q", [row % len(OPS) for row in rows]),
            samples=samples,
            sum=array("q", [(count + target) * 1_048_576 for count in samples]),
        ),
    )
    if seq == 1:
        facts.names = [(job, b"%d" % (1_200_000 + job), _EPOCH - job if starts else 0, 0) for job in range(JOBS)]
        facts.counters = [(code, *op) for code, op in enumerate(OPS)]
        facts.order, facts.order_is_full = array("q", range(JOBS)), True
    batch = Batch()
    write(batch, facts, last_of_target=True, last_of_sweep=target == TARGETS - 1)
    return batch.SerializeToString()


def resident_bytes() -> int:
    """Return the memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main() -> None:
    """Answer with the CPU time of one sweep, bytes on the wire, and memory per record."""
    starts = sys.argv[1] == "starts"
    stays = [Stay() for _ in range(TARGETS)]
    for seq, _ in enumerate(sys.stdin, 1):
        gc.collect()
        memory = resident_bytes()
        cost = size = moved = 0
        for target, stay in enumerate(stays):
            payload = message(target, seq, starts=starts)
            size += len(payload)
            begin = process_time_ns()
            work = apply(stay, read(Batch.FromString(payload)))
            cost += process_time_ns() - begin
            moved += len(work.row)
        gc.collect()
        said = {"cost_ns": cost, "bytes": size, "moved": moved, "memory": resident_bytes() - memory}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
