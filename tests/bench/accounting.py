"""What it costs the aggregator to account for a million moved records."""

from pathlib import Path
from statistics import median

from bench.accounting_sweeps import JOBS, OPS, TARGETS
from bench.report import Budget, Measured, say, table
from bench.workers import Worker

_ROUNDS = 5
_RECORDS = TARGETS * JOBS


def measure(folder: Path) -> Measured:
    """Measure decode and apply, with servers that say when a record began and with those that do not."""
    del folder
    rows = []
    budgets = []
    for kind, version in (("starts", "2.15.8, with start_time"), ("no starts", "2.12.9, by the rule of lives")):
        say(f"accounting: {_RECORDS} records, {version}")
        with Worker.python("bench.accounting_sweeps", kind) as worker:
            memory = worker.work(moved=len(OPS) * _RECORDS).said["memory"] / _RECORDS
            answers = [worker.work(moved=len(OPS) * _RECORDS) for _ in range(_ROUNDS)]
        seconds = median(answer.said["cost_ns"] for answer in answers) / 1e9
        wire = answers[-1].said["bytes"] / (2 * len(OPS) * _RECORDS)
        rows.append((version, f"{seconds:.3f}", f"{memory:.0f}", f"{wire:.2f}"))
        budgets += [
            Budget(what=f"accounting, {version}: CPU of a sweep", limit=0.5, measured=seconds, unit=" s"),
            Budget(what=f"accounting, {version}: memory per OST record", limit=1000, measured=memory, unit=" B"),
            Budget(what=f"wire, {version}: bytes per moved number", limit=10, measured=wire, unit=" B"),
        ]
    head = ("servers", "decode + apply, CPU s", "bytes of memory per record", "bytes per moved number on the wire")
    text = f"## Accounting: {_RECORDS} moved records of {len(OPS)} counters a sweep\n\n" + table(head, rows)
    return Measured(markdown=text, budgets=budgets)
