"""What it costs the aggregator to account for a million moved records."""

from pathlib import Path
from statistics import median

from bench.accounting_sweeps import JOBS, OPS, TARGETS
from bench.report import Budget, Measured, say, table
from bench.workers import Worker

_ROUNDS = 5
_RECORDS = TARGETS * JOBS


def measure(folder: Path) -> Measured:
    """Measure decode, apply and tables, with servers that say when a record began and with those that do not."""
    del folder
    rows = []
    budgets = []
    for kind, version in (("starts", "2.15.8, with start_time"), ("no starts", "2.12.9, by the rule of lives")):
        say(f"accounting: {_RECORDS} records, {version}")
        with Worker.python("bench.accounting_sweeps", kind) as worker:
            memory = worker.work(moved=len(OPS) * _RECORDS, jobs=JOBS).said["memory"] / _RECORDS
            answers = [worker.work(moved=len(OPS) * _RECORDS, jobs=JOBS) for _ in range(_ROUNDS)]
        apply, tables, dump, load = (
            median(answer.said[f"{part}_ns"] for answer in answers) / 1e9
            for part in ("apply", "tables", "dump", "load")
        )
        by_target = answers[-1].said["work_bytes"] / 1e6
        wire = answers[-1].said["bytes"] / (2 * len(OPS) * _RECORDS)
        snapshot = answers[-1].said["snapshot_bytes"] / JOBS
        rows.append(
            (
                *(version, f"{apply:.3f}", f"{tables:.3f}", f"{memory:.0f}", f"{by_target:.0f}", f"{wire:.2f}"),
                f"{snapshot:.0f} B, {1e3 * dump:.1f} / {1e3 * load:.1f} ms",
            )
        )
        budgets += [
            Budget(what=f"accounting, {version}: CPU of a sweep", limit=0.5, measured=apply, unit=" s"),
            Budget(what=f"accounting, {version}: CPU of its tables", limit=0.15, measured=tables, unit=" s"),
            Budget(what=f"accounting, {version}: memory per OST record", limit=1000, measured=memory, unit=" B"),
            Budget(what=f"wire, {version}: bytes per moved number", limit=10, measured=wire, unit=" B"),
        ]
    head = (
        *("servers", "decode + apply, CPU s", "tables, CPU s", "bytes of memory per record"),
        "MB of one closed sweep by target",
        *("bytes per moved number on the wire", f"snapshot of {JOBS} records: per record, CPU out / in"),
    )
    text = f"## Accounting: {_RECORDS} moved records of {len(OPS)} counters a sweep\n\n" + table(head, rows)
    return Measured(markdown=text, budgets=budgets)
