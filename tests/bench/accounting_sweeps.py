"""A program: a million moved records a sweep through decode, apply and tables, once for each line on its input."""

import gc
import json
import sys
from array import array
from pathlib import Path
from time import process_time_ns

from harvest.v1.stream_pb2 import Batch
from harvest_core.accounting.snapshots import dump, load
from harvest_core.accounting.sweeps import Place, Sweeps
from harvest_core.accounting.targets import TargetAccount
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


def message(target: int, seq: int, *, starts: bool, jobs: int = JOBS) -> bytes:
    """Return the batch of one target, in which every record moved."""
    rows = range(len(OPS) * jobs)
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
            slot=array("q", range(jobs)),
            snapshot=array("q", [_EPOCH + 20 * seq * _SECOND + job for job in range(jobs)]),
            rows=array("q", [len(OPS)] * jobs),
            code=array("q", [row % len(OPS) for row in rows]),
            samples=samples,
            sum=array("q", [(count + target) * 1_048_576 for count in samples]),
        ),
    )
    if seq == 1:
        facts.names = [(job, b"%d" % (1_200_000 + job), _EPOCH - job if starts else 0, 0) for job in range(jobs)]
        facts.counters = [(code, *op) for code, op in enumerate(OPS)]
        facts.order, facts.order_is_full = array("q", range(jobs)), True
        facts.moved.extreme_row = array("q", rows)
        facts.moved.minimum, facts.moved.maximum = array("q", [4096] * len(rows)), array("q", [1 << 20] * len(rows))
    batch = Batch()
    write(batch, facts)
    return batch.SerializeToString()


def resident_bytes() -> int:
    """Return the memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main() -> None:
    """Answer with the CPU time of one sweep's parts, bytes on the wire, and memory per record."""
    starts = sys.argv[1] == "starts"
    accounts = {Place("bench", "OST", f"bench-OST{target:04x}"): TargetAccount() for target in range(TARGETS)}
    sweeps = Sweeps(deadline_seconds=5)
    for seq, _ in enumerate(sys.stdin, 1):
        gc.collect()
        memory = resident_bytes()
        apply = tables = size = moved = 0
        for target, (place, account) in enumerate(accounts.items()):
            payload = message(target, seq, starts=starts)
            size += len(payload)
            begin = process_time_ns()
            work = account.apply(read(Batch.FromString(payload)))
            applied = process_time_ns()
            sweeps.report(place, work)
            apply, tables = apply + applied - begin, tables + process_time_ns() - applied
            moved += len(work.row)
        begin = process_time_ns()
        [closed] = sweeps.close(20 * seq + 1, frozenset(accounts))
        tables += process_time_ns() - begin
        gc.collect()
        said = {"apply_ns": apply, "tables_ns": tables, "bytes": size, "moved": moved}
        said |= {"memory": resident_bytes() - memory, "jobs": len(closed.tables["bench", "OST"].jobs)}
        said["work_bytes"] = sum(part.nbytes for [work] in closed.work.values() for part in work[1:])
        [stay] = account.stays.values()
        begin = process_time_ns()
        payload = dump(stay)
        dumped = process_time_ns()
        load(payload)
        said |= {"dump_ns": dumped - begin, "load_ns": process_time_ns() - dumped, "snapshot_bytes": len(payload)}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
